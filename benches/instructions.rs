//! Instructions of the work that is done most, held against bounds: they hardly depend on the
//! machine, and not at all on what else it does. Times are for the other benches.
//!
//! Counted by valgrind's callgrind, which has to be installed, one process a case:
//! `cargo bench --bench instructions`. Fails if a case takes more than its bound and a tenth. A new
//! bound is written down here, with the change that needs it.
//!
//! `instructions CASE` runs a case uncounted, for a look at where it spends them:
//! `valgrind --tool=callgrind --toggle-collect='*counted*' target/release/deps/instructions-X CASE`

mod fleet;

use std::hint::black_box;
use std::process::{Command, ExitCode};

use fleet::bodies;
use fleet::shard::{Shard, heartbeat, query};
use guidepost::kv::KvView;
use guidepost::publish::{Publisher, View};
use guidepost::route::Registration;
use guidepost::wire::HeaderKind;

/// Cases and the instructions that one run of them may take: counted ones, rounded.
const BOUNDS: [(&str, u64); 9] = [
    ("hit, JSON", 2_610),
    ("hit, binary", 2_220),
    ("miss, JSON", 1_330),
    ("miss, binary", 846),
    ("heartbeat, JSON", 2_210),
    ("unchanged registration of 2000 topics", 285_000),
    ("changed registration of 2000 topics", 10_900_000),
    ("publish 1 topic", 54_300),
    ("list of 1000 topics", 405_000),
];
const TOPICS: usize = 1_000;
const BROKERS: usize = 4;
/// Topics in a registration.
const REGISTERED: usize = 2_000;
/// Runs of a case: hashing is seeded, so that one run may be lucky.
const RUNS: usize = 200;
/// The same for registrations.
const LARGE_RUNS: usize = 10;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    if let Some(case) = arguments.next() {
        prepare(&case, runs(&case));
        return ExitCode::SUCCESS;
    }
    let mut ok = true;
    println!("{:<40} {:>12} {:>12}", "case", "instructions", "bound");
    for (case, bound) in BOUNDS {
        let count = count(case);
        let verdict = match count {
            count if count > bound + bound / 10 => "  FAILED: a tenth more than the bound",
            count if count < bound - bound / 5 => "  (the bound can be lowered)",
            _ => "",
        };
        ok &= !verdict.contains("FAILED");
        println!("{case:<40} {count:>12} {bound:>12}{verdict}");
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn runs(case: &str) -> usize {
    if case.contains("registration") { LARGE_RUNS } else { RUNS }
}

/// Instructions of one run.
fn count(case: &str) -> u64 {
    let own = std::env::current_exe().expect("this binary has a path");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg("--toggle-collect=*counted*").arg(own).arg(case);
    let output = valgrind.output().expect("valgrind is installed");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case}: {text}");
    let (_, behind) = text.split_once("Collected :").unwrap_or_else(|| panic!("{case}: {text}"));
    let number = behind.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or_else(|| panic!("{case}: {text}")) / runs(case) as u64
}

/// What callgrind counts: it looks for this name.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// Prepares a case and runs it.
fn prepare(case: &str, runs: usize) {
    match case {
        "hit, JSON" => asked(HeaderKind::Json, 0, runs),
        "hit, binary" => asked(HeaderKind::Binary, 0, runs),
        "miss, JSON" => asked(HeaderKind::Json, TOPICS, runs),
        "miss, binary" => asked(HeaderKind::Binary, TOPICS, runs),
        "heartbeat, JSON" => beaten(runs),
        "unchanged registration of 2000 topics" => registered(false, runs),
        "changed registration of 2000 topics" => registered(true, runs),
        "publish 1 topic" => published(runs),
        "list of 1000 topics" => listed(runs),
        other => panic!("there is no case {other:?}"),
    }
}

/// Route queries for topics with these numbers and up.
fn asked(kind: HeaderKind, first: usize, runs: usize) {
    let mut shard = Shard::new(kind, &fleet::table(TOPICS, BROKERS));
    for number in fleet::scattered(TOPICS, runs) {
        let frame = query(kind, &fleet::topic_name(first + number));
        counted(|| shard.serve(black_box(&frame)));
        assert!(!shard.out.is_empty());
    }
}

fn beaten(runs: usize) {
    let mut shard = Shard::new(HeaderKind::Json, &fleet::table(TOPICS, BROKERS));
    let frame = heartbeat(HeaderKind::Json);
    for _ in 0..runs {
        counted(|| shard.serve(black_box(&frame)));
        shard.empty_lane();
    }
}

/// From a body's bytes to the published view.
fn registered(changed: bool, runs: usize) {
    let (mut publisher, _) = Publisher::new(View::default());
    let mut table = fleet::table(REGISTERED, BROKERS);
    let make = |counter| bodies::request(bodies::json(REGISTERED, counter, 8), false);
    let requests = [make(1), make(2)];
    for run in 0..=runs {
        let request = &requests[if changed { run % 2 } else { 0 }];
        let mut register = || {
            let digest = request.digest(false, 7);
            if table.recognise(fleet::CLUSTER, &request.broker, &request.addr, digest).is_some() {
                return;
            }
            assert!(request.is_intact());
            let registration = request.registration(bodies::decode(request), false, digest);
            table.register(registration).expect("a known broker registers");
            if table.take_changed() {
                publisher.publish(table.freeze(), KvView::default(), Default::default());
            }
        };
        // The first one is new in any case.
        if run == 0 { register() } else { counted(register) }
    }
}

/// One topic gets other queues.
fn published(runs: usize) {
    let (mut publisher, readers) = Publisher::new(View::default());
    let mut table = fleet::table(TOPICS, BROKERS);
    let mut reader = readers.reader();
    for (run, number) in fleet::scattered(TOPICS, runs).enumerate() {
        let counter = i64::try_from(run).expect("few runs");
        let topics = fleet::topics(number..=number, if run % 2 == 0 { 4 } else { 12 });
        let registration: Registration = fleet::registration(0, topics, 2 + counter);
        counted(|| {
            table.register(registration).expect("a known broker registers");
            publisher.publish(table.freeze(), KvView::default(), Default::default());
            reader.with(|view| black_box(view.generation));
            publisher.retire();
        });
    }
}

fn listed(runs: usize) {
    let routes = fleet::table(TOPICS, BROKERS).freeze();
    let mut out = Vec::new();
    for _ in 0..runs {
        out.clear();
        counted(|| routes.write_topic_list(&guidepost::route::TopicList::All, &mut out));
        assert!(out.len() > TOPICS);
    }
}

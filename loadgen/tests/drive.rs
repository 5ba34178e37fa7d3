//! Aim: what the generator reports is what happened. Method: a stub server with planted delays and
//! faults, driven through the same functions as the commands.

mod results;
mod stub;

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use loadgen::carry::{Answer, Demand, carry};
use loadgen::check::Expect;
use loadgen::compare::{Plan, compare};
use loadgen::fill::fill;
use loadgen::fleet::Fleet;
use loadgen::live::{Nobody, Onlooker, Progress};
use loadgen::measure::Percentiles;
use loadgen::pace::Arrivals;
use loadgen::process::Process;
use loadgen::record::{Phase, Run};
use loadgen::run::{Load, Target, run};
use loadgen::shape::Shape;
use loadgen::sources::{Ending, Sources};
use loadgen::stop::Stop;
use stub::{ROUTE, Seen, Stub};

fn fleet(topics: u32) -> Fleet {
    Fleet { brokers: 1, topics, route_width: 1, cluster: "bench".into() }
}

fn target(stub: &Stub) -> Target {
    Target {
        label: "stub".into(),
        address: stub.address,
        expect: Expect::Routes(Arc::new(fleet(50))),
        process: None,
    }
}

fn load() -> Load {
    Load {
        connections: 4,
        depth: 1,
        seconds: 0.5,
        warmup_seconds: 0.0,
        topics: 50,
        misses: 0.2,
        seed: 11,
        rate: None,
        arrivals: Arrivals::Constant,
        shape: Shape::Hold,
        cooldown_seconds: 0.0,
        sources: Sources::default(),
        ending: Ending::Fin,
        connect_rate: None,
        threads: 1,
        timeout_ms: 3000,
        lateness_bound_us: 1_000_000,
        pin: Vec::new(),
        at_once: false,
    }
}

fn drive(stub: &Stub, load: &Load) -> Run {
    run(load, &target(stub), &Stop::default(), &mut Nobody).unwrap()
}

fn response(run: &Run) -> Percentiles {
    run.percentiles("response")
}

fn right(seen: &Seen) -> Option<Vec<u8>> {
    Some(seen.right_answer())
}

#[test]
fn a_right_server_gives_a_valid_run_with_both_kinds_of_answers() {
    let stub = Stub::start(right);
    for (threads, depth) in [(1, 1), (2, 8)] {
        let result = drive(&stub, &Load { threads, depth, seconds: 1.5, ..load() });
        assert_eq!(result.invalid, Vec::<String>::new());
        let (hits, misses) = (result.totals.answers["hit"], result.totals.answers["miss"]);
        assert!(hits > misses && misses > 0);
        assert_eq!(response(&result).count, hits + misses);
        // What is kept by second adds up to the total, histograms and all.
        let seconds = result.seconds.iter().filter(|second| second.phase == Phase::Measured);
        let mut sum = loadgen::measure::histogram();
        for second in seconds {
            sum.add(second.times["response"].histogram().unwrap()).unwrap();
        }
        assert_eq!(sum, result.totals.times["response"].histogram().unwrap());
    }
}

#[test]
fn a_delay_of_some_answers_shows_at_their_percentile() {
    // One query in 20 takes 400 ms; each connection is asked every 640 ms, so nobody waits for it,
    // and a busy machine does not come near it.
    let stub = Stub::start(|seen| {
        if seen.number % 20 == 19 {
            std::thread::sleep(Duration::from_millis(400));
        }
        right(seen)
    });
    let load = Load { connections: 128, rate: Some(200.0), seconds: 2.0, ..load() };
    let result = drive(&stub, &load);
    assert_eq!(response(&result).count, 400, "{result:?}");
    assert!(response(&result).p90_us < 400_000.0, "{:?}", response(&result));
    let p99 = response(&result).p99_us;
    assert!((400_000.0..2_000_000.0).contains(&p99), "{:?}", response(&result));
}

#[test]
fn a_stall_counts_for_all_who_were_meant_to_ask_meanwhile() {
    // Half a second in, nobody is answered for 400 ms: of 750 queries 200 are meant for that time,
    // and wait from 400 ms down to 0. A generator that waits with the server sends only 4 of them.
    let stub = Stub::start(|seen| {
        static START: OnceLock<Instant> = OnceLock::new();
        let stall = Duration::from_millis(500)..Duration::from_millis(900);
        let elapsed = START.get_or_init(Instant::now).elapsed();
        if stall.contains(&elapsed) {
            std::thread::sleep(stall.end - elapsed);
        }
        right(seen)
    });
    let load = Load { rate: Some(500.0), seconds: 1.5, ..load() };
    let result = drive(&stub, &load);
    assert_eq!(response(&result).count, 750, "{result:?}");
    assert!((150_000.0..700_000.0).contains(&response(&result).p90_us), "{:?}", response(&result));
    assert!(
        (350_000.0..3_000_000.0).contains(&response(&result).p99_us),
        "{:?}",
        response(&result)
    );
    assert!(result.percentiles("service").p90_us < 100_000.0, "{:?}", result.totals.times);
    assert!(result.count("blocked") > 100, "{:?}", result.totals.counts);
}

#[test]
fn a_closed_loop_hides_the_stall_that_an_open_one_shows() {
    // One query in 50 takes 200 ms and holds up its connection. In a closed loop that is one slow
    // query; in an open one all that were meant to be sent meanwhile waited as well.
    let stub = || {
        Stub::start(|seen| {
            if seen.number % 50 == 49 {
                std::thread::sleep(Duration::from_millis(200));
            }
            right(seen)
        })
    };
    let load = Load { connections: 1, seconds: 2.0, ..load() };
    let closed = drive(&stub(), &load);
    let open = drive(&stub(), &Load { rate: Some(150.0), ..load });
    assert_eq!((closed.mode.as_str(), open.mode.as_str()), ("closed loop", "open loop"));
    assert!(response(&closed).p90_us < 100_000.0, "{:?}", response(&closed));
    assert!(response(&open).p90_us > 100_000.0, "{:?}", response(&open));
}

#[test]
fn warm_up_and_cool_down_are_shown_and_not_counted() {
    let stub = Stub::start(right);
    let warmup_seconds = 1.0;
    let load =
        Load { rate: Some(100.0), seconds: 1.0, warmup_seconds, cooldown_seconds: 1.0, ..load() };
    let run = drive(&stub, &load);
    assert_eq!((run.answers(), response(&run).count), (100, 100));
    let spans: Vec<Phase> = run.phases.iter().map(|span| span.phase).collect();
    assert_eq!(spans, [Phase::WarmUp, Phase::Measured, Phase::CoolDown]);
    let answers_in = |phase| -> u64 {
        let seconds = run.seconds.iter().filter(|second| second.phase == phase);
        seconds.flat_map(|second| second.answers.values()).sum()
    };
    let [before, counted, after] =
        [Phase::WarmUp, Phase::Measured, Phase::CoolDown].map(answers_in);
    // An answer that comes late belongs to its phase; of those not counted the second decides.
    assert_eq!((counted, before + after), (100, 200));
    assert!(before >= 90 && after >= 90, "{before} before, {after} after");
}

#[test]
fn a_staircase_asks_for_more_in_each_step() {
    let stub = Stub::start(right);
    let shape = Shape::Stairs(3);
    let run = drive(&stub, &Load { rate: Some(150.0), seconds: 3.0, shape, ..load() });
    let by_second: Vec<u64> =
        run.seconds.iter().map(|second| second.answers.values().sum()).collect();
    assert_eq!(by_second.iter().sum::<u64>(), 50 + 100 + 150, "{by_second:?}");
    let about = |found: u64, expected: u64| found.abs_diff(expected) <= 25;
    assert!(about(by_second[0], 50) && about(by_second[1], 100), "{by_second:?}");
}

#[test]
fn connections_come_from_the_addresses_of_the_plan_at_the_rate_asked_for() {
    let stub = Stub::start(right);
    let prefix = Some("127.88.7.0/24".parse().unwrap());
    let sources = Sources::plan(stub.address, 10, prefix, Some(3)).unwrap();
    let begin = Instant::now();
    let load = Load { connections: 10, sources, connect_rate: Some(50.0), ..load() };
    let run = drive(&stub, &load);
    assert!(begin.elapsed() >= Duration::from_millis(180 + 500), "{:?}", begin.elapsed());
    assert_eq!(run.invalid, Vec::<String>::new());
    let peers = stub.peers.lock().unwrap();
    let of = |last: u8| {
        let ip = IpAddr::from([127, 88, 7, last]);
        peers.iter().filter(|peer| peer.ip() == ip).count()
    };
    assert_eq!([1, 2, 3, 4].map(of), [3, 3, 3, 1], "{peers:?}");
}

#[test]
fn what_a_server_was_too_slow_to_let_out_counts_as_if_it_had_timed_out() {
    // One answer in 100 ms on one connection, and ten times as much is asked for.
    let stub = Stub::start(|seen| {
        std::thread::sleep(Duration::from_millis(100));
        right(seen)
    });
    let load = Load { connections: 1, rate: Some(100.0), timeout_ms: 500, ..load() };
    let run = drive(&stub, &Load { seconds: 1.0, ..load });
    let unsent = run.totals.errors["unsent"];
    assert!(unsent > 50, "{:?}", run.totals.errors);
    assert_eq!(unsent + run.answers() + run.totals.errors.get("time-out").unwrap_or(&0), 100);
    assert_eq!(response(&run).count, 100);
    assert!(response(&run).p50_us >= 490_000.0, "{:?}", response(&run));
}

#[test]
fn a_late_generator_makes_the_run_invalid() {
    let stub = Stub::start(right);
    let load = Load { rate: Some(100.0), lateness_bound_us: 0, ..load() };
    let invalid = drive(&stub, &load).invalid;
    assert!(invalid.iter().any(|why| why.contains("the generator was late")), "{invalid:?}");
}

/// The 100th query is answered in this way, all others rightly.
fn errors_with(fault: fn(&Seen) -> Option<Vec<u8>>) -> (Vec<String>, Vec<String>) {
    let stub = Stub::start(move |seen| if seen.number == 99 { fault(seen) } else { right(seen) });
    let result = drive(&stub, &Load { misses: 0.0, timeout_ms: 1000, ..load() });
    assert!(!result.invalid.is_empty(), "{result:?}");
    // Whoever answers wrongly is told once; a lost connection takes its one query with it.
    assert!(result.totals.errors.values().all(|count| *count == 1), "{:?}", result.totals.errors);
    (result.totals.errors.into_keys().collect(), result.totals.error_examples)
}

#[test]
fn one_corrupted_answer_among_many_is_found() {
    let corrupted = |seen: &Seen| Some(seen.answer(0, &ROUTE.replace("10911", "10912")));
    let (kinds, examples) = errors_with(corrupted);
    assert_eq!(kinds, ["wrong content"]);
    assert!(examples[0].contains("10912"), "{examples:?}");
}

#[test]
fn each_kind_of_fault_is_counted_as_what_it_is() {
    assert_eq!(errors_with(|seen| Some(seen.answer(17, ""))).0, ["code 17"]);
    assert_eq!(errors_with(|seen| Some(seen.answer(0, &ROUTE[..90]))).0, ["wrong content"]);
    assert_eq!(errors_with(|_| None).0, ["closed", "lost"]);
    let no_frame = |_: &Seen| Some(b"HTTP/1.1 400 Bad Request".to_vec());
    assert_eq!(errors_with(no_frame).0, ["lost", "malformed"]);
    let other_opaque = |_: &Seen| Some(stub::frame("{\"code\":0,\"flag\":1,\"opaque\":5}", ROUTE));
    assert_eq!(errors_with(other_opaque).0, ["lost", "opaque"]);
    assert_eq!(errors_with(|_| Some(Vec::new())).0, ["time-out"]);
}

#[test]
fn an_unanswered_query_is_in_the_histogram_with_the_time_waited() {
    let swallow = |seen: &Seen| if seen.number == 50 { Some(Vec::new()) } else { right(seen) };
    let stub = Stub::start(swallow);
    let result = drive(&stub, &Load { timeout_ms: 200, ..load() });
    assert!(response(&result).max_us >= 200_000.0, "{:?}", response(&result));
}

#[test]
fn queries_that_are_lost_with_their_connection_are_in_the_histogram_with_the_time_out() {
    // The whole pipeline of one connection is on the way when the server closes it.
    let stub = Stub::start(|seen| if seen.number == 40 { None } else { right(seen) });
    let load = Load { connections: 2, depth: 8, timeout_ms: 900, misses: 0.0, ..load() };
    let result = drive(&stub, &load);
    let lost = result.totals.errors["lost"];
    assert_eq!(lost, 8, "{:?}", result.totals.errors);
    assert_eq!(response(&result).count, result.answers() + lost);
    assert!(response(&result).max_us >= 900_000.0, "{:?}", response(&result));
}

/// What `check` demands, of the stub.
fn demand(stub: &Stub, load: Load) -> Demand {
    let fleet = fleet(50);
    Demand { address: stub.address, fleet, load, within_us: 1e6, process: None }
}

#[test]
fn a_check_does_not_blame_the_server_for_this_machine() {
    let stub = Stub::start(|seen| Some(seen.answer_by_fleet()));
    let nowhere = Load { rate: Some(100.0), pin: vec![100_000], ..load() };
    let stop = Stop::default();
    let failure = carry(&demand(&stub, nowhere), &stop, &mut Nobody, &mut |_| {}).unwrap_err();
    assert_eq!(failure.exit_code(), 2, "{failure}");
    stop.ask();
    let fine = Load { rate: Some(100.0), ..load() };
    let answer = carry(&demand(&stub, fine), &stop, &mut Nobody, &mut |_| {}).unwrap();
    assert!(matches!(answer, Answer::Stopped), "{answer:?}");
}

#[test]
fn a_check_counts_what_was_never_let_out_as_planned() {
    // A tenth of what is asked for leaves at all.
    let stub = Stub::start(|seen| {
        std::thread::sleep(Duration::from_millis(100));
        Some(seen.answer_by_fleet())
    });
    let load = Load { connections: 1, rate: Some(100.0), timeout_ms: 300, seconds: 1.0, ..load() };
    let mut lines = Vec::new();
    let mut keep = |line: &str| lines.push(line.to_owned());
    carry(&demand(&stub, load), &Stop::default(), &mut Nobody, &mut keep).unwrap();
    let keeps_up = lines.iter().find(|line| line.contains("keeps up")).unwrap();
    assert!(keeps_up.contains("NO") && keeps_up.contains("of 100 queries"), "{keeps_up}");
}

#[test]
fn the_same_seed_puts_the_same_bytes_on_the_wire() {
    let bytes_of = |seed| {
        let stub = Stub::start(right);
        drive(&stub, &Load { seed, depth: 3, seconds: 0.3, ..load() });
        stub.received.lock().unwrap().clone()
    };
    let (first, second, other) = (bytes_of(1), bytes_of(1), bytes_of(2));
    assert_eq!((first.len(), second.len(), other.len()), (4, 4, 4));
    for connection in 0..4 {
        // A run ends by time: one may have sent more, but what both sent must be equal.
        let common = first[connection].len().min(second[connection].len());
        assert!(common > 2_000, "only {common} bytes to compare");
        assert_eq!(first[connection][..common], second[connection][..common]);
        assert_ne!(first[connection][..2_000], other[connection][..2_000]);
    }
}

#[test]
fn filling_announces_no_topic_before_its_broker_is_known() {
    let stub = Stub::start(right);
    let held = fill(stub.address, &fleet(1), &Stop::default()).unwrap();
    let registrations = stub.registrations.lock().unwrap().clone();
    assert_eq!(registrations.len(), 2);
    assert!(registrations[0].contains("\"topicConfigTable\":{}"), "{}", registrations[0]);
    assert!(registrations[1].contains("\"topicName\":\"bench-topic-0000000\""));
    assert_eq!(held.report.calls, 2);
    held.release().unwrap();
}

#[test]
fn a_refused_registration_is_told_with_the_servers_words() {
    let refuse = |seen: &Seen| {
        let opaque = seen.opaque();
        let header =
            format!("{{\"code\":1,\"flag\":1,\"opaque\":{opaque},\"remark\":\"no room\"}}");
        stub::frame(&header, "")
    };
    let stub = Stub::start_with(right, refuse);
    let text = fill(stub.address, &fleet(5), &Stop::default()).err().unwrap().to_string();
    assert!(text.contains("broker 0") && text.contains("no room"), "{text}");
}

#[test]
fn a_wrong_route_after_filling_is_an_error_before_any_load() {
    let stub = Stub::start(|seen| Some(seen.answer(17, "")));
    let text = fill(stub.address, &fleet(5), &Stop::default()).err().unwrap().to_string();
    assert!(text.contains("after filling"), "{text}");
}

struct Heard(Vec<(u32, String)>);

impl Onlooker for Heard {
    fn second(&mut self, _: &Progress<'_>) {}

    fn ended(&mut self, round: u32, run: &Run) {
        self.0.push((round, run.label.clone()));
    }
}

#[test]
fn a_comparison_has_a_ratio_for_each_round_and_equal_bytes() {
    let stub = Stub::start(right);
    let target =
        Target { process: Some(Process::new(std::process::id()).unwrap()), ..target(&stub) };
    let plan = Plan {
        load: &Load { seconds: 0.3, ..load() },
        rounds: 2,
        prewarm_seconds: 0.0,
        program: Path::new(env!("CARGO_BIN_EXE_loadgen")),
        floor_cpu: None,
    };
    let mut heard = Heard(Vec::new());
    let comparison = compare(&plan, &target, &Stop::default(), &mut heard).unwrap();
    assert!(!comparison.invalid(), "{comparison:?}");
    let order = heard.0.iter().map(|(round, label)| (*round, label.as_str())).collect::<Vec<_>>();
    assert_eq!(order, [(1, "stub"), (1, "floor"), (2, "stub"), (2, "floor")]);
    for round in &comparison.rounds {
        assert!(round.ratio().unwrap() > 0.0);
        let floor = round.floor.as_ref().unwrap();
        for kind in ["hit", "miss"] {
            assert_eq!(floor.answer_bytes(kind), round.server.answer_bytes(kind));
        }
    }
}

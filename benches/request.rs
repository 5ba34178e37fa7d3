//! One request in memory, from the bytes of its frame to the bytes of its answer, without a socket:
//! what a shard does between receiving and sending.
//!
//! Targets: a route query of a 4-broker topic <= 300 ns, one of an unknown topic <= 150 ns. A
//! heartbeat goes as far as the writer's lane and, so that the lane does not fill up, out of it
//! again.
//!
//! The table has 100 k topics, and a different one is asked for each time. "one topic" asks for the
//! same again and again, so that memory does not show.
//!
//! Times are CPU times of one thread. Run with `cargo bench --bench request`.
//!
//! `request --once CASE` runs one case, by its whole name, a fixed number of times and measures
//! nothing. It is for `valgrind --tool=callgrind --toggle-collect='*Shard*serve*'`: instructions do
//! not depend on what else the machine does.

mod fleet;

use std::hint::black_box;
use std::sync::Arc;

use guidepost::clock::Clock;
use guidepost::handler::{self, Desk, Dispatch};
use guidepost::ids::{ConnKey, Opaque, ShardId};
use guidepost::publish::View;
use guidepost::wire::{Command, HeaderKind, Request, frame};
use guidepost::writer::lane::{LaneReceivers, Received, lanes};

const TOPICS: usize = 100_000;
/// Different topics asked for, in turn.
const NAMES: usize = 1 << 14;
/// Runs of a case with `--once`.
const ONCE: usize = 10_000;

/// A shard without its sockets.
struct Shard {
    view: View,
    desk: Desk,
    lanes: LaneReceivers,
    received: Vec<Received>,
    out: Vec<u8>,
}

impl Shard {
    fn new(kind: HeaderKind) -> Shard {
        let (mut senders, lanes) = lanes(1, Arc::new(|| {}));
        let desk = Desk::new(senders.remove(0), kind, Arc::default(), Clock::start());
        let view = fleet::view(&fleet::table(TOPICS, 4));
        Shard { view, desk, lanes, received: Vec::new(), out: Vec::with_capacity(4096) }
    }

    /// Bytes in, bytes out. A function of its own for profilers.
    #[inline(never)]
    fn serve(&mut self, buffered: &[u8]) -> Dispatch {
        let conn = ConnKey { shard: ShardId(0), slot: 0, generation: 0 };
        self.out.clear();
        let head = frame::next(buffered).expect("well formed").expect("complete");
        let command = Command::decode(&head, buffered, None).expect("decodes");
        handler::dispatch(&command, conn, &self.view, &mut self.desk, &mut self.out)
    }

    fn empty_lane(&mut self) {
        assert_eq!(self.lanes.drain(1, &mut self.received), 1);
        self.received.clear();
    }
}

fn query(kind: HeaderKind, topic: &str) -> Vec<u8> {
    encode(kind, 105, 0, &[("acceptStandardJsonOnly", "true"), ("topic", topic)])
}

fn heartbeat(kind: HeaderKind) -> Vec<u8> {
    let (name, addr) = (fleet::broker_name(1), fleet::broker_addr(1));
    let ext = [
        ("brokerAddr", &*addr),
        ("brokerName", &*name),
        ("clusterName", fleet::CLUSTER),
        ("heartbeatTimeoutMills", "10000"),
    ];
    encode(kind, 904, 2, &ext)
}

fn encode(kind: HeaderKind, code: i32, flag: i32, ext: &[(&str, &str)]) -> Vec<u8> {
    let request = Request { code, opaque: Opaque(123_456), flag, version: 513, ext, body: b"" };
    let mut out = Vec::new();
    request.encode(kind, &mut out);
    out
}

/// Runs every case of one kind of header through `run`, which is given the case's name and one
/// round of it.
fn cases(kind: HeaderKind, mut run: impl FnMut(&str, &mut dyn FnMut())) {
    let mut shard = Shard::new(kind);
    let asked = |first: usize, count: usize| -> Vec<Vec<u8>> {
        let numbers = fleet::scattered(TOPICS, count);
        numbers.map(|number| query(kind, &fleet::topic_name(first + number))).collect()
    };
    let questions = [
        ("hit", asked(0, NAMES)),
        ("hit, one topic", asked(0, 1)),
        ("miss", asked(TOPICS, NAMES)),
        ("miss, one topic", asked(TOPICS, 1)),
    ];
    for (name, frames) in &questions {
        let mut next = frames.iter().cycle();
        run(&format!("{name}, {kind:?}"), &mut || {
            let frame = next.next().expect("a cycle has no end");
            assert_eq!(shard.serve(black_box(frame)), Dispatch::Done);
            black_box(&mut shard.out);
        });
    }
    let frame = heartbeat(kind);
    run(&format!("one-way heartbeat, {kind:?}"), &mut || {
        assert_eq!(shard.serve(black_box(&frame)), Dispatch::Sent);
        shard.empty_lane();
    });
}

fn main() {
    let kinds = [HeaderKind::Json, HeaderKind::Binary];
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--once") {
        let case = arguments.get(at + 1).expect("--once is followed by the name of a case");
        for kind in kinds {
            cases(kind, |name, round| {
                if name == case {
                    (0..ONCE).for_each(|_| round());
                }
            });
        }
        return;
    }
    let mut criterion = fleet::criterion().configure_from_args();
    let mut group = criterion.benchmark_group("request");
    for kind in kinds {
        cases(kind, |name, round| {
            group.bench_function(name, |b| b.iter(&mut *round));
        });
    }
    group.finish();
    criterion.final_summary();
}

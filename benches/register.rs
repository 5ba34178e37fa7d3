//! A full registration of 20 000 topics, from its body's bytes to the published view.
//!
//! Targets: a changed one >= 200 MB/s of body; an unchanged one <= 1/20 of a changed one. Cases:
//! "version changed" brings a new data version with the queues of before, "all changed" other
//! queues for every topic, "unchanged" the bytes of last time. As the writer does it: digest and a
//! look whether it is known, then decoding in pieces, deciding, applying, publishing. The ratio of
//! unchanged to changed is measured in turns and printed at the end.
//!
//! Rates of compressed bodies are by their inflated bytes.
//!
//! Then the pieces that the writer makes of a registration near the frame limit, all queues new:
//! how long they take together, and the longest one, which a heartbeat waits for.
//!
//! Both are printed whatever cases are asked for. Times are CPU times of one thread. Run with
//! `cargo bench --bench register`.
#![allow(missing_docs, reason = "the macros of criterion make public items")]

mod fleet;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fleet::CpuTime;
use fleet::bodies::{compressed, decode, json, request};
use guidepost::kv::KvView;
use guidepost::publish::{Publisher, View};
use guidepost::route::RouteTable;
use guidepost::wire::body::register::{Layout, RegisterDecoder, Step};
use guidepost::writer::request::RegisterRequest;

const TOPICS: usize = 20_000;
const BROKERS: usize = 4;
/// Topics of a registration near the frame limit.
const LARGEST: usize = 80_000;
/// As the writer does it.
const TOPICS_A_STEP: usize = 512;
const ENTRIES_A_PIECE: usize = 1024;
/// Turns in which the ratio is measured.
const TURNS: usize = 41;

/// Makes a request and tells its inflated bytes, from a counter and queues for all topics.
type Make<'a> = &'a dyn Fn(i64, i32) -> (RegisterRequest, usize);

/// The writer's way of a registration, without its lanes and clocks.
struct Stage {
    table: RouteTable,
    publisher: Publisher,
}

impl Stage {
    /// With brokers that all have so many topics.
    fn new(topics: usize, brokers: usize) -> Stage {
        let (publisher, _) = Publisher::new(View::default());
        let mut stage = Stage { table: RouteTable::new().in_steps_of(TOPICS_A_STEP), publisher };
        let all = fleet::topics(0..topics, 8);
        for broker in 0..brokers {
            let registration = fleet::registration(broker, all.clone(), 1);
            stage.table.register(registration).expect("a new broker registers");
            while !stage.table.step() {}
        }
        stage
    }

    /// Frees what was replaced.
    fn free(&mut self) {
        while self.publisher.is_freeing() {
            self.publisher.retire();
        }
    }

    /// True if it was not the last one again.
    fn register(&mut self, request: &RegisterRequest) -> bool {
        let digest = request.digest(false, 7);
        let RegisterRequest { cluster, broker, addr, .. } = request;
        if self.table.recognise(cluster, broker, addr, digest).is_some() {
            return false;
        }
        assert!(request.is_intact());
        let registration = request.registration(decode(request), false, digest);
        self.table.register(registration).expect("a known broker registers");
        while !self.table.is_whole() {
            self.table.step();
        }
        if self.table.take_changed() {
            self.publisher.publish(self.table.freeze(), KvView::default(), Default::default());
            self.free();
        }
        true
    }
}

fn registrations(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("register 20k topics");
    group.sample_size(30);
    let mut stage = Stage::new(TOPICS, BROKERS);
    let plain = |counter, queues| (request(json(TOPICS, counter, queues), false), 0);
    let packed = |counter, queues| {
        let (body, inflated) = compressed(TOPICS, counter, queues);
        (request(body, true), inflated)
    };
    let layouts: [(&str, Make<'_>); 2] = [("JSON", &plain), ("compressed", &packed)];
    let mut ratios = Vec::new();
    for (name, make) in layouts {
        let ((first, inflated), (second, _), (third, _)) = (make(1, 8), make(2, 8), make(3, 4));
        let bytes = inflated.max(first.body.len());
        group.throughput(Throughput::Bytes(bytes as u64));
        for (what, other) in [("version changed", &second), ("all changed", &third)] {
            stage.register(other);
            let mut turn = [&first, other].into_iter().cycle();
            group.bench_function(format!("{what}, {name}"), |b| {
                b.iter(|| assert!(stage.register(turn.next().expect("a cycle has no end"))));
            });
        }
        stage.register(&second);
        stage.register(&first);
        group.bench_function(format!("unchanged, {name}"), |b| {
            b.iter(|| assert!(!stage.register(black_box(&first))));
        });
        ratios.push((name, ratio(&mut stage, &first, &second)));
    }
    group.finish();
    for (name, (changed, unchanged)) in ratios {
        let times = changed.as_secs_f64() / unchanged.as_secs_f64();
        println!(
            "{name}: version changed {changed:?}, unchanged {unchanged:?}: 1/{times:.0} \
             (target 1/20)"
        );
    }
}

/// Pieces of one kind.
#[derive(Default)]
struct Pieces(Vec<Duration>);

impl Pieces {
    fn time<T>(&mut self, piece: impl FnOnce() -> T) -> T {
        let start = fleet::cpu_time();
        let outcome = piece();
        self.0.push(fleet::cpu_time() - start);
        outcome
    }

    fn print(&self, name: &str) {
        let (count, total) = (self.0.len(), self.0.iter().sum::<Duration>());
        let longest = self.0.iter().max().copied().unwrap_or_default();
        println!("{LARGEST} topics, {name}: {count} pieces, {total:?}, the longest {longest:?}");
    }
}

/// Registers all topics with other queues, twice: the second time the places are warm.
fn pieces(_: &mut Criterion<CpuTime>) {
    let mut stage = Stage::new(LARGEST, 1);
    let mut kinds: [Pieces; 3] = Default::default();
    for (counter, queues) in [(2, 4), (3, 8)] {
        kinds = Default::default();
        let [decoding, applying, freeing] = &mut kinds;
        let request = request(json(LARGEST, counter, queues), false);
        let layout = Layout::of(request.version, request.compressed, &request.body);
        let mut decoder = RegisterDecoder::new(request.body.clone(), layout, 0);
        let body = loop {
            let step = decoding.time(|| decoder.step(ENTRIES_A_PIECE));
            if let Step::Done(body) = step.expect("well formed") {
                break body;
            }
        };
        let registration = request.registration(body, false, request.digest(false, 7));
        applying.time(|| stage.table.register(registration).expect("a known broker registers"));
        while !stage.table.is_whole() {
            applying.time(|| stage.table.step());
        }
        let view = stage.table.freeze();
        freeing.time(|| stage.publisher.publish(view, KvView::default(), Default::default()));
        while stage.publisher.is_freeing() {
            freeing.time(|| stage.publisher.retire());
        }
    }
    for (kind, name) in kinds.iter().zip(["decoding", "applying", "publishing and freeing"]) {
        kind.print(name);
    }
}

/// Medians of a changed and an unchanged registration, measured in turns so that noise meets both.
fn ratio(
    stage: &mut Stage,
    first: &RegisterRequest,
    second: &RegisterRequest,
) -> (Duration, Duration) {
    let mut timed = |request: &RegisterRequest, changes: bool| {
        let start = fleet::cpu_time();
        assert_eq!(stage.register(request), changes);
        fleet::cpu_time() - start
    };
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        for request in [second, first] {
            changed.push(timed(request, true));
            unchanged.push(timed(request, false));
        }
    }
    changed.sort_unstable();
    unchanged.sort_unstable();
    (changed[TURNS], unchanged[TURNS])
}

criterion_group! {
    name = benches;
    config = fleet::criterion();
    targets = registrations, pieces
}
criterion_main!(benches);

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
//! Times are CPU times of one thread. Run with `cargo bench --bench register`.
#![allow(missing_docs, reason = "the macros of criterion make public items")]

mod fleet;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fleet::CpuTime;
use fleet::bodies::{compressed, decode, json, registration, request};
use guidepost::kv::KvView;
use guidepost::publish::{Publisher, View};
use guidepost::route::RouteTable;
use guidepost::writer::request::RegisterRequest;

const TOPICS: usize = 20_000;
const BROKERS: usize = 4;
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
    /// True if it was not the last one again.
    fn register(&mut self, request: &RegisterRequest) -> bool {
        let digest = request.digest(false, 7);
        let RegisterRequest { cluster, broker, addr, .. } = request;
        if self.table.recognise(cluster, broker, addr, digest).is_some() {
            return false;
        }
        assert!(request.is_intact());
        let registration = registration(request, decode(request), digest);
        self.table.register(registration).expect("a known broker registers");
        if self.table.take_changed() {
            self.publisher.publish(self.table.freeze(), KvView::default(), Default::default());
            self.publisher.retire();
        }
        true
    }
}

fn registrations(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("register 20k topics");
    group.sample_size(30);
    let mut stage = {
        let (publisher, _) = Publisher::new(View::default());
        Stage { table: fleet::table(TOPICS, BROKERS), publisher }
    };
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
    targets = registrations
}
criterion_main!(benches);

//! What a change costs the writer: applying it, freezing the table and making the view visible.
//!
//! The table is never copied, so one changed topic must cost about the same whatever the fleet.
//! Targets, with 4 brokers a topic: one topic changed at 100 k topics <= 50 us, at 1 M topics at
//! most twice that. An unchanged registration publishes nothing. Removing half of the brokers at
//! once is one change and one publication.
//!
//! Each round also lets the reader see the new view, so that dropping the old one is in the result.
//!
//! Times are CPU times of one thread. Run with `cargo bench --bench publish`.
#![allow(missing_docs, reason = "the macros of criterion make public items")]

mod fleet;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use fleet::CpuTime;
use guidepost::ids::MemberKey;
use guidepost::kv::KvView;
use guidepost::publish::{Publisher, Reader, View};
use guidepost::route::{Registration, RouteTable};

const BROKERS: usize = 4;

/// The writer's table with one reader, as a shard holds it.
struct Stage {
    table: RouteTable,
    publisher: Publisher,
    reader: Reader,
}

impl Stage {
    fn new(topics: usize, brokers: usize) -> Stage {
        let (publisher, readers) = Publisher::new(View::default());
        let table = fleet::table(topics, brokers);
        let mut stage = Stage { table, publisher, reader: readers.reader() };
        stage.publish();
        stage
    }

    fn publish(&mut self) {
        self.table.take_changed();
        self.publisher.publish(self.table.freeze(), KvView::default(), Default::default());
        self.reader.with(|view| black_box(view.generation));
        self.publisher.retire();
        while self.publisher.is_freeing() {
            self.publisher.retire();
        }
        assert_eq!(self.publisher.retired(), 0, "nobody holds an old view");
    }

    fn register(&mut self, registration: Registration) -> MemberKey {
        self.table.register(registration).expect("a known broker registers").member
    }
}

/// Topics `numbers` of broker 0, with other queues each time.
fn changed(numbers: impl Iterator<Item = usize>, counter: &mut i64) -> Registration {
    *counter += 1;
    let queues = if *counter % 2 == 0 { 4 } else { 8 };
    fleet::registration(0, fleet::topics(numbers, queues), *counter)
}

fn one_topic(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("publish");
    let sizes = [("1k", 1_000), ("10k", 10_000), ("100k", 100_000), ("1M", 1_000_000)];
    for (label, topics) in sizes {
        let mut stage = Stage::new(topics, BROKERS);
        let (mut counter, mut numbers) = (1, fleet::scattered(topics, 1 << 16).collect::<Vec<_>>());
        group.bench_function(format!("1 topic changed, {label} topics x 4"), |b| {
            b.iter_batched(
                || {
                    let number = numbers.pop().unwrap_or(0);
                    numbers.insert(0, number);
                    changed(number..=number, &mut counter)
                },
                |registration| {
                    stage.register(registration);
                    stage.publish();
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn full(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("publish");
    group.sample_size(20);
    let mut stage = Stage::new(100_000, BROKERS);
    let mut counter = 1;
    group.bench_function("20k topics changed, 100k topics x 4", |b| {
        b.iter_batched(
            || changed(0..20_000, &mut counter),
            |registration| {
                stage.register(registration);
                stage.publish();
            },
            BatchSize::PerIteration,
        );
    });
    group.sample_size(100);
    let digest = changed(0..20_000, &mut counter);
    let (digest, member) = (digest.digest, stage.register(digest));
    stage.publish();
    let (broker, addr) = (fleet::broker_name(0), fleet::broker_addr(0));
    group.bench_function("unchanged registration, 100k topics x 4", |b| {
        b.iter(|| {
            let known = stage.table.recognise(fleet::CLUSTER, &broker, &addr, black_box(digest));
            assert_eq!(known, Some(member));
            assert!(!stage.table.take_changed());
            stage.publisher.retire();
        });
    });
    group.finish();
}

/// A partition: half of the brokers go with one event.
fn removal(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("publish");
    group.sample_size(10);
    const TOPICS: usize = 10_000;
    let mut stage = Stage::new(TOPICS, 100);
    let all = fleet::topics(0..TOPICS, 8);
    group.bench_function("50 of 100 brokers removed, 10k topics", |b| {
        b.iter_custom(|rounds| {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                let gone: Vec<MemberKey> = (0..50)
                    .map(|broker| stage.register(fleet::registration(broker, all.clone(), 1)))
                    .collect();
                stage.publish();
                let start = fleet::cpu_time();
                stage.table.remove_members(&gone);
                stage.publish();
                spent += fleet::cpu_time() - start;
                assert_eq!(stage.table.member_count(), 50);
            }
            spent
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = fleet::criterion();
    targets = one_topic, full, removal
}
criterion_main!(benches);

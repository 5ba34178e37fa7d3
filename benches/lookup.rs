//! Finding a topic in the frozen table, and finding that it is not there.
//!
//! Every route query does one of the two, so neither may grow with the fleet: the target is 50 to
//! 250 ns at 10 k to 100 k topics (what a persistent map costs), and a miss no dearer than a hit.
//! Names come in an order that no cache foresees: at 1 M topics most of the time is memory.
//!
//! Times are CPU times of one thread. Run with `cargo bench --bench lookup`.
#![allow(missing_docs, reason = "the macros of criterion make public items")]

mod fleet;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use fleet::CpuTime;

/// Different names asked for, in turn.
const NAMES: usize = 1 << 16;

fn lookup(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("lookup");
    for (label, topics) in [("10k", 10_000), ("100k", 100_000), ("1M", 1_000_000)] {
        let routes = fleet::table(topics, 1).freeze();
        for (kind, first) in [("hit", 0), ("miss", topics)] {
            let names: Vec<String> =
                fleet::scattered(topics, NAMES).map(|n| fleet::topic_name(first + n)).collect();
            let mut next = names.iter().cycle();
            group.bench_function(format!("{kind}, {label} topics"), |b| {
                b.iter(|| {
                    let name = next.next().expect("a cycle has no end");
                    let found = routes.topic(black_box(name)).is_some();
                    assert_eq!(found, first == 0);
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = fleet::criterion();
    targets = lookup
}
criterion_main!(benches);

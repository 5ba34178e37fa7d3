//! Composing answers from a frozen table into an output buffer, without headers.
//!
//! Nothing is cached, so this is what each query pays: it should be near the cost of copying the
//! answer's bytes, which is measured beside it as "copy". A route of 300 brokers and the lists are
//! what admin tools and very large clusters ask for.
//!
//! Times are CPU times of one thread. Run with `cargo bench --bench answer`.
#![allow(missing_docs, reason = "the macros of criterion make public items")]

mod fleet;

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use fleet::CpuTime;
use guidepost::model::Dialect;
use guidepost::route::{RouteQuery, TopicList};

/// Measures `write`, and copying what it wrote.
fn compose(group: &mut BenchmarkGroup<'_, CpuTime>, name: &str, write: impl Fn(&mut Vec<u8>)) {
    let mut out = Vec::new();
    write(&mut out);
    group.throughput(Throughput::Bytes(out.len() as u64));
    let answer = out.clone();
    group.bench_function(name, |b| {
        b.iter(|| {
            out.clear();
            write(black_box(&mut out));
        });
    });
    assert_eq!(out, answer);
    group.bench_function(format!("{name}, copy"), |b| {
        b.iter(|| {
            out.clear();
            black_box(&mut out).extend_from_slice(black_box(&answer));
        });
    });
}

fn answers(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("answer");
    let topic = fleet::topic_name(1);
    for brokers in [4, 300] {
        let routes = fleet::table(2, brokers).freeze();
        for dialect in [Dialect::Standard, Dialect::Legacy] {
            let query = RouteQuery { dialect, acting_master: false, order_conf: None, zone: None };
            compose(&mut group, &format!("route, {brokers} brokers, {dialect:?}"), |out| {
                let route = routes.topic(black_box(&topic)).expect("the topic is in the table");
                routes.write_route(route, &query, out);
            });
        }
    }
    let routes = fleet::table(2, 1_000).freeze();
    compose(&mut group, "cluster info, 1000 brokers", |out| routes.write_cluster_info(out));
    let routes = fleet::table(100_000, 1).freeze();
    compose(&mut group, "topic list, 100k topics", |out| {
        routes.write_topic_list(&TopicList::All, out)
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = fleet::criterion();
    targets = answers
}
criterion_main!(benches);

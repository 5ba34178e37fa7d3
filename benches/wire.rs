//! What the codec costs: a route query's header in, a success answer's header out, a full
//! registration of 20 000 topics in.
//!
//! The registration cases report bytes of JSON a second; the compressed one counts its inflated
//! bytes.
//!
//! Times are CPU times of one thread. Run with `cargo bench --bench wire`.
#![allow(missing_docs, reason = "the macros of criterion make public items")]

mod fleet;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fleet::{CpuTime, bodies};
use guidepost::ids::Opaque;
use guidepost::wire::{Command, HeaderKind, ReplyHead, frame};

const TOPICS: usize = 20_000;

fn headers(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("header");
    for kind in [HeaderKind::Json, HeaderKind::Binary] {
        let bytes = fleet::shard::query(kind, &fleet::topic_name(1));
        group.bench_function(format!("decode route query, {kind:?}"), |b| {
            b.iter(|| {
                let buffered = black_box(&bytes[..]);
                let head = frame::next(buffered).expect("well formed").expect("complete");
                let command = Command::decode(&head, buffered, None).expect("decodes");
                assert_eq!(command.code, 105);
                black_box(command.text("topic").map(str::len))
            });
        });
        let mut out = Vec::with_capacity(4096);
        group.bench_function(format!("encode success, {kind:?}"), |b| {
            b.iter(|| {
                out.clear();
                let reply = ReplyHead::success(black_box(Opaque(123_456)));
                reply.begin(kind, &mut out).finish(&mut out)
            });
        });
    }
    group.finish();
}

fn registration(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("register 20k topics");
    let json = bodies::json(TOPICS, 1, 8);
    let (compressed, inflated) = bodies::compressed(TOPICS, 1, 8);
    let cases = [("json", json.len(), json, false), ("compressed", inflated, compressed, true)];
    for (name, bytes, body, compressed) in cases {
        let request = bodies::request(body, compressed);
        assert_eq!(bodies::decode(&request).topics.len(), TOPICS);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(name, |b| b.iter(|| bodies::decode(black_box(&request))));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = fleet::criterion();
    targets = headers, registration
}
criterion_main!(benches);

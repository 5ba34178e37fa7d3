//! What the codec costs: a route query's header in, a success answer's header out, a full
//! registration of 20 000 topics in.
//!
//! Run with `cargo bench --bench wire`. The registration cases report bytes of JSON a second; the
//! compressed one counts its inflated bytes.
#![allow(missing_docs, reason = "the macros of criterion make public items")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use guidepost::ids::Opaque;
use guidepost::wire::body::register::{Layout, RegisterDecoder, Step};
use guidepost::wire::{Command, HeaderKind, Reply, Request, frame};

const TOPICS: usize = 20_000;
/// Entries that the decoder takes at a time, so that the cost of stopping is in the result.
const STEP_ENTRIES: usize = 512;

fn query(kind: HeaderKind) -> Vec<u8> {
    let ext = [("topic", "orders_paid_v2")];
    let query = Request {
        code: 105,
        opaque: Opaque(123_456),
        version: 513,
        ext: &ext,
        ..Request::default()
    };
    let mut out = Vec::new();
    query.encode(kind, &mut out);
    out
}

fn headers(c: &mut Criterion) {
    let mut group = c.benchmark_group("header");
    for kind in [HeaderKind::Json, HeaderKind::Binary] {
        let bytes = query(kind);
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
                let reply = Reply::success(black_box(Opaque(123_456)));
                reply.begin(kind, &mut out).finish(&mut out)
            });
        });
    }
    group.finish();
}

/// A registration as a Java broker writes it.
fn json_body() -> Bytes {
    let mut body = String::from(
        r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"#,
    );
    body.push_str(r#""stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{"#);
    for n in 0..TOPICS {
        let comma = if n == 0 { "" } else { "," };
        write!(body, r#"{comma}"orders_paid_{n}":{{"attributes":{{}},"order":false,"perm":6,"#)
            .expect("a string grows");
        write!(
            body,
            r#""readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"orders_paid_{n}","#
        )
        .expect("a string grows");
        body.push_str(r#""topicSysFlag":0,"writeQueueNums":8}"#);
    }
    body.push_str(r#"},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}"#);
    body.into()
}

/// The same topics in the compressed layout, and how many bytes it inflates to.
fn compressed_body() -> (Bytes, usize) {
    let mut plain = Vec::new();
    let mut part = |bytes: &[u8]| {
        let length = u32::try_from(bytes.len()).expect("short");
        plain.extend_from_slice(&length.to_be_bytes());
        plain.extend_from_slice(bytes);
    };
    part(br#"{"counter":1,"stateVersion":0,"timestamp":1700000000000}"#);
    let count = u32::try_from(TOPICS).expect("fits");
    plain.extend_from_slice(&count.to_be_bytes());
    for n in 0..TOPICS {
        let line = format!("orders_paid_{n} 8 8 6 SINGLE_TAG {{}}");
        let length = u32::try_from(line.len()).expect("short");
        plain.extend_from_slice(&length.to_be_bytes());
        plain.extend_from_slice(line.as_bytes());
    }
    plain.extend_from_slice(b"\x00\x00\x00\x02[]\x00\x00\x00\x00");
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&plain).expect("memory");
    (encoder.finish().expect("memory").into(), plain.len())
}

fn decode(body: &Bytes, layout: Layout) -> usize {
    let mut decoder = RegisterDecoder::new(body.clone(), layout, 0);
    loop {
        if let Step::Done(body) = decoder.step(STEP_ENTRIES).expect("decodes") {
            assert_eq!(body.topics.len(), TOPICS);
            return body.topics.len();
        }
    }
}

fn registration(c: &mut Criterion) {
    let mut group = c.benchmark_group("register 20k topics");
    let body = json_body();
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("json", |b| b.iter(|| decode(black_box(&body), Layout::Json)));
    let (body, inflated) = compressed_body();
    group.throughput(Throughput::Bytes(inflated as u64));
    let layout = Layout::Compressed { mapping_section: true };
    group.bench_function("compressed", |b| b.iter(|| decode(black_box(&body), layout)));
    group.finish();
}

criterion_group!(benches, headers, registration);
criterion_main!(benches);

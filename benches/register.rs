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

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use fleet::CpuTime;
use guidepost::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName};
use guidepost::kv::KvView;
use guidepost::publish::{Publisher, View};
use guidepost::route::{Registration, RouteTable};
use guidepost::wire::body::register::{Layout, RegisterBody, RegisterDecoder, Step};
use guidepost::writer::request::RegisterRequest;

const TOPICS: usize = 20_000;
const BROKERS: usize = 4;
/// Entries that the writer decodes in one piece.
const STEP_ENTRIES: usize = 1024;
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
        if request.body_crc32 != 0 {
            assert_eq!(crc(&request.body), request.body_crc32);
        }
        let digest = request.digest(false, 7);
        let RegisterRequest { cluster, broker, addr, .. } = request;
        if self.table.recognise(cluster, broker, addr, digest).is_some() {
            return false;
        }
        let registration = registration(request, decode(request), digest);
        self.table.register(registration).expect("a known broker registers");
        if self.table.take_changed() {
            self.publisher.publish(self.table.freeze(), KvView::default(), Default::default());
            self.publisher.retire();
        }
        true
    }
}

fn decode(request: &RegisterRequest) -> RegisterBody {
    let layout = Layout::of(request.version, request.compressed, &request.body);
    let mut decoder = RegisterDecoder::new(request.body.clone(), layout, 0);
    loop {
        if let Step::Done(body) = decoder.step(STEP_ENTRIES).expect("well formed") {
            return body;
        }
    }
}

fn registration(request: &RegisterRequest, body: RegisterBody, digest: u128) -> Registration {
    Registration {
        cluster: request.cluster.clone(),
        broker: request.broker.clone(),
        addr: request.addr.clone(),
        id: request.id,
        ha_addr: request.ha_addr.clone(),
        acting_master: request.acting_master,
        zone: request.zone.clone(),
        data_version: body.data_version,
        topics: body.topics,
        mappings: body.mappings,
        filter_servers: body.filter_servers,
        delete_missing_topics: false,
        digest,
    }
}

fn crc(body: &[u8]) -> i32 {
    i32::try_from(crc32fast::hash(body) & 0x7FFF_FFFF).expect("31 bits fit")
}

fn request(body: Vec<u8>, compressed: bool) -> RegisterRequest {
    RegisterRequest {
        cluster: ClusterName::from(fleet::CLUSTER),
        broker: BrokerName::from(&*fleet::broker_name(0)),
        addr: BrokerAddr::from(&*fleet::broker_addr(0)),
        id: BrokerId::MASTER,
        ha_addr: None,
        heartbeat_timeout_ms: None,
        acting_master: Some(false),
        zone: None,
        compressed,
        body_crc32: crc(&body),
        version: 513,
        body: Bytes::from(body),
    }
}

/// The body of a 5.x broker that does not compress.
fn json(counter: i64, queues: i32) -> Vec<u8> {
    let mut text = format!(
        "{{\"filterServerList\":[],\"topicConfigSerializeWrapper\":{{\"dataVersion\":\
         {{\"counter\":{counter},\"stateVersion\":0,\"timestamp\":1700000000000}},\
         \"mappingDataVersion\":{{\"counter\":0,\"stateVersion\":0,\"timestamp\":1700000000000}},\
         \"topicConfigTable\":{{"
    );
    for number in 0..TOPICS {
        let (comma, name) = (if number == 0 { "" } else { "," }, fleet::topic_name(number));
        let _ = write!(
            text,
            "{comma}\"{name}\":{{\"attributes\":{{}},\"order\":false,\"perm\":6,\
             \"readQueueNums\":{queues},\"topicFilterType\":\"SINGLE_TAG\",\
             \"topicName\":\"{name}\",\"topicSysFlag\":0,\"writeQueueNums\":{queues}}}"
        );
    }
    text.push_str("},\"topicQueueMappingDetailMap\":{},\"topicQueueMappingInfoMap\":{}}}");
    text.into_bytes()
}

/// What the same broker sends with `compressedRegister`, before and after compression.
fn compressed(counter: i64, queues: i32) -> (Vec<u8>, usize) {
    let mut plain = Vec::new();
    let number = |plain: &mut Vec<u8>, n: usize| {
        plain.extend(u32::try_from(n).expect("small").to_be_bytes());
    };
    let part = |plain: &mut Vec<u8>, text: &str| {
        number(plain, text.len());
        plain.extend_from_slice(text.as_bytes());
    };
    let version =
        format!("{{\"counter\":{counter},\"stateVersion\":0,\"timestamp\":1700000000000}}");
    part(&mut plain, &version);
    number(&mut plain, TOPICS);
    for topic in 0..TOPICS {
        let name = fleet::topic_name(topic);
        part(&mut plain, &format!("{name} {queues} {queues} 6 SINGLE_TAG {{}}"));
    }
    part(&mut plain, "[]");
    number(&mut plain, 0);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&plain).expect("a vector takes everything");
    (encoder.finish().expect("a vector takes everything"), plain.len())
}

fn registrations(c: &mut Criterion<CpuTime>) {
    let mut group = c.benchmark_group("register 20k topics");
    group.sample_size(30);
    let mut stage = {
        let (publisher, _) = Publisher::new(View::default());
        Stage { table: fleet::table(TOPICS, BROKERS), publisher }
    };
    let plain = |counter, queues| (request(json(counter, queues), false), 0);
    let packed = |counter, queues| {
        let (body, inflated) = compressed(counter, queues);
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

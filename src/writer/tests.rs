//! The writer without threads: requests into lanes, one turn at a time, a clock that is an
//! argument.

mod lines;
mod lists;
mod order;
mod pieces;
mod snapshots;

use std::path::PathBuf;

use bytes::Bytes;

use super::lane::LaneSender;
use super::request::{RegisterRequest, WriteRequest};
use super::*;
use crate::ids::{BrokerAddr, BrokerId, ClusterName, ShardId};
use crate::kv::KvTable;
use crate::model::Dialect;
use crate::publish::{Readers, View};
use crate::route::RouteQuery;
use crate::shard::mail::{self, Mail};
use crate::store::{Pace, StoreThread};
use crate::wire::HeaderKind;

struct Stage {
    writer: Writer,
    lanes: Vec<LaneSender>,
    mails: Vec<Mail>,
    readers: Readers,
    _folder: tempfile::TempDir,
}

fn stage() -> Stage {
    stage_of(1)
}

/// A writer with so many shards.
fn stage_of(shards: usize) -> Stage {
    stage_from(shards, Restored::default(), None)
}

/// A writer that begins with this table and keeps it in this file.
fn stage_from(shards: usize, restored: Restored, snapshot: Option<PathBuf>) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let bell = Doorbell::new().unwrap();
    let ring: Arc<dyn Fn() + Send + Sync> = Arc::new(|| ());
    let (senders, lanes) = lane::lanes(shards, Arc::clone(&ring));
    let (posts, mails) = (0..shards).map(|_| mail::post().unwrap()).unzip();
    let (publisher, readers) = Publisher::new(View::default());
    let clock = Clock::start();
    let snapshot = snapshot.map(|path| {
        let store = StoreThread::start(Pace::Patient, Arc::clone(&ring)).unwrap();
        SnapshotFile { path, store }
    });
    let writer = Writer::new(WriterParts {
        lanes,
        posts,
        bell,
        publisher,
        durable: durable(&folder, ring),
        restored,
        snapshot,
        notifier: Notifier::start(HeaderKind::Json, clock).unwrap(),
        clock,
        leaving: Arc::default(),
        stop: Arc::default(),
    });
    Stage { writer, lanes: senders, mails, readers, _folder: folder }
}

/// Empty tables kept in this folder; the bell rings when something is saved.
fn durable(folder: &tempfile::TempDir, bell: Arc<dyn Fn() + Send + Sync>) -> Durable {
    let files = DurableFiles {
        kv: folder.path().join("kv.json"),
        settings: folder.path().join("settings"),
        store: StoreThread::start(Pace::Prompt, bell).unwrap(),
    };
    Durable::new(KvTable::default(), Arc::default(), files)
}

impl Stage {
    fn send(&self, conn: u32, opaque: Option<i32>, op: WriteOp) {
        self.send_to(0, conn, opaque, op);
    }

    /// Sends on a connection of this shard.
    fn send_to(&self, shard: u16, conn: u32, opaque: Option<i32>, op: WriteOp) {
        let conn = ConnKey { shard: ShardId(shard), slot: conn, generation: 0 };
        let request = WriteRequest { conn, reply_to: opaque.map(Opaque), op };
        self.lanes[usize::from(shard)].try_send(request).expect("the lane has room");
    }

    /// Turns until nothing is left to do.
    fn settle(&mut self, now: u64) {
        while self.writer.turn(Tick(now)) {}
    }

    /// What was posted: opaque and code of answers, `None` for a close.
    fn posted(&mut self) -> Vec<Option<(i32, i32)>> {
        let code = |letter| match letter {
            ToShard::Answer(answer) => Some((answer.opaque.0, answer.code)),
            ToShard::Close(_) => None,
        };
        self.letters().into_iter().map(code).collect()
    }

    fn letters(&mut self) -> Vec<ToShard> {
        let mut letters = Vec::new();
        for (mail, lane) in self.mails.iter_mut().zip(&self.lanes) {
            while let Some(letter) = mail.take() {
                if matches!(letter, ToShard::Answer(_)) {
                    lane.answered();
                }
                letters.push(letter);
            }
        }
        letters
    }

    /// A topic's route; empty if it has none.
    fn route(&self, topic: &str) -> String {
        let dialect = Dialect::Standard;
        let query = RouteQuery { dialect, acting_master: false, order_conf: None, zone: None };
        let mut out = Vec::new();
        self.readers.reader().with(|view| {
            let routes = &view.routes;
            if let Some(route) = routes.topic(topic) {
                routes.write_route(route, &query, &mut out);
            }
        });
        String::from_utf8(out).unwrap()
    }

    fn has_route(&self, topic: &str) -> bool {
        self.readers.reader().with(|view| view.routes.topic(topic).is_some())
    }
}

/// A registration of `topics` topics `<broker>-0`, `<broker>-1`, and so on.
fn register(broker: &str, topics: usize, timeout_ms: Option<i64>) -> WriteOp {
    let table: Vec<String> = (0..topics)
        .map(|n| format!("\"{broker}-{n}\":{{\"topicName\":\"{broker}-{n}\"}}"))
        .collect();
    let body = format!(
        "{{\"topicConfigSerializeWrapper\":{{\"dataVersion\":{{\"counter\":1,\"timestamp\":1}},\
         \"topicConfigTable\":{{{}}}}}}}",
        table.join(",")
    );
    WriteOp::Register(Box::new(RegisterRequest {
        cluster: ClusterName::from("C"),
        broker: BrokerName::from(broker),
        addr: BrokerAddr::from(format!("{broker}:1").as_str()),
        id: BrokerId::MASTER,
        ha_addr: None,
        heartbeat_timeout_ms: timeout_ms,
        acting_master: Some(false),
        zone: None,
        compressed: false,
        body_crc32: 0,
        version: 513,
        body: Bytes::from(body),
    }))
}

fn heartbeat(broker: &str) -> WriteOp {
    WriteOp::Heartbeat { cluster: "C".into(), addr: format!("{broker}:1").as_str().into() }
}

#[test]
fn an_acknowledged_registration_can_be_seen() {
    let mut stage = stage();
    stage.send(1, Some(7), register("a", 2, None));
    assert!(!stage.has_route("a-0"));
    stage.settle(0);
    assert_eq!(stage.posted(), [Some((7, 0))]);
    assert!(stage.has_route("a-1"));
}

#[test]
fn a_small_request_passes_a_large_registration_of_somebody_else() {
    let mut stage = stage();
    stage.send(1, Some(1), register("large", 20_000, None));
    stage.send(2, Some(2), register("small", 2, None));
    stage.send(1, Some(3), heartbeat("large"));
    assert!(stage.writer.turn(Tick(0)), "the large one takes several turns");
    assert_eq!(stage.posted(), [Some((2, 0))]);
    stage.settle(0);
    assert_eq!(stage.posted(), [Some((1, 0)), Some((3, 0))], "its own connection keeps its order");
    assert!(stage.has_route("large-19999"));
}

#[test]
fn what_a_closed_connection_still_asked_for_is_not_done_but_answered() {
    let mut stage = stage();
    stage.send(1, Some(1), register("large", 20_000, None));
    stage.send(1, Some(2), heartbeat("large"));
    stage.send(1, None, heartbeat("large"));
    assert!(stage.writer.turn(Tick(0)));
    stage.send(1, None, WriteOp::ConnectionClosed);
    stage.settle(0);
    // The shard counts on one answer for each request that wants one.
    assert_eq!(stage.posted(), [Some((1, 1)), Some((2, 1))]);
    assert!(!stage.has_route("large-0"));
}

#[test]
fn a_broker_that_expires_leaves_the_others_of_its_connection() {
    let mut stage = stage();
    stage.send(1, None, register("a", 2, Some(1_000)));
    stage.send(1, None, register("b", 2, Some(60_000)));
    stage.settle(0);
    stage.settle(1_001);
    assert!(!stage.has_route("a-0"));
    assert!(stage.has_route("b-0"));
    assert_eq!(stage.posted(), [], "the connection is still needed");
    stage.settle(60_001);
    assert!(!stage.has_route("b-0"));
    assert_eq!(stage.posted(), [None]);
}

#[test]
fn a_sign_of_life_counts_although_its_request_queues() {
    let mut stage = stage();
    stage.send(1, None, register("a", 2, Some(1_000)));
    stage.settle(0);
    stage.send(1, None, register("large", 20_000, None));
    stage.send(1, None, heartbeat("a"));
    assert!(stage.writer.turn(Tick(900)));
    stage.settle(1_800);
    assert!(stage.has_route("a-0"), "its heartbeat arrived at 900");
}

#[test]
fn a_save_that_fails_is_refused_and_not_shown() {
    let mut stage = stage();
    // The folder of the file is a file: nothing can be written there.
    std::fs::remove_dir_all(stage._folder.path()).unwrap();
    std::fs::write(stage._folder.path(), "in the way").unwrap();
    let (namespace, key) = ("n".to_owned(), "k".to_owned());
    stage.send(1, Some(5), WriteOp::PutKv { namespace, key, value: Some("v".into()) });
    while stage.writer.parts.durable.is_saving() || !stage.writer.parts.lanes.is_empty() {
        stage.writer.turn(Tick(0));
        std::thread::yield_now();
    }
    assert_eq!(stage.posted(), [Some((5, 1))]);
    assert_eq!(stage.readers.reader().with(|view| view.kv.get("n", "k").map(str::to_owned)), None);
    std::fs::remove_file(stage._folder.path()).unwrap();
}

#[test]
fn a_negative_timeout_counts_as_none_given() {
    let mut stage = stage();
    stage.send(1, None, register("a", 2, Some(-1)));
    stage.settle(0);
    stage.settle(120_000);
    assert!(stage.has_route("a-0"));
    stage.settle(120_001);
    assert!(!stage.has_route("a-0"));
}

#[test]
fn bodies_of_217_and_322_are_bounded() {
    let mut stage = stage();
    stage.send(1, Some(1), register("a", 2, None));
    for (opaque, bytes) in [(2, SMALL_BODY_BYTES_MAX), (4, SMALL_BODY_BYTES_MAX + 1)] {
        // Blanks in front of what says nothing.
        let body = Bytes::from(" ".repeat(bytes - 4) + "null");
        let (cluster, addr) = ("C".into(), "a:1".into());
        let query = WriteOp::QueryDataVersion { cluster, addr, body: body.clone() };
        stage.send(1, Some(opaque), query);
        stage.send(1, Some(opaque + 1), WriteOp::RegisterTopic { topic: "t".into(), body });
    }
    stage.settle(0);
    let code = |opaque| i32::from(opaque > 3);
    assert_eq!(stage.posted(), [1, 2, 3, 4, 5].map(|opaque| Some((opaque, code(opaque)))));
}

#[test]
fn parts_of_static_topics_in_the_name_of_another_group_are_left_out() {
    let mut stage = stage();
    let mapping = |group: &str| {
        format!("{{\"bname\":\"{group}\",\"currIdMap\":{{0:0}},\"topic\":\"{group}-0\"}}")
    };
    let WriteOp::Register(mut request) = register("a", 0, None) else {
        unreachable!("it makes a registration")
    };
    let topics = "\"a-0\":{\"topicName\":\"a-0\"},\"b-0\":{\"topicName\":\"b-0\"}";
    let body = format!(
        "{{\"topicConfigSerializeWrapper\":{{\"topicConfigTable\":{{{topics}}},\
         \"topicQueueMappingInfoMap\":{{\"a-0\":{},\"b-0\":{}}}}}}}",
        mapping("a"),
        mapping("b")
    );
    request.body = Bytes::from(body);
    stage.send(1, Some(1), WriteOp::Register(request));
    stage.settle(0);
    assert_eq!(stage.posted(), [Some((1, 0))]);
    assert!(stage.route("a-0").contains("topicQueueMappingByBroker"), "{}", stage.route("a-0"));
    assert!(!stage.route("b-0").contains("topicQueueMappingByBroker"), "{}", stage.route("b-0"));
}

//! Aim: what hundreds of thousands of clients ask again and again costs no allocation, and neither
//! does handing a heartbeat to the writer.
//! Method: frames go from bytes to bytes as in a shard, without a socket. The allocator of this
//! binary counts what each thread asks of it. A buffer may grow on the first round, so the later
//! ones count.

use std::sync::Arc;

use allocation_counter::measure;
use guidepost::clock::Clock;
use guidepost::config::settings::Settings;
use guidepost::handler::{self, Desk, Dispatch};
use guidepost::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName, ConnKey, Opaque, ShardId};
use guidepost::model::{DataVersion, Queues, TopicConfig};
use guidepost::publish::View;
use guidepost::route::{Registration, RouteTable};
use guidepost::wire::{Command, HeaderKind, Request, frame};
use guidepost::writer::lane::{LaneReceivers, lanes};

const KINDS: [HeaderKind; 2] = [HeaderKind::Json, HeaderKind::Binary];
const ONEWAY: i32 = 2;

/// A shard without its sockets, and the other end of its lane.
struct Shard {
    view: View,
    desk: Desk,
    lanes: LaneReceivers,
    out: Vec<u8>,
}

impl Shard {
    /// Two groups of a master, and one of a slave that may act as one; all with `orders`.
    fn new(kind: HeaderKind) -> Shard {
        let mut table = RouteTable::new();
        for (number, id) in [(0, 0), (1, 0), (2, 3)] {
            table.register(registration(number, id)).expect("a new broker registers");
        }
        let (mut senders, lanes) = lanes(1, Arc::new(|| {}));
        let desk = Desk::new(senders.remove(0), kind, Arc::default(), Clock::start());
        let settings = Settings { support_acting_master: true, ..Settings::default() };
        let (routes, settings) = (table.freeze(), Arc::new(settings));
        let view = View { routes, settings, ..View::default() };
        Shard { view, desk, lanes, out: Vec::new() }
    }

    fn serve(&mut self, bytes: &[u8]) -> Dispatch {
        let conn = ConnKey { shard: ShardId(0), slot: 0, generation: 0 };
        let head = frame::next(bytes).expect("well formed").expect("complete");
        let command = Command::decode(&head, bytes, None).expect("decodes");
        handler::dispatch(&command, conn, &self.view, &mut self.desk, &mut self.out)
    }

    /// Allocations of one request, after a first one like it.
    #[track_caller]
    fn allocations(&mut self, request: &[u8], ends: Dispatch) -> u64 {
        let mut counts = [0; 2];
        for count in &mut counts {
            self.out.clear();
            let counted = measure(|| assert_eq!(self.serve(request), ends));
            *count = counted.count_total;
            let mut received = Vec::new();
            let sent = usize::from(ends != Dispatch::Done);
            assert_eq!(self.lanes.drain(2, &mut received), sent, "what went to the writer");
        }
        counts[1]
    }

    fn answered_code(&self) -> i32 {
        let head = frame::next(&self.out).expect("well formed").expect("complete");
        Command::decode(&head, &self.out, None).expect("decodes").code
    }
}

fn registration(number: u32, id: i64) -> Registration {
    let queues = Queues { read: 8, write: 8, perm: 6, sys_flag: 0 };
    let topic = |name: &str| TopicConfig { topic: name.into(), queues };
    Registration {
        cluster: ClusterName::from("c1"),
        broker: BrokerName::from(&*format!("group-{number}")),
        addr: BrokerAddr::from(&*addr(number)),
        id: BrokerId(id),
        ha_addr: None,
        acting_master: Some(true),
        zone: None,
        data_version: Some(DataVersion::default()),
        topics: vec![topic("orders"), topic("invoices")],
        mappings: Vec::new(),
        filter_servers: Some(Vec::new()),
        delete_missing_topics: false,
        digest: u128::from(number),
    }
}

fn addr(number: u32) -> String {
    format!("10.20.30.{number}:10911")
}

fn request(kind: HeaderKind, code: i32, flag: i32, ext: &[(&str, &str)]) -> Vec<u8> {
    let request = Request { code, opaque: Opaque(77), flag, version: 513, ext, body: b"" };
    let mut out = Vec::new();
    request.encode(kind, &mut out);
    out
}

#[test]
fn issue_10982_a_route_query_allocates_nothing() {
    for kind in KINDS {
        let mut shard = Shard::new(kind);
        for (topic, code) in [("orders", 0), ("nobody-has-it", 17)] {
            for standard in ["true", "false"] {
                let ext = [("acceptStandardJsonOnly", standard), ("topic", topic)];
                let query = request(kind, 105, 0, &ext);
                let count = shard.allocations(&query, Dispatch::Done);
                assert_eq!(shard.answered_code(), code);
                assert_eq!(count, 0, "{kind:?}, {topic}, standard dialect: {standard}");
            }
        }
        let query = request(kind, 105, 0, &[]);
        assert_eq!(shard.allocations(&query, Dispatch::Done), 0, "{kind:?}, no topic named");
    }
}

#[test]
fn a_query_for_the_members_of_a_group_allocates_nothing() {
    for kind in KINDS {
        let mut shard = Shard::new(kind);
        let query = request(kind, 901, 0, &[("brokerName", "group-1"), ("clusterName", "c1")]);
        assert_eq!(shard.allocations(&query, Dispatch::Done), 0, "{kind:?}");
        assert_eq!(shard.answered_code(), 0);
    }
}

#[test]
fn a_refusal_of_an_unknown_code_allocates_nothing() {
    for kind in KINDS {
        let mut shard = Shard::new(kind);
        let query = request(kind, 9_999, 0, &[]);
        assert_eq!(shard.allocations(&query, Dispatch::Done), 0, "{kind:?}");
        assert_eq!(shard.answered_code(), 3);
    }
}

#[test]
fn a_heartbeat_of_a_registered_broker_allocates_nothing() {
    for kind in KINDS {
        let mut shard = Shard::new(kind);
        let addr = addr(1);
        let ext = [("brokerAddr", &*addr), ("brokerName", "group-1"), ("clusterName", "c1")];
        let heartbeat = request(kind, 904, ONEWAY, &ext);
        assert_eq!(shard.allocations(&heartbeat, Dispatch::Sent), 0, "{kind:?}");
    }
}

/// Also shows that the counter counts.
#[test]
fn a_heartbeat_of_a_stranger_allocates_the_two_names_it_hands_on() {
    for kind in KINDS {
        let mut shard = Shard::new(kind);
        let addr = addr(9);
        let ext = [("brokerAddr", &*addr), ("brokerName", "group-9"), ("clusterName", "c1")];
        let heartbeat = request(kind, 904, ONEWAY, &ext);
        assert_eq!(shard.allocations(&heartbeat, Dispatch::Sent), 2, "{kind:?}");
    }
}

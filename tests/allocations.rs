//! Aim: what hundreds of thousands of clients ask again and again costs no allocation, and neither
//! does handing a heartbeat to the writer.
//! Method: frames go from bytes to bytes as in a shard, without a socket. The allocator of this
//! binary counts what each thread asks of it. A buffer may grow on the first round, so the later
//! ones count.

#[path = "../benches/fleet/mod.rs"]
mod fleet;

use std::sync::Arc;

use allocation_counter::measure;
use fleet::shard::{Shard, encode};
use fleet::{CLUSTER, broker_addr, broker_name, topic_name};
use guidepost::config::settings::Settings;
use guidepost::handler::Dispatch;
use guidepost::ids::BrokerId;
use guidepost::publish::View;
use guidepost::route::{Registration, RouteTable};
use guidepost::wire::{Command, HeaderKind, frame};

const KINDS: [HeaderKind; 2] = [HeaderKind::Json, HeaderKind::Binary];
const ONEWAY: i32 = 2;

/// Two groups of a master, and one of a slave that may act as one; all with the same two topics.
fn shard(kind: HeaderKind) -> Shard {
    let mut table = RouteTable::new();
    for (broker, id) in [(0, 0), (1, 0), (2, 3)] {
        let master = fleet::registration(broker, fleet::topics(0..2, 8), 1);
        let (id, acting_master) = (BrokerId(id), Some(true));
        let registration = Registration { id, acting_master, ..master };
        table.register(registration).expect("a new broker registers");
    }
    let settings = Settings { support_acting_master: true, ..Settings::default() };
    Shard::over(kind, View { settings: Arc::new(settings), ..fleet::view(&table) })
}

/// Allocations of one request, after a first one like it.
#[track_caller]
fn allocations(shard: &mut Shard, request: &[u8], ends: Dispatch) -> u64 {
    let mut counts = [0; 2];
    for count in &mut counts {
        let counted = measure(|| assert_eq!(shard.serve(request), ends));
        *count = counted.count_total;
        let sent = usize::from(ends != Dispatch::Done);
        assert_eq!(shard.take_sent(2), sent, "what went to the writer");
    }
    counts[1]
}

fn answered_code(shard: &Shard) -> i32 {
    let head = frame::next(&shard.out).expect("well formed").expect("complete");
    Command::decode(&head, &shard.out, None).expect("decodes").code
}

#[test]
fn issue_10982_a_route_query_allocates_nothing() {
    for kind in KINDS {
        let mut shard = shard(kind);
        for (topic, code) in [(&*topic_name(0), 0), ("nobody-has-it", 17)] {
            for standard in ["true", "false"] {
                let ext = [("acceptStandardJsonOnly", standard), ("topic", topic)];
                let query = encode(kind, 105, 0, &ext);
                let count = allocations(&mut shard, &query, Dispatch::Done);
                assert_eq!(answered_code(&shard), code);
                assert_eq!(count, 0, "{kind:?}, {topic}, standard dialect: {standard}");
            }
        }
        let query = encode(kind, 105, 0, &[]);
        assert_eq!(allocations(&mut shard, &query, Dispatch::Done), 0, "{kind:?}, no topic named");
    }
}

#[test]
fn a_query_for_the_members_of_a_group_allocates_nothing() {
    for kind in KINDS {
        let mut shard = shard(kind);
        let ext = [("brokerName", &*broker_name(1)), ("clusterName", CLUSTER)];
        let query = encode(kind, 901, 0, &ext);
        assert_eq!(allocations(&mut shard, &query, Dispatch::Done), 0, "{kind:?}");
        assert_eq!(answered_code(&shard), 0);
    }
}

#[test]
fn a_refusal_of_an_unknown_code_allocates_nothing() {
    for kind in KINDS {
        let mut shard = shard(kind);
        let query = encode(kind, 9_999, 0, &[]);
        assert_eq!(allocations(&mut shard, &query, Dispatch::Done), 0, "{kind:?}");
        assert_eq!(answered_code(&shard), 3);
    }
}

/// A one-way sign of life.
fn heartbeat(kind: HeaderKind, broker: usize) -> Vec<u8> {
    let (name, addr) = (broker_name(broker), broker_addr(broker));
    let ext = [("brokerAddr", &*addr), ("brokerName", &*name), ("clusterName", CLUSTER)];
    encode(kind, 904, ONEWAY, &ext)
}

#[test]
fn a_heartbeat_of_a_registered_broker_allocates_nothing() {
    for kind in KINDS {
        let mut shard = shard(kind);
        let heartbeat = heartbeat(kind, 1);
        assert_eq!(allocations(&mut shard, &heartbeat, Dispatch::Sent), 0, "{kind:?}");
    }
}

/// Also shows that the counter counts.
#[test]
fn a_heartbeat_of_a_stranger_allocates_the_two_names_it_hands_on() {
    for kind in KINDS {
        let mut shard = shard(kind);
        let heartbeat = heartbeat(kind, 9);
        assert_eq!(allocations(&mut shard, &heartbeat, Dispatch::Sent), 2, "{kind:?}");
    }
}

use proptest::prelude::*;

use super::*;
use crate::model::{Dialect, TopicConfig};
use crate::route::{RouteQuery, TopicList};

fn registered(table: &mut RouteTable, broker: &str, id: i64, topics: &[&str]) {
    let topics = topics.iter().map(|topic| TopicConfig {
        topic: Topic::from(*topic),
        queues: Queues { read: 8, write: 300, perm: 6, sys_flag: 1 },
    });
    let mapping = QueueMapping {
        topic: "static".into(),
        topic_member: Some("static".to_owned()),
        broker: broker.into(),
        total_queues: 4,
        epoch: 17,
        dirty: true,
        scope: Some("s".to_owned()),
        current_ids: Some(vec![(0, 1), (3, 0)]),
    };
    let version = DataVersion { state_version: 1, timestamp: 1_700_000_000_000, counter: Some(7) };
    let registration = crate::route::Registration {
        cluster: "C1".into(),
        broker: broker.into(),
        addr: format!("{broker}:{id}").as_str().into(),
        id: BrokerId(id),
        ha_addr: Some(format!("{broker}:1{id}")),
        acting_master: Some(true),
        zone: Some("z".to_owned()),
        data_version: Some(version),
        topics: topics.collect(),
        mappings: vec![mapping],
        filter_servers: Some(vec!["f:1".to_owned()]),
        delete_missing_topics: false,
        digest: 5,
    };
    table.register(registration).expect("a full registration");
}

/// Two groups, one of two brokers, one static topic.
fn table() -> RouteTable {
    let mut table = RouteTable::new();
    registered(&mut table, "a", 0, &["one", "static"]);
    registered(&mut table, "a", 1, &["one", "static"]);
    registered(&mut table, "ü", 0, &["one", "two", "static"]);
    table
}

/// Everything that readers are shown.
fn shown(view: &RouteView) -> Vec<String> {
    let text = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    };
    let mut all: Vec<String> = view.slots.iter().flatten().map(|g| format!("{g:?}")).collect();
    all.sort_unstable();
    all.push(format!("{:?}", view.clusters));
    let mut topics: Vec<_> = view.topics.iter().collect();
    topics.sort_by_key(|route| route.name);
    for route in topics {
        for dialect in [Dialect::Legacy, Dialect::Standard] {
            let query = RouteQuery { dialect, acting_master: true, order_conf: None, zone: None };
            all.push(text(&|out| view.write_route(route, &query, out)));
        }
    }
    all
}

#[test]
fn what_was_written_is_read() {
    let table = table();
    let file = table.snapshot(|key| u64::from(key.slot) + 100).encode(1_234);
    let restored = RouteTable::restore(&file).unwrap();
    restored.table.check_invariants();
    assert_eq!(shown(&restored.table.freeze()), shown(&table.freeze()));
    assert_eq!(restored.written_ms, 1_234);
    let mut timeouts: Vec<u64> = restored.members.iter().map(|(_, ms)| *ms).collect();
    timeouts.sort_unstable();
    assert_eq!(timeouts, [100, 101, 102]);
    let [key] = restored.table.members_at("C1", "a:1") else { panic!("one broker is there") };
    let version = restored.table.data_version(*key).unwrap();
    assert_eq!((version.state_version, version.counter), (1, Some(7)));
    assert!(restored.table.is_restored(*key));
    let list = TopicList::All;
    let mut out = Vec::new();
    restored.table.freeze().write_topic_list(&list, &mut out);
    assert!(String::from_utf8(out).unwrap().contains("\"two\""));
}

#[test]
fn a_restored_broker_is_not_recognised_until_it_registers() {
    let file = table().snapshot(|_| 1).encode(0);
    let mut table = RouteTable::restore(&file).unwrap().table;
    assert_eq!(table.recognise("C1", "a", "a:1", 5), None);
    registered(&mut table, "a", 1, &["one", "static"]);
    let key = table.recognise("C1", "a", "a:1", 5).expect("it said the same");
    assert!(!table.is_restored(key));
    table.check_invariants();
}

#[test]
fn an_empty_table_is_a_table() {
    let file = RouteTable::new().snapshot(|_| 1).encode(0);
    let restored = RouteTable::restore(&file).unwrap();
    assert_eq!((restored.table.member_count(), restored.members.len()), (0, 0));
}

#[test]
fn what_is_cut_or_of_another_kind_is_refused_by_name() {
    let file = table().snapshot(|_| 1).encode(0);
    for length in 0..file.len() {
        let error = RouteTable::restore(&file[..length]).unwrap_err();
        let foreign = length < HEAD_BYTES;
        assert_eq!(error == SnapshotError::Foreign, foreign, "{length}: {error}");
    }
    let mut newer = file.clone();
    newer[8] = 2;
    assert_eq!(RouteTable::restore(&newer).unwrap_err(), SnapshotError::Version(2));
    let mut flipped = file;
    flipped[40] ^= 1;
    assert_eq!(RouteTable::restore(&flipped).unwrap_err(), SnapshotError::Checksum);
}

/// With a checksum that fits, as if somebody had made it so.
fn sealed(mut content: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&content);
    content.extend_from_slice(&crc.to_le_bytes());
    content
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_is_in_a_file_makes_a_whole_table_or_an_error(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut content = table().snapshot(|_| 1).encode(0);
        content.truncate(content.len() - CRC_BYTES);
        for (at, byte) in changes {
            let at = HEAD_BYTES + at.index(content.len() - HEAD_BYTES);
            content[at] = byte;
        }
        if let Some(cut) = cut {
            content.truncate(HEAD_BYTES + cut.index(content.len() - HEAD_BYTES));
        }
        if let Ok(restored) = RouteTable::restore(&sealed(content)) {
            restored.table.check_invariants();
        }
    }
}

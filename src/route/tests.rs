//! Changes made in steps are the changes made at once.

use proptest::prelude::*;

use super::*;
use crate::ids::{BrokerId, MemberKey, Topic};
use crate::model::{DataVersion, Dialect, QueueMapping, Queues, TopicConfig};

/// A registration of some topics: which, with how many queues.
#[derive(Clone, Debug)]
struct Topics {
    broker: u8,
    id: i64,
    first: usize,
    count: usize,
    queues: i32,
    mapped: bool,
    deletes_missing: bool,
    acting: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Register(Topics),
    Remove(Vec<usize>),
    WritePerm(u8, bool),
}

fn change() -> impl Strategy<Value = Change> {
    let topics = (0..3u8, 0..2i64, 0..40usize, 0..40usize, 1..3i32, any::<[bool; 3]>());
    let topics = topics.prop_map(|(broker, id, first, count, queues, flags)| {
        let [mapped, deletes_missing, acting] = flags;
        Topics { broker, id, first, count, queues, mapped, deletes_missing, acting }
    });
    prop_oneof![
        4 => topics.prop_map(Change::Register),
        1 => prop::collection::vec(0..8usize, 1..4).prop_map(Change::Remove),
        1 => (0..3u8, any::<bool>()).prop_map(|(broker, on)| Change::WritePerm(broker, on)),
    ]
}

fn registration(topics: &Topics, counter: i64) -> Registration {
    let broker = format!("b{}", topics.broker);
    let names = (topics.first..topics.first + topics.count).map(|n| Topic::from(&*format!("t{n}")));
    let queues = Queues { read: topics.queues, write: topics.queues, perm: 6, sys_flag: 0 };
    let mapping = |topic: Topic| QueueMapping {
        topic_member: Some(topic.to_string()),
        topic,
        broker: (*broker).into(),
        total_queues: topics.queues,
        epoch: 0,
        dirty: false,
        scope: None,
        current_ids: None,
    };
    let mapped = names.clone().filter(|_| topics.mapped).step_by(3);
    Registration {
        cluster: "c".into(),
        broker: (*broker).into(),
        addr: (*format!("{broker}:{}", topics.id)).into(),
        id: BrokerId(topics.id),
        ha_addr: None,
        acting_master: Some(topics.acting),
        zone: None,
        data_version: Some(DataVersion { counter: Some(counter), ..DataVersion::default() }),
        mappings: mapped.map(mapping).collect(),
        topics: names.map(|topic| TopicConfig { topic, queues }).collect(),
        filter_servers: None,
        delete_missing_topics: topics.deletes_missing,
        digest: u128::try_from(counter).expect("not negative"),
    }
}

/// A table and who is in it, in the order they came.
struct Side {
    table: RouteTable,
    members: Vec<MemberKey>,
}

impl Side {
    fn apply(&mut self, change: &Change, counter: i64) {
        let before = shown(&self.table);
        match change {
            Change::Register(topics) => {
                let outcome = self.table.register(registration(topics, counter));
                if let Ok(Registered { member, displaced, .. }) = outcome {
                    self.members.retain(|key| !displaced.contains(key));
                    self.members.push(member);
                }
            }
            Change::Remove(which) => {
                let gone = which.iter().filter_map(|n| self.members.get(*n).copied());
                let gone: Vec<MemberKey> = gone.collect();
                self.members.retain(|key| !gone.contains(key));
                self.table.remove_members(&gone);
            }
            Change::WritePerm(broker, on) => {
                self.table.set_write_perm(&format!("b{broker}"), *on);
            }
        }
        while !self.table.is_whole() {
            assert_eq!(shown(&self.table), before, "half of a change is seen");
            self.table.step();
        }
        self.table.check_invariants();
    }
}

/// Groups and routes; topics by name, as hashing differs from table to table.
fn shown(table: &RouteTable) -> String {
    let view = table.freeze();
    let mut out = Vec::new();
    for broker in ["b0", "b1", "b2"] {
        view.write_member_group(Some("c"), Some(broker), &mut out);
    }
    let query = RouteQuery {
        dialect: Dialect::Standard,
        acting_master: false,
        order_conf: None,
        zone: None,
    };
    for n in 0..80 {
        if let Some(route) = view.topic(&format!("t{n}")) {
            out.extend_from_slice(format!("\nt{n} ").as_bytes());
            view.write_route(route, &query, &mut out);
        }
    }
    String::from_utf8(out).expect("answers are text")
}

proptest! {
    #[test]
    fn steps_of_any_size_leave_what_one_piece_leaves(
        changes in prop::collection::vec(change(), 1..12),
        topics_a_step in 1..30usize,
    ) {
        let in_steps = RouteTable::new().in_steps_of(topics_a_step);
        let mut sides = [RouteTable::new(), in_steps]
            .map(|table| Side { table, members: Vec::new() });
        for (counter, change) in (1..).zip(&changes) {
            sides.iter_mut().for_each(|side| side.apply(change, counter));
            let [once, steps] = &mut sides;
            prop_assert_eq!(shown(&once.table), shown(&steps.table));
            prop_assert_eq!(once.table.take_notices(), steps.table.take_notices());
            // What is known of the last registration is the same, too.
            if let Change::Register(topics) = change {
                let Registration { cluster, broker, addr, digest, .. } =
                    registration(topics, counter);
                let known = |side: &Side| {
                    side.table.recognise(&cluster, &broker, &addr, digest).is_some()
                };
                prop_assert_eq!(known(once), known(steps));
            }
        }
    }
}

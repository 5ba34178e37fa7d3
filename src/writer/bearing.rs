//! Which requests bear on one another: those of one connection, those that name one group, and
//! those about topics, which any group may have. Others may pass each other unnoticed.

use std::collections::HashMap;

use ahash::RandomState;

use crate::ids::{BrokerName, ConnKey};

use super::request::{WriteOp, WriteRequest};

/// What the requests of a queue bear on.
#[derive(Debug, Default)]
pub(super) struct Bearing {
    /// How many there are by connection.
    by_conn: HashMap<ConnKey, u32, RandomState>,
    /// How many there are by the group they name: a master and the slave that takes its place are
    /// told apart by who comes later.
    by_group: HashMap<BrokerName, u32, RandomState>,
    /// How many there are about a topic of several groups.
    about_topics: usize,
}

impl Bearing {
    pub fn add(&mut self, request: &WriteRequest) {
        *self.by_conn.entry(request.conn).or_default() += 1;
        if let Some(group) = group(&request.op) {
            *self.by_group.entry(group.clone()).or_default() += 1;
        }
        self.about_topics += usize::from(is_about_topic(&request.op));
    }

    pub fn remove(&mut self, request: &WriteRequest) {
        count_down(&mut self.by_conn, &request.conn);
        if let Some(group) = group(&request.op) {
            count_down(&mut self.by_group, group);
        }
        self.about_topics -= usize::from(is_about_topic(&request.op));
    }

    /// Whether one of them bears on this later request. Signs of life (322, 904) bear on their
    /// connection alone.
    pub fn is_on(&self, request: &WriteRequest) -> bool {
        let group_is_named = |group| self.about_topics > 0 || self.is_on_group(group);
        self.is_on_conn(request.conn) || group(&request.op).is_some_and(group_is_named)
    }

    pub fn is_on_conn(&self, conn: ConnKey) -> bool {
        self.by_conn.contains_key(&conn)
    }

    /// Whether one of them names this group.
    pub fn is_on_group(&self, group: &BrokerName) -> bool {
        self.by_group.contains_key(group)
    }
}

/// The group whose members or topics the operation changes.
fn group(op: &WriteOp) -> Option<&BrokerName> {
    match op {
        WriteOp::Register(register) => Some(&register.broker),
        WriteOp::Unregister { broker, .. } | WriteOp::SetWritePerm { broker, .. } => Some(broker),
        _ => None,
    }
}

/// Whether the operation is about a topic, whichever groups have it.
pub(super) fn is_about_topic(op: &WriteOp) -> bool {
    matches!(op, WriteOp::DeleteTopic { .. } | WriteOp::RegisterTopic { .. })
}

fn count_down<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32, RandomState>, key: &K) {
    let count = counts.get_mut(key).expect("what is in the queue is counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

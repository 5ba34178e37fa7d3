//! Registrations too large to decode in one go, and what must not overtake them.
//!
//! The queue keeps the order of the lanes for all that a registration in it may bear on: requests
//! of its connection, requests that name its group, and those about topics. Others pass.

use std::collections::{HashMap, VecDeque};

use ahash::RandomState;

use crate::ids::{BrokerName, ConnKey};
use crate::wire::body::register::{Layout, RegisterDecoder};

use super::lane::Received;
use super::request::{RegisterRequest, WriteOp};

/// Largest body that is decoded at once; larger ones are cut into pieces, so that what is behind
/// them is not held up.
const DECODED_AT_ONCE_BYTES: usize = 64 << 10;
/// The same for compressed bodies, which may inflate a thousandfold.
const INFLATED_AT_ONCE_BYTES: usize = 1 << 10;

/// A queue of requests that wait for a large registration, or are one. Bounded by the lanes: a
/// request counts against its shard's until it is done.
#[derive(Debug, Default)]
pub(super) struct Slow {
    queue: VecDeque<Decoding>,
    /// Requests in the queue by connection.
    by_conn: HashMap<ConnKey, u32, RandomState>,
    /// Requests in the queue by the group they name: a master and the slave that takes its place
    /// are told apart by who comes later.
    by_group: HashMap<BrokerName, u32, RandomState>,
    /// Requests in the queue about a topic of several groups.
    about_topics: usize,
}

/// A request in the queue.
#[derive(Debug)]
pub(super) struct Decoding {
    pub received: Received,
    /// When the request was taken, for data versions without a time stamp.
    pub wall_ms: i64,
    /// Set together with `decoder`.
    pub digest: u128,
    /// Present once decoding has begun.
    pub decoder: Option<RegisterDecoder>,
}

impl Slow {
    /// Whether the request has to queue: a large registration, or one that would overtake an
    /// earlier request that it bears on.
    ///
    /// Signs of life (322, 904) wait for their connection alone: they count when they arrive. A
    /// closed connection is the writer's to decide.
    pub fn takes(&self, received: &Received) -> bool {
        let request = &received.request;
        match &request.op {
            WriteOp::ConnectionClosed => false,
            WriteOp::Register(register) if is_large(register) => true,
            // Any registration in the queue may bring the topic back, or the broker it is to be on.
            op if is_about_topic(op) => !self.queue.is_empty(),
            op => {
                let waits = |group| self.about_topics > 0 || self.waits_for(group);
                self.by_conn.contains_key(&request.conn) || group(op).is_some_and(waits)
            }
        }
    }

    /// Whether a request that names this group is in the queue.
    pub fn waits_for(&self, group: &BrokerName) -> bool {
        self.by_group.contains_key(group)
    }

    pub fn push(&mut self, received: Received, wall_ms: i64) {
        let request = &received.request;
        *self.by_conn.entry(request.conn).or_default() += 1;
        if let Some(group) = group(&request.op) {
            *self.by_group.entry(group.clone()).or_default() += 1;
        }
        self.about_topics += usize::from(is_about_topic(&request.op));
        self.queue.push_back(Decoding { received, wall_ms, digest: 0, decoder: None });
    }

    /// The request at the head, to be finished or [put back](Slow::put_back).
    pub fn take(&mut self) -> Option<Decoding> {
        self.queue.pop_front()
    }

    /// Puts back what [`Slow::take`] gave.
    pub fn put_back(&mut self, decoding: Decoding) {
        self.queue.push_front(decoding);
    }

    /// Lets others pass that waited for this request.
    pub fn done(&mut self, received: &Received) {
        let request = &received.request;
        count_down(&mut self.by_conn, &request.conn);
        if let Some(group) = group(&request.op) {
            count_down(&mut self.by_group, group);
        }
        self.about_topics -= usize::from(is_about_topic(&request.op));
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes out what a closed connection had asked for.
    pub fn forget(&mut self, conn: ConnKey) -> Vec<Received> {
        if !self.by_conn.contains_key(&conn) {
            return Vec::new();
        }
        let (gone, kept): (VecDeque<Decoding>, VecDeque<Decoding>) =
            std::mem::take(&mut self.queue)
                .into_iter()
                .partition(|decoding| decoding.received.request.conn == conn);
        self.queue = kept;
        let gone: Vec<Received> = gone.into_iter().map(|decoding| decoding.received).collect();
        for received in &gone {
            self.done(received);
        }
        gone
    }
}

fn is_large(register: &RegisterRequest) -> bool {
    let at_once = match Layout::of(register.version, register.compressed, &register.body) {
        Layout::Compressed { .. } => INFLATED_AT_ONCE_BYTES,
        Layout::Json | Layout::Bare => DECODED_AT_ONCE_BYTES,
    };
    register.body.len() > at_once
}

/// The group whose members or topics the operation changes.
fn group(op: &WriteOp) -> Option<&BrokerName> {
    match op {
        WriteOp::Register(register) => Some(&register.broker),
        WriteOp::Unregister { broker, .. } | WriteOp::SetWritePerm { broker, .. } => Some(broker),
        _ => None,
    }
}

fn is_about_topic(op: &WriteOp) -> bool {
    matches!(op, WriteOp::DeleteTopic { .. } | WriteOp::RegisterTopic { .. })
}

fn count_down<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32, RandomState>, key: &K) {
    let count = counts.get_mut(key).expect("what is in the queue is counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

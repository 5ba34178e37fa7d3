//! Registrations too large to decode in one go, and what must not overtake them.

use std::collections::{HashMap, VecDeque};

use ahash::RandomState;

use crate::ids::{BrokerAddr, BrokerName, ConnKey};
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
    /// Registrations in the queue by broker.
    by_broker: HashMap<(BrokerName, BrokerAddr), u32, RandomState>,
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
    /// earlier request of its connection or registration of its broker.
    pub fn takes(&self, received: &Received) -> bool {
        let request = &received.request;
        match &request.op {
            // Acted on at once: what a closed connection still had to say no longer counts.
            WriteOp::ConnectionClosed => false,
            WriteOp::Register(register) if is_large(register) => true,
            WriteOp::Register(register) if self.by_broker.contains_key(&broker(register)) => true,
            _ => self.by_conn.contains_key(&request.conn),
        }
    }

    pub fn push(&mut self, received: Received, wall_ms: i64) {
        let request = &received.request;
        *self.by_conn.entry(request.conn).or_default() += 1;
        if let WriteOp::Register(register) = &request.op {
            *self.by_broker.entry(broker(register)).or_default() += 1;
        }
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
        if let WriteOp::Register(register) = &request.op {
            count_down(&mut self.by_broker, &broker(register));
        }
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

fn broker(register: &RegisterRequest) -> (BrokerName, BrokerAddr) {
    (register.broker.clone(), register.addr.clone())
}

fn count_down<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32, RandomState>, key: &K) {
    let count = counts.get_mut(key).expect("what is in the queue is counted");
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

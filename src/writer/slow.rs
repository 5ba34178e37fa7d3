//! Registrations too large to be dealt with in one go, and what must not overtake them.
//!
//! ```text
//! [arrived] --digest--> known? settled --no--> checksum --> decoded --> applied in steps --> done
//! ```
//!
//! The queue keeps the order of the lanes for all that a registration in it [bears on](Bearing).
//! Others pass.

use std::collections::VecDeque;

use crate::ids::{BrokerName, ConnKey};
use crate::limits::AT_ONCE_BYTES_MAX;
use crate::wire::body::register::{Layout, RegisterDecoder};

use super::bearing::{Bearing, is_about_topic};
use super::hashing::{Checking, Digesting};
use super::lane::Received;
use super::request::{RegisterRequest, WriteOp};

/// What [`AT_ONCE_BYTES_MAX`] is for compressed bodies, which may inflate a thousandfold.
const INFLATED_AT_ONCE_BYTES: usize = 1 << 10;

/// A queue of requests that wait for a large registration, or are one. Bounded by the lanes: a
/// request counts against its shard's until it is done.
#[derive(Debug, Default)]
pub(super) struct Slow {
    queue: VecDeque<Piecework>,
    /// The registration that is being applied, no longer in the queue.
    applying: Option<Received>,
    /// What the queue, and what is being applied, bears on.
    bearing: Bearing,
}

/// A request in the queue.
#[derive(Debug)]
pub(super) struct Piecework {
    pub received: Received,
    /// When the request was taken, for data versions without a time stamp.
    pub wall_ms: i64,
    pub stage: Stage,
}

/// How far a registration is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Nothing has been done.
    Arrived,
    /// Its digest is being computed.
    Digesting(Box<Digesting>),
    /// It is not known, and its checksum is being computed.
    Checking(Digest, Checking),
    /// It is being decoded.
    Decoding(Digest, Box<RegisterDecoder>),
}

/// A registration's digest, and the setting of the time when it was computed: see
/// [`RegisterRequest::digest`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Digest {
    pub digest: u128,
    pub deletes_missing: bool,
}

impl Slow {
    /// Whether the request has to queue: a large registration, or one that would overtake an
    /// earlier request that bears on it. A closed connection is the writer's to decide.
    pub fn takes(&self, received: &Received) -> bool {
        let request = &received.request;
        match &request.op {
            WriteOp::ConnectionClosed => false,
            WriteOp::Register(register) if is_large(register) => true,
            // Any registration in the queue may bring the topic back, or the broker it is to be on.
            op if is_about_topic(op) => !self.is_empty(),
            _ => self.bearing.is_on(request),
        }
    }

    pub fn bearing(&self) -> &Bearing {
        &self.bearing
    }

    /// Whether a request that names this group is in the queue.
    pub fn waits_for(&self, group: &BrokerName) -> bool {
        self.bearing.is_on_group(group)
    }

    pub fn push(&mut self, received: Received, wall_ms: i64, stage: Stage) {
        self.bearing.add(&received.request);
        self.queue.push_back(Piecework { received, wall_ms, stage });
    }

    /// The request at the head, to be [done](Slow::done), [put back](Slow::put_back), or
    /// [applied](Slow::apply).
    pub fn take(&mut self) -> Option<Piecework> {
        debug_assert!(self.applying.is_none(), "one change after the other");
        self.queue.pop_front()
    }

    /// Puts back what [`Slow::take`] gave.
    pub fn put_back(&mut self, piecework: Piecework) {
        self.queue.push_front(piecework);
    }

    /// Keeps a request that [`Slow::take`] gave until it is [applied whole](Slow::applied).
    pub fn apply(&mut self, received: Received) {
        self.applying = Some(received);
    }

    /// The table is whole: if that was by a registration of this queue, it is done.
    pub fn applied(&mut self) {
        if let Some(received) = self.applying.take() {
            self.done(&received);
        }
    }

    /// Lets others pass that waited for this request.
    pub fn done(&mut self, received: &Received) {
        self.bearing.remove(&received.request);
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.applying.is_none()
    }

    /// Takes out what a closed connection had asked for, but for what is being applied.
    pub fn forget(&mut self, conn: ConnKey) -> Vec<Received> {
        if !self.bearing.is_on_conn(conn) {
            return Vec::new();
        }
        let (gone, kept): (VecDeque<Piecework>, VecDeque<Piecework>) =
            std::mem::take(&mut self.queue)
                .into_iter()
                .partition(|piecework| piecework.received.request.conn == conn);
        self.queue = kept;
        let gone: Vec<Received> = gone.into_iter().map(|piecework| piecework.received).collect();
        for received in &gone {
            self.done(received);
        }
        gone
    }
}

pub(super) fn is_large(register: &RegisterRequest) -> bool {
    let at_once = match Layout::of(register.version, register.compressed, &register.body) {
        Layout::Compressed { .. } => INFLATED_AT_ONCE_BYTES,
        Layout::Json | Layout::Bare => AT_ONCE_BYTES_MAX,
    };
    register.body.len() > at_once
}

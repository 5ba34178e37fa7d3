//! Registrations too large to decode in one go, and what must not overtake them.

use std::collections::VecDeque;

use crate::ids::ConnKey;
use crate::wire::body::register::RegisterDecoder;

use super::lane::Received;
use super::registration::DECODED_AT_ONCE_BYTES;
use super::request::WriteOp;

/// A queue of requests that wait for a large registration, or are one. Its bound is that of the
/// lanes and the body budget: a request keeps its place and its lease until it is done.
#[derive(Debug, Default)]
pub(super) struct Slow {
    queue: VecDeque<Decoding>,
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
        if let WriteOp::Register(register) = &request.op {
            let same = |earlier: &Decoding| match &earlier.received.request.op {
                WriteOp::Register(other) => {
                    other.broker == register.broker && other.addr == register.addr
                }
                _ => false,
            };
            if register.body.len() > DECODED_AT_ONCE_BYTES || self.queue.iter().any(same) {
                return true;
            }
        }
        // A closed connection is acted on at once: what it still had to say no longer counts.
        !matches!(request.op, WriteOp::ConnectionClosed)
            && self.queue.iter().any(|earlier| earlier.received.request.conn == request.conn)
    }

    pub fn push(&mut self, received: Received, wall_ms: i64) {
        self.queue.push_back(Decoding { received, wall_ms, digest: 0, decoder: None });
    }

    pub fn pop(&mut self) -> Option<Decoding> {
        self.queue.pop_front()
    }

    pub fn put_back(&mut self, decoding: Decoding) {
        self.queue.push_front(decoding);
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes out what a closed connection had asked for.
    pub fn forget(&mut self, conn: ConnKey) -> impl Iterator<Item = Received> {
        let (gone, kept): (VecDeque<Decoding>, VecDeque<Decoding>) =
            std::mem::take(&mut self.queue)
                .into_iter()
                .partition(|decoding| decoding.received.request.conn == conn);
        self.queue = kept;
        gone.into_iter().map(|decoding| decoding.received)
    }
}

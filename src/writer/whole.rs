//! What happens while a large change is made in steps, and the table is not whole.
//!
//! ```text
//!   a large change begins --step--> ... --step--> whole: published, answered
//!     signs of life, KV, settings, lists: as ever
//!     other changes:          [waiting] --------> taken up, in their order
//! ```
//!
//! A change waits as long as the one before it takes, as if that had been made at once. What
//! changes no table passes, unless it comes after a waiting request that [bears on](Bearing) it.

use std::collections::VecDeque;

use crate::clock::Tick;
use crate::limits::WRITE_BATCH_MAX;

use super::bearing::Bearing;
use super::lane::Received;
use super::request::{WriteOp, WriteRequest};
use super::{Answer, Asker, Writer, is_blind, push_answer};

/// The change under way, as far as it concerns others. Bounded by the lanes: what waits counts
/// against its shard's requests.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// What is said when the table is whole.
    withheld: Option<(Asker, Answer)>,
    /// Changes that came meanwhile.
    waiting: VecDeque<Received>,
    bearing: Bearing,
}

impl Unfinished {
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn wait(&mut self, received: Received) {
        self.bearing.add(&received.request);
        self.waiting.push_back(received);
    }

    /// Whether the request comes after one that waits, or is not answered yet, and that bears on
    /// it.
    pub fn bears_on(&self, request: &WriteRequest) -> bool {
        let is_asker = |(asker, _): &(Asker, Answer)| asker.conn == request.conn;
        self.bearing.is_on(request) || self.withheld.as_ref().is_some_and(is_asker)
    }

    fn take(&mut self) -> Option<Received> {
        let received = self.waiting.pop_front()?;
        self.bearing.remove(&received.request);
        Some(received)
    }
}

impl Writer {
    /// Whether the request has to wait until the table is whole.
    pub(super) fn has_to_wait(&self, received: &Received) -> bool {
        if self.table.is_whole() && !self.unfinished.has_waiting() {
            return false;
        }
        if self.unfinished.bears_on(&received.request) {
            return true;
        }
        match &received.request.op {
            WriteOp::Heartbeat { .. }
            | WriteOp::QueryDataVersion { .. }
            | WriteOp::PutKv { .. }
            | WriteOp::DeleteKv { .. }
            | WriteOp::UpdateSettings { .. }
            | WriteOp::ListTopics(_) => false,
            WriteOp::Register(request) => {
                let digest = request.digest(self.deletes_missing(), self.digest_seed);
                self.known(request, digest).is_none()
            }
            WriteOp::Unregister { .. }
            | WriteOp::RegisterTopic { .. }
            | WriteOp::DeleteTopic { .. }
            | WriteOp::SetWritePerm { .. }
            | WriteOp::ConnectionClosed => true,
        }
    }

    /// Takes up what waited for the table to be whole, until it is not again.
    pub(super) fn take_up_waiting(&mut self, now: Tick) {
        for _ in 0..WRITE_BATCH_MAX {
            if !self.unfinished.waiting.front().is_some_and(|next| is_blind(&next.request.op)) {
                self.remove_gone();
            }
            if !self.table.is_whole() {
                return;
            }
            let Some(received) = self.unfinished.take() else {
                return;
            };
            self.apply(received, now);
        }
    }

    /// Goes on with the change under way.
    pub(super) fn step(&mut self) {
        if self.table.step() {
            self.slow.applied();
            if let Some((asker, reply)) = self.unfinished.withheld.take() {
                push_answer(&mut self.answers, asker, reply);
            }
            self.check();
        }
    }

    /// Answers a change: once it is whole, to be published in the same turn.
    pub(super) fn answer_change(&mut self, asker: Asker, reply: Answer) {
        if self.table.is_whole() {
            self.answer(asker, reply);
        } else {
            let before = self.unfinished.withheld.replace((asker, reply));
            assert!(before.is_none(), "one change after the other");
        }
    }

    /// The full sweep, where it is cheap enough for tests that drive a whole server.
    pub(super) fn check(&self) {
        #[cfg(debug_assertions)]
        if self.table.is_whole() && self.table.freeze().topic_count() < 256 {
            self.table.check_invariants();
        }
    }
}

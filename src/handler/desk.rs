//! What handlers of one shard share: the way to the writer, and small things that outlive a
//! request.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use crossbeam::utils::CachePadded;

use crate::clock::{Clock, Tick};
use crate::ids::{ConnKey, Opaque};
use crate::metrics::ShardCounters;
use crate::wire::code::response;
use crate::wire::{self, HeaderKind};
use crate::writer::lane::LaneSender;
use crate::writer::request::{WriteAnswer, WriteOp, WriteRequest};

use super::Dispatch;
use super::reply::{Reply, refuse_oversize};

/// A shard's desk. Lives: one per shard, never leaves it. Shares: its lane's ends.
#[derive(Debug)]
pub struct Desk {
    lane: LaneSender,
    /// Closed connections that the writer has not been told of, since its lane was full.
    closed: VecDeque<ConnKey>,
    header_kind: HeaderKind,
    counters: Arc<CachePadded<ShardCounters>>,
    clock: Clock,
    started: Tick,
    last_opaque: i32,
    scratch: String,
}

impl Desk {
    /// A desk that sends its writes through `lane` and writes headers as `header_kind`.
    #[must_use]
    pub fn new(
        lane: LaneSender,
        header_kind: HeaderKind,
        counters: Arc<CachePadded<ShardCounters>>,
        clock: Clock,
    ) -> Desk {
        Desk {
            lane,
            closed: VecDeque::new(),
            header_kind,
            counters,
            clock,
            started: clock.now(),
            last_opaque: 0,
            scratch: String::new(),
        }
    }

    /// An answer of the writer came for a connection that is gone.
    pub fn lost(&mut self) {
        self.lane.answered();
    }

    /// Appends an answer of the writer to the output of the connection that asked.
    pub fn answer(&mut self, answer: &WriteAnswer, out: &mut Vec<u8>) {
        self.lane.answered();
        let ext: Option<Vec<(&str, &str)>> = answer
            .ext
            .as_ref()
            .map(|fields| fields.iter().map(|(name, value)| (*name, value.as_str())).collect());
        let head = wire::ReplyHead {
            code: answer.code,
            opaque: answer.opaque,
            remark: answer.remark.as_deref(),
            ext: ext.as_deref(),
        };
        let before = out.len();
        let open = head.begin(self.header_kind, out);
        out.extend_from_slice(&answer.body);
        open.finish(out);
        refuse_oversize(self.header_kind, answer.opaque, before, out);
    }

    /// Tells the writer, now or at a later [`Desk::flush_closed`], that a connection that sent it
    /// anything is gone.
    pub fn closed(&mut self, conn: ConnKey) {
        self.closed.push_back(conn);
        self.flush_closed();
    }

    /// Tries again to tell the writer of closed connections; whether some are left.
    pub fn flush_closed(&mut self) -> bool {
        while let Some(conn) = self.closed.pop_front() {
            let event = WriteRequest { conn, reply_to: None, op: WriteOp::ConnectionClosed };
            if self.lane.try_send(event).is_err() {
                self.closed.push_front(conn);
                return true;
            }
        }
        false
    }

    /// Whether request bodies with the writer exceed their budget.
    #[must_use]
    pub fn over_budget(&self) -> bool {
        self.lane.over_budget()
    }

    pub(super) fn count_forbidden(&self) {
        self.counters.forbidden.add(1);
    }

    pub(super) fn header_kind(&self) -> HeaderKind {
        self.header_kind
    }

    pub(super) fn invent_opaque(&mut self) -> Opaque {
        self.last_opaque = self.last_opaque.wrapping_add(1);
        Opaque(self.last_opaque)
    }

    /// Milliseconds since the shard started.
    pub(super) fn uptime_ms(&self) -> u64 {
        self.clock.now().since_ms(self.started)
    }

    /// A text made of parts, in a buffer that is used again, so that refusing costs no allocation.
    pub(super) fn text(&mut self, parts: std::fmt::Arguments<'_>) -> &str {
        self.scratch.clear();
        // Writing to a string does not fail.
        let _ = self.scratch.write_fmt(parts);
        &self.scratch
    }

    /// Hands an operation to the writer. A full lane answers "busy" at once, and nothing has been
    /// done.
    pub(super) fn submit(&mut self, conn: ConnKey, reply: Reply<'_>, op: WriteOp) -> Dispatch {
        let reply_to = reply.address();
        // Closed connections go first, or a full lane would never let them in.
        if self.flush_closed() {
            return self.busy(reply);
        }
        match self.lane.try_send(WriteRequest { conn, reply_to, op }) {
            Ok(()) if reply_to.is_some() => Dispatch::Owed,
            Ok(()) => Dispatch::Sent,
            Err(_) => self.busy(reply),
        }
    }

    fn busy(&self, mut reply: Reply<'_>) -> Dispatch {
        self.counters.writer_busy.add(1);
        let remark = "[OVERLOAD]system busy, start flow control for a while";
        reply.fail(response::SYSTEM_BUSY, remark);
        Dispatch::Done
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ids::ShardId;
    use crate::limits::FRAME_BYTES_MAX;
    use crate::wire::{Command, frame};
    use crate::writer::lane::lanes;

    /// What a peer gets if the writer answers with a body of so many bytes.
    fn answered(body_bytes: usize) -> (i32, usize) {
        let conn = ConnKey { shard: ShardId(0), slot: 0, generation: 0 };
        let (mut senders, _writer) = lanes(1, Arc::new(|| ()));
        let lane = senders.remove(0);
        let op = WriteOp::ConnectionClosed;
        lane.try_send(WriteRequest { conn, reply_to: Some(Opaque(7)), op }).expect("room");
        let mut desk = Desk::new(lane, HeaderKind::Json, Arc::default(), Clock::start());
        let answer = WriteAnswer {
            conn,
            opaque: Opaque(7),
            code: 0,
            remark: None,
            ext: Some(vec![("masterAddr", "10.0.0.1:10911".to_owned())]),
            body: Bytes::from(vec![b'x'; body_bytes]),
        };
        let mut out = b"before".to_vec();
        desk.answer(&answer, &mut out);
        let head = frame::next(&out[6..]).expect("a frame that is taken").expect("whole");
        let command = Command::decode(&head, &out[6..], None).expect("decodes");
        assert_eq!(command.opaque, Some(Opaque(7)));
        (command.code, out.len() - 6)
    }

    #[test]
    fn an_answer_beyond_a_frame_is_refused_in_words() {
        let (code, bytes) = answered(FRAME_BYTES_MAX - 1024);
        assert_eq!(code, 0);
        let header_bytes = bytes - (FRAME_BYTES_MAX - 1024);
        assert_eq!(answered(FRAME_BYTES_MAX - header_bytes), (0, FRAME_BYTES_MAX));
        let (code, bytes) = answered(FRAME_BYTES_MAX - header_bytes + 1);
        assert_eq!(code, response::SYSTEM_ERROR);
        assert!(bytes < 1000, "{bytes}");
    }
}

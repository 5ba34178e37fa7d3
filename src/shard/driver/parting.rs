//! Closing a connection on which unread bytes wait, or come later.
//!
//! A close would then reset it, and the reset may overtake, or make the peer's host throw away, the
//! answers that were sent before. So our side is closed first; what still comes is thrown away
//! until the peer closes its side, too, or [`PARTING_MS`] are over. At a stop that goes for all who
//! were ever answered: the next query or heartbeat may be under way on any connection.

use super::{Driver, Reason, seat_mut};
use crate::limits::PARTING_MS;
use crate::ring::Key;
use crate::shard::service::Service;

impl<S: Service> Driver<S> {
    /// The peer has closed its side.
    pub(super) fn ended(&mut self, key: Key) {
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        seat.ended = true;
        if seat.parting { self.close(key, Reason::Peer) } else { self.leave(key, Reason::Peer) }
    }

    /// Ends a connection that has been sent all it was owed.
    pub(super) fn part(&mut self, key: Key, reason: Reason) {
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        let unread = match reason {
            Reason::Malformed
            | Reason::Foreign
            | Reason::Proxy
            | Reason::Plain
            | Reason::Tls
            | Reason::Shutdown => true,
            // The peer has said its last word; or it gets none.
            Reason::Peer | Reason::Idle | Reason::Expired | Reason::OverBudget => false,
        };
        if !unread || !seat.spoke || seat.ended {
            return self.close(key, reason);
        }
        seat.parting = true;
        self.ring.finish(key);
        self.ring.resume(key);
        if reason == Reason::Shutdown {
            self.limit_parting(key);
        }
    }

    /// Bounds the time until a connection is closed: of one at fault, whatever it is owed; at a
    /// stop, from its last answer on.
    pub(super) fn limit_parting(&mut self, key: Key) {
        if seat_mut(&mut self.seats, key).is_some() {
            let at = self.now.after_ms(PARTING_MS);
            self.partings.push_back((at, key));
            self.alarm(at);
        }
    }

    /// Closes those whose time is over.
    pub(super) fn close_parted(&mut self) {
        while let Some((_, key)) = self.partings.pop_front_if(|(at, _)| *at <= self.now) {
            let Some(seat) = seat_mut(&mut self.seats, key) else { continue };
            if let Some(reason) = seat.leaving {
                self.close(key, reason);
            }
        }
    }
}

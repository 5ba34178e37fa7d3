//! Who is alive: each registered broker's last sign of life, its timeout, and the connection it
//! came over.
//!
//! A broker is overdue when `last seen + timeout < now` (Java:
//! `RouteInfoManager.scanNotActiveBroker`). Nothing here removes one by itself: the writer takes
//! the overdue ones and decides.
//!
//! ```text
//! seen      --> entry.last_seen, O(1): the queue of deadlines is not touched
//! expired   --> due deadlines only: overdue, or armed again at where the last sign moved it
//! ```
//!
//! **Never:** reads a clock, knows routes, walks all brokers.

mod deadlines;

use std::collections::{BTreeSet, HashMap};

use smallvec::SmallVec;

use self::deadlines::Deadlines;
use crate::clock::Tick;
use crate::ids::{ConnKey, MemberKey};

/// All live members. Lives: writer core only. Shares: nothing.
#[derive(Debug, Default)]
pub struct Liveness {
    entries: HashMap<MemberKey, Entry, ahash::RandomState>,
    /// The same members by connection: one connection may carry many (BrokerContainer).
    by_conn: BTreeSet<(ConnKey, MemberKey)>,
    /// One armed deadline a member, never later than its real one.
    deadlines: Deadlines,
}

#[derive(Debug)]
struct Entry {
    conn: ConnKey,
    timeout_ms: u64,
    last_seen: Tick,
    /// Where [`Deadlines`] holds this member: `armed <= last_seen + timeout_ms`.
    armed: Tick,
}

impl Entry {
    fn deadline(&self) -> Tick {
        self.last_seen.after_ms(self.timeout_ms)
    }
}

impl Liveness {
    /// Nobody is alive.
    #[must_use]
    pub fn new() -> Liveness {
        Liveness::default()
    }

    /// `member` registered over `conn` at `now`: replaces what was known of it, its connection
    /// included.
    pub fn register(&mut self, member: MemberKey, conn: ConnKey, timeout_ms: u64, now: Tick) {
        // A broker whose clock argument went back must not end up due before its armed deadline.
        let last_seen = self.entries.get(&member).map_or(now, |old| old.last_seen.max(now));
        self.remove(member);
        let armed = last_seen.after_ms(timeout_ms);
        self.deadlines.arm(armed, member);
        self.by_conn.insert((conn, member));
        self.entries.insert(member, Entry { conn, timeout_ms, last_seen, armed });
    }

    /// A sign of life. False if the member is not known.
    pub fn seen(&mut self, member: MemberKey, now: Tick) -> bool {
        let Some(entry) = self.entries.get_mut(&member) else { return false };
        entry.last_seen = entry.last_seen.max(now);
        debug_assert!(entry.armed <= entry.deadline());
        true
    }

    /// Forgets `member` and returns the connection it was registered over.
    pub fn remove(&mut self, member: MemberKey) -> Option<ConnKey> {
        let entry = self.entries.remove(&member)?;
        let armed = self.deadlines.disarm(entry.armed, member);
        let listed = self.by_conn.remove(&(entry.conn, member));
        debug_assert!(armed && listed, "the three indexes hold the same members");
        Some(entry.conn)
    }

    /// All members registered over `conn`: all of them are gone when it closes (Java finds only the
    /// first).
    #[must_use]
    pub fn on_connection(&self, conn: ConnKey) -> SmallVec<[MemberKey; 4]> {
        let first = MemberKey { slot: 0, generation: 0 };
        let last = MemberKey { slot: u32::MAX, generation: u32::MAX };
        self.by_conn.range((conn, first)..=(conn, last)).map(|(_, member)| *member).collect()
    }

    /// How long `member` may be silent, in milliseconds.
    #[must_use]
    pub fn timeout_ms(&self, member: MemberKey) -> Option<u64> {
        self.entries.get(&member).map(|entry| entry.timeout_ms)
    }

    /// The connection over which `member` registered last.
    #[cfg(test)]
    pub fn conn_of(&self, member: MemberKey) -> Option<ConnKey> {
        self.entries.get(&member).map(|entry| entry.conn)
    }

    /// Appends the members that are overdue at `now`, the longest overdue first; each call names
    /// them again until they are removed. Costs the deadlines that passed since they were armed, at
    /// most one a member and timeout.
    pub fn expired(&mut self, now: Tick, out: &mut Vec<MemberKey>) {
        let first = out.len();
        for member in self.deadlines.take_before(now) {
            let Some(entry) = self.entries.get_mut(&member) else {
                debug_assert!(false, "a deadline without a member");
                continue;
            };
            entry.armed = entry.deadline();
            self.deadlines.arm(entry.armed, member);
            if entry.armed < now {
                out.push(member);
            }
        }
        out[first..].sort_by_key(|member| self.entries[member].armed);
    }

    /// Before or at this tick nobody becomes overdue; after it somebody may, so ask
    /// [`Liveness::expired`] then. It lies in the past while overdue members have not been removed.
    /// `None` if nobody is alive.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Tick> {
        self.deadlines.first()
    }

    /// Members that are known, overdue ones included.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if nobody is known.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests;

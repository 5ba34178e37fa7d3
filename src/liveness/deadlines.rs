//! The queue of armed deadlines.

use std::collections::BTreeSet;

use crate::clock::Tick;
use crate::ids::MemberKey;

/// Members ordered by the tick at which somebody has to look at them again: one entry a member, so
/// that it never holds more than there are members, whatever they send.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    queue: BTreeSet<(Tick, MemberKey)>,
}

impl Deadlines {
    pub(super) fn arm(&mut self, at: Tick, member: MemberKey) {
        self.queue.insert((at, member));
    }

    /// True if the member was armed at `at`.
    pub(super) fn disarm(&mut self, at: Tick, member: MemberKey) -> bool {
        self.queue.remove(&(at, member))
    }

    pub(super) fn first(&self) -> Option<Tick> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes out all members armed before `now`, not those armed at `now`. Costs what it takes out.
    pub(super) fn take_before(&mut self, now: Tick) -> Vec<MemberKey> {
        let mut due = Vec::new();
        while let Some(first) = self.queue.first()
            && first.0 < now
        {
            due.extend(self.queue.pop_first().map(|(_, member)| member));
        }
        due
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (Tick, MemberKey)> + '_ {
        self.queue.iter().copied()
    }
}

//! One topic with its queues on each group, in as few bytes as will do: there are millions.
//!
//! ```text
//! name | number u32, its highest bit: is mapped | group, group, ...
//!
//! usual group:  slot u16 | perm u8 | flag u8 | read u8 | write u8
//! any other:    0xffff   | slot u32 | perm i32 | flag i32 | read i32 | write i32
//! ```

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use crate::model::Queues;

use super::name_map::OwnRecord;
pub use super::name_map::Record as TopicRoute;
use super::view::GroupSlot;

/// A topic's number on the writer, for compact sets of topics: below 2^31.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TopicNumber(pub(super) u32);

/// A topic's queues on one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupQueues {
    /// The group.
    pub(super) slot: GroupSlot,
    /// Its queues of the topic.
    pub(super) queues: Queues,
}

/// A list of groups that is changed.
pub(super) type GroupList = SmallVec<[GroupQueues; 8]>;

/// Set for a static topic: its mappings are in `RouteView::mappings`.
const MAPPED: u32 = 1 << 31;
/// Stands where a usual group has its slot.
const WIDE: u16 = u16::MAX;

/// A topic to be put into the table.
pub(super) fn record(
    number: TopicNumber,
    name: &[u8],
    is_mapped: bool,
    groups: &[GroupQueues],
) -> OwnRecord {
    assert!(number.0 < MAPPED, "fewer topics than 2^31");
    let mut record = OwnRecord::named(name);
    let mapped = if is_mapped { MAPPED } else { 0 };
    record.put(&(number.0 | mapped).to_le_bytes());
    groups.iter().for_each(|group| put_group(&mut record, group));
    record
}

impl<'a> TopicRoute<'a> {
    /// The same topic with other groups.
    pub(super) fn with(self, is_mapped: bool, groups: &[GroupQueues]) -> OwnRecord {
        record(self.number(), self.name, is_mapped, groups)
    }

    #[inline]
    fn parts(self) -> (u32, &'a [u8]) {
        let (number, groups) = self.content.split_first_chunk().expect("a topic has a number");
        (u32::from_le_bytes(*number), groups)
    }

    pub(super) fn number(self) -> TopicNumber {
        TopicNumber(self.parts().0 & !MAPPED)
    }

    /// Whether it has mappings, as a static topic.
    pub(super) fn is_mapped(self) -> bool {
        self.parts().0 & MAPPED != 0
    }

    /// The groups that serve it, in the order they came.
    #[inline]
    pub(super) fn groups(self) -> Groups<'a> {
        Groups(self.parts().1)
    }

    /// The queues on one group.
    pub(super) fn on(self, slot: GroupSlot) -> Option<Queues> {
        self.groups().find(|group| group.slot == slot).map(|group| group.queues)
    }

    /// The name, for people.
    pub(super) fn text(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.name)
    }
}

impl fmt::Debug for TopicRoute<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TopicRoute").field(&self.text()).finish()
    }
}

fn put_group(out: &mut OwnRecord, group: &GroupQueues) {
    let GroupQueues { slot: GroupSlot(slot), queues } = *group;
    let Queues { read, write, perm, sys_flag } = queues;
    let usual = (|| {
        let slot = u16::try_from(slot).ok().filter(|slot| *slot != WIDE)?;
        let [low, high] = slot.to_le_bytes();
        let byte = |number: i32| u8::try_from(number).ok();
        Some([low, high, byte(perm)?, byte(sys_flag)?, byte(read)?, byte(write)?])
    })();
    if let Some(usual) = usual {
        return out.put(&usual);
    }
    out.put(&WIDE.to_le_bytes());
    out.put(&slot.to_le_bytes());
    for number in [perm, sys_flag, read, write] {
        out.put(&number.to_le_bytes());
    }
}

/// See [`TopicRoute::groups`].
#[derive(Clone, Debug)]
pub(super) struct Groups<'a>(&'a [u8]);

impl Iterator for Groups<'_> {
    type Item = GroupQueues;

    #[inline]
    fn next(&mut self) -> Option<GroupQueues> {
        let (&[low, high, perm, flag, read, write], rest) = self.0.split_first_chunk()?;
        let slot = u16::from_le_bytes([low, high]);
        if slot == WIDE {
            return self.wide();
        }
        self.0 = rest;
        let [perm, sys_flag, read, write] = [perm, flag, read, write].map(i32::from);
        let slot = GroupSlot(slot.into());
        Some(GroupQueues { slot, queues: Queues { read, write, perm, sys_flag } })
    }
}

impl Groups<'_> {
    #[cold]
    fn wide(&mut self) -> Option<GroupQueues> {
        let (wide, rest) = self.0.get(2..)?.split_first_chunk::<20>()?;
        self.0 = rest;
        let ([slot, perm, flag, read, write], _) = wide.as_chunks::<4>() else { return None };
        let [perm, sys_flag, read, write] =
            [perm, flag, read, write].map(|n| i32::from_le_bytes(*n));
        let slot = GroupSlot(u32::from_le_bytes(*slot));
        Some(GroupQueues { slot, queues: Queues { read, write, perm, sys_flag } })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = i32> {
        prop_oneof![4 => 0..=256i32, 1 => any::<i32>()]
    }

    fn group() -> impl Strategy<Value = GroupQueues> {
        let slot = prop_oneof![4 => 0..300u32, 1 => 65_530..65_540u32, 1 => any::<u32>()];
        (slot, number(), number(), number(), number()).prop_map(
            |(slot, read, write, perm, flag)| {
                let queues = Queues { read, write, perm, sys_flag: flag };
                GroupQueues { slot: GroupSlot(slot), queues }
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_put_in_is_there(
            name in any::<String>(),
            number in 0..MAPPED,
            is_mapped in any::<bool>(),
            groups in prop::collection::vec(group(), 0..20),
        ) {
            let record = record(TopicNumber(number), name.as_bytes(), is_mapped, &groups);
            let route = record.get();
            prop_assert_eq!(route.name, name.as_bytes());
            prop_assert_eq!(route.number(), TopicNumber(number));
            prop_assert_eq!(route.is_mapped(), is_mapped);
            prop_assert_eq!(route.groups().collect::<Vec<_>>(), groups);
        }
    }

    #[test]
    fn a_usual_group_takes_six_bytes() {
        let queues = Queues { read: 255, write: 8, perm: 6, sys_flag: 0 };
        let usual = GroupQueues { slot: GroupSlot(65_534), queues };
        let three = record(TopicNumber(0), b"T", false, &[usual; 3]);
        assert_eq!(three.get().content.len(), 4 + 3 * 6);
        let wide = GroupQueues { queues: Queues { read: 256, ..queues }, ..usual };
        assert_eq!(three.get().with(false, &[wide]).get().content.len(), 4 + 22);
    }
}

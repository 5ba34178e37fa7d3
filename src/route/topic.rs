//! One topic with its queues on each group, in as few bytes as will do: there are millions.
//!
//! ```text
//! counts | number u32 | name length u32 | name | group, group, ...
//!
//! usual group:  slot u16 | perm u8 | flag u8 | read u8 | write u8
//! any other:    0xffff   | slot u32 | perm i32 | flag i32 | read i32 | write i32
//! ```

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;
use triomphe::ThinArc;

use crate::model::Queues;

use super::name_map::Named;
use super::view::GroupSlot;

/// A topic's number on the writer, for compact sets of topics.
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

/// One topic: a counted pointer to one allocation.
#[derive(Clone)]
pub struct TopicRoute(ThinArc<Head, u8>);

#[derive(Debug)]
struct Head {
    number: TopicNumber,
    /// Bytes of the name, and [`MAPPED`].
    name: u32,
}

/// Set for a static topic: its mappings are in `RouteView::mappings`.
const MAPPED: u32 = 1 << 31;
/// Stands where a usual group has its slot.
const WIDE: u16 = u16::MAX;

impl TopicRoute {
    pub(super) fn new(
        number: TopicNumber,
        name: &[u8],
        is_mapped: bool,
        groups: &[GroupQueues],
    ) -> TopicRoute {
        let bytes = u32::try_from(name.len()).ok().filter(|bytes| *bytes < MAPPED);
        let bytes = bytes.expect("a name comes in a frame");
        let mut all: SmallVec<[u8; 256]> = SmallVec::from_slice(name);
        for group in groups {
            put_group(&mut all, group);
        }
        let head = Head { number, name: bytes | if is_mapped { MAPPED } else { 0 } };
        TopicRoute(ThinArc::from_header_and_slice(head, &all))
    }

    /// The same topic with other groups.
    pub(super) fn with(&self, is_mapped: bool, groups: &[GroupQueues]) -> TopicRoute {
        TopicRoute::new(self.number(), self.name(), is_mapped, groups)
    }

    pub(super) fn number(&self) -> TopicNumber {
        self.0.header.header.number
    }

    /// Whether it has mappings, as a static topic.
    pub(super) fn is_mapped(&self) -> bool {
        self.0.header.header.name & MAPPED != 0
    }

    /// The groups that serve it, in the order they came.
    #[inline]
    pub(super) fn groups(&self) -> Groups<'_> {
        Groups(&self.0.slice[self.name_bytes()..])
    }

    /// The queues on one group.
    pub(super) fn on(&self, slot: GroupSlot) -> Option<Queues> {
        self.groups().find(|group| group.slot == slot).map(|group| group.queues)
    }

    /// The name, for people.
    pub(super) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.name())
    }

    #[inline]
    fn name_bytes(&self) -> usize {
        (self.0.header.header.name & !MAPPED) as usize
    }
}

impl Named for TopicRoute {
    #[inline]
    fn name(&self) -> &[u8] {
        &self.0.slice[..self.name_bytes()]
    }

    /// The last byte: the first ones are read on the way to it.
    #[inline]
    fn touch(&self) -> u8 {
        self.0.slice.last().copied().unwrap_or_default()
    }
}

impl fmt::Debug for TopicRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TopicRoute").field(&self.text()).finish()
    }
}

fn put_group(out: &mut SmallVec<[u8; 256]>, group: &GroupQueues) {
    let GroupQueues { slot: GroupSlot(slot), queues } = *group;
    let Queues { read, write, perm, sys_flag } = queues;
    let usual = (|| {
        let slot = u16::try_from(slot).ok().filter(|slot| *slot != WIDE)?;
        let [low, high] = slot.to_le_bytes();
        let byte = |number: i32| u8::try_from(number).ok();
        Some([low, high, byte(perm)?, byte(sys_flag)?, byte(read)?, byte(write)?])
    })();
    if let Some(usual) = usual {
        return out.extend_from_slice(&usual);
    }
    out.extend_from_slice(&WIDE.to_le_bytes());
    out.extend_from_slice(&slot.to_le_bytes());
    for number in [perm, sys_flag, read, write] {
        out.extend_from_slice(&number.to_le_bytes());
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
            number in any::<u32>(),
            is_mapped in any::<bool>(),
            groups in prop::collection::vec(group(), 0..20),
        ) {
            let route = TopicRoute::new(TopicNumber(number), name.as_bytes(), is_mapped, &groups);
            prop_assert_eq!(route.name(), name.as_bytes());
            prop_assert_eq!(route.number(), TopicNumber(number));
            prop_assert_eq!(route.is_mapped(), is_mapped);
            prop_assert_eq!(route.groups().collect::<Vec<_>>(), groups);
        }
    }

    #[test]
    fn a_usual_group_takes_six_bytes() {
        let queues = Queues { read: 255, write: 8, perm: 6, sys_flag: 0 };
        let usual = GroupQueues { slot: GroupSlot(65_534), queues };
        let route = TopicRoute::new(TopicNumber(0), b"T", false, &[usual; 3]);
        assert_eq!(route.0.slice.len(), 1 + 3 * 6);
        let wide = GroupQueues { queues: Queues { read: 256, ..queues }, ..usual };
        let route = route.with(false, &[wide]);
        assert_eq!(route.0.slice.len(), 1 + 22);
    }
}

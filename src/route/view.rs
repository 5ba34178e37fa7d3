//! The frozen form of the table: what a reader looks things up in.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::RandomState;
use imbl::shared_ptr::DefaultSharedPtr;
use triomphe::ThinArc;

use crate::ids::{BrokerName, ClusterName, Topic};
use crate::model::{QueueMapping, Queues};

use super::fragment::Group;
use super::name_map::{NameMap, Named};

/// Topics by name.
pub(super) type TopicMap = NameMap<TopicRoute>;
/// Slots of groups by name. Keyed hashing, since names come from peers.
pub(super) type GroupMap =
    imbl::GenericHashMap<BrokerName, GroupSlot, RandomState, DefaultSharedPtr>;
/// Names of groups by cluster.
pub(super) type ClusterMap = imbl::OrdMap<ClusterName, Arc<BTreeSet<BrokerName>>>;
/// Groups by slot. Copied when a group changes: one pointer a group.
pub(super) type GroupSlots = Arc<Vec<Option<Arc<Group>>>>;

/// Index of a group; used again when the group is gone, and then no topic names it any more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupSlot(pub(super) u32);

impl GroupSlot {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A topic's number on the writer, for compact sets of topics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TopicNumber(pub(super) u32);

/// A topic's queues on one group: 20 bytes, the unit in which memory grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupQueues {
    /// The group.
    pub(super) slot: GroupSlot,
    /// Its queues of the topic.
    pub(super) queues: Queues,
}

/// What all groups of a topic share.
#[derive(Debug)]
pub(super) struct TopicHead {
    pub(super) name: Topic,
    pub(super) number: TopicNumber,
    /// Parts of a static topic by group name, ascending; rare, so behind a pointer.
    pub(super) mappings: Option<Arc<Vec<QueueMapping>>>,
}

/// One topic: a counted pointer to a head and a slice, in one allocation.
#[derive(Clone, Debug)]
pub struct TopicRoute(ThinArc<TopicHead, GroupQueues>);

impl TopicRoute {
    pub(super) fn new(head: TopicHead, groups: &[GroupQueues]) -> TopicRoute {
        TopicRoute(ThinArc::from_header_and_slice(head, groups))
    }

    pub(super) fn topic(&self) -> &Topic {
        &self.0.header.header.name
    }

    pub(super) fn number(&self) -> TopicNumber {
        self.0.header.header.number
    }

    pub(super) fn mappings(&self) -> Option<&Arc<Vec<QueueMapping>>> {
        self.0.header.header.mappings.as_ref()
    }

    pub(super) fn groups(&self) -> &[GroupQueues] {
        &self.0.slice
    }

    pub(super) fn on(&self, slot: GroupSlot) -> Option<&GroupQueues> {
        self.groups().iter().find(|group| group.slot == slot)
    }
}

impl Named for TopicRoute {
    fn name(&self) -> &str {
        self.topic()
    }
}

/// Topics, groups and clusters at one moment. Cloning it copies pointers only.
#[derive(Clone, Debug, Default)]
pub struct RouteView {
    pub(super) topics: TopicMap,
    pub(super) slots: GroupSlots,
    pub(super) groups: GroupMap,
    pub(super) clusters: ClusterMap,
}

impl RouteView {
    /// The topic's route, if it has one.
    #[must_use]
    pub fn topic(&self, topic: &str) -> Option<&TopicRoute> {
        self.topics.get(topic)
    }

    /// The group of that name.
    #[must_use]
    pub fn group(&self, broker: &str) -> Option<&Group> {
        self.groups.get(broker).map(|slot| self.at(*slot))
    }

    /// Topics in the table.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// Groups in the table.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// The group in `slot`, which a topic or a name pointed to.
    pub(super) fn at(&self, slot: GroupSlot) -> &Group {
        self.slots[slot.index()].as_deref().expect("a slot that is pointed to is filled")
    }
}

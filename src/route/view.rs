//! The frozen form of the table: what a reader looks things up in.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::RandomState;
use imbl::shared_ptr::DefaultSharedPtr;

use crate::ids::{BrokerName, ClusterName};
use crate::model::QueueMapping;

use super::fragment::Group;
use super::name_map::NameMap;
use super::topic::TopicRoute;

/// Topics by name.
pub(super) type TopicMap = NameMap;
/// Slots of groups by name. Keyed hashing, since names come from peers.
pub(super) type GroupMap =
    imbl::GenericHashMap<BrokerName, GroupSlot, RandomState, DefaultSharedPtr>;
/// Names of groups by cluster.
pub(super) type ClusterMap = imbl::OrdMap<ClusterName, Arc<BTreeSet<BrokerName>>>;
/// Parts of static topics by the topic's number: rare, so not with the topic. Those of one topic
/// are by group name, ascending.
pub(super) type MappingMap = imbl::OrdMap<u32, Arc<Vec<QueueMapping>>>;
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

/// Topics, groups and clusters at one moment. Cloning it copies pointers only.
#[derive(Clone, Debug, Default)]
pub struct RouteView {
    pub(super) topics: TopicMap,
    pub(super) mappings: MappingMap,
    pub(super) slots: GroupSlots,
    pub(super) groups: GroupMap,
    pub(super) clusters: ClusterMap,
}

/// Topics from which on [`RouteView::fetch`] is of use: a core's own caches do not hold so many.
const TOPICS_FETCHED_MIN: usize = 32_768;

impl RouteView {
    /// Whether it is worth fetching topics before they are looked up.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.topics.len() >= TOPICS_FETCHED_MIN
    }

    /// Gets what is read of these topics into the caches, for all of them at a time. The topics
    /// may be of any name.
    pub fn fetch(&self, topics: &[&[u8]]) {
        self.topics.fetch(topics);
    }

    /// The topic's route, if it has one.
    #[must_use]
    pub fn topic(&self, topic: &str) -> Option<TopicRoute<'_>> {
        self.topics.get(topic)
    }

    /// The parts of a static topic.
    pub(super) fn mappings_of(&self, route: TopicRoute<'_>) -> &[QueueMapping] {
        if !route.is_mapped() {
            return &[];
        }
        self.mappings.get(&route.number().0).map_or(&[], |mappings| mappings)
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

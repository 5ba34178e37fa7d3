//! Changes that name topics or perms instead of brokers: codes 216, 217, 205, 327.

use crate::ids::Topic;
use crate::model::QueueData;

use super::steps::PermChange;
use super::table::RouteTable;
use super::view::GroupSlot;

impl RouteTable {
    /// Deletes a topic, on the groups of one cluster or everywhere (code 216). Comes back with the
    /// next registration of a broker that still has it.
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let Some(route) = self.view.topics.get(topic) else {
            return;
        };
        let number = route.number();
        let names = cluster.map(|cluster| self.view.clusters.get(cluster));
        let leaves = |slot: &GroupSlot| match names {
            None => true,
            Some(names) => names.is_some_and(|names| names.contains(&self.view.at(*slot).name)),
        };
        let mut slots: Vec<GroupSlot> =
            route.groups().map(|group| group.slot).filter(leaves).collect();
        slots.sort_unstable();
        if !slots.is_empty() {
            self.begin(1);
            self.drop_queues(number, &slots);
        }
    }

    /// Stores queues of a topic (code 217). Nothing is stored unless every group named is
    /// registered; Java stores those before the first unknown one if it knows the topic. Whether it
    /// was stored.
    pub fn register_topic(&mut self, topic: &Topic, queues: &[QueueData]) -> bool {
        let find = |data: &QueueData| self.view.groups.get(&data.broker).copied();
        let Some(slots) = queues.iter().map(find).collect::<Option<Vec<GroupSlot>>>() else {
            return false;
        };
        self.begin(1);
        for (slot, data) in slots.into_iter().zip(queues) {
            self.put_queues(topic, slot, data.queues);
        }
        true
    }

    /// Takes the write permission from all topics of a group (code 205), or sets read and write and
    /// nothing else (code 327, as Java does). Lasts until a registration with another data version.
    /// Returns the number of topics.
    pub fn set_write_perm(&mut self, broker: &str, on: bool) -> u64 {
        let Some(slot) = self.view.groups.get(broker).copied() else {
            return 0;
        };
        let topics = self.states[slot.index()].topics.len();
        self.begin(usize::try_from(topics).unwrap_or(usize::MAX));
        let count = self.change_perms(slot, PermChange::Operator { on });
        self.begun();
        count
    }
}

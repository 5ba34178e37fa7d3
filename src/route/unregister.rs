//! Brokers that go: unregistered (code 104), silent for too long, or their connection closed (Java:
//! `RouteInfoManager.unRegisterBroker`).

use smallvec::SmallVec;

use crate::ids::MemberKey;
use crate::model::perm;

use super::change::Departure;
use super::fragment::GroupParts;
use super::table::RouteTable;
use super::topic::TopicNumber;
use super::view::GroupSlot;

impl RouteTable {
    /// Removes the broker that holds this address in this group, under whatever cluster it
    /// registered.
    pub fn unregister(&mut self, departure: &Departure) -> Option<MemberKey> {
        let slot = *self.view.groups.get(&departure.broker)?;
        let key = self.member_of(slot, &departure.addr)?;
        self.remove_members(&[key]);
        Some(key)
    }

    /// Removes brokers in one step: what their groups lose is settled once, however many go.
    pub fn remove_members(&mut self, keys: &[MemberKey]) {
        let smallest = self.smallest_among(keys);
        self.forget_members(keys);
        for (slot, offline) in smallest {
            self.note_removed(slot, offline);
        }
    }

    /// As [`RouteTable::remove_members`], but without a notice.
    pub(super) fn forget_members(&mut self, keys: &[MemberKey]) {
        let mut reduced: SmallVec<[GroupSlot; 4]> = SmallVec::new();
        for key in keys {
            let Some(member) = self.take_member(*key) else {
                continue;
            };
            self.states[member.slot.index()].members.retain(|(_, other)| other != key);
            reduced.push(member.slot);
        }
        reduced.sort_unstable();
        reduced.dedup();
        let is_empty = |slot: &GroupSlot| self.states[slot.index()].members.is_empty();
        let (mut empty, reduced): (Vec<GroupSlot>, Vec<GroupSlot>) =
            reduced.into_iter().partition(is_empty);
        self.remove_groups(&mut empty);
        for slot in reduced {
            self.settle(slot);
        }
    }

    /// Brings a group that lost members, not all of them, into its new shape.
    fn settle(&mut self, slot: GroupSlot) {
        let group = self.view.at(slot);
        let parts = GroupParts {
            name: group.name.clone(),
            cluster: group.cluster.clone(),
            zone: group.zone.clone(),
            acting_master: group.acting_master,
            addrs: Vec::new(),
            filters: Vec::new(),
        };
        self.show_group(slot, parts);
        if self.view.at(slot).is_masterless_acting() {
            self.change_perms(slot, |bits| bits & !perm::WRITE);
        }
    }

    /// Changes the perm of each topic on a group; returns how many topics that are, changed or not.
    pub(super) fn change_perms(&mut self, slot: GroupSlot, change: impl Fn(i32) -> i32) -> u64 {
        let numbers = self.states[slot.index()].topics.clone();
        for number in &numbers {
            let route = self.topic_of(TopicNumber(number)).to_owned();
            let route = route.get();
            let mut queues = route.on(slot).expect("a group's topic has its queues");
            queues.perm = change(queues.perm);
            self.set_queues(route, slot, queues);
        }
        numbers.len()
    }
}

//! The mutable table: storage and the few steps that every rule is made of. The rules are in the
//! sibling modules.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use roaring::RoaringBitmap;
use smallvec::SmallVec;

use crate::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName, MemberKey, Topic};
use crate::model::{DataVersion, Notice, Queues};

use super::fragment::{Group, GroupParts};
use super::name_map::Place;
use super::steps::{Job, Steps};
use super::topic::{self, GroupList, GroupQueues, TopicNumber, TopicRoute};
use super::view::{GroupSlot, RouteView};

/// Who serves which topic. Lives: writer core only. Shares: frozen copies of `view`.
#[derive(Debug, Default)]
pub struct RouteTable {
    pub(super) view: RouteView,
    /// What only the writer knows of each group, by slot.
    pub(super) states: Vec<GroupState>,
    free_slots: Vec<GroupSlot>,
    /// Where topics are, by their numbers, those in `free_numbers` excepted.
    topic_places: Vec<Place>,
    pub(super) free_numbers: Vec<TopicNumber>,
    pub(super) members: Vec<MemberSlot>,
    free_members: Vec<u32>,
    pub(super) by_addr: AddrIndex,
    /// Whether `view` differs from what was last published, or from what is shown until the change
    /// under way is whole.
    pub(super) changed: bool,
    pub(super) steps: Steps,
    /// See [`RouteTable::take_notices`].
    pub(super) notices: Vec<Notice>,
}

/// Registered brokers by what codes 322 and 904 name them by. Several only if groups share an
/// address.
pub(super) type AddrIndex = HashMap<ClusterName, AddrMembers, RandomState>;
type AddrMembers = HashMap<BrokerAddr, SmallVec<[MemberKey; 1]>, RandomState>;

/// What only the writer knows of a group.
#[derive(Debug, Default)]
pub(super) struct GroupState {
    /// Members by ascending id, in step with [`Group::addrs`].
    pub members: Vec<(BrokerId, MemberKey)>,
    /// Clusters under which members registered: where the group's name is listed.
    pub clusters: SmallVec<[ClusterName; 1]>,
    /// Numbers of the topics with queues on the group.
    pub topics: RoaringBitmap,
    /// Grows with each visible change, see [`RouteTable::recognise`].
    pub epoch: u64,
}

/// One registered broker (Java: `BrokerLiveInfo` without its clock and connection, which `liveness`
/// keeps).
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub cluster: ClusterName,
    pub addr: BrokerAddr,
    pub slot: GroupSlot,
    pub ha_addr: Option<String>,
    pub data_version: Option<DataVersion>,
    pub filters: Vec<String>,
    /// Content of its last registration; `None` until it registers if it comes from a snapshot.
    pub digest: Option<u128>,
    /// The group's epoch right after that registration, once it is whole.
    pub epoch: Option<u64>,
}

/// A place for a member, used again under another generation.
#[derive(Debug, Default)]
pub(super) struct MemberSlot {
    pub generation: u32,
    pub member: Option<Member>,
}

impl RouteTable {
    /// An empty table, which makes every change at once.
    #[must_use]
    pub fn new() -> RouteTable {
        RouteTable::default()
    }

    /// Registered brokers.
    #[must_use]
    pub fn member_count(&self) -> usize {
        self.members.len() - self.free_members.len()
    }

    /// The brokers registered under this cluster and address: one, unless groups share an address.
    #[must_use]
    pub fn members_at(&self, cluster: &str, addr: &str) -> &[MemberKey] {
        self.by_addr.get(cluster).and_then(|addrs| addrs.get(addr)).map_or(&[], |found| found)
    }

    /// The stored data version of a broker; `None` if it sent a null.
    #[must_use]
    pub fn data_version(&self, key: MemberKey) -> Option<DataVersion> {
        self.member(key)?.data_version
    }

    /// A broker's group and address, for log lines.
    #[must_use]
    pub fn describe(&self, key: MemberKey) -> Option<(&BrokerName, &BrokerAddr)> {
        let member = self.member(key)?;
        Some((&self.view.at(member.slot).name, &member.addr))
    }

    /// Whether the broker comes from a snapshot and has not registered since.
    #[must_use]
    pub fn is_restored(&self, key: MemberKey) -> bool {
        self.member(key).is_some_and(|member| member.digest.is_none())
    }

    pub(super) fn member(&self, key: MemberKey) -> Option<&Member> {
        let place = self.members.get(key.slot as usize)?;
        if place.generation == key.generation { place.member.as_ref() } else { None }
    }

    /// The group's member at `addr`.
    pub(super) fn member_of(&self, slot: GroupSlot, addr: &str) -> Option<MemberKey> {
        let mut keys = self.states[slot.index()].members.iter().map(|(_, key)| *key);
        keys.find(|key| self.member(*key).is_some_and(|member| *member.addr == *addr))
    }

    /// Notes a visible change of the group, so that no member's last registration passes for the
    /// newest state.
    pub(super) fn touch(&mut self, slot: GroupSlot) {
        self.states[slot.index()].epoch += 1;
        self.changed = true;
    }

    // Members.

    pub(super) fn put_member(&mut self, member: Member) -> MemberKey {
        let slot = self.free_members.pop().unwrap_or_else(|| {
            self.members.push(MemberSlot::default());
            u32::try_from(self.members.len() - 1).expect("fewer brokers than 2^32")
        });
        let place = &mut self.members[slot as usize];
        assert!(place.member.is_none(), "a free place is empty");
        let key = MemberKey { slot, generation: place.generation };
        let addrs = self.by_addr.entry(member.cluster.clone()).or_default();
        addrs.entry(member.addr.clone()).or_default().push(key);
        place.member = Some(member);
        key
    }

    /// Takes a member out of the slab and the index, not out of its group.
    pub(super) fn take_member(&mut self, key: MemberKey) -> Option<Member> {
        let place = self.members.get_mut(key.slot as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let member = place.member.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free_members.push(key.slot);
        let addrs = self.by_addr.get_mut(&member.cluster).expect("members are indexed");
        let keys = addrs.get_mut(&member.addr).expect("members are indexed");
        keys.retain(|other| *other != key);
        if keys.is_empty() {
            addrs.remove(&member.addr);
        }
        if addrs.is_empty() {
            self.by_addr.remove(&member.cluster);
        }
        Some(member)
    }

    // Groups.

    /// A slot for a new group; the caller fills it with [`RouteTable::show_group`].
    pub(super) fn reserve_group(&mut self, name: &BrokerName) -> GroupSlot {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            let count = u32::try_from(self.states.len()).expect("fewer groups than 2^32");
            self.states.push(GroupState::default());
            Arc::make_mut(&mut self.view.slots).push(None);
            GroupSlot(count)
        });
        self.view.groups.insert(name.clone(), slot);
        slot
    }

    /// Encodes the group anew and shows it, if it looks different from now on.
    pub(super) fn show_group(&mut self, slot: GroupSlot, mut parts: GroupParts) {
        let members = &self.states[slot.index()].members;
        let found = members.iter().map(|(id, key)| (*id, self.member(*key).expect("listed")));
        let found: Vec<(BrokerId, &Member)> = found.collect();
        parts.addrs = found.iter().map(|(id, member)| (*id, member.addr.clone())).collect();
        // Java keeps filter servers by (cluster of the group, address).
        let here =
            found.iter().filter(|(_, m)| m.cluster == parts.cluster && !m.filters.is_empty());
        parts.filters = here.map(|(_, m)| (m.addr.clone(), m.filters.clone())).collect();
        let group = Group::new(parts);
        if self.view.slots[slot.index()].as_deref() == Some(&group) {
            return;
        }
        Arc::make_mut(&mut self.view.slots)[slot.index()] = Some(Arc::new(group));
        self.touch(slot);
    }

    /// Leaves to be done: groups without members go, their queues of every topic, and topics that
    /// nobody else serves. Each topic is rewritten once, however many of its groups go.
    pub(super) fn remove_groups(&mut self, mut slots: SmallVec<[GroupSlot; 4]>) {
        slots.sort_unstable();
        let mut numbers = RoaringBitmap::new();
        for slot in &slots {
            let state = &mut self.states[slot.index()];
            assert!(state.members.is_empty(), "a group with members stays");
            // Taken at once, so that no topic has to be taken out one by one later.
            numbers |= std::mem::take(&mut state.topics);
        }
        self.leave(Job::Drop { numbers, slots, for_good: true });
    }

    /// Removes a group that no topic names any more.
    pub(super) fn remove_group(&mut self, slot: GroupSlot) {
        let group = Arc::make_mut(&mut self.view.slots)[slot.index()].take();
        let group = group.expect("a slot that is removed was filled");
        let state = std::mem::take(&mut self.states[slot.index()]);
        for cluster in &state.clusters {
            self.leave_cluster(cluster, &group.name);
        }
        self.view.groups.remove(&*group.name);
        // The epoch goes on, so that nothing remembered of the old group fits the next one in this
        // slot.
        self.states[slot.index()].epoch = state.epoch + 1;
        self.free_slots.push(slot);
        self.changed = true;
    }

    pub(super) fn join_cluster(&mut self, slot: GroupSlot, name: &BrokerName, to: &ClusterName) {
        let clusters = &mut self.states[slot.index()].clusters;
        if clusters.contains(to) {
            return;
        }
        clusters.push(to.clone());
        let names = self.view.clusters.entry(to.clone()).or_default();
        Arc::make_mut(names).insert(name.clone());
        self.touch(slot);
    }

    fn leave_cluster(&mut self, cluster: &ClusterName, name: &BrokerName) {
        let names = self.view.clusters.get_mut(cluster).expect("a group is listed where it joined");
        Arc::make_mut(names).remove(name);
        if names.is_empty() {
            self.view.clusters.remove(cluster);
        }
    }

    // Topics.

    /// Stores a group's queues of a topic, creating the topic. An equal entry is left in place.
    pub(super) fn put_queues(&mut self, topic: &Topic, slot: GroupSlot, queues: Queues) {
        match self.view.topics.get(topic.as_bytes()) {
            None => {
                self.put_topic(topic, &[GroupQueues { slot, queues }]);
            }
            Some(route) if route.on(slot) == Some(queues) => {}
            Some(route) => {
                let route = route.to_owned();
                self.set_queues(route.get(), slot, queues);
            }
        }
    }

    /// Stores a group's queues of a topic that is in the table. An equal entry is left in place.
    pub(super) fn set_queues(&mut self, route: TopicRoute<'_>, slot: GroupSlot, queues: Queues) {
        let entry = GroupQueues { slot, queues };
        let mut groups: GroupList = route.groups().collect();
        match groups.iter_mut().find(|group| group.slot == slot) {
            Some(old) if *old == entry => return,
            Some(old) => *old = entry,
            None => {
                groups.push(entry);
                self.states[slot.index()].topics.insert(route.number().0);
            }
        }
        self.view.topics.insert(route.with(route.is_mapped(), &groups));
        self.touch(slot);
    }

    /// Stores a topic that is not in the table, with its queues on these groups.
    pub(super) fn put_topic(&mut self, topic: &str, entries: &[GroupQueues]) -> TopicNumber {
        let place = self.view.topics.place(topic.as_bytes());
        let number = match self.free_numbers.pop() {
            Some(number) => {
                self.topic_places[number.0 as usize] = place;
                number
            }
            None => {
                if self.topic_places.len() == self.topic_places.capacity() {
                    // By an eighth: doubling would take 4 bytes more for each topic.
                    self.topic_places.reserve_exact(self.topic_places.len() / 8 + 64);
                }
                self.topic_places.push(place);
                let last = u32::try_from(self.topic_places.len() - 1);
                TopicNumber(last.expect("fewer topics than 2^32"))
            }
        };
        self.view.topics.insert(topic::record(number, topic.as_bytes(), false, entries));
        for entry in entries {
            self.states[entry.slot.index()].topics.insert(number.0);
            self.touch(entry.slot);
        }
        number
    }

    /// The topic of a number that is in use.
    pub(super) fn topic_of(&self, number: TopicNumber) -> TopicRoute<'_> {
        let place = self.topic_places[number.0 as usize];
        let found = self.view.topics.find(place, |route| route.number() == number);
        found.expect("a numbered topic is in the table")
    }

    /// Numbers in use.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn numbers_in_use(&self) -> usize {
        self.topic_places.len() - self.free_numbers.len()
    }

    /// Takes the queues of groups (ascending) away from a topic, with their parts of a static
    /// topic, and the topic if nothing is left.
    pub(super) fn drop_queues(&mut self, number: TopicNumber, gone: &[GroupSlot]) {
        let route = self.topic_of(number).to_owned();
        let route = route.get();
        let mut left = GroupList::new();
        let mut brokers: SmallVec<[BrokerName; 4]> = SmallVec::new();
        for entry in route.groups() {
            if gone.binary_search(&entry.slot).is_err() {
                left.push(entry);
                continue;
            }
            if route.is_mapped() {
                brokers.push(self.view.at(entry.slot).name.clone());
            }
            self.states[entry.slot.index()].topics.remove(number.0);
            self.touch(entry.slot);
        }
        let mut is_mapped = false;
        if route.is_mapped() {
            let kept = self.view.mappings_of(route).iter();
            let kept = kept.filter(|mapping| !brokers.contains(&mapping.broker)).cloned();
            let kept: Vec<_> = if left.is_empty() { Vec::new() } else { kept.collect() };
            is_mapped = !kept.is_empty();
            match is_mapped {
                true => self.view.mappings.insert(number.0, Arc::new(kept)),
                false => self.view.mappings.remove(&number.0),
            };
        }
        if left.is_empty() {
            self.view.topics.remove(route.name);
            self.free_numbers.push(number);
            return;
        }
        self.view.topics.insert(route.with(is_mapped, &left));
    }
}

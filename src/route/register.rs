//! Registration (code 103): decided from what is there, then applied; what is large, in steps that
//! no reader sees (Java: `RouteInfoManager.registerBroker`).

use std::sync::Arc;

use roaring::RoaringBitmap;
use smallvec::SmallVec;

use crate::ids::{BrokerId, MemberKey};
use crate::model::{QueueMapping, TopicConfig, perm};

use super::change::{Master, Refused, Registered, Registration};
use super::fragment::GroupParts;
use super::steps::{Job, Puts};
use super::table::{Member, RouteTable};
use super::topic::GroupList;
use super::view::GroupSlot;

impl RouteTable {
    /// Whether applying this registration would change nothing: its content is that of the broker's
    /// last one, and the group looks as it did right after that. O(1); the caller has computed the
    /// digest over all of the content.
    #[must_use]
    pub fn recognise(
        &self,
        cluster: &str,
        broker: &str,
        addr: &str,
        digest: u128,
    ) -> Option<MemberKey> {
        let slot = *self.view.groups.get(broker)?;
        let key = self.member_of(slot, addr)?;
        let member = self.member(key)?;
        let same = *member.cluster == *cluster
            && member.digest == Some(digest)
            && member.data_version.is_some()
            && member.epoch == Some(self.states[slot.index()].epoch);
        same.then_some(key)
    }

    /// Registers a broker, or leaves the table as it was. A large registration is [applied in
    /// steps](RouteTable::in_steps_of), which are decided by the time this returns.
    ///
    /// # Errors
    /// [`Refused::SingleTopic`] and [`Refused::Stale`], each with its reason.
    pub fn register(&mut self, registration: Registration) -> Result<Registered, Refused> {
        match self.decide(&registration) {
            Ok(()) => Ok(self.apply(registration)),
            Err(Refused::Stale { displaced }) => {
                if let Some(key) = displaced {
                    // Nobody is told: Java is silent, too, about a claimant that it forgets.
                    self.forget_members(&[key]);
                }
                Err(Refused::Stale { displaced })
            }
            Err(refused) => Err(refused),
        }
    }

    fn decide(&self, registration: &Registration) -> Result<(), Refused> {
        let mut names = registration.topics.iter().map(|config| &config.topic);
        let first = names.next();
        let single = first.is_some_and(|first| names.all(|name| name == first));
        let slot = self.view.groups.get(&registration.broker);
        let holder = slot.and_then(|slot| {
            let state = &self.states[slot.index()];
            let at = state.members.binary_search_by_key(&registration.id, |(id, _)| *id).ok()?;
            self.member(state.members[at].1)
        });
        let Some(holder) = holder else {
            return if single { Err(Refused::SingleTopic) } else { Ok(()) };
        };
        if holder.addr != registration.addr && holder.cluster == registration.cluster {
            let state = |version: Option<crate::model::DataVersion>| {
                version.map_or(0, |version| version.state_version)
            };
            if state(holder.data_version) > state(registration.data_version) {
                let displaced = self.member_of(holder.slot, &registration.addr);
                return Err(Refused::Stale { displaced });
            }
        }
        Ok(())
    }

    fn apply(&mut self, registration: Registration) -> Registered {
        let known = self.view.groups.get(&registration.broker).copied();
        self.begin(self.topics_touched_by(&registration, known));
        let slot = known.unwrap_or_else(|| self.reserve_group(&registration.broker));
        let members = &self.states[slot.index()].members;
        let first_of_id = !members.iter().any(|(id, _)| *id == registration.id);
        let old_min = members.first().map(|(id, _)| *id);
        let old = self.evict(slot, &registration);
        let cluster = match known {
            Some(slot) => self.view.at(slot).cluster.clone(),
            None => registration.cluster.clone(),
        };
        let version_differs = match &old.same {
            Some(member) => {
                registration.data_version.is_none()
                    || member.data_version != registration.data_version
            }
            None => true,
        };
        let key = self.place(slot, &registration, old.same);
        self.join_cluster(slot, &registration.broker, &registration.cluster);
        self.show_group(
            slot,
            GroupParts {
                name: registration.broker.clone(),
                cluster,
                zone: registration.zone.as_deref().map(Arc::from),
                acting_master: registration.acting_master == Some(true),
                addrs: Vec::new(),
                filters: Vec::new(),
            },
        );
        self.note_registered(slot, old_min, &registration);
        let master = self.master_for(slot, &registration);
        self.leave_topics(slot, registration, first_of_id || version_differs);
        self.leave(Job::Seal { slot, key });
        self.begun();
        Registered { member: key, master, displaced: old.displaced }
    }

    /// The most topics that the registration looks at or changes.
    fn topics_touched_by(&self, registration: &Registration, slot: Option<GroupSlot>) -> usize {
        let stored = slot.filter(|_| registration.delete_missing_topics);
        let stored = stored.map_or(0, |slot| self.states[slot.index()].topics.len());
        let stored = usize::try_from(stored).unwrap_or(usize::MAX);
        stored.saturating_add(registration.topics.len() + registration.mappings.len())
    }

    /// Takes out of the group whoever the registration replaces: the same process under any id, and
    /// another address under the same id.
    fn evict(&mut self, slot: GroupSlot, registration: &Registration) -> Evicted {
        let mut evicted = Evicted { same: None, displaced: SmallVec::new() };
        let members = std::mem::take(&mut self.states[slot.index()].members);
        let mut kept = Vec::with_capacity(members.len());
        for (id, key) in members {
            let member = self.member(key).expect("a group lists registered members");
            if member.addr != registration.addr && id != registration.id {
                kept.push((id, key));
                continue;
            }
            let same = member.addr == registration.addr && member.cluster == registration.cluster;
            let member = self.take_member(key).expect("just seen");
            evicted.displaced.push(key);
            if same {
                evicted.same = Some(member);
            }
        }
        self.states[slot.index()].members = kept;
        evicted
    }

    /// Puts the broker into the slab and its group.
    fn place(
        &mut self,
        slot: GroupSlot,
        registration: &Registration,
        old: Option<Member>,
    ) -> MemberKey {
        let filters = match &registration.filter_servers {
            Some(list) => list.clone(),
            None => old.map(|member| member.filters).unwrap_or_default(),
        };
        let key = self.put_member(Member {
            cluster: registration.cluster.clone(),
            addr: registration.addr.clone(),
            slot,
            ha_addr: registration.ha_addr.clone(),
            data_version: registration.data_version,
            filters,
            digest: Some(registration.digest),
            epoch: None,
        });
        let members = &mut self.states[slot.index()].members;
        let at = members.partition_point(|(id, _)| *id < registration.id);
        members.insert(at, (registration.id, key));
        key
    }

    /// Leaves to be done what the registration does to topics: to all it names if `everything`,
    /// else to those that the group does not have.
    fn leave_topics(&mut self, slot: GroupSlot, registration: Registration, everything: bool) {
        let is_master = registration.id == BrokerId::MASTER;
        let smallest = self.states[slot.index()].members[0].0;
        let is_prime_slave =
            !is_master && registration.acting_master.is_some() && registration.id == smallest;
        if !is_master && !is_prime_slave {
            return;
        }
        let drops_missing = registration.delete_missing_topics && registration.mappings.is_empty();
        let puts = Puts {
            slot,
            configs: registration.topics.into_iter(),
            everything,
            read_only: is_prime_slave && registration.acting_master == Some(true),
        };
        self.leave(match drops_missing {
            true => Job::Miss { puts, at: 0, named: RoaringBitmap::new() },
            false => Job::Put(puts),
        });
        let mappings = registration.mappings.into_iter();
        self.leave(Job::Map { slot, mappings, everything });
    }

    pub(super) fn put(
        &mut self,
        slot: GroupSlot,
        config: &TopicConfig,
        everything: bool,
        read_only: bool,
    ) {
        let known = self.view.topics.get(config.topic.as_bytes());
        if !everything && known.is_some_and(|route| route.on(slot).is_some()) {
            return;
        }
        let mut queues = config.queues;
        if read_only {
            queues.perm &= !perm::WRITE;
        }
        self.put_queues(&config.topic, slot, queues);
    }

    pub(super) fn map(&mut self, slot: GroupSlot, mapping: &QueueMapping, everything: bool) {
        if everything || self.lacks(slot, mapping) {
            self.put_mapping(slot, mapping);
        }
    }

    /// Lets the broker's registration be recognised from now on.
    pub(super) fn seal(&mut self, slot: GroupSlot, key: MemberKey) {
        let epoch = self.states[slot.index()].epoch;
        let place = self.members[key.slot as usize].member.as_mut();
        place.expect("placed when the registration began").epoch = Some(epoch);
    }

    /// Whether the table has the queues of this group's part of a static topic, and not the part.
    /// It went with its queues, and they are back; or the broker registered between making the
    /// topic and making its mapping, which is no new data version.
    fn lacks(&self, slot: GroupSlot, mapping: &QueueMapping) -> bool {
        let Some(route) = self.view.topics.get(mapping.topic.as_bytes()) else { return false };
        let parts = self.view.mappings_of(route);
        route.on(slot).is_some() && parts.iter().all(|part| part.broker != mapping.broker)
    }

    /// Stores a group's part of a static topic that is in the table.
    fn put_mapping(&mut self, slot: GroupSlot, mapping: &QueueMapping) {
        let Some(route) = self.view.topics.get(mapping.topic.as_bytes()) else {
            return;
        };
        let old = self.view.mappings_of(route);
        if old.contains(mapping) {
            return;
        }
        let others = old.iter().filter(|other| other.broker != mapping.broker).cloned();
        let mut all: Vec<QueueMapping> = others.collect();
        all.push(mapping.clone());
        // The standard dialect sorts keys by UTF-16 code units.
        all.sort_by(|a, b| a.broker.encode_utf16().cmp(b.broker.encode_utf16()));
        self.view.mappings.insert(route.number().0, Arc::new(all));
        if !route.is_mapped() {
            let groups: GroupList = route.groups().collect();
            let mapped = route.with(true, &groups);
            self.view.topics.insert(mapped);
        }
        self.touch(slot);
    }

    /// The group's master, if the registration is a slave's and the master registered under the
    /// same cluster.
    #[must_use]
    fn master_for(&self, slot: GroupSlot, registration: &Registration) -> Option<Master> {
        self.master_of(slot, registration.id, &registration.cluster)
    }

    fn master_of(&self, slot: GroupSlot, id: BrokerId, cluster: &str) -> Option<Master> {
        if id == BrokerId::MASTER {
            return None;
        }
        let members = &self.states[slot.index()].members;
        let (_, key) = members.iter().find(|(id, _)| *id == BrokerId::MASTER)?;
        let master = self.member(*key)?;
        let here = *master.cluster == *cluster;
        here.then(|| Master { addr: master.addr.clone(), ha_addr: master.ha_addr.clone() })
    }

    /// What a recognised broker is told of its master.
    #[must_use]
    pub fn master_told_to(&self, key: MemberKey) -> Option<Master> {
        let member = self.member(key)?;
        let members = &self.states[member.slot.index()].members;
        let (id, _) = members.iter().find(|(_, other)| *other == key)?;
        self.master_of(member.slot, *id, &member.cluster)
    }
}

/// Whom a registration replaced.
struct Evicted {
    /// The same broker's earlier registration.
    same: Option<Member>,
    /// Keys that are no longer valid, the earlier registration's among them.
    displaced: SmallVec<[MemberKey; 2]>,
}

//! The table as a file keeps it over a restart of the server.
//!
//! ```text
//! "GPROUTES" | version u32 | written at, ms since 1970 | groups | topics | crc32 of all before
//! ```
//!
//! Numbers are little-endian; what lies between version and checksum is `postcard`, one group or
//! topic after the other, so that neither writing nor reading builds a second table. A topic names
//! its groups by their place in the file.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName, MemberKey, Topic};
use crate::model::{DataVersion, QueueMapping, Queues};

use super::fragment::GroupParts;
use super::table::{Member, RouteTable};
use super::topic::{GroupList, GroupQueues};
use super::view::{GroupSlot, RouteView};

const MAGIC: &[u8; 8] = b"GPROUTES";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = MAGIC.len() + size_of::<u32>();
const CRC_BYTES: usize = size_of::<u32>();

/// The table at one moment, to be written elsewhere. Shares the maps with the table.
#[derive(Debug)]
pub struct RouteSnapshot {
    view: RouteView,
    groups: Vec<GroupCopy>,
}

#[derive(Debug)]
struct GroupCopy {
    slot: GroupSlot,
    clusters: SmallVec<[ClusterName; 1]>,
    members: Vec<(BrokerId, Member, u64)>,
}

/// A table that was read, and its brokers with their heartbeat timeouts in milliseconds. All
/// brokers in it are [`RouteTable::is_restored`].
#[derive(Debug, Default)]
pub struct Restored {
    /// The table.
    pub table: RouteTable,
    /// Its brokers.
    pub members: Vec<(MemberKey, u64)>,
    /// When it was written, in milliseconds since 1970.
    pub written_ms: i64,
}

/// Why a snapshot cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotError {
    /// It does not begin as one.
    Foreign,
    /// Another release wrote it.
    Version(u32),
    /// It is not what was written.
    Checksum,
    /// It contradicts itself, near this byte.
    Content(usize),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Foreign => f.write_str("it is no route snapshot"),
            SnapshotError::Version(version) => {
                write!(f, "it has version {version}, and this server reads {VERSION}")
            }
            SnapshotError::Checksum => f.write_str("it is damaged: its checksum differs"),
            SnapshotError::Content(at) => write!(f, "it contradicts itself near byte {at}"),
        }
    }
}

impl std::error::Error for SnapshotError {}

#[derive(Serialize, Deserialize)]
struct Head {
    written_ms: i64,
    groups: u32,
    topics: u64,
}

#[derive(Serialize, Deserialize)]
struct SavedGroup<'a> {
    name: &'a str,
    cluster: &'a str,
    zone: Option<&'a str>,
    acting_master: bool,
    #[serde(borrow)]
    clusters: Vec<&'a str>,
    #[serde(borrow)]
    members: Vec<SavedMember<'a>>,
}

#[derive(Serialize, Deserialize)]
struct SavedMember<'a> {
    id: i64,
    cluster: &'a str,
    addr: &'a str,
    ha_addr: Option<&'a str>,
    data_version: Option<(i64, i64, Option<i64>)>,
    #[serde(borrow)]
    filters: Vec<&'a str>,
    timeout_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct SavedTopic<'a> {
    name: &'a str,
    /// Place of the group, read, write, perm, flag.
    queues: Vec<(u32, i32, i32, i32, i32)>,
    #[serde(borrow)]
    mappings: Vec<SavedMapping<'a>>,
}

#[derive(Serialize, Deserialize)]
struct SavedMapping<'a> {
    topic: &'a str,
    topic_member: Option<&'a str>,
    broker: &'a str,
    total_queues: i32,
    epoch: i64,
    dirty: bool,
    scope: Option<&'a str>,
    current_ids: Option<Cow<'a, [(i32, i32)]>>,
}

impl RouteTable {
    /// The table at this moment, with each broker's heartbeat timeout in milliseconds. Copies the
    /// brokers, and of topics a pointer. Not to be called in the middle of a change.
    pub fn snapshot(&self, timeout_ms: impl Fn(MemberKey) -> u64) -> RouteSnapshot {
        assert!(self.is_whole(), "brokers and topics are of one moment");
        let copy = |slot: GroupSlot| {
            let state = &self.states[slot.index()];
            let members = state.members.iter().map(|(id, key)| {
                let member = self.member(*key).expect("a group lists registered members");
                (*id, member.clone(), timeout_ms(*key))
            });
            GroupCopy { slot, clusters: state.clusters.clone(), members: members.collect() }
        };
        let groups = self.view.groups.values().map(|slot| copy(*slot)).collect();
        RouteSnapshot { view: self.freeze(), groups }
    }

    /// The table that [`RouteSnapshot::encode`] wrote.
    ///
    /// # Errors
    ///
    /// If the bytes are not exactly that. Nothing in them is trusted before it was checked.
    pub fn restore(bytes: &[u8]) -> Result<Restored, SnapshotError> {
        let mut reader = Reader::over(bytes)?;
        let head: Head = reader.next()?;
        let mut restored = Restored { written_ms: head.written_ms, ..Restored::default() };
        let mut slots = Vec::new();
        for _ in 0..head.groups {
            let group: SavedGroup<'_> = reader.next()?;
            let slot = restored.put_group(&group).ok_or(reader.contradiction())?;
            slots.push(slot);
        }
        for _ in 0..head.topics {
            let topic: SavedTopic<'_> = reader.next()?;
            restored.put_topic(&slots, &topic).ok_or(reader.contradiction())?;
        }
        if reader.rest.is_empty() { Ok(restored) } else { Err(reader.contradiction()) }
    }
}

impl RouteSnapshot {
    /// The bytes of the file, as of `written_ms` since 1970. Takes about as long as the table is
    /// large: not on the writer's core.
    #[must_use]
    pub fn encode(&self, written_ms: i64) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        let groups = u32::try_from(self.groups.len()).expect("fewer groups than 2^32");
        let topics = self.view.topic_count() as u64;
        out = append(out, &Head { written_ms, groups, topics });
        let mut places = vec![0; self.view.slots.len()];
        for (place, group) in (0..).zip(&self.groups) {
            places[group.slot.index()] = place;
            out = append(out, &self.saved_group(group));
        }
        for route in self.view.topics.iter() {
            let queues = route.groups().map(|GroupQueues { slot, queues }| {
                let Queues { read, write, perm, sys_flag } = queues;
                (places[slot.index()], read, write, perm, sys_flag)
            });
            let mappings = self.view.mappings_of(route).iter().map(saved_mapping);
            let name = std::str::from_utf8(route.name).expect("made from text");
            let topic = SavedTopic { name, queues: queues.collect(), mappings: mappings.collect() };
            out = append(out, &topic);
        }
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out
    }

    fn saved_group<'a>(&'a self, group: &'a GroupCopy) -> SavedGroup<'a> {
        let shown = self.view.at(group.slot);
        let members = group.members.iter().map(|(id, member, timeout_ms)| SavedMember {
            id: id.0,
            cluster: &member.cluster,
            addr: &member.addr,
            ha_addr: member.ha_addr.as_deref(),
            data_version: member
                .data_version
                .map(|version| (version.state_version, version.timestamp, version.counter)),
            filters: member.filters.iter().map(String::as_str).collect(),
            timeout_ms: *timeout_ms,
        });
        SavedGroup {
            name: &shown.name,
            cluster: &shown.cluster,
            zone: shown.zone.as_deref(),
            acting_master: shown.acting_master,
            clusters: group.clusters.iter().map(|cluster| &**cluster).collect(),
            members: members.collect(),
        }
    }
}

fn append(out: Vec<u8>, value: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(value, out).expect("these values have a known length, and a Vec grows")
}

fn saved_mapping(mapping: &QueueMapping) -> SavedMapping<'_> {
    SavedMapping {
        topic: &mapping.topic,
        topic_member: mapping.topic_member.as_deref(),
        broker: &mapping.broker,
        total_queues: mapping.total_queues,
        epoch: mapping.epoch,
        dirty: mapping.dirty,
        scope: mapping.scope.as_deref(),
        current_ids: mapping.current_ids.as_deref().map(Cow::Borrowed),
    }
}

/// Takes values from the front of a snapshot.
struct Reader<'a> {
    /// Bytes of the whole file before its checksum.
    total: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn over(bytes: &'a [u8]) -> Result<Reader<'a>, SnapshotError> {
        let (head, _) = bytes.split_at_checked(HEAD_BYTES).ok_or(SnapshotError::Foreign)?;
        let version = head.strip_prefix(MAGIC).ok_or(SnapshotError::Foreign)?;
        let version = u32::from_le_bytes(version.try_into().expect("four bytes are left"));
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let (content, crc) =
            bytes.split_last_chunk::<CRC_BYTES>().ok_or(SnapshotError::Checksum)?;
        let rest = content.get(HEAD_BYTES..).ok_or(SnapshotError::Checksum)?;
        if crc32fast::hash(content) != u32::from_le_bytes(*crc) {
            return Err(SnapshotError::Checksum);
        }
        Ok(Reader { total: content.len(), rest })
    }

    fn next<T: Deserialize<'a>>(&mut self) -> Result<T, SnapshotError> {
        let (value, rest) =
            postcard::take_from_bytes(self.rest).map_err(|_| self.contradiction())?;
        self.rest = rest;
        Ok(value)
    }

    fn contradiction(&self) -> SnapshotError {
        SnapshotError::Content(self.total - self.rest.len())
    }
}

impl Restored {
    /// Adds a group; `None` if there cannot be one like it.
    fn put_group(&mut self, saved: &SavedGroup<'_>) -> Option<GroupSlot> {
        let table = &mut self.table;
        let ascending = saved.members.is_sorted_by(|one, next| one.id < next.id);
        let mut addrs = HashSet::new();
        let distinct = saved.members.iter().all(|member| addrs.insert(member.addr));
        let name = BrokerName::from(saved.name);
        let listed = |member: &SavedMember<'_>| saved.clusters.contains(&member.cluster);
        if saved.members.is_empty()
            || !ascending
            || !distinct
            || !saved.members.iter().all(listed)
            || table.view.groups.contains_key(&name)
        {
            return None;
        }
        let slot = table.reserve_group(&name);
        for member in &saved.members {
            let key = table.put_member(Member {
                cluster: member.cluster.into(),
                addr: BrokerAddr::from(member.addr),
                slot,
                ha_addr: member.ha_addr.map(str::to_owned),
                data_version: member.data_version.map(|(state_version, timestamp, counter)| {
                    DataVersion { state_version, timestamp, counter }
                }),
                filters: member.filters.iter().map(|&filter| filter.to_owned()).collect(),
                digest: None,
                epoch: None,
            });
            table.states[slot.index()].members.push((BrokerId(member.id), key));
            self.members.push((key, member.timeout_ms));
        }
        for cluster in &saved.clusters {
            table.join_cluster(slot, &name, &ClusterName::from(*cluster));
        }
        let parts = GroupParts {
            name,
            cluster: saved.cluster.into(),
            zone: saved.zone.map(Arc::from),
            acting_master: saved.acting_master,
            addrs: Vec::new(),
            filters: Vec::new(),
        };
        table.show_group(slot, parts);
        Some(slot)
    }

    /// Adds a topic on groups by their places in the file; `None` if there cannot be one like it.
    fn put_topic(&mut self, slots: &[GroupSlot], saved: &SavedTopic<'_>) -> Option<()> {
        let entry = |&(place, read, write, perm, sys_flag): &(u32, i32, i32, i32, i32)| {
            let slot = *slots.get(place as usize)?;
            Some(GroupQueues { slot, queues: Queues { read, write, perm, sys_flag } })
        };
        let entries = saved.queues.iter().map(entry).collect::<Option<GroupList>>()?;
        let mut seen = HashSet::new();
        let table = &mut self.table;
        if entries.is_empty()
            || !entries.iter().all(|entry| seen.insert(entry.slot))
            || table.view.topic(saved.name).is_some()
        {
            return None;
        }
        let number = table.put_topic(saved.name, &entries);
        if !saved.mappings.is_empty() {
            let mappings: Vec<QueueMapping> = saved.mappings.iter().map(mapping).collect();
            table.view.mappings.insert(number.0, Arc::new(mappings));
            let mapped = table.topic_of(number).with(true, &entries);
            table.view.topics.insert(mapped);
        }
        Some(())
    }
}

fn mapping(saved: &SavedMapping<'_>) -> QueueMapping {
    QueueMapping {
        topic: Topic::from(saved.topic),
        topic_member: saved.topic_member.map(str::to_owned),
        broker: saved.broker.into(),
        total_queues: saved.total_queues,
        epoch: saved.epoch,
        dirty: saved.dirty,
        scope: saved.scope.map(str::to_owned),
        current_ids: saved.current_ids.as_deref().map(<[(i32, i32)]>::to_vec),
    }
}

#[cfg(test)]
mod tests;

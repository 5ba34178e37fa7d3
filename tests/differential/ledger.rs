//! What both servers were told and do not tell again: how each member registered, and which
//! mappings only one of them has.

use std::collections::{BTreeMap, BTreeSet};

use super::steps::{Body, Register};
use super::tables::Tables;

/// How a member registered last.
#[derive(Clone, Debug)]
pub struct Told {
    pub group: String,
    pub cluster: String,
    pub conn: String,
    pub ha: Option<String>,
    pub timeout: Option<String>,
    pub filters: Vec<String>,
}

/// Whether topics of an accepted registration count: a master's, or those of the smallest slave.
fn applies_topics(register: &Register, after: &Tables) -> bool {
    let group = register.it.name.as_ref().and_then(|name| after.groups.get(name));
    let smallest = group.and_then(|group| group.members.keys().next());
    let id = register.it.id.as_ref().and_then(|id| id.parse::<i64>().ok());
    id == Some(0) || (register.it.acting.is_some() && id.is_some() && smallest == id.as_ref())
}

/// Whether the id is new to the group, or the data version to its address.
fn is_new_to(register: &Register, before: &Tables) -> bool {
    let it = &register.it;
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let holder =
        it.id.as_ref().and_then(|id| id.parse::<i64>().ok()).and_then(|id| {
            before.groups.get(&part(&it.name)).and_then(|group| group.members.get(&id))
        });
    let version = serde_json::json!({
        "counter": it.counter, "stateVersion": it.state, "timestamp": it.timestamp,
    });
    let stored = before.versions.get(&(part(&it.cluster), part(&it.addr)));
    holder.is_none() || stored != Some(&version)
}

/// By address; an address belongs to one group.
#[derive(Debug, Default)]
pub struct Ledger {
    told: BTreeMap<String, Told>,
    /// See [`super::compare::View`].
    pub only_java: BTreeSet<(String, Option<String>)>,
    pub only_ours: BTreeSet<(String, Option<String>)>,
}

impl Ledger {
    /// The member registered at `addr`.
    pub fn told(&self, addr: &str) -> Option<&Told> {
        self.told.get(addr)
    }

    pub fn cluster_of(&self, addr: &str) -> Option<&str> {
        self.told.get(addr).map(|told| told.cluster.as_str())
    }

    /// Group, address and cluster of the members that registered over `conn`.
    pub fn on_connection(&self, conn: &str, tables: &Tables) -> Vec<(String, String, String)> {
        let here = self.told.iter().filter(|(addr, told)| {
            let group = tables.groups.get(&told.group);
            told.conn == conn && group.is_some_and(|group| group.id_of(addr).is_some())
        });
        here.map(|(addr, told)| (told.group.clone(), addr.clone(), told.cluster.clone())).collect()
    }

    /// Notes an accepted registration.
    pub fn registered(&mut self, register: &Register, after: &Tables) {
        let it = &register.it;
        let (Some(group), Some(addr), Some(cluster)) = (&it.name, &it.addr, &it.cluster) else {
            return;
        };
        let id = after.groups.get(group).and_then(|found| found.id_of(addr));
        if id.map(|id| id.to_string()) != it.id {
            return; // Success, and yet not registered: an older state.
        }
        let old = self.told.get(addr).filter(|old| old.cluster == *cluster);
        let filters = match old {
            Some(old) if register.keeps_filters() => old.filters.clone(),
            _ if register.keeps_filters() => Vec::new(),
            _ => it.filters.clone(),
        };
        let told = Told {
            group: group.clone(),
            cluster: cluster.clone(),
            conn: register.conn.clone(),
            ha: it.ha.clone(),
            timeout: it.timeout.clone(),
            filters,
        };
        self.told.insert(addr.clone(), told);
    }

    /// Forgets who is no member any more.
    pub fn settle(&mut self, after: &Tables) {
        self.told.retain(|addr, told| {
            after.groups.get(&told.group).is_some_and(|group| group.id_of(addr).is_some())
        });
    }

    /// Notes which mappings a step leaves on one of the servers only.
    pub fn mappings(&mut self, register: Option<&Register>, before: &Tables, after: &Tables) {
        for (topic, group) in before.mappings.difference(&after.mappings) {
            if !after.has_queues(topic, group) {
                self.only_java.insert((topic.clone(), Some(group.clone())));
            }
        }
        let Some(register) = register else { return };
        let Some(group) = &register.it.name else { return };
        if register.body == Body::NullMapping
            && let Some(topic) = register.it.topics.first()
        {
            self.only_java.insert((topic.name.clone(), None));
        }
        if !applies_topics(register, after) {
            return;
        }
        let is_new = is_new_to(register, before);
        for topic in register.mappings() {
            let pair = (topic.clone(), Some(group.clone()));
            if !after.has_queues(topic, group) {
                if is_new {
                    self.only_java.insert(pair);
                }
            } else if !before.mappings.contains(&(topic.clone(), group.clone()))
                && !self.only_java.remove(&pair)
                && !is_new
            {
                self.only_ours.insert(pair);
            }
        }
    }

    /// Mappings that both servers show are nobody's own any more.
    pub fn shown(&mut self, ours: &Tables, java: &Tables) {
        for (topic, group) in ours.mappings.intersection(&java.mappings) {
            let pair = (topic.clone(), Some(group.clone()));
            self.only_java.remove(&pair);
            self.only_ours.remove(&pair);
        }
    }
}

//! The registration rules once more, as plainly as they can be written: ordered maps, full scans,
//! no shortcuts.
//!
//! The rules are those of the Java server's `RouteInfoManager`, but for what the page of
//! differences names: a refusal changes nothing, nobody is orphaned, and all that a broker leaves
//! behind is cleaned up with it.

use std::collections::{BTreeMap, BTreeSet};

use guidepost::model::{DataVersion, Queues, perm};
use guidepost::route::Registration;
use serde_json::{Value, json};

/// How a registration ends; `Accepted` with the master's address and replication address for a
/// slave.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Accepted(Option<(String, Option<String>)>),
    SingleTopic,
    Stale,
}

#[derive(Clone)]
struct Group {
    cluster: String,
    zone: Option<String>,
    acting: bool,
    addrs: BTreeMap<i64, String>,
    clusters: BTreeSet<String>,
}

#[derive(Clone)]
struct Live {
    cluster: String,
    version: Option<DataVersion>,
    ha_addr: Option<String>,
    filters: Vec<String>,
}

pub struct Model {
    groups: BTreeMap<String, Group>,
    /// By group and address.
    live: BTreeMap<(String, String), Live>,
    topics: BTreeMap<String, BTreeMap<String, Queues>>,
    pub knows_single_topic_rule: bool,
}

impl Model {
    pub fn new() -> Model {
        Model {
            groups: BTreeMap::new(),
            live: BTreeMap::new(),
            topics: BTreeMap::new(),
            knows_single_topic_rule: true,
        }
    }

    pub fn member_count(&self) -> usize {
        self.live.len()
    }

    pub fn addresses(&self) -> Vec<(String, String)> {
        self.live.iter().map(|((_, addr), live)| (live.cluster.clone(), addr.clone())).collect()
    }

    pub fn register(&mut self, new: &Registration) -> Outcome {
        let (name, addr) = (new.broker.to_string(), new.addr.to_string());
        let id = new.id.0;
        let holder = self.groups.get(&name).and_then(|group| group.addrs.get(&id)).cloned();
        if let Some(holder) = holder.as_ref().filter(|holder| **holder != addr) {
            let live = &self.live[&(name.clone(), holder.clone())];
            let state = |v: Option<DataVersion>| v.map_or(0, |v| v.state_version);
            if live.cluster == *new.cluster && state(live.version) > state(new.data_version) {
                self.remove(&[(name, addr)]);
                return Outcome::Stale;
            }
        }
        if holder.is_none() && new.topics.len() == 1 && self.knows_single_topic_rule {
            return Outcome::SingleTopic;
        }
        if let Some(holder) = holder.as_ref().filter(|holder| **holder != addr) {
            self.live.remove(&(name.clone(), holder.clone()));
        }
        let old = self.live.remove(&(name.clone(), addr.clone()));
        let old = old.filter(|live| live.cluster == *new.cluster);
        let group = self.groups.entry(name.clone()).or_insert_with(|| Group {
            cluster: new.cluster.to_string(),
            zone: None,
            acting: false,
            addrs: BTreeMap::new(),
            clusters: BTreeSet::new(),
        });
        group.clusters.insert(new.cluster.to_string());
        group.acting = new.acting_master == Some(true);
        group.zone = new.zone.clone();
        group.addrs.retain(|_, other| *other != addr);
        group.addrs.insert(id, addr.clone());
        let smallest = *group.addrs.keys().next().expect("just inserted");
        let prime_slave = id != 0 && new.acting_master.is_some() && id == smallest;
        let differs = match &old {
            Some(live) => live.version.is_none() || live.version != new.data_version,
            None => true,
        };
        if id == 0 || prime_slave {
            self.store_topics(new, prime_slave, holder.is_none() || differs);
        }
        let filters = match (&new.filter_servers, old) {
            (Some(list), _) => list.clone(),
            (None, Some(live)) => live.filters,
            (None, None) => Vec::new(),
        };
        let live = Live {
            cluster: new.cluster.to_string(),
            version: new.data_version,
            ha_addr: new.ha_addr.clone(),
            filters,
        };
        self.live.insert((name.clone(), addr), live);
        Outcome::Accepted(self.master_for(&name, id, &new.cluster))
    }

    fn store_topics(&mut self, new: &Registration, prime_slave: bool, everything: bool) {
        let name = new.broker.to_string();
        if new.delete_missing_topics && new.mappings.is_empty() {
            for (topic, on) in &mut self.topics {
                if !new.topics.iter().any(|config| *config.topic == **topic) {
                    on.remove(&name);
                }
            }
            self.topics.retain(|_, on| !on.is_empty());
        }
        for config in &new.topics {
            let on = self.topics.entry(config.topic.to_string()).or_default();
            if !everything && on.contains_key(&name) {
                continue;
            }
            let mut queues = config.queues;
            if prime_slave && new.acting_master == Some(true) {
                queues.perm &= !perm::WRITE;
            }
            on.insert(name.clone(), queues);
        }
    }

    fn master_for(&self, name: &str, id: i64, cluster: &str) -> Option<(String, Option<String>)> {
        let master = self.groups[name].addrs.get(&0).filter(|_| id != 0)?;
        let live = self.live.get(&(name.to_owned(), master.clone()))?;
        (live.cluster == cluster).then(|| (master.clone(), live.ha_addr.clone()))
    }

    pub fn remove(&mut self, gone: &[(String, String)]) {
        let mut reduced = BTreeSet::new();
        for (name, addr) in gone {
            if self.live.remove(&(name.clone(), addr.clone())).is_none() {
                continue;
            }
            let group = self.groups.get_mut(name).expect("a live broker has a group");
            group.addrs.retain(|_, other| other != addr);
            reduced.insert(name.clone());
        }
        for name in reduced {
            let group = &self.groups[&name];
            if group.addrs.is_empty() {
                self.groups.remove(&name);
                for on in self.topics.values_mut() {
                    on.remove(&name);
                }
                self.topics.retain(|_, on| !on.is_empty());
            } else if group.acting && *group.addrs.keys().next().expect("not empty") > 0 {
                for on in self.topics.values_mut() {
                    if let Some(queues) = on.get_mut(&name) {
                        queues.perm &= !perm::WRITE;
                    }
                }
            }
        }
    }

    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let Some(on) = self.topics.get_mut(topic) else {
            return;
        };
        on.retain(|name, _| cluster.is_some_and(|c| !self.groups[name].clusters.contains(c)));
        self.topics.retain(|_, on| !on.is_empty());
    }

    pub fn register_topic(&mut self, topic: &str, brokers: &[&str], queues: Queues) {
        if brokers.iter().all(|broker| self.groups.contains_key(*broker)) {
            let on = self.topics.entry(topic.to_owned()).or_default();
            on.extend(brokers.iter().map(|broker| ((*broker).to_owned(), queues)));
        }
    }

    pub fn write_perm(&mut self, broker: &str, on: bool) -> u64 {
        let mut count = 0;
        for queues in self.topics.values_mut().filter_map(|groups| groups.get_mut(broker)) {
            queues.perm = if on { 6 } else { queues.perm & !perm::WRITE };
            count += 1;
        }
        count
    }

    pub fn route(&self, topic: &str, acting_master: bool) -> Option<Value> {
        let on = self.topics.get(topic)?;
        let substitute = acting_master && !topic.starts_with("rmq_sys_SYNC_BROKER_MEMBER_");
        let mut brokers = Vec::new();
        let mut filters = serde_json::Map::new();
        let mut queue_datas = Vec::new();
        for (name, queues) in on {
            let group = &self.groups[name];
            let mut addrs = group.addrs.clone();
            let read_only = queues.perm & perm::WRITE == 0;
            if substitute && read_only && group.acting && !addrs.contains_key(&0) {
                let smallest = *addrs.keys().next().expect("not empty");
                let addr = addrs.remove(&smallest).expect("just seen");
                addrs.insert(0, addr);
            }
            brokers.push(group.show(name, &addrs));
            for addr in group.addrs.values() {
                let live = &self.live[&(name.clone(), addr.clone())];
                if live.cluster == group.cluster && !live.filters.is_empty() {
                    filters.insert(addr.clone(), json!(live.filters));
                }
            }
            queue_datas.push(json!({
                "brokerName": name, "perm": queues.perm, "readQueueNums": queues.read,
                "topicSysFlag": queues.sys_flag, "writeQueueNums": queues.write,
            }));
        }
        Some(sorted(json!({
            "brokerDatas": brokers, "filterServerTable": filters, "queueDatas": queue_datas,
        })))
    }

    pub fn cluster_info(&self) -> Value {
        let table = self.groups.iter().map(|(name, g)| (name.clone(), g.show(name, &g.addrs)));
        let table: serde_json::Map<String, Value> = table.collect();
        let mut clusters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, group) in &self.groups {
            for cluster in &group.clusters {
                clusters.entry(cluster).or_default().push(name);
            }
        }
        sorted(json!({ "brokerAddrTable": table, "clusterAddrTable": clusters }))
    }
}

impl Group {
    fn show(&self, name: &str, addrs: &BTreeMap<i64, String>) -> Value {
        let mut shown = json!({
            "brokerAddrs": addrs.iter().map(|(id, addr)| (id.to_string(), addr.clone()))
                .collect::<BTreeMap<String, String>>(),
            "brokerName": name, "cluster": self.cluster, "enableActingMaster": self.acting,
        });
        if let Some(zone) = &self.zone {
            shown["zoneName"] = json!(zone);
        }
        shown
    }
}

/// The value with arrays whose order means nothing sorted.
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(members) => {
            let members: BTreeMap<String, Value> = members.into_iter().collect();
            members.into_iter().map(|(name, value)| (name, sorted(value))).collect()
        }
        other => other,
    }
}

/// The legacy dialect made JSON: bare integer keys get quotes.
pub fn quoted(text: &[u8]) -> Value {
    let text = std::str::from_utf8(text).expect("answers are UTF-8");
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', ',']) {
        let (before, after) = rest.split_at(at + 1);
        out.push_str(before);
        let digits = after.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(0);
        rest = after;
        if digits > 0 && after[digits..].starts_with(':') {
            out.push_str(&format!("\"{}\"", &after[..digits]));
            rest = &after[digits..];
        }
    }
    out.push_str(rest);
    serde_json::from_str(&out).expect("JSON but for its integer keys")
}

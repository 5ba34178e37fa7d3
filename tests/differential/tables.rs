//! All that can be seen of a server's tables, asked for at once, and what it says.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::conn::Conn;
use crate::support::frame::{Answer, Request};
use crate::support::json::parse;

use super::steps::Names;

/// The requests that show everything, each with a line for people.
pub fn questions(names: &Names) -> Vec<(String, Request)> {
    let mut all: Vec<(String, Request)> = Vec::new();
    let mut add = |text: String, request: Request| all.push((text, request));
    for (name, code) in [
        ("clusters", 106),
        ("topics", 206),
        ("system-topics", 304),
        ("unit-topics", 311),
        ("unit-sub-topics", 312),
        ("unit-sub-only-topics", 313),
    ] {
        add(name.to_owned(), Request::new(code));
    }
    for topic in names.all('t') {
        add(format!("route {topic}"), Request::new(105).ext("topic", topic));
    }
    for cluster in names.all('c') {
        add(format!("topics-of {cluster}"), Request::new(224).ext("cluster", cluster));
        for addr in names.all('a') {
            let request = Request::new(322).ext("clusterName", cluster).ext("brokerAddr", addr);
            add(format!("data-version {cluster} {addr}"), request);
        }
    }
    for group in names.all('g') {
        let request = Request::new(901).ext("clusterName", "any").ext("brokerName", group);
        add(format!("members {group}"), request);
    }
    for namespace in [names.get("ns"), "ORDER_TOPIC_CONFIG"] {
        add(format!("kv-list {namespace}"), Request::new(219).ext("namespace", namespace));
    }
    all
}

/// Asks all of them, one behind the other without waiting.
pub fn ask(conn: &mut Conn, questions: &[(String, Request)]) -> Result<Vec<Answer>, String> {
    let opaques: Vec<i32> =
        questions.iter().map(|(_, request)| conn.send(request.clone())).collect();
    opaques.into_iter().map(|opaque| conn.try_answer_to(opaque)).collect()
}

/// One broker group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub cluster: String,
    pub acting: bool,
    pub zone: Option<String>,
    /// Addresses by id, ascending.
    pub members: BTreeMap<i64, String>,
}

impl Group {
    pub fn id_of(&self, addr: &str) -> Option<i64> {
        self.members.iter().find(|(_, known)| *known == addr).map(|(id, _)| *id)
    }

    /// Acting master is on and the smallest id is not a master.
    pub fn is_masterless_acting(&self) -> bool {
        self.acting && self.members.keys().next().is_some_and(|smallest| *smallest > 0)
    }
}

/// What the answers to [`questions`] mean.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    pub groups: BTreeMap<String, Group>,
    pub clusters: BTreeMap<String, BTreeSet<String>>,
    /// Queues by topic and group, as JSON.
    pub queues: BTreeMap<String, BTreeMap<String, Value>>,
    /// Topic and group of each mapping.
    pub mappings: BTreeSet<(String, String)>,
    /// Whether routes are not told yet, so that queues and mappings are unknown.
    pub routes_hidden: bool,
    /// Data versions by cluster and address.
    pub versions: BTreeMap<(String, String), Value>,
}

impl Tables {
    /// Reads the answers; what belongs to others is left out.
    pub fn read(
        names: &Names,
        questions: &[(String, Request)],
        answers: &[Answer],
    ) -> Result<Tables, String> {
        let mut tables = Tables::default();
        for ((_, request), answer) in questions.iter().zip(answers) {
            tables.routes_hidden |= request.code == 105 && answer.code() == 1;
            if answer.code() != 0 || answer.body.is_empty() {
                continue;
            }
            let body = parse(&answer.body)?.0;
            match request.code {
                106 => tables.read_clusters(names, &body),
                105 => tables.read_route(&field(request, "topic"), &body),
                322 => {
                    let key = (field(request, "clusterName"), field(request, "brokerAddr"));
                    tables.versions.insert(key, body);
                }
                _ => {}
            }
        }
        Ok(tables)
    }

    fn read_clusters(&mut self, names: &Names, body: &Value) {
        for (name, group) in members(&body["brokerAddrTable"]) {
            if !name.contains(&names.mark) {
                continue;
            }
            let id = |id: &String| id.parse().unwrap_or(i64::MIN);
            let found = Group {
                cluster: text(&group["cluster"]),
                acting: group["enableActingMaster"] == true,
                zone: group["zoneName"].as_str().map(str::to_owned),
                members: members(&group["brokerAddrs"]).map(|(i, a)| (id(i), text(a))).collect(),
            };
            self.groups.insert(name.clone(), found);
        }
        for (cluster, list) in members(&body["clusterAddrTable"]) {
            let list = list.as_array().into_iter().flatten().map(text);
            let list: BTreeSet<String> = list.filter(|name| name.contains(&names.mark)).collect();
            if !list.is_empty() {
                self.clusters.insert(cluster.clone(), list);
            }
        }
    }

    fn read_route(&mut self, topic: &str, body: &Value) {
        let queues = body["queueDatas"].as_array().into_iter().flatten();
        let queues = queues.map(|queue| (text(&queue["brokerName"]), queue.clone()));
        self.queues.insert(topic.to_owned(), queues.collect());
        for (group, _) in members(&body["topicQueueMappingByBroker"]) {
            self.mappings.insert((topic.to_owned(), group.clone()));
        }
    }

    pub fn has_queues(&self, topic: &str, group: &str) -> bool {
        self.queues.get(topic).is_some_and(|queues| queues.contains_key(group))
    }

    /// The clusters that list a group.
    pub fn clusters_of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a str> {
        let listing = self.clusters.iter().filter(move |(_, groups)| groups.contains(group));
        listing.map(|(cluster, _)| cluster.as_str())
    }

    /// Topics whose groups disagree about a flag: which of them a unit list reads is arbitrary.
    pub fn mixed_flags(&self) -> BTreeSet<&str> {
        let mixed = self.queues.iter().filter(|(_, queues)| {
            let flags: BTreeSet<i64> =
                queues.values().filter_map(|queue| queue["topicSysFlag"].as_i64()).collect();
            flags.len() > 1
        });
        mixed.map(|(topic, _)| topic.as_str()).collect()
    }
}

/// A request's field, empty when it is absent.
pub fn field(request: &Request, name: &str) -> String {
    let found = request.ext.iter().flatten().find(|(known, _)| known == name);
    found.map_or_else(String::new, |(_, value)| value.clone())
}

pub fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

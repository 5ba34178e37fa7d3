//! Where guidepost differs from the Java NameServer 5.5.0 on purpose: the whole list.
//!
//! Each difference is recognised from the request and the tables before it, never from the answers;
//! says what both servers must answer; and is undone on the Java server, so that both are in the
//! same state again for the next step. What could not be undone there is not asked of it: guidepost
//! must refuse it and change nothing.

use crate::support::frame::Request;
use crate::support::registration::{Layout, Registration};

use super::ledger::Ledger;
use super::steps::{Body, Register};
use super::tables::{Tables, field};

/// Name, and what the Java server does instead. Those without a place in this file have it in
/// `compare.rs` (texts, zones) and `ledger.rs` (mappings).
pub const DIFFERENCES: [(&str, &str); 17] = [
    (ERROR_TEXTS, "answers exceptions with a Java class and a place in its program"),
    (MAPPINGS_GO, "keeps mappings of static topics for ever; we drop them with their queues"),
    (MAPPINGS_COME, "takes mappings only with a new data version, also those that it lacks"),
    (SINGLE_TOPIC, "leaves an empty group, its cluster, zone and acting master of a refused one"),
    (
        STALE,
        "takes zone and acting master of it, and forgets its sender without settling the perms",
    ),
    (NULLS, "applies a body up to the null that it trips over, and answers success"),
    (NULL_VERSION, "trips over it when an id changes hands: success, and not registered"),
    (UNNAMED, "registers half of a broker without a name, address or cluster, with success"),
    (ORPHANS, "keeps the live entry of an address that lost its id or changed its cluster"),
    (TWO_CLUSTERS, "leaves a group's name in the other cluster when the group is gone"),
    (CLOSED, "drops one broker of a closed connection, and none that registered elsewhere"),
    (INCOMPLETE_104, "queues an unregistration without id or names, and drops the whole batch"),
    (WRONG_104, "drops the live entry that an unregistration names, whatever the group is"),
    (ZLIB, "refuses a compressed body that says it is not, as 5.x brokers send it; we look at it"),
    (PARTIAL_217, "adds a topic's queues up to the first unknown broker; we add all or none"),
    (ZONE_DIALECT, "answers in the legacy dialect to whoever asks in zone mode"),
    (ZONE_MAPPINGS, "leaves mappings of brokers in an answer that its filter takes out of it"),
];
pub const ERROR_TEXTS: &str = "error texts";
pub const MAPPINGS_GO: &str = "mappings go with their queues";
pub const MAPPINGS_COME: &str = "mappings come with their queues";
pub const ZONE_DIALECT: &str = "a filtered route is in the dialect asked for";
pub const ZONE_MAPPINGS: &str = "mappings are filtered with their brokers";
const SINGLE_TOPIC: &str = "a refused increment leaves no trace";
const STALE: &str = "a refused stale registration leaves no trace";
const NULLS: &str = "nulls refuse the whole body";
const NULL_VERSION: &str = "a null data version is of state 0";
const UNNAMED: &str = "a broker has names";
const ORPHANS: &str = "no orphaned addresses";
const TWO_CLUSTERS: &str = "no orphaned cluster members";
const CLOSED: &str = "all brokers of a connection go";
const INCOMPLETE_104: &str = "an unregistration is complete";
const WRONG_104: &str = "an unregistration names a member";
const ZLIB: &str = "compression is recognised";
const PARTIAL_217: &str = "all queues of a new topic or none";

/// What to do with a step.
#[derive(Debug)]
pub struct Plan {
    /// Differences that apply.
    pub names: Vec<&'static str>,
    pub java: Java,
    /// Sent to the Java server afterwards.
    pub repairs: Vec<Repair>,
}

/// What the Java server is asked.
#[derive(Debug)]
pub enum Java {
    /// The same, and answers the same.
    Same,
    /// Nothing: guidepost answers this code and changes nothing.
    NotAsked(i64),
    /// The same; it answers success where guidepost answers code 1.
    Accepts,
    /// The same, and it answers this code without doing it; then, repaired, the request that it
    /// does, and its answer is guidepost's.
    Then { code: i64, repairs: Vec<Repair>, request: Box<Request> },
}

/// One thing to put right on the Java server.
#[derive(Clone, PartialEq, Debug)]
pub enum Repair {
    /// Removes a live entry and filter servers, and nothing else.
    Forget { cluster: String, addr: String },
    /// Removes a member.
    Unregister { cluster: String, group: String, addr: String, id: i64 },
    /// Takes a group that is gone out of a cluster.
    Leave { cluster: String, group: String },
    /// Brings back a member's live entry and the looks of its group.
    Restore { group: String, addr: String },
    /// Takes the write permission from a group's topics.
    Wipe { group: String },
    /// Brings back a group's queues of all topics.
    Queues { group: String },
}

impl Plan {
    fn same() -> Plan {
        Plan { names: Vec::new(), java: Java::Same, repairs: Vec::new() }
    }

    fn not_asked(name: &'static str) -> Plan {
        Plan { names: vec![name], java: Java::NotAsked(1), repairs: Vec::new() }
    }

    fn with(mut self, name: &'static str, repair: Repair) -> Plan {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        if !self.repairs.contains(&repair) {
            self.repairs.push(repair);
        }
        self
    }
}

/// The plan for a request that is no registration.
pub fn for_request(request: &Request, tables: &Tables, ledger: &Ledger) -> Plan {
    match request.code {
        104 => unregistration(request, tables, ledger),
        217 => new_topic(request, tables),
        _ => Plan::same(),
    }
}

fn unregistration(request: &Request, tables: &Tables, ledger: &Ledger) -> Plan {
    let part = |name: &str| field(request, name);
    let names = ["brokerName", "brokerAddr", "clusterName"];
    if names.iter().any(|name| part(name).is_empty()) || part("brokerId").parse::<i64>().is_err() {
        return Plan::not_asked(INCOMPLETE_104);
    }
    let (name, addr, cluster) = (part("brokerName"), part("brokerAddr"), part("clusterName"));
    let group = tables.groups.get(&name);
    let is_member = group.is_some_and(|group| group.id_of(&addr).is_some());
    let mut plan = Plan::same();
    if is_member {
        if let Some(known) = ledger.cluster_of(&addr).filter(|known| *known != cluster) {
            let (cluster, addr) = (known.to_owned(), addr.clone());
            plan = plan.with(WRONG_104, Repair::Forget { cluster, addr });
        }
        if group.is_some_and(|group| group.members.len() == 1) {
            plan = leave(plan, tables, &name, &cluster);
        }
        return plan;
    }
    for (owner, group) in &tables.groups {
        if group.id_of(&addr).is_some() {
            plan =
                plan.with(WRONG_104, Repair::Restore { group: owner.clone(), addr: addr.clone() });
        }
    }
    if group.is_some_and(super::tables::Group::is_masterless_acting) {
        plan = plan.with(WRONG_104, Repair::Queues { group: name });
    }
    plan
}

/// A group ends: the Java server takes it out of one cluster only.
fn leave(mut plan: Plan, tables: &Tables, group: &str, left: &str) -> Plan {
    for cluster in tables.clusters_of(group).filter(|cluster| *cluster != left) {
        let (cluster, group) = (cluster.to_owned(), group.to_owned());
        plan = plan.with(TWO_CLUSTERS, Repair::Leave { cluster, group });
    }
    plan
}

fn new_topic(request: &Request, tables: &Tables) -> Plan {
    let topic = field(request, "topic");
    let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let queues = body["queueDatas"].as_array().into_iter().flatten();
    let named: Vec<String> =
        queues.map(|queue| super::tables::text(&queue["brokerName"])).collect();
    let known = |name: &String| tables.groups.contains_key(name);
    let partly = named.first().is_some_and(known) && !named.iter().all(known);
    if partly && (tables.routes_hidden || tables.queues.contains_key(&topic)) {
        return Plan { names: vec![PARTIAL_217], java: Java::NotAsked(0), repairs: Vec::new() };
    }
    Plan::same()
}

/// The plan for the end of a connection.
pub fn for_close(conn: &str, tables: &Tables, ledger: &Ledger) -> Plan {
    let mut plan = Plan::same();
    let mut gone = Vec::new();
    for (group, addr, cluster) in ledger.on_connection(conn, tables) {
        let id = tables.groups[&group].id_of(&addr).expect("the ledger names members");
        gone.push((group, addr, cluster, id));
    }
    let resolvable = |group: &str, cluster: &str| tables.groups[group].cluster == cluster;
    let plain = matches!(gone.as_slice(), [(group, _, cluster, _)] if resolvable(group, cluster));
    for (group, addr, cluster, id) in &gone {
        let (group, addr, cluster) = (group.clone(), addr.clone(), cluster.clone());
        if !plain {
            plan = plan.with(CLOSED, Repair::Unregister { cluster, group, addr, id: *id });
        }
    }
    for (name, group) in &tables.groups {
        let left: Vec<&String> = gone.iter().filter(|g| g.0 == *name).map(|g| &g.2).collect();
        if left.len() == group.members.len() {
            plan = leave(plan, tables, name, if plain { left[0] } else { "" });
        }
    }
    plan
}

/// The plan for a registration.
pub fn for_registration(
    register: &Register,
    request: &Request,
    tables: &Tables,
    ledger: &Ledger,
) -> Plan {
    let it = &register.it;
    let (Some(name), Some(addr), Some(cluster)) = (&it.name, &it.addr, &it.cluster) else {
        return Plan::not_asked(UNNAMED);
    };
    let Some(id) = it.id.as_ref().and_then(|id| id.parse::<i64>().ok()) else {
        return Plan::same();
    };
    let plain_said_zip = register.body == Body::WrongFlag && matches!(it.layout, Layout::Json);
    if it.crc.as_deref() == Some("1") || register.body == Body::Unreadable || plain_said_zip {
        return Plan::same(); // Refused before the tables are looked at.
    }
    let case = Case { register, request, it, name, addr, cluster, id, tables, ledger };
    if has_fatal_null(register.body) {
        return case.null_body(register.body);
    }
    let plan = case.readable_body();
    if register.body == Body::WrongFlag && matches!(plan.java, Java::Same) {
        let mut meant = request.clone();
        for (name, value) in meant.ext.iter_mut().flatten() {
            if name == "compressed" {
                "true".clone_into(value);
            }
        }
        let mut names = plan.names;
        names.push(ZLIB);
        let java = Java::Then { code: 1, repairs: Vec::new(), request: Box::new(meant) };
        return Plan { names, java, repairs: plan.repairs };
    }
    plan
}

fn has_fatal_null(body: Body) -> bool {
    matches!(
        body,
        Body::NullWrapper
            | Body::NullTable
            | Body::Nameless
            | Body::NullMapping
            | Body::NullMappings
    )
}

/// A registration beside the tables.
struct Case<'a> {
    register: &'a Register,
    request: &'a Request,
    it: &'a Registration,
    name: &'a str,
    addr: &'a str,
    cluster: &'a str,
    id: i64,
    tables: &'a Tables,
    ledger: &'a Ledger,
}

impl Case<'_> {
    fn group(&self) -> Option<&super::tables::Group> {
        self.tables.groups.get(self.name)
    }

    /// Refused by both, but the Java server has changed something before.
    fn refused(&self, name: &'static str, java: Java) -> Plan {
        let mut plan = Plan { names: vec![name], java, repairs: Vec::new() };
        let Some(group) = self.group() else {
            let (cluster, group) = (self.cluster.to_owned(), self.name.to_owned());
            let addr = self.addr.to_owned();
            plan.repairs = vec![Repair::Unregister { cluster, group, addr, id: self.id }];
            return plan;
        };
        let moves = group.id_of(self.addr).is_some_and(|id| id != self.id);
        let joins = !self.tables.clusters_of(self.name).any(|cluster| cluster == self.cluster);
        if moves || joins {
            return Plan::not_asked(name);
        }
        let member = group.members.values().next();
        let addr = member.expect("a group has members").clone();
        plan.repairs = vec![Repair::Restore { group: self.name.to_owned(), addr }];
        plan
    }

    fn null_body(&self, body: Body) -> Plan {
        let holder = self.group().and_then(|group| group.members.get(&self.id));
        let early = matches!(body, Body::NullWrapper | Body::NullTable);
        match holder {
            // The wrapper is looked at after the live entry is replaced.
            Some(holder) if early && holder == self.addr => {
                let refused = self.refused(NULLS, Java::Accepts);
                let (group, addr) = (self.name.to_owned(), self.addr.to_owned());
                match self.ledger.cluster_of(&addr) {
                    Some(cluster) if cluster == self.cluster => {
                        Plan { repairs: vec![Repair::Restore { group, addr }], ..refused }
                    }
                    _ => Plan::not_asked(NULLS),
                }
            }
            Some(_) => Plan::not_asked(NULLS),
            None if self.group().is_none() || early => self.refused(NULLS, Java::Accepts),
            None => Plan::not_asked(NULLS),
        }
    }

    fn readable_body(&self) -> Plan {
        let holder = self.group().and_then(|group| group.members.get(&self.id));
        let Some(holder) = holder else {
            return if self.it.topics.len() == 1 {
                self.refused(SINGLE_TOPIC, Java::Same)
            } else {
                self.orphans(Plan::same())
            };
        };
        let theirs = self.ledger.cluster_of(holder);
        if holder != self.addr && theirs == Some(self.cluster) {
            let key = (self.cluster.to_owned(), holder.clone());
            let state = |version: &serde_json::Value| version["stateVersion"].as_i64();
            let stored = self.tables.versions.get(&key).and_then(state).unwrap_or(0);
            if stored > self.it.state {
                let (group, addr) = (self.name.to_owned(), holder.clone());
                let plan = Plan::same().with(STALE, Repair::Restore { group, addr });
                let plan = self.displaced(plan, self.addr);
                return if self.loses_master() {
                    plan.with(STALE, Repair::Wipe { group: self.name.to_owned() })
                } else {
                    plan
                };
            }
            if self.register.has_null_version() || !self.tables.versions.contains_key(&key) {
                let mut plan = self.displaced(self.orphans(Plan::same()), holder);
                plan.names.push(NULL_VERSION);
                let (repairs, request) = (plan.repairs.clone(), Box::new(self.request.clone()));
                plan.java = Java::Then { code: 0, repairs, request };
                return plan;
            }
        }
        let plan = self.orphans(Plan::same());
        if holder == self.addr { plan } else { self.displaced(plan, holder) }
    }

    /// The live entry of the registering address under another cluster.
    fn orphans(&self, plan: Plan) -> Plan {
        let other = self.ledger.cluster_of(self.addr).filter(|known| *known != self.cluster);
        if other.is_some() { self.displaced(plan, self.addr) } else { plan }
    }

    /// Whether the group of a stale claimant becomes masterless, with acting master on.
    fn loses_master(&self) -> bool {
        let mut after = self.group().cloned().unwrap_or_default();
        let claimant = after.id_of(self.addr);
        claimant.is_some_and(|id| after.members.remove(&id).is_some())
            && after.is_masterless_acting()
    }

    /// Whatever is left of an address that is no member any more.
    fn displaced(&self, plan: Plan, addr: &str) -> Plan {
        match self.ledger.cluster_of(addr) {
            Some(cluster) => {
                let (cluster, addr) = (cluster.to_owned(), addr.to_owned());
                plan.with(ORPHANS, Repair::Forget { cluster, addr })
            }
            None => plan,
        }
    }
}

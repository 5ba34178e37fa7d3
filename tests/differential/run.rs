//! Runs a sequence on both servers, step by step: sends it to both, compares the answers, undoes
//! the deliberate differences on the Java server, and compares all tables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::conn::Conn;
use crate::support::frame::{Answer, Request};
use crate::support::registration::Registration;
use crate::support::script::Action;

use super::compare::{View, difference, is_java_error, zone_differences};
use super::differences::{ERROR_TEXTS, Java, MAPPINGS_COME, MAPPINGS_GO, Plan, Repair};
use super::differences::{for_close, for_registration, for_request};
use super::ledger::Ledger;
use super::steps::{Names, Sent, Step};
use super::tables::{Tables, ask, questions};

/// How long the servers may take to notice a closed connection, and the Java server to work off
/// unregistrations, which it does in a thread of its own.
const SETTLED_WITHIN: Duration = Duration::from_secs(5);
/// How long tables may differ after a close, of which guidepost learns from the kernel.
const NOTICED_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The two servers.
#[derive(Clone, Copy, Debug)]
pub struct Servers {
    pub ours: SocketAddr,
    pub java: SocketAddr,
}

/// What a run was made of.
#[derive(Debug, Default)]
pub struct Counts {
    /// How often each difference applied.
    pub differences: BTreeMap<&'static str, usize>,
    /// Answers by the codes of request and answer.
    pub answers: BTreeMap<(i32, i64), usize>,
}

impl Counts {
    fn difference(&mut self, name: &'static str, times: usize) {
        *self.differences.entry(name).or_default() += times;
    }
}

/// A difference that nothing on the list explains.
#[derive(Debug)]
pub struct Unexplained {
    /// The step after which it showed.
    pub step: usize,
    pub what: String,
}

/// Runs a sequence under names of its own; both servers' tables are empty of them afterwards.
pub fn run(
    servers: Servers,
    names: &Names,
    steps: &[Step],
    counts: &mut Counts,
) -> Result<(), Unexplained> {
    let mut stage = Stage::new(servers, names, counts);
    let mut result = Ok(());
    for (number, step) in steps.iter().enumerate() {
        if let Err(what) = stage.step(&step.sent(names)) {
            result = Err(Unexplained { step: number, what });
            break;
        }
    }
    let emptied = stage.empty();
    result?;
    emptied.map_err(|what| Unexplained { step: steps.len(), what })
}

/// Connections to one server, and one of our own for looking.
struct Side {
    addr: SocketAddr,
    conns: HashMap<String, Conn>,
    control: Conn,
}

impl Side {
    fn new(addr: SocketAddr) -> Side {
        Side { addr, conns: HashMap::new(), control: Conn::open(addr) }
    }

    fn ask(&mut self, conn: &str, request: &Request) -> Result<Answer, String> {
        let addr = self.addr;
        let conn = self.conns.entry(conn.to_owned()).or_insert_with(|| Conn::open(addr));
        let opaque = conn.send(request.clone());
        conn.try_answer_to(opaque)
    }

    fn control(&mut self, request: Request) -> Result<Answer, String> {
        let opaque = self.control.send(request);
        self.control.try_answer_to(opaque)
    }
}

struct Stage<'a> {
    names: &'a Names,
    questions: Vec<(String, Request)>,
    ours: Side,
    java: Side,
    tables: Tables,
    ledger: Ledger,
    counts: &'a mut Counts,
    sentinels: usize,
}

impl<'a> Stage<'a> {
    fn new(servers: Servers, names: &'a Names, counts: &'a mut Counts) -> Stage<'a> {
        Stage {
            names,
            questions: questions(names),
            ours: Side::new(servers.ours),
            java: Side::new(servers.java),
            tables: Tables::default(),
            ledger: Ledger::default(),
            counts,
            sentinels: 0,
        }
    }

    fn step(&mut self, sent: &Sent) -> Result<(), String> {
        let (plan, accepted) = match &sent.action {
            Action::Ask { conn, request, .. } => self.ask_both(sent, conn, request)?,
            Action::Close { conn } | Action::Reset { conn } => {
                let plan = for_close(conn, &self.tables, &self.ledger);
                for side in [&mut self.ours, &mut self.java] {
                    match (side.conns.remove(conn), &sent.action) {
                        (Some(conn), Action::Reset { .. }) => conn.reset(),
                        (conn, _) => drop(conn),
                    }
                }
                self.await_close()?;
                (plan, true)
            }
            other => return Err(format!("not a step of a sequence: {other:?}")),
        };
        for name in &plan.names {
            self.counts.difference(name, 1);
        }
        self.repair(&plan.repairs)?;
        let queued = matches!(&sent.action, Action::Ask { request, .. } if request.code == 104);
        if queued || !plan.repairs.is_empty() {
            self.await_queue()?;
        }
        self.compare_tables(sent, accepted, matches!(plan.java, Java::Accepts))
    }

    /// Sends a request to both and compares the answers. Whether it was a success.
    fn ask_both(
        &mut self,
        sent: &Sent,
        conn: &str,
        request: &Request,
    ) -> Result<(Plan, bool), String> {
        let plan = match &sent.register {
            Some(register) => for_registration(register, request, &self.tables, &self.ledger),
            None => for_request(request, &self.tables, &self.ledger),
        };
        let ours = self.ours.ask(conn, request)?;
        let accepted = ours.code() == 0;
        *self.counts.answers.entry((request.code, ours.code())).or_default() += 1;
        let (expected, java) = match &plan.java {
            Java::NotAsked(code) => {
                // Opened, so that both have the same connections.
                self.java.ask(conn, &Request::new(999))?;
                (Some(*code), None)
            }
            Java::Same => (None, Some(self.java.ask(conn, request)?)),
            Java::Accepts => {
                let java = self.java.ask(conn, request)?;
                if java.code() != 0 {
                    return Err(format!("Java is said to accept this: {}", java.text()));
                }
                (Some(1), None)
            }
            Java::Then { code, repairs, request: meant } => {
                let java = self.java.ask(conn, request)?;
                if java.code() != *code {
                    return Err(format!("Java is said to answer {code} here: {}", java.text()));
                }
                self.repair(repairs)?;
                if !repairs.is_empty() {
                    self.await_queue()?;
                }
                (None, Some(self.java.ask(conn, meant)?))
            }
        };
        if expected.is_some_and(|code| code != ours.code()) {
            return Err(format!("the list says {expected:?}, guidepost: {}", ours.text()));
        }
        if let Some(java) = java {
            if is_java_error(&java) {
                self.counts.difference(ERROR_TEXTS, 1);
            }
            for name in zone_differences(request, &java) {
                self.counts.difference(name, 1);
            }
            let view = View {
                names: self.names,
                tables: &self.tables,
                only_java: &self.ledger.only_java,
                only_ours: &self.ledger.only_ours,
            };
            if let Some(what) = difference(request, &ours, &java, &view) {
                return Err(what);
            }
        }
        Ok((plan, accepted))
    }

    /// Looks at both servers until their tables are equal.
    fn compare_tables(
        &mut self,
        sent: &Sent,
        accepted: bool,
        java_accepted: bool,
    ) -> Result<(), String> {
        let is_close = matches!(sent.action, Action::Close { .. } | Action::Reset { .. });
        let patience = if is_close { NOTICED_WITHIN } else { Duration::ZERO };
        let deadline = Instant::now() + patience;
        let register = sent.register.as_deref().filter(|_| accepted);
        let loose = (self.ledger.only_java.len(), self.ledger.only_ours.len());
        let read = sent.register.as_deref().filter(|_| accepted || java_accepted);
        loop {
            let ours = ask(&mut self.ours.control, &self.questions)?;
            let java = ask(&mut self.java.control, &self.questions)?;
            let after = Tables::read(self.names, &self.questions, &ours)?;
            let java_tables = Tables::read(self.names, &self.questions, &java)?;
            self.ledger.mappings(read, &self.tables, &after);
            self.ledger.shown(&after, &java_tables);
            let Some(what) = self.differing(&ours, &java, &after) else {
                let now = (self.ledger.only_java.len(), self.ledger.only_ours.len());
                self.counts.difference(MAPPINGS_GO, now.0.saturating_sub(loose.0));
                self.counts.difference(MAPPINGS_COME, now.1.saturating_sub(loose.1));
                if let Some(register) = register {
                    self.ledger.registered(register, &after);
                }
                self.ledger.settle(&after);
                self.tables = after;
                return Ok(());
            };
            if Instant::now() >= deadline {
                return Err(what);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn differing(&self, ours: &[Answer], java: &[Answer], tables: &Tables) -> Option<String> {
        let view = View {
            names: self.names,
            tables,
            only_java: &self.ledger.only_java,
            only_ours: &self.ledger.only_ours,
        };
        let mut pairs = self.questions.iter().zip(ours.iter().zip(java));
        pairs.find_map(|((text, request), (ours, java))| {
            let what = difference(request, ours, java, &view)?;
            Some(format!("afterwards `{text}` differs: {what}"))
        })
    }

    fn repair(&mut self, repairs: &[Repair]) -> Result<(), String> {
        for repair in repairs {
            let answer = match repair {
                Repair::Forget { cluster, addr } => {
                    // A group that nobody has: only the live entry is found.
                    self.java.control(unregister(cluster, "no-such-group", addr, 0))?
                }
                Repair::Unregister { cluster, group, addr, id } => {
                    self.java.control(unregister(cluster, group, addr, *id))?
                }
                Repair::Leave { cluster, group } => {
                    self.await_queue()?;
                    let joins = Registration::new(group, "leaves:1", 0, cluster, &[]);
                    self.java.control(joins.request())?;
                    self.java.control(unregister(cluster, group, "leaves:1", 0))?
                }
                Repair::Restore { group, addr } => {
                    self.await_queue()?;
                    self.restore(group, addr)?
                }
                Repair::Wipe { group } => {
                    self.await_queue()?;
                    self.java.control(Request::new(205).ext("brokerName", group))?
                }
                Repair::Queues { group } => {
                    self.await_queue()?;
                    self.restore_queues(group)?
                }
            };
            if answer.code() != 0 {
                return Err(format!("{repair:?} was refused: {}", answer.text()));
            }
        }
        Ok(())
    }

    /// Registers a member as it was, with a null table, which leaves topics alone.
    fn restore(&mut self, group: &str, addr: &str) -> Result<Answer, String> {
        let found = self.tables.groups.get(group).ok_or("no such group to restore")?;
        let id = found.id_of(addr).ok_or("no such member to restore")?;
        let told = self.ledger.told(addr).ok_or("nobody knows how the member registered")?;
        let key = (told.cluster.clone(), addr.to_owned());
        let mut version = self.tables.versions.get(&key).cloned().unwrap_or_default();
        if let Some(parts) = version.as_object_mut() {
            parts.entry("counter").or_insert_with(|| json!(null)); // Absent, it would be 0.
        }
        let body = json!({
            "filterServerList": told.filters,
            "topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": null},
        });
        let mut request = Request::new(103)
            .ext("brokerName", group)
            .ext("brokerAddr", addr)
            .ext("brokerId", id)
            .ext("clusterName", &told.cluster)
            .ext("enableActingMaster", found.acting)
            .body(body.to_string());
        let optional = [
            ("haServerAddr", &told.ha),
            ("heartbeatTimeoutMillis", &told.timeout),
            ("__ZONE_NAME", &found.zone),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                request = request.ext(name, value);
            }
        }
        let conn = told.conn.clone();
        self.java.ask(&conn, &request)
    }

    fn restore_queues(&mut self, group: &str) -> Result<Answer, String> {
        let mut last = self.java.control(Request::new(217))?;
        for (topic, queues) in &self.tables.queues {
            if let Some(queue) = queues.get(group) {
                let body = json!({ "queueDatas": [queue] }).to_string();
                let request = Request::new(217).ext("topic", topic).body(body);
                let opaque = self.java.control.send(request);
                last = self.java.control.try_answer_to(opaque)?;
            }
        }
        Ok(last)
    }

    /// Waits until the Java server has worked off the unregistrations sent before: it does so in
    /// order.
    fn await_queue(&mut self) -> Result<(), String> {
        let group = self.sentinel();
        let joins = Registration::new(&group, &group, 0, "sentinels", &[]);
        self.java.control(joins.request())?;
        self.java.control(unregister("sentinels", &group, &group, 0))?;
        self.await_end(&group)
    }

    /// Waits until the Java server has worked off the connections closed before.
    fn await_close(&mut self) -> Result<(), String> {
        let group = self.sentinel();
        let mut conn = Conn::open(self.java.addr);
        let joins = Registration::new(&group, &group, 0, "sentinels", &[]);
        let opaque = conn.send(joins.request());
        conn.try_answer_to(opaque)?;
        drop(conn);
        self.await_end(&group)
    }

    fn sentinel(&mut self) -> String {
        self.sentinels += 1;
        format!("sentinel-{}-{}", self.sentinels, &self.names.mark[1..])
    }

    fn await_end(&mut self, group: &str) -> Result<(), String> {
        let deadline = Instant::now() + SETTLED_WITHIN;
        loop {
            let request = Request::new(901).ext("clusterName", "any").ext("brokerName", group);
            let answer = self.java.control(request)?;
            if answer.body_text().contains("\"brokerAddrs\":{}") {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("the Java server does not let go of {group}"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Removes everything that the sequence left, on each server what it has itself.
    fn empty(&mut self) -> Result<(), String> {
        self.ours.conns.clear();
        self.java.conns.clear();
        self.await_close()?;
        for java in [true, false] {
            for key in self.names.all('t').chain(["k"]) {
                for namespace in [self.names.get("ns"), "ORDER_TOPIC_CONFIG"] {
                    let request = Request::new(102).ext("namespace", namespace).ext("key", key);
                    self.side(java).control(request)?;
                }
            }
            let deadline = Instant::now() + SETTLED_WITHIN;
            while !self.empty_once(java)? {
                if Instant::now() > deadline {
                    let server = if java { "the Java server" } else { "guidepost" };
                    return Err(format!("{server} cannot be emptied"));
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    fn side(&mut self, java: bool) -> &mut Side {
        if java { &mut self.java } else { &mut self.ours }
    }

    /// Asks everybody left to go. Whether nobody was.
    fn empty_once(&mut self, java: bool) -> Result<bool, String> {
        let names = self.names;
        let questions = &self.questions[..1];
        let side = if java { &mut self.java } else { &mut self.ours };
        let answers = ask(&mut side.control, questions)?;
        let tables = Tables::read(names, questions, &answers)?;
        for (name, group) in &tables.groups {
            let clusters: BTreeSet<&str> = tables.clusters_of(name).collect();
            let cluster = clusters.first().copied().unwrap_or(&group.cluster);
            for (id, addr) in &group.members {
                side.control(unregister(cluster, name, addr, *id))?;
            }
            if group.members.is_empty() {
                side.control(unregister(cluster, name, "nobody:1", 0))?;
            }
        }
        for (cluster, groups) in &tables.clusters {
            for group in groups.iter().filter(|group| !tables.groups.contains_key(*group)) {
                let joins = Registration::new(group, "leaves:1", 0, cluster, &[]);
                side.control(joins.request())?;
                side.control(unregister(cluster, group, "leaves:1", 0))?;
            }
        }
        Ok(tables.groups.is_empty() && tables.clusters.is_empty())
    }
}

fn unregister(cluster: &str, group: &str, addr: &str, id: i64) -> Request {
    Request::new(104)
        .ext("clusterName", cluster)
        .ext("brokerName", group)
        .ext("brokerAddr", addr)
        .ext("brokerId", id)
}

/// Sets live settings on a server.
pub fn configure(addr: SocketAddr, settings: &[(&str, &str)]) -> Result<(), String> {
    let text: String = settings.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    let mut conn = Conn::open(addr);
    let opaque = conn.send(Request::new(318).body(text));
    let answer = conn.try_answer_to(opaque)?;
    if answer.code() == 0 {
        Ok(())
    } else {
        Err(format!("{addr} must take settings by code 318: {}", answer.text()))
    }
}

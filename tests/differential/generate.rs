//! Seeded sequences: a small fleet whose brokers register, change, move and go, while others ask
//! and meddle. Most steps are what real peers do; a few of each kind are broken.

use crate::random::Random;
use crate::support::registration::{Layout, Registration, Topic};

use super::steps::{ADDRS, Body, CLUSTERS, GROUPS, Register, Step, TOPICS};

const CONNS: usize = 7;
const ZONES: [&str; 3] = ["za", "ZA", "zb"];
const PERMS: [&str; 6] = ["6", "6", "6", "4", "2", "7"];
/// Those at which something changes, and their neighbours.
const VERSIONS: [&str; 9] = ["36", "37", "317", "400", "401", "412", "413", "475", "476"];

/// The steps of a sequence; the same for the same seed on every machine.
pub fn sequence(seed: u64, length: usize) -> Vec<Step> {
    let mut fleet = Fleet::new(seed);
    (0..length).map(|_| fleet.step()).collect()
}

/// What the brokers that are played know of themselves.
struct Fleet {
    chance: Random,
    /// Whether brokers of a group register under other clusters, too.
    roams: bool,
    acting: [&'static str; GROUPS],
    /// Topics by group: number, perm, flag.
    topics: [Vec<(usize, i32, i32)>; GROUPS],
    mapped: [Option<usize>; GROUPS],
    counters: [[i64; ADDRS]; GROUPS],
    states: [i64; GROUPS],
}

impl Fleet {
    fn new(seed: u64) -> Fleet {
        let mut chance = Random::new(seed);
        let acting =
            std::array::from_fn(|_| chance.pick(&["absent", "false", "true", "true", "mixed"]));
        let topics =
            std::array::from_fn(|g| (0..2 + chance.below(3)).map(|t| (t + g, 6, 0)).collect());
        let mapped = std::array::from_fn(|_| chance.one_in(3).then(|| chance.below(TOPICS)));
        Fleet {
            roams: chance.one_in(4),
            chance,
            acting,
            topics,
            mapped,
            counters: [[1; ADDRS]; GROUPS],
            states: [0; GROUPS],
        }
    }

    fn step(&mut self) -> Step {
        match self.chance.below(100) {
            0..=37 => self.register(),
            38..=44 => self.unregister(),
            45..=50 => self.close(),
            51..=55 => self.delete_topic(),
            56..=61 => self.new_topic(),
            62..=67 => self.change_perms(),
            68..=75 => self.kv(),
            76..=80 => self.sign_of_life(),
            81..=97 => self.query(),
            _ => self.odd(),
        }
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.chance.one_in(count)
    }

    fn conn(&mut self, usual: usize) -> String {
        let number = if self.one_in(6) { self.chance.below(CONNS) } else { usual % CONNS };
        format!("b{number}")
    }

    fn group(&mut self) -> usize {
        self.chance.below(GROUPS)
    }

    fn topic(&mut self) -> usize {
        self.chance.below(TOPICS)
    }

    fn version(&mut self) -> i32 {
        let text = if self.one_in(3) { self.chance.pick(&VERSIONS) } else { "513" };
        text.parse().expect("the list holds numbers")
    }

    fn cluster_of(&mut self, group: usize) -> usize {
        let home = usize::from(group == 2);
        if self.roams && self.one_in(5) { self.chance.below(CLUSTERS) } else { home }
    }

    /// `NAME CONN`, and sometimes the other header and another version.
    fn words(&mut self, name: &str, conn: &str) -> String {
        let binary = if self.one_in(3) { " binary" } else { "" };
        format!("{name} {conn}{binary} version={}", self.version())
    }

    fn register(&mut self) -> Step {
        let (g, a) = (self.group(), self.chance.below(ADDRS));
        self.change(g, a);
        let id = if self.one_in(8) {
            self.chance.pick(&["-1", "0", "0", "1", "2", "7"]).to_owned()
        } else {
            a.to_string()
        };
        let mut it = Registration {
            name: Some(format!("{{g{g}}}")),
            addr: Some(format!("{{a{g}{a}}}")),
            id: Some(id),
            cluster: Some(format!("{{c{}}}", self.cluster_of(g))),
            ha: (!self.one_in(4)).then(|| format!("ha-{g}{a}:1")),
            timeout: self.one_in(3).then(|| "600000".to_owned()),
            acting: self.acting(g),
            zone: self.one_in(2).then(|| self.chance.pick(&ZONES).to_owned()),
            counter: self.counters[g][a],
            state: self.states[g],
            topics: self.table(g),
            ..Registration::unnamed()
        };
        if self.one_in(4) {
            it.filters = (0..=self.chance.below(2)).map(|f| format!("{{a{g}{a}}}f{f}")).collect();
        }
        if let Some(topic) = self.mapped[g] {
            it.mappings = vec![format!("{{t{topic}}}")];
        }
        if self.one_in(25) {
            it.crc = Some(self.chance.pick(&["0", "1", "abc"]).to_owned());
        }
        if self.one_in(40) {
            let fields = [&mut it.name, &mut it.addr, &mut it.cluster, &mut it.id];
            let at = self.chance.below(fields.len());
            *fields.into_iter().nth(at).expect("below its length") = None;
            it.crc = None; // Which of two problems is told first does not matter.
        }
        let (conn, version) = (self.conn(g * ADDRS + a), self.version());
        let binary = self.one_in(3);
        let mut register = Register { conn, version, binary, it, body: Body::Plain };
        self.lay_out(&mut register);
        Step::Register(Box::new(register))
    }

    /// Something happens on a broker before it registers again.
    fn change(&mut self, g: usize, a: usize) {
        if self.one_in(3) {
            let topic = self.topic();
            let perm = self.chance.pick(&PERMS).parse().expect("the list holds numbers");
            let flag = if self.one_in(4) { self.chance.below(4) } else { 0 };
            let flag = i32::try_from(flag).expect("below 4");
            let topics = &mut self.topics[g];
            match topics.iter().position(|(known, ..)| *known == topic) {
                Some(at) if self.chance.one_in(2) => drop(topics.remove(at)),
                Some(at) => topics[at] = (topic, perm, flag),
                None => topics.push((topic, perm, flag)),
            }
            if !self.one_in(4) {
                self.counters[g][a] += 1;
            }
        } else if self.one_in(5) {
            self.counters[g][a] += 1;
        }
        if self.one_in(12) {
            self.mapped[g] = self.chance.one_in(2).then(|| self.chance.below(TOPICS));
        }
        if self.one_in(5) {
            self.states[g] = i64::try_from(self.chance.below(3)).expect("below 3");
        }
    }

    fn acting(&mut self, g: usize) -> Option<String> {
        let word = match self.acting[g] {
            "mixed" => self.chance.pick(&["absent", "false", "true"]),
            word => word,
        };
        (word != "absent").then(|| word.to_owned())
    }

    /// All topics of a group, or one of them, as brokers push new ones.
    fn table(&mut self, g: usize) -> Vec<Topic> {
        let mut all: Vec<Topic> = self.topics[g]
            .iter()
            .map(|(topic, perm, flag)| Topic {
                perm: *perm,
                flag: *flag,
                ..Topic::new(&format!("{{t{topic}}}"))
            })
            .collect();
        if self.one_in(7) && !all.is_empty() {
            let at = self.chance.below(all.len());
            all.swap(0, at);
            all.truncate(1);
        }
        if self.one_in(30) {
            all.clear();
        }
        if self.one_in(20)
            && let Some(topic) = all.first_mut()
        {
            topic.key = Some("another key".to_owned());
        }
        all
    }

    /// Decides how the body is written, and sometimes breaks it.
    fn lay_out(&mut self, register: &mut Register) {
        let version = register.version;
        let it = &mut register.it;
        if version < 37 {
            // The flag is not looked at.
            it.layout = Layout::Bare;
            it.mappings.clear();
        } else if self.one_in(5) {
            it.compressed = Some("true".to_owned());
            it.layout = match version {
                ..413 if self.one_in(2) => Layout::ZipWithoutMappings,
                _ => Layout::Zip,
            };
        }
        match self.chance.below(60) {
            0 => {
                it.cut = 12 + self.chance.below(20);
                register.body = Body::Unreadable;
            }
            1 if version >= 413 => {
                it.compressed = Some("true".to_owned());
                it.layout = Layout::ZipWithoutMappings;
                register.body = Body::Unreadable;
            }
            2 if version >= 37 => {
                let zip = matches!(it.layout, Layout::Zip | Layout::ZipWithoutMappings);
                it.compressed = Some((!zip).to_string());
                register.body = Body::WrongFlag;
            }
            3..=9 if version >= 37 => self.null_body(register),
            _ => {}
        }
        // With a mapping no topics are deleted; for that the Java server looks at keys, and we at
        // names.
        let it = &mut register.it;
        if !matches!(it.layout, Layout::Json) || it.mappings.is_empty() {
            it.topics.iter_mut().for_each(|topic| topic.key = None);
        }
    }

    /// A body with a null where the Java server does not expect one, or where it does.
    fn null_body(&mut self, register: &mut Register) {
        let it = &mut register.it;
        let version = format!(
            r#"{{"counter":{},"stateVersion":{},"timestamp":{}}}"#,
            it.counter, it.state, it.timestamp
        );
        let table = r#"{"{t0}":{"topicName":"{t0}","perm":null},"{t1}":{"topicName":"{t1}"}}"#;
        let nameless = r#"{"{t0}":{"topicName":"{t0}"},"{t1}":{"perm":6}}"#;
        let part = |version: &str, table: &str, rest: &str| {
            let members = format!(r#""dataVersion":{version},"topicConfigTable":{table}{rest}"#);
            format!(r#"{{"topicConfigSerializeWrapper":{{{members}}}}}"#)
        };
        let (body, text) = match self.chance.below(8) {
            0 => (Body::NullWrapper, r#"{"topicConfigSerializeWrapper":null}"#.to_owned()),
            1 => (Body::NullTable, part(&version, "null", "")),
            2 => (Body::Nameless, part(&version, nameless, "")),
            3 => {
                let rest = r#","topicQueueMappingInfoMap":{"{t0}":null}"#;
                (Body::NullMapping, part(&version, table, rest))
            }
            4 => {
                let rest = r#","topicQueueMappingInfoMap":null,"topicQueueMappingDetailMap":null"#;
                (Body::NullMappings, part(&version, table, rest))
            }
            5 => {
                let whole = part(&version, table, "");
                let whole = whole.replacen('{', r#"{"filterServerList":null,"#, 1);
                (Body::NullFilters, whole)
            }
            6 => (Body::NullVersion, part("null", table, "")),
            _ => {
                let version = r#"{"counter":null,"stateVersion":1,"timestamp":"5"}"#;
                (Body::NullVersion, part(version, table, ""))
            }
        };
        it.compressed = None;
        it.filters.clear();
        it.mappings.clear();
        it.topics = vec![Topic::new("{t0}"), Topic::new("{t1}")];
        if body == Body::NullVersion {
            it.state = i64::from(text.contains("\"stateVersion\":1"));
        }
        it.layout = Layout::Raw(text.into_bytes());
        register.body = body;
    }

    fn unregister(&mut self) -> Step {
        let (g, a) = (self.group(), self.chance.below(ADDRS));
        let group_of_addr = if self.one_in(15) { self.group() } else { g };
        let mut fields = vec![
            ("name", format!("{{g{g}}}")),
            ("addr", format!("{{a{group_of_addr}{a}}}")),
            ("cluster", format!("{{c{}}}", self.cluster_of(g))),
            ("id", if self.one_in(4) { "0".to_owned() } else { a.to_string() }),
        ];
        if self.one_in(25) {
            fields.remove(self.chance.below(4));
        }
        let conn = self.conn(g * ADDRS + a);
        let mut text = self.words("unregister", &conn);
        for (name, value) in fields {
            text += &format!(" {name}=\"{value}\"");
        }
        Step::Line { text, body: None }
    }

    fn close(&mut self) -> Step {
        let word = self.chance.pick(&["close", "close", "reset"]);
        let text = format!("{word} b{}", self.chance.below(CONNS));
        Step::Line { text, body: None }
    }

    fn delete_topic(&mut self) -> Step {
        let topic = self.topic();
        let mut text = self.words("delete-topic", "q");
        text += &format!(" \"{{t{topic}}}\"");
        match self.chance.below(8) {
            0..=3 => text += &format!(" cluster=\"{{c{}}}\"", self.chance.below(CLUSTERS)),
            4 => text += " cluster=\"\"",
            5 => text += " cluster=no-such-cluster",
            _ => {}
        }
        Step::Line { text, body: None }
    }

    fn new_topic(&mut self) -> Step {
        let topic = self.topic();
        let mut text = self.words("new-topic", "q");
        text += &format!(" \"{{t{topic}}}\"");
        if !self.one_in(6) {
            let count = 1 + self.chance.below(2);
            let queues: Vec<String> = (0..count)
                .map(|_| {
                    let name = if self.one_in(8) {
                        "no-such-broker".to_owned()
                    } else {
                        format!("{{g{}}}", self.group())
                    };
                    format!("{name}:{}", self.chance.pick(&PERMS))
                })
                .collect();
            text += &format!(" queues=\"{}\"", queues.join(","));
            return Step::Line { text, body: None };
        }
        let body = self.chance.pick(&[
            "",
            "null",
            "{}",
            "[]",
            r#"{"queueDatas":null}"#,
            r#"{"queueDatas":[]}"#,
            r#"{"queueDatas":[null]}"#,
            r#"{"queueDatas":[{"perm":6}]}"#,
            r#"{"queueDatas":[{"brokerName":"{g0}"}]}"#,
            r#"{"queueDatas":[{"brokerName":"{g1}","perm":null,"readQueueNums":"3"}]}"#,
            r#"{"queueDatas":[{]}"#,
        ]);
        Step::Line { text, body: Some(body.to_owned()) }
    }

    fn change_perms(&mut self) -> Step {
        let word = self.chance.pick(&["wipe", "allow"]);
        let mut text = self.words(word, "q");
        match self.chance.below(20) {
            0 => {}
            1 => text += " no-such-broker",
            _ => text += &format!(" \"{{g{}}}\"", self.group()),
        }
        Step::Line { text, body: None }
    }

    fn kv(&mut self) -> Step {
        let word = self.chance.pick(&["kv-put", "kv-put", "kv-get", "kv-delete", "kv-list"]);
        let mut text = self.words(word, "q");
        let (namespace, key) = match self.chance.below(6) {
            0..=2 => ("{ns}".to_owned(), "k".to_owned()),
            3 => ("no-such-namespace".to_owned(), "k".to_owned()),
            _ => ("ORDER_TOPIC_CONFIG".to_owned(), format!("{{t{}}}", self.topic())),
        };
        if word == "kv-put" && namespace.starts_with("no-such") {
            // Would stay for later sequences.
            return self.query();
        }
        text += &format!(" \"{namespace}\"");
        if word != "kv-list" && !self.one_in(20) {
            text += &format!(" \"{key}\"");
            if word == "kv-put" && !self.one_in(12) {
                text +=
                    self.chance.pick(&[" \"{g0}:4;{g1}:8\"", " v", " \"\"", " \"a\\n\\u0001é\""]);
            }
        }
        Step::Line { text, body: None }
    }

    fn sign_of_life(&mut self) -> Step {
        let (g, a) = (self.group(), self.chance.below(ADDRS));
        let word = self.chance.pick(&["heartbeat", "data-version"]);
        let mut text = self.words(word, "q");
        let cluster = self.cluster_of(g);
        match self.chance.below(16) {
            0 => {}
            1 => text += &format!(" \"{{c{cluster}}}\""),
            _ => text += &format!(" \"{{c{cluster}}}\" \"{{a{g}{a}}}\""),
        }
        if word == "heartbeat" {
            return Step::Line { text, body: None };
        }
        let body = match self.chance.below(8) {
            0 => String::new(),
            1 => "null".to_owned(),
            2 => self.chance.pick(&["[]", "hello", "  "]).to_owned(),
            _ => {
                let (counter, state) = (self.counters[g][a], self.states[g]);
                let rest = format!(r#""stateVersion":{state},"timestamp":1700000000000"#);
                format!(r#"{{"counter":{counter},{rest}}}"#)
            }
        };
        Step::Line { text, body: Some(body) }
    }

    fn query(&mut self) -> Step {
        let word = self.chance.pick(&[
            "route",
            "route",
            "route",
            "route",
            "clusters",
            "topics",
            "topics-of",
            "system-topics",
            "unit-topics",
            "unit-sub-topics",
            "unit-sub-only-topics",
            "members",
        ]);
        let mut text = self.words(word, "q");
        match word {
            "route" => {
                text += &format!(" \"{{t{}}}\"", self.topic());
                if self.one_in(5) {
                    let value = self.chance.pick(&["true", "TRUE", "false", "yes"]);
                    text += &format!(" acceptStandardJsonOnly={value}");
                }
                if self.one_in(2) {
                    let mode = self.chance.pick(&["true", "true", "True", "false"]);
                    let zone = self.chance.pick(&["za", "zb", "Zb", "\" \"", "none"]);
                    text += &format!(" __ZONE_MODE={mode} __ZONE_NAME={zone}");
                }
            }
            "topics-of" if !self.one_in(8) => {
                text += &format!(" \"{{c{}}}\"", self.chance.below(CLUSTERS));
            }
            "members" if !self.one_in(8) => {
                let cluster = self.chance.below(CLUSTERS);
                text += &format!(" \"{{c{cluster}}}\" \"{{g{}}}\"", self.group());
            }
            _ => {}
        }
        Step::Line { text, body: None }
    }

    fn odd(&mut self) -> Step {
        let code = self.chance.pick(&["999", "47", "218", "105", "216", "100", "902"]);
        let text = format!("request q {code} version={}", self.version());
        Step::Line { text, body: None }
    }
}

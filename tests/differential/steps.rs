//! A sequence: what is sent, with names that are filled in when it is sent.
//!
//! Each step is a line of the scenario format (`tests/scenarios/README.md`), so that a sequence can
//! be run again as a scenario. Names are written `{g0}` (a broker), `{c0}` (a cluster), `{t0}` (a
//! topic), `{a00}` (the first address of the first broker) and `{ns}` (a namespace).

use serde_json::json;

use crate::support::registration::{Layout, Registration, Topic};
use crate::support::script::{Action, Script};

pub const GROUPS: usize = 3;
pub const ADDRS: usize = 3;
pub const CLUSTERS: usize = 2;
pub const TOPICS: usize = 7;

/// One step, its names not yet filled in.
#[derive(Clone, Debug)]
pub enum Step {
    Register(Box<Register>),
    /// Any other line, and the body of its request.
    Line {
        text: String,
        body: Option<String>,
    },
}

/// A registration and what its body is about.
#[derive(Clone, Debug)]
pub struct Register {
    pub conn: String,
    pub version: i32,
    pub binary: bool,
    /// `topics` and `mappings` say what is in the body, also of a raw one.
    pub it: Registration,
    pub body: Body,
}

/// What is special about a registration's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    Plain,
    /// Both servers refuse it before they look at the tables.
    Unreadable,
    /// Compressed and said not to be, or the other way around.
    WrongFlag,
    NullWrapper,
    NullTable,
    /// One topic has no name.
    Nameless,
    /// One mapping is null.
    NullMapping,
    /// Both maps of mappings are null.
    NullMappings,
    /// The filter servers are null: the stored ones stay.
    NullFilters,
    /// The data version is null, or a part of it.
    NullVersion,
}

impl Register {
    /// Whether the filter servers stay as they are.
    pub fn keeps_filters(&self) -> bool {
        self.version < 37 || self.body == Body::NullFilters
    }

    /// The mappings that a server reads.
    pub fn mappings(&self) -> &[String] {
        match self.it.layout {
            Layout::ZipWithoutMappings => &[],
            Layout::Zip if self.version < 413 => &[],
            _ => &self.it.mappings,
        }
    }

    /// Whether the data version is null as a whole.
    pub fn has_null_version(&self) -> bool {
        let null = b"\"dataVersion\":null";
        match &self.it.layout {
            Layout::Raw(body) => body.windows(null.len()).any(|part| part == null),
            _ => false,
        }
    }

    /// The words of its scenario line.
    fn line(&self) -> String {
        let it = &self.it;
        let mut line = format!("register {}", self.conn);
        if self.binary {
            line += " binary";
        }
        line += &format!(" version={}", self.version);
        let acting = Some(it.acting.clone().unwrap_or_else(|| "absent".to_owned()));
        let fields = [
            ("name", &it.name),
            ("addr", &it.addr),
            ("id", &it.id),
            ("cluster", &it.cluster),
            ("ha", &it.ha),
            ("timeout", &it.timeout),
            ("acting", &acting),
            ("zone", &it.zone),
            ("compressed", &it.compressed),
            ("crc", &it.crc),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                line += &format!(" {name}={}", json!(value));
            }
        }
        let layout = match &it.layout {
            Layout::Raw(_) => return line,
            Layout::Json => "",
            Layout::Bare => " layout=bare",
            Layout::Zip => " layout=zip",
            Layout::ZipWithoutMappings => " layout=zip-without-mappings",
        };
        line += &format!(" counter={} state={} timestamp={}", it.counter, it.state, it.timestamp);
        line += layout;
        if it.cut > 0 {
            line += &format!(" cut={}", it.cut);
        }
        let topics: Vec<String> = it.topics.iter().map(topic).collect();
        for (name, list) in
            [("filters", &it.filters), ("mappings", &it.mappings), ("topics", &topics)]
        {
            if !list.is_empty() {
                line += &format!(" {name}={}", json!(list.join(",")));
            }
        }
        line
    }
}

fn topic(topic: &Topic) -> String {
    let Topic { name, key, perm, read, write, flag } = topic;
    let key = key.as_ref().map_or_else(String::new, |key| format!(",key={key}"));
    format!("{name}(perm={perm},read={read},write={write},flag={flag}{key})")
}

/// Names that no other run of a sequence has.
#[derive(Clone, Debug)]
pub struct Names {
    /// Part of all of them.
    pub mark: String,
    pairs: Vec<(String, String)>,
}

impl Names {
    pub fn new(run: usize) -> Names {
        let mark = format!("d{run:05}");
        // What JSON escapes, what it need not escape, and what is longer than one byte. A key with
        // both an escape and a character beyond U+FFFF is not read by the Java server.
        let odd = ["\"\\/<&>\u{7f}é", "'\u{b}\"ß", "-𝄞\u{2028}"];
        let mut pairs = vec![("ns".to_owned(), format!("{mark}-ns{}", odd[1]))];
        for g in 0..GROUPS {
            let tail = if g == 2 { odd[0] } else { "" };
            pairs.push((format!("g{g}"), format!("{mark}-g{g}{tail}")));
            for a in 0..ADDRS {
                let (high, low) = (run / 250 % 250, run % 250);
                let addr = format!("10.{high}.{low}.{}:10911", g * 10 + a + 1);
                pairs.push((format!("a{g}{a}"), addr));
            }
        }
        for c in 0..CLUSTERS {
            let tail = if c == 1 { odd[2] } else { "" };
            pairs.push((format!("c{c}"), format!("{mark}-c{c}{tail}")));
        }
        for t in 0..TOPICS {
            let name = match t {
                4 => format!("{mark}-t4{}", odd[1]),
                5 => format!("rmq_sys_SYNC_BROKER_MEMBER_{mark}"),
                6 => format!("{mark}-t6{}", odd[2]),
                _ => format!("{mark}-t{t}"),
            };
            pairs.push((format!("t{t}"), name));
        }
        Names { mark, pairs }
    }

    pub fn get(&self, name: &str) -> &str {
        let found = self.pairs.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no such name: {name}")).1
    }

    /// All of one kind: `g`, `c`, `t` or `a`.
    pub fn all(&self, kind: char) -> impl Iterator<Item = &str> {
        let numbered = move |name: &str| {
            name.strip_prefix(kind).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        };
        self.pairs.iter().filter(move |(name, _)| numbered(name)).map(|(_, value)| value.as_str())
    }

    fn fill(&self, text: &str) -> String {
        self.replace(text, |value| value.to_owned())
    }

    /// For text inside of JSON strings.
    fn fill_json(&self, text: &str) -> String {
        self.replace(text, |value| {
            let quoted = json!(value).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        })
    }

    fn replace(&self, text: &str, form: impl Fn(&str) -> String) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.pairs {
            let place = format!("{{{name}}}");
            if out.contains(&place) {
                out = out.replace(&place, &form(value));
            }
        }
        out
    }
}

/// A step as it is sent.
#[derive(Debug)]
pub struct Sent {
    /// The scenario line.
    pub text: String,
    pub action: Action,
    /// The registration with its names, if it is one.
    pub register: Option<Box<Register>>,
}

impl Step {
    pub fn sent(&self, names: &Names) -> Sent {
        let (line, body) = match self {
            Step::Register(register) => {
                let body = match &register.it.layout {
                    Layout::Raw(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                    _ => None,
                };
                (register.line(), body)
            }
            Step::Line { text, body } => (text.clone(), body.clone()),
        };
        let mut text = names.fill_json(&line);
        if let Some(body) = body {
            text += &format!(" body={}", json!(names.fill_json(&body)));
        }
        let script = Script::parse(&format!("scenario x\n{text}\n"), false)
            .unwrap_or_else(|why| panic!("{why}: {text}"));
        let step = script.scenarios.into_iter().flat_map(|scenario| scenario.steps).next();
        let action = step.expect("one line is one step").action;
        let register = match self {
            Step::Register(register) => Some(Box::new(filled(register, names))),
            Step::Line { .. } => None,
        };
        Sent { text, action, register }
    }
}

fn filled(register: &Register, names: &Names) -> Register {
    let mut filled = register.clone();
    let it = &mut filled.it;
    for field in [&mut it.name, &mut it.addr, &mut it.cluster, &mut it.ha].into_iter().flatten() {
        *field = names.fill(field);
    }
    for topic in &mut it.topics {
        topic.name = names.fill(&topic.name);
        topic.key = topic.key.as_ref().map(|key| names.fill(key));
    }
    for text in it.mappings.iter_mut().chain(&mut it.filters) {
        *text = names.fill(text);
    }
    filled
}

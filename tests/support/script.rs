//! Reads `.scn` files: text to steps. `tests/scenarios/README.md` explains the format to those who
//! write one.

use serde_json::Value;

use super::expect::Expectation;
use super::frame::Request;
use super::registration::{Layout, Registration, Topic};

/// One file.
#[derive(Debug, Default)]
pub struct Script {
    /// Settings of the server it runs on.
    pub settings: Vec<(String, String)>,
    /// Only on a server that we start: some setting counts from the start.
    pub own_server: bool,
    pub scenarios: Vec<Scenario>,
}

#[derive(Debug)]
pub struct Scenario {
    pub claim: String,
    pub line: usize,
    pub steps: Vec<Step>,
}

/// One line that does something, with the expectations below it.
#[derive(Debug)]
pub struct Step {
    pub line: usize,
    pub text: String,
    /// Whether it is for the server that the file is read for.
    applies: bool,
    pub action: Action,
    pub expectations: Vec<Expectation>,
}

#[derive(Debug)]
pub enum Action {
    /// Send and wait for the answer; `eventually`: again until the expectations hold.
    Ask {
        conn: String,
        request: Request,
        eventually: bool,
    },
    /// Send; the answer is awaited by a later `answer`.
    Later {
        label: String,
        conn: String,
        request: Request,
    },
    Answer {
        label: String,
    },
    /// Send a request that gets no answer.
    OneWay {
        conn: String,
        request: Request,
    },
    Bytes {
        conn: String,
        bytes: Vec<u8>,
    },
    Open {
        conn: String,
    },
    Close {
        conn: String,
    },
    Reset {
        conn: String,
    },
    /// The server must close the connection.
    Closed {
        conn: String,
    },
    /// Nothing must come for a while.
    Silent {
        conn: String,
    },
    /// Time passes: only where time itself is the subject.
    Wait {
        ms: u64,
    },
    /// A port that plays a broker; its address is written `@NAME`.
    Listen {
        name: String,
    },
    /// A 905 must arrive at that port.
    Notice {
        name: String,
    },
    /// None has arrived there.
    NoNotice {
        name: String,
    },
}

/// Requests by name: code, and the extension fields that words without `=` stand for.
const REQUESTS: [(&str, i32, &[&str]); 23] = [
    ("kv-put", 100, &["namespace", "key", "value"]),
    ("kv-get", 101, &["namespace", "key"]),
    ("kv-delete", 102, &["namespace", "key"]),
    ("register", 103, &[]),
    ("unregister", 104, &[]),
    ("route", 105, &["topic"]),
    ("clusters", 106, &[]),
    ("wipe", 205, &["brokerName"]),
    ("topics", 206, &[]),
    ("delete-topic", 216, &["topic"]),
    ("new-topic", 217, &["topic"]),
    ("kv-list", 219, &["namespace"]),
    ("topics-of", 224, &["cluster"]),
    ("system-topics", 304, &[]),
    ("unit-topics", 311, &[]),
    ("unit-sub-topics", 312, &[]),
    ("unit-sub-only-topics", 313, &[]),
    ("set-settings", 318, &[]),
    ("settings", 319, &[]),
    ("data-version", 322, &["clusterName", "brokerAddr"]),
    ("allow", 327, &["brokerName"]),
    ("members", 901, &["clusterName", "brokerName"]),
    ("heartbeat", 904, &["clusterName", "brokerAddr"]),
];

/// Short names of the four fields that come all the time.
const SHORT_NAMES: [(&str, &str); 4] = [
    ("name", "brokerName"),
    ("addr", "brokerAddr"),
    ("cluster", "clusterName"),
    ("id", "brokerId"),
];

impl Script {
    /// Reads a file for one of the two servers; the error names the line.
    pub fn parse(text: &str, for_java: bool) -> Result<Script, String> {
        let mut script = Script::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                script.read_line(number, line, for_java).map_err(|e| format!("{number}: {e}"))?;
            }
        }
        // Only now, because expectations belong to the step above them whether it is run or not.
        for scenario in &mut script.scenarios {
            scenario.steps.retain(|step| step.applies);
        }
        Ok(script)
    }

    fn read_line(&mut self, number: usize, line: &str, for_java: bool) -> Result<(), String> {
        let (line, applies) = match (line.strip_prefix("ours: "), line.strip_prefix("java: ")) {
            (Some(line), _) => (line.trim_start(), !for_java),
            (_, Some(line)) => (line.trim_start(), for_java),
            _ => (line, true),
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "scenario" => {
                let (claim, steps) = (rest.trim().to_owned(), Vec::new());
                self.scenarios.push(Scenario { claim, line: number, steps });
            }
            "server" => self.settings.extend(Words::of(rest)?.pairs),
            "own-server" => self.own_server = true,
            "expect" => {
                let expectation = Expectation::parse(rest.trim())?;
                let last = self.scenarios.last_mut().and_then(|s| s.steps.last_mut());
                let step = last.ok_or("an expectation without a step above it")?;
                if applies {
                    step.expectations.push(expectation);
                }
            }
            _ => {
                let (text, action) = (line.to_owned(), action(line)?);
                let scenario = self.scenarios.last_mut().ok_or("a step before any scenario")?;
                let expectations = Vec::new();
                scenario.steps.push(Step { line: number, text, applies, action, expectations });
            }
        }
        Ok(())
    }
}

fn action(line: &str) -> Result<Action, String> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let name = || match rest.trim() {
        "" => Err(format!("`{word}` needs a name")),
        name => Ok(name.to_owned()),
    };
    Ok(match word {
        "open" => Action::Open { conn: name()? },
        "close" => Action::Close { conn: name()? },
        "reset" => Action::Reset { conn: name()? },
        "closed" => Action::Closed { conn: name()? },
        "silent" => Action::Silent { conn: name()? },
        "listen" => Action::Listen { name: name()? },
        "notice" => Action::Notice { name: name()? },
        "no-notice" => Action::NoNotice { name: name()? },
        "answer" => Action::Answer { label: name()? },
        "wait" => Action::Wait { ms: rest.trim().parse().map_err(|_| "`wait MILLISECONDS`")? },
        "bytes" => {
            let (conn, hex) = rest.split_once(' ').ok_or("`bytes CONN HEX`")?;
            Action::Bytes { conn: conn.to_owned(), bytes: unhex(hex)? }
        }
        "later" => {
            let (label, rest) = rest.split_once(' ').ok_or("`later LABEL REQUEST`")?;
            let (conn, request) = request(rest)?;
            Action::Later { label: label.to_owned(), conn, request }
        }
        "eventually" => {
            let (conn, request) = request(rest)?;
            Action::Ask { conn, request, eventually: true }
        }
        _ => {
            let (conn, request) = request(line)?;
            if request.flag & 3 == 0 {
                Action::Ask { conn, request, eventually: false }
            } else {
                Action::OneWay { conn, request }
            }
        }
    })
}

fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16).ok()
    };
    digits.chunks(2).map(|two| pair(two).ok_or_else(|| format!("no hex: {text}"))).collect()
}

/// `NAME CONN WORDS…` to a connection and a request.
fn request(line: &str) -> Result<(String, Request), String> {
    let mut words = Words::of(line)?;
    if words.plain.len() < 2 {
        return Err(format!("`REQUEST CONN …` expected, found `{line}`"));
    }
    let (name, conn) = (words.plain.remove(0), words.plain.remove(0));
    let (code, positional) = if name == "request" {
        let code = words.plain.first().and_then(|word| word.parse().ok());
        words.plain.drain(..1);
        (code.ok_or("`request CONN CODE`")?, [].as_slice())
    } else {
        let known = REQUESTS.iter().find(|(known, ..)| *known == name);
        let (_, code, positional) = known.ok_or_else(|| format!("unknown step `{name}`"))?;
        (*code, *positional)
    };
    let flag = i32::from(words.take_plain("oneway")) * 2 + i32::from(words.take_plain("response"));
    let binary = words.take_plain("binary");
    let version = words.take("version").map(|v| v.parse::<i32>()).transpose();
    let version = version.map_err(|_| "`version=` is a number")?.unwrap_or(513);
    let request = if code == 103 { registration(&mut words)? } else { Request::new(code) };
    let mut request = Request { version, binary, flag, ..request };
    if let Some(queues) = words.take("queues") {
        request.body = queue_datas(&queues)?.into_bytes();
    }
    if code != 103
        && let Some(body) = words.take("body")
    {
        request.body = body.into_bytes();
    }
    if words.plain.len() > positional.len() {
        return Err(format!("too many words: {:?}", words.plain));
    }
    for (name, value) in positional.iter().zip(&words.plain) {
        request = request.ext(name, value);
    }
    for (name, value) in &words.pairs {
        let long = SHORT_NAMES.iter().find(|(short, _)| short == name);
        request = request.ext(long.map_or(name.as_str(), |(_, long)| long), value);
    }
    Ok((conn, request))
}

/// The body of a 217 from `a:6,b:4`, broker and perm.
fn queue_datas(text: &str) -> Result<String, String> {
    let one = |part: &str| {
        let (name, perm) = part.split_once(':').ok_or("`queues=BROKER:PERM,…`")?;
        let perm: i32 = perm.parse().map_err(|_| "a perm is a number")?;
        Ok::<_, String>(serde_json::json!({
            "brokerName": name, "perm": perm, "readQueueNums": 4, "topicSysFlag": 0,
            "writeQueueNums": 4,
        }))
    };
    let queues: Vec<Value> = text.split(',').map(one).collect::<Result<_, _>>()?;
    Ok(serde_json::json!({ "queueDatas": queues }).to_string())
}

fn registration(words: &mut Words) -> Result<Request, String> {
    let mut it = Registration::unnamed();
    it.name = words.take("name");
    it.addr = words.take("addr");
    it.id = words.take("id");
    it.cluster = words.take("cluster");
    it.ha = words.take("ha");
    it.timeout = words.take("timeout");
    it.zone = words.take("zone");
    it.compressed = words.take("compressed");
    it.crc = words.take("crc");
    match words.take("acting").as_deref() {
        Some("absent") => it.acting = None,
        Some(value) => it.acting = Some(value.to_owned()),
        None => {}
    }
    let number = |text: Option<String>, default: i64| match text {
        Some(text) => text.parse().map_err(|_| format!("`{text}` is no number")),
        None => Ok(default),
    };
    it.counter = number(words.take("counter"), it.counter)?;
    it.state = number(words.take("state"), it.state)?;
    it.timestamp = number(words.take("timestamp"), it.timestamp)?;
    it.cut = usize::try_from(number(words.take("cut"), 0)?).map_err(|_| "`cut=` is a count")?;
    let list = |text: Option<String>| text.map_or_else(Vec::new, |text| split_list(&text));
    it.filters = list(words.take("filters"));
    it.mappings = list(words.take("mappings"));
    it.topics = list(words.take("topics")).iter().map(|t| topic(t)).collect::<Result<_, _>>()?;
    it.layout = match (words.take("body"), words.take("layout").as_deref()) {
        (Some(body), None) => Layout::Raw(body.into_bytes()),
        (None, None) => Layout::Json,
        (None, Some("bare")) => Layout::Bare,
        (None, Some("zip")) => Layout::Zip,
        (None, Some("zip-without-mappings")) => Layout::ZipWithoutMappings,
        (_, layout) => return Err(format!("no such layout, or with a body: {layout:?}")),
    };
    Ok(it.request())
}

/// `T1` or `T1(perm=4,read=8,write=8,flag=1,key=K)`.
fn topic(text: &str) -> Result<Topic, String> {
    let (name, rest) = text.split_once('(').unwrap_or((text, ""));
    let mut topic = Topic::new(name);
    for part in rest.trim_end_matches(')').split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').ok_or("`TOPIC(key=value,…)`")?;
        let number = || value.parse::<i32>().map_err(|_| format!("`{value}` is no number"));
        match key {
            "perm" => topic.perm = number()?,
            "read" => topic.read = number()?,
            "write" => topic.write = number()?,
            "flag" => topic.flag = number()?,
            "key" => topic.key = Some(value.to_owned()),
            _ => return Err(format!("a topic has no `{key}`")),
        }
    }
    Ok(topic)
}

/// Splits at commas outside of parentheses.
pub fn split_list(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// The words of a line: plain ones and `key=value` pairs.
#[derive(Debug, Default)]
pub struct Words {
    pub plain: Vec<String>,
    pub pairs: Vec<(String, String)>,
}

impl Words {
    /// Splits at blanks. A value in double quotes is a JSON string; `body=` takes the rest of the
    /// line.
    pub fn of(line: &str) -> Result<Words, String> {
        let (mut words, mut rest) = (Words::default(), line.trim_start());
        while !rest.is_empty() {
            let end = rest.find(['=', ' ', '"']).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            let pair = behind.strip_prefix('=');
            let value = pair.unwrap_or(behind);
            let (text, behind) = if value.starts_with('"') && (pair.is_some() || end == 0) {
                quoted(value)?
            } else if word == "body" && pair.is_some() {
                (value.to_owned(), "")
            } else if let Some(value) = pair {
                let end = value.find(' ').unwrap_or(value.len());
                (value[..end].to_owned(), &value[end..])
            } else {
                (word.to_owned(), behind)
            };
            match pair {
                Some(_) => words.pairs.push((word.to_owned(), text)),
                None => words.plain.push(text),
            }
            rest = behind.trim_start();
        }
        Ok(words)
    }

    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.pairs.iter().position(|(known, _)| known == name)?;
        Some(self.pairs.remove(at).1)
    }

    fn take_plain(&mut self, word: &str) -> bool {
        let at = self.plain.iter().position(|known| known == word);
        at.map(|at| self.plain.remove(at)).is_some()
    }
}

/// The JSON string that `text` begins with, and what comes behind it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = values.next().ok_or("an open quote")?.map_err(|e| format!("{e}: {text}"))?;
    let end = values.byte_offset();
    Ok((value, &text[end..]))
}

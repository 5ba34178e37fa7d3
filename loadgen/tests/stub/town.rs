//! A NameServer of sorts that keeps routes, speaks both headers and both dialects, and has planted
//! faults. Shares no code with what it tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Bytes of each connection that are kept.
const RECORDED_MAX: usize = 64 << 10;

/// What is wrong with the server.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// Changes show this much later.
    pub lag: Duration,
    /// Every second route is from before `lag`, the others are of now.
    pub two_views: bool,
    /// Every n-th route has another port.
    pub wrong_port_each: Option<u64>,
    /// Every n-th route query gets no answer.
    pub silent_each: Option<u64>,
    /// The first registration of a broker that had left is refused.
    pub refuses_who_left: bool,
}

#[derive(Default)]
pub struct State {
    /// Name to address, data version, connection.
    brokers: BTreeMap<String, (String, Value, usize)>,
    /// Topic to broker to numbers of queues, with the moment each came.
    topics: BTreeMap<String, BTreeMap<String, Vec<(Instant, u64)>>>,
    /// Brokers that are going to be refused.
    left: BTreeSet<String>,
    routes: u64,
    /// What came on each connection, in the order of connecting; the beginning.
    pub received: Vec<Vec<u8>>,
    sockets: Vec<TcpStream>,
    /// Versions and serializations seen in route queries.
    pub makes: BTreeSet<(i64, bool)>,
    pub compressed: u64,
    pub codes: BTreeMap<i64, u64>,
}

/// Serves until the test process ends.
pub struct Town {
    pub address: SocketAddr,
    pub state: Arc<Mutex<State>>,
}

impl State {
    /// How many brokers each topic is on, also of brokers whose connections have ended since.
    pub fn widths(&self) -> Vec<usize> {
        self.topics.values().map(BTreeMap::len).collect()
    }
}

impl Town {
    pub fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.88.1.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().map(Result::unwrap) {
                let state = shared.clone();
                let mut all = state.lock().unwrap();
                let place = all.received.len();
                all.received.push(Vec::new());
                all.sockets.push(socket.try_clone().unwrap());
                drop(all);
                std::thread::spawn(move || {
                    serve(socket, place, faults, &state);
                    let mut state = state.lock().unwrap();
                    let _ = state.sockets[place].shutdown(std::net::Shutdown::Both);
                    state.brokers.retain(|_, (_, _, at)| *at != place);
                });
            }
        });
        Self { address, state }
    }

    /// What a restart does: all connections end and all is forgotten.
    pub fn restart(&self) {
        let mut state = self.state.lock().unwrap();
        state.brokers.clear();
        state.topics.clear();
        for socket in &state.sockets {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

struct Asked {
    code: i64,
    version: i64,
    opaque: i64,
    binary: bool,
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
}

fn serve(mut socket: TcpStream, place: usize, faults: Faults, state: &Mutex<State>) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 64 << 10]);
    loop {
        let count = socket.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend(&chunk[..count]);
        record(&mut state.lock().unwrap().received[place], &chunk[..count]);
        while let Some(asked) = take(&mut bytes)? {
            let answer = answer(&asked, place, faults, &mut state.lock().unwrap());
            // Not while the state is locked: a peer may not read.
            socket.write_all(&answer).ok()?;
        }
    }
}

fn record(seen: &mut Vec<u8>, bytes: &[u8]) {
    let room = RECORDED_MAX.saturating_sub(seen.len());
    seen.extend(&bytes[..bytes.len().min(room)]);
}

/// The first request; `None` outside: the peer makes no sense.
fn take(bytes: &mut Vec<u8>) -> Option<Option<Asked>> {
    if bytes.len() < 8 {
        return Some(None);
    }
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (length, kind, header_length) = (word(0), bytes[4], word(4) & 0xff_ffff);
    if length > 16 << 20 || kind > 1 || header_length + 4 > length {
        return None;
    }
    if bytes.len() < length + 4 {
        return Some(None);
    }
    let frame: Vec<u8> = bytes.drain(..length + 4).collect();
    let (header, body) = frame[8..].split_at(header_length);
    let mut asked = if kind == 0 { json_header(header)? } else { binary_header(header) };
    asked.body = body.to_vec();
    Some(Some(asked))
}

fn json_header(header: &[u8]) -> Option<Asked> {
    let value: Value = serde_json::from_slice(header).ok()?;
    let fields = value["extFields"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
    let number = |name: &str| value[name].as_i64();
    Some(Asked {
        code: number("code")?,
        version: number("version")?,
        opaque: number("opaque")?,
        binary: false,
        fields: fields.collect(),
        body: Vec::new(),
    })
}

fn binary_header(header: &[u8]) -> Asked {
    let int = |at: usize| i64::from(i32::from_be_bytes(header[at..at + 4].try_into().unwrap()));
    let short = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let text = |from: usize, to: usize| String::from_utf8(header[from..to].to_vec()).unwrap();
    let (mut at, mut fields) = (21, BTreeMap::new());
    while at < header.len() {
        let name_end = at + 2 + short(at);
        let value_end = name_end + 4 + usize::try_from(int(name_end)).unwrap();
        fields.insert(text(at + 2, name_end), text(name_end + 4, value_end));
        at = value_end;
    }
    let code = i64::try_from(short(0)).unwrap();
    let version = i64::try_from(short(3)).unwrap();
    Asked { code, version, opaque: int(5), binary: true, fields, body: Vec::new() }
}

fn answer(asked: &Asked, place: usize, faults: Faults, state: &mut State) -> Vec<u8> {
    *state.codes.entry(asked.code).or_default() += 1;
    let field = |name: &str| asked.fields.get(name).cloned().unwrap_or_default();
    let (name, body) = (field("brokerName"), &asked.body);
    match asked.code {
        103 if state.left.remove(&name) => reply(asked, 1, json!({}), ""),
        103 => {
            register(asked, place, state);
            reply(asked, 0, json!({}), "")
        }
        104 => {
            state.brokers.remove(&name);
            if faults.refuses_who_left {
                state.left.insert(name.clone());
            }
            state.topics.values_mut().for_each(|brokers| drop(brokers.remove(&name)));
            state.topics.retain(|_, brokers| !brokers.is_empty());
            reply(asked, 0, Value::Null, "")
        }
        105 => route(asked, faults, state),
        106 => {
            let brokers = state.brokers.keys().map(|n| (n.clone(), json!({"cluster": "bench"})));
            let table: serde_json::Map<String, Value> = brokers.collect();
            reply(asked, 0, Value::Null, &json!({ "brokerAddrTable": table }).to_string())
        }
        206 => {
            let names: Vec<&String> = state.topics.keys().collect();
            reply(asked, 0, Value::Null, &json!({ "topicList": names }).to_string())
        }
        322 => {
            let asked_for: Value = serde_json::from_slice(body).unwrap();
            let same = state.brokers.get(&name).is_some_and(|(_, known, _)| *known == asked_for);
            let changed = if same { "false" } else { "true" };
            reply(asked, 0, json!({ "changed": changed }), "")
        }
        904 => reply(asked, 0, Value::Null, ""),
        _ => reply(asked, 3, Value::Null, ""),
    }
}

fn register(asked: &Asked, place: usize, state: &mut State) {
    let (name, addr) = (&asked.fields["brokerName"], asked.fields["brokerAddr"].clone());
    if let Some(crc) = asked.fields.get("bodyCrc32").filter(|crc| *crc != "0") {
        assert_eq!(*crc, (crc32fast::hash(&asked.body) & 0x7fff_ffff).to_string());
    }
    let (version, topics) = if asked.fields["compressed"] == "true" {
        state.compressed += 1;
        unpack(&asked.body)
    } else {
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        let all = &body["topicConfigSerializeWrapper"];
        let topics = all["topicConfigTable"].as_object().unwrap().values().map(|topic| {
            let name = topic["topicName"].as_str().unwrap().to_owned();
            (name, topic["readQueueNums"].as_u64().unwrap())
        });
        (all["dataVersion"].clone(), topics.collect())
    };
    state.brokers.insert(name.clone(), (addr, version, place));
    for (topic, queues) in topics {
        let history = state.topics.entry(topic).or_default().entry(name.clone()).or_default();
        if history.last().is_none_or(|(_, last)| *last != queues) {
            history.push((Instant::now(), queues));
        }
    }
}

fn unpack(body: &[u8]) -> (Value, Vec<(String, u64)>) {
    let mut plain = Vec::new();
    flate2::read::ZlibDecoder::new(body).read_to_end(&mut plain).unwrap();
    let mut rest = &plain[..];
    let mut number = || {
        let (head, tail) = rest.split_first_chunk::<4>().unwrap();
        rest = tail;
        u32::from_be_bytes(*head) as usize
    };
    let length = number();
    let version = serde_json::from_slice(&plain[4..4 + length]).unwrap();
    let mut at = 4 + length;
    let mut topics = Vec::new();
    let word = |at: usize| u32::from_be_bytes(plain[at..at + 4].try_into().unwrap()) as usize;
    let count = word(at);
    at += 4;
    for _ in 0..count {
        let text = std::str::from_utf8(&plain[at + 4..at + 4 + word(at)]).unwrap();
        let words: Vec<&str> = text.split(' ').collect();
        assert_eq!((words.len(), words[1]), (6, words[2]), "{text}");
        topics.push((words[0].to_owned(), words[1].parse().unwrap()));
        at += 4 + word(at);
    }
    (version, topics)
}

fn route(asked: &Asked, faults: Faults, state: &mut State) -> Vec<u8> {
    state.routes += 1;
    state.makes.insert((asked.version, asked.binary));
    let is_nth = |each: Option<u64>| each.is_some_and(|n| state.routes.is_multiple_of(n));
    if is_nth(faults.silent_each) {
        return Vec::new();
    }
    let now_view = faults.two_views && state.routes.is_multiple_of(2);
    let lag = if now_view { Duration::ZERO } else { faults.lag };
    let zone = asked.fields.get("__ZONE_NAME").map(|zone| u32::from(zone == "zone-b"));
    let in_zone = |name: &str| {
        let number: u32 = name.rsplit('-').next().unwrap().parse().unwrap();
        zone.is_none_or(|zone| zone == number % 2)
    };
    let shown = |history: &[(Instant, u64)]| {
        let old = history.iter().rev().find(|(since, _)| since.elapsed() >= lag);
        old.or(history.first()).unwrap().1
    };
    let Some(found) = state.topics.get(&asked.fields["topic"]) else {
        return reply(asked, 17, Value::Null, "");
    };
    let there = found.iter().filter(|(n, _)| state.brokers.contains_key(*n) && in_zone(n));
    let there: Vec<(&String, u64)> = there.map(|(n, history)| (n, shown(history))).collect();
    if there.is_empty() && zone.is_none() {
        return reply(asked, 17, Value::Null, "");
    }
    let brokers: Vec<Value> = there
        .iter()
        .map(|(name, _)| {
            let addr = &state.brokers[*name].0;
            json!({ "brokerAddrs": { "0": addr }, "brokerName": name, "cluster": "bench" })
        })
        .collect();
    let queues: Vec<Value> = there
        .iter()
        .map(|(name, queues)| {
            json!({ "brokerName": name, "perm": 6, "readQueueNums": queues, "topicSysFlag": 0,
                "writeQueueNums": queues })
        })
        .collect();
    let mut body = json!({ "brokerDatas": brokers, "queueDatas": queues }).to_string();
    if asked.version < 401 || zone.is_some() {
        body = body.replace("{\"0\":", "{0:");
    }
    if is_nth(faults.wrong_port_each) {
        body = body.replace("10911", "10912");
    }
    reply(asked, 0, Value::Null, &body)
}

fn reply(asked: &Asked, code: u32, fields: Value, body: &str) -> Vec<u8> {
    let mut header = json!({ "code": code, "flag": 1, "opaque": asked.opaque });
    if !fields.is_null() {
        header["extFields"] = fields;
    }
    super::frame(&header.to_string(), body)
}

//! Aim: every answer is the one that a Java NameServer 5.5.0 gave to the same bytes.
//! Method: `golden/samples.jsonl` is a sequence of recorded requests and answers; it is replayed on
//! one fresh server.
//! `golden/README.md` explains a line of the file, how two answers are compared, and how to record
//! anew.

mod support;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::conn::{ANSWER_WITHIN, Conn, Got, SILENCE};
use support::frame::{Answer, frame};
use support::json::{canonical, is_compact, parse};
use support::look_until;
use support::server::{Server, given, is_java, resolve};

/// Samples where we answer differently on purpose: (id, why). Each must really differ, or it has to
/// go.
const DELIBERATE: [(&str, &str); 2] = [
    ("zone-za", "a filtered route is in the dialect that was asked for"),
    ("zone-none", "a filtered route is in the dialect that was asked for"),
];

/// Settings that only we have; they come on top of the recorded ones in an answer to 319.
const OUR_SETTINGS: [&str; 1] = ["allowRemoteConfigUpdate"];

/// How long a clean-up that Java does in the background may take to show in a query.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);

/// Requests that change nothing, so that they may be repeated until a clean-up shows.
const QUERIES: [i64; 10] = [101, 105, 106, 206, 219, 224, 304, 311, 319, 901];

#[test]
fn every_recorded_answer_is_given_again() {
    let path = samples_path();
    let mut samples = load(&path);
    if let Ok(java) = std::env::var("GOLDEN_RECORD") {
        record(resolve(&java), &mut samples);
        return save(&path, &samples);
    }
    let server = match given() {
        Some(_) => Server::start(&[]),
        None => Server::start(&[("allowRemoteConfigUpdate", "true")]),
    };
    let mut failures = Vec::new();
    replay(server.addr, &samples, |sample, differences| {
        let id = sample.text("id");
        let deliberate = DELIBERATE.iter().find(|(known, _)| *known == id && !is_java());
        match (differences.is_empty(), deliberate) {
            (true, None) | (false, Some(_)) => {}
            (true, Some((_, why))) => {
                failures.push(format!("{id}: listed as different ({why}) but it is equal"));
            }
            (false, None) => {
                let number = &sample.0["n"];
                let lines = differences.join("\n    - ");
                failures.push(format!("{number} {id}: {}\n    - {lines}", sample.text("note")));
            }
        }
    });
    assert!(failures.is_empty(), "{} samples differ\n{}", failures.len(), failures.join("\n"));
}

/// One line of the file.
#[derive(Clone, Debug)]
struct Sample(Value);

impl Sample {
    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        unhex(self.text(name)).unwrap_or_else(|| panic!("{}: `{name}` is no hex", self.text("id")))
    }

    /// The request as sent: recorded bytes, or a new sample's `header` and `body` in words.
    fn request(&self) -> Vec<u8> {
        if self.0.get("req").is_some() {
            return self.bytes("req");
        }
        frame(0, self.text("header").as_bytes(), self.text("body").as_bytes())
    }

    fn ignored(&self) -> Vec<&str> {
        let list = self.0["ignore"].as_array();
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }
}

fn samples_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/samples.jsonl")
}

fn load(path: &Path) -> Vec<Sample> {
    let text = std::fs::read_to_string(path).expect("the samples are part of the repository");
    let parse = |line| Sample(serde_json::from_str(line).expect("one JSON object a line"));
    text.lines().map(parse).collect()
}

fn save(path: &Path, samples: &[Sample]) {
    let lines: String = samples.iter().map(|sample| format!("{}\n", sample.0)).collect();
    std::fs::write(path, lines).expect("the file of samples can be written");
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16)?.try_into().ok()).collect();
    let digits = digits?;
    digits.chunks(2).map(|pair| Some(pair[0] << 4 | pair.get(1)?)).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends all samples in order and hands each with its differences to `judge`.
fn replay(addr: SocketAddr, samples: &[Sample], mut judge: impl FnMut(&Sample, Vec<String>)) {
    let mut conns = HashMap::new();
    let mut settled_at = Instant::now();
    for sample in samples {
        match sample.text("op") {
            "close" => drop(conns.remove(sample.text("conn"))),
            "settle" => settled_at = Instant::now() + SETTLE_WITHIN,
            _ => {
                let ask = || differences_of_outcome(sample, exchange(addr, &mut conns, sample));
                let within = settled_at.saturating_duration_since(Instant::now());
                let is_final = |found: &Vec<String>| found.is_empty() || !is_query(sample);
                judge(sample, look_until(within, ask, is_final));
            }
        }
    }
}

fn is_query(sample: &Sample) -> bool {
    let request = sample.request();
    let answer = request.get(4..).and_then(|rest| Answer::decode(rest).ok());
    answer.is_some_and(|request| QUERIES.contains(&request.code()))
}

fn exchange(addr: SocketAddr, conns: &mut HashMap<String, Conn>, sample: &Sample) -> Got {
    let name = sample.text("conn").to_owned();
    let conn = conns.entry(name.clone()).or_insert_with(|| Conn::open(addr));
    conn.send_bytes(&sample.request());
    let limit = if sample.text("expect") == "silent" { SILENCE } else { ANSWER_WITHIN };
    let got = conn.next_frame(limit);
    if matches!(got, Got::Closed) {
        conns.remove(&name);
    }
    got
}

fn differences_of_outcome(sample: &Sample, got: Got) -> Vec<String> {
    let expected = sample.text("expect");
    match (got, expected) {
        (Got::Frame(frame), "frame") => differences(sample, &frame),
        (Got::Closed, "closed") | (Got::Silent, "silent") => Vec::new(),
        (Got::Frame(frame), _) => {
            let text = Answer::decode(&frame).map_or_else(|e| e, |answer| answer.text());
            vec![format!("expected {expected}, got {text}")]
        }
        (other, _) => vec![format!("expected {expected}, got {other:?}")],
    }
}

/// What is wrong with `frame` as the answer to a sample.
fn differences(sample: &Sample, frame: &[u8]) -> Vec<String> {
    let expected = Answer::decode(&sample.bytes("rsp")).expect("a recorded answer");
    let got = match Answer::decode(frame) {
        Ok(got) => got,
        Err(why) => return vec![why],
    };
    if got.kind != expected.kind {
        return vec![format!("header serialization {}, expected {}", got.kind, expected.kind)];
    }
    let ignored = sample.ignored();
    let mut found = Vec::new();
    for name in ["code", "flag", "language", "opaque", "remark", "extFields"] {
        let (expected, got) = (&expected.fields[name], &got.fields[name]);
        if expected != got && !ignored.contains(&name) {
            found.push(format!("{name}: expected {expected}, got {got}"));
        }
    }
    match sample.text("mode") {
        "exact" => exact(&expected, &got, &mut found),
        "props" => properties(&expected, &got, &ignored, &mut found),
        "struct" => structure(sample, &expected, &got, &mut found),
        mode => panic!("{}: no such mode `{mode}`", sample.text("id")),
    }
    found
}

/// Byte for byte, but for the server's own version number.
fn exact(expected: &Answer, got: &Answer, found: &mut Vec<String>) {
    let header = |answer: &Answer| without_version(&String::from_utf8_lossy(&answer.header));
    if found.is_empty() && header(expected) != header(got) {
        found.push(format!("header: expected {}, got {}", header(expected), header(got)));
    }
    if expected.body != got.body {
        found.push(format!(
            "body: expected {}\n      got {}",
            expected.body_text(),
            got.body_text()
        ));
    }
}

fn without_version(header: &str) -> String {
    let Some((before, after)) = header.split_once("\"version\":") else {
        return header.to_owned();
    };
    let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{before}\"version\":0{after}")
}

/// `key=value` lines in the recorded order.
fn properties(expected: &Answer, got: &Answer, ignored: &[&str], found: &mut Vec<String>) {
    let pairs = |answer: &Answer, ours: bool| -> Vec<(String, String)> {
        let text = answer.body_text();
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let pairs = pairs.filter(|(name, _)| !ours || !OUR_SETTINGS.contains(name));
        let value = |name, value| if ignored.contains(&name) { "-" } else { value }.to_owned();
        pairs.map(|(name, text)| (name.to_owned(), value(name, text))).collect()
    };
    let (expected, got) = (pairs(expected, false), pairs(got, true));
    for pair in expected.iter().filter(|pair| !got.contains(pair)) {
        found.push(format!("property {}={} is missing", pair.0, pair.1));
    }
    for pair in got.iter().filter(|pair| !expected.contains(pair)) {
        found.push(format!("property {}={} was not recorded", pair.0, pair.1));
    }
    if found.is_empty() && expected != got {
        found.push(format!("order of properties: {got:?}"));
    }
}

/// The same JSON in the same dialect, compact; sets in any order.
fn structure(sample: &Sample, expected: &Answer, got: &Answer, found: &mut Vec<String>) {
    let both = || format!("expected {}\n      got {}", expected.body_text(), got.body_text());
    if expected.body.is_empty() || got.body.is_empty() {
        if expected.body != got.body {
            found.push(format!("body: {}", both()));
        }
        return;
    }
    let (wanted, wanted_bare) = parse(&expected.body).expect("a recorded body");
    let (value, bare) = match parse(&got.body) {
        Ok(parsed) => parsed,
        Err(why) => return found.push(format!("body: {why}")),
    };
    let ordered = sample.text("maps") == "ordered";
    let canonical = |value| canonical(value, ordered, &sample.ignored());
    if canonical(&wanted) != canonical(&value) {
        found.push(format!("body: {}", both()));
    } else if wanted_bare != bare {
        found.push(format!("dialect of integer keys: {}", both()));
    }
    if is_compact(&expected.body) && !is_compact(&got.body) {
        found.push(format!("body is not compact: {}", got.body_text()));
    }
}

/// Sends the requests to a fresh Java server and puts its answers into the samples.
fn record(addr: SocketAddr, samples: &mut [Sample]) {
    let mut conns = HashMap::new();
    for sample in samples {
        match sample.text("op") {
            "close" => drop(conns.remove(sample.text("conn"))),
            // Nothing is known yet that one could wait for.
            "settle" => std::thread::sleep(SETTLE_WITHIN),
            _ => {
                let got = exchange(addr, &mut conns, sample);
                let id = sample.text("id").to_owned();
                let expected = sample.text("expect").to_owned();
                match (got, expected.as_str()) {
                    (Got::Frame(frame), "frame") => keep(sample, frame),
                    (Got::Closed, "closed") | (Got::Silent, "silent") => {}
                    (got, _) => panic!("{id}: expected {expected}, got {got:?}"),
                }
            }
        }
    }
}

/// Stores an answer. Values of ignored properties are paths and addresses of the machine: they stay
/// out.
fn keep(sample: &mut Sample, frame: Vec<u8>) {
    let mut answer = Answer::decode(&frame).expect("the server's answer can be read");
    if sample.text("mode") == "props" {
        let ignored = sample.ignored();
        let masked = answer.body_text().lines().fold(String::new(), |text, line| {
            let name = line.split('=').next().unwrap_or_default();
            let line = if ignored.contains(&name) { format!("{name}=-") } else { line.to_owned() };
            text + &line + "\n"
        });
        answer.body = masked.into_bytes();
    }
    let request = sample.request();
    let recorded = support::frame::frame(answer.kind, &answer.header, &answer.body);
    sample.0["req"] = json!(hex(&request));
    sample.0["rsp"] = json!(hex(&recorded[4..]));
    sample.0["rsp_text"] = json!(answer.text());
}

/// The comparison itself must be able to fail.
mod comparison {
    use super::*;

    fn sample(mode: &str, body: &str) -> Sample {
        let recorded = answer(r#"{"code":0,"flag":1,"opaque":1,"version":513}"#, body);
        Sample(json!({"id": "x", "mode": mode, "rsp": hex(&recorded), "ignore": ["body.now"]}))
    }

    fn answer(header: &str, body: &str) -> Vec<u8> {
        frame(0, header.as_bytes(), body.as_bytes())[4..].to_vec()
    }

    fn judged(mode: &str, recorded: &str, header: &str, body: &str) -> usize {
        differences(&sample(mode, recorded), &answer(header, body)).len()
    }

    const HEADER: &str = r#"{"code":0,"flag":1,"opaque":1,"version":7}"#;

    #[test]
    fn exact_allows_only_another_version() {
        assert_eq!(judged("exact", "{}", HEADER, "{}"), 0);
        assert_eq!(judged("exact", "{}", HEADER, "{ }"), 1);
        assert_eq!(judged("exact", "", &HEADER.replace(",\"flag\"", ", \"flag\""), ""), 1);
        assert_eq!(judged("exact", "", &HEADER.replace("\"code\":0", "\"code\":1"), ""), 1);
    }

    #[test]
    fn struct_allows_another_order_of_sets_but_no_other_dialect() {
        let recorded = r#"{"topicList":["a","b"],"m":{0:"x"},"now":1}"#;
        let wrong = |body| judged("struct", recorded, HEADER, body);
        assert_eq!(wrong(r#"{"m":{0:"x"},"topicList":["b","a"],"now":2}"#), 0);
        assert_eq!(wrong(r#"{"m":{"0":"x"},"topicList":["b","a"]}"#), 1, "quoted keys");
        assert_eq!(wrong(r#"{"m":{0:"x"},"topicList":["b"]}"#), 1, "one missing");
        assert_eq!(wrong(r#"{"m":{0:"x"}, "topicList":["b","a"]}"#), 1, "a blank");
        assert_eq!(wrong(""), 1, "no body");
    }

    #[test]
    fn props_compare_values_and_order() {
        let wrong = |body| judged("props", "a=1\nb=2\n", HEADER, body);
        assert_eq!(wrong("a=1\nallowRemoteConfigUpdate=true\nb=2\n"), 0);
        assert_eq!(wrong("b=2\na=1\n"), 1);
        assert_eq!(wrong("a=1\nb=3\n"), 2);
        assert_eq!(wrong("a=1\nb=2\nc=3\n"), 1);
    }
}

/// What the comparison is built on.
mod json_text {
    use super::*;

    #[test]
    fn bare_integer_keys_are_read_and_reported() {
        let (value, bare) = parse(br#"{"a":{0:"x,1:y",-12:"{3:"},"b":[1,2]}"#).unwrap();
        assert_eq!(value, serde_json::json!({"a": {"0": "x,1:y", "-12": "{3:"}, "b": [1, 2]}));
        assert!(bare);
        assert!(!parse(br#"{"0":1}"#).unwrap().1);
        assert!(parse(b"{a:1}").is_err());
    }

    #[test]
    fn sets_compare_in_any_order_and_lists_do_not() {
        let of = |text: &str| canonical(&serde_json::from_str(text).unwrap(), false, &[]);
        assert_eq!(of(r#"{"topicList":["a","b"]}"#), of(r#"{"topicList":["b","a"]}"#));
        assert_ne!(of(r#"{"other":["a","b"]}"#), of(r#"{"other":["b","a"]}"#));
        let ordered = |text: &str| canonical(&serde_json::from_str(text).unwrap(), true, &[]);
        assert_ne!(ordered(r#"{"a":1,"b":2}"#), ordered(r#"{"b":2,"a":1}"#));
    }

    #[test]
    fn blanks_count_only_outside_of_strings() {
        assert!(is_compact(br#"{"a":"b: c, d"}"#));
        assert!(!is_compact(br#"{"a": 1}"#));
    }
}

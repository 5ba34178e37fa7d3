//! Aim: no bytes from a peer may panic the codec, make it loop, or make it disagree with itself.
//!
//! Method: seeded byte and structure fuzzing of frames, headers and bodies, each case with a
//! property: cutting a body into steps changes nothing, what is read can be written and read back,
//! what a strict JSON reader accepts is accepted. A failing case prints one line that replays it.
//!
//! `FUZZ_CASES=10000000 cargo test --release --test fuzz_wire` runs longer than the default.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use guidepost::ids::Opaque;
use guidepost::limits;
use guidepost::wire::body::register::{self, Layout, RegisterBody, RegisterDecoder, Step};
use guidepost::wire::body::{data_version, kv_file, topic_queues};
use guidepost::wire::json::{Kind, Reader};
use guidepost::wire::{BodyError, Command, HeaderKind, Request, WireError, frame};

const NOW: i64 = 1_700_000_000_123;

/// Headers of known peers and of the oddities that the Java server takes.
const HEADERS: [&str; 5] = [
    concat!(
        r#"{"code":103,"extFields":{"brokerId":"0","bodyCrc32":"939629845","clusterName":"C","#,
        r#""brokerAddr":"10.0.0.1:10911","compressed":"false","brokerName":"b0"},"flag":0,"#,
        r#""language":"JAVA","opaque":123,"serializeTypeCurrentRPC":"JSON","version":513}"#
    ),
    concat!(
        r#"{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","#,
        r#""extFields":{"topic":"T1"}}"#
    ),
    r#"{"c\u006fde":101,'opaque':-15,"extFields":{"namespace":'n',"key":"\ud83d\ude00\/\x41"}}"#,
    r#"{"code":"9","extFields":{"a":1.50,"b":{"c":[1, null,]},"d":1e3,"e":null},/**/"opaque":0}"#,
    r#"{"code":3,"flag":1,"remark":" request type 999 not supported\n","zzz":[[{"a":[]}]]},"#,
];

const REGISTRATION: &str = concat!(
    r#"{"filterServerList":["f:1"],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"#,
    r#""stateVersion":0,"timestamp":1700000000000},"topicConfigTable":{"ST":{"attributes":"#,
    r#"{"message.type":"FIFO"},"order":false,"perm":7,"readQueueNums":4,"topicFilterType":"#,
    r#""SINGLE_TAG","topicName":"ST","topicSysFlag":1,"writeQueueNums":5},"k":{"topicName":"S"}},"#,
    r#""topicQueueMappingInfoMap":{"ST":{"bname":"s0","currIdMap":{10:1,0:0},"dirty":false,"#,
    r#""epoch":7,"scope":"__global__","topic":"ST","totalQueues":8}}}}"#
);
const VERSION: &str = r#"{"counter":1,"stateVersion":0,"timestamp":1700000000000}"#;
const QUEUES: &str = r#"{"queueDatas":[{"brokerName":"b0","perm":3,"readQueueNums":1}],"x":0}"#;
const KV_FILE: &str = r#"{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"b0:4;b1:4"},"n":{}}}"#;

/// What breaks parsers when it stands in the wrong place.
const TOKENS: [&[u8]; 30] = [
    b"\"",
    b"'",
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"\\x4",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"true",
    b"/*",
    b"*/",
    b"//",
    b"-",
    b"+",
    b"0",
    b"1e999",
    b"9223372036854775808",
    b"2147483648",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\xef\xbb\xbf",
    b"\0",
    b"\n",
    b" ",
];

/// Lengths and counts that announce too much, too little or nonsense.
const NUMBERS: [u32; 9] =
    [0, 1, 4, 0x00ff_ffff, 0x0100_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_fffb, u32::MAX];

/// A small generator with a state that one number sets (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below a usize")
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.byte()).collect()
    }

    /// A place in `bytes` and the end of a short range from there.
    fn range(&mut self, bytes: &[u8]) -> std::ops::Range<usize> {
        let from = self.below(bytes.len() + 1);
        from..(from + self.below(16)).min(bytes.len())
    }

    /// `bytes` with a few changes.
    fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..self.below(4) {
            let range = self.range(&bytes);
            match self.below(8) {
                0 if range.start < bytes.len() => bytes[range.start] ^= 1 << self.below(8),
                1 if range.start < bytes.len() => bytes[range.start] = self.byte(),
                2 => drop(bytes.drain(range)),
                3 => bytes.truncate(range.start),
                4 => {
                    let copy = bytes[range.clone()].to_vec();
                    drop(bytes.splice(range.start..range.start, copy));
                }
                5 => {
                    let number = NUMBERS[self.below(NUMBERS.len())].to_be_bytes();
                    let end = (range.start + 4).min(bytes.len());
                    drop(bytes.splice(range.start..end, number));
                }
                _ => {
                    let token = self.pick(&TOKENS).to_vec();
                    drop(bytes.splice(range.start..range.start, token));
                }
            }
        }
        bytes
    }
}

/// One input made from a seed, and what must hold for it.
type Case = dyn Fn(&mut Random) -> Result<(), String>;

struct Failure {
    seed: u64,
    text: String,
}

/// Runs `case` with one seed after another until one fails.
fn first_failure(seeds: impl IntoIterator<Item = u64>, case: &Case) -> Option<Failure> {
    seeds.into_iter().find_map(|seed| {
        let text = match catch_unwind(AssertUnwindSafe(|| case(&mut Random(seed)))) {
            Ok(outcome) => outcome.err()?,
            Err(_) => "panicked, see above".into(),
        };
        Some(Failure { seed, text })
    })
}

fn replay_line(name: &str, failure: &Failure) -> String {
    let Failure { seed, text } = failure;
    format!("{text} | replay: FUZZ_SEED={seed:#x} cargo test --test fuzz_wire {name}")
}

/// Fuzzes with a default number of cases that `FUZZ_CASES` overrides.
fn fuzz(name: &str, cases: u64, case: &Case) {
    let variable = |name| std::env::var(name).ok();
    let failure = match variable("FUZZ_SEED") {
        Some(seed) => {
            let digits = seed.trim_start_matches("0x");
            let seed = u64::from_str_radix(digits, 16).expect("FUZZ_SEED is a hex number");
            first_failure([seed], case)
        }
        None => {
            let cases = variable("FUZZ_CASES").map_or(Ok(cases), |text| text.parse());
            let cases = cases.expect("FUZZ_CASES is a number");
            // Far apart, so that two targets do not walk the same states.
            let mut seeds = Random(
                name.bytes().fold(0x5eed, |sum, byte| u64::rotate_left(sum, 7) ^ u64::from(byte)),
            );
            first_failure((0..cases).map(|_| seeds.next()), case)
        }
    };
    if let Some(failure) = failure {
        panic!("{name}: {}", replay_line(name, &failure));
    }
}

fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text()) }
}

/// A frame with right lengths around a header.
fn framed(kind: HeaderKind, header: &[u8], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + header.len() + body.len()).expect("small");
    let mut bytes = length.to_be_bytes().to_vec();
    let [_, high, middle, low] = u32::try_from(header.len()).expect("small").to_be_bytes();
    bytes.extend_from_slice(&[kind.byte(), high, middle, low]);
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(body);
    bytes
}

/// Decodes the frame at the front of `bytes`; `None` if it is incomplete.
fn decoded(bytes: &[u8]) -> Result<Option<Command<'_>>, WireError> {
    let Some(head) = frame::next(bytes)? else { return Ok(None) };
    Command::decode(&head, &bytes[..head.total_bytes], None).map(Some)
}

fn header_case(kind: HeaderKind, header: &[u8]) -> Result<(), String> {
    let bytes = framed(kind, header, b"body");
    let command = match decoded(&bytes) {
        Ok(Some(command)) => command,
        Ok(None) => return Err("a complete frame was called incomplete".into()),
        Err(error) => {
            let text = error.to_string();
            return ensure(text.len() < 200, || format!("long error: {text}"));
        }
    };
    ensure(command.body == b"body", || "the body moved".into())?;
    ensure(command.ext.iter().count() <= limits::EXT_FIELDS_MAX, || "too many fields".into())?;
    written_and_read_back(kind, &command)
}

/// Fields that were read can be written, and read again are the same.
fn written_and_read_back(kind: HeaderKind, command: &Command<'_>) -> Result<(), String> {
    let mut ext: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in command.ext.iter() {
        // A binary name or value of no bytes is absent, and a name has 15 bits of length.
        if kind == HeaderKind::Json || !(name.is_empty() || value.is_empty()) {
            ext.insert(name, value);
        }
    }
    let ext: Vec<(&str, &str)> = ext.into_iter().collect();
    let request = Request {
        code: command.code,
        opaque: command.opaque.unwrap_or(Opaque(0)),
        flag: command.flag,
        version: command.version,
        ext: &ext,
        body: command.body,
    };
    let mut bytes = Vec::new();
    ensure(request.encode(kind, &mut bytes) == bytes.len(), || "wrong number of bytes".into())?;
    let again = decoded(&bytes).map_err(|error| format!("own bytes refused: {error}"))?;
    let again = again.ok_or("own bytes are incomplete")?;
    let same = (again.code, again.flag, again.version, again.body)
        == (command.code, command.flag, command.version, command.body)
        && ext.iter().all(|(name, value)| again.text(name) == Some(*value));
    ensure(same, || format!("read {command:?}, wrote and read {again:?}"))
}

#[test]
fn any_bytes_as_frames() {
    fuzz("any_bytes_as_frames", 100_000, &|random| {
        let mut bytes = match random.below(3) {
            0 => random.bytes(64),
            1 => framed(HeaderKind::Json, random.pick(&HEADERS).as_bytes(), b""),
            _ => framed(HeaderKind::Binary, &random.bytes(40), &random.bytes(10)),
        };
        bytes = random.mutated(&bytes);
        let whole = frame::next(&bytes);
        for cut in 0..=bytes.len() {
            // More bytes never take back a verdict, and a verdict needs few bytes.
            let early = frame::next(&bytes[..cut]);
            ensure(early == whole || early == Ok(None), || format!("cut at {cut}: {early:?}"))?;
            let late = cut >= 8 && whole.is_err() && early == Ok(None);
            ensure(!late, || format!("no verdict yet at {cut}"))?;
        }
        if let Ok(Some(head)) = whole {
            ensure(frame::announced(&bytes) == Some(head.total_bytes), || "announced".into())?;
            let parts = 8 + head.header_bytes + head.body_bytes;
            ensure(parts == head.total_bytes, || format!("{head:?}"))?;
        }
        decoded(&bytes).map(|_| ()).or(Ok(()))
    });
}

#[test]
fn mutated_json_headers() {
    fuzz("mutated_json_headers", 60_000, &|random| {
        let header = random.pick(&HEADERS).as_bytes();
        let header = random.mutated(header);
        if header.is_empty() { Ok(()) } else { header_case(HeaderKind::Json, &header) }
    });
}

#[test]
fn mutated_binary_headers() {
    fuzz("mutated_binary_headers", 60_000, &|random| {
        let ext = [("topic", "T1"), ("namespace", "ORDER"), ("x", "")];
        let request = Request { code: 105, version: 513, ext: &ext, ..Request::default() };
        let mut frame = Vec::new();
        request.encode(HeaderKind::Binary, &mut frame);
        let header = random.mutated(&frame[8..]);
        if header.is_empty() { Ok(()) } else { header_case(HeaderKind::Binary, &header) }
    });
}

/// A random JSON value as text, at most `depth` deep.
fn value(random: &mut Random, depth: usize, out: &mut Vec<u8>) {
    let kinds = if depth == 0 { 4 } else { 6 };
    match random.below(kinds) {
        0 => out.extend_from_slice(random.pick(&[b"null".as_slice(), b"true", b"false"])),
        1 => out.extend_from_slice(random.next().to_string().as_bytes()),
        2 => {
            let decimal = f64::from_bits(random.next());
            let decimal = if decimal.is_finite() { decimal } else { 0.5 };
            out.extend_from_slice(format!("{decimal:e}").as_bytes());
        }
        3 => string(random, out),
        4 => {
            out.push(b'[');
            for n in 0..random.below(4) {
                out.extend_from_slice(if n > 0 { b" ,\n" } else { b"" });
                value(random, depth - 1, out);
            }
            out.push(b']');
        }
        _ => {
            out.push(b'{');
            for n in 0..random.below(4) {
                out.extend_from_slice(if n > 0 { b"," } else { b"\t" });
                string(random, out);
                out.extend_from_slice(b" : ");
                value(random, depth - 1, out);
            }
            out.push(b'}');
        }
    }
}

fn string(random: &mut Random, out: &mut Vec<u8>) {
    out.push(b'"');
    for _ in 0..random.below(6) {
        let piece: &[&str] =
            &["a", "中😀", "\\n", "\\\"", "\\\\", "\\u00e9", "\\ud83d\\ude00", "/", "\u{7f}"];
        out.extend_from_slice(random.pick(piece).as_bytes());
    }
    out.push(b'"');
}

#[test]
fn what_strict_json_accepts_is_accepted_and_means_the_same() {
    let name = "what_strict_json_accepts_is_accepted_and_means_the_same";
    fuzz(name, 60_000, &|random| {
        let mut text = vec![b'['];
        value(random, 5, &mut text);
        text.push(b']');
        if random.below(2) == 0 {
            text = random.mutated(&text);
        }
        let strict: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
        let mut reader = Reader::new(&text);
        let ours = reader.any_as_text().and_then(|value| reader.finish().map(|()| value));
        match (strict, ours) {
            (Some(strict), Ok(Some(ours))) if strict.is_array() || strict.is_object() => {
                let again: Option<serde_json::Value> = serde_json::from_str(&ours).ok();
                ensure(again.is_some_and(|again| same(&again, &strict)), || {
                    format!("{ours} from {}", lossy(&text))
                })
            }
            (Some(_), Err(error)) => Err(format!("{error} in {}", lossy(&text))),
            _ => skips_alike(&text),
        }
    });
}

/// Equal but for the last digits of a fraction, which the strict reader does not round exactly.
fn same(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (one, other) {
        (Array(one), Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Object(one), Object(other)) => {
            let alike =
                |(name, one): (&String, _)| other.get(name).is_some_and(|other| same(one, other));
            one.len() == other.len() && one.iter().all(alike)
        }
        (Number(one), Number(other)) if one != other => {
            let (one, other) = (one.as_f64().unwrap_or(0.0), other.as_f64().unwrap_or(1.0));
            (one - other).abs() <= one.abs() * 1e-14
        }
        _ => one == other,
    }
}

/// Skipping a value and turning it into text find the same things wrong.
fn skips_alike(text: &[u8]) -> Result<(), String> {
    let mut skipping = Reader::new(text);
    let mut reading = Reader::new(text);
    if !matches!(skipping.peek(), Ok(Kind::Object | Kind::Array)) {
        return Ok(());
    }
    let skipped = skipping.skip();
    let read = reading.any_as_text().map(|_| ());
    ensure(skipped == read && skipping.at() == reading.at(), || {
        format!("{skipped:?} but {read:?} in {}", lossy(text))
    })
}

fn lossy(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn in_steps(body: &Bytes, layout: Layout, entries: usize) -> Result<RegisterBody, BodyError> {
    let mut decoder = RegisterDecoder::new(body.clone(), layout, NOW);
    loop {
        if let Step::Done(body) = decoder.step(entries)? {
            return Ok(body);
        }
    }
}

fn registration_case(body: &Bytes, layout: Layout, entries: usize) -> Result<(), String> {
    let whole = register::decode(body.clone(), layout, NOW);
    let pieces = in_steps(body, layout, entries);
    ensure(whole == pieces, || format!("{whole:?} but in steps {pieces:?}"))?;
    if let Err(error) = whole {
        let text = error.to_string();
        ensure(text.chars().count() < 250, || format!("long error: {text}"))?;
        ensure(!text.contains(char::is_control), || format!("control characters: {text:?}"))?;
    }
    Ok(())
}

#[test]
fn mutated_registrations() {
    fuzz("mutated_registrations", 30_000, &|random| {
        let body = Bytes::from(random.mutated(REGISTRATION.as_bytes()));
        let layout = if random.below(8) == 0 { Layout::Bare } else { Layout::Json };
        registration_case(&body, layout, 1 + random.below(4))
    });
}

fn zipped(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

/// The inflated form of a compressed registration with two topics and one mapping.
fn parts() -> Vec<u8> {
    let mapping = r#"{"bname":"zip","currIdMap":{0:0,1:1},"epoch":7,"topic":"Z1","totalQueues":2}"#;
    let mut plain = Vec::new();
    let mut put = |count: Option<u32>, part: &str| {
        plain.extend(count.into_iter().flat_map(u32::to_be_bytes));
        plain.extend(u32::try_from(part.len()).expect("small").to_be_bytes());
        plain.extend_from_slice(part.as_bytes());
    };
    put(None, VERSION);
    put(Some(2), "Z1 4 5 6 SINGLE_TAG {}");
    put(None, r#"Z2 1 1 4 MULTI_TAG {"message.type":"FIFO"}"#);
    put(None, r#"["f:1"]"#);
    put(Some(1), mapping);
    plain
}

#[test]
fn mutated_compressed_registrations() {
    fuzz("mutated_compressed_registrations", 2_000, &|random| {
        let body = match random.below(4) {
            0 => {
                let zip = zipped(&parts());
                random.mutated(&zip)
            }
            _ => zipped(&random.mutated(&parts())),
        };
        let layout = Layout::Compressed { mapping_section: random.below(2) == 0 };
        registration_case(&body.into(), layout, 1 + random.below(4))
    });
}

#[test]
fn mutated_small_bodies() {
    fuzz("mutated_small_bodies", 60_000, &|random| {
        let version = random.mutated(VERSION.as_bytes());
        if let Ok(Some(version)) = data_version::decode(&version, NOW) {
            let mut bytes = Vec::new();
            data_version::encode(&version, &mut bytes);
            let again = data_version::decode(&bytes, NOW);
            // A counter that is null is left out, and what is left out reads as 0.
            let counter = version.counter.or(Some(0));
            let expected = guidepost::model::DataVersion { counter, ..version };
            ensure(again == Ok(Some(expected)), || format!("{version:?} became {again:?}"))?;
        }
        let _ = topic_queues::decode(&random.mutated(QUEUES.as_bytes()));
        let file = random.mutated(KV_FILE.as_bytes());
        if let Ok(table) = kv_file::decode(&file) {
            let mut bytes = Vec::new();
            kv_file::encode(&table, &mut bytes);
            let again = kv_file::decode(&bytes);
            ensure(again.as_ref() == Ok(&table), || format!("{table:?} became {again:?}"))?;
        }
        Ok(())
    });
}

#[test]
fn the_canary_is_found_and_its_replay_line_finds_it_again() {
    // Two faults as real ones look: a panic on some byte, a property broken by some length.
    let panics = |random: &mut Random| {
        let bytes = random.bytes(30);
        let at = bytes.iter().position(|byte| *byte == 0x7f).unwrap_or(0);
        assert!(at == 0, "canary");
        Ok(())
    };
    let disagrees = |random: &mut Random| ensure(random.bytes(30).len() != 29, || "canary".into());
    let cases: [&Case; 2] = [&panics, &disagrees];
    for case in cases {
        let mut seeds = Random(1);
        let found = first_failure((0..10_000).map(|_| seeds.next()), case).expect("found");
        let line = replay_line("canary", &found);
        let seed = line.split("FUZZ_SEED=0x").nth(1).and_then(|rest| rest.split(' ').next());
        let seed = u64::from_str_radix(seed.expect("the line has a seed"), 16).expect("hex");
        assert_eq!(seed, found.seed);
        assert!(first_failure([seed], case).is_some(), "found again");
    }
}

/// Public bug reports about malformed frames, byte for byte: each closes the connection.
#[test]
fn reported_malformed_frames_close_the_connection() {
    let binary = |tail: &[u8]| {
        let mut header = b"\x00\x65\x00\x02\x01\x00\x00\x00\x07\x00\x00\x00\x00".to_vec();
        header.extend_from_slice(tail);
        framed(HeaderKind::Binary, &header, b"")
    };
    let json = |header: &str| framed(HeaderKind::Json, header.as_bytes(), b"");
    let deep = "[".repeat(100_000);
    let mut frames: Vec<Vec<u8>> = vec![
        b"\x00\x00\x00\x00".to_vec(),
        b"\x00\x00\x00\x03\x00\x00\x00".to_vec(),
        b"\x00\x00\x00\x04\x00\xff\xff\xff".to_vec(),
        b"\x00\x00\x00\x42\x02\x00\x00\x3e".to_vec(),
        b"\x00\x00\x00\x42\xff\x00\x00\x3e".to_vec(),
        b"\x00\x00\x00\x42\x00\x00\x00\x3f".to_vec(),
        b"\x00\xff\xff\xfd".to_vec(),
        b"\xff\xff\xff\xff".to_vec(),
    ];
    // A remark of 2 GiB, of -1, of one byte too many; fields beyond the header; a negative name.
    frames.push(binary(b"\x7f\xff\xff\xff\x00\x00\x00\x00"));
    frames.push(binary(b"\xff\xff\xff\xff\x00\x00\x00\x00"));
    frames.push(binary(b"\x00\x00\x00\x05\x00\x00\x00\x00"));
    frames.push(binary(b"\x00\x00\x00\x00\x00\x00\x00\x64"));
    frames.push(binary(b"\x00\x00\x00\x00\x00\x00\x00\x09\x80\x00key\x00\x00\x00\x01"));
    frames.push(framed(HeaderKind::Binary, &[0; 20], b"\x00"));
    for header in ["not json", "null", "[]", "{\"code\":\"abc\"}", &deep, "{\"zzz\":"] {
        frames.push(json(header));
    }
    frames.push(json(&format!("{{\"zzz\":{deep}")));
    for bytes in &frames {
        let verdict = decoded(bytes).map(|command| format!("{command:?}"));
        assert!(verdict.is_err(), "{}: {verdict:?}", lossy(&bytes[..bytes.len().min(60)]));
    }
}

#[test]
fn reported_odd_frames_are_read() {
    let read = |bytes: &[u8]| -> (i32, bool, bool) {
        let command = decoded(bytes).expect("well formed").expect("complete");
        (command.code, command.is_response(), command.is_oneway())
    };
    let json = |header: &str| framed(HeaderKind::Json, header.as_bytes(), b"");
    assert_eq!(read(&json(r#"{"code":"105"}"#)), (105, false, false), "code as text");
    assert_eq!(read(&json(r#"{"code":1,"code":105}"#)), (105, false, false), "twice");
    assert_eq!(read(&json(r#"{"code":0,"flag":1}"#)), (0, true, false), "a response");
    assert_eq!(read(&json(r#"{"code":105,"flag":2}"#)), (105, false, true), "one-way");
    let smallest = framed(HeaderKind::Binary, &[0; 21], b"");
    assert_eq!(read(&smallest), (0, false, false), "a binary header of 21 bytes");
}

/// Public bug reports about decoding without a budget: a stream that says it is huge, or is.
#[test]
fn announced_sizes_are_refused_without_being_reserved() {
    let layout = Layout::Compressed { mapping_section: true };
    let count = |number: u32| [b"\x00\x00\x00\x02{}".as_slice(), &number.to_be_bytes()].concat();
    let mut plains: Vec<Vec<u8>> = vec![0x7fff_ffffu32.to_be_bytes().to_vec()];
    plains.push(u32::MAX.to_be_bytes().to_vec());
    plains.extend([count(0x7fff_ffff), count(u32::MAX), count(1_000_000)]);
    for plain in plains {
        let refused = register::decode(zipped(&plain).into(), layout, NOW);
        refused.expect_err("announces more than there is");
    }
}

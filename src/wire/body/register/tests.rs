use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::*;
use crate::limits::REGISTERED_ENTRIES_MAX;
use crate::model::Queues;

const NOW: i64 = 1_700_000_000_123;

/// As a Java 5.5.0 broker with a static topic writes it: its map of queues has bare integer keys.
const STATIC: &str = concat!(
    r#"{"filterServerList":["f:1","f:2"],"topicConfigSerializeWrapper":{"dataVersion":"#,
    r#"{"counter":1,"stateVersion":0,"timestamp":1700000000000},"mappingDataVersion":"#,
    r#"{"counter":0,"stateVersion":0,"timestamp":1700000000001},"topicConfigTable":{"ST":"#,
    r#"{"attributes":{"message.type":"FIFO"},"order":false,"perm":7,"readQueueNums":4,"#,
    r#""topicFilterType":"SINGLE_TAG","topicName":"ST","topicSysFlag":1,"writeQueueNums":5},"#,
    r#""key":{"topicName":"ST2"}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":"#,
    r#"{"ST":{"bname":"s0","currIdMap":{10:1,0:0,2:2},"dirty":false,"epoch":9007199254740993,"#,
    r#""scope":"__global__","topic":"ST","totalQueues":8}}}}"#,
);

/// A compressed body of version 513 as sent: two topics, one mapping (golden sample "reg-zip").
const ZIP_513: &str = concat!(
    "78da4d8fcd6ac3301084d53c44cf62af11c50a495374eba10986fe101a7a70284251b6a9c0b684241f52e377",
    "efda97646116763e186619634f3d58dfb519232829206593f10b6372be055508c8ae41329b40785d5c67608c",
    "cd48f795e44bbee28ffcb37cdfbebee8fdf396f7239d570b2ef9486f09505c32677cc89780a060536e3e600a",
    "3b7cd3be23f91e8ead6946fae70208b05d8ce5e9cd5087bea05252c941c0c9c57c01f563ea84023078fb0b6a",
    "4d2f583f256b7daefdd1d45a5344f6c159322b391dd9d4bb0e3b4ca016c33fb7bc48c6",
);

fn bytes_of(hex: &str) -> Bytes {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect::<Vec<u8>>().into()
}

fn topic(name: &str, read: i32, write: i32, perm: i32, sys_flag: i32) -> TopicConfig {
    TopicConfig { topic: name.into(), queues: Queues { read, write, perm, sys_flag } }
}

fn version(state_version: i64, timestamp: i64, counter: Option<i64>) -> Option<DataVersion> {
    Some(DataVersion { state_version, timestamp, counter })
}

fn json(text: &str) -> Result<RegisterBody, BodyError> {
    decode(Bytes::copy_from_slice(text.as_bytes()), Layout::Json, NOW)
}

fn accepted(text: &str) -> RegisterBody {
    json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A body whose wrapper is `members`.
fn configs(members: &str) -> String {
    format!(r#"{{"topicConfigSerializeWrapper":{{{members}}}}}"#)
}

fn refused(text: &str, expected: &str) {
    let error = json(text).expect_err(text).to_string();
    assert!(error.starts_with(expected), "{text}\n  gave: {error}\n  want: {expected}");
}

fn part(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn zip(plain: &[u8]) -> Bytes {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap().into()
}

/// Inflated parts up to the filter servers: one line a topic.
fn parts(topics: &[&str]) -> Vec<u8> {
    let mut plain = part(br#"{"counter":1,"stateVersion":2,"timestamp":3}"#);
    plain.extend_from_slice(&u32::try_from(topics.len()).unwrap().to_be_bytes());
    plain.extend(topics.iter().flat_map(|topic| part(topic.as_bytes())));
    plain.extend(part(b"[]"));
    plain
}

fn unzip(plain: &[u8], mapping_section: bool) -> Result<RegisterBody, BodyError> {
    decode(zip(plain), Layout::Compressed { mapping_section }, NOW)
}

fn unzip_refused(plain: &[u8], mapping_section: bool, expected: &str) {
    let error = unzip(plain, mapping_section).expect_err(expected).to_string();
    assert!(error.starts_with(expected), "gave: {error}\nwant: {expected}");
}

#[test]
fn layout_follows_version_and_first_byte() {
    let compressed = |mapping_section| Layout::Compressed { mapping_section };
    assert_eq!(Layout::of(36, true, b"x"), Layout::Bare);
    assert_eq!(Layout::of(37, false, b"{}"), Layout::Json);
    assert_eq!(Layout::of(412, true, b"{}"), compressed(false));
    assert_eq!(Layout::of(413, true, b""), compressed(true));
    assert_eq!(Layout::of(513, false, b"x\xda"), compressed(true), "the flag of 5.x says no");
    assert_eq!(Layout::of(513, false, b""), Layout::Json);
}

#[test]
fn a_body_of_a_java_broker_is_read_whole() {
    let body = accepted(STATIC);
    assert_eq!(body.data_version, version(0, 1_700_000_000_000, Some(1)));
    let topics = [topic("ST", 4, 5, 7, 1), topic("ST2", 16, 16, 6, 0)];
    assert_eq!(body.topics, topics, "the topic's own name counts, and defaults where it is silent");
    assert_eq!(body.filter_servers, Some(vec!["f:1".into(), "f:2".into()]));
    let mapping = QueueMapping {
        topic: "ST".into(),
        topic_member: Some("ST".into()),
        broker: "s0".into(),
        total_queues: 8,
        epoch: 9_007_199_254_740_993,
        dirty: false,
        scope: Some("__global__".into()),
        current_ids: Some(vec![(0, 0), (2, 2), (10, 1)]),
    };
    assert_eq!(body.mappings, [mapping]);
}

#[test]
fn any_cut_into_steps_gives_the_same_body() {
    let zip_513 = bytes_of(ZIP_513);
    let cases = [
        (Bytes::from_static(STATIC.as_bytes()), Layout::Json),
        (zip_513, Layout::Compressed { mapping_section: true }),
    ];
    for (bytes, layout) in cases {
        let whole = decode(bytes.clone(), layout, NOW).expect("decodes");
        for entries in [0, 1, 2, 3, 100] {
            let mut decoder = RegisterDecoder::new(bytes.clone(), layout, NOW);
            let mut steps = 1;
            let body = loop {
                match decoder.step(entries).expect("decodes") {
                    Step::More => steps += 1,
                    Step::Done(body) => break body,
                }
            };
            assert_eq!(body, whole);
            assert_eq!(steps == 1, entries == 100, "{entries} entries a step took {steps} steps");
        }
    }
}

#[test]
fn a_step_ends_in_bounded_bytes_even_if_entries_are_large() {
    let attributes = "x".repeat(100_000);
    let topics: Vec<String> = (0..20)
        .map(|n| format!(r#""{n}":{{"topicName":"{n}","attributes":{{"a":"{attributes}"}}}}"#))
        .collect();
    let body = Bytes::from(configs(&format!(r#""topicConfigTable":{{{}}}"#, topics.join(","))));
    let mut decoder = RegisterDecoder::new(body, Layout::Json, NOW);
    assert!(matches!(decoder.step(usize::MAX), Ok(Step::More)));
    assert_eq!(decoder.body.topics.len(), 3, "256 KiB are in the third topic of 100 kB");
}

#[test]
fn no_body_is_a_registration_without_topics() {
    for layout in [Layout::Json, Layout::Compressed { mapping_section: true }, Layout::Bare] {
        let body = decode(Bytes::new(), layout, NOW).expect("accepted");
        assert_eq!(body.data_version, version(0, 0, Some(0)), "of all zeros, not of now");
        assert!(body.topics.is_empty() && body.mappings.is_empty());
        let expected = (layout != Layout::Bare).then(Vec::new);
        assert_eq!(body.filter_servers, expected, "the bare layout leaves them as they are");
    }
}

#[test]
fn absent_members_have_defaults() {
    for text in ["{}", r#"{"topicConfigSerializeWrapper":{}}"#, r#"{"topicConfigTable":{"T":1}}"#] {
        let body = accepted(text);
        assert_eq!(body.data_version, version(0, NOW, Some(0)));
        assert!(body.topics.is_empty() && body.mappings.is_empty());
        assert_eq!(body.filter_servers, Some(vec![]));
    }
    assert_eq!(accepted(r#"{"filterServerList":null}"#).filter_servers, None);
    let mapping =
        &accepted(&configs(r#""topicQueueMappingInfoMap":{"T":{"bname":"b"}}"#)).mappings[0];
    assert_eq!((mapping.total_queues, mapping.epoch, mapping.dirty), (0, 0, false));
    assert_eq!(mapping.scope.as_deref(), Some("__global__"));
    assert_eq!(mapping.current_ids, Some(vec![]));
    assert_eq!(mapping.topic_member, None);
}

#[test]
fn explicit_nulls_of_numbers_are_zero() {
    // Golden sample "reg-nulls", commas at the end included.
    let body = accepted(concat!(
        r#"{"topicConfigSerializeWrapper":{"dataVersion":{"counter":"1"},"topicConfigTable":"#,
        r#"{"NU1":{"topicName":"NU1","perm":null,"order":null},"#,
        r#""NU2":{"topicName":"NU2","zzz":{"a":[1]}},},},}"#
    ));
    assert_eq!(body.data_version, version(0, NOW, Some(1)));
    assert_eq!(body.topics, [topic("NU1", 16, 16, 0, 0), topic("NU2", 16, 16, 6, 0)]);
    assert_eq!(accepted(&configs(r#""dataVersion":null"#)).data_version, None);
    let counter = accepted(&configs(r#""dataVersion":{"counter":null,"timestamp":5}"#));
    assert_eq!(counter.data_version, version(0, 5, None));
    let mapping =
        configs(r#""topicQueueMappingInfoMap":{"T":{"bname":"b","currIdMap":null,"scope":null}}"#);
    let mapping = &accepted(&mapping).mappings[0];
    assert_eq!((&mapping.scope, &mapping.current_ids), (&None, &None));
}

#[test]
fn what_java_would_apply_by_half_is_refused() {
    let place = "topicConfigSerializeWrapper";
    refused(
        r#"{"topicConfigSerializeWrapper":null}"#,
        "registration[topicConfigSerializeWrapper]: null where an object must be at byte 31",
    );
    refused(
        &configs(r#""topicConfigTable":null"#),
        &format!("{place}[topicConfigTable]: null where an object must be"),
    );
    refused(
        &configs(r#""topicQueueMappingInfoMap":null,"topicQueueMappingDetailMap":null"#),
        &format!("{place}[topicQueueMappingInfoMap]: null where an object must be"),
    );
    for (value, what) in [
        ("null", "null where an object must be"),
        ("\"text\"", "not an object"),
        ("{}", "topic without topicName"),
        (r#"{"topicName":null}"#, "topic without topicName"),
        (r#"{"topicName":"T","perm":"six"}"#, "not a whole number of 64 bits"),
        (r#"{"topicName":"T","perm":2147483648}"#, "number does not fit 32 bits"),
    ] {
        let table =
            configs(&format!(r#""topicConfigTable":{{"A":{{"topicName":"A"}},"T":{value}}}"#));
        refused(&table, &format!("topicConfigTable[T]: {what}"));
    }
    for (value, what) in [
        ("null", "null where an object must be"),
        (r#"{"topic":"T"}"#, "mapping without bname"),
        (r#"{"bname":"b","currIdMap":{0:null}}"#, "null for a queue id"),
        (r#"{"bname":"b","currIdMap":{2147483648:0}}"#, "key is not a 32-bit number"),
        (r#"{"bname":"b","currIdMap":{"x":0}}"#, "key is not a 32-bit number"),
    ] {
        let map = configs(&format!(r#""topicQueueMappingInfoMap":{{"T":{value}}}"#));
        refused(&map, &format!("topicQueueMappingInfoMap[T]: {what}"));
    }
    refused(r#"{"filterServerList":"x"}"#, "registration[filterServerList]: not an array");
    for text in ["null", "[]", " ", "hello", "\"\"", "{} {}", "{", "\u{feff}{}"] {
        json(text).expect_err(text);
    }
}

#[test]
fn text_that_is_not_utf8_is_refused_wherever_it_stands() {
    for at in [r#""ST":{"attr"#, "FIFO", r#""f:1"#, "s0", "scope", "epoch", "topicQueueMappingD"] {
        let mut bytes = STATIC.as_bytes().to_vec();
        let at = STATIC.find(at).expect("in the body") + 2;
        bytes[at] = 0xff;
        let error = decode(bytes.into(), Layout::Json, NOW).expect_err("not UTF-8").to_string();
        assert!(error.ends_with(&format!("not UTF-8 at byte {at}")), "{error}");
    }
}

#[test]
fn integer_keys_may_be_bare_or_quoted_and_the_last_of_two_counts() {
    let map = configs(concat!(
        r#""topicQueueMappingInfoMap":{"T":{"bname":"b","currIdMap":{"2":1,-1:5,'0':3,"#,
        r#""02":9,0:4}}}"#
    ));
    assert_eq!(accepted(&map).mappings[0].current_ids, Some(vec![(-1, 5), (0, 4), (2, 9)]));
}

#[test]
fn the_last_of_two_equal_members_counts_whole() {
    let body = accepted(concat!(
        r#"{"topicConfigSerializeWrapper":{"dataVersion":{"counter":7},"#,
        r#""topicConfigTable":{"A":{"topicName":"A"}},"#,
        r#""topicQueueMappingInfoMap":{"A":{"bname":"b"}}},"#,
        r#""topicConfigSerializeWrapper":{"topicConfigTable":{"X":{"topicName":"X"}},"#,
        r#""topicConfigTable":{"B":{"topicName":"B"}}}}"#
    ));
    assert_eq!(body.data_version, version(0, NOW, Some(0)));
    assert_eq!(body.topics, [topic("B", 16, 16, 6, 0)]);
    assert!(body.mappings.is_empty());
}

#[test]
fn the_bare_layout_is_topics_and_version_alone() {
    let text = r#"{"dataVersion":{"counter":4},"topicConfigTable":{"T":{"topicName":"T"}}}"#;
    let body = decode(Bytes::from_static(text.as_bytes()), Layout::Bare, NOW).expect("decodes");
    assert_eq!(body.data_version, version(0, NOW, Some(4)));
    assert_eq!(body.topics, [topic("T", 16, 16, 6, 0)]);
    assert_eq!(body.filter_servers, None);
    let full = decode(Bytes::from_static(STATIC.as_bytes()), Layout::Bare, NOW).expect("decodes");
    assert!(full.topics.is_empty(), "the whole body has no topicConfigTable at its top");
}

#[test]
fn a_compressed_body_of_a_java_broker_is_read_whole() {
    let layout = Layout::Compressed { mapping_section: true };
    let body = decode(bytes_of(ZIP_513), layout, NOW).expect("decodes");
    assert_eq!(body.data_version, version(0, 1_700_000_000_000, Some(1)));
    assert_eq!(body.topics, [topic("Z1", 4, 5, 6, 0), topic("Z2", 1, 1, 4, 0)]);
    assert_eq!(body.filter_servers, Some(vec![]));
    let mapping = QueueMapping {
        topic: "Z1".into(),
        topic_member: Some("Z1".into()),
        broker: "zip".into(),
        total_queues: 2,
        epoch: 7,
        dirty: false,
        scope: Some("__global__".into()),
        current_ids: Some(vec![(0, 0), (1, 1)]),
    };
    assert_eq!(body.mappings, [mapping]);
}

#[test]
fn version_decides_whether_mappings_must_follow() {
    let topics = ["Y1 4 5 6 SINGLE_TAG", "Y2 4 5 6 MULTI_TAG {\"a\":\"b c\"} rest"];
    let without = parts(&topics);
    let body = unzip(&without, false).expect("version 412 needs none");
    assert_eq!(body.topics, [topic("Y1", 4, 5, 6, 0), topic("Y2", 4, 5, 6, 0)]);
    unzip_refused(&without, true, "compressed registration: mapping count: ends here");
    let none = [without.clone(), vec![0; 4]].concat();
    assert!(unzip(&none, true).expect("0 mappings").mappings.is_empty());
    let one = [without, vec![0, 0, 0, 1], part(b"nonsense")].concat();
    assert!(unzip(&one, false).is_ok(), "version 412 does not look at it");
    let trailing = [none, b"whatever".to_vec()].concat();
    assert!(unzip(&trailing, true).is_ok());
}

#[test]
fn compressed_parts_that_java_refuses_are_refused() {
    for (line, what) in [
        ("", "topic has fewer than 5 parts"),
        ("T 4 4 6", "topic has fewer than 5 parts"),
        ("T 4 4 6 ", "topic's filter type is neither SINGLE_TAG nor MULTI_TAG"),
        ("T  4 4 6 SINGLE_TAG", "topic's filter type"),
        (" T 4 4 6 SINGLE_TAG", "topic's filter type"),
        ("T 4 x 6 SINGLE_TAG", "topic's number is no number"),
        ("T 4 4 6 OTHER", "topic's filter type"),
    ] {
        let place = "compressed registration: topic 2 of 2: ";
        unzip_refused(&parts(&["A 1 1 6 SINGLE_TAG", line]), false, &format!("{place}{what}"));
    }
    for (mapping, what) in [
        ("", "not an object"),
        ("null", "not an object"),
        (r#"{"bname":"b"}"#, "mapping without topic"),
        (r#"{"topic":"T"}"#, "mapping without bname"),
    ] {
        let plain = [parts(&[]), vec![0, 0, 0, 1], part(mapping.as_bytes())].concat();
        unzip_refused(&plain, true, &format!("compressed registration: mapping 1 of 1: {what}"));
    }
    unzip_refused(&part(b"[]"), false, "compressed registration: data version: not an object");
}

#[test]
fn compressed_parts_that_java_tolerates_are_tolerated() {
    let tail = [vec![0; 4], part(b"[\"f:1\"]")].concat();
    for none in ["", "null"] {
        let body = unzip(&[part(none.as_bytes()), tail.clone()].concat(), false).expect(none);
        assert_eq!(body.data_version, None);
        assert_eq!(body.filter_servers, Some(vec!["f:1".into()]));
    }
    for (list, expected) in [("nonsense", Some(vec![])), ("null", None)] {
        let plain = [part(b"{}"), vec![0; 4], part(list.as_bytes())].concat();
        assert_eq!(unzip(&plain, false).expect(list).filter_servers, expected);
    }
}

#[test]
fn announced_sizes_are_checked_before_anything_is_reserved() {
    let topics = |count: i32| [part(b"{}"), count.to_be_bytes().to_vec()].concat();
    let place = "compressed registration: ";
    for (plain, what) in [
        (i32::MAX.to_be_bytes().to_vec(), "data version: length is over the limit of 1 MiB"),
        ((-1i32).to_be_bytes().to_vec(), "data version: length is negative"),
        ((1i32 << 20).to_be_bytes().to_vec(), "data version: ends here"),
        (topics(-1), "topic count: count is negative"),
        (topics(i32::MAX), "topic count: count is over the limit"),
        (topics(1 << 20), "topic 1 of 1048576: ends here"),
        (vec![0, 0], "data version: ends here"),
        (vec![], "data version: ends here"),
    ] {
        unzip_refused(&plain, false, &format!("{place}{what}"));
    }
    assert_eq!(REGISTERED_ENTRIES_MAX, 1 << 20);
}

#[test]
fn what_is_no_zlib_stream_is_refused() {
    let layout = Layout::Compressed { mapping_section: false };
    let whole = zip(&parts(&["T 4 4 6 SINGLE_TAG"]));
    let mut damaged = whole.to_vec();
    damaged[whole.len() - 1] ^= 1;
    let raw_deflate = whole.slice(2..whole.len() - 4);
    let gzip = Bytes::from_static(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03");
    for bytes in [damaged.into(), raw_deflate, gzip, Bytes::from_static(STATIC.as_bytes())] {
        let error = decode(bytes, layout, NOW).expect_err("no zlib stream").to_string();
        let expected = "compressed registration: data version: not a zlib stream, or a damaged one";
        assert_eq!(error, expected);
    }
    for length in 1..whole.len() - 4 {
        decode(whole.slice(..length), layout, NOW).expect_err("cut short");
    }
    let error = decode(whole.slice(..whole.len() - 4), layout, NOW);
    assert!(error.is_ok(), "a missing checksum goes unnoticed, as in Java");
}

#[test]
fn a_bomb_is_refused_with_little_memory() {
    // 1 MiB of blanks in a topic's line, again and again, where all may inflate to 8 MiB.
    let line = format!("T 4 4 6 SINGLE_TAG {}", " ".repeat((1 << 20) - 19));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&[part(b"{}"), vec![0, 0, 0, 10]].concat()).unwrap();
    for _ in 0..10 {
        encoder.write_all(&part(line.as_bytes())).unwrap();
    }
    let bomb = Bytes::from(encoder.finish().unwrap());
    assert!(bomb.len() < 64 << 10);
    let mut source = compressed::CompressedSource::new(bomb, false, NOW).bounded(8 << 20);
    let mut body = RegisterBody::default();
    let mut steps = 0;
    let error = loop {
        match source.step(usize::MAX, &mut body) {
            Ok(false) => steps += 1,
            Ok(true) => panic!("a bomb went off"),
            Err(error) => break error.to_string(),
        }
        assert!(source.held_bytes() <= 3 << 20, "{} bytes are held", source.held_bytes());
    };
    assert_eq!(steps, 7, "each step ends with the topic in which it passed 256 KiB");
    let expected = "compressed registration: topic 8 of 10: \
                    inflates to more than the limit of 256 MiB";
    assert_eq!(error, expected);
}

#[test]
fn an_error_quotes_at_most_40_characters_of_a_name() {
    let long = "n".repeat(5000);
    let text = configs(&format!(r#""topicConfigTable":{{"{long}":null}}"#));
    let error = json(&text).expect_err("null").to_string();
    assert!(error.len() < 130, "{error}");
}

#[test]
fn a_name_longer_than_any_real_one_refuses_the_registration() {
    let name = |bytes: usize| "n".repeat(bytes);
    let topic =
        |name: String| configs(&format!(r#""topicConfigTable":{{"k":{{"topicName":"{name}"}}}}"#));
    let map = |topic: String, broker: String| {
        let info = format!(r#"{{"bname":"{broker}","totalQueues":1}}"#);
        configs(&format!(r#""topicQueueMappingInfoMap":{{"{topic}":{info}}}"#))
    };
    let mapped = |member: &str, text: String| {
        let info = format!(r#"{{"bname":"b","totalQueues":1,"{member}":"{text}"}}"#);
        configs(&format!(r#""topicQueueMappingInfoMap":{{"t":{info}}}"#))
    };
    let zip = |name: String| {
        let line = format!("{name} 4 4 6 SINGLE_TAG {{}}");
        let parts = [part(b"{}"), vec![0, 0, 0, 1], part(line.as_bytes()), part(b"[]")].concat();
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&parts).unwrap();
        let layout = Layout::Compressed { mapping_section: false };
        decode(Bytes::from(encoder.finish().unwrap()), layout, NOW)
    };
    let longest = || name(4096);
    assert!(json(&topic(longest())).is_ok() && zip(longest()).is_ok());
    assert!(json(&map(longest(), longest())).is_ok());
    for refused in [
        json(&topic(name(4097))),
        json(&map(name(4097), "b".into())),
        json(&map("t".into(), name(4097))),
        json(&mapped("topic", name(4097))),
        json(&mapped("scope", name(4097))),
        json(&format!("{{\"filterServerList\":[\"{}\"]}}", name(4097))),
        zip(name(4097)),
    ] {
        let error = refused.expect_err("too long").to_string();
        assert!(error.contains("name is longer than 4096 bytes"), "{error}");
        assert!(error.len() < 200, "{error}");
    }
}

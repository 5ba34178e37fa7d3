//! Registrations as a broker sends them.

use std::fmt::Write as _;
use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use guidepost::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName};
use guidepost::wire::body::register::{Layout, RegisterBody, RegisterDecoder, Step};
use guidepost::writer::request::RegisterRequest;

/// Entries that the writer decodes in one piece.
const STEP_ENTRIES: usize = 1024;

/// Its body, decoded as the writer does it.
pub fn decode(request: &RegisterRequest) -> RegisterBody {
    let layout = Layout::of(request.version, request.compressed, &request.body);
    let mut decoder = RegisterDecoder::new(request.body.clone(), layout, 0);
    loop {
        if let Step::Done(body) = decoder.step(STEP_ENTRIES).expect("well formed") {
            return body;
        }
    }
}

fn crc(body: &[u8]) -> i32 {
    i32::try_from(crc32fast::hash(body) & 0x7FFF_FFFF).expect("31 bits fit")
}

/// A master's request with this body.
pub fn request(body: Vec<u8>, compressed: bool) -> RegisterRequest {
    RegisterRequest {
        cluster: ClusterName::from(super::CLUSTER),
        broker: BrokerName::from(&*super::broker_name(0)),
        addr: BrokerAddr::from(&*super::broker_addr(0)),
        id: BrokerId::MASTER,
        ha_addr: None,
        heartbeat_timeout_ms: None,
        acting_master: Some(false),
        zone: None,
        compressed,
        body_crc32: crc(&body),
        version: 513,
        body: Bytes::from(body),
    }
}

/// The body of a 5.x broker that does not compress.
pub fn json(topics: usize, counter: i64, queues: i32) -> Vec<u8> {
    let mut text = format!(
        "{{\"filterServerList\":[],\"topicConfigSerializeWrapper\":{{\"dataVersion\":\
         {{\"counter\":{counter},\"stateVersion\":0,\"timestamp\":1700000000000}},\
         \"mappingDataVersion\":{{\"counter\":0,\"stateVersion\":0,\"timestamp\":1700000000000}},\
         \"topicConfigTable\":{{"
    );
    for number in 0..topics {
        let (comma, name) = (if number == 0 { "" } else { "," }, super::topic_name(number));
        let _ = write!(
            text,
            "{comma}\"{name}\":{{\"attributes\":{{}},\"order\":false,\"perm\":6,\
             \"readQueueNums\":{queues},\"topicFilterType\":\"SINGLE_TAG\",\
             \"topicName\":\"{name}\",\"topicSysFlag\":0,\"writeQueueNums\":{queues}}}"
        );
    }
    text.push_str("},\"topicQueueMappingDetailMap\":{},\"topicQueueMappingInfoMap\":{}}}");
    text.into_bytes()
}

/// What the same broker sends with `compressedRegister`, before and after compression.
pub fn compressed(topics: usize, counter: i64, queues: i32) -> (Vec<u8>, usize) {
    let mut plain = Vec::new();
    let number = |plain: &mut Vec<u8>, n: usize| {
        plain.extend(u32::try_from(n).expect("small").to_be_bytes());
    };
    let part = |plain: &mut Vec<u8>, text: &str| {
        number(plain, text.len());
        plain.extend_from_slice(text.as_bytes());
    };
    let version =
        format!("{{\"counter\":{counter},\"stateVersion\":0,\"timestamp\":1700000000000}}");
    part(&mut plain, &version);
    number(&mut plain, topics);
    for topic in 0..topics {
        let name = super::topic_name(topic);
        part(&mut plain, &format!("{name} {queues} {queues} 6 SINGLE_TAG {{}}"));
    }
    part(&mut plain, "[]");
    number(&mut plain, 0);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&plain).expect("a vector takes everything");
    (encoder.finish().expect("a vector takes everything"), plain.len())
}

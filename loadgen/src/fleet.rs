//! The fleet a run is made against: which brokers there are and which topics live on which of
//! them. Everything follows from four numbers, so a second process can know what a first one
//! registered, and every answer can be checked against what was registered.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;

use crate::failure::{Failure, usage};

/// The most brokers of a fleet: all their addresses have the same length up to here.
pub const BROKERS_MAX: u32 = 10_000;
/// The most topics of a fleet: all their names have the same length up to here.
pub const TOPICS_MAX: u32 = 10_000_000;
/// Bytes of every topic name.
pub const TOPIC_NAME_BYTES: usize = 19;
/// Read queues and write queues of each topic on each of its brokers.
pub const QUEUES: u64 = 4;
/// Read and write.
pub const PERM_READ_WRITE: u64 = 6;

/// Names have one length each, so that all queries have as many bytes as each other, and so have
/// all answers: a floor that answers with a fixed number of bytes is then a fair one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fleet {
    /// Master brokers, each with a connection of its own.
    pub brokers: u32,
    /// Topics.
    pub topics: u32,
    /// Brokers a topic lives on.
    pub route_width: u32,
    /// Name of the cluster.
    pub cluster: String,
}

impl Fleet {
    /// Checks the numbers against each other.
    ///
    /// # Errors
    /// [`Failure::Usage`] saying which number to change.
    pub fn checked(self) -> Result<Self, Failure> {
        let Fleet { brokers, topics, route_width, .. } = self;
        if brokers == 0 || brokers > BROKERS_MAX {
            return Err(usage(format!("{brokers} brokers: give 1 to {BROKERS_MAX}")));
        }
        if topics == 0 || topics > TOPICS_MAX {
            return Err(usage(format!("{topics} topics: give 1 to {TOPICS_MAX}")));
        }
        if route_width == 0 || route_width > brokers {
            return Err(usage(format!(
                "a topic cannot live on {route_width} of {brokers} brokers: \
                 give --route-width 1 to {brokers}, or more brokers"
            )));
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if self.cluster.is_empty() || !self.cluster.chars().all(fits) {
            return Err(usage("give --cluster a name of letters, digits, - and _"));
        }
        Ok(self)
    }

    /// Brokers that hold a topic.
    pub fn brokers_of(&self, topic: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.group_of(topic);
        (0..self.route_width).map(move |step| (first + step) % self.brokers)
    }

    /// Number, below that of the brokers, of the set of brokers that hold a topic.
    pub fn group_of(&self, topic: u32) -> u32 {
        topic % self.brokers
    }

    /// Topics that a broker holds.
    pub fn topics_of(&self, broker: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.route_width).flat_map(move |step| {
            let first = (broker + self.brokers - step) % self.brokers;
            (first..self.topics).step_by(self.brokers as usize)
        })
    }

    /// The registration body for some of a broker's topics. `counter` is the data version.
    pub fn registration_body(&self, topics: &[u32], counter: u64) -> String {
        self.registration_body_with(topics, counter, |_| QUEUES)
    }

    /// The same with a number of queues for each topic.
    pub fn registration_body_with(
        &self,
        topics: &[u32],
        counter: u64,
        queues_of: impl Fn(u32) -> u64,
    ) -> String {
        let version = data_version(counter);
        let mut body = String::with_capacity(256 + topics.len() * 220);
        body.push_str("{\"filterServerList\":[],\"topicConfigSerializeWrapper\":{\"dataVersion\":");
        body.push_str(&version);
        body.push_str(",\"mappingDataVersion\":");
        body.push_str(&version);
        body.push_str(",\"topicConfigTable\":{");
        for (index, &topic) in topics.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let (name, queues) = (topic_text(topic), queues_of(topic));
            write!(
                body,
                "{comma}\"{name}\":{{\"attributes\":{{}},\"order\":false,\
                 \"perm\":{PERM_READ_WRITE},\"readQueueNums\":{queues},\
                 \"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"{name}\",\
                 \"topicSysFlag\":0,\"writeQueueNums\":{queues}}}"
            )
            .expect("a String takes every character");
        }
        body.push_str("},\"topicQueueMappingDetailMap\":{},\"topicQueueMappingInfoMap\":{}}}");
        body
    }

    /// The same compressed: a zlib stream over texts and counts, each text after its length.
    pub fn compressed_body_with(
        &self,
        topics: &[u32],
        counter: u64,
        queues_of: impl Fn(u32) -> u64,
        effort: Compression,
    ) -> Vec<u8> {
        let length = |count: usize| u32::try_from(count).expect("below 2^32").to_be_bytes();
        let mut zlib = ZlibEncoder::new(Vec::new(), effort);
        let mut put = |bytes: &[u8]| zlib.write_all(bytes).expect("a Vec takes every byte");
        let version = data_version(counter);
        put(&length(version.len()));
        put(version.as_bytes());
        put(&length(topics.len()));
        for &topic in topics {
            let (name, queues) = (topic_text(topic), queues_of(topic));
            let text = format!("{name} {queues} {queues} {PERM_READ_WRITE} SINGLE_TAG {{}}");
            put(&length(text.len()));
            put(text.as_bytes());
        }
        put(&length(2));
        put(b"[]"); // no filter servers
        put(&length(0)); // no queue mappings
        zlib.finish().expect("a Vec takes every byte")
    }

    /// Whether a route answer says what was registered for the topic, in any order.
    ///
    /// # Errors
    /// What differs, for a person.
    pub fn check_route(&self, topic: u32, body: &[u8]) -> Result<(), String> {
        let route = crate::dialect::parse(body)?;
        let mut expected = BTreeMap::new();
        for broker in self.brokers_of(topic) {
            expected.insert(broker_name(broker), broker_addr(broker));
        }
        let brokers = route["brokerDatas"].as_array().ok_or("the body has no brokerDatas")?;
        let mut found = BTreeMap::new();
        for broker in brokers {
            let name = broker["brokerName"].as_str().unwrap_or_default();
            let addr = broker["brokerAddrs"]["0"].as_str().unwrap_or_default();
            if broker["cluster"].as_str() != Some(self.cluster.as_str()) {
                return Err(format!("broker {name} is not in cluster {}", self.cluster));
            }
            found.insert(name.to_owned(), addr.to_owned());
        }
        if found != expected || brokers.len() != expected.len() {
            return Err(format!("brokers {found:?} instead of {expected:?}"));
        }
        let queues = route["queueDatas"].as_array().ok_or("the body has no queueDatas")?;
        let mut names: Vec<&str> = Vec::new();
        for queue in queues {
            names.push(queue["brokerName"].as_str().unwrap_or_default());
            let numbers = ["perm", "readQueueNums", "writeQueueNums", "topicSysFlag"];
            let values = numbers.map(|name| queue[name].as_u64());
            if values != [PERM_READ_WRITE, QUEUES, QUEUES, 0].map(Some) {
                return Err(format!("{numbers:?} are {values:?} on {}", queue["brokerName"]));
            }
        }
        names.sort_unstable();
        if !names.iter().copied().eq(expected.keys().map(String::as_str)) {
            return Err(format!("queues on {names:?} instead of {:?}", expected.keys()));
        }
        Ok(())
    }
}

/// Name of a broker.
pub fn broker_name(broker: u32) -> String {
    format!("bench-broker-{broker:04}")
}

/// Address of a broker: text only, nobody listens there. Three octets of 100 to 199 keep it at one
/// length.
pub fn broker_addr(broker: u32) -> String {
    format!("10.{}.{}.100:10911", 100 + broker / 100, 100 + broker % 100)
}

/// What a query is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A topic of the fleet.
    Topic(u32),
    /// A topic nobody registered.
    Absent(u32),
}

/// Where in a topic's name the byte stands that tells a registered topic (`t`) from one nobody
/// registered (`g`).
pub const KIND_AT: usize = 6;
/// See [`KIND_AT`].
pub const KIND_ABSENT: u8 = b'g';

impl Asked {
    /// The topic's name; as long for every topic.
    pub fn name(self) -> [u8; TOPIC_NAME_BYTES] {
        let (mut name, number) = match self {
            Asked::Topic(number) => (*b"bench-topic-0000000", number),
            Asked::Absent(number) => (*b"bench-ghost-0000000", number),
        };
        crate::wire::write_digits(&mut name[12..], number);
        name
    }
}

/// A data version as brokers write it.
pub fn data_version(counter: u64) -> String {
    format!("{{\"counter\":{counter},\"stateVersion\":0,\"timestamp\":1}}")
}

/// Name of a topic, as text.
pub fn topic_text(topic: u32) -> String {
    format!("bench-topic-{topic:07}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(brokers: u32, topics: u32, route_width: u32) -> Fleet {
        Fleet { brokers, topics, route_width, cluster: "bench".into() }
    }

    /// An answer as the Java server words it, put together without the code under test.
    fn answer(brokers: &[u32], perm: u32) -> String {
        let datas: Vec<String> = brokers
            .iter()
            .map(|b| {
                format!(
                    "{{\"brokerAddrs\":{{\"0\":\"10.100.10{b}.100:10911\"}},\"brokerName\":\
                     \"bench-broker-000{b}\",\"cluster\":\"bench\",\"enableActingMaster\":false}}"
                )
            })
            .collect();
        let queues: Vec<String> = brokers
            .iter()
            .map(|b| {
                format!(
                    "{{\"brokerName\":\"bench-broker-000{b}\",\"perm\":{perm},\"readQueueNums\":4,\
                     \"topicSysFlag\":0,\"writeQueueNums\":4}}"
                )
            })
            .collect();
        format!(
            "{{\"brokerDatas\":[{}],\"filterServerTable\":{{}},\"queueDatas\":[{}]}}",
            datas.join(","),
            queues.join(",")
        )
    }

    #[test]
    fn a_topic_is_on_a_broker_exactly_when_the_broker_has_the_topic() {
        let fleet = fleet(7, 50, 3);
        for broker in 0..7 {
            let mut topics: Vec<u32> = fleet.topics_of(broker).collect();
            topics.sort_unstable();
            let expected: Vec<u32> =
                (0..50).filter(|t| fleet.brokers_of(*t).any(|b| b == broker)).collect();
            assert_eq!(topics, expected);
        }
    }

    #[test]
    fn all_names_and_addresses_have_one_length() {
        assert_eq!(broker_name(0).len(), broker_name(BROKERS_MAX - 1).len());
        assert_eq!(broker_addr(0).len(), broker_addr(BROKERS_MAX - 1).len());
        assert_eq!(topic_text(TOPICS_MAX - 1).as_bytes(), Asked::Topic(TOPICS_MAX - 1).name());
        assert_eq!(Asked::Absent(12).name()[KIND_AT], KIND_ABSENT);
        assert_ne!(Asked::Topic(12).name()[KIND_AT], KIND_ABSENT);
    }

    #[test]
    fn a_route_is_right_in_any_order_and_wrong_in_any_detail() {
        let fleet = fleet(4, 10, 2);
        assert_eq!(fleet.check_route(1, answer(&[1, 2], 6).as_bytes()), Ok(()));
        assert_eq!(fleet.check_route(1, answer(&[2, 1], 6).as_bytes()), Ok(()));
        assert!(fleet.check_route(1, answer(&[1, 3], 6).as_bytes()).is_err());
        assert!(fleet.check_route(1, answer(&[1], 6).as_bytes()).is_err());
        assert!(fleet.check_route(1, answer(&[1, 2, 2], 6).as_bytes()).is_err());
        assert!(fleet.check_route(1, answer(&[1, 2], 4).as_bytes()).is_err());
        let old = answer(&[1, 2], 6).replace("{\"0\":", "{0:");
        assert_eq!(fleet.check_route(1, old.as_bytes()), Ok(()));
        assert!(fleet.check_route(1, b"{}").is_err());
        assert!(fleet.check_route(1, b"").is_err());
    }

    #[test]
    fn the_registration_body_is_json_with_each_topic() {
        let body = fleet(1, 3, 1).registration_body(&[0, 2], 9);
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        let table = &json["topicConfigSerializeWrapper"];
        assert_eq!(table["dataVersion"]["counter"], 9);
        assert_eq!(table["topicConfigTable"]["bench-topic-0000002"]["perm"], 6);
        assert_eq!(table["topicConfigTable"].as_object().unwrap().len(), 2);
    }

    #[test]
    fn numbers_that_cannot_be_are_refused_with_what_to_write() {
        let text = fleet(2, 1, 3).checked().unwrap_err().to_string();
        assert!(text.contains("--route-width 1 to 2"), "{text}");
        assert!(fleet(0, 1, 1).checked().is_err());
        assert!(fleet(1, 0, 1).checked().is_err());
        assert!(Fleet { cluster: "a b".into(), ..fleet(1, 1, 1) }.checked().is_err());
    }
}

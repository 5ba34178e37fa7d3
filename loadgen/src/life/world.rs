//! What is registered at the moment, as far as the generator knows: the model that answers are
//! checked against. Written by the thread that drives the brokers, read by all.
//!
//! A topic has a version, which is told by its number of queues on its *owner*, the first of its
//! brokers. A change is *announced* before it is sent and *acknowledged* after its answer came: a
//! route read in between may show either.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Release};

use flate2::Compression;

use crate::fleet::{Fleet, QUEUES};

/// A broker that is changing or away.
const UNSTEADY: u64 = u64::MAX;
/// A broker that may be shown.
const HERE: u64 = u64::MAX;
/// The Java server acknowledges that a broker left when it has noted to see to it.
const LEAVING_NS: u64 = 1_000_000_000;
/// Zones, when brokers have any: broker `n` is in zone `n % ZONES`.
pub const ZONES: u32 = 2;

/// The fleet and its present state.
pub struct World {
    /// What does not change.
    pub fleet: Fleet,
    /// Whether brokers are in zones.
    pub zoned: bool,
    /// By topic.
    announced: Vec<AtomicU32>,
    /// By topic; never above `announced`.
    acknowledged: Vec<AtomicU32>,
    /// By broker: since when it has been registered in full, in ns since the start.
    steady_since_ns: Vec<AtomicU64>,
    /// By broker: from when on it must not be shown, as the server acknowledged that it left.
    gone_since_ns: Vec<AtomicU64>,
    /// The server is taken to have restarted: until then any broker may be missing.
    disturbed_until_ns: AtomicU64,
}

impl World {
    /// Everything registered in its first version.
    pub fn new(fleet: Fleet, zoned: bool) -> Self {
        let versions = || (0..fleet.topics).map(|_| AtomicU32::new(0)).collect();
        let (announced, acknowledged) = (versions(), versions());
        let steady_since_ns = (0..fleet.brokers).map(|_| AtomicU64::new(0)).collect();
        let gone_since_ns = (0..fleet.brokers).map(|_| AtomicU64::new(HERE)).collect();
        Self {
            fleet,
            zoned,
            announced,
            acknowledged,
            steady_since_ns,
            gone_since_ns,
            disturbed_until_ns: AtomicU64::new(0),
        }
    }

    /// The broker whose number of queues tells the version of a topic.
    pub fn owner(&self, topic: u32) -> u32 {
        topic % self.fleet.brokers
    }

    /// The n-th topic that a broker owns; `None` when it owns fewer.
    pub fn owned(&self, broker: u32, nth: u32) -> Option<u32> {
        let topic = broker.checked_add(nth.checked_mul(self.fleet.brokers)?)?;
        (topic < self.fleet.topics).then_some(topic)
    }

    /// How many topics a broker owns.
    pub fn owned_count(&self, broker: u32) -> u32 {
        let Fleet { topics, brokers, .. } = self.fleet;
        if broker < topics { (topics - broker).div_ceil(brokers) } else { 0 }
    }

    /// The next version of a topic is about to be sent; returns it.
    pub fn announce(&self, topic: u32) -> u32 {
        // Release, with the Acquire of `announced`: who reads an answer that shows the version got
        // it through the server, which is later than this.
        self.announced[topic as usize].fetch_add(1, Release) + 1
    }

    /// The server acknowledged this version of a topic.
    pub fn acknowledge(&self, topic: u32, version: u32) {
        // Release: pairs with the Acquire of `acknowledged`.
        self.acknowledged[topic as usize].fetch_max(version, Release);
    }

    /// The newest version that may be shown.
    pub fn announced(&self, topic: u32) -> u32 {
        self.announced[topic as usize].load(Acquire)
    }

    /// The newest version that a question asked now must be answered with.
    pub fn acknowledged(&self, topic: u32) -> u32 {
        self.acknowledged[topic as usize].load(Acquire)
    }

    /// A broker begins to change, or is gone: routes may lack it from now on.
    pub fn unsteady(&self, broker: u32) {
        // Release: pairs with the Acquire of `is_steady`.
        self.steady_since_ns[broker as usize].store(UNSTEADY, Release);
    }

    /// All that a broker has is registered since this moment.
    pub fn steady(&self, broker: u32, since_ns: u64) {
        // Release: pairs with the Acquire of `is_steady`.
        self.steady_since_ns[broker as usize].store(since_ns, Release);
    }

    /// The server acknowledged that a broker left.
    pub fn gone(&self, broker: u32, acknowledged_ns: u64) {
        // Release: pairs with the Acquire of `is_gone`.
        self.gone_since_ns[broker as usize].store(acknowledged_ns + LEAVING_NS, Release);
    }

    /// A broker is about to register: from now on it may be shown.
    pub fn comes_back(&self, broker: u32) {
        // Release: pairs with the Acquire of `is_gone`.
        self.gone_since_ns[broker as usize].store(HERE, Release);
    }

    /// Whether the answer to a question asked at this moment, which has come by now, must be
    /// without the broker.
    pub fn is_gone(&self, broker: u32, asked_ns: u64) -> bool {
        self.gone_since_ns[broker as usize].load(Acquire) < asked_ns
    }

    /// Whether a question asked at this moment must be answered with the broker.
    pub fn is_steady(&self, broker: u32, asked_ns: u64) -> bool {
        let undisturbed = asked_ns >= self.disturbed_until_ns.load(Acquire);
        undisturbed && self.steady_since_ns[broker as usize].load(Acquire) < asked_ns.max(1)
    }

    /// Connections were lost because the server restarts, as was announced.
    pub fn disturb(&self, until_ns: u64) {
        // Release: pairs with the Acquire of `is_steady`.
        self.disturbed_until_ns.fetch_max(until_ns, Release);
    }

    /// Brokers that are away or changing.
    pub fn unsteady_count(&self) -> usize {
        self.steady_since_ns.iter().filter(|since| since.load(Acquire) == UNSTEADY).count()
    }

    /// Name of a broker's zone.
    pub fn zone_name(zone: u32) -> &'static str {
        if zone.is_multiple_of(ZONES) { "zone-a" } else { "zone-b" }
    }

    fn queues(&self, broker: u32, topic: u32) -> u64 {
        let version = if self.owner(topic) == broker { self.announced(topic) } else { 0 };
        QUEUES + u64::from(version)
    }

    /// The body of a registration with these topics, as JSON.
    pub fn body(&self, broker: u32, topics: &[u32], counter: u64) -> Vec<u8> {
        let queues = |topic| self.queues(broker, topic);
        self.fleet.registration_body_with(topics, counter, queues).into_bytes()
    }

    /// The same compressed.
    pub fn compressed_body(&self, broker: u32, topics: &[u32], counter: u64) -> Vec<u8> {
        let queues = |topic| self.queues(broker, topic);
        self.fleet.compressed_body_with(topics, counter, queues, Compression::fast())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn world() -> World {
        let fleet = Fleet { brokers: 3, topics: 8, route_width: 2, cluster: "c".into() };
        World::new(fleet, false)
    }

    #[test]
    fn every_topic_has_one_owner_who_counts_it() {
        let world = world();
        for broker in 0..3 {
            let owned: Vec<u32> = (0..).map_while(|nth| world.owned(broker, nth)).collect();
            let expected: Vec<u32> = (0..8).filter(|t| world.owner(*t) == broker).collect();
            assert_eq!(owned, expected);
            assert_eq!(owned.len(), world.owned_count(broker) as usize);
            assert!(owned.iter().all(|t| world.fleet.brokers_of(*t).next() == Some(broker)));
        }
    }

    #[test]
    fn a_version_shows_as_queues_of_the_owner_only() {
        let world = world();
        assert_eq!(world.announce(4), 1);
        assert_eq!((world.announced(4), world.acknowledged(4)), (1, 0));
        world.acknowledge(4, 1);
        assert_eq!(world.acknowledged(4), 1);
        let text = |broker| String::from_utf8(world.body(broker, &[4], 1)).unwrap();
        assert!(text(1).contains("\"readQueueNums\":5"), "{}", text(1));
        assert!(text(2).contains("\"readQueueNums\":4"), "{}", text(2));
    }

    #[test]
    fn a_compressed_body_unpacks_to_the_layout_of_the_protocol() {
        let packed = world().compressed_body(0, &[3], 7);
        let mut plain = Vec::new();
        flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut plain).unwrap();
        let version = b"\0\0\0\x2c{\"counter\":7,\"stateVersion\":0,\"timestamp\":1}";
        let topic = b"\0\0\0\x01\0\0\0\x27bench-topic-0000003 4 4 6 SINGLE_TAG {}";
        let rest = b"\0\0\0\x02[]\0\0\0\0";
        assert_eq!(plain, [&version[..], topic, rest].concat());
    }

    #[test]
    fn a_broker_must_be_shown_only_when_it_was_there_before_the_question() {
        let world = world();
        assert!(world.is_steady(1, 5));
        world.unsteady(1);
        assert!(!world.is_steady(1, 5));
        assert_eq!(world.unsteady_count(), 1);
        world.steady(1, 10);
        assert_eq!([9, 10, 11].map(|asked| world.is_steady(1, asked)), [false, false, true]);
        world.disturb(20);
        assert_eq!([19, 20].map(|asked| world.is_steady(1, asked)), [false, true]);
    }
}

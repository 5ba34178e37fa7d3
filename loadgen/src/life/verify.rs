//! Is a route answer right, at the moment it was given? The first answer with given bytes is parsed
//! and compared with the [`World`]; later ones with the same bytes are known to say the same.

use std::collections::HashMap;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::check::{Wrong, code_kind};
use crate::dialect::parse;
use crate::fleet::{Asked, PERM_READ_WRITE, QUEUES, broker_addr, broker_name};
use crate::life::world::{World, ZONES};
use crate::wire::{Frame, SUCCESS, TOPIC_NOT_EXIST};

/// A route question, with what its answer is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteAsk {
    /// About what.
    pub asked: Asked,
    /// Whether the asker's version gets unquoted broker ids.
    pub legacy: bool,
    /// Only brokers of this zone are wanted.
    pub zone: Option<u32>,
    /// The version that was acknowledged before it was sent.
    pub acknowledged: u32,
    /// The newest version this connection had shown when it was sent.
    pub shown: u32,
    /// When it was sent.
    pub sent_ns: u64,
}

/// What a right answer said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Version of the topic; `None` when its owner was not in the answer.
    pub version: Option<u32>,
    /// It was older than one acknowledged before the question was sent.
    pub stale: bool,
}

#[derive(Clone, Copy)]
struct Known {
    digest: u64,
    bytes: usize,
    version: Option<u32>,
}

/// Lives: one per generator thread.
#[derive(Default)]
pub struct Verifier {
    /// By topic, dialect and zone: the last complete answer.
    known: HashMap<(u32, bool, Option<u32>), Known>,
    /// Answers parsed and compared with the world.
    pub compared: u64,
}

impl Verifier {
    /// Checks one answer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(
        &mut self,
        world: &World,
        ask: &RouteAsk,
        frame: &Frame<'_>,
    ) -> Result<Seen, Wrong> {
        let Asked::Topic(topic) = ask.asked else {
            return absent(frame);
        };
        if frame.code == TOPIC_NOT_EXIST && self.may_be_gone(world, topic, ask) {
            return Ok(Seen { version: None, stale: false });
        }
        if frame.code != SUCCESS {
            return Err(unexpected(frame, SUCCESS));
        }
        let key = (topic, ask.legacy || ask.zone.is_some(), ask.zone);
        let (digest, bytes) = (xxh3_64(frame.body), frame.body.len());
        // What is known to be right shows all of its brokers.
        let all_here = world.fleet.brokers_of(topic).all(|b| !world.is_gone(b, ask.sent_ns));
        let known = self.known.get(&key).copied().filter(|_| all_here);
        if let Some(known) = known.filter(|k| k.digest == digest && k.bytes == bytes) {
            return judge_version(world, topic, ask, known.version);
        }
        self.compared += 1;
        let wrong = |what: String| Wrong::Content(format!("topic {topic}: {what}"));
        let route = parse(frame.body).map_err(wrong)?;
        let (version, complete) = compare(world, topic, ask, &route).map_err(wrong)?;
        if complete {
            self.known.insert(key, Known { digest, bytes, version });
        }
        judge_version(world, topic, ask, version)
    }

    fn may_be_gone(&self, world: &World, topic: u32, ask: &RouteAsk) -> bool {
        world.fleet.brokers_of(topic).all(|broker| !world.is_steady(broker, ask.sent_ns))
    }
}

fn unexpected(frame: &Frame<'_>, expected: i32) -> Wrong {
    let header = String::from_utf8_lossy(&frame.header[..frame.header.len().min(300)]);
    let what = format!("code {} instead of {expected}; header {header}", frame.code);
    Wrong::Code(code_kind(frame.code), what)
}

fn absent(frame: &Frame<'_>) -> Result<Seen, Wrong> {
    if frame.code != TOPIC_NOT_EXIST {
        return Err(unexpected(frame, TOPIC_NOT_EXIST));
    }
    if !frame.body.is_empty() {
        return Err(Wrong::Content("a body in the answer for a topic nobody registered".into()));
    }
    Ok(Seen { version: None, stale: false })
}

fn judge_version(
    world: &World,
    topic: u32,
    ask: &RouteAsk,
    version: Option<u32>,
) -> Result<Seen, Wrong> {
    let Some(shown) = version else { return Ok(Seen { version, stale: false }) };
    let newest = world.announced(topic);
    if shown > newest {
        let what = format!("topic {topic}: version {shown} was never registered, {newest} was");
        return Err(Wrong::Content(what));
    }
    Ok(Seen { version, stale: shown < ask.acknowledged })
}

/// The version shown, and whether every broker that can be there is.
fn compare(
    world: &World,
    topic: u32,
    ask: &RouteAsk,
    route: &Value,
) -> Result<(Option<u32>, bool), String> {
    let brokers = route["brokerDatas"].as_array().ok_or("the body has no brokerDatas")?;
    let queues = route["queueDatas"].as_array().ok_or("the body has no queueDatas")?;
    let named = |list: &[Value], name: &str| {
        list.iter().filter(|entry| entry["brokerName"].as_str() == Some(name)).count()
    };
    let (mut complete, mut version, mut shown) = (true, None, 0);
    for broker in world.fleet.brokers_of(topic) {
        let name = broker_name(broker);
        let wanted = ask.zone.is_none_or(|zone| zone == broker % ZONES);
        let counts = (named(brokers, &name), named(queues, &name));
        if wanted && world.is_steady(broker, ask.sent_ns) && counts != (1, 1) {
            return Err(format!("{name} is there {counts:?} times, as broker and with queues"));
        }
        if !wanted && counts.0 > 0 && world.is_steady(broker, ask.sent_ns) {
            return Err(format!("{name} of another zone is there"));
        }
        if counts != (0, 0) && world.is_gone(broker, ask.sent_ns) {
            return Err(format!("{name} is there, and it had left"));
        }
        if counts.0 > 1 || counts.1 > 1 {
            return Err(format!("{name} is there twice"));
        }
        complete &= !wanted || counts == (1, 1);
        shown += counts.0;
        for entry in brokers.iter().filter(|entry| entry["brokerName"] == name.as_str()) {
            check_broker(world, broker, entry)?;
        }
        for entry in queues.iter().filter(|entry| entry["brokerName"] == name.as_str()) {
            let is_owner = world.owner(topic) == broker;
            let read = check_queues(entry, is_owner)?;
            version = if is_owner { Some(read) } else { version };
        }
    }
    if shown != brokers.len() {
        return Err(format!("{} brokers, {shown} of which have this topic", brokers.len()));
    }
    Ok((version, complete))
}

fn check_broker(world: &World, broker: u32, entry: &Value) -> Result<(), String> {
    let name = broker_name(broker);
    if entry["cluster"].as_str() != Some(world.fleet.cluster.as_str()) {
        return Err(format!("{name} is in cluster {}", entry["cluster"]));
    }
    let addrs = &entry["brokerAddrs"];
    let count = addrs.as_object().map_or(0, serde_json::Map::len);
    let right = addrs["0"].as_str() == Some(broker_addr(broker).as_str()) && count == 1;
    // A broker that is just leaving may be listed without addresses for a moment.
    if right || (count == 0 && world.unsteady_count() > 0) {
        return Ok(());
    }
    Err(format!("{name} has the addresses {addrs}"))
}

fn check_queues(entry: &Value, is_owner: bool) -> Result<u32, String> {
    let number = |name: &str| entry[name].as_u64();
    let (read, write) = (number("readQueueNums"), number("writeQueueNums"));
    let version = read.and_then(|read| u32::try_from(read.checked_sub(QUEUES)?).ok());
    let fixed = number("perm") == Some(PERM_READ_WRITE) && number("topicSysFlag") == Some(0);
    match version {
        Some(version) if fixed && read == write && (is_owner || version == 0) => Ok(version),
        _ => Err(format!("queues are {entry}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Fleet;

    fn world() -> World {
        let fleet = Fleet { brokers: 2, topics: 4, route_width: 2, cluster: "c".into() };
        World::new(fleet, true)
    }

    fn ask(acknowledged: u32) -> RouteAsk {
        let asked = Asked::Topic(0);
        RouteAsk { asked, legacy: false, zone: None, acknowledged, shown: 0, sent_ns: 100 }
    }

    /// Topic 0 lives on brokers 0 (its owner) and 1.
    fn body(queues: u64, brokers: &[u32], bare: bool) -> String {
        let zero = if bare { "0" } else { "\"0\"" };
        let datas: Vec<String> = brokers
            .iter()
            .map(|b| {
                format!(
                    "{{\"brokerAddrs\":{{{zero}:\"10.100.10{b}.100:10911\"}},\
                     \"brokerName\":\"bench-broker-000{b}\",\"cluster\":\"c\"}}"
                )
            })
            .collect();
        let queues: Vec<String> = brokers
            .iter()
            .map(|b| {
                let count = if *b == 0 { queues } else { 4 };
                format!(
                    "{{\"brokerName\":\"bench-broker-000{b}\",\"perm\":6,\"readQueueNums\":{count},\
                     \"topicSysFlag\":0,\"writeQueueNums\":{count}}}"
                )
            })
            .collect();
        format!("{{\"brokerDatas\":[{}],\"queueDatas\":[{}]}}", datas.join(","), queues.join(","))
    }

    fn check(world: &World, ask: &RouteAsk, code: i32, body: &str) -> Result<Seen, Wrong> {
        let (opaque, body) = (1, body.as_bytes());
        let frame = Frame { code, opaque, is_answer: true, header: b"{}", body, bytes: 0 };
        let mut verifier = Verifier::default();
        let first = verifier.check(world, ask, &frame);
        // The second answer takes the short way and must come to the same.
        assert_eq!(verifier.check(world, ask, &frame), first);
        first
    }

    #[test]
    fn both_dialects_say_the_same() {
        for bare in [false, true] {
            let seen = check(&world(), &ask(0), 0, &body(4, &[0, 1], bare)).unwrap();
            assert_eq!(seen, Seen { version: Some(0), stale: false });
        }
    }

    #[test]
    fn an_acknowledged_version_must_be_shown_and_one_never_sent_cannot_be() {
        let world = world();
        world.announce(0);
        let stale = |acknowledged, queues| {
            check(&world, &ask(acknowledged), 0, &body(queues, &[0, 1], false)).map(|s| s.stale)
        };
        assert_eq!((stale(0, 4), stale(0, 5)), (Ok(false), Ok(false)));
        assert_eq!((stale(1, 4), stale(1, 5)), (Ok(true), Ok(false)));
        assert!(matches!(stale(0, 6), Err(Wrong::Content(_))));
    }

    #[test]
    fn a_broker_may_be_missing_only_while_it_changes() {
        let world = world();
        let without = body(4, &[0], false);
        assert!(check(&world, &ask(0), 0, &without).is_err());
        world.unsteady(1);
        assert!(check(&world, &ask(0), 0, &without).is_ok());
        assert!(check(&world, &ask(0), 17, "").is_err());
        world.unsteady(0);
        assert_eq!(check(&world, &ask(0), 17, ""), Ok(Seen { version: None, stale: false }));
        (0..2).for_each(|broker| world.steady(broker, 200));
        assert!(check(&world, &ask(0), 0, &without).is_ok(), "asked before it was back");
        let later = RouteAsk { sent_ns: 201, ..ask(0) };
        assert!(check(&world, &later, 0, &without).is_err());
    }

    #[test]
    fn a_broker_that_left_must_not_be_shown_until_it_comes_back() {
        let (world, both, one) = (world(), body(4, &[0, 1], false), body(4, &[0], false));
        let mut verifier = Verifier::default();
        let mut at = |sent_ns: u64, body: &str| {
            let (ask, body) = (RouteAsk { sent_ns, ..ask(0) }, body.as_bytes());
            let (code, opaque, bytes) = (0, 1, 0);
            let frame = Frame { code, opaque, is_answer: true, header: b"{}", body, bytes };
            verifier.check(&world, &ask, &frame)
        };
        assert!(at(100, &both).is_ok());
        world.unsteady(1);
        world.gone(1, 200);
        assert!(at(300, &both).is_ok(), "the server may take a moment");
        assert!(matches!(at(2_000_000_000, &both), Err(Wrong::Content(_))));
        assert!(at(2_000_000_000, &one).is_ok());
        world.comes_back(1);
        assert!(at(2_000_000_001, &both).is_ok());
    }

    #[test]
    fn corrupted_content_is_found() {
        let (world, right) = (world(), body(4, &[0, 1], false));
        for (from, to) in [
            ("10911", "10912"),
            ("\"perm\":6", "\"perm\":4"),
            ("\"cluster\":\"c\"", "\"cluster\":\"d\""),
            ("broker-0001", "broker-0000"),
            ("\"writeQueueNums\":4", "\"writeQueueNums\":8"),
            ("}]}", "}"),
        ] {
            let result = check(&world, &ask(0), 0, &right.replace(from, to));
            assert!(matches!(result, Err(Wrong::Content(_))), "{from}: {result:?}");
        }
    }

    #[test]
    fn a_zone_shows_its_own_brokers_only() {
        let (world, zone) = (world(), RouteAsk { zone: Some(0), ..ask(0) });
        assert!(check(&world, &zone, 0, &body(4, &[0], true)).is_ok());
        assert!(check(&world, &zone, 0, &body(4, &[0, 1], true)).is_err());
        assert!(check(&world, &zone, 0, &body(4, &[1], true)).is_err());
    }

    #[test]
    fn a_topic_nobody_registered_is_code_17_without_a_body() {
        let ghost = RouteAsk { asked: Asked::Absent(3), ..ask(0) };
        assert!(check(&world(), &ghost, 17, "").is_ok());
        let code = check(&world(), &ghost, 1, "");
        assert!(matches!(code, Err(Wrong::Code("code 1", _))), "{code:?}");
        assert!(check(&world(), &ghost, 17, "x").is_err());
    }
}

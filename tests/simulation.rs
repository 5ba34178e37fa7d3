//! Aim: the route table follows the registration rules whatever happens in whatever order, and its
//! shortcuts (unchanged registrations, one batch for many brokers, fragments) and the steps of its
//! changes cannot be seen.
//!
//! Method: random changes, from a seed, go both into the real table and into a naive model that
//! scans everything and knows no shortcut. After each change the answers of the real table are
//! compared with the model's. Most tables make their changes in steps of one or a few topics; until
//! a change is whole, they must answer as before it.
//!
//! `SIM_SEEDS=4096 cargo test --test simulation` runs more seeds, `SIM_SEED=0x2a` just one.

#[path = "simulation/model.rs"]
mod model;
#[path = "simulation/random.rs"]
mod random;

use std::hash::{DefaultHasher, Hash, Hasher};

use guidepost::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName, MemberKey, Topic};
use guidepost::model::{DataVersion, Dialect, QueueData, Queues, TopicConfig};
use guidepost::route::{Departure, Refused, Registration, RouteQuery, RouteTable, RouteView};
use serde_json::Value;

use model::{Model, Outcome};
use random::Random;

const SEEDS: u64 = 256;
const STEPS: u32 = 60;
/// Topics that are asked about.
const TOPICS: [&str; 6] = ["T1", "T2", "T3", "T4", "rmq_sys_SYNC_BROKER_MEMBER_a", "none"];

#[test]
fn the_table_agrees_with_a_naive_model_for_every_seed() {
    let seeds: Vec<u64> = match std::env::var("SIM_SEED") {
        Ok(seed) => vec![parse_seed(&seed)],
        Err(_) => {
            let count = std::env::var("SIM_SEEDS").ok().and_then(|text| text.parse().ok());
            (0..count.unwrap_or(SEEDS)).collect()
        }
    };
    for seed in seeds {
        run(seed);
    }
}

#[test]
#[should_panic(expected = "left: SingleTopic")]
fn a_model_that_forgets_a_rule_is_found_out() {
    // The canary: without the rule of the single topic, some seed must differ.
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        world.model.knows_single_topic_rule = false;
        for _ in 0..STEPS {
            world.step();
        }
    }
}

fn parse_seed(text: &str) -> u64 {
    let hex = text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    hex.unwrap_or_else(|| text.parse()).expect("SIM_SEED is a number, decimal or 0x…")
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    for step in 0..STEPS {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.step()));
        if let Err(panic) = outcome {
            eprintln!(
                "simulation failed: seed={seed:#x} step={step} | \
                 replay: SIM_SEED={seed:#x} cargo test --test simulation"
            );
            eprintln!("the changes so far:\n{}", world.history.join("\n"));
            std::panic::resume_unwind(panic);
        }
    }
}

/// The real table, the model, and what is needed to drive both.
struct World {
    random: Random,
    table: RouteTable,
    model: Model,
    history: Vec<String>,
    /// Members as the table named them, with group and address.
    members: Vec<(MemberKey, BrokerName, BrokerAddr)>,
    /// Registrations to send again, word for word.
    sent: Vec<Registration>,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            random: Random::new(seed),
            table: match seed % 4 {
                0 => RouteTable::new(),
                topics => RouteTable::new().in_steps_of(usize::try_from(topics).expect("below 4")),
            },
            model: Model::new(),
            history: Vec::new(),
            members: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn step(&mut self) {
        match self.random.below(21) {
            0..=8 => {
                let registration = self.registration();
                self.register(registration);
            }
            9..=11 if !self.sent.is_empty() => {
                let at = self.random.below(self.sent.len());
                self.register(self.sent[at].clone());
            }
            9..=12 => self.unregister(),
            13..=14 => self.connection_closes(),
            15..=16 => self.delete_topic(),
            17 => self.register_topic(),
            20 => self.restart(),
            _ => self.write_perm(),
        }
        assert!(self.table.is_whole());
        self.table.check_invariants();
        self.compare();
    }

    /// Makes a change of the table, whole. Until it is, nothing of it may be seen.
    fn change<T>(&mut self, change: impl FnOnce(&mut RouteTable) -> T) -> T {
        self.table.take_changed();
        let before = shown(&self.table);
        let outcome = change(&mut self.table);
        while !self.table.is_whole() {
            assert_eq!(shown(&self.table), before, "half of a change is seen");
            assert!(!self.table.take_changed(), "half of a change is to be published");
            self.table.step();
        }
        if shown(&self.table) != before {
            assert!(self.table.take_changed(), "a change is not to be published");
        }
        outcome
    }

    fn registration(&mut self) -> Registration {
        let random = &mut self.random;
        let broker = random.pick(&["a", "b", "c"]);
        let cluster = if random.one_in(8) { "C2" } else { "C1" };
        let id = [0, 0, 0, 1, 1, 2, -1][random.below(7)];
        let addr =
            format!("{broker}:{}", if random.one_in(3) { random.below(3) as i64 } else { id });
        let all = ["T1", "T2", "T3", "rmq_sys_SYNC_BROKER_MEMBER_a"];
        let topics = all.iter().filter(|_| !random.one_in(3)).map(|topic| TopicConfig {
            topic: Topic::from(*topic),
            queues: Queues { read: 4, write: 4, perm: 6, sys_flag: 0 },
        });
        let topics: Vec<TopicConfig> = topics.collect();
        let topics = topics
            .into_iter()
            .map(|mut config| {
                config.queues.perm = [6, 6, 4, 2][random.below(4)];
                config.queues.sys_flag = [0, 0, 1, 2][random.below(4)];
                config
            })
            .collect();
        let version = DataVersion {
            state_version: [0, 0, 1, 2][random.below(4)],
            timestamp: 7,
            counter: Some(random.below(4) as i64),
        };
        let mut registration = Registration {
            cluster: ClusterName::from(cluster),
            broker: BrokerName::from(broker),
            addr: BrokerAddr::from(addr.as_str()),
            id: BrokerId(id),
            ha_addr: Some(format!("ha-{addr}")),
            acting_master: [None, Some(false), Some(true), Some(true)][random.below(4)],
            zone: if random.one_in(4) { Some("z".to_owned()) } else { None },
            data_version: if random.one_in(12) { None } else { Some(version) },
            topics,
            mappings: Vec::new(),
            filter_servers: match random.below(6) {
                0 => None,
                1 => Some(vec!["f:1".to_owned(), "f:2".to_owned()]),
                _ => Some(Vec::new()),
            },
            delete_missing_topics: random.one_in(6),
            digest: 0,
        };
        registration.digest = digest(&registration);
        registration
    }

    fn register(&mut self, registration: Registration) {
        self.history.push(format!("{registration:?}"));
        let expected = self.model.register(&registration);
        let Registration { cluster, broker, addr, digest, .. } = &registration;
        let (broker, addr) = (broker.clone(), addr.clone());
        if let Some(member) = self.table.recognise(cluster, &broker, &addr, *digest) {
            self.history.push("  recognised".to_owned());
            let master = self.table.master_told_to(member);
            let told = master.map(|master| (master.addr.to_string(), master.ha_addr));
            assert_eq!(Outcome::Accepted(told), expected);
            return;
        }
        self.sent.push(registration.clone());
        match self.change(|table| table.register(registration)) {
            Ok(registered) => {
                self.forget(&registered.displaced);
                self.members.push((registered.member, broker, addr));
                let master = registered.master;
                let told = master.map(|master| (master.addr.to_string(), master.ha_addr));
                assert_eq!(Outcome::Accepted(told), expected);
            }
            Err(Refused::SingleTopic) => assert_eq!(Outcome::SingleTopic, expected),
            Err(Refused::Stale { displaced }) => {
                self.forget(displaced.as_slice());
                assert_eq!(Outcome::Stale, expected);
            }
        }
    }

    fn forget(&mut self, gone: &[MemberKey]) {
        self.members.retain(|(key, ..)| !gone.contains(key));
    }

    fn unregister(&mut self) {
        let broker = self.random.pick(&["a", "b", "c"]);
        let addr = format!("{broker}:{}", self.random.below(3));
        self.history.push(format!("unregister {broker} {addr}"));
        self.model.remove(&[(broker.to_owned(), addr.clone())]);
        let departure = Departure { broker: broker.into(), addr: addr.as_str().into() };
        if let Some(key) = self.change(|table| table.unregister(&departure)) {
            self.forget(&[key]);
        }
    }

    fn connection_closes(&mut self) {
        let random = &mut self.random;
        let gone: Vec<_> = self.members.iter().filter(|_| random.one_in(3)).cloned().collect();
        let keys: Vec<MemberKey> = gone.iter().map(|(key, ..)| *key).collect();
        let names: Vec<_> =
            gone.iter().map(|(_, broker, addr)| (broker.to_string(), addr.to_string())).collect();
        self.history.push(format!("gone together: {names:?}"));
        self.model.remove(&names);
        self.change(|table| table.remove_members(&keys));
        self.forget(&keys);
    }

    fn delete_topic(&mut self) {
        let topic = self.random.pick(&["T1", "T2", "T3"]);
        let cluster = [None, Some("C1"), Some("C2"), Some("C9")][self.random.below(4)];
        self.history.push(format!("delete {topic} {cluster:?}"));
        self.model.delete_topic(topic, cluster);
        self.change(|table| table.delete_topic(topic, cluster));
    }

    fn register_topic(&mut self) {
        let topic = self.random.pick(&["T1", "T4"]);
        let brokers: Vec<&str> = match self.random.below(3) {
            0 => vec!["a"],
            1 => vec!["a", "b"],
            _ => vec!["b", "nobody"],
        };
        let queues = Queues { read: 1, write: 2, perm: 6, sys_flag: 0 };
        self.history.push(format!("register topic {topic} on {brokers:?}"));
        self.model.register_topic(topic, &brokers, queues);
        let data = brokers.iter().map(|broker| QueueData { broker: (*broker).into(), queues });
        let data: Vec<QueueData> = data.collect();
        self.change(|table| table.register_topic(&Topic::from(topic), &data));
    }

    /// The server ends, and its successor starts from the snapshot: nobody can tell.
    fn restart(&mut self) {
        self.history.push("restart".to_owned());
        let file = self.table.snapshot(|_| 1_000).encode(0);
        let restored = RouteTable::restore(&file).expect("just written");
        self.table = restored.table;
        self.members.clear();
        for (key, timeout_ms) in restored.members {
            assert_eq!((timeout_ms, self.table.is_restored(key)), (1_000, true));
            let (broker, addr) = self.table.describe(key).expect("a member");
            self.members.push((key, broker.clone(), addr.clone()));
        }
    }

    fn write_perm(&mut self) {
        let broker = self.random.pick(&["a", "b", "nobody"]);
        let on = self.random.one_in(2);
        self.history.push(format!("write perm of {broker}: {on}"));
        let expected = self.model.write_perm(broker, on);
        assert_eq!(self.change(|table| table.set_write_perm(broker, on)), expected);
    }

    fn compare(&self) {
        let view = self.table.freeze();
        for topic in TOPICS {
            for acting_master in [false, true] {
                let expected = self.model.route(topic, acting_master);
                let found = route(&view, topic, acting_master);
                assert_eq!(found, expected, "answers differ: {topic} acting={acting_master}");
            }
        }
        let mut out = Vec::new();
        view.write_cluster_info(&mut out);
        assert_eq!(model::sorted(model::quoted(&out)), self.model.cluster_info(), "answers differ");
        for (cluster, addr) in self.model.addresses() {
            let found = self.table.members_at(&cluster, &addr);
            assert!(!found.is_empty(), "answers differ: {cluster} {addr} is not registered");
        }
        assert_eq!(self.table.member_count(), self.model.member_count(), "answers differ");
    }
}

/// All that the table shows.
fn shown(table: &RouteTable) -> (Vec<u8>, Vec<Option<Value>>) {
    let view = table.freeze();
    let mut out = Vec::new();
    view.write_cluster_info(&mut out);
    (out, TOPICS.iter().map(|topic| route(&view, topic, false)).collect())
}

fn route(view: &RouteView, topic: &str, acting_master: bool) -> Option<Value> {
    let query =
        RouteQuery { dialect: Dialect::Standard, acting_master, order_conf: None, zone: None };
    let mut out = Vec::new();
    view.write_route(view.topic(topic)?, &query, &mut out);
    Some(model::sorted(serde_json::from_slice(&out).expect("the standard dialect is JSON")))
}

fn digest(registration: &Registration) -> u128 {
    let mut hasher = DefaultHasher::new();
    format!("{registration:?}").hash(&mut hasher);
    hasher.finish().into()
}

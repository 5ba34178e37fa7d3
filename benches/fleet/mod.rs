//! A fleet of brokers as the benches see it, masters that all serve the same topics, and the clock
//! they are measured by.
#![allow(dead_code, reason = "each bench uses a part of it")]

pub mod bodies;
pub mod shard;

use std::sync::Arc;
use std::time::Duration;

use criterion::Criterion;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use guidepost::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName, Generation, Topic};
use guidepost::kv::KvView;
use guidepost::model::{DataVersion, Queues, TopicConfig};
use guidepost::publish::View;
use guidepost::route::{Registration, RouteTable};
use rustix::time::{ClockId, clock_gettime};

/// The cluster all brokers are in.
pub const CLUSTER: &str = "trade-cluster-a";

/// A topic's name, of 24 bytes as names of applications tend to be.
pub fn topic_name(number: usize) -> String {
    format!("order_paid_event_{number:07}")
}

/// A broker's name.
pub fn broker_name(broker: usize) -> String {
    format!("trade-broker-{broker:03}")
}

/// A broker's address.
pub fn broker_addr(broker: usize) -> String {
    format!("10.{}.{}.17:10911", 20 + broker / 250, broker % 250)
}

/// Topics by number, each with `queues` queues.
pub fn topics(numbers: impl Iterator<Item = usize>, queues: i32) -> Vec<TopicConfig> {
    let queues = Queues { read: queues, write: queues, perm: 6, sys_flag: 0 };
    numbers.map(|number| TopicConfig { topic: Topic::from(&*topic_name(number)), queues }).collect()
}

/// A master's registration; `counter` numbers its data version and stands for its content.
pub fn registration(broker: usize, topics: Vec<TopicConfig>, counter: i64) -> Registration {
    Registration {
        cluster: ClusterName::from(CLUSTER),
        broker: BrokerName::from(&*broker_name(broker)),
        addr: BrokerAddr::from(&*broker_addr(broker)),
        id: BrokerId::MASTER,
        ha_addr: Some(broker_addr(broker)),
        acting_master: Some(false),
        zone: None,
        data_version: Some(data_version(counter)),
        topics,
        mappings: Vec::new(),
        filter_servers: Some(Vec::new()),
        delete_missing_topics: false,
        digest: u128::try_from(counter).expect("counters are not negative"),
    }
}

/// A data version that differs by its counter.
pub fn data_version(counter: i64) -> DataVersion {
    DataVersion { state_version: 0, timestamp: 1_700_000_000_000, counter: Some(counter) }
}

/// A table of `topics_count` topics, all on each of `brokers` masters.
pub fn table(topics_count: usize, brokers: usize) -> RouteTable {
    let mut table = RouteTable::new();
    let all = topics(0..topics_count, 8);
    for broker in 0..brokers {
        table.register(registration(broker, all.clone(), 1)).expect("a new broker registers");
    }
    table.take_changed();
    table
}

/// What a shard sees of `table`.
pub fn view(table: &RouteTable) -> View {
    View {
        generation: Generation(1),
        routes: table.freeze(),
        kv: KvView::default(),
        settings: Arc::default(),
    }
}

/// Numbers below `end` in an order that a cache does not foresee (a linear congruence, always the
/// same).
pub fn scattered(end: usize, count: usize) -> impl Iterator<Item = usize> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..count).map(move |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits fit") % end
    })
}

/// Criterion, measuring by [`CpuTime`].
pub fn criterion() -> Criterion<CpuTime> {
    Criterion::default().with_measurement(CpuTime)
}

/// CPU time of this thread so far. What is measured here never waits, so it equals the wall clock
/// on an idle machine; on a busy one it leaves out the time that others had the core.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("CPU time is not negative")
}

/// Measures by [`cpu_time`].
pub struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        cpu_time()
    }

    fn end(&self, start: Duration) -> Duration {
        cpu_time().saturating_sub(start)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        static WALL: WallTime = WallTime;
        WALL.formatter()
    }
}

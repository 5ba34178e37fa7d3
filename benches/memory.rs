//! Bytes that the route table takes, writer's part and published view together, for each pair of
//! topic and broker, beyond the topics' names.
//!
//! Target: <= 40 bytes a pair. It is counted, not sampled: the allocator of this binary counts the
//! bytes asked for. "resident" is what the kernel says the process grew by, allocator's overhead
//! and names included.
//!
//! Run with `cargo bench --bench memory`.

mod fleet;

use guidepost::route::RouteTable;

/// Pairs in each table.
const PAIRS: usize = 1_600_000;
/// Bytes that an `Arc<str>` takes besides its text: two counts.
const NAME_COUNTS: usize = 16;

fn main() {
    println!("pairs of topic and broker: {PAIRS} each");
    println!("brokers/topic   topics   bytes/pair   of topics' names   resident/pair");
    for width in [1, 4, 16] {
        let topics = PAIRS / width;
        let before = resident();
        let mut table = RouteTable::new();
        let counted = allocation_counter::measure(|| table = built(topics, width));
        let grown = resident().saturating_sub(before);
        let names = topics * (NAME_COUNTS + fleet::topic_name(0).len());
        let bytes = usize::try_from(counted.bytes_current).expect("the table is not empty");
        println!(
            "{width:>13} {topics:>8} {:>12} {:>18} {:>15}",
            a_pair(bytes - names),
            a_pair(names),
            a_pair(grown)
        );
        assert_eq!(table.freeze().topic_count(), topics);
    }
}

/// A table filled as brokers do it: each one's registration has names of its own.
fn built(topics: usize, brokers: usize) -> RouteTable {
    let mut table = RouteTable::new();
    for broker in 0..brokers {
        let registration = fleet::registration(broker, fleet::topics(0..topics, 8), 1);
        table.register(registration).expect("a new broker registers");
    }
    table
}

fn a_pair(bytes: usize) -> String {
    let tenths = bytes * 10 / PAIRS;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// Resident bytes of this process, 0 where the kernel does not say.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

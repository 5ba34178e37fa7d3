//! Bytes that the route table takes, writer's part and published view together, for each pair of
//! topic and broker, beyond the topics' names.
//!
//! Target: <= 40 bytes a pair. It is counted, not sampled: the allocator of this binary counts the
//! bytes asked for. "resident" is what the kernel says the process grew by, allocator's overhead
//! and names included; each table has a process of its own.
//!
//! Run with `cargo bench --bench memory`.

mod fleet;

use std::process::Command;

use guidepost::route::RouteTable;

/// Topics and brokers of each table; every topic is on every broker.
const TABLES: [(usize, usize); 6] =
    [(100_000, 1), (1_000_000, 1), (100_000, 4), (400_000, 4), (1_000_000, 4), (100_000, 16)];

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--table").skip(1);
    if let (Some(topics), Some(brokers)) = (arguments.next(), arguments.next()) {
        let number = |text: String| text.parse().expect("--table is followed by two numbers");
        return measure(number(topics), number(brokers));
    }
    println!("  topics   brokers   bytes/pair   of topics' names   resident/pair");
    for (topics, brokers) in TABLES {
        let own = std::env::current_exe().expect("this binary has a path");
        let table = [topics.to_string(), brokers.to_string()];
        let ended = Command::new(own).arg("--table").args(table).status().expect("starts");
        assert!(ended.success(), "{topics} topics on {brokers} brokers");
    }
}

fn measure(topics: usize, brokers: usize) {
    let before = resident();
    let mut table = RouteTable::new();
    let counted = allocation_counter::measure(|| table = built(topics, brokers));
    let grown = resident().saturating_sub(before);
    let names = topics * fleet::topic_name(0).len();
    let bytes = usize::try_from(counted.bytes_current).expect("the table is not empty");
    let [bytes, names, grown] = [bytes - names, names, grown].map(|all| {
        let tenths = all * 10 / (topics * brokers);
        format!("{}.{}", tenths / 10, tenths % 10)
    });
    println!("{topics:>8} {brokers:>9} {bytes:>12} {names:>18} {grown:>15}");
    assert_eq!(table.freeze().topic_count(), topics);
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

/// Resident bytes of this process, 0 where the kernel does not say.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

//! Several shards: how evenly connections are spread over them, by the CPU that each uses.

use std::collections::BTreeMap;
use std::fs;

use crate::failure::{Failure, run_failure};
use crate::launch::Server;
use crate::priority;
use crate::table::Target as Bound;

use super::{Stage, fleet};

/// The busiest shard may have so many times the load of the laziest one.
const TIMES_LEAST: f64 = 2.0;
const CROWDS: [u32; 3] = [64, 900, 8000];

pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(4, 1000, 4)?;
    let server = stage.start(0)?;
    let _brokers = stage.fill(&server, &fleet, None)?;
    let target = stage.target(&server, &fleet);
    priority::first();
    for count in CROWDS {
        let (mut ratios, mut each) = (Vec::new(), Vec::new());
        for _ in 0..stage.args.rounds {
            let before = by_shard(&server)?;
            let load = stage.closed(&target, count, 1, 1000);
            let result = stage.run(&format!("{count} x 1"), &load, &target)?;
            let after = by_shard(&server)?;
            let used = after.iter().map(|(name, ns)| ns - before.get(name).unwrap_or(&0));
            let used: Vec<f64> = used.map(|ns| ns as f64).collect();
            if used.len() < 2 {
                return Err(run_failure("there is one shard; give the server --shards 2"));
            }
            let most = used.iter().copied().fold(0.0, f64::max);
            let least = used.iter().copied().fold(f64::INFINITY, f64::min);
            ratios.push(most / least);
            each.extend(result.server_us_per_answer());
        }
        let what = format!("{count} connections");
        let bound = Some(Bound::AtMost(TIMES_LEAST));
        stage.find(format!("{what}: busiest shard : laziest, by round"), ratios, bound);
        stage.find(format!("{what}: us CPU a query, all shards"), each, None);
    }
    Ok(())
}

/// CPU of each shard's thread so far, in ns.
fn by_shard(server: &Server) -> Result<BTreeMap<String, u64>, Failure> {
    let mut found = BTreeMap::new();
    let folder = format!("/proc/{}/task", server.process.pid);
    let gone = |e| run_failure(format!("{folder}: {e}"));
    for task in fs::read_dir(&folder).map_err(gone)?.flatten() {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (name, stat) = (read("comm"), read("schedstat"));
        let ns = stat.split(' ').next().and_then(|ns| ns.parse().ok());
        if name.starts_with("shard-") {
            // A shard's executor may keep a thread of the same name for itself.
            *found.entry(name.trim().to_owned()).or_default() += ns.unwrap_or(0);
        }
    }
    Ok(found)
}

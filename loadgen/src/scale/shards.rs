//! Several shards: how evenly the work is spread over them, by the completions of each shard's
//! ring. Every connection asks as often (an open loop), so that this is the spread of connections;
//! CPU would not show it, since a shard that shares its core is woken less often and for more.

use std::collections::BTreeMap;
use std::fs;

use crate::failure::{Failure, run_failure};
use crate::launch::Server;
use crate::run::Load;
use crate::table::Target as Bound;

use super::{Stage, fleet};

/// The busiest shard may have so many times the load of the laziest one.
const TIMES_LEAST: f64 = 2.0;
const CROWDS: [u32; 3] = [64, 900, 8000];
/// Queries a second: so few that the generator sleeps between them and leaves its CPU to the shard
/// that has it as well. For the same reason it does not go first here.
const RATE: f64 = 2000.0;
/// Times are of no interest here.
const LATE_US: u64 = 1_000_000;
/// A ring with less than this share of the most completions is none that serves.
const SERVING_SHARE: f64 = 0.02;

pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(4, 1000, 4)?;
    let server = stage.start(0)?;
    let brokers = stage.fill(&server, &fleet, None)?;
    stage.hold(brokers);
    let target = stage.target(&server, &fleet);
    for count in CROWDS {
        let (mut ratios, mut each) = (Vec::new(), Vec::new());
        stage.rounds(stage.args.bench.rounds, |stage| {
            let before = by_ring(&server)?;
            let closed = stage.closed(&target, count, 1, 1000);
            let load = Load { rate: Some(RATE), lateness_bound_us: LATE_US, ..closed };
            let result = stage.run(&format!("{count} x 1"), &load, &target)?;
            ratios.push(most_to_least(&before, &by_ring(&server)?)?);
            each.extend(result.server_us_per_answer());
            Ok(())
        });
        let what = format!("{count} connections");
        let bound = Some(Bound::AtMost(TIMES_LEAST));
        stage.find(format!("{what}: busiest shard : laziest, by round"), ratios, bound);
        stage.find(format!("{what}: us CPU a query, both shards"), each, None);
    }
    Ok(())
}

fn most_to_least(
    before: &BTreeMap<String, u32>,
    after: &BTreeMap<String, u32>,
) -> Result<f64, Failure> {
    let done = after.iter().map(|(ring, now)| now.wrapping_sub(*before.get(ring).unwrap_or(&0)));
    let done: Vec<f64> = done.map(f64::from).collect();
    let most = done.iter().copied().fold(0.0, f64::max);
    let serving: Vec<f64> = done.into_iter().filter(|n| *n > most * SERVING_SHARE).collect();
    if serving.len() < 2 {
        return Err(run_failure("one ring does all the work; give the server --shards 2"));
    }
    Ok(most / serving.into_iter().fold(f64::INFINITY, f64::min))
}

/// Completions of each io_uring of the process so far; the kernel counts them in 32 bits.
fn by_ring(server: &Server) -> Result<BTreeMap<String, u32>, Failure> {
    let mut found = BTreeMap::new();
    let folder = format!("/proc/{}/fdinfo", server.process.pid);
    let gone = |e| run_failure(format!("{folder}: {e}"));
    for file in fs::read_dir(&folder).map_err(gone)?.flatten() {
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        let tail = text.lines().find_map(|line| line.strip_prefix("CqTail:"));
        if let Some(count) = tail.and_then(|count| count.trim().parse().ok()) {
            found.insert(file.file_name().to_string_lossy().into_owned(), count);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rings(counts: &[(&str, u32)]) -> BTreeMap<String, u32> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn only_rings_that_serve_are_compared_and_counts_may_wrap() {
        let before = rings(&[("3", u32::MAX - 9), ("4", 100), ("5", 7)]);
        let after = rings(&[("3", 990), ("4", 600), ("5", 9)]);
        assert_eq!(most_to_least(&before, &after).unwrap(), 2.0);
        assert!(most_to_least(&before, &rings(&[("3", 990), ("4", 101), ("5", 9)])).is_err());
    }
}

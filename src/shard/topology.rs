//! Which core does what.

use std::fs;
use std::io;
use std::thread;

use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};

/// Locked memory of one executor's own buffers, for files: neither a shard nor the writer has any.
/// The least that glommio takes.
const EXECUTOR_IO_BYTES: usize = 64 << 10;
/// Entries of an executor's own rings: one is used at a time, for its sleep.
const EXECUTOR_RING_DEPTH: usize = 32;

/// The cores of the shards and of the writer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CorePlan {
    /// One core for each shard. Shards share cores only if more were asked for than there are.
    pub shards: Vec<usize>,
    /// The writer's core. It is a shard's, too, if there is just one.
    pub writer: usize,
}

/// Plans `shards` shards (or, without a number, one for each core but the writer's) on the cores
/// that this process may use.
#[must_use]
pub fn plan(shards: Option<usize>) -> CorePlan {
    plan_on(&usable_cores(), shards)
}

/// An executor for the calling thread, pinned to `core` where that can be done.
///
/// # Errors
/// When the system allows no further executor.
pub fn executor_on(name: &str, core: usize) -> io::Result<LocalExecutor> {
    let executor = |placement| {
        LocalExecutorBuilder::new(placement)
            .name(name)
            .io_memory(EXECUTOR_IO_BYTES)
            .ring_depth(EXECUTOR_RING_DEPTH)
            .make()
    };
    let pinned = executor(Placement::Fixed(core)).or_else(|refusal| {
        // Fails where /sys does not describe the cores, as in some sandboxes.
        tracing::warn!(%refusal, core, "{name} cannot be pinned and runs on any core");
        executor(Placement::Unbound)
    });
    pinned.map_err(|refusal| io::Error::other(format!("{name} has no executor: {refusal}")))
}

fn plan_on(cores: &[usize], shards: Option<usize>) -> CorePlan {
    let (writer, others) = match cores {
        [] => (0, &[0][..]),
        [only] => (*only, cores),
        [others @ .., writer] => (*writer, others),
    };
    let count = shards.unwrap_or(others.len()).max(1);
    // With every core asked for, the writer's is the last to be given away.
    let in_turn: Vec<usize> = if count > others.len() { cores } else { others }.to_vec();
    let in_turn = if in_turn.is_empty() { vec![writer] } else { in_turn };
    CorePlan { shards: in_turn.iter().copied().cycle().take(count).collect(), writer }
}

/// The cores in this process's affinity mask, no more of them than its CPU quota is worth.
fn usable_cores() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut cores = allowed(&status);
    // Knows the control group's quota, which the mask does not show.
    let quota = thread::available_parallelism().map_or(1, usize::from);
    if cores.is_empty() {
        cores = (0..quota).collect();
    }
    cores.truncate(quota);
    cores
}

/// Reads the list of `/proc/self/status`, such as `0-3,8,10-11`.
fn allowed(status: &str) -> Vec<usize> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = list.unwrap_or_default().trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(cores: &[usize], shards: Option<usize>) -> (Vec<usize>, usize) {
        let plan = plan_on(cores, shards);
        (plan.shards, plan.writer)
    }

    #[test]
    fn the_writer_has_a_core_of_its_own_unless_there_is_just_one() {
        assert_eq!(planned(&[0, 1], None), (vec![0], 1));
        assert_eq!(planned(&[0, 1, 2, 3], None), (vec![0, 1, 2], 3));
        assert_eq!(planned(&[5], None), (vec![5], 5));
        assert_eq!(planned(&[], None), (vec![0], 0));
    }

    #[test]
    fn the_number_of_shards_can_be_set() {
        assert_eq!(planned(&[4, 6, 9], Some(1)), (vec![4], 9));
        assert_eq!(planned(&[4, 6, 9], Some(3)), (vec![4, 6, 9], 9));
        assert_eq!(planned(&[4, 6], Some(5)), (vec![4, 6, 4, 6, 4], 6));
        assert_eq!(planned(&[4, 6], Some(0)), (vec![4], 6));
    }

    #[test]
    fn the_affinity_mask_is_honoured() {
        assert_eq!(allowed("Name:\tx\nCpus_allowed_list:\t0-1,4,6-7\n"), [0, 1, 4, 6, 7]);
        assert_eq!(allowed("Cpus_allowed_list:\t3\n"), [3]);
        assert!(allowed("").is_empty());
        assert!(!usable_cores().is_empty());
    }
}

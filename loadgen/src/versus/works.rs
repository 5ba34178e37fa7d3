//! What the servers are made to do, and which figures come of it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::failure::{Failure, run_failure};
use crate::live::Nobody;
use crate::priority;
use crate::record::Run;
use crate::registrar::Registrar;
use crate::run::{Load, Target, run};
use crate::stop::Stop;

/// A load that every server gets.
pub struct Work {
    pub name: &'static str,
    /// `None` is the crowd.
    pub connections: Option<u32>,
    pub depth: usize,
    pub misses: f64,
    /// Queries a second; `None` as fast as the answers come.
    pub rate: Option<f64>,
    /// Beside the queries each broker registers so often, each time with a new version.
    pub register_every: Option<Duration>,
}

const PLAIN: Work = Work {
    name: "64 x 1",
    connections: Some(64),
    depth: 1,
    misses: 0.0,
    rate: None,
    register_every: None,
};

/// All of them, in the order of a round.
pub const WORKS: &[Work] = &[
    PLAIN,
    Work { name: "900 x 1", connections: Some(900), ..PLAIN },
    Work { name: "64 x 16", depth: 16, ..PLAIN },
    Work { name: "64 x 1, misses", misses: 1.0, ..PLAIN },
    Work {
        name: "with registrations",
        rate: Some(4000.0),
        register_every: Some(Duration::from_millis(200)),
        ..PLAIN
    },
    Work { name: "crowd", connections: None, ..PLAIN },
];

impl Work {
    /// Runs it, with the brokers registering beside it if it says so.
    ///
    /// # Errors
    /// When the run cannot be made or a registration fails.
    pub fn run(
        &self,
        load: &Load,
        target: &Target,
        mut brokers: Vec<Registrar>,
        stop: &Stop,
    ) -> Result<(Run, Vec<Registrar>), Failure> {
        let Some(every) = self.register_every else {
            return Ok((run(load, target, stop, &mut Nobody)?, brokers));
        };
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let registering = scope.spawn(|| -> Result<Vec<Registrar>, Failure> {
                priority::usual();
                let pause = every / u32::try_from(brokers.len().max(1)).unwrap_or(u32::MAX);
                let (mut next, count) = (Instant::now(), brokers.len());
                // Relaxed: nothing else is read because of it.
                for at in (0..count).cycle().take_while(|_| !ended.load(Relaxed)) {
                    brokers[at].change();
                    brokers[at].register()?;
                    next += pause;
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                Ok(brokers)
            });
            let result = run(load, target, stop, &mut Nobody);
            ended.store(true, Relaxed);
            let crashed = |_| Err(run_failure("the registering thread crashed"));
            let brokers = registering.join().unwrap_or_else(crashed)?;
            Ok((result?, brokers))
        })
    }
}

/// One number of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// us of CPU per query.
    Cpu(&'static str),
    /// Thousands of queries a second.
    Rate(&'static str),
    /// us.
    P999(&'static str),
    HitBytes,
    MissBytes,
    /// ms.
    Start,
    /// MiB.
    Empty,
    Filled,
    Crowded,
    /// ms of CPU, of a registration with a new version or without.
    RegisterCpu(bool),
    /// ms from its sending to its answer.
    RegisterTime(bool),
}

/// The rows of the table.
pub fn figures(crowd: u32) -> Vec<(Figure, String)> {
    let mut rows = Vec::new();
    let say = |name: &str| if name == "crowd" { format!("{crowd} x 1") } else { name.to_owned() };
    for work in WORKS {
        rows.push((Figure::Cpu(work.name), format!("{}: us CPU a query", say(work.name))));
    }
    for name in ["64 x 1", "64 x 16"] {
        rows.push((Figure::Rate(name), format!("{name}: 1000 queries/s")));
    }
    for name in ["64 x 1", "with registrations", "crowd"] {
        let closed = WORKS.iter().any(|work| work.name == name && work.rate.is_none());
        let how = if closed { ", closed loop" } else { "" };
        rows.push((Figure::P999(name), format!("{}{how}: p99.9, us", say(name))));
    }
    let registration = "20 000 topics";
    rows.extend([
        (Figure::RegisterCpu(false), format!("{registration} again: ms CPU")),
        (Figure::RegisterCpu(true), format!("{registration}, new version: ms CPU")),
        (Figure::RegisterTime(false), format!("{registration} again: ms")),
        (Figure::RegisterTime(true), format!("{registration}, new version: ms")),
        (Figure::Start, "start to first answer, ms".to_owned()),
        (Figure::Empty, "resident, empty, MiB".to_owned()),
        (Figure::Filled, "resident, 24 000 pairs, MiB".to_owned()),
        (Figure::Crowded, format!("resident, {crowd} connections, MiB")),
        (Figure::HitBytes, "bytes of a hit".to_owned()),
        (Figure::MissBytes, "bytes of a miss".to_owned()),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_has_a_row_of_its_own_and_no_row_is_twice() {
        let rows = figures(18_000);
        for work in WORKS {
            assert!(rows.iter().any(|(figure, _)| *figure == Figure::Cpu(work.name)));
        }
        for (at, (figure, words)) in rows.iter().enumerate() {
            assert!(rows[..at].iter().all(|(f, w)| f != figure && w != words), "{words}");
        }
        assert!(rows.iter().any(|(_, words)| words == "18000 x 1: us CPU a query"));
    }
}

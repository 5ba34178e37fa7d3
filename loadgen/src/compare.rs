//! Server and floor in turns, so that whatever else the machine does meets both.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::check::{Expect, FloorBytes};
use crate::failure::{Failure, run_failure};
use crate::floor::{FloorChild, answer_bytes};
use crate::live::Onlooker;
use crate::process::Process;
use crate::record::Run;
use crate::run::{Load, Target, run};
use crate::stop::Stop;

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Bytes the floor answered with: those of the server's answers.
    pub floor_bytes: FloorBytes,
    /// CPU of the floor server, if pinned.
    pub floor_cpu: Option<usize>,
    /// One entry a round; the last one may lack its floor after Ctrl-C.
    pub rounds: Vec<Round>,
    /// Over the rounds; `None` when there is none complete.
    pub server_us_per_query: Option<Spread>,
    /// Over the rounds.
    pub floor_us_per_query: Option<Spread>,
    /// Server over floor, round by round. **The number that counts.**
    pub ratio: Option<Spread>,
    /// Why there are fewer rounds than asked for.
    pub failure: Option<Failure>,
}

impl Comparison {
    /// All its runs, in their order.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.rounds.iter().flat_map(|round| std::iter::once(&round.server).chain(&round.floor))
    }

    fn round(
        &mut self,
        number: u32,
        load: &Load,
        [server, floor]: [&Target; 2],
        stop: &Stop,
        onlooker: &mut dyn Onlooker,
    ) -> Result<(), Failure> {
        let result = run(load, server, stop, onlooker)?;
        onlooker.ended(number, &result);
        self.rounds.push(Round { server: result, floor: None });
        if !stop.asked() {
            let result = run(load, floor, stop, onlooker)?;
            onlooker.ended(number, &result);
            self.rounds.last_mut().expect("pushed above").floor = Some(result);
        }
        Ok(())
    }

    fn sum_up(&mut self) {
        let complete = || self.rounds.iter().filter(|round| round.floor.is_some());
        let floor = |round: &Round| round.floor.as_ref().and_then(Run::server_us_per_answer);
        let server_us_per_query =
            Spread::of(complete().filter_map(|round| round.server.server_us_per_answer()));
        let floor_us_per_query = Spread::of(complete().filter_map(floor));
        let ratio = Spread::of(complete().filter_map(Round::ratio));
        (self.server_us_per_query, self.floor_us_per_query) =
            (server_us_per_query, floor_us_per_query);
        self.ratio = ratio;
    }

    /// Whether any of its runs is.
    pub fn invalid(&self) -> bool {
        self.runs().any(|run| !run.invalid.is_empty())
    }
}

/// The server, then the floor.
#[derive(Debug)]
pub struct Round {
    /// Against the server.
    pub server: Run,
    /// Against the floor.
    pub floor: Option<Run>,
}

impl Round {
    /// Server CPU per query over floor CPU per query.
    pub fn ratio(&self) -> Option<f64> {
        let floor = self.floor.as_ref()?.server_us_per_answer()?;
        Some(self.server.server_us_per_answer()? / floor)
    }
}

/// Median and range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number of values the mean of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these values; `None` when there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { median, min, max })
    }
}

/// How a comparison is made.
pub struct Plan<'a> {
    /// The same for both.
    pub load: &'a Load,
    /// Server and floor are measured so often.
    pub rounds: u32,
    /// Load on the server before the first round, not measured: a JVM needs minutes.
    pub prewarm_seconds: f64,
    /// The program that has the sub-command `floor-server`.
    pub program: &'a Path,
    /// The CPU of the floor server.
    pub floor_cpu: Option<usize>,
}

/// Measures in turns.
///
/// # Errors
/// When the first round cannot be made; see [`run`]. A later one ends the comparison.
pub fn compare(
    plan: &Plan<'_>,
    server: &Target,
    stop: &Stop,
    onlooker: &mut dyn Onlooker,
) -> Result<Comparison, Failure> {
    let floor_bytes = learn_bytes(plan, server, stop, onlooker)?;
    let child = FloorChild::spawn(plan.program, floor_bytes, plan.floor_cpu)?;
    let floor = Target {
        label: "floor".into(),
        address: child.address,
        expect: Expect::Floor(floor_bytes),
        process: Some(Process::new(child.pid())?),
    };
    let mut comparison =
        Comparison { floor_bytes, floor_cpu: plan.floor_cpu, ..Default::default() };
    for number in 1..=plan.rounds {
        match comparison.round(number, plan.load, [server, &floor], stop, onlooker) {
            Err(failure) if comparison.rounds.is_empty() => return Err(failure),
            Err(failure) => comparison.failure = Some(failure),
            Ok(()) => {}
        }
        if stop.asked() || comparison.failure.is_some() {
            break;
        }
    }
    comparison.sum_up();
    Ok(comparison)
}

/// How many bytes the server answers with, found by asking it; this warms it up at the same time.
fn learn_bytes(
    plan: &Plan<'_>,
    server: &Target,
    stop: &Stop,
    onlooker: &mut dyn Onlooker,
) -> Result<FloorBytes, Failure> {
    let seconds = plan.prewarm_seconds.max(0.2);
    let load = Load { seconds, warmup_seconds: 0.0, rate: None, ..plan.load.clone() };
    let result = run(&load, server, stop, onlooker)?;
    let (hit, miss) = (result.answer_bytes("hit"), result.answer_bytes("miss"));
    if stop.asked() {
        return Err(run_failure("stopped before the first round"));
    }
    if hit.is_none() && miss.is_none() {
        return Err(run_failure(format!(
            "{} gave no right answer: {}",
            server.label,
            result.totals.error_examples.first().map_or("none at all", String::as_str)
        )));
    }
    Ok(FloorBytes { hit: answer_bytes(hit), miss: answer_bytes(miss) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_not_the_mean() {
        let spread = Spread::of([9.0, 1.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.0, min: 1.0, max: 9.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 9.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of([]), None);
    }
}

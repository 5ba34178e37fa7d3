//! The highest rate that meets an objective, found by trying: doubled until it is missed, then
//! halved in between, then confirmed by a longer run.

use serde::Serialize;

use crate::assertion::Assertions;
use crate::failure::Failure;
use crate::record::Record;

/// A confirming run that fails lowers the rate and is repeated so often.
const CONFIRMATIONS_MAX: u32 = 4;
const TRIALS_MAX: usize = 60;

/// Where and how finely to look.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Search {
    /// The first rate tried.
    pub from: f64,
    /// No rate above this is tried.
    pub to: f64,
    /// The result is right within this share of itself.
    pub precision: f64,
}

/// One run of the search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Queries per second.
    pub rate: f64,
    /// Whether it is the longer run that confirms a result.
    pub confirming: bool,
    /// Whether the objective was met.
    pub meets: bool,
    /// Why not, or by how much, for a person.
    pub words: String,
}

/// What the search came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Result {
    /// The highest rate with a confirming run; `None` when not even the lowest meets the objective.
    pub rate: Option<f64>,
    /// All runs, in their order.
    pub trials: Vec<Trial>,
    /// The highest allowed rate still met the objective: the limit lies above.
    pub open_ended: bool,
    /// It was ended before it had a result.
    pub ended_early: bool,
}

impl Search {
    /// Searches. `attempt` makes a run at a rate, a longer one when it is to confirm; `None` ends
    /// the search.
    pub fn run(&self, mut attempt: impl FnMut(f64, bool) -> Option<(bool, String)>) -> Result {
        let mut trials: Vec<Trial> = Vec::new();
        let rate = self.search(|rate, confirming| {
            let (meets, words) = attempt(rate, confirming)?;
            trials.push(Trial { rate, confirming, meets, words });
            Some(meets)
        });
        let (rate, ended_early) = (rate.flatten(), rate.is_none());
        let open_ended = rate.is_some_and(|rate| rate >= self.to);
        Result { rate, trials, open_ended, ended_early }
    }

    /// The highest rate that was confirmed, if any; `None` when it was ended.
    fn search(&self, mut tries: impl FnMut(f64, bool) -> Option<bool>) -> Option<Option<f64>> {
        let (mut good, mut bad) = (None, None);
        let mut rate = self.from.min(self.to);
        for _ in 0..TRIALS_MAX {
            if tries(rate, false)? {
                good = Some(rate);
            } else {
                bad = Some(rate);
            }
            rate = match (good, bad) {
                (Some(good), None) if good >= self.to => break,
                (Some(good), None) => (good * 2.0).min(self.to),
                // Not even the first rate: look below it, but not for ever.
                (None, Some(bad)) if bad < self.from / 1000.0 => break,
                (None, Some(bad)) => bad / 2.0,
                (Some(good), Some(bad)) if bad / good <= 1.0 + self.precision => break,
                (Some(good), Some(bad)) => f64::midpoint(good, bad),
                (None, None) => break,
            };
        }
        let mut candidate = good;
        for _ in 0..CONFIRMATIONS_MAX {
            let Some(rate) = candidate else { break };
            if tries(rate, true)? {
                return Some(Some(rate));
            }
            candidate = Some(rate * (1.0 - 2.0 * self.precision));
        }
        Some(None)
    }
}

/// Whether a run met the objective, and in words how.
///
/// # Errors
/// When the record is damaged.
pub fn judge(
    record: &Record,
    objective: &Assertions,
) -> std::result::Result<(bool, String), Failure> {
    let mut words: Vec<String> = Vec::new();
    let mut meets = true;
    for demand in &objective.0 {
        let verdict = demand.judge(record)?;
        meets &= verdict.holds;
        words.push(verdict.words);
    }
    for run in &record.runs {
        meets &= run.invalid.is_empty();
        words.extend(run.invalid.iter().cloned());
    }
    Ok((meets, words.join("; ")))
}

/// One line for a trial.
pub fn trial_words(rate: f64, confirming: bool, meets: bool, words: &str) -> String {
    let verdict = if meets { "meets" } else { "misses" };
    let confirming = if confirming { " (confirming)" } else { "" };
    format!("{rate:>9.0}/s  {verdict}{confirming}: {words}")
}

/// The line that counts.
pub fn result_words(result: &Result, objective: &Assertions) -> String {
    let demands: Vec<String> = objective.0.iter().map(ToString::to_string).collect();
    let demands = demands.join(",");
    match result.rate {
        None if result.ended_early => format!("ended before a rate was found that meets {demands}"),
        None => format!("no rate was found that meets {demands}"),
        Some(rate) if result.open_ended => {
            format!("highest rate tried: {rate:.0}/s, and it meets {demands}; raise --to-rate")
        }
        Some(rate) => format!("highest rate: {rate:.0}/s meets {demands}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Search = Search { from: 1_000.0, to: 1e6, precision: 0.02 };

    /// A server that carries so much, and in long runs a little less.
    fn found(limit: f64, long_limit: f64) -> Result {
        let attempt = |rate: f64, confirming: bool| {
            let limit = if confirming { long_limit } else { limit };
            Some((rate <= limit, String::new()))
        };
        SEARCH.run(attempt)
    }

    #[test]
    fn the_limit_is_found_within_the_precision_wherever_it_is() {
        for limit in [37.0, 999.0, 1_000.0, 5_432.0, 77_777.0, 600_000.0] {
            let result = found(limit, limit);
            let rate = result.rate.unwrap();
            assert!(rate <= limit && rate >= limit * 0.975, "{rate} for {limit}");
            assert!(result.trials.last().unwrap().confirming);
            assert!(result.trials.len() < 30, "{} runs", result.trials.len());
            assert!(!result.open_ended);
        }
    }

    #[test]
    fn a_limit_above_the_range_is_told_and_a_hopeless_server_ends_the_search() {
        assert_eq!((found(2e6, 2e6).rate, found(2e6, 2e6).open_ended), (Some(1e6), true));
        assert_eq!(found(0.0, 0.0).rate, None);
    }

    #[test]
    fn a_search_that_is_ended_has_no_result_and_keeps_its_trials() {
        let mut left = 3;
        let result = SEARCH.run(|_, _| {
            left -= 1;
            (left >= 0).then(|| (true, String::new()))
        });
        assert_eq!((result.rate, result.trials.len(), result.ended_early), (None, 3, true));
        let words = result_words(&result, &"p99<1ms".parse().unwrap());
        assert!(words.starts_with("ended before"), "{words}");
        assert!(!found(0.0, 0.0).ended_early);
    }

    #[test]
    fn what_a_longer_run_does_not_confirm_is_lowered() {
        let result = found(10_000.0, 9_500.0);
        let rate = result.rate.unwrap();
        assert!(rate <= 9_500.0 && rate > 9_000.0, "{rate}");
        let failed = result.trials.iter().filter(|trial| trial.confirming && !trial.meets).count();
        assert!(failed > 0);
        assert_eq!(found(10_000.0, 100.0).rate, None);
    }
}

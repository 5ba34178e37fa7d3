//! What a run records: times, counts, and errors by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::tape::Tape;

/// The longest time a histogram tells apart; anything longer counts as this.
const TIME_MAX: Duration = Duration::from_secs(120);
/// How many errors are kept word for word.
const EXAMPLES_MAX: usize = 5;

/// Nanoseconds of a duration; half a millennium at most.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as a whole number; what is no time is the end of all times.
pub fn whole_ns(ns: f64) -> u64 {
    Duration::try_from_secs_f64(ns / 1e9).map_or(u64::MAX, nanos)
}

/// The whole number next to a count or a time that is not negative.
pub fn whole(value: f64) -> u64 {
    // There is no checked conversion; the text of a number without decimals is exact.
    format!("{value:.0}").parse().unwrap_or(0)
}

/// The part of a run that counts, in nanoseconds since its start: warm-up lies before, cool-down
/// after. A query belongs to it by the moment it was *meant* to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// First nanosecond that counts.
    pub begin_ns: u64,
    /// First nanosecond that does not count any more.
    pub end_ns: u64,
}

impl Window {
    /// Whether a query meant for this moment counts.
    pub fn holds(&self, intended_ns: u64) -> bool {
        (self.begin_ns..self.end_ns).contains(&intended_ns)
    }

    /// Its length.
    pub fn seconds(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }
}

/// Everything one generator thread records.
/// Lives: one per generator thread.
pub struct Measured {
    /// Takes answers, errors and times, by second.
    pub tape: Tape,
    /// Counts of queries and bytes.
    pub counts: Counts,
    /// What went wrong, at any time of the run: an error in the warm-up is an error.
    pub errors: Errors,
}

/// Counts of queries and bytes, inside the window unless said otherwise. Answers are on the tape.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Queries that waited for a free place on their connection before they could be sent; the
    /// wait is the server's doing and part of the response time. Open loop only.
    pub blocked: u64,
    /// Frame bytes of all hits.
    pub hit_bytes: u64,
    /// Frame bytes of all misses.
    pub miss_bytes: u64,
    /// Answers whose bytes changed during the run but still say what was registered.
    pub reworded: u64,
    /// Distinct topics whose answer was compared with the registration, in the whole run.
    pub topics_compared: u64,
}

/// Errors by kind, with a few examples.
#[derive(Debug, Clone, Default)]
pub struct Errors {
    by_kind: BTreeMap<&'static str, u64>,
    /// The first ones, for a person.
    pub examples: Vec<String>,
}

/// All kinds of error, as they are counted.
pub const ERROR_KINDS: [&str; 20] = [
    "time-out",
    "lost",
    "unsent",
    "wrong content",
    "code 0",
    "code 1",
    "code 2",
    "code 17",
    "another code",
    "closed",
    "reset",
    "socket",
    "malformed",
    "opaque",
    "silent",
    "refused",
    "connect time-out",
    "not connected",
    "went back",
    "never shown",
];

impl Errors {
    /// Counts one error.
    pub fn note(&mut self, kind: &'static str, example: impl FnOnce() -> String) {
        self.add(kind, 1);
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{kind}: {}", example()));
        }
    }

    fn add(&mut self, kind: &'static str, count: u64) {
        debug_assert!(ERROR_KINDS.contains(&kind), "{kind} could not be demanded");
        *self.by_kind.entry(kind).or_default() += count;
    }

    /// How often each kind happened.
    pub fn by_kind(&self) -> BTreeMap<String, u64> {
        self.by_kind.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
    }

    /// All errors.
    pub fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: Errors) {
        for (kind, count) in other.by_kind {
            self.add(kind, count);
        }
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }
}

impl Measured {
    /// Nothing yet.
    pub fn onto(tape: Tape) -> Self {
        Self { tape, counts: Counts::default(), errors: Errors::default() }
    }

    /// Counts one error. `counted`: it befell a query of the window.
    pub fn note(&mut self, counted: bool, kind: &'static str, example: impl FnOnce() -> String) {
        self.tape.slice(counted).errors.add(kind, 1);
        self.errors.note(kind, example);
    }
}

impl Counts {
    /// By name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let named = [
            ("blocked", self.blocked),
            ("hit bytes", self.hit_bytes),
            ("miss bytes", self.miss_bytes),
            ("reworded", self.reworded),
            ("topics compared", self.topics_compared),
        ];
        named.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: &Counts) {
        self.blocked += other.blocked;
        self.hit_bytes += other.hit_bytes;
        self.miss_bytes += other.miss_bytes;
        self.reworded += other.reworded;
        self.topics_compared += other.topics_compared;
    }
}

/// An empty histogram of nanoseconds: every one has these bounds, so that all can be added.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanos(TIME_MAX), 3).expect("bounds and precision are in range")
}

/// The percentiles that are printed, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub count: u64,
    pub min_us: f64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p99_9_us: f64,
    pub p99_99_us: f64,
    pub max_us: f64,
}

impl Percentiles {
    /// Reads them off a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            count: histogram.len(),
            min_us: histogram.min() as f64 / 1e3,
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999),
            max_us: histogram.max() as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_microseconds_of_a_histogram_of_nanoseconds() {
        let mut times = histogram();
        (1..=1000).for_each(|value| times.saturating_record(value * 1000));
        let all = Percentiles::of(&times);
        assert_eq!(all.count, 1000);
        assert!((all.p50_us - 500.0).abs() < 1.0 && (all.p99_us - 990.0).abs() < 1.0, "{all:?}");
    }

    #[test]
    fn merging_errors_counts_all_and_keeps_examples() {
        let (mut one, mut two) = (Errors::default(), Errors::default());
        one.note("code 1", || "a".into());
        two.note("code 1", || "b".into());
        one.merge(two);
        assert_eq!((one.total(), one.examples.len()), (2, 2));
    }

    #[test]
    fn a_time_over_the_limit_is_counted_and_not_dropped() {
        let mut times = histogram();
        times.saturating_record(nanos(TIME_MAX) * 10);
        assert_eq!(Percentiles::of(&times).count, 1);
    }
}

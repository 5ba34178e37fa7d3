//! What a run records: three histograms, counts, and errors by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest time a histogram tells apart; anything longer counts as this.
const TIME_MAX: Duration = Duration::from_secs(120);
/// How many errors are kept word for word.
const EXAMPLES_MAX: usize = 5;

/// Nanoseconds of a duration; half a millennium at most.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
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
}

/// Everything one generator thread recorded in the window.
/// Lives: one per generator thread, summed up after the run.
#[derive(Clone)]
pub struct Measured {
    /// From the intended time to the answer, in ns. In a closed loop a query is meant for the
    /// moment it is sent, so this equals `service`.
    pub response: Histogram<u64>,
    /// From the actual sending to the answer, in ns.
    pub service: Histogram<u64>,
    /// How late the generator itself was, in ns; open loop only.
    pub lateness: Histogram<u64>,
    /// Counts of queries and bytes.
    pub counts: Counts,
    /// What went wrong, at any time of the run: an error in the warm-up is an error.
    pub errors: Errors,
}

/// Counts of queries and bytes, inside the window unless said otherwise.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Counts {
    /// Right answers with a route.
    pub hits: u64,
    /// Right answers saying that there is no such topic.
    pub misses: u64,
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
#[derive(Debug, Clone, Default, Serialize)]
pub struct Errors {
    /// How often each kind happened.
    pub by_kind: BTreeMap<&'static str, u64>,
    /// The first ones, for a person.
    pub examples: Vec<String>,
}

impl Errors {
    /// Counts one error.
    pub fn note(&mut self, kind: &'static str, example: impl FnOnce() -> String) {
        self.add(kind, 1);
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{kind}: {}", example()));
        }
    }

    fn add(&mut self, kind: &'static str, count: u64) {
        *self.by_kind.entry(kind).or_default() += count;
    }

    /// All errors.
    pub fn total(&self) -> u64 {
        self.by_kind.values().sum()
    }

    fn merge(&mut self, other: Errors) {
        for (kind, count) in other.by_kind {
            self.add(kind, count);
        }
        self.examples.extend(other.examples);
        self.examples.truncate(EXAMPLES_MAX);
    }
}

impl Default for Measured {
    fn default() -> Self {
        let empty = Histogram::new_with_bounds(1, nanos(TIME_MAX), 3)
            .expect("bounds and precision are in range");
        Self {
            response: empty.clone(),
            service: empty.clone(),
            lateness: empty,
            counts: Counts::default(),
            errors: Errors::default(),
        }
    }
}

impl Measured {
    /// Right answers in the window.
    pub fn answers(&self) -> u64 {
        self.counts.hits + self.counts.misses
    }

    /// Adds what another thread recorded, without loss.
    pub fn merge(&mut self, other: Measured) {
        for (mine, theirs) in [
            (&mut self.response, &other.response),
            (&mut self.service, &other.service),
            (&mut self.lateness, &other.lateness),
        ] {
            mine.add(theirs).expect("all histograms have the same bounds");
        }
        let (mine, theirs) = (&mut self.counts, &other.counts);
        mine.hits += theirs.hits;
        mine.misses += theirs.misses;
        mine.blocked += theirs.blocked;
        mine.hit_bytes += theirs.hit_bytes;
        mine.miss_bytes += theirs.miss_bytes;
        mine.reworded += theirs.reworded;
        mine.topics_compared += theirs.topics_compared;
        self.errors.merge(other.errors);
    }
}

/// The percentiles that are printed, in microseconds.
#[derive(Debug, Clone, Default, Serialize)]
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
    fn merging_threads_loses_nothing() {
        let (mut one, mut two) = (Measured::default(), Measured::default());
        for value in 1..=500 {
            one.response.saturating_record(value * 1000);
            two.response.saturating_record((value + 500) * 1000);
        }
        one.errors.note("code", || "a".into());
        two.errors.note("code", || "b".into());
        one.merge(two);
        let all = Percentiles::of(&one.response);
        assert_eq!(all.count, 1000);
        assert!((all.p50_us - 500.0).abs() < 1.0 && (all.p99_us - 990.0).abs() < 1.0, "{all:?}");
        assert_eq!((one.errors.total(), one.errors.examples.len()), (2, 2));
    }

    #[test]
    fn a_time_over_the_limit_is_counted_and_not_dropped() {
        let mut measured = Measured::default();
        measured.response.saturating_record(nanos(TIME_MAX) * 10);
        assert_eq!(Percentiles::of(&measured.response).count, 1);
    }
}

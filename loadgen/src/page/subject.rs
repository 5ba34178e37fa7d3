//! What a page is about: the runs of one record that were made against one server, and the points
//! that are drawn of them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::failure::Failure;
use crate::measure::Percentiles;
use crate::record::{Record, Run, Second};

const NANOS_PER_SECOND: f64 = 1e9;
/// A second of which less than this belongs to the run says nothing about a rate.
const COVERED_MIN: f64 = 0.3;
const ROWS_A_DECADE: f64 = 7.0;

/// One column of tables, one line of plots.
pub struct Subject<'a> {
    /// Not shared with another subject of the page.
    pub name: String,
    /// Where its runs are from.
    pub record: &'a Record,
    /// All of them.
    pub runs: Vec<&'a Run>,
    /// The one that is drawn: of the valid ones that with the median p99.
    pub shown: &'a Run,
    /// Its number, from 1.
    pub shown_number: usize,
    /// By time.
    pub points: Vec<Point>,
}

/// One second of a run.
pub struct Point {
    /// Its number.
    pub second: u32,
    /// The middle of what belongs to the run, in seconds since its start.
    pub at: f64,
    /// Right answers per second; not a number when too little of the second belongs to the run.
    pub rate: f64,
    /// Errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// By timing.
    pub times: BTreeMap<String, Percentiles>,
}

impl Point {
    /// One percentile; not a number when nothing was recorded.
    pub fn us(&self, timing: &str, of: impl Fn(&Percentiles) -> f64) -> f64 {
        self.times.get(timing).map_or(f64::NAN, of)
    }
}

/// All subjects of these records, in their order.
///
/// # Errors
/// When a histogram is damaged.
pub fn subjects(records: &[Record]) -> Result<Vec<Subject<'_>>, Failure> {
    let mut found: Vec<Subject<'_>> = Vec::new();
    for record in records {
        let mut labels: Vec<&str> = Vec::new();
        for run in &record.runs {
            if !labels.contains(&run.label.as_str()) {
                labels.push(&run.label);
            }
        }
        for label in labels {
            let runs: Vec<&Run> = record.runs.iter().filter(|run| run.label == label).collect();
            let Some((shown_number, shown)) = middle(&runs) else { continue };
            let name = unique(label, &found);
            let points = points(shown)?;
            found.push(Subject { name, record, runs, shown, shown_number, points });
        }
    }
    Ok(found)
}

fn unique(label: &str, others: &[Subject<'_>]) -> String {
    let taken = |name: &str| others.iter().any(|other| other.name == name);
    if !taken(label) {
        return label.to_owned();
    }
    let numbered = (2..).map(|number| format!("{label} {number}"));
    numbered.into_iter().find(|name| !taken(name)).unwrap_or_default()
}

fn middle<'a>(runs: &[&'a Run]) -> Option<(usize, &'a Run)> {
    let valid = runs.iter().any(|run| run.invalid.is_empty());
    let mut usable: Vec<(usize, &Run)> = (1..)
        .zip(runs.iter().copied())
        .filter(|(_, run)| run.invalid.is_empty() || !valid)
        .collect();
    let p99 = |run: &Run| run.percentiles("response").p99_us;
    usable.sort_by(|a, b| p99(a.1).total_cmp(&p99(b.1)));
    usable.get(usable.len().saturating_sub(1) / 2).copied()
}

impl Subject<'_> {
    /// When its run ended, in seconds since the start of the load.
    pub fn end(&self) -> f64 {
        end(self.shown)
    }
}

fn end(run: &Run) -> f64 {
    let last = run.phases.iter().map(|span| span.end_ns).max().unwrap_or(0);
    last as f64 / NANOS_PER_SECOND
}

fn points(run: &Run) -> Result<Vec<Point>, Failure> {
    let end = end(run);
    let last = last_second(run);
    let mut by_second: BTreeMap<u32, Vec<&Second>> = BTreeMap::new();
    for second in &run.seconds {
        by_second.entry(second.second.min(last)).or_default().push(second);
    }
    by_second.into_iter().map(|(second, parts)| point(second, &parts, end)).collect()
}

/// The last second of which enough belongs to the run. Answers that came later, when nothing was
/// asked any more, are drawn with it: a few stragglers make no percentile of their own.
fn last_second(run: &Run) -> u32 {
    let end = end(run);
    let numbers = run.seconds.iter().map(|second| second.second);
    let covered = |second: &u32| end - f64::from(*second) >= COVERED_MIN;
    numbers.clone().filter(covered).max().or(numbers.min()).unwrap_or(0)
}

fn point(second: u32, parts: &[&Second], end: f64) -> Result<Point, Failure> {
    let begin = f64::from(second);
    let covered = (end.min(begin + 1.0) - begin).max(0.0);
    let own = parts.iter().filter(|part| part.second == second);
    let answers: u64 = own.flat_map(|part| part.answers.values()).sum();
    let mut point = Point {
        second,
        at: begin + if covered > 0.0 { covered / 2.0 } else { 0.5 },
        rate: if covered < COVERED_MIN { f64::NAN } else { answers as f64 / covered },
        errors: BTreeMap::new(),
        times: BTreeMap::new(),
    };
    for part in parts {
        for (kind, count) in &part.errors {
            *point.errors.entry(kind.clone()).or_default() += count;
        }
    }
    if let [only] = parts {
        let percentiles = |(timing, times): (&String, &crate::record::Times)| {
            (timing.clone(), times.percentiles.clone())
        };
        point.times = only.times.iter().map(percentiles).collect();
        return Ok(point);
    }
    // A phase or the run ends in this second: its percentiles are those of all parts together.
    let mut sums: BTreeMap<&String, Histogram<u64>> = BTreeMap::new();
    for part in parts {
        for (timing, times) in &part.times {
            let sum = sums.entry(timing).or_insert_with(crate::measure::histogram);
            // One with other bounds, from another version of this tool, is left out.
            let _ = sum.add(times.histogram()?);
        }
    }
    let percentiles =
        |(timing, sum): (&String, Histogram<u64>)| (timing.clone(), Percentiles::of(&sum));
    point.times = sums.into_iter().map(percentiles).collect();
    Ok(point)
}

/// Counts by second (columns) and by time (rows), for a heat map.
pub struct Heat {
    /// Seconds a column stands for.
    pub seconds_a_column: u32,
    /// By column and row. A row is `floor(log10(us) * ROWS_A_DECADE)`.
    pub cells: BTreeMap<(u32, i32), u64>,
}

impl Heat {
    /// Of the response times of a run.
    ///
    /// # Errors
    /// When a histogram is damaged.
    pub fn of(run: &Run, columns_max: u32) -> Result<Self, Failure> {
        let last = last_second(run);
        let seconds_a_column = last / columns_max + 1;
        let mut cells = BTreeMap::new();
        for second in &run.seconds {
            let Some(times) = second.times.get("response") else { continue };
            for step in times.histogram()?.iter_recorded() {
                let us = (step.value_iterated_to() as f64 / 1e3).max(0.1);
                let row = whole(us.log10() * ROWS_A_DECADE);
                let key = (second.second.min(last) / seconds_a_column, row);
                *cells.entry(key).or_default() += step.count_since_last_iteration();
            }
        }
        Ok(Self { seconds_a_column, cells })
    }

    /// Where a row begins, in us.
    pub fn us(row: i32) -> f64 {
        10_f64.powf(f64::from(row) / ROWS_A_DECADE)
    }
}

/// The whole number at or below a small one.
fn whole(value: f64) -> i32 {
    (-100..=100).rev().find(|row| f64::from(*row) <= value).unwrap_or(-100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::record::{Phase, PhaseSpan, Server, Times};

    fn times(from_us: u64, to_us: u64) -> Times {
        let mut times = crate::measure::histogram();
        (from_us..=to_us).for_each(|us| times.saturating_record(us * 1000));
        Times::of(&times)
    }

    fn second(second: u32, phase: Phase, times: Times) -> Second {
        Second {
            second,
            phase,
            answers: BTreeMap::from([("hit".into(), times.percentiles.count)]),
            errors: BTreeMap::new(),
            times: BTreeMap::from([("response".into(), times)]),
        }
    }

    fn run(seconds: Vec<Second>, end_ns: u64) -> Run {
        let phases = vec![PhaseSpan { phase: Phase::Measured, begin_ns: 0, end_ns }];
        Run { label: "server".into(), seconds, phases, ..Run::default() }
    }

    #[test]
    fn a_second_in_which_a_phase_ends_is_one_point_of_both_parts() {
        let parts = vec![
            second(0, Phase::WarmUp, times(1, 100)),
            second(0, Phase::Measured, times(101, 200)),
        ];
        let points = points(&run(parts, 1_000_000_000)).unwrap();
        assert_eq!((points.len(), points[0].rate), (1, 200.0));
        let p50 = points[0].us("response", |p| p.p50_us);
        assert!((p50 - 100.0).abs() < 1.0, "{p50}");
    }

    #[test]
    fn a_second_that_is_cut_short_does_not_look_like_a_slow_one() {
        let of = |end_ns| {
            let run = run(vec![second(0, Phase::Measured, times(1, 500))], end_ns);
            points(&run).unwrap()[0].rate
        };
        assert_eq!(of(500_000_000), 1000.0);
        assert!(of(100_000_000).is_nan());
    }

    #[test]
    fn the_run_that_is_drawn_is_a_valid_one_in_the_middle() {
        let of = |p99_us: f64, invalid: &[&str]| {
            let mut run = run(Vec::new(), 0);
            let percentiles = Percentiles { p99_us, ..Percentiles::default() };
            let times = Times { percentiles, ..Times::default() };
            run.totals.times.insert("response".into(), times);
            run.invalid = invalid.iter().map(|why| (*why).to_owned()).collect();
            run
        };
        let runs = vec![of(30.0, &[]), of(20.0, &["late"]), of(10.0, &[]), of(90.0, &[])];
        let record = Record::of(&Host::now(), Server::default(), 1, serde_json::json!({}), runs);
        let records = [record.clone(), record];
        let subjects = subjects(&records).unwrap();
        assert_eq!((subjects[0].shown_number, subjects[0].runs.len()), (1, 4));
        assert_eq!((subjects[0].name.as_str(), subjects[1].name.as_str()), ("server", "server 2"));
    }

    #[test]
    fn the_cells_of_a_heat_map_hold_every_answer() {
        let seconds = (0..10).map(|n| second(n, Phase::Measured, times(1, 1000))).collect();
        let heat = Heat::of(&run(seconds, 10_000_000_000), 4).unwrap();
        assert_eq!(heat.seconds_a_column, 3);
        assert_eq!(heat.cells.values().sum::<u64>(), 10_000);
        assert_eq!(heat.cells.keys().map(|(column, _)| *column).max(), Some(3));
    }
}

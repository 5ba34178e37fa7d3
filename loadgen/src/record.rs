//! The record of a run: what `--json` writes, what `report` reads back, what every page, table and
//! log is made from. Nothing here knows how load is made.
//!
//! ```text
//!  generator threads --Slice--> tape::Collector --+
//!                                                 +--> Run --> Record --> JSON, HTML, CSV, hlog
//!  /proc, once a second ----------> Sample -------+
//! ```
//!
//! Names of answers, errors and timings are open sets: a reader shows those it does not know.
//! A member may be added under the same [`SCHEMA`]; one that changes its meaning needs another.

use std::collections::BTreeMap;
use std::path::Path;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::compare::Spread;
use crate::failure::{Failure, run_failure, usage};
use crate::host::Host;
use crate::measure::Percentiles;
use crate::process::Usage;
use crate::tape::base64;

/// Name and version of the JSON layout.
pub const SCHEMA: &str = "guidepost-loadgen/2";
/// CPU of other processes, as a share of one CPU, that spoils a measurement.
const NOISY_SHARE: f64 = 0.1;

/// All of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where and when the generator ran, and its command line.
    pub host: Host,
    /// Whom the load went to.
    pub server: Server,
    /// Makes questions and arrival times.
    pub seed: u64,
    /// Digest of everything that decides what is sent: records with the same one may be compared.
    pub workload_hash: String,
    /// The load, the fleet and such, as whoever made the load describes them.
    pub config: serde_json::Value,
    /// One entry a repeat, in the order in which they were made. A comparison has those of the
    /// floor in between; their labels differ.
    pub runs: Vec<Run>,
    /// Over the valid runs: by label, then by figure. See [`Record::spread`].
    pub repeats: BTreeMap<String, BTreeMap<String, Spread>>,
    /// What was demanded by `--assert`, and whether it holds.
    pub assertions: Vec<Verdict>,
}

/// Whom a run was made against.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Server {
    /// Its name in pages and tables.
    pub label: String,
    /// `HOST:PORT`.
    pub address: String,
    /// What it says of itself: product or language, and version.
    pub version: Option<String>,
    /// Its command line, when it is a process of this machine.
    pub command: Option<String>,
    /// The CPUs it may run on, as the kernel lists them.
    pub cpus_allowed: Option<String>,
}

/// One demand and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// As demanded, such as `p99.9<2ms`.
    pub demand: String,
    /// What was found, in the unit of the demand; `None` when there is no such figure.
    pub found: Option<f64>,
    /// Whether it holds.
    pub holds: bool,
    /// The same in words.
    pub words: String,
}

/// One repeat.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Run {
    /// Whom it was made against: `server`, `floor`.
    pub label: String,
    /// Start of the load, ms since 1970.
    pub started_unix_ms: u64,
    /// `open loop` or `closed loop`.
    pub mode: String,
    /// In order, without gaps.
    pub phases: Vec<PhaseSpan>,
    /// The whole run, by second and phase. Adding up those of [`Phase::Measured`] gives
    /// [`Totals::times`] without loss.
    pub seconds: Vec<Second>,
    /// The measured phase.
    pub totals: Totals,
    /// Looks at the processes, about one a second.
    pub samples: Vec<Sample>,
    /// What the measured phase cost; `None` when it was never reached.
    pub cost: Option<Cost>,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// Why its numbers must not be used; empty when they may be.
    pub invalid: Vec<String>,
}

/// What was used between a look at the beginning of the measured phase and one at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Between the looks: a little longer than the phase when the machine is busy.
    pub seconds: f64,
    /// Answers between the looks, which CPU time is divided by: right or not, but of a living fleet
    /// the right ones.
    pub answers: u64,
    /// The server; `None` when it is on another machine.
    pub server: Option<Usage>,
    /// This process.
    pub generator: Option<Usage>,
    /// CPU of all other processes of the machine, in ns.
    pub others_cpu_ns: Option<u64>,
    /// CPU the hypervisor took away, in ns.
    pub steal_ns: Option<u64>,
}

impl Cost {
    /// The server's CPU for one answer, in us.
    pub fn server_us_per_answer(&self) -> Option<f64> {
        let cpu_ns = self.server.as_ref()?.cpu_ns;
        (self.answers > 0).then(|| cpu_ns as f64 / 1e3 / self.answers as f64)
    }

    /// CPU of other processes, as a share of one CPU.
    pub fn others_share(&self) -> f64 {
        self.others_cpu_ns.unwrap_or(0) as f64 / 1e9 / self.seconds.max(1e-9)
    }
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Load that is not counted.
    WarmUp,
    /// What counts. A query belongs to it by the moment it was *meant* to be sent.
    Measured,
    /// Load that is not counted any more.
    CoolDown,
}

impl Phase {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Phase::WarmUp => "warm-up",
            Phase::Measured => "measured",
            Phase::CoolDown => "cool-down",
        }
    }
}

/// When a part of a run was, in ns since the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSpan {
    /// Which part.
    pub phase: Phase,
    /// Its first nanosecond.
    pub begin_ns: u64,
    /// One past its last.
    pub end_ns: u64,
}

/// What was seen in one second. A second in which a phase ends has an entry for either phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Since the start of the load: 0 is the first.
    pub second: u32,
    /// The phase for which the queries were meant.
    pub phase: Phase,
    /// Right answers by kind, such as `hit`, by the moment they came.
    pub answers: BTreeMap<String, u64>,
    /// Errors by kind, such as `time-out`.
    pub errors: BTreeMap<String, u64>,
    /// By the name of a [`crate::tape::Timing`].
    pub times: BTreeMap<String, Times>,
}

/// The sum of the measured phase.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Length of the phase.
    pub seconds: f64,
    /// Right answers per second to the queries of the phase.
    pub rate: f64,
    /// Queries per second as demanded; `None` in a closed loop.
    pub demanded_rate: Option<f64>,
    /// Right answers by kind.
    pub answers: BTreeMap<String, u64>,
    /// Errors by kind. Those of the warm-up are in here too.
    pub errors: BTreeMap<String, u64>,
    /// The first errors, for a person.
    pub error_examples: Vec<String>,
    /// Whatever else was counted: bytes, topics compared, queries that waited for a place.
    pub counts: BTreeMap<String, u64>,
    /// By the name of a [`crate::tape::Timing`].
    pub times: BTreeMap<String, Times>,
}

/// A histogram of nanoseconds: the usual percentiles of it, and all of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// In microseconds.
    #[serde(flatten)]
    pub percentiles: Percentiles,
    /// The histogram as HdrHistogram V2, deflated, in base64: what a line of a `.hlog` ends with.
    pub hdr: String,
}

/// One look at the processes. CPU and switches are those since the look before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, in ns since the start of the load.
    pub at_ns: u64,
    /// Since the look before.
    pub elapsed_ns: u64,
    /// The server; `None` when it is on another machine.
    pub server: Option<Usage>,
    /// This process.
    pub generator: Option<Usage>,
}

impl Times {
    /// Keeps a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut bytes)
            .expect("a Vec takes every byte, and counts are below 2^63");
        Self { percentiles: Percentiles::of(histogram), hdr: base64::encode(&bytes) }
    }

    /// The histogram.
    ///
    /// # Errors
    /// When this is none.
    pub fn histogram(&self) -> Result<Histogram<u64>, Failure> {
        let broken = |why: &str| usage(format!("a histogram of the record is damaged: {why}"));
        let bytes = base64::decode(&self.hdr).ok_or_else(|| broken("no base64"))?;
        let histogram: Result<Histogram<u64>, _> =
            Deserializer::new().deserialize(&mut bytes.as_slice());
        histogram.map_err(|e| broken(&e.to_string()))
    }
}

/// Why a run with errors must not be used.
pub fn errors_words(errors: u64) -> String {
    format!("{errors} errors")
}

impl Run {
    /// The span of a phase, if the run has it.
    pub fn span(&self, phase: Phase) -> Option<PhaseSpan> {
        self.phases.iter().copied().find(|span| span.phase == phase)
    }

    /// Percentiles of the measured phase, in microseconds; all zero when nothing was recorded.
    pub fn percentiles(&self, timing: &str) -> Percentiles {
        self.totals.times.get(timing).map(|times| times.percentiles.clone()).unwrap_or_default()
    }

    /// All right answers of the measured phase.
    pub fn answers(&self) -> u64 {
        self.totals.answers.values().sum()
    }

    /// All errors.
    pub fn errors(&self) -> u64 {
        self.totals.errors.values().sum()
    }

    /// The server's CPU for one answer, in us.
    pub fn server_us_per_answer(&self) -> Option<f64> {
        self.cost.as_ref()?.server_us_per_answer()
    }

    /// Whether other processes used so much CPU that times and CPU per answer (through shared
    /// caches and forced switches) say little.
    pub fn is_noisy(&self) -> bool {
        self.cost.as_ref().is_some_and(|cost| cost.others_share() > NOISY_SHARE)
    }

    /// Something else that was counted; 0 when it was not.
    pub fn count(&self, name: &str) -> u64 {
        self.totals.counts.get(name).copied().unwrap_or(0)
    }

    /// Mean frame bytes of the answers of a kind; `None` without any, or when nobody counted.
    pub fn answer_bytes(&self, kind: &str) -> Option<f64> {
        let answers = self.totals.answers.get(kind).copied().filter(|count| *count > 0)?;
        let bytes = self.totals.counts.get(&format!("{kind} bytes"))?;
        Some(*bytes as f64 / answers as f64)
    }

    /// The figures that repeats are compared by, with their units in the names.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let response = self.percentiles("response");
        let mut figures = BTreeMap::from([
            ("rate".to_owned(), self.totals.rate),
            ("errors".to_owned(), self.errors() as f64),
            ("p50_us".to_owned(), response.p50_us),
            ("p99_us".to_owned(), response.p99_us),
            ("p99_9_us".to_owned(), response.p99_9_us),
            ("max_us".to_owned(), response.max_us),
        ]);
        let cpu = self.server_us_per_answer().map(|us| ("server_us_per_answer".to_owned(), us));
        figures.extend(cpu);
        figures
    }
}

/// Members of a configuration that decide how load is made, and not which: they are no part of
/// [`Record::workload_hash`].
const NO_WORKLOAD: [&str; 6] =
    ["at_once", "fill", "lateness_bound_us", "pin", "threads", "timeout_ms"];

impl Record {
    /// A record of these runs, without assertions.
    pub fn of(
        host: &Host,
        server: Server,
        seed: u64,
        config: serde_json::Value,
        runs: Vec<Run>,
    ) -> Self {
        let mut text = String::new();
        canonical(&config, &mut text);
        Self {
            schema: SCHEMA.to_owned(),
            host: host.clone(),
            server,
            seed,
            workload_hash: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes())),
            config,
            repeats: Self::spread(&runs),
            runs,
            assertions: Vec::new(),
        }
    }

    /// Median and range of each figure over the valid runs, by label.
    pub fn spread(runs: &[Run]) -> BTreeMap<String, BTreeMap<String, Spread>> {
        let mut values: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        for run in runs.iter().filter(|run| run.invalid.is_empty()) {
            let of_label = values.entry(run.label.clone()).or_default();
            for (figure, value) in run.figures() {
                of_label.entry(figure).or_default().push(value);
            }
        }
        let spread = |(figure, values): (String, Vec<f64>)| Some((figure, Spread::of(values)?));
        let of_label = |figures: BTreeMap<String, Vec<f64>>| {
            figures.into_iter().filter_map(spread).collect::<BTreeMap<_, _>>()
        };
        values.into_iter().map(|(label, figures)| (label, of_label(figures))).collect()
    }

    /// Whether every run may be used.
    pub fn is_valid(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(|run| run.invalid.is_empty())
    }

    /// Writes it as JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_to(&self, path: &Path) -> Result<(), Failure> {
        let failed = |e: String| run_failure(format!("writing {}: {e}", path.display()));
        let text = serde_json::to_string_pretty(self).map_err(|e| failed(e.to_string()))?;
        std::fs::write(path, text + "\n").map_err(|e| failed(e.to_string()))
    }

    /// Reads one back.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the file is none, saying what it should be.
    pub fn read_from(path: &Path) -> Result<Self, Failure> {
        let name = path.display();
        let text = std::fs::read(path).map_err(|e| usage(format!("reading {name}: {e}")))?;
        let wanted = format!("give a file that --json wrote (schema {SCHEMA})");
        let value: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|e| usage(format!("{name} is no JSON: {e}; {wanted}")))?;
        match value["schema"].as_str() {
            Some(SCHEMA) => {}
            Some(other) => return Err(usage(format!("{name} has schema {other}; {wanted}"))),
            None => return Err(usage(format!("{name} has no schema; {wanted}"))),
        }
        serde_json::from_value(value).map_err(|e| usage(format!("{name}: {e}; {wanted}")))
    }
}

/// The same text for the same members in any order, without [`NO_WORKLOAD`].
fn canonical(value: &serde_json::Value, out: &mut String) {
    let serde_json::Value::Object(members) = value else {
        out.push_str(&value.to_string());
        return;
    };
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| name.as_str());
    out.push('{');
    for (name, value) in members {
        if !NO_WORKLOAD.contains(&name.as_str()) {
            out.push_str(name);
            out.push(':');
            canonical(value, out);
            out.push(',');
        }
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(rate: f64) -> Run {
        let mut times = crate::measure::histogram();
        (1..=1000).for_each(|value| times.saturating_record(value * 1000));
        let times = BTreeMap::from([("response".to_owned(), Times::of(&times))]);
        let totals = Totals { rate, times, ..Totals::default() };
        Run { label: "server".into(), totals, ..Run::default() }
    }

    fn record(config: serde_json::Value, runs: Vec<Run>) -> Record {
        Record::of(&Host::now(), Server::default(), 7, config, runs)
    }

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let path = std::env::temp_dir().join(format!("loadgen-record-{}", std::process::id()));
        let written = record(json!({"load": {"rate": 5}}), vec![run(10.0)]);
        written.write_to(&path).unwrap();
        let read = Record::read_from(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let json = |record: &Record| serde_json::to_value(record).unwrap();
        assert_eq!(json(&read), json(&written));
        let times = &read.runs[0].totals.times["response"];
        assert_eq!(times.histogram().unwrap().len(), 1000);
    }

    #[test]
    fn a_file_that_is_no_record_is_refused_with_what_to_give() {
        let path = std::env::temp_dir().join(format!("loadgen-no-record-{}", std::process::id()));
        for (text, why) in [("{", "no JSON"), ("{}", "no schema"), (r#"{"schema":"x/9"}"#, "x/9")] {
            std::fs::write(&path, text).unwrap();
            let refused = Record::read_from(&path).unwrap_err().to_string();
            assert!(refused.contains(why) && refused.contains("--json"), "{refused}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_workload_hash_is_of_what_is_sent_and_not_of_how() {
        let hash = |config| record(config, Vec::new()).workload_hash;
        let this = hash(json!({"load": {"rate": 5, "pin": [1]}, "fleet": {"topics": 3}}));
        assert_eq!(this, hash(json!({"fleet": {"topics": 3}, "load": {"pin": [0], "rate": 5}})));
        assert_ne!(this, hash(json!({"fleet": {"topics": 4}, "load": {"rate": 5}})));
    }

    #[test]
    fn repeats_are_summed_up_by_their_median_without_the_invalid_ones() {
        let invalid = Run { invalid: vec!["no".into()], ..run(1e9) };
        let runs = vec![run(30.0), invalid, run(10.0), run(11.0)];
        let spread = record(json!({}), runs).repeats["server"]["rate"];
        assert_eq!(spread, Spread { median: 11.0, min: 10.0, max: 30.0 });
    }
}

//! Results in words and in JSON.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::compare::{Comparison, Spread};
use crate::failure::{Failure, run_failure};
use crate::fill::FillReport;
use crate::fleet::Fleet;
use crate::host::Host;
use crate::measure::Percentiles;
use crate::process::{Process, Usage};
use crate::run::{Load, RunResult};

/// Name and version of the JSON layout. A member may be added without a new version.
pub const SCHEMA: &str = "guidepost-loadgen/1";

/// All of it, for machines.
#[derive(Serialize)]
#[expect(missing_docs, reason = "the parts are documented where they are defined")]
pub struct Document<'a> {
    pub schema: &'static str,
    pub host: &'a Host,
    pub load: Option<&'a Load>,
    pub fleet: Option<&'a Fleet>,
    pub fill: Option<&'a FillReport>,
    pub server: Option<&'a Process>,
    pub run: Option<&'a RunResult>,
    pub comparison: Option<&'a Comparison>,
}

impl<'a> Document<'a> {
    /// One that says nothing yet but where it was measured.
    pub fn empty(host: &'a Host) -> Self {
        Document {
            schema: SCHEMA,
            host,
            load: None,
            fleet: None,
            fill: None,
            server: None,
            run: None,
            comparison: None,
        }
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_to(&self, path: &Path) -> Result<(), Failure> {
        let failed = |e: String| run_failure(format!("writing {}: {e}", path.display()));
        let text = serde_json::to_string_pretty(self).map_err(|e| failed(e.to_string()))?;
        std::fs::write(path, text + "\n").map_err(|e| failed(e.to_string()))
    }
}

/// What filling took.
pub fn fill_words(fleet: &Fleet, report: &FillReport) -> String {
    let megabytes = report.body_bytes as f64 / 1e6;
    format!(
        "filled: {} brokers, {} topics on {} of them each; {} registrations, {megabytes:.1} MB in \
         {:.2} s",
        fleet.brokers, fleet.topics, fleet.route_width, report.calls, report.seconds
    )
}

/// What the load is.
pub fn load_words(load: &Load) -> String {
    let mode = match load.rate {
        None => "closed loop (a slow server is asked less)".to_owned(),
        Some(rate) => format!("open loop at {rate}/s, {:?} arrivals", load.arrivals),
    };
    let pin = if load.pin.is_empty() {
        "not pinned".to_owned()
    } else {
        format!("pinned to {:?}", load.pin)
    };
    format!(
        "load: {mode}; {} connections, depth {}, {} s after {} s of warm-up, {} topics, {:.1} % \
         misses, seed {}; {} generator thread(s), {pin}",
        load.connections,
        load.depth,
        load.seconds,
        load.warmup_seconds,
        load.topics,
        load.misses * 100.0,
        load.seed,
        load.threads,
    )
}

/// One run.
pub fn run_words(result: &RunResult, cpus: usize) -> String {
    let mut out = String::new();
    let RunResult { counts, errors, .. } = result;
    let ended = if result.interrupted { ", ended early" } else { "" };
    line(
        &mut out,
        &result.label,
        format!("{}, {:.2} s{ended}", result.mode, result.window_seconds),
    );
    let (hit, miss) = result.answer_bytes();
    let bytes = |mean: Option<f64>| mean.map_or("-".to_owned(), |b| format!("{b:.0}"));
    line(
        &mut out,
        "  answers",
        format!(
            "{:.0}/s; {} hits of {} bytes, {} misses of {} bytes; {} topics compared, {} reworded",
            result.rate(),
            counts.hits,
            bytes(hit),
            counts.misses,
            bytes(miss),
            counts.topics_compared,
            counts.reworded,
        ),
    );
    if errors.total() > 0 {
        line(&mut out, "  errors", format!("{:?}", errors.by_kind));
        errors.examples.iter().for_each(|example| line(&mut out, "", example.clone()));
    }
    let open = result.mode == "open loop";
    let from = if open { "from the intended time" } else { "from the sending" };
    line(&mut out, "  response us", format!("{} {from}", percentiles(&result.response)));
    if open {
        let late = percentiles(&result.lateness);
        line(
            &mut out,
            "  service us",
            format!("{} from the sending", percentiles(&result.service)),
        );
        line(&mut out, "  lateness us", format!("{late} of the generator itself"));
        let blocked = counts.blocked;
        line(&mut out, "  blocked", format!("{blocked} waited for a free place on a connection"));
    }
    usage_words(&mut out, "  server", result.server.as_ref(), result);
    usage_words(&mut out, "  generator", result.generator.as_ref(), result);
    if let Some((others, steal)) = result.others_cpu_ns.zip(result.steal_ns) {
        let share = |ns: u64| ns as f64 / 1e7 / result.window_seconds.max(1e-9);
        line(
            &mut out,
            "  machine",
            format!(
                "other processes used {:.0} % of a CPU, the hypervisor took {:.0} %; there are \
                 {cpus} CPUs",
                share(others),
                share(steal)
            ),
        );
    }
    if result.is_noisy() {
        line(&mut out, "  NOISY", "other processes were busy; repeat on a quiet machine".into());
    }
    for why in &result.invalid {
        line(&mut out, "  INVALID", why.clone());
    }
    out
}

fn usage_words(out: &mut String, who: &str, usage: Option<&Usage>, result: &RunResult) {
    let Some(usage) = usage else { return };
    let answers = result.window_answers.max(1) as f64;
    let busy = usage.cpu_ns as f64 / 1e7 / result.window_seconds.max(1e-9);
    line(
        out,
        who,
        format!(
            "{:.2} us CPU per query ({}), {busy:.0} % of a CPU; RSS {:.1} MiB; switches per query \
             {:.3} waiting, {:.3} forced",
            usage.cpu_ns as f64 / 1e3 / answers,
            usage.cpu_source,
            usage.rss_bytes as f64 / f64::from(1 << 20),
            usage.voluntary_switches as f64 / answers,
            usage.forced_switches as f64 / answers,
        ),
    );
}

fn percentiles(p: &Percentiles) -> String {
    format!(
        "p50 {:.0}  p90 {:.0}  p99 {:.0}  p99.9 {:.0}  p99.99 {:.0}  max {:.0}",
        p.p50_us, p.p90_us, p.p99_us, p.p99_9_us, p.p99_99_us, p.max_us
    )
}

fn line(out: &mut String, name: &str, text: String) {
    writeln!(out, "{name:<13} {text}").expect("a String takes every character");
}

/// One line for one run of a comparison, while it goes on.
pub fn progress_words(round: u32, result: &RunResult) -> String {
    let cpu = result.server_us_per_query().map_or("?".to_owned(), |us| format!("{us:.2}"));
    let others = result.others_share() * 100.0;
    let invalid = if result.invalid.is_empty() {
        String::new()
    } else {
        format!("  INVALID: {}", result.invalid.join("; "))
    };
    format!(
        "round {round}  {:<8} {cpu:>8} us CPU/query  {:>9.0}/s  p50 {:.0} us  p99.9 {:.0} us  \
         others {others:.0} % of a CPU{invalid}",
        result.label,
        result.rate(),
        result.response.p50_us,
        result.response.p99_9_us,
    )
}

/// The table of a comparison.
pub fn comparison_words(comparison: &Comparison) -> String {
    let mut out = String::new();
    let cpu = comparison.floor_cpu.map_or("any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
    let bytes = comparison.floor_bytes;
    let _ = writeln!(
        out,
        "floor: one thread, epoll, on {cpu}; answers of {} bytes (hit) and {} bytes (miss)\n",
        bytes.hit, bytes.miss
    );
    let _ = writeln!(out, "{:<28} {:>9} {:>9} {:>9}", "", "median", "min", "max");
    for (name, spread) in [
        ("server, us CPU per query", comparison.server_us_per_query),
        ("floor, us CPU per query", comparison.floor_us_per_query),
        ("server / floor, by round", comparison.ratio),
    ] {
        let Some(Spread { median, min, max }) = spread else {
            let _ = writeln!(out, "{name:<28} not measured");
            continue;
        };
        let _ = writeln!(out, "{name:<28} {median:>9.3} {min:>9.3} {max:>9.3}");
    }
    let ratios: Vec<String> = comparison
        .rounds
        .iter()
        .map(|round| round.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.3}")))
        .collect();
    let _ = writeln!(out, "ratio of each round: {}", ratios.join(" "));
    let noisy = comparison.runs().filter(|run| run.is_noisy()).count();
    if noisy > 0 {
        let _ = writeln!(
            out,
            "NOISY: other processes were busy in {noisy} of {} runs; repeat on a quiet machine",
            comparison.runs().count()
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::FloorBytes;

    #[test]
    fn the_table_has_the_three_lines_that_count() {
        let spread = |median| Some(Spread { median, min: 1.0, max: 9.0 });
        let words = comparison_words(&Comparison {
            floor_bytes: FloorBytes { hit: 980, miss: 300 },
            floor_cpu: Some(1),
            rounds: Vec::new(),
            server_us_per_query: spread(6.0),
            floor_us_per_query: spread(4.0),
            ratio: spread(1.5),
        });
        for part in ["980 bytes", "CPU 1", "6.000", "4.000", "1.500"] {
            assert!(words.contains(part), "{part} in {words}");
        }
    }
}

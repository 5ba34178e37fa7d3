//! Results in words.

use std::fmt::Write as _;

use crate::compare::{Comparison, Spread};
use crate::fill::FillReport;
use crate::fleet::Fleet;
use crate::life::stage::FIRST_CONNECT;
use crate::measure::Percentiles;
use crate::process::{Usage, mebibytes};
use crate::record::{Cost, Record, Run};
use crate::run::Load;
use crate::tape::Timing;

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
pub fn run_words(run: &Run, cpus: usize) -> String {
    let mut out = String::new();
    let ended = if run.interrupted { ", ended early" } else { "" };
    line(&mut out, &run.label, format!("{}, {:.2} s{ended}", run.mode, run.totals.seconds));
    let bytes =
        |kind| run.answer_bytes(kind).map_or(String::new(), |b| format!(" of {b:.0} bytes"));
    let kinds: Vec<String> = (run.totals.answers.iter())
        .map(|(kind, count)| format!("{count} {}{}", plural(kind, *count), bytes(kind)))
        .collect();
    let compared = match run.count("topics compared") {
        0 => String::new(),
        topics => format!("; {topics} topics compared, {} reworded", run.count("reworded")),
    };
    let answers = format!("{:.0}/s; {}{compared}", run.totals.rate, kinds.join(", "));
    line(&mut out, "  answers", answers);
    if run.errors() > 0 {
        let kinds: Vec<String> =
            run.totals.errors.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        line(&mut out, "  errors", kinds.join(", "));
        run.totals.error_examples.iter().for_each(|example| line(&mut out, "", example.clone()));
    }
    times_words(&mut out, run);
    if let Some(cost) = &run.cost {
        cost_words(&mut out, cost, cpus);
    }
    if run.is_noisy() {
        line(&mut out, "  NOISY", "other processes were busy; repeat on a quiet machine".into());
    }
    for why in &run.invalid {
        line(&mut out, "  INVALID", why.clone());
    }
    out
}

/// Median and range of each figure, when there are several runs.
pub fn repeats_words(record: &Record) -> String {
    let mut out = String::new();
    if record.runs.len() < 2 {
        return out;
    }
    for (label, figures) in &record.repeats {
        let valid =
            record.runs.iter().filter(|r| r.label == *label && r.invalid.is_empty()).count();
        let name = format!("{label}, {valid} runs");
        let _ = writeln!(out, "{name:<28} {:>12} {:>12} {:>12}", "median", "min", "max");
        for (figure, Spread { median, min, max }) in figures {
            let _ = writeln!(out, "{figure:<28} {median:>12.3} {min:>12.3} {max:>12.3}");
        }
    }
    out
}

fn plural(kind: &str, count: u64) -> String {
    match (count, kind.strip_suffix('y')) {
        (1, _) => kind.to_owned(),
        (_, Some(stem)) => format!("{stem}ies"),
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

fn times_words(out: &mut String, run: &Run) {
    let open = run.mode == "open loop";
    let meaning = |timing: &str| match timing {
        "response" if open => "from the intended time",
        "response" | "service" => "from the sending",
        "lateness" => "of the generator itself",
        "lateness of others" => "of the generator, with brokers and admin tools",
        "freshness" => "from a registration to its first sight",
        _ => "",
    };
    for timing in Timing::ALL.map(Timing::name).into_iter().chain([FIRST_CONNECT]) {
        // In a closed loop both count from the sending.
        if !run.totals.times.contains_key(timing) || (timing == "service" && !open) {
            continue;
        }
        let text = format!("{} {}", percentiles(&run.percentiles(timing)), meaning(timing));
        line(out, &format!("  {timing} us"), text.trim_end().to_owned());
    }
    if open {
        let blocked = run.count("blocked");
        line(out, "  blocked", format!("{blocked} waited for a free place on a connection"));
    }
}

fn cost_words(out: &mut String, cost: &Cost, cpus: usize) {
    for (who, usage) in [("  server", &cost.server), ("  generator", &cost.generator)] {
        if let Some(usage) = usage {
            usage_words(out, who, usage, cost);
        }
    }
    if let Some((others, steal)) = cost.others_cpu_ns.zip(cost.steal_ns) {
        let share = |ns: u64| ns as f64 / 1e7 / cost.seconds.max(1e-9);
        line(
            out,
            "  machine",
            format!(
                "other processes used {:.0} % of a CPU, the hypervisor took {:.0} %; there are \
                 {cpus} CPUs",
                share(others),
                share(steal)
            ),
        );
    }
}

fn usage_words(out: &mut String, who: &str, usage: &Usage, cost: &Cost) {
    let answers = cost.answers.max(1) as f64;
    let busy = usage.cpu_ns as f64 / 1e7 / cost.seconds.max(1e-9);
    line(
        out,
        who,
        format!(
            "{:.2} us CPU per query ({}), {busy:.0} % of a CPU; RSS {:.1} MiB; switches per query \
             {:.3} waiting, {:.3} forced",
            usage.cpu_ns as f64 / 1e3 / answers,
            usage.cpu_source,
            mebibytes(usage.rss_bytes),
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
pub fn progress_words(round: u32, run: &Run) -> String {
    let cpu = run.server_us_per_answer().map_or("?".to_owned(), |us| format!("{us:.2}"));
    let others = run.cost.as_ref().map_or(0.0, Cost::others_share) * 100.0;
    let response = run.percentiles("response");
    let invalid = if run.invalid.is_empty() {
        String::new()
    } else {
        format!("  INVALID: {}", run.invalid.join("; "))
    };
    format!(
        "round {round}  {:<8} {cpu:>8} us CPU/query  {:>9.0}/s  p50 {:.0} us  p99.9 {:.0} us  \
         others {others:.0} % of a CPU{invalid}",
        run.label, run.totals.rate, response.p50_us, response.p99_9_us,
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
            failure: None,
        });
        for part in ["980 bytes", "CPU 1", "6.000", "4.000", "1.500"] {
            assert!(words.contains(part), "{part} in {words}");
        }
    }
}

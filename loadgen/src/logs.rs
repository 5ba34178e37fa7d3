//! A record as files for other tools: HdrHistogram interval logs (`.hlog`), percentile
//! distributions (`.hgrm`) and a table of seconds (CSV).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::failure::{Failure, run_failure};
use crate::measure::{Percentiles, histogram};
use crate::process::Usage;
use crate::record::{Phase, Record, Run, Sample, Second};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Logs hold ns; tools show ms, as is usual for them.
const NS_PER_MS: f64 = 1e6;

/// One line a second, phase and timing, in the format `HistogramLogProcessor` reads. Lines without
/// a tag are response times of the measured phase against the server; the others say in their tag
/// what they are, such as `service`, `warm-up:response`, `floor:response`.
///
/// # Errors
/// When a histogram of the record is damaged.
pub fn hlog(record: &Record) -> Result<String, Failure> {
    let mut out = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let start = UNIX_EPOCH + Duration::from_millis(record.host.started_unix_ms);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("[loadgen {}; times in ns]", record.host.loadgen_version))
        .add_comment("[no tag: response times of the measured phase]")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut out, &mut serializer)
        .map_err(|e| run_failure(format!("writing a log: {e}")))?;
    let first_label = record.runs.first().map_or("", |run| run.label.as_str());
    for run in &record.runs {
        let since_start = run.started_unix_ms.saturating_sub(record.host.started_unix_ms);
        for second in &run.seconds {
            let begin =
                Duration::from_millis(since_start) + Duration::from_secs(u64::from(second.second));
            for (timing, times) in &second.times {
                let tag = tag(first_label, run, second, timing);
                let tag = tag.as_deref().and_then(Tag::new);
                let histogram = times.histogram()?;
                log.write_histogram(&histogram, begin, Duration::from_secs(1), tag)
                    .map_err(|e| run_failure(format!("writing a log: {e}")))?;
            }
        }
    }
    String::from_utf8(out).map_err(|e| run_failure(format!("writing a log: {e}")))
}

fn tag(first_label: &str, run: &Run, second: &Second, timing: &str) -> Option<String> {
    let mut parts = Vec::new();
    if run.label != first_label {
        // A tag ends at a comma or a blank.
        parts.push(run.label.replace([',', ' ', '\n', '\r'], "-"));
    }
    if second.phase != Phase::Measured {
        parts.push(second.phase.name().to_owned());
    }
    if !parts.is_empty() || timing != "response" {
        parts.push(timing.to_owned());
    }
    (!parts.is_empty()).then(|| parts.join(":"))
}

/// The percentile distribution of response times, in ms, of all valid runs against the server; of
/// the first one when none is valid, as HdrHistogram prints it and
/// its plotter reads it.
///
/// # Errors
/// When a histogram of the record is damaged.
pub fn hgrm(record: &Record) -> Result<String, Failure> {
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let label = record.runs.first().map(|run| run.label.as_str());
    let ours = || record.runs.iter().filter(|run| Some(run.label.as_str()) == label);
    let valid: Vec<&Run> = ours().filter(|run| run.invalid.is_empty()).collect();
    let runs = if valid.is_empty() { ours().take(1).collect() } else { valid };
    let mut times = histogram();
    for run in runs {
        if let Some(more) = run.totals.times.get("response") {
            times += more.histogram()?;
        }
    }
    if times.is_empty() {
        return Ok(out);
    }
    let ms = |ns: f64| ns / NS_PER_MS;
    for step in times.iter_quantiles(5) {
        let (value, quantile) = (ms(step.value_iterated_to() as f64), step.quantile_iterated_to());
        let _ = write!(
            out,
            "{value:>12.3} {quantile:>2.12} {:>10}",
            times.count_between(0, step.value_iterated_to())
        );
        let _ = match quantile {
            1.0.. => writeln!(out),
            _ => writeln!(out, " {:>14.2}", 1.0 / (1.0 - quantile)),
        };
    }
    footer(&mut out, &times);
    Ok(out)
}

fn footer(out: &mut String, times: &Histogram<u64>) {
    let ms = |ns: f64| ns / NS_PER_MS;
    let (mean, deviation) = (ms(times.mean()), ms(times.stdev()));
    let (max, count) = (ms(times.max() as f64), times.len());
    let _ = writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]");
    let _ = writeln!(out, "#[Max     = {max:>12.3}, Total count    = {count:>12}]");
    // As many as it takes to tell two values apart that differ in the last digit kept.
    let parts = (2 * 10_u64.pow(times.sigfig().into())).next_power_of_two();
    let _ = writeln!(out, "#[Buckets = {:>12}, SubBuckets     = {parts:>12}]", times.buckets());
}

const CSV_PERCENTILES: [&str; 6] = ["p50", "p90", "p99", "p99_9", "p99_99", "max"];

/// A table with a row for each run, second and phase.
pub fn csv(record: &Record) -> String {
    let seconds = || record.runs.iter().flat_map(|run| &run.seconds);
    let answers: BTreeSet<&String> = seconds().flat_map(|second| second.answers.keys()).collect();
    let errors: BTreeSet<&String> = seconds().flat_map(|second| second.errors.keys()).collect();
    let timings: BTreeSet<&String> = seconds().flat_map(|second| second.times.keys()).collect();
    let mut out = "run,label,second,phase,answers".to_owned();
    answers.iter().for_each(|kind| cell(&mut out, &format!("answers {kind}")));
    out.push_str(",errors");
    errors.iter().for_each(|kind| cell(&mut out, &format!("errors {kind}")));
    for timing in &timings {
        CSV_PERCENTILES.iter().for_each(|p| cell(&mut out, &format!("{timing}_{p}_us")));
    }
    for who in ["server", "generator"] {
        ["cpu_ms", "rss_bytes", "voluntary_switches", "forced_switches"]
            .iter()
            .for_each(|what| cell(&mut out, &format!("{who}_{what}")));
    }
    out.push('\n');
    for (number, run) in record.runs.iter().enumerate() {
        for second in &run.seconds {
            let _ = write!(out, "{}", number + 1);
            cell(&mut out, &run.label);
            let sum =
                |counts: &std::collections::BTreeMap<String, u64>| counts.values().sum::<u64>();
            let _ =
                write!(out, ",{},{},{}", second.second, second.phase.name(), sum(&second.answers));
            let count = |out: &mut String, value: Option<&u64>| {
                let _ = write!(out, ",{}", value.copied().unwrap_or(0));
            };
            answers.iter().for_each(|kind| count(&mut out, second.answers.get(*kind)));
            let _ = write!(out, ",{}", sum(&second.errors));
            errors.iter().for_each(|kind| count(&mut out, second.errors.get(*kind)));
            for timing in &timings {
                percentile_cells(&mut out, second.times.get(*timing).map(|t| &t.percentiles));
            }
            let sample = sample_of(run, second);
            usage_cells(&mut out, sample.and_then(|sample| sample.server.as_ref()));
            usage_cells(&mut out, sample.and_then(|sample| sample.generator.as_ref()));
            out.push('\n');
        }
    }
    out
}

/// The look that was taken nearest to the end of a second.
fn sample_of<'a>(run: &'a Run, second: &Second) -> Option<&'a Sample> {
    let end_ns = (u64::from(second.second) + 1) * NANOS_PER_SECOND;
    let near = |sample: &&Sample| sample.at_ns.abs_diff(end_ns) <= NANOS_PER_SECOND / 2;
    run.samples.iter().filter(near).min_by_key(|sample| sample.at_ns.abs_diff(end_ns))
}

fn percentile_cells(out: &mut String, percentiles: Option<&Percentiles>) {
    match percentiles {
        None => out.push_str(&",".repeat(CSV_PERCENTILES.len())),
        Some(p) => [p.p50_us, p.p90_us, p.p99_us, p.p99_9_us, p.p99_99_us, p.max_us]
            .iter()
            .for_each(|us| cell(out, &format!("{us:.1}"))),
    }
}

fn usage_cells(out: &mut String, usage: Option<&Usage>) {
    let Some(usage) = usage else { return out.push_str(",,,,") };
    let _ = write!(
        out,
        ",{:.1},{},{},{}",
        usage.cpu_ns as f64 / 1e6,
        usage.rss_bytes,
        usage.voluntary_switches,
        usage.forced_switches
    );
}

/// A comma and the text, quoted if it needs to be.
fn cell(out: &mut String, text: &str) {
    out.push(',');
    if text.contains([',', '"', '\n', '\r']) {
        let _ = write!(out, "\"{}\"", text.replace('"', "\"\""));
    } else {
        out.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::host::Host;
    use crate::measure::Window;
    use crate::record::{Server, Times};
    use crate::tape::{Collector, Timing, base64};

    /// Two seconds of warm-up, two of measurement; the second one 900 answers of 1 to 900 us.
    fn record() -> Record {
        let window = Window { begin_ns: 2 * NANOS_PER_SECOND, end_ns: 4 * NANOS_PER_SECOND };
        let mut collector = Collector::new(window);
        let mut tape = collector.tape(&[]);
        for second in 0..4 {
            tape.at(second * NANOS_PER_SECOND);
            for value in 1..=(second + 1) * 300 {
                let slice = tape.slice(second >= 2);
                slice.record(Timing::Response, value * 1000);
                slice.answers.add("hit", 1);
            }
            tape.slice(second >= 2).record(Timing::Lateness, 7_000);
        }
        tape.slice(true).errors.add("time-out", 2);
        drop(tape);
        collector.drain();
        let totals = collector.totals().packed(Phase::Measured);
        let mut run = Run { label: "server".into(), ..Run::default() };
        run.totals.times = totals.times;
        run.seconds = collector.seconds();
        let floor = Run { label: "the floor".into(), ..run.clone() };
        let runs = vec![run, floor];
        Record::of(&Host::now(), Server::default(), 1, serde_json::Value::Null, runs)
    }

    #[test]
    fn the_untagged_lines_of_a_log_add_up_to_the_totals() {
        let (record, mut sum) = (record(), crate::measure::histogram());
        let text = hlog(&record).unwrap();
        let mut tags = BTreeSet::new();
        for entry in IntervalLogIterator::new(text.as_bytes()) {
            let LogEntry::Interval(line) = entry.unwrap() else { continue };
            assert_eq!(line.duration(), Duration::from_secs(1));
            match line.tag() {
                Some(tag) => drop(tags.insert(tag.as_str().to_owned())),
                None => {
                    let bytes = base64::decode(line.encoded_histogram()).unwrap();
                    let times: Histogram<u64> =
                        Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                    sum.add(&times).unwrap();
                }
            }
        }
        assert_eq!(sum, record.runs[0].totals.times["response"].histogram().unwrap());
        for tag in ["lateness", "warm-up:response", "the-floor:response"] {
            assert!(tags.contains(tag), "{tag} in {tags:?}");
        }
    }

    #[test]
    fn a_distribution_ends_with_all_values_at_the_maximum() {
        let record = record();
        let text = hgrm(&record).unwrap();
        let last = text.lines().rfind(|line| line.contains("1.000000000000")).unwrap();
        let columns: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(columns, ["1.200", "1.000000000000", "2100"], "{text}");
        let times = record.runs[0].totals.times["response"].clone();
        assert!(text.contains(&format!("Total count    = {:>12}", 2100)), "{times:?} {text}");
        assert!(text.contains("SubBuckets     =         2048"), "{text}");
        // Repeats are added up; runs against the floor, and invalid ones, are not.
        let mut record = record;
        let mut more = vec![record.runs[0].clone(); 2];
        more[1].invalid.push("late".into());
        record.runs.extend(more);
        let text = hgrm(&record).unwrap();
        assert!(text.contains(&format!("Total count    = {:>12}", 4200)), "{text}");
    }

    #[test]
    fn the_table_has_as_many_cells_in_each_row_and_the_right_ones() {
        let mut record = record();
        record.runs[1].label = "a, \"b\"".into();
        record.runs[1].seconds.truncate(1);
        let text = csv(&record);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let (head, last) = (&rows[0], &rows[4]);
        assert!(rows[..5].iter().all(|row| row.len() == head.len()), "{text}");
        let of = |name: &str| last[head.iter().position(|column| *column == name).unwrap()];
        assert_eq!((of("second"), of("phase"), of("answers")), ("3", "measured", "1200"));
        assert_eq!((of("errors"), of("errors time-out")), ("2", "2"));
        assert_eq!((of("response_max_us"), of("server_cpu_ms")), ("1200.1", ""));
        assert!(text.contains("2,\"a, \"\"b\"\"\",0,warm-up,300"), "{text}");
    }

    #[test]
    fn a_damaged_histogram_is_an_error_and_not_a_crash() {
        let mut record = record();
        for hdr in ["!", "AAAA"] {
            let times = Times { hdr: hdr.into(), ..Times::default() };
            record.runs[0].seconds[0].times.insert("response".into(), times);
            assert!(hlog(&record).unwrap_err().to_string().contains("damaged"));
        }
    }
}

//! Which plots a page has, and what is in them. Of one server the percentiles are lines; of
//! several, the servers are.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::failure::Failure;
use crate::measure::Percentiles;
use crate::page::axis::{Axis, amount, micros, nines_of_count, three_digits};
use crate::page::plot::{Band, FRAMES, Frame, Plot, Series, escape};
use crate::page::subject::{Heat, Point, Subject};
use crate::record::{Phase, Sample};

/// Seconds up to which each has a text of its own.
const HINTS_MAX: usize = 400;
const HEAT_COLUMNS_MAX: u32 = 90;
/// Shades of a heat map.
const SHADES: u32 = 6;

type Pick = fn(&Percentiles) -> f64;
const P50: (&str, Pick) = ("p50", |p| p.p50_us);
const P99: (&str, Pick) = ("p99", |p| p.p99_us);
const P99_9: (&str, Pick) = ("p99.9", |p| p.p99_9_us);
const MAX: (&str, Pick) = ("max", |p| p.max_us);

/// All sections with plots.
///
/// # Errors
/// When a histogram is damaged.
pub fn sections(subjects: &[Subject<'_>]) -> Result<String, Failure> {
    let mut out = String::new();
    figure(
        &mut out,
        "Answers per second",
        "Right answers, by the moment they came.",
        &rate(subjects),
    );
    if let [only] = subjects {
        let note = "From the moment a query was meant to be sent to its answer, second by second.";
        let picks = [P50, P99, P99_9, MAX];
        figure(&mut out, "Response time", note, &of_one(only, "response", "response-time", &picks));
    } else {
        let note = "Half of the queries were answered faster than this.";
        let plot = of_many(subjects, "response", "response-p50", P50);
        figure(&mut out, "Response time, median", note, &plot);
        let note = "One query in a thousand took longer than this.";
        let plot = of_many(subjects, "response", "response-p99-9", P99_9);
        figure(&mut out, "Response time, p99.9", note, &plot);
    }
    let note = "How long the slower ones took: at 99 %, one query in a hundred took longer. Each \
                further nine takes as much room as the last.";
    figure(&mut out, "Latency spectrum", note, &spectrum(subjects)?);
    heat_maps(&mut out, subjects)?;
    other_times(&mut out, subjects);
    lateness(&mut out, subjects);
    errors(&mut out, subjects);
    usage(&mut out, subjects);
    Ok(out)
}

fn figure(out: &mut String, title: &str, note: &str, plot: &Plot) {
    let _ = write!(
        out,
        "<section><h2>{}</h2><p class=\"note\">{}</p><figure id=\"{}\">{}</figure></section>",
        escape(title),
        escape(note),
        plot.id,
        plot.svg()
    );
}

/// A section that says why it has no plot.
fn words(out: &mut String, id: &str, title: &str, text: &str) {
    let _ = write!(
        out,
        "<section id=\"{id}\"><h2>{}</h2><p class=\"note\">{}</p></section>",
        escape(title),
        escape(text)
    );
}

fn time_axis(subjects: &[Subject<'_>]) -> Axis {
    let end = subjects.iter().map(Subject::end).fold(0.0, f64::max);
    Axis::seconds("time since the start of the load", 0.0, end)
}

/// The phases that are not measured. Of several servers those of the first: they share a workload.
fn bands(subjects: &[Subject<'_>]) -> Vec<Band> {
    let spans = subjects.first().map_or(&[][..], |subject| &subject.shown.phases);
    let unmeasured = spans.iter().filter(|span| span.phase != Phase::Measured);
    let seconds = |ns: u64| ns as f64 / 1e9;
    unmeasured
        .map(|span| Band {
            from: seconds(span.begin_ns),
            to: seconds(span.end_ns),
            name: span.phase.name().to_owned(),
        })
        .collect()
}

/// A text for each second that has points.
fn hints(
    subjects: &[Subject<'_>],
    text: impl Fn(&Subject<'_>, &Point) -> String,
) -> Vec<(f64, f64, String)> {
    let seconds: BTreeSet<u32> =
        subjects.iter().flat_map(|subject| subject.points.iter().map(|p| p.second)).collect();
    if seconds.len() > HINTS_MAX {
        return Vec::new();
    }
    let line = |subject: &Subject<'_>, second: u32| {
        let point = subject.points.iter().find(|point| point.second == second)?;
        let name = if subjects.len() > 1 { format!("{}: ", subject.name) } else { String::new() };
        Some(format!("{name}{}", text(subject, point)))
    };
    let hint = |second: u32| {
        let lines: Vec<String> = subjects.iter().filter_map(|s| line(s, second)).collect();
        let from = f64::from(second);
        (from, from + 1.0, format!("second {second}\n{}", lines.join("\n")))
    };
    seconds.into_iter().map(hint).collect()
}

fn series(name: &str, style: usize, subject: &Subject<'_>, y: impl Fn(&Point) -> f64) -> Series {
    let points = subject.points.iter().map(|point| (point.at, y(point))).collect();
    Series { name: name.to_owned(), style, points }
}

/// The least and the greatest number in all series, if there is one.
fn range(series: &[Series]) -> Option<(f64, f64)> {
    let all = series.iter().flat_map(|s| &s.points).map(|(_, y)| *y).filter(|y| y.is_finite());
    all.fold(None, |range, y| {
        let (least, greatest) = range.unwrap_or((y, y));
        Some((f64::min(least, y), f64::max(greatest, y)))
    })
}

fn rate(subjects: &[Subject<'_>]) -> Plot {
    let all: Vec<Series> = (0..)
        .zip(subjects)
        .map(|(style, subject)| {
            let name = if subjects.len() > 1 { &subject.name } else { "answers" };
            series(name, style, subject, |point| point.rate)
        })
        .collect();
    let demanded: BTreeSet<u64> = subjects
        .iter()
        .filter_map(|subject| subject.shown.totals.demanded_rate)
        .map(f64::to_bits)
        .collect();
    let levels: Vec<(f64, String)> = demanded
        .into_iter()
        .map(f64::from_bits)
        .map(|rate| (rate, format!("demanded {}/s", amount(rate))))
        .collect();
    let greatest = levels.iter().map(|(rate, _)| *rate).chain(range(&all).map(|r| r.1));
    Plot {
        id: "rate",
        describes: "Answers per second over time".into(),
        x: time_axis(subjects),
        y: Axis::from_zero("answers per second", greatest.fold(0.0, f64::max) * 1.05, amount),
        series: all,
        bands: bands(subjects),
        levels,
        hints: hints(subjects, |_, point| format!("{}/s", amount(point.rate.max(0.0).round()))),
    }
}

fn time_plot(id: &'static str, subjects: &[Subject<'_>], all: Vec<Series>) -> Plot {
    let (least, greatest) = range(&all).unwrap_or((1.0, 1000.0));
    let names: Vec<&str> = all.iter().map(|series| series.name.as_str()).collect();
    Plot {
        id,
        describes: format!("Over time: {}", names.join(", ")),
        x: time_axis(subjects),
        y: Axis::micros("time, log scale", least, greatest),
        bands: bands(subjects),
        levels: Vec::new(),
        hints: Vec::new(),
        series: all,
    }
}

fn of_one(
    subject: &Subject<'_>,
    timing: &'static str,
    id: &'static str,
    picks: &[(&str, Pick)],
) -> Plot {
    let all = (0..)
        .zip(picks)
        .map(|(style, (name, pick))| series(name, style, subject, |point| point.us(timing, pick)));
    let subjects = std::slice::from_ref(subject);
    let mut plot = time_plot(id, subjects, all.collect());
    plot.hints = hints(subjects, |_, point| {
        let text =
            |(name, pick): &(&str, Pick)| format!("{name} {}", micros(point.us(timing, pick)));
        picks.iter().map(text).collect::<Vec<_>>().join(", ")
    });
    plot
}

fn of_many(
    subjects: &[Subject<'_>],
    timing: &'static str,
    id: &'static str,
    (name, pick): (&str, Pick),
) -> Plot {
    let all = (0..).zip(subjects).map(|(style, subject)| {
        series(&subject.name, style, subject, |point| point.us(timing, pick))
    });
    let mut plot = time_plot(id, subjects, all.collect());
    plot.hints = hints(subjects, |_, point| format!("{name} {}", micros(point.us(timing, pick))));
    plot
}

fn spectrum(subjects: &[Subject<'_>]) -> Result<Plot, Failure> {
    let mut all = Vec::new();
    let mut most = 0;
    for (style, subject) in subjects.iter().enumerate() {
        let timings: &[&str] = if subjects.len() > 1 || subject.shown.mode != "open loop" {
            &["response"]
        } else {
            &["response", "service"]
        };
        for (extra, timing) in timings.iter().enumerate() {
            let Some(times) = subject.shown.totals.times.get(*timing) else { continue };
            let times = times.histogram()?;
            let end = nines_of_count(times.len());
            let steps = (0..=240).map(|step| f64::from(step) / 240.0 * end);
            let points = steps.map(|nines| {
                let quantile = 1.0 - 10_f64.powf(-nines);
                (nines, times.value_at_quantile(quantile) as f64 / 1e3)
            });
            most = most.max(times.len());
            let name = if subjects.len() > 1 { subject.name.clone() } else { (*timing).to_owned() };
            all.push(Series { name, style: style + extra, points: points.collect() });
        }
    }
    let (least, greatest) = range(&all).unwrap_or((1.0, 1000.0));
    Ok(Plot {
        id: "spectrum",
        describes: "Response time by percentile".into(),
        x: Axis::nines("share of queries that were faster", most),
        y: Axis::micros("time, log scale", least, greatest),
        series: all,
        bands: Vec::new(),
        levels: Vec::new(),
        hints: Vec::new(),
    })
}

/// What else was timed, such as registrations; of one server only, or there would be too many
/// lines. The table of percentiles has it of all.
fn other_times(out: &mut String, subjects: &[Subject<'_>]) {
    let [only] = subjects else { return };
    let known = ["response", "service", "lateness"];
    let names: BTreeSet<&String> = (only.points.iter())
        .flat_map(|point| point.times.keys())
        .filter(|name| !known.contains(&name.as_str()))
        .collect();
    if names.is_empty() {
        return;
    }
    let of =
        |(style, name): (usize, &&String)| series(name, style, only, |point| point.us(name, P99.1));
    let plot = time_plot("other-times", subjects, (0..).zip(&names).map(of).collect());
    figure(out, "Other times, p99", "What the rest of the fleet waited for.", &plot);
}

/// A heat map for each server, all with the same axes.
fn heat_maps(out: &mut String, subjects: &[Subject<'_>]) -> Result<(), Failure> {
    let heats: Vec<Heat> = (subjects.iter())
        .map(|subject| Heat::of(subject.shown, HEAT_COLUMNS_MAX))
        .collect::<Result<_, _>>()?;
    let rows = || heats.iter().flat_map(|heat| heat.cells.keys().map(|(_, row)| *row));
    let (Some(lowest), Some(highest)) = (rows().min(), rows().max()) else { return Ok(()) };
    let x = time_axis(subjects);
    let y = Axis::micros("response time, log scale", Heat::us(lowest), Heat::us(highest + 1));
    for (subject, heat) in subjects.iter().zip(&heats) {
        let title = match subjects.len() {
            1 => "Heat map".to_owned(),
            _ => format!("Heat map: {}", subject.name),
        };
        let _ = write!(
            out,
            "<section><h2>{}</h2><p class=\"note\">Every answer by the moment it came and the \
             time it took: the stronger the colour, the more of them.</p>\
             <figure class=\"heat\">",
            escape(&title)
        );
        for frame in &FRAMES {
            frame.begin(out, &title, &x, &y);
            shades(out, frame, heat, &x, &y);
            out.push_str("</svg>");
        }
        out.push_str("</figure></section>");
    }
    Ok(())
}

/// One path for each shade.
fn shades(out: &mut String, frame: &Frame, heat: &Heat, x: &Axis, y: &Axis) {
    let most = heat.cells.values().copied().max().unwrap_or(1) as f64;
    let shade = |count: u64| -> u32 {
        // Between linear, which hides the rare slow answers, and a logarithm, which hides the rest.
        let share = (count as f64 / most).powf(0.4);
        (1..=SHADES).find(|shade| share <= f64::from(*shade) / f64::from(SHADES)).unwrap_or(SHADES)
    };
    for wanted in 1..=SHADES {
        let mut path = String::new();
        for ((column, row), _) in heat.cells.iter().filter(|(_, count)| shade(**count) == wanted) {
            let second = f64::from(column * heat.seconds_a_column);
            let left = frame.x(x, second);
            let right = frame.x(x, second + f64::from(heat.seconds_a_column));
            let (top, bottom) = (frame.y(y, Heat::us(row + 1)), frame.y(y, Heat::us(*row)));
            let _ = write!(path, "M{left:.1} {top:.1}H{right:.1}V{bottom:.1}H{left:.1}z");
        }
        if !path.is_empty() {
            let _ = write!(out, "<path class=\"shade h{wanted}\" d=\"{path}\"/>");
        }
    }
}

fn lateness(out: &mut String, subjects: &[Subject<'_>]) {
    let title = "Lateness of the generator";
    let late = |s: &Subject<'_>| s.points.iter().any(|point| point.times.contains_key("lateness"));
    if !subjects.iter().any(late) {
        let text = "In a closed loop the generator has no schedule to be late for: it asks when an \
                    answer comes, so a slow server is asked less.";
        return words(out, "lateness", title, text);
    }
    let mut plot = match subjects {
        [only] => of_one(only, "lateness", "lateness", &[P50, P99_9, MAX]),
        many => of_many(many, "lateness", "lateness", P99_9),
    };
    let bound = |s: &Subject<'_>| s.record.config["load"]["lateness_bound_us"].as_f64();
    if let Some(bound) = subjects.first().and_then(bound).filter(|bound| *bound <= plot.y.to) {
        plot.levels.push((bound, format!("bound {}", micros(bound))));
    }
    let note = "How long after its time the generator itself sent a query. If this is not small \
                beside the response times, the generator was measured and not the server. A run is \
                valid when p99.9 of the whole stays below the bound.";
    figure(out, title, note, &plot);
}

fn errors(out: &mut String, subjects: &[Subject<'_>]) {
    let kinds: BTreeSet<&String> = subjects
        .iter()
        .flat_map(|subject| subject.points.iter().flat_map(|point| point.errors.keys()))
        .collect();
    if kinds.is_empty() {
        let text = "None: every query was answered, and every answer was the right one.";
        return words(out, "errors", "Errors", text);
    }
    let count = |point: &Point, kind: &String| *point.errors.get(kind).unwrap_or(&0) as f64;
    let all: Vec<Series> = match subjects {
        [only] => (0..)
            .zip(&kinds)
            .map(|(style, kind)| series(kind, style, only, |point| count(point, kind)))
            .collect(),
        many => (0..)
            .zip(many)
            .map(|(style, subject)| {
                let sum = |point: &Point| point.errors.values().sum::<u64>() as f64;
                series(&subject.name, style, subject, sum)
            })
            .collect(),
    };
    let greatest = range(&all).map_or(1.0, |range| range.1);
    let plot = Plot {
        id: "errors",
        describes: "Errors by second".into(),
        x: time_axis(subjects),
        y: Axis::from_zero("errors in a second", greatest, amount),
        series: all,
        bands: bands(subjects),
        levels: Vec::new(),
        hints: hints(subjects, |_, point| {
            let text = |(kind, count): (&String, &u64)| format!("{count} {kind}");
            point.errors.iter().map(text).collect::<Vec<_>>().join(", ")
        }),
    };
    figure(out, "Errors", "By the second in which they were noticed.", &plot);
}

fn usage(out: &mut String, subjects: &[Subject<'_>]) {
    let share = |ns: u64, sample: &Sample| ns as f64 * 100.0 / sample.elapsed_ns.max(1) as f64;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let server_cpu = |sample: &Sample| Some(share(sample.server.as_ref()?.cpu_ns, sample));
    let own_cpu = |sample: &Sample| Some(share(sample.generator.as_ref()?.cpu_ns, sample));
    let rss = |sample: &Sample| Some(sample.server.as_ref()?.rss_bytes as f64 / 1_048_576.0);
    let line = |name: &str, style, subject: &Subject<'_>, y: &dyn Fn(&Sample) -> Option<f64>| {
        let point = |sample: &Sample| {
            let middle = sample.at_ns.saturating_sub(sample.elapsed_ns / 2);
            Some((seconds(middle), y(sample)?))
        };
        let points = subject.shown.samples.iter().filter_map(point).collect();
        Series { name: name.to_owned(), style, points }
    };
    let each = |y: &dyn Fn(&Sample) -> Option<f64>| -> Vec<Series> {
        (0..).zip(subjects).map(|(style, s)| line(&s.name, style, s, y)).collect()
    };
    let (cpu, memory) = match subjects {
        [only] => (
            vec![line("server", 0, only, &server_cpu), line("generator", 1, only, &own_cpu)],
            vec![line("server", 0, only, &rss)],
        ),
        _ => (each(&server_cpu), each(&rss)),
    };
    let Some(greatest) = range(&memory) else {
        let text = "Not measured: the server is on another machine, or the run was too short for a \
                    look a second.";
        return words(out, "cpu", "CPU and memory", text);
    };
    let plot = |id, describes: &str, y, series| Plot {
        id,
        describes: describes.to_owned(),
        x: time_axis(subjects),
        y,
        series,
        bands: bands(subjects),
        levels: Vec::new(),
        hints: Vec::new(),
    };
    let percent = |value: f64| format!("{} %", three_digits(value));
    let most = range(&cpu).map_or(1.0, |range| range.1);
    let y = Axis::from_zero("% of one CPU", most, percent);
    let note = "100 % is one CPU all the time.";
    figure(out, "CPU", note, &plot("cpu", "CPU over time", y, cpu));
    let y = Axis::from_zero("MiB", greatest.1, amount);
    figure(
        out,
        "Server memory",
        "Resident set size.",
        &plot("memory", "Memory over time", y, memory),
    );
}

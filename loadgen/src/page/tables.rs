//! The parts of a page that are words and numbers.

use std::fmt::Write as _;

use crate::compare::Spread;
use crate::page::axis::{amount, bytes, micros, three_digits};
use crate::page::plot::escape;
use crate::page::subject::Subject;
use crate::record::{Record, Run};

/// How a figure is told.
type Text = fn(f64) -> String;

/// One figure that servers are compared by.
struct Figure {
    name: &'static str,
    of: fn(&Run) -> Option<f64>,
    text: Text,
    /// Whether less is better; `None` when it is neither.
    less: Option<bool>,
}

fn response(run: &Run) -> Option<&crate::record::Times> {
    run.totals.times.get("response")
}

const FIGURES: [Figure; 10] = [
    Figure {
        name: "answers/s",
        of: |run| Some(run.totals.rate),
        text: |rate| amount(rate.round()),
        less: Some(false),
    },
    Figure {
        name: "p50",
        of: |run| response(run).map(|times| times.percentiles.p50_us),
        text: micros,
        less: Some(true),
    },
    Figure {
        name: "p99",
        of: |run| response(run).map(|times| times.percentiles.p99_us),
        text: micros,
        less: Some(true),
    },
    Figure {
        name: "p99.9",
        of: |run| response(run).map(|times| times.percentiles.p99_9_us),
        text: micros,
        less: Some(true),
    },
    Figure {
        name: "max",
        of: |run| response(run).map(|times| times.percentiles.max_us),
        text: micros,
        less: Some(true),
    },
    Figure { name: "errors", of: |run| Some(run.errors() as f64), text: amount, less: Some(true) },
    Figure {
        name: "CPU per answer",
        of: Run::server_us_per_answer,
        text: micros,
        less: Some(true),
    },
    Figure {
        name: "server CPU",
        of: |run| {
            let cost = run.cost.as_ref()?;
            Some(cost.server.as_ref()?.cpu_ns as f64 / 1e7 / cost.seconds.max(1e-9))
        },
        text: |percent| format!("{} %", three_digits(percent)),
        less: None,
    },
    Figure {
        name: "server memory",
        of: |run| Some(run.cost.as_ref()?.server.as_ref()?.rss_bytes as f64),
        text: bytes,
        less: Some(true),
    },
    Figure {
        name: "switches per answer",
        of: |run| {
            let cost = run.cost.as_ref()?;
            let server = cost.server.as_ref()?;
            let switches = server.voluntary_switches + server.forced_switches;
            (cost.answers > 0).then(|| switches as f64 / cost.answers as f64)
        },
        text: three_digits,
        less: Some(true),
    },
];
/// So many of the figures are on cards.
const CARDS: usize = 9;

/// The figures of one server, large.
pub fn cards(subject: &Subject<'_>) -> String {
    let mut out = "<dl class=\"cards\">".to_owned();
    for figure in &FIGURES[..CARDS] {
        if let Some(spread) = spread(subject, figure) {
            let text = (figure.text)(spread.median);
            let _ = write!(
                out,
                "<div><dt>{}</dt><dd>{}</dd></div>",
                escape(figure.name),
                escape(&text)
            );
        }
    }
    out.push_str("</dl>");
    out
}

fn spread(subject: &Subject<'_>, figure: &Figure) -> Option<Spread> {
    let valid = |run: &&&Run| run.invalid.is_empty();
    let of_valid = subject.runs.iter().filter(valid).filter_map(|run| (figure.of)(run));
    let all = || subject.runs.iter().filter_map(|run| (figure.of)(run));
    Spread::of(of_valid).or_else(|| Spread::of(all()))
}

/// The figures of several servers side by side: the median of the repeats of each, and how it
/// stands to the first.
pub fn side_by_side(subjects: &[Subject<'_>]) -> String {
    let mut out = "<div class=\"scroll\"><table><thead><tr><th></th>".to_owned();
    for subject in subjects {
        let _ = write!(out, "<th>{}</th>", escape(&subject.name));
    }
    out.push_str("</tr></thead><tbody>");
    for figure in &FIGURES {
        let found: Vec<Option<f64>> =
            subjects.iter().map(|subject| spread(subject, figure).map(|s| s.median)).collect();
        let best = figure.less.and_then(|less| best(&found, less));
        let _ = write!(out, "<tr><td>{}</td>", escape(figure.name));
        for (place, value) in found.iter().enumerate() {
            let Some(value) = value else {
                out.push_str("<td>–</td>");
                continue;
            };
            let class = if Some(*value) == best { " class=\"best\"" } else { "" };
            let _ = write!(out, "<td{class}>{}", escape(&(figure.text)(*value)));
            if let Some(first) = found[0].filter(|first| place > 0 && *first > 0.0) {
                let _ = write!(out, " <small>× {}</small>", three_digits(value / first));
            }
            out.push_str("</td>");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}

/// Values that differ by a smaller share than this are the same: none is the best.
const SAME_SHARE: f64 = 0.02;

/// The best value, when they are not all the same.
fn best(found: &[Option<f64>], less: bool) -> Option<f64> {
    let values = found.iter().flatten().copied();
    let least = values.clone().min_by(f64::total_cmp)?;
    let greatest = values.max_by(f64::total_cmp)?;
    (least < greatest * (1.0 - SAME_SHARE)).then_some(if less { least } else { greatest })
}

/// Every percentile of every timing.
pub fn percentiles(subjects: &[Subject<'_>]) -> String {
    let mut out =
        "<section><h2>Percentiles</h2><div class=\"scroll\"><table><thead><tr><th></th>".to_owned();
    for name in ["values", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"] {
        let _ = write!(out, "<th>{name}</th>");
    }
    out.push_str("</tr></thead><tbody>");
    for subject in subjects {
        for (timing, times) in &subject.shown.totals.times {
            let p = &times.percentiles;
            let name = match subjects.len() {
                1 => timing.clone(),
                _ => format!("{}, {timing}", subject.name),
            };
            let _ = write!(out, "<tr><td>{}</td><td>{}</td>", escape(&name), p.count);
            for us in [p.mean_us, p.p50_us, p.p90_us, p.p99_us, p.p99_9_us, p.p99_99_us, p.max_us] {
                let _ = write!(out, "<td>{}</td>", escape(&micros(us)));
            }
            out.push_str("</tr>");
        }
    }
    out.push_str("</tbody></table></div></section>");
    out
}

/// Which threads of the server used the CPU, of one server.
pub fn threads(subject: &Subject<'_>) -> String {
    let cost = subject.shown.cost.as_ref();
    let Some((cost, server)) = cost.and_then(|cost| Some((cost, cost.server.as_ref()?))) else {
        return String::new();
    };
    if server.by_thread_ns.is_empty() {
        return String::new();
    }
    let mut out =
        "<section><h2>Server CPU by thread</h2><p class=\"note\">Threads whose names differ \
                   by a number are one row.</p><div class=\"scroll\"><table><thead><tr><th></th>\
                   <th>of one CPU</th><th>per answer</th></tr></thead><tbody>"
            .to_owned();
    for (name, ns) in &server.by_thread_ns {
        let share = *ns as f64 / 1e7 / cost.seconds.max(1e-9);
        let each = match cost.answers {
            0 => "–".to_owned(),
            answers => micros(*ns as f64 / 1e3 / answers as f64),
        };
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{} %</td><td>{}</td></tr>",
            escape(name),
            three_digits(share),
            escape(&each)
        );
    }
    out.push_str("</tbody></table></div></section>");
    out
}

/// Each run of each server that was measured more than once.
pub fn repeats(subjects: &[Subject<'_>]) -> String {
    let mut out = String::new();
    for subject in subjects.iter().filter(|subject| subject.runs.len() > 1) {
        let _ = write!(
            out,
            "<section><h2>Repeats: {}</h2><p class=\"note\">The plots show run {}. Invalid runs \
             are not part of the median.</p><div class=\"scroll\"><table><thead><tr><th>run</th>",
            escape(&subject.name),
            subject.shown_number
        );
        let figures: Vec<&Figure> =
            FIGURES.iter().filter(|figure| spread(subject, figure).is_some()).collect();
        for figure in &figures {
            let _ = write!(out, "<th>{}</th>", escape(figure.name));
        }
        out.push_str("</tr></thead><tbody>");
        for (number, run) in (1..).zip(&subject.runs) {
            let invalid = if run.invalid.is_empty() { "" } else { " (invalid)" };
            let _ = write!(out, "<tr><td>{number}{invalid}</td>");
            for figure in &figures {
                let text = (figure.of)(run).map_or("–".to_owned(), figure.text);
                let _ = write!(out, "<td>{}</td>", escape(&text));
            }
            out.push_str("</tr>");
        }
        for name in ["median", "least", "greatest"] {
            let of = |s: Spread| match name {
                "median" => s.median,
                "least" => s.min,
                _ => s.max,
            };
            let _ = write!(out, "<tr><td><b>{name}</b></td>");
            for figure in &figures {
                let text = spread(subject, figure).map_or(String::new(), |s| (figure.text)(of(s)));
                let _ = write!(out, "<td>{}</td>", escape(&text));
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div></section>");
    }
    out
}

/// What was run and where, one column a record; rows in which they differ are marked.
pub fn setup(records: &[Record]) -> String {
    let columns: Vec<Facts> = records.iter().map(facts).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in columns.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut out = "<section id=\"setup\"><h2>What was measured</h2>".to_owned();
    if records.len() > 1 {
        out.push_str("<p class=\"note\">Rows in bold differ.</p>");
    }
    out.push_str("<div class=\"scroll\"><table class=\"setup\"><tbody>");
    for name in names {
        let values: Vec<&str> =
            columns.iter().map(|column| value_of(column, name).unwrap_or("–")).collect();
        let differs = values.iter().any(|value| *value != values[0]);
        let class = if differs { " class=\"differs\"" } else { "" };
        let _ = write!(out, "<tr{class}><td>{}</td>", escape(name));
        for value in values {
            let _ = write!(out, "<td>{}</td>", escape(value));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    for record in records {
        let _ = write!(out, "<pre>{}</pre>", escape(&record.host.command.join(" ")));
    }
    out.push_str("</section>");
    out
}

/// Names and values, in the order in which they are told.
type Facts = Vec<(String, String)>;

fn value_of<'a>(facts: &'a Facts, name: &str) -> Option<&'a str> {
    facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn facts(record: &Record) -> Facts {
    let mut facts = Facts::new();
    let (host, server) = (&record.host, &record.server);
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    fact("server: address", server.address.clone());
    let optional = [
        ("server: version", &server.version),
        ("server: command", &server.command),
        ("server: CPUs allowed", &server.cpus_allowed),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            fact(name, value.clone());
        }
    }
    fact("generator: version", {
        let revision = host.revision.as_ref().map_or(String::new(), |r| format!(", revision {r}"));
        format!("loadgen {}{revision}", host.loadgen_version)
    });
    fact("host: CPU", format!("{} × {}", host.cpus, host.cpu));
    fact("host: kernel", host.kernel.clone());
    fact("host: load average before", three_digits(host.load_average));
    fact("workload hash", record.workload_hash.clone());
    flatten("", &record.config, &mut facts);
    facts
}

fn flatten(name: &str, value: &serde_json::Value, facts: &mut Facts) {
    let text = match value {
        serde_json::Value::Object(members) => {
            for (member, value) in members {
                let colon = if name.is_empty() { "" } else { ": " };
                flatten(&format!("{name}{colon}{member}"), value, facts);
            }
            return;
        }
        serde_json::Value::Null => return,
        serde_json::Value::String(text) => text.clone(),
        // Quotients such as 83.33333333333333 say no more than this.
        serde_json::Value::Number(number) if number.is_f64() => {
            let text = format!("{:.4}", number.as_f64().unwrap_or(f64::NAN));
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        other => other.to_string(),
    };
    facts.push((name.replace('_', " "), text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_named_only_where_it_is_clearly_better() {
        assert_eq!(best(&[Some(10.0), None, Some(20.0)], true), Some(10.0));
        assert_eq!(best(&[Some(10.0), Some(20.0)], false), Some(20.0));
        assert_eq!(best(&[Some(100.0), Some(101.0)], true), None);
        assert_eq!(best(&[None, None], true), None);
    }

    #[test]
    fn a_configuration_becomes_rows_with_plain_names() {
        let mut facts = Facts::new();
        let config = serde_json::json!({"load": {"rate": 16.0 / 3.0, "pin": [1], "shape": null}});
        flatten("", &config, &mut facts);
        facts.sort();
        assert_eq!(value_of(&facts, "load: rate"), Some("5.3333"));
        assert_eq!(value_of(&facts, "load: pin"), Some("[1]"));
        assert_eq!(facts.len(), 2);
    }
}

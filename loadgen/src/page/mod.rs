//! A record, or several side by side, as one page that needs nothing else: no script, no font, no
//! picture from elsewhere.
//!
//! ```text
//!  mod (page) -- tables   figures, percentiles, repeats, set-up
//!       |
//!       +------- charts -- plot (SVG) -- axis (scales, marks, numbers as text)
//!                   |
//!                subject   which runs, which points
//! ```

mod axis;
mod charts;
mod plot;
mod subject;
mod tables;

use std::fmt::Write as _;

use crate::failure::{Failure, usage};
pub use crate::page::axis::{amount, micros};
use crate::page::plot::escape;
use crate::page::subject::{Subject, subjects};
use crate::record::Record;

/// Records on one page; more lines than that cannot be told apart.
pub const RECORDS_MAX: usize = 6;

/// The page.
///
/// # Errors
/// When there are no runs, or too many records, or a histogram is damaged.
pub fn page(records: &[Record]) -> Result<String, Failure> {
    let subjects = subjects(records)?;
    if subjects.is_empty() {
        return Err(usage("there is no run in these records: nothing to draw"));
    }
    if subjects.len() > RECORDS_MAX {
        return Err(usage(format!(
            "{} servers on one page: give at most {RECORDS_MAX}",
            subjects.len()
        )));
    }
    let title = title(&subjects);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>{0}</title><style>{1}</style></head><body><h1>{0}</h1>",
        escape(&title),
        include_str!("style.css")
    );
    head(&mut out, records, &subjects);
    match &subjects[..] {
        [only] => out.push_str(&tables::cards(only)),
        many => out.push_str(&tables::side_by_side(many)),
    }
    out.push_str(&charts::sections(&subjects)?);
    out.push_str(&tables::percentiles(&subjects));
    if let [only] = &subjects[..] {
        out.push_str(&tables::threads(only));
    }
    out.push_str(&tables::repeats(&subjects));
    out.push_str(&tables::setup(records));
    out.push_str(
        "<footer>Response time counts from the moment a query was meant to be sent, service time \
         from its sending. Times of queries that were never answered are in there with the time \
         waited. Percentiles are of the measured phase; the rest is drawn, not counted.</footer>\
         </body></html>\n",
    );
    Ok(out)
}

fn title(subjects: &[Subject<'_>]) -> String {
    match subjects {
        [only] => format!("Load report: {} at {}", only.name, only.record.server.address),
        many => {
            let names: Vec<&str> = many.iter().map(|subject| subject.name.as_str()).collect();
            format!("Load report: {}", names.join(", "))
        }
    }
}

fn head(out: &mut String, records: &[Record], subjects: &[Subject<'_>]) {
    let first = subjects[0].shown;
    let load = match first.totals.demanded_rate {
        Some(rate) => format!("open loop at {} queries a second", axis::amount(rate)),
        None => "closed loop".to_owned(),
    };
    let _ = write!(
        out,
        "<p class=\"sub\">{}; {load}, {} s measured; {} × {}, kernel {}</p><ul class=\"chips\">",
        date(records[0].host.started_unix_ms),
        axis::three_digits(first.totals.seconds),
        records[0].host.cpus,
        escape(&records[0].host.cpu),
        escape(&records[0].host.kernel),
    );
    for subject in subjects {
        verdict(out, subject, subjects.len() > 1);
    }
    if records.iter().any(|record| record.workload_hash != records[0].workload_hash) {
        chip(out, "bad", "not the same workload: see what differs below");
    }
    for record in records {
        let who = if records.len() > 1 { &format!("{}: ", record.server.label) } else { "" };
        for verdict in &record.assertions {
            let class = if verdict.holds { "good" } else { "bad" };
            chip(out, class, &format!("{who}{}", verdict.words));
        }
    }
    out.push_str("</ul>");
}

/// Whether the figures may be used.
fn verdict(out: &mut String, subject: &Subject<'_>, many: bool) {
    let who = if many { format!("{}: ", subject.name) } else { String::new() };
    let invalid: Vec<&String> = subject.runs.iter().flat_map(|run| &run.invalid).collect();
    if invalid.is_empty() {
        chip(out, "good", &format!("✓ {who}valid"));
    }
    for why in invalid {
        chip(out, "bad", &format!("✗ {who}INVALID: {why}"));
    }
    if subject.runs.iter().any(|run| run.interrupted) {
        chip(out, "", &format!("{who}ended before its time"));
    }
    let noisy = subject.runs.iter().filter(|run| run.is_noisy()).count();
    if noisy > 0 {
        let of = if subject.runs.len() > 1 {
            format!(" in {noisy} of {} runs", subject.runs.len())
        } else {
            String::new()
        };
        chip(out, "bad", &format!("! {who}NOISY: other processes used CPU{of}"));
    }
}

fn chip(out: &mut String, class: &str, text: &str) {
    let _ = write!(out, "<li class=\"{class}\">{}</li>", escape(text));
}

/// Date and time in UTC, by the rules of the Gregorian calendar.
fn date(unix_ms: u64) -> String {
    let (days, minutes) = (unix_ms / 86_400_000, unix_ms / 60_000 % 1440);
    // Years begin in March here, so that the leap day is the last of its year.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) =
        if month < 10 { (era * 400 + year, month + 3) } else { (era * 400 + year + 1, month - 9) };
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_796_000_399_000), "2026-11-30 00:59 UTC");
    }

    #[test]
    fn no_run_and_too_many_servers_are_refused() {
        assert!(page(&[]).unwrap_err().to_string().contains("no run"));
    }
}

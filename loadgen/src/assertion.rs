//! `--assert 'p99.9<2ms,errors==0'`: demands on a record, and whether it meets them.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use hdrhistogram::Histogram;

use crate::compare::Spread;
use crate::failure::Failure;
use crate::measure::ERROR_KINDS;
use crate::process::mebibytes;
use crate::record::{Record, Run, Verdict, errors_words};
use crate::tape::Timing;

/// What can be demanded, for error messages and `--help`.
pub const GRAMMAR: &str = "\
give FIGURE OP VALUE, several with commas between them, such as p99.9<2ms,errors==0; \
figures: p50, p99.9 and other percentiles, mean and max (of response times; service.p99, \
lateness.p99 and freshness.p99 for others), rate, answers, errors, errors.time-out, cpu (us of \
the server per answer), rss (MiB of the server); operators: < <= > >= == !=; units of times: ns, \
us, ms, s";

/// One demand.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion {
    figure: Figure,
    relation: Relation,
    /// Of times in ns, else as it is.
    bound: f64,
    unit: Unit,
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Figure {
    Time(Timing, Point),
    Rate,
    Answers,
    Errors(Option<String>),
    Cpu,
    Rss,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Point {
    Quantile(f64),
    Mean,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// The longer ones first: `<` begins `<=`.
const RELATIONS: [(&str, Relation); 6] = [
    ("<=", Relation::LessOrEqual),
    (">=", Relation::GreaterOrEqual),
    ("==", Relation::Equal),
    ("!=", Relation::NotEqual),
    ("<", Relation::Less),
    (">", Relation::Greater),
];

#[derive(Debug, Clone, Copy, PartialEq)]
struct Unit {
    name: &'static str,
    ns: f64,
}

const NONE: Unit = Unit { name: "", ns: 1.0 };
/// `s` ends all the others, so it comes last.
const UNITS: [Unit; 4] = [
    Unit { name: "ns", ns: 1.0 },
    Unit { name: "us", ns: 1e3 },
    Unit { name: "ms", ns: 1e6 },
    Unit { name: "s", ns: 1e9 },
];

/// All demands of one `--assert`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertions(pub Vec<Assertion>);

impl FromStr for Assertions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Assertions {
    /// Errors make a run invalid, unless they are within what is demanded of them: takes that
    /// reason away where demands name all errors of the run, and hold for it.
    ///
    /// # Errors
    /// When a histogram of the run is damaged.
    pub fn forgive(&self, run: &mut Run) -> Result<(), Failure> {
        let (mut kinds, mut all) = (BTreeSet::new(), false);
        for demand in &self.0 {
            let Figure::Errors(kind) = &demand.figure else { continue };
            let found = demand.figure.of(run)?.unwrap_or_default();
            if !demand.relation.holds(found, demand.bound) {
                return Ok(());
            }
            match kind {
                Some(kind) => drop(kinds.insert(kind)),
                None => all = true,
            }
        }
        let named = |kind| run.totals.errors.get(kind).copied().unwrap_or(0);
        let reason = errors_words(run.errors());
        if all || kinds.into_iter().map(named).sum::<u64>() == run.errors() {
            run.invalid.retain(|why| *why != reason);
        }
        Ok(())
    }
}

impl FromStr for Assertion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = |what: String| format!("'{text}': {what}; {GRAMMAR}");
        let at = text.find(['<', '>', '=', '!']).ok_or_else(|| wrong("no operator".into()))?;
        let (name, rest) = text.split_at(at);
        let (sign, relation) = *RELATIONS
            .iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(|| wrong("no such operator".into()))?;
        let name = name.trim();
        let figure = figure(name).ok_or_else(|| wrong(no_figure(name)))?;
        let value = rest[sign.len()..].trim();
        let (number, unit) = if matches!(figure, Figure::Time(..)) {
            let unit = UNITS.into_iter().find(|unit| value.ends_with(unit.name));
            let unit = unit.ok_or_else(|| wrong("a time needs a unit, such as 2ms".into()))?;
            (&value[..value.len() - unit.name.len()], unit)
        } else {
            (value, NONE)
        };
        let number: f64 = (number.trim().parse().ok())
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| wrong(format!("'{value}' is no value")))?;
        Ok(Self { figure, relation, bound: number * unit.ns, unit, text: text.to_owned() })
    }
}

fn no_figure(name: &str) -> String {
    match name.strip_prefix("errors.") {
        Some(kind) => format!("no kind of error '{kind}', but {}", ERROR_KINDS.join(", ")),
        None => format!("no figure '{name}'"),
    }
}

fn figure(name: &str) -> Option<Figure> {
    match name {
        "rate" => return Some(Figure::Rate),
        "answers" => return Some(Figure::Answers),
        "errors" => return Some(Figure::Errors(None)),
        "cpu" => return Some(Figure::Cpu),
        "rss" => return Some(Figure::Rss),
        _ => {}
    }
    if let Some(kind) = name.strip_prefix("errors.") {
        return ERROR_KINDS.contains(&kind).then(|| Figure::Errors(Some(kind.to_owned())));
    }
    let prefixed = Timing::ALL
        .into_iter()
        .find_map(|timing| Some((timing, name.strip_prefix(timing.name())?.strip_prefix('.')?)));
    let (timing, point) = prefixed.unwrap_or((Timing::Response, name));
    let point = match point {
        "mean" => Point::Mean,
        "max" => Point::Max,
        _ => {
            let digits = point.strip_prefix('p')?;
            let percent: f64 = digits.parse().ok()?;
            (0.0..=100.0).contains(&percent).then_some(())?;
            // Rounded once: a division would make 99.9 more than 0.999, which is another value.
            Point::Quantile(format!("{digits}e-2").parse().ok()?)
        }
    };
    Some(Figure::Time(timing, point))
}

impl Relation {
    fn holds(self, found: f64, bound: f64) -> bool {
        match self {
            Relation::Less => found < bound,
            Relation::LessOrEqual => found <= bound,
            Relation::Greater => found > bound,
            Relation::GreaterOrEqual => found >= bound,
            // Counts and such; equal times would be an odd demand, but not a wrong one.
            Relation::Equal => (found - bound).abs() < 1e-9,
            Relation::NotEqual => (found - bound).abs() >= 1e-9,
        }
    }
}

impl Figure {
    /// In ns for times.
    fn of(&self, run: &Run) -> Result<Option<f64>, Failure> {
        Ok(match self {
            Figure::Time(timing, point) => match run.totals.times.get(timing.name()) {
                None => None,
                Some(times) => Some(point.of(&times.histogram()?)),
            },
            Figure::Rate => Some(run.totals.rate),
            Figure::Answers => Some(run.answers() as f64),
            Figure::Errors(None) => Some(run.errors() as f64),
            Figure::Errors(Some(kind)) => {
                Some(run.totals.errors.get(kind).copied().unwrap_or(0) as f64)
            }
            Figure::Cpu => run.server_us_per_answer(),
            Figure::Rss => {
                let server = run.cost.as_ref().and_then(|cost| cost.server.as_ref());
                server.map(|server| mebibytes(server.rss_bytes))
            }
        })
    }

    /// Over repeats: all errors, and the median of everything else.
    fn of_all(&self, runs: &[&Run]) -> Result<Option<f64>, Failure> {
        let mut found = Vec::new();
        for run in runs {
            found.extend(self.of(run)?);
        }
        if matches!(self, Figure::Errors(_)) {
            return Ok((!found.is_empty()).then(|| found.iter().sum()));
        }
        Ok(Spread::of(found).map(|spread| spread.median))
    }
}

impl Point {
    fn of(self, times: &Histogram<u64>) -> f64 {
        match self {
            Point::Quantile(quantile) => times.value_at_quantile(quantile) as f64,
            Point::Mean => times.mean(),
            Point::Max => times.max() as f64,
        }
    }
}

impl Assertion {
    /// Whether the record meets it. Of a comparison only the runs against the server count.
    ///
    /// # Errors
    /// When a histogram of the record is damaged.
    pub fn judge(&self, record: &Record) -> Result<Verdict, Failure> {
        let label = record.runs.first().map(|run| run.label.as_str());
        let runs: Vec<&Run> =
            record.runs.iter().filter(|run| Some(run.label.as_str()) == label).collect();
        let found = self.figure.of_all(&runs)?;
        let holds = found.is_some_and(|found| self.relation.holds(found, self.bound));
        let in_unit = found.map(|found| found / self.unit.ns);
        let is = match in_unit {
            None => "was not measured".to_owned(),
            Some(found) => format!("it is {}{}", short(found), self.unit.name),
        };
        let median = if runs.len() > 1 && !matches!(self.figure, Figure::Errors(_)) {
            format!(", the median of {} runs", runs.len())
        } else {
            String::new()
        };
        let verdict = if holds { "holds" } else { "FAILED" };
        let words = format!("{verdict}: {} ({is}{median})", self.text);
        Ok(Verdict { demand: self.text.clone(), found: in_unit, holds, words })
    }
}

impl fmt::Display for Assertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Up to three decimals, none of them for show.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::host::Host;
    use crate::record::{Server, Times, Totals};

    /// Response times of 1 to 1000 us.
    fn run(label: &str, errors: u64) -> Run {
        let mut times = crate::measure::histogram();
        (1..=1000).for_each(|value| times.saturating_record(value * 1000));
        let totals = Totals {
            rate: 500.0,
            answers: BTreeMap::from([("hit".into(), 1000)]),
            errors: BTreeMap::from([("time-out".into(), errors)]),
            times: BTreeMap::from([("response".into(), Times::of(&times))]),
            ..Totals::default()
        };
        Run { label: label.into(), totals, ..Run::default() }
    }

    fn judged(text: &str, runs: Vec<Run>) -> Verdict {
        let record = Record::of(&Host::now(), Server::default(), 1, serde_json::Value::Null, runs);
        text.parse::<Assertion>().unwrap().judge(&record).unwrap()
    }

    #[test]
    fn demands_hold_or_fail_by_the_figures_of_the_record() {
        let one = || vec![run("server", 2)];
        for text in [
            "p50<501us",
            "p50 >= 0.499ms",
            "p99.9<1.001ms",
            "max<=1.001ms",
            "mean>400us",
            "rate==500",
            "errors<3",
            "errors.time-out==2",
            "errors.reset==0",
            "answers!=0",
        ] {
            assert!(judged(text, one()).holds, "{text}");
        }
        for text in ["p50<499us", "errors==0", "rate>500", "p99.9<0.0009s"] {
            let verdict = judged(text, one());
            assert!(!verdict.holds && verdict.words.starts_with("FAILED"), "{}", verdict.words);
        }
    }

    #[test]
    fn a_percentile_is_the_value_that_is_printed() {
        let run = run("server", 0);
        let printed = run.percentiles("response").p99_9_us;
        assert_eq!(judged("p99.9<1s", vec![run]).found, Some(printed / 1e6));
    }

    #[test]
    fn errors_are_forgiven_within_what_is_demanded_of_them() {
        let invalid_after = |demands: &str| {
            let mut run = run("server", 2);
            run.invalid = vec![errors_words(2), "late".into()];
            demands.parse::<Assertions>().unwrap().forgive(&mut run).unwrap();
            run.invalid.len()
        };
        assert_eq!((invalid_after("errors<3"), invalid_after("errors.time-out<=2")), (1, 1));
        for demands in ["errors==0", "errors.reset<5", "p99<1s", "errors<9,errors.time-out<2"] {
            assert_eq!(invalid_after(demands), 2, "{demands}");
        }
    }

    #[test]
    fn what_was_not_measured_fails_and_says_so() {
        for text in ["lateness.p99<1ms", "cpu<10", "rss<100"] {
            let verdict = judged(text, vec![run("server", 0)]);
            assert!(!verdict.holds && verdict.words.contains("not measured"), "{}", verdict.words);
        }
    }

    #[test]
    fn of_repeats_all_errors_count_and_the_floor_does_not() {
        let runs = || vec![run("server", 1), run("floor", 7), run("server", 2)];
        assert_eq!(judged("errors==3", runs()).found, Some(3.0));
        let words = judged("p50<1ms", runs()).words;
        assert!(words.contains("median of 2 runs"), "{words}");
    }

    #[test]
    fn what_cannot_be_read_is_answered_with_what_to_write() {
        for (text, why) in [
            ("p99", "no operator"),
            ("p99=1ms", "no such operator"),
            ("p101<1ms", "no figure 'p101'"),
            ("latency<1ms", "no figure 'latency'"),
            ("errors.timeout<=2", "but time-out, lost"),
            ("p99<2", "needs a unit"),
            ("p99<ms", "is no value"),
            ("errors==none", "is no value"),
        ] {
            let refused = text.parse::<Assertions>().unwrap_err();
            assert!(refused.contains(why) && refused.contains("such as p99.9<2ms"), "{refused}");
        }
        assert_eq!("p99<1ms, errors==0".parse::<Assertions>().unwrap().0.len(), 2);
    }
}

//! Tables in Markdown, ready to be pasted.

use std::fmt::Write as _;

use crate::compare::Spread;
use crate::host::Host;

/// A number with as many digits as say something.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// The median, with the range when there is one.
pub fn spread(spread: Option<Spread>) -> String {
    let Some(Spread { median, min, max }) = spread else { return "-".to_owned() };
    if min == max {
        return number(median);
    }
    format!("{} ({}-{})", number(median), number(min), number(max))
}

/// One line of a table.
pub fn row<T: AsRef<str>>(cells: impl IntoIterator<Item = T>) -> String {
    cells.into_iter().fold("|".to_owned(), |mut line, cell| {
        write!(line, " {} |", cell.as_ref()).expect("a String takes every character");
        line
    })
}

/// The two lines above the first row.
pub fn head<T: AsRef<str>>(names: &[T]) -> String {
    format!("{}\n|{}", row(names), "---|".repeat(names.len()))
}

/// What the numbers were measured on.
pub fn card(host: &Host) -> String {
    format!(
        "machine: {}, {} CPUs, Linux {}, load {:.2} at the start",
        host.cpu, host.cpus, host.kernel, host.load_average
    )
}

/// A figure with what it should be.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What was measured, with its unit.
    pub work: String,
    /// What came out.
    pub figure: Option<Spread>,
    /// `None` when nothing was promised.
    pub target: Option<Target>,
}

/// What a figure should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target {
    /// Its median is to be at most this.
    AtMost(f64),
    /// Its median is to be at least this.
    AtLeast(f64),
}

impl Finding {
    /// Whether the target was met; `None` without one, or without a figure.
    pub fn met(&self) -> Option<bool> {
        let median = self.figure?.median;
        Some(match self.target? {
            Target::AtMost(most) => median <= most,
            Target::AtLeast(least) => median >= least,
        })
    }

    /// Its row: work, figure, target, met.
    pub fn row(&self) -> String {
        let target = match self.target {
            None => "-".to_owned(),
            Some(Target::AtMost(most)) => format!("<= {}", number(most)),
            Some(Target::AtLeast(least)) => format!(">= {}", number(least)),
        };
        let met = match (self.met(), self.target) {
            (Some(true), _) => "met",
            (Some(false), _) => "missed",
            (None, Some(_)) => "not measured",
            (None, None) => "-",
        };
        row([self.work.clone(), spread(self.figure), target, met.to_owned()])
    }

    /// The head of a table of findings.
    pub fn head() -> String {
        head(&["Work", "Figure (least-most)", "Target", "Met"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(values: &[f64], target: Option<Target>) -> Finding {
        let figure = Spread::of(values.iter().copied());
        Finding { work: "w, us".into(), figure, target }
    }

    #[test]
    fn a_row_says_figure_range_target_and_whether_it_was_met() {
        let target = Some(Target::AtMost(2.0));
        let met = finding(&[1.0, 1.5, 2.5], target).row();
        assert_eq!(met, "| w, us | 1.50 (1.00-2.50) | <= 2.00 | met |");
        let missed = finding(&[200.4], target).row();
        assert_eq!(missed, "| w, us | 200 | <= 2.00 | missed |");
        assert_eq!(finding(&[], target).row(), "| w, us | - | <= 2.00 | not measured |");
        assert_eq!(finding(&[0.004], None).row(), "| w, us | 0.004 | - | - |");
        assert_eq!(finding(&[3.0], Some(Target::AtLeast(3.0))).met(), Some(true));
    }

    #[test]
    fn the_head_has_a_column_for_each_name() {
        assert_eq!(head(&["a", "b"]), "| a | b |\n|---|---|");
    }
}

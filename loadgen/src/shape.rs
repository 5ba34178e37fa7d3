//! How the rate of an open loop changes over a run. Fixed in advance: a shape turns a number of
//! arrivals into the moment at which so many are due, whatever the server does.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::measure::{Window, whole_ns};

/// A sine is cut into so many pieces of constant rate.
const SINE_PIECES: u32 = 400;
const STEPS_MAX: u32 = 1000;
const FACTOR_MAX: f64 = 1000.0;

/// The shape of the rate within the measured window. Before it (warm-up) the rate is the one the
/// window begins with, after it (cool-down) the one it ends with.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Shape {
    /// The same rate all the time.
    #[default]
    Hold,
    /// From this share of the rate, evenly up or down to all of it.
    Linear(f64),
    /// Up to the full rate in so many equal steps.
    Stairs(u32),
    /// The full rate times `factor`, from `at` for a time of `length` (shares of the window).
    #[expect(missing_docs, reason = "said above")]
    Spike { factor: f64, at: f64, length: f64 },
    /// Between `low` (a share of the rate) and the full rate, as a day goes.
    #[expect(missing_docs, reason = "said above")]
    Sine { low: f64, period_seconds: f64 },
    /// From each of these moments (seconds into the window) on, so many queries a second.
    Trace(Vec<(f64, f64)>),
}

/// What `--ramp` takes.
pub const SYNTAX: &str = "hold | linear:FROM | stairs:N | spike:FACTOR:AT:LENGTH | \
    sine:LOW:PERIOD | trace:FILE (FROM, LOW: share of --rate; AT, LENGTH: share of the measured \
    time; PERIOD in seconds; FILE: lines of SECONDS RATE)";

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let wrong = || format!("give {SYNTAX}");
        if name == "trace" {
            return trace(rest);
        }
        let numbers: Vec<f64> = if rest.is_empty() {
            Vec::new()
        } else {
            let parts: Result<Vec<f64>, _> = rest.split(':').map(str::parse).collect();
            parts.map_err(|_| wrong())?
        };
        if numbers.iter().any(|n| !n.is_finite() || *n < 0.0) {
            return Err(wrong());
        }
        match (name, numbers.as_slice()) {
            ("hold", []) => Ok(Shape::Hold),
            ("linear", &[from]) if from <= FACTOR_MAX => Ok(Shape::Linear(from)),
            ("stairs", &[steps]) if (1.0..=f64::from(STEPS_MAX)).contains(&steps) => {
                // In range, so the text of the whole part is a u32.
                format!("{steps:.0}").parse().map(Shape::Stairs).map_err(|_| wrong())
            }
            ("spike", &[factor, at, length])
                if factor <= FACTOR_MAX && length > 0.0 && at + length <= 1.0 =>
            {
                Ok(Shape::Spike { factor, at, length })
            }
            ("sine", &[low, period_seconds]) if low <= 1.0 && period_seconds > 0.0 => {
                Ok(Shape::Sine { low, period_seconds })
            }
            _ => Err(wrong()),
        }
    }
}

fn trace(file: &str) -> Result<Shape, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let mut words = line.split_whitespace().map(str::parse::<f64>);
        let (Some(Ok(at)), Some(Ok(rate)), None) = (words.next(), words.next(), words.next())
        else {
            return Err(format!("{file}:{number}: give SECONDS RATE, such as 2.5 4000"));
        };
        let after = points.last().is_none_or(|(last, _)| *last < at);
        if !after || at < 0.0 || !(0.0..=1e8).contains(&rate) {
            return Err(format!("{file}:{number}: seconds must grow and rates lie in 0 to 1e8"));
        }
        points.push((at, rate));
    }
    if points.iter().all(|(_, rate)| *rate == 0.0) {
        return Err(format!("{file}: no line with a rate above 0"));
    }
    Ok(Shape::Trace(points))
}

impl Shape {
    /// Queries a second over a window of this length, of a trace; of other shapes the share of the
    /// full rate.
    pub fn mean_rate(&self, seconds: f64) -> f64 {
        let end_ns = whole_ns(seconds * 1e9);
        let plan = Plan::new(self, 1.0, Window { begin_ns: 0, end_ns });
        plan.arrivals_until(end_ns as f64) / seconds
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Hold => write!(f, "hold"),
            Shape::Linear(from) => write!(f, "linear:{from}"),
            Shape::Stairs(steps) => write!(f, "stairs:{steps}"),
            Shape::Spike { factor, at, length } => write!(f, "spike:{factor}:{at}:{length}"),
            Shape::Sine { low, period_seconds } => write!(f, "sine:{low}:{period_seconds}"),
            Shape::Trace(points) => {
                // Two traces are the same load only when they say the same.
                let numbers = points.iter().flat_map(|(at, rate)| [*at, *rate]);
                let bytes: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
                write!(f, "trace of {} points ({:016x})", points.len(), xxh3_64(&bytes))
            }
        }
    }
}

impl Serialize for Shape {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Pieces of a run with one rate each: turns a number of arrivals into a moment.
#[derive(Debug, Clone)]
pub struct Plan {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    begin_ns: f64,
    /// Arrivals of all connections before it.
    before: f64,
    /// Arrivals a ns; the last piece has no end.
    rate: f64,
}

impl Plan {
    /// Of a shape at a full rate (queries per second) around a window.
    pub fn new(shape: &Shape, rate: f64, window: Window) -> Self {
        let begin = window.begin_ns as f64;
        let length = window.end_ns as f64 - begin;
        // Shares of the window at which a rate begins, and that rate.
        let steps: Vec<(f64, f64)> = match shape {
            Shape::Hold => vec![(0.0, rate)],
            Shape::Linear(from) => {
                let pieces = f64::from(SINE_PIECES);
                let middle = |i: u32| (f64::from(i) + 0.5) / pieces;
                let at = |i: u32| rate * (from + (1.0 - from) * middle(i));
                (0..SINE_PIECES).map(|i| (f64::from(i) / pieces, at(i))).collect()
            }
            Shape::Stairs(steps) => {
                let share = |i: u32| f64::from(i) / f64::from(*steps);
                (0..*steps).map(|i| (share(i), rate * share(i + 1))).collect()
            }
            Shape::Spike { factor, at, length } => {
                vec![(0.0, rate), (*at, rate * factor), (at + length, rate)]
            }
            Shape::Sine { low, period_seconds } => {
                let turns = length / 1e9 / period_seconds;
                let share = |i: u32| f64::from(i) / f64::from(SINE_PIECES);
                let at = |i: u32| {
                    let angle = share(i) * turns * std::f64::consts::TAU;
                    rate * (low + (1.0 - low) * (1.0 - angle.cos()) / 2.0)
                };
                (0..SINE_PIECES).map(|i| (share(i), at(i))).collect()
            }
            Shape::Trace(points) => {
                points.iter().map(|(at, rate)| (at * 1e9 / length, *rate)).collect()
            }
        };
        let mut plan = Self { pieces: Vec::with_capacity(steps.len() + 1) };
        let first = steps.first().map_or(rate, |(_, rate)| *rate);
        plan.push(0.0, first / 1e9);
        steps.iter().for_each(|(share, rate)| plan.push(begin + share * length, rate / 1e9));
        plan
    }

    fn push(&mut self, begin_ns: f64, rate: f64) {
        let before = self
            .pieces
            .last()
            .map_or(0.0, |last| last.before + last.rate * (begin_ns - last.begin_ns));
        self.pieces.push(Piece { begin_ns, before, rate });
    }

    /// When so many arrivals of all connections are due, in ns since the start; infinite when that
    /// never happens.
    pub fn when(&self, arrivals: f64) -> f64 {
        let later = self.pieces.partition_point(|piece| piece.before <= arrivals);
        let piece = &self.pieces[later.saturating_sub(1)];
        if piece.rate <= 0.0 {
            return self.pieces.get(later).map_or(f64::INFINITY, |next| next.begin_ns);
        }
        piece.begin_ns + (arrivals - piece.before) / piece.rate
    }

    /// Arrivals of all connections until this moment.
    pub fn arrivals_until(&self, ns: f64) -> f64 {
        let later = self.pieces.partition_point(|piece| piece.begin_ns <= ns);
        let piece = &self.pieces[later.saturating_sub(1)];
        piece.before + piece.rate * (ns - piece.begin_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { begin_ns: 1_000_000_000, end_ns: 11_000_000_000 };

    fn in_window(shape: &str, from_s: f64, to_s: f64) -> f64 {
        let plan = Plan::new(&shape.parse().unwrap(), 1000.0, WINDOW);
        plan.arrivals_until(to_s * 1e9) - plan.arrivals_until(from_s * 1e9)
    }

    #[track_caller]
    fn about(found: f64, expected: f64) {
        assert!((found - expected).abs() < expected * 0.01, "{found} instead of {expected}");
    }

    #[test]
    fn each_shape_has_as_many_arrivals_as_the_area_under_it() {
        about(in_window("hold", 0.0, 11.0), 11_000.0);
        about(in_window("linear:0", 1.0, 11.0), 5_000.0);
        about(in_window("linear:0.5", 1.0, 6.0), 3_125.0);
        about(in_window("stairs:2", 1.0, 6.0), 2_500.0);
        about(in_window("stairs:2", 6.0, 11.0), 5_000.0);
        about(in_window("spike:5:0.4:0.1", 5.0, 6.0), 5_000.0);
        about(in_window("spike:5:0.4:0.1", 1.0, 11.0), 14_000.0);
        about(in_window("sine:0.2:10", 1.0, 11.0), 6_000.0);
        about(in_window("sine:0.2:10", 5.9, 6.1), 200.0);
    }

    #[test]
    fn warm_up_has_the_first_rate_and_cool_down_the_last() {
        about(in_window("linear:0.5", 0.0, 1.0), 500.0);
        about(in_window("stairs:4", 0.0, 1.0), 250.0);
        about(in_window("linear:0.5", 11.0, 12.0), 1_000.0);
    }

    #[test]
    fn the_moment_of_an_arrival_is_the_inverse_of_their_number() {
        for shape in ["hold", "linear:0.1", "stairs:7", "spike:3:0.2:0.3", "sine:0:3"] {
            let plan = Plan::new(&shape.parse().unwrap(), 1000.0, WINDOW);
            let mut last = 0.0;
            for number in (1..8_000).map(f64::from).take_while(|n| plan.when(*n) < 12e9) {
                let at = plan.when(number);
                assert!(at >= last, "{shape}: {at} after {last}");
                assert!((plan.arrivals_until(at) - number).abs() < 1e-3, "{shape} at {number}");
                last = at;
            }
        }
    }

    #[test]
    fn a_trace_is_followed_and_a_pause_in_it_is_one() {
        let shape = Shape::Trace(vec![(0.0, 100.0), (2.0, 0.0), (5.0, 400.0)]);
        let plan = Plan::new(&shape, 1.0, WINDOW);
        let count = |from: f64, to: f64| plan.arrivals_until(to) - plan.arrivals_until(from);
        about(count(1e9, 3e9), 200.0);
        assert_eq!(count(3e9, 6e9), 0.0);
        about(count(6e9, 7e9), 400.0);
        let after_pause = plan.when(plan.arrivals_until(3e9) + 1.0);
        assert!(after_pause > 6e9, "{after_pause}");
    }

    #[test]
    fn traces_that_say_something_else_are_other_loads() {
        let text = |rate| Shape::Trace(vec![(0.0, 100.0), (2.0, rate)]).to_string();
        assert_eq!(text(5.0), text(5.0));
        assert_ne!(text(5.0), text(6.0));
    }

    #[test]
    fn a_shape_is_read_as_it_is_written_and_nonsense_is_answered_with_the_syntax() {
        for text in ["hold", "linear:0.1", "stairs:5", "spike:3:0.4:0.1", "sine:0.2:10"] {
            assert_eq!(text.parse::<Shape>().unwrap().to_string(), text);
        }
        for text in ["", "up", "linear", "linear:x", "stairs:0", "spike:3:0.9:0.2", "sine:2:1"] {
            assert!(text.parse::<Shape>().unwrap_err().contains("give hold"), "{text}");
        }
        assert!("trace:/does/not/exist".parse::<Shape>().unwrap_err().contains("/does/not/exist"));
    }
}

//! Scales and the marks on them.

/// How values lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances, equal differences.
    Linear,
    /// Equal distances, equal ratios. Values are above 0.
    Log,
}

/// One axis with its marks.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it shows, with the unit if the marks have none.
    pub label: String,
    /// How values lie on it.
    pub scale: Scale,
    /// The least value.
    pub from: f64,
    /// The greatest value, above the least one.
    pub to: f64,
    /// Values and their texts.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Seconds from `from` to `to`.
    pub fn seconds(label: &str, from: f64, to: f64) -> Self {
        const STEPS: [f64; 14] = [
            1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0,
            7200.0,
        ];
        let to = to.max(from + 1.0);
        let step = STEPS.into_iter().find(|step| (to - from) / step <= 8.0).unwrap_or(14_400.0);
        let first = (from / step).ceil();
        let ticks = (0..)
            .map(|n| (first + f64::from(n)) * step)
            .take_while(|at| *at <= to)
            .map(|at| (at, clock(at, step)))
            .collect();
        Self { label: label.to_owned(), scale: Scale::Linear, from, to, ticks }
    }

    /// From 0 to at least `to`.
    pub fn from_zero(label: &str, to: f64, text: impl Fn(f64) -> String) -> Self {
        let to = if to > 0.0 { to } else { 1.0 };
        let raw = to / 4.0;
        let decade = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|step| step * decade)
            .find(|step| *step >= raw * 0.999)
            .unwrap_or(raw);
        let count = (to / step * 0.999).ceil().max(1.0);
        let ticks = (0..=100)
            .map(f64::from)
            .take_while(|n| *n <= count)
            .map(|n| (n * step, text(n * step)))
            .collect();
        Self { label: label.to_owned(), scale: Scale::Linear, from: 0.0, to: count * step, ticks }
    }

    /// Microseconds between these two, on a log scale that ends at round numbers.
    pub fn micros(label: &str, least: f64, greatest: f64) -> Self {
        let least = least.max(0.1);
        let greatest = greatest.max(least);
        let (mut from, mut to) = (round(least, false), round(greatest, true));
        if to / from < 8.0 {
            (from, to) = (round(from * 0.4, false), round(to * 2.0, true));
        }
        let decades = (to / from).log10();
        let steps: &[f64] = match decades {
            ..2.2 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let ticks = (-1..=9)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
            .filter(|at| (from * 0.999..=to * 1.001).contains(at))
            .map(|at| (at, micros(at)))
            .collect();
        Self { label: label.to_owned(), scale: Scale::Log, from, to, ticks }
    }

    /// Percentiles of so many values: each nine takes as much room as the last.
    pub fn nines(label: &str, count: u64) -> Self {
        let to = nines_of_count(count);
        let texts = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
        let mut ticks = vec![(0.0, texts[0].to_owned()), (0.5_f64.log10().abs(), "50 %".into())];
        for (power, text) in (1_u8..).zip(&texts[1..]) {
            if f64::from(power) <= to {
                ticks.push((f64::from(power), (*text).to_owned()));
            }
        }
        Self { label: label.to_owned(), scale: Scale::Linear, from: 0.0, to, ticks }
    }

    /// Where a value lies: 0.0 at the beginning, 1.0 at the end, and never outside.
    pub fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
        };
        share.clamp(0.0, 1.0)
    }
}

/// How many nines the rarest of so many values has.
pub fn nines_of_count(count: u64) -> f64 {
    (count.max(10) as f64).log10().min(6.0)
}

/// The next of 1, 2, 5, 10, ... in a direction, or the value itself if it is one.
fn round(value: f64, up: bool) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    if up {
        steps.into_iter().find(|step| *step >= value * 0.999).unwrap_or(steps[3])
    } else {
        steps.into_iter().rev().find(|step| *step <= value * 1.001).unwrap_or(steps[0])
    }
}

fn clock(seconds: f64, step: f64) -> String {
    if step < 60.0 && seconds < 600.0 {
        return format!("{seconds:.0} s");
    }
    format!("{:.0}:{:02.0}", (seconds / 60.0).floor(), seconds % 60.0)
}

/// A time with its unit: three digits that count.
pub fn micros(us: f64) -> String {
    let (value, unit) = match us {
        ..0.9995 => (us * 1e3, "ns"),
        ..999.5 => (us, "µs"),
        ..999_500.0 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A count or a rate: `950`, `12.5 k`, `3 M`.
pub fn amount(value: f64) -> String {
    match value.abs() {
        ..9_999.5 if value.fract() == 0.0 => format!("{value:.0}"),
        ..999.5 => three_digits(value),
        ..9_999.5 => format!("{value:.0}"),
        ..999_500.0 => format!("{} k", three_digits(value / 1e3)),
        ..999_500_000.0 => format!("{} M", three_digits(value / 1e6)),
        _ => format!("{} G", three_digits(value / 1e9)),
    }
}

/// Bytes in binary units.
pub fn bytes(value: f64) -> String {
    match value {
        ..1024.0 => format!("{value:.0} B"),
        ..1_048_576.0 => format!("{} KiB", three_digits(value / 1024.0)),
        ..1_073_741_824.0 => format!("{} MiB", three_digits(value / 1_048_576.0)),
        _ => format!("{} GiB", three_digits(value / 1_073_741_824.0)),
    }
}

/// Without decimals that are zero.
pub fn three_digits(value: f64) -> String {
    let text = match value.abs() {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => return format!("{value:.0}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn numbers_keep_three_digits_and_get_a_unit() {
        let times = [0.25, 1.0, 12.34, 999.0, 1500.0, 2_000_000.0].map(micros);
        assert_eq!(times, ["250 ns", "1 µs", "12.3 µs", "999 µs", "1.5 ms", "2 s"]);
        let amounts = [0.0, 0.5, 950.0, 5000.0, 12_345.0, 3_000_000.0].map(amount);
        assert_eq!(amounts, ["0", "0.5", "950", "5000", "12.3 k", "3 M"]);
        assert_eq!(bytes(3.5 * 1_048_576.0), "3.5 MiB");
    }

    #[test]
    fn marks_are_round_and_the_values_lie_between_them() {
        let axis = Axis::from_zero("", 4321.0, amount);
        assert_eq!(texts(&axis), ["0", "2000", "4000", "6000"]);
        assert!(axis.to >= 4321.0);
        let axis = Axis::micros("", 38.0, 2400.0);
        assert_eq!((axis.from, axis.to), (20.0, 5000.0));
        assert_eq!(texts(&axis), ["100 µs", "1 ms"]);
        let axis = Axis::seconds("", 0.0, 61.0);
        assert_eq!(texts(&axis), ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]);
        assert_eq!(texts(&Axis::seconds("", 0.0, 900.0))[1], "2:00");
    }

    #[test]
    fn a_single_value_still_has_room_around_it() {
        for value in [0.0, 1.0, 99.0, 1e8] {
            let axis = Axis::micros("", value, value);
            assert!(axis.to / axis.from >= 4.0 && !axis.ticks.is_empty(), "{axis:?}");
            let axis = Axis::from_zero("", value, amount);
            assert!(axis.to > axis.from && axis.ticks.len() >= 2, "{axis:?}");
        }
        assert_eq!(Axis::seconds("", 0.0, 0.0).to, 1.0);
    }

    #[test]
    fn each_nine_takes_as_much_room_as_the_last() {
        let axis = Axis::nines("", 100_000);
        assert_eq!(texts(&axis), ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"]);
        let places: Vec<f64> = axis.ticks.iter().skip(2).map(|(at, _)| axis.place(*at)).collect();
        assert!(places.windows(2).all(|w| (w[1] - w[0] - 0.2).abs() < 1e-9), "{places:?}");
    }
}

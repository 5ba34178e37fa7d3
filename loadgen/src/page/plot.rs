//! Plots as SVG, twice each: for wide windows, with names at the ends of the lines, and for narrow
//! ones, with a legend below. The style sheet shows one of them. Lines differ by colour and by
//! dashes.

use std::fmt::Write as _;

use crate::page::axis::Axis;

/// Line styles there are; more series than that begin again with the first.
pub const STYLES: usize = 6;
/// Points up to which each gets a dot.
const DOTS_MAX: usize = 15;
/// Height of a line of text at the ends of lines.
const NAME_HEIGHT: f64 = 14.0;

/// One line.
#[derive(Debug, Clone)]
pub struct Series {
    /// At its end, and in the legend.
    pub name: String,
    /// Colour and dashes.
    pub style: usize,
    /// In the order of x. A gap in y (not a number) interrupts the line.
    pub points: Vec<(f64, f64)>,
}

/// A shaded part of the x axis.
#[derive(Debug, Clone)]
pub struct Band {
    /// Where it begins and ends.
    pub from: f64,
    /// One past its end.
    pub to: f64,
    /// What it is.
    pub name: String,
}

/// One plot.
#[derive(Debug, Clone)]
pub struct Plot {
    /// Names it in the page: `id` of the figure.
    pub id: &'static str,
    /// For those who cannot see it.
    pub describes: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Shaded parts.
    pub bands: Vec<Band>,
    /// Horizontal lines to compare with: value and name.
    pub levels: Vec<(f64, String)>,
    /// What is shown when the pointer rests there: from, to, text.
    pub hints: Vec<(f64, f64, String)>,
}

/// Sizes of a plot, in pixels.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    class: &'static str,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Marks on the x axis are that far apart, at least.
    tick_gap: f64,
    names_at_ends: bool,
}

/// Both sizes.
pub const FRAMES: [Frame; 2] = [
    Frame {
        class: "wide",
        width: 880.0,
        height: 300.0,
        left: 62.0,
        right: 118.0,
        top: 22.0,
        bottom: 44.0,
        tick_gap: 44.0,
        names_at_ends: true,
    },
    Frame {
        class: "narrow",
        width: 360.0,
        height: 250.0,
        left: 52.0,
        right: 14.0,
        top: 22.0,
        bottom: 42.0,
        tick_gap: 50.0,
        names_at_ends: false,
    },
];

impl Frame {
    fn inside(&self) -> (f64, f64) {
        (self.width - self.left - self.right, self.height - self.top - self.bottom)
    }

    /// Where a value of the x axis lies.
    pub fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + axis.place(value) * self.inside().0
    }

    /// Where a value of the y axis lies.
    pub fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.height - self.bottom - axis.place(value) * self.inside().1
    }

    /// Begins a picture with both axes.
    pub fn begin(&self, out: &mut String, describes: &str, x: &Axis, y: &Axis) {
        let Frame { class, width, height, left, right, bottom, .. } = *self;
        let _ = write!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{}\" xmlns=\"http://www.w3.org/2000/svg\">",
            escape(describes)
        );
        let (right, base) = (width - right, height - bottom);
        for (value, text) in &y.ticks {
            let at = self.y(y, *value);
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/><text class=\"tick\" \
                 x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 7.0,
                at + 4.0,
                escape(text)
            );
        }
        let _ = write!(out, "<path class=\"axis\" d=\"M{left} {base}H{right}\"/>");
        let mut last = f64::NEG_INFINITY;
        for (value, text) in &x.ticks {
            let at = self.x(x, *value);
            if at - last < self.tick_gap {
                continue;
            }
            last = at;
            // The last text would be cut off at the edge of a narrow picture.
            let anchor = if at > width - 24.0 { "end" } else { "middle" };
            let _ = write!(
                out,
                "<path class=\"axis\" d=\"M{at:.1} {base}v5\"/><text class=\"tick\" \
                 x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                base + 18.0,
                escape(text)
            );
        }
        let _ = write!(
            out,
            "<text class=\"name\" x=\"{left}\" y=\"12\">{}</text><text class=\"name\" \
             x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            escape(&y.label),
            height - 8.0,
            escape(&x.label)
        );
    }
}

impl Plot {
    /// Both pictures and the legend.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        FRAMES.iter().for_each(|frame| self.picture(&mut out, frame));
        if self.series.len() + self.levels.len() > 1 {
            out.push_str("<ul class=\"legend narrow\">");
            for series in &self.series {
                let class = format!("line s{}", series.style % STYLES);
                legend_entry(&mut out, &class, &series.name);
            }
            self.levels.iter().for_each(|(_, name)| legend_entry(&mut out, "level", name));
            out.push_str("</ul>");
        }
        out
    }

    fn picture(&self, out: &mut String, frame: &Frame) {
        frame.begin(out, &self.describes, &self.x, &self.y);
        let (base, top) = (frame.height - frame.bottom, frame.top);
        for band in &self.bands {
            let (from, to) = (frame.x(&self.x, band.from), frame.x(&self.x, band.to));
            let _ = write!(
                out,
                "<rect class=\"band\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" \
                 height=\"{:.1}\"/>",
                to - from,
                base - top
            );
            // A name that would run out of its band is left to the text around the plot.
            if to - from > 7.0 * band.name.chars().count() as f64 {
                let _ = write!(
                    out,
                    "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    f64::midpoint(from, to),
                    top + 13.0,
                    escape(&band.name)
                );
            }
        }
        for (value, _) in &self.levels {
            let at = frame.y(&self.y, *value);
            let right = frame.width - frame.right;
            let _ = write!(out, "<path class=\"level\" d=\"M{} {at:.1}H{right}\"/>", frame.left);
        }
        // The first series is the one that matters: it is drawn last, above the others.
        self.series.iter().rev().for_each(|series| self.line(out, frame, series));
        if frame.names_at_ends {
            self.names_at_ends(out, frame);
        }
        for (from, to, text) in &self.hints {
            let (from, to) = (frame.x(&self.x, *from), frame.x(&self.x, *to));
            let _ = write!(
                out,
                "<rect class=\"hint\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" \
                 height=\"{:.1}\"><title>{}</title></rect>",
                to - from,
                base - top,
                escape(text)
            );
        }
        out.push_str("</svg>");
    }

    fn line(&self, out: &mut String, frame: &Frame, series: &Series) {
        let style = series.style % STYLES;
        let (mut path, mut dots, mut pen_down) = (String::new(), String::new(), false);
        for (x, y) in &series.points {
            if !y.is_finite() {
                pen_down = false;
                continue;
            }
            let (x, y) = (frame.x(&self.x, *x), frame.y(&self.y, *y));
            let _ = write!(path, "{}{x:.1} {y:.1}", if pen_down { 'L' } else { 'M' });
            pen_down = true;
            if series.points.len() <= DOTS_MAX {
                let _ = write!(dots, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\"/>");
            }
        }
        if path.is_empty() {
            return;
        }
        let _ = write!(out, "<path class=\"line s{style}\" d=\"{path}\"/>");
        if !dots.is_empty() {
            let _ = write!(out, "<g class=\"dots s{style}\">{dots}</g>");
        }
    }

    /// Names next to the last points, moved apart where they would cover each other.
    fn names_at_ends(&self, out: &mut String, frame: &Frame) {
        let end_of = |series: &Series| {
            let last = series.points.iter().rev().find(|(_, y)| y.is_finite())?.1;
            let class = format!("end s{}", series.style % STYLES);
            Some((frame.y(&self.y, last), class, shortened(&series.name, 17)))
        };
        let level = |(value, name): &(f64, String)| {
            (frame.y(&self.y, *value), "tick".to_owned(), name.clone())
        };
        let mut ends: Vec<(f64, String, String)> =
            self.series.iter().filter_map(end_of).chain(self.levels.iter().map(level)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let places = spread_out(
            &ends.iter().map(|end| end.0).collect::<Vec<_>>(),
            NAME_HEIGHT,
            frame.top + 4.0,
            frame.height - frame.bottom,
        );
        for ((_, class, name), y) in ends.iter().zip(places) {
            let _ = write!(
                out,
                "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                frame.width - frame.right + 8.0,
                y + 4.0,
                escape(name)
            );
        }
    }
}

fn legend_entry(out: &mut String, class: &str, name: &str) {
    let _ = write!(
        out,
        "<li><svg viewBox=\"0 0 34 10\" class=\"sample\" aria-hidden=\"true\" \
         xmlns=\"http://www.w3.org/2000/svg\"><path class=\"{class}\" d=\"M1 5H33\"/></svg>{}</li>",
        escape(name)
    );
}

/// Moves places, given in order, apart by at least `gap`, and between the limits if they fit.
fn spread_out(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    let mut least = top;
    for place in &mut places {
        *place = place.max(least);
        least = *place + gap;
    }
    let mut most = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - gap;
    }
    places
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Text for between tags and in attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in a page, not even as a reference.
            '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::axis::amount;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        let series =
            |name: &str, style| Series { name: name.into(), style, points: points.clone() };
        Plot {
            id: "test",
            describes: "a & b".into(),
            x: Axis::seconds("time", 0.0, 10.0),
            y: Axis::from_zero("rate", 100.0, amount),
            series: vec![series("one", 0), series("two", 1)],
            bands: Vec::new(),
            levels: Vec::new(),
            hints: Vec::new(),
        }
    }

    #[test]
    fn a_gap_interrupts_the_line_and_nothing_is_drawn_of_it() {
        let svg = plot(vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0), (3.0, 4.0)]).svg();
        assert!(!svg.contains("NaN"), "{svg}");
        let line = svg.split("class=\"line s0\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((line.matches('M').count(), line.matches('L').count()), (2, 1), "{line}");
    }

    #[test]
    fn a_series_without_points_draws_nothing() {
        assert!(!plot(Vec::new()).svg().contains("class=\"line s0\" d=\"M6"));
    }

    #[test]
    fn names_that_would_cover_each_other_are_moved_apart_and_stay_inside() {
        let places = spread_out(&[10.0, 11.0, 12.0, 100.0], 14.0, 4.0, 100.0);
        assert_eq!(places, [10.0, 24.0, 38.0, 100.0]);
        let places = spread_out(&[95.0, 98.0, 100.0], 14.0, 4.0, 100.0);
        assert_eq!(places, [72.0, 86.0, 100.0]);
    }

    #[test]
    fn text_cannot_become_a_tag() {
        assert_eq!(escape("<a href='x'>&\"\u{1}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}");
    }
}

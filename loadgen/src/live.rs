//! What a person sees while a run goes on: a few lines that are drawn anew each second, or plain
//! lines when standard error is no terminal. The terminal is left as it is otherwise (no other
//! screen, no raw mode, cursor shown), so there is nothing to restore however the run ends.

use std::collections::VecDeque;
use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use crate::measure::Percentiles;
use crate::page::{amount, micros};
use crate::record::{Phase, Run};

/// Between two plain lines.
const PLAIN_EVERY: Duration = Duration::from_secs(5);
const BAR_WIDTH: usize = 24;
/// Seconds of the past that are drawn.
const PAST: usize = 60;
const WIDTH_USUAL: usize = 80;

/// How a run stands.
#[derive(Debug, Clone)]
pub struct Progress<'a> {
    /// Whom it is made against.
    pub label: &'a str,
    /// Where it is.
    pub phase: Phase,
    /// Since the start of the load.
    pub elapsed: Duration,
    /// When the load ends, since its start.
    pub end: Duration,
    /// Right answers in the last second.
    pub rate: u64,
    /// Response times of the last second.
    pub response: Percentiles,
    /// So far.
    pub errors: u64,
    /// The server's CPU in the last second, as a share of one.
    pub server_cpu: Option<f64>,
    /// This process's.
    pub generator_cpu: Option<f64>,
}

/// Told how runs go.
pub trait Onlooker {
    /// About once a second.
    fn second(&mut self, progress: &Progress<'_>);
    /// Something else is about to be printed.
    fn clear(&mut self) {}
    /// A run ended, whose number it is among repeats, from 1.
    fn ended(&mut self, round: u32, run: &Run) {
        let _ = (round, run);
    }
}

/// For runs that nobody watches.
pub struct Nobody;

impl Onlooker for Nobody {
    fn second(&mut self, _: &Progress<'_>) {}
}

/// Standard error as it is.
/// Lives: one per command.
pub struct Live {
    kind: Kind,
    drawn_lines: usize,
    past: VecDeque<u64>,
    last_plain: Option<(Phase, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Drawn { colours: bool },
}

impl Live {
    /// Drawn on a terminal, else plain lines.
    pub fn on_stderr() -> Self {
        let dumb = env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let kind = if io::stderr().is_terminal() && !dumb {
            Kind::Drawn { colours: env::var_os("NO_COLOR").is_none_or(|no| no.is_empty()) }
        } else {
            Kind::Plain
        };
        Self { kind, drawn_lines: 0, past: VecDeque::new(), last_plain: None }
    }

    fn draw(&mut self, progress: &Progress<'_>, colours: bool) {
        self.past.push_back(progress.rate);
        if self.past.len() > PAST {
            self.past.pop_front();
        }
        let lines = lines(progress, &self.past, width(), colours);
        let mut out = String::new();
        if self.drawn_lines > 0 {
            out.push_str(&format!("\r\x1b[{}A\x1b[J", self.drawn_lines));
        }
        for line in &lines {
            out.push_str(line);
            out.push('\n');
        }
        self.drawn_lines = lines.len();
        // A terminal that went away shall not end the run.
        let _ = io::stderr().write_all(out.as_bytes());
    }

    fn print(&mut self, progress: &Progress<'_>) {
        let due = self.last_plain.is_none_or(|(phase, at)| {
            phase != progress.phase || progress.elapsed.saturating_sub(at) >= PLAIN_EVERY
        });
        if due {
            self.last_plain = Some((progress.phase, progress.elapsed));
            let _ = writeln!(io::stderr(), "{}", plain(progress));
        }
    }
}

impl Onlooker for Live {
    fn second(&mut self, progress: &Progress<'_>) {
        match self.kind {
            Kind::Plain => self.print(progress),
            Kind::Drawn { colours } => self.draw(progress, colours),
        }
    }

    fn clear(&mut self) {
        let up = std::mem::take(&mut self.drawn_lines);
        if up > 0 {
            // To the first line that was drawn, and everything below it away.
            let _ = write!(io::stderr(), "\r\x1b[{up}A\x1b[J");
            let _ = io::stderr().flush();
        }
        self.past.clear();
        self.last_plain = None;
    }

    fn ended(&mut self, round: u32, run: &Run) {
        self.clear();
        println!("{}", crate::report::progress_words(round, run));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.clear();
    }
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|w| *w > 0).unwrap_or(WIDTH_USUAL)
}

fn percent(share: Option<f64>) -> String {
    share.map_or("?".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

fn plain(p: &Progress<'_>) -> String {
    format!(
        "{}: {}, {:.0} of {:.0} s; {}/s, p50 {}, p99.9 {}; {} errors; CPU: server {}, generator {}",
        p.label,
        p.phase.name(),
        p.elapsed.as_secs_f64(),
        p.end.as_secs_f64(),
        amount(p.rate as f64),
        micros(p.response.p50_us),
        micros(p.response.p99_9_us),
        p.errors,
        percent(p.server_cpu),
        percent(p.generator_cpu),
    )
}

/// No longer than the terminal is wide: a line that wraps could not be drawn over.
fn lines(p: &Progress<'_>, past: &VecDeque<u64>, width: usize, colours: bool) -> Vec<String> {
    let left = p.end.saturating_sub(p.elapsed).as_secs_f64();
    let share = p.elapsed.as_secs_f64() / p.end.as_secs_f64().max(1e-9);
    let r = &p.response;
    let texts = [
        format!("{}  {}  {}  {left:.0} s left", p.label, p.phase.name(), bar(share)),
        format!("  answers   {:>9}/s  {}", amount(p.rate as f64), sparks(past)),
        format!(
            "  response  p50 {}  p99 {}  p99.9 {}  max {}",
            micros(r.p50_us),
            micros(r.p99_us),
            micros(r.p99_9_us),
            micros(r.max_us)
        ),
        format!("  errors    {}", p.errors),
        format!(
            "  CPU       server {}  generator {}    Ctrl-C ends it with the report so far",
            percent(p.server_cpu),
            percent(p.generator_cpu)
        ),
    ];
    let styles = ["\x1b[1m", "", "", if p.errors > 0 { "\x1b[1;31m" } else { "" }, "\x1b[2m"];
    let styled = |(text, style): (&String, &str)| {
        let text: String = text.chars().take(width.saturating_sub(1)).collect();
        if colours && !style.is_empty() { format!("{style}{text}\x1b[0m") } else { text }
    };
    texts.iter().zip(styles).map(styled).collect()
}

fn bar(share: f64) -> String {
    let filled = (1..=BAR_WIDTH).filter(|n| *n as f64 <= share * BAR_WIDTH as f64).count();
    format!("[{}{}]", "#".repeat(filled), "-".repeat(BAR_WIDTH - filled))
}

fn sparks(past: &VecDeque<u64>) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = past.iter().copied().max().unwrap_or(0).max(1);
    past.iter()
        .map(|rate| usize::try_from(rate.saturating_mul(7) / most).map_or('?', |h| HEIGHTS[h]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(errors: u64) -> Progress<'static> {
        Progress {
            label: "server",
            phase: Phase::Measured,
            elapsed: Duration::from_secs(15),
            end: Duration::from_secs(20),
            rate: 4998,
            response: Percentiles { p50_us: 120.0, p99_9_us: 2400.0, ..Percentiles::default() },
            errors,
            server_cpu: Some(0.454),
            generator_cpu: None,
        }
    }

    #[test]
    fn the_lines_tell_what_counts_and_never_wrap() {
        let past = VecDeque::from([10, 80, 0]);
        let all = lines(&progress(3), &past, 200, false).join("\n");
        for part in ["measured", "5 s left", "4998/s", "▁█▁", "p99.9 2.4 ms", "errors    3", "45 %"]
        {
            assert!(all.contains(part), "{part} in {all}");
        }
        assert!(!all.contains('\x1b'), "{all}");
        for line in lines(&progress(0), &past, 30, false) {
            assert!(line.chars().count() < 30, "{line}");
        }
    }

    #[test]
    fn each_coloured_line_ends_its_colour() {
        let red = lines(&progress(1), &VecDeque::new(), 80, true);
        assert!(red[3].starts_with("\x1b[1;31m") && red[3].ends_with("\x1b[0m"), "{red:?}");
        let calm = lines(&progress(0), &VecDeque::new(), 80, true);
        assert!(!calm[3].contains('\x1b'), "{calm:?}");
    }

    #[test]
    fn a_plain_line_has_the_same_figures() {
        let text = plain(&progress(0));
        for part in ["server: measured, 15 of 20 s", "4998/s", "p50 120 µs", "0 errors", "45 %"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

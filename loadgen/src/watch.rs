//! Looks on from outside the generator threads: at the beginning and at the end of the measured
//! window, and once a second. Sums up what was found.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::live::{Onlooker, Progress};
use crate::measure::{Errors, Percentiles, Window, nanos};
use crate::process::{Process, Sample, Usage, machine_busy_ns};
use crate::record::{self, Cost, Phase, PhaseSpan, Run, Totals};
use crate::stop::Stop;
use crate::tape::{Collector, Timing};

/// How often the stop flag is looked at while waiting for the end of a window.
const STOP_LOOK: Duration = Duration::from_millis(100);
/// How often the processes are looked at.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Answers so far, warm-up included: one thread writes it, the others only look. Each has two
/// cache lines of its own (processors fetch them in pairs), or the threads would slow each other.
#[derive(Default)]
#[repr(align(128))]
pub struct Answered(AtomicU64);

impl Answered {
    /// Says how many there are.
    pub fn set(&self, count: u64) {
        // Relaxed: who looks only needs a recent value.
        self.0.store(count, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One look at everything at the same moment.
pub struct Look {
    at: Instant,
    answered: u64,
    server: Option<Sample>,
    generator: Option<Sample>,
    machine: Option<(u64, u64)>,
}

/// Lives: one per run, on the thread that waits for the others.
pub struct Watch<'a> {
    /// Whom the run is made against.
    pub label: &'a str,
    /// Whose CPU is measured; `None` when it is on another machine.
    pub server: Option<&'a Process>,
    /// The moment all times count from.
    pub origin: Instant,
    /// The part that counts.
    pub window: Window,
    /// By thread.
    pub answered: &'a [Answered],
    /// Ends the run early.
    pub stop: &'a Stop,
    /// What was seen once a second.
    pub samples: Vec<record::Sample>,
    /// Told once a second.
    pub onlooker: &'a mut dyn Onlooker,
}

impl Watch<'_> {
    /// Returns the looks at both ends of the window; `None` when it was never reached.
    ///
    /// # Errors
    /// When the server's process is gone.
    pub fn run(
        &mut self,
        all_done: &mpsc::Receiver<()>,
        collector: &mut Collector,
    ) -> Result<Option<(Look, Look)>, Failure> {
        let mut last = self.look()?;
        if !self.wait_until(self.window.begin_ns, all_done, collector, &mut last)? {
            return Ok(None);
        }
        let first = self.look()?;
        self.wait_until(self.window.end_ns, all_done, collector, &mut last)?;
        Ok(Some((first, self.look()?)))
    }

    fn tell(&mut self, collector: &Collector, sample: &record::Sample) {
        let latest = collector.latest();
        let times = latest.and_then(|slice| slice.times(Timing::Response));
        let share = |usage: &Option<Usage>| {
            Some(usage.as_ref()?.cpu_ns as f64 / sample.elapsed_ns.max(1) as f64)
        };
        let warm = sample.at_ns >= self.window.begin_ns;
        let progress = Progress {
            label: self.label,
            phase: if warm { Phase::Measured } else { Phase::WarmUp },
            elapsed: Duration::from_nanos(sample.at_ns),
            end: Duration::from_nanos(self.window.end_ns),
            rate: latest.map_or(0, |slice| slice.answers.total()),
            response: times.map(Percentiles::of).unwrap_or_default(),
            errors: collector.errors(),
            server_cpu: share(&sample.server),
            generator_cpu: share(&sample.generator),
        };
        self.onlooker.second(&progress);
    }

    fn look(&self) -> Result<Look, Failure> {
        let me = Process::new(std::process::id()).ok();
        Ok(Look {
            server: self.server.map(Process::sample).transpose()?,
            at: Instant::now(),
            answered: self.answered.iter().map(Answered::get).sum(),
            generator: me.as_ref().and_then(|me| me.sample().ok()),
            machine: machine_busy_ns(),
        })
    }

    /// Whether that time came before everything ended.
    fn wait_until(
        &mut self,
        ns: u64,
        all_done: &mpsc::Receiver<()>,
        collector: &mut Collector,
        last: &mut Look,
    ) -> Result<bool, Failure> {
        let until = self.origin + Duration::from_nanos(ns);
        loop {
            if last.at.elapsed() >= SAMPLE_EVERY {
                collector.drain();
                let now = self.look()?;
                let sample = sample(self.origin, last, &now);
                self.tell(collector, &sample);
                self.samples.push(sample);
                *last = now;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            let all_ended =
                all_done.recv_timeout(left.min(STOP_LOOK)) == Err(RecvTimeoutError::Disconnected);
            if all_ended || self.stop.asked() {
                return Ok(false);
            }
        }
    }
}

fn sample(origin: Instant, before: &Look, now: &Look) -> record::Sample {
    record::Sample {
        at_ns: nanos(now.at.saturating_duration_since(origin)),
        elapsed_ns: nanos(now.at.duration_since(before.at)),
        server: used(&before.server, &now.server),
        generator: used(&before.generator, &now.generator),
    }
}

fn used(before: &Option<Sample>, now: &Option<Sample>) -> Option<Usage> {
    Some(now.as_ref()?.since(before.as_ref()?))
}

/// What was found, before it is summed up.
pub struct Found {
    /// When the load began, in ms since 1970.
    pub started_unix_ms: u64,
    /// Whatever was counted besides answers, by name.
    pub counts: BTreeMap<String, u64>,
    /// What went wrong.
    pub errors: Errors,
    /// At both ends of the window.
    pub looks: Option<(Look, Look)>,
    /// Once a second.
    pub samples: Vec<record::Sample>,
}

/// What the run was meant to be.
pub struct Intent<'a> {
    /// Whom it was made against.
    pub label: &'a str,
    /// Queries per second; `None` in a closed loop.
    pub rate: Option<f64>,
    /// The part that counts.
    pub window: Window,
    /// Load after it.
    pub cool_down_ns: u64,
    /// The generator's lateness p99.9 above which an open-loop run says nothing.
    pub lateness_bound_us: u64,
    /// Whether the run was ended before its time.
    pub interrupted: bool,
}

/// Sums up a run. The tapes have been dropped by now.
pub fn summary(intent: &Intent<'_>, found: Found, mut collector: Collector) -> Run {
    collector.drain();
    let sum = collector.totals().packed(Phase::Measured);
    let cost = found.looks.as_ref().map(|(first, last)| cost(first, last));
    let (seconds, answers) = match &cost {
        Some(cost) if intent.interrupted => (cost.seconds, cost.answers),
        _ => (intent.window.seconds(), sum.answers.values().sum()),
    };
    let mut run = Run {
        label: intent.label.to_owned(),
        started_unix_ms: found.started_unix_ms,
        mode: if intent.rate.is_some() { "open loop" } else { "closed loop" }.to_owned(),
        phases: phases(intent, seconds),
        seconds: collector.seconds(),
        totals: Totals {
            seconds,
            rate: answers as f64 / seconds.max(1e-9),
            demanded_rate: intent.rate,
            answers: sum.answers,
            errors: found.errors.by_kind(),
            error_examples: found.errors.examples,
            counts: found.counts,
            times: sum.times,
        },
        samples: found.samples,
        cost,
        interrupted: intent.interrupted,
        invalid: Vec::new(),
    };
    run.invalid = why_invalid(intent, &run);
    run
}

fn phases(intent: &Intent<'_>, seconds: f64) -> Vec<PhaseSpan> {
    let begin_ns = intent.window.begin_ns;
    let end_ns = begin_ns + nanos(Duration::from_secs_f64(seconds));
    let cool_down_ns = if intent.interrupted { 0 } else { intent.cool_down_ns };
    let span = |phase, begin_ns, end_ns| PhaseSpan { phase, begin_ns, end_ns };
    let all = [
        span(Phase::WarmUp, 0, begin_ns),
        span(Phase::Measured, begin_ns, end_ns),
        span(Phase::CoolDown, end_ns, end_ns + cool_down_ns),
    ];
    all.into_iter().filter(|span| span.begin_ns < span.end_ns).collect()
}

fn cost(first: &Look, last: &Look) -> Cost {
    let mut cost = Cost {
        seconds: last.at.duration_since(first.at).as_secs_f64(),
        answers: last.answered.saturating_sub(first.answered),
        server: used(&first.server, &last.server),
        generator: used(&first.generator, &last.generator),
        others_cpu_ns: None,
        steal_ns: None,
    };
    if let Some(((busy_a, steal_a), (busy_b, steal_b))) = first.machine.zip(last.machine) {
        let known: u64 =
            [&cost.server, &cost.generator].into_iter().flatten().map(|usage| usage.cpu_ns).sum();
        cost.others_cpu_ns = Some(busy_b.saturating_sub(busy_a).saturating_sub(known));
        cost.steal_ns = Some(steal_b.saturating_sub(steal_a));
    }
    cost
}

fn why_invalid(intent: &Intent<'_>, run: &Run) -> Vec<String> {
    let mut why = Vec::new();
    if run.answers() == 0 {
        why.push("no right answer in the window".to_owned());
    }
    if run.errors() > 0 {
        why.push(record::errors_words(run.errors()));
    }
    let bound = intent.lateness_bound_us as f64;
    let late = run.percentiles(Timing::Lateness.name()).p99_9_us;
    if intent.rate.is_some() && late > bound {
        why.push(format!(
            "the generator was late by {late:.0} us at p99.9, more than {bound} us: give it a CPU \
             of its own (--pin) or a lower --rate"
        ));
    }
    why
}

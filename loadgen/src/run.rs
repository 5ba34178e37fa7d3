//! One measured run: connect, warm up, measure a window, wait for the last answers.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::check::{Checker, Expect};
use crate::connection::{Connection, Mix};
use crate::engine::Engine;
use crate::failure::{Failure, run_failure};
use crate::fleet::Asked;
use crate::host::unix_ms;
use crate::limits;
use crate::live::{Onlooker, Progress};
use crate::measure::{Counts, Errors, Percentiles, Window, nanos};
use crate::pace::{Arrivals, OpenLoop, Schedule};
use crate::process::{Process, Sample, Usage, machine_busy_ns};
use crate::record::{self, Cost, Phase, PhaseSpan, Run, Totals};
use crate::stop::Stop;
use crate::tape::{Collector, Timing};
use crate::wire::RouteQuery;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the stop flag is looked at while waiting for the end of a window.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// How often the processes are looked at.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// The load of a run; the same against the server and against the floor.
#[derive(Debug, Clone, Serialize)]
pub struct Load {
    /// Open connections.
    pub connections: u32,
    /// Queries on the way on each of them, at most.
    pub depth: usize,
    /// The measured window.
    pub seconds: f64,
    /// Before the window; not measured.
    pub warmup_seconds: f64,
    /// Topics asked about.
    pub topics: u32,
    /// Share of queries for topics nobody registered.
    pub misses: f64,
    /// Makes questions and arrival times.
    pub seed: u64,
    /// Queries per second over all connections; `None` is a closed loop.
    pub rate: Option<f64>,
    /// How they are spread.
    pub arrivals: Arrivals,
    /// Generator threads.
    pub threads: u32,
    /// How long an answer may take.
    pub timeout_ms: u64,
    /// The generator's lateness p99.9 above which an open-loop run says nothing.
    pub lateness_bound_us: u64,
    /// The CPUs of the generator, one a thread, again from the first when there are too few.
    pub pin: Vec<usize>,
}

/// Whom a run is made against.
pub struct Target {
    /// Its name in the report.
    pub label: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it should answer.
    pub expect: Expect,
    /// Whose CPU is measured; `None` when it is on another machine.
    pub process: Option<Process>,
}

/// Runs the load against the target.
///
/// # Errors
/// When no connection can be made, or a process to be measured is gone. Wrong answers and lost
/// connections are in the result.
pub fn run(
    load: &Load,
    target: &Target,
    stop: &Stop,
    onlooker: &mut dyn Onlooker,
) -> Result<Run, Failure> {
    limits::check_connections(u64::from(load.connections))?;
    let mut shares = connect(load, target.address)?;
    let window = window_of(load);
    let mut collector = Collector::new(window.begin_ns);
    let answered: Vec<AtomicU64> = shares.iter().map(|_| AtomicU64::new(0)).collect();
    let (origin, started_unix_ms) = (Instant::now() + Duration::from_millis(5), unix_ms());
    let found = std::thread::scope(|scope| {
        let (alive, all_done) = mpsc::channel::<()>();
        let (mut threads, mut gates) = (Vec::new(), Vec::new());
        for (index, (numbers, connections)) in shares.drain(..).enumerate() {
            let (alive, answered, tape) = (alive.clone(), &answered[index], collector.tape());
            let (gate, looked) = mpsc::channel::<()>();
            gates.push(gate);
            let engine = Engine {
                origin,
                window,
                timeout: Duration::from_millis(load.timeout_ms),
                schedule: schedule_of(load, &numbers),
                checker: Checker::new(target.expect.clone()),
                answered,
                stop,
            };
            let body = move || {
                if !load.pin.is_empty() {
                    limits::pin(&[load.pin[index % load.pin.len()]])?;
                }
                let measured = engine.run(connections, tape);
                drop(alive); // tells the sampler that there is nothing more to wait for
                // Not before the last look: an ended thread has no CPU time to look at.
                let _ = looked.recv();
                measured
            };
            let thread = std::thread::Builder::new().name("generator".into());
            threads.push(thread.spawn_scoped(scope, body).map_err(no_thread)?);
        }
        drop(alive);
        let (answered, samples) = (&answered[..], Vec::new());
        let mut watch = Watch { target, origin, window, answered, stop, samples, onlooker };
        let looks = watch.run(&all_done, &mut collector);
        drop(gates);
        let (mut counts, mut errors) = (Counts::default(), Errors::default());
        for thread in threads {
            let crashed = |_| Err(run_failure("a generator thread crashed"));
            let (more_counts, more_errors) = thread.join().unwrap_or_else(crashed)?;
            counts.merge(&more_counts);
            errors.merge(more_errors);
        }
        let samples = watch.samples;
        Ok::<_, Failure>(Found { started_unix_ms, counts, errors, looks: looks?, samples })
    })?;
    Ok(summary(load, target, found, collector, stop.asked()))
}

/// What was found, before it is summed up.
struct Found {
    started_unix_ms: u64,
    counts: Counts,
    errors: Errors,
    looks: Option<(Look, Look)>,
    samples: Vec<record::Sample>,
}

fn no_thread(e: std::io::Error) -> Failure {
    run_failure(format!("cannot start a thread: {e}"))
}

fn window_of(load: &Load) -> Window {
    let begin_ns = nanos(Duration::from_secs_f64(load.warmup_seconds));
    Window { begin_ns, end_ns: begin_ns + nanos(Duration::from_secs_f64(load.seconds)) }
}

fn schedule_of(load: &Load, numbers: &[u32]) -> Option<Schedule> {
    let rate = load.rate?;
    let (arrivals, seed, connections) = (load.arrivals, load.seed, load.connections);
    let open = OpenLoop { rate, arrivals, seed, connections };
    Some(Schedule::new(open, numbers.iter().copied()))
}

/// The numbers and the sockets of the connections of one generator thread.
type Share = (Vec<u32>, Vec<(TcpStream, Connection)>);

fn connect(load: &Load, address: SocketAddr) -> Result<Vec<Share>, Failure> {
    let sample = String::from_utf8_lossy(&Asked::Topic(0).name()).into_owned();
    let query = Arc::new(RouteQuery::for_topics_like(&sample));
    let mix = Mix { topics: load.topics, misses: load.misses, seed: load.seed };
    let mut shares: Vec<Share> = (0..load.threads).map(|_| Share::default()).collect();
    for number in 0..load.connections {
        let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .and_then(|s| s.set_nodelay(true).and_then(|()| s.set_nonblocking(true)).map(|()| s))
            .map_err(|e| {
                run_failure(format!(
                    "connection {} of {} to {address}: {e}",
                    number + 1,
                    load.connections
                ))
            })?;
        let connection = Connection::new(mix, number, load.depth, query.clone());
        let share = &mut shares[(number % load.threads) as usize];
        share.0.push(number);
        share.1.push((socket, connection));
    }
    Ok(shares)
}

/// One look at everything at the same moment.
struct Look {
    at: Instant,
    answered: u64,
    server: Option<Sample>,
    generator: Option<Sample>,
    machine: Option<(u64, u64)>,
}

/// Looks on from outside the generator threads: at the beginning and at the end of the window, and
/// once a second.
struct Watch<'a> {
    target: &'a Target,
    origin: Instant,
    window: Window,
    answered: &'a [AtomicU64],
    stop: &'a Stop,
    samples: Vec<record::Sample>,
    onlooker: &'a mut dyn Onlooker,
}

impl<'a> Watch<'a> {
    /// `None` when the window was never reached.
    fn run(
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

    fn progress(&self, collector: &Collector, sample: &record::Sample) -> Progress<'a> {
        let (begin, end) = (self.window.begin_ns, self.window.end_ns);
        let latest = collector.latest();
        let times = latest.and_then(|slice| slice.times(Timing::Response));
        let share = |usage: &Option<Usage>| {
            Some(usage.as_ref()?.cpu_ns as f64 / sample.elapsed_ns.max(1) as f64)
        };
        Progress {
            label: &self.target.label,
            phase: if sample.at_ns < begin { Phase::WarmUp } else { Phase::Measured },
            elapsed: Duration::from_nanos(sample.at_ns),
            end: Duration::from_nanos(end),
            rate: latest.map_or(0, |slice| slice.answers.total()),
            response: times.map(Percentiles::of).unwrap_or_default(),
            errors: collector.errors(),
            server_cpu: share(&sample.server),
            generator_cpu: share(&sample.generator),
        }
    }

    fn look(&self) -> Result<Look, Failure> {
        let me = Process::new(std::process::id()).ok();
        Ok(Look {
            server: self.target.process.as_ref().map(Process::sample).transpose()?,
            at: Instant::now(),
            answered: self.answered.iter().map(|a| a.load(Relaxed)).sum(),
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
                let progress = self.progress(collector, &sample);
                self.onlooker.second(&progress);
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

fn summary(
    load: &Load,
    target: &Target,
    found: Found,
    mut collector: Collector,
    interrupted: bool,
) -> Run {
    collector.drain();
    let sum = collector.totals().packed(Phase::Measured);
    let cost = found.looks.as_ref().map(|(first, last)| cost(first, last));
    let (seconds, answers) = match &cost {
        Some(cost) if interrupted => (cost.seconds, cost.answers),
        _ => (load.seconds, sum.answers.values().sum()),
    };
    let mut run = Run {
        label: target.label.clone(),
        started_unix_ms: found.started_unix_ms,
        mode: if load.rate.is_some() { "open loop" } else { "closed loop" }.to_owned(),
        phases: phases(load, seconds),
        seconds: collector.seconds(),
        totals: Totals {
            seconds,
            rate: answers as f64 / seconds.max(1e-9),
            demanded_rate: load.rate,
            answers: sum.answers,
            errors: found.errors.by_kind(),
            error_examples: found.errors.examples,
            counts: found.counts.by_name(),
            times: sum.times,
        },
        samples: found.samples,
        cost,
        interrupted,
        invalid: Vec::new(),
    };
    run.invalid = why_invalid(load, &run);
    run
}

fn phases(load: &Load, seconds: f64) -> Vec<PhaseSpan> {
    let Window { begin_ns, .. } = window_of(load);
    let end_ns = begin_ns + nanos(Duration::from_secs_f64(seconds));
    let span = |phase, begin_ns, end_ns| PhaseSpan { phase, begin_ns, end_ns };
    let all = [span(Phase::WarmUp, 0, begin_ns), span(Phase::Measured, begin_ns, end_ns)];
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

fn why_invalid(load: &Load, run: &Run) -> Vec<String> {
    let mut why = Vec::new();
    if run.answers() == 0 {
        why.push("no right answer in the window".to_owned());
    }
    if run.errors() > 0 {
        why.push(format!("{} errors", run.errors()));
    }
    let bound = load.lateness_bound_us as f64;
    let late = run.percentiles(Timing::Lateness.name()).p99_9_us;
    if load.rate.is_some() && late > bound {
        why.push(format!(
            "the generator was late by {late:.0} us at p99.9, more than {bound} us: give it a CPU \
             of its own (--pin) or a lower --rate"
        ));
    }
    why
}

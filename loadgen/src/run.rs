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
use crate::limits;
use crate::measure::{Counts, Errors, Measured, Percentiles, Window, nanos};
use crate::pace::{Arrivals, OpenLoop, Schedule};
use crate::process::{Process, Sample, Usage, machine_busy_ns};
use crate::shape::{Plan, Shape};
use crate::stop::Stop;
use crate::wire::RouteQuery;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the stop flag is looked at while waiting for the end of a window.
const STOP_LOOK: Duration = Duration::from_millis(100);

const NOISY_SHARE: f64 = 0.1;

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
    /// How the rate changes over the measured window.
    pub shape: Shape,
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

/// What a run found.
#[derive(Debug, Clone, Serialize)]
pub struct RunResult {
    /// Whom it was made against.
    pub label: String,
    /// `closed loop` or `open loop`.
    pub mode: &'static str,
    /// Why the numbers must not be used; empty when they may be.
    pub invalid: Vec<String>,
    /// Whether it was ended before its time.
    pub interrupted: bool,
    /// Length of the window as it should be.
    pub planned_seconds: f64,
    /// Time between the first and the last look at the processes, which is a little longer when
    /// the machine is busy.
    pub window_seconds: f64,
    /// Answers between these looks: what the CPU time is divided by.
    pub window_answers: u64,
    /// Right answers and such.
    pub counts: Counts,
    /// What went wrong.
    pub errors: Errors,
    /// From the intended time to the answer.
    pub response: Percentiles,
    /// From the sending to the answer.
    pub service: Percentiles,
    /// How late the generator was; open loop only.
    pub lateness: Percentiles,
    /// What the server used in the window.
    pub server: Option<Usage>,
    /// What this process used in the window.
    pub generator: Option<Usage>,
    /// CPU of all other processes of the machine in the window.
    pub others_cpu_ns: Option<u64>,
    /// CPU the hypervisor took away in the window.
    pub steal_ns: Option<u64>,
}

impl RunResult {
    /// Right answers per second to queries of the window.
    pub fn rate(&self) -> f64 {
        if !self.interrupted {
            return (self.counts.hits + self.counts.misses) as f64 / self.planned_seconds;
        }
        self.window_answers as f64 / self.window_seconds.max(1e-9)
    }

    /// The server's CPU for one query, in us.
    pub fn server_us_per_query(&self) -> Option<f64> {
        per_query_us(self.server.as_ref()?, self.window_answers)
    }

    /// The generator's CPU for one query, in us.
    pub fn generator_us_per_query(&self) -> Option<f64> {
        per_query_us(self.generator.as_ref()?, self.window_answers)
    }

    /// CPU of other processes in the window, as a share of one CPU.
    pub fn others_share(&self) -> f64 {
        self.others_cpu_ns.unwrap_or(0) as f64 / 1e9 / self.window_seconds.max(1e-9)
    }

    /// Whether other processes used so much CPU that times and CPU per query (through shared
    /// caches and forced switches) say little.
    pub fn is_noisy(&self) -> bool {
        self.others_share() > NOISY_SHARE
    }

    /// Mean frame bytes of hits and of misses; `None` without any.
    pub fn answer_bytes(&self) -> (Option<f64>, Option<f64>) {
        let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
        let c = &self.counts;
        (mean(c.hit_bytes, c.hits), mean(c.miss_bytes, c.misses))
    }
}

fn per_query_us(usage: &Usage, answers: u64) -> Option<f64> {
    (answers > 0).then(|| usage.cpu_ns as f64 / 1e3 / answers as f64)
}

/// Runs the load against the target.
///
/// # Errors
/// When no connection can be made, or a process to be measured is gone. Wrong answers and lost
/// connections are in the result.
pub fn run(load: &Load, target: &Target, stop: &Stop) -> Result<RunResult, Failure> {
    limits::check_connections(u64::from(load.connections))?;
    let mut shares = connect(load, target.address)?;
    let (window, open) = (window_of(load), open_loop(load));
    let answered: Vec<AtomicU64> = shares.iter().map(|_| AtomicU64::new(0)).collect();
    let origin = Instant::now() + Duration::from_millis(5);
    let (measured, looks) = std::thread::scope(|scope| {
        let (alive, all_done) = mpsc::channel::<()>();
        let (mut threads, mut gates) = (Vec::new(), Vec::new());
        for (index, (numbers, connections)) in shares.drain(..).enumerate() {
            let (alive, answered) = (alive.clone(), &answered[index]);
            let (gate, looked) = mpsc::channel::<()>();
            gates.push(gate);
            let engine = Engine {
                origin,
                window,
                timeout: Duration::from_millis(load.timeout_ms),
                schedule: open.clone().map(|o| Schedule::new(o, numbers.iter().copied())),
                checker: Checker::new(target.expect.clone()),
                answered,
                stop,
            };
            let body = move || {
                if !load.pin.is_empty() {
                    limits::pin(&[load.pin[index % load.pin.len()]])?;
                }
                let measured = engine.run(connections);
                drop(alive); // tells the sampler that there is nothing more to wait for
                // Not before the last look: an ended thread has no CPU time to look at.
                let _ = looked.recv();
                measured
            };
            let thread = std::thread::Builder::new().name("generator".into());
            threads.push(thread.spawn_scoped(scope, body).map_err(no_thread)?);
        }
        drop(alive);
        let looks = watch(target, origin, window, &answered, &all_done, stop);
        drop(gates);
        let mut measured = Measured::default();
        for thread in threads {
            let crashed = |_| Err(run_failure("a generator thread crashed"));
            measured.merge(thread.join().unwrap_or_else(crashed)?);
        }
        Ok::<_, Failure>((measured, looks?))
    })?;
    Ok(summary(load, target, &measured, &looks, stop.asked()))
}

fn no_thread(e: std::io::Error) -> Failure {
    run_failure(format!("cannot start a thread: {e}"))
}

fn window_of(load: &Load) -> Window {
    let begin_ns = nanos(Duration::from_secs_f64(load.warmup_seconds));
    Window { begin_ns, end_ns: begin_ns + nanos(Duration::from_secs_f64(load.seconds)) }
}

fn open_loop(load: &Load) -> Option<OpenLoop> {
    let plan = Arc::new(Plan::new(&load.shape, load.rate?, window_of(load)));
    let (arrivals, seed, connections) = (load.arrivals, load.seed, load.connections);
    Some(OpenLoop { plan, arrivals, seed, connections })
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

/// Looks at the beginning and at the end of the window, from outside the generator threads.
fn watch(
    target: &Target,
    origin: Instant,
    window: Window,
    answered: &[AtomicU64],
    all_done: &mpsc::Receiver<()>,
    stop: &Stop,
) -> Result<Option<(Look, Look)>, Failure> {
    let me = Process::new(std::process::id()).ok();
    let look = || -> Result<Look, Failure> {
        Ok(Look {
            server: target.process.as_ref().map(Process::sample).transpose()?,
            at: Instant::now(),
            answered: answered.iter().map(|a| a.load(Relaxed)).sum(),
            generator: me.as_ref().and_then(|me| me.sample().ok()),
            machine: machine_busy_ns(),
        })
    };
    let wait_until = |ns: u64| -> bool {
        let until = origin + Duration::from_nanos(ns);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let all_ended =
                all_done.recv_timeout(left.min(STOP_LOOK)) == Err(RecvTimeoutError::Disconnected);
            if all_ended || stop.asked() {
                return false;
            }
        }
    };
    if !wait_until(window.begin_ns) {
        return Ok(None);
    }
    let first = look()?;
    wait_until(window.end_ns);
    Ok(Some((first, look()?)))
}

fn summary(
    load: &Load,
    target: &Target,
    measured: &Measured,
    looks: &Option<(Look, Look)>,
    interrupted: bool,
) -> RunResult {
    let mut result = RunResult {
        label: target.label.clone(),
        mode: if load.rate.is_some() { "open loop" } else { "closed loop" },
        invalid: Vec::new(),
        interrupted,
        planned_seconds: load.seconds,
        window_seconds: 0.0,
        window_answers: 0,
        counts: measured.counts.clone(),
        errors: measured.errors.clone(),
        response: Percentiles::of(&measured.response),
        service: Percentiles::of(&measured.service),
        lateness: Percentiles::of(&measured.lateness),
        server: None,
        generator: None,
        others_cpu_ns: None,
        steal_ns: None,
    };
    if let Some((first, last)) = looks {
        result.window_seconds = last.at.duration_since(first.at).as_secs_f64();
        result.window_answers = last.answered.saturating_sub(first.answered);
        let usage = |a: &Option<Sample>, b: &Option<Sample>| Some(b.as_ref()?.since(a.as_ref()?));
        result.server = usage(&first.server, &last.server);
        result.generator = usage(&first.generator, &last.generator);
        if let Some(((busy_a, steal_a), (busy_b, steal_b))) = first.machine.zip(last.machine) {
            let known = [&result.server, &result.generator].into_iter().flatten();
            let known: u64 = known.map(|usage| usage.cpu_ns).sum();
            result.others_cpu_ns = Some(busy_b.saturating_sub(busy_a).saturating_sub(known));
            result.steal_ns = Some(steal_b.saturating_sub(steal_a));
        }
    }
    result.invalid = why_invalid(load, &result);
    result
}

fn why_invalid(load: &Load, result: &RunResult) -> Vec<String> {
    let mut why = Vec::new();
    if result.counts.hits + result.counts.misses == 0 {
        why.push("no right answer in the window".to_owned());
    }
    if result.errors.total() > 0 {
        why.push(format!("{} errors", result.errors.total()));
    }
    let bound = load.lateness_bound_us as f64;
    if load.rate.is_some() && result.lateness.p99_9_us > bound {
        why.push(format!(
            "the generator was late by {:.0} us at p99.9, more than {bound} us: give it a CPU of \
             its own (--pin) or a lower --rate",
            result.lateness.p99_9_us
        ));
    }
    why
}

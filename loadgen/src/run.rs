//! One measured run: connect, warm up, measure a window, wait for the last answers.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::check::{Checker, Expect};
use crate::connection::{Connection, Mix};
use crate::engine::Engine;
use crate::failure::{Failure, run_failure};
use crate::fleet::Asked;
use crate::host::unix_ms;
use crate::limits;
use crate::live::Onlooker;
use crate::measure::{Counts, Errors, Window, histogram, nanos};
use crate::pace::{Arrivals, OpenLoop, Schedule};
use crate::preflight;
use crate::priority;
use crate::process::Process;
use crate::record::{Run, Times};
use crate::shape::{Plan, Shape};
use crate::sources::{self, Ending, Sources};
use crate::stop::Stop;
use crate::tape::{Collector, Tape, Timing};
use crate::watch::{Answered, Found, Intent, Watch, summary};
use crate::wire::RouteQuery;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

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
    /// The same load after the window; not measured.
    pub cooldown_seconds: f64,
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
    /// Where the connections come from.
    pub sources: Sources,
    /// How they are ended.
    pub ending: Ending,
    /// Connections made per second, at most; `None` is as fast as they are accepted.
    pub connect_rate: Option<f64>,
    /// Generator threads.
    pub threads: u32,
    /// How long an answer may take.
    pub timeout_ms: u64,
    /// The generator's lateness p99.9 above which an open-loop run says nothing.
    pub lateness_bound_us: u64,
    /// The CPUs of the generator, one a thread, again from the first when there are too few.
    pub pin: Vec<usize>,
    /// Whether the generator has these CPUs the moment it wants them, if the system allows it. For
    /// an open loop whose CPU is shared with work that it measures beside.
    pub at_once: bool,
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

impl Load {
    fn window(&self) -> Window {
        let begin_ns = nanos(Duration::from_secs_f64(self.warmup_seconds));
        Window { begin_ns, end_ns: begin_ns + nanos(Duration::from_secs_f64(self.seconds)) }
    }

    fn cool_down_ns(&self) -> u64 {
        nanos(Duration::from_secs_f64(self.cooldown_seconds))
    }

    fn open_loop(&self) -> Option<OpenLoop> {
        let plan = Arc::new(Plan::new(&self.shape, self.rate?, self.window()));
        let (arrivals, seed, connections) = (self.arrivals, self.seed, self.connections);
        let end_ns = self.window().end_ns + self.cool_down_ns();
        Some(OpenLoop { plan, arrivals, seed, connections, end_ns })
    }
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
    let connections = u64::from(load.connections);
    let local = target.address.ip().is_loopback();
    preflight::check(connections, load.sources.count(connections), local)?;
    let (mut shares, connecting) = connect(load, target.address, stop)?;
    let (window, open) = (load.window(), load.open_loop());
    let mut collector = Collector::new(window);
    let answered: Vec<Answered> = shares.iter().map(|_| Answered::default()).collect();
    // Before the first moment that counts: they take the kernel a while.
    let tapes: Vec<Tape> = shares.iter().map(|_| collector.tape(&Timing::OF_QUERIES)).collect();
    let (origin, started_unix_ms) = (Instant::now() + Duration::from_millis(5), unix_ms());
    let found = std::thread::scope(|scope| {
        let (alive, all_done) = mpsc::channel::<()>();
        let (mut threads, mut gates) = (Vec::new(), Vec::new());
        for (index, ((numbers, connections), tape)) in shares.drain(..).zip(tapes).enumerate() {
            let (alive, answered) = (alive.clone(), &answered[index]);
            let (gate, looked) = mpsc::channel::<()>();
            gates.push(gate);
            let engine = Engine {
                origin,
                window,
                cool_down_ns: load.cool_down_ns(),
                timeout: Duration::from_millis(load.timeout_ms),
                schedule: open.clone().map(|o| Schedule::new(o, numbers.iter().copied())),
                checker: Checker::new(target.expect.clone()),
                answered,
                stop,
            };
            let body = move || {
                limits::pin_to_one_of(&load.pin, index)?;
                // Where it is refused, the lateness shows what that costs.
                let _ = load.at_once && priority::at_once();
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
        let (label, server, answered) =
            (target.label.as_str(), target.process.as_ref(), answered.as_slice());
        let samples = Vec::new();
        let mut watch = Watch { label, server, origin, window, answered, stop, samples, onlooker };
        let looks = watch.run(&all_done, &mut collector);
        drop(gates);
        let (counts, errors) = joined(threads)?;
        let (looks, samples, counts) = (looks?, watch.samples, counts.by_name());
        Ok::<_, Failure>(Found { started_unix_ms, counts, errors, looks, samples })
    })?;
    let intent = Intent {
        label: &target.label,
        rate: load.rate,
        window,
        cool_down_ns: load.cool_down_ns(),
        lateness_bound_us: load.lateness_bound_us,
        interrupted: stop.asked(),
    };
    let mut run = summary(&intent, found, collector);
    run.totals.times.insert(Timing::Connect.name().to_owned(), Times::of(&connecting));
    Ok(run)
}

type Threads<'scope> =
    Vec<std::thread::ScopedJoinHandle<'scope, Result<(Counts, Errors), Failure>>>;

fn joined(threads: Threads<'_>) -> Result<(Counts, Errors), Failure> {
    let (mut counts, mut errors) = (Counts::default(), Errors::default());
    for thread in threads {
        let crashed = |_| Err(run_failure("a generator thread crashed"));
        let (more_counts, more_errors) = thread.join().unwrap_or_else(crashed)?;
        counts.merge(&more_counts);
        errors.merge(more_errors);
    }
    Ok((counts, errors))
}

fn no_thread(e: std::io::Error) -> Failure {
    run_failure(format!("cannot start a thread: {e}"))
}

/// The numbers and the sockets of the connections of one generator thread.
type Share = (Vec<u32>, Vec<(TcpStream, Connection)>);

fn connect(
    load: &Load,
    address: SocketAddr,
    stop: &Stop,
) -> Result<(Vec<Share>, Histogram<u64>), Failure> {
    let sample = String::from_utf8_lossy(&Asked::Topic(0).name()).into_owned();
    let query = Arc::new(RouteQuery::for_topics_like(&sample));
    let mix = Mix { topics: load.topics, misses: load.misses, seed: load.seed };
    let mut shares: Vec<Share> = (0..load.threads).map(|_| Share::default()).collect();
    let (mut times, begin) = (histogram(), Instant::now());
    for number in 0..load.connections {
        if stop.asked() {
            return Err(run_failure("stopped while connecting"));
        }
        let planned_s = load.connect_rate.map_or(0.0, |rate| f64::from(number) / rate);
        let planned = begin + Duration::from_secs_f64(planned_s);
        std::thread::sleep(planned.saturating_duration_since(Instant::now()));
        let start = Instant::now();
        let source = load.sources.of(number);
        let socket =
            sources::connect(address, source, load.ending, CONNECT_TIMEOUT).map_err(|e| {
                let (nth, all) = (number + 1, load.connections);
                run_failure(format!("connection {nth} of {all} to {address}: {e}"))
            })?;
        times.saturating_record(nanos(start.elapsed()));
        let connection = Connection::new(mix, number, load.depth, query.clone());
        let share = &mut shares[(number % load.threads) as usize];
        share.0.push(number);
        share.1.push((socket, connection));
    }
    Ok((shares, times))
}

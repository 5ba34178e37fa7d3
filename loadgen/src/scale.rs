//! How a server fares as the fleet grows: each part starts it afresh, and prints what came out, how
//! much that varied, what was promised, and whether it was met.
//!
//! On two CPUs the server has both: its shard the first, its writer the second. The generator is
//! pinned to the second as well and goes before the writer (and before whatever else disturbs the
//! server from here), so that a query meets the shard as it would if the generator were on another
//! machine, and the writer works in what time is left.

mod crowd;
mod expiry;
mod shards;
mod size;
mod writes;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use clap::{Args, ValueEnum};

use crate::check::Expect;
use crate::compare::Spread;
use crate::failure::{Failure, run_failure};
use crate::fleet::Fleet;
use crate::host::Host;
use crate::launch::{self, Recipe, Server};
use crate::limits;
use crate::live::Nobody;
use crate::loads;
use crate::preflight;
use crate::priority;
use crate::record::Run;
use crate::registrar::{Form, Registrar};
use crate::run::{Load, Target, run};
use crate::stop::Stop;
use crate::table::{self, Finding};

/// Topics in one registration when a broker has more than fit a frame.
const TOPICS_PER_CALL: usize = 20_000;
/// Topics asked about while times count: few enough for the warm-up to see them all, since the
/// first answer of each is compared with the registration, which takes the generator a while.
const TOPICS_ASKED: u32 = 256;
/// Queries a second while times count. The generator then needs less than half of its CPU.
const RATE: f64 = 4000.0;
/// The most that queries may suffer from what goes on beside them.
const TIMES_QUIET: f64 = 1.5;

/// The parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// 1 000 to 1 000 000 topics, 1 to 1 000 brokers: queries, publishing, memory
    Size,
    /// 50 brokers with 20 000 topics register new versions back to back
    Storm,
    /// The same, compressed
    StormCompressed,
    /// Registrations of 16 MB beside heartbeats and queries
    Large,
    /// 1 000 new topics a second
    Churn,
    /// 10 000 topics on 300 brokers
    Wide,
    /// 1 000 brokers with 1 000 topics each go at once
    Expiry,
    /// 18 000 connections, idle and active
    Connections,
    /// 8 000 connections a second that say nothing
    Closes,
    /// Several shards: give the server as many
    Shards,
}

/// `scale`.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// What to do
    #[arg(value_enum)]
    pub part: Part,
    /// The server: its name, and the command that starts it with {port} where the port belongs
    #[arg(long, value_name = "NAME=COMMAND")]
    pub server: Recipe,
    /// How often each figure is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Length of one measurement
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// The most topics of `size`
    #[arg(long, default_value_t = 1_000_000)]
    pub most_topics: u32,
    /// The connections of `connections`
    #[arg(long, default_value_t = 18_000)]
    pub crowd: u32,
    /// The CPU of the generator
    #[arg(long, default_value_t = 1)]
    pub pin: usize,
    /// The server's port; if more than one is started, the others follow
    #[arg(long, default_value_t = 20_876)]
    pub first_port: u16,
    /// Where the server's output goes [default: a folder of its own]
    #[arg(long)]
    pub logs: Option<PathBuf>,
}

/// Measures one part and prints its table. Returns whether every number may be used.
///
/// # Errors
/// When a server cannot be started, or a run or a registration fails.
pub fn scale(args: &ScaleArgs, stop: &Stop) -> Result<bool, Failure> {
    let host = Host::now();
    preflight::raise_open_files(u64::from(args.crowd) + 64)?;
    let cpus = limits::cpus_allowed();
    limits::pin(&[args.pin])?;
    let mut stage = Stage { args, stop, cpus, findings: Vec::new(), invalid: Vec::new() };
    println!("{}", table::card(&host));
    println!("server: {}", args.server.command());
    match args.part {
        Part::Size => size::measure(&mut stage)?,
        Part::Storm => writes::storm(&mut stage, Form::Raw)?,
        Part::StormCompressed => writes::storm(&mut stage, Form::Compressed)?,
        Part::Large => writes::large(&mut stage)?,
        Part::Churn => writes::churn(&mut stage)?,
        Part::Wide => writes::wide(&mut stage)?,
        Part::Expiry => expiry::measure(&mut stage)?,
        Part::Connections => crowd::connections(&mut stage)?,
        Part::Closes => crowd::closes(&mut stage)?,
        Part::Shards => shards::measure(&mut stage)?,
    }
    println!("\n{}", Finding::head());
    stage.findings.iter().for_each(|finding| println!("{}", finding.row()));
    stage.invalid.iter().for_each(|why| println!("INVALID: {why}"));
    Ok(stage.invalid.is_empty())
}

/// What all parts work with.
struct Stage<'a> {
    args: &'a ScaleArgs,
    stop: &'a Stop,
    /// CPUs of the server: all that this process had before it was pinned.
    cpus: Vec<usize>,
    findings: Vec<Finding>,
    invalid: Vec<String>,
}

/// What the other threads of a measurement look at: whether it is over.
struct Over<'a>(&'a AtomicBool, &'a Stop);

impl Over<'_> {
    /// Relaxed: nothing else is read because of it.
    fn is(&self) -> bool {
        self.0.load(Relaxed) || self.1.asked()
    }
}

impl Stage<'_> {
    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.asked() { Err(run_failure("stopped before the end")) } else { Ok(()) }
    }

    /// Starts the server, which has all CPUs, on the port with this number.
    fn start(&self, number: u16) -> Result<Server, Failure> {
        let logs = self.args.logs.clone().unwrap_or_else(launch::log_folder);
        let port = self.args.first_port.saturating_add(number);
        self.args.server.start(port, &logs, Some(&self.cpus))
    }

    /// Registers all brokers of the fleet; they stay as long as they are kept.
    fn fill(
        &self,
        server: &Server,
        fleet: &Fleet,
        timeout_ms: Option<u64>,
    ) -> Result<Vec<Registrar>, Failure> {
        let mut brokers = Vec::new();
        for number in 0..fleet.brokers {
            self.go_on()?;
            let mut broker = Registrar::connect(server.address, fleet, number, timeout_ms)?;
            // A first registration with one topic would be taken for a new topic's announcement.
            let topics: Vec<u32> = fleet.topics_of(number).collect();
            for some in std::iter::once(&[][..]).chain(topics.chunks(TOPICS_PER_CALL)) {
                broker.prepare(fleet, some, Form::Raw)?;
                broker.change();
                broker.register()?;
            }
            broker.prepare(fleet, &[], Form::Raw)?;
            brokers.push(broker);
        }
        Ok(brokers)
    }

    fn target(&self, server: &Server, fleet: &Arc<Fleet>) -> Target {
        let (label, expect) = (server.name.clone(), Expect::Routes(fleet.clone()));
        let process = Some(server.process.clone());
        Target { label, address: server.address, expect, process }
    }

    /// A closed loop, for CPU a query.
    fn closed(&self, target: &Target, connections: u32, depth: usize, topics: u32) -> Load {
        let (seconds, pin) = (self.args.seconds, self.args.pin);
        Load { topics, ..loads::closed(target.address, connections, depth, seconds, pin) }
    }

    /// An open loop, for times.
    fn open(&self, target: &Target, fleet: &Fleet) -> Load {
        let topics = fleet.topics.min(TOPICS_ASKED);
        let closed = self.closed(target, 64, 1, topics);
        Load { rate: Some(RATE), warmup_seconds: 1.0, at_once: true, ..closed }
    }

    /// One run; what makes it worthless is remembered.
    fn run(&mut self, what: &str, load: &Load, target: &Target) -> Result<Run, Failure> {
        self.go_on()?;
        let result = run(load, target, self.stop, &mut Nobody)?;
        self.judge(what, &result);
        Ok(result)
    }

    fn judge(&mut self, what: &str, result: &Run) {
        let late = result.percentiles("lateness").p99_9_us;
        let late = if late > 0.0 { format!("  late p99.9 {late:.0} us") } else { String::new() };
        println!("{what:<24} {}{late}", crate::report::progress_words(0, result));
        self.invalid.extend(result.invalid.iter().map(|why| format!("{what}: {why}")));
    }

    /// Runs the load while `work` goes on in another thread until it is told that the load is over.
    fn run_beside<T: Send>(
        &mut self,
        what: &str,
        load: &Load,
        target: &Target,
        work: impl FnOnce(Over<'_>) -> Result<T, Failure> + Send,
    ) -> Result<(Run, T), Failure> {
        self.go_on()?;
        let (over, stop) = (AtomicBool::new(false), self.stop);
        let (result, done) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                priority::usual();
                work(Over(&over, stop))
            });
            let result = run(load, target, stop, &mut Nobody);
            over.store(true, Relaxed);
            let crashed = |_| Err(run_failure("the thread beside the load crashed"));
            (result, beside.join().unwrap_or_else(crashed))
        });
        let (result, done) = (result?, done?);
        self.judge(what, &result);
        Ok((result, done))
    }

    /// Quiet runs and disturbed ones in turns; adds how they compare. Returns what the disturbance
    /// returned.
    fn quiet_and<T: Send>(
        &mut self,
        what: &str,
        load: &Load,
        target: &Target,
        mut disturb: impl FnMut(Over<'_>) -> Result<T, Failure> + Send,
    ) -> Result<Vec<T>, Failure> {
        let (mut quiet, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut done = Vec::new();
        for _ in 0..self.args.rounds {
            let before = self.run("quiet", load, target)?.percentiles("response").p99_9_us;
            let (result, found) = self.run_beside(what, load, target, &mut disturb)?;
            let during = result.percentiles("response").p99_9_us;
            quiet.push(before);
            beside.push(during);
            ratios.push(during / before);
            done.push(found);
        }
        let rate = load.rate.unwrap_or_default();
        self.find(format!("quiet: p99.9 of {rate} queries/s, us"), quiet, None);
        self.find(format!("{what}: p99.9, us"), beside, None);
        let target = Some(table::Target::AtMost(TIMES_QUIET));
        self.find(format!("{what}: p99.9 : quiet, by round"), ratios, target);
        Ok(done)
    }

    fn find(
        &mut self,
        work: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
        target: Option<table::Target>,
    ) {
        let (work, figure) = (work.into(), Spread::of(values));
        self.findings.push(Finding { work, figure, target });
    }
}

fn fleet(brokers: u32, topics: u32, route_width: u32) -> Result<Arc<Fleet>, Failure> {
    let cluster = "bench".to_owned();
    Ok(Arc::new(Fleet { brokers, topics, route_width, cluster }.checked()?))
}

//! How a server fares as the fleet grows: each part starts it afresh, and prints what came out, how
//! much that varied, what was promised, and whether it was met.
//!
//! On two CPUs the server has both: its shard the first, its writer the second. The generator is
//! pinned to the second as well and goes before the writer (and before whatever else disturbs the
//! server from here), so that a query meets the shard as it would if the generator were on another
//! machine, and the writer works in what time is left. Where times count, shard and generator
//! preempt everything else on their CPUs, the kernel's own threads among them: with two CPUs those
//! would show as the server's.

mod crowd;
mod expiry;
mod restart;
mod shards;
mod size;
mod startup;
mod writes;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use crate::check::Expect;
use crate::compare::Spread;
use crate::failure::{Failure, run_failure};
use crate::fleet::Fleet;
use crate::host::Host;
use crate::launch::{self, Recipe, Server};
use crate::limits;
use crate::live::Nobody;
use crate::loads::{self, BenchArgs};
use crate::preflight;
use crate::priority;
use crate::record::Run;
use crate::registrar::{Form, Prepared, Registrar};
use crate::run::{Load, Target, run};
use crate::stop::Stop;
use crate::table::{self, Finding};

/// Topics asked about while times count: few enough for the warm-up to see them all.
const TOPICS_ASKED: u32 = 256;
/// Queries a second while times count. The generator then needs less than half of its CPU.
const RATE: f64 = 4000.0;
/// How the names of the server's threads begin that answer queries.
const SHARD_THREADS: &str = "shard-";
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
    /// 1 000 brokers with 1 000 topics each come at once, to a server that has just been started
    Startup,
    /// A server with 0, 100 000 and 1 000 000 topics is stopped and started again
    Restart,
    /// 18 000 connections, idle and active
    Connections,
    /// 8 000 connections a second that say nothing
    Closes,
    /// Several shards: give the server as many
    Shards,
}

impl Part {
    /// Whether queries come in an open loop, and their times count.
    fn is_timed(self) -> bool {
        match self {
            Part::Size | Part::Restart | Part::Connections | Part::Shards => false,
            Part::Storm
            | Part::StormCompressed
            | Part::Large
            | Part::Churn
            | Part::Wide
            | Part::Expiry
            | Part::Startup
            | Part::Closes => true,
        }
    }
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
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub bench: BenchArgs,
    /// Length of one measurement
    #[arg(long, default_value = "3", value_parser = loads::seconds)]
    pub seconds: f64,
    /// The most topics of `size`
    #[arg(long, default_value_t = 1_000_000)]
    pub most_topics: u32,
}

/// Measures one part and prints its table, of what there is when it is ended early. Returns whether
/// every number may be used.
///
/// # Errors
/// When a server cannot be started, a run or a registration fails, or it was stopped.
pub fn scale(args: &ScaleArgs, stop: &Stop) -> Result<bool, Failure> {
    let host = Host::now();
    preflight::raise_open_files(u64::from(args.bench.crowd) + 64)?;
    let cpus = limits::cpus_allowed();
    limits::pin(&[args.bench.pin])?;
    let mut stage = Stage::new(args, stop, cpus);
    println!("{}", table::card(&host));
    println!("server: {}", args.server.command());
    let measured = stage.measure();
    println!("\n{}", Finding::head());
    stage.findings.iter().for_each(|finding| println!("{}", finding.row()));
    if stage.waits.get() {
        println!(
            "generator and '{SHARD_THREADS}' threads may not go before other work on their CPUs, \
             which is in the times: run as root, with chrt (util-linux) and real-time budget"
        );
    }
    stage.invalid.iter().for_each(|why| println!("INVALID: {why}"));
    if let Err(failure) = &measured {
        println!("INCOMPLETE: {failure}");
    }
    measured.map(|()| stage.invalid.is_empty())
}

/// What all parts work with.
struct Stage<'a> {
    args: &'a ScaleArgs,
    stop: &'a Stop,
    /// CPUs of the server: all that this process had before it was pinned.
    cpus: Vec<usize>,
    /// Brokers that are only there: they tell that they are alive before each run.
    held: Vec<Registrar>,
    /// Whether the server's threads wait for what else the machine does, as they must where they
    /// may not go first.
    waits: Cell<bool>,
    findings: Vec<Finding>,
    invalid: Vec<String>,
    /// What ended the rounds before their number.
    ended_by: Option<Failure>,
}

/// What the other threads of a measurement look at: whether it is over.
struct Over<'a>(&'a AtomicBool, &'a Stop);

impl Over<'_> {
    /// Relaxed: nothing else is read because of it.
    fn is(&self) -> bool {
        self.0.load(Relaxed) || self.1.asked()
    }
}

impl<'a> Stage<'a> {
    fn new(args: &'a ScaleArgs, stop: &'a Stop, cpus: Vec<usize>) -> Self {
        let (held, findings, invalid) = (Vec::new(), Vec::new(), Vec::new());
        let waits = Cell::new(args.part.is_timed() && !priority::may_go_at_once());
        Self { args, stop, cpus, held, waits, findings, invalid, ended_by: None }
    }

    fn measure(&mut self) -> Result<(), Failure> {
        match self.args.part {
            Part::Size => size::measure(self),
            Part::Storm => writes::storm(self, Form::Raw),
            Part::StormCompressed => writes::storm(self, Form::Compressed),
            Part::Large => writes::large(self),
            Part::Churn => writes::churn(self),
            Part::Wide => writes::wide(self),
            Part::Expiry => expiry::measure(self),
            Part::Startup => startup::measure(self),
            Part::Restart => restart::measure(self),
            Part::Connections => crowd::connections(self),
            Part::Closes => crowd::closes(self),
            Part::Shards => shards::measure(self),
        }?;
        self.ended_by.take().map_or(Ok(()), Err)
    }

    /// Makes so many rounds. A failure, Ctrl-C among them, ends them and all that would follow, and
    /// is told in the end: the part goes on to say what it found until then.
    fn rounds(&mut self, count: u32, mut round: impl FnMut(&mut Self) -> Result<(), Failure>) {
        for _ in 0..count {
            if self.ended_by.is_none() {
                self.ended_by = round(self).err();
            }
        }
    }

    /// Keeps brokers that have nothing more to do. A server forgets one that is silent for two
    /// minutes, and what is measured takes longer.
    fn hold(&mut self, brokers: impl IntoIterator<Item = Registrar>) {
        self.held.extend(brokers);
    }

    fn keep_alive(&mut self) -> Result<(), Failure> {
        self.held.iter_mut().try_for_each(Registrar::heartbeat)
    }

    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.asked() { Err(run_failure("stopped before the end")) } else { Ok(()) }
    }

    /// Starts the server, which has all CPUs, on the port with this number.
    fn start(&self, number: u16) -> Result<Server, Failure> {
        let logs = self.args.bench.logs.clone().unwrap_or_else(launch::log_folder);
        let port = self.args.bench.first_port.saturating_add(number);
        let server = self.args.server.start(port, &logs, Some(&self.cpus))?;
        if self.args.part.is_timed() && !priority::at_once_for(server.process.pid, SHARD_THREADS) {
            self.waits.set(true);
        }
        Ok(server)
    }

    /// Registers all brokers of the fleet; they stay as long as they are kept.
    fn fill(
        &self,
        server: &Server,
        fleet: &Fleet,
        timeout_ms: Option<u64>,
    ) -> Result<Vec<Registrar>, Failure> {
        let (mut brokers, mut alive_since): (Vec<Registrar>, _) = (Vec::new(), Instant::now());
        let patience = timeout_ms.map(|ms| Duration::from_millis(ms / 3));
        for number in 0..fleet.brokers {
            self.go_on()?;
            // The first ones wait until the last one is there.
            if patience.is_some_and(|patience| alive_since.elapsed() > patience) {
                brokers.iter_mut().try_for_each(Registrar::heartbeat)?;
                alive_since = Instant::now();
            }
            let broker = Prepared::new(fleet, number, timeout_ms);
            let mut broker = broker.connect(server.address)?;
            let topics: Vec<u32> = fleet.topics_of(number).collect();
            broker.register_all(fleet, &topics)?;
            broker.prepare(fleet, &[], Form::Raw);
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
        let (seconds, pin) = (self.args.seconds, self.args.bench.pin);
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
        self.keep_alive()?;
        let result = run(load, target, self.stop, &mut Nobody)?;
        // Half a measurement is none.
        self.go_on()?;
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
        self.keep_alive()?;
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
        self.go_on()?;
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
    ) -> Vec<T> {
        let (mut quiet, mut beside, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut done = Vec::new();
        self.rounds(self.args.bench.rounds, |stage| {
            let before = stage.run("quiet", load, target)?.percentiles("response").p99_9_us;
            let (result, found) = stage.run_beside(what, load, target, &mut disturb)?;
            let during = result.percentiles("response").p99_9_us;
            quiet.push(before);
            beside.push(during);
            ratios.push(during / before);
            done.push(found);
            Ok(())
        });
        let rate = load.rate.unwrap_or_default();
        self.find(format!("quiet: p99.9 of {rate} queries/s, us"), quiet, None);
        self.find(format!("{what}: p99.9, us"), beside, None);
        let target = Some(table::Target::AtMost(TIMES_QUIET));
        self.find(format!("{what}: p99.9 : quiet, by round"), ratios, target);
        done
    }

    fn find(
        &mut self,
        work: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
        target: Option<table::Target>,
    ) {
        let (work, figure) = (work.into(), Spread::of(values));
        if figure.is_none() && self.ended_by.is_some() {
            return; // it was not its turn
        }
        self.findings.push(Finding { work, figure, target });
    }
}

fn fleet(brokers: u32, topics: u32, route_width: u32) -> Result<Arc<Fleet>, Failure> {
    let cluster = "bench".to_owned();
    Ok(Arc::new(Fleet { brokers, topics, route_width, cluster }.checked()?))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::stub::Stub;

    fn args() -> ScaleArgs {
        let text = "loadgen scale closes --server a=x/{port} --seconds 0.1";
        match Cli::parse_from(text.split(' ')).command {
            Command::Scale(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn brokers_that_are_only_there_say_before_each_run_that_they_are_alive() {
        let stub = Stub::start(|seen| Some(seen.answer_by_fleet()));
        let (args, stop) = (args(), Stop::default());
        let mut stage = Stage::new(&args, &stop, Vec::new());
        let fleet = fleet(1, 10, 1).unwrap();
        stage.hold([Prepared::new(&fleet, 0, None).connect(stub.address).unwrap()]);
        let expect = Expect::Routes(fleet);
        let target = Target { label: "a".into(), address: stub.address, expect, process: None };
        let load = Load { pin: Vec::new(), ..stage.closed(&target, 1, 1, 10) };
        let heartbeats = || stub.received_with("\"code\":904,");
        stage.run("quiet", &load, &target).unwrap();
        assert_eq!(heartbeats(), 1);
        stage.run_beside("more", &load, &target, |_| Ok(())).unwrap();
        assert_eq!(heartbeats(), 2);
    }

    #[test]
    fn a_failure_ends_the_rounds_and_what_was_found_is_kept() {
        let (args, stop) = (args(), Stop::default());
        let mut stage = Stage::new(&args, &stop, Vec::new());
        let mut values = Vec::new();
        stage.rounds(5, |stage| {
            if values.len() == 2 {
                stage.stop.ask();
            }
            stage.go_on()?;
            values.push(1.0);
            Ok(())
        });
        stage.find("found", values, None);
        stage.rounds(5, |_| panic!("a round after the end"));
        stage.find("not its turn", [], None);
        let found: Vec<_> = stage.findings.iter().map(|finding| finding.work.as_str()).collect();
        assert_eq!(found, ["found"]);
        assert!(stage.ended_by.unwrap().to_string().contains("stopped"));
    }
}

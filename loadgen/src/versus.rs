//! Several NameServers and the floor side by side: the same work in turns, so that whatever else
//! the machine does meets all of them. Each server has one CPU, the same one; the generator has
//! another.

mod works;

use std::sync::Arc;

use clap::Args;

use crate::check::{Expect, FloorBytes};
use crate::cli;
use crate::compare::Spread;
use crate::failure::{Failure, run_failure, usage};
use crate::fleet::Fleet;
use crate::floor::{FloorChild, answer_bytes};
use crate::host::Host;
use crate::launch::{self, Recipe, Server};
use crate::limits;
use crate::live::Nobody;
use crate::loads::{self, BenchArgs};
use crate::preflight;
use crate::priority;
use crate::process::{Process, mebibytes};
use crate::record::{Cost, Run};
use crate::registrar::{Prepared, Registrar};
use crate::run::{Load, Target, run};
use crate::stop::Stop;
use crate::table;

use works::{Figure, WORKS, Work};

/// Brokers that hold the topics asked about.
const BROKERS: u32 = 4;
const TOPICS: u32 = 1000;
/// Topics of one more broker, whose registrations are measured.
const LARGE_TOPICS: u32 = 20_000;
/// Registrations between two looks at the server.
const REGISTRATIONS: u32 = 5;
/// Longest without a sign of life of the brokers while a server is warmed up.
const WARM_PIECE_SECONDS: f64 = 20.0;

/// `versus`.
#[derive(Debug, Args)]
pub struct VersusArgs {
    /// A server: its name, and the command that starts it with {port} where the port belongs;
    /// give it once for each server, the one the others are compared with first
    #[arg(long, value_name = "NAME=COMMAND", required = true)]
    pub server: Vec<Recipe>,
    /// Load before the first round, which a JVM needs to compile itself
    #[arg(long, value_name = "NAME=SECONDS", value_parser = named_seconds)]
    pub prewarm: Vec<(String, f64)>,
    /// Most connections that a server can hold; work with more is left out
    #[arg(long, value_name = "NAME=COUNT", value_parser = named_count)]
    pub most: Vec<(String, f64)>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub bench: BenchArgs,
    /// Length of one measurement
    #[arg(long, default_value = "1", value_parser = loads::seconds)]
    pub seconds: f64,
    /// How often each server is started, to see how long that takes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub starts: u32,
    /// The CPU of every server and of the floor
    #[arg(long, default_value_t = 0)]
    pub server_cpu: usize,
}

type Reads = fn(&str) -> Result<f64, String>;

fn named(text: &str, reads: Reads) -> Result<(String, f64), String> {
    let (name, number) = text.split_once('=').ok_or("give NAME=NUMBER")?;
    Ok((name.to_owned(), reads(number)?))
}

fn named_seconds(text: &str) -> Result<(String, f64), String> {
    named(text, cli::zero_or_seconds)
}

fn named_count(text: &str) -> Result<(String, f64), String> {
    named(text, |number| cli::within(number, 1.0, 1e6, " connections"))
}

/// One server with its brokers and what was found about it.
struct Side {
    server: Option<Server>,
    target: Target,
    most: f64,
    brokers: Vec<Registrar>,
    large: Option<Registrar>,
    figures: Vec<(Figure, Vec<f64>)>,
}

impl Side {
    fn note(&mut self, figure: Figure, value: impl Into<Option<f64>>) {
        let Some(value) = value.into() else { return };
        match self.figures.iter_mut().find(|(known, _)| *known == figure) {
            Some((_, values)) => values.push(value),
            None => self.figures.push((figure, vec![value])),
        }
    }

    fn spread(&self, figure: Figure) -> Option<Spread> {
        let (_, values) = self.figures.iter().find(|(known, _)| *known == figure)?;
        Spread::of(values.iter().copied())
    }

    /// A sign of life of every broker: a server forgets a silent one after two minutes.
    fn keep_alive(&mut self) -> Result<(), Failure> {
        let told = |e: Failure| run_failure(format!("{}: {e}", self.target.label));
        let mut all = self.brokers.iter_mut().chain(&mut self.large);
        all.try_for_each(Registrar::heartbeat).map_err(told)
    }
}

/// Measures all of them and prints the table, of what there is when it is ended early. Returns
/// whether every number may be used.
///
/// # Errors
/// When a server cannot be started or lost its brokers, a run cannot be made, or it was stopped.
pub fn versus(args: &VersusArgs, stop: &Stop) -> Result<bool, Failure> {
    launch::distinct(&args.server)?;
    for (name, _) in args.prewarm.iter().chain(&args.most) {
        if !args.server.iter().any(|recipe| recipe.name == *name) {
            return Err(usage(format!("there is no --server {name}")));
        }
    }
    let host = Host::now();
    // Also for the servers, which inherit the limit.
    preflight::raise_open_files(u64::from(args.bench.crowd) + 64)?;
    limits::pin(&[args.bench.pin])?;
    let fleet = Fleet { brokers: BROKERS, topics: TOPICS, route_width: 4, cluster: "bench".into() };
    let fleet = Arc::new(fleet.checked()?);
    let mut contest = Contest::new(args, stop, fleet);
    let measured = contest.measure();
    if let Some(words) = contest.words(&host, measured.as_ref().err()) {
        println!("{words}");
    }
    measured.map(|()| contest.valid)
}

struct Contest<'a> {
    args: &'a VersusArgs,
    stop: &'a Stop,
    fleet: Arc<Fleet>,
    sides: Vec<Side>,
    /// Dropping it ends the floor.
    floor: Option<FloorChild>,
    /// Whether the generator may go before other work.
    first: bool,
    valid: bool,
    /// CPU of all other processes in each run, as a share of one CPU.
    others: Vec<f64>,
}

impl<'a> Contest<'a> {
    fn new(args: &'a VersusArgs, stop: &'a Stop, fleet: Arc<Fleet>) -> Self {
        let (sides, others) = (Vec::new(), Vec::new());
        Self { args, stop, fleet, sides, floor: None, first: true, valid: true, others }
    }

    fn measure(&mut self) -> Result<(), Failure> {
        for (number, recipe) in self.args.server.iter().enumerate() {
            self.start(number, recipe)?;
        }
        self.floor = Some(self.add_floor()?);
        // Not before the servers are started, which would inherit it.
        self.first = priority::first();
        for number in 1..=self.args.bench.rounds {
            for work in WORKS {
                self.turn(number, work)?;
            }
            self.registrations()?;
        }
        Ok(())
    }

    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.asked() { Err(run_failure("stopped before the end")) } else { Ok(()) }
    }

    fn of(values: &[(String, f64)], name: &str) -> Option<f64> {
        values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Starts a server, registers its brokers and warms it up.
    fn start(&mut self, number: usize, recipe: &Recipe) -> Result<(), Failure> {
        let (args, fleet) = (self.args, self.fleet.clone());
        let logs = args.bench.logs.clone().unwrap_or_else(launch::log_folder);
        let port = u16::try_from(number).ok().and_then(|n| args.bench.first_port.checked_add(n));
        let port = port.ok_or_else(|| usage("--first-port is too high"))?;
        let (mut starts, mut empty) = (Vec::new(), Vec::new());
        let mut server = None;
        for _ in 0..args.starts {
            self.go_on()?;
            drop(server.take());
            let started = recipe.start(port, &logs, Some(&[args.server_cpu]))?;
            starts.push(started.first_answer.as_secs_f64() * 1e3);
            empty.push(mebibytes(started.rss_bytes()?));
            server = Some(started);
        }
        let server = server.ok_or_else(|| usage("--starts 0: give at least 1"))?;
        let (expect, label) = (Expect::Routes(fleet), recipe.name.clone());
        let (address, process) = (server.address, Some(server.process.clone()));
        let mut side = Side {
            server: Some(server),
            target: Target { label, address, expect, process },
            most: Self::of(&args.most, &recipe.name).unwrap_or(f64::INFINITY),
            brokers: Vec::new(),
            large: None,
            figures: vec![(Figure::Start, starts), (Figure::Empty, empty)],
        };
        self.fill(&mut side)?;
        let filled = side.server.as_ref().map(Server::rss_bytes).transpose()?;
        side.note(Figure::Filled, filled.map(mebibytes));
        self.sides.push(side);
        self.prewarm(number, Self::of(&args.prewarm, &recipe.name).unwrap_or(1.0))
    }

    fn fill(&self, side: &mut Side) -> Result<(), Failure> {
        let fleet = &self.fleet;
        for number in 0..=BROKERS {
            let broker = Prepared::new(fleet, number, None);
            let mut broker = broker.connect(side.target.address)?;
            let topics: Vec<u32> = if number == BROKERS {
                (TOPICS..TOPICS + LARGE_TOPICS).collect()
            } else {
                fleet.topics_of(number).collect()
            };
            broker.register_all(fleet, &topics)?;
            match number {
                BROKERS => side.large = Some(broker),
                _ => side.brokers.push(broker),
            }
        }
        Ok(())
    }

    /// A sign of life of all brokers of all servers: those wait whose turn it is not.
    fn keep_alive(&mut self) -> Result<(), Failure> {
        self.sides.iter_mut().try_for_each(Side::keep_alive)
    }

    fn prewarm(&mut self, at: usize, seconds: f64) -> Result<(), Failure> {
        println!("{}: warming up for {seconds} s", self.sides[at].target.label);
        let mut left = seconds;
        while left > 0.0 {
            self.go_on()?;
            self.keep_alive()?;
            let side = &self.sides[at];
            // Half of it as in the works with one question at a time, half as in those with many.
            for depth in [1, 16] {
                let piece = (left.min(WARM_PIECE_SECONDS) / 2.0).max(0.1);
                let to = side.target.address;
                let load = loads::closed(to, 64, depth, piece, self.args.bench.pin);
                let load = Load { misses: 0.2, warmup_seconds: 0.0, ..load };
                run(&load, &side.target, self.stop, &mut Nobody)?;
            }
            left -= WARM_PIECE_SECONDS;
        }
        Ok(())
    }

    /// The floor answers with as many bytes as the first server.
    fn add_floor(&mut self) -> Result<FloorChild, Failure> {
        let first = self.sides.first().ok_or_else(|| usage("give a --server"))?;
        let load = loads::closed(first.target.address, 16, 1, 0.3, self.args.bench.pin);
        let load = Load { misses: 0.5, ..load };
        let answers = run(&load, &first.target, self.stop, &mut Nobody)?;
        let (hit, miss) = (answers.answer_bytes("hit"), answers.answer_bytes("miss"));
        let bytes = FloorBytes { hit: answer_bytes(hit), miss: answer_bytes(miss) };
        let program = std::env::current_exe()
            .map_err(|e| run_failure(format!("where this program is: {e}")))?;
        let child = FloorChild::spawn(&program, bytes, Some(self.args.server_cpu))?;
        let process = Some(Process::new(child.pid())?);
        let (label, expect) = ("floor".into(), Expect::Floor(bytes));
        self.sides.push(Side {
            server: None,
            target: Target { label, address: child.address, expect, process },
            most: f64::INFINITY,
            brokers: Vec::new(),
            large: None,
            figures: Vec::new(),
        });
        Ok(child)
    }

    /// One work, by every side that can do it.
    fn turn(&mut self, number: u32, work: &Work) -> Result<(), Failure> {
        for at in 0..self.sides.len() {
            self.go_on()?;
            self.keep_alive()?;
            let connections = work.connections.unwrap_or(self.args.bench.crowd);
            let side = &mut self.sides[at];
            let (seconds, pin) = (self.args.seconds, self.args.bench.pin);
            let load = loads::closed(side.target.address, connections, work.depth, seconds, pin);
            let at_once = work.rate.is_some();
            let load = Load { misses: work.misses, rate: work.rate, at_once, ..load };
            let alone = side.brokers.is_empty();
            if f64::from(connections) > side.most || (work.register_every.is_some() && alone) {
                continue;
            }
            let brokers = std::mem::take(&mut side.brokers);
            let (result, brokers) = work.run(&load, &side.target, brokers, self.stop)?;
            side.brokers = brokers;
            // Half a measurement is none.
            self.go_on()?;
            self.others.extend(result.cost.as_ref().map(Cost::others_share));
            self.valid &= result.invalid.is_empty();
            let line = crate::report::progress_words(number, &result);
            println!("{:<18} {line}", work.name);
            self.note(at, work, &result);
        }
        Ok(())
    }

    fn note(&mut self, at: usize, work: &Work, result: &Run) {
        let side = &mut self.sides[at];
        side.note(Figure::Cpu(work.name), result.server_us_per_answer());
        side.note(Figure::Rate(work.name), result.totals.rate / 1e3);
        side.note(Figure::P999(work.name), result.percentiles("response").p99_9_us);
        side.note(Figure::HitBytes, result.answer_bytes("hit"));
        side.note(Figure::MissBytes, result.answer_bytes("miss"));
        if work.connections.is_none() {
            let server = result.cost.as_ref().and_then(|cost| cost.server.as_ref());
            let rss = server.map(|server| mebibytes(server.rss_bytes));
            side.note(Figure::Crowded, rss);
        }
    }

    /// What a registration costs that says nothing new, and one that does.
    fn registrations(&mut self) -> Result<(), Failure> {
        for side in &mut self.sides {
            let (Some(large), Some(process)) = (&mut side.large, &side.target.process) else {
                continue;
            };
            let (mut found, count) = (Vec::new(), f64::from(REGISTRATIONS));
            for changed in [false, true] {
                let before = process.sample()?;
                let began = std::time::Instant::now();
                for _ in 0..REGISTRATIONS {
                    if changed {
                        large.change();
                    }
                    large.register()?;
                }
                let took_ms = began.elapsed().as_secs_f64() * 1e3 / count;
                let used = process.sample()?.since(&before);
                found.push((Figure::RegisterCpu(changed), used.cpu_ns as f64 / 1e6 / count));
                found.push((Figure::RegisterTime(changed), took_ms));
            }
            found.into_iter().for_each(|(figure, value)| side.note(figure, value));
        }
        self.go_on()
    }

    /// The table; `None` when there is nothing to say.
    fn words(&self, host: &Host, ended_by: Option<&Failure>) -> Option<String> {
        let first = self.sides.first()?;
        let mut lines = vec![String::new(), table::card(host)];
        let (server, pin) = (self.args.server_cpu, self.args.bench.pin);
        lines.push(format!(
            "each server and the floor on CPU {server}, the generator on CPU {pin}; {} rounds of \
             {} s in turns; medians, with the largest distance from them",
            self.args.bench.rounds, self.args.seconds
        ));
        if let Some(others) = Spread::of(self.others.iter().map(|share| share * 100.0)) {
            lines.push(format!(
                "other processes (the servers that wait for their turn among them) used {} % of a \
                 CPU",
                table::spread(Some(others))
            ));
        }
        for recipe in &self.args.server {
            let warm = Self::of(&self.args.prewarm, &recipe.name).unwrap_or(1.0);
            let (name, command) = (&recipe.name, recipe.command());
            lines.push(format!("{name} (warmed up for {warm} s): {command}"));
        }
        if !self.first {
            lines.push("the generator may not go before other work: run as root".into());
        }
        if !self.valid {
            lines.push("INVALID: at least one run must not be used; see the lines above".into());
        }
        if let Some(failure) = ended_by {
            lines.push(format!("INCOMPLETE: {failure}"));
        }
        lines.push(String::new());
        let names = self.sides.iter().map(|side| side.target.label.clone());
        let mut heads = vec!["Work".to_owned()];
        heads.extend(names);
        let rivals = self.sides.iter().skip(1).filter(|side| side.server.is_some());
        let rivals: Vec<&Side> = rivals.collect();
        let short = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
        heads.extend(rivals.iter().map(|rival| format!("{} : ours", short(&rival.target.label))));
        lines.push(table::head(&heads));
        for (figure, words) in works::figures(self.args.bench.crowd) {
            let mut cells = vec![words];
            cells.extend(self.sides.iter().map(|side| table::brief(side.spread(figure))));
            cells.extend(rivals.iter().map(|rival| {
                let both = rival.spread(figure).zip(first.spread(figure));
                both.map_or("-".into(), |(a, b)| table::number(a.median / b.median))
            }));
            lines.push(table::row(cells));
        }
        Some(lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::stub::Stub;

    fn args(more: &str) -> Result<VersusArgs, String> {
        let text = format!("loadgen versus --server a=x/{{port}}{more}");
        match Cli::try_parse_from(text.split(' ')).map_err(|e| e.to_string())?.command {
            Command::Versus(args) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    fn side(stub: &Stub, fleet: &Arc<Fleet>) -> Side {
        let expect = Expect::Routes(fleet.clone());
        let target = Target { label: "a".into(), address: stub.address, expect, process: None };
        let brokers = (0..BROKERS).map(|n| Prepared::new(fleet, n, None).connect(stub.address));
        let brokers = brokers.map(Result::unwrap).collect();
        Side { server: None, target, most: 1.0, brokers, large: None, figures: Vec::new() }
    }

    #[test]
    fn while_one_server_is_warmed_up_the_brokers_of_all_say_that_they_are_alive() {
        let fleet = Fleet { brokers: BROKERS, topics: TOPICS, route_width: 4, cluster: "c".into() };
        let (args, stop, fleet) = (args("").unwrap(), Stop::default(), Arc::new(fleet));
        let stubs = [0, 1].map(|_| Stub::start(|seen| Some(seen.answer_by_fleet())));
        let mut contest = Contest::new(&args, &stop, fleet.clone());
        contest.sides.extend(stubs.iter().map(|stub| side(stub, &fleet)));
        contest.prewarm(1, 0.2).unwrap();
        for stub in &stubs {
            let heartbeats = stub.received_with("\"code\":904,");
            assert_eq!(heartbeats, BROKERS as usize);
        }
    }

    #[test]
    fn a_contest_that_is_ended_early_prints_what_it_has_found() {
        let (args, stop) = (args("").unwrap(), Stop::default());
        let fleet = Fleet { brokers: 1, topics: 1, route_width: 1, cluster: "c".into() };
        let mut contest = Contest::new(&args, &stop, Arc::new(fleet.clone()));
        let ended = run_failure("stopped before the end");
        assert_eq!(contest.words(&Host::now(), Some(&ended)), None);
        let stub = Stub::start(|seen| Some(seen.answer_by_fleet()));
        let mut side = side(&stub, &Arc::new(fleet));
        side.note(Figure::Filled, 26.0);
        contest.sides.push(side);
        let words = contest.words(&Host::now(), Some(&ended)).unwrap();
        assert!(words.contains("INCOMPLETE: stopped before the end"), "{words}");
        assert!(words.contains("| resident, 24 000 pairs, MiB | 26.0 |"), "{words}");
        assert!(words.contains("| resident, 18000 connections, MiB | - |"), "{words}");
    }

    #[test]
    fn numbers_that_cannot_work_are_refused_with_those_that_can() {
        let refused = |more| args(more).err().unwrap_or_else(|| panic!("{more} is accepted"));
        for more in [" --seconds=-1", " --seconds=NaN", " --seconds 11"] {
            assert!(refused(more).contains("give 0.1 to 10 seconds"), "{}", refused(more));
        }
        assert!(refused(" --crowd 0").contains("1..=1000000"));
        assert!(refused(" --prewarm a=inf").contains("give 0 to 3600 seconds"));
        assert!(refused(" --most a=0").contains("give 1 to 1000000 connections"));
    }
}

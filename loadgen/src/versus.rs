//! Several NameServers and the floor side by side: the same work in turns, so that whatever else
//! the machine does meets all of them. Each server has one CPU, the same one; the generator has
//! another.

mod works;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::check::{Expect, FloorBytes};
use crate::compare::Spread;
use crate::failure::{Failure, run_failure, usage};
use crate::fleet::Fleet;
use crate::floor::{ANSWER_BYTES_MIN, FloorChild};
use crate::host::Host;
use crate::launch::{self, Recipe, Server};
use crate::limits;
use crate::live::Nobody;
use crate::loads;
use crate::preflight;
use crate::priority;
use crate::process::Process;
use crate::record::{Cost, Run};
use crate::registrar::{Form, Registrar};
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
    #[arg(long, value_name = "NAME=SECONDS", value_parser = named_number)]
    pub prewarm: Vec<(String, f64)>,
    /// Most connections that a server can hold; work with more is left out
    #[arg(long, value_name = "NAME=COUNT", value_parser = named_number)]
    pub most: Vec<(String, f64)>,
    /// How often each work is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Length of one measurement
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// How often each server is started, to see how long that takes
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub starts: u32,
    /// Connections of the largest work
    #[arg(long, default_value_t = 18_000)]
    pub crowd: u32,
    /// The CPU of every server and of the floor
    #[arg(long, default_value_t = 0)]
    pub server_cpu: usize,
    /// The CPU of the generator
    #[arg(long, default_value_t = 1)]
    pub pin: usize,
    /// The first server's port; the others follow
    #[arg(long, default_value_t = 20_876)]
    pub first_port: u16,
    /// Where the servers' output goes [default: a folder of its own]
    #[arg(long)]
    pub logs: Option<PathBuf>,
}

fn named_number(text: &str) -> Result<(String, f64), String> {
    let parts = text.split_once('=').and_then(|(name, n)| Some((name, n.parse().ok()?)));
    let (name, value): (_, f64) = parts.ok_or("give NAME=NUMBER")?;
    Ok((name.to_owned(), value))
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
        let named = |e: Failure| run_failure(format!("{}: {e}", self.target.label));
        let mut all = self.brokers.iter_mut().chain(&mut self.large);
        all.try_for_each(Registrar::heartbeat).map_err(named)
    }
}

/// Measures all of them and prints the table. Returns whether every number may be used.
///
/// # Errors
/// When a server cannot be started or lost its brokers, or a run cannot be made.
pub fn versus(args: &VersusArgs, stop: &Stop) -> Result<bool, Failure> {
    launch::distinct(&args.server)?;
    for (name, _) in args.prewarm.iter().chain(&args.most) {
        if !args.server.iter().any(|recipe| recipe.name == *name) {
            return Err(usage(format!("there is no --server {name}")));
        }
    }
    let host = Host::now();
    // Also for the servers, which inherit the limit.
    preflight::raise_open_files(u64::from(args.crowd) + 64)?;
    limits::pin(&[args.pin])?;
    let fleet = Fleet { brokers: BROKERS, topics: TOPICS, route_width: 4, cluster: "bench".into() };
    let fleet = Arc::new(fleet.checked()?);
    let mut contest = Contest { args, stop, fleet, sides: Vec::new(), valid: true, others: vec![] };
    for (number, recipe) in args.server.iter().enumerate() {
        let side = contest.start(number, recipe)?;
        contest.sides.push(side);
    }
    // Held until the end: dropping it ends the floor.
    let _floor = contest.add_floor()?;
    // Not before the servers are started, which would inherit it.
    let first = priority::first();
    for number in 1..=args.rounds {
        for work in WORKS {
            contest.turn(number, work)?;
        }
        contest.registrations()?;
    }
    contest.weigh();
    println!("{}", contest.words(&host, first));
    Ok(contest.valid)
}

struct Contest<'a> {
    args: &'a VersusArgs,
    stop: &'a Stop,
    fleet: Arc<Fleet>,
    sides: Vec<Side>,
    valid: bool,
    /// CPU of all other processes in each run, as a share of one CPU.
    others: Vec<f64>,
}

impl Contest<'_> {
    fn go_on(&self) -> Result<(), Failure> {
        if self.stop.asked() { Err(run_failure("stopped before the end")) } else { Ok(()) }
    }

    fn named(values: &[(String, f64)], name: &str) -> Option<f64> {
        values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    fn start(&self, number: usize, recipe: &Recipe) -> Result<Side, Failure> {
        let Self { args, fleet, .. } = self;
        let logs = args.logs.clone().unwrap_or_else(launch::log_folder);
        let port = u16::try_from(number).ok().and_then(|n| args.first_port.checked_add(n));
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
        let (expect, label) = (Expect::Routes(fleet.clone()), recipe.name.clone());
        let (address, process) = (server.address, Some(server.process.clone()));
        let mut side = Side {
            server: Some(server),
            target: Target { label, address, expect, process },
            most: Self::named(&args.most, &recipe.name).unwrap_or(f64::INFINITY),
            brokers: Vec::new(),
            large: None,
            figures: vec![(Figure::Start, starts), (Figure::Empty, empty)],
        };
        self.fill(&mut side)?;
        self.prewarm(&mut side, Self::named(&args.prewarm, &recipe.name).unwrap_or(1.0))?;
        Ok(side)
    }

    fn fill(&self, side: &mut Side) -> Result<(), Failure> {
        let fleet = &self.fleet;
        for number in 0..=BROKERS {
            let mut broker = Registrar::connect(side.target.address, fleet, number, None)?;
            let topics: Vec<u32> = if number == BROKERS {
                (TOPICS..TOPICS + LARGE_TOPICS).collect()
            } else {
                fleet.topics_of(number).collect()
            };
            for some in [&[][..], &topics] {
                broker.prepare(fleet, some, Form::Raw)?;
                broker.change();
                broker.register()?;
            }
            match number {
                BROKERS => side.large = Some(broker),
                _ => side.brokers.push(broker),
            }
        }
        Ok(())
    }

    fn prewarm(&self, side: &mut Side, seconds: f64) -> Result<(), Failure> {
        println!("{}: warming up for {seconds} s", side.target.label);
        let mut left = seconds;
        while left > 0.0 {
            self.go_on()?;
            side.keep_alive()?;
            // Half of it as in the works with one question at a time, half as in those with many.
            for depth in [1, 16] {
                let piece = (left.min(WARM_PIECE_SECONDS) / 2.0).max(0.1);
                let to = side.target.address;
                let load = loads::closed(to, 64, depth, piece, self.args.pin);
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
        let load = loads::closed(first.target.address, 16, 1, 0.3, self.args.pin);
        let load = Load { misses: 0.5, ..load };
        let answers = run(&load, &first.target, self.stop, &mut Nobody)?;
        let (hit, miss) = (answers.answer_bytes("hit"), answers.answer_bytes("miss"));
        let whole = |mean: Option<f64>| {
            mean.and_then(|mean| format!("{mean:.0}").parse().ok()).unwrap_or(ANSWER_BYTES_MIN)
        };
        let bytes = FloorBytes { hit: whole(hit), miss: whole(miss) };
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
            let connections = work.connections.unwrap_or(self.args.crowd);
            let side = &mut self.sides[at];
            let (seconds, pin) = (self.args.seconds, self.args.pin);
            let load = loads::closed(side.target.address, connections, work.depth, seconds, pin);
            let at_once = work.rate.is_some();
            let load = Load { misses: work.misses, rate: work.rate, at_once, ..load };
            side.keep_alive()?;
            let alone = side.brokers.is_empty();
            if f64::from(connections) > side.most || (work.register_every.is_some() && alone) {
                continue;
            }
            let brokers = std::mem::take(&mut side.brokers);
            let (result, brokers) = work.run(&load, &side.target, brokers, self.stop)?;
            side.brokers = brokers;
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

    fn weigh(&mut self) {
        for side in &mut self.sides {
            let rss = side.server.as_ref().and_then(|server| server.rss_bytes().ok());
            side.note(Figure::Filled, rss.map(mebibytes));
        }
    }

    fn words(&self, host: &Host, first: bool) -> String {
        let mut lines = vec![String::new(), table::card(host)];
        let (server, pin) = (self.args.server_cpu, self.args.pin);
        lines.push(format!(
            "each server and the floor on CPU {server}, the generator on CPU {pin}; {} rounds of \
             {} s in turns; medians, with the largest distance from them",
            self.args.rounds, self.args.seconds
        ));
        if let Some(others) = Spread::of(self.others.iter().map(|share| share * 100.0)) {
            lines.push(format!(
                "other processes (the servers that wait for their turn among them) used {} % of a \
                 CPU",
                table::spread(Some(others))
            ));
        }
        for recipe in &self.args.server {
            let warm = Self::named(&self.args.prewarm, &recipe.name).unwrap_or(1.0);
            let (name, command) = (&recipe.name, recipe.command());
            lines.push(format!("{name} (warmed up for {warm} s): {command}"));
        }
        if !first {
            lines.push("the generator may not go before other work: run as root".into());
        }
        if !self.valid {
            lines.push("INVALID: at least one run had errors; see the lines above".into());
        }
        lines.push(String::new());
        let names = self.sides.iter().map(|side| side.target.label.clone());
        let mut heads = vec!["Work".to_owned()];
        heads.extend(names);
        let first = &self.sides[0];
        let rivals = self.sides.iter().skip(1).filter(|side| side.server.is_some());
        let rivals: Vec<&Side> = rivals.collect();
        let short = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
        heads.extend(rivals.iter().map(|rival| format!("{} : ours", short(&rival.target.label))));
        lines.push(table::head(&heads));
        for (figure, words) in works::figures(self.args.crowd) {
            let mut cells = vec![words];
            cells.extend(self.sides.iter().map(|side| table::brief(side.spread(figure))));
            cells.extend(rivals.iter().map(|rival| {
                let both = rival.spread(figure).zip(first.spread(figure));
                both.map_or("-".into(), |(a, b)| table::number(a.median / b.median))
            }));
            lines.push(table::row(cells));
        }
        lines.join("\n")
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

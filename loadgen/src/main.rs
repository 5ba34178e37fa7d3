//! Arguments to work to words; exit codes.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser as _;
use loadgen::check::{Expect, FloorBytes};
use loadgen::cli::{
    Cli, Command, CompareArgs, FillArgs, FleetArgs, FloorArgs, FloorServerArgs, LoadArgs,
    QueryArgs, TargetArgs,
};
use loadgen::compare::{Plan, compare};
use loadgen::failure::{Failure, run_failure};
use loadgen::fill::{HeldFleet, fill};
use loadgen::fleet::Fleet;
use loadgen::floor::{FloorChild, FloorServer};
use loadgen::host::Host;
use loadgen::limits;
use loadgen::process::Process;
use loadgen::report::{self, Document, SCHEMA};
use loadgen::run::{Load, Target, run};
use loadgen::scale::scale;
use loadgen::stop::Stop;
use loadgen::versus::versus;

/// The numbers are there, and must not be used.
const EXIT_INVALID: u8 = 3;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Fill(args) => fill_and_hold(&args),
        Command::Query(args) => query(&args),
        Command::Compare(args) => compare_with_floor(&args),
        Command::Versus(args) => {
            Stop::on_signals().and_then(|stop| versus(&args, &stop)).map(Validity::of_valid)
        }
        Command::Scale(args) => {
            Stop::on_signals().and_then(|stop| scale(&args, &stop)).map(Validity::of_valid)
        }
        Command::Floor(args) => floor(&args),
        Command::FloorServer(args) => floor_server(&args),
    };
    match result {
        Ok(Validity::Valid) => ExitCode::SUCCESS,
        Ok(Validity::Invalid) => EXIT_INVALID.into(),
        Err(failure) => {
            eprintln!("loadgen: {failure}");
            failure.exit_code().into()
        }
    }
}

enum Validity {
    Valid,
    Invalid,
}

impl Validity {
    fn of(invalid: bool) -> Self {
        if invalid { Validity::Invalid } else { Validity::Valid }
    }

    fn of_valid(valid: bool) -> Self {
        Self::of(!valid)
    }
}

fn fill_and_hold(args: &FillArgs) -> Result<Validity, Failure> {
    let stop = Stop::on_signals()?;
    let fleet = args.fleet()?;
    let address = limits::target(&args.target.server, args.target.allow_remote)?;
    limits::check_connections(u64::from(fleet.brokers))?;
    let held = fill(address, &fleet, &stop)?;
    println!("{}", report::fill_words(&fleet, &held.report));
    if args.hold {
        println!("holding them; Ctrl-C, or {} s, unregisters them", args.seconds);
        let until = Instant::now() + Duration::from_secs_f64(args.seconds);
        while !stop.asked() && !held.is_lost() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(100));
        }
    } else {
        println!("unregistering them, as their connections close with this; --hold keeps them");
    }
    held.release()?;
    Ok(Validity::Valid)
}

/// What `query` and `compare` have in common.
struct Prepared {
    host: Host,
    stop: Stop,
    fleet: Arc<Fleet>,
    load: Load,
    held: Option<HeldFleet>,
    target: Target,
    cpus_before_pinning: Vec<usize>,
}

fn prepare(
    target: &TargetArgs,
    fleet_args: &FleetArgs,
    load: &LoadArgs,
) -> Result<Prepared, Failure> {
    let (host, stop) = (Host::now(), Stop::on_signals()?);
    let fleet = Arc::new(fleet_args.fleet()?);
    let load = load.load(Some(fleet.topics))?;
    let address = limits::target(&target.server, target.allow_remote)?;
    let brokers = if fleet_args.no_fill { 0 } else { fleet.brokers };
    limits::check_connections(u64::from(load.connections) + u64::from(brokers))?;
    let process = match fleet_args.server_pid {
        Some(pid) => Some(Process::new(pid)?),
        None if address.ip().is_loopback() => Some(Process::listening_on(address.port())?),
        None => None,
    };
    let cpus_before_pinning = limits::cpus_allowed();
    confine(&load.pin, process.as_ref())?;
    let held = (!fleet_args.no_fill).then(|| fill(address, &fleet, &stop)).transpose()?;
    if let Some(held) = &held {
        println!("{}", report::fill_words(&fleet, &held.report));
    }
    println!("{}", report::load_words(&load));
    let expect = Expect::Routes(fleet.clone());
    let target = Target { label: "server".into(), address, expect, process };
    Ok(Prepared { host, stop, fleet, load, held, target, cpus_before_pinning })
}

/// Keeps all our threads, also those that only look on, off the server's CPU.
fn confine(pin: &[usize], server: Option<&Process>) -> Result<(), Failure> {
    if let Some(server) = server {
        println!(
            "server: process {}, CPUs {}: {}",
            server.pid, server.cpus_allowed, server.command
        );
    }
    if pin.is_empty() {
        return Ok(());
    }
    limits::pin(pin)?;
    let shared = pin.iter().any(|cpu| server.is_some_and(|s| s.may_run_on(*cpu)));
    if shared {
        eprintln!(
            "warning: the server may run on a CPU of the generator as well; start it under \
             taskset, or choose another --pin"
        );
    }
    Ok(())
}

impl Prepared {
    fn finish(self, json: Option<&std::path::Path>, document: Document<'_>) -> Result<(), Failure> {
        let document = Document {
            schema: SCHEMA,
            host: &self.host,
            load: Some(&self.load),
            fleet: Some(&self.fleet),
            fill: self.held.as_ref().map(|held| &held.report),
            server: self.target.process.as_ref(),
            ..document
        };
        json.map(|path| document.write_to(path)).transpose()?;
        self.held.map_or(Ok(()), HeldFleet::release)
    }
}

fn query(args: &QueryArgs) -> Result<Validity, Failure> {
    let prepared = prepare(&args.target, &args.fleet, &args.load)?;
    let result = run(&prepared.load, &prepared.target, &prepared.stop)?;
    print!("{}", report::run_words(&result, prepared.host.cpus));
    let host = prepared.host.clone();
    let document = Document { run: Some(&result), ..Document::empty(&host) };
    prepared.finish(args.load.json.as_deref(), document)?;
    Ok(Validity::of(!result.invalid.is_empty()))
}

fn compare_with_floor(args: &CompareArgs) -> Result<Validity, Failure> {
    let prepared = prepare(&args.target, &args.fleet, &args.load)?;
    let only_cpu = prepared.target.process.as_ref().and_then(Process::only_cpu);
    let floor_cpu = args
        .floor_cpu
        .or(only_cpu)
        .or_else(|| other_cpu(&prepared.cpus_before_pinning, &prepared.load.pin));
    let plan = Plan {
        load: &prepared.load,
        rounds: args.rounds,
        prewarm_seconds: args.prewarm,
        program: &own_program()?,
        floor_cpu,
    };
    let progress = |round, result: &_| println!("{}", report::progress_words(round, result));
    let comparison = compare(&plan, &prepared.target, &prepared.stop, progress)?;
    println!();
    if let Some(round) = comparison.rounds.last() {
        print!("{}", report::run_words(&round.server, prepared.host.cpus));
        let floor = round.floor.as_ref();
        print!("{}", floor.map_or(String::new(), |f| report::run_words(f, prepared.host.cpus)));
    }
    println!("{}", report::comparison_words(&comparison));
    let invalid = comparison.ratio.is_none() || comparison.invalid();
    let host = prepared.host.clone();
    let document = Document { comparison: Some(&comparison), ..Document::empty(&host) };
    prepared.finish(args.load.json.as_deref(), document)?;
    Ok(Validity::of(invalid))
}

fn own_program() -> Result<std::path::PathBuf, Failure> {
    std::env::current_exe().map_err(|e| run_failure(format!("where this program is: {e}")))
}

/// A CPU that the generator does not use; `None` when it is not pinned or has them all.
fn other_cpu(allowed: &[usize], pin: &[usize]) -> Option<usize> {
    if pin.is_empty() {
        return None;
    }
    allowed.iter().copied().find(|cpu| !pin.contains(cpu))
}

fn floor(args: &FloorArgs) -> Result<Validity, Failure> {
    let (host, stop) = (Host::now(), Stop::on_signals()?);
    let load = args.load.load(None)?;
    let bytes = FloorBytes { hit: args.bytes.reply_bytes, miss: args.bytes.miss_bytes };
    let floor_cpu = args.floor_cpu.or_else(|| other_cpu(&limits::cpus_allowed(), &load.pin));
    let child = FloorChild::spawn(&own_program()?, bytes, floor_cpu)?;
    let process = Process::new(child.pid())?;
    confine(&load.pin, Some(&process))?;
    println!("{}", report::load_words(&load));
    let (label, expect) = ("floor".into(), Expect::Floor(bytes));
    let target = Target { label, address: child.address, expect, process: Some(process) };
    let result = run(&load, &target, &stop)?;
    print!("{}", report::run_words(&result, host.cpus));
    if let Some(path) = &args.load.json {
        let (load, server) = (Some(&load), target.process.as_ref());
        Document { load, server, run: Some(&result), ..Document::empty(&host) }.write_to(path)?;
    }
    Ok(Validity::of(!result.invalid.is_empty()))
}

fn floor_server(args: &FloorServerArgs) -> Result<Validity, Failure> {
    if let Some(cpu) = args.pin {
        limits::pin(&[cpu])?;
    }
    let bytes = FloorBytes { hit: args.bytes.reply_bytes, miss: args.bytes.miss_bytes };
    let server = FloorServer::bind(args.port, bytes, args.ends_with_stdin)?;
    println!("listening on {}", server.port()?);
    server.serve(Duration::from_secs(args.seconds))?;
    Ok(Validity::Valid)
}

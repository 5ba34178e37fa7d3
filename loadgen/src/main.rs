//! Arguments to work to words; exit codes.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser as _;
use loadgen::carry::{Answer, Demand, carry};
use loadgen::ceiling;
use loadgen::check::{Expect, FloorBytes};
use loadgen::cli::{
    CheckArgs, Cli, Command, CompareArgs, FillArgs, FloorArgs, FloorServerArgs, MeasureArgs,
    QueryArgs, ReportArgs,
};
use loadgen::cli_fleet::{FindMaxArgs, LifeArgs};
use loadgen::compare::{Plan, compare};
use loadgen::failure::{Failure, run_failure};
use loadgen::fill::{HeldFleet, fill};
use loadgen::fleet::Fleet;
use loadgen::floor::{FloorChild, FloorServer, is_full};
use loadgen::host::Host;
use loadgen::life::stage;
use loadgen::limits;
use loadgen::live::{Live, Onlooker as _};
use loadgen::output::{self, OutputArgs};
use loadgen::page::page;
use loadgen::preflight;
use loadgen::priority;
use loadgen::probe::probe;
use loadgen::process::Process;
use loadgen::record::{Record, Run, Server};
use loadgen::report;
use loadgen::run::{Load, Target, run};
use loadgen::scale::scale;
use loadgen::search;
use loadgen::stop::Stop;
use loadgen::versus::versus;

/// See `loadgen --help`.
const EXIT_INVALID: u8 = 3;
const EXIT_UNMET: u8 = 4;

/// Queries per second of an open loop when nothing else is asked for: any server carries that.
const DEFAULT_RATE: f64 = 1000.0;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check(args) => check(&args),
        Command::Fill(args) => fill_and_hold(&args),
        Command::Fleet(args) => live_fleet(&args),
        Command::FindMax(args) => find_max(&args),
        Command::Query(args) => query(&args),
        Command::Compare(args) => compare_with_floor(&args),
        Command::Versus(args) => Stop::on_signals()
            .and_then(|stop| versus(&args, &stop))
            .map(|valid| Outcome::of(valid, true)),
        Command::Scale(args) => Stop::on_signals()
            .and_then(|stop| scale(&args, &stop))
            .map(|valid| Outcome::of(valid, true)),
        Command::Floor(args) => floor(&args),
        Command::Report(args) => report_page(&args),
        Command::FloorServer(args) => floor_server(&args),
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Invalid) => EXIT_INVALID.into(),
        Ok(Outcome::Unmet) => EXIT_UNMET.into(),
        Err(failure) => {
            eprintln!("loadgen: {failure}");
            failure.exit_code().into()
        }
    }
}

/// How a command ended that could be carried out.
enum Outcome {
    Done,
    /// The numbers are there, and must not be used.
    Invalid,
    /// Something that was demanded does not hold.
    Unmet,
}

impl Outcome {
    fn of(valid: bool, met: bool) -> Self {
        match (met, valid) {
            (false, _) => Outcome::Unmet,
            (true, false) => Outcome::Invalid,
            (true, true) => Outcome::Done,
        }
    }

    /// What was demanded of a measurement that was ended early was not seen to the end.
    fn of_record(record: &Record, met: bool, complete: bool) -> Self {
        if !complete && !record.assertions.is_empty() {
            println!("ended early: what was demanded was not measured to the end");
            return Outcome::Invalid;
        }
        Self::of(record.is_valid(), met)
    }
}

fn check(args: &CheckArgs) -> Result<Outcome, Failure> {
    let (begin, stop) = (Instant::now(), Stop::on_signals()?);
    let address = limits::target(&args.target.server, args.target.allow_remote)?;
    let (fleet, load) = (args.fleet()?, args.load(address)?);
    preflight::raise_open_files(u64::from(load.connections) + u64::from(fleet.brokers))?;
    // Its CPU is worth a look, and no reason to fail.
    let local = address.ip().is_loopback().then(|| Process::listening_on(address.port()).ok());
    if !load.pin.is_empty() {
        limits::pin(&load.pin)?;
    }
    println!(
        "can {address} carry {} clients asking {:.0} times a second for {} topics on {} brokers? \
         (about {:.0} s)",
        args.clients,
        load.rate.unwrap_or(0.0),
        fleet.topics,
        fleet.brokers,
        load.seconds + load.warmup_seconds
    );
    let (within_us, process) = (args.within * 1e3, local.flatten());
    let demand = Demand { address, fleet, load, within_us, process };
    let mut print = |line: &str| println!("{line}");
    let answer = carry(&demand, &stop, &mut Live::on_stderr(), &mut print)?;
    let took = begin.elapsed().as_secs_f64();
    let (words, outcome) = match answer {
        Answer::Yes(_) => ("yes: this NameServer carries the fleet", Outcome::Done),
        Answer::No => ("no: see what is marked NO above", Outcome::Unmet),
        Answer::Stopped => ("cannot tell: it was ended before its time", Outcome::Invalid),
        Answer::CannotTell(_) => (
            "cannot tell: this machine is too busy to ask in time; give the generator a CPU of its \
             own (--pin) or another machine",
            Outcome::Invalid,
        ),
    };
    println!("{words} ({took:.0} s)");
    Ok(outcome)
}

fn fill_and_hold(args: &FillArgs) -> Result<Outcome, Failure> {
    let stop = Stop::on_signals()?;
    let fleet = args.fleet()?;
    let address = limits::target(&args.target.server, args.target.allow_remote)?;
    preflight::raise_open_files(u64::from(fleet.brokers))?;
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
    Ok(Outcome::Done)
}

/// What commands that measure a server have in common.
struct Prepared<'a> {
    output: &'a OutputArgs,
    host: Host,
    stop: Stop,
    fleet: Arc<Fleet>,
    load: Load,
    held: Option<HeldFleet>,
    target: Target,
    /// What the server says of itself.
    version: Option<String>,
    cpus_before_pinning: Vec<usize>,
}

fn prepare(args: &MeasureArgs, default_rate: Option<f64>) -> Result<Prepared<'_>, Failure> {
    let MeasureArgs { target, fleet: fleet_args, load, output } = args;
    output.check()?;
    let (host, stop) = (Host::now(), Stop::on_signals()?);
    let fleet = Arc::new(fleet_args.fleet()?);
    let address = limits::target(&target.server, target.allow_remote)?;
    let load = load.load(address, Some(fleet.topics), default_rate)?;
    let brokers = if fleet_args.no_fill { 0 } else { fleet.brokers };
    preflight::raise_open_files(u64::from(load.connections) + u64::from(brokers))?;
    let process = match fleet_args.server_pid {
        Some(pid) => Some(Process::new(pid)?),
        None if address.ip().is_loopback() => Some(Process::listening_on(address.port())?),
        None => None,
    };
    let cpus_before_pinning = limits::cpus_allowed();
    confine(&load.pin, process.as_ref())?;
    warn_of_priority(load.at_once);
    let held = (!fleet_args.no_fill).then(|| fill(address, &fleet, &stop)).transpose()?;
    if let Some(held) = &held {
        println!("{}", report::fill_words(&fleet, &held.report));
    }
    println!("{}", report::load_words(&load));
    let expect = Expect::Routes(fleet.clone());
    let target = Target { label: output.label.clone(), address, expect, process };
    let version = probe(address, "loadgen-probe")?.version;
    Ok(Prepared { output, version, host, stop, fleet, load, held, target, cpus_before_pinning })
}

/// Says where `--at-once` has no effect.
fn warn_of_priority(at_once: bool) {
    if at_once && !priority::may_go_at_once() {
        eprintln!(
            "warning: --at-once is not allowed here: run as root or with CAP_SYS_NICE (setcap \
             cap_sys_nice+ep), and with real-time budget in the control group"
        );
    }
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

impl Prepared<'_> {
    /// One run. Errors are no reason against it where a demand allows for them.
    fn run(&self, load: &Load, live: &mut Live) -> Result<Run, Failure> {
        let result = run(load, &self.target, &self.stop, live);
        live.clear();
        let mut result = result?;
        self.output.forgive(&mut result)?;
        Ok(result)
    }

    /// What this generator can ask at all, told and kept with the runs. Not worth losing them.
    fn tell_ceiling(&self, runs: &mut [Run], rate: Option<f64>) {
        let Some(last) = runs.last() else { return };
        let rate = rate.unwrap_or(last.totals.rate);
        let found = own_program().and_then(|program| {
            ceiling::ceiling(&self.load, last, &program, self.floor_cpu(), &self.stop)
        });
        match found {
            Ok(most) => {
                println!("{}", ceiling::words(most, rate).0);
                runs.iter_mut().for_each(|run| ceiling::note(run, most));
            }
            Err(failure) => eprintln!("warning: the ceiling was not measured: {failure}"),
        }
    }

    /// The server's CPU if it has one only, else one that the generator does not use.
    fn floor_cpu(&self) -> Option<usize> {
        let only_cpu = self.target.process.as_ref().and_then(Process::only_cpu);
        only_cpu.or_else(|| other_cpu(&self.cpus_before_pinning, &self.load.pin))
    }

    fn record(&self, runs: Vec<Run>) -> Record {
        let config = serde_json::json!({
            "load": self.load,
            "fleet": *self.fleet,
            "fill": self.held.as_ref().map(|held| &held.report),
        });
        Record::of(
            &self.host,
            server(&self.target, self.version.clone()),
            self.load.seed,
            config,
            runs,
        )
    }

    fn finish(self, mut record: Record, complete: bool) -> Result<Outcome, Failure> {
        // Before anything that may fail: nobody needs the fleet any more.
        let released = self.held.map_or(Ok(()), HeldFleet::release);
        let met = self.output.finish(&mut record)?;
        released?;
        Ok(Outcome::of_record(&record, met, complete))
    }
}

fn server(target: &Target, version: Option<String>) -> Server {
    let process = target.process.as_ref();
    Server {
        label: target.label.clone(),
        address: target.address.to_string(),
        version,
        command: process.map(|process| process.command.clone()),
        cpus_allowed: process.map(|process| process.cpus_allowed.clone()),
    }
}

fn query(args: &QueryArgs) -> Result<Outcome, Failure> {
    let prepared = prepare(&args.measure, Some(DEFAULT_RATE))?;
    let (mut runs, mut live, mut failed) = (Vec::new(), Live::on_stderr(), None);
    for _ in 0..args.repeats {
        if prepared.stop.asked() && !runs.is_empty() {
            break;
        }
        match prepared.run(&prepared.load, &mut live) {
            Ok(result) => {
                print!("{}", report::run_words(&result, prepared.host.cpus));
                runs.push(result);
            }
            Err(failure) if runs.is_empty() => return Err(failure),
            // What was measured before is worth its report.
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        }
    }
    let stopped = prepared.stop.asked();
    if !(args.no_ceiling || stopped || failed.is_some()) {
        prepared.tell_ceiling(&mut runs, None);
    }
    let record = prepared.record(runs);
    print!("{}", report::repeats_words(&record));
    let outcome = prepared.finish(record, !stopped && failed.is_none());
    told(outcome, failed, stopped)
}

/// A failure that ended a measurement is told behind its report. One to connect after Ctrl-C is
/// none.
fn told(
    outcome: Result<Outcome, Failure>,
    failed: Option<Failure>,
    stopped: bool,
) -> Result<Outcome, Failure> {
    match failed {
        Some(failure) if !stopped => outcome.and(Err(failure)),
        _ => outcome,
    }
}

fn find_max(args: &FindMaxArgs) -> Result<Outcome, Failure> {
    args.check()?;
    let prepared = prepare(&args.measure, Some(DEFAULT_RATE))?;
    let (mut runs, mut live) = (Vec::new(), Live::on_stderr());
    let (mut kept_meets, mut failed) = (false, None);
    let mut trial = |rate, confirming| -> Result<Option<(bool, String)>, Failure> {
        let longer = if confirming { args.confirm } else { 1.0 };
        let seconds = prepared.load.seconds * longer;
        let load = Load { rate: Some(rate), seconds, ..prepared.load.clone() };
        let mut result = prepared.run(&load, &mut live)?;
        if prepared.stop.asked() {
            return Ok(None); // half a run
        }
        args.objective.forgive(&mut result)?;
        let record = prepared.record(vec![result]);
        let (meets, words) = search::judge(&record, &args.objective)?;
        println!("{}", search::trial_words(rate, confirming, meets, &words));
        // What the record is about: the run that confirms, which is the last, or else the last one
        // that met the objective, if any did.
        if meets || !kept_meets {
            (runs, kept_meets) = (record.runs, meets);
        }
        Ok(Some((meets, words)))
    };
    let found = args.search().run(|rate, confirming| {
        if prepared.stop.asked() {
            return None;
        }
        trial(rate, confirming).unwrap_or_else(|failure| {
            failed = Some(failure);
            None
        })
    });
    if let Some(failure) = failed.take_if(|_| runs.is_empty()) {
        return Err(failure);
    }
    let stopped = prepared.stop.asked();
    println!("{}", search::result_words(&found, &args.objective));
    if found.rate.is_some() {
        prepared.tell_ceiling(&mut runs, found.rate);
    }
    if runs.is_empty() {
        return Ok(Outcome::Invalid); // stopped before the end of the first one
    }
    let mut record = prepared.record(runs);
    record.config["search"] = serde_json::json!({ "of": args.search(), "found": found });
    let outcome = prepared.finish(record, !found.ended_early)?;
    let outcome = match found.rate {
        None if found.ended_early => Outcome::Invalid,
        None => Outcome::Unmet,
        Some(_) => outcome,
    };
    told(Ok(outcome), failed, stopped)
}

fn live_fleet(args: &LifeArgs) -> Result<Outcome, Failure> {
    let mut output = args.output.clone();
    output.check()?;
    let (host, stop) = (Host::now(), Stop::on_signals()?);
    let address = limits::target(&args.target.server, args.target.allow_remote)?;
    let (setting, fitted) = args.setting()?;
    let course = args.course(address, &setting)?;
    let process = match args.server_pid {
        Some(pid) => Some(Process::new(pid)?),
        None if address.ip().is_loopback() => Some(Process::listening_on(address.port())?),
        None => None,
    };
    let version = probe(address, "loadgen-probe")?.version;
    confine(&course.pin, process.as_ref())?;
    warn_of_priority(course.at_once);
    println!("{}", setting.words());
    fitted.iter().for_each(|words| println!("scaled down: {words}"));
    let connections = setting.other_connections() + u64::from(setting.client_connections);
    let addresses = course.sources.count(connections);
    for finding in preflight::look(connections, addresses, address.ip().is_loopback()) {
        println!("limit: {finding}");
    }
    let expect = Expect::Routes(Arc::new(setting.fleet.clone()));
    let target = Target { label: output.label.clone(), address, expect, process };
    let mut live = Live::on_stderr();
    if !args.no_objectives {
        let objectives = args.class.objectives();
        output.assert.push(objectives.parse().expect("a test parses each of them"));
    }
    let mut story = stage::live(&setting, &course, &target, &stop, &mut live)?;
    live.clear();
    output.forgive(&mut story.run)?;
    println!("{}", report::fill_words(&setting.fleet, &story.fill));
    print!("{}", report::run_words(&story.run, host.cpus));
    print!("{}", story.words());
    let interrupted = story.run.interrupted;
    let config = serde_json::json!({
        "setting": *setting, "course": course, "fill": story.fill, "scaled down": fitted,
    });
    let mut record =
        Record::of(&host, server(&target, version), setting.seed, config, vec![story.run]);
    let met = output.finish(&mut record)?;
    let (verdict, outcome) = match (interrupted, met, record.is_valid()) {
        (true, ..) => ("no verdict, it was ended early", Outcome::Invalid),
        (false, false, _) => ("FAIL", Outcome::Unmet),
        (false, true, false) => ("not valid, see above", Outcome::Invalid),
        (false, true, true) => ("PASS", Outcome::Done),
    };
    let class = format!("{:?}", args.class).to_lowercase();
    println!("class {class}: {verdict}");
    told(Ok(outcome), story.failed, interrupted)
}

fn compare_with_floor(args: &CompareArgs) -> Result<Outcome, Failure> {
    let prepared = prepare(&args.measure, None)?;
    let floor_cpu = args.floor_cpu.or_else(|| prepared.floor_cpu());
    let plan = Plan {
        load: &prepared.load,
        rounds: args.rounds,
        prewarm_seconds: args.prewarm,
        program: &own_program()?,
        floor_cpu,
    };
    let mut live = Live::on_stderr();
    let mut comparison = compare(&plan, &prepared.target, &prepared.stop, &mut live)?;
    live.clear();
    for round in &mut comparison.rounds {
        prepared.output.forgive(&mut round.server)?;
    }
    println!();
    if let Some(round) = comparison.rounds.last() {
        print!("{}", report::run_words(&round.server, prepared.host.cpus));
        let floor = round.floor.as_ref();
        print!("{}", floor.map_or(String::new(), |f| report::run_words(f, prepared.host.cpus)));
    }
    println!("{}", report::comparison_words(&comparison));
    let (compared, failed) = (comparison.ratio.is_some(), comparison.failure.take());
    let stopped = prepared.stop.asked();
    let mut record = prepared.record(comparison.runs().cloned().collect());
    let ratio = comparison.ratio.map(|ratio| ("us_per_answer_ratio".to_owned(), ratio));
    record.repeats.insert("server / floor".into(), ratio.into_iter().collect());
    let outcome = prepared.finish(record, !stopped && failed.is_none())?;
    let unmet = matches!(outcome, Outcome::Unmet);
    told(Ok(if compared { outcome } else { Outcome::of(false, !unmet) }), failed, stopped)
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

fn floor(args: &FloorArgs) -> Result<Outcome, Failure> {
    args.output.check()?;
    let (host, stop) = (Host::now(), Stop::on_signals()?);
    let load = args.load.load((Ipv4Addr::LOCALHOST, 0).into(), None, None)?;
    let bytes = FloorBytes { hit: args.bytes.reply_bytes, miss: args.bytes.miss_bytes };
    let floor_cpu = args.floor_cpu.or_else(|| other_cpu(&limits::cpus_allowed(), &load.pin));
    // The floor inherits the limit.
    preflight::raise_open_files(u64::from(load.connections))?;
    let child = FloorChild::spawn(&own_program()?, bytes, floor_cpu)?;
    let process = Process::new(child.pid())?;
    confine(&load.pin, Some(&process))?;
    println!("{}", report::load_words(&load));
    let (label, expect) = ("floor".into(), Expect::Floor(bytes));
    let target = Target { label, address: child.address, expect, process: Some(process) };
    let mut live = Live::on_stderr();
    let mut result = run(&load, &target, &stop, &mut live)?;
    live.clear();
    args.output.forgive(&mut result)?;
    print!("{}", report::run_words(&result, host.cpus));
    if is_full(&result) {
        println!(
            "the floor, which is one thread, had no CPU left: this is the most that it can answer, \
             and not the most that this generator can ask"
        );
    }
    let config = serde_json::json!({ "load": load, "floor bytes": bytes });
    let mut record = Record::of(&host, server(&target, None), load.seed, config, vec![result]);
    let met = args.output.finish(&mut record)?;
    Ok(Outcome::of_record(&record, met, !stop.asked()))
}

fn report_page(args: &ReportArgs) -> Result<Outcome, Failure> {
    let read = |path: &PathBuf| Record::read_from(path);
    let records: Vec<Record> = args.records.iter().map(read).collect::<Result<_, _>>()?;
    output::write(&args.html, &page(&records)?)?;
    println!("written: {}", args.html.display());
    Ok(Outcome::Done)
}

fn floor_server(args: &FloorServerArgs) -> Result<Outcome, Failure> {
    if let Some(cpu) = args.pin {
        limits::pin(&[cpu])?;
    }
    let bytes = FloorBytes { hit: args.bytes.reply_bytes, miss: args.bytes.miss_bytes };
    let server = FloorServer::bind(args.port, bytes, args.ends_with_stdin)?;
    println!("listening on {}", server.port()?);
    server.serve(Duration::from_secs(args.seconds))?;
    Ok(Outcome::Done)
}

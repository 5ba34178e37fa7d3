//! A whole fleet goes at once: by silence, and by closed connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::caller::Caller;
use crate::failure::{Failure, run_failure};
use crate::fleet::{Asked, Fleet};
use crate::launch::Server;
use crate::priority;
use crate::process::mebibytes;
use crate::registrar::Registrar;
use crate::run::Load;
use crate::table::Target as Bound;
use crate::wire::{ROUTE_BY_TOPIC, SUCCESS};

use super::{Over, Stage, TIMES_QUIET, fleet};

/// Asks for all brokers and clusters, and for all topics: at the end, as these are long answers,
/// which would disturb what is measured.
const LISTS: [u16; 2] = [106, 206];
/// Brokers of whose topics one is asked about while they go.
const SAMPLES: u32 = 50;
/// What brokers say about how long they may be silent.
const SILENCE: Duration = Duration::from_secs(15);
/// The Java server looks for silent brokers every 5 s.
const SCAN: Duration = Duration::from_secs(5);
const ASK_EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// How the fleet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    Silence,
    Close,
}

/// 250 000 topics on 4 of 1 000 brokers each, so that each broker has 1 000.
pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(1000, 250_000, 4)?;
    let (mut by_silence, mut by_close, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let server = stage.start(0)?;
    // One round takes longer than in other parts: the fleet is registered three times.
    stage.rounds(stage.args.bench.rounds.div_ceil(2), |stage| {
        by_silence.push(leave(stage, &server, &fleet, Leaving::Silence)?);
        by_close.push(leave(stage, &server, &fleet, Leaving::Close)?);
        alone.push(close_alone(stage, &server, &fleet)?);
        Ok(())
    });
    let late = |gone: &[Gone]| gone.iter().map(|gone| gone.late_ms).collect::<Vec<_>>();
    let (silent, closed) = ("1000 brokers fall silent", "1000 brokers close");
    let bound = |most: f64| Some(Bound::AtMost(most));
    let scan_ms = SCAN.as_secs_f64() * 1e3;
    stage.find(format!("{silent}: all routes gone after, ms"), late(&by_silence), bound(scan_ms));
    // Beside queries it is mostly the time for which whoever asks, and closes, waits for a CPU.
    stage.find(format!("{closed}: all routes gone after, ms"), alone, bound(1000.0));
    let what = format!("{closed}: all routes gone beside queries after, ms");
    stage.find(what, late(&by_close), None);
    for (what, gone) in [(silent, by_silence), (closed, by_close)] {
        stage.find(format!("{what}: quiet p99.9, us"), gone.iter().map(|g| g.quiet_us), None);
        stage.find(format!("{what}: p99.9, us"), gone.iter().map(|g| g.beside_us), None);
        let ratios = gone.iter().map(|g| g.beside_us / g.quiet_us);
        stage.find(format!("{what}: p99.9 : quiet, by round"), ratios, bound(TIMES_QUIET));
    }
    let resident = mebibytes(server.rss_bytes()?);
    stage.find("resident after all have gone, MiB", [resident], None);
    Ok(())
}

struct Gone {
    /// From the moment all could be gone until they were.
    late_ms: f64,
    quiet_us: f64,
    beside_us: f64,
}

fn leave(
    stage: &mut Stage<'_>,
    server: &Server,
    fleet: &Arc<Fleet>,
    how: Leaving,
) -> Result<Gone, Failure> {
    let silence_ms = u64::try_from(SILENCE.as_millis()).unwrap_or(u64::MAX);
    let timeout_ms = (how == Leaving::Silence).then_some(silence_ms);
    let mut brokers = stage.fill(server, fleet, timeout_ms)?;
    let target = stage.target(server, fleet);
    // Nobody registered what is asked about, so that answers stay the same.
    let load = Load { misses: 1.0, ..stage.open(&target, fleet) };
    let quiet = priority::first_while(|| stage.run("quiet", &load, &target))?;
    let quiet_us = quiet.percentiles("response").p99_9_us;
    brokers.iter_mut().try_for_each(Registrar::heartbeat)?;
    let silent_since = Instant::now();
    let address = server.address;
    if !is_there(&mut Caller::connect(address).map_err(run_failure)?, Asked::Topic(0))? {
        return Err(run_failure("the brokers went before they fell silent: the machine is slow"));
    }
    let seconds = stage.args.seconds;
    let lead = if how == Leaving::Silence { SILENCE.as_secs_f64() - 1.5 } else { 0.5 };
    std::thread::sleep(Duration::from_secs_f64((lead - 0.5).max(0.0)));
    // Longer than the warm-up of a run, so that they go while it counts.
    let load = Load { seconds: seconds.max(3.0), warmup_seconds: 0.5, ..load };
    let disturb = |over: Over<'_>| {
        let due = match how {
            Leaving::Silence => silent_since + SILENCE,
            Leaving::Close => {
                std::thread::sleep(Duration::from_secs(1));
                close(&mut brokers)
            }
        };
        all_gone(address, fleet, due, &over)
    };
    let (result, late_ms) =
        priority::first_while(|| stage.run_beside("all go", &load, &target, disturb))?;
    Ok(Gone { late_ms, quiet_us, beside_us: result.percentiles("response").p99_9_us })
}

/// How long it takes when nobody else wants a CPU, in ms.
fn close_alone(stage: &Stage<'_>, server: &Server, fleet: &Arc<Fleet>) -> Result<f64, Failure> {
    let mut brokers = stage.fill(server, fleet, None)?;
    let over = AtomicBool::new(false);
    let due = close(&mut brokers);
    let late_ms = all_gone(server.address, fleet, due, &Over(&over, stage.stop))?;
    println!("{:<24} {late_ms:.0} ms", "all close, no queries");
    Ok(late_ms)
}

/// Closes their connections; returns when that was done.
fn close(brokers: &mut Vec<Registrar>) -> Instant {
    drop(std::mem::take(brokers));
    Instant::now()
}

/// Waits until no broker and no topic is left; returns how long that was after `due`, in ms.
fn all_gone(
    address: SocketAddr,
    fleet: &Fleet,
    due: Instant,
    over: &Over<'_>,
) -> Result<f64, Failure> {
    let mut caller = Caller::connect(address).map_err(run_failure)?;
    let began = Instant::now();
    let patient = || {
        if began.elapsed() > PATIENCE || over.1.asked() {
            return Err(run_failure("brokers or topics are still there after a minute"));
        }
        std::thread::sleep(ASK_EVERY);
        Ok(())
    };
    // A topic with the number of a broker lives on that broker and the next three.
    let step = usize::try_from(fleet.brokers / SAMPLES).unwrap_or(1).max(1);
    for broker in (0..fleet.brokers).rev().step_by(step) {
        while is_there(&mut caller, Asked::Topic(broker))? {
            patient()?;
        }
    }
    for code in LISTS {
        while lists_something(&mut caller, code)? {
            patient()?;
        }
    }
    Ok(Instant::now().saturating_duration_since(due).as_secs_f64() * 1e3)
}

fn lists_something(caller: &mut Caller, code: u16) -> Result<bool, Failure> {
    let names = |body: &[u8]| body.windows(6).any(|window| window == b"bench-");
    caller.call(code, &[], b"", |frame| names(frame.body)).map_err(run_failure)
}

/// Whether the topic has a route.
fn is_there(caller: &mut Caller, asked: Asked) -> Result<bool, Failure> {
    let name = asked.name();
    let fields = [("topic", &*String::from_utf8_lossy(&name))];
    let code = caller.call(ROUTE_BY_TOPIC, &fields, b"", |frame| frame.code);
    Ok(code.map_err(run_failure)? == SUCCESS)
}

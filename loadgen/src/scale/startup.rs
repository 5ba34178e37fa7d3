//! A whole fleet comes at once, to a server that has just been started: all brokers connect and
//! register while clients ask already.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::caller::Caller;
use crate::failure::{Failure, run_failure};
use crate::fleet::{Fleet, topic_text};
use crate::priority;
use crate::process::mebibytes;
use crate::registrar::{Form, Prepared, Registrar};
use crate::run::Load;
use crate::stop::Stop;
use crate::table::Target as Bound;
use crate::wire::{ROUTE_BY_TOPIC, SUCCESS};

use super::{Over, Stage, TIMES_QUIET, fleet};

/// Brokers that register side by side. Each waits for its answer, and another one follows.
const SENDERS: usize = 16;
/// Topics whose routes must be complete in the end.
const SAMPLES: u32 = 50;
const ASK_EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);
/// The load counts from here on, and half a second later they come.
const WARMUP_SECONDS: f64 = 0.5;
const COME_AFTER: Duration = Duration::from_secs(1);
/// Beside queries it takes longer than alone: the load goes on for so many times as long.
const TIMES_ALONE: f64 = 1.5;
const SECONDS_MAX: f64 = 60.0;

/// 250 000 topics on 4 of 1 000 brokers each, so that each broker has 1 000.
pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(1000, 250_000, 4)?;
    let mut brokers: Vec<Prepared> = (0..fleet.brokers)
        .map(|number| {
            let mut broker = Prepared::new(&fleet, number, None);
            let topics: Vec<u32> = fleet.topics_of(number).collect();
            broker.prepare(&fleet, &topics, Form::Raw);
            broker
        })
        .collect();
    let megabytes = brokers.iter().map(Prepared::body_bytes).sum::<u64>() as f64 / 1e6;
    println!("{} registrations, {megabytes:.0} MB together", fleet.brokers);
    let (mut alone, mut cpu, mut resident) = (Vec::new(), Vec::new(), Vec::new());
    let (mut beside, mut quiet_us, mut during_us) = (Vec::new(), Vec::new(), Vec::new());
    // One round takes longer than in other parts: the server is started twice.
    stage.rounds(stage.args.bench.rounds.div_ceil(2), |stage| {
        let found = come_alone(stage, &fleet, &mut brokers)?;
        alone.push(found.seconds);
        cpu.push(found.cpu_seconds);
        resident.push(mebibytes(found.rss_bytes));
        let (quiet, during, took) = come_beside(stage, &fleet, &mut brokers, found.seconds)?;
        quiet_us.push(quiet);
        during_us.push(during);
        beside.push(took);
        Ok(())
    });
    let what = "1000 brokers come";
    let ratios: Vec<f64> = during_us.iter().zip(&quiet_us).map(|(a, b)| a / b).collect();
    stage.find(format!("{what}: all routes there after, s"), alone, None);
    stage.find(format!("{what}: s CPU of the server"), cpu, None);
    stage.find(format!("{what}: all routes there beside queries after, s"), beside, None);
    stage.find(format!("{what}: quiet p99.9, us"), quiet_us, None);
    stage.find(format!("{what}: p99.9, us"), during_us, None);
    let bound = Some(Bound::AtMost(TIMES_QUIET));
    stage.find(format!("{what}: p99.9 : quiet, by round"), ratios, bound);
    stage.find(format!("{what}: resident after it, MiB"), resident, None);
    Ok(())
}

struct Alone {
    seconds: f64,
    cpu_seconds: f64,
    rss_bytes: u64,
}

/// Nobody asks: what the registrations take.
fn come_alone(
    stage: &Stage<'_>,
    fleet: &Fleet,
    brokers: &mut Vec<Prepared>,
) -> Result<Alone, Failure> {
    stage.go_on()?;
    let server = stage.start(0)?;
    let before = server.process.sample()?;
    let (seconds, here) = come(server.address, fleet, std::mem::take(brokers), stage.stop)?;
    let used = server.process.sample()?.since(&before);
    let cpu_seconds = used.cpu_ns as f64 / 1e9;
    println!("{:<24} {seconds:.2} s, {cpu_seconds:.2} s CPU", "all come, no queries");
    brokers.extend(here.into_iter().map(Registrar::close));
    Ok(Alone { seconds, cpu_seconds, rss_bytes: used.rss_bytes })
}

/// Beside queries. Returns their p99.9 (us) before and during it, and how long it took (s).
fn come_beside(
    stage: &mut Stage<'_>,
    fleet: &Arc<Fleet>,
    brokers: &mut Vec<Prepared>,
    alone_seconds: f64,
) -> Result<(f64, f64, f64), Failure> {
    let server = stage.start(0)?;
    let target = stage.target(&server, fleet);
    // Nobody registers what is asked about, so that answers stay the same.
    let load = Load { misses: 1.0, ..stage.open(&target, fleet) };
    let quiet = priority::first_while(|| stage.run("quiet, empty", &load, &target))?;
    let quiet_us = quiet.percentiles("response").p99_9_us;
    let seconds = (alone_seconds * TIMES_ALONE + 0.5).min(SECONDS_MAX);
    let load = Load { seconds, warmup_seconds: WARMUP_SECONDS, ..load };
    let (address, stop) = (server.address, stage.stop);
    let going = std::mem::take(brokers);
    let disturb = |_: Over<'_>| {
        std::thread::sleep(COME_AFTER);
        come(address, fleet, going, stop)
    };
    let (result, (took, here)) =
        priority::first_while(|| stage.run_beside("all come", &load, &target, disturb))?;
    brokers.extend(here.into_iter().map(Registrar::close));
    Ok((quiet_us, result.percentiles("response").p99_9_us, took))
}

/// All of them connect and register. Returns how long it took, in s, from the first one's
/// connection until all had their answers and a sample of topics was answered with the whole route.
fn come(
    address: SocketAddr,
    fleet: &Fleet,
    brokers: Vec<Prepared>,
    stop: &Stop,
) -> Result<(f64, Vec<Registrar>), Failure> {
    let began = Instant::now();
    let left = Mutex::new(brokers.into_iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let here = std::thread::scope(|scope| {
        let sender = || {
            let mut mine = Vec::new();
            while let Some(broker) = next().filter(|_| !stop.asked()) {
                let mut broker = broker.connect(address)?;
                broker.register()?;
                mine.push(broker);
            }
            Ok(mine)
        };
        let threads: Vec<_> = (0..SENDERS).map(|_| scope.spawn(sender)).collect();
        let mut here = Vec::new();
        for thread in threads {
            let crashed = |_| Err(run_failure("a registering thread crashed"));
            here.extend(thread.join().unwrap_or_else(crashed)?);
        }
        Ok::<_, Failure>(here)
    })?;
    let mut caller = Caller::connect(address).map_err(run_failure)?;
    let step = usize::try_from(fleet.topics / SAMPLES).unwrap_or(1).max(1);
    for topic in (0..fleet.topics).step_by(step) {
        while !is_complete(&mut caller, fleet, topic)? {
            if stop.asked() || began.elapsed() > PATIENCE {
                let name = topic_text(topic);
                return Err(run_failure(format!("the route of {name} is not complete")));
            }
            std::thread::sleep(ASK_EVERY);
        }
    }
    Ok((began.elapsed().as_secs_f64(), here))
}

/// Whether the topic's route is what was registered.
pub(super) fn is_complete(caller: &mut Caller, fleet: &Fleet, topic: u32) -> Result<bool, Failure> {
    let (name, right) = (topic_text(topic), |body: &[u8]| fleet.check_route(topic, body).is_ok());
    let fields = [("topic", name.as_str())];
    caller
        .call(ROUTE_BY_TOPIC, &fields, b"", |frame| frame.code == SUCCESS && right(frame.body))
        .map_err(run_failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stub::Stub;

    #[test]
    fn they_have_come_when_all_are_registered_and_routes_are_complete() {
        let stub = Stub::start(|seen| Some(seen.answer_by_fleet()));
        let fleet = fleet(3, 30, 3).unwrap();
        let prepared = |number| {
            let mut broker = Prepared::new(&fleet, number, None);
            broker.prepare(&fleet, &[0, 1], Form::Raw);
            broker
        };
        let brokers = (0..3).map(prepared).collect();
        let (_, here) = come(stub.address, &fleet, brokers, &Stop::default()).unwrap();
        assert_eq!((here.len(), stub.registrations.lock().unwrap().len()), (3, 3));
        // One that is missing makes every route incomplete.
        let mut caller = Caller::connect(stub.address).unwrap();
        assert!(is_complete(&mut caller, &fleet, 7).unwrap());
        let more = Fleet { brokers: 4, route_width: 4, ..(*fleet).clone() };
        assert!(!is_complete(&mut caller, &more, 7).unwrap());
    }
}

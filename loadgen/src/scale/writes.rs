//! Queries beside changes of all sizes: what a client notices of them.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::failure::{Failure, run_failure};
use crate::fleet::Fleet;
use crate::measure::nanos;
use crate::priority;
use crate::process::mebibytes;
use crate::registrar::{Form, Registrar};
use crate::run::Load;
use crate::table::Target as Bound;

use super::{Over, Stage, fleet};

/// Brokers that register at the same time in a storm.
const AT_ONCE: usize = 4;
/// Topics whose registration is just below the frame limit of 16 MiB.
const LARGEST_TOPICS: u32 = 80_000;
const HEARTBEAT_EVERY: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(60);
const NEW_TOPICS_PER_SECOND: u32 = 1000;
/// Queries a second for the widest routes, whose answers have 66 kB.
const WIDE_RATE: f64 = 1000.0;

/// What was registered beside a run.
#[derive(Default)]
struct Stormed {
    registrations: f64,
    megabytes: f64,
    seconds: f64,
}

/// Registers new versions of these brokers back to back.
fn back_to_back(brokers: &mut [Registrar], over: &Over<'_>) -> Result<Stormed, Failure> {
    let (began, mut stormed) = (Instant::now(), Stormed::default());
    let (mut count, mut bytes) = (0u32, 0);
    let places = (0..brokers.len()).cycle();
    for at in places.take_while(|_| !over.is()) {
        let broker = &mut brokers[at];
        broker.change();
        broker.register()?;
        count += 1;
        bytes += broker.body_bytes();
    }
    stormed.registrations = f64::from(count);
    stormed.megabytes = bytes as f64 / 1e6;
    stormed.seconds = began.elapsed().as_secs_f64();
    Ok(stormed)
}

/// The same with several at once.
fn all_at_once(brokers: &mut [Registrar], over: &Over<'_>) -> Result<Stormed, Failure> {
    let share = brokers.len().div_ceil(AT_ONCE).max(1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = brokers
            .chunks_mut(share)
            .map(|some| scope.spawn(|| back_to_back(some, over)))
            .collect();
        let mut sum = Stormed::default();
        for thread in threads {
            let crashed = |_| Err(run_failure("a registering thread crashed"));
            let stormed = thread.join().unwrap_or_else(crashed)?;
            sum.registrations += stormed.registrations;
            sum.megabytes += stormed.megabytes;
            sum.seconds = sum.seconds.max(stormed.seconds);
        }
        Ok(sum)
    })
}

fn note(stage: &mut Stage<'_>, what: &str, stormed: &[Stormed]) {
    let rate = |amount: fn(&Stormed) -> f64| {
        stormed.iter().map(move |s| amount(s) / s.seconds.max(1e-9)).collect::<Vec<_>>()
    };
    stage.find(format!("{what}: registrations/s"), rate(|s| s.registrations), None);
    stage.find(format!("{what}: MB/s"), rate(|s| s.megabytes), None);
}

/// 250 000 topics on 4 of 50 brokers each, so that each broker has 20 000.
pub(super) fn storm(stage: &mut Stage<'_>, form: Form) -> Result<(), Failure> {
    let fleet = fleet(50, 250_000, 4)?;
    let server = stage.start(0)?;
    let mut brokers = stage.fill(&server, &fleet, None)?;
    for (number, broker) in (0..).zip(&mut brokers) {
        let topics: Vec<u32> = fleet.topics_of(number).collect();
        broker.prepare(&fleet, &topics, form);
        // Compressing takes a while; nobody is to be forgotten meanwhile.
        broker.heartbeat()?;
    }
    let target = stage.target(&server, &fleet);
    let load = stage.open(&target, &fleet);
    priority::first();
    let what = match form {
        Form::Raw => "storm",
        Form::Compressed => "storm, compressed",
    };
    let stormed = stage.quiet_and(what, &load, &target, |over| {
        // A slow server may not come to each of them in every round.
        brokers.iter_mut().try_for_each(Registrar::heartbeat)?;
        all_at_once(&mut brokers, &over)
    });
    note(stage, what, &stormed);
    memory_after(stage, &server, "50 brokers x 20 000 topics")
}

/// Registrations of nearly 16 MiB beside heartbeats and queries.
pub(super) fn large(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(5, 1000, 4)?;
    let server = stage.start(0)?;
    let mut brokers = stage.fill(&server, &fleet, None)?;
    let target = stage.target(&server, &fleet);
    let load = stage.open(&target, &fleet);
    let (Some(mut giant), Some(mut small)) = (brokers.pop(), brokers.pop()) else {
        return Err(run_failure("a fleet of five brokers has two"));
    };
    stage.hold(brokers);
    let topics: Vec<u32> = (1000..1000 + LARGEST_TOPICS).collect();
    let bytes = largest(&mut giant, &fleet, &topics);
    println!("a registration of {bytes} bytes");
    priority::first();
    let mut quiet = Vec::new();
    stage.rounds(stage.args.bench.rounds, |stage| {
        giant.heartbeat()?;
        let (_, beats) =
            stage.run_beside("heartbeats", &load, &target, |over| heartbeats(&mut small, &over))?;
        quiet.push(beats);
        Ok(())
    });
    let beside = stage.quiet_and("16 MB registrations", &load, &target, |over| {
        std::thread::scope(|scope| {
            let beats = scope.spawn(|| {
                priority::first();
                heartbeats(&mut small, &over)
            });
            let stormed = back_to_back(std::slice::from_mut(&mut giant), &over)?;
            let crashed = |_| Err(run_failure("the heartbeating thread crashed"));
            Ok((stormed, beats.join().unwrap_or_else(crashed)?))
        })
    });
    let (stormed, beats): (Vec<Stormed>, Vec<Beats>) = beside.into_iter().unzip();
    note(stage, "16 MB registrations", &stormed);
    stage.find("quiet: heartbeat p99, us", quiet.iter().map(|b| b.p99_us), None);
    stage.find("16 MB registrations: heartbeat p99, us", beats.iter().map(|b| b.p99_us), None);
    // A heartbeat waits for the piece of work that the writer is at.
    let bound = Some(Bound::AtMost(10_000.0));
    let worst = beats.iter().map(|b| b.max_us);
    stage.find("16 MB registrations: slowest heartbeat, us", worst, bound);
    memory_after(stage, &server, "1 000 topics x 4 and 70 000 x 1")
}

/// Prepares a registration of as many of the topics as a frame can take.
fn largest(broker: &mut Registrar, fleet: &Fleet, topics: &[u32]) -> u64 {
    const BODY_BYTES: u64 = (16 << 20) - 4096;
    let all = broker.prepare(fleet, topics, Form::Raw);
    let fitting = u64::try_from(topics.len()).unwrap_or(0) * BODY_BYTES / all;
    let fitting = usize::try_from(fitting).unwrap_or(usize::MAX).min(topics.len());
    broker.prepare(fleet, &topics[..fitting], Form::Raw)
}

struct Beats {
    p99_us: f64,
    max_us: f64,
}

/// Heartbeats on a schedule: one that is late makes the next ones late, and all of them count from
/// the moment they were due.
fn heartbeats(broker: &mut Registrar, over: &Over<'_>) -> Result<Beats, Failure> {
    let mut took = Histogram::<u64>::new_with_bounds(1, nanos(LONGEST), 3)
        .expect("bounds and precision are in range");
    let mut due = Instant::now();
    while !over.is() {
        broker.heartbeat()?;
        took.saturating_record(nanos(due.elapsed()));
        due += HEARTBEAT_EVERY;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    // Those that were due and never sent waited until now.
    let end = Instant::now();
    while due < end {
        took.saturating_record(nanos(end - due));
        due += HEARTBEAT_EVERY;
    }
    let us = |ns: u64| ns as f64 / 1e3;
    Ok(Beats { p99_us: us(took.value_at_quantile(0.99)), max_us: us(took.max()) })
}

/// New topics at a fixed rate, each announced on its own as a broker does.
pub(super) fn churn(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(4, 100_000, 4)?;
    let server = stage.start(0)?;
    let mut brokers = stage.fill(&server, &fleet, None)?;
    let target = stage.target(&server, &fleet);
    let load = stage.open(&target, &fleet);
    priority::first();
    let mut next_topic = fleet.topics;
    let rates = stage.quiet_and("churn", &load, &target, |over| {
        let began = Instant::now();
        let mut count = 0;
        while !over.is() {
            let at = count as usize % brokers.len();
            let broker = &mut brokers[at];
            broker.prepare(&fleet, &[next_topic], Form::Raw);
            broker.change();
            broker.register()?;
            (count, next_topic) = (count + 1, next_topic + 1);
            let due = began + Duration::from_secs(1) * count / NEW_TOPICS_PER_SECOND;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(f64::from(count) / began.elapsed().as_secs_f64())
    });
    let bound = Some(Bound::AtLeast(f64::from(NEW_TOPICS_PER_SECOND) * 0.95));
    stage.find("churn: new topics/s", rates, bound);
    memory_after(stage, &server, "100 000 topics x 4 and the new ones")
}

/// Routes of 300 brokers: an answer has 66 kB, and a registration touches 10 000 such routes.
pub(super) fn wide(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(300, 10_000, 300)?;
    let server = stage.start(0)?;
    let mut others = stage.fill(&server, &fleet, None)?;
    let mut one = others.swap_remove(0);
    stage.hold(others);
    let topics: Vec<u32> = (0..fleet.topics).collect();
    one.prepare(&fleet, &topics, Form::Raw);
    let target = stage.target(&server, &fleet);
    let load = Load { rate: Some(WIDE_RATE), topics: 32, ..stage.open(&target, &fleet) };
    priority::first();
    let what = "wide routes change";
    let stormed = stage.quiet_and(what, &load, &target, |over| {
        back_to_back(std::slice::from_mut(&mut one), &over)
    });
    note(stage, what, &stormed);
    memory_after(stage, &server, "10 000 topics x 300 brokers")
}

fn memory_after(
    stage: &mut Stage<'_>,
    server: &crate::launch::Server,
    what: &str,
) -> Result<(), Failure> {
    let resident = mebibytes(server.rss_bytes()?);
    stage.find(format!("resident after it, {what}, MiB"), [resident], None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

    use super::*;
    use crate::registrar::Prepared;
    use crate::stop::Stop;
    use crate::stub::Stub;

    #[test]
    fn a_stall_counts_for_all_heartbeats_that_were_due_meanwhile() {
        // 40 are due in 200 ms: a fifth of 200. With the next one sent 5 ms after each answer it
        // would be one.
        let (over, count) = (Arc::new(AtomicBool::new(false)), AtomicU32::new(0));
        let shared = over.clone();
        let stub = Stub::start_with(
            |seen| Some(seen.answer_by_fleet()),
            move |seen| {
                match count.fetch_add(1, SeqCst) {
                    0 => std::thread::sleep(Duration::from_millis(200)),
                    199 => shared.store(true, SeqCst),
                    _ => {}
                }
                seen.answer(0, "")
            },
        );
        let fleet = fleet(1, 1, 1).unwrap();
        let mut broker = Prepared::new(&fleet, 0, None).connect(stub.address).unwrap();
        let beats = heartbeats(&mut broker, &Over(&over, &Stop::default())).unwrap();
        assert!(beats.p99_us > 150_000.0 && beats.max_us >= 200_000.0, "{}", beats.p99_us);
    }
}

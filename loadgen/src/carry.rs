//! `loadgen check`: can this NameServer carry such a fleet? A yes or a no with figures, in less
//! than a minute. The fleet has a cluster and brokers of its own, which go with their connections,
//! also when the check is killed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::check::Expect;
use crate::connection::LOST;
use crate::failure::{Failure, usage};
use crate::fill::fill;
use crate::fleet::{Asked, Fleet};
use crate::live::Onlooker;
use crate::page::{amount, micros};
use crate::probe::probe;
use crate::process::Process;
use crate::record::{Phase, Run};
use crate::run::{Load, Target, run};
use crate::stop::Stop;

/// A client asks for each of its topics every 30 s, and has three, as is usual.
pub const SECONDS_BETWEEN_POLLS: f64 = 30.0;
/// See [`SECONDS_BETWEEN_POLLS`].
pub const TOPICS_A_CLIENT: f64 = 3.0;
/// A server answers at least so much of what is demanded, or it does not keep up.
const KEPT_UP_MIN: f64 = 0.98;
/// How long a server may take to forget brokers whose connections are closed.
const FORGET_MAX: Duration = Duration::from_secs(10);

/// What is asked of the server.
pub struct Demand {
    /// Where it listens.
    pub address: SocketAddr,
    /// Who registers.
    pub fleet: Fleet,
    /// Who asks, over as many connections, and how often.
    pub load: Load,
    /// The bound of response times at p99, in us: p99.9 of a short check is one answer.
    pub within_us: f64,
    /// The server, if it is a process of this machine.
    pub process: Option<Process>,
}

/// The answer.
#[derive(Debug)]
pub enum Answer {
    /// It carries the fleet.
    Yes(Run),
    /// It does not.
    No,
    /// The generator could not keep to its schedule: this machine is too busy to tell.
    CannotTell(Run),
    /// It was stopped before its time.
    Stopped,
}

/// One line for each step, as it is done.
struct Steps<'a> {
    print: &'a mut dyn FnMut(&str),
    failed: bool,
}

impl Steps<'_> {
    fn step(&mut self, fine: bool, what: &str, figures: &str) {
        self.failed |= !fine;
        let mark = if fine { "ok" } else { "NO" };
        (self.print)(&format!("  {mark}  {what:<26} {figures}"));
    }
}

/// Checks the server.
///
/// # Errors
/// When nothing answers there, another generator is at work on it, or this machine does not allow
/// what is needed: that says nothing about the server.
pub fn carry(
    demand: &Demand,
    stop: &Stop,
    onlooker: &mut dyn Onlooker,
    print: &mut dyn FnMut(&str),
) -> Result<Answer, Failure> {
    let mut steps = Steps { print, failed: false };
    greet(demand, &mut steps)?;
    let held = match fill(demand.address, &demand.fleet, stop) {
        Ok(held) => held,
        Err(_) if stop.asked() => return Ok(Answer::Stopped),
        Err(Failure::Usage(why)) => return Err(Failure::Usage(why)),
        Err(failure) => {
            steps.step(false, "takes registrations", &failure.to_string());
            return Ok(Answer::No);
        }
    };
    let Fleet { brokers, topics, .. } = demand.fleet;
    let took = held.report.seconds;
    let figures = format!("{brokers} brokers with {topics} topics in {took:.2} s");
    steps.step(true, "takes registrations", &figures);
    let target = Target {
        label: "server".into(),
        address: demand.address,
        expect: Expect::Routes(Arc::new(demand.fleet.clone())),
        process: demand.process.clone(),
    };
    let result = run(&demand.load, &target, stop, onlooker);
    onlooker.clear();
    let released = held.release();
    let run = match result {
        Ok(run) => run,
        Err(_) if stop.asked() => return Ok(Answer::Stopped),
        Err(Failure::Usage(why)) => return Err(Failure::Usage(why)),
        Err(failure) => {
            steps.step(false, "takes its clients", &failure.to_string());
            forgotten(demand, &mut steps);
            return Ok(Answer::No);
        }
    };
    judge(demand, &run, &mut steps);
    if let Err(failure) = released {
        steps.step(false, "keeps its brokers", &failure.to_string());
    }
    forgotten(demand, &mut steps);
    // What the generator was late by is part of the response times.
    let late = run.percentiles("lateness").p99_us > demand.within_us / 2.0;
    if run.interrupted {
        return Ok(Answer::Stopped);
    }
    Ok(match (steps.failed, late) {
        (_, true) => Answer::CannotTell(run),
        (true, false) => Answer::No,
        (false, false) => Answer::Yes(run),
    })
}

/// Both ends of the topics' numbers: whoever has another fleet of this kind has its first topic.
fn own_topics(fleet: &Fleet) -> [String; 2] {
    [0, fleet.topics - 1]
        .map(|topic| String::from_utf8_lossy(&Asked::Topic(topic).name()).into_owned())
}

fn greet(demand: &Demand, steps: &mut Steps<'_>) -> Result<(), Failure> {
    let mut took = Duration::ZERO;
    let mut version = None;
    for topic in own_topics(&demand.fleet) {
        let greeting = probe(demand.address, &topic)?;
        if greeting.knows_topic {
            return Err(usage(format!(
                "{} knows the topic {topic} already: another loadgen is at work on it; wait until \
                 it ends",
                demand.address
            )));
        }
        (took, version) = (greeting.took, greeting.version);
    }
    let version = version.map_or(String::new(), |version| format!("; {version}"));
    let took = micros(took.as_secs_f64() * 1e6);
    steps.step(true, "answers", &format!("connected and asked in {took}{version}"));
    Ok(())
}

fn judge(demand: &Demand, run: &Run, steps: &mut Steps<'_>) {
    let lost: u64 = LOST.iter().filter_map(|kind| run.totals.errors.get(*kind)).sum();
    let connections = demand.load.connections;
    let figures = format!("{connections} connections, {lost} lost");
    steps.step(lost == 0, "takes its clients", &figures);
    let compared = run.count("topics compared");
    let figures = match run.totals.error_examples.first() {
        None => format!(
            "{} answers, {compared} topics compared with what was registered",
            run.answers()
        ),
        Some(example) => format!("{} errors; the first: {example}", run.errors()),
    };
    steps.step(run.errors() == 0 && run.answers() > 0, "answers rightly", &figures);
    let demanded = run.totals.demanded_rate.unwrap_or(0.0);
    // What was meant for the measured time, by the schedule: chance may have planned a little less.
    let sent = run.totals.times.get("lateness").map_or(0, |times| times.percentiles.count);
    let measured = run.seconds.iter().filter(|second| second.phase == Phase::Measured);
    let unsent: u64 = measured.filter_map(|second| second.errors.get("unsent")).sum();
    let planned = sent + unsent;
    let kept_up = run.answers() as f64 >= planned as f64 * KEPT_UP_MIN && planned > 0;
    let figures = format!(
        "{} of {} queries answered, at {}/s for {:.0} s{}",
        run.answers(),
        planned,
        amount(demanded),
        run.totals.seconds,
        cpu(run)
    );
    steps.step(kept_up, "keeps up", &figures);
    let p = run.percentiles("response");
    let figures = format!(
        "p50 {}, p99 {} of at most {}, longest {}",
        micros(p.p50_us),
        micros(p.p99_us),
        micros(demand.within_us),
        micros(p.max_us)
    );
    steps.step(p.count > 0 && p.p99_us <= demand.within_us, "answers in time", &figures);
}

fn cpu(run: &Run) -> String {
    let share = run
        .cost
        .as_ref()
        .and_then(|cost| Some(cost.server.as_ref()?.cpu_ns as f64 / 1e9 / cost.seconds.max(1e-9)));
    share.map_or(String::new(), |share| format!("; {:.0} % of a CPU", share * 100.0))
}

/// The brokers left with their connections: the server forgets their topics.
fn forgotten(demand: &Demand, steps: &mut Steps<'_>) {
    let figures = forgets(demand);
    let (fine, figures) = figures.map_or_else(|why| (false, why), |figures| (true, figures));
    steps.step(fine, "leaves nothing behind", &figures);
}

/// How soon it does; an error when it does not, or answers wrongly.
fn forgets(demand: &Demand) -> Result<String, String> {
    let begin = Instant::now();
    for topic in own_topics(&demand.fleet) {
        while probe(demand.address, &topic).map_err(|e| e.to_string())?.knows_topic {
            if begin.elapsed() > FORGET_MAX {
                return Err(format!("{topic} is still known after {} s", FORGET_MAX.as_secs()));
            }
            // Nothing tells when a server has forgotten a broker.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let took = micros(begin.elapsed().as_secs_f64() * 1e6);
    Ok(format!("its topics are gone after {took}"))
}

//! Many connections: what an idle one holds, what an active one costs, and what one costs that
//! comes and goes without a word.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::caller::Caller;
use crate::check::FloorBytes;
use crate::failure::{Failure, run_failure};
use crate::fleet::topic_text;
use crate::floor::FloorChild;
use crate::launch::Server;
use crate::priority;
use crate::process::{Process, mebibytes};
use crate::table::Target as Bound;
use crate::wire::ROUTE_BY_TOPIC;

use super::{Over, Stage, fleet};

/// Addresses of this machine that the crowd goes to in turn: each has its own local ports.
const ADDRESSES: u32 = 16;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const CLOSES_PER_SECOND: u32 = 8000;
/// User-space bytes of an idle connection.
const IDLE_BYTES: f64 = 2048.0;
const IDLE_TIME: Duration = Duration::from_secs(5);
/// Context switches a second of a server with nothing to do: its timers.
const IDLE_SWITCHES: f64 = 20.0;
/// How much more a connection may cost that says nothing than at the floor.
const TIMES_FLOOR: f64 = 1.5;

fn address(number: u32, port: u16) -> SocketAddr {
    let host = u8::try_from(number % ADDRESSES).unwrap_or(0) + 1;
    SocketAddr::from((Ipv4Addr::new(127, 0, 0, host), port))
}

pub(super) fn connections(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(4, 1000, 4)?;
    let server = stage.start(0)?;
    let brokers = stage.fill(&server, &fleet, None)?;
    stage.hold(brokers);
    let target = stage.target(&server, &fleet);
    priority::first();
    let count = stage.args.bench.crowd;
    let (mut few, mut many, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut idle = Vec::new();
    let mut switches = Vec::new();
    let (mut busy, mut resident) = (Vec::new(), Vec::new());
    stage.rounds(stage.args.bench.rounds, |stage| {
        let before = server.rss_bytes()? as f64;
        let crowd = gather(stage, &server, count)?;
        let growth = server.rss_bytes()? as f64 - before;
        // Later rounds reuse what the first one made the server take.
        if idle.is_empty() {
            idle.push(growth / f64::from(count));
        }
        let start = server.process.sample()?;
        std::thread::sleep(IDLE_TIME);
        let used = server.process.sample()?.since(&start);
        let seconds = IDLE_TIME.as_secs_f64();
        switches.push((used.voluntary_switches + used.forced_switches) as f64 / seconds);
        busy.push(used.cpu_ns as f64 / 1e6 / seconds);
        drop(crowd);
        let result = stage.run("900 x 1", &stage.closed(&target, 900, 1, 1000), &target)?;
        let small = result.server_us_per_answer();
        let result = stage.run("crowd", &stage.closed(&target, count, 1, 1000), &target)?;
        let large = result.server_us_per_answer();
        few.extend(small);
        many.extend(large);
        ratios.extend(small.zip(large).map(|(small, large)| large / small));
        let used = result.cost.and_then(|cost| cost.server);
        resident.extend(used.map(|used| mebibytes(used.rss_bytes)));
        Ok(())
    });
    let bytes = Some(Bound::AtMost(IDLE_BYTES));
    stage.find(format!("{count} connections, idle: bytes each"), idle, bytes);
    let calm = Some(Bound::AtMost(IDLE_SWITCHES));
    stage.find(format!("{count} connections, idle: context switches/s"), switches, calm);
    stage.find(format!("{count} connections, idle: ms CPU a second"), busy, None);
    stage.find("900 connections, active: us CPU a query", few, None);
    stage.find(format!("{count} connections, active: us CPU a query"), many, None);
    stage.find(format!("{count} connections : 900, by round"), ratios, None);
    stage.find(format!("{count} connections, active: resident, MiB"), resident, None);
    Ok(())
}

/// Connects so many clients, each of which asks once, so that what a first request makes the
/// server keep is kept.
fn gather(stage: &Stage<'_>, server: &Server, count: u32) -> Result<Vec<Caller>, Failure> {
    let name = topic_text(0);
    let fields = [("topic", name.as_str())];
    let mut crowd = Vec::new();
    for number in 0..count {
        stage.go_on()?;
        let to = address(number, server.address.port());
        let asked = Caller::with_timeout(to, ANSWER_TIMEOUT).and_then(|mut caller| {
            caller.call(ROUTE_BY_TOPIC, &fields, b"", |_| ())?;
            Ok(caller)
        });
        let failed = |why| run_failure(format!("connection {number} of {count}: {why}"));
        crowd.push(asked.map_err(failed)?);
    }
    Ok(crowd)
}

/// Connections that come and go, beside a load and alone, at the server and at the floor.
pub(super) fn closes(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let fleet = fleet(4, 1000, 4)?;
    let server = stage.start(0)?;
    let brokers = stage.fill(&server, &fleet, None)?;
    stage.hold(brokers);
    let target = stage.target(&server, &fleet);
    let load = stage.open(&target, &fleet);
    let program =
        std::env::current_exe().map_err(|e| run_failure(format!("where this program is: {e}")))?;
    let bytes = FloorBytes { hit: 1000, miss: 300 };
    let floor = FloorChild::spawn(&program, bytes, stage.cpus.first().copied())?;
    let floor_process = Process::new(floor.pid())?;
    priority::first();
    let port = server.address.port();
    let what = format!("{CLOSES_PER_SECOND} closes/s");
    let rates = stage.quiet_and(&what, &load, &target, |over| come_and_go(port, &over));
    stage.find(format!("{what}: reached, 1/s"), rates, None);
    let (mut ours, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    stage.rounds(stage.args.bench.rounds, |stage| {
        let floor_us = alone(stage, &floor_process, floor.address.port())?;
        let our_us = alone(stage, &server.process, port)?;
        floors.push(floor_us);
        ours.push(our_us);
        ratios.push(our_us / floor_us);
        Ok(())
    });
    stage.find("a connection without a word: us CPU", ours, None);
    stage.find("the same at the floor: us CPU", floors, None);
    let bound = Some(Bound::AtMost(TIMES_FLOOR));
    stage.find("the same : floor, by round", ratios, bound);
    Ok(())
}

/// CPU of the server for one connection, with nothing beside it.
fn alone(stage: &mut Stage<'_>, process: &Process, port: u16) -> Result<f64, Failure> {
    stage.keep_alive()?;
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let before = process.sample()?;
        let coming = scope.spawn(|| come_and_go(port, &Over(&over, stage.stop)));
        std::thread::sleep(Duration::from_secs_f64(stage.args.seconds));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        let crashed = |_| Err(run_failure("the connecting thread crashed"));
        let rate = coming.join().unwrap_or_else(crashed)?;
        let used = process.sample()?.since(&before);
        stage.go_on()?;
        Ok(used.cpu_ns as f64 / 1e3 / (rate * stage.args.seconds).max(1.0))
    })
}

/// Connects and closes at the fixed rate, as far as the machine allows; returns the rate reached.
fn come_and_go(port: u16, over: &Over<'_>) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut count = 0u32;
    while !over.is() {
        // The floor has this one alone. Ports at rest are used again after a second here.
        let to = address(0, port);
        TcpStream::connect(to).map_err(|e| {
            let cure = "it takes ports that are used again soon (sysctl net.ipv4.tcp_tw_reuse=2), \
                        or more of them (net.ipv4.ip_local_port_range)";
            run_failure(format!("connecting to {to}: {e}; {cure}"))
        })?;
        count += 1;
        let due = began + Duration::from_secs(1) * count / CLOSES_PER_SECOND;
        let early = due.saturating_duration_since(Instant::now());
        // Sleeps of some length: a short one takes longer than it says.
        if early > Duration::from_millis(1) {
            std::thread::sleep(early);
        }
    }
    Ok(f64::from(count) / began.elapsed().as_secs_f64())
}

//! A living fleet from its first registration to its report: who sits on which thread, what
//! happens when, and what came of it.

use std::fmt::Write as _;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::chance::Chance;
use crate::failure::{Failure, run_failure};
use crate::fill::{self, FillReport, Registered};
use crate::host::unix_ms;
use crate::life::admin::{Admin, Kind};
use crate::life::broker::Broker;
use crate::life::class::Setting;
use crate::life::client::Client;
use crate::life::desk::Desk;
use crate::life::driver::{Driver, Ended, Gap, Seat};
use crate::life::hostile::Hostile;
use crate::life::line::Line;
use crate::life::passer::Passer;
use crate::life::probe::Probe;
use crate::life::role::Role;
use crate::life::verify::Verifier;
use crate::life::wording::Wording;
use crate::life::world::World;
use crate::limits;
use crate::live::Onlooker;
use crate::measure::{Errors, Measured, Window, histogram, nanos};
use crate::preflight;
use crate::priority;
use crate::record::{Run, Times};
use crate::run::Target;
use crate::sources::{self, Ending, Sources};
use crate::stop::Stop;
use crate::tape::{Collector, Tally, Tape, Timing};
use crate::watch::{Answered, Found, Intent, Watch, summary};

const WORDINGS: u64 = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often it is looked whether the restart command has ended, and for how long after the run.
const RESTART_LOOK: Duration = Duration::from_millis(20);
const RESTART_GRACE: Duration = Duration::from_secs(2);
/// Under this name are the connections made before the run; those made in it are `connect`.
pub const FIRST_CONNECT: &str = "first connect";
const MAKE_EVERY: Wording = Wording::Java5;

/// How the generator runs a fleet.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Course {
    /// The measured window.
    pub seconds: f64,
    /// Before it; not measured.
    pub warmup_seconds: f64,
    /// After it; not measured.
    pub cooldown_seconds: f64,
    /// Threads for clients; brokers and such have one of their own.
    pub threads: u32,
    /// The CPUs of the threads, one each, again from the first when there are too few.
    pub pin: Vec<usize>,
    /// Whether clients have their CPUs the moment they want them, if the system allows it.
    pub at_once: bool,
    /// The generator's lateness p99.9 above which the run says nothing.
    pub lateness_bound_us: u64,
    /// Where connections come from.
    pub sources: Sources,
    /// How they are ended.
    pub ending: Ending,
    /// Connections made per second before the run, at most.
    pub connect_rate: Option<f64>,
    /// Restarts the server: this command is run so many seconds into the window.
    pub restart: Option<(f64, String)>,
}

/// What came of it.
pub struct Story {
    /// As of any run.
    pub run: Run,
    /// What filling took.
    pub fill: FillReport,
    /// Times with lost connections.
    pub gaps: Vec<Gap>,
    /// What the restart command failed with.
    pub failed: Option<Failure>,
}

impl Story {
    /// What happened besides answers and times.
    pub fn words(&self) -> String {
        let mut out = String::new();
        for (what, count) in &self.run.totals.counts {
            let _ = writeln!(out, "  {count:>9} {what}");
        }
        for gap in &self.gaps {
            let seconds = (gap.to_ns - gap.from_ns) as f64 / 1e9;
            let from = gap.from_ns as f64 / 1e9;
            let end = match gap.missing {
                0 => format!("all were back after {seconds:.2} s"),
                missing => format!("{missing} were still missing at the end, {seconds:.2} s later"),
            };
            let lost = gap.connections;
            let _ = writeln!(out, "  {lost:>9} connections lost from {from:.2} s on; {end}");
        }
        out
    }
}

/// Lets a fleet live on the target.
///
/// # Errors
/// When the fleet cannot be registered, or its connections cannot be made.
pub fn live(
    setting: &Arc<Setting>,
    course: &Course,
    target: &Target,
    stop: &Stop,
    onlooker: &mut dyn Onlooker,
) -> Result<Story, Failure> {
    let connections = setting.other_connections() + u64::from(setting.client_connections);
    let local = target.address.ip().is_loopback();
    preflight::check(connections, course.sources.count(connections), local)?;
    let world = Arc::new(World::new(setting.fleet.clone(), setting.zone_share > 0.0));
    let zone = |broker| world.zoned.then(|| World::zone_name(broker));
    let (fill, registered) = fill::register(target.address, &setting.fleet, zone, stop)?;
    let mut connecting = histogram();
    let (times, begin) = (&mut connecting, Instant::now());
    let mut making = Making { setting, course, target, stop, times, made: 0, nth: 0, begin };
    let mut threads = vec![making.supporters(registered, &world)?];
    threads.extend(making.clients()?);
    threads.extend(making.silent());
    threads.retain(|seats| !seats.is_empty());
    let made = Made { threads, world, connecting };
    let (run, gaps, failed) = perform(setting, course, target, stop, made, onlooker)?;
    Ok(Story { run, fill, gaps, failed })
}

struct Made {
    threads: Vec<Vec<Seat>>,
    world: Arc<World>,
    connecting: Histogram<u64>,
}

struct Making<'a> {
    setting: &'a Setting,
    course: &'a Course,
    target: &'a Target,
    stop: &'a Stop,
    times: &'a mut Histogram<u64>,
    /// Numbers given out.
    made: u32,
    /// Connections made, and since when.
    nth: u32,
    begin: Instant,
}

impl Making<'_> {
    /// Brokers and those who look at the whole fleet: their large frames take time that would make
    /// clients late.
    fn supporters(
        &mut self,
        registered: Vec<Registered>,
        world: &World,
    ) -> Result<Vec<Seat>, Failure> {
        let mut seats = Vec::new();
        for (number, Registered { socket, data_version }) in (0..).zip(registered) {
            let broker = Broker::new(number, data_version, world, self.setting);
            let seat = self.seat(Role::Broker(broker), MAKE_EVERY, None);
            seats.push(Seat { socket: Some(socket), ..seat });
        }
        for _ in 0..self.setting.probes {
            let socket = self.connect()?;
            seats.push(self.seat(Role::Probe(Probe::default()), MAKE_EVERY, Some(socket)));
        }
        let exporters = (0..self.setting.exporters).map(|number| (Kind::Exporter, number));
        let dashboards = (0..self.setting.dashboards).map(|number| (Kind::Dashboard, number));
        for (kind, number) in exporters.chain(dashboards) {
            let socket = self.connect()?;
            let admin = Role::Admin(Admin::new(kind, number, self.setting));
            seats.push(self.seat(admin, MAKE_EVERY, Some(socket)));
        }
        Ok(seats)
    }

    fn clients(&mut self) -> Result<Vec<Vec<Seat>>, Failure> {
        let mut threads: Vec<Vec<Seat>> = (0..self.course.threads).map(|_| Vec::new()).collect();
        let (copies, mut left) = (self.setting.copies(), self.setting.clients);
        for number in 0..self.setting.client_connections {
            let of_this = copies.min(left);
            left -= of_this;
            if of_this == 0 {
                break;
            }
            let socket = self.connect()?;
            let mut chance = Chance::new(self.setting.seed, WORDINGS, number.into());
            let wording = self.setting.wordings.at(chance.fraction());
            let client = Role::Client(Client::new(number, of_this, self.setting));
            let seat = self.seat(client, wording, Some(socket));
            threads[(number % self.course.threads) as usize].push(seat);
        }
        Ok(threads)
    }

    /// Those who say nothing, or nothing good: on a thread of their own as well.
    fn silent(&mut self) -> Vec<Vec<Seat>> {
        let mut seats = Vec::new();
        for number in 0..self.setting.churn_places() {
            let passer = Role::Passer(Passer::churn(number, self.setting));
            seats.push(self.seat(passer, MAKE_EVERY, None));
        }
        for number in 0..self.setting.idle {
            let passer = Role::Passer(Passer::idle(number, self.setting));
            seats.push(self.seat(passer, MAKE_EVERY, None));
        }
        seats.extend(self.hostile());
        vec![seats]
    }

    fn hostile(&mut self) -> Vec<Seat> {
        let modes = self.setting.hostile.iter();
        let each = modes.flat_map(|(mode, count)| (0..*count).map(|_| *mode));
        let each: Vec<_> = (0..).zip(each).collect();
        each.into_iter()
            .map(|(number, mode)| {
                let role = Role::Hostile(Hostile::new(mode, number, self.setting.seed));
                let seat = self.seat(role, MAKE_EVERY, None);
                Seat { line: Hostile::line(mode, number), ..seat }
            })
            .collect()
    }

    fn seat(&mut self, role: Role, wording: Wording, socket: Option<TcpStream>) -> Seat {
        // A made connection has its number already.
        let number = if socket.is_some() { self.made - 1 } else { self.next_number() };
        let source = self.course.sources.of(number);
        let line = Line::new(wording, number);
        Seat { role, line, socket, source, ending: self.course.ending }
    }

    fn next_number(&mut self) -> u32 {
        self.made += 1;
        self.made - 1
    }

    fn connect(&mut self) -> Result<TcpStream, Failure> {
        if self.stop.asked() {
            return Err(run_failure("stopped while connecting"));
        }
        let number = self.next_number();
        let planned_s = self.course.connect_rate.map_or(0.0, |rate| f64::from(self.nth) / rate);
        let planned = self.begin + Duration::from_secs_f64(planned_s);
        std::thread::sleep(planned.saturating_duration_since(Instant::now()));
        self.nth += 1;
        let (address, source) = (self.target.address, self.course.sources.of(number));
        let start = Instant::now();
        let socket = sources::connect(address, source, self.course.ending, CONNECT_TIMEOUT)
            .map_err(|e| run_failure(format!("connection {} to {address}: {e}", number + 1)))?;
        self.times.saturating_record(nanos(start.elapsed()));
        Ok(socket)
    }
}

impl Course {
    fn window(&self) -> Window {
        let begin_ns = nanos(Duration::from_secs_f64(self.warmup_seconds));
        Window { begin_ns, end_ns: begin_ns + nanos(Duration::from_secs_f64(self.seconds)) }
    }

    fn cool_down_ns(&self) -> u64 {
        nanos(Duration::from_secs_f64(self.cooldown_seconds))
    }
}

fn perform(
    setting: &Arc<Setting>,
    course: &Course,
    target: &Target,
    stop: &Stop,
    made: Made,
    onlooker: &mut dyn Onlooker,
) -> Result<(Run, Vec<Gap>, Option<Failure>), Failure> {
    let window = course.window();
    let mut collector = Collector::new(window);
    let answered: Vec<Answered> = made.threads.iter().map(|_| Answered::default()).collect();
    // Before the first moment that counts: they take the kernel a while.
    let tapes: Vec<Tape> =
        made.threads.iter().map(|seats| collector.tape(timings(seats))).collect();
    let (origin, started_unix_ms) = (Instant::now() + Duration::from_millis(5), unix_ms());
    let restart = Restart::begin(course, origin + Duration::from_nanos(window.begin_ns));
    let (found, gaps) = std::thread::scope(|scope| {
        let (alive, all_done) = mpsc::channel::<()>();
        let (mut threads, mut gates) = (Vec::new(), Vec::new());
        for (index, (seats, tape)) in made.threads.into_iter().zip(tapes).enumerate() {
            let alive = alive.clone();
            let (gate, looked) = mpsc::channel::<()>();
            gates.push(gate);
            // Those with large frames do not sleep between them, and nobody times them so exactly.
            let at_once = course.at_once && are_clients(&seats);
            let driver = Driver {
                origin,
                target: target.address,
                end_ns: window.end_ns + course.cool_down_ns(),
                desk: Desk::new(&made.world, setting, window, Measured::onto(tape)),
                answered: &answered[index],
                stop,
            };
            let body = move || {
                limits::pin_to_one_of(&course.pin, index)?;
                // Where it is refused, the lateness shows what that costs.
                let _ = at_once && priority::at_once();
                let ended = driver.run(seats);
                drop(alive); // tells the sampler that there is nothing more to wait for
                // Not before the last look: an ended thread has no CPU time to look at. And not
                // before all are done: with its connection a broker would leave.
                let _ = looked.recv();
                // The tape hands over its last second when it is dropped with this.
                ended.map(Outcome::of)
            };
            let thread = std::thread::Builder::new().name("generator".into());
            let failed = |e| run_failure(format!("cannot start a thread: {e}"));
            threads.push(thread.spawn_scoped(scope, body).map_err(failed)?);
        }
        drop(alive);
        // A restart replaces the process: what it used cannot be told across that.
        let server = target.process.as_ref().filter(|_| !setting.expect_outage);
        let label = target.label.as_str();
        let (answered, samples) = (answered.as_slice(), Vec::new());
        let mut watch = Watch { label, server, origin, window, answered, stop, samples, onlooker };
        let looks = watch.run(&all_done, &mut collector);
        // An error: nobody ever sends, and the last to hold the other end is done.
        let _ = all_done.recv();
        drop(gates);
        let all = joined(threads)?;
        let (counts, errors, samples) = (all.extra.by_kind(), all.errors, watch.samples);
        let found = Found { started_unix_ms, counts, errors, looks: looks?, samples };
        Ok::<_, Failure>((found, all.gaps))
    })?;
    let failed = restart.and_then(|restart| restart.end().err());
    let intent = intent(setting, course, target, stop);
    let mut run = summary(&intent, found, collector);
    run.totals.times.insert(FIRST_CONNECT.to_owned(), Times::of(&made.connecting));
    Ok((run, gaps, failed))
}

/// What a thread is going to time. Room for one timing takes a megabyte, which counts when there
/// are many threads of clients.
fn timings(seats: &[Seat]) -> &'static [Timing] {
    if are_clients(seats) { &Timing::OF_QUERIES } else { &Timing::ALL }
}

fn are_clients(seats: &[Seat]) -> bool {
    seats.iter().all(|seat| matches!(seat.role, Role::Client(_)))
}

type Threads<'scope> = Vec<std::thread::ScopedJoinHandle<'scope, Result<Outcome, Failure>>>;

fn joined(threads: Threads<'_>) -> Result<Outcome, Failure> {
    let mut all = Outcome::default();
    for thread in threads {
        let crashed = |_| Err(run_failure("a generator thread crashed"));
        all.merge(thread.join().unwrap_or_else(crashed)?);
    }
    Ok(all)
}

fn intent<'a>(setting: &Setting, course: &Course, target: &'a Target, stop: &Stop) -> Intent<'a> {
    Intent {
        label: &target.label,
        rate: Some(setting.polls_per_second()),
        window: course.window(),
        cool_down_ns: course.cool_down_ns(),
        lateness_bound_us: course.lateness_bound_us,
        interrupted: stop.asked(),
    }
}

/// What a thread ended with.
#[derive(Default)]
struct Outcome {
    errors: Errors,
    extra: Tally,
    gaps: Vec<Gap>,
}

impl Outcome {
    fn of(ended: Ended) -> Self {
        let Ended { desk, gaps, .. } = ended;
        let Desk { mut extra, measured, verifier, .. } = desk;
        extra.add("routes compared in full", verifier.compared);
        Self { errors: measured.errors, extra, gaps }
    }

    fn merge(&mut self, other: Outcome) {
        self.errors.merge(other.errors);
        self.extra.merge(&other.extra);
        self.gaps.extend(other.gaps);
    }
}

impl Desk {
    pub(super) fn new(
        world: &Arc<World>,
        setting: &Arc<Setting>,
        window: Window,
        measured: Measured,
    ) -> Self {
        Self {
            world: world.clone(),
            setting: setting.clone(),
            window,
            verifier: Verifier::default(),
            measured,
            extra: Tally::default(),
            answers: 0,
            outage: false,
            kicks: std::collections::VecDeque::new(),
            timers: std::collections::BinaryHeap::new(),
            deadlines: std::collections::VecDeque::new(),
        }
    }
}

/// Runs the command that restarts the server, at its time, unless the run is over before.
struct Restart {
    thread: std::thread::JoinHandle<Result<(), Failure>>,
    /// Dropping it tells that the run is over.
    over: mpsc::Sender<()>,
}

impl Restart {
    fn begin(course: &Course, window_begin: Instant) -> Option<Self> {
        let (at, command) = course.restart.clone()?;
        let at = window_begin + Duration::from_secs_f64(at);
        let (over, run_over) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let left = at.saturating_duration_since(Instant::now());
            match run_over.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => carry_out(&command, &run_over),
                _ => Ok(()),
            }
        });
        Some(Self { thread, over })
    }

    fn end(self) -> Result<(), Failure> {
        drop(self.over);
        self.thread.join().unwrap_or_else(|_| Err(run_failure("the restart crashed")))
    }
}

/// Runs a command to its end, which must come soon after that of the run.
fn carry_out(command: &str, run_over: &mpsc::Receiver<()>) -> Result<(), Failure> {
    let failed = |e: std::io::Error| run_failure(format!("'{command}': {e}"));
    // A group of its own: it is ended as a whole.
    let mut child =
        Command::new("sh").args(["-c", command]).process_group(0).spawn().map_err(failed)?;
    let mut over_since: Option<Instant> = None;
    loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(run_failure(format!("'{command}': {status}"))),
            None => {}
        }
        match over_since {
            None => match run_over.recv_timeout(RESTART_LOOK) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => over_since = Some(Instant::now()),
            },
            Some(since) if since.elapsed() < RESTART_GRACE => std::thread::sleep(RESTART_LOOK),
            Some(_) => break,
        }
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Fails only when all of it has ended by now.
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait().map_err(failed)?;
    Err(run_failure(format!(
        "'{command}' was still running after the run and was killed: let the restart command \
         return, with what it starts in the background (setsid PROGRAM &)"
    )))
}

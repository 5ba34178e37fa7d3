//! One thread of a living fleet: an epoll loop that wakes roles at their times and moves bytes
//! between sockets and lines.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;

use crate::chance::Chance;
use crate::connection::Broken;
use crate::engine::wait;
use crate::failure::{Failure, run_failure};
use crate::life::desk::{Desk, Timer, Turn, Wish};
use crate::life::line::Line;
use crate::life::role::Role;
use crate::measure::{nanos, whole_ns};
use crate::sources::{self, Ending};
use crate::stop::Stop;
use crate::tape::Timing;
use crate::watch::Answered;
use crate::wire::first_frame;

const READ_BYTES: usize = 256 << 10;
/// How often the stop flag is looked at when nothing happens.
const LOOK: Duration = Duration::from_millis(50);
/// Sleeping stops this long before the next wake-up is due: waking takes tens of microseconds,
/// which would count as the generator's lateness.
const POLL_BEFORE_DUE: Duration = Duration::from_micros(100);
/// Wake-ups between two looks at the sockets.
const DUE_AT_ONCE: usize = 64;
/// After a failed attempt to connect the next one comes after this and a random time.
const RETRY_NS: u64 = 200_000_000;
const RETRIES: u64 = 49;
/// After an announced loss, and twice the time to come back, brokers may be missing for so long.
const DISTURBED_NS: f64 = 1e9;

/// A connection, before the run begins.
pub struct Seat {
    /// Who it is.
    pub role: Role,
    /// Its bytes.
    pub line: Line,
    /// Its socket, if it is connected already.
    pub socket: Option<TcpStream>,
    /// Where it connects from.
    pub source: Option<IpAddr>,
    /// How it ends connections.
    pub ending: Ending,
}

enum Socket {
    Closed,
    /// Since then.
    Connecting(TcpStream, u64),
    Open(TcpStream),
}

struct Slot {
    role: Role,
    line: Line,
    socket: Socket,
    source: Option<IpAddr>,
    ending: Ending,
    /// What epoll was told.
    events: epoll::EventFlags,
    /// It lost its connection without wishing to, and is not back.
    missing: bool,
    /// It had a connection before: how long the next one takes is of interest.
    comes_back: bool,
    /// Sockets it had so far: an event may be meant for an earlier one.
    generation: u32,
}

/// What a driver runs with.
pub struct Driver<'a> {
    /// The moment all times count from.
    pub origin: Instant,
    /// The server.
    pub target: SocketAddr,
    /// When it all ends.
    pub end_ns: u64,
    /// What the roles share.
    pub desk: Desk,
    /// Tells how many answers there were so far.
    pub answered: &'a Answered,
    /// Ends the run early.
    pub stop: &'a Stop,
}

/// A time in which connections were lost without wish, until all were back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first was lost.
    pub from_ns: u64,
    /// The last was back, or the run was over.
    pub to_ns: u64,
    /// How many were lost.
    pub connections: u64,
    /// How many were not back when the run was over.
    pub missing: u64,
}

/// What a thread ended with. Dropping it closes its connections.
pub struct Ended {
    /// What it recorded.
    pub desk: Desk,
    /// Times with lost connections.
    pub gaps: Vec<Gap>,
    _open: Vec<Slot>,
}

struct Running<'a> {
    driver: Driver<'a>,
    epoll: OwnedFd,
    slots: Vec<Slot>,
    probes: Vec<u32>,
    buffer: Vec<u8>,
    chance: Chance,
    /// Attempts to connect, in order.
    connecting: VecDeque<(u64, u32, u32)>,
    /// Lost and not back.
    missing: u64,
    gap: Option<Gap>,
    gaps: Vec<Gap>,
}

impl Driver<'_> {
    /// Drives these connections until the end, then waits for the last answers. Returns the
    /// sockets too: as long as another thread still asks, no broker may leave.
    ///
    /// # Errors
    /// When epoll itself fails. What happens on connections is counted, not returned.
    pub fn run(self, seats: Vec<Seat>) -> Result<Ended, Failure> {
        let failed = |e: Errno| run_failure(format!("epoll: {e}"));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let chance = Chance::new(self.desk.setting.seed, RETRIES, 0);
        let mut running = Running {
            driver: self,
            epoll,
            slots: Vec::with_capacity(seats.len()),
            probes: Vec::new(),
            buffer: vec![0; READ_BYTES],
            chance,
            connecting: VecDeque::new(),
            missing: 0,
            gap: None,
            gaps: Vec::new(),
        };
        for seat in seats {
            running.seat(seat).map_err(failed)?;
        }
        running.run().map_err(failed)?;
        running.end_gap();
        let Running { driver, gaps, slots, .. } = running;
        Ok(Ended { desk: driver.desk, gaps, _open: slots })
    }
}

impl Running<'_> {
    fn seat(&mut self, seat: Seat) -> Result<(), Errno> {
        let place = u32::try_from(self.slots.len()).expect("fewer connections than 2^32");
        let Seat { role, line, socket, source, ending } = seat;
        if matches!(role, Role::Probe(_)) {
            self.probes.push(place);
        }
        let events = events_of(&line, false);
        let socket = match socket {
            Some(socket) => {
                epoll::add(&self.epoll, &socket, key(place, 0), events)?;
                Socket::Open(socket)
            }
            None => Socket::Closed,
        };
        self.slots.push(Slot {
            role,
            line,
            socket,
            source,
            ending,
            events,
            missing: false,
            comes_back: false,
            generation: 0,
        });
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        nanos(self.driver.origin.elapsed())
    }

    fn run(&mut self) -> Result<(), Errno> {
        std::thread::sleep(self.driver.origin.saturating_duration_since(Instant::now()));
        for place in 0..self.slots.len() {
            self.tell(place, |role, turn| role.start(turn));
        }
        loop {
            let now = self.now_ns();
            if now >= self.driver.end_ns || self.driver.stop.asked() {
                break;
            }
            let due = self.driver.desk.timers.peek().map(|Reverse((at, ..))| *at);
            let until = due.map_or(u64::MAX, |due| due.saturating_sub(nanos(POLL_BEFORE_DUE)));
            self.turn(until.min(self.driver.end_ns).min(now + nanos(LOOK)).saturating_sub(now))?;
            self.wake_due();
        }
        self.drain()
    }

    /// Takes the answers that are still on their way.
    fn drain(&mut self) -> Result<(), Errno> {
        let until = self.now_ns() + self.driver.desk.setting.timeout_ns();
        self.driver.desk.timers.clear();
        while self.slots.iter().any(|s| s.role.expects_to_stay() && s.line.waiting() > 0) {
            let now = self.now_ns();
            if now >= until || self.driver.stop.asked() {
                break;
            }
            self.turn(nanos(LOOK).min(until - now))?;
            self.driver.desk.timers.clear();
        }
        Ok(())
    }

    fn turn(&mut self, wait_ns: u64) -> Result<(), Errno> {
        let events = wait(&self.epoll, wait_ns)?;
        let now_ns = self.now_ns();
        self.driver.desk.measured.tape.at(now_ns);
        for event in &events {
            let [place, generation] = unkey(event.data.u64());
            let place = place as usize;
            if self.slots[place].generation == generation {
                self.ready(place, event.flags);
            }
        }
        self.give_up_old(now_ns);
        self.kick_probes();
        self.driver.answered.set(self.driver.desk.answers);
        Ok(())
    }

    fn wake_due(&mut self) {
        for _ in 0..DUE_AT_ONCE {
            let now = self.now_ns();
            let Some(&Reverse((at_ns, place, timer))) = self.driver.desk.timers.peek() else {
                return;
            };
            if at_ns > now {
                return;
            }
            self.driver.desk.timers.pop();
            self.tell(place as usize, |role, turn| role.due(timer, at_ns, turn));
        }
    }

    /// Calls a role and does what it wishes.
    fn tell(&mut self, place: usize, call: impl FnOnce(&mut Role, &mut Turn<'_>)) {
        let now_ns = self.now_ns();
        let Slot { role, line, socket, .. } = &mut self.slots[place];
        let mut turn = Turn {
            now_ns,
            place: u32::try_from(place).expect("fewer connections than 2^32"),
            open: matches!(socket, Socket::Open(_)),
            line,
            desk: &mut self.driver.desk,
            wish: Wish::Stay,
        };
        call(role, &mut turn);
        let wish = turn.wish;
        self.flush(place);
        match wish {
            Wish::Stay => {}
            Wish::Open => self.open(place),
            Wish::Close(again) => self.close(place, again),
        }
    }

    fn open(&mut self, place: usize) {
        let now_ns = self.now_ns();
        let slot = &mut self.slots[place];
        if !matches!(slot.socket, Socket::Closed) {
            return;
        }
        slot.generation += 1;
        let at = u32::try_from(place).expect("fewer connections than 2^32");
        let begun =
            sources::begin(self.driver.target, slot.source, slot.ending).and_then(|socket| {
                slot.events = epoll::EventFlags::OUT;
                epoll::add(&self.epoll, &socket, key(at, slot.generation), slot.events)?;
                Ok(socket)
            });
        match begun {
            Ok(socket) => {
                slot.socket = Socket::Connecting(socket, now_ns);
                self.connecting.push_back((now_ns, at, slot.generation));
            }
            Err(e) => self.not_opened(place, &e),
        }
    }

    fn not_opened(&mut self, place: usize, e: &io::Error) {
        let now_ns = self.now_ns();
        let retry_ns = RETRY_NS + whole_ns(self.chance.fraction() * RETRY_NS as f64);
        let slot = &mut self.slots[place];
        slot.socket = Socket::Closed;
        let hostile = matches!(slot.role, Role::Hostile(_));
        let broken = Broken::of("connecting", e);
        if hostile {
            self.driver.desk.count(now_ns, "hostile connections refused");
        } else {
            self.driver.desk.error(now_ns, broken.kind, || broken.what);
        }
        if matches!(self.slots[place].role, Role::Passer(_)) {
            self.tell(place, |role, turn| role.lost(false, turn));
        } else {
            let place = u32::try_from(place).expect("fewer connections than 2^32");
            self.driver.desk.timers.push(Reverse((now_ns + retry_ns, place, Timer::Open)));
        }
    }

    fn ready(&mut self, place: usize, flags: epoll::EventFlags) {
        if matches!(self.slots[place].socket, Socket::Connecting(..)) {
            return self.connected(place);
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.flush(place);
        }
        let reads = self.slots[place].line.manners.reads;
        let gone = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if reads && flags.intersects(epoll::EventFlags::IN | gone) {
            self.read(place);
        } else if flags.intersects(gone) {
            self.lose(place, &Broken::new("reset", "the connection is gone"));
        }
    }

    fn connected(&mut self, place: usize) {
        let now_ns = self.now_ns();
        let slot = &mut self.slots[place];
        let Socket::Connecting(socket, since_ns) =
            std::mem::replace(&mut slot.socket, Socket::Closed)
        else {
            return;
        };
        if let Err(e) = sources::finish(&socket) {
            return self.not_opened(place, &e);
        }
        slot.socket = Socket::Open(socket);
        if std::mem::take(&mut slot.comes_back) {
            self.driver.desk.record(Timing::Connect, since_ns, now_ns);
        }
        if std::mem::take(&mut slot.missing) {
            self.missing -= 1;
            if self.missing == 0 {
                self.end_gap();
            }
        }
        self.tell(place, Role::opened);
        self.listen(place);
    }

    fn read(&mut self, place: usize) {
        let Socket::Open(socket) = &mut self.slots[place].socket else { return };
        let count = match socket.read(&mut self.buffer) {
            Ok(0) => return self.peer_closed(place),
            Ok(count) => count,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Err(e) => return self.lose(place, &Broken::of("reading", &e)),
        };
        let mut bytes = std::mem::take(&mut self.slots[place].line.unread);
        bytes.extend_from_slice(&self.buffer[..count]);
        let generation = self.slots[place].generation;
        match self.take_frames(place, &bytes) {
            Ok(taken) => {
                bytes.drain(..taken);
                // An answer may have made the role close the connection.
                let slot = &mut self.slots[place];
                if slot.generation == generation && matches!(slot.socket, Socket::Open(_)) {
                    slot.line.unread = bytes;
                }
            }
            Err(broken) => self.lose(place, &broken),
        }
    }

    fn take_frames(&mut self, place: usize, bytes: &[u8]) -> Result<usize, Broken> {
        let (mut taken, generation) = (0, self.slots[place].generation);
        while let Some(frame) = first_frame(&bytes[taken..])
            .map_err(|what| Broken::new("malformed", what.to_string()))?
        {
            taken += frame.bytes;
            let slot = &mut self.slots[place];
            if slot.generation != generation || !matches!(slot.socket, Socket::Open(_)) {
                return Ok(bytes.len());
            }
            if !frame.is_answer {
                continue; // a notice to a broker, which nobody answers
            }
            let Some(pending) = slot.line.take(frame.opaque) else {
                let what = format!("an answer to nothing asked, opaque {}", frame.opaque);
                return Err(Broken::new("opaque", what));
            };
            self.tell(place, |role, turn| role.answered(&pending, &frame, turn));
        }
        Ok(taken)
    }

    fn peer_closed(&mut self, place: usize) {
        if self.slots[place].line.manners.closes {
            return self.lose(place, &Broken::new("closed", "the server closed the connection"));
        }
        // Stays half open: not told of it again, and not closed.
        self.slots[place].line.manners.reads = false;
        self.listen(place);
    }

    /// Tells epoll what is waited for.
    fn listen(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        let Socket::Open(socket) = &slot.socket else { return };
        let events = events_of(&slot.line, !slot.line.unsent().is_empty());
        if events == slot.events {
            return;
        }
        slot.events = events;
        let at = u32::try_from(place).expect("fewer connections than 2^32");
        if let Err(e) = epoll::modify(&self.epoll, socket, key(at, slot.generation), events) {
            self.lose(place, &Broken::of("epoll", &e.into()));
        }
    }

    fn flush(&mut self, place: usize) {
        let Slot { line, socket, .. } = &mut self.slots[place];
        let Socket::Open(socket) = socket else { return };
        while !line.unsent().is_empty() {
            match socket.write(line.unsent()) {
                Ok(count) => line.wrote(count),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return self.lose(place, &Broken::of("writing", &e)),
            }
        }
        self.listen(place);
    }

    /// Closes a connection as its role wishes.
    fn close(&mut self, place: usize, again_ns: Option<u64>) {
        let slot = &mut self.slots[place];
        slot.socket = Socket::Closed;
        slot.line.reset();
        slot.comes_back = again_ns.is_some() && slot.role.expects_to_stay();
        self.tell(place, |role, turn| role.lost(true, turn));
        if let Some(at_ns) = again_ns {
            let place = u32::try_from(place).expect("fewer connections than 2^32");
            self.driver.desk.timers.push(Reverse((at_ns, place, Timer::Open)));
        }
    }

    /// A connection broke. What was on the way is lost with it: each is an error of its own, with
    /// the time-out as its time.
    fn lose(&mut self, place: usize, broken: &Broken) {
        let now_ns = self.now_ns();
        let slot = &mut self.slots[place];
        if matches!(slot.socket, Socket::Closed) {
            return;
        }
        slot.socket = Socket::Closed;
        let waiting = slot.line.reset();
        if slot.role.expects_to_stay() {
            (slot.missing, slot.comes_back) = (true, true);
            self.missing += 1;
            let gap = Gap { from_ns: now_ns, to_ns: now_ns, connections: 0, missing: 0 };
            self.gap.get_or_insert(gap).connections += 1;
            let desk = &mut self.driver.desk;
            desk.outage = desk.setting.expect_outage;
            if desk.outage {
                // Brokers may be gone before their thread knows.
                desk.world
                    .disturb(now_ns + whole_ns(2.0 * desk.setting.reconnect_ns() + DISTURBED_NS));
            }
            let lost = waiting.iter().filter(|pending| !pending.given_up).count();
            let what = || format!("{}; {lost} requests were on the way", broken.what);
            desk.error(now_ns, broken.kind, what);
            let (outage, timeout_ns) = (desk.outage, desk.setting.timeout_ns());
            for pending in waiting.iter().filter(|pending| !pending.given_up) {
                desk.error(now_ns, "lost", || format!("{:?} with its connection", pending.ask));
                if !outage {
                    desk.times(pending, pending.intended_ns + timeout_ns);
                }
            }
            let back_ns = whole_ns(self.chance.fraction() * desk.setting.reconnect_ns());
            let place = u32::try_from(place).expect("fewer connections than 2^32");
            desk.timers.push(Reverse((now_ns + back_ns, place, Timer::Open)));
        }
        self.tell(place, |role, turn| role.lost(false, turn));
    }

    fn end_gap(&mut self) {
        let (now_ns, missing) = (self.now_ns(), self.missing);
        self.driver.desk.outage = false;
        self.gaps.extend(self.gap.take().map(|gap| Gap { to_ns: now_ns, missing, ..gap }));
    }

    /// Records what waits for too long, and attempts to connect that lead nowhere.
    fn give_up_old(&mut self, now_ns: u64) {
        let limit_ns = self.driver.desk.setting.timeout_ns();
        let is_old = |sent_ns: u64| now_ns.saturating_sub(sent_ns) >= limit_ns;
        while let Some(&(sent_ns, place, opaque)) = self.driver.desk.deadlines.front() {
            if !is_old(sent_ns) {
                break;
            }
            self.driver.desk.deadlines.pop_front();
            let place = place as usize;
            let slot = &mut self.slots[place];
            let Some(pending) = slot.line.give_up(opaque) else { continue };
            let desk = &mut self.driver.desk;
            let what = || format!("no answer for {} ms: {:?}", limit_ns / 1_000_000, pending.ask);
            desk.error(now_ns, "time-out", what);
            if !desk.outage {
                desk.times(pending, now_ns);
            }
            self.tell(place, Role::given_up);
            if self.slots[place].line.is_silent() {
                self.lose(place, &Broken::new("silent", "many requests without an answer"));
            }
        }
        while let Some(&(since_ns, place, generation)) = self.connecting.front() {
            if !is_old(since_ns) {
                break;
            }
            self.connecting.pop_front();
            let slot = &mut self.slots[place as usize];
            let same = slot.generation == generation;
            if same && matches!(slot.socket, Socket::Connecting(..)) {
                self.not_opened(place as usize, &ErrorKind::TimedOut.into());
            }
        }
    }

    fn kick_probes(&mut self) {
        while let Some(kick) = self.driver.desk.kicks.pop_front() {
            for index in 0..self.probes.len() {
                let place = self.probes[index] as usize;
                self.tell(place, |role, turn| role.kicked(kick, turn));
            }
        }
    }
}

fn events_of(line: &Line, blocked: bool) -> epoll::EventFlags {
    let mut events = epoll::EventFlags::empty();
    events.set(epoll::EventFlags::IN, line.manners.reads);
    events.set(epoll::EventFlags::OUT, blocked);
    events
}

fn key(place: u32, generation: u32) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(place) << 32 | u64::from(generation))
}

fn unkey(data: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = data.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

//! One generator thread: an epoll loop that moves bytes between sockets and [`Connection`]s.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::check::Checker;
use crate::connection::{Broken, Connection, Recorder};
use crate::failure::{Failure, run_failure};
use crate::measure::{Counts, Errors, Measured, Window, nanos};
use crate::pace::Schedule;
use crate::stop::Stop;
use crate::tape::{Tape, Timing};
use crate::watch::Answered;

const READ_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 1024;
/// How often time-outs and the stop flag are looked at.
const SCAN: Duration = Duration::from_millis(50);
/// Connections looked at for time-outs between two looks at the schedule.
const SCAN_AT_ONCE: usize = 256;
/// An open loop stops sleeping this long before the next query is due, and polls instead: waking
/// from a sleep takes tens of microseconds, which would count as the generator's lateness.
const POLL_BEFORE_DUE: Duration = Duration::from_micros(100);
/// A wait that took less found its events ready: they may be as old as the wait before.
const SLEPT_MIN_NS: u64 = 3_000;

/// What a generator thread runs with.
pub struct Engine<'a> {
    /// The moment all times count from; the same for all threads.
    pub origin: Instant,
    /// The part that counts.
    pub window: Window,
    /// How long sending goes on after it.
    pub cool_down_ns: u64,
    /// How long an answer may take.
    pub timeout: Duration,
    /// `None`: closed loop.
    pub schedule: Option<Schedule>,
    /// Judges answers.
    pub checker: Checker,
    /// Tells how many answers there were so far.
    pub answered: &'a Answered,
    /// Ends the run early.
    pub stop: &'a Stop,
}

struct Slot {
    /// `None` after it broke.
    socket: Option<TcpStream>,
    connection: Connection,
    awaits_writable: bool,
    /// When the connection last got room, as early as it may have been.
    room_since_ns: u64,
    /// Whether the schedule knows that it has room. Open loop only.
    scheduled: bool,
}

struct Running<'a> {
    engine: Engine<'a>,
    epoll: OwnedFd,
    slots: Vec<Slot>,
    open_sockets: usize,
    measured: Measured,
    answers: u64,
    buffer: Vec<u8>,
    /// The earliest moment at which the events of this turn can have happened.
    ready_since_ns: u64,
    last_woke_ns: u64,
    /// The connections before this one were looked at for time-outs in this round.
    scanned: usize,
    /// When the next round begins.
    next_scan_ns: u64,
}

/// Waits for at most so long until a socket is ready. A signal ends the wait early, with nothing.
pub(crate) fn wait(epoll: &OwnedFd, wait_ns: u64) -> Result<Vec<epoll::Event>, Errno> {
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let timeout = Timespec {
        tv_sec: i64::try_from(wait_ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(wait_ns % 1_000_000_000).unwrap_or(0),
    };
    match epoll::wait(epoll, spare_capacity(&mut events), Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(events),
        Err(other) => Err(other),
    }
}

impl Engine<'_> {
    /// Drives the connections until the window ends and what was sent in it is answered or given
    /// up. The sockets are connected and non-blocking.
    ///
    /// # Errors
    /// When epoll itself fails. What happens on connections is counted, not returned.
    pub fn run(
        self,
        connections: Vec<(TcpStream, Connection)>,
        tape: Tape,
    ) -> Result<(Counts, Errors), Failure> {
        let failed = |e: Errno| run_failure(format!("epoll: {e}"));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let mut slots = Vec::with_capacity(connections.len());
        for (place, (socket, connection)) in connections.into_iter().enumerate() {
            let data = epoll::EventData::new_u64(place as u64);
            epoll::add(&epoll, &socket, data, epoll::EventFlags::IN).map_err(failed)?;
            slots.push(Slot {
                socket: Some(socket),
                connection,
                awaits_writable: false,
                room_since_ns: 0,
                scheduled: true,
            });
        }
        let mut running = Running {
            engine: self,
            epoll,
            open_sockets: slots.len(),
            slots,
            measured: Measured::onto(tape),
            answers: 0,
            buffer: vec![0; READ_BYTES],
            ready_since_ns: 0,
            last_woke_ns: 0,
            scanned: 0,
            next_scan_ns: 0,
        };
        running.run().map_err(failed)?;
        let Running { mut measured, engine, .. } = running;
        measured.counts.topics_compared = engine.checker.topics_compared();
        measured.counts.reworded = engine.checker.reworded();
        Ok((measured.counts, measured.errors))
    }
}

impl Running<'_> {
    fn now_ns(&self) -> u64 {
        nanos(self.engine.origin.elapsed())
    }

    fn run(&mut self) -> Result<(), Errno> {
        self.wait_for_origin();
        let end_ns = self.engine.window.end_ns + self.engine.cool_down_ns;
        if self.engine.schedule.is_none() {
            (0..self.slots.len()).for_each(|place| self.fill_up(place));
        }
        loop {
            let now = self.now_ns();
            if self.open_sockets == 0 || self.engine.stop.asked() {
                break;
            }
            // What was meant to be sent before the end is sent, when its connection is free.
            let left = self.engine.schedule.as_ref().map_or(0, Schedule::left);
            if now >= end_ns && (left == 0 || now >= end_ns + nanos(self.engine.timeout)) {
                break;
            }
            let end_ns = if now < end_ns { end_ns } else { u64::MAX };
            self.turn(now, end_ns.min(self.next_scan_ns.max(now + 1)), true)?;
            if self.now_ns() >= self.next_scan_ns {
                self.scan_some();
            }
        }
        self.count_unsent(end_ns);
        self.drain()
    }

    /// What could not be sent, because no answer made room or the connection was gone, is an error
    /// each, with the time-out as its time. Otherwise a slow server would be asked less.
    fn count_unsent(&mut self, end_ns: u64) {
        let Some(schedule) = self.engine.schedule.take() else { return };
        if !self.engine.stop.asked() {
            schedule.unsent().into_iter().for_each(|at_ns| self.note_unsent(at_ns, end_ns));
        }
    }

    fn note_unsent(&mut self, intended_ns: u64, now_ns: u64) {
        let counted = self.engine.window.holds(intended_ns);
        let waited_ns = now_ns.saturating_sub(intended_ns).max(nanos(self.engine.timeout));
        self.measured.tape.slice(counted).record(Timing::Response, waited_ns);
        self.measured.note(counted, "unsent", || "its connection was never free".into());
    }

    fn wait_for_origin(&self) {
        std::thread::sleep(self.engine.origin.saturating_duration_since(Instant::now()));
    }

    /// Takes the answers to what was sent in the window, without sending anything more: a server
    /// that stalls at the end must not get away with it.
    fn drain(&mut self) -> Result<(), Errno> {
        let until = self.now_ns() + nanos(self.engine.timeout);
        while self.slots.iter().any(|s| s.socket.is_some() && s.connection.waiting() > 0) {
            let now = self.now_ns();
            if now >= until || self.engine.stop.asked() {
                break;
            }
            self.turn(now, until.min(now + nanos(SCAN)), false)?;
        }
        if !self.engine.stop.asked() {
            self.give_up_old(0..self.slots.len(), false);
        }
        Ok(())
    }

    /// Waits for events, takes them, and sends what is due.
    fn turn(&mut self, now: u64, until_ns: u64, sending: bool) -> Result<(), Errno> {
        let due_ns = self.engine.schedule.as_ref().filter(|_| sending).and_then(Schedule::next_ns);
        let wait_ns = match due_ns {
            Some(due) => until_ns.min(due.saturating_sub(nanos(POLL_BEFORE_DUE))),
            None => until_ns,
        }
        .saturating_sub(now);
        let events = wait(&self.epoll, wait_ns)?;
        let woke = self.now_ns();
        let slept = woke - now > SLEPT_MIN_NS;
        self.ready_since_ns = if slept { woke } else { self.last_woke_ns };
        self.last_woke_ns = woke;
        self.measured.tape.at(woke);
        for event in &events {
            let place = usize::try_from(event.data.u64()).expect("we put a usize in");
            self.ready(place, event.flags, sending);
        }
        if sending {
            self.send_due();
        }
        self.engine.answered.set(self.answers);
        Ok(())
    }

    fn ready(&mut self, place: usize, flags: epoll::EventFlags, sending: bool) {
        if flags.contains(epoll::EventFlags::OUT) {
            self.flush(place);
        }
        let Some(socket) = self.slots[place].socket.as_mut() else { return };
        let received = match socket.read(&mut self.buffer) {
            Ok(0) => Err(Broken::new("closed", "the server closed the connection")),
            Ok(count) => Ok(count),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return,
            Err(e) if e.kind() == ErrorKind::Interrupted => return,
            Err(e) => Err(Broken::of("reading", &e)),
        };
        let now_ns = self.now_ns();
        let mut recorder = Recorder {
            now_ns,
            window: self.engine.window,
            checker: &mut self.engine.checker,
            measured: &mut self.measured,
        };
        let connection = &mut self.slots[place].connection;
        let answers =
            received.and_then(|count| connection.received(&self.buffer[..count], &mut recorder));
        match answers {
            Ok(answers) => self.answers += answers,
            Err(broken) => return self.close(place, &broken),
        }
        if sending {
            self.got_room(place);
        }
    }

    /// The connection may have room again: a closed loop asks at once, an open loop tells the
    /// schedule.
    fn got_room(&mut self, place: usize) {
        let ready_since_ns = self.ready_since_ns;
        let slot = &mut self.slots[place];
        match &mut self.engine.schedule {
            None => self.fill_up(place),
            Some(schedule) => {
                if !slot.scheduled && slot.connection.has_room() {
                    slot.scheduled = true;
                    slot.room_since_ns = ready_since_ns;
                    schedule.has_room(place);
                }
            }
        }
    }

    fn fill_up(&mut self, place: usize) {
        let now = self.now_ns();
        let slot = &mut self.slots[place];
        if slot.socket.is_none() {
            return;
        }
        while slot.connection.has_room() {
            slot.connection.ask(now, now);
        }
        self.flush(place);
    }

    fn send_due(&mut self) {
        loop {
            let now = self.now_ns();
            let Some(schedule) = &mut self.engine.schedule else { return };
            let Some((intended_ns, place)) = schedule.take_due(now) else { return };
            let slot = &mut self.slots[place];
            if slot.socket.is_none() {
                // Not offered to the schedule again: the rest of its share is counted at the end.
                self.note_unsent(intended_ns, now);
                continue;
            }
            let counted = self.engine.window.holds(intended_ns);
            let late_ns = now.saturating_sub(intended_ns.max(slot.room_since_ns));
            self.measured.tape.slice(counted).record(Timing::Lateness, late_ns);
            let blocked = counted && slot.room_since_ns > intended_ns;
            self.measured.counts.blocked += u64::from(blocked);
            slot.connection.ask(intended_ns, now);
            slot.scheduled = slot.connection.has_room();
            if slot.scheduled {
                schedule.has_room(place);
            }
            self.flush(place);
        }
    }

    fn flush(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        let Some(socket) = slot.socket.as_mut() else { return };
        let mut failed = None;
        while !slot.connection.unsent().is_empty() {
            match socket.write(slot.connection.unsent()) {
                Ok(count) => slot.connection.wrote(count),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => {
                    failed = Some(Broken::of("writing", &e));
                    break;
                }
            }
        }
        let awaits = !slot.connection.unsent().is_empty();
        if failed.is_none() && awaits != slot.awaits_writable {
            slot.awaits_writable = awaits;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, awaits);
            let data = epoll::EventData::new_u64(place as u64);
            let changed = epoll::modify(&self.epoll, &*socket, data, flags);
            failed = changed.err().map(|e| Broken::of("epoll", &e.into()));
        }
        if let Some(broken) = failed {
            self.close(place, &broken);
        }
    }

    fn give_up_old(&mut self, places: Range<usize>, sending: bool) {
        let limit = self.engine.timeout;
        for place in places {
            if self.slots[place].socket.is_none() {
                continue;
            }
            let mut recorder = Recorder {
                now_ns: nanos(self.engine.origin.elapsed()),
                window: self.engine.window,
                checker: &mut self.engine.checker,
                measured: &mut self.measured,
            };
            let connection = &mut self.slots[place].connection;
            match connection.give_up_older(nanos(limit), &mut recorder) {
                Ok(0) => {}
                Ok(_) if sending => self.got_room(place),
                Ok(_) => {}
                Err(broken) => self.close(place, &broken),
            }
        }
    }

    /// Looks at the next few connections for time-outs. All of them at once would take the thread
    /// away from its schedule for milliseconds when there are many.
    fn scan_some(&mut self) {
        let begin = self.scanned;
        let end = (begin + SCAN_AT_ONCE).min(self.slots.len());
        self.give_up_old(begin..end, true);
        self.scanned = end;
        if end == self.slots.len() {
            self.scanned = 0;
            self.next_scan_ns = self.now_ns() + nanos(SCAN);
        }
    }

    fn close(&mut self, place: usize, broken: &Broken) {
        let slot = &mut self.slots[place];
        if slot.socket.take().is_none() {
            return;
        }
        self.open_sockets -= 1;
        let (waiting, left) = (slot.connection.waiting(), self.open_sockets);
        let counted = self.engine.window.holds(nanos(self.engine.origin.elapsed()));
        self.measured.note(counted, broken.kind, || {
            format!("{broken}; {waiting} queries were on the way, {left} connections are left")
        });
        let mut recorder = Recorder {
            now_ns: nanos(self.engine.origin.elapsed()),
            window: self.engine.window,
            checker: &mut self.engine.checker,
            measured: &mut self.measured,
        };
        self.slots[place].connection.lose(nanos(self.engine.timeout), &mut recorder);
    }
}

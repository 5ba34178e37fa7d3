//! Moves bytes between the ring and the connections. It sleeps in the ring, not in the executor,
//! which has nothing else to run.
//!
//! What is decided about a connection (read on, pause, close) and what is due by time stands in
//! [`lifecycle`], how connections with unread input are closed in [`parting`], what TLS does to its
//! bytes in [`secure`].

mod budget;
mod lifecycle;
mod parting;
mod secure;

use std::collections::VecDeque;
use std::io;
use std::iter;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam::utils::CachePadded;

use self::budget::Held;
use super::ShardOptions;
use super::access::{Access, Door};
use super::buffers::Spares;
use super::connection::{Connection, Fault};
use super::idle::IdleWheel;
use super::mail::Mail;
use super::service::Service;
use super::shutdown::{Stage, StopSignal};
use crate::clock::{Clock, RunningClock, Tick};
use crate::complaints::Complaints;
use crate::ids::{ConnKey, ShardId};
use crate::limits::{RECEIVE_BUFFER_BYTES, RECEIVE_BUFFERS};
use crate::metrics::ShardCounters;
use crate::ring::{Event, Filled, Key, Ring, RingOptions, Turn};
use crate::tls::{Channel, Progress};
use crate::writer::request::ToShard;
use secure::Secure;

/// Events between two submissions: what has been answered should not wait long for the rest.
const EVENTS_PER_TURN: usize = 512;
/// Bytes of the writer's answers after which the rest of the mail waits for the next turn: long
/// lists are copied in pieces, with queries in between.
const MAIL_BYTES_PER_TURN: usize = 1 << 20;
/// What closing a connection counts as there: it takes about as long as copying so much, and a
/// whole fleet may fall silent at once.
const CLOSE_BYTES: usize = MAIL_BYTES_PER_TURN / 16;
/// Received bytes after which a turn ends: answers do not wait for what large frames take.
const BYTES_PER_TURN: usize = 64 << 10;
/// Events taken from the ring at a time, so that what they need can be fetched for all of them at
/// once.
const EVENTS_AT_ONCE: usize = 32;

/// A connection and what the driver knows of it.
struct Seat {
    connection: Connection,
    /// Its TLS, if it has any.
    channel: Option<Box<Channel>>,
    /// Listed in `Secure::waiting`: its hello has come.
    hello_waits: bool,
    /// Second in which the TLS handshake began.
    tls_since_s: u32,
    /// Second of the last byte in or out.
    active_s: u32,
    /// Second since which it is in the middle of one frame.
    frame_since_s: Option<u32>,
    /// Its part of `Driver::held`.
    held: Held,
    /// The ring was told to receive no more for now.
    paused: bool,
    /// Listed in `Driver::parked`.
    parked: bool,
    /// Listed in `Driver::dirty`.
    dirty: bool,
    /// It closes as soon as its output allows.
    leaving: Option<Reason>,
    /// Bytes have been sent on it.
    spoke: bool,
    /// The peer has closed its side.
    ended: bool,
    /// Our side is closed, see [`parting`].
    parting: bool,
}

impl Seat {
    /// A connection that was accepted in the second `now_s`.
    fn new(connection: Connection, now_s: u32) -> Seat {
        Seat {
            connection,
            channel: None,
            hello_waits: false,
            tls_since_s: 0,
            active_s: now_s,
            frame_since_s: None,
            held: Held::default(),
            paused: false,
            parked: false,
            dirty: false,
            leaving: None,
            spoke: false,
            ended: false,
            parting: false,
        }
    }
}

/// Why a connection is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    Peer,
    Idle,
    Malformed,
    Foreign,
    Proxy,
    Plain,
    Tls,
    Expired,
    OverBudget,
    Shutdown,
}

/// Lives: one per shard, never leaves its thread.
pub(super) struct Driver<S> {
    shard: ShardId,
    service: S,
    mail: Mail,
    stop: StopSignal,
    stage: Stage,
    counters: Arc<CachePadded<ShardCounters>>,
    clock: Clock,
    now: Tick,
    /// Time that the process has run: stands still while it is suspended, so that its end finds
    /// nobody idle who has sent something meanwhile. Silence is measured by it.
    running: RunningClock,
    drain_ms: u64,
    access: Access,
    ring: Ring,
    /// By the ring's slot.
    seats: Vec<Option<Box<Seat>>>,
    /// Events that have been taken from the ring; empty between two turns.
    events: Vec<Event>,
    /// Connections with output for the next turn.
    dirty: Vec<Key>,
    /// Connections in a large frame, waiting for the writer to have room.
    parked: Vec<Key>,
    spares: Spares,
    /// What the connections hold together.
    held: Held,
    /// What they may: `held <= budget` once [`Driver::weigh`] has run.
    budget: Held,
    wheel: Option<IdleWheel>,
    /// Connections that close at that time at the latest, the next one first.
    partings: VecDeque<(Tick, Key)>,
    secure: Secure,
    alarms: Alarms,
    faults: Complaints,
    accept_failures: Complaints,
    refusals: Complaints,
    crowding: Complaints,
    trespasses: Complaints,
}

/// When the driver has something to do without being told.
#[derive(Clone, Copy, Debug, Default)]
struct Alarms {
    /// What the ring's timer is set to.
    armed: Option<Tick>,
    /// What the ring could not take just then; asked for again before the next turn.
    missed: Option<Tick>,
    accept: Option<Tick>,
    look_again: Option<Tick>,
    refresh: Tick,
    drained: Option<Tick>,
}

impl<S: Service> Driver<S> {
    pub(super) fn new(
        options: ShardOptions,
        service: S,
        mail: Mail,
        stop: StopSignal,
    ) -> io::Result<Driver<S>> {
        let connections_max = options.connections_max;
        let sizes = RingOptions {
            buffers: RECEIVE_BUFFERS,
            buffer_bytes: RECEIVE_BUFFER_BYTES,
            connections_max,
            ..RingOptions::default()
        };
        let now = options.clock.now();
        // One second more: activity is noted in whole seconds, and nobody is to be closed early.
        let silence_s = options.idle_s.saturating_add(1);
        let wheel =
            (options.idle_s > 0).then(|| IdleWheel::new(silence_s, connections_max, seconds(now)));
        Ok(Driver {
            shard: options.shard,
            service,
            ring: Ring::new(sizes, options.listener, mail.doorbell().clone())?,
            mail,
            stop,
            stage: Stage::Running,
            counters: options.counters,
            clock: options.clock,
            now,
            running: RunningClock::start(now),
            drain_ms: options.drain_ms,
            access: options.access,
            // Address space, not memory; so that the table never moves.
            seats: Vec::with_capacity(connections_max as usize),
            events: Vec::with_capacity(EVENTS_AT_ONCE),
            dirty: Vec::new(),
            parked: Vec::new(),
            spares: Spares::default(),
            held: Held::default(),
            budget: Held {
                input: options.partial_frames_bytes_max,
                output: options.output_bytes_max,
            },
            wheel,
            partings: VecDeque::new(),
            secure: Secure::new(options.tls, connections_max, seconds(now)),
            alarms: Alarms::default(),
            faults: Complaints::default(),
            accept_failures: Complaints::default(),
            refusals: Complaints::default(),
            crowding: Complaints::default(),
            trespasses: Complaints::default(),
        })
    }

    pub(super) async fn run(mut self) -> io::Result<()> {
        self.ring.accept();
        self.tend();
        loop {
            self.look_at_clock();
            self.take_events();
            self.begin_handshakes();
            let mail_left = self.take_mail();
            self.heed_stop();
            if self.service.flush_closed() {
                self.look_again();
            }
            self.send_output();
            self.counters.batches.add(1);
            let ended = self.stage != Stage::Running && self.ring.connections() == 0;
            if ended || self.stage == Stage::Ending {
                return Ok(());
            }
            if let Some(missed) = self.alarms.missed.take() {
                self.alarm(missed);
            }
            match self.ring.turn()? {
                // The turn has made room: ask again rather than sleep too long.
                Turn::Idle if self.alarms.missed.is_some() => {}
                Turn::Idle if mail_left || self.secure.has_waiting() => {
                    glommio::yield_if_needed().await;
                }
                Turn::Busy => glommio::yield_if_needed().await,
                Turn::Idle => {
                    self.counters.sleeps.add(1);
                    self.ring.sleep()?;
                }
                Turn::Short => glommio::timer::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    fn take_events(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        let (mut taken, mut bytes) = (0, 0);
        while taken < EVENTS_PER_TURN && bytes < BYTES_PER_TURN {
            let ring = &mut self.ring;
            events.extend(iter::from_fn(|| ring.next_event()).take(EVENTS_AT_ONCE));
            if events.is_empty() {
                break;
            }
            let ring = &self.ring;
            let received = events.iter().filter_map(|event| match event {
                Event::Received(_, filled) => Some(ring.bytes(filled)),
                _ => None,
            });
            self.service.fetch_ahead(received.clone());
            taken += events.len();
            bytes += received.map(<[u8]>::len).sum::<usize>();
            events.drain(..).for_each(|event| self.take_event(event));
        }
        self.events = events;
    }

    /// Its connection may be gone by now: closed because of an event that was taken from the ring
    /// together with this one.
    fn take_event(&mut self, event: Event) {
        match event {
            Event::Received(key, filled) => self.received(key, filled),
            Event::Sent(key, buffer) => {
                self.counters.bytes_out.add(buffer.len() as u64);
                self.spares.give(buffer);
                if let Some(seat) = seat_mut(&mut self.seats, key) {
                    seat.sent();
                }
                self.moved(key);
                self.proceed(key);
            }
            Event::SentSome(key) => self.moved(key),
            Event::Accepted(key) => self.accepted(key),
            Event::Ended(key, None) => self.ended(key),
            Event::Ended(key, Some(_)) | Event::SendFailed(key, _) => {
                self.close(key, Reason::Peer);
            }
            Event::Refused => self.refused(),
            Event::AcceptFailed(error) => self.accept_failed(&error),
            Event::Timer => {
                self.alarms.armed = None;
                self.tend();
            }
        }
    }

    fn received(&mut self, key: Key, filled: Filled) {
        let tight = self.tight();
        let Driver { service, ring, seats, spares, counters, access, running, .. } = self;
        let mut result = Ok(());
        let mut progress = Progress::default();
        if let Some(seat) = seat_mut(seats, key) {
            let bytes = ring.bytes(&filled);
            counters.bytes_in.add(bytes.len() as u64);
            seat.active_s = seconds(running.now());
            if seat.leaving.is_none() {
                seat.connection.tighten(tight);
                seat.connection.lend(|| spares.take());
                if seat.channel.is_some() {
                    (progress, result) = seat.open(bytes, service, spares);
                } else {
                    let door = Door { access, peer: &|| peer_ip(ring, key) };
                    let connection = &mut seat.connection;
                    result = service.batch(|requests| connection.received(bytes, &door, requests));
                    if connection.in_hello() {
                        ring.give_back(filled);
                        return self.expect_handshake(key);
                    }
                }
            }
        }
        let last = filled.is_last();
        ring.give_back(filled);
        self.settle(key, result);
        self.progressed(key, progress);
        if last && seat_mut(&mut self.seats, key).is_some_and(|seat| seat.flushed()) {
            self.ring.look_for_reset(key);
        }
    }

    /// Serves what was held back by a stall.
    fn proceed(&mut self, key: Key) {
        let tight = self.tight();
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        let connection = &mut seat.connection;
        connection.tighten(tight);
        connection.lend(|| self.spares.take());
        let result = self.service.batch(|requests| connection.proceed(requests));
        self.settle(key, result);
    }

    /// Delivers mail; true if some is left.
    fn take_mail(&mut self) -> bool {
        let mut room = MAIL_BYTES_PER_TURN;
        while room > 0 {
            let Some(letter) = self.mail.take() else { return false };
            match letter {
                ToShard::Answer(answer) => {
                    let key = ring_key(answer.conn);
                    let Some(seat) = seat_mut(&mut self.seats, key) else {
                        self.counters.answers_stale.add(1);
                        self.service.lost(answer);
                        continue;
                    };
                    seat.connection.lend(|| self.spares.take());
                    room = room.saturating_sub(answer.body.len());
                    seat.connection.answered(|out| self.service.answer(answer, out));
                    self.proceed(key);
                }
                ToShard::Close(conn) => {
                    room = room.saturating_sub(CLOSE_BYTES);
                    self.close(ring_key(conn), Reason::Expired);
                }
            }
        }
        true
    }

    fn send_output(&mut self) {
        for key in std::mem::take(&mut self.dirty) {
            let Some(seat) = seat_mut(&mut self.seats, key) else { continue };
            seat.dirty = false;
            match seat.take_output(&mut self.spares) {
                Ok(Some(output)) => {
                    seat.spoke = true;
                    self.ring.send(key, output);
                }
                Ok(None) => {}
                Err(error) => self.settle(key, Err(Fault::Channel(error))),
            }
        }
    }
}

fn seat_mut(seats: &mut [Option<Box<Seat>>], key: Key) -> Option<&mut Seat> {
    let seat = seats.get_mut(key.slot as usize)?.as_deref_mut()?;
    (seat.connection.key().generation == key.generation).then_some(seat)
}

fn ring_key(conn: ConnKey) -> Key {
    Key { slot: conn.slot, generation: conn.generation }
}

/// Seconds since the process began; it will not serve for 136 years.
fn seconds(now: Tick) -> u32 {
    u32::try_from(now.0 / 1000).unwrap_or(u32::MAX)
}

/// The peer's address, asked of the kernel.
fn peer_ip(ring: &Ring, key: Key) -> Option<IpAddr> {
    ring.peer(key).map(|peer| peer.ip())
}

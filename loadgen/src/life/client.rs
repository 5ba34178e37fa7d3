//! A client: polls the routes of its topics. With more clients than connections allowed, one
//! connection polls for several.

use crate::chance::Chance;
use crate::fleet::{Asked, TOPICS_MAX};
use crate::life::class::Setting;
use crate::life::desk::{Timer, Turn, Wish};
use crate::life::line::{Ask, Pending};
use crate::life::verify::RouteAsk;
use crate::life::world::{World, ZONES};
use crate::measure::whole_ns;
use crate::tape::Timing;
use crate::wire::{Frame, ROUTE_BY_TOPIC};

const POLLS: u64 = 2;
const TOPICS: u64 = 3;
const EVENTS: u64 = 4;

/// A connection that polls.
pub struct Client {
    number: u32,
    /// Only brokers of this zone are wanted.
    zone: Option<u32>,
    /// Its topics, those of all clients it stands for.
    topics: Vec<u32>,
    /// By topic of its own: the newest version shown on this connection so far.
    seen: Vec<u32>,
    chance: Chance,
    polls: u64,
    /// It gave up its connection itself, and is not back yet.
    away: bool,
    first_ns: f64,
    /// Between two polls.
    step_ns: f64,
}

impl Client {
    /// The connection with this number, which stands for so many clients.
    pub fn new(number: u32, copies: u32, setting: &Setting) -> Self {
        let mut topics = Chance::new(setting.seed, TOPICS, number.into());
        let count = copies * setting.topics_per_client;
        let mut chance = Chance::new(setting.seed, POLLS, number.into());
        let period_ns = setting.poll_seconds * 1e9;
        let zoned = chance.fraction() < setting.zone_share;
        let zone = zoned.then(|| chance.below(ZONES));
        Self {
            number,
            zone,
            topics: (0..count).map(|_| topics.below(setting.fleet.topics)).collect(),
            seen: vec![0; count as usize],
            polls: 0,
            away: false,
            first_ns: chance.fraction() * period_ns,
            step_ns: period_ns / f64::from(count.max(1)),
            chance,
        }
    }

    fn next_ns(&self) -> u64 {
        whole_ns(self.first_ns + self.step_ns * self.polls as f64)
    }

    pub(super) fn start(&mut self, turn: &mut Turn<'_>) {
        // The first moment of a client lies anywhere in the period: earlier polls would be before
        // the start, so count from the first one after it.
        while self.first_ns >= self.step_ns {
            self.first_ns -= self.step_ns;
        }
        turn.wake(self.next_ns(), Timer::Speak);
        for (index, drop) in (0..).zip(turn.desk.setting.clone().disconnects.iter()) {
            let seed = turn.desk.setting.seed;
            let mut chance = Chance::new(seed, EVENTS + index, self.number.into());
            if chance.fraction() < drop.share {
                turn.wake(turn.desk.window.begin_ns + whole_ns(drop.at_seconds * 1e9), Timer::Drop);
            }
        }
    }

    pub(super) fn due(&mut self, timer: Timer, at_ns: u64, turn: &mut Turn<'_>) {
        match timer {
            Timer::Open => turn.wish = Wish::Open,
            Timer::Drop => {
                turn.desk.count(at_ns, "disconnects");
                self.away = true;
                let back_ns = whole_ns(self.chance.fraction() * turn.desk.setting.reconnect_ns());
                turn.wish = Wish::Close(Some(turn.now_ns + back_ns));
            }
            _ => self.poll(at_ns, turn),
        }
    }

    fn poll(&mut self, at_ns: u64, turn: &mut Turn<'_>) {
        let index = self.polls % self.topics.len() as u64;
        self.polls += 1;
        turn.wake(self.next_ns(), Timer::Speak);
        let missing = self.chance.fraction() < turn.desk.setting.misses;
        let absent = self.chance.below(TOPICS_MAX);
        if self.away {
            return turn.desk.count(at_ns, "polls left out while disconnected");
        }
        if !turn.open {
            // As it would fail in a client; it counts as if it had waited for its time-out.
            turn.desk.error(at_ns, "not connected", || "a poll while not connected".into());
            if !turn.desk.outage {
                let timeout_ns = turn.desk.setting.timeout_ns();
                turn.desk.record(Timing::Response, at_ns, at_ns + timeout_ns);
            }
            return;
        }
        let own = usize::try_from(index).expect("an index of a Vec");
        let topic = self.topics[own];
        let mut ask = turn.desk.route_ask(topic, turn.line, turn.now_ns);
        ask.zone = self.zone;
        ask.shown = self.seen[own];
        if missing {
            ask.asked = Asked::Absent(absent);
        }
        let own = u32::try_from(own).expect("a client has few topics");
        self.send(ask, own, at_ns, turn);
    }

    fn send(&self, ask: RouteAsk, own: u32, at_ns: u64, turn: &mut Turn<'_>) {
        let name = ask.asked.name();
        let name = std::str::from_utf8(&name).expect("names are ASCII");
        let fields = [
            ("topic", name),
            ("__ZONE_MODE", "true"),
            ("__ZONE_NAME", World::zone_name(self.zone.unwrap_or(0))),
        ];
        let fields = if self.zone.is_some() { &fields[..] } else { &fields[..1] };
        turn.ask((ROUTE_BY_TOPIC, fields, b""), Ask::Route(ask, own), at_ns);
    }

    pub(super) fn answered(&mut self, pending: &Pending, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        let Ask::Route(ask, own) = pending.ask else { return };
        let Some(seen) = turn.desk.judge(&ask, frame, turn.now_ns) else { return };
        let kind = if matches!(ask.asked, Asked::Topic(_)) { "hit" } else { "miss" };
        turn.desk.right(kind, pending, turn.now_ns);
        turn.desk.count_bytes(kind, pending.intended_ns, frame.bytes);
        if let (Some(version), Asked::Topic(topic)) = (seen.version, ask.asked) {
            if version < ask.shown {
                turn.desk.error(turn.now_ns, "went back", || {
                    let before = ask.shown;
                    format!("topic {topic}: version {version} after {before} on one connection")
                });
            }
            let newest = &mut self.seen[own as usize];
            *newest = version.max(*newest);
        }
    }

    pub(super) fn opened(&mut self) {
        self.away = false;
    }

    pub(super) fn lost(&mut self) {
        // A new connection may lead to another part of the server, which promises nothing about
        // what the former one showed.
        self.seen.fill(0);
    }
}

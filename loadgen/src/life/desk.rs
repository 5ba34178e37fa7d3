//! What all connections of one generator thread share: the clock of wake-ups, the model, and where
//! things are recorded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::check::Wrong;
use crate::life::class::Setting;
use crate::life::line::{Ask, Line, Pending};
use crate::life::verify::{RouteAsk, Seen, Verifier};
use crate::life::world::World;
use crate::measure::{Measured, Window};
use crate::tape::{Tally, Timing};
use crate::wire::Frame;

/// Why a role is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// To ask, or to say something.
    Speak,
    /// To open its connection.
    Open,
    /// To tell that a broker is alive.
    Alive,
    /// To change a topic.
    Change,
    /// To restart.
    Restart,
    /// To lose its connection.
    Drop,
}

/// What a role wants done with its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Nothing.
    Stay,
    /// Open it.
    Open,
    /// Close it, and open it again then, if at all.
    Close(Option<u64>),
}

/// A version was acknowledged: whoever probes shall find it.
#[derive(Debug, Clone, Copy)]
pub struct Kick {
    /// Of this topic.
    pub topic: u32,
    /// This version.
    pub version: u32,
    /// When.
    pub acknowledged_ns: u64,
}

/// Lives: one per generator thread.
pub struct Desk {
    /// The model.
    pub world: Arc<World>,
    /// What was asked for.
    pub setting: Arc<Setting>,
    /// The part of the run that counts.
    pub window: Window,
    /// Judges routes.
    pub verifier: Verifier,
    /// Takes times and errors.
    pub measured: Measured,
    /// Whatever else is counted, in the window.
    pub extra: Tally,
    /// Right answers so far.
    pub answers: u64,
    /// Connections are lost and that was announced: what fails meanwhile is no error.
    pub outage: bool,
    /// For the probes of this thread.
    pub kicks: VecDeque<Kick>,
    /// When to wake whom.
    pub timers: BinaryHeap<Reverse<(u64, u32, Timer)>>,
    /// What was sent, by place and opaque, in order: all of it has the same time-out.
    pub deadlines: VecDeque<(u64, u32, u32)>,
}

impl Desk {
    /// Counts one error at this moment.
    pub fn error(&mut self, at_ns: u64, kind: &'static str, example: impl FnOnce() -> String) {
        // A refused connection may tell of the outage before a lost one does.
        if self.outage || (self.setting.expect_outage && kind == "refused") {
            self.extra.add("errors in announced outages", 1);
        } else {
            self.measured.note(self.window.holds(at_ns), kind, example);
        }
    }

    /// Counts something else, when it happened in the window.
    pub fn count(&mut self, at_ns: u64, what: &'static str) {
        if self.window.holds(at_ns) {
            self.extra.add(what, 1);
        }
    }

    /// Adds the bytes of a route answer.
    pub fn count_bytes(&mut self, kind: &str, intended_ns: u64, bytes: usize) {
        if self.window.holds(intended_ns) {
            let what = if kind == "hit" { "hit bytes" } else { "miss bytes" };
            self.extra.add(what, bytes as u64);
        }
    }

    /// Records a time of something meant for this moment.
    pub fn record(&mut self, timing: Timing, intended_ns: u64, now_ns: u64) {
        let counted = self.window.holds(intended_ns);
        let slice = self.measured.tape.slice(counted);
        slice.record(timing, now_ns.saturating_sub(intended_ns));
    }

    /// Records a right answer.
    pub fn right(&mut self, kind: &'static str, pending: &Pending, now_ns: u64) {
        self.answers += 1;
        if pending.given_up {
            return;
        }
        let counted = self.window.holds(pending.intended_ns);
        self.measured.tape.slice(counted).answers.add(kind, 1);
        self.times(pending, now_ns);
    }

    /// Records the times of a request that was answered, or given up.
    pub fn times(&mut self, pending: &Pending, now_ns: u64) {
        let timing = match pending.ask {
            Ask::Route(..) => Timing::Response,
            Ask::Register(_) | Ask::Unregister => Timing::Registration,
            Ask::Version | Ask::Heartbeat => Timing::Heartbeat,
            Ask::AdminRoute(_) => Timing::AdminRoute,
            Ask::Cluster => Timing::Cluster,
            Ask::TopicList => Timing::TopicList,
        };
        self.record(timing, pending.intended_ns, now_ns);
        if timing == Timing::Response {
            let counted = self.window.holds(pending.intended_ns);
            let waited_ns = now_ns.saturating_sub(pending.sent_ns);
            self.measured.tape.slice(counted).record(Timing::Service, waited_ns);
        }
    }

    /// Counts a wrong answer.
    pub fn wrong(&mut self, now_ns: u64, wrong: Wrong) {
        match wrong {
            Wrong::Code(kind, what) => self.error(now_ns, kind, || what),
            Wrong::Content(what) => self.error(now_ns, "wrong content", || what),
        }
    }

    /// Judges a route; a wrong one is counted.
    pub fn judge(&mut self, ask: &RouteAsk, frame: &Frame<'_>, now_ns: u64) -> Option<Seen> {
        match self.verifier.check(&self.world, ask, frame) {
            Ok(seen) => {
                if seen.stale {
                    self.count(now_ns, "stale routes");
                }
                Some(seen)
            }
            Err(wrong) => {
                self.wrong(now_ns, wrong);
                None
            }
        }
    }

    /// What is asked about a topic now.
    pub fn route_ask(&self, topic: u32, line: &Line, now_ns: u64) -> RouteAsk {
        RouteAsk {
            asked: crate::fleet::Asked::Topic(topic),
            legacy: line.wording.is_legacy(),
            zone: None,
            acknowledged: self.world.acknowledged(topic),
            shown: 0,
            sent_ns: now_ns,
        }
    }
}

/// One call of a role: what it knows and what it can do.
pub struct Turn<'a> {
    /// Now, in ns since the start.
    pub now_ns: u64,
    /// The number of the connection on this thread.
    pub place: u32,
    /// Whether its socket is open.
    pub open: bool,
    /// Its bytes.
    pub line: &'a mut Line,
    /// Its thread.
    pub desk: &'a mut Desk,
    /// What is to be done with the socket.
    pub wish: Wish,
}

impl Turn<'_> {
    /// Asks to be woken.
    pub fn wake(&mut self, at_ns: u64, timer: Timer) {
        self.desk.timers.push(Reverse((at_ns, self.place, timer)));
    }

    /// Sends a request.
    pub fn ask(&mut self, request: (u16, &[(&str, &str)], &[u8]), ask: Ask, intended_ns: u64) {
        let timing = match ask {
            Ask::Route(..) => Timing::Lateness,
            _ => Timing::LatenessOfOthers,
        };
        // What is asked in turn, when an answer came, was not planned for a moment.
        if intended_ns < self.now_ns {
            self.desk.record(timing, intended_ns, self.now_ns);
        }
        let opaque = self.line.ask(request, ask, intended_ns, self.now_ns);
        self.desk.deadlines.push_back((self.now_ns, self.place, opaque));
    }
}

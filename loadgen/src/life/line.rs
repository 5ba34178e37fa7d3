//! One connection without its socket: requests go out as bytes, answers come in and are matched.

use std::collections::VecDeque;

use crate::life::verify::RouteAsk;
use crate::life::wording::Wording;
use crate::outbox::Outbox;
use crate::wire::{OPAQUE_END, OPAQUE_FIRST};

/// Requests given up on one connection before it counts as dead.
const GIVEN_UP_MAX: usize = 64;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// A route, on behalf of the client's topic with this number.
    Route(RouteAsk, u32),
    /// A route, for whom the answer before was waited for.
    AdminRoute(RouteAsk),
    /// A registration; `Some`: of a new version of one topic.
    Register(Option<(u32, u32)>),
    /// That the broker be forgotten.
    Unregister,
    /// Whether the registration is up to date.
    Version,
    /// That the broker is alive.
    Heartbeat,
    /// All brokers.
    Cluster,
    /// All topics.
    TopicList,
}

/// A request on the way.
#[derive(Debug)]
pub struct Pending {
    opaque: u32,
    /// What was asked for.
    pub ask: Ask,
    /// When it was meant to be sent.
    pub intended_ns: u64,
    /// When it was.
    pub sent_ns: u64,
    /// Its time-out was recorded; a late answer is only matched.
    pub given_up: bool,
}

/// What a connection does that a decent one does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manners {
    /// Takes what the server sends.
    pub reads: bool,
    /// Closes when the server did.
    pub closes: bool,
}

/// Lives: one per connection, on its generator thread; outlives its socket.
pub struct Line {
    /// How it words requests.
    pub wording: Wording,
    /// How it behaves.
    pub manners: Manners,
    next_opaque: u32,
    /// In order of sending.
    pending: VecDeque<Pending>,
    given_up: usize,
    out: Outbox,
    /// What came and is no whole frame yet.
    pub unread: Vec<u8>,
}

impl Line {
    /// A decent connection.
    pub fn new(wording: Wording, number: u32) -> Self {
        // Far apart, so that an answer delivered on the wrong connection matches nothing there.
        let spread = u64::from(number) * 10_000_019 % u64::from(OPAQUE_END - OPAQUE_FIRST);
        let offset = u32::try_from(spread).expect("below the range of opaques");
        Self {
            wording,
            manners: Manners { reads: true, closes: true },
            next_opaque: OPAQUE_FIRST + offset,
            pending: VecDeque::new(),
            given_up: 0,
            out: Outbox::default(),
            unread: Vec::new(),
        }
    }

    /// Puts a request into the output; returns its opaque.
    pub fn ask(
        &mut self,
        (code, fields, body): (u16, &[(&str, &str)], &[u8]),
        ask: Ask,
        intended_ns: u64,
        now_ns: u64,
    ) -> u32 {
        let opaque = self.next_opaque;
        self.next_opaque = if opaque + 1 == OPAQUE_END { OPAQUE_FIRST } else { opaque + 1 };
        self.wording.append(self.out.tail(), code, opaque, fields, body);
        let (sent_ns, given_up) = (now_ns, false);
        self.pending.push_back(Pending { opaque, ask, intended_ns, sent_ns, given_up });
        opaque
    }

    /// Puts bytes into the output, whatever they are.
    pub fn say(&mut self, bytes: &[u8]) {
        self.out.tail().extend_from_slice(bytes);
    }

    /// Bytes to write.
    pub fn unsent(&self) -> &[u8] {
        self.out.unsent()
    }

    /// So many of them were written.
    pub fn wrote(&mut self, count: usize) {
        self.out.wrote(count);
    }

    /// Takes the request with this opaque.
    pub fn take(&mut self, opaque: i32) -> Option<Pending> {
        let opaque = u32::try_from(opaque).ok()?;
        let place = self.pending.iter().position(|pending| pending.opaque == opaque)?;
        let pending = self.pending.remove(place)?;
        self.given_up -= usize::from(pending.given_up);
        Some(pending)
    }

    /// Gives up the request with this opaque, unless it was answered.
    pub fn give_up(&mut self, opaque: u32) -> Option<&Pending> {
        let pending = self.pending.iter_mut().find(|pending| pending.opaque == opaque)?;
        if pending.given_up {
            return None;
        }
        pending.given_up = true;
        self.given_up += 1;
        Some(pending)
    }

    /// Whether so much was given up that nobody can be there.
    pub fn is_silent(&self) -> bool {
        self.given_up > GIVEN_UP_MAX
    }

    /// Requests on the way.
    pub fn waiting(&self) -> usize {
        self.pending.len() - self.given_up
    }

    /// Begins anew, with a new socket; returns what was on the way.
    pub fn reset(&mut self) -> VecDeque<Pending> {
        self.out.clear();
        self.unread.clear();
        self.given_up = 0;
        std::mem::take(&mut self.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_and_given_up_once() {
        let mut line = Line::new(Wording::Java5, 3);
        let request: (u16, &[(&str, &str)], &[u8]) = (904, &[], b"");
        let [first, second] = [1, 2].map(|at| line.ask(request, Ask::Heartbeat, at, at));
        assert_eq!((line.waiting(), first + 1), (2, second));
        assert_eq!(line.give_up(first).map(|p| p.sent_ns), Some(1));
        assert!(line.give_up(first).is_none());
        assert_eq!(line.waiting(), 1);
        let opaque = i32::try_from(first).unwrap();
        assert!(line.take(opaque).is_some_and(|p| p.given_up));
        assert!(line.take(opaque).is_none() && line.take(-1).is_none());
        assert_eq!(line.reset().len(), 1);
        assert_eq!((line.waiting(), line.unsent().len()), (0, 0));
    }
}

//! Connections without a word. Clients of 5.x keep one to every server they do not talk to; a
//! server closes it after two minutes and they open it again, so with a million clients a server
//! sees 8 000 of these connections begin and end each second.

use crate::chance::Chance;
use crate::life::class::Setting;
use crate::life::desk::{Timer, Turn, Wish};
use crate::measure::whole_ns;
use crate::tape::Timing;

const IDLERS: u64 = 32;
/// Clients look for closed connections this often.
const LOOK_NS: f64 = 3e9;

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Way {
    /// It is closed at once; the next one comes after this time.
    Churn {
        /// Between two connections of this place.
        period_ns: f64,
        /// Of the first one.
        first_ns: f64,
    },
    /// It stays.
    Idle,
}

/// One of them.
pub struct Passer {
    way: Way,
    chance: Chance,
    turns: u64,
    /// When the connection that is being made was meant to be; `None` when none is.
    intended_ns: Option<u64>,
}

impl Passer {
    /// The n-th of those places that share the churn.
    pub fn churn(number: u32, setting: &Setting) -> Self {
        let gap_ns = 1e9 / setting.churn_per_second;
        let period_ns = gap_ns * f64::from(setting.churn_places());
        let way = Way::Churn { period_ns, first_ns: gap_ns * f64::from(number) };
        Self { way, chance: Chance::new(setting.seed, IDLERS, 0), turns: 0, intended_ns: None }
    }

    /// The n-th of those that stay.
    pub fn idle(number: u32, setting: &Setting) -> Self {
        let chance = Chance::new(setting.seed, IDLERS + 1, number.into());
        Self { way: Way::Idle, chance, turns: 0, intended_ns: None }
    }

    pub(super) fn start(&mut self, turn: &mut Turn<'_>) {
        let first_ns = match self.way {
            Way::Churn { first_ns, .. } => first_ns,
            Way::Idle => self.chance.fraction() * 1e9,
        };
        turn.wake(whole_ns(first_ns), Timer::Speak);
    }

    pub(super) fn due(&mut self, _timer: Timer, at_ns: u64, turn: &mut Turn<'_>) {
        if let Way::Churn { period_ns, first_ns } = self.way {
            self.turns += 1;
            turn.wake(whole_ns(first_ns + period_ns * self.turns as f64), Timer::Speak);
        }
        if turn.open || self.intended_ns.is_some() {
            return turn.desk.count(at_ns, "silent connections left out as the last was not made");
        }
        self.intended_ns = Some(at_ns);
        turn.wish = Wish::Open;
    }

    pub(super) fn opened(&mut self, turn: &mut Turn<'_>) {
        if let Some(intended_ns) = self.intended_ns.take() {
            turn.desk.record(Timing::Connect, intended_ns, turn.now_ns);
            turn.desk.count(intended_ns, "silent connections");
        }
        if self.way != Way::Idle {
            turn.wish = Wish::Close(None);
        }
    }

    pub(super) fn lost(&mut self, wished: bool, turn: &mut Turn<'_>) {
        let was_open = self.intended_ns.take().is_none();
        if self.way == Way::Idle && !wished {
            let closed = "silent connections closed by the server";
            let what = if was_open { closed } else { "silent connections not made" };
            turn.desk.count(turn.now_ns, what);
            let again_ns = turn.now_ns + whole_ns(self.chance.fraction() * LOOK_NS);
            turn.wake(again_ns, Timer::Speak);
        }
    }
}

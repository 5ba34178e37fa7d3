//! A probe of freshness: as soon as a change is acknowledged it reads that topic, again and again,
//! until the change shows. The probes have connections of their own, which a server spreads over
//! its threads as it does with those of clients.

use crate::fleet::Asked;
use crate::life::desk::{Kick, Timer, Turn, Wish};
use crate::life::line::{Ask, Pending};
use crate::tape::Timing;
use crate::wire::{Frame, ROUTE_BY_TOPIC};

/// After this the change is taken for lost.
const NEVER_NS: u64 = 10_000_000_000;

/// One of them.
#[derive(Default)]
pub struct Probe {
    looking_for: Option<Kick>,
}

impl Probe {
    pub(super) fn due(&mut self, timer: Timer, turn: &mut Turn<'_>) {
        if timer == Timer::Open {
            turn.wish = Wish::Open;
        }
    }

    pub(super) fn kicked(&mut self, kick: Kick, turn: &mut Turn<'_>) {
        if !turn.open {
            return;
        }
        if self.looking_for.is_some() {
            return turn.desk.count(turn.now_ns, "changes not probed as a probe was busy");
        }
        self.looking_for = Some(kick);
        self.look(kick, turn);
    }

    fn look(&self, kick: Kick, turn: &mut Turn<'_>) {
        let ask = turn.desk.route_ask(kick.topic, turn.line, turn.now_ns);
        let name = Asked::Topic(kick.topic).name();
        let fields = [("topic", std::str::from_utf8(&name).expect("names are ASCII"))];
        turn.ask((ROUTE_BY_TOPIC, &fields, b""), Ask::AdminRoute(ask), turn.now_ns);
    }

    pub(super) fn answered(&mut self, pending: &Pending, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        let (Ask::AdminRoute(ask), Some(kick)) = (pending.ask, self.looking_for) else { return };
        if ask.asked != Asked::Topic(kick.topic) {
            return; // to a question that was given up
        }
        let Some(seen) = turn.desk.judge(&ask, frame, turn.now_ns) else { return self.idle() };
        turn.desk.right("probe", pending, turn.now_ns);
        if seen.version.is_some_and(|version| version >= kick.version) {
            turn.desk.record(Timing::Freshness, kick.acknowledged_ns, turn.now_ns);
            return self.idle();
        }
        if turn.now_ns.saturating_sub(kick.acknowledged_ns) < NEVER_NS {
            return self.look(kick, turn);
        }
        self.idle();
        turn.desk.error(turn.now_ns, "never shown", || {
            format!("version {} of topic {} after 10 s", kick.version, kick.topic)
        });
    }

    /// Nothing is on the way any more.
    pub(super) fn idle(&mut self) {
        self.looking_for = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::life::class::{Class, Setting};
    use crate::life::desk::Desk;
    use crate::life::line::Line;
    use crate::life::wording::Wording;
    use crate::life::world::World;
    use crate::measure::{Measured, Window};
    use crate::tape::Collector;

    #[test]
    fn a_late_answer_about_another_topic_is_not_taken_for_this_one() {
        let setting = Arc::new(Setting::of(Class::S.numbers(), 1.0, 1).unwrap());
        let world = Arc::new(World::new(setting.fleet.clone(), false));
        let window = Window { begin_ns: 0, end_ns: 1_000 };
        let measured = Measured::onto(Collector::new(window).tape(&[]));
        let mut desk = Desk::new(&world, &setting, window, measured);
        let mut line = Line::new(Wording::Java5, 0);
        let (place, open, wish) = (0, true, Wish::Stay);
        let mut turn = Turn { now_ns: 5, place, open, line: &mut line, desk: &mut desk, wish };
        let mut probe = Probe::default();
        let kick = |topic| Kick { topic, version: 0, acknowledged_ns: 1 };
        probe.kicked(kick(7), &mut turn);
        let (.., opaque) = turn.desk.deadlines[0];
        let late = turn.line.take(i32::try_from(opaque).unwrap()).unwrap();
        probe.idle(); // it was given up
        probe.kicked(kick(8), &mut turn);
        let (code, opaque, bytes) = (0, 1, 0);
        let frame = Frame { code, opaque, is_answer: true, header: b"{}", body: b"{}", bytes };
        probe.answered(&late, &frame, &mut turn);
        assert!(probe.looking_for.is_some_and(|kick| kick.topic == 8));
    }
}

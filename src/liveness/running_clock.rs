//! Time that passes only while the process runs.

use crate::clock::Tick;
use crate::limits::RUNNING_STEP_MS_MAX;

/// Liveness time. After a SIGSTOP, a suspend or a long pause of the machine, real time has leapt
/// while the brokers' heartbeats lie unread in their sockets; this clock takes a leap for at most
/// [`RUNNING_STEP_MS_MAX`], so that what waits is read before anybody is given up.
///
/// Lives: writer core only; advanced several times a second while somebody is alive.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunningClock {
    /// Real time of the last advance.
    real: Tick,
    /// Time counted so far: never more than `real`.
    running: Tick,
}

impl RunningClock {
    /// A clock that stands where real time stands.
    #[must_use]
    pub fn start(now: Tick) -> RunningClock {
        RunningClock { real: now, running: now }
    }

    /// Moves on to real time `now`, by at most [`RUNNING_STEP_MS_MAX`], and returns the liveness
    /// time.
    pub fn advance(&mut self, now: Tick) -> Tick {
        let step_ms = now.since_ms(self.real).min(RUNNING_STEP_MS_MAX);
        self.real = self.real.max(now);
        self.running = self.running.after_ms(step_ms);
        debug_assert!(self.running <= self.real);
        self.running
    }

    /// The liveness time of the last advance.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_passes_in_small_steps() {
        let mut clock = RunningClock::start(Tick(100));
        assert_eq!(clock.advance(Tick(600)), Tick(600));
        assert_eq!(clock.advance(Tick(2_600)), Tick(2_600));
        assert_eq!(clock.now(), Tick(2_600));
    }

    #[test]
    fn three_minutes_stopped_count_as_two_seconds() {
        let mut clock = RunningClock::start(Tick(0));
        clock.advance(Tick(500));
        assert_eq!(clock.advance(Tick(180_500)), Tick(2_500));
        assert_eq!(clock.advance(Tick(181_000)), Tick(3_000));
    }

    #[test]
    fn never_goes_back_and_counts_no_time_twice() {
        let mut clock = RunningClock::default();
        clock.advance(Tick(1_000));
        assert_eq!(clock.advance(Tick(400)), Tick(1_000));
        assert_eq!(clock.advance(Tick(1_000)), Tick(1_000));
        assert_eq!(clock.advance(Tick(1_001)), Tick(1_001));
    }
}

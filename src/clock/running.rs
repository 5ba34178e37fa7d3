//! Time that passes only while the process runs.

use super::Tick;
use crate::limits::RUNNING_STEP_MS_MAX;

/// The time by which peers are silent. After a SIGSTOP, a suspend or a long pause of the machine,
/// real time has leapt while what peers sent lies unread in their sockets; this clock takes a leap
/// for at most [`RUNNING_STEP_MS_MAX`], so that what waits is read before anybody is given up.
///
/// Lives: on the writer core for brokers, advanced several times a second while one is alive; in
/// each shard for connections. Shares: nothing.
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

    /// Moves on to real time `now`, by at most [`RUNNING_STEP_MS_MAX`], and returns its own time.
    pub fn advance(&mut self, now: Tick) -> Tick {
        self.advance_after(0, now)
    }

    /// [`RunningClock::advance`] of one who meant to sleep `sleep_ms`, which are no leap.
    pub fn advance_after(&mut self, sleep_ms: u64, now: Tick) -> Tick {
        let step_ms = now.since_ms(self.real).min(sleep_ms.saturating_add(RUNNING_STEP_MS_MAX));
        self.real = self.real.max(now);
        self.running = self.running.after_ms(step_ms);
        debug_assert!(self.running <= self.real);
        self.running
    }

    /// Its time at the last advance.
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
    fn a_sleep_is_no_leap_and_what_took_longer_is_one() {
        let mut clock = RunningClock::start(Tick(0));
        assert_eq!(clock.advance_after(60_000, Tick(60_500)), Tick(60_500));
        assert_eq!(clock.advance_after(1_000, Tick(120_500)), Tick(63_500));
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

//! The only place that reads a clock. Everything else takes `now` as an argument.

mod running;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use self::running::RunningClock;

/// Milliseconds since the process began, monotonic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tick(pub u64);

impl Tick {
    /// This tick moved `ms` milliseconds into the future; stays at the end of time rather than
    /// wrapping.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Tick {
        Tick(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this tick, 0 if `earlier` is later.
    #[must_use]
    pub fn since_ms(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Reads the time. One value is made at start and copied, so that all shards count from the same
/// moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
}

impl Clock {
    /// A clock that stands at tick 0 now.
    #[must_use]
    pub fn start() -> Clock {
        Clock { began: Instant::now() }
    }

    /// Monotonic milliseconds since [`Clock::start`].
    #[must_use]
    pub fn now(&self) -> Tick {
        Tick(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Wall-clock milliseconds since 1970, as a data version's time stamp uses them.
    #[must_use]
    pub fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

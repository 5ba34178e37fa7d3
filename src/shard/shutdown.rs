//! The end, in two steps: finish what is owed, or leave at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crossbeam::utils::CachePadded;

use crate::ring::Doorbell;

/// How far the shutdown has come; only ever grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Serving.
    Running,
    /// Accept no more, read no more, send what is owed, then end.
    Draining,
    /// End now.
    Ending,
}

/// Tells the shards to stop, from any thread.
#[derive(Clone, Debug)]
pub struct StopSwitch {
    /// Padded: every shard reads it with every batch, so nothing that is written may lie beside it.
    stage: Arc<CachePadded<AtomicU8>>,
    doorbells: Arc<[Doorbell]>,
}

impl StopSwitch {
    /// A switch for the shards that sleep on `doorbells`.
    #[must_use]
    pub fn new(doorbells: impl IntoIterator<Item = Doorbell>) -> StopSwitch {
        StopSwitch { stage: Arc::default(), doorbells: doorbells.into_iter().collect() }
    }

    /// What the shards look at.
    #[must_use]
    pub fn signal(&self) -> StopSignal {
        StopSignal { stage: Arc::clone(&self.stage) }
    }

    /// Finish and end; each shard has a deadline of its own for it.
    pub fn drain(&self) {
        self.move_to(Stage::Draining);
    }

    /// End at once.
    pub fn end(&self) {
        self.move_to(Stage::Ending);
    }

    fn move_to(&self, stage: Stage) {
        // Release: who is told by a shard that it closed a connection because of this also sees
        // what was written before. The rings below make the shards look.
        self.stage.fetch_max(stage as u8, Ordering::Release);
        self.doorbells.iter().for_each(Doorbell::ring);
    }
}

/// A shard's view of the [`StopSwitch`].
#[derive(Clone, Debug)]
pub struct StopSignal {
    stage: Arc<CachePadded<AtomicU8>>,
}

impl StopSignal {
    /// How far the shutdown has come.
    #[must_use]
    pub fn stage(&self) -> Stage {
        // Acquire: see `StopSwitch::move_to`.
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Running,
            1 => Stage::Draining,
            _ => Stage::Ending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_never_goes_back() {
        let switch = StopSwitch::new([]);
        let signal = switch.signal();
        assert_eq!(signal.stage(), Stage::Running);
        switch.drain();
        assert_eq!(signal.stage(), Stage::Draining);
        switch.end();
        switch.drain();
        assert_eq!(signal.stage(), Stage::Ending);
    }
}

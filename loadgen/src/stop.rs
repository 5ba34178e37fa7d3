//! Ctrl-C ends a run early and the report says so; a second one ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{Failure, run_failure};

/// Says whether to stop. Cheap to ask and to clone.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// One that the signals INT and TERM set.
    ///
    /// # Errors
    /// When the process may not install a signal handler.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag unset, and the second ends us.
            signal_hook::flag::register_conditional_shutdown(signal, 130, stop.0.clone())
                .and_then(|_| signal_hook::flag::register(signal, stop.0.clone()))
                .map_err(|e| run_failure(format!("cannot watch signal {signal}: {e}")))?;
        }
        Ok(stop)
    }

    /// Whether to stop. Relaxed: nothing else is read because of it.
    pub fn asked(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Asks to stop, as a signal would.
    pub fn ask(&self) {
        self.0.store(true, Relaxed);
    }
}

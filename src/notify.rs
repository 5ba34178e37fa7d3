//! Tells brokers that another one has the smallest id of their group (code 905; Java:
//! `RouteInfoManager.notifyMinBrokerIdChanged`).
//!
//! ```text
//!   writer --[ bounded queue ]--> delivery thread --> one connection a broker, all at once
//!                                   |       ^
//!                                   v       |  addresses of brokers that go by a host's name
//!                                 names threads
//! ```
//!
//! A notice is sent at most once, and nobody waits for it: a broker that cannot be reached in time
//! is given up, and a notice that finds the queue full is dropped. That costs latency only, since
//! brokers also ask for their group's members now and then (code 901).
//!
//! Each connection is closed once it has sent what there was, so none is ever found stale by the
//! next notice. Java keeps them. What comes up while a broker is being reached goes out behind what
//! waits already, so no broker hears the older news last.
//!
//! **Never:** awaited by the writer; runs on its core or on a shard.

mod delivery;
mod names;
mod target;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Sender, bounded};
use mio::Waker;

use crate::clock::Clock;
use crate::limits::NOTICES_MAX;
use crate::metrics::Counter;
use crate::model::Notice;
use crate::wire::HeaderKind;

use delivery::Delivery;

/// What became of notices. Lives: shared by all who send, count or print them.
#[derive(Debug, Default)]
pub struct NoticeCounters {
    /// Sent, counted for each broker.
    pub sent: Counter,
    /// Not sent because a broker could not be reached in time, counted for each broker.
    pub failed: Counter,
    /// Dropped, for all their brokers, because too many were waiting.
    pub dropped: Counter,
}

/// Sends notices. Lives: the writer holds it; its work runs on threads of its own. Shares: a
/// bounded queue with them.
pub struct Notifier {
    queue: Sender<Notice>,
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
    counters: Arc<NoticeCounters>,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    /// Starts the threads. To be called before the caller is pinned to a core: a new thread
    /// inherits that. `kind` is how the headers of notices are written.
    ///
    /// # Errors
    ///
    /// If the system starts no further thread or has no file descriptor left.
    pub fn start(kind: HeaderKind, clock: Clock) -> io::Result<Notifier> {
        let (queue, notices) = bounded(NOTICES_MAX);
        let counters = Arc::<NoticeCounters>::default();
        let delivery = Delivery::new(notices, Arc::clone(&counters), kind, clock)?;
        let waker = delivery.waker();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let run = move || delivery.run(&told);
        let thread = thread::Builder::new().name("notify".into()).spawn(run)?;
        Ok(Notifier { queue, waker, stop, counters, thread: Some(thread) })
    }

    /// Gives notices to be sent; never waits.
    pub fn send(&self, notices: Vec<Notice>) {
        if notices.is_empty() {
            return;
        }
        for notice in notices {
            if self.queue.try_send(notice).is_err() {
                self.counters.dropped.add(1);
            }
        }
        self.wake();
    }

    /// What became of notices so far.
    #[must_use]
    pub fn counters(&self) -> Arc<NoticeCounters> {
        Arc::clone(&self.counters)
    }

    fn wake(&self) {
        // Fails only if the eventfd is gone, and then so is the thread: nobody is left to wake.
        let _ = self.waker.wake();
    }
}

impl Drop for Notifier {
    /// Gives up what has not been sent.
    fn drop(&mut self) {
        // Release pairs with the acquire in `Delivery::run`.
        self.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").field("counters", &self.counters).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

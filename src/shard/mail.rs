//! The way from the writer to a shard.

use std::io;
use std::sync::Arc;

use crossbeam::queue::SegQueue;

use crate::ring::Doorbell;
use crate::writer::request::ToShard;

/// A shard's post box and the shard's end of it.
///
/// The queue has no capacity of its own, since the writer must never wait for a shard. Its length
/// is bounded by what is asked: answers are at most the requests with the writer
/// ([`crate::limits::LANE_REQUESTS_MAX`] a shard), and the writer orders a close at most once for
/// each broker that is registered over one of the shard's connections.
///
/// # Errors
/// When the process has no file descriptor left.
pub fn post() -> io::Result<(PostBox, Mail)> {
    let queue = Arc::new(SegQueue::new());
    let doorbell = Doorbell::new()?;
    let sender = PostBox { queue: Arc::clone(&queue), doorbell: doorbell.clone() };
    Ok((sender, Mail { queue, doorbell }))
}

/// The sender's end. Lives: writer core; may be cloned and shared.
#[derive(Clone, Debug)]
pub struct PostBox {
    queue: Arc<SegQueue<ToShard>>,
    doorbell: Doorbell,
}

impl PostBox {
    /// Puts `letter` in and wakes the shard if it sleeps.
    pub fn post(&self, letter: ToShard) {
        self.queue.push(letter);
        self.doorbell.ring();
    }

    /// The shard's doorbell, for whoever has other news for it.
    #[must_use]
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}

/// The shard's end. Lives: one per shard, never leaves it.
#[derive(Debug)]
pub struct Mail {
    queue: Arc<SegQueue<ToShard>>,
    doorbell: Doorbell,
}

impl Mail {
    /// The next letter, if there is one.
    pub(crate) fn take(&mut self) -> Option<ToShard> {
        self.queue.pop()
    }

    /// The bell that rings for new mail.
    #[must_use]
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }
}

//! The way from the shards to the writer: one bounded lane a shard.
//!
//! ```text
//! shard 0 --[ lane 0 ]--+
//! shard 1 --[ lane 1 ]--+--> drained by number, the smallest first --> writer
//! shard 2 --[ lane 2 ]--+
//! ```
//!
//! A full lane gives the request back and never waits. Requests come out in the order in which the
//! shards accepted them, whichever lane they are in: a broker that lost a connection and registered
//! anew on another, which another shard serves, is not undone by what it had said on the first.
//!
//! **Never:** a lane grows; a sender waits; a request leaves here without its bytes being counted
//! off when it ends.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;

use crate::ids::ShardId;
use crate::limits::{BODY_BUDGET_BYTES, LANE_REQUESTS_MAX};
use crate::writer::request::{WriteOp, WriteRequest};

/// Wakes the writer. Must be sticky (an eventfd is): rung while the writer is awake, it makes the
/// next sleep return.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// Lanes for `shards` shards, and the end where the writer takes requests out. Element `n` is for
/// shard `n`.
///
/// # Panics
///
/// If `shards` is beyond what a [`ShardId`] can number; the plan of cores never is.
#[must_use]
pub fn lanes(shards: usize, bell: Bell) -> (Vec<LaneSender>, LaneReceivers) {
    let budget = BodyBudget::new(BODY_BUDGET_BYTES);
    lanes_of(shards, LANE_REQUESTS_MAX, budget, &bell)
}

fn lanes_of(
    shards: usize,
    requests_max: usize,
    budget: Arc<BodyBudget>,
    bell: &Bell,
) -> (Vec<LaneSender>, LaneReceivers) {
    let queues: Vec<Arc<Queue>> =
        (0..shards).map(|_| Arc::new(ArrayQueue::new(requests_max))).collect();
    let accepted: Accepted = Arc::default();
    let senders = queues
        .iter()
        .enumerate()
        .map(|(index, queue)| LaneSender {
            shard: ShardId(u16::try_from(index).expect("shards are numbered by 16 bits")),
            queue: Arc::clone(queue),
            unanswered: Cell::new(0),
            held: Arc::default(),
            accepted: Arc::clone(&accepted),
            budget: Arc::clone(&budget),
            bell: Arc::clone(bell),
        })
        .collect();
    let heads = (0..shards).map(|_| None).collect();
    (senders, LaneReceivers { queues, heads, accepted, budget })
}

type Queue = ArrayQueue<Received>;
/// The number of the next request that a shard accepts. Only writes count it up, which are rare
/// beside queries.
type Accepted = Arc<CachePadded<AtomicU64>>;

/// A shard's end of its lane. Lives: one per shard, never leaves it (it is `Send`, but not `Sync`
/// and not `Clone`).
///
/// ```compile_fail
/// fn shared<T: Sync>() {}
/// shared::<guidepost::writer::lane::LaneSender>();
/// ```
pub struct LaneSender {
    shard: ShardId,
    queue: Arc<Queue>,
    /// Requests sent that expect an answer, less the answers delivered: `<= queue.capacity()`. Only
    /// the shard's own thread counts, up when it sends and down when it delivers, so this is no
    /// atomic.
    unanswered: Cell<usize>,
    /// Requests that the writer has and is not done with, one-way ones and events included.
    held: Arc<CachePadded<AtomicUsize>>,
    accepted: Accepted,
    budget: Arc<BodyBudget>,
    bell: Bell,
}

impl LaneSender {
    /// Hands `request` to the writer and rings for it.
    ///
    /// # Errors
    ///
    /// Gives the request back if the lane is full or the shard is already owed as many answers as a
    /// lane holds; the peer is then told "busy". Events ([`WriteOp::ConnectionClosed`]) must be
    /// kept by the caller and sent again.
    ///
    /// What is pushed happens before what is popped: the queue's slot stamp is stored with
    /// `Release` and loaded with `Acquire`. The bell rings after the push, so a writer that finds
    /// all lanes empty and then sleeps is woken.
    pub fn try_send(&self, request: WriteRequest) -> Result<(), WriteRequest> {
        let answered = request.reply_to.is_some();
        if answered && self.unanswered.get() >= self.queue.capacity() {
            return Err(request);
        }
        // Relaxed: only this shard adds, so what it sees is never too little.
        if self.held.load(Ordering::Relaxed) >= self.queue.capacity() {
            return Err(request);
        }
        let lease = BodyBudget::lease(&self.budget, &self.held, bytes_held(&request.op));
        // AcqRel pairs with the writer's load in `LaneReceivers::drain`, and with the other shards:
        // what they had pushed when they are seen to have counted on is there to be popped.
        let number = self.accepted.fetch_add(1, Ordering::AcqRel);
        let item = Received { shard: self.shard, number, request, lease };
        match self.queue.push(item) {
            Ok(()) => {
                self.unanswered.set(self.unanswered.get() + usize::from(answered));
                (self.bell)();
                Ok(())
            }
            Err(item) => Err(item.request),
        }
    }

    /// Tells that one answer of the writer arrived at the shard (delivered, or dropped because its
    /// connection is gone).
    pub fn answered(&self) {
        let owed = self.unanswered.get();
        debug_assert!(owed > 0, "an answer without a request");
        self.unanswered.set(owed.saturating_sub(1));
    }

    /// Answers that the writer still owes this shard.
    #[cfg(test)]
    pub fn in_flight(&self) -> usize {
        self.unanswered.get()
    }

    /// True if the shards together have so many bytes with the writer that no further large frame
    /// is to be read.
    ///
    /// Nothing tells a shard when this ends: it looks again with its next batch or tick.
    #[must_use]
    pub fn over_budget(&self) -> bool {
        self.budget.is_over()
    }

    /// The shard whose lane this is.
    #[cfg(test)]
    pub fn shard(&self) -> ShardId {
        self.shard
    }
}

impl fmt::Debug for LaneSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneSender")
            .field("shard", &self.shard)
            .field("unanswered", &self.unanswered)
            .finish_non_exhaustive()
    }
}

/// One request as the writer takes it out of a lane.
#[derive(Debug)]
pub struct Received {
    /// The shard that sent it.
    pub shard: ShardId,
    /// Its place among all requests of all shards.
    pub number: u64,
    /// What is asked.
    pub request: WriteRequest,
    /// Counts the request and its bytes until it is dropped: keep it until the request is done.
    pub lease: BodyLease,
}

/// The writer's end of all lanes. Lives: writer core only.
#[derive(Debug)]
pub struct LaneReceivers {
    queues: Vec<Arc<Queue>>,
    /// The oldest request of each lane, once it has been looked at.
    heads: Vec<Option<Received>>,
    accepted: Accepted,
    budget: Arc<BodyBudget>,
}

impl LaneReceivers {
    /// Appends at most `max` requests to `out`, in the order in which they were accepted, and
    /// returns how many.
    ///
    /// What was in a lane before another shard took its next number comes before that number. Two
    /// requests that are being accepted at the same moment have no order, and get one here. A
    /// request that a shard accepts while this runs may be left for the next call.
    pub fn drain(&mut self, max: usize, out: &mut Vec<Received>) -> usize {
        // Read before the lanes are looked at: a lane found empty cannot have held, by then, a
        // request accepted before one below this number. Acquire: see `LaneSender::try_send`.
        let end = self.accepted.load(Ordering::Acquire);
        for (head, queue) in self.heads.iter_mut().zip(&self.queues) {
            if head.is_none() {
                *head = queue.pop();
            }
        }
        let mut taken = 0;
        while taken < max {
            let numbers = self.heads.iter().enumerate();
            let numbers = numbers.filter_map(|(lane, head)| Some((head.as_ref()?.number, lane)));
            let Some((number, lane)) = numbers.min().filter(|(number, _)| *number < end) else {
                break;
            };
            let next = self.queues[lane].pop();
            let received = std::mem::replace(&mut self.heads[lane], next).expect("just seen");
            debug_assert!(
                self.heads[lane].as_ref().is_none_or(|next| next.number > number),
                "a shard counts up"
            );
            out.push(received);
            taken += 1;
        }
        taken
    }

    /// True if no lane holds a request. To be asked once more between arming the doorbell and
    /// sleeping.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.iter().all(Option::is_none) && self.queues.iter().all(|queue| queue.is_empty())
    }

    /// Requests that wait in all lanes together.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        let heads = self.heads.iter().flatten().count();
        heads + self.queues.iter().map(|queue| queue.len()).sum::<usize>()
    }

    /// The bytes that all requests with the writer hold.
    #[must_use]
    pub fn budget(&self) -> &Arc<BodyBudget> {
        &self.budget
    }
}

/// Bytes of requests that are with the writer, all shards together. Shares: one counter between
/// shards and writer.
///
/// A request that has been read whole is always let through: refusing it would free nothing, and
/// frames up to [`crate::limits::LARGE_FRAME_BYTES`] are read on. So the bound is `bytes_max`, what
/// the shards had already read when it was reached, and for each shard a full lane of such frames:
/// 256 MiB.
#[derive(Debug)]
pub struct BodyBudget {
    used: CachePadded<AtomicUsize>,
    bytes_max: usize,
}

impl BodyBudget {
    fn new(bytes_max: usize) -> Arc<BodyBudget> {
        Arc::new(BodyBudget { used: CachePadded::default(), bytes_max })
    }

    fn lease(
        budget: &Arc<BodyBudget>,
        held: &Arc<CachePadded<AtomicUsize>>,
        bytes: usize,
    ) -> BodyLease {
        held.fetch_add(1, Ordering::Relaxed);
        // Relaxed: a count that guards no other memory. The request itself travels by the queue's
        // release and acquire; and since each lease is taken before the push and given back after
        // the pop, the count never goes below 0.
        budget.used.fetch_add(bytes, Ordering::Relaxed);
        BodyLease { budget: Arc::clone(budget), held: Arc::clone(held), bytes }
    }

    /// Bytes held now.
    #[must_use]
    pub fn used(&self) -> usize {
        // Relaxed: a shard that sees an old value reads one frame more, or one tick later.
        self.used.load(Ordering::Relaxed)
    }

    /// True if no further large frame is to be read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.used() >= self.bytes_max
    }
}

/// A request's place among those that its shard may have with the writer, and its share of the
/// [`BodyBudget`]; gives both back when dropped.
#[derive(Debug)]
pub struct BodyLease {
    budget: Arc<BodyBudget>,
    held: Arc<CachePadded<AtomicUsize>>,
    bytes: usize,
}

impl BodyLease {
    /// Bytes counted.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for BodyLease {
    fn drop(&mut self) {
        // Relaxed: pairs with nothing, see `BodyBudget::lease`.
        let before = self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "more bytes given back than were taken");
        let before = self.held.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "more requests finished than were sent");
    }
}

/// The bytes of `op` whose number a peer chose: bodies, names and values, which come in headers.
fn bytes_held(op: &WriteOp) -> usize {
    match op {
        WriteOp::Register(register) => {
            let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
            register.body.len()
                + register.cluster.len()
                + register.broker.len()
                + register.addr.len()
                + optional(&register.ha_addr)
                + optional(&register.zone)
        }
        WriteOp::Unregister { cluster, addr, broker, .. } => {
            cluster.len() + addr.len() + broker.len()
        }
        WriteOp::Heartbeat { cluster, addr } => cluster.len() + addr.len(),
        WriteOp::QueryDataVersion { cluster, addr, body } => {
            cluster.len() + addr.len() + body.len()
        }
        WriteOp::RegisterTopic { topic, body } => topic.len() + body.len(),
        WriteOp::DeleteTopic { topic, cluster } => {
            topic.len() + cluster.as_ref().map_or(0, |cluster| cluster.len())
        }
        WriteOp::SetWritePerm { broker, .. } => broker.len(),
        WriteOp::PutKv { namespace, key, value } => {
            namespace.len() + key.len() + value.as_ref().map_or(0, String::len)
        }
        WriteOp::DeleteKv { namespace, key } => namespace.len() + key.len(),
        WriteOp::UpdateSettings { body } => body.len(),
        WriteOp::ListTopics(list) => list.held_bytes(),
        WriteOp::ConnectionClosed => 0,
    }
}

#[cfg(test)]
mod tests;

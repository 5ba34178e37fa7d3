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
    #[must_use]
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
    #[must_use]
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
    #[must_use]
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
/// A request that has been read whole is always let through: refusing it would free nothing. So the
/// bound is `bytes_max` and what the shards had already read when it was reached.
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
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;

    use bytes::Bytes;

    use super::*;
    use crate::ids::{ConnKey, Opaque};

    fn silent() -> Bell {
        Arc::new(|| {})
    }

    fn small(shards: usize, requests_max: usize) -> (Vec<LaneSender>, LaneReceivers) {
        lanes_of(shards, requests_max, BodyBudget::new(100), &silent())
    }

    fn request(shard: u16, number: u32, reply_to: Option<i32>, op: WriteOp) -> WriteRequest {
        let conn = ConnKey { shard: ShardId(shard), slot: number, generation: 0 };
        WriteRequest { conn, reply_to: reply_to.map(Opaque), op }
    }

    fn event(shard: u16, number: u32) -> WriteRequest {
        request(shard, number, None, WriteOp::ConnectionClosed)
    }

    fn with_body(bytes: usize) -> WriteRequest {
        let body = Bytes::from(vec![b'x'; bytes]);
        request(0, 0, None, WriteOp::UpdateSettings { body })
    }

    fn drained(lanes: &mut LaneReceivers, max: usize) -> Vec<(u16, u32)> {
        let mut out = Vec::new();
        assert_eq!(lanes.drain(max, &mut out), out.len());
        out.iter().map(|item| (item.shard.0, item.request.conn.slot)).collect()
    }

    #[test]
    fn a_full_lane_gives_the_request_back_and_counts_nothing() {
        let (senders, mut lanes) = small(1, 2);
        senders[0].try_send(event(0, 0)).unwrap();
        senders[0].try_send(event(0, 1)).unwrap();
        let mut big = with_body(10);
        big.conn.slot = 7;
        big.reply_to = Some(Opaque(3));
        let back = senders[0].try_send(big).unwrap_err();
        assert_eq!((back.conn.slot, back.reply_to), (7, Some(Opaque(3))));
        assert_eq!(lanes.budget().used(), 0);
        assert_eq!(senders[0].in_flight(), 0);
        assert_eq!(drained(&mut lanes, 9), [(0, 0), (0, 1)]);
        senders[0].try_send(back).unwrap();
    }

    #[test]
    fn no_two_shards_count_in_one_cache_line() {
        let (senders, lanes) = small(4, 2);
        // Pairs of lines are fetched together.
        let line = |place: *const AtomicUsize| place.addr() / 128;
        let mut lines: Vec<usize> =
            senders.iter().map(|sender| line(&raw const **sender.held)).collect();
        lines.push(line(&raw const *lanes.budget().used));
        let all = lines.len();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), all);
    }

    #[test]
    fn the_bell_rings_after_each_push_and_not_for_a_refusal() {
        let rung = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&rung);
        let bell: Bell = Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let (senders, lanes) = lanes_of(1, 1, BodyBudget::new(100), &bell);
        senders[0].try_send(event(0, 0)).unwrap();
        assert!(senders[0].try_send(event(0, 1)).is_err());
        assert_eq!(rung.load(Ordering::Relaxed), 1);
        assert_eq!(lanes.len(), 1);
    }

    #[test]
    fn a_shard_is_owed_at_most_one_lane_of_answers() {
        let (senders, mut lanes) = small(1, 2);
        let ask = |number| request(0, number, Some(1), WriteOp::ConnectionClosed);
        senders[0].try_send(ask(0)).unwrap();
        senders[0].try_send(ask(1)).unwrap();
        assert_eq!(drained(&mut lanes, 9).len(), 2);
        // The lane is empty, but two answers are still on their way.
        assert!(senders[0].try_send(ask(2)).is_err());
        senders[0].try_send(event(0, 3)).unwrap();
        senders[0].answered();
        assert_eq!(senders[0].in_flight(), 1);
        senders[0].try_send(ask(4)).unwrap();
        assert_eq!(senders[0].in_flight(), 2);
        assert_eq!(drained(&mut lanes, 9), [(0, 3), (0, 4)]);
    }

    #[test]
    fn requests_come_out_in_the_order_in_which_they_were_accepted() {
        let (senders, mut lanes) = small(3, 8);
        let send = |shard: u16, number| {
            senders[usize::from(shard)].try_send(event(shard, number)).unwrap();
        };
        [(0, 0), (0, 1), (2, 0)].into_iter().for_each(|(shard, number)| send(shard, number));
        assert_eq!(drained(&mut lanes, 1), [(0, 0)]);
        [(1, 0), (0, 2), (1, 1)].into_iter().for_each(|(shard, number)| send(shard, number));
        assert_eq!(lanes.len(), 5);
        assert_eq!(drained(&mut lanes, 3), [(0, 1), (2, 0), (1, 0)]);
        assert!(!lanes.is_empty());
        assert_eq!(drained(&mut lanes, 9), [(0, 2), (1, 1)]);
        assert!(lanes.is_empty());
        assert_eq!(drained(&mut lanes, 9), []);
    }

    #[test]
    fn without_shards_nothing_is_drained() {
        let (senders, mut lanes) = small(0, 8);
        assert!(senders.is_empty() && lanes.is_empty());
        assert_eq!(drained(&mut lanes, 9), []);
    }

    #[test]
    fn bytes_are_counted_from_sending_until_the_lease_is_dropped() {
        let (senders, mut lanes) = small(2, 8);
        senders[0].try_send(with_body(60)).unwrap();
        assert!(!senders[1].over_budget());
        senders[1].try_send(with_body(40)).unwrap();
        assert!(senders[0].over_budget() && senders[1].over_budget());
        let mut out = Vec::new();
        lanes.drain(9, &mut out);
        assert_eq!(lanes.budget().used(), 100);
        let Received { request, lease, .. } = out.remove(0);
        drop(request);
        assert_eq!(lanes.budget().used(), 100);
        assert_eq!(lease.bytes(), 60);
        drop(lease);
        assert_eq!(lanes.budget().used(), 40);
        assert!(!senders[0].over_budget());
        drop(out);
        assert_eq!(lanes.budget().used(), 0);
    }

    #[test]
    fn names_and_values_count_too() {
        let put = WriteOp::PutKv {
            namespace: "ab".into(),
            key: "cde".into(),
            value: Some("fghi".into()),
        };
        assert_eq!(bytes_held(&put), 9);
        let beat = WriteOp::Heartbeat { cluster: "c".into(), addr: "1.1.1.1:1".into() };
        assert_eq!(bytes_held(&beat), 10);
    }

    #[test]
    fn requests_dropped_in_a_lane_give_their_bytes_back() {
        let (senders, lanes) = small(1, 8);
        let budget = Arc::clone(lanes.budget());
        senders[0].try_send(with_body(60)).unwrap();
        drop((senders, lanes));
        assert_eq!(budget.used(), 0);
    }

    /// Two threads, each with a lane, take turns: what one sends it sends after the other's was
    /// accepted. The writer drains all the while.
    #[test]
    fn what_is_accepted_later_comes_out_later_whatever_its_lane() {
        const ROUNDS: u32 = 20_000;
        let (senders, mut lanes) = small(2, 16);
        let turn = Arc::new(AtomicU64::new(0));
        let shards: Vec<_> = senders
            .into_iter()
            .map(|sender| {
                let turn = Arc::clone(&turn);
                thread::spawn(move || {
                    let shard = sender.shard().0;
                    for round in (u32::from(shard)..ROUNDS).step_by(2) {
                        while turn.load(Ordering::Acquire) != u64::from(round) {
                            thread::yield_now();
                        }
                        while sender.try_send(event(shard, round)).is_err() {
                            thread::yield_now();
                        }
                        turn.fetch_add(1, Ordering::Release);
                    }
                })
            })
            .collect();
        let mut expected = 0;
        while expected < ROUNDS {
            let batch = drained(&mut lanes, 5);
            if batch.is_empty() {
                thread::yield_now();
            }
            for (_, round) in batch {
                assert_eq!(round, expected);
                expected += 1;
            }
        }
        for shard in shards {
            shard.join().unwrap();
        }
    }

    #[test]
    fn nothing_is_lost_or_reordered_between_threads() {
        const EACH: u32 = 20_000;
        let writer = thread::current();
        let bell: Bell = Arc::new(move || writer.unpark());
        let (senders, mut lanes) = lanes_of(3, 64, BodyBudget::new(1 << 20), &bell);
        let shards: Vec<_> = senders
            .into_iter()
            .map(|sender| {
                thread::spawn(move || {
                    for number in 0..EACH {
                        let mut item = event(sender.shard().0, number);
                        while let Err(back) = sender.try_send(item) {
                            item = back;
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut expected = [0; 3];
        let mut out = Vec::new();
        while expected != [EACH; 3] {
            // A token left by the bell makes `park` return at once: no wake is lost.
            if lanes.is_empty() {
                thread::park();
            }
            lanes.drain(50, &mut out);
            for item in out.drain(..) {
                let next = &mut expected[usize::from(item.shard.0)];
                assert_eq!(item.request.conn.slot, *next);
                *next += 1;
            }
        }
        for shard in shards {
            shard.join().unwrap();
        }
        assert!(lanes.is_empty());
        assert_eq!(lanes.budget().used(), 0);
    }
}

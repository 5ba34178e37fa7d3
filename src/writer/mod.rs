//! The one owner of the mutable tables. Drains requests, decides, applies, publishes one view, then
//! acknowledges.
//!
//! ```text
//!   lanes --drain--> [take] --small--> tables --+            +--> post boxes (answers, closes)
//!                       |                       +--> publish +
//!                       +--large--> [slow] -----+            +--> notifier
//!                       +--tables not whole--> [whole] (then as ever)
//!                       +--long lists--> [lists] (read only)
//!                       +--KV, settings--> [durable] <--> store thread
//!                                          [snapshots] --> another one
//! ```
//!
//! All that takes long is done in pieces, one or two a turn, each about half a millisecond: so long
//! a sign of life waits. What a large change makes is published when it is whole, see [`whole`].
//!
//! A broker reads its own write: its answer is posted after the publication, and a shard compares
//! pointers when it takes the answer out or later. Nothing here waits for anything but the
//! doorbell.

mod bearing;
mod durable;
mod hashing;
pub mod lane;
mod lists;
mod registration;
pub mod request;
mod slow;
mod snapshots;
#[cfg(test)]
mod tests;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tracing::{debug, info};

use crate::clock::{Clock, RunningClock, Tick};
use crate::complaints::Complaints;
use crate::ids::{BrokerName, ConnKey, MemberKey, Opaque, Topic};
use crate::limits::{SMALL_BODY_BYTES_MAX, WRITE_BATCH_MAX};
use crate::liveness::Liveness;
use crate::model::{DataVersion, QueueData};
use crate::notify::Notifier;
use crate::publish::Publisher;
use crate::ring::Doorbell;
use crate::route::{Departure, Restored, RouteTable};
use crate::shard::mail::PostBox;
use crate::wire::body;
use crate::wire::code::response;

pub use durable::{Durable, DurableFiles};
pub use snapshots::SnapshotFile;

use lane::{LaneReceivers, Received};
use lists::Lists;
use request::{ToShard, WriteAnswer, WriteOp};
use slow::Slow;
use snapshots::Snapshots;
use whole::Unfinished;

/// Bytes of large registrations that are digested in one turn as they come: a fraction of a
/// millisecond.
const GLANCE_BYTES_A_TURN: usize = 2 << 20;
/// Topics changed in one step, some tenths of a millisecond's work.
const TOPICS_A_STEP: usize = 512;

/// Longest sleep while brokers are registered: what keeps the running clock honest.
const WAKE_MS: u64 = 500;
/// What codes 217 and 322 are told about a body beyond [`SMALL_BODY_BYTES_MAX`].
const BODY_TOO_LARGE: &str =
    "the body is larger than 1 MiB: more than any broker sends with this code";
/// Lines about brokers that are written in [`NEWS_MS`]: a fleet that starts is seen, and a peer
/// that comes and goes all the time does not push out the log of yesterday.
const NEWS_MAX: u32 = 5_000;
/// One minute.
const NEWS_MS: u64 = 60_000;
/// Longest that expiry waits for the lanes to be empty.
const EXPIRY_DELAY_MS: u64 = 5_000;

/// What a writer is made of.
#[derive(Debug)]
pub struct WriterParts {
    /// Where requests come from, one lane a shard.
    pub lanes: LaneReceivers,
    /// Where answers go, by shard.
    pub posts: Vec<PostBox>,
    /// Rings when there is something to do.
    pub bell: Doorbell,
    /// Makes views visible.
    pub publisher: Publisher,
    /// KV table and settings with the files they are kept in.
    pub durable: Durable,
    /// The route table to begin with.
    pub restored: Restored,
    /// Where it is kept for the next start, if it is.
    pub snapshot: Option<SnapshotFile>,
    /// Tells brokers of new smallest ids.
    pub notifier: Notifier,
    /// Reads time.
    pub clock: Clock,
    /// Set before connections are closed because the server stops: such a close says nothing about
    /// a broker.
    pub leaving: Arc<AtomicBool>,
    /// Set, and the bell rung, when the writer should end.
    pub stop: Arc<AtomicBool>,
}

/// Changes the tables. Lives: writer core only. Shares: publishes `View`.
#[derive(Debug)]
pub struct Writer {
    parts: WriterParts,
    table: RouteTable,
    liveness: Liveness,
    running: RunningClock,
    slow: Slow,
    unfinished: Unfinished,
    lists: Lists,
    snapshots: Snapshots,
    answers: Vec<ToShard>,
    received: Vec<Received>,
    /// Brokers of connections that closed, to be removed together: with the next request that could
    /// see it, or by the end of the turn.
    gone: Vec<MemberKey>,
    /// Bytes of large registrations that may still be looked at in this turn to see whether they
    /// are known.
    glance_bytes: usize,
    expired: Vec<MemberKey>,
    expired_at: Tick,
    digest_seed: u64,
    /// Lines about requests that were refused.
    refusals: Complaints,
    /// Lines about brokers that come and go, and what is done to them.
    news: Complaints,
}

/// Whom to answer, if anybody.
#[derive(Clone, Copy, Debug)]
struct Asker {
    conn: ConnKey,
    reply_to: Option<Opaque>,
}

impl Writer {
    /// A writer that begins with the restored table. The brokers in it count as seen just now.
    #[must_use]
    pub fn new(mut parts: WriterParts) -> Writer {
        let now = parts.clock.now();
        let Restored { table, members, .. } = std::mem::take(&mut parts.restored);
        let mut liveness = Liveness::new();
        for (member, timeout_ms) in members {
            liveness.register(member, ConnKey::NONE, timeout_ms, now);
        }
        Writer {
            snapshots: Snapshots::new(parts.snapshot.take(), now),
            parts,
            table: table.in_steps_of(TOPICS_A_STEP),
            liveness,
            running: RunningClock::start(now),
            slow: Slow::default(),
            unfinished: Unfinished::default(),
            lists: Lists::default(),
            answers: Vec::new(),
            received: Vec::new(),
            gone: Vec::new(),
            glance_bytes: 0,
            expired: Vec::new(),
            expired_at: now,
            digest_seed: ahash::RandomState::new().hash_one(now),
            refusals: Complaints::default(),
            news: Complaints::new(NEWS_MAX, NEWS_MS),
        }
    }

    /// Works until told to stop; what was asked before that is answered, and what was acknowledged
    /// is on disk.
    pub fn run(mut self) {
        let mut sleep_ms = 0;
        loop {
            // Acquire pairs with the release of whoever asks to stop: requests it saw sent are in
            // the lanes.
            let stopping = self.parts.stop.load(Ordering::Acquire);
            let now = self.running.advance_after(sleep_ms, self.parts.clock.now());
            sleep_ms = 0;
            let busy = self.turn(now);
            if busy {
                continue;
            }
            if stopping && !self.parts.durable.is_saving() {
                break;
            }
            let pause_ms = self.sleep_ms(now);
            sleep_ms = pause_ms.unwrap_or_default();
            self.parts.bell.sleep(pause_ms.map(Duration::from_millis));
        }
        self.parts.durable.close();
        self.snapshots.close();
    }

    /// One turn: takes a batch, does a piece of what takes long, publishes once, answers. Whether
    /// more is waiting.
    fn turn(&mut self, now: Tick) -> bool {
        self.glance_bytes = GLANCE_BYTES_A_TURN;
        let mut received = std::mem::take(&mut self.received);
        self.parts.lanes.drain(WRITE_BATCH_MAX, &mut received);
        // Acquire pairs with the release of whoever stops the server: a close that came of it is
        // not among what was drained unless this sees the flag.
        let leaving = self.parts.leaving.load(Ordering::Acquire);
        self.keep_for_the_next_start(leaving);
        self.take_up_waiting(now);
        for request in received.drain(..) {
            self.take(request, now);
        }
        self.received = received;
        self.remove_gone();
        if !self.table.is_whole() {
            self.step();
            // Closes that came meanwhile wait.
            self.keep_for_the_next_start(leaving);
        } else if !self.unfinished.has_waiting() {
            self.work_slowly(now);
            self.remove_gone();
        }
        if let Some(view) = self.lists.work(&self.table, &mut self.answers) {
            self.parts.publisher.discard(view);
        }
        // A sign of life that waits in a lane counts: nobody is dropped before the lanes have been
        // read.
        let overdue = now.since_ms(self.expired_at) > EXPIRY_DELAY_MS;
        if self.table.is_whole() && (self.parts.lanes.is_empty() || overdue) {
            self.expire(now);
        }
        let durable_changed = self.parts.durable.turn(&mut self.answers);
        let table_changed = self.table.take_changed();
        if table_changed {
            self.snapshots.note_change();
        }
        if table_changed || durable_changed {
            let (kv, settings) = self.parts.durable.shown();
            self.parts.publisher.publish(self.table.freeze(), kv, settings);
        } else {
            self.parts.publisher.retire();
        }
        self.deliver();
        self.notify();
        if self.table.is_whole() {
            self.snapshots.turn(&self.table, &self.liveness, self.parts.clock.wall_ms(), now);
        }
        self.is_busy()
    }

    /// Begins the last snapshot when the server stops, as soon as the table is whole.
    fn keep_for_the_next_start(&mut self, leaving: bool) {
        if leaving && self.table.is_whole() {
            self.snapshots.leave(&self.table, &self.liveness, self.parts.clock.wall_ms());
        }
    }

    fn is_busy(&self) -> bool {
        !self.parts.lanes.is_empty()
            || !self.table.is_whole()
            || self.unfinished.has_waiting()
            || !self.slow.is_empty()
            || !self.lists.is_empty()
            || self.parts.publisher.is_freeing()
    }

    /// Takes one request: to be dealt with now, or where it has to queue.
    fn take(&mut self, received: Received, now: Tick) {
        if !is_blind(&received.request.op) {
            self.remove_gone();
        }
        if self.has_to_queue(&received) {
            self.note_life(&received, now);
            if let Some((received, stage)) = self.glance(received, now) {
                self.slow.push(received, self.parts.clock.wall_ms(), stage);
            }
        } else if self.has_to_wait(&received) {
            self.note_life(&received, now);
            self.unfinished.wait(received);
        } else {
            self.apply(received, now);
        }
    }

    /// How long there is nothing to do unless the bell rings; `None` is for ever.
    fn sleep_ms(&self, now: Tick) -> Option<u64> {
        let snapshot = self.snapshots.due_in_ms(now);
        let deadline = match self.liveness.next_deadline() {
            Some(deadline) => Some((deadline.since_ms(now) + 1).min(WAKE_MS)),
            // Somebody still holds a replaced view: it is dropped here as soon as he lets go.
            None => (self.parts.publisher.retired() > 0).then_some(WAKE_MS),
        };
        deadline.into_iter().chain(snapshot).min()
    }

    /// Whether the request must not be applied yet, since an earlier one that it bears on queues.
    fn has_to_queue(&mut self, received: &Received) -> bool {
        let conn = received.request.conn;
        if !matches!(received.request.op, WriteOp::ConnectionClosed) {
            return self.slow.takes(received);
        }
        // What a closed connection still had to say no longer counts. But a broker of it that is
        // about to move to another connection, by a registration in the queue, moves first.
        self.forget_requests(conn);
        let members = self.liveness.on_connection(conn);
        let mut names = members.iter().filter_map(|member| self.table.describe(*member));
        names.any(|(group, _)| self.slow.waits_for(group))
    }

    /// A sign of life counts when it arrives, however long its request has to queue.
    fn note_life(&mut self, received: &Received, now: Tick) {
        let (cluster, addr) = match &received.request.op {
            WriteOp::Register(register) => (&register.cluster, &register.addr),
            WriteOp::Heartbeat { cluster, addr }
            | WriteOp::QueryDataVersion { cluster, addr, .. } => (cluster, addr),
            _ => return,
        };
        for member in self.table.members_at(cluster, addr) {
            self.liveness.seen(*member, now);
        }
    }

    fn deliver(&mut self) {
        for message in self.answers.drain(..) {
            let conn = match &message {
                ToShard::Answer(answer) => answer.conn,
                ToShard::Close(conn) => *conn,
            };
            self.parts.posts[usize::from(conn.shard.0)].post(message);
        }
    }

    /// Hands over what brokers are to be told. After the publication: whoever is told and asks
    /// finds it so.
    fn notify(&mut self) {
        let notices = self.table.take_notices();
        if self.parts.durable.settings().notify_min_broker_id_changed {
            self.parts.notifier.send(notices);
        }
    }

    /// Applies a request that takes little time.
    fn apply(&mut self, received: Received, now: Tick) {
        let request = &received.request;
        let asker = Asker { conn: request.conn, reply_to: request.reply_to };
        match &request.op {
            WriteOp::Register(_) => self.register(&received, now),
            WriteOp::Unregister { cluster, addr, broker, .. } => {
                let departure = Departure { broker: broker.clone(), addr: addr.clone() };
                if let Some(member) = self.table.unregister(&departure) {
                    self.liveness.remove(member);
                    if let Some(left_out) = self.news.may_write(now) {
                        let what = "unregisterBroker, remove from brokerLiveTable OK";
                        info!(left_out, %cluster, %broker, %addr, "{what}");
                    }
                }
                self.answer_change(asker, Answer::success());
            }
            WriteOp::Heartbeat { cluster, addr } => {
                for member in self.table.members_at(cluster, addr) {
                    self.liveness.seen(*member, now);
                }
                self.answer(asker, Answer::success());
            }
            WriteOp::QueryDataVersion { cluster, addr, body } => {
                let reply = self.query_data_version(cluster, addr, body, now);
                self.answer(asker, reply);
            }
            WriteOp::RegisterTopic { topic, body } => {
                let reply = self.register_topic(topic, body);
                self.answer(asker, reply);
            }
            WriteOp::DeleteTopic { topic, cluster } => {
                self.table.delete_topic(topic, cluster.as_deref());
                self.answer(asker, Answer::success());
            }
            WriteOp::SetWritePerm { broker, on } => {
                let count = self.table.set_write_perm(broker, *on).to_string();
                if let Some(left_out) = self.news.may_write(now) {
                    let what = "write permission of a group changed";
                    info!(left_out, %broker, on, topics = count, "{what}");
                }
                let name = if *on { "addTopicCount" } else { "wipeTopicCount" };
                self.answer_change(asker, Answer::success().with(vec![(name, count)]));
            }
            WriteOp::PutKv { .. } | WriteOp::DeleteKv { .. } | WriteOp::UpdateSettings { .. } => {
                self.parts.durable.change(received);
            }
            WriteOp::ListTopics(list) => {
                let list = list.clone();
                self.lists.push(list, received);
            }
            WriteOp::ConnectionClosed => self.connection_closed(request.conn),
        }
    }

    fn register_topic(&mut self, topic: &Topic, body: &Bytes) -> Answer {
        if body.len() > SMALL_BODY_BYTES_MAX {
            return Answer::refused(response::SYSTEM_ERROR, BODY_TOO_LARGE);
        }
        match body::topic_queues::decode(body) {
            Ok(queues) => {
                // The last of each broker counts, as in Java's map.
                let last: BTreeMap<BrokerName, QueueData> =
                    queues.into_iter().map(|data| (data.broker.clone(), data)).collect();
                let queues: Vec<QueueData> = last.into_values().collect();
                if !queues.is_empty() && !self.table.register_topic(topic, &queues) {
                    debug!(%topic, "topic not stored: it names a broker not registered");
                }
                Answer::success()
            }
            Err(error) => Answer::refused(response::SYSTEM_ERROR, error.to_string()),
        }
    }

    fn query_data_version(&mut self, cluster: &str, addr: &str, body: &Bytes, now: Tick) -> Answer {
        if body.len() > SMALL_BODY_BYTES_MAX {
            return Answer::refused(response::SYSTEM_ERROR, BODY_TOO_LARGE);
        }
        let asked = match body::data_version::decode(body, self.parts.clock.wall_ms()) {
            Ok(asked) => asked,
            Err(error) => {
                return Answer::refused(response::SYSTEM_ERROR, error.to_string());
            }
        };
        let mut stored: Option<DataVersion> = None;
        // A broker that is told "unchanged" need not register, and one from a snapshot has to.
        let mut changed = false;
        for member in self.table.members_at(cluster, addr) {
            self.liveness.seen(*member, now);
            stored = self.table.data_version(*member);
            changed |= self.table.is_restored(*member);
        }
        changed |= stored.is_none() || stored != asked;
        let mut reply = Answer::success().with(vec![("changed", changed.to_string())]);
        if let Some(version) = stored {
            let mut out = Vec::new();
            body::data_version::encode(&version, &mut out);
            reply.body = out.into();
        }
        reply
    }

    fn forget_requests(&mut self, conn: ConnKey) {
        for received in self.slow.forget(conn) {
            // Its shard still counts on an answer, though nobody will read it.
            let asker = Asker { conn, reply_to: received.request.reply_to };
            let reply = Answer::refused(response::SYSTEM_ERROR, "the connection closed");
            push_answer(&mut self.answers, asker, reply);
        }
    }

    /// All brokers of the connection go, in one step; Java drops one and leaves the others to their
    /// timeout. Those of connections that close together go together: a topic that they share is
    /// changed once.
    fn connection_closed(&mut self, conn: ConnKey) {
        for member in self.liveness.on_connection(conn) {
            self.log_gone(member, "the broker's connection closed, broker dropped");
            self.liveness.remove(member);
            self.gone.push(member);
        }
    }

    /// Removes the brokers of closed connections.
    fn remove_gone(&mut self) {
        if !self.gone.is_empty() {
            self.table.remove_members(&self.gone);
            self.gone.clear();
            self.check();
        }
    }

    fn expire(&mut self, now: Tick) {
        self.expired_at = now;
        let mut expired = std::mem::take(&mut self.expired);
        self.liveness.expired(now, &mut expired);
        for member in &expired {
            self.log_gone(*member, "The broker channel expired, broker dropped");
            let conn = self.liveness.remove(*member);
            let conn = conn.filter(|conn| *conn != ConnKey::NONE);
            // Others on the connection are alive: a container's brokers share one.
            if let Some(conn) = conn.filter(|conn| self.liveness.on_connection(*conn).is_empty()) {
                self.answers.push(ToShard::Close(conn));
            }
        }
        if !expired.is_empty() {
            self.table.remove_members(&expired);
            expired.clear();
        }
        self.expired = expired;
    }

    fn log_gone(&mut self, member: MemberKey, what: &str) {
        if let Some((broker, addr)) = self.table.describe(member)
            && let Some(left_out) = self.news.may_write(self.running.now())
        {
            info!(left_out, %broker, %addr, "{what}");
        }
    }

    fn answer(&mut self, asker: Asker, reply: Answer) {
        push_answer(&mut self.answers, asker, reply);
    }
}

/// Whether the operation cannot tell if brokers whose connections closed are still there.
fn is_blind(op: &WriteOp) -> bool {
    matches!(op, WriteOp::ConnectionClosed | WriteOp::Heartbeat { .. })
}

/// An answer without its address.
#[derive(Debug)]
struct Answer {
    code: i32,
    remark: Option<std::borrow::Cow<'static, str>>,
    ext: Option<Vec<(&'static str, String)>>,
    body: Bytes,
}

impl Answer {
    fn success() -> Answer {
        Answer { code: response::SUCCESS, remark: None, ext: None, body: Bytes::new() }
    }

    fn refused(code: i32, remark: impl Into<std::borrow::Cow<'static, str>>) -> Answer {
        Answer { code, remark: Some(remark.into()), ext: None, body: Bytes::new() }
    }

    fn with(mut self, ext: Vec<(&'static str, String)>) -> Answer {
        self.ext = Some(ext);
        self
    }
}

fn push_answer(answers: &mut Vec<ToShard>, asker: Asker, reply: Answer) {
    let Some(opaque) = asker.reply_to else {
        return;
    };
    answers.push(ToShard::Answer(WriteAnswer {
        conn: asker.conn,
        opaque,
        code: reply.code,
        remark: reply.remark,
        ext: reply.ext,
        body: reply.body,
    }));
}

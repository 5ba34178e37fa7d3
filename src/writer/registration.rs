//! Registration (103) on the writer: recognised, or checked, decoded, decided, applied, answered.

use std::collections::HashSet;

use crate::clock::Tick;
use crate::ids::{BrokerName, MemberKey};
use crate::limits::HEARTBEAT_TIMEOUT_MS;
use crate::model::{ORDER_NAMESPACE, QueueMapping};
use crate::route::{Master, Refused, Registered, Registration};
use crate::wire::BodyError;
use crate::wire::body::register::{Layout, RegisterBody, RegisterDecoder, Step};
use crate::wire::code::response;
use tracing::{debug, info};

use super::hashing::{Checking, Digesting};
use super::lane::Received;
use super::request::{RegisterRequest, WriteOp};
use super::slow::{Digest, Piecework, Stage, is_large};
use super::{Answer, Asker, Writer, is_blind};

/// Topics or mappings decoded in one piece, about half a millisecond's work.
const ENTRIES_A_PIECE: usize = 1024;
/// Bytes digested, or checked, in one piece, about half a millisecond's work.
const HASHED_A_PIECE: usize = 2 << 20;
/// Requests of the slow queue that are finished in one turn, registrations excepted.
const SLOW_REQUESTS_A_TURN: usize = 64;

impl Writer {
    /// Registers from a body small enough to decode at once.
    pub(super) fn register(&mut self, received: &Received, now: Tick) {
        let Some(request) = register_request(received) else {
            return;
        };
        let (asker, deletes_missing) = (asker(received), self.deletes_missing());
        let digest = request.digest(deletes_missing, self.digest_seed);
        if let Some(member) = self.known(request, digest) {
            return self.registered_again(request, asker, member, now);
        }
        if !request.is_intact() {
            return self.refuse_damaged(request, asker, now);
        }
        let mut decoder = decoder(request, self.parts.clock.wall_ms());
        let decoded = loop {
            match decoder.step(ENTRIES_A_PIECE) {
                Ok(Step::More) => {}
                Ok(Step::Done(body)) => break Ok(body),
                Err(error) => break Err(error),
            }
        };
        self.after_decoding(request, asker, Digest { digest, deletes_missing }, decoded, now);
    }

    /// Looks whether a registration that is about to queue is known already: then it is settled, as
    /// a sign of life, and need not. What it costs is bounded for each turn.
    pub(super) fn glance(&mut self, received: Received, now: Tick) -> Option<(Received, Stage)> {
        let Some(request) = register_request(&received) else {
            return Some((received, Stage::Arrived));
        };
        let bears = self.slow.bearing().is_on(&received.request)
            || self.unfinished.bears_on(&received.request);
        if bears || !is_large(request) || request.body.len() > self.glance_bytes {
            return Some((received, Stage::Arrived));
        }
        self.glance_bytes -= request.body.len();
        let deletes_missing = self.deletes_missing();
        let digest = request.digest(deletes_missing, self.digest_seed);
        if let Some(member) = self.known(request, digest) {
            self.registered_again(request, asker(&received), member, now);
            return None;
        }
        let digest = Digest { digest, deletes_missing };
        Some((received, Stage::Checking(digest, Checking::default())))
    }

    /// Works on the slow queue until a piece of a large registration is done, or
    /// [`SLOW_REQUESTS_A_TURN`] other requests.
    pub(super) fn work_slowly(&mut self, now: Tick) {
        for _ in 0..SLOW_REQUESTS_A_TURN {
            let Some(Piecework { received, wall_ms, stage }) = self.slow.take() else {
                return;
            };
            if !is_blind(&received.request.op) {
                self.remove_gone();
            }
            if !self.table.is_whole() {
                return self.slow.put_back(Piecework { received, wall_ms, stage });
            }
            if let WriteOp::Register(request) = &received.request.op {
                match self.work_on(request, asker(&received), wall_ms, stage, now) {
                    Some(stage) => self.slow.put_back(Piecework { received, wall_ms, stage }),
                    None if self.table.is_whole() => self.slow.done(&received),
                    None => self.slow.apply(received),
                }
                return;
            }
            self.slow.done(&received);
            self.apply(received, now);
        }
    }

    /// Does a piece of a registration; says where to go on if it is not done.
    fn work_on(
        &mut self,
        request: &RegisterRequest,
        asker: Asker,
        wall_ms: i64,
        stage: Stage,
        now: Tick,
    ) -> Option<Stage> {
        match stage {
            Stage::Arrived => {
                let digesting = Digesting::new(request, self.deletes_missing(), self.digest_seed);
                let stage = Stage::Digesting(Box::new(digesting));
                self.work_on(request, asker, wall_ms, stage, now)
            }
            Stage::Digesting(mut digesting) => {
                let Some(digest) = digesting.step(&request.body, HASHED_A_PIECE) else {
                    return Some(Stage::Digesting(digesting));
                };
                if let Some(member) = self.known(request, digest) {
                    self.registered_again(request, asker, member, now);
                    return None;
                }
                let digest = Digest { digest, deletes_missing: digesting.deletes_missing };
                Some(Stage::Checking(digest, Checking::default()))
            }
            Stage::Checking(digest, mut checking) => match checking.step(request, HASHED_A_PIECE) {
                None => Some(Stage::Checking(digest, checking)),
                Some(true) => Some(Stage::Decoding(digest, Box::new(decoder(request, wall_ms)))),
                Some(false) => {
                    self.refuse_damaged(request, asker, now);
                    None
                }
            },
            Stage::Decoding(digest, mut decoder) => {
                let decoded = match decoder.step(ENTRIES_A_PIECE) {
                    Ok(Step::More) => return Some(Stage::Decoding(digest, decoder)),
                    Ok(Step::Done(body)) => Ok(body),
                    Err(error) => Err(error),
                };
                self.after_decoding(request, asker, digest, decoded, now);
                None
            }
        }
    }

    pub(super) fn deletes_missing(&self) -> bool {
        self.parts.durable.settings().delete_topic_with_broker_registration
    }

    /// The broker, if its registration says what is known already.
    ///
    /// What is known is not checked against its checksum: the digest is that of a request that was,
    /// with the same bytes and the same checksum.
    pub(super) fn known(&self, request: &RegisterRequest, digest: u128) -> Option<MemberKey> {
        self.table.recognise(&request.cluster, &request.broker, &request.addr, digest)
    }

    fn registered_again(
        &mut self,
        request: &RegisterRequest,
        asker: Asker,
        member: MemberKey,
        now: Tick,
    ) {
        self.liveness.register(member, asker.conn, timeout_ms(request), now);
        let reply = self.registered_reply(self.table.master_told_to(member));
        self.answer(asker, reply);
    }

    fn refuse_damaged(&mut self, request: &RegisterRequest, asker: Asker, now: Tick) {
        if let Some(left_out) = self.refusals.may_write(now) {
            let RegisterRequest { broker, addr, .. } = request;
            info!(left_out, %broker, %addr, "register: crc32 differs");
        }
        let reply = Answer::refused(response::SYSTEM_ERROR, "crc32 not match");
        self.answer(asker, reply.with(vec![]));
    }

    fn after_decoding(
        &mut self,
        request: &RegisterRequest,
        asker: Asker,
        digest: Digest,
        decoded: Result<RegisterBody, BodyError>,
        now: Tick,
    ) {
        let body = match decoded {
            Ok(body) => body,
            Err(error) => {
                if let Some(left_out) = self.refusals.may_write(now) {
                    let RegisterRequest { broker, addr, .. } = request;
                    info!(left_out, %broker, %addr, %error, "register refused");
                }
                let remark = format!("register broker failed: {error}");
                return self.answer(asker, Answer::refused(response::SYSTEM_ERROR, remark));
            }
        };
        let known = !self.table.members_at(&request.cluster, &request.addr).is_empty();
        let registration = request.registration(body, digest.deletes_missing, digest.digest);
        let outcome = self.table.register(registration);
        self.check();
        let reply = match outcome {
            Ok(Registered { member, master, displaced }) => {
                self.displace(&displaced);
                self.liveness.register(member, asker.conn, timeout_ms(request), now);
                if !known && let Some(left_out) = self.news.may_write(now) {
                    let RegisterRequest { cluster, broker, addr, id, .. } = request;
                    info!(left_out, %cluster, %broker, %addr, id = id.0, "new broker registered");
                }
                self.registered_reply(master)
            }
            Err(Refused::SingleTopic) => {
                debug!(broker = %request.broker, addr = %request.addr, "one topic, not registered");
                let reply = Answer::refused(response::SYSTEM_ERROR, "register broker failed");
                reply.with(vec![])
            }
            Err(Refused::Stale { displaced }) => {
                if let Some(left_out) = self.refusals.may_write(now) {
                    let RegisterRequest { broker, addr, id, .. } = request;
                    let what = "register ignored: another address holds the id in a newer state";
                    info!(left_out, %broker, %addr, id = id.0, "{what}");
                }
                self.displace(displaced.as_slice());
                self.registered_reply(None)
            }
        };
        self.answer_change(asker, reply);
    }

    fn displace(&mut self, members: &[MemberKey]) {
        for member in members {
            self.liveness.remove(*member);
        }
    }

    fn registered_reply(&self, master: Option<Master>) -> Answer {
        let mut ext = Vec::new();
        if let Some(Master { addr, ha_addr }) = master {
            ext.extend(ha_addr.map(|ha_addr| ("haServerAddr", ha_addr)));
            ext.push(("masterAddr", addr.to_string()));
        }
        let mut reply = Answer::success().with(ext);
        if self.parts.durable.settings().return_order_topic_config_to_broker {
            let (kv, _) = self.parts.durable.shown();
            reply.body = kv.encoded(ORDER_NAMESPACE).cloned().unwrap_or_default();
        }
        reply
    }
}

impl RegisterRequest {
    /// What it asks of the table, with its decoded body and its digest.
    #[must_use]
    pub fn registration(
        &self,
        body: RegisterBody,
        delete_missing_topics: bool,
        digest: u128,
    ) -> Registration {
        Registration {
            cluster: self.cluster.clone(),
            broker: self.broker.clone(),
            addr: self.addr.clone(),
            id: self.id,
            ha_addr: self.ha_addr.clone(),
            acting_master: self.acting_master,
            zone: self.zone.clone(),
            data_version: body.data_version,
            topics: body.topics,
            mappings: own_mappings(body.mappings, &self.broker),
            filter_servers: body.filter_servers,
            delete_missing_topics,
            digest,
        }
    }
}

fn decoder(request: &RegisterRequest, wall_ms: i64) -> RegisterDecoder {
    let layout = Layout::of(request.version, request.compressed, &request.body);
    RegisterDecoder::new(request.body.clone(), layout, wall_ms)
}

fn asker(received: &Received) -> Asker {
    Asker { conn: received.request.conn, reply_to: received.request.reply_to }
}

fn register_request(received: &Received) -> Option<&RegisterRequest> {
    match &received.request.op {
        WriteOp::Register(request) => Some(request),
        _ => None,
    }
}

/// A broker's parts of static topics, the last of each topic as in Java's map. One in another
/// group's name, which Java stores and never cleans up, is left out.
fn own_mappings(all: Vec<QueueMapping>, broker: &BrokerName) -> Vec<QueueMapping> {
    let mut seen = HashSet::new();
    let own = all.into_iter().rev().filter(|mapping| mapping.broker == *broker);
    own.filter(|mapping| seen.insert(mapping.topic.clone())).collect()
}

/// Heartbeat timeout of the registering broker. A negative one, which Java lets expire at once,
/// counts as none given.
fn timeout_ms(request: &RegisterRequest) -> u64 {
    let given = request.heartbeat_timeout_ms.and_then(|ms| u64::try_from(ms).ok());
    given.unwrap_or(HEARTBEAT_TIMEOUT_MS)
}

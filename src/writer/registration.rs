//! Registration (103) on the writer: checked, recognised or decoded, decided, applied, answered.

use std::collections::HashSet;

use tracing::{debug, info};
use xxhash_rust::xxh3::Xxh3;

use crate::clock::Tick;
use crate::ids::{BrokerName, MemberKey};
use crate::limits::HEARTBEAT_TIMEOUT_MS;
use crate::model::{ORDER_NAMESPACE, QueueMapping};
use crate::route::{Master, Refused, Registered, Registration};
use crate::wire::BodyError;
use crate::wire::body::register::{Layout, RegisterBody, RegisterDecoder, Step};
use crate::wire::code::response;

use super::lane::Received;
use super::request::{RegisterRequest, WriteOp};
use super::slow::Decoding;
use super::{Asker, Reply, Writer};

/// Topics or mappings decoded in one piece, about a millisecond's work.
const ENTRIES_A_PIECE: usize = 1024;
/// Requests of the slow queue that are finished in one turn.
const SLOW_REQUESTS_A_TURN: usize = 64;

impl Writer {
    /// Registers from a body small enough to decode at once.
    pub(super) fn register(&mut self, received: Received, now: Tick) {
        let Some(request) = register_request(&received) else {
            return;
        };
        let asker = asker(&received);
        let digest = match self.before_decoding(request, asker, now) {
            Before::Settled => return,
            Before::Decode { digest } => digest,
        };
        let layout = Layout::of(request.version, request.compressed, &request.body);
        let wall_ms = self.parts.clock.wall_ms();
        let mut decoder = RegisterDecoder::new(request.body.clone(), layout, wall_ms);
        let decoded = loop {
            match decoder.step(ENTRIES_A_PIECE) {
                Ok(Step::More) => {}
                Ok(Step::Done(body)) => break Ok(body),
                Err(error) => break Err(error),
            }
        };
        self.after_decoding(request, asker, digest, decoded, now);
    }

    /// Works on the slow queue until one piece of a large registration is decoded, or
    /// [`SLOW_REQUESTS_A_TURN`] requests are done.
    pub(super) fn work_slowly(&mut self, now: Tick) {
        for _ in 0..SLOW_REQUESTS_A_TURN {
            let Some(decoding) = self.slow.take() else {
                return;
            };
            if let Some(unfinished) = self.work_on(decoding, now) {
                return self.slow.put_back(unfinished);
            }
        }
    }

    /// Does a piece of a request; gives it back if it is not done.
    fn work_on(&mut self, mut decoding: Decoding, now: Tick) -> Option<Decoding> {
        let Some(request) = register_request(&decoding.received) else {
            self.slow.done(&decoding.received);
            self.apply(decoding.received, now);
            return None;
        };
        let asker = asker(&decoding.received);
        if decoding.decoder.is_none() {
            match self.before_decoding(request, asker, now) {
                Before::Settled => {
                    self.slow.done(&decoding.received);
                    return None;
                }
                Before::Decode { digest } => decoding.digest = digest,
            }
        }
        let decoder = decoding.decoder.get_or_insert_with(|| {
            let layout = Layout::of(request.version, request.compressed, &request.body);
            RegisterDecoder::new(request.body.clone(), layout, decoding.wall_ms)
        });
        let decoded = match decoder.step(ENTRIES_A_PIECE) {
            Ok(Step::More) => return Some(decoding),
            Ok(Step::Done(body)) => Ok(body),
            Err(error) => Err(error),
        };
        self.after_decoding(request, asker, decoding.digest, decoded, now);
        self.slow.done(&decoding.received);
        None
    }

    /// Settles what needs no decoding: a body that says what is known already, and a damaged one.
    ///
    /// What is known is not checked against its checksum: the digest is that of a request that was,
    /// with the same bytes and the same checksum.
    fn before_decoding(&mut self, request: &RegisterRequest, asker: Asker, now: Tick) -> Before {
        let delete_missing = self.parts.durable.settings().delete_topic_with_broker_registration;
        let digest = request.digest(delete_missing, self.digest_seed);
        let known = self.table.recognise(&request.cluster, &request.broker, &request.addr, digest);
        if let Some(member) = known {
            self.liveness.register(member, asker.conn, timeout_ms(request), now);
            let master = self.table.master_told_to(member);
            self.answer_registered(asker, master);
            return Before::Settled;
        }
        if !request.is_intact() {
            if let Some(left_out) = self.refusals.may_write(now) {
                let RegisterRequest { broker, addr, .. } = request;
                info!(left_out, %broker, %addr, "register: crc32 differs");
            }
            let reply = Reply::refused(response::SYSTEM_ERROR, "crc32 not match");
            self.answer(asker, reply.with(vec![]));
            return Before::Settled;
        }
        Before::Decode { digest }
    }

    fn after_decoding(
        &mut self,
        request: &RegisterRequest,
        asker: Asker,
        digest: u128,
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
                return self.answer(asker, Reply::refused(response::SYSTEM_ERROR, remark));
            }
        };
        let known = !self.table.members_at(&request.cluster, &request.addr).is_empty();
        let outcome = self.table.register(self.registration(request, body, digest));
        self.check();
        match outcome {
            Ok(Registered { member, master, displaced }) => {
                self.displace(&displaced);
                self.liveness.register(member, asker.conn, timeout_ms(request), now);
                if !known && let Some(left_out) = self.news.may_write(now) {
                    let RegisterRequest { cluster, broker, addr, id, .. } = request;
                    info!(left_out, %cluster, %broker, %addr, id = id.0, "new broker registered");
                }
                self.answer_registered(asker, master);
            }
            Err(Refused::SingleTopic) => {
                debug!(broker = %request.broker, addr = %request.addr, "one topic, not registered");
                let reply = Reply::refused(response::SYSTEM_ERROR, "register broker failed");
                self.answer(asker, reply.with(vec![]));
            }
            Err(Refused::Stale { displaced }) => {
                if let Some(left_out) = self.refusals.may_write(now) {
                    let RegisterRequest { broker, addr, id, .. } = request;
                    let what = "register ignored: another address holds the id in a newer state";
                    info!(left_out, %broker, %addr, id = id.0, "{what}");
                }
                self.displace(displaced.as_slice());
                self.answer_registered(asker, None);
            }
        }
    }

    fn registration(
        &self,
        request: &RegisterRequest,
        body: RegisterBody,
        digest: u128,
    ) -> Registration {
        let settings = self.parts.durable.settings();
        Registration {
            cluster: request.cluster.clone(),
            broker: request.broker.clone(),
            addr: request.addr.clone(),
            id: request.id,
            ha_addr: request.ha_addr.clone(),
            acting_master: request.acting_master,
            zone: request.zone.clone(),
            data_version: body.data_version,
            topics: body.topics,
            mappings: own_mappings(body.mappings, &request.broker),
            filter_servers: body.filter_servers,
            delete_missing_topics: settings.delete_topic_with_broker_registration,
            digest,
        }
    }

    fn displace(&mut self, members: &[MemberKey]) {
        for member in members {
            self.liveness.remove(*member);
        }
    }

    fn answer_registered(&mut self, asker: Asker, master: Option<Master>) {
        let mut ext = Vec::new();
        if let Some(Master { addr, ha_addr }) = master {
            ext.extend(ha_addr.map(|ha_addr| ("haServerAddr", ha_addr)));
            ext.push(("masterAddr", addr.to_string()));
        }
        let mut reply = Reply::success().with(ext);
        if self.parts.durable.settings().return_order_topic_config_to_broker {
            let (kv, _) = self.parts.durable.shown();
            reply.body = kv.encoded(ORDER_NAMESPACE).cloned().unwrap_or_default();
        }
        self.answer(asker, reply);
    }

    fn check(&self) {
        // The full sweep, where it is cheap enough for tests that drive a whole server.
        #[cfg(debug_assertions)]
        if self.table.freeze().topic_count() < 256 {
            self.table.check_invariants();
        }
    }
}

/// What is known of a registration before its body is decoded.
enum Before {
    Settled,
    Decode { digest: u128 },
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

impl RegisterRequest {
    /// Whether the body has the checksum that came with it, if one did.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        // Java masks the sign bit away (`UtilAll.crc32`).
        let crc = || crc32fast::hash(&self.body) & 0x7FFF_FFFF;
        self.body_crc32 == 0 || i64::from(crc()) == i64::from(self.body_crc32)
    }

    /// Stands for everything that decides what a registration does: two with equal digests do the
    /// same to the same group. 128 bits with a seed of this process, so that nobody can make two of
    /// them meet.
    #[must_use]
    pub fn digest(&self, delete_missing: bool, seed: u64) -> u128 {
        let mut hash = Xxh3::with_seed(seed);
        let mut text = |text: Option<&str>| {
            let length = text.map_or(u64::MAX, |text| text.len() as u64);
            hash.update(&length.to_le_bytes());
            hash.update(text.unwrap_or_default().as_bytes());
        };
        text(Some(&self.cluster));
        text(Some(&self.broker));
        text(Some(&self.addr));
        text(self.ha_addr.as_deref());
        text(self.zone.as_deref());
        hash.update(&self.id.0.to_le_bytes());
        hash.update(&self.version.to_le_bytes());
        hash.update(&self.body_crc32.to_le_bytes());
        let acting = self.acting_master.map_or(2, u8::from);
        hash.update(&[acting, u8::from(self.compressed), u8::from(delete_missing)]);
        hash.update(&self.body);
        hash.digest128()
    }
}

//! TLS between ring and connection: where a connection has a channel, its bytes pass through it.

use std::collections::VecDeque;

use super::{Driver, Reason, Seat, seat_mut, seconds};
use crate::clock::Tick;
use crate::limits::{TLS_HANDSHAKE_S, TLS_HANDSHAKES_PER_TURN};
use crate::ring::Key;
use crate::shard::access::{Access, Door};
use crate::shard::buffers::Spares;
use crate::shard::connection::Fault;
use crate::shard::idle::IdleWheel;
use crate::shard::service::Service;
use crate::tls::options::Mode;
use crate::tls::{Channel, ChannelError, Progress, Tls};

/// What a shard serves TLS with. Lives: one per shard.
pub(super) struct Secure {
    pub tls: Tls,
    /// Connections in their handshake; `None` if there is no TLS.
    handshakes: Option<IdleWheel>,
    /// Connections whose hello has come and is not answered, in that order; some may be gone.
    waiting: VecDeque<Key>,
    /// How many of them, at the end, were added in this turn.
    added: usize,
}

impl Secure {
    pub(super) fn new(tls: Tls, connections_max: u32, now_s: u32) -> Secure {
        // One second more: the beginning is noted in whole seconds.
        let handshakes = (tls.mode() != Mode::Disabled)
            .then(|| IdleWheel::new(TLS_HANDSHAKE_S + 1, connections_max, now_s));
        Secure { tls, handshakes, waiting: VecDeque::new(), added: 0 }
    }

    /// True if there is work without an event.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The connection's handshake is done, or the connection is gone.
    pub(super) fn forget(&mut self, key: Key) {
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.remove(key.slot);
        }
    }

    /// When the next handshake is overdue.
    pub(super) fn next(&self) -> Option<Tick> {
        let second = self.handshakes.as_ref()?.next_s()?;
        Some(Tick(u64::from(second) * 1000))
    }
}

impl Seat {
    /// True if there are bytes that the ring does not have yet.
    pub(super) fn has_output(&self) -> bool {
        self.connection.has_output() || self.channel.as_ref().is_some_and(|c| c.has_output())
    }

    /// True if all that was to be sent has been.
    pub(super) fn flushed(&self) -> bool {
        self.connection.flushed() && self.channel.as_ref().is_none_or(|c| c.flushed())
    }

    /// True if nothing is to be sent any more and no answer will come.
    pub(super) fn quiet(&self) -> bool {
        self.connection.quiet() && self.flushed()
    }

    /// Ends the channel. True if there is something to send for that.
    pub(super) fn end_channel(&mut self, spares: &mut Spares) -> bool {
        let Some(channel) = &mut self.channel else { return false };
        if channel.is_closed() {
            return channel.has_output();
        }
        channel.lend(|| spares.take());
        channel.close();
        if let Some(buffer) = channel.reclaim() {
            spares.give(buffer);
        }
        channel.has_output()
    }

    /// Takes the next bytes for the ring, sealed if there is a channel.
    pub(super) fn take_output(
        &mut self,
        spares: &mut Spares,
    ) -> Result<Option<Vec<u8>>, ChannelError> {
        let Some(channel) = &mut self.channel else { return Ok(self.connection.take_output()) };
        if channel.is_sending() {
            return Ok(None);
        }
        if let Some(plain) = self.connection.take_output() {
            channel.lend(|| spares.take());
            let sealed = channel.seal(&plain);
            spares.give(plain);
            sealed?;
        }
        let output = channel.take_output();
        if output.is_none() {
            // Dropped, because the channel has been closed.
            self.connection.sent();
        }
        Ok(output)
    }

    /// All of what [`Seat::take_output`] gave has been sent.
    pub(super) fn sent(&mut self) {
        self.connection.sent();
        if let Some(channel) = &mut self.channel {
            channel.sent();
        }
    }

    /// Serves what received ciphertext holds.
    pub(super) fn open<S: Service>(
        &mut self,
        bytes: &[u8],
        service: &mut S,
        spares: &mut Spares,
    ) -> (Progress, Result<(), Fault>) {
        let Seat { channel: Some(channel), connection, .. } = self else {
            debug_assert!(false, "asked only where there is a channel");
            return (Progress::default(), Ok(()));
        };
        let mut plain = spares.take();
        channel.lend(|| spares.take());
        let opened = channel.received(bytes, &mut plain);
        if let Some(buffer) = channel.reclaim() {
            spares.give(buffer);
        }
        let mut result = Ok(());
        if !plain.is_empty() {
            // What a load balancer says comes before TLS, so nothing is asked here.
            let door = Door { access: &Access::default(), peer: &|| None };
            result = service.batch(|requests| connection.received(&plain, &door, requests));
        }
        spares.give(plain);
        match opened {
            Ok(progress) => (progress, result),
            Err(error) => (Progress::default(), result.and(Err(Fault::Channel(error)))),
        }
    }
}

impl<S: Service> Driver<S> {
    /// A hello has begun on the connection: it waits for its turn, since answering it costs a
    /// signature, as much as hundreds of queries.
    pub(super) fn expect_handshake(&mut self, key: Key) {
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        if seat.hello_waits {
            return self.weigh(key);
        }
        seat.hello_waits = true;
        if self.secure.waiting.len() > self.seats.len() {
            // Connections that went before their turn.
            let seats = &mut self.seats;
            self.secure.waiting.retain(|key| seat_mut(seats, *key).is_some());
        }
        self.secure.waiting.push_back(key);
        self.secure.added += 1;
    }

    /// Answers the hellos that came first, as many as one turn may take. The others read nothing
    /// meanwhile.
    pub(super) fn begin_handshakes(&mut self) {
        let mut begun = 0;
        while begun < TLS_HANDSHAKES_PER_TURN {
            let Some(key) = self.secure.waiting.pop_front() else { break };
            let Some(seat) = seat_mut(&mut self.seats, key) else { continue };
            seat.hello_waits = false;
            if seat.leaving.is_some() {
                continue;
            }
            begun += 1;
            let (progress, result) = self.begin_tls(key);
            self.settle(key, result);
            self.progressed(key, progress);
        }
        let added = std::mem::take(&mut self.secure.added);
        let old = self.secure.waiting.len().saturating_sub(added);
        for at in old..self.secure.waiting.len() {
            self.settle(self.secure.waiting[at], Ok(()));
        }
    }

    /// Gives a connection its channel, if TLS has begun on it.
    fn begin_tls(&mut self, key: Key) -> (Progress, Result<(), Fault>) {
        let nothing = Progress::default();
        let Driver { seats, secure, service, spares, .. } = self;
        let Some(seat) = seat_mut(seats, key) else { return (nothing, Ok(())) };
        let Some(hello) = seat.connection.take_hello() else { return (nothing, Ok(())) };
        let Some(config) = secure.tls.config() else { return (nothing, Err(Fault::Tls)) };
        match Channel::new(config) {
            Ok(channel) => seat.channel = Some(Box::new(channel)),
            Err(error) => return (nothing, Err(Fault::Channel(error))),
        }
        let outcome = seat.open(&hello, service, spares);
        seat.tls_since_s = seconds(self.now);
        let due_s = match &mut secure.handshakes {
            Some(handshakes) => handshakes.insert(key.slot, seat.tls_since_s),
            None => return outcome,
        };
        self.alarm(Tick(u64::from(due_s) * 1000));
        outcome
    }

    /// Draws the consequences of what a channel has learnt.
    pub(super) fn progressed(&mut self, key: Key, progress: Progress) {
        if progress.established {
            self.counters.tls_handshakes.add(1);
            self.secure.forget(key);
        }
        if progress.ended {
            self.leave(key, Reason::Peer);
        }
    }

    /// Closes connections whose handshake takes too long.
    pub(super) fn close_unready(&mut self) {
        let Some(handshakes) = &mut self.secure.handshakes else { return };
        let seats = &self.seats;
        let since = |slot: u32| seats[slot as usize].as_ref().map_or(0, |seat| seat.tls_since_s);
        let mut due = Vec::new();
        handshakes.expire(seconds(self.now), since, &mut due);
        for slot in due {
            let Some(seat) = &self.seats[slot as usize] else { continue };
            let key = super::ring_key(seat.connection.key());
            self.complain(key, &format_args!("no TLS handshake within {TLS_HANDSHAKE_S} s"));
            self.close(key, Reason::Tls);
        }
    }
}

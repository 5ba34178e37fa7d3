//! What becomes of a connection between its first byte and its last, and what is due by time.

use std::fmt;
use std::io;

use super::budget::Held;
use super::{Alarms, Driver, Reason, Seat, peer_ip, seat_mut, seconds};
use crate::clock::Tick;
use crate::ids::ConnKey;
use crate::limits::{ACCEPT_RETRY_MS, LOOK_AGAIN_MS, VIEW_REFRESH_MS};
use crate::ring::Key;
use crate::shard::connection::{Connection, Fault};
use crate::shard::service::Service;
use crate::shard::shutdown::Stage;
use crate::wire::code::{self, Rights};

impl<S: Service> Driver<S> {
    pub(super) fn accepted(&mut self, key: Key) {
        self.counters.accepted.add(1);
        let now_s = seconds(self.running.now());
        let conn = ConnKey { shard: self.shard, slot: key.slot, generation: key.generation };
        let rights = match self.access.is_limited() {
            true => self.access.rights(peer_ip(&self.ring, key)),
            false => Rights::ALL,
        };
        let connection = Connection::new(conn, self.secure.tls.mode(), rights);
        let seat = Seat::new(connection, now_s);
        let index = key.slot as usize;
        if self.seats.len() <= index {
            self.seats.resize_with(index + 1, || None);
        }
        debug_assert!(self.seats[index].is_none(), "a slot is closed before it is used again");
        self.seats[index] = Some(Box::new(seat));
        self.counters.open.set(self.counters.open.get() + 1);
        if let Some(wheel) = &mut self.wheel {
            let due_s = wheel.insert(key.slot, now_s);
            self.alarm(self.by_running(due_s));
        }
        if self.stage != Stage::Running {
            self.leave(key, Reason::Shutdown);
        }
    }

    pub(super) fn look_at_clock(&mut self) {
        let now = self.clock.now();
        // The timer ends every sleep. Whatever took much longer than that was no sleep of ours.
        let sleep_ms = self.alarms.armed.map_or(0, |armed| armed.since_ms(self.now));
        self.running.advance_after(sleep_ms, now);
        self.now = now;
    }

    /// A byte went in or out.
    pub(super) fn moved(&mut self, key: Key) {
        let now_s = seconds(self.running.now());
        if let Some(seat) = seat_mut(&mut self.seats, key) {
            seat.active_s = now_s;
        }
    }

    /// Draws the consequences after a connection has served something: send, read on or pause,
    /// close.
    pub(super) fn settle(&mut self, key: Key, result: Result<(), Fault>) {
        self.tell_trespass(key);
        if let Err(fault) = result {
            self.fault(key, &fault);
        }
        self.weigh(key);
        let over_budget = self.service.over_budget();
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        let connection = &mut seat.connection;
        let served = connection.take_served();
        self.counters.requests.add(served);
        if let Some(buffer) = connection.reclaim() {
            self.spares.give(buffer);
        }
        if seat.parting {
            return;
        }
        if let Some(reason) = seat.leaving
            && seat.quiet()
            && !seat.end_channel(&mut self.spares)
        {
            return self.part(key, reason);
        }
        if !seat.dirty && seat.has_output() {
            seat.dirty = true;
            self.dirty.push(key);
        }
        if seat.leaving.is_some() {
            return;
        }
        let connection = &mut seat.connection;
        let held_back = over_budget && connection.in_large_frame();
        let park = held_back && !seat.parked;
        seat.parked |= park;
        let pause = held_back || connection.stalled() || connection.in_hello();
        if pause != seat.paused {
            seat.paused = pause;
            if pause {
                self.counters.pauses.add(1);
                self.ring.pause(key);
            } else {
                self.ring.resume(key);
            }
        }
        if park {
            self.parked.push(key);
            self.look_again();
        }
        self.time_frame(key, served > 0);
    }

    /// Reads no more and closes as soon as what is owed has been sent.
    pub(super) fn leave(&mut self, key: Key, reason: Reason) {
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        if seat.leaving.is_none() {
            seat.leaving = Some(reason);
            self.ring.pause(key);
        }
        self.settle(key, Ok(()));
    }

    /// Closes now.
    pub(super) fn close(&mut self, key: Key, reason: Reason) {
        if seat_mut(&mut self.seats, key).is_none() {
            return;
        }
        let Some(mut seat) = self.seats[key.slot as usize].take() else { return };
        let reason = seat.leaving.filter(|_| seat.parting).unwrap_or(reason);
        self.held.exchange(seat.held, Held::default());
        let counters = &self.counters;
        counters.open.set(counters.open.get().saturating_sub(1));
        counters.requests.add(seat.connection.take_served());
        match reason {
            Reason::Peer => &counters.closed_by_peer,
            Reason::Idle => &counters.closed_idle,
            Reason::Malformed => &counters.closed_malformed,
            Reason::Foreign => &counters.closed_foreign,
            Reason::Proxy => &counters.closed_proxy,
            Reason::Plain => &counters.closed_plain,
            Reason::Tls => &counters.closed_tls,
            Reason::Expired => &counters.closed_expired,
            Reason::OverBudget => &counters.closed_over_budget,
            Reason::Shutdown => &counters.closed_shutdown,
        }
        .add(1);
        if reason == Reason::Peer && seat.connection.unused() {
            counters.probes.add(1);
        }
        if let Some(wheel) = &mut self.wheel {
            wheel.remove(key.slot);
        }
        self.secure.forget(key);
        // At shutdown the brokers are not gone; we are.
        if seat.connection.tell_close() && reason != Reason::Shutdown {
            self.service.closed(seat.connection.key());
        }
        self.ring.close(key);
    }

    fn fault(&mut self, key: Key, fault: &Fault) {
        let reason = match fault {
            Fault::Malformed(error) if error.foreign().is_none() => Reason::Malformed,
            Fault::Malformed(_) | Fault::Tls => Reason::Foreign,
            Fault::Proxy(_) | Fault::ProxyNotAllowed => Reason::Proxy,
            Fault::Plain => Reason::Plain,
            Fault::Channel(_) => Reason::Tls,
        };
        self.complain(key, fault);
        self.leave(key, reason);
        self.limit_parting(key);
    }

    /// Says why a connection is closed, unless that was said of others a moment ago.
    pub(super) fn complain(&mut self, key: Key, why: &dyn fmt::Display) {
        if let Some(left_out) = self.faults.may_write(self.now) {
            let peer = self.name_of(key);
            tracing::warn!(shard = self.shard.0, left_out, "closing {peer}: {why}");
        }
    }

    /// Says what a peer had no right to, unless that was said of others a moment ago.
    fn tell_trespass(&mut self, key: Key) {
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        let Some(code) = seat.connection.take_forbidden() else { return };
        if let Some(left_out) = self.trespasses.may_write(self.now) {
            let peer = self.name_of(key);
            let name = code::request::name(code).unwrap_or("unknown");
            let shard = self.shard.0;
            tracing::warn!(
                shard,
                left_out,
                "refused request {code} ({name}) of {peer}: see adminFrom and brokerFrom"
            );
        }
    }

    /// The peer, or whom a load balancer speaks for, for the log.
    fn name_of(&mut self, key: Key) -> String {
        let source = seat_mut(&mut self.seats, key).and_then(|seat| seat.connection.source());
        let peer = source.or_else(|| self.ring.peer(key));
        peer.map_or_else(|| "a peer that is gone".to_owned(), |at| at.to_string())
    }

    pub(super) fn refused(&mut self) {
        self.counters.refused.add(1);
        // While the shard ends, everybody is refused.
        if self.stage != Stage::Running {
            return;
        }
        if let Some(left_out) = self.refusals.may_write(self.now) {
            let (shard, open) = (self.shard.0, self.ring.connections());
            tracing::warn!(
                shard,
                left_out,
                "refusing connections: all {open} places of this shard are taken; raise \
                 maxConnections, or the open-files limit (ulimit -n, LimitNOFILE=) it follows from"
            );
        }
    }

    pub(super) fn accept_failed(&mut self, error: &io::Error) {
        self.counters.accept_failed.add(1);
        self.alarms.accept = Some(self.now.after_ms(ACCEPT_RETRY_MS));
        self.alarm(self.now.after_ms(ACCEPT_RETRY_MS));
        if let Some(left_out) = self.accept_failures.may_write(self.now) {
            let cure = match error.raw_os_error() {
                Some(libc::EMFILE) => "raise the open-files limit (ulimit -n, LimitNOFILE=)",
                Some(libc::ENFILE) => "raise the system's open-files limit (sysctl fs.file-max)",
                _ => "the system is short of memory",
            };
            let shard = self.shard.0;
            tracing::warn!(shard, left_out, "cannot accept connections ({error}): {cure}");
        }
    }

    /// Follows the stop switch.
    pub(super) fn heed_stop(&mut self) {
        let stage = self.stop.stage();
        if stage <= self.stage {
            return;
        }
        self.stage = stage;
        self.ring.stop_accepting();
        let drained = self.now.after_ms(self.drain_ms);
        self.alarms.drained = Some(drained);
        self.alarm(drained);
        self.for_each_connection(|driver, key| driver.leave(key, Reason::Shutdown));
    }

    /// Looks again soon at what nobody reports.
    pub(super) fn look_again(&mut self) {
        let soon = self.now.after_ms(LOOK_AGAIN_MS);
        self.alarms.look_again.get_or_insert(soon);
        self.alarm(soon);
    }

    /// Does what is due and sets the timer for what comes next.
    pub(super) fn tend(&mut self) {
        let now = self.now;
        if self.alarms.refresh <= now {
            self.service.refresh();
            self.alarms.refresh = now.after_ms(VIEW_REFRESH_MS);
        }
        if self.alarms.accept.take_if(|at| *at <= now).is_some() {
            self.ring.accept();
        }
        if self.alarms.look_again.take_if(|at| *at <= now).is_some() {
            self.unpark();
        }
        if self.alarms.drained.take_if(|at| *at <= now).is_some() {
            self.for_each_connection(|driver, key| driver.close(key, Reason::Shutdown));
        }
        self.close_idle();
        self.close_unready();
        self.close_parted();
        let idle = self.wheel.as_ref().and_then(|wheel| wheel.next_s());
        let idle = idle.map(|second| self.by_running(second));
        let Alarms { accept, look_again, drained, refresh, .. } = self.alarms;
        let parting = self.partings.front().map(|(at, _)| *at);
        let rest = [accept, look_again, drained, idle, parting, self.secure.next()];
        self.alarm(rest.into_iter().flatten().fold(refresh, Tick::min));
    }

    fn close_idle(&mut self) {
        let Some(wheel) = &mut self.wheel else { return };
        let seats = &self.seats;
        let now_s = seconds(self.running.now());
        let silent_since =
            |seat: &Option<Box<Seat>>| seat.as_ref().map_or(0, |seat| seat.silent_since_s(now_s));
        let active = |slot: u32| silent_since(&seats[slot as usize]);
        let mut due = Vec::new();
        wheel.expire(now_s, active, &mut due);
        for slot in due {
            let Some(seat) = &self.seats[slot as usize] else { continue };
            let generation = seat.connection.key().generation;
            self.close(Key { slot, generation }, Reason::Idle);
        }
    }

    /// Lets parked connections read on, as long as the writer has room.
    fn unpark(&mut self) {
        if self.service.over_budget() {
            return self.look_again();
        }
        for key in std::mem::take(&mut self.parked) {
            let Some(seat) = seat_mut(&mut self.seats, key) else { continue };
            seat.parked = false;
            // Parks it again if the budget is spent by then.
            self.settle(key, Ok(()));
        }
    }

    /// The tick at which the running time will have come to `second`, if nothing suspends the
    /// process.
    fn by_running(&self, second: u32) -> Tick {
        self.now.after_ms(Tick(u64::from(second) * 1000).since_ms(self.running.now()))
    }

    /// Makes sure that the timer ends at `at` or earlier.
    pub(super) fn alarm(&mut self, at: Tick) {
        if self.alarms.armed.is_none_or(|armed| at < armed) {
            // One more, so that the clock, which is cut to milliseconds, has passed `at`.
            if self.ring.wake_in(at.since_ms(self.now) + 1) {
                self.alarms.armed = Some(at);
            } else {
                let earlier = self.alarms.missed.map_or(at, |missed| missed.min(at));
                self.alarms.missed = Some(earlier);
            }
        }
    }

    fn for_each_connection(&mut self, mut each: impl FnMut(&mut Self, Key)) {
        for slot in 0..self.seats.len() {
            if let Some(seat) = &self.seats[slot] {
                let conn = seat.connection.key();
                each(self, super::ring_key(conn));
            }
        }
    }
}

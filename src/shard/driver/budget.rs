//! What all connections of a shard hold together is bounded, however many there are: the largest
//! holders are closed.

use std::cmp::Reverse;

use super::{Driver, Reason, seat_mut};
use crate::limits::PARTIAL_FRAME_S_MAX;
use crate::ring::Key;
use crate::shard::service::Service;
use crate::tls::Channel;

/// Which bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Buffers of frames that are not complete or not served.
    Input,
    /// Answers that have not been sent.
    Output,
}

/// Bytes held by one connection, or by all of a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Held {
    pub(super) input: usize,
    pub(super) output: usize,
}

impl Held {
    fn of(self, kind: Kind) -> usize {
        match kind {
            Kind::Input => self.input,
            Kind::Output => self.output,
        }
    }

    /// Replaces one connection's part of a sum.
    pub(super) fn exchange(&mut self, old: Held, new: Held) {
        self.input = self.input - old.input + new.input;
        self.output = self.output - old.output + new.output;
    }
}

/// The largest of `holders` that must go for `held` to come down to seven eighths of `max`: a walk
/// over all connections is then paid for by the eighth that has to come first.
fn to_close<K>(held: usize, max: usize, mut holders: Vec<(usize, K)>) -> Vec<K> {
    holders.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
    let mut left = held;
    let goal = max - max / 8;
    let over = |(bytes, _): &(usize, K)| {
        let over = left > goal;
        left = left.saturating_sub(*bytes);
        over
    };
    holders.into_iter().take_while(over).map(|(_, key)| key).collect()
}

impl<S: Service> Driver<S> {
    /// True if connections are to serve nothing as long as answers wait: half the output budget is
    /// spent.
    pub(super) fn tight(&self) -> bool {
        self.held.output > self.budget.output / 2
    }

    /// Follows what the connection holds; closes the largest ones if that is too much, perhaps this
    /// one.
    pub(super) fn weigh(&mut self, key: Key) {
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        let holds = seat.holds();
        self.held.exchange(seat.held, holds);
        seat.held = holds;
        for kind in [Kind::Input, Kind::Output] {
            if self.held.of(kind) > self.budget.of(kind) {
                self.close_largest(kind);
            }
        }
    }

    fn close_largest(&mut self, kind: Kind) {
        let seats = self.seats.iter().flatten();
        let holders = seats
            .map(|seat| (seat.held.of(kind), super::ring_key(seat.connection.key())))
            .filter(|(bytes, _)| *bytes > 0)
            .collect();
        let keys = to_close(self.held.of(kind), self.budget.of(kind), holders);
        if let Some(left_out) = self.crowding.may_write(self.now) {
            let (shard, count, bytes) = (self.shard.0, keys.len(), self.held.of(kind));
            let what = match kind {
                Kind::Input => "unfinished frames",
                Kind::Output => "answers that peers do not read",
            };
            let largest = keys.first().and_then(|key| self.ring.peer(*key));
            let peer = largest.map_or_else(|| "gone".to_owned(), |peer| peer.to_string());
            tracing::warn!(
                shard,
                left_out,
                "closing {count} connections, the largest is {peer}: {bytes} bytes of {what}"
            );
        }
        for key in keys {
            self.close(key, Reason::OverBudget);
        }
    }

    /// Notes when the frame that the connection is in began. Nothing is held against a connection
    /// that is not being read from.
    pub(super) fn time_frame(&mut self, key: Key, served: bool) {
        let now_s = super::seconds(self.running.now());
        let Some(seat) = seat_mut(&mut self.seats, key) else { return };
        if seat.paused || seat.holds().input == 0 {
            seat.frame_since_s = None;
        } else if served || seat.frame_since_s.is_none() {
            seat.frame_since_s = Some(now_s);
        }
    }
}

impl super::Seat {
    /// What the connection and its TLS hold.
    fn holds(&self) -> Held {
        let (connection, channel) = (&self.connection, self.channel.as_deref());
        Held {
            input: connection.input_bytes() + channel.map_or(0, Channel::input_bytes),
            output: connection.output_bytes() + channel.map_or(0, Channel::output_bytes),
        }
    }

    /// The second since which it counts as silent: always, if it does not end the frame it is in.
    pub(super) fn silent_since_s(&self, now_s: u32) -> u32 {
        let late = |since: u32| now_s.saturating_sub(since) > PARTIAL_FRAME_S_MAX;
        if self.frame_since_s.is_some_and(late) { 0 } else { self.active_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ConnKey, ShardId};
    use crate::shard::connection::Connection;
    use crate::shard::driver::Seat;
    use crate::tls::Tls;
    use crate::tls::options::{Mode, Options};
    use crate::wire::code::Rights;

    #[test]
    fn a_frame_that_does_not_end_counts_as_silence_whatever_comes() {
        let key = ConnKey { shard: ShardId(0), slot: 0, generation: 0 };
        let connection = Connection::new(key, Mode::Disabled, Rights::ALL);
        let seat = Seat { frame_since_s: Some(940), ..Seat::new(connection, 1000) };
        assert_eq!(seat.silent_since_s(1000), 1000);
        assert_eq!(seat.silent_since_s(1001), 0);
        assert_eq!(Seat { frame_since_s: None, ..seat }.silent_since_s(1001), 1000);
    }

    #[test]
    fn what_a_tls_channel_holds_counts_with_the_connection() {
        let options = Options { test_mode: true, ..Options::default() };
        let config = Tls::load(&options).unwrap().config().unwrap();
        let mut channel = Channel::new(config).unwrap();
        // All but the end of a record.
        let record = [&[0x16, 3, 1, 0x40, 0][..], &[1; 10_000]].concat();
        channel.received(&record, &mut Vec::new()).unwrap();
        let key = ConnKey { shard: ShardId(0), slot: 0, generation: 0 };
        let connection = Connection::new(key, Mode::Permissive, Rights::ALL);
        let seat = Seat { channel: Some(Box::new(channel)), ..Seat::new(connection, 1000) };
        assert!(seat.holds().input >= record.len(), "{:?}", seat.holds());
        assert_eq!(seat.holds().output, 0);
    }

    #[test]
    fn the_largest_go_until_an_eighth_is_free() {
        let holders = vec![(10, 'a'), (500, 'b'), (90, 'c'), (400, 'd')];
        assert_eq!(to_close(1000, 900, holders.clone()), ['b']);
        assert_eq!(to_close(1000, 500, holders.clone()), ['b', 'd']);
        assert_eq!(to_close(1000, 0, holders), ['b', 'd', 'c', 'a']);
    }

    #[test]
    fn a_sum_follows_its_parts() {
        let mut sum = Held { input: 70, output: 5 };
        let old = Held { input: 70, output: 0 };
        sum.exchange(old, Held { input: 3, output: 9 });
        assert_eq!(sum, Held { input: 3, output: 14 });
    }
}

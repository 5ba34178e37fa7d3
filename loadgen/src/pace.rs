//! When to ask. Closed loop: as soon as an answer leaves room. Open loop: at times fixed in
//! advance, whatever the server does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use crate::chance::Chance;
use crate::measure::whole_ns;
use crate::shape::Plan;

/// How the arrivals of an open loop are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// As independent clients arrive: exponential gaps.
    Poisson,
    /// Evenly.
    Constant,
}

/// The schedule of an open loop for the connections of one generator thread. Each connection has
/// its own stream of intended times; nothing is stored for the arrivals that are still to come.
pub struct Schedule {
    streams: Vec<Stream>,
    plan: Arc<Plan>,
    /// Of all threads.
    connections: f64,
    /// Nothing is due from then on.
    end_ns: u64,
    /// Connections that have something to send before the end.
    left: usize,
    /// Connections whose next query can be sent when its time comes. One that has no room is not
    /// in here until it has.
    due: BinaryHeap<Reverse<(u64, usize)>>,
}

struct Stream {
    arrivals: Arrivals,
    chance: Chance,
    /// The next query of this connection is due when all connections together have had so many
    /// arrivals. A float tells 2^53 of them apart.
    next_arrival: f64,
}

impl Stream {
    fn advance(&mut self, connections: f64) {
        self.next_arrival += match self.arrivals {
            Arrivals::Constant => connections,
            Arrivals::Poisson => -(1.0 - self.chance.fraction()).ln() * connections,
        };
    }
}

/// What a [`Schedule`] is made from.
#[derive(Debug, Clone)]
pub struct OpenLoop {
    /// Queries per second of all connections together, over time.
    pub plan: Arc<Plan>,
    /// How they are spread.
    pub arrivals: Arrivals,
    /// Makes the gaps.
    pub seed: u64,
    /// All connections of the run, over all threads.
    pub connections: u32,
    /// Nothing is due from then on.
    pub end_ns: u64,
}

impl Schedule {
    /// The schedule of the connections with these numbers.
    pub fn new(open: OpenLoop, numbers: impl Iterator<Item = u32>) -> Self {
        let connections = f64::from(open.connections);
        let streams: Vec<Stream> = numbers
            .map(|number| {
                let chance = Chance::new(open.seed, 1, u64::from(number));
                let next_arrival = 0.0;
                let mut stream = Stream { arrivals: open.arrivals, chance, next_arrival };
                match open.arrivals {
                    Arrivals::Constant => stream.next_arrival = f64::from(number),
                    Arrivals::Poisson => stream.advance(connections),
                }
                stream
            })
            .collect();
        let (end_ns, left) = (open.end_ns, streams.len());
        let due = BinaryHeap::new();
        let mut schedule = Self { streams, plan: open.plan, connections, end_ns, left, due };
        schedule.left = (0..left).filter(|place| schedule.next_of(*place) < end_ns).count();
        (0..schedule.streams.len()).for_each(|place| schedule.has_room(place));
        schedule
    }

    fn next_of(&self, place: usize) -> u64 {
        whole_ns(self.plan.when(self.streams[place].next_arrival))
    }

    /// Connections that have something to send before the end.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The intended times of what was not sent before the end, in no order.
    pub fn unsent(mut self) -> Vec<u64> {
        let mut times = Vec::new();
        for place in 0..self.streams.len() {
            while self.next_of(place) < self.end_ns {
                times.push(self.next_of(place));
                self.streams[place].advance(self.connections);
            }
        }
        times
    }

    /// When the next query is due, in ns since the start; `None` when no connection has room.
    pub fn next_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the next query that is due: its intended time and the place of its connection. The
    /// connection is asked for room before it appears again.
    pub fn take_due(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        let Reverse((intended_ns, place)) = *self.due.peek()?;
        if intended_ns > now_ns {
            return None;
        }
        self.due.pop();
        self.streams[place].advance(self.connections);
        self.left -= usize::from(self.next_of(place) >= self.end_ns);
        Some((intended_ns, place))
    }

    /// The connection at this place can send (again). Must not be said twice.
    pub fn has_room(&mut self, place: usize) {
        let at_ns = self.next_of(place);
        if at_ns < self.end_ns {
            self.due.push(Reverse((at_ns, place)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Window;
    use crate::shape::Shape;

    fn open(arrivals: Arrivals, connections: u32) -> OpenLoop {
        let window = Window { begin_ns: 0, end_ns: 1_000_000_000 };
        let plan = Arc::new(Plan::new(&Shape::Hold, 1000.0, window));
        OpenLoop { plan, arrivals, seed: 5, connections, end_ns: 1_000_000_000 }
    }

    fn times(arrivals: Arrivals, connections: u32) -> Vec<u64> {
        let open = open(arrivals, connections);
        let mut schedule = Schedule::new(open, 0..connections);
        let mut times = Vec::new();
        while let Some((at, place)) = schedule.take_due(1_000_000_000 - 1) {
            times.push(at);
            schedule.has_room(place);
        }
        times
    }

    #[test]
    fn constant_arrivals_are_a_gap_apart_whatever_the_connections() {
        for connections in [1, 10, 64] {
            let times = times(Arrivals::Constant, connections);
            assert_eq!(times.len(), 1000);
            assert!(times.windows(2).all(|w| (999_000..=1_001_000).contains(&(w[1] - w[0]))));
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_chance() {
        let times = times(Arrivals::Poisson, 16);
        assert!((850..1150).contains(&times.len()), "{} arrivals", times.len());
        let short = times.windows(2).filter(|w| w[1] - w[0] < 693_147).count();
        assert!((400..600).contains(&short), "{short} gaps below the median of about 500");
    }

    #[test]
    fn a_connection_without_room_keeps_its_intended_times() {
        let mut schedule = Schedule::new(open(Arrivals::Constant, 1), 0..1);
        assert_eq!(schedule.take_due(10_000_000), Some((0, 0)));
        assert_eq!((schedule.take_due(10_000_000), schedule.next_ns()), (None, None));
        schedule.has_room(0);
        assert_eq!(schedule.take_due(10_000_000), Some((1_000_000, 0)));
        // 1000 were meant for this second, and two of them were sent.
        assert_eq!((schedule.left(), schedule.unsent().len()), (1, 998));
    }

    #[test]
    fn a_schedule_that_is_done_has_nothing_left() {
        let mut schedule = Schedule::new(open(Arrivals::Poisson, 8), 0..8);
        while let Some((_, place)) = schedule.take_due(u64::MAX) {
            schedule.has_room(place);
        }
        assert_eq!((schedule.left(), schedule.unsent()), (0, Vec::new()));
    }
}

//! One request in memory, from the bytes of its frame to the bytes of its answer, without a socket:
//! what a shard does between receiving and sending.
//!
//! Targets: a route query of a 4-broker topic <= 300 ns, one of an unknown topic <= 150 ns. A
//! heartbeat goes as far as the writer's lane and, so that the lane does not fill up, out of it
//! again.
//!
//! A different one of all topics is asked for each time. "one topic" asks for the same again and
//! again, so that memory does not show. "fetched" serves 16 queries that were received together,
//! with what a shard does for all of them first; it is given for one of them. Frames are written
//! right before they are served, into the same bytes, as the kernel would; "frame alone" is what
//! that takes, and is part of the others.
//!
//! Times are CPU times of one thread. Run with `cargo bench --bench request`.
//! Instructions, which do not depend on what else the machine does, are counted by
//! `cargo bench --bench instructions`.

mod fleet;

use std::hint::black_box;

use fleet::shard::{Shard, heartbeat, query};
use guidepost::handler::Dispatch;
use guidepost::wire::HeaderKind;

const TOPICS: usize = 100_000;
/// What no core's own caches hold.
const MANY_TOPICS: usize = 1_000_000;
/// Different topics asked for, in turn.
const NAMES: usize = 1 << 16;
/// Queries of one connection that are received together.
const DEPTH: usize = 16;

/// Queries for one topic after the other, written over each other.
struct Questions {
    bytes: Vec<u8>,
    /// Bytes of one query.
    frame_bytes: usize,
    /// Where the topic's number is in it.
    digits_at: usize,
    numbers: Vec<usize>,
    next: usize,
}

impl Questions {
    /// `count` topics from `first` on, in a scattered order.
    fn new(kind: HeaderKind, first: usize, count: usize) -> Questions {
        let name = fleet::topic_name(0);
        let frame = query(kind, &name);
        let at = frame.windows(name.len()).position(|part| part == name.as_bytes());
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        Questions {
            frame_bytes: frame.len(),
            digits_at: at.expect("the name is in the frame") + name.len() - digits,
            bytes: frame.repeat(DEPTH),
            numbers: fleet::scattered(count, NAMES).map(|number| first + number).collect(),
            next: 0,
        }
    }

    /// The next so many queries.
    fn ask(&mut self, count: usize) -> &[u8] {
        for frame in self.bytes.chunks_mut(self.frame_bytes).take(count) {
            let mut rest = self.numbers[self.next];
            self.next = (self.next + 1) % NAMES;
            let (_, digits) = frame.split_at_mut(self.digits_at);
            for digit in digits[..7].iter_mut().rev() {
                *digit = b'0' + u8::try_from(rest % 10).expect("one digit");
                rest /= 10;
            }
        }
        black_box(&self.bytes[..count * self.frame_bytes])
    }
}

/// Answers one query, as a shard does.
fn answer(shard: &mut Shard, frame: &[u8]) {
    assert_eq!(shard.serve(frame), Dispatch::Done);
    black_box(&mut shard.out);
}

fn main() {
    let mut criterion = fleet::criterion().configure_from_args();
    let mut group = criterion.benchmark_group("request");
    let tables = [(TOPICS, ""), (MANY_TOPICS, ", 1M topics")];
    for (topics, label) in tables {
        let table = fleet::table(topics, 4);
        for kind in [HeaderKind::Json, HeaderKind::Binary] {
            let mut shard = Shard::new(kind, &table);
            let cases = [("hit", 0, topics), ("miss", topics, topics)];
            for (name, first, count) in cases {
                let mut asked = Questions::new(kind, first, count);
                group.bench_function(format!("{name}, {kind:?}{label}"), |b| {
                    b.iter(|| answer(&mut shard, asked.ask(1)));
                });
                group.bench_function(format!("{name}, fetched, {kind:?}{label}"), |b| {
                    b.iter_custom(|rounds| {
                        let start = fleet::cpu_time();
                        for _ in 0..rounds {
                            let frame_bytes = asked.frame_bytes;
                            let received = asked.ask(DEPTH);
                            shard.fetch_ahead(received);
                            received.chunks(frame_bytes).for_each(|one| answer(&mut shard, one));
                        }
                        (fleet::cpu_time() - start) / u32::try_from(DEPTH).expect("small")
                    });
                });
            }
            if topics != TOPICS {
                continue;
            }
            for (name, first) in [("hit", 0), ("miss", topics)] {
                let mut asked = Questions::new(kind, first, 1);
                group.bench_function(format!("{name}, one topic, {kind:?}"), |b| {
                    b.iter(|| answer(&mut shard, asked.ask(1)));
                });
            }
            let mut asked = Questions::new(kind, 0, topics);
            group.bench_function(format!("frame alone, {kind:?}"), |b| {
                b.iter(|| asked.ask(1).len());
            });
            let frame = heartbeat(kind);
            group.bench_function(format!("one-way heartbeat, {kind:?}"), |b| {
                b.iter(|| {
                    assert_eq!(shard.serve(black_box(&frame)), Dispatch::Sent);
                    shard.empty_lane();
                });
            });
        }
    }
    group.finish();
    criterion.final_summary();
}

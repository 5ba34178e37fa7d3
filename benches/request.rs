//! One request in memory, from the bytes of its frame to the bytes of its answer, without a socket:
//! what a shard does between receiving and sending.
//!
//! Targets: a route query of a 4-broker topic <= 300 ns, one of an unknown topic <= 150 ns. A
//! heartbeat goes as far as the writer's lane and, so that the lane does not fill up, out of it
//! again.
//!
//! The table has 100 k topics, and a different one is asked for each time. "one topic" asks for the
//! same again and again, so that memory does not show.
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
/// Different topics asked for, in turn.
const NAMES: usize = 1 << 14;

/// Runs every case of one kind of header through `run`, which is given the case's name and one
/// round of it.
fn cases(kind: HeaderKind, mut run: impl FnMut(&str, &mut dyn FnMut())) {
    let mut shard = Shard::new(kind, &fleet::table(TOPICS, 4));
    let asked = |first: usize, count: usize| -> Vec<Vec<u8>> {
        let numbers = fleet::scattered(TOPICS, count);
        numbers.map(|number| query(kind, &fleet::topic_name(first + number))).collect()
    };
    let questions = [
        ("hit", asked(0, NAMES)),
        ("hit, one topic", asked(0, 1)),
        ("miss", asked(TOPICS, NAMES)),
        ("miss, one topic", asked(TOPICS, 1)),
    ];
    for (name, frames) in &questions {
        let mut next = frames.iter().cycle();
        run(&format!("{name}, {kind:?}"), &mut || {
            let frame = next.next().expect("a cycle has no end");
            assert_eq!(shard.serve(black_box(frame)), Dispatch::Done);
            black_box(&mut shard.out);
        });
    }
    let frame = heartbeat(kind);
    run(&format!("one-way heartbeat, {kind:?}"), &mut || {
        assert_eq!(shard.serve(black_box(&frame)), Dispatch::Sent);
        shard.empty_lane();
    });
}

fn main() {
    let kinds = [HeaderKind::Json, HeaderKind::Binary];
    let mut criterion = fleet::criterion().configure_from_args();
    let mut group = criterion.benchmark_group("request");
    for kind in kinds {
        cases(kind, |name, round| {
            group.bench_function(name, |b| b.iter(&mut *round));
        });
    }
    group.finish();
    criterion.final_summary();
}

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
    let held = senders.iter().map(|sender| line(&raw const **sender.held));
    let mut lines: std::collections::BTreeSet<usize> = held.collect();
    lines.insert(line(&raw const *lanes.budget().used));
    assert_eq!(lines.len(), senders.len() + 1);
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
    let put =
        WriteOp::PutKv { namespace: "ab".into(), key: "cde".into(), value: Some("fghi".into()) };
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

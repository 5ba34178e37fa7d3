//! Requests take effect in the order in which their shards accepted them, whichever lane they are
//! in and however long one of them takes.

use super::*;

/// Topics of a registration that the writer decodes in several turns.
const LARGE: usize = 3_000;

/// A registration of `broker` at an address of its own choice, with `topics` topics.
fn register_at(broker: &str, addr: &str, id: i64, topics: usize) -> WriteOp {
    let WriteOp::Register(mut request) = register(broker, topics, None) else {
        unreachable!("it makes a registration")
    };
    request.addr = addr.into();
    request.id = BrokerId(id);
    WriteOp::Register(request)
}

fn unregister(broker: &str, addr: &str) -> WriteOp {
    WriteOp::Unregister {
        cluster: "C".into(),
        addr: addr.into(),
        broker: broker.into(),
        id: BrokerId::MASTER,
    }
}

fn delete_topic(topic: &str) -> WriteOp {
    WriteOp::DeleteTopic { topic: topic.into(), cluster: None }
}

impl Stage {
    fn addr_of(&self, broker: &str) -> Option<String> {
        self.readers.reader().with(|view| {
            let group = view.routes.group(broker)?;
            group.addrs.first().map(|(_, addr)| addr.to_string())
        })
    }
}

#[test]
fn an_old_registration_in_a_long_lane_does_not_undo_the_new_one() {
    let mut stage = stage_of(2);
    for _ in 0..2 * WRITE_BATCH_MAX {
        stage.send_to(0, 9, None, heartbeat("nobody"));
    }
    stage.send_to(0, 1, Some(1), register("a", 2, None));
    stage.send_to(1, 2, Some(2), register("a", 2, None));
    stage.settle(0);
    stage.send_to(0, 1, None, WriteOp::ConnectionClosed);
    stage.settle(0);
    assert!(stage.has_route("a-0"), "it had moved to the other connection");
    stage.send_to(1, 2, None, WriteOp::ConnectionClosed);
    stage.settle(0);
    assert!(!stage.has_route("a-0"));
}

#[test]
fn a_broker_that_moves_by_a_registration_in_the_queue_never_disappears() {
    let mut stage = stage_of(2);
    stage.send_to(0, 1, None, register("a", 2, None));
    stage.settle(0);
    stage.send_to(1, 2, Some(1), register("a", LARGE, None));
    stage.send_to(0, 1, None, WriteOp::ConnectionClosed);
    while stage.writer.turn(Tick(0)) {
        assert!(stage.has_route("a-0"));
    }
    assert!(stage.has_route(&format!("a-{}", LARGE - 1)));
    stage.send_to(1, 2, None, WriteOp::ConnectionClosed);
    stage.settle(0);
    assert!(!stage.has_route("a-0"));
}

#[test]
fn an_unregistration_waits_for_an_earlier_registration() {
    let mut stage = stage_of(2);
    stage.send_to(0, 1, Some(1), register("a", LARGE, None));
    stage.send_to(1, 2, Some(2), unregister("a", "a:1"));
    stage.settle(0);
    assert!(!stage.has_route("a-0"), "it came after the registration");
}

#[test]
fn the_later_of_two_masters_wins_although_the_earlier_takes_longer() {
    let mut stage = stage_of(2);
    stage.send_to(0, 1, None, register_at("a", "10.0.0.1:1", 0, LARGE));
    stage.send_to(1, 2, None, register_at("a", "10.0.0.2:1", 0, 2));
    stage.settle(0);
    assert_eq!(stage.addr_of("a").as_deref(), Some("10.0.0.2:1"));
}

#[test]
fn what_an_operator_does_to_topics_is_not_undone_by_an_earlier_registration() {
    let mut stage = stage_of(2);
    stage.send_to(0, 1, None, register("a", LARGE, None));
    stage.send_to(1, 2, None, WriteOp::SetWritePerm { broker: "a".into(), on: false });
    stage.send_to(1, 3, None, delete_topic("a-1"));
    stage.settle(0);
    assert!(stage.route("a-0").contains("\"perm\":4"), "{}", stage.route("a-0"));
    assert_eq!(stage.route("a-1"), "");
}

/// Random requests on several lanes, with turns in between at random, leave what a writer leaves
/// that has one lane and finishes each request before the next comes; and answer the same.
#[test]
fn many_lanes_and_delays_cannot_be_seen() {
    for seed in 0..30 {
        let mut random = Random(seed);
        let (mut many, mut one) = (stage_of(3), stage_of(1));
        let mut answers = (Vec::new(), Vec::new());
        let mut busy = [0; 6];
        for step in 0..40 {
            let conn = random.below(6);
            let shard = u16::try_from(conn % 3).unwrap();
            let slot = u32::try_from(conn).unwrap();
            let closes = busy[conn] == 0 && random.below(6) == 0;
            let make = |random: &mut Random| {
                if closes { WriteOp::ConnectionClosed } else { random.operation() }
            };
            let again = random.clone();
            many.send_to(shard, slot, (!closes).then_some(step), make(&mut random));
            one.send(slot, (!closes).then_some(step), make(&mut again.clone()));
            busy[conn] += usize::from(!closes);
            one.settle(0);
            keep(&mut one, &mut answers.1, &mut [0; 6]);
            for _ in 0..random.below(3) {
                many.writer.turn(Tick(0));
            }
            keep(&mut many, &mut answers.0, &mut busy);
        }
        many.settle(0);
        keep(&mut many, &mut answers.0, &mut busy);
        answers.0.sort();
        answers.1.sort();
        assert_eq!(answers.0, answers.1, "answers, seed {seed}");
        assert_eq!(tables(&many), tables(&one), "tables, seed {seed}");
    }
}

/// Takes the answers in: opaque, code and ext.
fn keep(stage: &mut Stage, answers: &mut Vec<String>, busy: &mut [usize; 6]) {
    for letter in stage.letters() {
        let ToShard::Answer(answer) = letter else {
            panic!("nobody expires here");
        };
        let slot = answer.conn.slot as usize;
        busy[slot] = busy[slot].saturating_sub(1);
        answers.push(format!("{:03} {} {:?}", answer.opaque.0, answer.code, answer.ext));
    }
}

fn tables(stage: &Stage) -> String {
    let mut out = Vec::new();
    for broker in ["a", "b"] {
        let mut reader = stage.readers.reader();
        reader.with(|view| view.routes.write_member_group(Some("C"), Some(broker), &mut out));
    }
    let groups = String::from_utf8(out).unwrap();
    let topics = ["a-0", "a-1", "a-5", "a-2500", "b-0", "b-1", "b-5", "b-2500"];
    let routes: Vec<String> = topics.iter().map(|topic| stage.route(topic)).collect();
    format!("{groups}\n{}", routes.join("\n"))
}

/// Numbers from a seed (SplitMix64).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((word ^ (word >> 31)) % bound as u64).unwrap()
    }

    fn operation(&mut self) -> WriteOp {
        let broker = ["a", "b"][self.below(2)];
        let addr = format!("{broker}:{}", self.below(3));
        match self.below(8) {
            0..4 => {
                let topics = [1, 2, 6, LARGE][self.below(4)];
                let id = [0, 0, 1][self.below(3)];
                register_at(broker, &addr, id, topics)
            }
            4 => unregister(broker, &addr),
            5 => delete_topic(&format!("{broker}-{}", self.below(6))),
            6 => WriteOp::SetWritePerm { broker: broker.into(), on: self.below(2) == 0 },
            _ => heartbeat(broker),
        }
    }
}

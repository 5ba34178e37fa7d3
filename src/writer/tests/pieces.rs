//! What others notice while a large change is made in steps: signs of life pass, nobody sees half
//! of it, and changes wait until it is whole.

use super::*;

/// Topics of a registration that is applied in many steps.
const LARGE: usize = 20 * TOPICS_A_STEP;

fn query_version(broker: &str) -> WriteOp {
    let addr = format!("{broker}:1").as_str().into();
    WriteOp::QueryDataVersion { cluster: "C".into(), addr, body: Bytes::new() }
}

impl Stage {
    /// Turns until a change is under way, and not whole.
    fn turn_to_the_middle(&mut self) {
        while self.writer.table.is_whole() {
            assert!(self.writer.turn(Tick(0)), "a large change comes");
        }
        for _ in 0..3 {
            assert!(self.writer.turn(Tick(0)));
        }
        assert!(!self.writer.table.is_whole());
    }

    fn generation(&self) -> u64 {
        self.readers.reader().with(|view| view.generation.0)
    }

    fn topic_count(&self) -> usize {
        self.readers.reader().with(|view| view.routes.topic_count())
    }
}

#[test]
fn signs_of_life_are_answered_between_the_steps_of_a_large_registration() {
    let mut stage = stage();
    let mut steps = 0;
    stage.send(2, Some(1), register("b", 2, None));
    stage.settle(0);
    stage.send(1, Some(2), register("large", LARGE, None));
    stage.turn_to_the_middle();
    stage.posted();
    while !stage.writer.table.is_whole() {
        stage.send(2, Some(3), heartbeat("b"));
        stage.send(2, Some(4), register("b", 2, None));
        stage.send(2, Some(5), query_version("b"));
        stage.writer.turn(Tick(0));
        let posted = stage.posted();
        assert_eq!(posted[..3], [3, 4, 5].map(|opaque| Some((opaque, 0))));
        assert_eq!(posted[3..], [Some((2, 0))][..usize::from(stage.writer.table.is_whole())]);
        steps += 1;
    }
    assert!(steps > 10, "{steps} steps");
}

#[test]
fn a_large_registration_is_seen_whole_or_not_at_all() {
    let mut stage = stage();
    for brokers in [1, 2] {
        // The second one changes all topics of the first, too.
        let mut op = register("a", LARGE, None);
        let WriteOp::Register(request) = &mut op else { unreachable!("it makes a registration") };
        let text = std::str::from_utf8(&request.body).unwrap();
        let text = text.replace("\"counter\":1", &format!("\"counter\":{brokers}"));
        request.body = text.replace("\"}", &format!("\",\"perm\":{}}}", brokers * 2)).into();
        let before = (stage.generation(), stage.route("a-0"), stage.topic_count());
        stage.send(1, Some(1), op);
        let seen = loop {
            stage.writer.turn(Tick(0));
            let seen = (stage.generation(), stage.route("a-0"), stage.topic_count());
            if seen != before {
                break seen;
            }
            assert_eq!(stage.route(&format!("a-{}", LARGE - 1)).is_empty(), before.1.is_empty());
            assert_eq!(stage.posted(), []);
        };
        assert_eq!((seen.0, seen.2), (before.0 + 1, LARGE));
        let perm = format!("\"perm\":{}", brokers * 2);
        for n in [0, LARGE / 2, LARGE - 1] {
            assert!(stage.route(&format!("a-{n}")).contains(&perm), "{n}");
        }
        assert_eq!(stage.posted(), [Some((1, 0))]);
        stage.settle(0);
    }
}

#[test]
fn changes_wait_until_the_table_is_whole_and_keep_their_order() {
    let mut stage = stage();
    stage.send(2, None, register("b", 2, None));
    stage.settle(0);
    stage.send(1, Some(1), register("large", LARGE, None));
    stage.turn_to_the_middle();
    let unregister = WriteOp::Unregister {
        cluster: "C".into(),
        addr: "b:1".into(),
        broker: "b".into(),
        id: BrokerId::MASTER,
    };
    stage.send(2, Some(2), unregister);
    // Known, but not by the time the unregistration before it is done.
    stage.send(3, Some(3), register("b", 2, None));
    stage.send(3, Some(4), query_version("b"));
    stage.send(4, Some(5), register("c", 2, None));
    stage.send(5, Some(6), heartbeat("b"));
    assert!(stage.writer.turn(Tick(0)));
    assert_eq!(stage.posted(), [Some((6, 0))]);
    stage.settle(0);
    assert_eq!(stage.posted(), [1, 2, 3, 4, 5].map(|opaque| Some((opaque, 0))));
    assert!(stage.has_route("b-0") && stage.has_route("c-0") && stage.has_route("large-0"));
}

#[test]
fn a_key_that_is_saved_meanwhile_is_shown_without_half_of_the_change() {
    let mut stage = stage();
    let (ring, saved) = std::sync::mpsc::channel();
    let bell = Arc::new(move || ring.send(()).unwrap_or(()));
    stage.writer.parts.durable = durable(&stage._folder, bell);
    stage.send(1, Some(1), register("large", LARGE, None));
    stage.turn_to_the_middle();
    let (namespace, key) = ("n".to_owned(), "k".to_owned());
    stage.send(2, Some(2), WriteOp::PutKv { namespace, key, value: Some("v".into()) });
    assert!(stage.writer.turn(Tick(0)));
    saved.recv().expect("the store rings when the file is written");
    assert!(stage.writer.turn(Tick(0)));
    assert_eq!(stage.posted(), [Some((2, 0))]);
    let value = stage.readers.reader().with(|view| view.kv.get("n", "k").map(str::to_owned));
    assert_eq!((value.as_deref(), stage.topic_count()), (Some("v"), 0));
    stage.settle(0);
    assert_eq!((stage.posted(), stage.topic_count()), (vec![Some((1, 0))], LARGE));
}

#[test]
fn a_broker_whose_connection_closes_in_the_middle_is_registered_and_then_goes() {
    let mut stage = stage();
    stage.send(1, Some(1), register("large", LARGE, None));
    stage.turn_to_the_middle();
    stage.send(1, None, WriteOp::ConnectionClosed);
    while stage.topic_count() == 0 {
        assert!(
            stage.writer.turn(Tick(0)),
            "what began before the connection closed is made whole"
        );
    }
    assert_eq!(stage.topic_count(), LARGE);
    stage.settle(0);
    assert_eq!(stage.topic_count(), 0);
    assert_eq!(stage.posted(), [Some((1, 0))]);
    stage.writer.table.check_invariants();
    assert!(stage.writer.liveness.is_empty());
}

#[test]
fn a_writer_that_is_told_to_stop_in_the_middle_makes_the_change_whole() {
    let mut stage = stage();
    stage.send(1, Some(1), register("large", LARGE, None));
    stage.turn_to_the_middle();
    stage.send(2, Some(2), register("b", 2, None));
    let Stage { writer, lanes, mails, readers, _folder } = stage;
    writer.parts.stop.store(true, Ordering::Release);
    writer.run();
    let topics = readers.reader().with(|view| view.routes.topic_count());
    assert_eq!(topics, LARGE + 2);
    let codes = mails.into_iter().flat_map(|mut mail| std::iter::from_fn(move || mail.take()));
    let codes = codes.map(|letter| match letter {
        ToShard::Answer(answer) => (answer.opaque.0, answer.code),
        ToShard::Close(_) => panic!("nobody expires here"),
    });
    assert_eq!(codes.collect::<Vec<_>>(), [(1, 0), (2, 0)]);
    drop(lanes);
}

#[test]
fn connections_that_close_together_are_one_change_made_in_steps() {
    let mut stage = stage();
    let brokers: Vec<String> = (0..40).map(|n| format!("b{n}")).collect();
    for (conn, broker) in (10..).zip(&brokers) {
        stage.send(conn, None, register(broker, 100, None));
    }
    stage.send(1, None, register("stays", 2, None));
    stage.settle(0);
    let before = stage.generation();
    for (conn, _) in (10..).zip(&brokers) {
        stage.send(conn, None, WriteOp::ConnectionClosed);
    }
    assert!(stage.writer.turn(Tick(0)));
    assert!(!stage.writer.table.is_whole(), "4000 topics take some steps");
    stage.send(1, Some(1), heartbeat("stays"));
    assert!(stage.writer.turn(Tick(0)));
    assert_eq!(stage.posted(), [Some((1, 0))]);
    assert_eq!((stage.generation(), stage.topic_count()), (before, 4_002));
    stage.settle(0);
    assert_eq!((stage.generation(), stage.topic_count()), (before + 1, 2));
    stage.writer.table.check_invariants();
}

#[test]
fn a_request_between_two_closes_finds_the_first_broker_gone_and_not_the_second() {
    let mut stage = stage();
    for (conn, broker) in [(1, "a"), (2, "b")] {
        stage.send(conn, None, register(broker, 2, None));
    }
    stage.settle(0);
    stage.send(1, None, WriteOp::ConnectionClosed);
    stage.send(3, Some(1), query_version("a"));
    stage.send(3, Some(2), query_version("b"));
    stage.send(2, None, WriteOp::ConnectionClosed);
    stage.settle(0);
    let with_version = |letter| match letter {
        ToShard::Answer(answer) => (answer.opaque.0, !answer.body.is_empty()),
        ToShard::Close(_) => panic!("nobody expires here"),
    };
    let letters: Vec<_> = stage.letters().into_iter().map(with_version).collect();
    assert_eq!(letters, [(1, false), (2, true)]);
    assert_eq!(stage.topic_count(), 0);
}

#[test]
fn a_large_registration_that_is_known_does_not_queue_behind_others() {
    let mut stage = stage();
    stage.send(2, None, register("b", 2_000, None));
    stage.settle(0);
    for (conn, broker) in [(3, "large"), (4, "larger")] {
        stage.send(conn, Some(1), register(broker, LARGE, None));
    }
    assert!(stage.writer.turn(Tick(0)));
    stage.send(2, Some(2), register("b", 2_000, None));
    assert!(stage.writer.turn(Tick(0)));
    assert_eq!(stage.posted(), [Some((2, 0))]);
    stage.settle(0);
    assert_eq!(stage.posted(), [Some((1, 0)), Some((1, 0))]);
}

#[test]
fn nobody_expires_in_the_middle_of_a_change() {
    let mut stage = stage();
    stage.send(2, None, register("b", 2, Some(1_000)));
    stage.settle(0);
    stage.send(1, None, register("large", LARGE, None));
    stage.turn_to_the_middle();
    assert!(stage.writer.turn(Tick(1_001)));
    assert!(stage.has_route("b-0") && !stage.writer.table.is_whole());
    stage.settle(1_001);
    assert!(!stage.has_route("b-0") && stage.has_route("large-0"));
    stage.writer.table.check_invariants();
}

#[test]
fn what_closes_because_the_server_stops_in_the_middle_of_a_change_is_in_the_last_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes");
    let mut stage = stage_from(1, Restored::default(), Some(path.clone()));
    stage.send(2, None, register("b", 2, None));
    stage.settle(0);
    stage.send(1, None, register("large", LARGE, None));
    stage.turn_to_the_middle();
    stage.writer.parts.leaving.store(true, Ordering::Release);
    stage.send(2, None, WriteOp::ConnectionClosed);
    stage.settle(0);
    assert!(!stage.has_route("b-0") && stage.has_route("large-0"));
    drop(stage); // waits for the disk
    let restored = RouteTable::restore(&std::fs::read(path).unwrap()).unwrap();
    let view = restored.table.freeze();
    assert_eq!(view.topic_count(), LARGE + 2);
    assert!(view.topic("b-0").is_some());
}

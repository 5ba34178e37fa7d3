//! Aim: what many peers do at the same moment leaves the tables as if they had done it one after
//! the other. Method: real sockets and threads, bounded rounds. What depends on luck is repeated,
//! and right every time.

mod support;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::comes_true;
use support::conn::Conn;
use support::frame::{Answer, Request};
use support::json::parse;
use support::registration::Registration;
use support::server::{Server, is_java};

fn route(conn: &mut Conn, topic: &str) -> Answer {
    conn.ask(Request::new(105).ext("topic", topic))
}

fn cluster_info(conn: &mut Conn) -> Value {
    let answer = conn.ask(Request::new(106));
    assert_eq!(answer.code(), 0, "{}", answer.text());
    parse(&answer.body).expect("cluster info").0
}

/// On the Java server a removal that is queued already undoes the new registration.
#[test]
fn issue_11043_a_broker_that_moves_to_a_new_connection_is_never_lost() {
    if is_java() {
        return;
    }
    let server = Server::start(&[]);
    let broker = Registration::new("mover", "10.21.1.1:10911", 0, "mover", &["move-1", "move-2"]);
    let (mut query, mut first) = (server.connect(), server.connect());
    assert_eq!(first.ask(broker.request()).code(), 0);
    let mut old = Some(first);
    for round in 0..300 {
        let mut new = server.connect();
        let opaque = if round % 2 == 0 {
            drop(old.take());
            new.send(broker.request())
        } else {
            let opaque = new.send(broker.request());
            old.take().into_iter().for_each(Conn::reset);
            opaque
        };
        assert_eq!(new.answer_to(opaque).code(), 0);
        let answer = route(&mut query, "move-1");
        assert_eq!(answer.code(), 0, "round {round}: {}", answer.text());
        old = Some(new);
    }
    // A last close that is dealt with behind all the others.
    let mark = Registration::new("mark", "10.21.1.2:10911", 0, "mark", &["mark-1", "mark-2"]);
    let mut marked = server.connect();
    assert_eq!(marked.ask(mark.request()).code(), 0);
    drop(marked);
    let gone = || route(&mut query, "mark-1").code() == 17;
    assert!(comes_true(Duration::from_secs(5), gone), "the mark goes");
    assert_eq!(route(&mut query, "move-1").code(), 0, "the broker is still there");
}

/// A broker that lost patience with one connection and registers on another, which another shard
/// serves half of the time. The Java server's threads have no order to keep.
#[test]
fn what_a_broker_said_on_its_old_connection_does_not_undo_the_new_one() {
    if is_java() {
        return;
    }
    let server = Server::start(&[("shards", "2")]);
    let mut query = server.connect();
    let names: Vec<String> = (1..=600).map(|topic| format!("shift-{topic}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let beat = Request { flag: 2, ..Request::new(904) };
    let beat = beat.ext("clusterName", "shift").ext("brokerAddr", "10.21.5.9:1");
    let beats = beat.encode().repeat(1_500);
    for round in 0..60 {
        let (mut old, mut new) = (server.connect(), server.connect());
        let mark = Registration::new("left", "10.21.5.2:10911", 0, "shift", &["left-1", "left-2"]);
        assert_eq!(old.ask(mark.request()).code(), 0);
        // Heartbeats make the old connection's lane long, 600 topics the registration slow.
        let topics = if round % 2 == 0 { &names[..2] } else { &names };
        let first = Registration::new("shift", "10.21.5.1:10911", 0, "shift", topics);
        let mut batch = beats.clone();
        batch.extend(first.request().encode());
        old.send_bytes(&batch);
        // The shard answers this itself, so it has accepted what came before.
        assert_eq!(old.ask(Request::new(106)).code(), 0);
        let second = Registration::new("shift", "10.21.5.1:10911", 0, "shift", &names[..2]);
        assert_eq!(new.ask(second.request()).code(), 0, "round {round}");
        drop(old);
        let closed = || route(&mut query, "left-1").code() == 17;
        assert!(comes_true(Duration::from_secs(5), closed), "round {round}: the close is noticed");
        let answer = route(&mut query, "shift-1");
        assert_eq!(answer.code(), 0, "round {round}: {}", answer.text());
    }
}

/// The Java server encodes its live tables, which fails now and then.
#[test]
fn issue_1432_cluster_info_is_of_one_moment_while_brokers_come_and_go() {
    if is_java() {
        return;
    }
    let server = Server::start(&[]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let (server, topics) = (&server, ["churn-1", "churn-2"]);
                scope.spawn(move || {
                    let mut conn = server.connect();
                    for round in 0..200 {
                        let name = format!("churn-{writer}-{}", round % 20);
                        let addr = format!("10.21.2.{writer}:{}", 1 + round % 20);
                        let broker = Registration::new(&name, &addr, 0, "churn", &topics);
                        assert_eq!(conn.ask(broker.request()).code(), 0);
                        let gone = Request::new(104).ext("brokerName", &name);
                        let gone = gone.ext("brokerAddr", &addr).ext("clusterName", "churn");
                        assert_eq!(conn.ask(gone.ext("brokerId", 0)).code(), 0);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                let mut conn = server.connect();
                while !stop.load(Relaxed) {
                    check_one_moment(&cluster_info(&mut conn));
                    let system = conn.ask(Request::new(304));
                    assert_eq!(system.code(), 0, "{}", system.text());
                    let route = route(&mut conn, "churn-1");
                    assert!(matches!(route.code(), 0 | 17), "{}", route.text());
                }
            });
        }
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Relaxed);
        for end in ends {
            end.expect("every registration was answered right");
        }
    });
}

/// Every name in the table of clusters has its broker.
fn check_one_moment(info: &Value) {
    for (cluster, names) in info["clusterAddrTable"].as_object().expect("a table") {
        for name in names.as_array().expect("a list").iter().filter_map(Value::as_str) {
            let known = info["brokerAddrTable"].get(name).is_some();
            assert!(known, "`{name}` of `{cluster}` has no entry: {info}");
        }
    }
}

/// A storm of resets must not hide the ones that count.
#[test]
fn issue_4533_brokers_that_are_reset_among_many_clients_are_all_gone() {
    let server = Server::start(&[]);
    let mut query = server.connect();
    let mut conns: Vec<Conn> = (0..3000).map(|_| server.connect()).collect();
    for (number, conn) in conns.iter_mut().enumerate().step_by(150) {
        let (name, addr) = (format!("storm-{number}"), format!("10.21.3.1:{}", 1 + number));
        let broker = Registration::new(&name, &addr, 0, "storm", &["storm-1", "storm-2"]);
        assert_eq!(conn.ask(broker.request()).code(), 0);
    }
    let answer = parse(&route(&mut query, "storm-1").body).expect("a route").0;
    assert_eq!(answer["brokerDatas"].as_array().map(Vec::len), Some(20));
    for conn in conns {
        conn.reset();
    }
    let gone = || cluster_info(&mut query)["clusterAddrTable"].get("storm").is_none();
    assert!(comes_true(Duration::from_secs(3), gone), "all brokers of the storm are gone");
    assert_eq!(route(&mut query, "storm-1").code(), 17);
}

/// Everything expires at once, and readers do not notice.
#[test]
fn issue_5795_many_brokers_expire_at_once() {
    let server = Server::start(&[]);
    let (mut query, mut brokers) = (server.connect(), server.connect());
    let topics: Vec<String> = (0..50).map(|topic| format!("mass-{topic}")).collect();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    for number in 0..100 {
        let (name, addr) = (format!("mass-{number}"), format!("10.21.4.1:{}", 1 + number));
        let broker = Registration::new(&name, &addr, 0, "mass", &topics);
        let broker = Registration { timeout: Some("3000".to_owned()), ..broker };
        assert_eq!(brokers.ask(broker.request()).code(), 0);
    }
    let answer = parse(&route(&mut query, "mass-0").body).expect("a route").0;
    assert_eq!(answer["brokerDatas"].as_array().map(Vec::len), Some(100));
    // Expiry and, on the Java server, one scan.
    let gone = || route(&mut query, "mass-0").code() == 17;
    assert!(comes_true(Duration::from_secs(12), gone), "all routes are gone");
    assert!(cluster_info(&mut query)["clusterAddrTable"].get("mass").is_none());
}

/// The same when their connections close instead.
#[test]
fn issue_5795_many_brokers_go_with_their_connections_at_once() {
    let server = Server::start(&[]);
    let mut query = server.connect();
    let topics: Vec<String> = (0..50).map(|topic| format!("leave-{topic}")).collect();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    let brokers: Vec<Conn> = (0..200)
        .map(|number| {
            let (name, addr) = (format!("leave-{number}"), format!("10.21.5.1:{}", 1 + number));
            let mut conn = server.connect();
            let broker = Registration::new(&name, &addr, 0, "leave", &topics);
            assert_eq!(conn.ask(broker.request()).code(), 0);
            conn
        })
        .collect();
    let answer = parse(&route(&mut query, "leave-0").body).expect("a route").0;
    assert_eq!(answer["brokerDatas"].as_array().map(Vec::len), Some(200));
    drop(brokers);
    let gone = || route(&mut query, "leave-49").code() == 17;
    assert!(comes_true(Duration::from_secs(5), gone), "all routes are gone");
    let gone = || cluster_info(&mut query)["clusterAddrTable"].get("leave").is_none();
    assert!(comes_true(Duration::from_secs(5), gone), "all brokers are gone");
}

/// A registration that comes when the one before it is about to expire, or just has.
#[test]
fn issue_11043_a_broker_that_registers_at_its_deadline_is_never_lost() {
    if is_java() {
        return; // It looks for expired brokers every 5 s only.
    }
    const TIMEOUT_MS: u64 = 100;
    let server = Server::start(&[]);
    let mut query = server.connect();
    let addr = "10.21.6.1:10911";
    let broker = Registration::new("edge", addr, 0, "edge", &["edge-1", "edge-2"]);
    let broker = Registration { timeout: Some(TIMEOUT_MS.to_string()), ..broker };
    let mut conn = server.connect();
    for round in 0..60 {
        let mut sent = Instant::now();
        let opaque = conn.send(broker.request());
        let answer = match conn.try_answer_to(opaque) {
            Ok(answer) => answer,
            Err(_) => {
                // It had expired, and its connection with it.
                conn = server.connect();
                sent = Instant::now();
                conn.ask(broker.request())
            }
        };
        assert_eq!(answer.code(), 0, "round {round}: {}", answer.text());
        let found = route(&mut query, "edge-1").code();
        // Meanwhile it may expire again, but not before its time.
        let late = sent.elapsed() >= Duration::from_millis(TIMEOUT_MS);
        assert!(found == 0 || late, "round {round}: lost");
        // From 10 ms before the deadline to 10 ms after it.
        let offset = Duration::from_millis(TIMEOUT_MS - 10 + round % 20);
        std::thread::sleep(offset.saturating_sub(sent.elapsed())); // time is the subject
    }
}

/// Two hosts that both believe to be the master, and each says so and takes it back.
#[test]
fn rocketmq_rust_4421_masters_that_change_at_the_same_time_leave_whole_tables() {
    if is_java() {
        return; // It keeps names without members, here and of brokers in other tests.
    }
    let server = Server::start(&[("supportActingMaster", "true")]);
    std::thread::scope(|scope| {
        for host in 1..=3 {
            let server = &server;
            scope.spawn(move || {
                let mut conn = server.connect();
                let addr = format!("10.21.7.{host}:10911");
                for round in 0..100_i64 {
                    let id = (round + host) % 3;
                    let broker =
                        Registration::new("duel", &addr, id, "duel", &["duel-1", "duel-2"]);
                    let acting = Some("true".to_owned());
                    let broker = Registration { acting, state: round, counter: round, ..broker };
                    assert_eq!(conn.ask(broker.request()).code(), 0);
                    let gone = Request::new(104).ext("brokerName", "duel").ext("brokerAddr", &addr);
                    let gone = gone.ext("clusterName", "duel").ext("brokerId", id);
                    assert_eq!(conn.ask(gone).code(), 0);
                    check_one_moment(&cluster_info(&mut conn));
                }
            });
        }
    });
    // Each has left, so nothing may be: no member, no queue, no name.
    let mut query = server.connect();
    let gone = || route(&mut query, "duel-1").code() == 17;
    assert!(comes_true(Duration::from_secs(5), gone), "a route is left");
    let info = cluster_info(&mut query);
    assert!(info["brokerAddrTable"].get("duel").is_none(), "{info}");
    assert!(info["clusterAddrTable"].get("duel").is_none(), "{info}");
}

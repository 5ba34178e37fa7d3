//! Aim: a server that does not run for a while, or has no room, is no trap for its peers.
//! Method: its process is stopped and continued by signals, and filled up.

mod support;

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use support::comes_true;
use support::conn::{Conn, Got};
use support::frame::Request;
use support::registration::Registration;
use support::server::{Server, given};

/// How long the server stands still: longer than its broker may be silent.
const STOPPED: Duration = Duration::from_secs(4);
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(3);

fn signal(server: &Server, signal: Signal) {
    kill_process(server.pid().expect("a server of ours"), signal).expect("our own child");
}

fn heartbeat() -> Request {
    Request::new(904).ext("clusterName", "still").ext("brokerAddr", "10.23.1.1:10911")
}

/// What was sent meanwhile waits in sockets, and has to count before anybody is called silent.
#[test]
fn issue_9290_a_server_that_stood_still_expires_no_broker_that_kept_speaking() {
    if given().is_some() {
        return;
    }
    let server = Server::start(&[]);
    let (mut broker, mut silent, mut query) =
        (server.connect(), server.connect(), server.connect());
    let topics = ["still-1", "still-2"];
    let timeout = Some(HEARTBEAT_TIMEOUT.as_millis().to_string());
    let registration = Registration::new("still", "10.23.1.1:10911", 0, "still", &topics);
    let registration = Registration { timeout: timeout.clone(), ..registration };
    assert_eq!(broker.ask(registration.request()).code(), 0);
    let mute = Registration::new("mute", "10.23.1.2:10911", 0, "still", &["mute-1", "mute-2"]);
    let mute = Registration { timeout, ..mute };
    assert_eq!(silent.ask(mute.request()).code(), 0);

    signal(&server, Signal::STOP);
    let began = Instant::now();
    let mut last = 0;
    while began.elapsed() < STOPPED {
        last = broker.send(heartbeat());
        std::thread::sleep(Duration::from_millis(500)); // as often as a broker says so
    }
    query.send(Request::new(105).ext("topic", "still-1"));
    signal(&server, Signal::CONT);

    // The first question that it looks at again, and one behind all heartbeats.
    let route = query.answer_to(1);
    assert_eq!(route.code(), 0, "{}", route.text());
    assert_eq!(broker.answer_to(last).code(), 0, "its connection has not been closed");
    let route = query.ask(Request::new(105).ext("topic", "still-1"));
    assert_eq!(route.code(), 0, "{}", route.text());
    // Time goes on again for those that say nothing.
    let mut conn = server.connect();
    let gone = || {
        assert_eq!(broker.ask(heartbeat()).code(), 0);
        conn.ask(Request::new(105).ext("topic", "mute-1")).code() != 0
    };
    assert!(comes_true(4 * HEARTBEAT_TIMEOUT, gone), "a silent broker never expires");
    assert_eq!(conn.ask(Request::new(105).ext("topic", "still-1")).code(), 0);
}

/// Waiting for an answer that never comes costs a client 3 s; a close sends it to the next server.
#[test]
fn issue_9290_a_full_server_closes_new_connections_at_once_and_serves_the_others() {
    if given().is_some() {
        return;
    }
    let server = Server::start(&[("maxConnections", "10"), ("shards", "1")]);
    let mut inside: Vec<Conn> = (0..10).map(|_| server.connect()).collect();
    for conn in &mut inside {
        assert_eq!(conn.ask(Request::new(105).ext("topic", "none")).code(), 17);
    }
    for _ in 0..50 {
        let began = Instant::now();
        let outside = server.connect();
        let limit = Some(Duration::from_secs(3));
        outside.stream().set_read_timeout(limit).expect("a timeout above zero");
        let mut stream = outside.stream();
        match stream.read(&mut [0; 1]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("not closed within {:?}: {other:?}", began.elapsed()),
        }
    }
    for conn in &mut inside {
        assert_eq!(conn.ask(Request::new(105).ext("topic", "none")).code(), 17);
    }
    // Whoever goes makes room.
    drop(inside.pop());
    let has_room = || {
        let mut conn = server.connect();
        conn.send(Request::new(105).ext("topic", "none"));
        matches!(conn.next_frame(Duration::from_secs(3)), Got::Frame(_))
    };
    assert!(comes_true(Duration::from_secs(5), has_room), "still no room");
}

//! Aim: large fleets and busy peers change no answer. How fast it goes is measured elsewhere, by
//! benches and `loadgen`; here sizes are those that a test can afford.
//! Method: real sockets; counts and codes are exact, times are generous.

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::conn::Conn;
use support::frame::{Answer, Request};
use support::json::parse;
use support::registration::{Layout, Registration, Topic};
use support::server::{Server, given, is_java};

/// A broker gives up a registration after this time.
const BROKERS_PATIENCE: Duration = Duration::from_secs(6);

fn topics(prefix: &str, count: usize) -> Vec<Topic> {
    (0..count).map(|number| Topic::new(&format!("{prefix}{number}"))).collect()
}

fn names(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.code(), 0, "{}", answer.text());
    let (body, _) = parse(&answer.body).expect("a list of topics");
    let list = body["topicList"].as_array().expect("a list");
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn register(conn: &mut Conn, registration: &Registration) {
    let answer = conn.ask(registration.request());
    assert_eq!(answer.code(), 0, "{}", answer.text());
}

/// Adding to a list that is copied for each name took Java minutes.
#[test]
fn issue_7534_fifty_thousand_topics_are_listed_once_each_and_at_once() {
    const TOPICS: usize = 50_000;
    let server = Server::start(&[]);
    let mut conn = server.connect();
    for (number, name) in ["crowd-a", "crowd-b"].into_iter().enumerate() {
        let addr = format!("10.22.1.{number}:10911");
        let registration = Registration::new(name, &addr, 0, "crowd", &[]);
        let topics = topics("crowd-", TOPICS);
        register(&mut conn, &Registration { topics, layout: Layout::Zip, ..registration });
    }
    let lists = [Request::new(206), Request::new(224).ext("cluster", "crowd")];
    for request in lists {
        let began = Instant::now();
        let mut names = names(&conn.ask(request));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        names.retain(|name| name.starts_with("crowd-"));
        let unique: BTreeSet<&String> = names.iter().collect();
        assert_eq!((names.len(), unique.len()), (TOPICS, TOPICS));
    }
}

/// Clients cut the connection at a frame above 16 MiB, so such an answer would only look like a
/// failing network. The Java server sends it.
#[test]
fn issue_9467_a_list_that_no_client_can_read_is_refused_in_words() {
    if is_java() || given().is_some() {
        return; // The topics would stay in everybody's way.
    }
    let server = Server::start(&[]);
    let mut conn = server.connect();
    let registration = Registration::new("wide", "10.22.2.1:10911", 0, "wide", &[]);
    let topics = topics(&"w".repeat(240), 70_000);
    register(&mut conn, &Registration { topics, layout: Layout::Zip, ..registration });
    let answer = conn.ask(Request::new(206));
    assert_eq!(answer.code(), 1, "{}", answer.text());
    assert!(answer.text().contains("larger than 16 MiB"), "{}", answer.text());
    let one = conn.ask(Request::new(105).ext("topic", "w".repeat(240) + "69999"));
    assert_eq!(one.code(), 0, "{}", one.text());
}

/// Uncompressed they would not fit a frame.
#[test]
fn issue_7326_seventy_thousand_topics_register_compressed() {
    const TOPICS: usize = 70_000;
    let server = Server::start(&[]);
    let mut conn = server.connect();
    let registration = Registration::new("many", "10.22.3.1:10911", 0, "many", &[]);
    let topics = topics("many-topics-with-names-of-common-length-", TOPICS);
    let registration = Registration { topics, layout: Layout::Zip, ..registration };
    let began = Instant::now();
    register(&mut conn, &registration);
    assert!(began.elapsed() < BROKERS_PATIENCE, "{:?}", began.elapsed());
    let names = names(&conn.ask(Request::new(224).ext("cluster", "many")));
    assert_eq!(names.len(), TOPICS);
}

/// Each new consumer group makes every broker send all of its topics again.
#[test]
fn issue_3407_storms_of_full_registrations_cost_no_lasting_memory_and_no_answer() {
    const ROUNDS: i64 = 6;
    const BROKERS: usize = 8;
    const TOPICS: usize = 2000;
    let server = Server::start(&[]);
    let mut query = server.connect();
    let mut conns: Vec<Conn> = (0..BROKERS).map(|_| server.connect()).collect();
    let mut storm = |round: i64| {
        std::thread::scope(|scope| {
            for (broker, conn) in conns.iter_mut().enumerate() {
                scope.spawn(move || {
                    let addr = format!("10.22.4.{broker}:10911");
                    let mut topics = topics("storm-topic-", TOPICS);
                    topics.extend((0..=round).map(|round| Topic::new(&format!("retry-{round}"))));
                    let name = format!("storm-{broker}");
                    let registration = Registration::new(&name, &addr, 0, "storm", &[]);
                    register(conn, &Registration { topics, counter: round, ..registration });
                });
            }
        });
    };
    storm(0);
    let before = server.peak_memory();
    for round in 1..ROUNDS {
        storm(round);
        for topic in ["storm-topic-0", "storm-topic-1999", &format!("retry-{round}")] {
            let answer = query.ask(Request::new(105).ext("topic", topic));
            let (body, _) = parse(&answer.body).expect("a route");
            assert_eq!(body["brokerDatas"].as_array().map(Vec::len), Some(BROKERS), "{topic}");
        }
    }
    let (Some(before), Some(after)) = (before, server.peak_memory()) else { return };
    let grown = after.resident.saturating_sub(before.resident);
    assert!(grown < 64 << 20, "memory grew by {grown} bytes");
}

/// The Java server answers everything in one queue unless told otherwise.
#[test]
fn issue_3792_brokers_are_answered_in_time_while_one_client_asks_for_everything() {
    const REQUESTS: i32 = 20_000;
    let server = Server::start(&[]);
    let mut broker = server.connect();
    let registration =
        Registration::new("calm", "10.22.5.1:10911", 0, "calm", &["calm-1", "calm-2"]);
    register(&mut broker, &registration);
    let (mut greedy, mut other) = (server.connect(), server.connect());
    let mut sending = Conn::over(greedy.stream().try_clone().expect("a second handle"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..REQUESTS {
                sending.send(Request::new(105).ext("topic", "calm-1"));
            }
        });
        let reading = scope.spawn(move || {
            (1..=REQUESTS).for_each(|opaque| assert_eq!(greedy.answer_to(opaque).code(), 0));
        });
        for counter in 2.. {
            let began = Instant::now();
            register(&mut broker, &Registration { counter, ..registration.clone() });
            let alive = Request::new(904).ext("clusterName", "calm");
            let alive = broker.ask(alive.ext("brokerAddr", "10.22.5.1:10911"));
            assert_eq!(alive.code(), 0, "{}", alive.text());
            assert_eq!(other.ask(Request::new(105).ext("topic", "calm-2")).code(), 0);
            assert!(began.elapsed() < BROKERS_PATIENCE, "{:?}", began.elapsed());
            if reading.is_finished() {
                break;
            }
        }
        reading.join().expect("every request is answered, in order");
    });
}

/// And the other way round: a client does not wait for a large registration.
#[test]
fn issue_3792_clients_are_answered_while_brokers_send_all_they_have() {
    let server = Server::start(&[]);
    let (mut broker, mut client) = (server.connect(), server.connect());
    let registration = Registration::new("full", "10.22.6.1:10911", 0, "full", &[]);
    let registration = Registration { topics: topics("full-", 20_000), ..registration };
    register(&mut broker, &registration);
    let mut asked = 0;
    for counter in 2..5 {
        let opaque = broker.send(Registration { counter, ..registration.clone() }.request());
        for _ in 0..50 {
            let began = Instant::now();
            let route = client.ask(Request::new(105).ext("topic", "full-19999"));
            assert_eq!(route.code(), 0, "{}", route.text());
            assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
            asked += 1;
        }
        assert_eq!(broker.answer_to(opaque).code(), 0);
    }
    assert_eq!(asked, 150);
}

/// Every registration of an unchanged broker used to rebuild every topic it has.
#[test]
fn issue_4245_unchanged_registrations_change_no_answer_and_cost_no_memory() {
    let server = Server::start(&[]);
    let mut conns: Vec<Conn> = (0..20).map(|_| server.connect()).collect();
    let registrations: Vec<Registration> = (0..conns.len())
        .map(|broker| {
            let (name, addr) = (format!("same-{broker:02}"), format!("10.22.7.{broker}:10911"));
            let registration = Registration::new(&name, &addr, 0, "same", &[]);
            Registration { topics: topics("same-", 500), ..registration }
        })
        .collect();
    let mut all = |counter: i64| {
        for (conn, registration) in conns.iter_mut().zip(&registrations) {
            register(conn, &Registration { counter, ..registration.clone() });
        }
    };
    let ask = || server.connect().ask(Request::new(105).ext("topic", "same-499")).body;
    all(1);
    let (answer, before) = (ask(), server.peak_memory());
    let brokers = parse(&answer).expect("a route").0["brokerDatas"].as_array().map(Vec::len);
    assert_eq!(brokers, Some(20));
    for _ in 0..10 {
        all(1);
    }
    assert_eq!(ask(), answer);
    let (Some(before), Some(after)) = (before, server.peak_memory()) else { return };
    let grown = after.resident.saturating_sub(before.resident);
    assert!(grown < 16 << 20, "memory grew by {grown} bytes");
}

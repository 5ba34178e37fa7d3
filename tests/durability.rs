//! Aim: what was acknowledged is there after any end of the process, and nothing else is shown.
//! Method: a server is killed and started again on its files, which are also damaged in ways that
//! crashes and full disks damage them. The Java server has no part in this: it answers before it
//! writes, and writes in place.

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use support::conn::{Conn, Got};
use support::frame::{Answer, Request};
use support::registration::Registration;
use support::server::{SETTINGS, Server, given};

/// Its KV file, in the server's folder.
const KV: &str = "kv.json";

fn named(code: i32, key: &str) -> Request {
    Request::new(code).ext("namespace", "du").ext("key", key)
}

fn put(conn: &mut Conn, key: &str, value: &str) -> Answer {
    conn.ask(named(100, key).ext("value", value))
}

fn get(conn: &mut Conn, key: &str) -> Option<String> {
    let answer = conn.ask(named(101, key));
    let found = match answer.code() {
        0 => true,
        22 => false,
        _ => panic!("{}", answer.text()),
    };
    let value = answer.fields["extFields"]["value"].as_str().map(str::to_owned);
    assert_eq!(value.is_some(), found, "{}", answer.text());
    value
}

fn start() -> Option<Server> {
    given().is_none().then(|| Server::start(&[("allowRemoteConfigUpdate", "true")]))
}

/// A value of another length for each number, growing and shrinking.
fn value(number: usize) -> String {
    format!("{number} {}", "v".repeat(number * 7919 % 30_000))
}

#[test]
fn issue_5905_after_kill_9_the_last_acknowledged_value_is_there() {
    let Some(mut server) = start() else { return };
    let mut number = 0;
    for round in 0..20 {
        let mut conn = server.connect();
        for _ in 0..=round % 3 {
            number += 1;
            assert_eq!(put(&mut conn, "k", &value(number)).code(), 0);
        }
        // One more is under way when it dies.
        conn.send(named(100, "k").ext("value", value(number + 1)));
        let answered = (round % 2 == 0).then(|| conn.next_frame(support::conn::ANSWER_WITHIN));
        number += usize::from(matches!(answered, Some(Got::Frame(_))));
        server.kill_and_start(|folder| {
            let file = fs::read_to_string(folder.join(KV)).expect("the file is there");
            serde_json::from_str::<serde_json::Value>(&file).expect("the file is whole");
        });
        let found = get(&mut server.connect(), "k").expect("a value");
        let next = found == value(number + 1);
        assert!(next || found == value(number), "round {round}: {number} was acknowledged");
        number += usize::from(next);
    }
}

#[test]
fn issue_5905_a_file_cut_to_nothing_is_replaced_by_its_backup() {
    let Some(mut server) = start() else { return };
    let mut conn = server.connect();
    assert_eq!(put(&mut conn, "first", "1").code(), 0);
    assert_eq!(put(&mut conn, "second", "2").code(), 0);
    let ways: [fn(&Path); 2] = [
        |kv| fs::write(kv, "").expect("it can be cut"),
        |kv| fs::remove_file(kv).expect("it can be removed"),
    ];
    for damage in ways {
        server.kill_and_start(|folder| damage(&folder.join(KV)));
        let mut conn = server.connect();
        assert_eq!(get(&mut conn, "first").as_deref(), Some("1"), "the backup is one change old");
        assert_eq!(put(&mut conn, "second", "2").code(), 0);
    }
}

/// Where the file should go there is none, as on a disk that is full or read-only: also for those
/// who may write everywhere.
#[test]
fn rocketmq_rust_9195_what_cannot_be_saved_is_refused_and_never_shown() {
    let Some(mut server) = start() else { return };
    let folder = server.folder().expect("a server of ours").to_owned();
    let settings = fs::read_to_string(folder.join(SETTINGS)).expect("its settings");
    let (place, aside) = (folder.join("kept"), folder.join("aside"));
    let moved = settings
        .replace(&folder.join(KV).display().to_string(), &place.join(KV).display().to_string());
    assert_ne!(moved, settings, "the KV file moves");
    server.kill_and_start(|folder| fs::write(folder.join(SETTINGS), moved).expect("a file"));
    let (mut conn, mut other) = (server.connect(), server.connect());
    assert_eq!(put(&mut conn, "k", "old").code(), 0);
    fs::rename(&place, &aside).expect("its folder moves away");
    fs::write(&place, "in its way").expect("a file");
    for request in [named(100, "k").ext("value", "new"), named(102, "k")] {
        let answer = conn.ask(request);
        assert_eq!(answer.code(), 1, "{}", answer.text());
        assert!(answer.text().contains("could not be saved"), "{}", answer.text());
        assert_eq!(get(&mut other, "k").as_deref(), Some("old"));
    }
    fs::remove_file(&place).expect("the file goes");
    fs::rename(&aside, &place).expect("its folder comes back");
    assert_eq!(put(&mut conn, "k", "newer").code(), 0);
    server.kill_and_start(|_| ());
    assert_eq!(get(&mut server.connect(), "k").as_deref(), Some("newer"));
}

fn update(conn: &mut Conn, body: impl Into<Vec<u8>>) -> Answer {
    conn.ask(Request::new(318).body(body))
}

#[test]
fn issue_7542_settings_are_changed_within_their_ranges_or_not_at_all() {
    let Some(mut server) = start() else { return };
    let mut conn = server.connect();
    let listing = |conn: &mut Conn| conn.ask(Request::new(319)).body_text();
    let before = listing(&mut conn);
    for body in [
        "waitSecondsForService=-1\n",
        "waitSecondsForService=99999999\n",
        "enableTopicList=perhaps\n",
        "enableTopicList=false\nlistenPort=1\n",
        "enableTopicList=false\nscanNotActiveBrokerInterval=0\n",
        "enableTopicList=false\nserverWorkerThreads=0\n",
        "enableTopicList=false\nclientRequestThreadPoolQueueCapacity=1\n",
        "enableTopicList=false\nshards=1\n",
    ] {
        let answer = update(&mut conn, body);
        assert_eq!(answer.code(), 16, "{body}: {}", answer.text());
    }
    // The largest body that a frame takes, next to nothing in it.
    let mut largest = b"enableTopicList=false\n#".to_vec();
    largest.resize((16 << 20) - 300, b'x');
    let answer = update(&mut conn, largest);
    assert_eq!(answer.code(), 16, "{}", answer.text());
    assert_eq!(update(&mut conn, "").code(), 0, "an empty body is no change");
    assert_eq!(listing(&mut conn), before);
    // A change within range is there at once and after the next start.
    assert_eq!(update(&mut conn, "waitSecondsForService=7\n").code(), 0);
    server.kill_and_start(|_| ());
    let after = listing(&mut server.connect());
    let changed = before.replace("waitSecondsForService=45\n", "waitSecondsForService=7\n");
    assert_eq!(after.replace(&port_of(&after), &port_of(&before)), changed);
}

fn port_of(listing: &str) -> String {
    let line = listing.lines().find(|line| line.starts_with("listenPort="));
    line.expect("a port is listed").to_owned()
}

#[test]
fn cve_2024_23321_no_secret_of_the_settings_file_is_shown_or_can_be_guessed() {
    if given().is_some() {
        return;
    }
    // A file that is shared with a broker has more than ours.
    let secrets = [
        ("tls.server.keyPassword", "hunter-1"),
        ("accessKey", "hunter-2"),
        ("brokerSecretKey", "hunter-3"),
        ("initAuthenticationUser", r#"{"username":"a","password":"hunter-4"}"#),
        ("innerClientAuthenticationCredentials", "hunter-5"),
        ("metricsExporterUrl", "http://user:hunter-6@host/"),
    ];
    let more = [("allowRemoteConfigUpdate", "true"), ("brokerName", "shown")];
    let server = Server::start(&[&secrets[..], &more].concat());
    let mut conn = server.connect();
    let listing = conn.ask(Request::new(319)).body_text();
    assert!(listing.contains("brokerName=shown\n"), "{listing}");
    assert!(!listing.contains("hunter"), "{listing}");
    for (key, value) in secrets {
        // Right or wrong, the answer is the same.
        let guesses = [value, "wrong"].map(|guess| {
            let answer = update(&mut conn, format!("{key}={guess}\n"));
            (answer.code(), answer.fields["remark"].clone())
        });
        assert_eq!(guesses[0], guesses[1], "{key}");
        assert_eq!(guesses[0].0, 16, "{key}");
    }
}

#[test]
fn routes_are_there_at_once_after_a_restart_until_their_broker_is_overdue() {
    if given().is_some() {
        return;
    }
    let mut server = Server::start(&[("routeSnapshotPath", "routes.snapshot")]);
    let broker = Registration::new("warm", "10.24.1.1:10911", 0, "warm", &["warm-1", "warm-2"]);
    let broker = Registration { timeout: Some("3000".to_owned()), ..broker };
    let mut conn = server.connect();
    assert_eq!(conn.ask(broker.request()).code(), 0);
    let route = || Request::new(105).ext("topic", "warm-1");
    let before = conn.ask(route());
    server.stop_and_start();
    let mut conn = server.connect();
    let after = conn.ask(route());
    assert_eq!((after.code(), after.body), (0, before.body));
    let deadline = Instant::now() + Duration::from_secs(30);
    while conn.ask(route()).code() == 0 {
        assert!(Instant::now() < deadline, "a broker that is gone stays for ever");
        std::thread::sleep(Duration::from_millis(50)); // the wait between two looks
    }
    assert_eq!(conn.ask(broker.request()).code(), 0);
    assert_eq!(conn.ask(route()).code(), 0);
}

#[test]
fn a_damaged_route_snapshot_costs_the_routes_and_nothing_else() {
    if given().is_some() {
        return;
    }
    let mut server = Server::start(&[("routeSnapshotPath", "routes.snapshot")]);
    let broker = Registration::new("warm", "10.24.1.2:10911", 0, "warm", &["warm-3", "warm-4"]);
    // Its connection is kept: with it the broker would leave, and not be in the snapshot.
    let mut conn = server.connect();
    assert_eq!(conn.ask(broker.request()).code(), 0);
    server.stop_and_start();
    let kept = server.connect().ask(Request::new(105).ext("topic", "warm-3"));
    assert_eq!(kept.code(), 0, "whole, it holds the route");
    server.kill_and_start(|folder| {
        let path = folder.join("routes.snapshot");
        let mut bytes = fs::read(&path).expect("it is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).expect("it can be written");
    });
    let mut conn = server.connect();
    assert_eq!(conn.ask(Request::new(105).ext("topic", "warm-3")).code(), 17);
    assert_eq!(conn.ask(broker.request()).code(), 0);
    assert_eq!(conn.ask(Request::new(105).ext("topic", "warm-3")).code(), 0);
}

//! Aim: who may change something can be limited by network, with nothing new on the wire.
//! Method: peers of several loopback addresses, each asking for everything, and the tables looked
//! at afterwards. The Java server has no such limit.

mod support;

use std::net::{IpAddr, SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};
use support::conn::Conn;
use support::frame::{Answer, Request};
use support::registration::Registration;
use support::server::{Server, given};

/// One that may administer, one that may register brokers, and one that may do neither.
const ADMIN: &str = "127.77.1.1";
const BROKER: &str = "127.77.2.1";
const STRANGER: &str = "127.77.3.1";
const LISTS: [(&str, &str); 3] = [
    ("adminFrom", "127.77.1.0/24"),
    ("brokerFrom", "127.77.2.0/24, 10.77.0.0/16"),
    ("allowRemoteConfigUpdate", "true"),
];
const NO_PERMISSION: i64 = 16;

/// A server with these settings; none where they cannot be set.
fn start(more: &[(&str, &str)]) -> Option<Server> {
    if given().is_some() {
        eprintln!("needs a server with settings of its own");
        return None;
    }
    Some(Server::start(&[&LISTS, more].concat()))
}

fn connect_from(server: &Server, source: &str) -> Conn {
    let source: IpAddr = source.parse().expect("an address");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::new(source, 0).into()).expect("all of 127/8 is ours");
    socket.connect(&server.addr.into()).expect("the server listens");
    Conn::over(TcpStream::from(socket))
}

fn registration() -> Registration {
    Registration::new("ac-a", "10.77.1.1:10911", 0, "ac", &["ac-1", "ac-2"])
}

/// Every request that changes something of brokers, the registration last.
fn of_brokers() -> Vec<Request> {
    let named = |code| {
        let request = Request::new(code).ext("clusterName", "ac").ext("brokerAddr", "1.1.1.1:1");
        request.ext("brokerName", "ac-b").ext("brokerId", 0)
    };
    let queues = r#"{"queueDatas":[{"brokerName":"ac-a","perm":6,"readQueueNums":4,
        "topicSysFlag":0,"writeQueueNums":4}]}"#;
    let topic = Request::new(217).ext("topic", "ac-new").body(queues);
    vec![named(104), named(322), named(904), topic, registration().request()]
}

/// Every request that changes anything else.
fn of_admins() -> Vec<Request> {
    let kv = |code| Request::new(code).ext("namespace", "ac").ext("key", "k").ext("value", "v");
    let perm = |code| Request::new(code).ext("brokerName", "ac-a");
    vec![
        kv(102),
        kv(100),
        perm(327),
        perm(205),
        Request::new(216).ext("topic", "ac-2"),
        Request::new(318).body("enableTopicList=false\n"),
    ]
}

/// Every request that only reads.
fn of_anybody() -> Vec<Request> {
    let mut requests: Vec<Request> = [106, 206, 304, 319].into_iter().map(Request::new).collect();
    requests.push(Request::new(105).ext("topic", "ac-1"));
    requests.push(Request::new(901).ext("clusterName", "ac").ext("brokerName", "ac-a"));
    requests
}

/// All that can be seen of the tables.
fn tables(conn: &mut Conn) -> Vec<String> {
    let kv = Request::new(219).ext("namespace", "ac");
    let more =
        [kv, Request::new(105).ext("topic", "ac-2"), Request::new(105).ext("topic", "ac-new")];
    let answers = of_anybody().into_iter().chain(more).map(|request| conn.ask(request));
    answers.map(|answer: Answer| format!("{} {}", answer.code(), answer.body_text())).collect()
}

fn refused(conn: &mut Conn, requests: Vec<Request>, setting: &str) {
    for request in requests {
        let code = request.code;
        let answer = conn.ask(request.clone());
        assert_eq!(answer.code(), NO_PERMISSION, "{code}: {}", answer.text());
        assert!(answer.text().contains(setting), "{code}: {}", answer.text());
        // Nobody is answered, and nothing is done either.
        conn.send(Request { flag: 2, ..request });
    }
}

fn answered(conn: &mut Conn, requests: Vec<Request>) {
    for request in requests {
        let code = request.code;
        let answer = conn.ask(request);
        assert_eq!(answer.code(), 0, "{code}: {}", answer.text());
    }
}

#[test]
fn issue_1842_changes_are_taken_from_where_they_may_come_and_reads_from_everywhere() {
    let Some(server) = start(&[]) else { return };
    let mut broker = connect_from(&server, BROKER);
    answered(&mut broker, of_brokers());
    let mut stranger = connect_from(&server, STRANGER);
    answered(&mut stranger, of_anybody());
    let before = tables(&mut stranger);
    refused(&mut stranger, of_admins(), "adminFrom");
    refused(&mut stranger, of_brokers(), "brokerFrom");
    refused(&mut broker, of_admins(), "adminFrom");
    let mut admin = connect_from(&server, ADMIN);
    refused(&mut admin, of_brokers(), "brokerFrom");
    assert_eq!(tables(&mut stranger), before, "nothing has changed");
    answered(&mut admin, of_admins());
    assert_ne!(tables(&mut stranger), before);
}

#[test]
fn issue_1842_the_limits_can_be_read_and_not_be_changed_over_the_wire() {
    let Some(server) = start(&[]) else { return };
    let mut admin = connect_from(&server, ADMIN);
    let shown = admin.ask(Request::new(319)).body_text();
    for line in ["adminFrom=127.77.1.0/24", "brokerFrom=127.77.2.0/24, 10.77.0.0/16"] {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    for body in ["adminFrom=\n", "brokerFrom=0.0.0.0/0\n"] {
        let answer = admin.ask(Request::new(318).body(body));
        assert_eq!(answer.code(), NO_PERMISSION, "{}", answer.text());
    }
    assert_eq!(admin.ask(Request::new(319)).body_text(), shown);
}

/// Whoever may send a PROXY header decides whom it speaks for, so that must be settled first.
#[test]
fn issue_1842_behind_a_proxy_the_real_address_counts() {
    let through = |server: &Server, proxy: &str, header: &str| {
        let mut conn = connect_from(server, proxy);
        conn.send_bytes(format!("{header}\r\n").as_bytes());
        conn.ask(Request::new(100).ext("namespace", "ac").ext("key", "k").ext("value", "v")).code()
    };
    let speaks_for = |source: &str| format!("PROXY TCP4 {source} 10.9.9.9 8080 9876");
    let Some(named) = start(&[("proxyProtocolFrom", "127.77.4.0/24")]) else { return };
    assert_eq!(through(&named, "127.77.4.1", &speaks_for(ADMIN)), 0);
    assert_eq!(through(&named, "127.77.4.1", &speaks_for(STRANGER)), NO_PERMISSION);
    assert_eq!(through(&named, "127.77.4.1", "PROXY UNKNOWN"), NO_PERMISSION);
    drop(named);
    // Nobody is named: anybody could write an administrator's address into a header.
    let Some(open) = start(&[]) else { return };
    assert_eq!(through(&open, STRANGER, &speaks_for(ADMIN)), NO_PERMISSION);
    assert_eq!(through(&open, ADMIN, &speaks_for(STRANGER)), NO_PERMISSION);
    assert_eq!(through(&open, ADMIN, &speaks_for(ADMIN)), 0);
}

#[test]
fn rocketmq_rust_10097_without_limits_a_plain_upgrade_keeps_working() {
    if given().is_some() {
        return;
    }
    let server = Server::start(&[("allowRemoteConfigUpdate", "true")]);
    let mut stranger = connect_from(&server, STRANGER);
    answered(&mut stranger, of_brokers());
    answered(&mut stranger, of_admins());
    answered(&mut stranger, of_anybody());
}

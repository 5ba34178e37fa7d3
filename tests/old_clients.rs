//! Aim: clients that take answers apart by hand can still do so.
//! Method: their ways of reading, written down again, on what the server sends them.

mod support;

use std::collections::BTreeMap;

use support::frame::Request;
use support::registration::Registration;
use support::server::Server;

/// The Go client: what is between the braces, split at commas, each part at its first colon. A
/// number that is none is 0.
fn split_of_go(body: &str) -> BTreeMap<i64, String> {
    let from = body.find("\"brokerAddrs\":{").expect("the member") + "\"brokerAddrs\":{".len();
    let to = from + body[from..].find('}').expect("its end");
    let pairs = body[from..to].split(',').filter_map(|part| part.split_once(':'));
    pairs.map(|(id, addr)| (id.parse().unwrap_or(0), addr.replace('"', ""))).collect()
}

/// It announces 4.5.2.
const GO_VERSION: i32 = 317;

#[test]
fn issue_1445_the_go_client_finds_every_replica() {
    let server = Server::start(&[]);
    let mut conn = server.connect();
    let mut expected = BTreeMap::new();
    for id in [0, 1, 2] {
        let addr = format!("10.24.1.{id}:10911");
        let broker = Registration::new("go-a", &addr, id, "go", &["go-1", "go-2"]);
        assert_eq!(conn.ask(broker.request()).code(), 0);
        expected.insert(id, addr);
    }
    let ask = || Request::new(105).ext("topic", "go-1");
    let body = conn.ask(ask().version(GO_VERSION)).body_text();
    assert_eq!(split_of_go(&body), expected, "{body}");
    // In the standard dialect it would take all of them for masters.
    let standard = conn.ask(ask()).body_text();
    assert_ne!(split_of_go(&standard), expected, "{standard}");
}

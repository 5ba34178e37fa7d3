use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crossbeam::channel::Receiver;
use mio::Events;

use super::*;
use crate::clock::Tick;
use crate::ids::{BrokerAddr, BrokerId, Opaque};
use crate::limits::{NOTICE_TARGETS_MAX, NOTICE_TIMEOUT_MS};
use crate::wire::{Command, frame};

/// Longest that a test waits for something that must come: less than what a dead broker takes.
const SOON: Duration = Duration::from_secs(2);

fn notice(targets: &[&str], min_id: i64) -> Notice {
    Notice {
        targets: targets.iter().map(|addr| BrokerAddr::from(*addr)).collect(),
        min_id: BrokerId(min_id),
        min_addr: "127.0.0.1:21720".into(),
        offline: None,
        ha: Some("127.0.0.1:21730".into()),
    }
}

/// A port that plays a broker.
struct Broker {
    listener: TcpListener,
    addr: String,
}

impl Broker {
    fn listen() -> Broker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        Broker { listener, addr }
    }

    /// What one connection brings until it is closed.
    fn receive(&self) -> Vec<u8> {
        let (mut conn, _) = self.listener.accept().unwrap();
        conn.set_read_timeout(Some(SOON)).unwrap();
        let mut bytes = Vec::new();
        conn.read_to_end(&mut bytes).unwrap();
        bytes
    }
}

/// An address that takes no further connection and refuses none: its queue is full.
struct Unreachable {
    addr: SocketAddr,
    _listener: socket2::Socket,
    _filling: Vec<TcpStream>,
}

impl Unreachable {
    fn new() -> Unreachable {
        let listener =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let addr = listener.local_addr().unwrap().as_socket().unwrap();
        let mut filling = Vec::new();
        while let Ok(conn) = TcpStream::connect_timeout(&addr, Duration::from_millis(200)) {
            filling.push(conn);
        }
        Unreachable { addr, _listener: listener, _filling: filling }
    }
}

/// A loop that the test turns by itself, with the end of its queue.
fn by_hand() -> (Delivery, crossbeam::channel::Sender<Notice>, Arc<NoticeCounters>) {
    let (queue, notices): (_, Receiver<Notice>) = bounded(NOTICES_MAX);
    let counters = Arc::<NoticeCounters>::default();
    let kind = HeaderKind::Json;
    let delivery = Delivery::new(notices, Arc::clone(&counters), kind, Clock::start()).unwrap();
    (delivery, queue, counters)
}

fn ids(mut bytes: &[u8]) -> Vec<(Opaque, String)> {
    let mut ids = Vec::new();
    while let Some(head) = frame::next(bytes).unwrap() {
        let command = Command::decode(&head, bytes, None).unwrap();
        ids.push((command.opaque.unwrap(), command.text("minBrokerId").unwrap().to_owned()));
        let length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        bytes = &bytes[4 + length as usize..];
    }
    assert!(bytes.is_empty(), "whole frames only");
    ids
}

#[test]
fn every_broker_gets_the_frame_that_java_sends() {
    let brokers = [Broker::listen(), Broker::listen()];
    let targets = [brokers[0].addr.as_str(), &brokers[1].addr];
    let notifier = Notifier::start(HeaderKind::Json, Clock::start()).unwrap();
    notifier.send(vec![notice(&targets, 0)]);
    let expected = b"\x00\x00\x00\xc8\x00\x00\x00\xc4\
        {\"code\":905,\"extFields\":{\"haBrokerAddr\":\"127.0.0.1:21730\",\
        \"minBrokerAddr\":\"127.0.0.1:21720\",\"minBrokerId\":\"0\"},\"flag\":2,\
        \"language\":\"JAVA\",\"opaque\":1,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}";
    for broker in &brokers {
        assert_eq!(broker.receive(), *expected);
    }
}

#[test]
fn a_removal_in_binary_is_that_of_java() {
    let broker = Broker::listen();
    let notifier = Notifier::start(HeaderKind::Binary, Clock::start()).unwrap();
    let removal = Notice {
        min_addr: "127.0.0.1:21721".into(),
        offline: Some("127.0.0.1:21720".into()),
        ha: None,
        ..notice(&[&broker.addr], 1)
    };
    notifier.send(vec![removal]);
    let expected = b"\
        \x00\x00\x00\x73\x01\x00\x00\x6f\
        \x03\x89\x00\x02\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x5a\
        \x00\x11offlineBrokerAddr\x00\x00\x00\x0f127.0.0.1:21720\
        \x00\x0dminBrokerAddr\x00\x00\x00\x0f127.0.0.1:21721\
        \x00\x0bminBrokerId\x00\x00\x00\x011";
    assert_eq!(broker.receive(), *expected);
}

#[test]
fn brokers_that_cannot_be_reached_hold_up_nobody() {
    let (unreachable, broker) = (Unreachable::new(), Broker::listen());
    let notifier = Notifier::start(HeaderKind::Json, Clock::start()).unwrap();
    let dead = unreachable.addr.to_string();
    notifier.send(vec![notice(&[&dead, "127.0.0.1:1", "nonsense", &broker.addr], 5)]);
    assert_eq!(ids(&broker.receive())[0].1, "5");
    let counters = notifier.counters();
    // Ends at once, whatever is under way.
    drop(notifier);
    assert_eq!((counters.sent.get(), counters.failed.get()), (1, 2));
}

#[test]
fn a_broker_is_given_up_when_its_time_is_over() {
    let (unreachable, broker) = (Unreachable::new(), Broker::listen());
    let (mut delivery, queue, counters) = by_hand();
    let dead = unreachable.addr.to_string();
    queue.send(notice(&[&dead, &broker.addr], 0)).unwrap();
    let mut events = Events::with_capacity(8);
    while counters.sent.get() == 0 {
        delivery.turn(&mut events).unwrap();
    }
    delivery.give_up(Tick(NOTICE_TIMEOUT_MS - 1));
    assert_eq!(counters.failed.get(), 0);
    delivery.give_up(Clock::start().now().after_ms(2 * NOTICE_TIMEOUT_MS));
    assert_eq!(counters.failed.get(), 1);
}

#[test]
fn a_broker_hears_the_news_in_order_however_many_wait() {
    let broker = Broker::listen();
    let (mut delivery, queue, counters) = by_hand();
    for id in 0..100 {
        queue.send(notice(&[&broker.addr], id)).unwrap();
    }
    let mut events = Events::with_capacity(8);
    while counters.sent.get() < 100 {
        delivery.turn(&mut events).unwrap();
    }
    let expected: Vec<_> = (0..100).map(|id| (Opaque(id + 1), id.to_string())).collect();
    assert_eq!(ids(&broker.receive()), expected);
}

#[test]
fn more_brokers_than_are_told_at_a_time_are_all_told() {
    let brokers: Vec<Broker> = (0..NOTICE_TARGETS_MAX + 10).map(|_| Broker::listen()).collect();
    let targets: Vec<&str> = brokers.iter().map(|broker| broker.addr.as_str()).collect();
    let notifier = Notifier::start(HeaderKind::Json, Clock::start()).unwrap();
    notifier.send(vec![notice(&targets, 3)]);
    for broker in &brokers {
        assert_eq!(ids(&broker.receive()), [(Opaque(1), "3".to_owned())]);
    }
}

#[test]
fn a_broker_may_go_by_the_name_of_its_host() {
    let broker = Broker::listen();
    let port = broker.listener.local_addr().unwrap().port();
    let notifier = Notifier::start(HeaderKind::Json, Clock::start()).unwrap();
    notifier.send(vec![notice(&[&format!("localhost:{port}")], 0)]);
    assert_eq!(ids(&broker.receive()).len(), 1);
}

#[test]
fn a_full_queue_drops_and_counts() {
    let (delivery, queue, counters) = by_hand();
    let notifier = Notifier {
        queue,
        waker: delivery.waker(),
        stop: Arc::default(),
        counters: Arc::clone(&counters),
        thread: None,
    };
    notifier.send((0..NOTICES_MAX + 3).map(|_| notice(&["127.0.0.1:1"], 0)).collect());
    assert_eq!(counters.dropped.get(), 3);
}

#[test]
fn a_notice_that_fits_no_frame_is_counted_and_dropped() {
    let (mut delivery, queue, counters) = by_hand();
    let ha = Some("x".repeat(1 << 24));
    queue.send(Notice { ha, ..notice(&["127.0.0.1:1"], 0) }).unwrap();
    delivery.waker().wake().unwrap();
    delivery.turn(&mut Events::with_capacity(8)).unwrap();
    assert_eq!((counters.sent.get(), counters.failed.get()), (0, 1));
}

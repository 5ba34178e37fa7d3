//! A shard without its sockets, and what is asked of it.

use std::sync::Arc;

use guidepost::clock::Clock;
use guidepost::handler::{self, Desk, Dispatch};
use guidepost::ids::{ConnKey, Opaque, ShardId};
use guidepost::publish::View;
use guidepost::route::RouteTable;
use guidepost::wire::{Command, HeaderKind, Request, frame};
use guidepost::writer::lane::{LaneReceivers, Received, lanes};

/// What a shard does between receiving and sending.
pub struct Shard {
    view: View,
    desk: Desk,
    lanes: LaneReceivers,
    received: Vec<Received>,
    /// The answer.
    pub out: Vec<u8>,
}

impl Shard {
    /// A shard that answers with headers of this kind.
    pub fn new(kind: HeaderKind, table: &RouteTable) -> Shard {
        Shard::over(kind, super::view(table))
    }

    /// One that sees this.
    pub fn over(kind: HeaderKind, view: View) -> Shard {
        let (mut senders, lanes) = lanes(1, Arc::new(|| {}));
        let desk = Desk::new(senders.remove(0), kind, Arc::default(), Clock::start());
        Shard { view, desk, lanes, received: Vec::new(), out: Vec::with_capacity(4096) }
    }

    /// Bytes in, bytes out.
    pub fn serve(&mut self, buffered: &[u8]) -> Dispatch {
        let conn = ConnKey { shard: ShardId(0), slot: 0, generation: 0 };
        self.out.clear();
        let head = frame::next(buffered).expect("well formed").expect("complete");
        let mut command = Command::default();
        command.read(&head, buffered, None).expect("decodes");
        handler::dispatch(&command, conn, &self.view, &mut self.desk, &mut self.out)
    }

    /// What a shard does with all that has been received before it serves the first of it.
    pub fn fetch_ahead(&self, received: &[u8]) {
        handler::fetch_ahead(&self.view, std::iter::once(received));
    }

    /// Takes one request out of the writer's lane.
    pub fn empty_lane(&mut self) {
        assert_eq!(self.take_sent(1), 1);
    }

    /// Takes up to `most` requests out of the writer's lane. How many there were.
    pub fn take_sent(&mut self, most: usize) -> usize {
        let count = self.lanes.drain(most, &mut self.received);
        self.received.clear();
        count
    }
}

/// A route query as Java clients send it.
pub fn query(kind: HeaderKind, topic: &str) -> Vec<u8> {
    encode(kind, 105, 0, &[("acceptStandardJsonOnly", "true"), ("topic", topic)])
}

/// A one-way sign of life of a registered broker.
pub fn heartbeat(kind: HeaderKind) -> Vec<u8> {
    let (name, addr) = (super::broker_name(1), super::broker_addr(1));
    let ext = [
        ("brokerAddr", &*addr),
        ("brokerName", &*name),
        ("clusterName", super::CLUSTER),
        ("heartbeatTimeoutMills", "10000"),
    ];
    encode(kind, 904, 2, &ext)
}

/// A request without a body.
pub fn encode(kind: HeaderKind, code: i32, flag: i32, ext: &[(&str, &str)]) -> Vec<u8> {
    let request = Request { code, opaque: Opaque(123_456), flag, version: 513, ext, body: b"" };
    let mut out = Vec::new();
    request.encode(kind, &mut out);
    out
}

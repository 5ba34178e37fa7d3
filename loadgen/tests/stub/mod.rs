//! A NameServer of sorts, with planted faults. Shares no code with what it tests.

// Each test program uses a part of it.
#![allow(dead_code)]

pub mod town;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A request as the stub sees it.
pub struct Seen {
    /// Counts all route queries from 0.
    pub number: u64,
    pub header: String,
    /// What the connections that are open now have registered.
    pub fleet: Registered,
}

/// Brokers that are there as long as their connections are.
#[derive(Clone, Default)]
pub struct Registered {
    pub brokers: usize,
    pub cluster: String,
}

impl Seen {
    fn between(&self, before: &str, after: char) -> Option<&str> {
        let rest = &self.header[self.header.find(before)? + before.len()..];
        rest.split(after).next()
    }

    pub fn opaque(&self) -> &str {
        self.between("\"opaque\":", ',').unwrap()
    }

    pub fn right_answer(&self) -> Vec<u8> {
        let topic = self.between("\"topic\":\"", '"').unwrap();
        if topic.starts_with("bench-topic-") { self.answer(0, ROUTE) } else { self.answer(17, "") }
    }

    /// As a server answers that forgets brokers when their connections close.
    pub fn answer_by_fleet(&self) -> Vec<u8> {
        let Registered { brokers, cluster } = &self.fleet;
        let known = self.between("\"topic\":\"", '"').unwrap().starts_with("bench-topic-");
        match (known, brokers) {
            (true, 1..) => self.answer(0, &route(*brokers, cluster)),
            _ => self.answer(17, ""),
        }
    }

    pub fn answer(&self, code: u32, body: &str) -> Vec<u8> {
        frame(&format!("{{\"code\":{code},\"flag\":1,\"opaque\":{}}}", self.opaque()), body)
    }
}

/// The route of a topic that is on all of so many brokers.
pub fn route(brokers: usize, cluster: &str) -> String {
    let list =
        |element: &dyn Fn(usize) -> String| (0..brokers).map(element).collect::<Vec<_>>().join(",");
    let datas = list(&|n| {
        format!(
            "{{\"brokerAddrs\":{{\"0\":\"10.100.10{n}.100:10911\"}},\"brokerName\":\
             \"bench-broker-000{n}\",\"cluster\":\"{cluster}\",\"enableActingMaster\":false}}"
        )
    });
    let queues = list(&|n| {
        format!(
            "{{\"brokerName\":\"bench-broker-000{n}\",\"perm\":6,\"readQueueNums\":4,\
             \"topicSysFlag\":0,\"writeQueueNums\":4}}"
        )
    });
    format!("{{\"brokerDatas\":[{datas}],\"filterServerTable\":{{}},\"queueDatas\":[{queues}]}}")
}

/// The route of every topic in a fleet of one broker in cluster `bench`.
pub const ROUTE: &str = concat!(
    r#"{"brokerDatas":[{"brokerAddrs":{"0":"10.100.100.100:10911"},"#,
    r#""brokerName":"bench-broker-0000","cluster":"bench","enableActingMaster":false}],"#,
    r#""filterServerTable":{},"queueDatas":[{"brokerName":"bench-broker-0000","#,
    r#""perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#,
);

pub fn frame(header: &str, body: &str) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(u32::try_from(4 + header.len() + body.len()).unwrap().to_be_bytes());
    out.extend(u32::try_from(header.len()).unwrap().to_be_bytes());
    out.extend(header.as_bytes());
    out.extend(body.as_bytes());
    out
}

/// Serves until the test process ends. Its threads end when their peers leave.
pub struct Stub {
    pub address: SocketAddr,
    /// Bytes of each connection, in the order of connecting.
    pub received: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Where each connection came from, in the same order.
    pub peers: Arc<Mutex<Vec<SocketAddr>>>,
    /// Bodies of other requests than route queries.
    pub registrations: Arc<Mutex<Vec<String>>>,
}

impl Stub {
    /// How many requests had this in their headers.
    pub fn received_with(&self, text: &str) -> usize {
        let all = self.received.lock().unwrap();
        all.iter().map(|bytes| String::from_utf8_lossy(bytes).matches(text).count()).sum()
    }
}

/// What to answer to a route query; `None` closes the connection. May sleep: that delays this
/// connection only.
pub trait Answering: Fn(&Seen) -> Option<Vec<u8>> + Send + Sync + 'static {}
impl<F: Fn(&Seen) -> Option<Vec<u8>> + Send + Sync + 'static> Answering for F {}

impl Stub {
    pub fn start(route_answer: impl Answering) -> Self {
        Self::start_with(route_answer, |seen| seen.answer(0, ""))
    }

    pub fn start_with(
        route_answer: impl Answering,
        other: impl Fn(&Seen) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let registrations: Arc<Mutex<Vec<String>>> = Arc::default();
        let stub = Stub {
            address,
            received: received.clone(),
            peers: Arc::default(),
            registrations: registrations.clone(),
        };
        let peers = stub.peers.clone();
        let answering = Arc::new((route_answer, other));
        let queries = Arc::new(AtomicU64::new(0));
        let fleet: Arc<Mutex<Registered>> = Arc::default();
        std::thread::spawn(move || {
            for socket in listener.incoming().map(Result::unwrap) {
                let place = {
                    peers.lock().unwrap().push(socket.peer_addr().unwrap());
                    let mut all = received.lock().unwrap();
                    all.push(Vec::new());
                    all.len() - 1
                };
                let (answering, queries) = (answering.clone(), queries.clone());
                let fleet = fleet.clone();
                let (received, registrations) = (received.clone(), registrations.clone());
                std::thread::spawn(move || {
                    let mut is_broker = false;
                    serve(socket, |raw, header, body| {
                        received.lock().unwrap()[place].extend(raw);
                        if header.contains("\"code\":105,") {
                            let fleet = fleet.lock().unwrap().clone();
                            let number = queries.fetch_add(1, SeqCst);
                            answering.0(&Seen { number, header, fleet })
                        } else {
                            let seen = Seen { number: 0, header, fleet: Registered::default() };
                            if let Some(cluster) = seen.between("\"clusterName\":\"", '"') {
                                let mut fleet = fleet.lock().unwrap();
                                fleet.brokers += usize::from(!is_broker);
                                fleet.cluster = cluster.to_owned();
                                is_broker = true;
                            }
                            registrations.lock().unwrap().push(body);
                            Some(answering.1(&seen))
                        }
                    });
                    fleet.lock().unwrap().brokers -= usize::from(is_broker);
                });
            }
        });
        stub
    }
}

fn serve(
    mut socket: TcpStream,
    mut answer: impl FnMut(&[u8], String, String) -> Option<Vec<u8>>,
) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    loop {
        let mut prefix = [0; 8];
        socket.read_exact(&mut prefix).ok()?;
        let length = u32::from_be_bytes(prefix[..4].try_into().unwrap()) as usize;
        let header_length = u32::from_be_bytes(prefix[4..].try_into().unwrap()) as usize;
        let mut content = vec![0; length - 4];
        socket.read_exact(&mut content).ok()?;
        let raw = [&prefix[..], &content].concat();
        let body = String::from_utf8(content.split_off(header_length)).unwrap();
        let answer = answer(&raw, String::from_utf8(content).unwrap(), body)?;
        socket.write_all(&answer).ok()?;
    }
}

//! An attack on a server, with a bystander that must be served throughout.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::conn::Conn;
use super::frame::Request;
use super::json::parse;
use super::registration::Registration;
use super::server::{Memory, Server, is_java};

pub const MIB: u64 = 1 << 20;
/// The bystander must never wait longer. The Java server holds its lock while it takes in 300 000
/// topics.
fn bystander_waits() -> Duration {
    Duration::from_secs(if is_java() { 8 } else { 2 })
}

/// A server, somebody decent on it, and what the server had taken before the bad peer came.
pub struct Attack {
    pub server: Server,
    bystander: Bystander,
    before: Option<Memory>,
}

impl Attack {
    /// Starts the server, and somebody decent with a broker of that name.
    pub fn begin(name: &str) -> Attack {
        let server = Server::start(&[]);
        let bystander = Bystander::start(server.addr, name);
        let before = server.peak_memory();
        Attack { server, bystander, before }
    }

    /// A bad peer.
    pub fn connect(&self) -> Conn {
        self.server.connect()
    }

    /// The bystander was served throughout, and the peak of memory grew by no more than this.
    pub fn end(self, growth_max: u64) {
        let asked = self.bystander.finish();
        assert!(asked > 0, "the bystander never got a turn");
        let (Some(before), Some(after)) = (self.before, self.server.peak_memory()) else { return };
        let grown = after.resident.saturating_sub(before.resident);
        assert!(grown <= growth_max, "memory grew by {grown} bytes, {growth_max} allowed");
        let reserved = after.reserved.saturating_sub(before.reserved);
        assert!(reserved <= growth_max + 512 * MIB, "{reserved} bytes of address space reserved");
    }
}

/// Asks for one route again and again on a connection of its own, and opens a new one now and then.
struct Bystander {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Bystander {
    fn start(addr: SocketAddr, name: &str) -> Bystander {
        let topic = format!("{name}-topic");
        let (own_topic, other) = (topic.clone(), format!("{topic}-2"));
        let mut broker = Conn::open(addr);
        let topics = [own_topic.as_str(), other.as_str()];
        let broker_addr = "10.20.0.1:10911";
        let registration = Registration::new(name, broker_addr, 0, name, &topics);
        assert_eq!(
            broker.ask(registration.request()).code(),
            0,
            "the bystander's broker registers"
        );
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, name) = (Arc::clone(&stop), name.to_owned());
        let thread = std::thread::spawn(move || {
            let (mut conn, mut asked) = (Conn::open(addr), 0);
            loop {
                let started = Instant::now();
                let answer = conn.ask(Request::new(105).ext("topic", &topic));
                let took = started.elapsed();
                assert!(took < bystander_waits(), "the bystander waited {took:?}");
                let (body, _) = parse(&answer.body).expect("a route");
                assert_eq!(body["brokerDatas"][0]["brokerName"], name.as_str());
                asked += 1;
                if seen.load(Relaxed) {
                    break;
                }
                if asked % 16 == 0 {
                    conn = Conn::open(addr);
                }
                std::thread::sleep(Duration::from_millis(2)); // a decent client does not hammer
            }
            drop(broker); // its broker lives as long as it does
            asked
        });
        Bystander { stop, thread }
    }

    fn finish(self) -> usize {
        self.stop.store(true, Relaxed);
        self.thread.join().expect("the bystander was served right")
    }
}

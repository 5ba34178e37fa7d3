//! One broker that registers again and again, with what it sends made ahead: what is measured is
//! the server's work, not this process's.

use std::io::Write as _;
use std::net::SocketAddr;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::failure::{Failure, run_failure};
use crate::fill::Caller;
use crate::fleet::{Asked, Fleet, QUEUES, broker_addr, broker_name};
use crate::wire::{BROKER_HEARTBEAT, REGISTER_BROKER};

/// Data versions have ten digits, so that one can be written over another.
const FIRST_VERSION: u32 = 1_000_000_000;
const VERSION_DIGITS: usize = 10;
/// Compressed bodies made ahead, used in turn: each differs from the one before it.
const COMPRESSED_BODIES: usize = 2;

/// What a registration says, ready to send.
enum Bodies {
    /// JSON, in which the version is written over at these places.
    Raw { body: Vec<u8>, version_at: Vec<usize> },
    /// zlib streams of different versions.
    Compressed { bodies: Vec<Vec<u8>>, next: usize },
}

/// How bodies are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// JSON.
    Raw,
    /// A zlib stream over the sections of the compressed form.
    Compressed,
}

/// A broker with a connection of its own.
pub struct Registrar {
    number: u32,
    cluster: String,
    caller: Caller,
    version: u32,
    bodies: Bodies,
    timeout_ms: Option<u64>,
}

impl Registrar {
    /// Connects; nothing is registered yet. With `timeout_ms` the server should forget the broker
    /// after so much silence.
    ///
    /// # Errors
    /// When the server takes no connection.
    pub fn connect(
        target: SocketAddr,
        fleet: &Fleet,
        number: u32,
        timeout_ms: Option<u64>,
    ) -> Result<Self, Failure> {
        let caller = Caller::connect(target)
            .map_err(|e| run_failure(format!("broker {number} of {}: {e}", fleet.brokers)))?;
        let cluster = fleet.cluster.clone();
        let bodies = Bodies::Raw { body: Vec::new(), version_at: Vec::new() };
        Ok(Self { number, cluster, caller, version: FIRST_VERSION, bodies, timeout_ms })
    }

    /// Prepares a registration of these topics; returns the bytes of its body.
    ///
    /// # Errors
    /// When compressing fails.
    pub fn prepare(&mut self, fleet: &Fleet, topics: &[u32], form: Form) -> Result<u64, Failure> {
        self.bodies = match form {
            Form::Raw => {
                let body = fleet.registration_body(topics, u64::from(FIRST_VERSION));
                let version_at =
                    body.match_indices("\"counter\":").map(|(at, name)| at + name.len());
                let version_at = version_at.collect();
                Bodies::Raw { version_at, body: body.into_bytes() }
            }
            Form::Compressed => {
                let versions = (FIRST_VERSION..).take(COMPRESSED_BODIES);
                let bodies: Result<_, _> = versions.map(|v| compressed(topics, v)).collect();
                Bodies::Compressed { bodies: bodies?, next: 0 }
            }
        };
        Ok(self.body_bytes())
    }

    /// Bytes of the prepared body.
    pub fn body_bytes(&self) -> u64 {
        match &self.bodies {
            Bodies::Raw { body, .. } => body.len() as u64,
            Bodies::Compressed { bodies, next } => bodies[*next].len() as u64,
        }
    }

    /// Makes the next [`Self::register`] say a version the server does not have.
    pub fn change(&mut self) {
        self.version += 1;
        match &mut self.bodies {
            Bodies::Raw { body, version_at } => {
                for &at in version_at.iter() {
                    let digits = &mut body[at..at + VERSION_DIGITS];
                    crate::wire::write_digits(digits, self.version);
                }
            }
            Bodies::Compressed { bodies, next } => *next = (*next + 1) % bodies.len(),
        }
    }

    /// Sends the prepared registration and waits for the answer.
    ///
    /// # Errors
    /// When it is refused, or the connection is lost.
    pub fn register(&mut self) -> Result<(), Failure> {
        let (name, addr) = (broker_name(self.number), broker_addr(self.number));
        let timeout = self.timeout_ms.map(|ms| ms.to_string());
        let mut fields = vec![
            ("brokerName", name.as_str()),
            ("brokerAddr", &addr),
            ("clusterName", &self.cluster),
            ("haServerAddr", &addr),
            ("brokerId", "0"),
            ("enableActingMaster", "false"),
        ];
        let (body, compressed) = match &self.bodies {
            Bodies::Raw { body, .. } => (body, "false"),
            Bodies::Compressed { bodies, next } => (&bodies[*next], "true"),
        };
        fields.push(("compressed", compressed));
        fields.push(("bodyCrc32", "0"));
        if let Some(timeout) = &timeout {
            fields.push(("heartbeatTimeoutMillis", timeout));
        }
        let done = self.caller.call_for_success(REGISTER_BROKER, &fields, body);
        done.map_err(|why| run_failure(format!("registration of broker {}: {why}", self.number)))
    }

    /// Tells that the broker is alive, and waits for the answer.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn heartbeat(&mut self) -> Result<(), Failure> {
        let (name, addr) = (broker_name(self.number), broker_addr(self.number));
        let fields = [
            ("clusterName", self.cluster.as_str()),
            ("brokerAddr", &addr),
            ("brokerName", &name),
            ("brokerId", "0"),
        ];
        let done = self.caller.call_for_success(BROKER_HEARTBEAT, &fields, b"");
        done.map_err(|why| run_failure(format!("heartbeat of broker {}: {why}", self.number)))
    }
}

/// The compressed form: sections with their lengths in front, then zlib over all of them.
fn compressed(topics: &[u32], version: u32) -> Result<Vec<u8>, Failure> {
    let mut plain = Vec::new();
    let mut section = |bytes: &[u8]| {
        plain.extend_from_slice(&length(bytes.len()));
        plain.extend_from_slice(bytes);
    };
    section(format!("{{\"counter\":{version},\"stateVersion\":0,\"timestamp\":1}}").as_bytes());
    plain.extend_from_slice(&length(topics.len()));
    let mut section = |bytes: &[u8]| {
        plain.extend_from_slice(&length(bytes.len()));
        plain.extend_from_slice(bytes);
    };
    for &topic in topics {
        let name = Asked::Topic(topic).name();
        let name = String::from_utf8_lossy(&name);
        section(format!("{name} {QUEUES} {QUEUES} 6 SINGLE_TAG {{}}").as_bytes());
    }
    section(b"[]");
    plain.extend_from_slice(&length(0));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let done = encoder.write_all(&plain).and_then(|()| encoder.finish());
    done.map_err(|e| run_failure(format!("compressing a registration: {e}")))
}

fn length(count: usize) -> [u8; 4] {
    u32::try_from(count).expect("a fleet has fewer than 2^32 topics").to_be_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn the_compressed_form_has_its_sections_in_order() {
        let mut plain = Vec::new();
        let body = compressed(&[7], FIRST_VERSION).unwrap();
        flate2::read::ZlibDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        let mut rest = &plain[..];
        let number = |rest: &mut &[u8]| {
            let (head, tail) = rest.split_first_chunk::<4>().unwrap();
            *rest = tail;
            u32::from_be_bytes(*head) as usize
        };
        let text = |rest: &mut &[u8]| {
            let bytes = number(rest);
            let (head, tail) = rest.split_at(bytes);
            *rest = tail;
            String::from_utf8(head.to_vec()).unwrap()
        };
        let version = text(&mut rest);
        assert_eq!(version, r#"{"counter":1000000000,"stateVersion":0,"timestamp":1}"#);
        assert_eq!(rest[..4], [0, 0, 0, 1]);
        rest = &rest[4..];
        assert_eq!(text(&mut rest), "bench-topic-0000007 4 4 6 SINGLE_TAG {}");
        assert_eq!(text(&mut rest), "[]");
        assert_eq!(rest, [0, 0, 0, 0]);
    }
}

//! One broker that registers again and again, with what it sends made ahead: what is measured is
//! the server's work, not this process's.

use std::net::SocketAddr;

use flate2::Compression;

use crate::caller::Caller;
use crate::failure::{Failure, run_failure};
use crate::fleet::{Fleet, QUEUES, broker_addr, broker_name};
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

/// A broker and what it has to say. It needs no connection for that.
pub struct Prepared {
    number: u32,
    /// Of so many.
    brokers: u32,
    name: String,
    addr: String,
    cluster: String,
    zone: Option<&'static str>,
    timeout_ms: Option<u64>,
    version: u32,
    bodies: Bodies,
}

impl Prepared {
    /// A broker of the fleet; it has nothing to say yet. With `timeout_ms` the server should forget
    /// it after so much silence.
    pub fn new(fleet: &Fleet, number: u32, timeout_ms: Option<u64>) -> Self {
        Self {
            number,
            brokers: fleet.brokers,
            name: broker_name(number),
            addr: broker_addr(number),
            cluster: fleet.cluster.clone(),
            zone: None,
            timeout_ms,
            version: FIRST_VERSION,
            bodies: Bodies::Raw { body: Vec::new(), version_at: Vec::new() },
        }
    }

    /// The same broker in a zone.
    pub fn in_zone(self, zone: Option<&'static str>) -> Self {
        Self { zone, ..self }
    }

    /// Prepares a registration of these topics; returns the bytes of its body.
    pub fn prepare(&mut self, fleet: &Fleet, topics: &[u32], form: Form) -> u64 {
        self.bodies = match form {
            Form::Raw => {
                let body = fleet.registration_body(topics, u64::from(self.version));
                let version_at =
                    body.match_indices("\"counter\":").map(|(at, name)| at + name.len());
                let version_at = version_at.collect();
                Bodies::Raw { version_at, body: body.into_bytes() }
            }
            Form::Compressed => {
                let body = |version| {
                    let effort = Compression::default();
                    fleet.compressed_body_with(topics, u64::from(version), |_| QUEUES, effort)
                };
                let bodies = (FIRST_VERSION..).take(COMPRESSED_BODIES).map(body).collect();
                Bodies::Compressed { bodies, next: 0 }
            }
        };
        self.body_bytes()
    }

    /// Bytes of the prepared body.
    pub fn body_bytes(&self) -> u64 {
        match &self.bodies {
            Bodies::Raw { body, .. } => body.len() as u64,
            Bodies::Compressed { bodies, next } => bodies[*next].len() as u64,
        }
    }

    /// Makes the registration say a version the server does not have.
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

    /// Connects; nothing is registered yet.
    ///
    /// # Errors
    /// When the server takes no connection.
    pub fn connect(self, target: SocketAddr) -> Result<Registrar, Failure> {
        let caller = Caller::connect(target)
            .map_err(|e| run_failure(format!("broker {} of {}: {e}", self.number, self.brokers)))?;
        Ok(Registrar { says: self, caller })
    }
}

/// A broker with a connection of its own.
pub struct Registrar {
    says: Prepared,
    caller: Caller,
}

impl Registrar {
    /// See [`Prepared::prepare`].
    pub fn prepare(&mut self, fleet: &Fleet, topics: &[u32], form: Form) -> u64 {
        self.says.prepare(fleet, topics, form)
    }

    /// See [`Prepared::body_bytes`].
    pub fn body_bytes(&self) -> u64 {
        self.says.body_bytes()
    }

    /// See [`Prepared::change`].
    pub fn change(&mut self) {
        self.says.change();
    }

    /// The counter of the data version that the prepared registration says.
    pub fn data_version(&self) -> u64 {
        self.says.version.into()
    }

    /// Registers all these topics, in as many calls as they need, after a registration without
    /// any: a first one with a single topic would be refused, as it is taken for the announcement
    /// of a new topic by a broker that should be known. Returns calls and bytes of bodies.
    ///
    /// # Errors
    /// As [`Self::register`].
    pub fn register_all(&mut self, fleet: &Fleet, topics: &[u32]) -> Result<(u64, u64), Failure> {
        let (mut calls, mut bytes) = (0, 0);
        for some in std::iter::once(&[][..]).chain(topics.chunks(TOPICS_PER_CALL)) {
            self.change();
            bytes += self.prepare(fleet, some, Form::Raw);
            self.register()?;
            calls += 1;
        }
        Ok((calls, bytes))
    }

    /// Sends the prepared registration and waits for the answer.
    ///
    /// # Errors
    /// When it is refused, or the connection is lost.
    pub fn register(&mut self) -> Result<(), Failure> {
        let Prepared { name, addr, cluster, bodies, .. } = &self.says;
        let timeout = self.says.timeout_ms.map(|ms| ms.to_string());
        let (body, compressed) = match bodies {
            Bodies::Raw { body, .. } => (body, "false"),
            Bodies::Compressed { bodies, next } => (&bodies[*next], "true"),
        };
        let mut fields = vec![
            ("brokerName", name.as_str()),
            ("brokerAddr", addr),
            ("clusterName", cluster),
            ("haServerAddr", addr),
            ("brokerId", "0"),
            ("enableActingMaster", "false"),
            ("compressed", compressed),
            ("bodyCrc32", "0"),
        ];
        fields.extend(timeout.as_ref().map(|ms| ("heartbeatTimeoutMillis", ms.as_str())));
        fields.extend(self.says.zone.map(|zone| ("__ZONE_NAME", zone)));
        let done = self.caller.call_for_success(REGISTER_BROKER, &fields, body);
        let number = self.says.number;
        done.map_err(|why| run_failure(format!("registration of broker {number}: {why}")))
    }

    /// Tells that the broker is alive, and waits for the answer.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn heartbeat(&mut self) -> Result<(), Failure> {
        let Prepared { number, name, addr, cluster, .. } = &self.says;
        let fields = [
            ("clusterName", cluster.as_str()),
            ("brokerAddr", addr),
            ("brokerName", name),
            ("brokerId", "0"),
        ];
        let done = self.caller.call_for_success(BROKER_HEARTBEAT, &fields, b"");
        done.map_err(|why| run_failure(format!("heartbeat of broker {number}: {why}")))
    }

    /// The connection, to ask over it or to hand it on.
    pub(crate) fn into_caller(self) -> Caller {
        self.caller
    }

    /// The connection, to ask over it.
    pub(crate) fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    /// Closes the connection; what there is to say stays prepared.
    pub fn close(self) -> Prepared {
        self.says
    }
}

/// Topics in one registration: about 4 MB of body, well below the frame limit.
pub const TOPICS_PER_CALL: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Fleet {
        Fleet { brokers: 1, topics: 2, route_width: 1, cluster: "bench".into() }
    }

    #[test]
    fn a_change_is_in_both_versions_of_the_body_and_changes_no_length() {
        let mut says = Prepared::new(&fleet(), 0, None);
        let bytes = says.prepare(&fleet(), &[0, 1], Form::Raw);
        (0..12).for_each(|_| says.change());
        let Bodies::Raw { body, .. } = &says.bodies else { panic!() };
        let json: serde_json::Value = serde_json::from_slice(body).unwrap();
        let table = &json["topicConfigSerializeWrapper"];
        assert_eq!(table["dataVersion"]["counter"], 1_000_000_012);
        assert_eq!(table["mappingDataVersion"]["counter"], 1_000_000_012);
        assert_eq!(says.body_bytes(), bytes);
    }

    #[test]
    fn compressed_registrations_differ_from_each_other() {
        let mut says = Prepared::new(&fleet(), 0, None);
        says.prepare(&fleet(), &[0], Form::Compressed);
        let body = |says: &Prepared| match &says.bodies {
            Bodies::Compressed { bodies, next } => bodies[*next].clone(),
            Bodies::Raw { .. } => panic!(),
        };
        let first = body(&says);
        says.change();
        assert_ne!(body(&says), first);
    }
}

//! One broker that is being told something: found, connected to, written to.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::clock::Tick;
use crate::ids::BrokerAddr;
use crate::limits::NOTICE_BYTES_MAX;

/// Where a broker is, by what it announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// An address to connect to.
    Known(SocketAddr),
    /// A host whose addresses have to be looked up.
    Named { host: String, port: u16 },
}

impl Place {
    /// Reads `host:port`; the last colon counts (Java: `NettyRemotingClient.getHostAndPort`).
    pub fn parse(addr: &str) -> io::Result<Place> {
        let malformed = || io::Error::new(ErrorKind::InvalidInput, "not of the form host:port");
        let (host, port) = addr.rsplit_once(':').ok_or_else(malformed)?;
        let port = port.parse().map_err(|_| malformed())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if bare.is_empty() {
            return Err(malformed());
        }
        Ok(match bare.parse::<IpAddr>() {
            Ok(ip) => Place::Known(SocketAddr::new(ip, port)),
            Err(_) => Place::Named { host: bare.to_owned(), port },
        })
    }
}

/// Lives: in the delivery thread, until its bytes are sent or its time is up. Dropping it closes
/// the connection.
#[derive(Debug)]
pub(super) struct Target {
    /// Who it is.
    pub addr: BrokerAddr,
    /// When it is given up.
    pub deadline: Tick,
    /// Notices in `out`.
    pub notices: u64,
    token: Token,
    /// `None` while its addresses are being looked up.
    stream: Option<TcpStream>,
    /// Whether `stream` is, and not only going to be.
    connected: bool,
    /// Addresses not tried yet, the next one last.
    untried: Vec<SocketAddr>,
    out: Vec<u8>,
    /// `<= out.len()`: the bytes before it are with the kernel.
    sent: usize,
}

impl Target {
    /// A broker whose addresses are not known yet.
    pub fn new(addr: BrokerAddr, token: usize, deadline: Tick) -> Target {
        Target {
            addr,
            deadline,
            notices: 0,
            token: Token(token),
            stream: None,
            connected: false,
            untried: Vec::new(),
            out: Vec::new(),
            sent: 0,
        }
    }

    /// Adds a notice behind those that wait; `false` if there is no room for it.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        let fits = self.out.len() + frame.len() <= NOTICE_BYTES_MAX;
        if fits {
            self.out.extend_from_slice(frame);
            self.notices += 1;
        }
        fits
    }

    /// Begins to connect to one of `addrs`, in their order.
    pub fn connect(&mut self, registry: &Registry, mut addrs: Vec<SocketAddr>) -> io::Result<()> {
        addrs.reverse();
        self.untried = addrs;
        self.connect_next(registry, io::Error::new(ErrorKind::NotFound, "the host has no address"))
    }

    /// Begins to connect to the next address that lets us; `last` is why the one before did not.
    fn connect_next(&mut self, registry: &Registry, mut last: io::Error) -> io::Result<()> {
        while let Some(addr) = self.untried.pop() {
            match TcpStream::connect(addr) {
                Ok(mut stream) => {
                    registry.register(&mut stream, self.token, Interest::WRITABLE)?;
                    self.stream = Some(stream);
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Goes on after the connection has changed. Whether everything is sent.
    pub fn advance(&mut self, registry: &Registry) -> io::Result<bool> {
        let Some(stream) = &mut self.stream else {
            return Ok(false);
        };
        if !self.connected {
            match outcome(stream) {
                Ok(false) => return Ok(false),
                Ok(true) => self.connected = true,
                Err(error) => return self.connect_next(registry, error).map(|()| false),
            }
        }
        while self.sent < self.out.len() {
            match stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Whether a connection has come about; `Ok(false)` is "not yet".
fn outcome(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_split_at_its_last_colon() {
        let known = |text: &str| Place::Known(text.parse().expect("an address"));
        let named = |host: &str, port| Place::Named { host: host.to_owned(), port };
        let place = |addr| Place::parse(addr).expect("well formed");
        assert_eq!(place("10.0.0.7:10911"), known("10.0.0.7:10911"));
        assert_eq!(place("[::1]:10911"), known("[::1]:10911"));
        assert_eq!(place("fe80::7:10911"), known("[fe80::7]:10911"));
        assert_eq!(place("broker-0.brokers:10911"), named("broker-0.brokers", 10911));
        for addr in ["", ":", "host", ":10911", "[]:1", "host:", "host:-1", "host:65536", "h:1 "] {
            assert!(Place::parse(addr).is_err(), "{addr}");
        }
    }

    #[test]
    fn notices_for_one_broker_are_bounded() {
        let mut target = Target::new("b:1".into(), 1, Tick(0));
        assert!(target.push(&[0; NOTICE_BYTES_MAX - 1]));
        assert!(!target.push(&[0; 2]));
        assert!(target.push(&[0]));
        assert_eq!((target.notices, target.out.len()), (2, NOTICE_BYTES_MAX));
    }
}

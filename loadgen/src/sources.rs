//! Where connections come from. One local address reaches one server with as many connections as
//! there are local ports, 28 232 by default; more connections need more addresses.
//!
//! The plan of the 4-tuples: connection `n` leaves from address `n / per_source` of the prefix, and
//! the kernel chooses a port that is free *towards this server* when the connection is made
//! (`IP_BIND_ADDRESS_NO_PORT`), so two addresses, or two servers, never compete for ports.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::failure::{Failure, usage};
use crate::preflight::ephemeral_ports;

/// Ports left alone: other programs of this machine need some, and closed connections keep theirs
/// for a while.
const SPARE_PORTS_SHARE: u64 = 10;

/// Addresses to connect from, such as `127.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Prefix {
    first: u32,
    bits: u32,
}

impl Prefix {
    /// Every address of it is ours: Linux takes all of 127.0.0.0/8 for this machine.
    pub const LOOPBACK: Prefix = Prefix { first: 127 << 24, bits: 8 };

    /// Addresses in it that can be used; the first and the last one mean other things.
    fn usable(self) -> u64 {
        (1_u64 << (32 - self.bits)).saturating_sub(2).max(1)
    }

    fn address(self, index: u32) -> Ipv4Addr {
        let skip = u32::from(self.bits < 32);
        Ipv4Addr::from(self.first.wrapping_add(index).wrapping_add(skip))
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give an IPv4 prefix of this machine, such as 127.0.0.0/8".to_owned();
        let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let bits: u32 = bits.parse().ok().filter(|b| (8..=32).contains(b)).ok_or_else(wrong)?;
        let mask = u32::MAX << (32 - bits);
        Ok(Self { first: u32::from(address) & mask, bits })
    }
}

/// How connections are spread over local addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Sources {
    /// `None`: the kernel chooses, which is one address for one server.
    spread: Option<(Prefix, u32)>,
}

impl Sources {
    /// A plan for so many connections. Without a prefix the loopback one is used when one address
    /// is not enough and the server is on this machine.
    ///
    /// # Errors
    /// When there are not enough addresses and ports, with what to give instead.
    pub fn plan(
        target: SocketAddr,
        connections: u64,
        prefix: Option<Prefix>,
        per_source: Option<u32>,
    ) -> Result<Self, Failure> {
        let ports = ephemeral_ports();
        let ports = ports - ports / SPARE_PORTS_SHARE;
        let per_source = per_source.map_or(ports, u64::from).clamp(1, ports);
        let prefix = match prefix {
            Some(prefix) => prefix,
            None if connections <= per_source => return Ok(Self::default()),
            None if target.ip().is_loopback() && target.is_ipv4() => Prefix::LOOPBACK,
            None => {
                return Err(usage(format!(
                    "{connections} connections to one address need as many local ports and there \
                     are {ports}: give --source-prefix with addresses of this machine, or widen \
                     net.ipv4.ip_local_port_range"
                )));
            }
        };
        if !target.is_ipv4() {
            return Err(usage("a --source-prefix is IPv4 and the server's address is not"));
        }
        let needed = connections.div_ceil(per_source);
        if needed > prefix.usable() {
            return Err(usage(format!(
                "{connections} connections need {needed} source addresses with {per_source} ports \
                 each and the prefix has {}: give a wider --source-prefix",
                prefix.usable()
            )));
        }
        let per_source = u32::try_from(per_source).expect("there are below 65 536 ports");
        Ok(Self { spread: Some((prefix, per_source)) })
    }

    /// Where the connection with this number comes from; `None` leaves it to the kernel.
    pub fn of(&self, number: u32) -> Option<IpAddr> {
        let (prefix, per_source) = self.spread?;
        let usable = u32::try_from(prefix.usable()).unwrap_or(u32::MAX);
        Some(prefix.address(number / per_source % usable).into())
    }

    /// Addresses in use by so many connections.
    pub fn count(&self, connections: u64) -> u64 {
        self.spread.map_or(1, |(_, per_source)| connections.div_ceil(u64::from(per_source)))
    }
}

/// How a connection is ended by us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// As a client ends it. Its port rests for a minute (TIME_WAIT) on our side.
    Fin,
    /// With a reset (`SO_LINGER` 0): the port is free at once, and the server sees an error.
    Reset,
}

/// Begins a connection without waiting for it. The socket is non-blocking and sends at once.
///
/// # Errors
/// When the kernel refuses at once, for example because no port is left.
pub fn begin(target: SocketAddr, source: Option<IpAddr>, ending: Ending) -> io::Result<TcpStream> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    if ending == Ending::Reset {
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
    }
    if let Some(source) = source {
        let option = nix::sys::socket::sockopt::IpBindAddressNoPort;
        nix::sys::socket::setsockopt(&socket, option, &true).map_err(io::Error::from)?;
        rustix::net::bind(&socket, &SocketAddr::new(source, 0)).map_err(|e| {
            let why = format!("connecting from {source}: {e}; is it an address of this machine?");
            io::Error::new(io::Error::from(e).kind(), why)
        })?;
    }
    match rustix::net::connect(&socket, &target) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(e) => Err(e.into()),
    }
}

/// Whether a connection that was begun and became writable was made.
///
/// # Errors
/// Why it was not, such as a refusal.
pub fn finish(socket: &TcpStream) -> io::Result<()> {
    match sockopt::socket_error(socket)? {
        Ok(()) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Makes a connection, waiting for it.
///
/// # Errors
/// When it is refused, or not made in time.
pub fn connect(
    target: SocketAddr,
    source: Option<IpAddr>,
    ending: Ending,
    limit: Duration,
) -> io::Result<TcpStream> {
    let until = Instant::now() + limit;
    let socket = begin(target, source, ending)?;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    finish(&socket)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn target() -> SocketAddr {
        "127.0.0.1:9876".parse().unwrap()
    }

    #[test]
    fn connections_are_spread_over_as_many_addresses_as_needed() {
        let prefix: Prefix = "127.88.0.0/16".parse().unwrap();
        let sources = Sources::plan(target(), 18_000, Some(prefix), Some(4_000)).unwrap();
        assert_eq!(sources.count(18_000), 5);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(sources.of(0), Some(ip("127.88.0.1")));
        assert_eq!(sources.of(3_999), Some(ip("127.88.0.1")));
        assert_eq!(sources.of(4_000), Some(ip("127.88.0.2")));
        assert_eq!(sources.of(17_999), Some(ip("127.88.0.5")));
    }

    #[test]
    fn a_million_connections_to_this_machine_need_no_flag_and_few_need_no_address() {
        let many = Sources::plan(target(), 1_000_000, None, None).unwrap();
        assert!(many.count(1_000_000) > 15, "{many:?}");
        assert!(many.of(999_999).unwrap().is_loopback());
        assert_eq!(Sources::plan(target(), 1_000, None, None).unwrap().of(5), None);
    }

    #[test]
    fn too_few_addresses_are_refused_with_what_to_give() {
        let refusal = |target: &str, prefix: Option<&str>| {
            let prefix = prefix.map(|p| p.parse().unwrap());
            let target = target.parse().unwrap();
            Sources::plan(target, 1_000_000, prefix, None).unwrap_err().to_string()
        };
        assert!(refusal("192.0.2.1:9876", None).contains("--source-prefix"));
        assert!(refusal("127.0.0.1:1", Some("127.0.0.0/30")).contains("wider"));
        assert!(refusal("[::1]:1", Some("127.0.0.0/8")).contains("IPv4"));
        assert!("127.0.0.1/7".parse::<Prefix>().is_err());
        assert!("::1/64".parse::<Prefix>().unwrap_err().contains("127.0.0.0/8"));
    }

    #[test]
    fn a_connection_comes_from_the_address_given() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let source: IpAddr = "127.88.0.9".parse().unwrap();
        let at = listener.local_addr().unwrap();
        let limit = Duration::from_secs(5);
        let socket = connect(at, Some(source), Ending::Reset, limit).unwrap();
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip(), source);
        assert_eq!(socket.local_addr().unwrap(), peer);
    }

    #[test]
    fn a_refused_connection_is_an_error_with_its_kind() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        drop(listener);
        let refused = connect(at, None, Ending::Fin, Duration::from_secs(5)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let foreign = "192.0.2.7".parse().ok();
        let text = connect(at, foreign, Ending::Fin, Duration::from_secs(5)).unwrap_err();
        assert!(text.to_string().contains("address of this machine"), "{text}");
    }
}

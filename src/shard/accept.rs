//! Listeners, one for each shard on the same port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

use crate::limits::{
    DEAD_PEER_S, KEEPALIVE_AFTER_S, KEEPALIVE_EVERY_S, KEEPALIVE_PROBES, LISTEN_BACKLOG,
};

/// How often a port in use is tried again, and after which pause: two seconds in all.
const CLAIM_ATTEMPTS: u32 = 100;
const CLAIM_PAUSE: Duration = Duration::from_millis(20);

/// Binds one listener for each of `shards`; the kernel spreads connections over them
/// (`SO_REUSEPORT`).
///
/// Port 0 lets the kernel choose; all listeners then have the chosen one. On `[::]` they take IPv4
/// as well.
///
/// # Errors
/// When the port is in use, also by another server of the same user: `SO_REUSEPORT` alone would
/// silently share the port with it, so it is first bound without.
pub fn bind(address: SocketAddr, shards: usize) -> io::Result<Vec<TcpListener>> {
    let mut address = address;
    address.set_port(claim(address)?);
    (0..shards)
        .map(|_| {
            let listener = socket(address)?;
            listener.set_reuse_port(true)?;
            // Inherited by accepted sockets on Linux, which saves calls for each.
            listener.set_tcp_nodelay(true)?;
            notice_dead_peers(&listener)?;
            listener.bind(&address.into())?;
            listener.listen(LISTEN_BACKLOG)?;
            Ok(listener.into())
        })
        .collect()
}

/// Lets the kernel end connections whose host is gone without a word: those that are silent, also
/// where `serverChannelMaxIdleTimeSeconds` is 0, and those that owe us an acknowledgement, which it
/// would otherwise try for a quarter of an hour.
fn notice_dead_peers(listener: &Socket) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(KEEPALIVE_AFTER_S))
        .with_interval(Duration::from_secs(KEEPALIVE_EVERY_S))
        .with_retries(KEEPALIVE_PROBES);
    listener.set_tcp_keepalive(&keepalive)?;
    listener.set_tcp_user_timeout(Some(Duration::from_secs(DEAD_PEER_S)))
}

/// Binds without sharing, lets go, and says which port it was.
///
/// A port in use is tried again for a moment: the kernel takes apart the rings of a process that
/// was killed in the background, and its listeners stay until that is done (10 ms measured; 300 ms
/// with 5 000 connections).
fn claim(address: SocketAddr) -> io::Result<u16> {
    let mut attempts = 0..CLAIM_ATTEMPTS;
    loop {
        let probe = socket(address)?;
        match probe.bind(&address.into()).and_then(|()| probe.listen(1)) {
            Ok(()) => {
                let chosen = probe.local_addr()?.as_socket();
                return Ok(chosen.map_or(address.port(), |chosen| chosen.port()));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempts.next().is_some() => {
                thread::sleep(CLAIM_PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // Connections of an earlier process that linger in TIME_WAIT do not keep the port.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpStream};

    use super::*;

    #[test]
    fn all_shards_listen_on_the_port_that_the_first_was_given() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        assert_ne!(port, 0);
        assert!(listeners.iter().all(|each| each.local_addr().unwrap().port() == port));
    }

    #[test]
    fn a_second_server_on_the_port_is_refused() {
        let first = bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = first[0].local_addr().unwrap();
        assert_eq!(bind(address, 2).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let any = SocketAddr::new("0.0.0.0".parse().unwrap(), address.port());
        assert_eq!(bind(any, 1).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        bind(address, 2).unwrap();
    }

    #[test]
    fn the_unspecified_ipv6_address_takes_ipv4_too() {
        let listeners = bind("[::]:0".parse().unwrap(), 1).unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).unwrap();
        TcpStream::connect(("::1", port)).unwrap();
    }

    #[test]
    fn accepted_sockets_inherit_no_delay() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let _client = TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
        assert!(listeners[0].accept().unwrap().0.nodelay().unwrap());
    }

    #[test]
    fn connections_of_few_addresses_are_spread_over_the_listeners() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = listeners[0].local_addr().unwrap();
        let clients: Vec<Socket> = (0..400u32)
            .map(|number| {
                let client = socket(address).unwrap();
                let source = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number % 4);
                client.bind(&SocketAddr::from((source, 0)).into()).unwrap();
                client.connect(&address.into()).unwrap();
                client
            })
            .collect();
        let accepted = |listener: &TcpListener| {
            listener.set_nonblocking(true).unwrap();
            listener.incoming().map_while(Result::ok).count()
        };
        let counts: Vec<usize> = listeners.iter().map(accepted).collect();
        assert_eq!(counts.iter().sum::<usize>(), clients.len());
        assert!(counts.iter().all(|count| (133..267).contains(count)), "{counts:?}");
    }

    #[test]
    fn accepted_sockets_notice_within_two_minutes_that_their_peer_is_dead() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let _client = TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
        let (accepted, _) = listeners[0].accept().unwrap();
        let accepted = socket2::SockRef::from(&accepted);
        assert!(accepted.keepalive().unwrap());
        let after = accepted.tcp_keepalive_time().unwrap();
        let every = accepted.tcp_keepalive_interval().unwrap();
        let probes = accepted.tcp_keepalive_retries().unwrap();
        assert_eq!(after + every * probes, Duration::from_secs(120));
        // A shorter one would end a connection for a single lost probe.
        assert_eq!(accepted.tcp_user_timeout().unwrap(), Some(Duration::from_secs(120)));
    }
}

//! Listeners, one for each shard on the same port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::LISTEN_BACKLOG;

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
            // Inherited by accepted sockets on Linux, which saves a call for each.
            listener.set_tcp_nodelay(true)?;
            listener.bind(&address.into())?;
            listener.listen(LISTEN_BACKLOG)?;
            Ok(listener.into())
        })
        .collect()
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
    use std::net::TcpStream;

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
}

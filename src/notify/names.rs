//! Looks up hosts by name, on threads that may have to wait for it.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use crossbeam::channel::{Receiver, Sender, bounded};
use mio::Waker;

use crate::limits::NOTICE_TARGETS_MAX;

/// Threads: a name that the resolver ponders holds up half of the others, not all.
const THREADS: usize = 2;
/// Addresses of one name that are tried.
const ADDRS_MAX: usize = 8;

/// What was found for the target with this token.
pub(super) type Found = (usize, io::Result<Vec<SocketAddr>>);
type Asked = (usize, String, u16);

/// Lives: in the delivery thread. Its threads end by themselves once it is gone, each after the
/// name at hand.
#[derive(Debug)]
pub(super) struct Names {
    asked: Sender<Asked>,
    found: Receiver<Found>,
}

impl Names {
    /// Starts the threads; `waker` is woken when there is something to poll.
    pub fn start(waker: &Arc<Waker>) -> io::Result<Names> {
        let (asked, to_do) = bounded::<Asked>(NOTICE_TARGETS_MAX);
        let (done, found) = bounded(NOTICE_TARGETS_MAX);
        for _ in 0..THREADS {
            let (to_do, done, waker) = (to_do.clone(), done.clone(), Arc::clone(waker));
            let run = move || {
                for (token, host, port) in to_do {
                    let found = (host.as_str(), port).to_socket_addrs().map(in_order);
                    // After the outcome is in the channel: whoever is woken finds it.
                    if done.send((token, found)).is_err() || waker.wake().is_err() {
                        return;
                    }
                }
            };
            thread::Builder::new().name("notify-names".into()).spawn(run)?;
        }
        Ok(Names { asked, found })
    }

    /// Asks for the addresses of a host. Fails if too many wait already.
    pub fn ask(&self, token: usize, host: String, port: u16) -> io::Result<()> {
        let full = |_| io::Error::other("too many host names are being looked up");
        self.asked.try_send((token, host, port)).map_err(full)
    }

    /// The next outcome, if there is one.
    pub fn poll(&self) -> Option<Found> {
        self.found.try_recv().ok()
    }
}

/// The first few addresses, IPv4 before IPv6: Java connects to IPv4 unless told otherwise, so this
/// is where its brokers are sure to listen.
fn in_order(addrs: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut addrs: Vec<SocketAddr> = addrs.take(ADDRS_MAX).collect();
    addrs.sort_by_key(SocketAddr::is_ipv6);
    addrs
}

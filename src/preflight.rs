//! Looks, before anything is started, whether the machine lets the server run; each refusal names
//! its cure.

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::config::Config;
use crate::fatal::{Exit, Fatal};
use crate::limits::{CONNECTIONS_MAX, NOTICE_TARGETS_MAX};

/// Open files beside connections and notices: standard streams, log, stored files and their
/// folders, doorbells, polls.
const FILES_SHARED: u64 = 24;
/// Open files of one executor: its rings, its ring for sockets, doorbells, listener.
const FILES_PER_EXECUTOR: u64 = 12;
/// Fewer possible connections than this are worth a warning even if nobody asked for more.
const CONNECTIONS_EXPECTED: usize = 50_000;

/// What the machine allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// Most connections at a time, all shards together: as configured, if that many fit.
    pub max_connections: usize,
}

/// Checks everything, and raises the limits that the process may raise itself. `probe_ring` looks
/// at the kernel and tries io_uring, with what may then be locked.
///
/// # Errors
/// The first thing without which the server cannot run.
pub fn check<E: Display>(
    config: &Config,
    shards: usize,
    probe_ring: impl FnOnce() -> Result<(), E>,
) -> Result<Ready, Fatal> {
    let files = raise(Resource::Nofile);
    let max_connections = connections(files, shards, config.max_connections)?;
    raise(Resource::Memlock);
    probe_ring().map_err(|unavailable| Fatal::new(Exit::Os, unavailable.to_string()))?;
    let address = resolve(&config.bind_address, config.listen_port)?;
    Ok(Ready { address, max_connections })
}

/// Why nothing can be bound to `address`, and what to do.
#[must_use]
pub fn explain_bind(address: SocketAddr, error: &io::Error) -> Fatal {
    let unavailable =
        |what: &str| Fatal::new(Exit::Unavailable, format!("address {address} {what}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            unavailable("is in use: stop the other server or set listenPort")
        }
        io::ErrorKind::AddrNotAvailable => unavailable(
            "is not an address of this host: set bindAddress to one, or to 0.0.0.0 or ::",
        ),
        io::ErrorKind::PermissionDenied => Fatal::new(
            Exit::Permission,
            format!(
                "not allowed to listen on {address}: take a port from 1024 on, grant \
                 CAP_NET_BIND_SERVICE, or lower net.ipv4.ip_unprivileged_port_start"
            ),
        ),
        _ => unavailable(&format!("cannot be listened on: {error}")),
    }
}

/// Raises the soft limit to the hard one; returns what then holds, `None` if there is no limit.
fn raise(resource: Resource) -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(resource);
    if current == maximum {
        return current;
    }
    match setrlimit(resource, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    }
}

/// Most connections that `files` open files allow, at most `wanted`.
fn connections(files: Option<u64>, shards: usize, wanted: Option<usize>) -> Result<usize, Fatal> {
    let wanted = wanted.unwrap_or(CONNECTIONS_MAX);
    let Some(files) = files else { return Ok(wanted) };
    let executors = shards as u64 + 1;
    let notices = NOTICE_TARGETS_MAX as u64;
    let taken = FILES_SHARED + notices + FILES_PER_EXECUTOR.saturating_mul(executors);
    let need = taken + 1;
    if files < need {
        return Err(Fatal::new(
            Exit::Os,
            format!(
                "the open-files limit is {files}; {shards} shards need {need} before the first \
                 connection: raise it (ulimit -n 1048576, or LimitNOFILE=1048576 in the unit file)"
            ),
        ));
    }
    let fit = usize::try_from(files - taken).unwrap_or(usize::MAX);
    let asked = wanted < CONNECTIONS_MAX;
    if fit < wanted && (asked || fit < CONNECTIONS_EXPECTED) {
        let for_what = if asked { wanted as u64 + taken } else { 1 << 20 };
        warn!(
            "the open-files limit is {files}: {fit} connections fit. For more set ulimit -n \
             {for_what}, or LimitNOFILE={for_what} in the unit file"
        );
    } else {
        info!("the open-files limit is {files}: {fit} connections fit");
    }
    Ok(fit.min(wanted))
}

/// The first address that `host` stands for. Asks the resolver if it is a name.
fn resolve(host: &str, port: u16) -> Result<SocketAddr, Fatal> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let found = (bare, port).to_socket_addrs().and_then(|mut addresses| {
        addresses.next().ok_or_else(|| io::Error::other("the name has no address"))
    });
    found.map_err(|error| {
        let message = format!("bindAddress={host} cannot be resolved: {error}");
        Fatal::new(Exit::Config, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_what_the_open_files_leave() {
        assert_eq!(connections(None, 1, Some(5)), Ok(5));
        assert_eq!(connections(Some(20_000), 1, None), Ok(20_000 - 48 - 64));
        assert_eq!(connections(Some(20_000), 1, Some(100)), Ok(100));
        assert_eq!(connections(Some(113), 1, None), Ok(1));
        let fatal = connections(Some(112), 1, None).unwrap_err();
        assert!(fatal.message.contains("need 113") && fatal.message.contains("LimitNOFILE"));
        assert!(connections(Some(256), 64, None).unwrap_err().message.contains("869"));
    }

    #[test]
    fn notices_to_all_brokers_that_are_told_at_a_time_leave_the_connections_theirs() {
        for files in [113, 256, 500, 20_000] {
            let fit = connections(Some(files), 1, None).unwrap() as u64;
            let others = FILES_SHARED + 2 * FILES_PER_EXECUTOR;
            assert!(fit + NOTICE_TARGETS_MAX as u64 + others <= files, "{files}: {fit}");
        }
    }

    #[test]
    fn what_keeps_an_address_from_being_bound_is_named_with_the_cure() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9876));
        let fatal = |kind: io::ErrorKind| explain_bind(address, &kind.into());
        let in_use = fatal(io::ErrorKind::AddrInUse);
        assert_eq!(in_use.exit_code, Exit::Unavailable);
        let wanted = "address 127.0.0.1:9876 is in use: stop the other server or set listenPort";
        assert_eq!(in_use.message, wanted);
        let foreign = fatal(io::ErrorKind::AddrNotAvailable);
        assert_eq!(foreign.exit_code, Exit::Unavailable);
        assert!(foreign.message.contains("is not an address of this host"), "{}", foreign.message);
        assert_eq!(fatal(io::ErrorKind::PermissionDenied).exit_code, Exit::Permission);
    }

    #[test]
    fn hosts_and_both_kinds_of_addresses_resolve() {
        assert_eq!(resolve("0.0.0.0", 1).unwrap().to_string(), "0.0.0.0:1");
        assert_eq!(resolve("::", 1).unwrap().to_string(), "[::]:1");
        assert_eq!(resolve("[::1]", 1).unwrap().to_string(), "[::1]:1");
        assert!(resolve("localhost", 1).unwrap().ip().is_loopback());
        assert_eq!(resolve("no such host", 1).unwrap_err().exit_code, Exit::Config);
    }

    #[test]
    fn a_refused_ring_ends_with_its_own_message() {
        let raw = crate::config::raw::Raw {
            user_home: Some("/tmp".into()),
            ..crate::config::raw::Raw::default()
        };
        let config = Config::check(raw).unwrap();
        let fatal = check(&config, 1, || Err("io_uring is off: switch it on")).unwrap_err();
        assert_eq!(fatal, Fatal::new(Exit::Os, "io_uring is off: switch it on"));
    }
}

//! Looks, before anything is started, whether the machine lets the server run; each refusal names
//! its cure.

use std::fmt::Display;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

use crate::config::Config;
use crate::fatal::{Exit, Fatal};
use crate::limits::{CONNECTIONS_MAX, NOTICE_TARGETS_MAX, OPEN_FILES_MIN};

/// Oldest kernel, for `DEFER_TASKRUN` (6.1); multishot receive with provided buffers is older.
const KERNEL_MIN: (u32, u32) = (6, 1);
/// What an executor wants to be allowed to lock before it starts, in bytes (`glommio` checks the
/// same).
const MEMLOCK_BYTES_MIN: u64 = 512 << 10;
/// Open files beside connections: standard streams, log, stored files, admin listener, outgoing
/// connections.
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

/// Checks everything, and raises the limits that the process may raise itself. `probe_ring` tries
/// io_uring.
///
/// # Errors
/// The first thing without which the server cannot run.
pub fn check<E: Display>(
    config: &Config,
    shards: usize,
    probe_ring: impl FnOnce() -> Result<(), E>,
) -> Result<Ready, Fatal> {
    check_kernel(&rustix::system::uname().release().to_string_lossy())?;
    let files = raise(Resource::Nofile);
    let max_connections = connections(files, shards, config.max_connections)?;
    check_memlock(raise(Resource::Memlock))?;
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
    // Where files are few, fewer brokers are told at a time.
    let notices = (NOTICE_TARGETS_MAX as u64).min(files / 8);
    let taken = FILES_SHARED + notices + FILES_PER_EXECUTOR.saturating_mul(executors);
    let need = OPEN_FILES_MIN.max(taken + 1);
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

fn check_memlock(limit: Option<u64>) -> Result<(), Fatal> {
    match limit {
        Some(bytes) if bytes < MEMLOCK_BYTES_MIN => Err(Fatal::new(
            Exit::Os,
            format!(
                "the memlock limit is {bytes} bytes, executors need {MEMLOCK_BYTES_MIN}: raise it \
                 (ulimit -l {}, or LimitMEMLOCK={MEMLOCK_BYTES_MIN} in the unit file)",
                MEMLOCK_BYTES_MIN >> 10
            ),
        )),
        _ => Ok(()),
    }
}

/// `release` is like `6.1.0-13-amd64`. One that cannot be read is left to the ring's own probe.
fn check_kernel(release: &str) -> Result<(), Fatal> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else { return Ok(()) };
    if (major, minor) >= KERNEL_MIN {
        return Ok(());
    }
    let (need_major, need_minor) = KERNEL_MIN;
    Err(Fatal::new(
        Exit::Os,
        format!(
            "the kernel is {release}; a newer one is needed, {need_major}.{need_minor} or later"
        ),
    ))
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
    fn an_old_kernel_is_refused_and_an_odd_name_is_not() {
        for old in ["5.4.0-42-generic", "6.0.19", "4.4.0"] {
            let fatal = check_kernel(old).unwrap_err();
            assert_eq!(fatal.exit_code, Exit::Os);
            assert!(fatal.message.contains("6.1"), "{}", fatal.message);
        }
        for good in ["6.1.0-13-amd64", "6.18.44", "7.0", "6.10-rc1", "custom"] {
            assert_eq!(check_kernel(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn connections_are_what_the_open_files_leave() {
        assert_eq!(connections(None, 1, Some(5)), Ok(5));
        assert_eq!(connections(Some(20_000), 1, None), Ok(20_000 - 48));
        assert_eq!(connections(Some(20_000), 1, Some(100)), Ok(100));
        assert_eq!(connections(Some(64), 1, None), Ok(16));
        let fatal = connections(Some(63), 1, None).unwrap_err();
        assert!(fatal.message.contains("need 64") && fatal.message.contains("LimitNOFILE"));
        assert!(connections(Some(256), 64, None).unwrap_err().message.contains("805"));
    }

    #[test]
    fn memlock_is_refused_only_where_an_executor_would_fail() {
        assert_eq!(check_memlock(None), Ok(()));
        assert_eq!(check_memlock(Some(512 << 10)), Ok(()));
        let fatal = check_memlock(Some(64 << 10)).unwrap_err();
        assert!(fatal.message.contains("ulimit -l 512"), "{}", fatal.message);
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

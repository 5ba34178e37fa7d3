//! What this machine must allow for a run, looked at before it, each shortage with its cure.

use std::fmt;
use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::failure::{Failure, run_failure, usage};

/// Descriptors besides the connections: epoll, `/proc` files, the pipes of a child.
pub const OTHER_FILES: u64 = 64;
/// Kernel memory of an open, quiet connection, one end: socket, inode, file, timers.
const KERNEL_BYTES_PER_SOCKET: u64 = 3_000;
/// Our own memory for a connection: its state, its part of the schedule, small buffers.
const OWN_BYTES_PER_SOCKET: u64 = 1_500;

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What it is.
    pub what: &'static str,
    /// How much is needed.
    pub needed: u64,
    /// How much there is.
    pub allowed: u64,
    /// What to do when it is not enough.
    pub cure: String,
}

impl Finding {
    /// Whether it is enough.
    pub fn holds(&self) -> bool {
        self.needed <= self.allowed
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { what, needed, allowed, cure } = self;
        if self.holds() {
            write!(f, "{what}: {needed} of {allowed}")
        } else {
            write!(f, "{what}: {needed} needed, {allowed} allowed; {cure}")
        }
    }
}

/// The local ports for outgoing connections.
pub fn ephemeral_ports() -> u64 {
    const DEFAULT: u64 = 60_999 - 32_768 + 1;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let numbers: Vec<u64> = range.split_whitespace().flat_map(str::parse).collect();
    match numbers[..] {
        [first, last] if first <= last => last - first + 1,
        _ => DEFAULT,
    }
}

/// Connections this process may hold, by the hard limit of open files.
pub fn connections_max() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    maximum.unwrap_or(u64::MAX).saturating_sub(OTHER_FILES)
}

/// Raises the soft limit of open files when that is all it takes.
///
/// # Errors
/// [`Failure::Usage`] with the limit, and how to pass it.
pub fn raise_open_files(connections: u64) -> Result<(), Failure> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = connections + OTHER_FILES;
    if current.is_none_or(|limit| limit >= needed) {
        return Ok(());
    }
    if let Some(limit) = maximum.filter(|limit| *limit < needed) {
        let most = limit.saturating_sub(OTHER_FILES);
        return Err(usage(format!(
            "{connections} connections need {needed} open files and the limit is {limit}: give at \
             most {most} connections, or raise it (ulimit -Hn {needed})"
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
        .map_err(|e| run_failure(format!("raising the open files limit to {needed}: {e}")))
}

/// Looks at everything for so many connections from so many addresses; `local`: the server's ends
/// are on this machine as well.
pub fn look(connections: u64, addresses: u64, local: bool) -> Vec<Finding> {
    let ends = if local { 2 } else { 1 };
    let files = connections + OTHER_FILES;
    let mut findings = vec![
        Finding {
            what: "open files",
            needed: files,
            allowed: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
            cure: format!("raise it: ulimit -Hn {files}, or LimitNOFILE= of a unit"),
        },
        Finding {
            what: "local ports of one source address",
            needed: connections.div_ceil(addresses.max(1)),
            allowed: ephemeral_ports(),
            // Those at rest (TIME_WAIT) are not counted: they rest towards their own server only.
            cure: "spread over more addresses with --source-prefix, or widen \
                   net.ipv4.ip_local_port_range"
                .into(),
        },
        Finding {
            what: "memory for sockets",
            needed: connections * (ends * KERNEL_BYTES_PER_SOCKET + OWN_BYTES_PER_SOCKET),
            allowed: memory_available(),
            cure: "give fewer connections, or run the generator on another machine".into(),
        },
    ];
    if let Some((used, limit)) = conntrack() {
        findings.push(Finding {
            what: "tracked connections (nf_conntrack)",
            needed: used + connections,
            allowed: limit,
            cure: format!(
                "sysctl -w net.netfilter.nf_conntrack_max={}, or exempt the port from tracking",
                2 * (used + connections)
            ),
        });
    }
    findings
}

/// The same, as a refusal when something is short.
///
/// # Errors
/// [`Failure::Usage`] naming each shortage with its cure.
pub fn check(connections: u64, addresses: u64, local: bool) -> Result<(), Failure> {
    raise_open_files(connections)?;
    let findings = look(connections, addresses, local);
    let short: Vec<String> =
        findings.iter().filter(|f| !f.holds()).map(ToString::to_string).collect();
    if short.is_empty() { Ok(()) } else { Err(usage(short.join("\n"))) }
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Entries in use and their limit; `None` where connections are not tracked.
fn conntrack() -> Option<(u64, u64)> {
    let used = number_in("/proc/sys/net/netfilter/nf_conntrack_count")?;
    Some((used, number_in("/proc/sys/net/netfilter/nf_conntrack_max")?))
}

fn memory_available() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|l| l.split_whitespace().next()?.parse().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_names_its_cure_and_plenty_is_silent() {
        assert!(check(10, 1, true).is_ok());
        let text = check(100_000_000, 1, true).unwrap_err().to_string();
        assert!(text.contains("ulimit -Hn") || text.contains("--source-prefix"), "{text}");
        let findings = look(100_000, 1, false);
        let ports = findings.iter().find(|f| f.what.starts_with("local ports")).unwrap();
        assert!(!ports.holds() && ports.to_string().contains("ip_local_port_range"), "{ports}");
        assert!(look(1_000, 10, true).iter().all(Finding::holds));
    }

    #[test]
    fn memory_and_ports_of_this_machine_are_found() {
        assert!(memory_available() > 1 << 20);
        assert!(ephemeral_ports() > 1_000);
    }
}

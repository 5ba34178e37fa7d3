//! What this machine allows, looked at before a run rather than found out in the middle of it.

use std::net::{SocketAddr, ToSocketAddrs as _, UdpSocket};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::failure::{Failure, usage};

/// The address behind `HOST:PORT`, refused when it leaves this machine without being allowed to.
///
/// # Errors
/// [`Failure::Usage`] saying what to write instead.
pub fn target(text: &str, allow_remote: bool) -> Result<SocketAddr, Failure> {
    let found = text.to_socket_addrs().map_err(|e| {
        usage(format!("'{text}' is no address ({e}): give HOST:PORT, such as 127.0.0.1:9876"))
    })?;
    let addresses: Vec<SocketAddr> = found.collect();
    let ipv4_first = addresses.iter().find(|a| a.is_ipv4()).or(addresses.first());
    let Some(&address) = ipv4_first else {
        return Err(usage(format!("'{text}' has no address: give HOST:PORT")));
    };
    // Only an address of this machine can be bound.
    let is_ours = || UdpSocket::bind((address.ip(), 0)).is_ok();
    if !address.ip().is_loopback() && !allow_remote && !is_ours() {
        return Err(usage(format!(
            "{address} is another machine, and this tool sends as fast as it can: \
             add --allow-remote if that is what you want"
        )));
    }
    Ok(address)
}

/// The CPUs this process may run on.
pub fn cpus_allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Binds the calling thread to these CPUs; threads and processes it starts later inherit that.
///
/// # Errors
/// [`Failure::Usage`] naming the CPUs there are.
pub fn pin(cpus: &[usize]) -> Result<(), Failure> {
    let refused = |why: String| {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        usage(format!("pinning to {cpus:?}: {why}; the CPUs of this machine are {}", online.trim()))
    };
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(refused(format!("there is no CPU {cpu}")));
        }
        set.set(cpu);
    }
    // Asked of the kernel and not of our present set: a child may leave the CPU of its parent.
    sched_setaffinity(None, &set).map_err(|e| refused(e.to_string()))?;
    // The kernel drops CPUs it does not have from the set without a word.
    match cpus.iter().find(|cpu| !cpus_allowed().contains(*cpu)) {
        Some(cpu) => Err(refused(format!("CPU {cpu} is not ours to use"))),
        None => Ok(()),
    }
}

/// Binds the calling thread, which has this number among its like, to one of these CPUs, again from
/// the first when there are too few; to none if there are none.
///
/// # Errors
/// As of [`pin`].
pub fn pin_to_one_of(cpus: &[usize], number: usize) -> Result<(), Failure> {
    if cpus.is_empty() { Ok(()) } else { pin(&[cpus[number % cpus.len()]]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_is_refused_with_the_flag_that_allows_it() {
        let text = target("192.0.2.1:9876", false).unwrap_err().to_string();
        assert!(text.contains("--allow-remote"), "{text}");
        assert!(target("192.0.2.1:9876", true).is_ok());
        assert!(target("127.8.9.10:1", false).is_ok());
        assert!(target("[::1]:1", false).is_ok());
        // Not the loopback address, and one of ours: every address of this machine can be bound.
        assert!(target("0.0.0.0:1", false).is_ok());
        let text = target("localhost", false).unwrap_err().to_string();
        assert!(text.contains("HOST:PORT"), "{text}");
    }

    #[test]
    fn a_thread_can_be_pinned_and_moved_again() {
        let all = cpus_allowed();
        let moves = || -> Result<Vec<usize>, Failure> {
            pin(&all[..1])?;
            pin(&all[all.len() - 1..])?;
            Ok(cpus_allowed())
        };
        // In a thread of its own: the other tests keep their CPUs.
        let after = std::thread::scope(|scope| scope.spawn(moves).join().unwrap().unwrap());
        assert_eq!(after, all[all.len() - 1..]);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused_with_those_that_are() {
        let text = pin(&[CpuSet::MAX_CPU - 1]).unwrap_err().to_string();
        assert!(text.contains("of this machine are 0"), "{text}");
    }
}

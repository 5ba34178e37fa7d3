//! What a process costs, read from `/proc`: CPU time, memory and context switches.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, run_failure, usage};

/// One look at a process.
#[derive(Debug, Clone)]
pub struct Sample {
    /// CPU of all its threads, dead ones included, in clock ticks.
    ticks: u64,
    /// By thread: name, CPU in ns, voluntary and forced switches.
    threads: BTreeMap<u32, ThreadSample>,
    rss_bytes: u64,
}

#[derive(Debug, Clone)]
struct ThreadSample {
    name: String,
    cpu_ns: Option<u64>,
    voluntary: u64,
    forced: u64,
}

/// What a process used between two looks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time, user and system, of all threads.
    pub cpu_ns: u64,
    /// Where `cpu_ns` is from: `schedstat` (ns) or `stat` (clock ticks, mostly 10 ms).
    pub cpu_source: String,
    /// Resident memory at the end.
    pub rss_bytes: u64,
    /// Context switches because a thread waited.
    pub voluntary_switches: u64,
    /// Context switches because the kernel took the CPU away.
    pub forced_switches: u64,
    /// CPU by thread name (threads of one pool differ by a number and are summed), the largest
    /// first, at most eight.
    pub by_thread_ns: Vec<(String, u64)>,
}

/// A process that can be looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
    /// The CPUs it may run on, as the kernel lists them.
    pub cpus_allowed: String,
}

/// Bytes as MiB.
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Process {
    /// The process with this id.
    ///
    /// # Errors
    /// When there is none, or `/proc` hides it.
    pub fn new(pid: u32) -> Result<Self, Failure> {
        let gone = |e| usage(format!("--server-pid {pid}: {e}; give the id of a running process"));
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(gone)?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Ok(Self {
            pid,
            command: command.trim().chars().take(200).collect(),
            cpus_allowed: field(&status, "Cpus_allowed_list:").unwrap_or("?").to_owned(),
        })
    }

    /// The process that listens on a TCP port of this machine.
    ///
    /// # Errors
    /// [`Failure::Usage`] asking for `--server-pid` when it is not exactly one.
    pub fn listening_on(port: u16) -> Result<Self, Failure> {
        let mut pids = BTreeSet::new();
        let inodes = listening_inodes(port);
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            if holds_socket(&entry.path().join("fd"), &inodes) {
                pids.insert(pid);
            }
        }
        match pids.len() {
            1 => Self::new(*pids.first().expect("there is one")),
            0 => Err(usage(format!(
                "cannot tell which process listens on port {port}; name it with --server-pid PID"
            ))),
            _ => Err(usage(format!(
                "{pids:?} all listen on port {port}; choose one with --server-pid PID"
            ))),
        }
    }

    /// The one CPU it may run on, if it is one only.
    pub fn only_cpu(&self) -> Option<usize> {
        self.cpus_allowed.parse().ok()
    }

    /// Whether it may run on this CPU. The list has the form `0-2,5`.
    pub fn may_run_on(&self, cpu: usize) -> bool {
        self.cpus_allowed.split(',').any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first), Ok(last)) => (first..=last).contains(&cpu),
                _ => false,
            }
        })
    }

    /// Looks at it now.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn sample(&self) -> Result<Sample, Failure> {
        let root = format!("/proc/{}", self.pid);
        let gone = |e| run_failure(format!("process {} ({}): {e}", self.pid, self.command));
        let stat = fs::read_to_string(format!("{root}/stat")).map_err(gone)?;
        let status = fs::read_to_string(format!("{root}/status")).map_err(gone)?;
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(format!("{root}/task")).map_err(gone)?.flatten() {
            let tid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            // A thread may end between being listed and being read.
            if let Some((tid, thread)) = tid.zip(thread_sample(&entry.path())) {
                threads.insert(tid, thread);
            }
        }
        let rss_kib: u64 = field(&status, "VmRSS:").and_then(first_number).unwrap_or(0);
        Ok(Sample { ticks: stat_ticks(&stat).unwrap_or(0), threads, rss_bytes: rss_kib * 1024 })
    }
}

impl Sample {
    /// What was used since an earlier look.
    pub fn since(&self, earlier: &Sample) -> Usage {
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        let (mut cpu_ns, mut voluntary_switches, mut forced_switches) = (0, 0, 0);
        let mut exact = earlier.threads.keys().all(|tid| self.threads.contains_key(tid));
        for (tid, now) in &self.threads {
            let before = earlier.threads.get(tid);
            let start = before.map_or(Some(0), |b| b.cpu_ns);
            match now.cpu_ns.zip(start) {
                Some((end, start)) => {
                    let used = end.saturating_sub(start);
                    cpu_ns += used;
                    let pool = now.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
                    *by_name.entry(pool.to_owned()).or_default() += used;
                }
                None => exact = false,
            }
            voluntary_switches += now.voluntary.saturating_sub(before.map_or(0, |b| b.voluntary));
            forced_switches += now.forced.saturating_sub(before.map_or(0, |b| b.forced));
        }
        // A thread that ended took its nanoseconds along; the ticks of the process still have them.
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        if !exact {
            cpu_ns = self.ticks.saturating_sub(earlier.ticks) * tick_ns;
        }
        let mut by_thread_ns: Vec<(String, u64)> = by_name.into_iter().collect();
        by_thread_ns.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        by_thread_ns.truncate(8);
        Usage {
            cpu_ns,
            cpu_source: if exact { "schedstat" } else { "stat" }.to_owned(),
            rss_bytes: self.rss_bytes,
            voluntary_switches,
            forced_switches,
            by_thread_ns,
        }
    }
}

/// CPU time of the whole machine in ns since it started: (busy, of which taken by the hypervisor).
pub fn machine_busy_ns() -> Option<(u64, u64)> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).flat_map(str::parse).collect();
    // user nice system idle iowait irq softirq steal
    let &[user, nice, system, _, _, irq, softirq, steal] = ticks.first_chunk::<8>()?;
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Some(((user + nice + system + irq + softirq) * tick_ns, steal * tick_ns))
}

fn thread_sample(task: &Path) -> Option<ThreadSample> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let schedstat = fs::read_to_string(task.join("schedstat")).ok();
    let number = |name| field(&status, name).and_then(first_number).unwrap_or(0);
    Some(ThreadSample {
        name: field(&status, "Name:")?.to_owned(),
        cpu_ns: schedstat.as_deref().and_then(first_number),
        voluntary: number("voluntary_ctxt_switches:"),
        forced: number("nonvoluntary_ctxt_switches:"),
    })
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// utime + stime. The name in parentheses may contain blanks and parentheses itself.
fn stat_ticks(stat: &str) -> Option<u64> {
    let mut after_name = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let utime: u64 = after_name.next()?.parse().ok()?;
    let stime: u64 = after_name.next()?.parse().ok()?;
    Some(utime + stime)
}

fn listening_inodes(port: u16) -> BTreeSet<String> {
    const LISTEN: &str = "0A";
    let port = format!(":{port:04X}");
    let mut inodes = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            if let (Some(local), Some(&LISTEN), Some(inode)) =
                (columns.get(1), columns.get(3), columns.get(9))
                && local.ends_with(&port)
            {
                inodes.insert(format!("socket:[{inode}]"));
            }
        }
    }
    inodes
}

fn holds_socket(fds: &Path, inodes: &BTreeSet<String>) -> bool {
    fs::read_dir(fds).into_iter().flatten().flatten().any(|fd| {
        let target = fs::read_link(fd.path());
        target.is_ok_and(|target| target.to_str().is_some_and(|text| inodes.contains(text)))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn burnt_cpu_is_seen() {
        let me = Process::new(std::process::id()).unwrap();
        let before = me.sample().unwrap();
        let thread_ns = || {
            let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            first_number(&text).unwrap()
        };
        let (start, begin) = (thread_ns(), Instant::now());
        while thread_ns() - start < 60_000_000 {
            assert!(begin.elapsed() < Duration::from_secs(60), "the machine gave us no CPU");
        }
        let usage = me.sample().unwrap().since(&before);
        // Other tests of this process may add to it, and ticks are coarse.
        assert!(usage.cpu_ns >= 40_000_000, "{usage:?}");
        assert!(usage.rss_bytes > 100_000, "{usage:?}");
    }

    #[test]
    fn the_process_behind_a_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(Process::listening_on(port).unwrap().pid, std::process::id());
        drop(listener);
        let text = Process::listening_on(port).unwrap_err().to_string();
        assert!(text.contains("--server-pid"), "{text}");
    }

    #[test]
    fn the_list_of_cpus_is_read_as_the_kernel_writes_it() {
        let on =
            |list: &str| Process { pid: 1, command: String::new(), cpus_allowed: list.to_owned() };
        let listed: Vec<usize> = (0..9).filter(|cpu| on("0-2,5,7-8").may_run_on(*cpu)).collect();
        assert_eq!(listed, [0, 1, 2, 5, 7, 8]);
        assert_eq!((on("3").only_cpu(), on("0-1").only_cpu()), (Some(3), None));
    }

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_columns() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 100 23 0 0 20 0 1 0 5";
        assert_eq!(stat_ticks(stat), Some(123));
    }
}

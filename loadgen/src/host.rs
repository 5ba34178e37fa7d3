//! What a number was measured on: without it, it is only a number.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Facts of the machine and the moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Host {
    /// Kernel release.
    pub kernel: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Load average over one minute, at the start.
    pub load_average: f64,
    /// Start of the command, ms since 1970.
    pub started_unix_ms: u64,
    /// The command as given.
    pub command: Vec<String>,
    /// Version of this tool.
    pub loadgen_version: String,
    /// Revision of the source it was built from, if the build was told (`LOADGEN_REVISION`).
    pub revision: Option<String>,
}

/// Now, in ms since 1970.
pub fn unix_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

impl Host {
    /// Facts as they are now.
    pub fn now() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let cpu = model.unwrap_or("?").trim_start_matches([' ', '\t', ':']);
        let average = read("/proc/loadavg");
        Self {
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            cpu: cpu.to_owned(),
            cpus: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            load_average: average.split(' ').next().and_then(|a| a.parse().ok()).unwrap_or(0.0),
            started_unix_ms: unix_ms(),
            command: std::env::args().collect(),
            loadgen_version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: option_env!("LOADGEN_REVISION").map(str::to_owned),
        }
    }
}

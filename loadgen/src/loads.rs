//! The loads of `versus` and `scale`: plain ones, so that what differs is the server or the fleet.
//! And the arguments that both have.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::cli;
use crate::pace::Arrivals;
use crate::run::Load;
use crate::shape::Shape;
use crate::sources::{Ending, Prefix, Sources};

/// Addresses of this machine that connections come from: each has its own ports, of which earlier
/// work may have left some at rest.
const SOURCES: u32 = 16;
/// The longest measurement: brokers tell that they are alive in between, and a server forgets one
/// that is silent for two minutes.
const SECONDS_MAX: f64 = 10.0;

/// How servers are started and measured by commands that start them.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// How often each figure is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Connections of the largest crowd
    #[arg(long, default_value_t = 18_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub crowd: u32,
    /// The CPU of the generator
    #[arg(long, default_value_t = 1)]
    pub pin: usize,
    /// The first server's port; if more than one is started, the others follow
    #[arg(long, default_value_t = 20_876)]
    pub first_port: u16,
    /// Where the servers' output goes [default: a folder of its own]
    #[arg(long)]
    pub logs: Option<PathBuf>,
}

/// The length of one measurement.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    cli::within(text, 0.1, SECONDS_MAX, " seconds")
}

/// A closed loop of one generator thread, pinned. What was not given has its usual value and can be
/// replaced. Connections are reset at the end, so that no port rests before the next run.
pub fn closed(to: SocketAddr, connections: u32, depth: usize, seconds: f64, pin: usize) -> Load {
    let many = u64::from(connections);
    let sources =
        Sources::plan(to, many, Some(Prefix::LOOPBACK), Some(connections.div_ceil(SOURCES)));
    Load {
        connections,
        depth,
        seconds,
        warmup_seconds: (seconds / 3.0).max(0.2),
        cooldown_seconds: 0.0,
        topics: 1000,
        misses: 0.0,
        seed: 1,
        rate: None,
        arrivals: Arrivals::Poisson,
        shape: Shape::Hold,
        // When it does not fit, the run says so.
        sources: sources.unwrap_or_default(),
        ending: Ending::Reset,
        connect_rate: None,
        threads: 1,
        timeout_ms: 5000,
        lateness_bound_us: 1000,
        pin: vec![pin],
        at_once: false,
    }
}

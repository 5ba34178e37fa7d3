//! The loads of `versus` and `scale`: plain ones, so that what differs is the server or the fleet.

use std::net::SocketAddr;

use crate::pace::Arrivals;
use crate::run::Load;
use crate::shape::Shape;
use crate::sources::{Ending, Prefix, Sources};

/// Addresses of this machine that connections come from: each has its own ports, of which earlier
/// work may have left some at rest.
const SOURCES: u32 = 16;

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

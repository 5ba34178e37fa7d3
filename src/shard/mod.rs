//! A shard: one core, one listener, its own connections. It takes no lock and never waits for the
//! writer.
//!
//! ```text
//! ring --events--> driver --bytes--> connection --frames--> service: answers, or asks the writer
//!   ^                |                   |
//!   +----output------+<-----answers------+<----- mail (the writer's answers)
//! ```
//!
//! A request, file by file: [`driver`] takes the bytes from the ring, [`connection`] finds the
//! frames, [`service`] is where answers come from. TLS would stand between the driver and the
//! connection: ciphertext from the ring, plaintext to `Connection::received`, and the connection's
//! output through it before it goes to the ring.
//!
//! **Never:** a receive or output buffer kept for a connection that has nothing in it; an
//! allocation of a size that a peer announced; a view held across an await.

pub mod accept;
mod buffers;
mod complaints;
mod connection;
mod driver;
mod idle;
pub mod mail;
pub mod service;
pub mod shutdown;
mod sniff;
pub mod topology;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam::utils::CachePadded;
use glommio::{LocalExecutorBuilder, Placement};

use self::driver::Driver;
use self::mail::Mail;
use self::service::Service;
use self::shutdown::StopSignal;
use crate::clock::Clock;
use crate::config::network::Network;
use crate::ids::ShardId;
use crate::metrics::ShardCounters;

/// Locked memory of one executor's own buffers, for files: a shard has none. The least that glommio
/// takes.
const EXECUTOR_IO_BYTES: usize = 64 << 10;
/// Entries of the executor's own rings: a shard uses one at a time, for its sleep.
const EXECUTOR_RING_DEPTH: usize = 32;

/// How a shard is set up.
#[derive(Debug)]
pub struct ShardOptions {
    /// Which shard it is.
    pub shard: ShardId,
    /// Its listener, from [`accept::bind`].
    pub listener: TcpListener,
    /// Most connections at a time: the shard's part of what the open-files limit allows.
    pub connections_max: u32,
    /// Seconds without a byte in or out after which a connection is closed; 0 is never (Java:
    /// `serverChannelMaxIdleTimeSeconds`).
    pub idle_s: u32,
    /// Milliseconds that a shutdown may take to send what is owed (Java:
    /// `shutdownWaitTimeSeconds`).
    pub drain_ms: u64,
    /// Who may send a PROXY header; empty is anybody.
    pub proxy_sources: Vec<Network>,
    /// Where it counts.
    pub counters: Arc<CachePadded<ShardCounters>>,
    /// The server's clock.
    pub clock: Clock,
}

/// A shard that has not started. Made anywhere, run on its core.
#[derive(Debug)]
pub struct Shard<S> {
    options: ShardOptions,
    service: S,
    mail: Mail,
    stop: StopSignal,
}

impl<S: Service> Shard<S> {
    /// A shard that serves through `service`, gets answers through `mail`, and ends when `stop`
    /// says so.
    pub fn with_service(
        options: ShardOptions,
        service: S,
        mail: Mail,
        stop: StopSignal,
    ) -> Shard<S> {
        Shard { options, service, mail, stop }
    }

    /// Serves until told to stop. Must run inside a glommio executor, whose thread it takes for
    /// itself.
    ///
    /// # Errors
    /// When its ring cannot be set up or fails; the text names the cure.
    pub async fn run(self) -> io::Result<()> {
        let shard = self.options.shard;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("shard {} failed: {error}", shard.0))
        };
        Driver::new(self.options, self.service, self.mail, self.stop)
            .map_err(named)?
            .run()
            .await
            .map_err(named)
    }
}

/// Starts a thread named `shard-N` on `core` and runs the shard there.
///
/// # Errors
/// When the thread cannot be started. What the shard itself fails with is the thread's result.
pub fn run_on_core<S>(shard: Shard<S>, core: usize) -> io::Result<JoinHandle<io::Result<()>>>
where
    S: Service + Send + 'static,
{
    let name = format!("shard-{}", shard.options.shard.0);
    thread::Builder::new().name(name.clone()).spawn(move || {
        let executor = |placement| {
            LocalExecutorBuilder::new(placement)
                .name(&name)
                .io_memory(EXECUTOR_IO_BYTES)
                .ring_depth(EXECUTOR_RING_DEPTH)
                .make()
        };
        let pinned = executor(Placement::Fixed(core)).or_else(|refusal| {
            // Fails where /sys does not describe the cores, as in some sandboxes.
            tracing::warn!(%refusal, core, "{name} cannot be pinned and runs on any core");
            executor(Placement::Unbound)
        });
        match pinned {
            Ok(executor) => executor.run(shard.run()),
            Err(refusal) => Err(io::Error::other(format!("{name} has no executor: {refusal}"))),
        }
    })
}

#[cfg(test)]
mod tests;

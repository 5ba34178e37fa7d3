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
//! frames, [`service`] is where answers come from. TLS stands between driver and connection, in
//! `driver/secure.rs`: ciphertext from the ring, plaintext to `Connection::received`, and the
//! connection's output through it before it goes to the ring.
//!
//! **Never:** a receive or output buffer kept for a connection that has nothing in it; an
//! allocation of a size that a peer announced; a view held across an await.

pub mod accept;
pub mod access;
mod buffers;
mod connection;
mod driver;
mod idle;
pub mod mail;
pub mod service;
pub mod shutdown;
mod sniff;
pub mod topology;

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam::utils::CachePadded;

use self::access::Access;
use self::driver::Driver;
use self::mail::Mail;
use self::service::Service;
use self::shutdown::StopSignal;
use crate::clock::Clock;
use crate::ids::ShardId;
use crate::metrics::ShardCounters;
use crate::tls::Tls;

/// How a shard is set up.
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
    /// Who may do what.
    pub access: Access,
    /// What it serves TLS with.
    pub tls: Tls,
    /// Where it counts.
    pub counters: Arc<CachePadded<ShardCounters>>,
    /// The server's clock.
    pub clock: Clock,
    /// Most bytes of frames that are not complete.
    pub partial_frames_bytes_max: usize,
    /// Most bytes of answers that are not sent.
    pub output_bytes_max: usize,
    /// Called on the shard's thread once its ring is set up and takes connections.
    pub on_ready: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for ShardOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardOptions")
            .field("shard", &self.shard)
            .field("listener", &self.listener)
            .field("connections_max", &self.connections_max)
            .finish_non_exhaustive()
    }
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
    pub async fn run(mut self) -> io::Result<()> {
        let on_ready = std::mem::replace(&mut self.options.on_ready, Box::new(|| ()));
        let shard = self.options.shard;
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("shard {} failed: {error}", shard.0))
        };
        let driver = Driver::new(self.options, self.service, self.mail, self.stop);
        let driver = driver.map_err(named)?;
        on_ready();
        driver.run().await.map_err(named)
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
    thread::Builder::new()
        .name(name.clone())
        .spawn(move || topology::executor_on(&name, core)?.run(shard.run()))
}

#[cfg(test)]
mod tests;

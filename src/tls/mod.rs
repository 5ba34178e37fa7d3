//! TLS on the same port: what is served, from which files, and the state machine that stands
//! between the ring and a connection.
//!
//! ```text
//! ring --ciphertext--> shard/driver --> channel --plaintext--> connection
//!   ^                                     |  ^                     |
//!   +------------------ciphertext---------+  +------answers--------+
//!
//! watcher (a thread of its own) --files changed--> material --valid--> Tls --> new connections
//! ```
//!
//! The settings are those of a Java server (`TlsSystemConfig`, `TlsHelper`). `material` reads and
//! checks what they name, as one whole: certificate chain, private key, trusted certificates.
//! `watcher` does it again when the files have changed and replaces the whole, or nothing.
//!
//! **Never:** key material or a password in a log line or in a `Debug` output; a file read on a
//! shard's or the writer's thread; a lock on a shard's thread: sessions are not resumed, so there
//! is no session cache and no ticket key to share.

mod channel;
mod clients;
mod key;
mod legacy;
mod material;
pub mod options;
mod pem;
mod policy;
mod watcher;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;

pub use self::channel::{Channel, ChannelError, Progress};
pub use self::material::Material;
use self::options::{Mode, Options};
pub use self::watcher::{Watcher, watch};

/// What new connections are served with. Lives: shared by all shards and the watcher, who alone
/// replaces the material. Connections keep what they began with.
#[derive(Clone)]
pub struct Tls {
    mode: Mode,
    /// Empty only if the mode is disabled.
    current: Arc<ArcSwapOption<Material>>,
}

impl Tls {
    /// No TLS at all.
    #[must_use]
    pub fn disabled() -> Tls {
        Tls { mode: Mode::Disabled, current: Arc::default() }
    }

    /// Reads what `options` name.
    ///
    /// # Errors
    /// What is missing or wrong, and the cure: for a person.
    pub fn load(options: &Options) -> Result<Tls, String> {
        if options.mode == Mode::Disabled {
            return Ok(Tls::disabled());
        }
        let material = Material::load(options)?;
        tracing::info!("TLS is {}: {material}", options.mode);
        material.warn();
        let current = Arc::new(ArcSwapOption::from_pointee(material));
        Ok(Tls { mode: options.mode, current })
    }

    /// Who is served; fixed at start.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What is served now.
    #[must_use]
    pub fn material(&self) -> Option<Arc<Material>> {
        self.current.load_full()
    }

    /// What a new connection is to be served with; `None` if the mode is disabled.
    #[must_use]
    pub fn config(&self) -> Option<Arc<ServerConfig>> {
        self.current.load().as_ref().map(|material| Arc::clone(material.config()))
    }

    fn replace(&self, material: Material) {
        self.current.store(Some(Arc::new(material)));
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("mode", &self.mode).finish_non_exhaustive()
    }
}

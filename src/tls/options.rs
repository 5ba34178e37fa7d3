//! What TLS is to be, as checked values. [`crate::config`] makes them of text.

use std::fmt;
use std::path::PathBuf;

/// Who is served on the port (`tls.server.mode`; Java: `TlsMode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Plain connections only.
    Disabled,
    /// Both; the first byte decides.
    #[default]
    Permissive,
    /// TLS only; of a plain connection nothing is executed.
    Enforcing,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Disabled => "disabled",
            Mode::Permissive => "permissive",
            Mode::Enforcing => "enforcing",
        })
    }
}

/// Whether clients must show a certificate (`tls.server.need.client.auth`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientAuth {
    /// None is asked for.
    #[default]
    None,
    /// One is asked for; a client without one is served.
    Optional,
    /// Without one the handshake fails.
    Require,
}

/// Text that must not be seen.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// All settings of TLS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// `tls.server.mode`.
    pub mode: Mode,
    /// `tls.test.mode.enable`: a certificate made at start instead of files.
    pub test_mode: bool,
    /// `tls.server.certPath`: the chain, PEM, the server's own certificate first.
    pub cert_path: Option<PathBuf>,
    /// `tls.server.keyPath`: PEM.
    pub key_path: Option<PathBuf>,
    /// `tls.server.keyPassword`.
    pub key_password: Option<Secret>,
    /// `tls.server.need.client.auth`.
    pub client_auth: ClientAuth,
    /// `tls.server.authClient`: whether a client's certificate must be one that
    /// `tls.server.trustCertPath` vouches for; otherwise any is accepted.
    pub verify_clients: bool,
    /// `tls.server.trustCertPath`: PEM.
    pub trust_path: Option<PathBuf>,
    /// `tls.ciphers`, in Java's names; empty is all there are.
    pub ciphers: Vec<String>,
    /// `tls.protocols`, in Java's names; empty is 1.2 and 1.3.
    pub protocols: Vec<String>,
}

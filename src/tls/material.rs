//! Reads and checks what TLS needs, as one whole: chain, key, trusted certificates. A whole that
//! does not fit together never becomes a [`Material`].

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{NoClientAuth, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use x509_cert::certificate::Certificate;
use x509_cert::der::{Decode as _, Encode as _};
use xxhash_rust::xxh3::Xxh3;
use zeroize::Zeroizing;

use super::clients::Clients;
use super::options::{ClientAuth, Options};
use super::policy::Policy;
use super::{key, pem};
use crate::limits::TLS_FILE_BYTES_MAX;

/// Name in the certificate of test mode (Netty: `SelfSignedCertificate`).
const TEST_NAME: &str = "localhost";

/// The content of the files. Holds a key: has no `Debug`.
pub(super) struct Files {
    chain: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    trust: Option<Vec<u8>>,
}

/// Tells whether the files' content has changed.
pub(super) type Stamp = u128;

impl Files {
    /// # Errors
    /// Which file cannot be read, and why.
    pub(super) fn read(options: &Options) -> Result<Files, String> {
        let (chain, key) = paths(options)?;
        let chain = read("tls.server.certPath", chain)?;
        let key = Zeroizing::new(read("tls.server.keyPath", key)?);
        let trust = trust_path(options).map(|path| read("tls.server.trustCertPath", path));
        Ok(Files { chain, key, trust: trust.transpose()? })
    }

    pub(super) fn stamp(&self) -> Stamp {
        let mut hash = Xxh3::new();
        for part in [&self.chain[..], &self.key, self.trust.as_deref().unwrap_or_default()] {
            hash.update(&part.len().to_be_bytes());
            hash.update(part);
        }
        hash.digest128()
    }
}

/// A checked whole, ready to serve with. Lives: until the last connection that began with it ends.
pub struct Material {
    config: Arc<ServerConfig>,
    /// The server's own certificate.
    leaf: Certificate,
    origin: String,
    clients: String,
    warnings: Vec<String>,
    stamp: Stamp,
}

impl Material {
    /// Reads the files that `options` name, or makes a certificate if it is for testing.
    ///
    /// # Errors
    /// What is missing or wrong, and the cure.
    pub fn load(options: &Options) -> Result<Material, String> {
        if options.test_mode {
            return Material::for_tests(options);
        }
        Material::of_files(options, &Files::read(options)?)
    }

    /// # Errors
    /// What is wrong, and the cure.
    pub(super) fn of_files(options: &Options, files: &Files) -> Result<Material, String> {
        let (chain_path, key_path) = paths(options)?;
        let named = |key: &str, path: &Path| format!("{key}={} ", path.display());
        let chain = certificates(&files.chain)
            .map_err(|e| named("tls.server.certPath", chain_path) + &e)?;
        let key = key::read(&files.key, options.key_password.as_ref())
            .map_err(|e| named("tls.server.keyPath", key_path) + &e)?;
        let trusted = match (&files.trust, trust_path(options)) {
            (Some(file), Some(path)) => {
                Some(certificates(file).map_err(|e| named("tls.server.trustCertPath", path) + &e)?)
            }
            _ => None,
        };
        let origin = format!("from {} and {}", chain_path.display(), key_path.display());
        let parts = Parts { chain, key, trusted, origin, stamp: files.stamp() };
        build(options, parts)
    }

    /// A self-signed certificate, as the Java server makes one unless told otherwise.
    fn for_tests(options: &Options) -> Result<Material, String> {
        if options.client_auth == ClientAuth::Require {
            return Err("tls.server.need.client.auth=require has no effect in test mode: set \
                 tls.test.mode.enable=false, tls.server.certPath and tls.server.keyPath"
                .to_owned());
        }
        let failed = |e: rcgen::Error| format!("cannot make a certificate for test mode: {e}");
        let made = rcgen::generate_simple_self_signed([TEST_NAME.to_owned()]).map_err(failed)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let parts = Parts {
            chain: vec![made.cert.der().clone()],
            key: key.into(),
            trusted: None,
            origin: "self-signed, for tests (tls.test.mode.enable)".to_owned(),
            stamp: 0,
        };
        let options = Options { client_auth: ClientAuth::None, ..options.clone() };
        let mut material = build(&options, parts)?;
        if options.cert_path.is_some() || options.key_path.is_some() {
            let warning = "tls.server.certPath and tls.server.keyPath are not used, because test \
                 mode is on, as it is by default: set tls.test.mode.enable=false";
            material.warnings.push(warning.to_owned());
        }
        Ok(material)
    }

    /// What a connection is served with.
    #[must_use]
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Seconds since 1970 at which the server's certificate ends.
    #[must_use]
    pub fn not_after_s(&self) -> u64 {
        self.leaf.tbs_certificate().validity().not_after.to_unix_duration().as_secs()
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Logs what is odd about it.
    pub(super) fn warn(&self) {
        for warning in &self.warnings {
            tracing::warn!("TLS: {warning}");
        }
        let now_s = self.config.time_provider.current_time().map_or(0, |now| now.as_secs());
        let validity = self.leaf.tbs_certificate().validity();
        if now_s > self.not_after_s() {
            tracing::warn!("TLS: the certificate ended at {}", validity.not_after);
        }
        if now_s < validity.not_before.to_unix_duration().as_secs() {
            tracing::warn!("TLS: the certificate is not valid before {}", validity.not_before);
        }
    }
}

impl fmt::Display for Material {
    /// What was loaded and until when it is valid.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = self.leaf.tbs_certificate();
        let (subject, serial, validity) =
            (content.subject().to_string(), content.serial_number(), content.validity());
        let subject: String = subject.chars().filter(|c| !c.is_control()).take(200).collect();
        let (from, until) = (validity.not_before, validity.not_after);
        write!(f, "certificate \"{subject}\", serial {serial}, valid from {from} until {until}")?;
        write!(f, ", {}; clients: {}", self.origin, self.clients)
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Material({self})")
    }
}

struct Parts {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    trusted: Option<Vec<CertificateDer<'static>>>,
    origin: String,
    stamp: Stamp,
}

fn build(options: &Options, parts: Parts) -> Result<Material, String> {
    let policy = Policy::new(options)?;
    let leaf = parts.chain.first().map(|der| Certificate::from_der(der));
    let Some(Ok(leaf)) = leaf else { return Err("there is no certificate".to_owned()) };
    let key = any_supported_type(&parts.key).map_err(|_| {
        "the private key is of no kind that is supported (RSA from 2048 bits on, \
             EC P-256 and P-384, Ed25519), or is malformed"
            .to_owned()
    })?;
    let public = key.public_key().map(|key| key.as_ref().to_vec());
    if public != leaf.tbs_certificate().subject_public_key_info().to_der().ok() {
        return Err(format!("key and certificate do not belong together ({})", parts.origin));
    }
    let mut warnings: Vec<String> =
        policy.left_out.iter().map(|what| format!("not offered: {what}")).collect();
    let provider = Arc::new(policy.provider);
    let (verifier, clients) = match client_verifier(options, parts.trusted, &provider)? {
        Some((verifier, clients)) => (Some(verifier), clients),
        None => (None, "no certificate asked for".to_owned()),
    };
    if options.client_auth == ClientAuth::Require && !options.verify_clients {
        let warning = "clients must show a certificate, but any will do: set \
             tls.server.authClient=true and tls.server.trustCertPath to verify it";
        warnings.push(warning.to_owned());
    }
    let resolver = Arc::new(SingleCertAndKey::from(CertifiedKey::new(parts.chain, key)));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&policy.versions)
        .map_err(|e| format!("tls.protocols and tls.ciphers do not fit together: {e}"))?
        .with_client_cert_verifier(match verifier {
            Some(verifier) => Arc::new(verifier),
            None => Arc::new(NoClientAuth),
        })
        .with_cert_resolver(resolver);
    // Java clients do not resume sessions, and a cache shared by all shards would need a lock.
    // Also, a trust file that was replaced counts from the next connection on.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let config = Arc::new(config);
    let Parts { origin, stamp, .. } = parts;
    Ok(Material { config, leaf, origin, clients, warnings, stamp })
}

type Verifier = (Clients, String);

/// `None` if no certificate is asked for.
fn client_verifier(
    options: &Options,
    trusted: Option<Vec<CertificateDer<'static>>>,
    provider: &Arc<rustls::crypto::CryptoProvider>,
) -> Result<Option<Verifier>, String> {
    let (required, word) = match options.client_auth {
        ClientAuth::None => return Ok(None),
        ClientAuth::Optional => (false, "optional"),
        ClientAuth::Require => (true, "required"),
    };
    if !options.verify_clients {
        let clients = Clients::any(required, provider);
        return Ok(Some((clients, format!("any certificate, {word}"))));
    }
    let Some(trusted) = trusted else {
        return Err("tls.server.authClient=true needs tls.server.trustCertPath: there is no \
             default set of trusted certificates here"
            .to_owned());
    };
    let clients = Clients::issued_by(&trusted, required, provider)
        .map_err(|e| format!("tls.server.trustCertPath {e}"))?;
    Ok(Some((clients, format!("certificate {word}, by {} trusted issuers", trusted.len()))))
}

/// The trust file, if it is read at all.
fn trust_path(options: &Options) -> Option<&PathBuf> {
    let used = options.verify_clients && options.client_auth != ClientAuth::None;
    options.trust_path.as_ref().filter(|_| used)
}

fn paths(options: &Options) -> Result<(&Path, &Path), String> {
    let missing = match (&options.cert_path, &options.key_path) {
        (Some(chain), Some(key)) => return Ok((chain, key)),
        (None, Some(_)) => "tls.server.certPath is",
        (Some(_), None) => "tls.server.keyPath is",
        (None, None) => "tls.server.certPath and tls.server.keyPath are",
    };
    Err(format!(
        "{missing} not set, and test mode is off (tls.test.mode.enable=false): set both, or \
         tls.server.mode=disabled"
    ))
}

/// All certificates of a PEM file.
fn certificates(file: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    for section in pem::sections(file)? {
        if matches!(section.label, "CERTIFICATE" | "X509 CERTIFICATE") {
            Certificate::from_der(&section.content).map_err(|e| {
                format!("has a malformed certificate, number {}: {e}", found.len() + 1)
            })?;
            found.push(CertificateDer::from(section.content.to_vec()));
        }
    }
    if found.is_empty() { Err("holds no certificate in PEM form".to_owned()) } else { Ok(found) }
}

fn read(key: &str, path: &Path) -> Result<Vec<u8>, String> {
    let content = read_file(path);
    content.map_err(|e| format!("cannot read {key}={}: {e}", path.display()))
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe would wait for its writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut content = Vec::new();
    File::open(path)?.take(TLS_FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    if content.len() as u64 > TLS_FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {TLS_FILE_BYTES_MAX} bytes")));
    }
    Ok(content)
}

#[cfg(test)]
mod tests;

//! A client that speaks TLS, and an authority that makes certificates for it and for the server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tempfile::TempDir;

use crate::support::conn::ANSWER_WITHIN;
use crate::support::frame::{Answer, Request};
use anybody::Anybody;

#[path = "anybody.rs"]
mod anybody;

/// A folder with an authority in `ca.pem`, and certificates and keys as it is told to make.
pub struct Shop {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub struct Pair {
    pub cert: String,
    pub key: String,
}

impl Pair {
    /// The certificate as it goes over the wire.
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert.as_bytes()).expect("a certificate")
    }
}

impl Shop {
    pub fn new() -> Shop {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let shop = Shop { folder: tempfile::tempdir().expect("a folder"), authority };
        shop.write("ca.pem", &shop.authority.pem());
        shop
    }

    /// A shop whose server has a first pair already.
    pub fn open() -> (Shop, Pair) {
        let shop = Shop::new();
        let pair = shop.make("server");
        shop.write("cert.pem", &pair.cert);
        shop.write("key.pem", &pair.key);
        (shop, pair)
    }

    pub fn make(&self, name: &str) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        let cert = params.signed_by(&key, &self.authority).expect("a certificate");
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("a path of ASCII").to_owned()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    /// Settings that serve `cert.pem` and `key.pem`, with these on top; the log is in `logs`.
    pub fn settings(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut settings = vec![
            ("tls.test.mode.enable".to_owned(), "false".to_owned()),
            ("tls.server.certPath".to_owned(), self.text("cert.pem")),
            ("tls.server.keyPath".to_owned(), self.text("key.pem")),
            ("logDir".to_owned(), self.text("logs")),
        ];
        settings.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        settings
    }

    /// What the server has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path("logs/namesrv.log")).unwrap_or_default()
    }

    pub fn ca(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path("ca.pem")).expect("the authority")
    }
}

/// How a client behaves.
#[derive(Clone)]
pub struct Ways {
    pub versions: Vec<&'static SupportedProtocolVersion>,
    /// Whom it trusts; nobody accepts any server.
    pub trusts: Option<CertificateDer<'static>>,
    /// PEM files of a certificate and its key.
    pub shows: Option<(Vec<u8>, Vec<u8>)>,
    /// Sent in front of everything.
    pub before: Vec<u8>,
}

impl Ways {
    pub fn trusting(shop: &Shop) -> Ways {
        let versions = vec![&rustls::version::TLS12, &rustls::version::TLS13];
        Ways { versions, trusts: Some(shop.ca()), shows: None, before: Vec::new() }
    }

    pub fn showing(mut self, pair: &Pair) -> Ways {
        self.shows = Some((pair.cert.clone().into_bytes(), pair.key.clone().into_bytes()));
        self
    }

    pub fn showing_files(mut self, cert: &Path, key: &Path) -> Ways {
        self.shows = Some((fs::read(cert).expect("a file"), fs::read(key).expect("a file")));
        self
    }

    pub fn only(mut self, version: &'static SupportedProtocolVersion) -> Ways {
        self.versions = vec![version];
        self
    }

    /// The first bytes of such a client.
    pub fn hello(&self) -> Vec<u8> {
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(Arc::new(self.config()), name).expect("a client");
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).expect("memory takes any bytes");
        hello
    }

    fn config(&self) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        if let Some(trusted) = &self.trusts {
            roots.add(trusted.clone()).expect("an authority");
        }
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions)
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match &self.shows {
            Some((cert, key)) => {
                let chain = CertificateDer::pem_slice_iter(cert).map(|c| c.expect("PEM")).collect();
                let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
                let key = rustls::crypto::ring::sign::any_supported_type(&key).expect("a key");
                // Unchecked: a certificate of version 1 is one of the things to show.
                let pair = rustls::sign::CertifiedKey::new(chain, key);
                builder
                    .with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(pair)))
            }
            None => builder.with_no_client_auth(),
        };
        if self.trusts.is_none() {
            config.dangerous().set_certificate_verifier(Arc::new(Anybody));
        }
        config
    }
}

/// One connection over TLS.
pub struct Secure {
    stream: rustls::StreamOwned<ClientConnection, TcpStream>,
    received: Vec<u8>,
    next_opaque: i32,
}

impl Secure {
    /// Connects and shakes hands. With TLS 1.3 a server that refuses the client's certificate is
    /// noticed only when it should answer.
    pub fn open(addr: SocketAddr, ways: &Ways) -> Result<Secure, String> {
        let mut stream = TcpStream::connect(addr).map_err(|e| e.to_string())?;
        stream.set_read_timeout(Some(ANSWER_WITHIN)).expect("a timeout above zero");
        stream.set_nodelay(true).expect("TCP");
        stream.write_all(&ways.before).map_err(|e| e.to_string())?;
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls =
            ClientConnection::new(Arc::new(ways.config()), name).map_err(|e| e.to_string())?;
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).map_err(|e| e.to_string())?;
        }
        let stream = rustls::StreamOwned::new(tls, stream);
        Ok(Secure { stream, received: Vec::new(), next_opaque: 1 })
    }

    /// Sends and waits for the answer.
    pub fn ask(&mut self, mut request: Request) -> Result<Answer, String> {
        request.opaque = self.next_opaque;
        self.next_opaque += 1;
        self.send(&request.encode())?;
        let answer = self.answer()?;
        assert_eq!(answer.opaque(), i64::from(request.opaque), "{}", answer.text());
        Ok(answer)
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|e| e.to_string())
    }

    /// The next answer, whichever request it is to.
    pub fn answer(&mut self) -> Result<Answer, String> {
        loop {
            if let Some(head) = self.received.first_chunk::<4>() {
                let end = 4 + u32::from_be_bytes(*head) as usize;
                if self.received.len() >= end {
                    let frame: Vec<u8> = self.received.drain(..end).collect();
                    return Answer::decode(&frame[4..]);
                }
            }
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk).map_err(|e| e.to_string())? {
                0 => return Err("the server has closed".to_owned()),
                count => self.received.extend(&chunk[..count]),
            }
        }
    }

    /// The certificate that the server showed.
    pub fn server(&self) -> CertificateDer<'static> {
        let chain = self.stream.conn.peer_certificates().expect("after the handshake");
        chain[0].clone().into_owned()
    }

    /// Renews the keys, which TLS 1.3 allows at any time.
    pub fn renew_keys(&mut self) {
        self.stream.conn.refresh_traffic_keys().expect("TLS 1.3");
    }
}

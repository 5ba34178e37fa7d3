//! Certificates of clients: asked for or not, verified or not (Java: `TlsHelper`,
//! `tls.server.need.client.auth` and `tls.server.authClient`).
//!
//! A client always has to prove that it holds its certificate's key. Whether somebody trusted
//! issued the certificate is checked only if `tls.server.authClient` says so.
//!
//! Certificates of X.509 version 1 have no extensions, and rustls refuses them. But RocketMQ's own
//! description of how to make certificates made such ones for years. So those that a trusted
//! certificate issued directly are checked here: issuer, validity, signature.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use x509_cert::certificate::{Certificate, Version};
use x509_cert::der::{Decode as _, Encode as _};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

/// Judges clients' certificates. Lives: in a `ServerConfig`.
#[derive(Debug)]
pub(super) struct Clients {
    /// `None` accepts any certificate.
    trusted: Option<Trusted>,
    required: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
struct Trusted {
    chains: Arc<dyn ClientCertVerifier>,
    /// For certificates of version 1.
    issuers: Vec<Certificate>,
}

impl Clients {
    /// Accepts any certificate.
    pub(super) fn any(required: bool, provider: &CryptoProvider) -> Clients {
        let algorithms = provider.signature_verification_algorithms;
        Clients { trusted: None, required, algorithms }
    }

    /// Accepts certificates that one of `issuers` vouches for.
    ///
    /// # Errors
    /// When one of them cannot be used to vouch.
    pub(super) fn issued_by(
        issuers: &[CertificateDer<'static>],
        required: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Clients, String> {
        let mut roots = RootCertStore::empty();
        let mut parsed = Vec::with_capacity(issuers.len());
        for (number, issuer) in (1..).zip(issuers) {
            let refused = |what: String| format!("holds a certificate (number {number}) {what}");
            roots.add(issuer.clone()).map_err(|e| refused(format!("that cannot be used: {e}")))?;
            let issuer = Certificate::from_der(issuer);
            parsed.push(issuer.map_err(|e| refused(format!("that is malformed: {e}")))?);
        }
        let provider = Arc::clone(provider);
        let algorithms = provider.signature_verification_algorithms;
        let chains = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| format!("cannot be used to verify clients: {e}"))?;
        Ok(Clients { trusted: Some(Trusted { chains, issuers: parsed }), required, algorithms })
    }
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.trusted.as_ref().map_or(&[], |trusted| trusted.chains.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let Some(trusted) = &self.trusted else { return Ok(ClientCertVerified::assertion()) };
        match version_1(end_entity) {
            Some(certificate) => trusted.direct(&certificate, now, self.algorithms.all),
            None => trusted.chains.verify_client_cert(end_entity, intermediates, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(certificate) = version_1(cert) else {
            return rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms);
        };
        let key = certificate.tbs_certificate().subject_public_key_info();
        let fitting = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == dss.scheme);
        let fitting = fitting.map_or(&[][..], |(_, algorithms)| algorithms);
        if fitting.iter().any(|algorithm| signed(*algorithm, key, message, dss.signature())) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        Err(CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(certificate) = version_1(cert) else {
            return rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms);
        };
        let key = certificate.tbs_certificate().subject_public_key_info();
        let key = key.to_der().map_err(|_| CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(key);
        verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl Trusted {
    /// Checks a certificate that one of the issuers must have signed itself.
    fn direct(
        &self,
        certificate: &Certificate,
        now: UnixTime,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<ClientCertVerified, Error> {
        let content = certificate.tbs_certificate();
        let validity = content.validity();
        if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
            return Err(CertificateError::NotValidYet.into());
        }
        if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
            return Err(CertificateError::Expired.into());
        }
        let message = content.to_der().map_err(|_| CertificateError::BadEncoding)?;
        let signature = certificate.signature().as_bytes().unwrap_or_default();
        let named = certificate.signature_algorithm();
        let issuers = self.issuers.iter().map(Certificate::tbs_certificate);
        for issuer in issuers.filter(|issuer| issuer.subject() == content.issuer()) {
            let key = issuer.subject_public_key_info();
            let mut fitting = algorithms.iter().filter(|each| is(named, &each.signature_alg_id()));
            if fitting.any(|algorithm| signed(*algorithm, key, &message, signature)) {
                return Ok(ClientCertVerified::assertion());
            }
        }
        Err(CertificateError::UnknownIssuer.into())
    }
}

/// The certificate, if it is one of version 1.
fn version_1(certificate: &CertificateDer<'_>) -> Option<Certificate> {
    let certificate = Certificate::from_der(certificate).ok()?;
    (certificate.tbs_certificate().version() == Version::V1).then_some(certificate)
}

fn signed(
    algorithm: &dyn SignatureVerificationAlgorithm,
    key: &SubjectPublicKeyInfoOwned,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let Some(bits) = key.subject_public_key.as_bytes() else { return false };
    is(&key.algorithm, &algorithm.public_key_alg_id())
        && algorithm.verify_signature(bits, message, signature).is_ok()
}

/// Whether `named` is the algorithm `id`, which comes without the tag and length around it.
fn is(named: &AlgorithmIdentifierOwned, id: &[u8]) -> bool {
    // The identifiers known here are shorter than 128 bytes: tag and length are a byte each.
    named.to_der().is_ok_and(|der| der.get(2..) == Some(id))
}

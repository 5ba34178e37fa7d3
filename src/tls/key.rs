//! The server's private key, in the forms that a Java server reads, and a few more.
//!
//! | PEM label | Form | Encrypted by |
//! |---|---|---|
//! | `PRIVATE KEY` | PKCS#8 | - |
//! | `ENCRYPTED PRIVATE KEY` | PKCS#8 | PBES2 (AES, 3DES; PBKDF2, scrypt) or PKCS#12 (3DES, RC4) |
//! | `RSA PRIVATE KEY` | PKCS#1 | nothing, or OpenSSL's `DEK-Info` (AES, 3DES) |
//! | `EC PRIVATE KEY` | SEC1 | the same |
//!
//! Not read: DSA keys, RC2, and single DES. Nothing of a key is ever part of an error.

use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use zeroize::Zeroizing;

use super::legacy;
use super::options::Secret;
use super::pem::{self, Section};

/// Shown wherever a form is not read.
const CURE: &str = "convert it: openssl pkcs8 -topk8 -v2 aes-256-cbc -in KEY -out NEW";

/// The first private key of a PEM file.
///
/// # Errors
/// Why there is none, without a word of it: to be put behind the name of the file.
pub(super) fn read(
    file: &[u8],
    password: Option<&Secret>,
) -> Result<PrivateKeyDer<'static>, String> {
    let sections = pem::sections(file)?;
    let Some(section) = sections.iter().find(|each| each.label.ends_with("PRIVATE KEY")) else {
        return Err("holds no private key in PEM form".to_owned());
    };
    let plain = |section: &Section<'_>| match section.header("Proc-Type") {
        Some(kind) if kind.contains("ENCRYPTED") => {
            let how = section.header("DEK-Info").unwrap_or_default();
            legacy::openssl(how, password_of(password)?, &section.content)
        }
        _ => Ok(section.content.clone()),
    };
    match section.label {
        "PRIVATE KEY" => Ok(pkcs8(&section.content)),
        "ENCRYPTED PRIVATE KEY" => decrypt(&section.content, password_of(password)?),
        "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(plain(section)?.to_vec()).into()),
        "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(plain(section)?.to_vec()).into()),
        label => Err(format!("holds a {label}, which is not read here; use an RSA or EC key")),
    }
}

fn pkcs8(der: &[u8]) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(der.to_vec()).into()
}

fn password_of(password: Option<&Secret>) -> Result<&str, String> {
    let missing = || "is encrypted: set tls.server.keyPassword".to_owned();
    password.map(|secret| secret.0.as_str()).ok_or_else(missing)
}

fn decrypt(der: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, String> {
    if let Some(content) = legacy::pkcs12(der, password) {
        return content.map(|content| pkcs8(&content));
    }
    let refused = |reason: pkcs8::Error| match reason {
        pkcs8::Error::EncryptedPrivateKey(pkcs8::pkcs5::Error::DecryptFailed) => {
            "does not open with tls.server.keyPassword".to_owned()
        }
        pkcs8::Error::EncryptedPrivateKey(_) => {
            format!("is encrypted in a way that is not read here; {CURE}")
        }
        // Also what a wrong password looks like whose padding happens to be right.
        _ => "is not an encrypted PKCS#8 key, or tls.server.keyPassword is wrong".to_owned(),
    };
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|_| format!("is encrypted in a way that is not read here; {CURE}"))?;
    let document = encrypted.decrypt(password).map_err(refused)?;
    let plain = Zeroizing::new(document.as_bytes().to_vec());
    Ok(pkcs8(&plain))
}

/// What is said of a form that is not read.
pub(super) fn not_read(what: &str) -> String {
    format!("is encrypted with {what}, which is not read here; {CURE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EC: &[u8] = include_bytes!("../../tests/tls/keys/ec-pkcs8.pem");
    const RSA: &[u8] = include_bytes!("../../tests/tls/keys/rsa-pkcs8.pem");

    fn public(file: &[u8], password: &str) -> Result<Vec<u8>, String> {
        let secret = Secret(password.to_owned());
        let key = read(file, Some(&secret).filter(|secret| !secret.0.is_empty()))?;
        let key =
            rustls::crypto::ring::sign::any_supported_type(&key).map_err(|e| e.to_string())?;
        Ok(key.public_key().unwrap().as_ref().to_vec())
    }

    macro_rules! file {
        ($name:literal) => {
            ($name, &include_bytes!(concat!("../../tests/tls/keys/", $name, ".pem"))[..])
        };
    }

    #[test]
    fn every_form_of_the_same_key_reads_the_same() {
        for (name, file) in [
            file!("ec-sec1"),
            file!("ec-sec1-aes128"),
            file!("ec-pbes2-aes256"),
            file!("ec-pbes2-hmac-sha1"),
            file!("ec-pbes2-des3"),
            file!("ec-pbes2-scrypt"),
            file!("ec-p12-des3"),
            file!("ec-p12-rc4-128"),
            file!("ec-p12-rc4-40"),
        ] {
            assert_eq!(public(file, "changeit"), public(EC, ""), "{name}");
        }
        for (name, file) in [file!("rsa-pkcs1"), file!("rsa-pkcs1-aes256"), file!("rsa-pkcs1-des3")]
        {
            assert_eq!(public(file, "changeit"), public(RSA, ""), "{name}");
        }
    }

    #[test]
    fn a_missing_or_wrong_password_is_named_as_such() {
        for (name, file) in [
            file!("ec-sec1-aes128"),
            file!("ec-pbes2-aes256"),
            file!("ec-p12-rc4-128"),
            file!("ec-p12-des3"),
            file!("rsa-pkcs1-aes256"),
        ] {
            let missing = public(file, "").unwrap_err();
            assert_eq!(missing, "is encrypted: set tls.server.keyPassword", "{name}");
            let wrong = public(file, "changeme").unwrap_err();
            assert!(wrong.contains("tls.server.keyPassword") || wrong.contains("parse"), "{wrong}");
            assert!(!wrong.contains("changeme"), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_read_says_how_to_convert_it() {
        for (_, file) in [file!("ec-p12-rc2-40"), file!("ec-pbes1-md5-des")] {
            assert!(public(file, "changeit").unwrap_err().contains("openssl pkcs8 -topk8"));
        }
        assert!(public(b"", "").unwrap_err().contains("no private key"));
        let dsa = b"-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n";
        assert!(public(dsa, "").unwrap_err().contains("DSA PRIVATE KEY"));
    }
}

use std::fs;

use rcgen::{CertificateParams, CertifiedIssuer, DnType, KeyPair};
use tempfile::TempDir;

use super::*;
use crate::tls::options::{Mode, Secret};

/// A folder with an authority, and certificates and keys as it is told to make.
struct Shop {
    folder: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Shop {
    fn new() -> Shop {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let shop = Shop { folder: tempfile::tempdir().unwrap(), authority };
        shop.write("ca.pem", &shop.authority.pem());
        shop
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for `key`, valid until the end of `year`.
    fn issue(&self, key: &KeyPair, serial: u64, year: i32) -> String {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.serial_number = Some(serial.into());
        params.distinguished_name.push(DnType::CommonName, "server");
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        params.signed_by(key, &self.authority).unwrap().pem() + &self.authority.pem()
    }

    /// A pair on disk, and options that name it.
    fn options(&self) -> Options {
        let key = KeyPair::generate().unwrap();
        self.write("key.pem", &key.serialize_pem());
        self.write("cert.pem", &self.issue(&key, 0x1234, 2036));
        Options {
            mode: Mode::Enforcing,
            cert_path: Some(self.path("cert.pem")),
            key_path: Some(self.path("key.pem")),
            ..Options::default()
        }
    }
}

fn refused(options: &Options) -> String {
    Material::load(options).expect_err("it must be refused")
}

#[test]
fn what_is_loaded_is_told_with_its_end_and_without_its_secrets() {
    let shop = Shop::new();
    let options = Options { key_password: Some(Secret("changeit".to_owned())), ..shop.options() };
    let material = Material::load(&options).unwrap();
    let text = material.to_string();
    for wanted in ["CN=server", "12:34", "2036-12-31", "cert.pem", "no certificate asked for"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert_eq!(material.not_after_s(), 2_114_294_400);
    assert!(!format!("{material:?}{options:?}").contains("changeit"));
}

#[test]
fn missing_settings_are_named() {
    let none = refused(&Options::default());
    assert!(none.starts_with("tls.server.certPath and tls.server.keyPath are not set"), "{none}");
    let shop = Shop::new();
    let text = refused(&Options { key_path: None, ..shop.options() });
    assert!(text.starts_with("tls.server.keyPath is not set"), "{text}");
    let trust =
        Options { client_auth: ClientAuth::Require, verify_clients: true, ..shop.options() };
    assert!(refused(&trust).contains("needs tls.server.trustCertPath"));
    let test = Options { test_mode: true, client_auth: ClientAuth::Require, ..Options::default() };
    assert!(refused(&test).contains("tls.test.mode.enable=false"));
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_reason() {
    let shop = Shop::new();
    let options = shop.options();
    let text = refused(&Options { key_path: Some(shop.path("none")), ..options.clone() });
    assert!(text.contains("cannot read tls.server.keyPath=") && text.contains("none"), "{text}");
    let folder = Options { cert_path: Some(shop.folder.path().into()), ..options.clone() };
    assert!(refused(&folder).contains("not a file"));
    let swapped = Options { cert_path: options.key_path.clone(), ..options.clone() };
    assert!(refused(&swapped).contains("holds no certificate"));
    let swapped = Options { key_path: options.cert_path.clone(), ..options.clone() };
    assert!(refused(&swapped).contains("holds no private key"));
    shop.write("cert.pem", &"x".repeat(usize::try_from(TLS_FILE_BYTES_MAX).unwrap() + 1));
    assert!(refused(&options).contains("more than"));
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let shop = Shop::new();
    let options = shop.options();
    shop.write("key.pem", &KeyPair::generate().unwrap().serialize_pem());
    assert!(refused(&options).contains("do not belong together"));
}

#[test]
fn no_part_of_a_file_is_a_whole() {
    let shop = Shop::new();
    let options = shop.options();
    for name in ["cert.pem", "key.pem"] {
        let whole = fs::read(shop.path(name)).unwrap();
        // The first section of the chain, alone, is a chain; it ends at its own last line.
        let end = String::from_utf8_lossy(&whole).find("-----END").unwrap();
        for cut in (0..end).step_by(7) {
            fs::write(shop.path(name), &whole[..cut]).unwrap();
            refused(&options);
        }
        fs::write(shop.path(name), whole).unwrap();
    }
    Material::load(&options).unwrap();
}

#[test]
fn test_mode_makes_a_certificate_and_says_what_it_ignores() {
    let shop = Shop::new();
    let material = Material::load(&Options { test_mode: true, ..shop.options() }).unwrap();
    assert!(material.to_string().contains("self-signed"), "{material}");
    assert!(material.warnings.join("").contains("set tls.test.mode.enable=false"));
    let other = Material::load(&Options { test_mode: true, ..Options::default() }).unwrap();
    assert!(other.warnings.is_empty());
}

#[test]
fn how_clients_are_judged_is_told() {
    let shop = Shop::new();
    let with = |client_auth, verify_clients| {
        let trust_path = Some(shop.path("ca.pem"));
        Options { client_auth, verify_clients, trust_path, ..shop.options() }
    };
    for (auth, verify, wanted) in [
        (ClientAuth::None, true, "no certificate asked for"),
        (ClientAuth::Optional, false, "any certificate, optional"),
        (ClientAuth::Require, true, "certificate required, by 1 trusted issuers"),
    ] {
        let material = Material::load(&with(auth, verify)).unwrap();
        assert!(material.to_string().contains(wanted), "{material}");
    }
    let lax = Material::load(&with(ClientAuth::Require, false)).unwrap();
    assert!(lax.warnings.join("").contains("tls.server.authClient=true"));
    shop.write("ca.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let text = refused(&with(ClientAuth::Require, true));
    assert!(text.contains("ca.pem has a malformed certificate, number 1"), "{text}");
    // Not used, so not read.
    Material::load(&with(ClientAuth::None, true)).unwrap();
}

#[test]
fn a_certificate_of_version_1_can_be_served() {
    // As `openssl x509 -req` made them for years: no extensions, so no version.
    let chain = include_bytes!("../../../tests/tls/keys/version-1.pem");
    let key = include_bytes!("../../../tests/tls/keys/ec-pkcs8.pem");
    let files = Files { chain: chain.to_vec(), key: Zeroizing::new(key.to_vec()), trust: None };
    let shop = Shop::new();
    Material::of_files(&shop.options(), &files).unwrap();
}

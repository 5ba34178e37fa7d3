use std::fs;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::tls::options::Secret;

fn pair(serial: u64, key: &KeyPair) -> String {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.serial_number = Some(serial.into());
    params.self_signed(key).unwrap().pem()
}

fn write(folder: &Path, cert: &str, key: &KeyPair) {
    fs::write(folder.join("cert.pem"), cert).unwrap();
    fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
}

fn options(folder: &Path) -> Options {
    Options {
        cert_path: Some(folder.join("cert.pem")),
        key_path: Some(folder.join("key.pem")),
        ..Options::default()
    }
}

/// Watches a folder that has a first pair, without a thread.
fn watch_first(folder: &Path) -> Watch<impl Fn() -> Result<Options, String> + use<>> {
    let key = KeyPair::generate().unwrap();
    write(folder, &pair(1, &key), &key);
    let options = options(folder);
    let tls = Tls::load(&options).unwrap();
    Watch::new(tls, move || Ok(options.clone()))
}

fn serial<F>(watch: &Watch<F>) -> String {
    let text = watch.tls.material().unwrap().to_string();
    let serial = text.split("serial ").nth(1).unwrap();
    serial.split(',').next().unwrap().to_owned()
}

#[test]
fn a_new_pair_is_served_once_two_looks_agree() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch_first(folder.path());
    let before = watch.tls.config().unwrap();
    watch.look();
    assert!(Arc::ptr_eq(&before, &watch.tls.config().unwrap()), "nothing has changed");
    let key = KeyPair::generate().unwrap();
    write(folder.path(), &pair(2, &key), &key);
    watch.look();
    assert_eq!(serial(&watch), "01");
    watch.look();
    assert_eq!(serial(&watch), "02");
    assert!(!Arc::ptr_eq(&before, &watch.tls.config().unwrap()));
}

#[test]
fn half_of_a_pair_is_never_served_and_the_other_half_makes_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch_first(folder.path());
    let key = KeyPair::generate().unwrap();
    fs::write(folder.path().join("cert.pem"), pair(2, &key)).unwrap();
    for _ in 0..5 {
        watch.look();
        assert_eq!(serial(&watch), "01");
    }
    assert!(watch.complaint.as_ref().unwrap().0.contains("do not belong together"));
    fs::write(folder.path().join("key.pem"), key.serialize_pem()).unwrap();
    watch.look();
    assert_eq!(serial(&watch), "01");
    watch.look();
    assert_eq!(serial(&watch), "02");
    assert!(watch.complaint.is_none());
}

#[test]
fn a_renewed_certificate_for_the_same_key_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch_first(folder.path());
    let key = fs::read_to_string(folder.path().join("key.pem")).unwrap();
    let key = KeyPair::from_pem(&key).unwrap();
    fs::write(folder.path().join("cert.pem"), pair(7, &key)).unwrap();
    watch.look();
    watch.look();
    assert_eq!(serial(&watch), "07");
}

#[test]
fn a_new_password_is_tried_with_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let watch = watch_first(folder.path());
    let password = Arc::new(std::sync::Mutex::new("wrong".to_owned()));
    let (now, options) = (Arc::clone(&password), options(folder.path()));
    let options = move || {
        let key_password = Some(Secret(now.lock().unwrap().clone()));
        Ok(Options { key_password, ..options.clone() })
    };
    let mut watch = Watch::new(watch.tls.clone(), options);
    let key = include_str!("../../../tests/tls/keys/ec-pbes2-aes256.pem");
    fs::write(folder.path().join("key.pem"), key).unwrap();
    let plain = include_str!("../../../tests/tls/keys/ec-pkcs8.pem");
    let plain = KeyPair::from_pem(plain).unwrap();
    fs::write(folder.path().join("cert.pem"), pair(9, &plain)).unwrap();
    watch.look();
    watch.look();
    assert!(watch.complaint.as_ref().unwrap().0.contains("tls.server.keyPassword"));
    *password.lock().unwrap() = "changeit".to_owned();
    for _ in 0..LOOKS_A_TRY {
        assert_eq!(serial(&watch), "01");
        watch.look();
    }
    assert_eq!(serial(&watch), "09");
}

/// Each reload of a Java server leaked memory (#10398).
#[test]
fn two_hundred_replacements_keep_one_material() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch_first(folder.path());
    let mut before = Arc::downgrade(&watch.tls.material().unwrap());
    let mut config = Arc::downgrade(&watch.tls.config().unwrap());
    for number in 2..202 {
        let key = KeyPair::generate().unwrap();
        write(folder.path(), &pair(number, &key), &key);
        watch.look();
        watch.look();
        assert!(before.upgrade().is_none() && config.upgrade().is_none(), "at {number}");
        before = Arc::downgrade(&watch.tls.material().unwrap());
        config = Arc::downgrade(&watch.tls.config().unwrap());
    }
    assert_eq!(serial(&watch), "00:C9");
}

#[test]
fn files_that_go_away_and_come_back_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch_first(folder.path());
    let key = folder.path().join("key.pem");
    let content = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    watch.look();
    assert!(watch.complaint.as_ref().unwrap().0.contains("key.pem"));
    fs::write(&key, content).unwrap();
    watch.look();
    assert!(watch.complaint.is_none());
    assert_eq!(serial(&watch), "01");
}

#[test]
fn a_file_that_grows_between_looks_waits_until_it_is_still() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch_first(folder.path());
    let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    // The first section alone would be a whole.
    let chain = pair(2, &key) + &pair(3, &other);
    write(folder.path(), &pair(2, &key), &key);
    watch.look();
    fs::write(folder.path().join("cert.pem"), &chain).unwrap();
    watch.look();
    assert_eq!(serial(&watch), "01", "the chain has just grown");
    watch.look();
    assert_eq!(serial(&watch), "02");
}

#[test]
fn the_same_complaint_comes_once_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch_first(folder.path());
    fs::remove_file(folder.path().join("cert.pem")).unwrap();
    watch.look();
    for looks in 1..TLS_RETRY_LOOKS {
        watch.look();
        assert_eq!(watch.complaint.as_ref().unwrap().1, looks);
    }
    watch.look();
    assert_eq!(watch.complaint.as_ref().unwrap().1, 0, "said again");
}

#[test]
fn the_watcher_ends_with_its_handle() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let watcher = watch(Tls::disabled(), &options, || Err("unused".to_owned())).unwrap();
    assert!(watcher.thread.is_none() || watcher.thread.as_ref().is_some_and(|t| !t.is_finished()));
    drop(watcher);
}

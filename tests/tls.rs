//! Aim: TLS as the Java server has it: three modes on one port, certificates of both sides, files
//! that change while the server runs.
//! Method: the built program on loopback, a client with rustls and, where it is installed, the
//! `openssl` command. A server given by `NAMESRV` is not tested: these tests need its files.

mod support;

#[path = "tls/peer.rs"]
mod peer;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use peer::{Pair, Secure, Shop, Ways};
use support::conn::{Conn, Got};
use support::frame::Request;
use support::server::{self, Server};
use support::{comes_true, program};

/// How long a closing server may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
/// How long new files may take to be served: two looks and their pause, on a busy machine.
const SERVED_WITHIN: Duration = Duration::from_secs(20);

/// A server that serves the shop's pair, or `None` if the tests run against another.
fn start(shop: &Shop, more: &[(&str, &str)]) -> Option<Server> {
    if server::given().is_some() {
        eprintln!("not tested: the server under test is a given one");
        return None;
    }
    let settings = shop.settings(more);
    let settings: Vec<_> = settings.iter().map(|(key, value)| (&**key, &**value)).collect();
    Some(Server::start(&settings))
}

fn put(key: &str) -> Request {
    Request::new(100).ext("namespace", "ns").ext("key", key).ext("value", "v")
}

fn get(key: &str) -> Request {
    Request::new(101).ext("namespace", "ns").ext("key", key)
}

/// Ends well only if the server answers over TLS.
fn served(server: &Server, ways: &Ways) -> Result<i64, String> {
    let mut secure = Secure::open(server.addr, ways)?;
    secure.ask(get("none")).map(|answer| answer.code())
}

/// Waits until the log holds `text`.
fn logged(shop: &Shop, text: &str) {
    let found = comes_true(SERVED_WITHIN, || shop.log().contains(text));
    assert!(found, "{text} is not in the log:\n{}", shop.log());
}

#[test]
fn issue_10110_permissive_serves_both_on_one_port() {
    let (shop, pair) = Shop::open();
    let Some(server) = start(&shop, &[]) else { return };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut secure = Secure::open(server.addr, &Ways::trusting(&shop).only(version)).unwrap();
        assert_eq!(secure.server(), pair.der());
        assert_eq!(secure.ask(put("key")).unwrap().code(), 0);
        assert_eq!(secure.ask(get("key")).unwrap().ext("value"), Some("v"));
    }
    assert_eq!(server.connect().ask(get("key")).ext("value"), Some("v"));
}

#[test]
fn without_any_setting_a_self_signed_certificate_is_served() {
    let shop = Shop::new();
    if server::given().is_some() {
        return;
    }
    let server = Server::start(&[("logDir", &shop.text("logs"))]);
    let ways = Ways { trusts: None, ..Ways::trusting(&shop) };
    assert_eq!(served(&server, &ways), Ok(22));
    assert_eq!(server.connect().ask(get("none")).code(), 22);
    logged(&shop, "TLS is permissive: certificate \"CN=");
    assert!(shop.log().contains("self-signed"), "{}", shop.log());
    assert!(served(&server, &Ways::trusting(&shop)).is_err(), "nobody vouches for it");
}

/// Nothing in plaintext is executed.
#[test]
fn issue_10110_enforcing_executes_nothing_that_comes_in_plaintext() {
    let (shop, _) = Shop::open();
    let Some(server) = start(&shop, &[("tls.server.mode", "enforcing")]) else { return };
    let register = Request::new(103)
        .ext("brokerName", "b")
        .ext("brokerAddr", "10.0.0.1:10911")
        .ext("clusterName", "c")
        .ext("haServerAddr", "10.0.0.1:10912")
        .ext("brokerId", 0);
    let update = Request::new(318).body("orderMessageEnable=true\n");
    for request in [put("plain"), register, Request::new(205).ext("brokerName", "b"), update] {
        let mut plain = server.connect();
        plain.send(request.clone());
        match plain.next_frame(CLOSED_WITHIN) {
            Got::Closed => {}
            other => panic!("{}: {other:?}", request.code),
        }
    }
    // In pieces, behind a PROXY header, and with many requests at once.
    for bytes in [
        [b"PROXY UNKNOWN\r\n", &put("plain").encode()[..]].concat(),
        put("plain").encode().repeat(50),
    ] {
        let mut plain = server.connect();
        plain.send_bytes(&bytes);
        plain.expect_closed(CLOSED_WITHIN, "plaintext");
    }
    let mut secure = Secure::open(server.addr, &Ways::trusting(&shop)).unwrap();
    assert_eq!(secure.ask(get("plain")).unwrap().code(), 22);
    let clusters = secure.ask(Request::new(106)).unwrap();
    assert!(!clusters.body_text().contains("10.0.0.1"), "{}", clusters.text());
    assert_eq!(secure.ask(put("secure")).unwrap().code(), 0);
    assert_eq!(secure.ask(get("secure")).unwrap().code(), 0);
    logged(&shop, "not TLS (tls.server.mode is enforcing)");
}

#[test]
fn issue_10110_disabled_closes_what_looks_like_tls_and_reads_no_file() {
    let shop = Shop::new();
    let Some(server) = start(&shop, &[("tls.server.mode", "disabled")]) else { return };
    let refused = served(&server, &Ways::trusting(&shop)).unwrap_err();
    assert!(!refused.contains("imed out"), "{refused}");
    assert_eq!(server.connect().ask(get("none")).code(), 22);
    logged(&shop, "looks like TLS (TLS is off here)");
}

#[test]
fn a_proxy_header_may_come_before_tls() {
    let (shop, _) = Shop::open();
    let Some(server) = start(&shop, &[("tls.server.mode", "enforcing")]) else { return };
    for before in [
        &b"PROXY TCP4 10.1.2.3 10.9.9.9 8080 9876\r\n"[..],
        b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00",
    ] {
        let ways = Ways { before: before.to_vec(), ..Ways::trusting(&shop) };
        assert_eq!(served(&server, &ways), Ok(22));
    }
}

#[test]
fn large_and_many_requests_pass_through_tls() {
    let (shop, _) = Shop::open();
    let Some(server) = start(&shop, &[]) else { return };
    let mut secure = Secure::open(server.addr, &Ways::trusting(&shop)).unwrap();
    let value = "x".repeat(700_000);
    let large = Request::new(100).ext("namespace", "ns").ext("key", "large").ext("value", &value);
    assert_eq!(secure.ask(large).unwrap().code(), 0);
    assert_eq!(secure.ask(get("large")).unwrap().ext("value"), Some(&*value));
    secure.renew_keys();
    // All sent before the first is read: more answers than a connection may have waiting.
    let requests: Vec<u8> = (0..2000).flat_map(|_| get("none").encode()).collect();
    secure.send(&requests).unwrap();
    for _ in 0..2000 {
        assert_eq!(secure.answer().unwrap().code(), 22);
    }
    secure.send(&get("large").encode().repeat(20)).unwrap();
    for _ in 0..20 {
        assert_eq!(secure.answer().unwrap().ext("value").map(str::len), Some(700_000));
    }
}

#[test]
fn clients_are_judged_by_their_certificates() {
    let (shop, _) = Shop::open();
    let other = Shop::new();
    let (good, bad) = (shop.make("client"), other.make("stranger"));
    let trust = shop.text("ca.pem");
    // Mode, verified or not; then who is served: without a certificate, a good one, a stranger's.
    for (auth, verify, wanted) in [
        ("none", "true", [true, true, true]),
        ("Optional", "true", [true, true, false]),
        ("optional", "false", [true, true, true]),
        ("require", "true", [false, true, false]),
        ("REQUIRE", "false", [false, true, true]),
    ] {
        let settings = [
            ("tls.server.need.client.auth", auth),
            ("tls.server.authClient", verify),
            ("tls.server.trustCertPath", &*trust),
        ];
        let Some(server) = start(&shop, &settings) else { return };
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let ways = Ways::trusting(&shop).only(version);
            let clients = [ways.clone(), ways.clone().showing(&good), ways.showing(&bad)];
            let got = clients.map(|ways| served(&server, &ways) == Ok(22));
            assert_eq!(got, wanted, "{auth} {verify} {version:?}");
        }
    }
}

#[test]
fn issue_9769_protocols_and_ciphers_are_those_of_the_settings() {
    let (shop, _) = Shop::open();
    let settings = [
        ("tls.protocols", "TLSv1.1,TLSv1.2"),
        ("tls.ciphers", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_CBC_SHA"),
    ];
    let Some(server) = start(&shop, &settings) else { return };
    let ways = Ways::trusting(&shop);
    assert_eq!(served(&server, &ways.clone().only(&rustls::version::TLS12)), Ok(22));
    assert!(served(&server, &ways.only(&rustls::version::TLS13)).is_err());
    logged(&shop, "not offered: TLSv1.1 of tls.protocols");
    logged(&shop, "not offered: TLS_RSA_WITH_AES_128_CBC_SHA of tls.ciphers");
    let Some(output) = openssl(&["s_client", "-connect", &server.addr.to_string(), "-brief"])
    else {
        return;
    };
    let text = text_of(&output);
    assert!(text.contains("ECDHE-ECDSA-AES256-GCM-SHA384"), "{text}");
}

#[test]
fn cve_2024_23321_a_password_stands_in_the_file_for_tls_and_is_never_told() {
    let (shop, _) = Shop::open();
    let key = include_str!("tls/keys/ec-p12-rc4-128.pem");
    shop.write("key.pem", key);
    shop.write("cert.pem", include_str!("tls/keys/version-1.pem"));
    shop.write("tls.properties", "tls.server.keyPassword=changeit\ntls.client.authServer=true\n");
    let file = shop.text("tls.properties");
    let Some(server) = start(&shop, &[("tls.config.file", &file)]) else { return };
    let ways = Ways { trusts: None, ..Ways::trusting(&shop) };
    let mut secure = Secure::open(server.addr, &ways).unwrap();
    let listing = secure.ask(Request::new(319)).unwrap().body_text();
    assert!(listing.contains("tls.server.certPath="), "{listing}");
    assert!(!listing.contains("changeit") && !shop.log().contains("changeit"));
}

#[test]
fn a_handshake_that_does_not_end_is_given_up() {
    let (shop, _) = Shop::open();
    let Some(server) = start(&shop, &[]) else { return };
    let mut silent = server.connect();
    silent.send_bytes(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0]);
    let mut plain = server.connect();
    assert_eq!(plain.ask(get("none")).code(), 22);
    let mut secure = Secure::open(server.addr, &Ways::trusting(&shop)).unwrap();
    let began = Instant::now();
    silent.expect_closed(Duration::from_secs(20), "half a hello");
    assert!(began.elapsed() > Duration::from_secs(9), "{:?}", began.elapsed());
    logged(&shop, "no TLS handshake within 10 s");
    assert_eq!(plain.ask(get("none")).code(), 22, "a plain connection is not concerned");
    assert_eq!(secure.ask(get("none")).unwrap().code(), 22, "nor is one that is through");
}

#[test]
fn a_query_passes_the_handshakes_that_came_before_it() {
    let (shop, _) = Shop::open();
    let Some(server) = start(&shop, &[("shards", "1")]) else { return };
    let hello = Ways::trusting(&shop).hello();
    let mut plain = server.connect();
    // A machine at work elsewhere may be through with the hellos before the query comes.
    let passed = (0..20).any(|_| {
        let mut storm: Vec<Conn> = (0..400).map(|_| server.connect()).collect();
        storm.iter_mut().for_each(|conn| conn.send_bytes(&hello));
        assert_eq!(plain.ask(get("none")).code(), 22);
        let answered = storm.iter().filter(|conn| has_bytes(conn)).count();
        let last = storm.last_mut().expect("there are many");
        last.stream().set_read_timeout(Some(SERVED_WITHIN)).unwrap();
        assert!(last.stream().peek(&mut [0]).is_ok_and(|count| count == 1), "each has its turn");
        answered < storm.len() / 2
    });
    assert!(passed, "a query is answered while hellos wait");
}

fn has_bytes(conn: &Conn) -> bool {
    conn.stream().set_nonblocking(true).unwrap();
    let has = conn.stream().peek(&mut [0]).is_ok();
    conn.stream().set_nonblocking(false).unwrap();
    has
}

#[test]
fn broken_hellos_close_their_connection_alone() {
    let (shop, _) = Shop::open();
    let Some(server) = start(&shop, &[]) else { return };
    let mut good = Secure::open(server.addr, &Ways::trusting(&shop)).unwrap();
    for bytes in [
        &[0x16; 64][..],
        &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0, 0, 0, 0],
        &[0x16, 3, 1, 0xff, 0xff, 1, 0, 0, 1, 0, 0, 0, 0],
        &[0x16, 3, 1, 0, 0, 0x16, 3, 1, 0, 0, 0x16, 3, 1, 0, 0],
    ] {
        let mut bad = Conn::open(server.addr);
        bad.send_bytes(bytes);
        bad.expect_closed(CLOSED_WITHIN, "a broken hello");
        assert_eq!(good.ask(get("none")).unwrap().code(), 22);
    }
}

/// The server's certificate for new connections.
fn shown(server: &Server, shop: &Shop) -> rustls::pki_types::CertificateDer<'static> {
    Secure::open(server.addr, &Ways::trusting(shop)).expect("it goes on serving").server()
}

/// Waits until new connections get this pair.
fn wait_for(server: &Server, shop: &Shop, pair: &Pair) {
    let is_served = comes_true(SERVED_WITHIN, || shown(server, shop) == pair.der());
    assert!(is_served, "not served; the log:\n{}", shop.log());
}

#[test]
fn issue_9483_a_new_pair_is_served_when_it_is_whole_and_old_connections_go_on() {
    let (shop, first) = Shop::open();
    let Some(server) = start(&shop, &[("tls.server.mode", "enforcing")]) else { return };
    let mut old = Secure::open(server.addr, &Ways::trusting(&shop)).unwrap();
    let second = shop.make("server");
    shop.write("cert.pem", &second.cert);
    logged(&shop, "do not belong together");
    assert_eq!(shown(&server, &shop), first.der(), "half of a pair is not served");
    shop.write("key.pem", &second.key);
    wait_for(&server, &shop, &second);
    logged(&shop, "TLS files have changed; new connections get: certificate");
    assert_eq!(old.ask(get("none")).unwrap().code(), 22);
    // The key first, and a certificate that is written in two goes.
    let third = shop.make("server");
    shop.write("key.pem", &third.key);
    shop.write("cert.pem", &third.cert[..300]);
    logged(&shop, "is cut off");
    assert_eq!(shown(&server, &shop), second.der());
    shop.write("cert.pem", &third.cert);
    wait_for(&server, &shop, &third);
    fs::remove_file(shop.path("key.pem")).unwrap();
    logged(&shop, "cannot read tls.server.keyPath=");
    assert_eq!(shown(&server, &shop), third.der());
    assert_eq!(old.ask(get("none")).unwrap().code(), 22);
}

#[test]
fn files_behind_a_link_are_followed_when_the_link_is_moved() {
    let (shop, first) = Shop::open();
    let second = shop.make("server");
    // As secrets are mounted: files are links into `..data`, which is a link that is replaced.
    for (name, pair) in [("1", &first), ("2", &second)] {
        fs::create_dir(shop.path(name)).unwrap();
        shop.write(&format!("{name}/cert.pem"), &pair.cert);
        shop.write(&format!("{name}/key.pem"), &pair.key);
    }
    symlink("1", shop.path("..data")).unwrap();
    for name in ["cert.pem", "key.pem"] {
        fs::remove_file(shop.path(name)).unwrap();
        symlink(format!("..data/{name}"), shop.path(name)).unwrap();
    }
    let Some(server) = start(&shop, &[]) else { return };
    assert_eq!(shown(&server, &shop), first.der());
    symlink("2", shop.path("..next")).unwrap();
    fs::rename(shop.path("..next"), shop.path("..data")).unwrap();
    wait_for(&server, &shop, &second);
}

#[test]
fn a_new_trust_file_counts_for_new_connections() {
    let (shop, _) = Shop::open();
    let other = Shop::new();
    let stranger = other.make("stranger");
    let settings = [
        ("tls.server.need.client.auth", "require"),
        ("tls.server.authClient", "true"),
        ("tls.server.trustCertPath", &*shop.text("ca.pem")),
    ];
    let Some(server) = start(&shop, &settings) else { return };
    let client = Ways::trusting(&shop).showing(&shop.make("client"));
    let mut old = Secure::open(server.addr, &client).unwrap();
    assert_eq!(old.ask(get("none")).unwrap().code(), 22);
    let stranger = Ways::trusting(&shop).showing(&stranger);
    assert!(served(&server, &stranger).is_err());
    shop.write("ca.pem", &fs::read_to_string(other.path("ca.pem")).unwrap());
    let is_in = comes_true(SERVED_WITHIN, || served(&server, &stranger) == Ok(22));
    assert!(is_in, "the log:\n{}", shop.log());
    assert!(served(&server, &client).is_err());
    assert_eq!(old.ask(get("none")).unwrap().code(), 22, "who is in stays in");
}

/// The `openssl` command's output; `None` if it is not installed, which only a developer may do.
fn openssl(args: &[&str]) -> Option<Output> {
    match program::try_output(Command::new("openssl").args(args)) {
        Ok(output) => Some(output),
        Err(e) if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
            panic!("the `openssl` command is missing: {e}")
        }
        Err(e) => {
            eprintln!("not tested: the `openssl` command is missing ({e})");
            None
        }
    }
}

fn text_of(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

#[test]
fn issue_9769_openssl_gets_1_2_and_1_3_and_nothing_older() {
    let (shop, _) = Shop::open();
    let Some(server) = start(&shop, &[("tls.server.mode", "enforcing")]) else { return };
    let (addr, ca) = (server.addr.to_string(), shop.text("ca.pem"));
    for (version, wanted) in [
        ("-tls1", "alert handshake failure"),
        ("-tls1_1", "alert handshake failure"),
        ("-tls1_2", "Protocol version: TLSv1.2"),
        ("-tls1_3", "Protocol version: TLSv1.3"),
    ] {
        // Its own policy must not be what refuses.
        let old = ["-cipher", "ALL:@SECLEVEL=0"];
        let args = ["s_client", "-brief", "-CAfile", &ca, "-verify_return_error", "-servername"];
        let args = [&args[..], &["localhost", "-connect", &addr, version], &old].concat();
        let Some(output) = openssl(&args) else { return };
        let text = text_of(&output);
        assert!(text.contains(wanted), "{version}: {text}");
        assert_eq!(output.status.success(), version >= "-tls1_2", "{version}: {text}");
    }
    logged(&shop, "TLS: the peer offers no version that is served");
}

/// As RocketMQ's own description of TLS makes them: no extensions, so X.509 version 1.
#[test]
fn certificates_of_version_1_are_served_and_judged() {
    let shop = Shop::new();
    let run = |args: &[&str]| {
        let output = openssl(args)?;
        assert!(output.status.success(), "openssl {args:?}: {}", text_of(&output));
        Some(())
    };
    let all = || {
        for (authority, names) in [("ca", &["server", "client"][..]), ("other", &["stranger"])] {
            let (ca, ca_key) = (shop.text(&format!("{authority}.pem")), shop.text("ca.key"));
            run(&[
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", &ca_key, "-out", &ca,
                "-subj", "/CN=old", "-days", "9",
            ])?;
            for name in names {
                let file = |end: &str| shop.text(&format!("{name}.{end}"));
                let (key, csr, pem) = (file("key"), file("csr"), file("pem"));
                run(&["genrsa", "-out", &key, "2048"])?;
                run(&["req", "-new", "-key", &key, "-out", &csr, "-subj", "/CN=x"])?;
                run(&[
                    "x509",
                    "-req",
                    "-in",
                    &csr,
                    "-CA",
                    &ca,
                    "-CAkey",
                    &ca_key,
                    "-CAcreateserial",
                    "-days",
                    "9",
                    "-out",
                    &pem,
                ])?;
            }
        }
        Some(())
    };
    if all().is_none() {
        return;
    }
    for (from, to) in [("server.pem", "cert.pem"), ("server.key", "key.pem")] {
        fs::copy(shop.path(from), shop.path(to)).unwrap();
    }
    let settings = [
        ("tls.server.mode", "enforcing"),
        ("tls.server.need.client.auth", "require"),
        ("tls.server.authClient", "true"),
        ("tls.server.trustCertPath", &*shop.text("ca.pem")),
    ];
    let Some(server) = start(&shop, &settings) else { return };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let ways = Ways { trusts: None, ..Ways::trusting(&shop) }.only(version);
        let with = |cert: &str, key: &str| {
            let (cert, key) = (shop.path(cert), shop.path(key));
            served(&server, &ways.clone().showing_files(&cert, &key))
        };
        assert_eq!(with("client.pem", "client.key"), Ok(22), "{version:?}");
        assert!(with("stranger.pem", "stranger.key").is_err(), "another authority");
        assert!(with("client.pem", "stranger.key").is_err(), "not its key");
    }
}

#[test]
fn what_cannot_be_served_keeps_the_server_from_starting() {
    let (shop, _) = Shop::open();
    let other = shop.make("other");
    shop.write("other.key", &other.key);
    shop.write("half.pem", &other.cert[..200]);
    let (cert, key) = (shop.text("cert.pem"), shop.text("key.pem"));
    let cases: [(&[&str], &str); 6] = [
        (&[], "tls.server.certPath and tls.server.keyPath are not set"),
        (&["--tls-server-cert-path", &cert], "tls.server.keyPath is not set"),
        (
            &["--tls-server-cert-path", &cert, "--tls-server-key-path", &shop.text("other.key")],
            "do not belong together",
        ),
        (
            &["--tls-server-cert-path", &shop.text("half.pem"), "--tls-server-key-path", &key],
            "is cut off",
        ),
        (
            &["--tls-server-cert-path", &cert, "--tls-server-key-path", "/no/such/key"],
            "cannot read tls.server.keyPath=/no/such/key",
        ),
        (
            &["--tls-protocols=TLSv1.1", "--tls-server-cert-path", &cert, "--tls-server-key-path"],
            "TLSv1.2,TLSv1.3",
        ),
    ];
    for (args, wanted) in cases {
        let last: &[&str] =
            if args.last() == Some(&"--tls-server-key-path") { &[&key] } else { &[] };
        let all =
            ["--listen-port=0", "--tls-test-mode-enable=false", "--tls-server-mode=enforcing"];
        let all = [&all, args, last].concat();
        let output = program::output(&mut program::program(&shop.path(""), &all));
        let text = text_of(&output);
        assert_eq!(output.status.code(), Some(78), "{args:?}: {text}");
        assert!(text.contains(wanted) && text.contains("tls.server.mode=disabled"), "{text}");
    }
}

use std::io::{Read as _, Write as _};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;
use crate::tls::material::Material;
use crate::tls::options::Options;

fn server_config() -> Arc<ServerConfig> {
    let options = Options { test_mode: true, ..Options::default() };
    Arc::clone(Material::load(&options).unwrap().config())
}

/// A client that trusts everybody: what is tested is the channel.
fn client(versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConnection {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    config.dangerous().set_certificate_verifier(Arc::new(anybody::Anybody));
    ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
}

/// Shared with the tests of the whole server.
#[path = "../../../tests/tls/anybody.rs"]
mod anybody;

fn wire_of(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// What the client reads from these bytes.
fn give(client: &mut ClientConnection, mut bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !bytes.is_empty() {
        client.read_tls(&mut bytes).unwrap();
        client.process_new_packets().unwrap();
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = client.reader().read(&mut chunk) {
            plain.extend_from_slice(&chunk[..count]);
        }
    }
    plain
}

/// Hands bytes over until both are still; `piece` is how much the channel gets at a time.
fn shake(client: &mut ClientConnection, channel: &mut Channel, piece: usize) -> (u32, Vec<u8>) {
    let (mut established, mut plain) = (0, Vec::new());
    loop {
        let bytes = wire_of(client);
        for piece in bytes.chunks(piece) {
            let progress = channel.received(piece, &mut plain).unwrap();
            established += u32::from(progress.established);
        }
        let Some(output) = channel.take_output() else { break };
        channel.sent();
        give(client, &output);
    }
    (established, plain)
}

const VERSIONS: [&rustls::SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

#[test]
fn bytes_pass_both_ways_whatever_pieces_they_come_in() {
    let config = server_config();
    for version in VERSIONS {
        for piece in [1, 7, 1000, 4096, 100_000] {
            let mut client = client(&[version]);
            let mut channel = Channel::new(Arc::clone(&config)).unwrap();
            let (established, plain) = shake(&mut client, &mut channel, piece);
            assert_eq!((established, plain.len()), (1, 0), "{version:?} {piece}");
            assert!(channel.is_established());
            client.writer().write_all(&[7; 50_000]).unwrap();
            let (established, plain) = shake(&mut client, &mut channel, piece);
            assert_eq!((established, plain), (0, vec![7; 50_000]));
            channel.seal(&[9; 100_000]).unwrap();
            channel.seal(b"and more").unwrap();
            let output = channel.take_output().unwrap();
            let got = give(&mut client, &output);
            assert_eq!(got.len(), 100_008);
            assert!(got.ends_with(b"\x09and more"));
        }
    }
}

#[test]
fn at_rest_a_channel_keeps_no_buffer() {
    let mut client = client(&VERSIONS);
    let mut channel = Channel::new(server_config()).unwrap();
    shake(&mut client, &mut channel, 100);
    channel.lend(|| Vec::with_capacity(100));
    channel.lend(|| unreachable!("it has one"));
    assert_eq!(channel.reclaim().map(|buffer| buffer.capacity()), Some(100));
    assert_eq!(channel.reclaim(), None);
    assert_eq!((channel.pending.capacity(), channel.output.capacity()), (0, 0));
    assert!(channel.flushed());
}

#[test]
fn one_send_at_a_time_and_in_order() {
    let mut client = client(&VERSIONS);
    let mut channel = Channel::new(server_config()).unwrap();
    shake(&mut client, &mut channel, 4096);
    channel.seal(b"one").unwrap();
    let first = channel.take_output().unwrap();
    channel.seal(b"two").unwrap();
    assert_eq!(channel.take_output(), None);
    assert!(channel.has_output() && !channel.flushed());
    channel.sent();
    let second = channel.take_output().unwrap();
    assert_eq!(give(&mut client, &[first, second].concat()), b"onetwo");
}

#[test]
fn a_peer_that_says_goodbye_has_ended_and_hears_one() {
    for version in VERSIONS {
        let mut client = client(&[version]);
        let mut channel = Channel::new(server_config()).unwrap();
        shake(&mut client, &mut channel, 4096);
        client.writer().write_all(b"last").unwrap();
        client.send_close_notify();
        let mut plain = Vec::new();
        let progress = channel.received(&wire_of(&mut client), &mut plain).unwrap();
        assert_eq!((progress.ended, &plain[..]), (true, &b"last"[..]));
        channel.seal(b"answer").unwrap();
        channel.close();
        channel.close();
        channel.seal(b"too late").unwrap();
        let output = channel.take_output().unwrap();
        assert_eq!(give(&mut client, &output), b"answer");
        assert!(client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn an_old_version_gets_an_alert() {
    // TLS 1.1, as its record and hello say, with one old suite and no extensions.
    let mut hello = vec![0x16, 3, 1, 0, 47 - 2, 1, 0, 0, 43 - 2, 3, 2];
    hello.extend([5; 32]);
    hello.extend([0, 0, 2, 0, 0x2f, 1, 0]);
    let length = u8::try_from(hello.len() - 5).unwrap();
    (hello[4], hello[8]) = (length, length - 4);
    let mut channel = Channel::new(server_config()).unwrap();
    let error = channel.received(&hello, &mut Vec::new()).unwrap_err();
    let alert = channel.take_output().expect("an alert");
    assert_eq!(&alert[..1], [0x15], "{alert:?}: {error}");
    // Fatal: handshake failure or protocol version, whichever it notices first.
    assert!(matches!(alert[5..], [2, 40 | 70]), "{alert:?}: {error}");
    channel.sent();
    channel.close();
    assert!(channel.flushed() && channel.is_closed());
}

#[test]
fn garbage_is_an_error_and_never_a_panic() {
    let config = server_config();
    let mut hello = client(&VERSIONS);
    let hello = wire_of(&mut hello);
    for at in 0..hello.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = hello.clone();
            bytes[at] ^= flip;
            let mut channel = Channel::new(Arc::clone(&config)).unwrap();
            // Some changes still are a hello; none is the end of one.
            let progress = channel.received(&bytes, &mut Vec::new());
            assert!(!progress.is_ok_and(|progress| progress.established), "at {at}");
            assert!(!channel.is_established());
        }
    }
}

#[test]
fn changed_ciphertext_is_refused() {
    let mut client = client(&VERSIONS);
    let mut channel = Channel::new(server_config()).unwrap();
    shake(&mut client, &mut channel, 4096);
    client.writer().write_all(b"request").unwrap();
    let mut bytes = wire_of(&mut client);
    *bytes.last_mut().unwrap() ^= 1;
    let mut plain = Vec::new();
    assert!(channel.received(&bytes, &mut plain).is_err());
    assert!(plain.is_empty());
}

#[test]
fn answers_can_be_sent_while_half_a_message_has_come() {
    for version in VERSIONS {
        let mut client = client(&[version]);
        let mut channel = Channel::new(server_config()).unwrap();
        shake(&mut client, &mut channel, 4096);
        client.writer().write_all(&[3; 40_000]).unwrap();
        if version.version == rustls::ProtocolVersion::TLSv1_3 {
            client.refresh_traffic_keys().unwrap();
            client.writer().write_all(b"under new keys").unwrap();
        }
        let bytes = wire_of(&mut client);
        let mut plain = Vec::new();
        let mut got = Vec::new();
        for byte in bytes {
            channel.received(&[byte], &mut plain).unwrap();
            channel.seal(b".").unwrap();
            if let Some(output) = channel.take_output() {
                channel.sent();
                got.extend(give(&mut client, &output));
            }
        }
        assert!(plain.starts_with(&[3; 40_000]) && got.len() > 40_000);
    }
}

/// Seeded, so that a failure can be had again.
#[test]
fn no_change_of_any_byte_and_no_cut_is_a_panic() {
    let config = server_config();
    let mut state = 0x5eed_u64;
    let mut random = move |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for round in 0..600 {
        let mut client = client(&[VERSIONS[round % 2]]);
        let mut channel = Channel::new(Arc::clone(&config)).unwrap();
        if round % 3 == 0 {
            shake(&mut client, &mut channel, 4096);
            client.writer().write_all(&vec![1; random(20_000)]).unwrap();
            client.send_close_notify();
        }
        let mut plain = Vec::new();
        'talk: loop {
            let mut bytes = wire_of(&mut client);
            for _ in 0..random(3) {
                match random(4) {
                    0 if !bytes.is_empty() => bytes.truncate(random(bytes.len())),
                    1 => bytes.extend_from_within(..random(bytes.len() + 1)),
                    2 => bytes.splice(..0, [0x14, 3, 3, 0, 1, 1]).for_each(drop),
                    _ if !bytes.is_empty() => {
                        let at = random(bytes.len());
                        bytes[at] = u8::try_from(random(256)).unwrap();
                    }
                    _ => {}
                }
            }
            let piece = 1 + random(600);
            for piece in bytes.chunks(piece) {
                if channel.received(piece, &mut plain).is_err() {
                    channel.close();
                    break 'talk;
                }
                if channel.is_established() {
                    channel.seal(b"answer").unwrap();
                }
            }
            let Some(output) = channel.take_output() else { break };
            channel.sent();
            let mut output = &output[..];
            while !output.is_empty() {
                if client.read_tls(&mut output).is_err() || client.process_new_packets().is_err() {
                    break 'talk;
                }
            }
        }
    }
}

#[test]
fn what_waits_for_more_is_bounded() {
    let mut channel = Channel::new(server_config()).unwrap();
    // Handshake records, each whole, of one message of 16 MiB that never ends.
    let mut bytes = vec![0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff];
    bytes.resize(5 + 0x4000, 0);
    let mut next = vec![0x16, 3, 1, 0x40, 0];
    next.resize(5 + 0x4000, 0);
    let mut result = channel.received(&bytes, &mut Vec::new()).map(drop);
    for _ in 0..100 {
        if result.is_ok() {
            result = channel.received(&next, &mut Vec::new()).map(drop);
        }
        assert!(channel.pending.len() <= TLS_PENDING_BYTES_MAX);
    }
    assert!(result.is_err());
}

#[test]
fn a_channel_at_rest_is_small() {
    assert!(size_of::<Channel>() <= 1536, "{}", size_of::<Channel>());
}

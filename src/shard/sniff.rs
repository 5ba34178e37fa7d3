//! The first bytes of a connection decide what it is: a PROXY header, TLS, or the protocol itself.
//!
//! A PROXY header (version 1 is a line of text, version 2 is binary) is what a load balancer puts
//! in front of the client's bytes. It is read once, at the very beginning. Which forms are accepted
//! follows what Netty's
//! `HAProxyMessageDecoder` accepts, and the PROXY protocol's text where Netty is lax: a version 1
//! line is at most 107 bytes, and a checksum in version 2 must be right.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::limits::{FIRST_BYTES_MIN, PROXY_LINE_BYTES_MAX};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
const BINARY_PREFIX_BYTES: usize = 16;
/// The TLV that holds a CRC-32c of the whole header.
const TLV_CHECKSUM: u8 = 3;

const _: () = assert!(SIGNATURE.len() == FIRST_BYTES_MIN);

/// What the first bytes of a connection say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum First {
    /// Not enough bytes yet.
    Incomplete,
    /// No PROXY header: the bytes are the client's.
    Plain,
    /// A PROXY header of `bytes` bytes; the client's bytes follow.
    Proxy {
        /// Its length.
        bytes: usize,
        /// The client, if the header names one by address.
        source: Option<SocketAddr>,
    },
}

/// Why a PROXY header is refused.
pub(super) type Malformed = &'static str;

/// Looks at the first bytes of a connection. Nothing is said before [`FIRST_BYTES_MIN`] of them are
/// there.
pub(super) fn first(bytes: &[u8]) -> Result<First, Malformed> {
    if bytes.len() < FIRST_BYTES_MIN {
        return Ok(First::Incomplete);
    }
    if bytes.starts_with(SIGNATURE) {
        binary(bytes)
    } else if bytes.starts_with(b"PROXY") {
        text(bytes)
    } else {
        Ok(First::Plain)
    }
}

/// True once the bytes can be nothing but the begin of a PROXY header.
pub(super) fn is_proxy(bytes: &[u8]) -> bool {
    bytes.len() >= FIRST_BYTES_MIN && (bytes.starts_with(SIGNATURE) || bytes.starts_with(b"PROXY"))
}

/// True if `byte`, the first of the client's, begins a TLS hello.
pub(super) fn is_tls(byte: u8) -> bool {
    byte == 0x16
}

fn text(bytes: &[u8]) -> Result<First, Malformed> {
    let window = &bytes[..bytes.len().min(PROXY_LINE_BYTES_MAX)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        let full = bytes.len() >= PROXY_LINE_BYTES_MAX;
        return if full { Err("line too long") } else { Ok(First::Incomplete) };
    };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| "line is not text")?;
    let mut words = line.split(' ');
    if words.next() != Some("PROXY") {
        return Err("no blank after PROXY");
    }
    let source = match words.next() {
        // Whatever follows on the line is to be ignored.
        Some("UNKNOWN") => None,
        Some("TCP4") => Some(text_addresses::<Ipv4Addr>(words)?),
        Some("TCP6") => Some(text_addresses::<Ipv6Addr>(words)?),
        _ => return Err("unknown family"),
    };
    Ok(First::Proxy { bytes: end + 2, source })
}

fn text_addresses<'a, A: FromStr + Into<IpAddr>>(
    mut words: impl Iterator<Item = &'a str>,
) -> Result<SocketAddr, Malformed> {
    let mut word = || words.next().ok_or("too few words");
    let [source, destination] = [word()?, word()?];
    let [source_port, destination_port] = [word()?, word()?];
    if words.next().is_some() {
        return Err("too many words");
    }
    let ip = source.parse::<A>().map_err(|_| "bad address")?;
    destination.parse::<A>().map_err(|_| "bad address")?;
    text_port(destination_port)?;
    Ok(SocketAddr::new(ip.into(), text_port(source_port)?))
}

fn text_port(word: &str) -> Result<u16, Malformed> {
    // `parse` would take a plus sign, too.
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|port| digits && *port > 0).ok_or("bad port")
}

fn binary(bytes: &[u8]) -> Result<First, Malformed> {
    // Each field is judged as soon as it is there.
    let Some(&command) = bytes.get(12) else { return Ok(First::Incomplete) };
    if command >> 4 != 2 {
        return Err("version is not 2");
    }
    let local = match command & 0xf {
        0 => true,
        1 => false,
        _ => return Err("unknown command"),
    };
    let Some(&family) = bytes.get(13) else { return Ok(First::Incomplete) };
    let address_bytes = match family {
        0x00 => 0,
        0x11 | 0x12 => 12,
        0x21 | 0x22 => 36,
        0x31 | 0x32 => 216,
        _ => return Err("unknown family"),
    };
    let Some(&[high, low]) = bytes[14..].first_chunk() else { return Ok(First::Incomplete) };
    let rest_bytes = usize::from(u16::from_be_bytes([high, low]));
    if !local && rest_bytes < address_bytes {
        return Err("too short for its family");
    }
    let total = BINARY_PREFIX_BYTES + rest_bytes;
    let Some(header) = bytes.get(..total) else { return Ok(First::Incomplete) };
    // A LOCAL header and one without a family say nothing of the client, and what they carry is
    // skipped.
    if local || family == 0 {
        return Ok(First::Proxy { bytes: total, source: None });
    }
    let (addresses, tlvs) = header[BINARY_PREFIX_BYTES..].split_at(address_bytes);
    check_tlvs(header, tlvs)?;
    Ok(First::Proxy { bytes: total, source: binary_source(family, addresses) })
}

fn binary_source(family: u8, addresses: &[u8]) -> Option<SocketAddr> {
    let (ip, port): (IpAddr, &[u8]) = match family >> 4 {
        1 => (Ipv4Addr::from(*addresses.first_chunk::<4>()?).into(), &addresses[8..]),
        2 => (Ipv6Addr::from(*addresses.first_chunk::<16>()?).into(), &addresses[32..]),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port.first_chunk()?)))
}

fn check_tlvs(header: &[u8], mut tlvs: &[u8]) -> Result<(), Malformed> {
    let mut summed = false;
    while let Some((&[kind, high, low], rest)) = tlvs.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let Some((value, rest)) = rest.split_at_checked(length) else {
            return Err("a TLV runs past the header");
        };
        if kind == TLV_CHECKSUM {
            // Each costs a walk over the whole header.
            if std::mem::replace(&mut summed, true) {
                return Err("two checksums");
            }
            let offset = header.len() - rest.len() - value.len();
            if value != checksum(header, offset).to_be_bytes() {
                return Err("bad checksum");
            }
        }
        tlvs = rest;
    }
    if tlvs.is_empty() { Ok(()) } else { Err("a TLV runs past the header") }
}

/// CRC-32c of `header` with the four bytes at `offset` taken as zero. At most 64 KiB, once a
/// connection: bit by bit.
fn checksum(header: &[u8], offset: usize) -> u32 {
    let mut crc = u32::MAX;
    for (index, byte) in header.iter().enumerate() {
        let in_field = (offset..offset + 4).contains(&index);
        crc ^= u32::from(if in_field { 0 } else { *byte });
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend([command, family]);
        bytes.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    fn proxy(bytes: usize, source: Option<&str>) -> Result<First, Malformed> {
        Ok(First::Proxy { bytes, source: source.map(|text| text.parse().unwrap()) })
    }

    const TCP4: [u8; 12] = [10, 1, 2, 3, 10, 9, 9, 9, 0x1f, 0x90, 0x26, 0x94];

    #[test]
    fn eleven_bytes_say_nothing_and_the_twelfth_decides() {
        for bytes in [&b"GET / HTTP/1.1"[..], b"PROXY UNKNOWN\r\n", &[0; 12]] {
            assert_eq!(first(&bytes[..11]), Ok(First::Incomplete));
        }
        assert_eq!(first(&[0, 0, 0, 66, 0, 0, 0, 62, b'{', b'"', b'c', b'o']), Ok(First::Plain));
        assert_eq!(first(b"PROX\0\0\0\0\0\0\0\0"), Ok(First::Plain));
    }

    #[test]
    fn version_1_lines_are_read_to_their_end() {
        let line = b"PROXY TCP4 10.1.2.3 10.9.9.9 8080 9876\r\n\0\0";
        assert_eq!(first(line), proxy(line.len() - 2, Some("10.1.2.3:8080")));
        let line = b"PROXY TCP6 2001:db8::1 ::1 8080 9876\r\n";
        assert_eq!(first(line), proxy(line.len(), Some("[2001:db8::1]:8080")));
        assert_eq!(first(b"PROXY UNKNOWN\r\n"), proxy(15, None));
        assert_eq!(first(b"PROXY UNKNOWN any thing at all\r\n"), proxy(32, None));
        let line = b"PROXY TCP4 10.1.2.3 10.9.9.9 8080 9876\r\n";
        for cut in 12..line.len() {
            assert_eq!(first(&line[..cut]), Ok(First::Incomplete), "cut at {cut}");
        }
    }

    #[test]
    fn malformed_version_1_lines_are_refused() {
        for line in [
            "PROXY TCP4 10.1.2.3 10.9.9.9 8080\r\n",
            "PROXY TCP4 10.1.2.3 10.9.9.9 8080 9876 1\r\n",
            "PROXY TCP4 10.1.2.3 10.9.9.9 0 9876\r\n",
            "PROXY TCP4 10.1.2.3 10.9.9.9 8080 65536\r\n",
            "PROXY TCP4 10.1.2.3 10.9.9.9 +8080 9876\r\n",
            "PROXY TCP4 10.1.2.300 10.9.9.9 8080 9876\r\n",
            "PROXY TCP4 ::1 ::1 8080 9876\r\n",
            "PROXY TCP6 10.1.2.3 10.9.9.9 8080 9876\r\n",
            "PROXY UDP4 10.1.2.3 10.9.9.9 8080 9876\r\n",
            "PROXYTCP4 10.1.2.3 10.9.9.9 8080 9876\r\n",
            "PROXY  TCP4 10.1.2.3 10.9.9.9 8080 9876\r\n",
        ] {
            assert!(first(line.as_bytes()).is_err(), "{line}");
        }
        assert!(first(b"PROXY \xff\xff\xff\xff\xff\xff\r\n").is_err());
    }

    #[test]
    fn a_version_1_line_has_at_most_107_bytes_with_its_end() {
        let mut line = b"PROXY UNKNOWN ".to_vec();
        line.resize(105, b'x');
        assert_eq!(first(&[&line[..], b"\r\n"].concat()), proxy(107, None));
        line.push(b'x');
        assert_eq!(first(&line), Ok(First::Incomplete));
        line.push(b'\r');
        assert!(first(&line).is_err(), "107 bytes and no end");
        assert!(first(&[&line[..], b"\n"].concat()).is_err(), "the end is one too late");
    }

    #[test]
    fn version_2_headers_are_read_in_every_family() {
        assert_eq!(first(&v2(0x21, 0x11, &TCP4)), proxy(28, Some("10.1.2.3:8080")));
        assert_eq!(first(&v2(0x21, 0x12, &TCP4)), proxy(28, Some("10.1.2.3:8080")));
        let mut tcp6 = [0; 36];
        (tcp6[15], tcp6[33]) = (1, 80);
        assert_eq!(first(&v2(0x21, 0x21, &tcp6)), proxy(52, Some("[::1]:80")));
        assert_eq!(first(&v2(0x21, 0x31, &[7; 216])), proxy(232, None));
        assert_eq!(first(&v2(0x20, 0x00, &[])), proxy(16, None));
        assert_eq!(first(&v2(0x20, 0x11, &[1, 2])), proxy(18, None), "LOCAL skips what it carries");
        assert_eq!(first(&v2(0x21, 0x00, &[1, 2])), proxy(18, None));
        let whole = v2(0x21, 0x11, &TCP4);
        for cut in 12..whole.len() {
            assert_eq!(first(&whole[..cut]), Ok(First::Incomplete), "cut at {cut}");
        }
    }

    #[test]
    fn malformed_version_2_headers_are_refused() {
        for (command, family) in [(0x11, 0x11), (0x22, 0x11), (0x21, 0x13), (0x21, 0x41), (0x21, 1)]
        {
            assert!(first(&v2(command, family, &TCP4)).is_err(), "{command:x} {family:x}");
        }
        assert!(first(&v2(0x21, 0x11, &TCP4[..11])).is_err());
        assert!(first(&v2(0x21, 0x21, &TCP4)).is_err());
        // Judged before the rest of a header that would never be complete.
        assert!(first(&[&SIGNATURE[..], &[0x31]].concat()).is_err());
    }

    #[test]
    fn tlvs_must_fit_and_a_checksum_must_be_right() {
        let with = |tlv: &[u8]| v2(0x21, 0x11, &[&TCP4, tlv].concat());
        assert_eq!(first(&with(&[4, 0, 2, 0, 0])), proxy(33, Some("10.1.2.3:8080")));
        assert!(first(&with(&[4, 0, 3, 0, 0])).is_err());
        assert!(first(&with(&[4, 0])).is_err());
        let mut signed = with(&[3, 0, 4, 0, 0, 0, 0]);
        let offset = signed.len() - 4;
        assert!(first(&signed).is_err());
        let sum = checksum(&signed, offset).to_be_bytes();
        signed[offset..].copy_from_slice(&sum);
        assert_eq!(first(&signed), proxy(35, Some("10.1.2.3:8080")));
        assert!(first(&with(&[3, 0, 2, 0, 0])).is_err());
        // Both checksums would be right: the second is refused for being one.
        let mut twice = with(&[3, 0, 4, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0]);
        let sum = checksum(&twice, 31).to_be_bytes();
        twice[31..35].copy_from_slice(&sum);
        assert_eq!(first(&twice), Err("two checksums"));
    }

    #[test]
    fn the_checksum_is_crc_32c() {
        // The check value of CRC-32/ISCSI.
        assert_eq!(checksum(b"123456789", 100), 0xe306_9283);
    }
}

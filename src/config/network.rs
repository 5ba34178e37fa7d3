//! A range of addresses, `10.0.0.0/8` or `fd00::/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// All addresses that begin with the same bits. A single address is a network of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// First address; bits behind the prefix are zero.
    first: IpAddr,
    /// Bits that are equal: 0..=32 or 0..=128.
    prefix: u8,
}

impl Network {
    /// True if `addr` lies in here. An IPv4 address that arrived on an IPv6 socket
    /// (`::ffff:a.b.c.d`) is the IPv4 one.
    #[must_use]
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.first, addr.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(addr)) => {
                (first.to_bits() ^ addr.to_bits()) & mask4(self.prefix) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(addr)) => {
                (first.to_bits() ^ addr.to_bits()) & mask6(self.prefix) == 0
            }
            _ => false,
        }
    }
}

/// `prefix` is at most 32.
fn mask4(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

/// `prefix` is at most 128.
fn mask6(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

/// The text is not `address` or `address/bits`, or has bits set behind the prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotANetwork;

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Network, NotANetwork> {
        let (addr, bits) = match text.split_once('/') {
            Some((addr, bits)) => (addr, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = addr.parse().map_err(|_| NotANetwork)?;
        let widest = if first.is_ipv4() { 32 } else { 128 };
        let prefix = match bits {
            Some(bits) => bits.parse().map_err(|_| NotANetwork)?,
            None => widest,
        };
        if prefix > widest {
            return Err(NotANetwork);
        }
        let clean = match first {
            IpAddr::V4(first) => first.to_bits() & !mask4(prefix) == 0,
            IpAddr::V6(first) => first.to_bits() & !mask6(prefix) == 0,
        };
        if clean { Ok(Network { first, prefix }) } else { Err(NotANetwork) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, addr: &str) -> bool {
        network.parse::<Network>().unwrap().contains(addr.parse().unwrap())
    }

    #[test]
    fn a_network_holds_the_addresses_that_share_its_prefix() {
        assert!(holds("10.0.0.0/8", "10.255.0.1"));
        assert!(!holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("0.0.0.0/0", "255.255.255.255"));
        assert!(holds("127.0.0.1", "127.0.0.1"));
        assert!(!holds("127.0.0.1", "127.0.0.2"));
        assert!(holds("fd00::/8", "fdff::1"));
        assert!(!holds("fd00::/8", "fe00::1"));
        assert!(holds("::/0", "::1"));
        assert!(!holds("0.0.0.0/0", "::1"));
    }

    #[test]
    fn a_mapped_address_counts_as_ipv4() {
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
    }

    #[test]
    fn what_is_not_a_network_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.1/8",
            "10.0.0.0/",
            "host/8",
            "10.0.0/8",
            "10.0.0.0/-1",
        ] {
            assert_eq!(text.parse::<Network>(), Err(NotANetwork), "{text:?}");
        }
    }
}

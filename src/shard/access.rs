//! Who may do what, by the network that a peer is in.

use std::net::IpAddr;

use crate::config::network::Network;
use crate::wire::code::Rights;

/// Three lists of networks; an empty one is anybody.
#[derive(Clone, Default, Debug)]
pub struct Access {
    /// Who may send a PROXY header (`proxyProtocolFrom`).
    pub proxies: Vec<Network>,
    /// Who may send what brokers send (`brokerFrom`).
    pub brokers: Vec<Network>,
    /// Who may send what changes anything else (`adminFrom`).
    pub admins: Vec<Network>,
}

impl Access {
    /// True if not everybody may do everything.
    pub(super) fn is_limited(&self) -> bool {
        !self.brokers.is_empty() || !self.admins.is_empty()
    }

    /// The rights of a peer. One that is gone, and so has no address, has none.
    pub(super) fn rights(&self, peer: Option<IpAddr>) -> Rights {
        Rights { broker: includes(&self.brokers, peer), admin: includes(&self.admins, peer) }
    }

    /// The rights of somebody for whom a peer with the rights `proxy` says to speak.
    ///
    /// Where PROXY headers are taken from anybody, anybody can write any address into one: then the
    /// peer needs the rights, too.
    pub(super) fn rights_behind(&self, proxy: Rights, source: IpAddr) -> Rights {
        let own = self.rights(Some(source));
        if self.proxies.is_empty() {
            return Rights { broker: proxy.broker && own.broker, admin: proxy.admin && own.admin };
        }
        own
    }
}

fn includes(list: &[Network], peer: Option<IpAddr>) -> bool {
    list.is_empty() || peer.is_some_and(|peer| list.iter().any(|network| network.contains(peer)))
}

/// What a connection may ask about its peer. The address is asked of the kernel, so only when it
/// matters.
pub(super) struct Door<'a> {
    pub access: &'a Access,
    pub peer: &'a dyn Fn() -> Option<IpAddr>,
}

impl Door<'_> {
    /// Whether the peer may send a PROXY header.
    pub(super) fn opens_for_proxy(&self) -> bool {
        let proxies = &self.access.proxies;
        proxies.is_empty() || includes(proxies, (self.peer)())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Rights = Rights { broker: false, admin: false };

    fn networks(text: &str) -> Vec<Network> {
        vec![text.parse().unwrap()]
    }

    fn addr(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_empty_list_is_anybody() {
        let access = Access::default();
        assert!(!access.is_limited());
        assert_eq!(access.rights(None), Rights::ALL);
        let admins = Access { admins: networks("10.0.0.0/8"), ..access };
        assert!(admins.is_limited());
        assert_eq!(admins.rights(Some(addr("11.0.0.1"))), Rights { broker: true, admin: false });
        assert_eq!(admins.rights(None), Rights { broker: true, admin: false });
        assert_eq!(admins.rights(Some(addr("::ffff:10.1.1.1"))), Rights::ALL);
    }

    #[test]
    fn the_address_in_a_proxy_header_counts_alone_only_if_its_sender_is_named() {
        let lists = Access {
            brokers: networks("10.1.0.0/16"),
            admins: networks("10.2.0.0/16"),
            ..Access::default()
        };
        let peer = lists.rights(Some(addr("10.2.0.1")));
        assert_eq!(peer, Rights { broker: false, admin: true });
        assert_eq!(lists.rights_behind(peer, addr("10.1.0.1")), NONE);
        assert_eq!(lists.rights_behind(peer, addr("10.2.0.9")), peer);
        let named = Access { proxies: networks("192.168.0.1"), ..lists };
        let proxy = named.rights(Some(addr("192.168.0.1")));
        assert_eq!(proxy, NONE);
        assert_eq!(named.rights_behind(proxy, addr("10.2.0.9")), peer);
        assert_eq!(named.rights_behind(Rights::ALL, addr("10.9.0.1")), NONE);
    }
}

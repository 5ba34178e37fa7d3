//! One group of brokers, with everything that answers show of it already encoded.

use std::sync::Arc;

use crate::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName};
use crate::model::Dialect;
use crate::wire::json::{put_int, put_list, put_string};

/// A group of brokers as readers see it (Java: `BrokerData`). Never changed: a change makes a new
/// one.
#[derive(PartialEq, Eq, Debug)]
pub struct Group {
    /// The group's name.
    pub name: BrokerName,
    /// Cluster in which the group was first registered.
    pub cluster: ClusterName,
    /// Zone of the broker that registered last.
    pub zone: Option<Arc<str>>,
    /// Whether the broker that registered last lets the smallest slave act as master.
    pub acting_master: bool,
    /// Addresses by ascending id; never empty.
    pub addrs: Vec<(BrokerId, BrokerAddr)>,
    /// Filter servers by address, ascending.
    pub filters: Vec<(BrokerAddr, Box<[u8]>)>,
    /// `{"brokerName":"…","perm":`, the head of each of the group's `queueDatas`.
    pub queue_head: Box<[u8]>,
    own: Encoded,
    acting: Option<Encoded>,
}

/// A `brokerDatas` element in both dialects.
#[derive(PartialEq, Eq, Debug)]
struct Encoded {
    legacy: Box<[u8]>,
    standard: Box<[u8]>,
}

/// What a [`Group`] is made of.
#[derive(Clone, Debug)]
pub struct GroupParts {
    /// See [`Group::name`].
    pub name: BrokerName,
    /// See [`Group::cluster`].
    pub cluster: ClusterName,
    /// See [`Group::zone`].
    pub zone: Option<Arc<str>>,
    /// See [`Group::acting_master`].
    pub acting_master: bool,
    /// Addresses by ascending id.
    pub addrs: Vec<(BrokerId, BrokerAddr)>,
    /// Filter servers by address, ascending.
    pub filters: Vec<(BrokerAddr, Vec<String>)>,
}

impl Group {
    /// Encodes a group once, for all the answers that will show it.
    #[must_use]
    pub fn new(parts: GroupParts) -> Group {
        assert!(!parts.addrs.is_empty(), "a group without addresses is removed, not encoded");
        assert!(parts.addrs.is_sorted_by(|a, b| a.0 < b.0), "ids ascend and differ");
        let own = Encoded::of(&parts, &parts.addrs);
        let acting = acting_addrs(&parts).map(|addrs| Encoded::of(&parts, &addrs));
        let mut queue_head = b"{\"brokerName\":".to_vec();
        put_string(&mut queue_head, &parts.name);
        queue_head.extend_from_slice(b",\"perm\":");
        let filters = parts.filters.into_iter().map(|(addr, list)| {
            let encoded = encode_filters(&addr, &list);
            (addr, encoded)
        });
        Group {
            filters: filters.collect(),
            name: parts.name,
            cluster: parts.cluster,
            zone: parts.zone,
            acting_master: parts.acting_master,
            addrs: parts.addrs,
            queue_head: queue_head.into(),
            own,
            acting,
        }
    }

    /// The address under the master's id.
    #[must_use]
    pub fn master(&self) -> Option<&BrokerAddr> {
        self.addr_of(BrokerId::MASTER)
    }

    /// The address under `id`.
    #[must_use]
    pub fn addr_of(&self, id: BrokerId) -> Option<&BrokerAddr> {
        let at = self.addrs.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.addrs[at].1)
    }

    /// The group's smallest id.
    #[must_use]
    pub fn min_id(&self) -> BrokerId {
        self.addrs[0].0
    }

    /// Whether queues of this group must not be written because only slaves are left (Java:
    /// `RouteInfoManager`).
    #[must_use]
    pub fn is_masterless_acting(&self) -> bool {
        self.acting_master && self.min_id() > BrokerId::MASTER
    }

    /// Whether answers may show the smallest id as master: there is none, and the group enables
    /// acting masters.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.acting.is_some()
    }

    /// The `brokerDatas` element as it is.
    #[must_use]
    pub fn encoded(&self, dialect: Dialect) -> &[u8] {
        self.own.in_dialect(dialect)
    }

    /// The `brokerDatas` element with the smallest slave shown as master; `None` unless there is no
    /// master and the group enables acting masters (Java: `RouteInfoManager.pickupTopicRouteData`).
    #[must_use]
    pub fn encoded_acting(&self, dialect: Dialect) -> Option<&[u8]> {
        self.acting.as_ref().map(|acting| acting.in_dialect(dialect))
    }
}

impl Encoded {
    fn of(parts: &GroupParts, addrs: &[(BrokerId, BrokerAddr)]) -> Encoded {
        Encoded {
            legacy: encode_group(parts, addrs, Dialect::Legacy),
            standard: encode_group(parts, addrs, Dialect::Standard),
        }
    }

    fn in_dialect(&self, dialect: Dialect) -> &[u8] {
        match dialect {
            Dialect::Legacy => &self.legacy,
            Dialect::Standard => &self.standard,
        }
    }
}

/// The smallest id's address moved to id 0, if the rule for acting masters applies to the group.
fn acting_addrs(parts: &GroupParts) -> Option<Vec<(BrokerId, BrokerAddr)>> {
    let has_master = parts.addrs.iter().any(|(id, _)| *id == BrokerId::MASTER);
    if has_master || !parts.acting_master {
        return None;
    }
    let mut addrs = parts.addrs.clone();
    addrs[0].0 = BrokerId::MASTER;
    addrs.sort_by_key(|(id, _)| *id);
    Some(addrs)
}

fn encode_group(
    parts: &GroupParts,
    addrs: &[(BrokerId, BrokerAddr)],
    dialect: Dialect,
) -> Box<[u8]> {
    let mut out = b"{\"brokerAddrs\":".to_vec();
    put_addrs(&mut out, addrs, dialect);
    out.extend_from_slice(b",\"brokerName\":");
    put_string(&mut out, &parts.name);
    out.extend_from_slice(b",\"cluster\":");
    put_string(&mut out, &parts.cluster);
    out.extend_from_slice(b",\"enableActingMaster\":");
    out.extend_from_slice(if parts.acting_master { b"true" } else { b"false" });
    if let Some(zone) = &parts.zone {
        out.extend_from_slice(b",\"zoneName\":");
        put_string(&mut out, zone);
    }
    out.push(b'}');
    out.into()
}

/// Writes a map of id to address.
pub fn put_addrs(out: &mut Vec<u8>, addrs: &[(BrokerId, BrokerAddr)], dialect: Dialect) {
    out.push(b'{');
    put_list(out, addrs.iter(), |out, (id, addr)| {
        put_int_key(out, id.0, dialect);
        put_string(out, addr);
    });
    out.push(b'}');
}

/// Writes an integer key and its colon: bare in the legacy dialect, quoted in the standard one.
pub fn put_int_key(out: &mut Vec<u8>, key: i64, dialect: Dialect) {
    match dialect {
        Dialect::Legacy => put_int(out, key),
        Dialect::Standard => {
            out.push(b'"');
            put_int(out, key);
            out.push(b'"');
        }
    }
    out.push(b':');
}

/// One entry of `filterServerTable`.
fn encode_filters(addr: &BrokerAddr, list: &[String]) -> Box<[u8]> {
    let mut out = Vec::new();
    put_string(&mut out, addr);
    out.extend_from_slice(b":[");
    put_list(&mut out, list.iter(), |out, server| put_string(out, server));
    out.push(b']');
    out.into()
}

//! Who is told that another broker has the smallest id of a group: that one acts as master where
//! there is none (Java: `RouteInfoManager.notifyMinBrokerIdChanged`).

use smallvec::SmallVec;

use crate::ids::{BrokerAddr, BrokerId, MemberKey};
use crate::model::Notice;

use super::change::Registration;
use super::table::RouteTable;
use super::view::GroupSlot;

impl RouteTable {
    /// Notices that the changes since the last call call for, in their order; none while a change
    /// is not whole. Whoever changes the table takes them away, wanted or not.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        if self.is_whole() { std::mem::take(&mut self.notices) } else { Vec::new() }
    }

    /// Notes that a broker registered in a group whose smallest id was `old_min`. The others are
    /// told, and a broker that is alone is told of itself.
    ///
    /// A group without members counts as one whose smallest id is that of a master, so the first
    /// member is news only if its id is negative. `old_min` may be the broker's own earlier id: a
    /// slave that becomes master is news.
    pub(super) fn note_registered(
        &mut self,
        slot: GroupSlot,
        old_min: Option<BrokerId>,
        registration: &Registration,
    ) {
        if registration.id >= old_min.unwrap_or(BrokerId::MASTER) {
            return;
        }
        let addrs = &self.view.at(slot).addrs;
        let told = if addrs.len() > 1 { &addrs[1..] } else { &addrs[..] };
        self.notices.push(Notice {
            targets: told.iter().map(|(_, addr)| addr.clone()).collect(),
            min_id: registration.id,
            min_addr: registration.addr.clone(),
            offline: None,
            ha: registration.ha_addr.clone(),
        });
    }

    /// The groups whose smallest id goes with these members, each with the address that had it.
    ///
    /// If several members of a group go at once, this is the one that is named as gone: slaves act
    /// on it if it was their master, and no other can have been. Java names the last one it removed
    /// while it was the smallest.
    pub(super) fn smallest_among(
        &self,
        keys: &[MemberKey],
    ) -> SmallVec<[(GroupSlot, BrokerAddr); 1]> {
        let found = keys.iter().filter_map(|key| {
            let member = self.member(*key)?;
            let (_, smallest) = self.states[member.slot.index()].members.first()?;
            (smallest == key).then(|| (member.slot, member.addr.clone()))
        });
        found.collect()
    }

    /// Notes that a group lost the broker with its smallest id. All that are left are told, if the
    /// group lets the smallest of them act as master.
    pub(super) fn note_removed(&mut self, slot: GroupSlot, offline: BrokerAddr) {
        if self.states[slot.index()].members.is_empty() {
            return;
        }
        let group = self.view.at(slot);
        if !group.acting_master {
            return;
        }
        let (min_id, min_addr) = group.addrs[0].clone();
        let targets = group.addrs.iter().map(|(_, addr)| addr.clone()).collect();
        let notice = Notice { targets, min_id, min_addr, offline: Some(offline), ha: None };
        self.notices.push(notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DataVersion;
    use crate::route::{Departure, Refused, Registered};

    /// A registration in group `g`; its address is that of `host` and shows in notices.
    fn registration(host: &str, id: i64) -> Registration {
        Registration {
            cluster: "c".into(),
            broker: "g".into(),
            addr: host.into(),
            id: BrokerId(id),
            ha_addr: Some(format!("ha-{host}")),
            acting_master: Some(true),
            zone: None,
            data_version: Some(DataVersion::default()),
            topics: Vec::new(),
            mappings: Vec::new(),
            filter_servers: None,
            delete_missing_topics: false,
            digest: 7,
        }
    }

    fn register(table: &mut RouteTable, host: &str, id: i64) -> MemberKey {
        let Registered { member, .. } = table.register(registration(host, id)).expect("accepted");
        table.check_invariants();
        member
    }

    fn unregister(table: &mut RouteTable, host: &str) {
        table.unregister(&Departure { broker: "g".into(), addr: host.into() });
        table.check_invariants();
    }

    fn registered(targets: &[&str], min_id: i64, host: &str) -> Notice {
        Notice {
            targets: targets.iter().map(|addr| BrokerAddr::from(*addr)).collect(),
            min_id: BrokerId(min_id),
            min_addr: host.into(),
            offline: None,
            ha: Some(format!("ha-{host}")),
        }
    }

    fn removed(targets: &[&str], min_id: i64, host: &str, offline: &str) -> Notice {
        let offline = Some(offline.into());
        Notice { offline, ha: None, ..registered(targets, min_id, host) }
    }

    #[test]
    fn a_group_that_starts_backwards_and_loses_its_master_is_told_as_java_tells_it() {
        let mut table = RouteTable::new();
        register(&mut table, "b2", 2);
        assert_eq!(table.take_notices(), []);
        register(&mut table, "b1", 1);
        assert_eq!(table.take_notices(), [registered(&["b2"], 1, "b1")]);
        register(&mut table, "b0", 0);
        assert_eq!(table.take_notices(), [registered(&["b1", "b2"], 0, "b0")]);
        unregister(&mut table, "b0");
        assert_eq!(table.take_notices(), [removed(&["b1", "b2"], 1, "b1", "b0")]);
        unregister(&mut table, "b2");
        assert_eq!(table.take_notices(), [], "not the smallest");
        unregister(&mut table, "b1");
        assert_eq!(table.take_notices(), [], "nobody is left");
    }

    #[test]
    fn larger_ids_and_repeated_registrations_are_no_news() {
        let mut table = RouteTable::new();
        register(&mut table, "b0", 0);
        register(&mut table, "b1", 1);
        register(&mut table, "b0", 0);
        assert!(table.recognise("c", "g", "b0", 7).is_some());
        register(&mut table, "b0-moved", 0);
        assert_eq!(table.take_notices(), []);
    }

    #[test]
    fn a_lone_broker_is_told_of_itself_if_it_becomes_master_or_starts_below_zero() {
        let mut table = RouteTable::new();
        register(&mut table, "b", 1);
        register(&mut table, "b", 0);
        assert_eq!(table.take_notices(), [registered(&["b"], 0, "b")]);
        unregister(&mut table, "b");
        register(&mut table, "b", -1);
        assert_eq!(table.take_notices(), [registered(&["b"], -1, "b")]);
    }

    #[test]
    fn a_slave_that_becomes_master_is_news_and_a_master_that_becomes_slave_is_not() {
        let mut table = RouteTable::new();
        register(&mut table, "a", 1);
        register(&mut table, "b", 2);
        register(&mut table, "a", 0);
        assert_eq!(table.take_notices(), [registered(&["b"], 0, "a")]);
        register(&mut table, "a", 3);
        assert_eq!(table.take_notices(), []);
    }

    #[test]
    fn without_acting_master_only_registrations_are_news() {
        let mut table = RouteTable::new();
        for (host, id) in [("b1", 1), ("b0", 0)] {
            let plain = Registration { acting_master: None, ..registration(host, id) };
            table.register(plain).expect("accepted");
        }
        assert_eq!(table.take_notices(), [registered(&["b1"], 0, "b0")]);
        unregister(&mut table, "b0");
        assert_eq!(table.take_notices(), []);
    }

    #[test]
    fn several_that_go_at_once_are_one_notice_that_names_the_smallest_as_gone() {
        let mut table = RouteTable::new();
        let keys = [0, 1, 2, 3].map(|id| register(&mut table, &format!("b{id}"), id));
        table.remove_members(&[keys[1], keys[0]]);
        assert_eq!(table.take_notices(), [removed(&["b2", "b3"], 2, "b2", "b0")]);
        table.remove_members(&[keys[0], keys[3], keys[2]]);
        assert_eq!(table.take_notices(), []);
    }

    #[test]
    fn a_refused_registration_is_no_news() {
        let mut table = RouteTable::new();
        register(&mut table, "claimant", 0);
        let version = Some(DataVersion { state_version: 2, ..DataVersion::default() });
        let holder = Registration { data_version: version, ..registration("holder", 1) };
        table.register(holder).expect("accepted");
        let refused = table.register(registration("claimant", 1));
        assert!(matches!(refused, Err(Refused::Stale { displaced: Some(_) })));
        table.check_invariants();
        assert_eq!(table.take_notices(), []);
    }
}

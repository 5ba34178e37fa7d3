//! The full sweep over the table, for tests and debug builds.

use super::table::RouteTable;

impl RouteTable {
    /// Panics if the parts of the table contradict each other. Costs a visit of everything.
    #[cfg(any(test, debug_assertions))]
    pub fn check_invariants(&self) {
        for route in self.view.topics.iter() {
            let (topic, number) = (route.text(), route.number());
            assert_eq!(self.topic_of(number).text(), topic);
            assert!(route.groups().next().is_some(), "{topic} is served by nobody");
            for entry in route.groups() {
                assert!(
                    self.view.slots[entry.slot.index()].is_some(),
                    "{topic} names a gone group"
                );
                assert!(self.states[entry.slot.index()].topics.contains(number.0));
                let here = route.groups().filter(|other| other.slot == entry.slot);
                assert_eq!(here.count(), 1, "{topic} names a group twice");
            }
            let mappings = self.view.mappings_of(route);
            assert_eq!(route.is_mapped(), !mappings.is_empty(), "{topic} and its mappings");
        }
        let mapped = self.view.topics.iter().filter(|route| route.is_mapped()).count();
        assert_eq!(mapped, self.view.mappings.len(), "mappings belong to topics");
        assert_eq!(self.numbers_in_use(), self.view.topics.len(), "one number a topic");
        for (name, slot) in &self.view.groups {
            let group = self.view.at(*slot);
            let state = &self.states[slot.index()];
            assert_eq!(group.name, *name);
            assert!(!state.members.is_empty(), "{name} has no members");
            assert_eq!(state.members.len(), group.addrs.len());
            for ((id, key), (shown, addr)) in state.members.iter().zip(&group.addrs) {
                let member = self.member(*key).expect("listed members are registered");
                assert_eq!((id, &member.addr, member.slot), (shown, addr, *slot));
                assert!(self.members_at(&member.cluster, addr).contains(key));
                assert!(state.clusters.contains(&member.cluster));
            }
            for cluster in &state.clusters {
                assert!(self.view.clusters[cluster].contains(name));
            }
            let mut topics = state.topics.iter();
            assert!(topics.all(|number| {
                self.topic_of(super::topic::TopicNumber(number)).on(*slot).is_some()
            }));
        }
        let filled = self.view.slots.iter().flatten().count();
        assert_eq!(filled, self.view.groups.len());
        for (cluster, names) in &self.view.clusters {
            assert!(!names.is_empty(), "{cluster} is empty");
            assert!(names.iter().all(|name| self.view.groups.contains_key(name)));
        }
        let members: usize = self.states.iter().map(|state| state.members.len()).sum();
        assert_eq!(members, self.member_count());
    }
}

//! The lists that admin tools and brokers ask for, written straight from the frozen table.

use std::collections::BTreeSet;

use crate::ids::BrokerName;
use crate::model::{Dialect, sys_flag};
use crate::wire::json::{put_string, put_text};

use super::answer::put_list;
use super::fragment::put_addrs;
use super::name_map::Named;
use super::topic::TopicRoute;
use super::view::RouteView;

/// Which unit topics a list shows (codes 311, 312, 313; Java: `RouteInfoManager.getUnitTopics` and
/// its siblings).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitList {
    /// Topics of a unit.
    Unit,
    /// Topics with unit subscriptions.
    UnitSub,
    /// Topics with unit subscriptions that are not themselves of a unit.
    UnitSubNotUnit,
}

impl UnitList {
    fn has(self, flags: i32) -> bool {
        let unit = flags & sys_flag::UNIT != 0;
        let unit_sub = flags & sys_flag::UNIT_SUB != 0;
        match self {
            UnitList::Unit => unit,
            UnitList::UnitSub => unit_sub,
            UnitList::UnitSubNotUnit => unit_sub && !unit,
        }
    }
}

impl RouteView {
    /// `ClusterInfo` (code 106), legacy dialect.
    pub fn write_cluster_info(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"brokerAddrTable\":{");
        put_list(out, self.groups.iter(), |out, (name, slot)| {
            put_string(out, name);
            out.push(b':');
            out.extend_from_slice(self.at(*slot).encoded(Dialect::Legacy));
        });
        out.extend_from_slice(b"},\"clusterAddrTable\":{");
        put_list(out, self.clusters.iter(), |out, (cluster, names)| {
            put_string(out, cluster);
            out.extend_from_slice(b":[");
            put_list(out, names.iter(), |out, name| put_string(out, name));
            out.push(b']');
        });
        out.extend_from_slice(b"}}");
    }

    /// `GetBrokerMemberGroupResponseBody` (code 901), legacy dialect. Names are those of the
    /// request, absent ones are left out; an unknown group has no addresses.
    pub fn write_member_group(
        &self,
        cluster: Option<&str>,
        broker: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        let addrs = broker.and_then(|broker| self.group(broker)).map_or(&[][..], |g| &g.addrs);
        out.extend_from_slice(b"{\"brokerMemberGroup\":{\"brokerAddrs\":");
        put_addrs(out, addrs, Dialect::Legacy);
        if let Some(broker) = broker {
            out.extend_from_slice(b",\"brokerName\":");
            put_string(out, broker);
        }
        if let Some(cluster) = cluster {
            out.extend_from_slice(b",\"cluster\":");
            put_string(out, cluster);
        }
        out.extend_from_slice(b"}}");
    }

    /// `TopicList` of all topics (code 206).
    pub fn write_topics(&self, out: &mut Vec<u8>) {
        self.write_topics_where(|_| true, out);
    }

    /// `TopicList` of the topics with queues on a group of `cluster` (code 224); empty if the
    /// cluster is unknown.
    pub fn write_topics_of_cluster(&self, cluster: Option<&str>, out: &mut Vec<u8>) {
        let mut inside = vec![false; self.slots.len()];
        let names = cluster.and_then(|cluster| self.clusters.get(cluster));
        for name in names.into_iter().flat_map(|names| names.iter()) {
            inside[self.groups[name].index()] = true;
        }
        let here = |topic: &TopicRoute| topic.groups().any(|on| inside[on.slot.index()]);
        self.write_topics_where(here, out);
    }

    /// `TopicList` of unit topics (codes 311 to 313). As in Java, a topic's first group decides.
    pub fn write_unit_topics(&self, list: UnitList, out: &mut Vec<u8>) {
        let first = |topic: &TopicRoute| topic.groups().next();
        let has = |topic: &TopicRoute| first(topic).is_some_and(|on| list.has(on.queues.sys_flag));
        self.write_topics_where(has, out);
    }

    fn write_topics_where(&self, wanted: impl Fn(&TopicRoute) -> bool, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"topicList\":[");
        let topics = self.topics.iter().filter(|route| wanted(route));
        put_list(out, topics, |out, route| put_text(out, route.name()));
        out.extend_from_slice(b"]}");
    }

    /// `TopicList` of code 304: the names of clusters and groups, and the address of a broker whom
    /// the client can ask for its system topics.
    pub fn write_system_topics(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some((_, slot)) = self.groups.iter().next() {
            out.extend_from_slice(b"\"brokerAddr\":");
            put_string(out, &self.at(*slot).addrs[0].1);
            out.push(b',');
        }
        let mut names: BTreeSet<&str> = self.clusters.keys().map(|cluster| &**cluster).collect();
        let groups = self.clusters.values().flat_map(|names| names.iter());
        names.extend(groups.map(|name: &BrokerName| &**name));
        out.extend_from_slice(b"\"topicList\":[");
        put_list(out, names.into_iter(), put_string);
        out.extend_from_slice(b"]}");
    }
}

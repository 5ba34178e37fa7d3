//! The lists that admin tools and brokers ask for, written straight from the frozen table.

use std::collections::BTreeSet;

use crate::ids::{BrokerName, ClusterName};
use crate::model::{Dialect, sys_flag};
use crate::wire::json::{put_list, put_string, put_text};

use super::answer::close_list;
use super::fragment::put_addrs;
use super::name_map::PARTS;
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

/// Which topics are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TopicList {
    /// All of them (code 206).
    All,
    /// Those with queues on a group of this cluster (code 224); none if it is unknown.
    OfCluster(Option<ClusterName>),
    /// Unit topics (codes 311 to 313). As in Java, a topic's first group decides.
    Unit(UnitList),
}

impl TopicList {
    /// Bytes whose number a peer chose.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            TopicList::OfCluster(Some(cluster)) => cluster.len(),
            _ => 0,
        }
    }
}

/// The body of a `TopicList` that is written in pieces, from one view.
#[derive(Debug)]
pub struct TopicListing {
    view: RouteView,
    wanted: Wanted,
    /// The next part of the map: `<= PARTS`.
    part: u64,
    out: Vec<u8>,
}

/// A [`TopicList`] with its names looked up.
#[derive(Debug)]
enum Wanted {
    All,
    /// By slot.
    OnGroups(Vec<bool>),
    Unit(UnitList),
}

impl TopicListing {
    /// A list of which nothing has been written.
    #[must_use]
    pub fn new(view: RouteView, list: &TopicList) -> TopicListing {
        let wanted = match list {
            TopicList::All => Wanted::All,
            TopicList::Unit(list) => Wanted::Unit(*list),
            TopicList::OfCluster(cluster) => {
                let mut inside = vec![false; view.slots.len()];
                let names = cluster.as_ref().and_then(|cluster| view.clusters.get(cluster));
                for name in names.into_iter().flat_map(|names| names.iter()) {
                    inside[view.groups[name].index()] = true;
                }
                Wanted::OnGroups(inside)
            }
        };
        TopicListing { view, wanted, part: 0, out: b"{\"topicList\":[".to_vec() }
    }

    /// Looks at `topics` topics, or a few more. Whether the body is complete.
    pub fn step(&mut self, topics: usize) -> bool {
        let mut seen = 0;
        while self.part < PARTS && seen < topics {
            for route in self.view.topics.part(self.part) {
                seen += 1;
                if self.wanted.has(route) {
                    put_text(&mut self.out, route.name);
                    self.out.push(b',');
                }
            }
            self.part += 1;
            if self.part == PARTS {
                close_list(&mut self.out);
                self.out.push(b'}');
            }
        }
        self.part == PARTS
    }

    /// What has been written.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.out
    }

    /// What has been written, to keep, and the view it was written from, to be freed.
    #[must_use]
    pub fn finish(self) -> (Vec<u8>, RouteView) {
        (self.out, self.view)
    }
}

impl Wanted {
    fn has(&self, route: TopicRoute<'_>) -> bool {
        match self {
            Wanted::All => true,
            Wanted::OnGroups(inside) => route.groups().any(|on| inside[on.slot.index()]),
            Wanted::Unit(list) => {
                route.groups().next().is_some_and(|on| list.has(on.queues.sys_flag))
            }
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

    /// `TopicList` of the topics in `list`.
    pub fn write_topic_list(&self, list: &TopicList, out: &mut Vec<u8>) {
        let mut listing = TopicListing::new(self.clone(), list);
        while !listing.step(usize::MAX) {}
        out.extend_from_slice(&listing.out);
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

//! Composes the answer to one route query (code 105) from encoded fragments.
//!
//! Nothing is cached, so nothing can be stale: a group's fragment is looked up at the moment of the
//! answer. The cost is that of copying the answer's bytes.

use std::ops::Range;

use crate::model::{Dialect, QueueMapping, Queues, perm};
use crate::wire::json::{put_int, put_long, put_string};

use super::fragment::{Group, put_int_key};
use super::view::{GroupQueues, RouteView, TopicRoute};

/// Topics through which brokers look at their own group; their answers show the true ids (Java:
/// `TopicValidator`).
const SYNC_TOPIC_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

/// What a route query asks for besides the topic.
#[derive(Clone, Copy, Debug)]
pub struct RouteQuery<'a> {
    /// Dialect of the answer.
    pub dialect: Dialect,
    /// `supportActingMaster`: show the smallest slave as master where the group allows it.
    pub acting_master: bool,
    /// Value of `orderTopicConf`.
    pub order_conf: Option<&'a str>,
    /// Only brokers of this zone, and masterless ones (Java: `ZoneRouteRPCHook`).
    pub zone: Option<&'a str>,
}

/// A group as one answer shows it.
struct Shown<'a> {
    group: &'a Group,
    entry: &'a GroupQueues,
    acting: bool,
}

impl RouteView {
    /// Appends the `TopicRouteData` of a topic of this view to `out`.
    pub fn write_route(&self, route: &TopicRoute, query: &RouteQuery<'_>, out: &mut Vec<u8>) {
        let substitute = query.acting_master && !route.topic().starts_with(SYNC_TOPIC_PREFIX);
        let shown = || {
            let all = route.groups().iter().map(move |entry| self.show(entry, substitute));
            all.filter(|shown| query.zone.is_none_or(|zone| shown.is_in_zone(zone)))
        };
        let mut filters = false;
        out.extend_from_slice(b"{\"brokerDatas\":[");
        shown().for_each(|shown| {
            shown.put_group(query.dialect, out);
            out.push(b',');
            filters |= !shown.group.filters.is_empty();
        });
        close_list(out);
        out.extend_from_slice(b",\"filterServerTable\":{");
        if filters {
            put_filters(out, shown(), query.dialect);
        }
        out.push(b'}');
        if let Some(order_conf) = query.order_conf {
            out.extend_from_slice(b",\"orderTopicConf\":");
            put_string(out, order_conf);
        }
        out.extend_from_slice(b",\"queueDatas\":[");
        let mut last = None;
        shown().for_each(|shown| {
            out.extend_from_slice(&shown.group.queue_head);
            last = Some(put_queues(out, shown.entry.queues, last.take()));
            out.push(b',');
        });
        close_list(out);
        if let Some(mappings) = route.mappings() {
            out.extend_from_slice(b",\"topicQueueMappingByBroker\":{");
            put_list(out, mappings.iter(), |out, one| put_mapping(out, one, query.dialect));
            out.push(b'}');
        }
        out.push(b'}');
    }

    #[inline]
    fn show<'a>(&'a self, entry: &'a GroupQueues, substitute: bool) -> Shown<'a> {
        let group = self.at(entry.slot);
        // A writable topic is left as it is: the slave that registered it does not act (protocol:
        // route query, step 5).
        let writable = entry.queues.perm & perm::WRITE != 0;
        Shown { group, entry, acting: substitute && !writable && group.may_act() }
    }
}

impl Shown<'_> {
    fn is_in_zone(&self, wanted: &str) -> bool {
        let has_master = self.acting || self.group.master().is_some();
        let same = self.group.zone.as_deref().is_some_and(|zone| equal_ignoring_case(zone, wanted));
        !has_master || same
    }

    fn put_group(&self, dialect: Dialect, out: &mut Vec<u8>) {
        let acting = if self.acting { self.group.encoded_acting(dialect) } else { None };
        out.extend_from_slice(acting.unwrap_or_else(|| self.group.encoded(dialect)));
    }
}

/// Queues that have been written, and where.
type Written = (Queues, Range<usize>);

/// Writes the rest of a `queueDatas` element, behind a group's [`Group::queue_head`]. A topic mostly
/// has the same queues everywhere: then it is a copy of the last one.
#[inline]
fn put_queues(out: &mut Vec<u8>, queues: Queues, last: Option<Written>) -> Written {
    if let Some((same, range)) = last
        && same == queues
    {
        out.extend_from_within(range.clone());
        return (same, range);
    }
    let start = out.len();
    put_int(out, queues.perm);
    out.extend_from_slice(b",\"readQueueNums\":");
    put_int(out, queues.read);
    out.extend_from_slice(b",\"topicSysFlag\":");
    put_int(out, queues.sys_flag);
    out.extend_from_slice(b",\"writeQueueNums\":");
    put_int(out, queues.write);
    out.push(b'}');
    (queues, start..out.len())
}

/// Ends a list whose elements each have a comma behind them.
#[inline]
fn close_list(out: &mut Vec<u8>) {
    match out.last_mut() {
        Some(comma @ b',') => *comma = b']',
        _ => out.push(b']'),
    }
}

/// Java's `equalsIgnoreCase` for the names people give to zones.
fn equal_ignoring_case(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

/// Writes `items` with commas between them.
pub(super) fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put(out, item);
    }
}

fn put_filters<'a>(out: &mut Vec<u8>, shown: impl Iterator<Item = Shown<'a>>, dialect: Dialect) {
    let mut entries: Vec<_> = shown.flat_map(|shown| &shown.group.filters).collect();
    if dialect == Dialect::Standard {
        entries.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
    }
    put_list(out, entries.into_iter(), |out, (_, encoded)| out.extend_from_slice(encoded));
}

fn put_mapping(out: &mut Vec<u8>, mapping: &QueueMapping, dialect: Dialect) {
    put_string(out, &mapping.broker);
    out.extend_from_slice(b":{\"bname\":");
    put_string(out, &mapping.broker);
    if let Some(ids) = &mapping.current_ids {
        out.extend_from_slice(b",\"currIdMap\":{");
        put_list(out, ids.iter(), |out, (global, local)| {
            put_int_key(out, (*global).into(), dialect);
            put_int(out, *local);
        });
        out.push(b'}');
    }
    out.extend_from_slice(if mapping.dirty { b",\"dirty\":true" } else { b",\"dirty\":false" });
    out.extend_from_slice(b",\"epoch\":");
    put_long(out, mapping.epoch, dialect);
    if let Some(scope) = &mapping.scope {
        out.extend_from_slice(b",\"scope\":");
        put_string(out, scope);
    }
    if let Some(topic) = &mapping.topic_member {
        out.extend_from_slice(b",\"topic\":");
        put_string(out, topic);
    }
    out.extend_from_slice(b",\"totalQueues\":");
    put_int(out, mapping.total_queues);
    out.push(b'}');
}

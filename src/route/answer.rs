//! Composes the answer to one route query (code 105) from encoded fragments.
//!
//! Nothing is cached, so nothing can be stale: a group's fragment is looked up at the moment of the
//! answer. The cost is that of copying the answer's bytes.

use std::ops::Range;

use crate::model::{Dialect, QueueMapping, Queues, perm};
use crate::wire::json::{put_int, put_list, put_long, put_string};

use super::fragment::{Group, put_int_key};
use super::topic::TopicRoute;
use super::view::{GroupSlot, RouteView};

/// Topics through which brokers look at their own group; their answers show the true ids (Java:
/// `TopicValidator`).
const SYNC_TOPIC_PREFIX: &[u8] = b"rmq_sys_SYNC_BROKER_MEMBER_";

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
    queues: Queues,
    acting: bool,
}

impl RouteView {
    /// Appends the `TopicRouteData` of a topic of this view to `out`.
    pub fn write_route(&self, route: TopicRoute<'_>, query: &RouteQuery<'_>, out: &mut Vec<u8>) {
        let substitute = query.acting_master && !route.name.starts_with(SYNC_TOPIC_PREFIX);
        let shown = || {
            let all = route.groups();
            let all = all.map(move |on| self.show(on.slot, on.queues, substitute));
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
            last = Some(put_queues(out, shown.queues, last.take()));
            out.push(b',');
        });
        close_list(out);
        if route.is_mapped() {
            // Of the groups in the answer; without a zone these are all.
            let is_shown = |one: &&QueueMapping| {
                query.zone.is_none() || shown().any(|shown| shown.group.name == one.broker)
            };
            let mut mappings = self.mappings_of(route).iter().filter(is_shown).peekable();
            if mappings.peek().is_some() {
                out.extend_from_slice(b",\"topicQueueMappingByBroker\":{");
                put_list(out, mappings, |out, one| put_mapping(out, one, query.dialect));
                out.push(b'}');
            }
        }
        out.push(b'}');
    }

    #[inline]
    fn show(&self, slot: GroupSlot, queues: Queues, substitute: bool) -> Shown<'_> {
        let group = self.at(slot);
        // A writable topic is left as it is: the slave that registered it does not act (protocol:
        // route query, step 5).
        let writable = queues.perm & perm::WRITE != 0;
        Shown { group, queues, acting: substitute && !writable && group.may_act() }
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

/// Writes the rest of a `queueDatas` element, behind its [`Group::queue_head`]. Mostly a topic
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
pub(super) fn close_list(out: &mut Vec<u8>) {
    match out.last_mut() {
        Some(comma @ b',') => *comma = b']',
        _ => out.push(b']'),
    }
}

/// Java's `equalsIgnoreCase` for the names people give to zones.
fn equal_ignoring_case(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
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

//! Whether two answers to the same request are the same: code, remark, fields and body, and the
//! bytes they are written in. Only what the Java server keeps in hash order may come in any order.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::frame::{Answer, Request};
use crate::support::json::{canonical, is_compact, parse};

use super::differences::{ZONE_DIALECT, ZONE_MAPPINGS};
use super::steps::Names;
use super::tables::{Tables, field, text};

/// What answers are compared with.
pub struct View<'a> {
    pub names: &'a Names,
    /// The tables at the time of the answers.
    pub tables: &'a Tables,
    /// Mappings that only the Java server still has: topic and group. Without a group: an empty
    /// entry of the topic.
    pub only_java: &'a BTreeSet<(String, Option<String>)>,
    /// Mappings that only guidepost has yet.
    pub only_ours: &'a BTreeSet<(String, Option<String>)>,
}

/// `Some` says how they differ.
pub fn difference(
    request: &Request,
    ours: &Answer,
    java: &Answer,
    view: &View<'_>,
) -> Option<String> {
    let found = differing_header(ours, java).or_else(|| differing_body(request, ours, java, view));
    found.map(|what| format!("{what}\n  ours: {}\n  java: {}", ours.text(), java.text()))
}

fn differing_header(ours: &Answer, java: &Answer) -> Option<String> {
    for name in ["code", "flag", "language", "version"] {
        if ours.fields[name] != java.fields[name] {
            return Some(format!("{name}: {} and {}", ours.fields[name], java.fields[name]));
        }
    }
    if ours.kind != java.kind {
        return Some(format!("serialization: {} and {}", ours.kind, java.kind));
    }
    let fields = |answer: &Answer| canonical(&answer.fields["extFields"], false, &[]);
    if fields(ours) != fields(java) {
        return Some("extFields".to_owned());
    }
    if is_java_error(java) {
        let told = ours.remark().is_some_and(|remark| !remark.is_empty());
        return (!told).then(|| "an error without a remark".to_owned());
    }
    if ours.remark() != java.remark() {
        return Some("remark".to_owned());
    }
    let letters = |answer: &Answer| match answer.kind {
        0 => {
            let header = String::from_utf8_lossy(&answer.header).into_owned();
            sorted(header.replace(&format!("\"opaque\":{}", answer.opaque()), "").as_bytes())
        }
        _ => vec![0; answer.header.len()],
    };
    (letters(ours) != letters(java)).then(|| "bytes of the header".to_owned())
}

/// The remark of an exception: class, message and place in the program (difference `error texts`).
pub fn is_java_error(answer: &Answer) -> bool {
    let class = answer.remark().and_then(|remark| remark.split([':', ',']).next());
    answer.code() == 1
        && class.is_some_and(|class| {
            let packages = ["java.lang.", "org.apache.rocketmq.", "com.alibaba.fastjson2."];
            let is_problem = class.ends_with("Exception") || class.ends_with("Error");
            is_problem && packages.iter().any(|package| class.starts_with(package))
        })
}

fn differing_body(
    request: &Request,
    ours: &Answer,
    java: &Answer,
    view: &View<'_>,
) -> Option<String> {
    if ours.body.is_empty() || java.body.is_empty() {
        return (ours.body != java.body).then(|| "body".to_owned());
    }
    let ((our_value, our_bare), (java_value, java_bare)) =
        match (parse(&ours.body), parse(&java.body)) {
            (Ok(ours), Ok(java)) => (ours, java),
            (Err(why), _) | (_, Err(why)) => return Some(format!("body is no JSON: {why}")),
        };
    let our_part = part(request, our_value.clone(), view, view.only_ours);
    let mut java_part = part(request, java_value.clone(), view, view.only_java);
    if asks_for_zone(request) {
        drop_foreign_mappings(&mut java_part);
    }
    let ordered = is_standard(request) && !asks_for_zone(request);
    if canonical(&our_part, ordered, &[]) != canonical(&java_part, ordered, &[]) {
        return Some("body".to_owned());
    }
    if !is_compact(&ours.body) {
        return Some("blanks in the body".to_owned());
    }
    if our_part != our_value || java_part != java_value {
        return None; // Something was left out: the bytes cannot be the same.
    }
    if is_standard(request) && asks_for_zone(request) {
        // Java's is in the legacy dialect: the bytes cannot be the same.
        return our_bare.then(|| "bare integer keys in our standard dialect".to_owned());
    }
    if our_bare != java_bare {
        return Some("quotes around the integer keys of the body".to_owned());
    }
    (sorted(&ours.body) != sorted(&java.body)).then(|| "bytes of the body".to_owned())
}

/// Equal for texts that differ only in the order of their parts.
fn sorted(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.sort_unstable();
    bytes
}

fn asks(request: &Request, name: &str) -> bool {
    field(request, name).eq_ignore_ascii_case("true")
}

/// Whether a route is asked for in the standard dialect, with maps in order.
fn is_standard(request: &Request) -> bool {
    let standard = request.version >= 401 || asks(request, "acceptStandardJsonOnly");
    request.code == 105 && standard
}

/// Whether a route is asked for in zone mode.
fn asks_for_zone(request: &Request) -> bool {
    let zone = asks(request, "__ZONE_MODE") && !field(request, "__ZONE_NAME").trim().is_empty();
    request.code == 105 && zone
}

/// The differences of zone mode in an answer of the Java server.
pub fn zone_differences(request: &Request, java: &Answer) -> Vec<&'static str> {
    if !asks_for_zone(request) || java.code() != 0 {
        return Vec::new();
    }
    let dialect = is_standard(request).then_some(ZONE_DIALECT);
    let mut body = parse(&java.body).map_or(Value::Null, |(body, _)| body);
    let whole = body.clone();
    drop_foreign_mappings(&mut body);
    dialect.into_iter().chain((body != whole).then_some(ZONE_MAPPINGS)).collect()
}

/// What guidepost's filter takes away and Java's leaves: mappings of brokers that are not in the
/// answer.
fn drop_foreign_mappings(body: &mut Value) {
    let brokers = body.get("brokerDatas").and_then(Value::as_array).into_iter().flatten();
    let shown: BTreeSet<String> = brokers.map(|broker| text(&broker["brokerName"])).collect();
    let Some(mappings) = body.get_mut("topicQueueMappingByBroker").and_then(Value::as_object_mut)
    else {
        return;
    };
    mappings.retain(|group, _| shown.contains(group));
    if mappings.is_empty() {
        body.as_object_mut().expect("just read").remove("topicQueueMappingByBroker");
    }
}

/// The part of a body that must be the same on both servers.
fn part(
    request: &Request,
    mut body: Value,
    view: &View<'_>,
    loose: &BTreeSet<(String, Option<String>)>,
) -> Value {
    let is_ours = |name: &str| name.contains(&view.names.mark);
    match request.code {
        105 => drop_loose_mappings(&field(request, "topic"), &mut body, loose),
        106 => {
            if let Some(groups) = body["brokerAddrTable"].as_object_mut() {
                groups.retain(|name, _| is_ours(name));
            }
            if let Some(clusters) = body["clusterAddrTable"].as_object_mut() {
                for list in clusters.values_mut().filter_map(Value::as_array_mut) {
                    list.retain(|name| name.as_str().is_some_and(is_ours));
                }
                clusters.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
            }
        }
        206 | 224 | 304 | 311..=313 => {
            let mixed =
                if request.code >= 311 { view.tables.mixed_flags() } else { BTreeSet::default() };
            if let Some(list) = body["topicList"].as_array_mut() {
                let hidden = request.code >= 311 && view.tables.routes_hidden;
                list.retain(|name| {
                    let name = name.as_str().unwrap_or_default();
                    is_ours(name) && !mixed.contains(name) && !hidden
                });
            }
            // Any address of any group; each server has its own.
            let known = text(&body["brokerAddr"]);
            let mut addrs = view.tables.groups.values().flat_map(|group| group.members.values());
            if addrs.any(|addr| *addr == known) {
                body["brokerAddr"] = Value::from("one of the group addresses");
            }
        }
        _ => {}
    }
    body
}

fn drop_loose_mappings(topic: &str, body: &mut Value, loose: &BTreeSet<(String, Option<String>)>) {
    let Some(mappings) = body["topicQueueMappingByBroker"].as_object_mut() else {
        if let Some(body) = body.as_object_mut() {
            body.remove("topicQueueMappingByBroker"); // Looking at it has made a null of it.
        }
        return;
    };
    let before = mappings.len();
    mappings.retain(|group, _| !loose.contains(&(topic.to_owned(), Some(group.clone()))));
    let empty_entry = before == 0 && loose.contains(&(topic.to_owned(), None));
    if mappings.is_empty() && (before > 0 || empty_entry) {
        body.as_object_mut().expect("just read").remove("topicQueueMappingByBroker");
    }
}

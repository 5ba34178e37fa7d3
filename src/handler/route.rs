//! Route queries (code 105; Java: `ClientRequestProcessor`, `ZoneRouteRPCHook`).

use std::sync::LazyLock;

use memchr::memmem::Finder;
use smallvec::SmallVec;

use crate::model::{Dialect, ORDER_NAMESPACE};
use crate::publish::View;
use crate::route::RouteQuery;
use crate::wire::code::response;
use crate::wire::{Command, FrameHead, HeaderKind, frame};

use super::Call;
use super::reply::Reply;

/// First version ordinal (4.9.4) that reads the standard dialect.
const STANDARD_JSON_VERSION: i32 = 401;

/// 105: the topic's route, or why there is none.
pub(super) fn query(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    let settings = &call.view.settings;
    if settings.need_wait_for_service {
        let wait_ms = settings.wait_seconds_for_service.saturating_mul(1000);
        if call.desk.uptime_ms() < wait_ms {
            return reply.fail(response::SYSTEM_ERROR, "name server not ready");
        }
    }
    let command = call.command;
    let topic = command.text("topic");
    let found = topic.and_then(|topic| call.view.routes.topic(topic).map(|route| (topic, route)));
    let Some((topic, route)) = found else {
        return reply.no_route(topic.unwrap_or("null"));
    };
    let query = RouteQuery {
        dialect: dialect_for(command),
        acting_master: settings.support_acting_master,
        order_conf: match settings.order_message_enable {
            true => call.view.kv.get(ORDER_NAMESPACE, topic),
            false => None,
        },
        zone: zone_of(command),
    };
    reply.body(|out| call.view.routes.write_route(route, &query, out));
}

/// Topics fetched at a time. More would push out of the nearest caches what the first need.
const FETCHED_AT_ONCE: usize = 64;

/// Prepares for the route queries in what was `received` on several connections, in a fleet with
/// more topics than a core's caches hold: finds out which topics they ask for, and fetches those
/// from memory together instead of one by one.
///
/// It only guesses: what is not in the usual spelling is left out, and a wrong guess costs time and
/// nothing else.
pub fn fetch_ahead<'a>(view: &View, received: impl Iterator<Item = &'a [u8]>) {
    if !view.routes.is_large() {
        return;
    }
    let mut topics: SmallVec<[&[u8]; FETCHED_AT_ONCE]> = SmallVec::new();
    for mut bytes in received {
        while let Ok(Some(head)) = frame::next(bytes) {
            let (frame, behind) = bytes.split_at(head.total_bytes);
            bytes = behind;
            topics.extend(likely_topic(&head, frame));
            if topics.len() == FETCHED_AT_ONCE {
                view.routes.fetch(&topics);
                topics.clear();
            }
        }
    }
    // One topic alone is fetched by looking it up.
    if topics.len() > 1 {
        view.routes.fetch(&topics);
    }
}

/// The value of the first field that looks like `topic`.
fn likely_topic<'a>(head: &FrameHead, frame: &'a [u8]) -> Option<&'a [u8]> {
    static IN_JSON: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"topic\":\""));
    static IN_BINARY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\x00\x05topic"));
    let header = frame.get(frame::PREFIX_BYTES..)?.get(..head.header_bytes)?;
    let behind = |finder: &Finder<'_>| header.get(finder.find(header)? + finder.needle().len()..);
    match head.kind {
        HeaderKind::Json => {
            let value = behind(&IN_JSON)?;
            value.get(..memchr::memchr(b'"', value)?)
        }
        HeaderKind::Binary => {
            let (length, value) = behind(&IN_BINARY)?.split_first_chunk()?;
            value.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)
        }
    }
}

/// The zone to filter by, if the request asks for it.
fn zone_of<'a>(command: &'a Command<'_>) -> Option<&'a str> {
    if command.boolean("__ZONE_MODE") != Some(true) {
        return None;
    }
    command.text("__ZONE_NAME").filter(|name| !name.trim().is_empty())
}

fn dialect_for(command: &Command<'_>) -> Dialect {
    let reads_standard = command.version >= STANDARD_JSON_VERSION
        || command.boolean("acceptStandardJsonOnly") == Some(true);
    if reads_standard { Dialect::Standard } else { Dialect::Legacy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;

    fn guessed(bytes: &[u8]) -> Option<&[u8]> {
        let head = frame::next(bytes).expect("well formed").expect("complete");
        likely_topic(&head, bytes)
    }

    #[test]
    fn the_topic_of_a_query_is_seen_without_decoding_it() {
        for kind in [HeaderKind::Json, HeaderKind::Binary] {
            let with = |ext: &[(&str, &str)], body: &[u8]| {
                let mut out = Vec::new();
                let request = Request { code: 105, ext, body, ..Request::default() };
                request.encode(kind, &mut out);
                guessed(&out).map(<[u8]>::to_vec)
            };
            let usual = [("acceptStandardJsonOnly", "true"), ("topic", "orders")];
            assert_eq!(with(&usual, b""), Some(b"orders".to_vec()));
            assert_eq!(with(&[("topic", "")], b""), Some(Vec::new()));
            assert_eq!(with(&[("topics", "orders")], b""), None);
            assert_eq!(with(&[], b"\"topic\":\"orders\" \x00\x05topic\0\0\0\x06orders"), None);
        }
    }

    #[test]
    fn a_field_that_does_not_end_is_no_topic() {
        let headers = [&b"\x00{\"topic\":\"ord"[..], b"\x01\x00\x05topic\xff\xff\xff\xfford"];
        for header in headers {
            let (kind, header) = header.split_first().expect("not empty");
            let bytes = u8::try_from(header.len()).expect("short");
            let mut frame = vec![0, 0, 0, bytes + 4, *kind, 0, 0, bytes];
            frame.extend_from_slice(header);
            assert_eq!(guessed(&frame), None);
        }
    }
}

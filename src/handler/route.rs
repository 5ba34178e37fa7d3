//! Route queries (code 105; Java: `ClientRequestProcessor`, `ZoneRouteRPCHook`).

use crate::model::{Dialect, ORDER_NAMESPACE};
use crate::route::RouteQuery;
use crate::wire::Command;
use crate::wire::code::response;

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

//! Clusters (106), and the write permission of a whole group (205, 327).

use crate::ids::BrokerName;
use crate::writer::request::WriteOp;

use super::reply::Reply;
use super::{Call, Dispatch};

/// 106: one consistent moment, where Java may mix several.
pub(super) fn info(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    reply.body(|out| call.view.routes.write_cluster_info(out));
}

/// 205 and 327. A missing name counts as an unknown broker's: success, no topics touched.
pub(super) fn write_perm(call: &mut Call<'_, '_>, reply: Reply<'_>, on: bool) -> Dispatch {
    let broker = BrokerName::from(call.command.text("brokerName").unwrap_or_default());
    call.desk.submit(call.conn, reply, WriteOp::SetWritePerm { broker, on })
}

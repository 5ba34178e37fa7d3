//! Settings over the wire: 318 changes the live ones if that is allowed, 319 lists all.

use crate::writer::request::WriteOp;

use super::reply::Reply;
use super::{Call, Dispatch};

/// 318. Without a body it does nothing, as in Java; otherwise the writer decides.
pub(super) fn update(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    if call.command.body.is_empty() {
        reply.success();
        return Dispatch::Done;
    }
    let body = call.command.body_bytes();
    call.desk.submit(call.conn, reply, WriteOp::UpdateSettings { body })
}

/// 319: `key=value` lines, sorted.
pub(super) fn listing(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    reply.body(|out| call.view.settings.listing(out));
}

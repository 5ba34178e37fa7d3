//! The KV table: 100, 101, 102, 219 (Java: `KVConfigManager`). Writes are answered once they are on
//! disk.

use crate::wire::code::response;
use crate::writer::request::WriteOp;

use super::reply::Reply;
use super::{Call, Dispatch};

/// 100.
pub(super) fn put(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    let command = call.command;
    let (Some(namespace), Some(key)) = (command.text("namespace"), command.text("key")) else {
        reply.fail(response::SYSTEM_ERROR, "namespace or key is null");
        return Dispatch::Done;
    };
    let op = WriteOp::PutKv {
        namespace: namespace.to_owned(),
        key: key.to_owned(),
        value: command.text("value").map(str::to_owned),
    };
    call.desk.submit(call.conn, reply, op)
}

/// 101.
pub(super) fn get(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    let (namespace, key) = (call.command.text("namespace"), call.command.text("key"));
    let value = namespace.zip(key).and_then(|(namespace, key)| call.view.kv.get(namespace, key));
    if let Some(value) = value {
        return reply.success_with(&[("value", value)]);
    }
    let (namespace, key) = (namespace.unwrap_or("null"), key.unwrap_or("null"));
    let text = format_args!("No config item, Namespace: {namespace} Key: {key}");
    reply.fail_with_ext(response::QUERY_NOT_FOUND, call.desk.text(text));
}

/// 102: success also for what is not there.
pub(super) fn delete(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    let command = call.command;
    let (Some(namespace), Some(key)) = (command.text("namespace"), command.text("key")) else {
        reply.success();
        return Dispatch::Done;
    };
    let op = WriteOp::DeleteKv { namespace: namespace.to_owned(), key: key.to_owned() };
    call.desk.submit(call.conn, reply, op)
}

/// 219.
pub(super) fn list(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    let namespace = call.command.text("namespace");
    let table = namespace.and_then(|namespace| call.view.kv.encoded(namespace));
    if let Some(table) = table {
        return reply.body(|out| out.extend_from_slice(table));
    }
    let namespace = namespace.unwrap_or("null");
    let text = format_args!("No config item, Namespace: {namespace}");
    reply.fail(response::QUERY_NOT_FOUND, call.desk.text(text));
}

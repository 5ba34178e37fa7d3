//! From a command to a reply: read codes are answered from the view at once, write codes go to the
//! writer.
//!
//! One file a family. A handler gets the command, the view and a [`Reply`] to fill in; it never
//! sees a socket, and never changes a table.

mod access;
mod broker;
mod cluster;
mod desk;
mod kv;
mod names;
mod reply;
mod route;
mod settings;
mod topic;

pub use access::refuse;
pub use desk::Desk;
pub use route::fetch_ahead;

use crate::ids::ConnKey;
use crate::limits::NAME_BYTES_MAX;
use crate::publish::View;
use crate::wire::Command;
use crate::wire::code::{self, request, response};

use reply::Reply;

/// How a request ended for the shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dispatch {
    /// Its reply, if it gets one, is in the output.
    Done,
    /// The writer has it, and no answer is wanted.
    Sent,
    /// The writer has it, and an answer will come.
    Owed,
}

/// Handles one request: appends its reply to `out`, or hands it to the writer.
pub fn dispatch(
    command: &Command<'_>,
    conn: ConnKey,
    view: &View,
    desk: &mut Desk,
    out: &mut Vec<u8>,
) -> Dispatch {
    if command.is_response() {
        // An answer to nothing we asked (Java logs and drops it).
        return Dispatch::Done;
    }
    if command.is_oneway() && !code::is_write(command.code) {
        // Nobody would see the answer.
        return Dispatch::Done;
    }
    let mut call = Call { command, conn, view, desk };
    let mut reply = Reply::to(command, call.desk, out);
    if code::is_write(command.code)
        && let Some(field) = names::too_long(command)
    {
        let remark = format_args!("{field} is longer than {NAME_BYTES_MAX} bytes");
        reply.fail(response::SYSTEM_ERROR, call.desk.text(remark));
        return Dispatch::Done;
    }
    match command.code {
        request::GET_ROUTEINFO_BY_TOPIC => route::query(&mut call, &mut reply),

        request::REGISTER_BROKER => return broker::register(&mut call, reply),
        request::UNREGISTER_BROKER => return broker::unregister(&mut call, reply),
        request::BROKER_HEARTBEAT => return broker::heartbeat(&mut call, reply),
        request::QUERY_DATA_VERSION => return broker::query_data_version(&mut call, reply),
        request::GET_BROKER_MEMBER_GROUP => broker::member_group(&mut call, &mut reply),

        request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => return topic::all(&mut call, reply),
        request::GET_TOPICS_BY_CLUSTER => return topic::of_cluster(&mut call, reply),
        request::GET_SYSTEM_TOPIC_LIST_FROM_NS => topic::system(&mut call, &mut reply),
        request::GET_UNIT_TOPIC_LIST
        | request::GET_HAS_UNIT_SUB_TOPIC_LIST
        | request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => return topic::unit(&mut call, reply),
        request::REGISTER_TOPIC_IN_NAMESRV => return topic::register(&mut call, reply),
        request::DELETE_TOPIC_IN_NAMESRV => return topic::delete(&mut call, reply),

        request::GET_BROKER_CLUSTER_INFO => cluster::info(&mut call, &mut reply),
        request::WIPE_WRITE_PERM_OF_BROKER => return cluster::write_perm(&mut call, reply, false),
        request::ADD_WRITE_PERM_OF_BROKER => return cluster::write_perm(&mut call, reply, true),

        request::PUT_KV_CONFIG => return kv::put(&mut call, reply),
        request::GET_KV_CONFIG => kv::get(&mut call, &mut reply),
        request::DELETE_KV_CONFIG => return kv::delete(&mut call, reply),
        request::GET_KVLIST_BY_NAMESPACE => kv::list(&mut call, &mut reply),

        request::UPDATE_NAMESRV_CONFIG => return settings::update(&mut call, reply),
        request::GET_NAMESRV_CONFIG => settings::listing(&mut call, &mut reply),

        other => {
            let remark = call.desk.text(format_args!(" request type {other} not supported"));
            reply.fail(response::REQUEST_CODE_NOT_SUPPORTED, remark);
        }
    }
    Dispatch::Done
}

/// One request and what it may be answered from.
struct Call<'a, 'c> {
    command: &'a Command<'c>,
    conn: ConnKey,
    view: &'a View,
    desk: &'a mut Desk,
}

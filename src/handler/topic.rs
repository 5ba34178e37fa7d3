//! Topic lists (206, 224, 304, 311 to 313), and topics registered or deleted one by one (217, 216).

use crate::ids::{ClusterName, Topic};
use crate::route::UnitList;
use crate::wire::code::{request, response};
use crate::writer::request::WriteOp;

use super::reply::Reply;
use super::{Call, Dispatch};

/// Remark of a list that a setting switches off.
const DISABLED: &str = "disable";

/// 206: all topics, unless `enableAllTopicList` is off.
pub(super) fn all(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    if !call.view.settings.enable_all_topic_list {
        return reply.fail(response::SYSTEM_ERROR, DISABLED);
    }
    reply.body(|out| call.view.routes.write_topics(out));
}

/// 224: the topics of one cluster, unless `enableTopicList` is off. An unknown cluster has none.
pub(super) fn of_cluster(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    if !call.view.settings.enable_topic_list {
        return reply.fail(response::SYSTEM_ERROR, DISABLED);
    }
    let cluster = call.command.text("cluster");
    reply.body(|out| call.view.routes.write_topics_of_cluster(cluster, out));
}

/// 304: names of clusters and groups, and whom to ask for the rest.
pub(super) fn system(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    reply.body(|out| call.view.routes.write_system_topics(out));
}

/// 311, 312, 313, unless `enableTopicList` is off.
pub(super) fn unit(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    if !call.view.settings.enable_topic_list {
        return reply.fail(response::SYSTEM_ERROR, DISABLED);
    }
    let list = match call.command.code {
        request::GET_UNIT_TOPIC_LIST => UnitList::Unit,
        request::GET_HAS_UNIT_SUB_TOPIC_LIST => UnitList::UnitSub,
        _ => UnitList::UnitSubNotUnit,
    };
    reply.body(|out| call.view.routes.write_unit_topics(list, out));
}

/// 217. Without a body, as some ancient clients send the code, it does nothing.
pub(super) fn register(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    let topic = call.command.text("topic");
    match topic.filter(|_| !call.command.body.is_empty()) {
        Some(topic) => {
            let body = call.command.body_bytes();
            let op = WriteOp::RegisterTopic { topic: Topic::from(topic), body };
            call.desk.submit(call.conn, reply, op)
        }
        None => {
            reply.success();
            Dispatch::Done
        }
    }
}

/// 216: success also for a topic that is not there.
pub(super) fn delete(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    match call.command.text("topic") {
        Some(topic) => {
            let cluster = call.command.text("clusterName").filter(|name| !name.is_empty());
            let cluster = cluster.map(ClusterName::from);
            let op = WriteOp::DeleteTopic { topic: Topic::from(topic), cluster };
            call.desk.submit(call.conn, reply, op)
        }
        None => {
            reply.success();
            Dispatch::Done
        }
    }
}

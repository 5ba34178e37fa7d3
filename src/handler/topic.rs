//! Topic lists (206, 224, 304, 311 to 313), and topics registered or deleted one by one (217, 216).

use crate::ids::{ClusterName, Topic};
use crate::route::{TopicList, UnitList};
use crate::wire::code::{request, response};
use crate::writer::request::WriteOp;

use super::reply::Reply;
use super::{Call, Dispatch};

/// Remark of a list that a setting switches off.
const DISABLED: &str = "disable";

/// Most topics among which a shard looks for those of a list itself, which takes it less than a
/// millisecond. With more the writer does, piece by piece, so that queries are not held up.
const LISTED_AT_ONCE: usize = 4096;

/// 206: all topics, unless `enableAllTopicList` is off.
pub(super) fn all(call: &mut Call<'_, '_>, reply: Reply<'_>) -> Dispatch {
    let enabled = call.view.settings.enable_all_topic_list;
    list(call, reply, enabled, TopicList::All)
}

/// 224: the topics of one cluster, unless `enableTopicList` is off. An unknown cluster has none.
pub(super) fn of_cluster(call: &mut Call<'_, '_>, reply: Reply<'_>) -> Dispatch {
    let enabled = call.view.settings.enable_topic_list;
    let cluster = call.command.text("cluster").map(ClusterName::from);
    list(call, reply, enabled, TopicList::OfCluster(cluster))
}

/// 304: names of clusters and groups, and whom to ask for the rest.
pub(super) fn system(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    reply.body(|out| call.view.routes.write_system_topics(out));
}

/// 311, 312, 313, unless `enableTopicList` is off.
pub(super) fn unit(call: &mut Call<'_, '_>, reply: Reply<'_>) -> Dispatch {
    let list_of = match call.command.code {
        request::GET_UNIT_TOPIC_LIST => UnitList::Unit,
        request::GET_HAS_UNIT_SUB_TOPIC_LIST => UnitList::UnitSub,
        _ => UnitList::UnitSubNotUnit,
    };
    let enabled = call.view.settings.enable_topic_list;
    list(call, reply, enabled, TopicList::Unit(list_of))
}

fn list(call: &mut Call<'_, '_>, mut reply: Reply<'_>, enabled: bool, list: TopicList) -> Dispatch {
    if !enabled {
        reply.fail(response::SYSTEM_ERROR, DISABLED);
    } else if call.view.routes.topic_count() > LISTED_AT_ONCE {
        return call.desk.submit(call.conn, reply, WriteOp::ListTopics(list));
    } else {
        reply.body(|out| call.view.routes.write_topic_list(&list, out));
    }
    Dispatch::Done
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

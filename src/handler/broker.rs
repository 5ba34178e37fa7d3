//! What brokers send: 103, 104, 322, 901, 904.

use crate::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName};
use crate::wire::code::response;
use crate::writer::request::{RegisterRequest, WriteOp};

use super::reply::Reply;
use super::{Call, Dispatch};

/// 103: the header is decoded here, the body by the writer. A request that names no broker is
/// refused; Java registers half of it.
pub(super) fn register(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    let command = call.command;
    let request = (|| {
        if command.version < 0 {
            return Err("version is negative");
        }
        Ok(RegisterRequest {
            cluster: ClusterName::from(named(call, "clusterName").ok_or("clusterName is missing")?),
            broker: BrokerName::from(named(call, "brokerName").ok_or("brokerName is missing")?),
            addr: BrokerAddr::from(named(call, "brokerAddr").ok_or("brokerAddr is missing")?),
            id: BrokerId(command.long("brokerId").ok_or("brokerId is missing or no number")?),
            ha_addr: command.text("haServerAddr").map(str::to_owned),
            heartbeat_timeout_ms: command.long("heartbeatTimeoutMillis"),
            acting_master: command.boolean("enableActingMaster"),
            zone: command.text("__ZONE_NAME").map(str::to_owned),
            compressed: command.boolean("compressed") == Some(true),
            body_crc32: command.int("bodyCrc32").unwrap_or(0),
            version: command.version,
            body: command.body_bytes(),
        })
    })();
    match request {
        Ok(request) => call.desk.submit(call.conn, reply, WriteOp::Register(Box::new(request))),
        Err(reason) => {
            let remark = call.desk.text(format_args!("register broker failed: {reason}"));
            reply.fail(response::SYSTEM_ERROR, remark);
            Dispatch::Done
        }
    }
}

/// 104: done when it is answered; Java only queues it.
pub(super) fn unregister(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    let id = call.command.long("brokerId").map(BrokerId);
    let names = (named(call, "clusterName"), named(call, "brokerName"), named(call, "brokerAddr"));
    let ((Some(cluster), Some(broker), Some(addr)), Some(id)) = (names, id) else {
        let remark = "unregister broker failed: clusterName, brokerName, brokerAddr and brokerId \
                      are needed";
        reply.fail(response::SYSTEM_ERROR, remark);
        return Dispatch::Done;
    };
    let op = WriteOp::Unregister {
        cluster: cluster.into(),
        addr: addr.into(),
        broker: broker.into(),
        id,
    };
    call.desk.submit(call.conn, reply, op)
}

/// 904: success whether the broker is known or not, as in Java.
pub(super) fn heartbeat(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    match (named(call, "clusterName"), named(call, "brokerAddr")) {
        (Some(cluster), Some(addr)) => {
            let (cluster, addr) = shared_names(call, cluster, addr);
            call.desk.submit(call.conn, reply, WriteOp::Heartbeat { cluster, addr })
        }
        _ => {
            reply.fail(response::SYSTEM_ERROR, "clusterName and brokerAddr are needed");
            Dispatch::Done
        }
    }
}

/// The names as the view holds them, if the broker is registered under its group: sharing them
/// allocates nothing here, and leaves the writer nothing to free that belongs to another core.
fn shared_names(call: &Call<'_, '_>, cluster: &str, addr: &str) -> (ClusterName, BrokerAddr) {
    let group = named(call, "brokerName").and_then(|name| call.view.routes.group(name));
    let known = group.map(|group| &group.cluster).filter(|known| ***known == *cluster);
    let cluster = known.cloned().unwrap_or_else(|| cluster.into());
    let known = group.and_then(|group| group.addrs.iter().find(|(_, known)| **known == *addr));
    let addr = known.map_or_else(|| addr.into(), |(_, known)| known.clone());
    (cluster, addr)
}

/// 322: refreshes liveness too, so it goes to the writer.
pub(super) fn query_data_version(call: &mut Call<'_, '_>, mut reply: Reply<'_>) -> Dispatch {
    match (named(call, "clusterName"), named(call, "brokerAddr")) {
        (Some(cluster), Some(addr)) => {
            let body = call.command.body_bytes();
            let op = WriteOp::QueryDataVersion { cluster: cluster.into(), addr: addr.into(), body };
            call.desk.submit(call.conn, reply, op)
        }
        _ => {
            reply.fail(response::SYSTEM_ERROR, "clusterName and brokerAddr are needed");
            Dispatch::Done
        }
    }
}

/// 901. The remark is a left-over of Java's that is part of its answer.
pub(super) fn member_group(call: &mut Call<'_, '_>, reply: &mut Reply<'_>) {
    let cluster = call.command.text("clusterName");
    let broker = call.command.text("brokerName");
    let routes = &call.view.routes;
    let write = |out: &mut Vec<u8>| routes.write_member_group(cluster, broker, out);
    reply.body_with_remark("not set any response code", write);
}

/// A field that has to name something.
fn named<'a>(call: &Call<'a, '_>, field: &str) -> Option<&'a str> {
    call.command.text(field).filter(|text| !text.is_empty())
}

//! What a shard asks of the writer, and what it gets back. Nothing here borrows from a receive
//! buffer.

use std::borrow::Cow;

use bytes::Bytes;

use crate::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName, ConnKey, Opaque, Topic};
use crate::route::TopicList;

/// One change (or liveness sign) from a connection.
#[derive(Debug)]
pub struct WriteRequest {
    /// The connection it came on.
    pub conn: ConnKey,
    /// Whom to answer; `None` for a one-way request and for events.
    pub reply_to: Option<Opaque>,
    /// What is asked.
    pub op: WriteOp,
}

/// What is asked of the writer.
#[derive(Debug)]
pub enum WriteOp {
    /// 103.
    Register(Box<RegisterRequest>),
    /// 104.
    Unregister {
        /// `clusterName`.
        cluster: ClusterName,
        /// `brokerAddr`.
        addr: BrokerAddr,
        /// `brokerName`.
        broker: BrokerName,
        /// `brokerId`.
        id: BrokerId,
    },
    /// 904.
    Heartbeat {
        /// `clusterName`.
        cluster: ClusterName,
        /// `brokerAddr`.
        addr: BrokerAddr,
    },
    /// 322; the body is a `DataVersion` in JSON.
    QueryDataVersion {
        /// `clusterName`.
        cluster: ClusterName,
        /// `brokerAddr`.
        addr: BrokerAddr,
        /// Body as received, perhaps empty.
        body: Bytes,
    },
    /// 217; the body is a `TopicRouteData` in JSON.
    RegisterTopic {
        /// `topic`.
        topic: Topic,
        /// Body as received, not empty.
        body: Bytes,
    },
    /// 216.
    DeleteTopic {
        /// `topic`.
        topic: Topic,
        /// `clusterName`: only in this cluster; `None` if absent or empty.
        cluster: Option<ClusterName>,
    },
    /// 205 (off) and 327 (on).
    SetWritePerm {
        /// `brokerName`.
        broker: BrokerName,
        /// True for 327.
        on: bool,
    },
    /// 100.
    PutKv {
        /// `namespace`.
        namespace: String,
        /// `key`.
        key: String,
        /// `value`; `None` hides the key (Java stores a null).
        value: Option<String>,
    },
    /// 102.
    DeleteKv {
        /// `namespace`.
        namespace: String,
        /// `key`.
        key: String,
    },
    /// 318; the body is properties text.
    UpdateSettings {
        /// Body as received, not empty.
        body: Bytes,
    },
    /// 206, 224, 311 to 313, where there are many topics. Changes nothing: the writer has the time.
    ListTopics(TopicList),
    /// The connection is gone; all brokers registered over it are.
    ConnectionClosed,
}

/// 103 with its header decoded and its body as it came.
#[derive(Debug)]
pub struct RegisterRequest {
    /// `clusterName`.
    pub cluster: ClusterName,
    /// `brokerName`.
    pub broker: BrokerName,
    /// `brokerAddr`.
    pub addr: BrokerAddr,
    /// `brokerId`.
    pub id: BrokerId,
    /// `haServerAddr`.
    pub ha_addr: Option<String>,
    /// `heartbeatTimeoutMillis`.
    pub heartbeat_timeout_ms: Option<i64>,
    /// `enableActingMaster`; its absence marks an old broker.
    pub acting_master: Option<bool>,
    /// `__ZONE_NAME`.
    pub zone: Option<String>,
    /// `compressed`.
    pub compressed: bool,
    /// `bodyCrc32`; 0 disables the check.
    pub body_crc32: i32,
    /// Version ordinal of the sender, not negative.
    pub version: i32,
    /// Body as received, perhaps empty.
    pub body: Bytes,
}

/// An answer of the writer to one [`WriteRequest`] that asked for one.
#[derive(Debug)]
pub struct WriteAnswer {
    /// The connection that asked.
    pub conn: ConnKey,
    /// Its request.
    pub opaque: Opaque,
    /// Response code.
    pub code: i32,
    /// Text for people.
    pub remark: Option<Cow<'static, str>>,
    /// `extFields`: `None` if the answer has no header class, else its members that are set.
    pub ext: Option<Vec<(&'static str, String)>>,
    /// Body, perhaps empty.
    pub body: Bytes,
}

/// What the writer sends to a shard.
#[derive(Debug)]
pub enum ToShard {
    /// Deliver this answer, if the connection is still the same.
    Answer(WriteAnswer),
    /// Close this connection: its broker has been silent for too long.
    Close(ConnKey),
}

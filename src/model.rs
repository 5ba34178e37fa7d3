//! Plain values that both the wire and the tables speak of. No logic, no encoding.

use crate::ids::{BrokerAddr, BrokerId, BrokerName, Topic};

/// Namespace of the KV table that holds the queues of ordered topics (Java: `NamesrvUtil`).
pub const ORDER_NAMESPACE: &str = "ORDER_TOPIC_CONFIG";

/// How a broker numbers its topic table. Two versions are equal only if all three numbers are
/// (Java: `DataVersion`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DataVersion {
    /// State-machine version of the broker's store; grows with each change of master.
    pub state_version: i64,
    /// Milliseconds since 1970 on the broker.
    pub timestamp: i64,
    /// Changes so far; `None` if the peer sent an explicit null.
    pub counter: Option<i64>,
}

/// One topic as a broker registers it: the members the NameServer keeps (Java: `TopicConfig`,
/// `QueueData`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopicConfig {
    /// The topic's name; wins over the key of the table it stood in.
    pub topic: Topic,
    /// How its queues look on the registering broker.
    pub queues: Queues,
}

/// A topic's queues on one group of brokers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Queues {
    /// Queues a consumer may read.
    pub read: i32,
    /// Queues a producer may write.
    pub write: i32,
    /// Permission bits, see [`perm`].
    pub perm: i32,
    /// `topicSysFlag`: bit 0 unit, bit 1 unit-sub (Java: `TopicSysFlag`).
    pub sys_flag: i32,
}

/// Permission bits (Java: `PermName`).
pub mod perm {
    /// Consumers may read.
    pub const READ: i32 = 4;
    /// Producers may write.
    pub const WRITE: i32 = 2;
}

/// `topicSysFlag` bits (Java: `TopicSysFlag`).
pub mod sys_flag {
    /// The topic belongs to a unit.
    pub const UNIT: i32 = 1;
    /// The topic has unit subscriptions.
    pub const UNIT_SUB: i32 = 2;
}

/// Queues of one named group, as code 217 sends them (Java: `QueueData`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueData {
    /// The group.
    pub broker: BrokerName,
    /// Its queues.
    pub queues: Queues,
}

/// Which part of a static topic lives on a group (Java: `TopicQueueMappingInfo`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueMapping {
    /// Key under which the info was registered: the topic.
    pub topic: Topic,
    /// `topic` member of the info itself, usually the same.
    pub topic_member: Option<String>,
    /// `bname`: the group the mapping belongs to.
    pub broker: BrokerName,
    /// `totalQueues`.
    pub total_queues: i32,
    /// `epoch`.
    pub epoch: i64,
    /// `dirty`.
    pub dirty: bool,
    /// `scope`, `__global__` unless given.
    pub scope: Option<String>,
    /// `currIdMap`: global queue id to local queue id, in the order of the global ids; `None` if
    /// null.
    pub current_ids: Option<Vec<(i32, i32)>>,
}

/// What brokers are told when another one has the smallest id of their group (code 905; Java:
/// `NotifyMinBrokerIdChangeRequestHeader`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Whom to tell.
    pub targets: Vec<BrokerAddr>,
    /// `minBrokerId`.
    pub min_id: BrokerId,
    /// `minBrokerAddr`: where the broker with that id is.
    pub min_addr: BrokerAddr,
    /// `offlineBrokerAddr`: who had the smallest id and went.
    pub offline: Option<BrokerAddr>,
    /// `haBrokerAddr`: the `haServerAddr` of the broker that registered with the smallest id.
    pub ha: Option<String>,
}

/// How maps with integer keys and big numbers are written (`RemotingSerializable`; protocol:
/// request version 401).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dialect {
    /// Integer keys bare, big numbers as they are: what clients before 4.9.4 expect. Not valid
    /// JSON.
    Legacy,
    /// Integer keys quoted, map entries sorted, numbers beyond 2^53-1 quoted.
    Standard,
}

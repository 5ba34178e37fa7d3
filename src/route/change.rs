//! What goes into the table and what comes out of it, as plain values.

use smallvec::SmallVec;

use crate::ids::{BrokerAddr, BrokerId, BrokerName, ClusterName, MemberKey};
use crate::model::{DataVersion, QueueMapping, TopicConfig};

/// One decoded and checked registration (Java: the arguments of `RouteInfoManager.registerBroker`).
#[derive(Clone, Debug)]
pub struct Registration {
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
    /// `enableActingMaster`; `None` marks an old broker, whose slaves never create topics.
    pub acting_master: Option<bool>,
    /// `__ZONE_NAME`.
    pub zone: Option<String>,
    /// `None` if the peer sent an explicit null: then every later registration counts as changed.
    pub data_version: Option<DataVersion>,
    /// The broker's topics, each name once.
    pub topics: Vec<TopicConfig>,
    /// Parts of static topics.
    pub mappings: Vec<QueueMapping>,
    /// Filter servers; `None` leaves the stored ones as they are.
    pub filter_servers: Option<Vec<String>>,
    /// `deleteTopicWithBrokerRegistration`: topics of this group that are missing here go.
    pub delete_missing_topics: bool,
    /// Identifies the request's whole content, see [`super::RouteTable::recognise`].
    pub digest: u128,
}

/// An accepted registration.
#[derive(Clone, Debug)]
pub struct Registered {
    /// The broker.
    pub member: MemberKey,
    /// The group's master, told to slaves.
    pub master: Option<Master>,
    /// Brokers that the registration put out of the table.
    pub displaced: SmallVec<[MemberKey; 2]>,
}

/// Where a slave finds its master.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Master {
    /// `masterAddr`.
    pub addr: BrokerAddr,
    /// The master's `haServerAddr`.
    pub ha_addr: Option<String>,
}

/// A registration that was not accepted. The table is as it was, but for `displaced`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// One topic from a broker that is not in the table is an increment, and must not pass for a
    /// full registration.
    SingleTopic,
    /// The id is held by another address whose store is in a newer state. Java answers success
    /// without values, and forgets the claimant: so do we.
    Stale {
        /// The claimant, if it was in the table under another id.
        displaced: Option<MemberKey>,
    },
}

/// A broker that asks to go (code 104).
#[derive(Clone, Debug)]
pub struct Departure {
    /// `brokerName`.
    pub broker: BrokerName,
    /// `brokerAddr`.
    pub addr: BrokerAddr,
}

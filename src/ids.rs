//! The small values everything else is named by. Cheap to copy or to clone; none of them knows the
//! wire.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(Arc::from(text))
            }
        }

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

name_type!(
    /// A topic's name.
    Topic
);
name_type!(
    /// A cluster's name.
    ClusterName
);
name_type!(
    /// The name shared by a master and its slaves: the name of a group of brokers.
    BrokerName
);
name_type!(
    /// A broker's `ip:port` as it announces itself; parsed by nobody but [`crate::notify`], which
    /// connects to it.
    BrokerAddr
);

/// A broker's number inside its group; 0 is the master. Any `i64` is accepted, as in Java.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BrokerId(pub i64);

impl BrokerId {
    /// The id of a group's master (Java: `MixAll.MASTER_ID`).
    pub const MASTER: BrokerId = BrokerId(0);
}

/// The correlation number a requester chose; its answer carries the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Opaque(pub i32);

/// Which shard: an index from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardId(pub u16);

/// One accepted connection, for as long as the process lives: a slot that is used again has another
/// generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnKey {
    /// The shard that owns the connection.
    pub shard: ShardId,
    /// Index into the shard's slab of connections.
    pub slot: u32,
    /// Counts how often the slot was filled.
    pub generation: u32,
}

impl ConnKey {
    /// No connection: that of a broker which has not spoken since the server started.
    pub const NONE: ConnKey =
        ConnKey { shard: ShardId(u16::MAX), slot: u32::MAX, generation: u32::MAX };
}

/// One registered broker process, (group, address), for as long as it stays registered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberKey {
    /// Index into the route table's slab of members.
    pub slot: u32,
    /// Counts how often the slot was filled.
    pub generation: u32,
}

/// Numbers published views; grows by one with each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Generation(pub u64);

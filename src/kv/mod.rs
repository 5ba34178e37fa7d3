//! The KV table: namespaces of keys and values that tools keep in the name server (Java:
//! `KVConfigManager`).
//!
//! ```text
//! changes --> KvDraft (refuses what does not fit) --> KvTable --> file
//!                                                        |
//!                                                        +--> KvView, once the file is safe
//! ```
//!
//! Both forms share their maps, so a change copies one path of each and encodes only the namespaces
//! it touched.
//!
//! **Never:** touches a file; publishes itself.

mod file;
mod size;
mod table;
mod view;

use std::fmt;

pub use self::table::{KvDraft, KvTable};
pub use self::view::KvView;
use crate::limits::{KV_BYTES_MAX, KV_KEYS_MAX, KV_NAMESPACES_MAX};

/// One change of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KvChange {
    /// 100. Afterwards the namespace exists.
    Put {
        /// The namespace.
        namespace: String,
        /// The key.
        key: String,
        /// The value; `None` removes the key (Java stores a null, which reads as not found and is
        /// never written).
        value: Option<String>,
    },
    /// 102. What is not there stays so; a namespace that lost its last key stays, empty.
    Delete {
        /// The namespace.
        namespace: String,
        /// The key.
        key: String,
    },
}

/// Why a change was refused: the table would grow beyond a bound. Its text is for the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KvRefusal {
    /// Beyond [`KV_BYTES_MAX`].
    Bytes,
    /// Beyond [`KV_KEYS_MAX`].
    Keys,
    /// Beyond [`KV_NAMESPACES_MAX`].
    Namespaces,
}

impl fmt::Display for KvRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, what) = match self {
            KvRefusal::Bytes => (KV_BYTES_MAX, "bytes"),
            KvRefusal::Keys => (KV_KEYS_MAX, "keys"),
            KvRefusal::Namespaces => (KV_NAMESPACES_MAX, "namespaces"),
        };
        write!(f, "KV table is full: at most {bound} {what}; ")?;
        match self {
            KvRefusal::Bytes | KvRefusal::Keys => f.write_str("delete keys that are not needed"),
            // Nothing on the wire deletes a namespace.
            KvRefusal::Namespaces => f.write_str("put the key into an existing one"),
        }
    }
}

impl std::error::Error for KvRefusal {}

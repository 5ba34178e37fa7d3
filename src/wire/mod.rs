//! The RocketMQ remoting protocol, sans-IO: bytes to [`Command`], answers to bytes.
//!
//! ```text
//! length u32 | kind u8 | header length u24 | header | body
//! ```
//!
//! `length` counts everything behind itself. This module does not know that sockets exist.

pub mod body;

use std::borrow::Cow;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::ids::Opaque;

/// How a header is serialized: the frame's fifth byte (Java: `SerializeType`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HeaderKind {
    /// A JSON object.
    #[default]
    Json,
    /// The compact form, `ROCKETMQ`.
    Binary,
}

/// One request (or stray response) with its header decoded. Borrows from the frame where no escape forces a copy.
#[derive(Debug)]
pub struct Command<'a> {
    /// Request code.
    pub code: i32,
    /// Sender's version ordinal.
    pub version: i32,
    /// Correlation number; `None` if the header had none.
    pub opaque: Option<Opaque>,
    /// Bit 0: a response. Bit 1: one-way.
    pub flag: i32,
    /// Extension fields.
    pub ext: ExtFields<'a>,
    /// Bytes behind the header.
    pub body: &'a [u8],
    /// The buffer that `body` lies in, if it can be shared instead of copied.
    pub owner: Option<&'a Bytes>,
}

/// Extension fields in the order they came; a name that comes twice counts with its last value.
#[derive(Debug, Default)]
pub struct ExtFields<'a> {
    /// Name and value.
    pub fields: SmallVec<[(Cow<'a, str>, Cow<'a, str>); 8]>,
}

//! The RocketMQ remoting protocol, sans-IO: bytes to [`Command`], answers to bytes.
//!
//! ```text
//! length u32 | kind u8 | header length u24 | header | body
//! ```
//!
//! `length` counts everything behind itself. This module does not know that sockets exist.
//!
//! The way in: [`frame::next`] finds a frame in buffered bytes, [`Command::decode`] reads its
//! header, [`body`] the bodies of the codes that have one. The way out: [`ReplyHead::begin`] or
//! [`Request::encode`] append to an output buffer.
//!
//! Three kinds of "no", three types: `None` is "not all here yet", [`WireError`] closes the
//! connection, [`BodyError`] becomes an answer with code 1.

pub mod body;
pub mod code;
mod command;
mod error;
mod fields;
pub mod frame;
mod header_binary;
mod header_json;
mod header_plain;
pub mod json;
mod no_route;
mod reply;
mod request;

pub use command::{Command, HeaderKind};
pub use error::{BodyError, Foreign, WireError};
pub use fields::ExtFields;
pub use frame::FrameHead;
pub use no_route::put_no_route;
pub use reply::{OpenFrame, ReplyHead};
pub use request::Request;

/// Version ordinal in everything we send: that of release 5.5.0, whose behaviour is reproduced
/// (Java: `MQVersion`).
pub const OWN_VERSION: i32 = 513;

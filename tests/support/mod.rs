//! What the tests over a socket share: a server to talk to, frames, JSON as the server writes it.
//!
//! Nothing here uses the library: a mistake in our codec must not hide behind the same mistake in
//! its test.
//!
//! - `NAMESRV=HOST:PORT` points every test at that server; nothing is started then.
//! - `SERVER_IS_JAVA=1` says that it is the Java NameServer, whose deliberate differences are then
//!   expected.

#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod conn;
pub mod expect;
pub mod frame;
pub mod json;
pub mod registration;
pub mod script;
pub mod server;

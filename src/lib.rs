//! Guidepost: a RocketMQ NameServer for very large fleets.
//!
//! One process answers "where is topic X?" for hundreds of thousands of clients, while brokers
//! register, send heartbeats, fail over and go. It speaks the remoting protocol of the Java
//! NameServer 5.5.0.
//!
//! ```text
//!   clients, brokers, admin tools
//!         | remoting protocol, :9876
//!  +------v------------------ shard (one a core, pinned) --------+
//!  |  ring ----> connection ----> handler                        |
//!  |  accept,       sans-IO        |          |                  |
//!  |  receive,      session     View lookup   WriteRequest       |
//!  |  send                         |          |                  |
//!  +-------------------------------^----------|------------------+
//!                                  |          |  one bounded lane a shard
//!                           +------+------+   v
//!                           | View (root) |<- writer (one core)
//!                           |  arc-swap   |   decode, decide, apply,
//!                           +-------------+   publish, acknowledge ----> post box of a shard
//!                                             |
//!                                             +--> store (files), on a thread of its own
//!                                             +--> notify (brokers), on a thread of its own
//! ```
//!
//! # Where to look
//!
//! | Module | What lives there |
//! |---|---|
//! | [`wire`] | The protocol, without sockets: frames, both header serializations, bodies |
//! | [`ring`] | io_uring for sockets, and the doorbell; the only unsafe code |
//! | [`shard`] | One core's connections: accepting, sessions, idle ones, shutting down |
//! | [`tls`] | TLS on the same port: files, policy, the channel between ring and connection |
//! | [`handler`] | From a request to a reply or to a write request, one file a family of codes |
//! | [`route`] | Topics, groups of brokers, clusters: rules, table, frozen form, answers |
//! | [`liveness`] | Who is alive, with deadlines |
//! | [`kv`] | The KV table |
//! | [`writer`] | The loop that owns and changes all of these |
//! | [`publish`] | Makes one [`publish::View`] visible |
//! | [`store`] | Small files that survive a crash |
//! | [`notify`] | Tells brokers of a new smallest id in their group |
//! | [`config`] | Options, settings, the properties file |
//! | [`server`] | Puts everything together |
//! | [`docs`] | Chapters: words, decisions, differences from Java, compatibility, performance |
//!
//! A route query passes through `shard/driver.rs`, `shard/connection.rs`, `wire/command.rs`,
//! `handler/mod.rs`,
//! `handler/route.rs` and `route/answer.rs`, in this order.
//!
//! # Never
//!
//! [`wire`] does not know that sockets exist. [`route`] does not know what time it is. Nothing
//! outside [`publish`] makes a view visible. A shard never takes a lock, never decodes a
//! registration's body and never waits for the writer. The writer waits for nothing but its
//! doorbell. Only [`clock`] reads a clock. A number from a peer never sizes an allocation.
//! `tests/tidy.rs` checks which module may name which.

pub mod clock;
pub mod complaints;
pub mod config;
pub mod docs;
pub mod fatal;
pub mod handler;
pub mod ids;
pub mod kv;
pub mod limits;
pub mod liveness;
pub mod logging;
pub mod metrics;
pub mod model;
pub mod notify;
pub mod preflight;
pub mod publish;
#[allow(unsafe_code)]
pub mod ring;
pub mod route;
pub mod server;
pub mod shard;
pub mod store;
pub mod tls;
pub mod wire;
pub mod writer;

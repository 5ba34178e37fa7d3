//! Drives a RocketMQ NameServer, whichever it is, over the wire protocol.
//!
//! ```text
//!  cli -> main --- fill, probe ----> server    registers a fleet, asks who is there
//!           |
//!           +--- carry, compare, search -- run -- engine ----> server | floor
//!           |                               |       |
//!           |                               |     connection (no I/O) -- wire, fleet, check
//!           |                               |     pace, shape, chance (when to ask what)
//!           +--- life (a whole fleet) ----- watch   looks on: process, live
//!           |                               |
//!           +--- output                   tape -> record
//!                  assertion, page, logs <----------+      report: words
//! ```
//!
//! - [`wire`]: frames. [`dialect`]: old JSON. [`fleet`]: what is registered. [`check`]: is an
//!   answer right. [`outbox`]: bytes that wait for their socket.
//! - [`connection`]: one client without its socket. [`engine`]: one thread's epoll loop.
//! - [`pace`], [`shape`]: closed loop or a schedule. [`sources`], [`preflight`]: enough addresses,
//!   files and memory for so many connections. [`life`]: brokers, clients, admin tools, churn.
//! - [`run`]: one measured window. [`compare`]: server and [`floor`] in turns. [`search`]: the
//!   highest rate. [`ceiling`]: what this generator can ask at all. [`carry`]: a yes or a no.
//! - [`tape`]: how threads hand over what they see, by second. [`watch`]: who sums it up.
//!   [`record`]: what is kept. [`live`], [`report`], [`page`], [`logs`]: what is shown of it.
//! - [`versus`]: several servers in turns. [`mod@scale`]: one server and ever larger fleets.
//! - For both: [`launch`] starts and ends servers, [`loads`] are what they get, a [`registrar`] is
//!   a broker that registers again and again, [`priority`] says who goes first, [`table`] prints.
//!
//! **Never:** nothing in here is shared with the server's own code. No time-out is dropped. No
//! request depends on the order in which answers came, so a seed gives the same bytes again.

pub mod assertion;
mod caller;
pub mod carry;
pub mod ceiling;
pub mod chance;
pub mod check;
pub mod cli;
pub mod cli_fleet;
pub mod cli_load;
pub mod compare;
pub mod connection;
pub mod dialect;
pub mod engine;
pub mod failure;
pub mod fill;
pub mod fleet;
pub mod floor;
pub mod host;
pub mod launch;
pub mod life;
pub mod limits;
pub mod live;
pub mod loads;
pub mod logs;
pub mod measure;
pub mod outbox;
pub mod output;
pub mod pace;
pub mod page;
pub mod preflight;
pub mod priority;
pub mod probe;
pub mod process;
pub mod record;
pub mod registrar;
pub mod report;
pub mod run;
pub mod scale;
pub mod search;
pub mod shape;
pub mod sources;
pub mod stop;
pub mod table;
pub mod tape;
pub mod versus;
pub mod watch;
pub mod wire;

#[cfg(test)]
#[path = "../tests/stub/mod.rs"]
mod stub;

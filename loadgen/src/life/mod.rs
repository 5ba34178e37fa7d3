//! A fleet that lives: brokers that register and tell that they are alive, clients that poll,
//! exporters, dashboards, connections that come and go, and what goes wrong in between.
//!
//! ```text
//!  class (how many of each) -> stage (threads, who is where, events) -> driver (epoll, timers)
//!                                                                          |
//!      role: client, broker, admin, probe, passer, hostile  <--- due, opened, answered, lost
//!         |             |
//!       line (bytes)   desk (what a thread knows) -- verify -- world (what is registered now)
//!         |
//!      wording (which client, which serialization)
//! ```
//!
//! A role neither reads a clock nor touches a socket: it is told the time and says what to send,
//! when to wake it, and whether to close. All times are fixed in advance from the seed, so nothing
//! a server does changes what it is asked.

pub mod admin;
pub mod broker;
pub mod class;
pub mod client;
pub mod desk;
pub mod driver;
pub mod hostile;
pub mod line;
pub mod passer;
pub mod probe;
pub mod role;
pub mod stage;
pub mod verify;
pub mod wording;
pub mod world;

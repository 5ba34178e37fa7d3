//! Who serves which topic: the table the writer changes, and the frozen form every reader sees.
//!
//! ```text
//!   writer core                                   every shard
//!   RouteTable --- freeze(): shares, copies nothing ---> RouteView
//!     members, epochs, topic numbers (never shared)        topic -> (group, queues)*
//!                                                          group -> encoded fragments
//! ```
//!
//! Both sides hold the same persistent maps, so a change copies the path to what changed and
//! nothing else. An answer is composed when it is asked for, from fragments that were encoded when
//! a group changed: see [`answer`].

pub mod answer;
pub mod change;
pub mod fragment;
mod invariants;
pub mod lists;
mod name_map;
mod notices;
mod register;
mod remains;
mod snapshot;
mod steps;
pub mod table;
pub mod topic;
mod topics;
mod unregister;
pub mod view;

pub use answer::RouteQuery;
pub use change::{Departure, Master, Refused, Registered, Registration};
pub use lists::{TopicList, TopicListing, UnitList};
pub use remains::ViewRemains;
pub use snapshot::{Restored, RouteSnapshot, SnapshotError};
pub use table::RouteTable;
pub use view::RouteView;

#[cfg(test)]
mod tests;

//! Stand-in: the loop is written elsewhere.

pub mod lane;
pub mod request;

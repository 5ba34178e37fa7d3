//! Guidepost: a RocketMQ NameServer.

pub mod clock;
pub mod ids;
pub mod limits;
pub mod model;
pub mod wire;

//! Guidepost: a RocketMQ NameServer.

pub mod clock;
pub mod ids;
pub mod limits;
pub mod model;
#[allow(unsafe_code)]
pub mod ring;
pub mod wire;

//! Guidepost: a RocketMQ NameServer.

pub mod clock;
pub mod ids;
pub mod kv;
pub mod limits;
pub mod liveness;
pub mod model;
#[allow(unsafe_code)]
pub mod ring;
pub mod wire;
pub mod store;
pub mod wire;
pub mod writer;

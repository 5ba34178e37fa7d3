//! Guidepost: a RocketMQ NameServer.

pub mod clock;
pub mod ids;
pub mod limits;
pub mod metrics;
pub mod model;
#[allow(unsafe_code)]
pub mod ring;
pub mod shard;
pub mod wire;
pub mod writer;

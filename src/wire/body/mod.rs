//! Bodies of the request codes that have one, and of the KV file.
//!
//! Where Java would apply half of a broken body and report success, the body is refused as a whole
//! with a [`super::BodyError`]; so nothing here decides more than what a body says.

pub mod data_version;
pub mod kv;
pub mod kv_file;
pub mod register;
pub mod topic_queues;

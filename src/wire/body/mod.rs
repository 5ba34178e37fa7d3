//! Bodies.

pub mod kv;

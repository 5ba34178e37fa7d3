<<<<<<< HEAD
//! Bodies of the request codes that have one.
=======
//! Bodies.

pub mod kv;
>>>>>>> state

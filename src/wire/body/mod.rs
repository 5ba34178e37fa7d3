//! Bodies of the request codes that have one.

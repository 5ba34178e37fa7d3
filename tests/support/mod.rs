//! What the tests over a socket share: a server to talk to, frames, JSON as the server writes it.
//!
//! Nothing here uses the library: a mistake in our codec must not hide behind the same mistake in
//! its test.
//!
//! - `NAMESRV=HOST:PORT` points every test at that server; nothing is started then.
//! - `SERVER_IS_JAVA=1` says that it is the Java NameServer, whose deliberate differences are then
//!   expected.

#![allow(dead_code, reason = "each test file uses its own part of this")]

pub mod attack;
pub mod conn;
pub mod expect;
pub mod frame;
pub mod json;
pub mod program;
pub mod registration;
pub mod script;
pub mod server;

use std::time::{Duration, Instant};

/// Looks again and again until what is seen is right, at least once. What was seen last.
pub fn look_until<T>(
    within: Duration,
    mut look: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) -> T {
    let deadline = Instant::now() + within;
    loop {
        let seen = look();
        if is_right(&seen) || Instant::now() > deadline {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(5)); // the wait between two looks
    }
}

/// Whether a look says yes, at the latest after this time.
pub fn comes_true(within: Duration, look: impl FnMut() -> bool) -> bool {
    look_until(within, look, |seen| *seen)
}

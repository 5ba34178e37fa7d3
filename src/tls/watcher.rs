//! Replaces the material when its files have changed, on a thread of its own (Java:
//! `FileWatchService`).
//!
//! The Java server loads a new certificate only after certificate and key have both changed. Here
//! what counts is that they fit together: a renewed certificate for the same key is served at once,
//! and half of a pair is never served. Files are loaded when two looks in a row have found the same
//! content, so that one that is being written is not met half-way.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use tracing::{info, warn};

use super::Tls;
use super::material::{Files, Material, Stamp};
use super::options::{Mode, Options};
use crate::limits::{TLS_RETRY_LOOKS, TLS_WATCH_MS};

/// Looks between two tries of the same files.
const LOOKS_A_TRY: u32 = 10;

/// Ends the thread when it is dropped.
#[derive(Debug)]
pub struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to watch. `options` is asked at every look, because the files' names and password may
/// stand in a file that changes with them; its mode and test mode are not looked at again.
///
/// # Errors
/// When the thread cannot be started.
pub fn watch(
    tls: Tls,
    first: &Options,
    options: impl Fn() -> Result<Options, String> + Send + 'static,
) -> io::Result<Watcher> {
    if first.mode == Mode::Disabled || first.test_mode {
        return Ok(Watcher { stop: None, thread: None });
    }
    let (stop, stopped): (Sender<()>, Receiver<()>) = bounded(0);
    let mut watch = Watch::new(tls, options);
    let run = move || {
        let pause = Duration::from_millis(TLS_WATCH_MS);
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            watch.look();
        }
    };
    let thread = thread::Builder::new().name("tls-watch".into()).spawn(run)?;
    Ok(Watcher { stop: Some(stop), thread: Some(thread) })
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It panics only by a bug, which has been reported by then.
            let _ = thread.join();
        }
    }
}

struct Watch<F> {
    tls: Tls,
    options: F,
    /// What is served.
    served: Option<Stamp>,
    /// Other content found by the last look.
    seen: Option<Stamp>,
    /// Content that has been tried, and refused.
    refused: Option<Stamp>,
    /// What was last complained of, and how many looks ago.
    complaint: Option<(String, u32)>,
}

impl<F: Fn() -> Result<Options, String>> Watch<F> {
    fn new(tls: Tls, options: F) -> Watch<F> {
        let served = tls.material().map(|material| material.stamp());
        Watch { tls, options, served, seen: None, refused: None, complaint: None }
    }

    fn look(&mut self) {
        if let Some((_, looks)) = &mut self.complaint {
            *looks += 1;
        }
        match self.replacement() {
            Ok(None) => {}
            Ok(Some(material)) => {
                info!("TLS files have changed; new connections get: {material}");
                material.warn();
                self.served = Some(material.stamp());
                self.refused = None;
                self.tls.replace(material);
                self.complaint = None;
            }
            Err(why) => self.complain(why),
        }
    }

    /// New material, if there is and it is whole.
    fn replacement(&mut self) -> Result<Option<Material>, String> {
        let before = self.seen.take();
        let options = (self.options)()?;
        let files = Files::read(&options)?;
        let stamp = files.stamp();
        if Some(stamp) == self.served {
            self.refused = None;
            if self.complaint.take().is_some() {
                info!("TLS files are again those that are served");
            }
            return Ok(None);
        }
        self.seen = Some(stamp);
        if before != Some(stamp) {
            return Ok(None);
        }
        // The settings may have been what was wrong, so the same files are tried again. But that
        // costs a key derivation if the key has a password, so not at every look.
        let looks = self.complaint.as_ref().map_or(0, |(_, looks)| *looks);
        if self.refused == Some(stamp) && !looks.is_multiple_of(LOOKS_A_TRY) {
            return Ok(None);
        }
        self.refused = Some(stamp);
        Material::of_files(&options, &files).map(Some)
    }

    /// Warns at once of something new, and of the same thing once a minute.
    fn complain(&mut self, why: String) {
        if let Some((before, looks)) = &self.complaint
            && *before == why
            && *looks < TLS_RETRY_LOOKS
        {
            return;
        }
        warn!("TLS files have changed and cannot be used; what was loaded is served on: {why}");
        self.complaint = Some((why, 0));
    }
}

#[cfg(test)]
mod tests;

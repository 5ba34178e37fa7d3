//! The thread that waits for disks.

use std::cell::Cell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Receiver, Sender, bounded};

use super::{StoreError, replace};
use crate::limits::{SNAPSHOT_BYTES_MAX, STORE_SAVES_MAX};

/// Which file a save is of; for logs, and for whoever polls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StoreFile {
    /// The KV table.
    Kv,
    /// The settings.
    Settings,
    /// The route snapshot.
    Routes,
}

/// How a [`StoreThread`] shares the cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Somebody waits for each save.
    Prompt,
    /// Nobody waits: everything else goes first.
    Patient,
}

/// The lowest priority, as `nice` counts.
const LAST: i32 = 19;

/// How one save ended.
#[derive(Debug)]
pub struct Saved {
    /// Which file.
    pub what: StoreFile,
    /// The number that [`StoreThread::save`] was given.
    pub ticket: u64,
    /// `Ok`: the content survives a crash.
    pub result: Result<(), StoreError>,
}

/// Tells the owner of a [`StoreThread`] that there is something to poll. Called on the thread,
/// after each save.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Replaces files one after the other, in the order they were given. Lives: the writer holds it;
/// its work runs on a thread of its own. Shares: two bounded channels with that thread.
///
/// ```compile_fail
/// fn shared<T: Sync>() {}
/// shared::<guidepost::store::StoreThread>();
/// ```
pub struct StoreThread {
    /// `None` once stopping: the thread ends when this end is gone and the channel empty.
    jobs: Option<Sender<Job>>,
    saved: Receiver<Saved>,
    /// Saves given and not polled yet: `<= STORE_SAVES_MAX`, which is what each channel holds. So
    /// no end ever waits for room, and the two threads cannot wait for each other.
    under_way: Cell<usize>,
    thread: Option<JoinHandle<()>>,
}

struct Job {
    what: StoreFile,
    path: PathBuf,
    content: Box<dyn FnOnce() -> Vec<u8> + Send>,
    ticket: u64,
}

impl StoreThread {
    /// Starts the thread. To be called before the caller is pinned to a core: a new thread inherits
    /// that.
    ///
    /// # Errors
    ///
    /// If the system starts no further thread.
    pub fn start(pace: Pace, wake: Wake) -> io::Result<StoreThread> {
        let (jobs, to_do) = bounded(STORE_SAVES_MAX);
        let (done, saved) = bounded(STORE_SAVES_MAX);
        let run = move || {
            if pace == Pace::Patient {
                // Of the calling thread, on Linux; to go last is always allowed.
                let _ = rustix::process::setpriority_process(None, LAST);
            }
            work(&to_do, &done, &wake);
        };
        let name = match pace {
            Pace::Prompt => "guidepost-store",
            Pace::Patient => "guidepost-save",
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(StoreThread { jobs: Some(jobs), saved, under_way: Cell::new(0), thread: Some(thread) })
    }

    /// Asks for what `content` gives to become the content of `path`; never waits. `content` runs
    /// on the thread. `ticket` comes back with the outcome.
    ///
    /// # Errors
    ///
    /// If [`STORE_SAVES_MAX`] saves are under way already, or the thread is gone. Nothing is
    /// written, and no [`Saved`] with this ticket comes.
    pub fn save(
        &self,
        what: StoreFile,
        path: PathBuf,
        content: impl FnOnce() -> Vec<u8> + Send + 'static,
        ticket: u64,
    ) -> Result<(), StoreError> {
        let refuse = |path: PathBuf, kind: ErrorKind, why: &'static str| {
            Err(StoreError { doing: "save", path, source: io::Error::new(kind, why) })
        };
        let Some(jobs) = self.jobs.as_ref().filter(|_| self.under_way.get() < STORE_SAVES_MAX)
        else {
            return refuse(path, ErrorKind::WouldBlock, "the disk is busy with earlier saves");
        };
        match jobs.try_send(Job { what, path, content: Box::new(content), ticket }) {
            Ok(()) => {
                self.under_way.set(self.under_way.get() + 1);
                Ok(())
            }
            Err(error) => {
                let path = error.into_inner().path;
                refuse(path, ErrorKind::BrokenPipe, "the store thread has ended; restart")
            }
        }
    }

    /// The next finished save, in the order they were given; `None` if none has finished since.
    #[must_use]
    pub fn poll(&self) -> Option<Saved> {
        let saved = self.saved.try_recv().ok()?;
        self.under_way.set(self.under_way.get().saturating_sub(1));
        Some(saved)
    }

    /// Saves given and not polled yet.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.get()
    }

    /// Finishes what was given, ends the thread, and returns what had not been polled. Waits for
    /// the disk.
    #[must_use]
    pub fn stop(mut self) -> Vec<Saved> {
        self.end();
        self.saved.try_iter().collect()
    }

    fn end(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It ends by panic only if `wake` does; that has been reported where it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for StoreThread {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for StoreThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreThread").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

fn work(to_do: &Receiver<Job>, done: &Sender<Saved>, wake: &Wake) {
    for Job { what, path, content, ticket } in to_do {
        let content = content();
        let result = match what {
            // The next start would refuse it; the file of before may still serve.
            StoreFile::Routes if content.len() as u64 > SNAPSHOT_BYTES_MAX => {
                let source = io::Error::new(ErrorKind::FileTooLarge, "more than 1 GiB");
                Err(StoreError { doing: "save", path, source })
            }
            _ => replace(&path, &content),
        };
        // There is room (see `StoreThread::under_way`), and the other end lives until this thread
        // was joined.
        let sent = done.try_send(Saved { what, ticket, result });
        debug_assert!(sent.is_ok(), "more saves finished than were given");
        // After the outcome is in the channel: whoever is woken finds it.
        wake();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Barrier;

    use super::*;

    fn start_with_channel() -> (StoreThread, Receiver<()>) {
        let (ring, rung) = crossbeam::channel::unbounded();
        let wake: Wake = Arc::new(move || {
            let _ = ring.send(());
        });
        (StoreThread::start(Pace::Prompt, wake).unwrap(), rung)
    }

    #[test]
    fn outcomes_come_in_order_after_the_wake() {
        let dir = tempfile::tempdir().unwrap();
        let (store, rung) = start_with_channel();
        let good = dir.path().join("kv.json");
        let bad = good.join("below a file");
        store.save(StoreFile::Kv, good.clone(), || b"one".to_vec(), 1).unwrap();
        store.save(StoreFile::Settings, bad, || b"two".to_vec(), 2).unwrap();
        rung.recv().unwrap();
        let first = store.poll().unwrap();
        assert_eq!((first.what, first.ticket, first.result.is_ok()), (StoreFile::Kv, 1, true));
        assert_eq!(fs::read(&good).unwrap(), b"one");
        rung.recv().unwrap();
        let second = store.poll().unwrap();
        assert_eq!((second.what, second.ticket), (StoreFile::Settings, 2));
        assert!(second.result.is_err());
        assert!(store.poll().is_none());
        assert_eq!(store.under_way(), 0);
    }

    #[test]
    fn a_snapshot_that_no_start_would_read_is_refused_and_the_file_of_before_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (store, rung) = start_with_channel();
        let path = dir.path().join("routes");
        fs::write(&path, b"before").unwrap();
        let bytes = usize::try_from(SNAPSHOT_BYTES_MAX).unwrap() + 1;
        store.save(StoreFile::Routes, path.clone(), move || vec![0; bytes], 1).unwrap();
        rung.recv().unwrap();
        let refusal = store.poll().unwrap().result.unwrap_err().to_string();
        assert!(refusal.contains("more than 1 GiB"), "{refusal}");
        assert_eq!(fs::read(&path).unwrap(), b"before");
    }

    #[test]
    fn stopping_finishes_what_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _rung) = start_with_channel();
        let path = dir.path().join("kv.json");
        for ticket in 0..10u64 {
            store.save(StoreFile::Kv, path.clone(), || vec![b'x'; 10], ticket).unwrap();
        }
        store.save(StoreFile::Kv, path.clone(), || b"last".to_vec(), 10).unwrap();
        // As the writer holds it: not on the thread that started it.
        let left = thread::spawn(move || store.stop()).join().unwrap();
        assert_eq!(
            left.iter().map(|saved| saved.ticket).collect::<Vec<_>>(),
            Vec::from_iter(0..=10)
        );
        assert!(left.iter().all(|saved| saved.result.is_ok()));
        assert_eq!(fs::read(&path).unwrap(), b"last");
    }

    #[test]
    fn one_save_too_many_is_refused_at_once_and_not_written() {
        let dir = tempfile::tempdir().unwrap();
        // The thread stands in its first wake until the test lets it go on.
        let gate = Arc::new(Barrier::new(2));
        let held = Arc::clone(&gate);
        let first = std::sync::Once::new();
        let wake: Wake = Arc::new(move || {
            first.call_once(|| {
                held.wait();
            });
        });
        let store = StoreThread::start(Pace::Prompt, wake).unwrap();
        let file = |ticket: u64| dir.path().join(ticket.to_string());
        let max = STORE_SAVES_MAX as u64;
        for ticket in 0..max {
            store.save(StoreFile::Kv, file(ticket), Vec::new, ticket).unwrap();
        }
        let refused = store.save(StoreFile::Kv, file(max), Vec::new, max).unwrap_err();
        assert!(refused.to_string().contains("busy"), "{refused}");
        gate.wait();
        assert_eq!(store.stop().len(), STORE_SAVES_MAX);
        assert!(!file(max).exists());
        assert!(file(max - 1).exists());
    }
}

//! Wakes a sleeping thread from any other.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::AcqRel};
use std::time::Duration;

use crossbeam::utils::CachePadded;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The owner runs; nobody has rung since it last went to sleep.
const AWAKE: u8 = 0;
/// Somebody rang; the owner's next sleep ends at once.
const RUNG: u8 = 1;
/// The owner sleeps or is about to: only a write to the eventfd wakes it.
const ASLEEP: u8 = 2;

/// A wake-up for the one thread that owns it.
///
/// The owner's loop is: take all work there is, then [`sleep`](Doorbell::sleep), again. Others push
/// work, then [`ring`](Doorbell::ring). No wake-up is lost, and none costs a system call while the
/// owner is awake:
///
/// - `ring` swaps [`RUNG`] in. If it finds [`ASLEEP`], it writes to the eventfd.
/// - `sleep` swaps its state to [`ASLEEP`], unless it finds [`RUNG`]: then it takes that and returns
///   at once.
///
/// Both are read-modify-write operations on one atomic, so one of them sees the other, whichever
/// comes first.
///
/// A thread with a ring sleeps in [`Ring::sleep`](super::Ring::sleep) instead, by the same rules.
///
/// Lives: shared. Owner: exactly one thread sleeps; any number of threads ring.
#[derive(Clone, Debug)]
pub struct Doorbell {
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Bell {
    state: CachePadded<AtomicU8>,
    eventfd: std::fs::File,
}

impl Doorbell {
    /// A bell that nobody has rung.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn new() -> io::Result<Doorbell> {
        // Needed: std has no eventfd. Sound: the call takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // Sound: `fd` was made above and has no other owner.
        let eventfd = unsafe { OwnedFd::from_raw_fd(fd) };
        let state = CachePadded::new(AtomicU8::new(AWAKE));
        Ok(Doorbell { bell: Arc::new(Bell { state, eventfd: eventfd.into() }) })
    }

    /// Wakes the owner. What the caller wrote before is visible to the owner when it wakes.
    pub fn ring(&self) {
        // AcqRel: releases the caller's work to the owner, whose swap in `fall_asleep` or `Awake` acquires
        // it. A plain load ("already rung, nothing to do") would skip that release, so it must be a
        // swap.
        if self.bell.state.swap(RUNG, AcqRel) == ASLEEP {
            // The counter cannot overflow into EAGAIN: it takes 2^64 wakes without one drain.
            let _ = (&self.bell.eventfd).write(&1u64.to_ne_bytes());
        }
    }

    /// Blocks the thread until rung, or for `at_most` if given. May return without cause: look at
    /// the work. For an executor that has nothing else to run: its own sleep would take fifteen
    /// system calls, and interrupt every core that runs a thread of this process (`membarrier`).
    pub fn sleep(&self, at_most: Option<Duration>) {
        let Some(_awake) = self.fall_asleep() else { return };
        let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
        let mut bell = [PollFd::new(&self.bell.eventfd, PollFlags::IN)];
        // An interruption is a wake without cause.
        if poll(&mut bell, at_most.as_ref()).is_ok_and(|ready| ready > 0) {
            let mut count = [0; 8];
            // Empties the eventfd, so that the next sleep is one.
            let _ = (&self.bell.eventfd).read(&mut count);
        }
    }

    /// The descriptor that wakes: a ring polls it.
    pub(super) fn eventfd(&self) -> BorrowedFd<'_> {
        self.bell.eventfd.as_fd()
    }

    /// `None` if somebody rang since the last sleep: there is work, stay awake.
    pub(super) fn fall_asleep(&self) -> Option<Awake<'_>> {
        // AcqRel: acquires the work of whoever rang; pairs with the swap in `ring`.
        if self.bell.state.swap(ASLEEP, AcqRel) == RUNG {
            self.bell.state.swap(AWAKE, AcqRel);
            return None;
        }
        Some(Awake { state: &self.bell.state })
    }
}

/// The owner's sleep, which ends on drop.
pub(super) struct Awake<'a> {
    state: &'a AtomicU8,
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        // AcqRel: acquires the work of whoever rang during the sleep; pairs with the swap in
        // `ring`.
        self.state.swap(AWAKE, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_ring_before_the_sleep_ends_it_at_once() {
        let bell = Doorbell::new().unwrap();
        bell.ring();
        bell.ring();
        bell.sleep(None);
        let began = Instant::now();
        bell.sleep(Some(Duration::from_millis(20)));
        assert!(began.elapsed() >= Duration::from_millis(20), "two rings are one wake");
    }

    #[test]
    fn no_ring_from_another_thread_is_lost() {
        const ROUNDS: u64 = 20_000;
        let (to, from) = (Doorbell::new().unwrap(), Doorbell::new().unwrap());
        let turns = Arc::new(AtomicU64::new(0));
        let player = |mine: Doorbell, other: Doorbell, turns: Arc<AtomicU64>, parity: u64| {
            std::thread::spawn(move || {
                loop {
                    let turn = turns.load(Relaxed);
                    if turn >= ROUNDS {
                        return other.ring();
                    }
                    if turn % 2 == parity {
                        turns.store(turn + 1, Relaxed);
                        other.ring();
                    } else {
                        mine.sleep(None);
                    }
                }
            })
        };
        let even = player(to.clone(), from.clone(), Arc::clone(&turns), 0);
        let odd = player(from, to, Arc::clone(&turns), 1);
        even.join().unwrap();
        odd.join().unwrap();
        assert_eq!(turns.load(Relaxed), ROUNDS);
    }
}

//! Wakes a sleeping executor from any thread, and from the kernel.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::AcqRel};
use std::task::Poll;
use std::time::Duration;

use crossbeam::utils::CachePadded;
use futures_lite::{AsyncRead, Future};
use glommio::net::TcpStream;
use glommio::timer::{Timer, sleep};

/// The owner runs; nobody has rung since it last went to sleep.
const AWAKE: u8 = 0;
/// Somebody rang; the owner's next sleep ends at once.
const RUNG: u8 = 1;
/// The owner sleeps or is about to: only a write to the eventfd wakes it.
const ASLEEP: u8 = 2;

/// How long a sleeper dozes instead when the process has no file descriptor left to sleep on.
const DOZE: Duration = Duration::from_millis(5);
/// Shortest sleep with a time, see [`Doorbell::wait_for`].
const NAP_MIN: Duration = Duration::from_millis(1);

/// A wake-up for the one task that owns it.
///
/// The owner's loop is: take all work there is, then [`wait`](Doorbell::wait), again. Others push
/// work, then [`ring`](Doorbell::ring). No wake-up is lost, and none costs a system call while the
/// owner is awake:
///
/// - `ring` swaps [`RUNG`] in. If it finds [`ASLEEP`], it writes to the eventfd.
/// - `wait` swaps its state to [`ASLEEP`], unless it finds [`RUNG`]: then it takes that and returns
///   at once.
///
/// Both are read-modify-write operations on one atomic, so one of them sees the other, whichever
/// comes first.
///
/// Lives: shared. Owner: exactly one task waits; any number of threads ring.
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
        // AcqRel: releases the caller's work to the owner, whose swap in `wait` or `Awake` acquires
        // it. A plain load ("already rung, nothing to do") would skip that release, so it must be a
        // swap.
        if self.bell.state.swap(RUNG, AcqRel) == ASLEEP {
            // The counter cannot overflow into EAGAIN: it takes 2^64 wakes without one drain.
            let _ = (&self.bell.eventfd).write(&1u64.to_ne_bytes());
        }
    }

    /// Sleeps until rung. May return without cause: look at the work. For a task that shares its
    /// executor; a ring sleeps in [`Ring::sleep`](super::Ring::sleep).
    pub async fn wait(&self) {
        let Some(_awake) = self.fall_asleep() else { return };
        self.readable().await;
        self.drain();
    }

    /// As [`wait`](Doorbell::wait), but wakes after `at_most` in any case.
    ///
    /// No sleep is shorter than a millisecond: one that ends by its time leaves a cancelled poll to
    /// the executor, which clears it away only when it parks. A loop of sleeps that never do would
    /// pile them up until glommio's 16-bit count of wakers overflows, which is a panic.
    pub async fn wait_for(&self, at_most: Duration) {
        let Some(_awake) = self.fall_asleep() else { return };
        let mut rung = pin!(self.readable());
        let mut timer = Timer::new(at_most.max(NAP_MIN));
        poll_fn(|cx| {
            if rung.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            Pin::new(&mut timer).poll(cx).map(|_| ())
        })
        .await;
        self.drain();
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

    /// Empties the eventfd, so that the next sleep is one.
    fn drain(&self) {
        let mut count = [0; 8];
        // EAGAIN says that it is empty already: woken by a timer.
        let _ = (&self.bell.eventfd).read(&mut count);
    }

    /// Ready when the eventfd is.
    ///
    /// glommio has no public way to wait for a descriptor, but a `TcpStream` starts with a poll for
    /// readability and only then receives. So a duplicate of the eventfd is dressed as a stream,
    /// and its first read awaited: it fails with `ENOTSOCK` the moment the eventfd is readable,
    /// which is all that is asked. The stream cannot be used again, since it now believes itself
    /// readable; each sleep takes a new one. Dropping it closes the duplicate.
    async fn readable(&self) {
        let Ok(duplicate) = self.eventfd().try_clone_to_owned() else {
            sleep(DOZE).await;
            return;
        };
        // Needed: the only constructor from a descriptor. Sound: `duplicate` is open and gives up
        // its ownership here.
        let mut stream = unsafe { TcpStream::from_raw_fd(duplicate.into_raw_fd()) };
        let mut nothing = [0; 8];
        poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut nothing).map(|_| ())).await;
    }
}

/// The owner's sleep. Ends on drop, also when the waiting future is dropped half way: then whatever
/// rang has left the eventfd readable, and the next sleep returns at once.
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

    use glommio::LocalExecutorBuilder;

    use super::*;

    fn on_executor<T>(work: impl Future<Output = T>) -> T {
        LocalExecutorBuilder::default().io_memory(64 << 10).ring_depth(32).make().unwrap().run(work)
    }

    #[test]
    fn a_ring_before_the_sleep_ends_it_at_once() {
        let bell = Doorbell::new().unwrap();
        bell.ring();
        bell.ring();
        on_executor(async {
            bell.wait().await;
            let began = Instant::now();
            bell.wait_for(Duration::from_millis(20)).await;
            assert!(began.elapsed() >= Duration::from_millis(20), "two rings are one wake");
        });
    }

    #[test]
    fn a_dropped_wait_loses_no_ring() {
        let bell = Doorbell::new().unwrap();
        on_executor(async {
            {
                let mut wait = pin!(bell.wait());
                poll_fn(|cx| {
                    assert!(wait.as_mut().poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                bell.ring();
            }
            bell.wait().await;
        });
    }

    #[test]
    fn no_ring_from_another_thread_is_lost() {
        const ROUNDS: u64 = 20_000;
        let (to, from) = (Doorbell::new().unwrap(), Doorbell::new().unwrap());
        let turns = Arc::new(AtomicU64::new(0));
        let player = |mine: Doorbell, other: Doorbell, turns: Arc<AtomicU64>, parity: u64| {
            std::thread::spawn(move || {
                on_executor(async move {
                    loop {
                        let turn = turns.load(Relaxed);
                        if turn >= ROUNDS {
                            return other.ring();
                        }
                        if turn % 2 == parity {
                            turns.store(turn + 1, Relaxed);
                            other.ring();
                        } else {
                            mine.wait().await;
                        }
                    }
                });
            })
        };
        let even = player(to.clone(), from.clone(), Arc::clone(&turns), 0);
        let odd = player(from, to, Arc::clone(&turns), 1);
        even.join().unwrap();
        odd.join().unwrap();
        assert_eq!(turns.load(Relaxed), ROUNDS);
    }
}

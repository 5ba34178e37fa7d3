//! Sockets on io_uring: the one module with unsafe code. It knows no protocol.
//!
//! One [`Ring`] a shard, inside the shard's executor. It accepts and receives with multishot
//! operations into buffers lent to the kernel, sends whole buffers that it owns while they are
//! under way, and enters the kernel once a batch:
//!
//! ```text
//! loop {
//!     while let Some(event) = ring.next_event() { ... ring.send(key, bytes) ... }   no system call
//!     if ring.turn()? == Turn::Idle { ring.sleep()?; }                one system call each
//! }
//! ```
//!
//! The ring is set up with deferred task work: completions appear only during [`Ring::turn`] and
//! [`Ring::sleep`], on this thread, and none interrupts it. A sleep waits in the ring itself, where
//! a poll of the [`Doorbell`]'s descriptor stands for everybody else who may wake the shard. The
//! executor's own sleep would take fifteen system calls, and interrupt every core that runs a
//! thread of this process (`membarrier`).
//!
//! Memory that the kernel may touch, and what keeps it alive:
//!
//! | Memory | Kept by | Until |
//! |---|---|---|
//! | receive buffers | [`buffers`] | the ring is dropped and drained |
//! | a buffer being sent | its slot, which owns and never touches it | the send completes |
//! | the timer's time | a box, not rewritten while an entry waits | the entry is submitted |
//!
//! A slot is free again only when all its operations have completed and its socket is closed, so a
//! completion never meets a slot's next tenant; the generation in `user_data` checks that.

mod buffers;
mod completions;
mod doorbell;
mod probe;
mod slots;

use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::{CancelBuilder, Fd, TimeoutFlags, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{PollFd, PollFlags};

use self::buffers::Buffers;
pub use self::buffers::Filled;
pub use self::doorbell::Doorbell;
pub use self::probe::{RingUnavailable, probe};
pub use self::slots::Key;
use self::slots::{Op, Receive, Sending, Slots, Token};

/// `io_uring_enter`: run deferred task work and look for completions. The crate does not export it.
const ENTER_GETEVENTS: u32 = 1;
/// `io_uring_enter`: a thread that waits here is idle, and not held up by a disk.
const ENTER_NO_IOWAIT: u32 = 1 << 7;
/// How often [`Ring`]'s drop waits for the kernel to let go, 10 ms each.
const DRAIN_ROUNDS: u32 = 200;

/// Sizes of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Entries of the submission queue; more in one batch cost another system call.
    pub submissions: u32,
    /// Entries of the completion queue; more in one batch wait in the kernel.
    pub completions: u32,
    /// Receive buffers, a power of two; more at a time make the kernel pause the receive.
    pub buffers: u16,
    /// Size of each receive buffer.
    pub buffer_bytes: u32,
    /// Sockets held at a time; one more is closed as soon as it is accepted.
    pub connections_max: u32,
}

impl Default for RingOptions {
    fn default() -> RingOptions {
        RingOptions {
            submissions: 1024,
            completions: 8192,
            buffers: 1024,
            buffer_bytes: 4096,
            connections_max: 1 << 16,
        }
    }
}

/// What happened. After [`Ring::close`] nothing more is said of a connection.
#[derive(Debug)]
pub enum Event {
    /// A connection was accepted; it is being received from.
    Accepted(Key),
    /// One connection over the limit was accepted and closed.
    Refused,
    /// Accepting failed and has stopped. Call [`Ring::accept`] again after a while.
    AcceptFailed(io::Error),
    /// Bytes came. Read them with [`Ring::bytes`], then [`Ring::give_back`].
    Received(Key, Filled),
    /// No more bytes will come: the peer closed its side, or `Some` error. Close it when nothing is
    /// left to send.
    Ended(Key, Option<io::Error>),
    /// A part of the buffer has gone; the ring goes on with the rest.
    SentSome(Key),
    /// The whole buffer has gone; here it is again, with its old content.
    Sent(Key, Vec<u8>),
    /// The buffer cannot be sent. Close the connection.
    SendFailed(Key, io::Error),
    /// The time asked for with [`Ring::wake_in`] has come, or an earlier one.
    Timer,
}

/// What [`Ring::turn`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// There are events; do not sleep.
    Busy,
    /// Nothing to do until something completes or the doorbell rings: [`Ring::sleep`].
    Idle,
    /// The kernel is short of memory and took only part; try again after a moment.
    Short,
}

/// A socket ring. Lives: one per shard, never leaves its thread. Shares: its doorbell.
pub struct Ring {
    uring: ManuallyDrop<IoUring>,
    buffers: ManuallyDrop<Buffers>,
    slots: ManuallyDrop<Slots>,
    /// Entries that found the submission queue full and the kernel unwilling. Bound: the operations
    /// of all slots.
    waiting: VecDeque<squeue::Entry>,
    /// Connections whose receive ended because no buffer was left, the longest waiting first;
    /// started again in the next turns.
    starved: VecDeque<Key>,
    listener: TcpListener,
    accepting: Accepting,
    /// Something was refused since accepting was last started.
    refused: bool,
    timer: ManuallyDrop<Box<Timespec>>,
    timer_runs: bool,
    /// An entry that points at `timer` waits for submission.
    timer_queued: bool,
    doorbell: Doorbell,
    /// The ring is being dropped: nothing is armed again.
    ending: bool,
    sleep_flags: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepting {
    No,
    Yes,
    /// Cancelled for good.
    Ending,
}

/// A builder with the flags of a shard's ring.
fn builder(completions: u32) -> io_uring::Builder {
    let mut builder = IoUring::builder();
    builder
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(completions)
        .dontfork();
    builder
}

impl Ring {
    /// A ring that will accept from `listener`, and whose sleep ends when `doorbell` rings. Must be
    /// made on the thread that uses it.
    ///
    /// # Errors
    /// When io_uring or memory is refused; the text names the cure.
    pub fn new(
        options: RingOptions,
        listener: TcpListener,
        doorbell: Doorbell,
    ) -> io::Result<Ring> {
        let uring = builder(options.completions)
            .build(options.submissions)
            .map_err(|refusal| io::Error::new(refusal.kind(), probe::refused(&refusal)))?;
        let no_iowait = uring.params().is_feature_no_iowait();
        let buffers = Buffers::register(&uring, options.buffers, options.buffer_bytes)?;
        let mut ring = Ring {
            uring: ManuallyDrop::new(uring),
            buffers: ManuallyDrop::new(buffers),
            slots: ManuallyDrop::new(Slots::new(options.connections_max)),
            waiting: VecDeque::new(),
            starved: VecDeque::new(),
            listener,
            accepting: Accepting::No,
            refused: false,
            timer: ManuallyDrop::new(Box::default()),
            timer_runs: false,
            timer_queued: false,
            doorbell,
            ending: false,
            sleep_flags: ENTER_GETEVENTS | if no_iowait { ENTER_NO_IOWAIT } else { 0 },
        };
        ring.listen_for_bell();
        Ok(ring)
    }

    /// Starts accepting, also again after [`Event::AcceptFailed`].
    pub fn accept(&mut self) {
        if self.accepting == Accepting::No {
            self.accepting = Accepting::Yes;
            self.refused = false;
            // No SOCK_NONBLOCK: on such a socket io_uring would answer EAGAIN instead of waiting.
            let entry = opcode::AcceptMulti::new(Fd(self.listener.as_raw_fd()))
                .flags(libc::SOCK_CLOEXEC)
                .build();
            self.push(entry.user_data(Token::ACCEPT.0));
        }
    }

    /// Accepts no more, for good. Connections in the listener's queue are reset once the ring is
    /// dropped.
    pub fn stop_accepting(&mut self) {
        if self.accepting == Accepting::Yes {
            self.cancel(Token::ACCEPT);
        }
        self.accepting = Accepting::Ending;
    }

    /// Connections that are open or being closed.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.slots.used()
    }

    /// The peer's address, asked of the kernel: for log lines and rare checks. `None` also once the
    /// connection is being closed.
    #[must_use]
    pub fn peer(&self, key: Key) -> Option<SocketAddr> {
        let slot = self.slots.get(key).filter(|slot| !slot.closing)?;
        // Needed: the slot holds a plain number. Sound: no close is submitted for a slot that is
        // not `closing`, so the socket is open, and it stays open through the call, since asking
        // for the close needs `&mut self`.
        let socket = unsafe { BorrowedFd::borrow_raw(slot.socket) };
        socket2::SockRef::from(&socket).peer_addr().ok()?.as_socket()
    }

    /// The bytes of a filled buffer.
    #[must_use]
    pub fn bytes<'a>(&'a self, filled: &'a Filled) -> &'a [u8] {
        self.buffers.bytes(filled)
    }

    /// Lends the buffer to the kernel again.
    pub fn give_back(&mut self, filled: Filled) {
        self.buffers.give_back(filled);
    }

    /// Stops receiving from the connection. Bytes that are under way still come.
    pub fn pause(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        slot.wanted = false;
        if slot.receive == Receive::Armed {
            slot.receive = Receive::Stopping;
            self.cancel(Token::new(Op::Receive, key));
        }
    }

    /// Receives again.
    pub fn resume(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if !slot.ended && !slot.closing {
            slot.wanted = true;
            self.receive(key);
        }
    }

    /// Receives anew if the peer has reset the connection. To be called where the [last] bytes of
    /// a receive leave nothing to be sent, which would find out as well.
    ///
    /// The kernel wakes a multishot receive once for bytes and a reset right behind them, reads the
    /// bytes, and may then wait for ever (Linux 6.18; liburing #1549 is its like for Unix sockets).
    /// Costs a system call, and nothing to those who answer what they receive.
    ///
    /// [last]: Filled::is_last
    pub fn look_for_reset(&mut self, key: Key) {
        let Some(slot) = self.slots.get(key).filter(|slot| !slot.closing) else { return };
        // Needed and sound: as in `peer`.
        let socket = unsafe { BorrowedFd::borrow_raw(slot.socket) };
        let broken = PollFlags::HUP | PollFlags::ERR;
        let mut polled = [PollFd::new(&socket, PollFlags::empty())];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error leaves no flag; the idle time-out remains.
        let _ = rustix::event::poll(&mut polled, Some(&now));
        if slot.wanted && polled[0].revents().intersects(broken) {
            self.pause(key);
            self.resume(key);
        }
    }

    /// Sends `bytes`, all of them, in the next turn.
    ///
    /// # Panics
    /// If a send is under way: the order of two would be the kernel's choice.
    pub fn send(&mut self, key: Key, bytes: Vec<u8>) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        assert!(slot.sending.is_none(), "one send at a time");
        slot.sending = Some(Sending { bytes, sent: 0 });
        self.send_rest(key);
    }

    /// Tells the peer that nothing more will be sent. It may still send, and should close. To be
    /// called when no send is under way.
    ///
    /// A system call of its own: the ring would leave it to a worker thread, which looks the
    /// descriptor up when its turn comes, and by then that may be another connection's.
    pub fn finish(&mut self, key: Key) {
        let Some(slot) = self.slots.get(key).filter(|slot| !slot.closing) else { return };
        debug_assert!(slot.sending.is_none(), "what is under way would be cut off");
        // Needed and sound: as in `peer`.
        let socket = unsafe { BorrowedFd::borrow_raw(slot.socket) };
        // A connection that is broken already ends by its receive.
        let _ = socket2::SockRef::from(&socket).shutdown(Shutdown::Write);
    }

    /// Closes the connection: cancels what is under way, then closes the socket, then frees the
    /// slot.
    pub fn close(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.closing {
            return;
        }
        slot.closing = true;
        slot.wanted = false;
        let (receive, sending) = (slot.receive, slot.sending.is_some());
        if receive == Receive::Armed {
            slot.receive = Receive::Stopping;
            self.cancel(Token::new(Op::Receive, key));
        }
        if sending {
            self.cancel(Token::new(Op::Send, key));
        }
        self.close_if_quiet(key);
    }

    /// Asks for an [`Event::Timer`] in `ms` milliseconds at the latest. One timer runs at a time;
    /// asking again moves it. False if the kernel did not take the time before this one yet: then
    /// that one stands, and it is for the caller to ask again after the next turn.
    #[must_use]
    pub fn wake_in(&mut self, ms: u64) -> bool {
        if self.timer_queued {
            // The entry before this one still points at the time that is about to be rewritten.
            let _ = self.enter();
            if self.timer_queued {
                return false;
            }
        }
        let nanos = u32::try_from(ms % 1000).unwrap_or(0) * 1_000_000;
        **self.timer = Timespec::new().sec(ms / 1000).nsec(nanos);
        let time: *const Timespec = &raw const **self.timer;
        let entry = if self.timer_runs {
            opcode::TimeoutUpdate::new(Token::TIMER.0, time).build().user_data(Token::NOTHING.0)
        } else {
            let entry = opcode::Timeout::new(time).flags(TimeoutFlags::empty()).build();
            entry.user_data(Token::TIMER.0)
        };
        self.timer_runs = true;
        self.timer_queued = true;
        self.push(entry);
        true
    }

    /// The next event, if there is one already. No system call.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let completion = self.uring.completion().next()?;
            if let Some(event) = self.digest(&completion) {
                return Some(event);
            }
        }
    }

    /// Submits all that was asked for and lets completions in: one system call, or none if nothing
    /// was asked for.
    ///
    /// # Errors
    /// When the kernel refuses the ring itself, which is a bug or the end of the process's memory.
    pub fn turn(&mut self) -> io::Result<Turn> {
        self.feed_starved();
        // What completed meanwhile is found by the sleep, which then is none.
        let asked = !self.waiting.is_empty() || !self.uring.submission().is_empty();
        let all = !asked || self.enter()?;
        Ok(if !self.uring.completion().is_empty() || self.can_feed() {
            Turn::Busy
        } else if all {
            Turn::Idle
        } else {
            Turn::Short
        })
    }

    /// Blocks the thread until something completes or the doorbell rings. To be called when
    /// [`Ring::turn`] has said so, by an executor that has nothing else to run.
    ///
    /// # Errors
    /// As [`Ring::turn`].
    pub fn sleep(&mut self) -> io::Result<()> {
        let Some(_awake) = self.doorbell.fall_asleep() else { return Ok(()) };
        // Sound: no argument is passed, and nothing waits for submission.
        let entered =
            unsafe { self.uring.submitter().enter::<libc::sigset_t>(0, 1, self.sleep_flags, None) };
        match entered.as_ref().map_err(io::Error::raw_os_error) {
            Ok(_) | Err(Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)) => Ok(()),
            Err(_) => entered.map(drop),
        }
    }

    /// Polls the doorbell's descriptor for as long as the ring lives. Nobody reads from it: the
    /// kernel reports each write, whatever the count is, and that has room for 2^64 of them.
    fn listen_for_bell(&mut self) {
        let readable = u32::from(libc::POLLIN.unsigned_abs());
        let bell = Fd(self.doorbell.eventfd().as_raw_fd());
        let entry = opcode::PollAdd::new(bell, readable).multi(true).build();
        self.push(entry.user_data(Token::BELL.0));
    }

    /// Starts receives that found no buffer, no more than there are buffers now: the others would
    /// only fail again.
    fn feed_starved(&mut self) {
        for _ in 0..self.buffers_free() {
            let Some(key) = self.starved.pop_front() else { return };
            self.receive(key);
        }
    }

    /// True if a receive that found no buffer would find one now.
    fn can_feed(&mut self) -> bool {
        !self.starved.is_empty() && self.buffers_free() > 0
    }

    /// Buffers that the kernel has at least: each completion not yet looked at may hold one.
    fn buffers_free(&mut self) -> usize {
        let unseen = self.uring.completion().len();
        self.buffers.lent().saturating_sub(unseen)
    }

    /// True when every entry has been submitted.
    fn enter(&mut self) -> io::Result<bool> {
        loop {
            let queued = self.fill();
            // Sound: no argument is passed; `to_submit` is what the queue holds.
            let entered = unsafe {
                self.uring.submitter().enter::<libc::sigset_t>(queued, 0, ENTER_GETEVENTS, None)
            };
            match entered {
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // EBUSY: the completion queue must be emptied first. EAGAIN: no memory for a
                    // request.
                    Some(libc::EBUSY | libc::EAGAIN) => return Ok(false),
                    _ => return Err(error),
                },
            }
            if self.uring.submission().is_empty() {
                self.timer_queued = false;
                if self.waiting.is_empty() {
                    return Ok(true);
                }
            } else if !self.uring.completion().is_empty() {
                return Ok(false);
            }
        }
    }

    /// Moves waiting entries into the submission queue; returns how many it holds.
    fn fill(&mut self) -> u32 {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.waiting.front() {
            // Sound: as in `push`; what an entry points at stays until its completion.
            if unsafe { queue.push(entry) }.is_err() {
                break;
            }
            self.waiting.pop_front();
        }
        u32::try_from(queue.len()).unwrap_or(u32::MAX)
    }

    fn push(&mut self, entry: squeue::Entry) {
        // Needed: the crate cannot know what an entry points at. Sound: the entries made here point
        // at a slot's sending buffer, at the timer, or at nothing; see the table above for what
        // keeps those in place.
        if !self.waiting.is_empty() || unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.waiting.push_back(entry);
            // An error comes again with the next turn, which reports it.
            let _ = self.enter();
        }
    }

    fn cancel(&mut self, token: Token) {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::user_data(token.0)).build();
        self.push(entry.user_data(Token::NOTHING.0));
    }

    /// Arms the receive unless it is armed, unwanted or about to end.
    fn receive(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.receive == Receive::Idle && slot.wanted {
            slot.receive = Receive::Armed;
            let entry = opcode::RecvMulti::new(Fd(slot.socket), Buffers::GROUP).build();
            self.push(entry.user_data(Token::new(Op::Receive, key).0));
        }
    }

    fn send_rest(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let Some(sending) = &slot.sending else { return };
        let rest = &sending.bytes[sending.sent..];
        // More than 4 GiB would go in several sends.
        let bytes = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(Fd(slot.socket), rest.as_ptr(), bytes)
            .flags(libc::MSG_NOSIGNAL)
            .build();
        self.push(entry.user_data(Token::new(Op::Send, key).0));
    }

    fn close_if_quiet(&mut self, key: Key) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        if slot.closing && !slot.shut && slot.receive == Receive::Idle && slot.sending.is_none() {
            slot.shut = true;
            let entry = opcode::Close::new(Fd(slot.socket)).build();
            self.push(entry.user_data(Token::new(Op::Close, key).0));
        }
    }

    /// Cancels everything and waits until no operation is left. False if the kernel would not let
    /// go.
    fn drain(&mut self) -> bool {
        self.ending = true;
        self.stop_accepting();
        for key in self.slots.keys() {
            self.close(key);
        }
        let everything = opcode::AsyncCancel2::new(CancelBuilder::any()).build();
        self.push(everything.user_data(Token::NOTHING.0));
        for round in 0..DRAIN_ROUNDS {
            // Cancel, then close, then done: the first rounds need no waiting.
            if round > 3 {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let Ok(all) = self.enter() else { return false };
            while let Some(event) = self.next_event() {
                if let Event::Received(_, filled) = event {
                    self.give_back(filled);
                }
            }
            if all && self.slots.used() == 0 && self.waiting.is_empty() {
                return true;
            }
        }
        false
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let idle = self.drain();
        // Sound, all of it: each field is dropped once, here, and not used after. The kernel's ring
        // goes first. Its requests are cancelled after the descriptor is closed, so memory that a
        // request might still touch is leaked rather than freed if the drain did not end.
        unsafe {
            ManuallyDrop::drop(&mut self.uring);
            if idle {
                ManuallyDrop::drop(&mut self.buffers);
                ManuallyDrop::drop(&mut self.slots);
                ManuallyDrop::drop(&mut self.timer);
            }
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("connections", &self.slots.used())
            .field("doorbell", &self.doorbell)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

//! The receive buffers that a ring lends to the kernel.

use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use io_uring::types::BufRingEntry;
use io_uring::{IoUring, squeue};

/// Told apart by this number, a filled buffer cannot be shown to another ring.
static NEXT_OWNER: AtomicU32 = AtomicU32::new(0);

/// A buffer that the kernel has filled: the right to read it, and the duty to give it back.
#[derive(Debug)]
#[must_use = "the kernel runs out of buffers unless each is given back"]
pub struct Filled {
    owner: u32,
    id: u16,
    bytes: u32,
    last: bool,
}

impl Filled {
    /// True if nothing more was there to be received behind these bytes, as far as the kernel saw.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.last
    }
}

/// A ring of equal buffers shared with the kernel: it takes one for each receive and names it in
/// the completion.
///
/// ```text
/// one mapping:  | entries x 16 bytes: the ring | padding | entries x buffer_bytes: the buffers |
/// ```
///
/// Pages that no receive has touched take no memory. Lives: inside one [`super::Ring`].
pub(super) struct Buffers {
    owner: u32,
    base: NonNull<u8>,
    mapped_bytes: usize,
    buffers_at: usize,
    buffer_bytes: u32,
    /// Power of two; ids are below it.
    entries: u16,
    /// Where the next returned buffer goes, modulo `entries`; the kernel sees it through the ring's
    /// tail.
    tail: u16,
    /// Filled and not yet given back: `<= entries`.
    held: u16,
}

impl Buffers {
    /// The one group of buffers there is.
    pub(super) const GROUP: u16 = 0;

    /// Maps `entries` buffers and hands them all to the kernel.
    pub(super) fn register(
        uring: &IoUring<squeue::Entry>,
        entries: u16,
        buffer_bytes: u32,
    ) -> io::Result<Buffers> {
        assert!(entries.is_power_of_two() && entries <= 1 << 15, "the kernel's rule");
        let ring_bytes = usize::from(entries) * size_of::<BufRingEntry>();
        let buffers_at = ring_bytes.next_multiple_of(4096);
        let mapped_bytes = buffers_at + usize::from(entries) * buffer_bytes as usize;
        // Needed: the ring must begin on a page and stay where it is. Sound: a fresh private
        // mapping aliases nothing.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let owner = NEXT_OWNER.fetch_add(1, Ordering::Relaxed);
        let mut buffers = Buffers {
            owner,
            base,
            mapped_bytes,
            buffers_at,
            buffer_bytes,
            entries,
            tail: 0,
            held: 0,
        };
        // Needed: the kernel must know the ring. Sound: the mapping is page-aligned, large enough
        // for `entries`, and outlives the registration: `super::Ring` unmaps it only after the
        // kernel's ring is gone or idle.
        unsafe {
            uring.submitter().register_buf_ring_with_flags(
                base.as_ptr() as u64,
                entries,
                Buffers::GROUP,
                0,
            )?;
        }
        for id in 0..entries {
            buffers.lend(id);
        }
        Ok(buffers)
    }

    /// The right to read buffer `id`, which a completion says holds `bytes`, the `last` that there
    /// were.
    pub(super) fn filled(&mut self, id: u16, bytes: u32, last: bool) -> Filled {
        assert!(
            id < self.entries && bytes <= self.buffer_bytes,
            "the kernel names its own buffers"
        );
        self.held += 1;
        Filled { owner: self.owner, id, bytes, last }
    }

    /// Buffers that are not held by a [`Filled`].
    pub(super) fn lent(&self) -> usize {
        usize::from(self.entries - self.held)
    }

    /// What the kernel put there.
    pub(super) fn bytes<'a>(&'a self, filled: &'a Filled) -> &'a [u8] {
        assert_eq!(filled.owner, self.owner, "a filled buffer belongs to the ring it came from");
        // Needed: the memory is shared with the kernel, so it cannot be a Vec. Sound: `Filled` is
        // made by `filled` alone, once for each completion, and not `Clone`; until `give_back`
        // takes it the kernel does not write there.
        // `id` and `bytes` were checked against the mapping, which starts out zeroed and so is
        // initialized.
        unsafe { slice::from_raw_parts(self.address(filled.id).as_ptr(), filled.bytes as usize) }
    }

    /// Lends the buffer to the kernel again.
    pub(super) fn give_back(&mut self, filled: Filled) {
        assert_eq!(filled.owner, self.owner, "a filled buffer belongs to the ring it came from");
        self.held -= 1;
        self.lend(filled.id);
    }

    fn address(&self, id: u16) -> NonNull<u8> {
        debug_assert!(id < self.entries);
        let offset = self.buffers_at + usize::from(id) * self.buffer_bytes as usize;
        // Sound: `id < entries`, so the offset lies inside the mapping.
        unsafe { self.base.add(offset) }
    }

    fn lend(&mut self, id: u16) {
        let address = self.address(id).as_ptr() as u64;
        let ring = self.base.as_ptr().cast::<BufRingEntry>();
        // Needed: the ring is shared with the kernel. Sound: the index is below `entries`, and the
        // kernel reads an entry only between its head and the tail, which is moved past this one
        // below. No more than `entries` buffers exist, so the tail never laps the head. The setters
        // leave alone the two bytes of entry 0 that hold the tail.
        unsafe {
            let entry = &mut *ring.add(usize::from(self.tail & (self.entries - 1)));
            entry.set_addr(address);
            entry.set_len(self.buffer_bytes);
            entry.set_bid(id);
        }
        self.tail = self.tail.wrapping_add(1);
        // Sound: the tail lies inside entry 0 of the mapping, is aligned to two bytes, and the
        // kernel only reads it.
        let tail = unsafe { &*BufRingEntry::tail(ring).cast::<AtomicU16>() };
        // Release: the entry must be visible before the tail that covers it; the kernel loads the
        // tail with acquire.
        tail.store(self.tail, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // Sound: nobody else unmaps it, and `super::Ring` drops the buffers after the kernel has
        // stopped using them.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped_bytes) };
    }
}

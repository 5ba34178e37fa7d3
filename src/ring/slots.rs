//! One slot a connection: what of it the kernel is working on.

use std::os::fd::RawFd;

/// Names a connection for as long as the ring lives: a slot that is used again has another
/// generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// Index of the slot.
    pub slot: u32,
    /// Counts how often the slot was filled.
    pub generation: u32,
}

/// State of a connection's multishot receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Receive {
    /// Not with the kernel.
    Idle,
    /// With the kernel.
    Armed,
    /// With the kernel, which was told to cancel it.
    Stopping,
}

/// A buffer on its way. The kernel reads it, so the vector is neither touched nor dropped until the
/// send completes.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) bytes: Vec<u8>,
    /// `sent < bytes.len()` while a send is with the kernel.
    pub(super) sent: usize,
}

/// Everything the ring knows of one connection.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) socket: RawFd,
    pub(super) sending: Option<Sending>,
    pub(super) receive: Receive,
    /// The owner wants bytes.
    pub(super) wanted: bool,
    /// No more bytes will come.
    pub(super) ended: bool,
    /// The owner has closed it; it hears no more of it.
    pub(super) closing: bool,
    /// The close itself is with the kernel.
    pub(super) shut: bool,
    generation: u32,
    used: bool,
}

/// All slots. Its capacity is reserved at once, so that it never moves: that is address space, not
/// memory.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    used: usize,
    max: u32,
}

impl Slots {
    /// Room for `max` connections.
    pub(super) fn new(max: u32) -> Slots {
        assert!(max <= Token::SLOTS_MAX, "slot numbers have 24 bits");
        Slots { slots: Vec::with_capacity(max as usize), free: Vec::new(), used: 0, max }
    }

    /// Slots in use.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Takes a slot for `socket`; `None` if all are in use.
    pub(super) fn fill(&mut self, socket: RawFd) -> Option<Key> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).ok().filter(|slot| *slot < self.max)?;
                self.slots.push(Slot {
                    socket: -1,
                    sending: None,
                    receive: Receive::Idle,
                    wanted: false,
                    ended: false,
                    closing: false,
                    shut: false,
                    generation: 0,
                    used: false,
                });
                slot
            }
        };
        let place = &mut self.slots[slot as usize];
        debug_assert!(!place.used && place.sending.is_none() && place.receive == Receive::Idle);
        place.socket = socket;
        place.used = true;
        place.wanted = true;
        (place.ended, place.closing, place.shut) = (false, false, false);
        self.used += 1;
        Some(Key { slot, generation: place.generation })
    }

    /// Gives the slot back; its next tenant has another generation.
    pub(super) fn free(&mut self, key: Key) {
        let Some(slot) = self.get_mut(key) else { return };
        debug_assert!(slot.sending.is_none() && slot.receive == Receive::Idle);
        slot.used = false;
        slot.socket = -1;
        slot.generation = slot.generation.wrapping_add(1);
        self.used -= 1;
        self.free.push(key.slot);
    }

    /// The slot, if it still belongs to that connection.
    pub(super) fn get(&self, key: Key) -> Option<&Slot> {
        let slot = self.slots.get(key.slot as usize)?;
        (slot.used && slot.generation == key.generation).then_some(slot)
    }

    /// As [`Slots::get`].
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(key.slot as usize)?;
        (slot.used && slot.generation == key.generation).then_some(slot)
    }

    /// The connection a completion speaks of, if it still exists.
    pub(super) fn find(&self, token: Token) -> Option<Key> {
        let key = token.key();
        self.get(key).map(|_| key)
    }

    /// All connections.
    pub(super) fn keys(&self) -> Vec<Key> {
        let numbered = (0u32..).zip(&self.slots);
        numbered
            .filter(|(_, slot)| slot.used)
            .map(|(index, slot)| Key { slot: index, generation: slot.generation })
            .collect()
    }
}

/// What a completion is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    /// An operation whose end tells nothing: a cancel, a timer's update, the close of a refused
    /// socket.
    Nothing,
    Accept,
    Timer,
    Receive,
    Send,
    Close,
    /// Somebody rang the doorbell.
    Bell,
}

/// `user_data`: `slot << 40 | generation << 8 | op`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token(pub(super) u64);

impl Token {
    pub(super) const NOTHING: Token = Token(Op::Nothing as u64);
    pub(super) const ACCEPT: Token = Token(Op::Accept as u64);
    pub(super) const TIMER: Token = Token(Op::Timer as u64);
    pub(super) const BELL: Token = Token(Op::Bell as u64);
    const SLOTS_MAX: u32 = 1 << 24;

    pub(super) fn new(op: Op, key: Key) -> Token {
        debug_assert!(key.slot < Token::SLOTS_MAX);
        Token(u64::from(key.slot) << 40 | u64::from(key.generation) << 8 | op as u64)
    }

    pub(super) fn op(self) -> Op {
        match self.0 & 0xff {
            1 => Op::Accept,
            2 => Op::Timer,
            3 => Op::Receive,
            4 => Op::Send,
            5 => Op::Close,
            6 => Op::Bell,
            _ => Op::Nothing,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the fields are cut out of the number")]
    fn key(self) -> Key {
        Key { slot: (self.0 >> 40) as u32, generation: (self.0 >> 8) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_back_what_was_put_in() {
        let key = Key { slot: Token::SLOTS_MAX - 1, generation: u32::MAX };
        for op in [Op::Receive, Op::Send, Op::Close] {
            let token = Token::new(op, key);
            assert_eq!((token.op(), token.key()), (op, key));
        }
        assert_eq!(Token::ACCEPT.op(), Op::Accept);
        assert_eq!(Token::TIMER.op(), Op::Timer);
        assert_eq!(Token::BELL.op(), Op::Bell);
        assert_eq!(Token::NOTHING.op(), Op::Nothing);
    }

    #[test]
    fn a_freed_slot_comes_back_under_another_generation() {
        let mut slots = Slots::new(1);
        let first = slots.fill(7).unwrap();
        assert!(slots.fill(8).is_none(), "all slots are in use");
        slots.free(first);
        let second = slots.fill(9).unwrap();
        assert_eq!(first.slot, second.slot);
        assert!(slots.get(first).is_none());
        assert!(slots.find(Token::new(Op::Receive, first)).is_none());
        assert_eq!(slots.get(second).unwrap().socket, 9);
    }
}

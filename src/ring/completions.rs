//! What the kernel reports, turned into [`Event`]s.

use std::io;
use std::os::fd::RawFd;

use io_uring::types::Fd;
use io_uring::{cqueue, opcode};

use super::slots::{Op, Receive, Token};
use super::{Accepting, Event, Key, Ring};

impl Ring {
    pub(super) fn digest(&mut self, completion: &cqueue::Entry) -> Option<Event> {
        let (result, flags) = (completion.result(), completion.flags());
        let token = Token(completion.user_data());
        match token.op() {
            Op::Nothing => None,
            Op::Bell => {
                // It has ended the sleep, which is all it is for. The kernel may end a multishot
                // poll at any time.
                if !cqueue::more(flags) && !self.ending {
                    self.listen_for_bell();
                }
                None
            }
            Op::Accept => self.accepted(result, cqueue::more(flags)),
            Op::Timer => {
                // ETIME is the normal end. After an update that lost the race, the owner simply
                // asks again.
                self.timer_runs = false;
                Some(Event::Timer)
            }
            Op::Receive => self.received(token, result, flags),
            Op::Send => self.sent(token, result),
            Op::Close => {
                if let Some(key) = self.slots.find(token) {
                    self.slots.free(key);
                }
                None
            }
        }
    }

    fn accepted(&mut self, result: i32, more: bool) -> Option<Event> {
        let ending = self.accepting == Accepting::Ending;
        if !more && !ending {
            self.accepting = Accepting::No;
        }
        if result < 0 {
            if ending {
                return None;
            }
            return match -result {
                // The peer was gone before it was accepted, or a network error that accept(2)
                // passes on.
                libc::ECONNABORTED
                | libc::EINTR
                | libc::EAGAIN
                | libc::EPROTO
                | libc::EPERM
                | libc::ENETDOWN
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::EHOSTUNREACH
                | libc::ENONET
                | libc::ENOPROTOOPT => {
                    self.accept();
                    None
                }
                // One burst was accepted before any of it could be refused. Those closes stand
                // before the next accept in the queue, so it finds room: no need to pause.
                libc::EMFILE | libc::ENFILE if self.refused => {
                    self.accept();
                    None
                }
                errno => Some(Event::AcceptFailed(io::Error::from_raw_os_error(errno))),
            };
        }
        if !more {
            self.accept();
        }
        let socket: RawFd = result;
        let place = if ending { None } else { self.slots.fill(socket) };
        let Some(key) = place else {
            let entry = opcode::Close::new(Fd(socket)).build();
            self.push(entry.user_data(Token::NOTHING.0));
            self.refused = true;
            return Some(Event::Refused);
        };
        self.receive(key);
        Some(Event::Accepted(key))
    }

    fn received(&mut self, token: Token, result: i32, flags: u32) -> Option<Event> {
        let filled = cqueue::buffer_select(flags).map(|id| {
            let bytes = u32::try_from(result).unwrap_or(0);
            self.buffers.filled(id, bytes, !cqueue::sock_nonempty(flags))
        });
        let key = self.slots.find(token);
        let slot = key.and_then(|key| self.slots.get_mut(key));
        let (Some(key), Some(slot)) = (key, slot) else {
            debug_assert!(false, "a slot is freed after its last completion");
            if let Some(filled) = filled {
                self.buffers.give_back(filled);
            }
            return None;
        };
        let last = !cqueue::more(flags);
        if last {
            slot.receive = Receive::Idle;
        }
        if slot.closing {
            if let Some(filled) = filled {
                self.buffers.give_back(filled);
            }
            self.close_if_quiet(key);
            return None;
        }
        match (result, filled) {
            (1.., Some(filled)) => {
                if last {
                    self.receive(key);
                }
                Some(Event::Received(key, filled))
            }
            (result, filled) => {
                if let Some(filled) = filled {
                    self.buffers.give_back(filled);
                }
                self.receive_ended(key, result)
            }
        }
    }

    fn receive_ended(&mut self, key: Key, result: i32) -> Option<Event> {
        let slot = self.slots.get_mut(key)?;
        match -result {
            // Buffers that events still hold come back before the next turn.
            libc::ENOBUFS => {
                self.starved.push_back(key);
                None
            }
            // Paused; perhaps resumed since.
            libc::ECANCELED | libc::EINTR | libc::EAGAIN => {
                self.receive(key);
                None
            }
            errno => {
                slot.wanted = false;
                slot.ended = true;
                let error = (errno != 0).then(|| io::Error::from_raw_os_error(errno));
                Some(Event::Ended(key, error))
            }
        }
    }

    fn sent(&mut self, token: Token, result: i32) -> Option<Event> {
        let key = self.slots.find(token);
        let slot = key.and_then(|key| self.slots.get_mut(key));
        let (Some(key), Some(slot)) = (key, slot) else {
            debug_assert!(false, "a slot is freed after its last completion");
            return None;
        };
        if slot.closing {
            slot.sending = None;
            self.close_if_quiet(key);
            return None;
        }
        let Ok(count) = usize::try_from(result) else {
            if matches!(-result, libc::EINTR | libc::EAGAIN) {
                self.send_rest(key);
                return None;
            }
            slot.sending = None;
            return Some(Event::SendFailed(key, io::Error::from_raw_os_error(-result)));
        };
        let mut sending = slot.sending.take()?;
        sending.sent += count;
        if sending.sent >= sending.bytes.len() {
            return Some(Event::Sent(key, sending.bytes));
        }
        slot.sending = Some(sending);
        self.send_rest(key);
        Some(Event::SentSome(key))
    }
}

//! Bytes that wait for their socket.

/// Lives: one per connection, on its generator thread.
#[derive(Debug, Default)]
pub struct Outbox {
    /// `sent <= bytes.len()`: the bytes before it left already.
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbox {
    /// Where what is to be sent is appended.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What is still to be written.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// So many of them were written.
    pub fn wrote(&mut self, count: usize) {
        self.sent += count;
        assert!(self.sent <= self.bytes.len(), "wrote more than there was");
        if self.sent == self.bytes.len() {
            self.clear();
        }
    }

    /// Forgets what was not written; the room stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_pieces_leaves_once_and_in_order() {
        let mut out = Outbox::default();
        out.tail().extend(b"abc");
        out.wrote(2);
        out.tail().extend(b"de");
        assert_eq!(out.unsent(), b"cde");
        out.wrote(3);
        assert_eq!((out.unsent(), out.bytes.len()), (&b""[..], 0));
    }
}

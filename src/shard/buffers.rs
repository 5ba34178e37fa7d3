//! Output buffers between uses: connections hold one only while they have something to send.

use crate::limits::{OUTPUT_HIGH_WATER_BYTES, SPARE_OUTPUT_BYTES};

/// Emptied output buffers. Lives: one per shard.
///
/// A buffer is cleared when it comes back, and output is only ever appended, so no peer sees
/// another's bytes.
#[derive(Debug, Default)]
pub(super) struct Spares {
    buffers: Vec<Vec<u8>>,
    /// Sum of the capacities: `<= SPARE_OUTPUT_BYTES`.
    bytes: usize,
}

impl Spares {
    /// An empty buffer, perhaps with room.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps `buffer` for later, unless it is unusually large or enough are there.
    pub(super) fn give(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        if bytes > 0 && bytes <= OUTPUT_HIGH_WATER_BYTES && self.bytes + bytes <= SPARE_OUTPUT_BYTES
        {
            buffer.clear();
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_comes_back_empty_and_the_sum_is_capped() {
        let mut spares = Spares::default();
        spares.give(b"secret".to_vec());
        assert!(spares.take().is_empty());
        for _ in 0..10_000 {
            spares.give(Vec::with_capacity(4096));
        }
        assert!(spares.buffers.len() * 4096 <= SPARE_OUTPUT_BYTES);
        spares.give(Vec::with_capacity(OUTPUT_HIGH_WATER_BYTES + 1));
        while !spares.buffers.is_empty() {
            assert!(spares.take().capacity() <= OUTPUT_HIGH_WATER_BYTES);
        }
        assert_eq!(spares.bytes, 0);
    }
}

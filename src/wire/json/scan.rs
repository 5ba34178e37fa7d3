//! Looking through bytes eight at a time.

const HIGHS: u64 = all(0x80);

/// Eight times the same byte.
pub(super) const fn all(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Sets the high bit of each byte of `word` that is below `LIMIT`, which is at most 0x80, and
/// perhaps of some above the lowest such one. `word ^ all(b)` has a byte below 1 where `word` has
/// `b`.
#[inline]
pub(super) fn below<const LIMIT: u8>(word: u64) -> u64 {
    word.wrapping_sub(const { all(LIMIT) }) & !word & HIGHS
}

/// How many bytes stand before the first that stops the scan: the one whose high bit is the lowest
/// in `marks` of its word. `stops` says the same of a single byte, for the last ones.
#[inline]
pub(super) fn bytes_before(
    bytes: &[u8],
    marks: impl Fn(u64) -> u64,
    stops: impl Fn(u8) -> bool,
) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk() {
        let found = marks(u64::from_le_bytes(*chunk));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|byte| stops(*byte)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_that_stops_is_found_wherever_it_stands() {
        let space = |word: u64| below::<1>(word ^ all(b' ')) | below::<0x10>(word);
        let before = |bytes: &[u8]| bytes_before(bytes, space, |byte| byte == b' ' || byte < 0x10);
        for length in 0..20 {
            assert_eq!(before(&vec![b'x'; length]), length);
            for at in 0..length {
                for stop in [b' ', 0, 0x0f] {
                    let mut bytes = vec![0xff; length];
                    bytes[at] = stop;
                    // What stands behind it does not count.
                    bytes[at + 1..].fill(b'!');
                    assert_eq!(before(&bytes), at, "{bytes:?}");
                }
            }
        }
    }
}

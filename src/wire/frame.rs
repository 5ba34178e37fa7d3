//! Finds frames in buffered bytes: a 4-byte length, the kind of header, its 3-byte length.
//!
//! Every field is checked as soon as its bytes are there, so that a peer cannot make us wait for
//! (or reserve) what it merely announces. Nothing here allocates. Source of the rules: Java
//! `NettyDecoder`, `RemotingCommand.decode`.

use std::ops::Range;

use super::command::HeaderKind;
use super::error::{Foreign, WireError};
use crate::limits::{FRAME_LENGTH_MAX, HEADER_BYTES_MAX};

/// Bytes before the header: length field, kind, header length.
pub const PREFIX_BYTES: usize = 8;
/// Bytes of the length field, which does not count itself.
pub const LENGTH_BYTES: usize = 4;

/// The measures of one complete frame at the front of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// How the header is serialized.
    pub kind: HeaderKind,
    /// Bytes of the header.
    pub header_bytes: usize,
    /// Bytes of the body, perhaps 0.
    pub body_bytes: usize,
    /// Bytes of the frame, its length field included.
    pub total_bytes: usize,
}

impl FrameHead {
    pub(super) fn header_range(&self) -> Range<usize> {
        PREFIX_BYTES..PREFIX_BYTES + self.header_bytes
    }

    pub(super) fn body_range(&self) -> Range<usize> {
        PREFIX_BYTES + self.header_bytes..self.total_bytes
    }
}

/// Measures the frame at the front of `buffered`; `None` while it is incomplete.
///
/// # Errors
///
/// When the bytes that are there cannot begin a frame; the connection is to be closed.
pub fn next(buffered: &[u8]) -> Result<Option<FrameHead>, WireError> {
    let Some(length) = checked_length(buffered)? else { return Ok(None) };
    let Some(&[kind, high, middle, low]) = buffered[LENGTH_BYTES..].first_chunk() else {
        return Ok(None);
    };
    let kind = HeaderKind::from_byte(kind).ok_or(WireError::Kind { kind })?;
    let header = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    if header == 0 || header > HEADER_BYTES_MAX || header > length - 4 {
        return Err(WireError::HeaderLength { header, length });
    }
    let total_bytes = LENGTH_BYTES + length;
    if buffered.len() < total_bytes {
        return Ok(None);
    }
    let body_bytes = total_bytes - PREFIX_BYTES - header;
    Ok(Some(FrameHead { kind, header_bytes: header, body_bytes, total_bytes }))
}

/// Bytes that the frame at the front of `buffered` will have, once its length field is there and
/// acceptable.
#[must_use]
pub fn announced(buffered: &[u8]) -> Option<usize> {
    checked_length(buffered).ok().flatten().map(|length| LENGTH_BYTES + length)
}

/// The length field: more than the 4 bytes behind it, as no header is empty, and not over the
/// limit.
fn checked_length(buffered: &[u8]) -> Result<Option<usize>, WireError> {
    let Some(field) = buffered.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let announced = u32::from_be_bytes(*field);
    match usize::try_from(announced) {
        Ok(length) if length > 4 && length <= FRAME_LENGTH_MAX => Ok(Some(length)),
        _ => Err(WireError::Length { length: announced, foreign: Foreign::guess(buffered) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(bytes: &[u8]) -> WireError {
        next(bytes).expect_err("must be refused")
    }

    #[test]
    fn length_is_checked_with_its_fourth_byte() {
        for length in [0u32, 1, 3, 4, 16_777_213, u32::MAX] {
            let field = length.to_be_bytes();
            assert_eq!(next(&field[..3]), Ok(None), "three bytes say nothing");
            assert_eq!(fails(&field), WireError::Length { length, foreign: None });
            assert_eq!(announced(&field), None);
        }
        assert_eq!(next(&16_777_212u32.to_be_bytes()), Ok(None));
        assert_eq!(announced(&16_777_212u32.to_be_bytes()), Some(16 << 20));
        assert_eq!(announced(&[0, 0, 0]), None);
    }

    #[test]
    fn kind_and_header_length_are_checked_with_the_eighth_byte() {
        assert_eq!(next(&[0, 0, 0, 66, 2, 0, 0]), Ok(None));
        assert_eq!(fails(&[0, 0, 0, 66, 2, 0, 0, 62]), WireError::Kind { kind: 2 });
        assert_eq!(fails(&[0, 0, 0, 66, 255, 0, 0, 62]), WireError::Kind { kind: 255 });
        let over = WireError::HeaderLength { header: 63, length: 66 };
        assert_eq!(fails(&[0, 0, 0, 66, 0, 0, 0, 63]), over);
        let none = WireError::HeaderLength { header: 0, length: 66 };
        assert_eq!(fails(&[0, 0, 0, 66, 0, 0, 0, 0]), none);
        // 1 MiB and one byte, in a frame that would hold it.
        let large = WireError::HeaderLength { header: (1 << 20) + 1, length: 0x20_0000 };
        assert_eq!(fails(&[0, 0x20, 0, 0, 0, 0x10, 0, 1]), large);
        assert_eq!(next(&[0, 0x20, 0, 0, 0, 0x10, 0, 0]), Ok(None));
    }

    #[test]
    fn a_frame_is_measured_and_what_follows_is_left_alone() {
        let bytes = b"\x00\x00\x00\x09\x00\x00\x00\x02{}abc\x00\x00";
        let head = next(bytes).expect("well formed").expect("complete");
        let expected =
            FrameHead { kind: HeaderKind::Json, header_bytes: 2, body_bytes: 3, total_bytes: 13 };
        assert_eq!(head, expected);
        assert_eq!(&bytes[head.header_range()], b"{}");
        assert_eq!(&bytes[head.body_range()], b"abc");
        for cut in 0..13 {
            assert_eq!(next(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }

    #[test]
    fn a_foreign_protocol_is_named_by_its_first_four_bytes() {
        assert_eq!(fails(b"GET / HTTP/1.1\r\n").foreign(), Some(Foreign::Http));
        assert_eq!(fails(&[3, 0, 0, 0x2f]).foreign(), Some(Foreign::RemoteDesktop));
        assert_eq!(fails(&[0, 0, 0, 0]).foreign(), None);
    }
}

//! One decoded header with the body behind it.

use std::borrow::Cow;

use bytes::Bytes;

use super::error::WireError;
use super::fields::ExtFields;
use super::frame::FrameHead;
use super::{header_binary, header_json, header_plain};
use crate::ids::Opaque;

/// How a header is serialized: the frame's fifth byte (Java: `SerializeType`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HeaderKind {
    /// A JSON object.
    #[default]
    Json,
    /// The compact form, `ROCKETMQ`.
    Binary,
}

impl HeaderKind {
    /// The byte that announces this kind in a frame.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            HeaderKind::Json => 0,
            HeaderKind::Binary => 1,
        }
    }

    /// The kind that `byte` announces.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<HeaderKind> {
        match byte {
            0 => Some(HeaderKind::Json),
            1 => Some(HeaderKind::Binary),
            _ => None,
        }
    }
}

/// One request or response with its header decoded. Borrows from the frame where no escape forces a
/// copy.
#[derive(Debug, Default)]
pub struct Command<'a> {
    /// Request code, or response code in a response; 0 if the header had none.
    pub code: i32,
    /// Sender's version ordinal; 0 if the header had none.
    pub version: i32,
    /// Correlation number; `None` if the header had none.
    pub opaque: Option<Opaque>,
    /// Bit 0: a response. Bit 1: one-way.
    pub flag: i32,
    /// Text for people; `None` if absent.
    pub remark: Option<Cow<'a, str>>,
    /// Extension fields.
    pub ext: ExtFields<'a>,
    /// Bytes behind the header.
    pub body: &'a [u8],
    /// The buffer that `body` lies in, if it can be shared instead of copied.
    pub owner: Option<&'a Bytes>,
}

/// Flag bit of a response (Java: `RemotingCommand.RPC_TYPE`).
pub(super) const FLAG_RESPONSE: i32 = 1;
/// Flag bit of a request that wants no answer (Java: `RemotingCommand.RPC_ONEWAY`).
pub(super) const FLAG_ONEWAY: i32 = 2;

impl<'a> Command<'a> {
    /// Reads the header of `frame`, which [`super::frame::next`] measured as `head`.
    ///
    /// # Errors
    ///
    /// When the header cannot be read; the connection is to be closed, as the stream cannot be
    /// trusted any more.
    pub fn decode(
        head: &FrameHead,
        frame: &'a [u8],
        owner: Option<&'a Bytes>,
    ) -> Result<Command<'a>, WireError> {
        let mut command = Command::default();
        command.read(head, frame, owner)?;
        Ok(command)
    }

    /// As [`Command::decode`], into a default command: half a kilobyte that need not be moved.
    ///
    /// # Errors
    ///
    /// As [`Command::decode`].
    #[inline]
    pub fn read(
        &mut self,
        head: &FrameHead,
        frame: &'a [u8],
        owner: Option<&'a Bytes>,
    ) -> Result<(), WireError> {
        let (Some(header), Some(body)) =
            (frame.get(head.header_range()), frame.get(head.body_range()))
        else {
            debug_assert!(false, "decode called before the whole frame was there");
            return Err(WireError::Binary { reason: "frame is not complete", at: frame.len() });
        };
        self.body = body;
        self.owner = owner;
        match head.kind {
            HeaderKind::Json if header_plain::decode(header, self).is_some() => Ok(()),
            HeaderKind::Json => {
                *self = Command { body, owner, ..Command::default() };
                header_json::decode(header, self)
            }
            HeaderKind::Binary => header_binary::decode(header, self),
        }
    }

    /// True for an answer to something the receiver asked.
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// True if the sender wants no answer, not even an error.
    #[must_use]
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// The body as a value that outlives the frame: shared with the owner if there is one, else
    /// copied.
    #[must_use]
    pub fn body_bytes(&self) -> Bytes {
        match self.owner {
            Some(owner) if lies_in(owner, self.body) => owner.slice_ref(self.body),
            _ => Bytes::copy_from_slice(self.body),
        }
    }
}

/// `Bytes::slice_ref` panics for a slice of something else; a wrong owner must only cost a copy.
fn lies_in(owner: &Bytes, part: &[u8]) -> bool {
    let (outer, part) = (owner.as_ptr_range(), part.as_ptr_range());
    outer.start <= part.start && part.end <= outer.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame;

    const QUERY: &[u8] = b"\x00\x00\x00\x17\x00\x00\x00\x0e{\"code\":105  }body!";

    fn head(bytes: &[u8]) -> FrameHead {
        frame::next(bytes).expect("well formed").expect("complete")
    }

    #[test]
    fn body_is_shared_with_its_owner() {
        let owner = Bytes::from_static(QUERY);
        let command = Command::decode(&head(&owner), &owner, Some(&owner)).expect("decodes");
        let body = command.body_bytes();
        assert_eq!(&body[..], b"body!");
        assert_eq!(body.as_ptr(), owner[22..].as_ptr());
    }

    #[test]
    fn body_is_copied_without_an_owner_or_with_a_foreign_one() {
        let foreign = Bytes::from_static(b"something else");
        for owner in [None, Some(&foreign)] {
            let command = Command::decode(&head(QUERY), QUERY, owner).expect("decodes");
            assert_eq!(&command.body_bytes()[..], b"body!");
        }
    }

    #[test]
    fn flag_bits_are_told_apart() {
        let with = |flag| Command { flag, ..Command::default() };
        assert!(!with(0).is_response() && !with(0).is_oneway());
        assert!(with(1).is_response() && !with(1).is_oneway());
        assert!(!with(2).is_response() && with(2).is_oneway());
        assert!(!with(4).is_response() && !with(4).is_oneway());
    }
}

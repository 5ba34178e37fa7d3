//! What can be wrong with bytes from a peer, by what it means for the peer.

use std::borrow::Cow;
use std::fmt;

use super::json::JsonError;

/// A frame or header that cannot be read. The connection is closed without an answer, as Java does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The length field is too small for a header or over the limit.
    Length {
        /// Its value.
        length: u32,
        /// What the first bytes look like instead.
        foreign: Option<Foreign>,
    },
    /// The fifth byte names no header serialization.
    Kind {
        /// Its value.
        kind: u8,
    },
    /// The header length is zero, over the limit, or larger than the frame.
    HeaderLength {
        /// Its value.
        header: usize,
        /// Bytes that the frame has behind its length field.
        length: usize,
    },
    /// A JSON header that cannot be read.
    Json(JsonError),
    /// A binary header that cannot be read.
    Binary {
        /// What is wrong.
        reason: &'static str,
        /// Offset in the header.
        at: usize,
    },
    /// More extension fields than [`crate::limits::EXT_FIELDS_MAX`].
    TooManyFields,
}

impl WireError {
    /// The protocol that the peer seems to speak instead, if its first bytes give it away.
    #[must_use]
    pub fn foreign(&self) -> Option<Foreign> {
        match self {
            WireError::Length { foreign, .. } => *foreign,
            _ => None,
        }
    }
}

impl From<JsonError> for WireError {
    fn from(error: JsonError) -> Self {
        WireError::Json(error)
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Length { foreign: Some(foreign), .. } => {
                write!(f, "not the remoting protocol: looks like {foreign}")
            }
            WireError::Length { length, .. } => {
                let max = crate::limits::FRAME_LENGTH_MAX;
                write!(f, "frame length {length} is not between 5 and {max}")
            }
            WireError::Kind { kind } => {
                write!(f, "header kind {kind} is neither 0 (JSON) nor 1 (binary)")
            }
            WireError::HeaderLength { header, length } => {
                write!(f, "header length {header} does not fit a frame of {length} bytes")?;
                write!(f, " or is over the limit of {}", crate::limits::HEADER_BYTES_MAX)
            }
            WireError::Json(error) => write!(f, "JSON header: {error}"),
            WireError::Binary { reason, at } => write!(f, "binary header: {reason} at byte {at}"),
            WireError::TooManyFields => {
                write!(f, "more than {} extension fields", crate::limits::EXT_FIELDS_MAX)
            }
        }
    }
}

impl std::error::Error for WireError {}

/// A protocol that ended up on the wrong port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Foreign {
    /// HTTP/1: a request line.
    Http,
    /// HTTP/2 with prior knowledge, gRPC for example.
    Http2,
    /// A TLS hello, while TLS is off.
    Tls,
    /// An SSH banner.
    Ssh,
    /// A remote desktop probe (TPKT).
    RemoteDesktop,
}

impl Foreign {
    /// Guesses from the first bytes of a connection; four are enough.
    #[must_use]
    pub fn guess(first: &[u8]) -> Option<Foreign> {
        const METHODS: [&[u8; 4]; 9] =
            [b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC"];
        let first: &[u8; 4] = first.first_chunk()?;
        match first {
            b"PRI " => Some(Foreign::Http2),
            b"SSH-" => Some(Foreign::Ssh),
            [0x16, 3, 0..=4, _] => Some(Foreign::Tls),
            [3, 0, _, _] => Some(Foreign::RemoteDesktop),
            _ if METHODS.contains(&first) => Some(Foreign::Http),
            _ => None,
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Foreign::Http => "HTTP",
            Foreign::Http2 => "HTTP/2 or gRPC",
            Foreign::Tls => "TLS (TLS is off here)",
            Foreign::Ssh => "SSH",
            Foreign::RemoteDesktop => "a remote desktop client",
        })
    }
}

/// A body that is refused: answered with code 1, and nothing of it is applied.
///
/// Its text says what is wrong and where. It quotes at most 40 printable
/// characters of the body, since it travels back in a remark and into the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BodyError {
    what: Cow<'static, str>,
    place: String,
    position: Option<Position>,
}

/// Longest piece of a body that an error quotes.
pub const EXCERPT_CHARS_MAX: usize = 40;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Position {
    Byte(usize),
    Line(usize),
}

impl BodyError {
    /// `place` is a member path, such as `topicConfigTable`; it may name an entry through
    /// [`excerpt`].
    pub(super) fn new(place: impl Into<String>, what: impl Into<Cow<'static, str>>) -> BodyError {
        BodyError { what: what.into(), place: place.into(), position: None }
    }

    /// A JSON error in the part of a body that `place` names; `before` bytes of the body came
    /// before that part.
    pub(super) fn json(place: impl Into<String>, error: JsonError, before: usize) -> BodyError {
        BodyError::new(place, error.reason).at_byte(before + error.at)
    }

    /// The same error with a byte offset in the body.
    #[must_use]
    pub(super) fn at_byte(mut self, at: usize) -> BodyError {
        self.position = Some(Position::Byte(at));
        self
    }

    /// The same error with the line of `text` that its byte offset lies in: for files that people
    /// edit.
    #[must_use]
    pub(super) fn with_line(mut self, text: &[u8]) -> BodyError {
        if let Some(Position::Byte(at)) = self.position {
            let before = text.get(..at).unwrap_or(text);
            self.position = Some(Position::Line(memchr::memchr_iter(b'\n', before).count() + 1));
        }
        self
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)?;
        match self.position {
            Some(Position::Byte(at)) => write!(f, " at byte {at}"),
            Some(Position::Line(line)) => write!(f, " in line {line}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BodyError {}

/// The beginning of `text` for an error message: printable, at most [`EXCERPT_CHARS_MAX`]
/// characters.
pub(super) fn excerpt(text: &str) -> String {
    let mut short: String = text
        .chars()
        .take(EXCERPT_CHARS_MAX)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.chars().nth(EXCERPT_CHARS_MAX).is_some() {
        short.pop();
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_first_bytes_are_named() {
        let cases: [(&[u8], Foreign); 6] = [
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Foreign::Http2),
            (b"GET / HTTP/1.1\r\n", Foreign::Http),
            (b"POST /x HTTP/1.1\r\n", Foreign::Http),
            (&[0x16, 3, 1, 2, 0, 1], Foreign::Tls),
            (&[3, 0, 0, 0x2f], Foreign::RemoteDesktop),
            (b"SSH-2.0-OpenSSH_9.6\r\n", Foreign::Ssh),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Foreign::guess(bytes), Some(expected));
        }
        assert_eq!(Foreign::guess(&[0, 0, 0, 0x42]), None);
        assert_eq!(Foreign::guess(b"GE"), None);
    }

    #[test]
    fn an_excerpt_is_short_and_printable() {
        assert_eq!(excerpt("a\nb\u{7f}"), "a?b?");
        let long = "x".repeat(100);
        assert_eq!(excerpt(&long).chars().count(), EXCERPT_CHARS_MAX);
        assert_eq!(excerpt(&long).chars().last(), Some('…'));
        assert_eq!(excerpt(&"é".repeat(40)), "é".repeat(40));
    }
}

//! Appending an answer to an output buffer: the head first, then whatever the caller writes, then
//! the length.

use super::OWN_VERSION;
use super::code::response;
use super::command::{FLAG_RESPONSE, HeaderKind};
use super::frame::{LENGTH_BYTES, PREFIX_BYTES};
use super::json::{put_int, put_list, put_string};
use crate::ids::Opaque;

/// Largest header that the three-byte field can announce.
const HEADER_FIELD_MAX: usize = (1 << 24) - 1;

/// The head of an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplyHead<'a> {
    /// Response code.
    pub code: i32,
    /// The request's.
    pub opaque: Opaque,
    /// Text for people.
    pub remark: Option<&'a str>,
    /// `extFields`: `None` if the answer has no header class, else its members that are set.
    pub ext: Option<&'a [(&'a str, &'a str)]>,
}

/// A frame that has its head in the buffer and waits for its body.
#[derive(Debug)]
#[must_use = "the frame has no length before it is finished"]
pub struct OpenFrame {
    /// Offset of the frame's length field in the buffer.
    start: usize,
}

impl ReplyHead<'_> {
    /// An answer without remark, fields and class.
    #[must_use]
    pub fn success(opaque: Opaque) -> ReplyHead<'static> {
        ReplyHead { code: response::SUCCESS, opaque, remark: None, ext: None }
    }

    /// Appends a frame's head to `out`; the caller appends the body behind it and then calls
    /// [`OpenFrame::finish`].
    ///
    /// A header too long for its length field (16 MiB of remark or fields) becomes an error that
    /// says so.
    pub fn begin(&self, kind: HeaderKind, out: &mut Vec<u8>) -> OpenFrame {
        if let (response::SUCCESS, None, None) = (self.code, self.remark, self.ext) {
            return plain_success(kind, self.opaque, out);
        }
        let header = Header {
            code: self.code,
            flag: FLAG_RESPONSE,
            version: OWN_VERSION,
            opaque: self.opaque,
            remark: self.remark,
            ext: self.ext,
        };
        match header.begin(kind, out) {
            Ok(frame) => frame,
            Err(TooLong) => ReplyHead {
                code: response::SYSTEM_ERROR,
                opaque: self.opaque,
                remark: Some("the answer's header exceeds 16 MiB"),
                ext: None,
            }
            .begin(kind, out),
        }
    }
}

/// The JSON header that nearly all answers have, around the number that differs.
const PLAIN_SUCCESS: [&[u8]; 2] = [
    b"{\"code\":0,\"flag\":1,\"language\":\"JAVA\",\"opaque\":",
    b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
];
const _: () = assert!(PLAIN_SUCCESS[0].len() + 11 + PLAIN_SUCCESS[1].len() < 256);
const _: () = assert!(OWN_VERSION == 513 && response::SUCCESS == 0 && FLAG_RESPONSE == 1);

fn plain_success(kind: HeaderKind, opaque: Opaque, out: &mut Vec<u8>) -> OpenFrame {
    let start = out.len();
    match kind {
        HeaderKind::Json => {
            let [before, behind] = PLAIN_SUCCESS;
            let mut digits = itoa::Buffer::new();
            let digits = digits.format(opaque.0).as_bytes();
            // At most 10 digits and a sign: the length takes one byte.
            let length = u8::try_from(before.len() + digits.len() + behind.len());
            out.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, length.unwrap_or(u8::MAX)]);
            out.extend_from_slice(before);
            out.extend_from_slice(digits);
            out.extend_from_slice(behind);
        }
        HeaderKind::Binary => {
            let [a, b, c, d] = opaque.0.to_be_bytes();
            out.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 21, 0, 0, 0, 2, 1, a, b, c, d]);
            out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
    }
    OpenFrame { start }
}

impl OpenFrame {
    /// Writes the length, now that the body is there. Returns the bytes of the whole frame; more
    /// than [`crate::limits::FRAME_BYTES_MAX`] cannot be read by Java peers, which is for the
    /// caller to count.
    pub fn finish(self, out: &mut [u8]) -> usize {
        let total = out.len() - self.start;
        // A frame beyond 4 GiB is beyond any peer; its length field shows the largest value.
        let length = u32::try_from(total - LENGTH_BYTES).unwrap_or(u32::MAX);
        out[self.start..self.start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
        total
    }
}

/// The members of a header to be written, request or response.
pub(super) struct Header<'a> {
    pub(super) code: i32,
    pub(super) flag: i32,
    pub(super) version: i32,
    pub(super) opaque: Opaque,
    pub(super) remark: Option<&'a str>,
    pub(super) ext: Option<&'a [(&'a str, &'a str)]>,
}

/// The header does not fit the three bytes of its length field; the buffer is as before.
#[derive(Debug)]
pub(super) struct TooLong;

impl Header<'_> {
    pub(super) fn begin(&self, kind: HeaderKind, out: &mut Vec<u8>) -> Result<OpenFrame, TooLong> {
        let start = out.len();
        out.extend_from_slice(&[0; PREFIX_BYTES]);
        match kind {
            HeaderKind::Json => self.put_json(out),
            HeaderKind::Binary => self.put_binary(out),
        }
        let length = out.len() - start - PREFIX_BYTES;
        match u32::try_from(length) {
            Ok(length32) if length <= HEADER_FIELD_MAX => {
                let [_, high, middle, low] = length32.to_be_bytes();
                let field = [kind.byte(), high, middle, low];
                out[start + LENGTH_BYTES..start + PREFIX_BYTES].copy_from_slice(&field);
                Ok(OpenFrame { start })
            }
            _ => {
                out.truncate(start);
                Err(TooLong)
            }
        }
    }

    /// Members in alphabetical order, those without a value left out, as Java writes them.
    fn put_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        put_int(out, self.code);
        if let Some(ext) = self.ext {
            out.extend_from_slice(b",\"extFields\":{");
            put_list(out, ext.iter(), |out, (name, value)| {
                put_string(out, name);
                out.push(b':');
                put_string(out, value);
            });
            out.push(b'}');
        }
        out.extend_from_slice(b",\"flag\":");
        put_int(out, self.flag);
        out.extend_from_slice(
            b",\"language\":\"JAVA\",\
            \"opaque\":",
        );
        put_int(out, self.opaque.0);
        if let Some(remark) = self.remark {
            out.extend_from_slice(b",\"remark\":");
            put_string(out, remark);
        }
        out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        put_int(out, self.version);
        out.push(b'}');
    }

    fn put_binary(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&low_16_bits(self.code));
        out.push(0); // language JAVA
        out.extend_from_slice(&low_16_bits(self.version));
        out.extend_from_slice(&self.opaque.0.to_be_bytes());
        out.extend_from_slice(&self.flag.to_be_bytes());
        put_text_32(out, self.remark.unwrap_or_default());
        let fields = out.len();
        out.extend_from_slice(&[0; 4]);
        for (name, value) in self.ext.unwrap_or_default() {
            let Ok(length) = i16::try_from(name.len()) else {
                debug_assert!(false, "field names are ours and short");
                continue;
            };
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(name.as_bytes());
            put_text_32(out, value);
        }
        let length = length_32(out.len() - fields - 4);
        out[fields..fields + 4].copy_from_slice(&length);
    }
}

/// Java writes a short and so keeps the low 16 bits of a larger code.
fn low_16_bits(value: i32) -> [u8; 2] {
    let [_, _, high, low] = value.to_be_bytes();
    [high, low]
}

fn put_text_32(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&length_32(text.len()));
    out.extend_from_slice(text.as_bytes());
}

/// What exceeds 4 GiB exceeds the header's own field too, so that the header is dropped anyway.
fn length_32(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Command, frame};

    fn reply(reply: &ReplyHead<'_>, kind: HeaderKind, body: &[u8]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        let open = reply.begin(kind, &mut out);
        out.extend_from_slice(body);
        let total = open.finish(&mut out);
        assert_eq!(total, out.len() - 6);
        out.split_off(6)
    }

    #[test]
    fn json_header_is_byte_for_byte_that_of_java() {
        let not_supported = ReplyHead {
            code: 3,
            opaque: Opaque(7),
            remark: Some(" request type 999 not supported"),
            ext: None,
        };
        let expected = b"\x00\x00\x00\x8e\x00\x00\x00\x8a{\"code\":3,\
            \"flag\":1,\"language\":\"JAVA\",\
            \"opaque\":7,\"remark\":\" request type 999 not supported\",\
            \"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}";
        assert_eq!(reply(&not_supported, HeaderKind::Json, b""), expected);

        let changed = [("changed", "false")];
        let version = ReplyHead { ext: Some(&changed), ..ReplyHead::success(Opaque(19)) };
        let header = "\
            {\"code\":0,\"extFields\":{\"changed\":\"false\"},\"flag\":1,\"language\":\"JAVA\",\
            \"opaque\":19,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}";
        assert_eq!(
            reply(&version, HeaderKind::Json, b"{}")[8..],
            [header, "{}"].concat().into_bytes()
        );

        let empty = ReplyHead { ext: Some(&[]), ..ReplyHead::success(Opaque(-1)) };
        let header = "\
            {\"code\":0,\"extFields\":{},\"flag\":1,\"language\":\"JAVA\",\
            \"opaque\":-1,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}";
        assert_eq!(reply(&empty, HeaderKind::Json, b"")[8..], *header.as_bytes());
    }

    #[test]
    fn the_plain_header_is_the_one_that_is_put_together() {
        for opaque in [0, 9, -1, 123_456, i32::MAX, i32::MIN].map(Opaque) {
            let header = Header {
                code: 0,
                flag: FLAG_RESPONSE,
                version: OWN_VERSION,
                opaque,
                remark: None,
                ext: None,
            };
            for kind in [HeaderKind::Json, HeaderKind::Binary] {
                let mut expected = Vec::new();
                header.begin(kind, &mut expected).expect("short").finish(&mut expected);
                assert_eq!(reply(&ReplyHead::success(opaque), kind, b""), expected);
            }
        }
    }

    #[test]
    fn binary_header_is_byte_for_byte_that_of_java() {
        let not_supported = ReplyHead {
            code: 3,
            opaque: Opaque(8),
            remark: Some(" request type 999 not supported"),
            ext: Some(&[]),
        };
        let expected = b"\
            \x00\x00\x00\x38\x01\x00\x00\x34\
            \x00\x03\x00\x02\x01\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\
            \x1f request type 999 not supported\x00\x00\x00\x00";
        assert_eq!(reply(&not_supported, HeaderKind::Binary, b""), expected);

        let wiped = [("wipeTopicCount", "2")];
        let wiped = ReplyHead { ext: Some(&wiped), ..ReplyHead::success(Opaque(19)) };
        let expected = b"\
            \x00\x00\x00\x2e\x01\x00\x00\x2a\
            \x00\x00\x00\x02\x01\x00\x00\x00\x13\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\
            \x15\x00\x0ewipeTopicCount\x00\x00\x00\x012";
        assert_eq!(reply(&wiped, HeaderKind::Binary, b""), expected);
    }

    #[test]
    fn a_reply_is_read_back_as_it_was_written() {
        let ext = [("haServerAddr", "h:1"), ("masterAddr", "a\"\\\n😀:2")];
        let written = ReplyHead {
            code: 22,
            opaque: Opaque(i32::MIN),
            remark: Some("r\u{1}"),
            ext: Some(&ext),
        };
        for kind in [HeaderKind::Json, HeaderKind::Binary] {
            let bytes = reply(&written, kind, b"body");
            let head = frame::next(&bytes).expect("well formed").expect("complete");
            let command = Command::decode(&head, &bytes, None).expect("decodes");
            assert!(command.is_response());
            assert_eq!((command.code, command.version), (22, 513));
            assert_eq!(command.opaque, Some(Opaque(i32::MIN)));
            assert_eq!(command.remark.as_deref(), Some("r\u{1}"));
            assert_eq!(command.text("masterAddr"), Some("a\"\\\n😀:2"));
            assert_eq!(command.body, b"body");
        }
    }

    #[test]
    fn a_header_beyond_its_length_field_becomes_an_error() {
        let huge = "x".repeat(1 << 24);
        let huge = ReplyHead { remark: Some(&huge), ..ReplyHead::success(Opaque(5)) };
        for kind in [HeaderKind::Json, HeaderKind::Binary] {
            let bytes = reply(&huge, kind, b"");
            let head = frame::next(&bytes).expect("well formed").expect("complete");
            let command = Command::decode(&head, &bytes, None).expect("decodes");
            assert_eq!((command.code, command.opaque), (1, Some(Opaque(5))));
        }
    }
}

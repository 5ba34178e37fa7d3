//! The remoting frames, as far as a generator needs them. Written from the protocol, not from the
//! server's codec, so that a mistake there cannot cancel itself out here.
//!
//! ```text
//! | length: 4 | header kind: 1 | header length: 3 | header | body |      big-endian
//!   = bytes after this field     0 JSON, 1 binary
//! ```

use std::fmt;
use std::io::Write as _;

/// Register a broker and its topics.
pub const REGISTER_BROKER: u16 = 103;
/// Take a broker and its topics back.
pub const UNREGISTER_BROKER: u16 = 104;
/// Ask for all brokers of all clusters.
pub const CLUSTER_INFO: u16 = 106;
/// Ask for the names of all topics.
pub const TOPIC_LIST: u16 = 206;
/// Ask whether a broker's registration is still up to date.
pub const QUERY_DATA_VERSION: u16 = 322;
/// Ask for the route of a topic.
pub const ROUTE_BY_TOPIC: u16 = 105;
/// Tell that a broker is alive.
pub const BROKER_HEARTBEAT: u16 = 904;
/// The answer is fine.
pub const SUCCESS: i32 = 0;
/// The answer to a route query for a topic nobody registered.
pub const TOPIC_NOT_EXIST: i32 = 17;

/// The first `opaque` in use. All of them have ten digits, so that a query is a fixed number of
/// bytes and its `opaque` stands at a fixed place. Range: `OPAQUE_FIRST..OPAQUE_END`.
pub const OPAQUE_FIRST: u32 = 1_000_000_000;
/// One past the last `opaque` in use; below the signed 32-bit limit of the protocol.
pub const OPAQUE_END: u32 = 2_000_000_000;
/// Digits of every `opaque` in use.
pub const OPAQUE_DIGITS: usize = 10;

/// The largest frame a Java peer accepts, length field included.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
const PREFIX_BYTES: usize = 8;
const BINARY_HEADER_BYTES_MIN: usize = 21;

/// One request, not yet encoded.
pub struct Request<'a> {
    /// What is asked for.
    pub code: u16,
    /// Comes back in the answer.
    pub opaque: u32,
    /// The named parameters, as text.
    pub fields: &'a [(&'a str, &'a str)],
    /// Empty means none.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// Appends the frame, with the JSON header a Java 5.5.0 peer writes (version 513).
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let mut header = format!("{{\"code\":{},\"extFields\":{{", self.code).into_bytes();
        for (index, (name, value)) in self.fields.iter().enumerate() {
            if index > 0 {
                header.push(b',');
            }
            append_json_text(&mut header, name);
            header.push(b':');
            append_json_text(&mut header, value);
        }
        write!(
            header,
            "}},\"flag\":0,\"language\":\"JAVA\",\"opaque\":{},\
             \"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}}",
            self.opaque
        )
        .expect("a Vec takes every byte");
        append_frame(out, &header, self.body);
    }
}

fn append_json_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a Vec takes every byte");
}

/// Appends a frame with a JSON header.
///
/// # Panics
/// When the frame would pass [`FRAME_BYTES_MAX`]: the generator sizes its own bodies below it.
pub fn append_frame(out: &mut Vec<u8>, header: &[u8], body: &[u8]) {
    append_frame_of_kind(out, 0, header, body);
}

/// Appends a frame whose header is of this kind: 0 is JSON, 1 is binary.
///
/// # Panics
/// As [`append_frame`].
pub fn append_frame_of_kind(out: &mut Vec<u8>, kind: u8, header: &[u8], body: &[u8]) {
    assert!(PREFIX_BYTES + header.len() + body.len() <= FRAME_BYTES_MAX, "a frame over 16 MiB");
    let length = u32::try_from(4 + header.len() + body.len()).expect("below 16 MiB");
    let header_length = u32::try_from(header.len()).expect("below 16 MiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.push(kind);
    out.extend_from_slice(&header_length.to_be_bytes()[1..]);
    out.extend_from_slice(header);
    out.extend_from_slice(body);
}

/// A route query, encoded once. Only the topic and the `opaque` change, both in place.
#[derive(Clone)]
pub struct RouteQuery {
    frame: Vec<u8>,
    topic_at: usize,
    topic_bytes: usize,
    opaque_at: usize,
}

impl RouteQuery {
    /// A query for topics as long as this one.
    pub fn for_topics_like(topic: &str) -> Self {
        let mut frame = Vec::new();
        let fields = [("topic", topic)];
        Request { code: ROUTE_BY_TOPIC, opaque: OPAQUE_FIRST, fields: &fields, body: b"" }
            .append_to(&mut frame);
        let topic_at = position(&frame, topic.as_bytes());
        let opaque_at = position(&frame, b"\"opaque\":") + b"\"opaque\":".len();
        Self { frame, topic_at, topic_bytes: topic.len(), opaque_at }
    }

    /// Bytes of every such query.
    pub fn bytes(&self) -> usize {
        self.frame.len()
    }

    /// Where in the frame the topic starts.
    pub fn topic_at(&self) -> usize {
        self.topic_at
    }

    /// Where in the frame the ten digits of the `opaque` start.
    pub fn opaque_at(&self) -> usize {
        self.opaque_at
    }

    /// Appends the query for one topic, which has the length given at the start.
    pub fn append_to(&self, out: &mut Vec<u8>, topic: &[u8], opaque: u32) {
        assert_eq!(topic.len(), self.topic_bytes);
        let start = out.len();
        out.extend_from_slice(&self.frame);
        out[start + self.topic_at..][..topic.len()].copy_from_slice(topic);
        write_digits(&mut out[start + self.opaque_at..][..OPAQUE_DIGITS], opaque);
    }
}

fn position(haystack: &[u8], needle: &[u8]) -> usize {
    haystack.windows(needle.len()).position(|w| w == needle).expect("written just above")
}

/// Fills the slice with the decimal digits of the number, with leading zeros.
pub fn write_digits(out: &mut [u8], mut number: u32) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10).to_le_bytes()[0];
        number /= 10;
    }
}

/// Bytes that are no frame of this protocol. The connection is of no use after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// One frame that arrived.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Response code, or request code when the server asks something.
    pub code: i32,
    /// Says which request this answers.
    pub opaque: i32,
    /// Whether this is an answer (bit 0 of the flag).
    pub is_answer: bool,
    /// The header as it came, for error messages.
    pub header: &'a [u8],
    /// Empty when there is none.
    pub body: &'a [u8],
    /// Of the whole frame, length field included.
    pub bytes: usize,
}

/// The first frame in the buffer; `None` when it is not complete yet.
///
/// # Errors
/// [`Malformed`] for a length that cannot be, or a header that names no code or `opaque`.
pub fn first_frame(buffer: &[u8]) -> Result<Option<Frame<'_>>, Malformed> {
    let Some((prefix, rest)) = buffer.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let [l0, l1, l2, l3, kind, h0, h1, h2] = *prefix;
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let header_length = u32::from_be_bytes([0, h0, h1, h2]) as usize;
    if !(4..=FRAME_BYTES_MAX - 4).contains(&length) {
        return Err(Malformed("a frame length outside 4..16 MiB"));
    }
    if header_length > length - 4 {
        return Err(Malformed("a header longer than its frame"));
    }
    let Some(content) = rest.get(..length - 4) else {
        return Ok(None);
    };
    let (header, body) = content.split_at(header_length);
    let head = match kind {
        0 => json_head(header),
        1 => binary_head(header),
        _ => return Err(Malformed("a header kind other than 0 and 1")),
    }
    .ok_or(Malformed("a header without code and opaque"))?;
    let (code, opaque, is_answer) = (head.code, head.opaque, head.flag & 1 == 1);
    Ok(Some(Frame { code, opaque, is_answer, header, body, bytes: length + 4 }))
}

struct Head {
    code: i32,
    opaque: i32,
    flag: i32,
}

fn binary_head(header: &[u8]) -> Option<Head> {
    let fixed = header.first_chunk::<BINARY_HEADER_BYTES_MIN>()?;
    let int =
        |at: usize| i32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let code = i32::from(i16::from_be_bytes([fixed[0], fixed[1]]));
    Some(Head { code, opaque: int(5), flag: int(9) })
}

/// Walks the members of the outermost object only, so that a text value or a nested object which
/// happens to contain `"opaque":` cannot mislead.
fn json_head(header: &[u8]) -> Option<Head> {
    let (mut code, mut opaque, mut flag) = (None, None, None);
    let (mut at, mut depth) = (0_usize, 0_u32);
    while let Some(&byte) = header.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let start = at;
                at = text_end(header, start)? + 1;
                let wanted = match header.get(start..at - 1)? {
                    _ if depth != 1 => continue,
                    b"code" => &mut code,
                    b"opaque" => &mut opaque,
                    b"flag" => &mut flag,
                    _ => continue,
                };
                // A text *value* that spells a member's name has no colon behind it.
                if let Some(number) = number_after_colon(header.get(at..)?) {
                    *wanted = Some(number);
                }
            }
            _ => {}
        }
    }
    Some(Head { code: code?, opaque: opaque?, flag: flag.unwrap_or(0) })
}

/// Index of the quote that ends the text beginning at `at`.
fn text_end(header: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match header.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn number_after_colon(rest: &[u8]) -> Option<i32> {
    let digits = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let (negative, digits) = match digits.strip_prefix(b"-") {
        Some(positive) => (true, positive),
        None => (false, digits),
    };
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    if count == 0 || count > 10 {
        return None;
    }
    let value = digits[..count].iter().fold(0_i64, |sum, b| sum * 10 + i64::from(b - b'0'));
    i32::try_from(if negative { -value } else { value }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unknown code 999, as a Java 5.5.0 server answers it with either header.
    const JSON_ANSWER: &[u8] = b"\0\0\0\x8e\0\0\0\x8a{\"code\":3,\"flag\":1,\"language\":\"JAVA\",\
        \"opaque\":7,\"remark\":\" request type 999 not supported\",\
        \"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}";
    const BINARY_ANSWER: &[u8] = b"\0\0\0\x38\x01\0\0\x34\0\x03\0\x02\x01\0\0\0\x07\0\0\0\x01\
        \0\0\0\x1f request type 999 not supported\0\0\0\0";

    #[test]
    fn a_route_query_has_the_bytes_of_a_java_client() {
        let query = RouteQuery::for_topics_like("T0");
        let mut out = Vec::new();
        query.append_to(&mut out, b"T7", 1_234_567_890);
        let header = b"{\"code\":105,\"extFields\":{\"topic\":\"T7\"},\"flag\":0,\
            \"language\":\"JAVA\",\"opaque\":1234567890,\"serializeTypeCurrentRPC\":\"JSON\",\
            \"version\":513}";
        assert_eq!(&out[..8], [0, 0, 0, 137, 0, 0, 0, 133]);
        assert_eq!(&out[8..], header);
        assert_eq!(query.bytes(), out.len());
    }

    #[test]
    fn both_header_kinds_are_read() {
        for answer in [JSON_ANSWER, BINARY_ANSWER] {
            let frame = first_frame(answer).unwrap().unwrap();
            assert_eq!((frame.code, frame.opaque, frame.is_answer), (3, 7, true));
            assert_eq!((frame.body, frame.bytes), (&b""[..], answer.len()));
        }
    }

    #[test]
    fn every_cut_of_a_frame_is_incomplete_and_not_an_error() {
        for answer in [JSON_ANSWER, BINARY_ANSWER] {
            for cut in 0..answer.len() {
                assert_eq!(first_frame(&answer[..cut]), Ok(None), "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_remark_cannot_pass_for_a_member() {
        let mut out = Vec::new();
        let header = br#"{"extFields":{"opaque":9},"remark":"\"opaque\":8,","code":0,"opaque":5}"#;
        append_frame(&mut out, header, b"body");
        let frame = first_frame(&out).unwrap().unwrap();
        assert_eq!((frame.opaque, frame.is_answer, frame.body), (5, false, &b"body"[..]));
    }

    #[test]
    fn bytes_that_are_no_frame_are_refused() {
        assert!(first_frame(b"HTTP/1.1 200 OK").is_err());
        assert!(first_frame(&[0, 0, 0, 3, 0, 0, 0, 0]).is_err());
        assert!(first_frame(&[0, 0, 0, 8, 0, 0, 0, 5, b'{', b'}', b' ', b' ']).is_err());
        assert!(first_frame(&[0, 0, 0, 6, 0, 0, 0, 2, b'{', b'}']).is_err());
        assert!(first_frame(&[0, 0, 0, 6, 2, 0, 0, 2, b'{', b'}']).is_err());
    }
}

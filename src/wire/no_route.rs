//! The refusal of a query for a topic without a route: what clients get again and again while a
//! topic has not been made. The same each time but for two words, so all else is encoded already.

use super::OWN_VERSION;
use super::code::response;
use super::command::{FLAG_RESPONSE, HeaderKind};
use super::frame::{LENGTH_BYTES, PREFIX_BYTES};
use super::json::{put_escaped, put_int};
use crate::ids::Opaque;
use crate::limits::HEADER_BYTES_MAX;

/// The remark around the topic's name (Java: `ClientRequestProcessor`, `FAQUrl`).
const REMARK: [&str; 2] = [
    "No topic route info in name server for the topic: ",
    "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.",
];
/// The JSON header around the opaque and the topic's name.
const JSON: [&[u8]; 3] = [
    b"{\"code\":17,\"flag\":1,\"language\":\"JAVA\",\"opaque\":",
    b",\"remark\":\"No topic route info in name server for the topic: ",
    b"\\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.\",\
      \"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}",
];
const _: () = assert!(OWN_VERSION == 513 && response::TOPIC_NOT_EXIST == 17 && FLAG_RESPONSE == 1);
// A name comes in a header and grows at most sixfold: the answer's header fits its length field.
const _: () = assert!(HEADER_BYTES_MAX * 6 + 1024 < 1 << 24);

/// Appends a whole frame that says that `topic` has no route.
pub fn put_no_route(kind: HeaderKind, opaque: Opaque, topic: &str, out: &mut Vec<u8>) {
    debug_assert!(topic.len() <= HEADER_BYTES_MAX, "it came in a header");
    let start = out.len();
    out.reserve(512 + topic.len());
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    match kind {
        HeaderKind::Json => {
            let [before, between, behind] = JSON;
            out.extend_from_slice(before);
            put_int(out, opaque.0);
            out.extend_from_slice(between);
            put_escaped(out, topic.as_bytes());
            out.extend_from_slice(behind);
        }
        HeaderKind::Binary => {
            let [before, behind] = REMARK;
            out.extend_from_slice(&[0, 17, 0, 2, 1]);
            out.extend_from_slice(&opaque.0.to_be_bytes());
            out.extend_from_slice(&[0, 0, 0, 1]);
            out.extend_from_slice(&length(before.len() + topic.len() + behind.len()));
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(topic.as_bytes());
            out.extend_from_slice(behind.as_bytes());
            out.extend_from_slice(&[0; 4]);
        }
    }
    let [_, high, middle, low] = length(out.len() - start - PREFIX_BYTES);
    let [a, b, c, d] = length(out.len() - start - LENGTH_BYTES);
    let prefix = [a, b, c, d, kind.byte(), high, middle, low];
    out[start..start + PREFIX_BYTES].copy_from_slice(&prefix);
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ReplyHead;

    #[test]
    fn it_is_the_answer_that_is_put_together() {
        let long = "x".repeat(HEADER_BYTES_MAX);
        for topic in ["", "T1", "a\"b\\c\n\u{1}é😀", &long] {
            for opaque in [0, 77, -1, i32::MAX, i32::MIN].map(Opaque) {
                let remark = REMARK.join(topic);
                let reply =
                    ReplyHead { code: 17, opaque, remark: Some(&remark), ..ReplyHead::default() };
                for kind in [HeaderKind::Json, HeaderKind::Binary] {
                    let mut expected = b"before".to_vec();
                    reply.begin(kind, &mut expected).finish(&mut expected);
                    let mut out = b"before".to_vec();
                    put_no_route(kind, opaque, topic, &mut out);
                    assert!(out == expected, "{kind:?}, {opaque:?}, {} bytes", topic.len());
                }
            }
        }
    }
}

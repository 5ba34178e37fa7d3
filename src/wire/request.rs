//! Writing a request: notices to brokers, the load generator, tests. Its answer is read by
//! [`super::Command::decode`].

use super::command::HeaderKind;
use super::reply::Header;
use crate::ids::Opaque;

/// A request to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Request code; of a binary header the low 16 bits are sent.
    pub code: i32,
    /// Correlation number.
    pub opaque: Opaque,
    /// Bit 1 (value 2): no answer is wanted.
    pub flag: i32,
    /// Version ordinal to appear as.
    pub version: i32,
    /// Extension fields; none of them leaves the member out.
    pub ext: &'a [(&'a str, &'a str)],
    /// Body, perhaps empty.
    pub body: &'a [u8],
}

impl Request<'_> {
    /// Appends the whole frame to `out` and returns its bytes; 0 and nothing appended if the header
    /// does not fit the three bytes of its length field.
    pub fn encode(&self, kind: HeaderKind, out: &mut Vec<u8>) -> usize {
        let header = Header {
            code: self.code,
            flag: self.flag,
            version: self.version,
            opaque: self.opaque,
            remark: None,
            ext: (!self.ext.is_empty()).then_some(self.ext),
        };
        let Ok(open) = header.begin(kind, out) else { return 0 };
        out.extend_from_slice(self.body);
        open.finish(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Command, frame};

    fn encoded(request: &Request<'_>, kind: HeaderKind) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(request.encode(kind, &mut out), out.len());
        out
    }

    #[test]
    fn requests_are_written_as_java_writes_them() {
        let clusters = Request { code: 106, opaque: Opaque(2), version: 513, ..Request::default() };
        let expected = "{\"code\":106,\"flag\":0,\"language\":\"JAVA\",\
            \"opaque\":2,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":513}";
        assert_eq!(encoded(&clusters, HeaderKind::Json)[8..], *expected.as_bytes());

        let topic = [("topic", "T1")];
        let route = Request {
            code: 105,
            opaque: Opaque(128),
            version: 513,
            ext: &topic,
            ..Request::default()
        };
        let expected = b"\
            \x00\x00\x00\x26\x01\x00\x00\x22\x00\x69\x00\x02\x01\x00\x00\x00\x80\
            \x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0d\x00\x05topic\x00\x00\x00\x02T1";
        assert_eq!(encoded(&route, HeaderKind::Binary), expected);
    }

    #[test]
    fn a_notice_to_a_broker_is_byte_for_byte_that_of_java() {
        let ext = [
            ("haBrokerAddr", "127.0.0.1:21730"),
            ("minBrokerAddr", "127.0.0.1:21720"),
            ("minBrokerId", "0"),
        ];
        let notice =
            Request { code: 905, opaque: Opaque(4), flag: 2, version: 513, ext: &ext, body: &[] };
        let expected = b"\
            \x01\x00\x00\x6a\
            \x03\x89\x00\x02\x01\x00\x00\x00\x04\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x55\
            \x00\x0chaBrokerAddr\x00\x00\x00\x0f127.0.0.1:21730\
            \x00\x0dminBrokerAddr\x00\x00\x00\x0f127.0.0.1:21720\
            \x00\x0bminBrokerId\x00\x00\x00\x010";
        assert_eq!(encoded(&notice, HeaderKind::Binary)[4..], *expected);
    }

    #[test]
    fn a_request_is_read_back_as_it_was_written() {
        let ext = [("brokerName", "n/é中😀\"\\")];
        let written =
            Request { code: 103, opaque: Opaque(9), flag: 2, version: 407, ext: &ext, body: b"{}" };
        for kind in [HeaderKind::Json, HeaderKind::Binary] {
            let bytes = encoded(&written, kind);
            let head = frame::next(&bytes).expect("well formed").expect("complete");
            let command = Command::decode(&head, &bytes, None).expect("decodes");
            assert_eq!((command.code, command.version, command.flag), (103, 407, 2));
            assert_eq!(command.text("brokerName"), Some("n/é中😀\"\\"));
            assert_eq!(command.body, b"{}");
            assert!(command.is_oneway());
        }
    }
}

//! How peers of different make and age word a request. The answer depends on it: a server writes
//! route answers for versions below 401 (4.9.4) with unquoted broker ids.

use std::fmt::Write as _;
use std::str::FromStr;

use crate::wire::{append_frame, append_frame_of_kind};

/// A make of peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wording {
    /// Java 5.5.0 with its default serialization.
    Java5,
    /// Java 5.5.0 with `rocketmq.serialize.type=ROCKETMQ`.
    Java5Binary,
    /// Java 4.9.7.
    Java49,
    /// Java 4.5.2.
    Java4,
    /// The Go client, which always says version 317.
    Go,
}

const LANGUAGE_JAVA: u8 = 0;
const KIND_BINARY: u8 = 1;
const STANDARD_JSON_VERSION: u16 = 401;

impl Wording {
    /// All of them.
    pub const ALL: [Wording; 5] =
        [Wording::Java5, Wording::Java5Binary, Wording::Java49, Wording::Java4, Wording::Go];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Wording::Java5 => "java5",
            Wording::Java5Binary => "java5-binary",
            Wording::Java49 => "java4.9",
            Wording::Java4 => "java4.5",
            Wording::Go => "go",
        }
    }

    /// The protocol version in its headers.
    pub fn version(self) -> u16 {
        match self {
            Wording::Java5 | Wording::Java5Binary => 513,
            Wording::Java49 => 407,
            Wording::Java4 | Wording::Go => 317,
        }
    }

    /// Whether its routes come with unquoted broker ids.
    pub fn is_legacy(self) -> bool {
        self.version() < STANDARD_JSON_VERSION
    }

    /// Appends a request.
    pub fn append(
        self,
        out: &mut Vec<u8>,
        code: u16,
        opaque: u32,
        fields: &[(&str, &str)],
        body: &[u8],
    ) {
        if self == Wording::Java5Binary {
            append_frame_of_kind(out, KIND_BINARY, &self.binary(code, opaque, fields), body);
        } else {
            append_frame(out, self.json(code, opaque, fields).as_bytes(), body);
        }
    }

    fn json(self, code: u16, opaque: u32, fields: &[(&str, &str)]) -> String {
        let mut header = format!("{{\"code\":{code},");
        if !fields.is_empty() {
            header.push_str("\"extFields\":{");
            for (index, (name, value)) in fields.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let value = serde_json::to_string(value).expect("text is JSON");
                let _ = write!(header, "{comma}\"{name}\":{value}");
            }
            header.push_str("},");
        }
        let (version, go) = (self.version(), self == Wording::Go);
        let _ = if go {
            write!(
                header,
                "\"flag\":0,\"language\":\"GO\",\"opaque\":{opaque},\"remark\":\"\",\
                 \"version\":{version}}}"
            )
        } else {
            write!(
                header,
                "\"flag\":0,\"language\":\"JAVA\",\"opaque\":{opaque},\
                 \"serializeTypeCurrentRPC\":\"JSON\",\"version\":{version}}}"
            )
        };
        header
    }

    fn binary(self, code: u16, opaque: u32, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut named = Vec::new();
        for (name, value) in fields {
            let name_bytes = u16::try_from(name.len()).expect("our names are short");
            named.extend(name_bytes.to_be_bytes());
            named.extend(name.as_bytes());
            let value_bytes = u32::try_from(value.len()).expect("our values are short");
            named.extend(value_bytes.to_be_bytes());
            named.extend(value.as_bytes());
        }
        let mut header = Vec::with_capacity(21 + named.len());
        header.extend(code.to_be_bytes());
        header.push(LANGUAGE_JAVA);
        header.extend(self.version().to_be_bytes());
        header.extend(opaque.to_be_bytes());
        header.extend([0; 4]); // flag: a request that wants an answer
        header.extend([0; 4]); // no remark
        header.extend(u32::try_from(named.len()).expect("below 16 MiB").to_be_bytes());
        header.extend(named);
        header
    }
}

/// In which proportion the makes occur.
#[derive(Debug, Clone, PartialEq)]
pub struct Wordings(Vec<(Wording, f64)>);

impl Default for Wordings {
    /// Mostly 5.x, some binary, some old ones: what a fleet in the middle of an upgrade has.
    fn default() -> Self {
        Self(vec![
            (Wording::Java5, 0.55),
            (Wording::Java5Binary, 0.10),
            (Wording::Java49, 0.15),
            (Wording::Java4, 0.10),
            (Wording::Go, 0.10),
        ])
    }
}

impl Wordings {
    /// The make for a number in `0.0..1.0`.
    pub fn at(&self, fraction: f64) -> Wording {
        let total: f64 = self.0.iter().map(|(_, share)| share).sum();
        let mut left = fraction * total;
        for (wording, share) in &self.0 {
            left -= share;
            if left < 0.0 {
                return *wording;
            }
        }
        self.0.last().map_or(Wording::Java5, |(wording, _)| *wording)
    }

    /// As on the command line.
    pub fn words(&self) -> String {
        let each: Vec<String> =
            self.0.iter().map(|(wording, share)| format!("{}={share}", wording.name())).collect();
        each.join(",")
    }
}

impl FromStr for Wordings {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = Wording::ALL.iter().map(|wording| wording.name()).collect();
        let wrong = || format!("give NAME=SHARE,.. with names of {}", names.join(", "));
        let mut shares = Vec::new();
        for part in text.split(',') {
            let (name, share) = part.split_once('=').ok_or_else(wrong)?;
            let wording = Wording::ALL.into_iter().find(|w| w.name() == name).ok_or_else(wrong)?;
            let share: f64 = share.parse().map_err(|_| wrong())?;
            if !(share.is_finite() && share >= 0.0) {
                return Err(wrong());
            }
            shares.push((wording, share));
        }
        if shares.iter().all(|(_, share)| *share == 0.0) {
            return Err(wrong());
        }
        Ok(Self(shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::first_frame;

    #[test]
    fn a_binary_request_has_the_layout_of_the_protocol() {
        let mut out = Vec::new();
        Wording::Java5Binary.append(&mut out, 105, 7, &[("topic", "T1")], b"");
        let expected =
            b"\0\0\0\x26\x01\0\0\x22\0\x69\0\x02\x01\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\x0d\
            \0\x05topic\0\0\0\x02T1";
        assert_eq!(out, expected);
    }

    #[test]
    fn every_make_writes_a_frame_with_its_code_and_opaque() {
        for wording in Wording::ALL {
            let mut out = Vec::new();
            wording.append(&mut out, 322, 123, &[("brokerName", "a\"b")], b"{}");
            let frame = first_frame(&out).unwrap().unwrap();
            assert_eq!((frame.code, frame.opaque, frame.is_answer), (322, 123, false));
            assert_eq!((frame.body, frame.bytes), (&b"{}"[..], out.len()), "{wording:?}");
        }
    }

    #[test]
    fn shares_are_kept() {
        let wordings: Wordings = "java5=3,go=1".parse().unwrap();
        assert_eq!((wordings.at(0.0), wordings.at(0.74)), (Wording::Java5, Wording::Java5));
        assert_eq!((wordings.at(0.76), wordings.at(0.999)), (Wording::Go, Wording::Go));
        assert!("perl=1".parse::<Wordings>().unwrap_err().contains("java5-binary"));
        assert!("go=0".parse::<Wordings>().is_err());
    }
}

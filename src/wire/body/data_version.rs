//! `DataVersion`: the body of code 322 both ways, and a member of a registration (Java:
//! `DataVersion`).

use crate::model::DataVersion;
use crate::wire::BodyError;
use crate::wire::json::{JsonError, Kind, Reader, put_int};

/// Reads a data version; `None` for no bytes and for the JSON `null`. `now_ms` is the wall clock:
/// the time stamp of a version that has none.
///
/// # Errors
///
/// When the bytes are neither an object nor `null`, blanks alone included.
pub fn decode(bytes: &[u8], now_ms: i64) -> Result<Option<DataVersion>, BodyError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut reader = Reader::new(bytes);
    let version = read(&mut reader, now_ms);
    version
        .and_then(|version| reader.finish().map(|()| version))
        .map_err(|error| BodyError::json("data version", error, 0))
}

/// Appends `version` as Java writes it: a counter that is null is left out.
pub fn encode(version: &DataVersion, out: &mut Vec<u8>) {
    out.push(b'{');
    if let Some(counter) = version.counter {
        out.extend_from_slice(b"\"counter\":");
        put_int(out, counter);
        out.push(b',');
    }
    out.extend_from_slice(b"\"stateVersion\":");
    put_int(out, version.state_version);
    out.extend_from_slice(b",\"timestamp\":");
    put_int(out, version.timestamp);
    out.push(b'}');
}

/// What a version that is not mentioned at all is taken to be.
pub(super) fn absent(now_ms: i64) -> DataVersion {
    DataVersion { state_version: 0, timestamp: now_ms, counter: Some(0) }
}

/// Takes a data version or a null.
pub(super) fn read(reader: &mut Reader<'_>, now_ms: i64) -> Result<Option<DataVersion>, JsonError> {
    if reader.null()? {
        return Ok(None);
    }
    let mut version = absent(now_ms);
    reader.open_object()?;
    while let Some(key) = reader.key()? {
        match &*key.name()? {
            b"counter" => version.counter = counter(reader)?,
            b"stateVersion" => version.state_version = reader.long()?,
            b"timestamp" => version.timestamp = reader.long()?,
            _ => reader.skip_member(&key)?,
        }
    }
    Ok(Some(version))
}

/// The counter is an object in Java (`AtomicLong`): null stays null, where a plain number would
/// become 0.
fn counter(reader: &mut Reader<'_>) -> Result<Option<i64>, JsonError> {
    match reader.peek()? {
        Kind::Null => reader.null().map(|_| None),
        _ => reader.long().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_123;

    fn version(text: &str) -> Option<DataVersion> {
        decode(text.as_bytes(), NOW).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn of(state_version: i64, timestamp: i64, counter: Option<i64>) -> Option<DataVersion> {
        Some(DataVersion { state_version, timestamp, counter })
    }

    #[test]
    fn absent_members_have_defaults_and_null_is_not_absent() {
        let full = r#"{"counter":1,"stateVersion":2,"timestamp":1700000000000}"#;
        assert_eq!(version(full), of(2, 1_700_000_000_000, Some(1)));
        assert_eq!(version("{}"), of(0, NOW, Some(0)));
        assert_eq!(version(r#"{"counter":"1"}"#), of(0, NOW, Some(1)));
        let nulls = r#"{"counter":null,"stateVersion":null,"timestamp":null}"#;
        assert_eq!(version(nulls), of(0, 0, None));
        assert_eq!(version(r#"{"counter":3,"x":[{}]},"#), of(0, NOW, Some(3)));
    }

    #[test]
    fn nothing_and_null_are_no_version_and_anything_else_is_refused() {
        assert_eq!(version(""), None);
        assert_eq!(version("null"), None);
        for text in ["hello", "[]", " ", "\n", "\"\"", "1", "{\"counter\":{}}", "{}x", "{"] {
            decode(text.as_bytes(), NOW).expect_err(text);
        }
    }

    #[test]
    fn an_error_says_what_and_where_but_quotes_nothing() {
        let error = decode(b"{\"counter\":secret}", NOW).expect_err("no value");
        assert_eq!(error.to_string(), "data version: no value begins like this at byte 11");
    }

    #[test]
    fn a_version_is_written_as_java_writes_it() {
        let written = |version: DataVersion| {
            let mut out = Vec::new();
            encode(&version, &mut out);
            String::from_utf8(out).expect("ASCII")
        };
        let version =
            DataVersion { state_version: 0, timestamp: 1_700_000_000_000, counter: Some(1) };
        let expected = r#"{"counter":1,"stateVersion":0,"timestamp":1700000000000}"#;
        assert_eq!(written(version), expected);
        let version = DataVersion { state_version: -1, timestamp: 0, counter: None };
        assert_eq!(written(version), r#"{"stateVersion":-1,"timestamp":0}"#);
    }
}

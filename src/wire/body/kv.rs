//! `KVTable`: the body of answers to code 219 and, with the order configuration, to code 103.

use crate::wire::json::{put_list, put_string};

/// Appends `{"table":{...}}` with the entries in the order they come.
pub fn encode_table<'a>(out: &mut Vec<u8>, entries: impl Iterator<Item = (&'a str, &'a str)>) {
    out.extend_from_slice(b"{\"table\":");
    put_texts(out, entries);
    out.push(b'}');
}

/// Appends an object of texts.
pub(super) fn put_texts<'a>(out: &mut Vec<u8>, entries: impl Iterator<Item = (&'a str, &'a str)>) {
    out.push(b'{');
    put_list(out, entries, |out, (key, value)| {
        put_string(out, key);
        out.push(b':');
        put_string(out, value);
    });
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_written_as_java_writes_it() {
        let table = |entries: &[(&str, &str)]| {
            let mut out = Vec::new();
            encode_table(&mut out, entries.iter().copied());
            String::from_utf8(out).expect("text")
        };
        assert_eq!(table(&[]), r#"{"table":{}}"#);
        assert_eq!(table(&[("T2", "b0:4;b1:4")]), r#"{"table":{"T2":"b0:4;b1:4"}}"#);
        assert_eq!(table(&[("a", "\""), ("b", "/")]), r#"{"table":{"a":"\"","b":"/"}}"#);
    }
}

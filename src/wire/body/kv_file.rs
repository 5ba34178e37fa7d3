//! The file that the KV table is kept in, readable and writable by both servers (Java:
//! `KVConfigSerializeWrapper`): `{"configTable":{"<namespace>":{"<key>":"<value>"}}}`.

use std::collections::BTreeMap;

use super::kv::put_texts;
use crate::wire::BodyError;
use crate::wire::json::{JsonError, Reader, put_list, put_string};

/// Namespace to key to value.
pub type Table = BTreeMap<String, BTreeMap<String, String>>;

/// Reads a file's content. No bytes at all and the JSON `null` are an empty table; so a file that
/// was never written and one that was cleared start empty, while one that was cut short does not.
///
/// # Errors
///
/// When the content is anything but an object with a `configTable`. The error names the line.
pub fn decode(content: &[u8]) -> Result<Table, BodyError> {
    // As in Java, a byte-order mark is passed over and what is not UTF-8 becomes U+FFFD.
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    if content.is_empty() {
        return Ok(Table::new());
    }
    let text = String::from_utf8_lossy(content);
    read(&mut Reader::new(text.as_bytes()))
        .map_err(|error| BodyError::json("KV file", error, 0).with_line(text.as_bytes()))
}

/// Appends `table` as file content.
pub fn encode(table: &Table, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"configTable\":{");
    put_list(out, table.iter(), |out, (namespace, entries)| {
        put_string(out, namespace);
        out.push(b':');
        put_texts(out, entries.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    });
    out.extend_from_slice(b"}}");
}

fn read(reader: &mut Reader<'_>) -> Result<Table, JsonError> {
    if reader.null()? {
        return reader.finish().map(|()| Table::new());
    }
    reader.open_object()?;
    let mut table = None;
    while let Some(key) = reader.key()? {
        match &*key.name()? {
            b"configTable" if reader.null()? => table = None,
            b"configTable" => table = Some(namespaces(reader)?),
            _ => reader.skip_member(&key)?,
        }
    }
    let end = reader.at();
    reader.finish()?;
    table.ok_or(JsonError { reason: "no configTable", at: end })
}

/// A namespace that is null is left out, like a value that is null: both could not be written back.
fn namespaces(reader: &mut Reader<'_>) -> Result<Table, JsonError> {
    let mut table = Table::new();
    reader.open_object()?;
    while let Some(namespace) = reader.key()? {
        let namespace = namespace.text()?.into_owned();
        if reader.null()? {
            table.remove(&namespace);
            continue;
        }
        let mut entries = BTreeMap::new();
        reader.open_object()?;
        while let Some(key) = reader.key()? {
            let key = key.text()?.into_owned();
            match reader.any_as_text()? {
                Some(value) => entries.insert(key, value.into_owned()),
                None => entries.remove(&key),
            };
        }
        table.insert(namespace, entries);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Vec<(String, Vec<(String, String)>)> {
        let table = decode(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
        table.into_iter().map(|(name, entries)| (name, entries.into_iter().collect())).collect()
    }

    fn one(namespace: &str, key: &str, value: &str) -> Vec<(String, Vec<(String, String)>)> {
        vec![(namespace.into(), vec![(key.into(), value.into())])]
    }

    #[test]
    fn what_was_written_is_read_back() {
        let mut table = Table::new();
        table.insert("empty".into(), BTreeMap::new());
        let entries = [("k\"\\\n", "v😀\u{1}"), ("", "")];
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into()));
        table.insert("ns/中".into(), entries.collect());
        let mut out = Vec::new();
        encode(&table, &mut out);
        let expected = "{\"configTable\":{\"empty\":{},\
                        \"ns/中\":{\"\":\"\",\"k\\\"\\\\\\n\":\"v😀\\u0001\"}}}";
        assert_eq!(String::from_utf8(out.clone()).as_deref(), Ok(expected));
        assert_eq!(decode(&out), Ok(table));
    }

    #[test]
    fn a_file_without_content_is_an_empty_table() {
        for text in ["", "null", "\u{feff}", "{\"configTable\":{}}"] {
            assert_eq!(table(text), [], "{text:?}");
        }
    }

    #[test]
    fn what_java_loads_is_loaded() {
        let plain = one("ns", "k", "v");
        for text in [
            "\u{feff}{\"configTable\":{\"ns\":{\"k\":\"v\"}}}",
            "// kept by hand\n{'configTable':{'ns':{'k':'v',},},} /* end */\n",
            "{\"other\":1,\"configTable\":{\"ns\":{\"k\":\"\\u0076\",\"gone\":null},\"nil\":null}}",
        ] {
            assert_eq!(table(text), plain, "{text}");
        }
        assert_eq!(table("{\"configTable\":{\"ns\":{\"k\":1.50}}}"), one("ns", "k", "1.50"));
        // Release 5.3.x escaped in upper case, and non-ASCII in some dialects.
        assert_eq!(
            table(r#"{"configTable":{"ns":{"k":"\u000B\u4E2D"}}}"#),
            one("ns", "k", "\u{b}中")
        );
        let invalid = b"{\"configTable\":{\"ns\":{\"k\":\"\xff\"}}}";
        assert_eq!(decode(invalid).expect("loaded")["ns"]["k"], "\u{fffd}");
        // A key with an escape and a supplementary character: refused in bodies by Java, but not
        // here.
        assert_eq!(table(r#"{"configTable":{"ns":{"😀\"":"v"}}}"#), one("ns", "😀\"", "v"));
    }

    #[test]
    fn anything_else_is_an_error_with_its_line() {
        for (text, error) in [
            (" \n", "KV file: ends where a value should be in line 2"),
            ("[]", "KV file: not an object in line 1"),
            ("{}", "KV file: no configTable in line 1"),
            ("{\"configtable\":{}}", "KV file: no configTable in line 1"),
            ("{\n\"configTable\":null\n}", "KV file: no configTable in line 3"),
            ("{\n\"configTable\":{\n\"ns\":[]}}", "KV file: not an object in line 3"),
            ("{\"configTable\":{}}\n\nx", "KV file: something follows the end in line 3"),
            ("{\"configTable\":{\"ns\":{\"k\":\"v", "KV file: string without an end in line 1"),
            ("{configTable:{}}", "KV file: not a key in quotes, a whole number or } in line 1"),
        ] {
            assert_eq!(
                decode(text.as_bytes()).map_err(|error| error.to_string()),
                Err(error.into())
            );
        }
    }
}

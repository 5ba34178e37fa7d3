//! The table's file, put together from the namespaces as they are already encoded.
//!
//! ```text
//! on the wire   {"table":{"k":"v"}}
//!                        ~~~~~~~~~
//! in the file   {"configTable":{"ns":{"k":"v"}}}
//! ```
//!
//! So a change costs the encoding of its own namespace and one copy of the rest.

use super::KvTable;
use crate::wire::json::{put_list, put_string};

/// What stands around the object in an encoded namespace.
const BEFORE: &[u8] = br#"{"table":"#;
const BEHIND: &[u8] = b"}";

impl KvTable {
    /// The content of the file that [`crate::wire::body::kv_file::decode`] reads, as does Java.
    #[must_use]
    pub fn file(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.view.file_bytes());
        out.extend_from_slice(b"{\"configTable\":{");
        put_list(&mut out, self.view.namespaces.iter(), |out, (name, namespace)| {
            put_string(out, name);
            out.push(b':');
            out.extend_from_slice(object_in(&namespace.encoded));
        });
        out.extend_from_slice(b"}}");
        debug_assert!(out.len() <= self.view.file_bytes());
        out
    }
}

fn object_in(encoded: &[u8]) -> &[u8] {
    let object = encoded.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(BEHIND));
    object.expect("a namespace is encoded as a KVTable")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::wire::body::kv_file;

    #[test]
    fn an_empty_table_is_a_file_that_java_reads_as_empty() {
        let file = KvTable::default().file();
        assert_eq!(file, br#"{"configTable":{}}"#);
        assert_eq!(kv_file::decode(&file), Ok(kv_file::Table::new()));
    }

    #[test]
    fn the_file_is_what_the_wire_would_encode_from_plain_maps() {
        let entries = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
        };
        let awkward = [("", "}"), ("{\"table\":", "\\"), ("中", "😀")];
        let maps = BTreeMap::from([
            ("empty".to_owned(), BTreeMap::new()),
            ("ns\"\n\u{1}".to_owned(), entries(&awkward)),
            ("one".to_owned(), entries(&[("k", "v")])),
        ]);
        let file = KvTable::from_namespaces(maps.clone()).file();
        let mut expected = Vec::new();
        kv_file::encode(&maps, &mut expected);
        assert_eq!(file, expected);
        assert_eq!(kv_file::decode(&file), Ok(maps));
    }
}

//! How many bytes the table has in its file, counted change by change instead of by encoding it.

use crate::limits::{KV_BYTES_MAX, KV_KEYS_MAX, KV_NAMESPACES_MAX};

use super::KvRefusal;

/// `{"configTable":{` and `}}`; longer than `{"table":{` and `}}`, so it stands for both.
const FRAME: usize = 18;
/// `"":{},` around a namespace.
const AROUND_NAMESPACE: usize = 6;
/// `"":"",` around a key and its value.
const AROUND_ENTRY: usize = 6;

/// What the bounds speak of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Size {
    /// Bytes of the file, never too few: one too many for each map that is not empty (its last
    /// comma).
    pub(super) bytes: usize,
    pub(super) keys: usize,
    pub(super) namespaces: usize,
}

impl Default for Size {
    fn default() -> Size {
        Size { bytes: FRAME, keys: 0, namespaces: 0 }
    }
}

impl Size {
    #[must_use]
    pub(super) fn with_namespace(self, name: &str) -> Size {
        let bytes = self.bytes + AROUND_NAMESPACE + escaped_len(name);
        Size { bytes, namespaces: self.namespaces + 1, ..self }
    }

    #[must_use]
    pub(super) fn with_entry(self, key: &str, value: &str) -> Size {
        Size { bytes: self.bytes + entry_len(key, value), keys: self.keys + 1, ..self }
    }

    #[must_use]
    pub(super) fn without_entry(self, key: &str, value: &str) -> Size {
        Size { bytes: self.bytes - entry_len(key, value), keys: self.keys - 1, ..self }
    }

    /// May a table of size `self` become one of size `next`? A table that is over a bound (its file
    /// was written by somebody else) may still shrink.
    pub(super) fn admits(self, next: Size) -> Result<(), KvRefusal> {
        let grows_beyond = |from: usize, to: usize, bound: usize| to > bound && to > from;
        if grows_beyond(self.bytes, next.bytes, KV_BYTES_MAX) {
            Err(KvRefusal::Bytes)
        } else if grows_beyond(self.keys, next.keys, KV_KEYS_MAX) {
            Err(KvRefusal::Keys)
        } else if grows_beyond(self.namespaces, next.namespaces, KV_NAMESPACES_MAX) {
            Err(KvRefusal::Namespaces)
        } else {
            Ok(())
        }
    }
}

fn entry_len(key: &str, value: &str) -> usize {
    AROUND_ENTRY + escaped_len(key) + escaped_len(value)
}

/// Bytes of `text` inside its quotes as JSON is written here: two for what has a short escape, six
/// for other controls.
fn escaped_len(text: &str) -> usize {
    let byte_len = |byte: u8| match byte {
        b'"' | b'\\' | 8 | b'\t' | b'\n' | 12 | b'\r' => 2,
        0..32 => 6,
        _ => 1,
    };
    text.bytes().map(byte_len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::body::kv::encode_table;

    #[test]
    fn each_character_is_counted_as_it_is_written() {
        for code in (0..0x100).chain([0x2028, 0x2029, 0x4e2d, 0xffff, 0x1_f600]) {
            let text = char::from_u32(code).unwrap().to_string();
            let mut out = Vec::new();
            encode_table(&mut out, [(&*text, "")].into_iter());
            let written = out.len() - br#"{"table":{"":""}}"#.len();
            assert_eq!(escaped_len(&text), written, "U+{code:04X}");
        }
    }

    #[test]
    fn a_bound_is_met_exactly() {
        let at = |bytes, keys, namespaces| Size { bytes, keys, namespaces };
        let below = at(KV_BYTES_MAX - 1, KV_KEYS_MAX - 1, KV_NAMESPACES_MAX - 1);
        let full = at(KV_BYTES_MAX, KV_KEYS_MAX, KV_NAMESPACES_MAX);
        assert_eq!(below.admits(full), Ok(()));
        let more = |part: fn(&mut Size)| {
            let mut next = full;
            part(&mut next);
            full.admits(next)
        };
        assert_eq!(more(|size| size.bytes += 1), Err(KvRefusal::Bytes));
        assert_eq!(more(|size| size.keys += 1), Err(KvRefusal::Keys));
        assert_eq!(more(|size| size.namespaces += 1), Err(KvRefusal::Namespaces));
    }

    #[test]
    fn a_table_over_its_bound_may_shrink_but_not_grow() {
        let over = Size { bytes: KV_BYTES_MAX + 10, keys: 1, namespaces: 1 };
        assert_eq!(over.admits(Size { bytes: over.bytes - 1, ..over }), Ok(()));
        assert_eq!(over.admits(over), Ok(()));
        assert_eq!(over.admits(Size { bytes: over.bytes + 1, ..over }), Err(KvRefusal::Bytes));
    }
}

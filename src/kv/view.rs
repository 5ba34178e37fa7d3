//! The table as readers see it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use super::size::Size;
use crate::wire::body::kv::encode_table;

/// A frozen table; cloning copies one pointer. Lives: inside the published view, on all cores.
#[derive(Clone, Default)]
pub struct KvView {
    pub(super) namespaces: OrdMap<Arc<str>, Namespace>,
    pub(super) size: Size,
}

/// One namespace. `encoded` is what `entries` look like on the wire, or stale inside a draft.
#[derive(Clone)]
pub(super) struct Namespace {
    pub(super) entries: OrdMap<Arc<str>, Arc<str>>,
    pub(super) encoded: Bytes,
}

impl Namespace {
    pub(super) fn new(entries: OrdMap<Arc<str>, Arc<str>>) -> Namespace {
        let mut namespace = Namespace { entries, encoded: Bytes::new() };
        namespace.encode();
        namespace
    }

    pub(super) fn encode(&mut self) {
        let mut out = Vec::new();
        encode_table(&mut out, self.iter());
        // Kept for as long as nobody changes the namespace: without spare capacity.
        self.encoded = Bytes::from(out.into_boxed_slice());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl KvView {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, namespace: &str, key: &str) -> Option<&str> {
        self.namespaces.get(namespace)?.entries.get(key).map(|value| &**value)
    }

    /// Keys and values of a namespace, in the byte order of the keys; `None` if it does not exist.
    #[cfg(test)]
    pub fn namespace(&self, namespace: &str) -> Option<impl Iterator<Item = (&str, &str)>> {
        self.namespaces.get(namespace).map(Namespace::iter)
    }

    /// A namespace as a `KVTable` in JSON, encoded when it last changed; `None` if it does not
    /// exist.
    #[must_use]
    pub fn encoded(&self, namespace: &str) -> Option<&Bytes> {
        self.namespaces.get(namespace).map(|found| &found.encoded)
    }

    /// Namespaces with their keys and values, all in byte order: what the log and the file show.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = (&str, &str)>)> {
        self.namespaces.iter().map(|(name, found)| (&**name, found.iter()))
    }

    /// Keys in all namespaces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.size.keys
    }

    /// True if there is no key; there may still be empty namespaces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size.keys == 0
    }

    /// Namespaces, empty ones included.
    #[cfg(test)]
    pub fn namespaces_len(&self) -> usize {
        self.size.namespaces
    }

    /// Bytes of the table's file: never too few, and too many by no more than its commas.
    #[must_use]
    pub fn file_bytes(&self) -> usize {
        self.size.bytes
    }
}

impl fmt::Debug for KvView {
    /// Counts only: values may be large, and may be nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KvView").field(&self.size).finish()
    }
}

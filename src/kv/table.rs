//! The table as the writer changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;

use super::size::Size;
use super::view::Namespace;
use super::{KvChange, KvRefusal, KvView};

/// The newest table, which may be ahead of the file and of what is published. Lives: writer core
/// only.
#[derive(Clone, Debug, Default)]
pub struct KvTable {
    pub(super) view: KvView,
}

impl KvTable {
    /// The table as its file holds it, also if that is larger than what could be put.
    #[must_use]
    pub fn from_namespaces(namespaces: BTreeMap<String, BTreeMap<String, String>>) -> KvTable {
        let mut view = KvView::default();
        for (name, entries) in namespaces {
            let mut size = view.size.with_namespace(&name);
            for (key, value) in &entries {
                size = size.with_entry(key, value);
            }
            view.size = size;
            let entries: OrdMap<Arc<str>, Arc<str>> = entries.into_iter().collect();
            view.namespaces.insert(name.into(), Namespace::new(entries));
        }
        KvTable { view }
    }

    /// The table frozen, to be published once its file is safe.
    #[must_use]
    pub fn view(&self) -> KvView {
        self.view.clone()
    }

    /// A table with `changes` applied in order, without those that do not fit: a [`KvDraft`] tells
    /// which. `None` if it would be equal to this one, so that nothing has to be written.
    #[cfg(test)]
    pub(super) fn with(&self, changes: &[KvChange]) -> Option<KvTable> {
        let mut draft = self.draft();
        for change in changes {
            // The refusal leaves the draft as it was.
            let _ = draft.apply(change);
        }
        draft.finish()
    }

    /// Begins a new table that starts as this one.
    #[must_use]
    pub fn draft(&self) -> KvDraft<'_> {
        KvDraft { before: self, next: self.view.clone(), touched: BTreeSet::new() }
    }
}

/// A table that is being changed; the one it came from stays as it is.
#[derive(Debug)]
pub struct KvDraft<'a> {
    before: &'a KvTable,
    /// Namespaces named in `touched` are not encoded yet.
    next: KvView,
    touched: BTreeSet<Arc<str>>,
}

impl KvDraft<'_> {
    /// Applies one change.
    ///
    /// # Errors
    ///
    /// If the table would grow beyond a bound; the draft is then as it was.
    pub fn apply(&mut self, change: &KvChange) -> Result<(), KvRefusal> {
        match change {
            KvChange::Put { namespace, key, value: Some(value) } => self.put(namespace, key, value),
            KvChange::Put { namespace, key, value: None } => {
                self.create(namespace)?;
                self.remove(namespace, key);
                Ok(())
            }
            KvChange::Delete { namespace, key } => {
                self.remove(namespace, key);
                Ok(())
            }
        }
    }

    /// The changed table, its touched namespaces encoded; `None` if it is equal to the one it came
    /// from.
    #[must_use]
    pub fn finish(mut self) -> Option<KvTable> {
        let mut changed = false;
        for name in &self.touched {
            let old = self.before.view.namespaces.get(name);
            let Some(new) = self.next.namespaces.get_mut(name) else { continue };
            match old {
                // Changed there and back.
                Some(old) if old.entries == new.entries => *new = old.clone(),
                _ => {
                    new.encode();
                    changed = true;
                }
            }
        }
        changed.then_some(KvTable { view: self.next })
    }

    fn put(&mut self, namespace: &str, key: &str, value: &str) -> Result<(), KvRefusal> {
        let old = self.next.get(namespace, key);
        if old == Some(value) {
            return Ok(());
        }
        let mut size = self.size_with(namespace);
        if let Some(old) = old {
            size = size.without_entry(key, old);
        }
        size = size.with_entry(key, value);
        self.next.size.admits(size)?;
        self.next.size = size;
        self.touch(namespace).entries.insert(key.into(), value.into());
        Ok(())
    }

    fn create(&mut self, namespace: &str) -> Result<(), KvRefusal> {
        if self.next.namespaces.contains_key(namespace) {
            return Ok(());
        }
        let size = self.size_with(namespace);
        self.next.size.admits(size)?;
        self.next.size = size;
        self.touch(namespace);
        Ok(())
    }

    fn remove(&mut self, namespace: &str, key: &str) {
        let Some(old) = self.next.get(namespace, key) else { return };
        self.next.size = self.next.size.without_entry(key, old);
        self.touch(namespace).entries.remove(key);
    }

    /// The size if `namespace` exists.
    fn size_with(&self, namespace: &str) -> Size {
        if self.next.namespaces.contains_key(namespace) {
            self.next.size
        } else {
            self.next.size.with_namespace(namespace)
        }
    }

    /// The namespace, made if it does not exist, to be encoded in the end.
    fn touch(&mut self, namespace: &str) -> &mut Namespace {
        let name: Arc<str> = namespace.into();
        self.touched.insert(Arc::clone(&name));
        self.next.namespaces.entry(name).or_insert_with(|| Namespace::new(OrdMap::new()))
    }
}

#[cfg(test)]
mod tests;

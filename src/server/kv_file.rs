//! Reads the KV table at start.

use std::path::Path;

use tracing::warn;

use crate::fatal::{Exit, Fatal};
use crate::kv::KvTable;
use crate::store;
use crate::wire::body::kv_file;

/// The table as the file has it. A file that was cut to nothing by a crash is replaced by its
/// backup; one that cannot be read stops the start, since only a person knows which state is meant.
pub(super) fn load(path: &Path) -> Result<KvTable, Fatal> {
    let unreadable = |error: store::StoreError| Fatal::new(Exit::Config, error.to_string());
    let content = store::load(path).map_err(unreadable)?.unwrap_or_default();
    if content.is_empty()
        && let Some(backup) = store::load_backup(path).map_err(unreadable)?
        && !backup.is_empty()
    {
        let path = path.display();
        warn!("{path} is missing or empty, as after a crash: its backup {path}.bak is used");
        return decode(&backup, &format!("{path}.bak"), "");
    }
    let cure = match store::load_backup(path) {
        Ok(Some(_)) => "repair it, or copy its backup over it (the same name with .bak)",
        _ => "repair it, or move it away to start with an empty KV table",
    };
    decode(&content, &path.display().to_string(), cure)
}

fn decode(content: &[u8], name: &str, cure: &str) -> Result<KvTable, Fatal> {
    let namespaces = kv_file::decode(content).map_err(|error| {
        Fatal::new(Exit::Config, format!("KV file {name} cannot be read: {error}; {cure}"))
    })?;
    Ok(KvTable::from_namespaces(namespaces))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TABLE: &str = "{\"configTable\":{\"n\":{\"k\":\"v\"}}}";

    /// Loads with these contents of the file and its backup.
    fn loaded(content: Option<&str>, backup: Option<&str>) -> Result<Option<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("kv.json", content), ("kv.json.bak", backup)] {
            if let Some(text) = text {
                fs::write(folder.path().join(name), text).unwrap();
            }
        }
        let table = load(&folder.path().join("kv.json")).map_err(|fatal| fatal.message)?;
        Ok(table.view().get("n", "k").map(str::to_owned))
    }

    #[test]
    fn a_file_cut_to_nothing_by_a_crash_is_replaced_by_its_backup() {
        let value = Some("v".to_owned());
        assert_eq!(loaded(Some(TABLE), None), Ok(value.clone()));
        assert_eq!(loaded(Some(""), Some(TABLE)), Ok(value.clone()));
        assert_eq!(loaded(None, Some(TABLE)), Ok(value));
        assert_eq!(loaded(None, None), Ok(None));
        assert_eq!(loaded(Some(""), Some("")), Ok(None));
    }

    #[test]
    fn a_damaged_file_stops_the_start_and_its_backup_is_not_taken_unasked() {
        for (backup, cure) in [(Some(TABLE), "copy its backup over it"), (None, "move it away")] {
            let message = loaded(Some(&TABLE[..20]), backup).unwrap_err();
            assert!(message.contains("cannot be read") && message.contains(cure), "{message}");
        }
    }
}

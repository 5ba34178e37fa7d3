//! Reads the route snapshot at start.

use std::path::Path;

use tracing::{info, warn};

use crate::clock::Clock;
use crate::limits::{SNAPSHOT_AGE_MS_MAX, SNAPSHOT_BYTES_MAX};
use crate::route::{Restored, RouteTable};
use crate::store;

/// The table that the last run left, or an empty one, with a warning if it left one that is of no
/// use. Never stops the start: brokers say all of it again within 30 s.
pub(super) fn load(path: Option<&Path>) -> Restored {
    let Some(path) = path else { return Restored::default() };
    let now_ms = Clock::start().wall_ms();
    match read(path, now_ms) {
        Ok(None) => Restored::default(),
        Ok(Some(restored)) => {
            let age_s = (now_ms - restored.written_ms).max(0) / 1000;
            let (brokers, topics) = (restored.members.len(), restored.table.freeze().topic_count());
            info!(brokers, topics, age_s, "routes restored; brokers have their time-out to speak");
            restored
        }
        Err(why) => {
            let path = path.display();
            warn!("the route snapshot {path} is not used: {why}; brokers will register again");
            Restored::default()
        }
    }
}

fn read(path: &Path, now_ms: i64) -> Result<Option<Restored>, String> {
    let Some(bytes) =
        store::load_up_to(SNAPSHOT_BYTES_MAX, path).map_err(|error| error.to_string())?
    else {
        return Ok(None);
    };
    let restored = RouteTable::restore(&bytes).map_err(|error| error.to_string())?;
    let age_ms = now_ms.saturating_sub(restored.written_ms);
    if age_ms.saturating_abs() > SNAPSHOT_AGE_MS_MAX {
        let (age_s, most_s) = (age_ms / 1000, SNAPSHOT_AGE_MS_MAX / 1000);
        return Err(format!("it is {age_s} s old, and only {most_s} s are believed"));
    }
    Ok(Some(restored))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is read of a snapshot written then, at this time.
    fn read_after(age_ms: i64) -> Result<Option<Restored>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routes");
        let written_ms = 1_000_000_000;
        fs::write(&path, RouteTable::new().snapshot(|_| 1).encode(written_ms)).unwrap();
        read(&path, written_ms + age_ms)
    }

    #[test]
    fn a_young_snapshot_is_believed_and_an_old_one_is_not() {
        assert!(read_after(0).unwrap().is_some());
        assert!(read_after(SNAPSHOT_AGE_MS_MAX).unwrap().is_some());
        assert!(read_after(-1_000).unwrap().is_some(), "clocks are set now and then");
        let why = read_after(SNAPSHOT_AGE_MS_MAX + 1).unwrap_err();
        assert!(why.contains("900 s"), "{why}");
        assert!(read_after(-SNAPSHOT_AGE_MS_MAX - 1).is_err());
    }

    #[test]
    fn none_is_none_and_a_damaged_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routes");
        assert!(read(&path, 0).unwrap().is_none());
        fs::write(&path, b"GPROUTES\x01\0\0\0damaged").unwrap();
        let why = read(&path, 0).unwrap_err();
        assert!(why.contains("checksum"), "{why}");
    }
}

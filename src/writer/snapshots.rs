//! The route table for the next start: written now and then while it changes, sometimes while it
//! does not, so that it never looks too old, and once more when the server begins to stop, before
//! the connections of its brokers are closed.

use std::fmt::Display;
use std::path::PathBuf;

use tracing::{error, info};

use crate::clock::Tick;
use crate::limits::{HEARTBEAT_TIMEOUT_MS, SNAPSHOT_EVERY_MS, SNAPSHOT_REFRESH_MS};
use crate::liveness::Liveness;
use crate::route::RouteTable;
use crate::store::{StoreFile, StoreThread};

/// Where the route table is kept.
#[derive(Debug)]
pub struct SnapshotFile {
    /// `routeSnapshotPath`.
    pub path: PathBuf,
    /// Writes it. Not the thread of the KV table, whose changes are waited for.
    pub store: StoreThread,
}

/// When to write it. Lives: writer core only. Shares: frozen tables with the thread that writes.
#[derive(Debug)]
pub(super) struct Snapshots {
    file: Option<SnapshotFile>,
    /// The table has changed since the last one was begun.
    changed: bool,
    /// When the next one may be begun, once the table has changed.
    due: Tick,
    /// When it is begun although nothing has changed, since a start goes by its age.
    refresh: Tick,
    /// The server stops: the last one has been begun.
    is_last: bool,
    failing: bool,
}

impl Snapshots {
    pub(super) fn new(file: Option<SnapshotFile>, now: Tick) -> Snapshots {
        let (due, refresh) = (now.after_ms(SNAPSHOT_EVERY_MS), now.after_ms(SNAPSHOT_REFRESH_MS));
        Snapshots { file, changed: false, due, refresh, is_last: false, failing: false }
    }

    /// The table has changed.
    pub(super) fn note_change(&mut self) {
        self.changed = true;
    }

    /// How long until the next one is to be begun, in milliseconds; `None` is never.
    pub(super) fn due_in_ms(&self, now: Tick) -> Option<u64> {
        let at = if self.changed { self.due } else { self.refresh };
        (self.file.is_some() && !self.is_last).then(|| at.since_ms(now))
    }

    /// Whether one is under way, or its outcome has not been looked at.
    pub(super) fn is_writing(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.store.under_way() > 0)
    }

    /// Begins one if it is time, and looks how earlier ones ended.
    pub(super) fn turn(
        &mut self,
        table: &RouteTable,
        liveness: &Liveness,
        wall_ms: i64,
        now: Tick,
    ) {
        while let Some(saved) = self.file.as_ref().and_then(|file| file.store.poll()) {
            match saved.result {
                Ok(()) if self.failing => info!("the route snapshot is written again"),
                Ok(()) => {}
                Err(ref reason) => not_written(reason),
            }
            self.failing = saved.result.is_err();
            // Still to be written.
            self.changed |= self.failing;
        }
        if self.due_in_ms(now) == Some(0) {
            self.due = now.after_ms(SNAPSHOT_EVERY_MS);
            self.refresh = now.after_ms(SNAPSHOT_REFRESH_MS);
            if self.is_writing() {
                // The disk is slower than that: asked again later.
                self.changed = true;
            } else {
                self.begin(table, liveness, wall_ms);
            }
        }
    }

    /// Begins the last one: what happens to the table from now on is of the server's own making.
    pub(super) fn leave(&mut self, table: &RouteTable, liveness: &Liveness, wall_ms: i64) {
        if !self.is_last {
            // Also an unchanged table: its age is that of the file.
            self.begin(table, liveness, wall_ms);
            self.is_last = true;
        }
    }

    fn begin(&mut self, table: &RouteTable, liveness: &Liveness, wall_ms: i64) {
        let Some(file) = &self.file else { return };
        self.changed = false;
        let timeout_ms = |member| liveness.timeout_ms(member).unwrap_or(HEARTBEAT_TIMEOUT_MS);
        let snapshot = table.snapshot(timeout_ms);
        let content = move || snapshot.encode(wall_ms);
        if let Err(reason) = file.store.save(StoreFile::Routes, file.path.clone(), content, 0) {
            not_written(&reason);
            self.changed = true;
        }
    }

    /// Waits until the last one is on disk.
    pub(super) fn close(self) {
        let Some(file) = self.file else { return };
        file.store.stop().into_iter().filter_map(|saved| saved.result.err()).for_each(|reason| {
            not_written(&reason);
        });
    }
}

fn not_written(reason: &impl Display) {
    error!(%reason, "the route snapshot is not written: a restart begins without");
}

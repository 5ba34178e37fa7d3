//! The route table over a restart.

use std::fs;
use std::path::Path;

use super::*;
use crate::limits::{SNAPSHOT_EVERY_MS, SNAPSHOT_REFRESH_MS};

fn restored(path: &Path) -> Restored {
    RouteTable::restore(&fs::read(path).unwrap()).unwrap()
}

/// A writer with an empty table that keeps it in a file, and the file's folder.
fn keeping() -> (Stage, tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes");
    (stage_from(1, Restored::default(), Some(path.clone())), folder, path)
}

#[test]
fn a_table_that_changed_is_written_when_its_time_has_come() {
    let (mut stage, _folder, path) = keeping();
    stage.send(1, Some(1), register("b", 2, None));
    stage.settle(10);
    assert!(!path.exists(), "not with each change");
    assert!(stage.writer.sleep_ms(Tick(20)).is_some(), "it does not sleep over it");
    stage.settle(2 * SNAPSHOT_EVERY_MS);
    drop(stage); // waits for the disk
    assert!(restored(&path).table.freeze().topic("b-1").is_some());
}

/// Turns until what is being written has been.
fn written(stage: &mut Stage, now: u64) {
    let began = std::time::Instant::now();
    stage.settle(now);
    while stage.writer.snapshots.is_writing() {
        assert!(began.elapsed().as_secs() < 20, "it is never written");
        std::thread::yield_now(); // the disk's thread wakes a writer, which here is the test
        stage.settle(now);
    }
}

#[test]
fn a_table_that_does_not_change_is_written_again_before_its_file_looks_too_old() {
    let (mut stage, _folder, path) = keeping();
    stage.send(1, Some(1), register("b", 2, Some(3_600_000)));
    let begun = 2 * SNAPSHOT_EVERY_MS;
    written(&mut stage, begun);
    let due_in_ms = |stage: &Stage| stage.writer.snapshots.due_in_ms(Tick(begun));
    assert_eq!(due_in_ms(&stage), Some(SNAPSHOT_REFRESH_MS));
    fs::remove_file(&path).unwrap();
    stage.send(1, Some(2), WriteOp::Heartbeat { cluster: "C".into(), addr: "b:1".into() });
    written(&mut stage, 2 * begun);
    assert_eq!(due_in_ms(&stage), Some(SNAPSHOT_REFRESH_MS), "a heartbeat changes nothing");
    assert!(!path.exists());
    written(&mut stage, begun + SNAPSHOT_REFRESH_MS);
    assert!(restored(&path).table.freeze().topic("b-1").is_some());
}

#[test]
fn a_snapshot_that_could_not_be_written_is_tried_again_without_another_change() {
    let (mut stage, _folder, path) = keeping();
    fs::create_dir(&path).unwrap(); // a folder stands where the file belongs
    stage.send(1, Some(1), register("b", 2, None));
    written(&mut stage, 2 * SNAPSHOT_EVERY_MS);
    fs::remove_dir(&path).expect("it is still there");
    written(&mut stage, 3 * SNAPSHOT_EVERY_MS);
    assert!(restored(&path).table.freeze().topic("b-1").is_some());
}

#[test]
fn what_closes_because_the_server_stops_is_still_in_the_last_snapshot() {
    let (mut stage, _folder, path) = keeping();
    stage.send(1, Some(1), register("b", 2, None));
    stage.settle(10);
    stage.writer.parts.leaving.store(true, Ordering::Release);
    stage.send(1, None, WriteOp::ConnectionClosed);
    stage.settle(20);
    assert!(!stage.has_route("b-0"));
    stage.settle(2 * SNAPSHOT_EVERY_MS);
    drop(stage);
    assert!(restored(&path).table.freeze().topic("b-0").is_some());
}

/// The next server, with one broker of this timeout in its table.
fn after_restart(timeout_ms: i64) -> Stage {
    let (mut stage, _folder, path) = keeping();
    stage.send(1, Some(1), register("b", 2, Some(timeout_ms)));
    stage.settle(10);
    stage.writer.parts.leaving.store(true, Ordering::Release);
    stage.settle(10);
    drop(stage);
    let mut stage = stage_from(1, restored(&path), None);
    stage.settle(0);
    stage
}

#[test]
fn a_restored_broker_that_says_nothing_goes_after_its_timeout() {
    let mut stage = after_restart(5_000);
    assert!(stage.has_route("b-0"));
    stage.settle(5_000);
    assert!(stage.has_route("b-0"));
    stage.settle(15_000);
    assert!(!stage.has_route("b-0"));
    assert_eq!(stage.posted(), [], "there is no connection to close");
}

#[test]
fn a_restored_broker_is_told_to_register_and_is_then_one_like_any_other() {
    let mut stage = after_restart(5_000);
    let query = || {
        let body = "{\"counter\":1,\"timestamp\":1}".into();
        WriteOp::QueryDataVersion { cluster: "C".into(), addr: "b:1".into(), body }
    };
    let changed = |stage: &mut Stage| {
        stage.send(7, Some(1), query());
        stage.settle(4_000);
        let letters = stage.letters();
        let [ToShard::Answer(answer)] = letters.as_slice() else { panic!("{letters:?}") };
        format!("{:?}", answer.ext).contains("true")
    };
    assert!(changed(&mut stage), "it has the data version, but has to register");
    stage.send(7, Some(2), register("b", 2, Some(5_000)));
    stage.settle(4_000);
    assert_eq!(stage.posted(), [Some((2, 0))]);
    assert!(!changed(&mut stage));
    stage.send(7, None, WriteOp::ConnectionClosed);
    stage.settle(4_001);
    assert!(!stage.has_route("b-0"), "it goes with its connection");
}

//! Each state that an interrupted replacement can leave, then the real thing: processes that are
//! killed while they write, and one that may not write large files. Those run this test binary
//! again as a child.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};

use super::*;

/// Tells a child where to write; without it, the tests that are run as children refuse to run.
const CHILD_FILE: &str = "GUIDEPOST_STORE_TEST_FILE";

fn text(path: &Path) -> Option<String> {
    load(path).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

fn backup(path: &Path) -> Option<String> {
    load_backup(path).unwrap().map(|bytes| String::from_utf8(bytes).unwrap())
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_missing_file_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no").join("kv.json");
    assert_eq!((text(&path), backup(&path)), (None, None));
}

#[test]
fn the_first_content_makes_the_directories_and_no_backup() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/c/kv.json");
    replace(&path, b"one").unwrap();
    assert_eq!(text(&path).as_deref(), Some("one"));
    assert_eq!(backup(&path), None);
    assert_eq!(names_in(path.parent().unwrap()), ["kv.json"]);
}

#[test]
fn the_backup_is_the_content_before() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    replace(&path, b"one").unwrap();
    replace(&path, b"two, longer").unwrap();
    assert_eq!(backup(&path).as_deref(), Some("one"));
    replace(&path, b"3").unwrap();
    assert_eq!(text(&path).as_deref(), Some("3"));
    assert_eq!(backup(&path).as_deref(), Some("two, longer"));
    assert_eq!(names_in(dir.path()), ["kv.json", "kv.json.bak"]);
}

#[test]
fn what_an_interrupted_replacement_left_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    replace(&path, b"one").unwrap();
    // Ended while writing aside, while linking the backup, and between the backup and the rename.
    fs::write(beside(&path, ".tmp"), b"tw").unwrap();
    fs::hard_link(&path, beside(&path, ".bak.tmp")).unwrap();
    fs::hard_link(&path, beside(&path, ".bak")).unwrap();
    assert_eq!(text(&path).as_deref(), Some("one"));
    replace(&path, b"three").unwrap();
    assert_eq!(text(&path).as_deref(), Some("three"));
    assert_eq!(backup(&path).as_deref(), Some("one"));
    assert_eq!(names_in(dir.path()), ["kv.json", "kv.json.bak"]);
}

#[test]
fn a_planted_link_at_the_place_aside_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, victim) = (dir.path().join("kv.json"), dir.path().join("victim"));
    fs::write(&victim, b"precious").unwrap();
    symlink(&victim, beside(&path, ".tmp")).unwrap();
    replace(&path, b"one").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(text(&path).as_deref(), Some("one"));
}

#[test]
fn a_link_stays_a_link_and_what_it_leads_to_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real/kv.json"), dir.path().join("kv.json"));
    replace(&real, b"one").unwrap();
    symlink(&real, &link).unwrap();
    replace(&link, b"two").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(text(&real).as_deref(), Some("two"));
    assert_eq!(backup(&link).as_deref(), Some("one"));
}

#[test]
fn the_mode_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    replace(&path, b"one").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    replace(&path, b"two").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o640);
    assert_eq!(mode(&beside(&path, ".bak")), 0o640);
}

#[test]
fn a_copy_stands_in_for_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("kv.json"), dir.path().join("copy"));
    replace(&path, b"one").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    copy_aside(&path, &copy).unwrap();
    assert_eq!(fs::read(&copy).unwrap(), b"one");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o7777, 0o640);
}

#[test]
fn a_file_in_place_of_a_directory_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    replace(&path, b"one").unwrap();
    let error = replace(&path.join("kv.json"), b"two").unwrap_err().to_string();
    assert!(error.starts_with("cannot ") && error.contains("kv.json"), "{error}");
    assert!(error.ends_with("; name a file inside a directory"), "{error}");
    assert!(load(&path.join("kv.json")).is_err());
    assert_eq!(text(&path).as_deref(), Some("one"));
}

#[test]
fn a_directory_in_place_of_the_file_is_an_error_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("inside"), b"x").unwrap();
    assert!(replace(&path, b"one").is_err());
    assert!(load(&path).is_err());
    assert_eq!(names_in(&path), ["inside"]);
    assert_eq!(names_in(dir.path()), ["kv.json"]);
}

#[test]
fn a_backup_that_cannot_be_kept_leaves_the_old_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    replace(&path, b"one").unwrap();
    fs::create_dir_all(beside(&path, ".bak").join("full")).unwrap();
    assert!(replace(&path, b"two").is_err());
    assert_eq!(text(&path).as_deref(), Some("one"));
    assert!(!beside(&path, ".tmp").exists());
}

#[test]
fn a_file_too_large_to_be_ours_is_refused_unread() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    let sparse = File::create(&path).unwrap();
    sparse.set_len(STORE_FILE_BYTES_MAX + 1).unwrap();
    let error = load(&path).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::FileTooLarge);
}

/// This test binary again, running only the test `name` as a child on `path`.
fn child_command(name: &str, path: &Path) -> Command {
    // The shell keeps SIGXFSZ ignored across exec, so a write beyond the limit is an error instead
    // of the end.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", name])
        .env(CHILD_FILE, path);
    command
}

/// The file that a child works on; `None` in the test process itself, where the child's part is not
/// played.
fn child_file() -> Option<PathBuf> {
    env::var_os(CHILD_FILE).map(PathBuf::from)
}

/// Content number `number`: its length differs from the one before by up to 64 KiB, either way.
fn content(number: u64) -> Vec<u8> {
    let length = usize::try_from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48).unwrap();
    let mut bytes = format!("{number} {length} ").into_bytes();
    bytes.extend((0..length).map(|index| b'a' + u8::try_from(index % 26).unwrap()));
    bytes
}

/// The number of the content in `path`, which must be whole.
fn number_in(path: &Path) -> Option<u64> {
    let found = load(path).unwrap()?;
    let digits = found.split(|byte| *byte == b' ').next().unwrap();
    let number = std::str::from_utf8(digits).unwrap().parse().expect("a truncated file");
    assert_eq!(found, content(number), "a mixed or truncated file");
    Some(number)
}

#[test]
fn child_that_replaces_until_killed() {
    let Some(path) = child_file() else { return };
    let first = number_in(&path).map_or(0, |number| number + 1);
    for number in first.. {
        replace(&path, &content(number)).unwrap();
        // The acknowledgement; what was written to a pipe is there even if the writer is killed at
        // once.
        println!("\nACK {number}");
    }
}

/// Kills the child after `acks` acknowledgements and a little of its next replacement; returns the
/// last one acknowledged.
fn kill_after(mut child: Child, acks: usize, spins: u32) -> Option<u64> {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut numbers = output.lines().filter_map(|line| {
        line.unwrap().strip_prefix("ACK ").map(|number| number.parse::<u64>().unwrap())
    });
    let mut last = numbers.by_ref().take(acks).last();
    for _ in 0..spins {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    // What it had acknowledged before it died but this side had not read yet counts as well.
    last = numbers.last().or(last);
    child.wait().unwrap();
    last
}

/// Longest wait before the kill, in turns of a loop: about as long as one replacement takes.
const SPINS_MAX: u64 = 400_000;

#[test]
fn after_kill_9_the_last_acknowledged_content_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    let mut spins = 1u64;
    for round in 0..100 {
        let mut command = child_command("store::tests::child_that_replaces_until_killed", &path);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        spins = (spins * 48_271) % 2_147_483_647;
        let wait = u32::try_from(spins % SPINS_MAX).unwrap();
        let acknowledged = kill_after(child, 1 + round % 3, wait).expect("no acknowledgement");
        let found = number_in(&path).expect("the file is gone");
        // One more may have been replaced and not yet acknowledged.
        assert!(
            found == acknowledged || found == acknowledged + 1,
            "round {round}: acknowledged {acknowledged}, found {found}"
        );
        if let Some(before) = number_in_backup(&path) {
            assert!(before == found || before + 1 == found, "backup {before} of {found}");
        }
    }
    assert!(number_in(&path).unwrap() >= 100);
}

fn number_in_backup(path: &Path) -> Option<u64> {
    number_in(&beside(path, ".bak"))
}

#[test]
fn child_that_writes_more_than_it_may() {
    let Some(path) = child_file() else { return };
    replace(&path, b"small").unwrap();
    let error = replace(&path, &vec![b'x'; 1 << 20]).unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::FileTooLarge);
    assert!(error.to_string().contains("; raise the limit"), "{error}");
    replace(&path, b"small again").unwrap();
}

#[test]
fn a_write_that_does_not_fit_leaves_the_old_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kv.json");
    // In blocks of 512 or 1024 bytes, depending on the shell: 32 or 64 KiB.
    let mut limited = Command::new("sh");
    let child = child_command("store::tests::child_that_writes_more_than_it_may", &path);
    limited
        .args(["-c", "ulimit -f 64 && exec \"$@\"", "sh"])
        .arg(child.get_program())
        .args(child.get_args())
        .env(CHILD_FILE, &path);
    let output = limited.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(text(&path).as_deref(), Some("small again"));
    assert_eq!(backup(&path).as_deref(), Some("small"));
    assert_eq!(names_in(dir.path()), ["kv.json", "kv.json.bak"]);
}

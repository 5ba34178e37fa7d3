//! Durable files: the KV table, the settings, the route snapshot.
//!
//! ```text
//! replace: write F.tmp, sync --> link F as F.bak --> rename F.tmp to F --> sync the directory
//! ```
//!
//! Whatever ends the process in between, F is either the old content or the new one, whole: a
//! rename takes its place in one step. Java overwrites F in place and can leave half of it; from
//! such a file [`load_backup`] leads back.
//!
//! **Never:** runs on a shard or on the writer core ([`StoreThread`] does the work after the
//! start); knows what is in a file.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::limits::STORE_FILE_BYTES_MAX;

mod thread;

pub use self::thread::{Pace, Saved, StoreFile, StoreThread, Wake};

/// What went wrong with which file; its text says what was left in place.
#[derive(Debug)]
pub struct StoreError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl StoreError {
    fn at(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        move |source| StoreError { doing, path: path.to_owned(), source }
    }

    /// What to do about it, where that is known.
    fn cure(&self) -> Option<&'static str> {
        match self.source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("free space there"),
            ErrorKind::FileTooLarge => Some("raise the limit, or name another file"),
            ErrorKind::PermissionDenied => Some("let this user read and write there"),
            ErrorKind::ReadOnlyFilesystem => Some("name a file on a writable file system"),
            ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
                Some("name a file inside a directory")
            }
            _ => None,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.path.display(), self.source)?;
        match self.cure() {
            Some(cure) => write!(f, "; {cure}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// The content of `path`, `None` if there is no such file. A `.tmp` beside it is the rest of an
/// interrupted [`replace`], was never acknowledged, and is not looked at.
///
/// # Errors
///
/// If it cannot be read, or is larger than [`STORE_FILE_BYTES_MAX`]: then it is not a file of ours.
pub fn load(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    load_up_to(STORE_FILE_BYTES_MAX, path)
}

/// [`load`] for a file that may have so many bytes.
///
/// # Errors
///
/// If it cannot be read, or is larger.
pub fn load_up_to(bytes_max: u64, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::at("open", path)(error)),
    };
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large, whatever its length was said to
    // be.
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(StoreError::at("read", path))?;
    if bytes.len() as u64 > bytes_max {
        return Err(StoreError::at("load", path)(ErrorKind::FileTooLarge.into()));
    }
    Ok(Some(bytes))
}

/// The content that `path` had before it was last replaced, for when the caller cannot make sense
/// of the newest one.
///
/// # Errors
///
/// As [`load`].
pub fn load_backup(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let target = resolved(path)?;
    load(&beside(&target, ".bak"))
}

/// Replaces the content of `path` by `bytes`, and keeps the old content as `.bak`. When this
/// returns, the new content survives a crash of the machine. A file that is there keeps its mode
/// and owner; a symbolic link stays one.
///
/// # Errors
///
/// If any step fails. Up to and including the rename the old content is then in place. A failure to
/// sync the directory after it leaves open which of the two survives a crash.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let target = resolved(path)?;
    let directory = parent_of(&target);
    create_directories(directory)?;
    let old = match fs::metadata(&target) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(StoreError::at("examine", &target)(error)),
    };
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return Err(StoreError::at("replace", &target)(ErrorKind::IsADirectory.into()));
    }
    let aside = beside(&target, ".tmp");
    let result = write_aside(&aside, bytes, old.as_ref()).and_then(|()| {
        if old.is_some() {
            keep_backup(&target)?;
        }
        fs::rename(&aside, &target).map_err(StoreError::at("replace", &target))
    });
    if result.is_err() {
        // Whatever is left of it only takes space; the error that matters is the first.
        let _ = fs::remove_file(&aside);
        return result;
    }
    sync_directory(directory)
}

/// `path`, or what it leads to if it is a symbolic link: renaming onto the link would replace the
/// link.
fn resolved(path: &Path) -> Result<PathBuf, StoreError> {
    match fs::canonicalize(path) {
        Ok(target) => Ok(target),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path.to_owned()),
        Err(error) => Err(StoreError::at("find", path)(error)),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Creates `directory` and what is missing above it; each new name is synced, or a crash could take
/// the whole branch away.
fn create_directories(directory: &Path) -> Result<(), StoreError> {
    match fs::create_dir(directory) {
        Ok(()) => sync_directory(parent_of(directory)),
        Err(_) if directory.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && directory.parent().is_some() => {
            create_directories(parent_of(directory))?;
            fs::create_dir(directory).map_err(StoreError::at("create directory", directory))?;
            sync_directory(parent_of(directory))
        }
        Err(error) => Err(StoreError::at("create directory", directory)(error)),
    }
}

/// Writes `bytes` to a new file at `aside` and syncs it.
fn write_aside(aside: &Path, bytes: &[u8], like: Option<&fs::Metadata>) -> Result<(), StoreError> {
    remove_if_there(aside)?;
    // A new file only: a link that somebody put there is not followed. Until it has the mode of the
    // old file, nobody else may read it.
    let mode = if like.is_some() { 0o600 } else { 0o666 };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(aside)
        .map_err(StoreError::at("create", aside))?;
    if let Some(like) = like {
        // Only root may give a file away; for others it stays theirs. Before the mode, which this
        // may change.
        let _ = fchown(&file, Some(like.uid()), Some(like.gid()));
        let mode = file.set_permissions(like.permissions());
        mode.map_err(StoreError::at("set the mode of", aside))?;
    }
    file.write_all(bytes).map_err(StoreError::at("write", aside))?;
    file.sync_all().map_err(StoreError::at("sync", aside))
}

/// Makes `target`.bak name the content of `target`, which stays in place.
fn keep_backup(target: &Path) -> Result<(), StoreError> {
    // An empty file is what a crash of another server left: the backup may be the only good copy.
    if fs::metadata(target).is_ok_and(|found| found.len() == 0) {
        return Ok(());
    }
    let backup = beside(target, ".bak");
    let aside = beside(target, ".bak.tmp");
    remove_if_there(&aside)?;
    // Some file systems know no hard links, and some rules forbid this one.
    if fs::hard_link(target, &aside).is_err() {
        copy_aside(target, &aside)?;
    }
    fs::rename(&aside, &backup).map_err(StoreError::at("replace", &backup))?;
    // If both named one file already (an earlier run ended here), that rename did nothing at all.
    remove_if_there(&aside)
}

fn copy_aside(target: &Path, aside: &Path) -> Result<(), StoreError> {
    let old = fs::metadata(target).map_err(StoreError::at("examine", target))?;
    let bytes = fs::read(target).map_err(StoreError::at("read", target))?;
    write_aside(aside, &bytes, Some(&old))
}

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(StoreError::at("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Makes names created or renamed in `directory` survive a crash.
fn sync_directory(directory: &Path) -> Result<(), StoreError> {
    let opened = File::open(directory).map_err(StoreError::at("open", directory))?;
    opened.sync_all().map_err(StoreError::at("sync", directory))
}

#[cfg(test)]
mod tests;

//! Log lines as RocketMQ's operators know them: `yyyy-MM-dd HH:mm:ss LEVEL thread - message`, never
//! coloured.
//!
//! The time is that of the zone in `TZ`, or of the system (a Java server prints GMT+8 everywhere).
//! Lines go to standard output, or to `namesrv.log` in the log directory. A thread of its own
//! writes them, so that a full disk or a stuck terminal does not stop a shard; lines that pile up
//! beyond a bound are dropped, and counted.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber, info};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{ChronoLocal, FormatTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::fatal::{Exit, Fatal};
use crate::limits::{LOG_FILE_BYTES_MAX, LOG_FILES_KEPT, LOG_LINES_MAX, LOG_MESSAGE_BYTES_MAX};
use crate::wire::HeaderKind;

/// Target of events that standard output has already, in another form.
pub const FILE_ONLY: &str = "guidepost::file_only";

/// Set by [`reopen`], taken by the log's thread. Relaxed: no other memory is handed over with it.
static REOPEN: AtomicBool = AtomicBool::new(false);

/// Counts the lines that were dropped.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// Keeps the log's thread; dropping it writes what is still waiting.
#[derive(Debug)]
pub struct Logging {
    _worker: WorkerGuard,
}

/// Starts logging for the whole process. To be called once.
///
/// # Errors
/// The log directory cannot be made, or the file in it not opened.
pub fn start(dir: Option<&Path>, level: LevelFilter) -> Result<Logging, Fatal> {
    let threads = || NonBlockingBuilder::default().buffered_lines_limit(LOG_LINES_MAX);
    let (writer, worker) = match dir {
        Some(dir) => threads().finish(LogFile::open_in(dir)?),
        None => threads().finish(io::stdout()),
    };
    // Set once, as the subscriber below.
    let _ = DROPPED.set(writer.error_counter());
    let to_file = dir.is_some();
    let lines = tracing_subscriber::fmt::layer()
        .event_format(Line { time: ChronoLocal::new("%Y-%m-%d %H:%M:%S".to_owned()) })
        .with_ansi(false)
        .with_writer(writer)
        .with_filter(level)
        .with_filter(filter_fn(move |event| to_file || event.target() != FILE_ONLY));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines))
        .map_err(|_| Fatal::new(Exit::Internal, "logging was started twice"))?;
    Ok(Logging { _worker: worker })
}

/// Opens the log file by its name again before the next line: somebody has renamed it.
pub fn reopen() {
    REOPEN.store(true, Ordering::Relaxed);
}

/// Lines that were dropped since the start: more came than could be written.
#[must_use]
pub fn lines_dropped() -> usize {
    DROPPED.get().map_or(0, ErrorCounter::dropped_lines)
}

/// Says on standard output that the server listens, in the words that people and scripts wait for.
pub fn banner(kind: HeaderKind, address: impl fmt::Display) {
    let kind = match kind {
        HeaderKind::Json => "JSON",
        HeaderKind::Binary => "ROCKETMQ",
    };
    let line = format!("The Name Server boot success. serializeType={kind}, address {address}");
    // Nobody may be reading any more; that is no reason not to serve.
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    info!(target: FILE_ONLY, "{line}");
}

/// Forms one line of one event.
struct Line {
    time: ChronoLocal,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = String::new();
        context.format_fields(Writer::new(&mut message), event)?;
        self.time.format_time(&mut writer)?;
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        write!(writer, " {} {thread} - ", event.metadata().level())?;
        one_line(&mut writer, &message)?;
        writer.write_char('\n')
    }
}

/// Writes control characters escaped: text of a peer must not look like a line of ours. What would
/// take more than [`LOG_MESSAGE_BYTES_MAX`] is only counted: such text must not fill memory either.
fn one_line(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    let mut room = LOG_MESSAGE_BYTES_MAX;
    let too_long = text.char_indices().find(|(_, c)| {
        let bytes = if c.is_control() { c.escape_default().len() } else { c.len_utf8() };
        let fits = bytes <= room;
        room = room.saturating_sub(bytes);
        !fits
    });
    if let Some((end, _)) = too_long {
        escaped(writer, &text[..end])?;
        return write!(writer, "... ({} bytes more)", text.len() - end);
    }
    escaped(writer, text)
}

fn escaped(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    for part in text.split_inclusive(char::is_control) {
        match part.char_indices().next_back() {
            Some((at, c)) if c.is_control() => {
                write!(writer, "{}{}", &part[..at], c.escape_default())?;
            }
            _ => writer.write_str(part)?,
        }
    }
    Ok(())
}

/// `namesrv.log`, renamed to `namesrv.log.1` and so on when it is full. Lives: on the log's thread.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    /// Bytes in `file`.
    bytes: u64,
    bytes_max: u64,
}

impl LogFile {
    fn open_in(dir: &Path) -> Result<LogFile, Fatal> {
        let path = dir.join("namesrv.log");
        let opened = fs::create_dir_all(dir).and_then(|()| open(&path));
        let (file, bytes) = opened.map_err(|error| {
            let exit = match error.kind() {
                io::ErrorKind::PermissionDenied => Exit::Permission,
                _ => Exit::Config,
            };
            let path = path.display();
            Fatal::new(exit, format!("cannot write the log {path}: {error}; set logDir"))
        })?;
        Ok(LogFile { path, file, bytes, bytes_max: LOG_FILE_BYTES_MAX })
    }

    /// Another file by the same name. If there is none to be had, the present one goes on.
    fn renew(&mut self) {
        if let Ok((file, bytes)) = open(&self.path) {
            self.file = file;
            self.bytes = bytes;
        }
    }

    fn rotate(&mut self) {
        let beside = |what: &dyn fmt::Display| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{what}"));
            PathBuf::from(name)
        };
        // Renamed before the old ones are, which must not be pushed out for nothing.
        let full = beside(&"full");
        match fs::rename(&self.path, &full) {
            Ok(()) => {}
            // Somebody took it away.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.renew(),
            // Goes on growing; tried again when it has grown by as much again, not with each line.
            Err(_) => return self.bytes = 0,
        }
        // A gap in the numbers is normal, and a failed rename only costs an old file.
        for number in (1..LOG_FILES_KEPT).rev() {
            let _ = fs::rename(beside(&number), beside(&(number + 1)));
        }
        let _ = fs::rename(full, beside(&1));
        self.bytes = 0;
        self.renew();
    }
}

/// Opens for appending, with the bytes it has.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if REOPEN.swap(false, Ordering::Relaxed) {
            self.renew();
        }
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max {
            self.rotate();
        }
        let written = self.file.write(line)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::open_in(dir.path()).unwrap();
        log.bytes_max = 8;
        for number in 0..8 {
            log.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        let old = |number| text(&dir.path().join(format!("namesrv.log.{number}")));
        assert_eq!(text(&dir.path().join("namesrv.log")), "line 7\n");
        assert_eq!(old(1), "line 6\n");
        assert_eq!(old(5), "line 2\n");
        assert!(!dir.path().join("namesrv.log.6").exists());
    }

    #[test]
    fn a_file_that_cannot_be_renamed_grows_on_and_the_old_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("namesrv.log.1"), "old\n").unwrap();
        // Nothing can be renamed to a folder's name.
        fs::create_dir(dir.path().join("namesrv.log.full")).unwrap();
        let mut log = LogFile::open_in(dir.path()).unwrap();
        log.bytes_max = 20;
        for _ in 0..4 {
            log.write_all(b"1234567\n").unwrap();
        }
        assert_eq!(log.bytes, 16, "tried with the third line, and not with the fourth");
        assert_eq!(text(&dir.path().join("namesrv.log")).lines().count(), 4);
        assert_eq!(text(&dir.path().join("namesrv.log.1")), "old\n");
        assert!(!dir.path().join("namesrv.log.2").exists());
    }

    #[test]
    fn a_file_that_somebody_took_away_is_begun_anew_when_it_would_be_full() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = LogFile::open_in(dir.path()).unwrap();
        log.bytes_max = 8;
        log.write_all(b"1234567\n").unwrap();
        fs::remove_file(dir.path().join("namesrv.log")).unwrap();
        log.write_all(b"another\n").unwrap();
        assert_eq!(text(&dir.path().join("namesrv.log")), "another\n");
        assert!(!dir.path().join("namesrv.log.1").exists());
    }

    #[test]
    fn an_existing_log_is_continued() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("namesrv.log"), "before\n").unwrap();
        let mut log = LogFile::open_in(dir.path()).unwrap();
        assert_eq!(log.bytes, 7);
        log.write_all(b"after\n").unwrap();
        assert_eq!(text(&dir.path().join("namesrv.log")), "before\nafter\n");
    }

    #[test]
    fn a_renamed_log_is_left_on_reopen() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("namesrv.log"), dir.path().join("moved"));
        let mut log = LogFile::open_in(dir.path()).unwrap();
        log.write_all(b"one\n").unwrap();
        fs::rename(&path, &moved).unwrap();
        log.write_all(b"two\n").unwrap();
        log.renew();
        log.write_all(b"three\n").unwrap();
        assert_eq!(text(&moved), "one\ntwo\n");
        assert_eq!(text(&path), "three\n");
    }

    #[test]
    fn text_of_a_peer_stays_on_one_line() {
        let mut out = String::new();
        one_line(&mut Writer::new(&mut out), "a\nb\u{1b}[31m é\r").unwrap();
        assert_eq!(out, "a\\nb\\u{1b}[31m é\\r");
    }

    #[test]
    fn a_message_is_cut_whatever_it_is_made_of() {
        for text in ["x", "é", "\u{1}", "\u{80}", "\n", "😀"] {
            let mut out = String::new();
            one_line(&mut Writer::new(&mut out), &text.repeat(1 << 20)).unwrap();
            assert!(out.len() <= LOG_MESSAGE_BYTES_MAX + 32, "{text:?}: {} bytes", out.len());
            assert!(out.len() >= LOG_MESSAGE_BYTES_MAX, "{text:?}: {} bytes", out.len());
            assert!(out.ends_with(" bytes more)"), "{text:?}");
        }
        let mut out = String::new();
        one_line(&mut Writer::new(&mut out), &"x".repeat(LOG_MESSAGE_BYTES_MAX)).unwrap();
        assert_eq!(out, "x".repeat(LOG_MESSAGE_BYTES_MAX));
        out.clear();
        one_line(&mut Writer::new(&mut out), &"x".repeat(LOG_MESSAGE_BYTES_MAX + 7)).unwrap();
        assert!(out.ends_with("x... (7 bytes more)"));
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_a_config_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let fatal = LogFile::open_in(file.path()).unwrap_err();
        assert_eq!(fatal.exit_code, Exit::Config);
        assert!(fatal.message.contains("logDir"));
    }
}

//! The built program as a process. Nothing here waits without a bound: a server that starts where
//! it should refuse to, or does not end where it should, fails its test instead of hanging it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, unbounded};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// How long a start may take until the boot line is out, and how long an end.
const WITHIN: Duration = Duration::from_secs(20);
/// What the boot line begins with, after the time in a log.
const BOOT_LINE: &str = "The Name Server boot success.";
/// The program's file.
pub const BINARY: &str = env!("CARGO_BIN_EXE_guidepost");

/// The program with this home; nothing else of this process's environment.
pub fn program(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).env_clear().env("HOME", home).env("TZ", "UTC");
    command
}

/// Runs it to its end, which must come without a signal.
pub fn output(command: &mut Command) -> Output {
    try_output(command).expect("the program starts")
}

/// Like [`output`], of a program that may not be there.
pub fn try_output(command: &mut Command) -> std::io::Result<Output> {
    let [mut stdout, mut stderr] = [unnamed_file(), unnamed_file()];
    let copy = |file: &File| file.try_clone().expect("a descriptor to spare");
    command.stdin(Stdio::null()).stdout(copy(&stdout)).stderr(copy(&stderr));
    let mut child = command.spawn()?;
    let status = end_of(&mut child);
    let (out, err) = (content(&mut stdout), content(&mut stderr));
    let Some(status) = status else {
        let [out, err] = [&out, &err].map(|bytes| String::from_utf8_lossy(bytes));
        panic!("{command:?} runs after {WITHIN:?}\nout: {out}\nerr: {err}");
    };
    Ok(Output { status, stdout: out, stderr: err })
}

/// A server that listens. Killed when dropped, if it still runs.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Lines on standard output since the boot line.
    lines: Receiver<String>,
    stderr: File,
    /// The boot line.
    pub banner: String,
    /// Lines before it.
    pub before: Vec<String>,
}

impl Program {
    /// Waits for the boot line.
    pub fn boot(command: &mut Command) -> Program {
        let stderr = unnamed_file();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(stderr.try_clone().expect("a descriptor to spare"));
        let mut child = command.spawn().expect("the program starts");
        let lines = lines_of(&mut child);
        let (banner, before) = (String::new(), Vec::new());
        let mut program = Program { child, lines, stderr, banner, before };
        let deadline = Instant::now() + WITHIN;
        while let Ok(line) = program.lines.recv_deadline(deadline) {
            if line.contains(BOOT_LINE) {
                program.banner = line;
                return program;
            }
            program.before.push(line);
        }
        let state = program.child.try_wait().expect("our own child");
        panic!("no boot line; exit status {state:?}\nout: {}", program.before.join("\n"));
    }

    /// The port in the boot line.
    pub fn port(&self) -> u16 {
        let port = self.banner.rsplit(':').next().and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("no port in the boot line: {}", self.banner))
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Lines on standard output since the boot line.
    pub fn logged(&self) -> usize {
        self.lines.len()
    }

    /// Waits for a line with this text, and forgets those before it.
    pub fn wait_for(&self, text: &str) {
        let deadline = Instant::now() + WITHIN;
        while let Ok(line) = self.lines.recv_deadline(deadline) {
            if line.contains(text) {
                return;
            }
        }
        panic!("no line with `{text}` within {WITHIN:?}");
    }

    /// Sends `signal`; the exit status that follows, and the lines that were still printed.
    pub fn stop(mut self, signal: Signal) -> (Option<i32>, Vec<String>) {
        kill_process(self.pid(), signal).expect("our own child");
        let status = end_of(&mut self.child);
        let status = status.unwrap_or_else(|| panic!("runs {WITHIN:?} after {signal:?}"));
        (status.code(), self.lines.iter().collect())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
        if std::thread::panicking() {
            let errors = content(&mut self.stderr);
            if !errors.is_empty() {
                eprintln!("--- the server's stderr\n{}---", String::from_utf8_lossy(&errors));
            }
        }
    }
}

/// Waits for a child's end, and kills it if that does not come: then there is no status.
fn end_of(child: &mut Child) -> Option<ExitStatus> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).expect("our own child");
    let limit = Timespec::try_from(WITHIN).expect("some seconds");
    let ended = retry_on_intr(|| poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)));
    if ended.expect("a process can be waited for") == 0 {
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        return None;
    }
    Some(child.wait().expect("our own child"))
}

/// The lines of standard output; read to the end, so that the server never blocks on a full pipe.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let stdout = child.stdout.take().expect("stdout is piped");
    let (send, lines) = unbounded();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _nobody_looks = send.send(line);
        }
    });
    lines
}

fn unnamed_file() -> File {
    tempfile::tempfile().expect("a temporary file")
}

fn content(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).expect("our own file");
    bytes
}

//! A server to talk to: a fresh guidepost, or the one that `NAMESRV` names.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::conn::Conn;
use super::frame::Request;

/// How long a start may take until the boot line is out.
const BOOT_WITHIN: Duration = Duration::from_secs(20);
/// The settings file of a server that we start, in its folder.
pub const SETTINGS: &str = "namesrv.properties";
/// What the boot line says before the port.
const BOOT_LINE: &str = "The Name Server boot success.";

/// Tests run side by side, but a server given from outside has one set of settings.
static FOREIGN_SERVER: Mutex<()> = Mutex::new(());

/// Settings that count at once, with their defaults: a given server may have been left with others.
const LIVE_DEFAULTS: [(&str, &str); 9] = [
    ("deleteTopicWithBrokerRegistration", "false"),
    ("enableAllTopicList", "true"),
    ("enableTopicList", "true"),
    ("needWaitForService", "false"),
    ("notifyMinBrokerIdChanged", "false"),
    ("orderMessageEnable", "false"),
    ("returnOrderTopicConfigToBroker", "true"),
    ("supportActingMaster", "false"),
    ("waitSecondsForService", "45"),
];

/// Whether the server under test is the Java one.
pub fn is_java() -> bool {
    std::env::var("SERVER_IS_JAVA").is_ok_and(|value| value == "1")
}

/// The server that `NAMESRV` names, if it does.
pub fn given() -> Option<SocketAddr> {
    std::env::var("NAMESRV").ok().map(|text| resolve(&text))
}

/// `HOST:PORT` to an address.
pub fn resolve(text: &str) -> SocketAddr {
    let mut found = text.to_socket_addrs().unwrap_or_else(|e| panic!("`{text}` as HOST:PORT: {e}"));
    found.next().unwrap_or_else(|| panic!("`{text}` has no address"))
}

/// Stops on drop what it started.
#[derive(Debug)]
pub struct Server {
    pub addr: SocketAddr,
    started: Option<Started>,
    given: Option<Given>,
}

/// Bytes of memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub resident: u64,
    /// Address space, whether touched or not.
    pub reserved: u64,
}

#[derive(Debug)]
struct Started {
    child: Child,
    folder: TempDir,
    /// Lines on standard output so far.
    logged: Arc<AtomicUsize>,
}

/// A server from outside: ours alone while this lives, its settings put back afterwards.
#[derive(Debug)]
struct Given {
    addr: SocketAddr,
    before: Vec<(String, String)>,
    _alone: MutexGuard<'static, ()>,
}

impl Server {
    /// A server with these settings on top of the defaults.
    pub fn start(settings: &[(&str, &str)]) -> Server {
        match given() {
            Some(addr) => Server::take(addr, settings),
            None => Server::launch(settings),
        }
    }

    fn launch(settings: &[(&str, &str)]) -> Server {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join(SETTINGS);
        let mut text = String::from("listenPort=0\n");
        for (name, file) in [("kvConfigPath", "kv.json"), ("configStorePath", "stored.properties")]
        {
            text += &format!("{name}={}\n", folder.path().join(file).display());
        }
        for (name, value) in settings {
            text += &format!("{name}={value}\n");
        }
        std::fs::write(&config, text).expect("a configuration file");
        let (addr, started) = Started::new(folder);
        Server { addr, started: Some(started), given: None }
    }

    /// Kills a server that we started, as `kill -9` does, and starts it again on its files, after
    /// `between` had its way with their folder. It gets another port.
    pub fn kill_and_start(&mut self, between: impl FnOnce(&Path)) {
        let started = self.started.take().expect("a server that we started");
        let folder = started.killed();
        between(folder.path());
        let (addr, started) = Started::new(folder);
        (self.addr, self.started) = (addr, Some(started));
    }

    fn take(addr: SocketAddr, settings: &[(&str, &str)]) -> Server {
        let alone = FOREIGN_SERVER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let defaults =
            LIVE_DEFAULTS.iter().filter(|(name, _)| !settings.iter().any(|s| s.0 == *name));
        let wanted: Vec<_> = settings.iter().chain(defaults).copied().collect();
        let mut before = settings_of(addr);
        before.retain(|(name, _)| wanted.iter().any(|(known, _)| known == name));
        let given = Given { addr, before, _alone: alone };
        update(addr, wanted.into_iter());
        Server { addr, started: None, given: Some(given) }
    }

    /// Stops the server with SIGTERM, and starts it again on the same folder.
    pub fn stop_and_start(&mut self) {
        let mut started = self.started.take().expect("a server that we started");
        let pid = i32::try_from(started.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process has a number"), Signal::TERM).expect("our own child");
        let status = started.child.wait().expect("our own child");
        assert!(status.success(), "a stop ends with {status}");
        let (addr, started) = Started::new(started.killed());
        (self.addr, self.started) = (addr, Some(started));
    }

    pub fn connect(&self) -> Conn {
        Conn::open(self.addr)
    }

    /// The most memory that the process has had so far, if we started it.
    pub fn peak_memory(&self) -> Option<Memory> {
        let pid = self.started.as_ref()?.child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(kib << 10)
        };
        Some(Memory { resident: bytes("VmHWM:")?, reserved: bytes("VmPeak:")? })
    }

    /// Open descriptors, if we started the server.
    pub fn open_files(&self) -> Option<usize> {
        let pid = self.started.as_ref()?.child.id();
        Some(std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
    }

    /// The process, if we started the server.
    pub fn pid(&self) -> Option<u32> {
        self.started.as_ref().map(|started| started.child.id())
    }

    /// Lines that a server we started has logged since its boot line.
    pub fn logged(&self) -> Option<usize> {
        self.started.as_ref().map(|started| started.logged.load(Relaxed))
    }

    /// The folder of a server that we started.
    pub fn folder(&self) -> Option<&Path> {
        self.started.as_ref().map(|started| started.folder.path())
    }
}

impl Started {
    /// A server on the settings file in `folder`, and where it listens.
    fn new(folder: TempDir) -> (SocketAddr, Started) {
        let errors = std::fs::File::create(folder.path().join("stderr")).expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_guidepost"))
            .arg("-c")
            .arg(folder.path().join(SETTINGS))
            .current_dir(folder.path())
            // Java cannot do without, so the recorded answers have it.
            .env("ROCKETMQ_HOME", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the server's binary starts");
        let logged = Arc::new(AtomicUsize::new(0));
        let lines = lines_of(&mut child, Arc::clone(&logged));
        let mut started = Started { child, folder, logged };
        let port = started.wait_for_boot(&lines);
        started.logged.store(0, Relaxed);
        (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), started)
    }

    /// Ends it without a chance to do anything, and leaves its folder.
    fn killed(mut self) -> TempDir {
        self.child.kill().expect("our own child");
        self.child.wait().expect("our own child");
        let none = tempfile::tempdir().expect("a temporary folder");
        std::mem::replace(&mut self.folder, none)
    }

    fn wait_for_boot(&mut self, lines: &Receiver<String>) -> u16 {
        let mut seen = String::new();
        while let Ok(line) = lines.recv_timeout(BOOT_WITHIN) {
            if line.contains(BOOT_LINE) {
                let port = line.rsplit(':').next().and_then(|port| port.trim().parse().ok());
                return port.unwrap_or_else(|| panic!("no port in the boot line: {line}"));
            }
            seen += &format!("{line}\n");
        }
        let errors = std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
        let state = self.child.try_wait().expect("our own child");
        panic!("no boot line; exit status {state:?}\nstdout: {seen}\nstderr: {errors}");
    }
}

/// The lines of standard output; read to the end, so that the server never blocks on a full pipe.
fn lines_of(child: &mut Child, logged: Arc<AtomicUsize>) -> Receiver<String> {
    let stdout = child.stdout.take().expect("stdout is piped");
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            logged.fetch_add(1, Relaxed);
            let _unread_after_boot = send.send(line);
        }
    });
    lines
}

impl Drop for Started {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
        if std::thread::panicking() {
            let errors = std::fs::read_to_string(self.folder.path().join("stderr"));
            let errors = errors.unwrap_or_default();
            if !errors.is_empty() {
                eprintln!("--- the server's stderr\n{errors}---");
            }
        }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            update(self.addr, self.before.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        }
    }
}

fn settings_of(addr: SocketAddr) -> Vec<(String, String)> {
    let answer = Conn::open(addr).ask(Request::new(319));
    assert_eq!(answer.code(), 0, "319 must tell the settings: {}", answer.text());
    let body = answer.body_text();
    let pairs = body.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn update<'a>(addr: SocketAddr, settings: impl Iterator<Item = (&'a str, &'a str)>) {
    let text: String = settings.map(|(name, value)| format!("{name}={value}\n")).collect();
    if text.is_empty() {
        return;
    }
    let answer = Conn::open(addr).ask(Request::new(318).body(text));
    assert_eq!(answer.code(), 0, "318 must be allowed for these tests: {}", answer.text());
}

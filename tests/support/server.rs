//! A server to talk to: a fresh guidepost, or the one that `NAMESRV` names.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use super::conn::Conn;
use super::frame::Request;
use super::program::{BINARY, Program};

/// The settings file of a server that we start, in its folder.
pub const SETTINGS: &str = "namesrv.properties";

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
    program: Program,
    folder: TempDir,
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
        let Started { program, folder } = self.started.take().expect("a server that we started");
        drop(program);
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
        let Started { program, folder } = self.started.take().expect("a server that we started");
        let (code, _) = program.stop(Signal::TERM);
        assert_eq!(code, Some(0), "a stop ends well");
        let (addr, started) = Started::new(folder);
        (self.addr, self.started) = (addr, Some(started));
    }

    pub fn connect(&self) -> Conn {
        Conn::open(self.addr)
    }

    /// The most memory that the process has had so far, if we started it.
    pub fn peak_memory(&self) -> Option<Memory> {
        let status = std::fs::read_to_string(self.proc("status")?).ok()?;
        let bytes = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(kib << 10)
        };
        Some(Memory { resident: bytes("VmHWM:")?, reserved: bytes("VmPeak:")? })
    }

    /// Open descriptors, if we started the server.
    pub fn open_files(&self) -> Option<usize> {
        Some(std::fs::read_dir(self.proc("fd")?).ok()?.count())
    }

    fn proc(&self, file: &str) -> Option<String> {
        Some(format!("/proc/{}/{file}", self.pid()?))
    }

    /// The process, if we started the server.
    pub fn pid(&self) -> Option<Pid> {
        self.started.as_ref().map(|started| started.program.pid())
    }

    /// Waits for the last line that a server we started logs at its start.
    pub fn wait_until_started(&self) {
        if let Some(started) = &self.started {
            started.program.wait_for("serving");
        }
    }

    /// Lines that a server we started has logged since its boot line.
    pub fn logged(&self) -> Option<usize> {
        self.started.as_ref().map(|started| started.program.logged())
    }

    /// The folder of a server that we started.
    pub fn folder(&self) -> Option<&Path> {
        self.started.as_ref().map(|started| started.folder.path())
    }
}

impl Started {
    /// A server on the settings file in `folder`, and where it listens.
    fn new(folder: TempDir) -> (SocketAddr, Started) {
        let mut command = Command::new(BINARY);
        command.arg("-c").arg(folder.path().join(SETTINGS)).current_dir(folder.path());
        // Java cannot do without, so the recorded answers have it.
        let program = Program::boot(command.env("ROCKETMQ_HOME", folder.path()));
        (SocketAddr::from((Ipv4Addr::LOCALHOST, program.port())), Started { program, folder })
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

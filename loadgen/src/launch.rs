//! Starts NameServers from command lines, and ends them whatever happens.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::caller::Caller;
use crate::failure::{Failure, run_failure, usage};
use crate::fleet::Asked;
use crate::limits;
use crate::process::Process;
use crate::wire::ROUTE_BY_TOPIC;

/// What stands for the port in a command line.
const PORT: &str = "{port}";
/// A JVM on a busy machine takes its time.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// How often a server that starts or stops is looked at, which bounds how exactly that is known.
const ASK_EVERY: Duration = Duration::from_millis(1);
/// A server that has just opened its port may take a moment.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// What is shown of the log of a server that did not start.
const LOG_TAIL_BYTES: usize = 600;

/// How a server is started: `NAME=[VARIABLE=VALUE ...] PROGRAM [ARGUMENT ...]`, with `{port}`
/// where the port belongs. Words are separated by blanks; there are no quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// Its name in the tables.
    pub name: String,
    variables: Vec<(String, String)>,
    words: Vec<String>,
}

impl std::str::FromStr for Recipe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "give NAME=COMMAND, with {port} in the command";
        let (name, command) = text.split_once('=').ok_or(expected)?;
        let mut words = command.split_whitespace().map(str::to_owned).peekable();
        let mut variables = Vec::new();
        while let Some((variable, value)) = words.peek().and_then(|word| word.split_once('=')) {
            variables.push((variable.to_owned(), value.to_owned()));
            words.next();
        }
        let words: Vec<String> = words.collect();
        if name.is_empty() || words.is_empty() || !words.iter().any(|word| word.contains(PORT)) {
            return Err(expected.to_owned());
        }
        Ok(Self { name: name.to_owned(), variables, words })
    }
}

impl Recipe {
    /// The command as a person would type it.
    pub fn command(&self) -> String {
        let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}"));
        variables.chain(self.words.iter().cloned()).collect::<Vec<_>>().join(" ")
    }

    /// Starts the server on this port and waits for its first answer. Its output goes to
    /// `logs/NAME.log`. With `cpus` it may run on these alone.
    ///
    /// # Errors
    /// When it cannot be started, ends again, or does not answer; with the end of its log.
    pub fn start(&self, port: u16, logs: &Path, cpus: Option<&[usize]>) -> Result<Server, Failure> {
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_err() {
            let name = &self.name;
            return Err(usage(format!("port {port} for {name} is in use: give --first-port")));
        }
        let log = logs.join(format!("{}.log", self.name));
        let failed = |e: std::io::Error| run_failure(format!("starting {}: {e}", self.name));
        fs::create_dir_all(logs).map_err(failed)?;
        let output = File::create(&log).map_err(failed)?;
        let words = self.words.iter().map(|word| word.replace(PORT, &port.to_string()));
        // A server must not outlive this process, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).args(words);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // A group of its own: Ctrl-C is for us.
        command.process_group(0).stdin(Stdio::null());
        command.stdout(output.try_clone().map_err(failed)?).stderr(output);
        let began = Instant::now();
        let child = spawn_on(cpus, &mut command)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let process = Process::new(child.id())?;
        let first_answer = Duration::ZERO;
        let name = self.name.clone();
        let mut server = Server { name, child, address, process, first_answer };
        server.wait_for_answer(began, &log)?;
        server.first_answer = began.elapsed();
        // Until now its command line was that of the program that started it.
        server.process = Process::new(server.child.id())?;
        Ok(server)
    }
}

/// The child inherits the CPUs of the thread that starts it.
fn spawn_on(cpus: Option<&[usize]>, command: &mut Command) -> Result<Child, Failure> {
    let before = limits::cpus_allowed();
    cpus.map(limits::pin).transpose()?;
    let spawned = command.spawn();
    if cpus.is_some() {
        limits::pin(&before)?;
    }
    spawned.map_err(|e| run_failure(format!("starting it through setpriv (util-linux): {e}")))
}

/// A server that answers. It is ended when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// Its name in the tables.
    pub name: String,
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// To look at its CPU time and memory.
    pub process: Process,
    /// From its start to its first answer.
    pub first_answer: Duration,
}

impl Server {
    /// Resident memory, in bytes.
    ///
    /// # Errors
    /// When it is gone.
    pub fn rss_bytes(&self) -> Result<u64, Failure> {
        let now = self.process.sample()?;
        Ok(now.since(&now).rss_bytes)
    }

    /// Stops it; how long that took, to the millisecond.
    ///
    /// # Errors
    /// When it has not ended in time; it is killed then.
    pub fn stop(mut self) -> Result<Duration, Failure> {
        let began = Instant::now();
        if self.end() {
            return Ok(began.elapsed());
        }
        let (name, seconds) = (&self.name, STOP_TIMEOUT.as_secs());
        Err(run_failure(format!(
            "{name} did not stop within {seconds} s of SIGTERM, and was killed"
        )))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends SIGTERM, unless it has ended: its number may be somebody else's by now. Waits for its
    /// end, and kills it when that takes too long; then false.
    fn end(&mut self) -> bool {
        if self.has_ended() {
            return true;
        }
        // All of this may fail only because the server is gone already.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = Instant::now();
        while asked.elapsed() < STOP_TIMEOUT {
            if self.has_ended() {
                return true;
            }
            std::thread::sleep(ASK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        false
    }

    fn wait_for_answer(&mut self, began: Instant, log: &Path) -> Result<(), Failure> {
        while began.elapsed() < START_TIMEOUT {
            if answers(self.address) {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let tail = log_tail(log);
                return Err(run_failure(format!("{} ended, {status}: {tail}", self.name)));
            }
            std::thread::sleep(ASK_EVERY);
        }
        let (name, seconds, tail) = (&self.name, START_TIMEOUT.as_secs(), log_tail(log));
        Err(run_failure(format!("{name} gave no answer for {seconds} s: {tail}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether a NameServer there answers a question.
fn answers(address: SocketAddr) -> bool {
    let name = Asked::Absent(0).name();
    let fields = [("topic", &*String::from_utf8_lossy(&name))];
    let asked = |mut caller: Caller| caller.call(ROUTE_BY_TOPIC, &fields, b"", |_| ());
    Caller::with_timeout(address, ANSWER_TIMEOUT).and_then(asked).is_ok()
}

fn log_tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let tail = &bytes[bytes.len().saturating_sub(LOG_TAIL_BYTES)..];
    format!("{}\n{}", log.display(), String::from_utf8_lossy(tail).trim())
}

/// Where servers log unless told otherwise: a folder of this process.
pub fn log_folder() -> PathBuf {
    std::env::temp_dir().join(format!("loadgen-{}", std::process::id()))
}

/// Refuses a recipe name that is given twice.
///
/// # Errors
/// [`Failure::Usage`] naming it.
pub fn distinct(recipes: &[Recipe]) -> Result<(), Failure> {
    for (index, recipe) in recipes.iter().enumerate() {
        if recipes[..index].iter().any(|earlier| earlier.name == recipe.name) {
            return Err(usage(format!("--server {}: give each server its own name", recipe.name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_has_a_name_variables_and_a_command_with_a_port() {
        let recipe: Recipe = "java=HOME=/x A=b java -p {port} k=v".parse().unwrap();
        assert_eq!((recipe.name.as_str(), recipe.variables.len()), ("java", 2));
        assert_eq!(recipe.words, ["java", "-p", "{port}", "k=v"]);
        assert_eq!(recipe.command(), "HOME=/x A=b java -p {port} k=v");
        for wrong in ["java", "=x {port}", "java=x -p 9", "java=A=b"] {
            assert!(wrong.parse::<Recipe>().unwrap_err().contains("{port}"), "{wrong}");
        }
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_what_it_said() {
        let logs = log_folder();
        let recipe: Recipe = "broken=ls /not/there/{port}".parse().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let text = recipe.start(port, &logs, None).unwrap_err().to_string();
        assert!(text.contains("broken ended") && text.contains("/not/there/"), "{text}");
        fs::remove_dir_all(logs).unwrap();
    }
}

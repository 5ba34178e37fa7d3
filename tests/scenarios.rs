//! Aim: each rule of the NameServer, tried as a user meets it, over a socket.
//! Method: text files in `scenarios/`, one a topic, run step by step on one server a file. The same
//! files run against the Java server (`NAMESRV=HOST:PORT SERVER_IS_JAVA=1`); where we differ on
//! purpose both values stand in the file.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use support::conn::{Conn, Got, SILENCE};
use support::frame::{Answer, Request};
use support::look_until;
use support::script::{Action, Scenario, Script, Step};
use support::server::{Server, given, is_java};

/// One test a file.
macro_rules! files {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run_file(stringify!($name));
        })*

        const FILES: &[&str] = &[$(stringify!($name)),*];
    };
}

files! {
    acting_master bodies connections deleting dialects failover frames gates idle kv lists liveness
    notices order perms readiness registration settings settings_refused topics unregister zones
}

/// How long `eventually` tries. The Java server scans for expired brokers every 5 s.
fn patience() -> Duration {
    Duration::from_secs(if is_java() { 15 } else { 5 })
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

fn read(name: &str, for_java: bool) -> Script {
    let path = folder().join(format!("{name}.scn"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Script::parse(&text, for_java).unwrap_or_else(|e| panic!("tests/scenarios/{name}.scn:{e}"))
}

fn run_file(name: &str) {
    let script = read(name, is_java());
    if script.own_server && given().is_some() {
        eprintln!("{name}.scn needs a server of its own start; not run on the one in NAMESRV");
        return;
    }
    let settings = script.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let server = Server::start(&settings.collect::<Vec<_>>());
    let failures: Vec<String> = script
        .scenarios
        .iter()
        .filter_map(|scenario| {
            let (line, why) = run(&server, scenario).err()?;
            Some(format!("tests/scenarios/{name}.scn:{line}: {}\n    {why}", scenario.claim))
        })
        .collect();
    assert!(failures.is_empty(), "{} scenarios fail\n{}", failures.len(), failures.join("\n"));
}

/// A connection that plays a broker's port: frames that arrive there.
type Port = (SocketAddr, Receiver<Answer>);

/// What a scenario has open.
struct Stage<'a> {
    server: &'a Server,
    conns: HashMap<String, Conn>,
    later: HashMap<String, (String, i32)>,
    ports: HashMap<String, Port>,
}

/// Runs one scenario; `Err` is the line and what was wrong.
fn run(server: &Server, scenario: &Scenario) -> Result<(), (usize, String)> {
    let (conns, later, ports) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut stage = Stage { server, conns, later, ports };
    for step in &scenario.steps {
        let done = stage.step(step);
        done.map_err(|why| (step.line, format!("{}\n      {why}", step.text)))?;
    }
    Ok(())
}

impl Stage<'_> {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match &step.action {
            Action::Ask { conn, request, eventually } => {
                let within = if *eventually { patience() } else { Duration::ZERO };
                let look = || self.ask(conn, request).map(|answer| judge(&answer, step));
                look_until(within, look, |seen| !matches!(seen, Ok(Err(_))))?
            }
            Action::Later { label, conn, request } => {
                let request = self.with_ports(request);
                let opaque = self.conn(conn).send(request);
                self.later.insert(label.clone(), (conn.clone(), opaque));
                Ok(())
            }
            Action::Answer { label } => {
                let (conn, opaque) = self.later.remove(label).ok_or("no such request")?;
                let answer = self.conn(&conn).try_answer_to(opaque)?;
                judge(&answer, step)
            }
            Action::OneWay { conn, request } => {
                let request = self.with_ports(request);
                self.conn(conn).send(request);
                Ok(())
            }
            Action::Bytes { conn, bytes } => {
                self.conn(conn).send_bytes(bytes);
                Ok(())
            }
            Action::Wait { ms } => {
                std::thread::sleep(Duration::from_millis(*ms));
                Ok(())
            }
            other => self.step_of_connection(other, step),
        }
    }

    fn step_of_connection(&mut self, action: &Action, step: &Step) -> Result<(), String> {
        match action {
            Action::Open { conn } => {
                self.conn(conn);
            }
            Action::Close { conn } => {
                self.conns.remove(conn).ok_or("no such connection")?;
            }
            Action::Reset { conn } => self.conns.remove(conn).ok_or("no such connection")?.reset(),
            Action::Closed { conn } => match self.conn(conn).next_frame(patience()) {
                Got::Closed => drop(self.conns.remove(conn)),
                got => return Err(format!("expected a close, got {got:?}")),
            },
            Action::Silent { conn } => match self.conn(conn).next_frame(SILENCE) {
                Got::Silent => {}
                got => return Err(format!("expected silence, got {got:?}")),
            },
            Action::Listen { name } => {
                self.ports.insert(name.clone(), listen());
            }
            Action::Notice { name } => {
                let (_, frames) = self.ports.get(name).ok_or("no such port")?;
                let notice = frames.recv_timeout(patience()).map_err(|_| "no notice came")?;
                check_notice(&notice, step)?;
            }
            Action::NoNotice { name } => {
                let (_, frames) = self.ports.get(name).ok_or("no such port")?;
                if let Ok(frame) = frames.recv_timeout(SILENCE) {
                    return Err(format!("a notice came: {}", frame.text()));
                }
            }
            other => return Err(format!("not a step of a connection: {other:?}")),
        }
        Ok(())
    }

    fn ask(&mut self, conn: &str, request: &Request) -> Result<Answer, String> {
        let request = self.with_ports(request);
        let conn = self.conn(conn);
        let opaque = conn.send(request);
        conn.try_answer_to(opaque)
    }

    fn conn(&mut self, name: &str) -> &mut Conn {
        let server = self.server;
        self.conns.entry(name.to_owned()).or_insert_with(|| server.connect())
    }

    /// The request with `@NAME` replaced by the address of that port.
    fn with_ports(&self, request: &Request) -> Request {
        let mut request = request.clone();
        for (_, value) in request.ext.iter_mut().flatten() {
            if let Some((addr, _)) = value.strip_prefix('@').and_then(|name| self.ports.get(name)) {
                *value = addr.to_string();
            }
        }
        request
    }
}

/// Without an expectation about the code it must be 0.
fn judge(answer: &Answer, step: &Step) -> Result<(), String> {
    let default = (answer.code() != 0).then(|| format!("code: expected 0, got {}", answer.text()));
    if !step.expectations.iter().any(support::expect::Expectation::is_about_code)
        && let Some(why) = default
    {
        return Err(why);
    }
    for expectation in &step.expectations {
        expectation.check(answer).map_err(|why| format!("{why}\n      in {}", answer.text()))?;
    }
    Ok(())
}

fn check_notice(notice: &Answer, step: &Step) -> Result<(), String> {
    if notice.code() != 905 || notice.fields["flag"] != 2 || !notice.body.is_empty() {
        return Err(format!("expected a one-way 905 without a body, got {}", notice.text()));
    }
    for expectation in &step.expectations {
        expectation.check(notice).map_err(|why| format!("{why}\n      in {}", notice.text()))?;
    }
    Ok(())
}

/// A listener whose connections are read to their ends.
fn listen() -> Port {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("a bound port");
    let (send, frames) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let send = send.clone();
            std::thread::spawn(move || read_frames(stream, &send));
        }
    });
    (addr, frames)
}

fn read_frames(stream: TcpStream, send: &std::sync::mpsc::Sender<Answer>) {
    let mut conn = Conn::over(stream);
    while let Got::Frame(frame) = conn.next_frame(Duration::from_secs(30)) {
        let Ok(frame) = Answer::decode(&frame) else { return };
        if send.send(frame).is_err() {
            return;
        }
    }
}

#[test]
fn every_file_is_run() {
    let entries = std::fs::read_dir(folder()).expect("the folder is part of the repository");
    let names = entries.map(|entry| entry.expect("readable").path());
    let mut found: Vec<String> = names
        .filter(|path| path.extension().is_some_and(|ext| ext == "scn"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    found.sort();
    assert_eq!(found, FILES, "list every file of tests/scenarios in `files!`, in order");
}

/// On a given server scenarios run one after the other and leave traces; so they must not share
/// names.
#[test]
fn no_two_scenarios_share_a_name() {
    let mut owners: BTreeMap<(&str, String), String> = BTreeMap::new();
    for name in FILES {
        for for_java in [false, true] {
            for scenario in read(name, for_java).scenarios {
                let place = format!("{name}.scn:{}", scenario.line);
                for key in scenario.steps.iter().flat_map(names_of) {
                    let owner = owners.entry(key.clone()).or_insert_with(|| place.clone());
                    assert_eq!(*owner, place, "{} `{}` is used by both", key.0, key.1);
                }
            }
        }
    }
}

/// The names that a registration brings into the tables.
fn names_of(step: &Step) -> Vec<(&'static str, String)> {
    let Action::Ask { request, .. } = &step.action else { return Vec::new() };
    let fields = request.ext.iter().flatten();
    let kind = |name: &str| match name {
        "brokerName" => Some("broker"),
        "clusterName" => Some("cluster"),
        "brokerAddr" => Some("address"),
        _ => None,
    };
    let mut names: Vec<_> =
        fields.filter_map(|(name, value)| Some((kind(name)?, value.clone()))).collect();
    names.retain(|(_, value)| request.code == 103 && !value.starts_with('@'));
    names
}

/// The runner itself must be able to fail.
#[test]
fn a_wrong_answer_fails_the_step() {
    let text = "scenario x\nroute q T\nexpect code=0\nexpect queues a:6\nours: expect code=1\n";
    let script = Script::parse(text, true).expect("a good file");
    let step = &script.scenarios[0].steps[0];
    let answer = |body: &str| {
        let header = br#"{"code":0,"opaque":1}"#;
        Answer::decode(&support::frame::frame(0, header, body.as_bytes())[4..]).expect("a frame")
    };
    let body = |perm| format!(r#"{{"queueDatas":[{{"brokerName":"a","perm":{perm}}}]}}"#);
    assert_eq!(judge(&answer(&body(6)), step), Ok(()));
    assert!(judge(&answer(&body(4)), step).is_err());
    assert!(Script::parse("scenario x\nroute q T\nexpect nonsense\n", false).is_err());
    assert!(Script::parse("scenario x\nno-such-step q\n", false).is_err());
    let ours = Script::parse(text, false).expect("a good file");
    assert!(judge(&answer(&body(6)), &ours.scenarios[0].steps[0]).is_err(), "code 1 is expected");
}

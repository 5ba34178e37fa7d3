//! Aim: what a person or a script sees of the program from outside: output, exit status, how it
//! starts and stops. Method: runs the built program, each time with an environment and a home of
//! its own, on loopback.

mod support;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use support::program::{BINARY, Program, output, program};
use tempfile::TempDir;

/// The user who may read nothing that is not everybody's.
const NOBODY: u32 = 65_534;

fn home() -> TempDir {
    tempfile::tempdir().expect("a directory for temporary files")
}

/// Runs it to its end, which must come without a signal.
fn run(args: &[&str]) -> Output {
    output(&mut program(home().path(), args))
}

/// Runs it with a settings file; returns that file's path beside.
fn run_with(settings: &str, args: &[&str]) -> (Output, String) {
    let home = home();
    let path = home.path().join("namesrv.conf");
    fs::write(&path, settings).unwrap();
    let path = path.to_str().unwrap();
    let args: Vec<&str> = ["-c", path].iter().chain(args).copied().collect();
    (output(&mut program(home.path(), &args)), path.to_owned())
}

fn out(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn err(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[track_caller]
fn ends(output: &Output, status: i32) {
    assert_eq!(output.status.code(), Some(status), "out: {}\nerr: {}", out(output), err(output));
}

#[test]
fn help_names_flags_environment_and_exit_statuses() {
    let output = run(&["-h"]);
    ends(&output, 0);
    for wanted in ["-c, --configFile", "--listen-port", "ROCKETMQ_SERIALIZE_TYPE", "  78  "] {
        assert!(out(&output).contains(wanted), "{wanted}: {}", out(&output));
    }
    assert_eq!(run(&["--help"]).status.code(), Some(0));
}

#[test]
fn version_is_one_line() {
    for flag in ["--version", "-V"] {
        let output = run(&[flag]);
        ends(&output, 0);
        assert_eq!(out(&output), concat!("guidepost ", env!("CARGO_PKG_VERSION"), "\n"));
    }
}

#[test]
fn settings_are_printed_as_lines_without_a_home() {
    let output = output(Command::new(BINARY).arg("-p").env_clear());
    ends(&output, 0);
    assert!(out(&output).lines().all(|line| line.contains('=')), "{}", out(&output));
    assert!(out(&output).contains("\nlistenPort=9876\n"), "{}", out(&output));
    let (output, path) = run_with("listenPort=21201\nkey=value\n", &["-p", "--shards", "3"]);
    ends(&output, 0);
    for wanted in ["listenPort=21201", "key=value", "shards=3", &format!("configStorePath={path}")]
    {
        assert!(out(&output).lines().any(|line| line == wanted), "{wanted}: {}", out(&output));
    }
}

#[test]
fn stored_settings_are_read_only_where_they_are_named() {
    let home = home();
    let stored = home.path().join("namesrv/namesrv.properties");
    fs::create_dir(stored.parent().unwrap()).unwrap();
    fs::write(&stored, "orderMessageEnable=true\n").unwrap();
    for (args, shown) in [(&["-p"][..], false), (&["-p", "-c", stored.to_str().unwrap()], true)] {
        let output = output(&mut program(home.path(), args));
        ends(&output, 0);
        let line = format!("orderMessageEnable={shown}\n");
        assert!(out(&output).contains(&line), "{}", out(&output));
        let path = format!("configStorePath={}\n", stored.display());
        assert!(out(&output).contains(&path), "{}", out(&output));
    }
}

#[test]
fn an_unknown_option_ends_with_a_message_and_the_usage() {
    for args in [&["-z"][..], &["--no-such"], &["-c"]] {
        let output = run(args);
        ends(&output, 2);
        assert!(err(&output).contains(args[0]), "{}", err(&output));
        assert!(err(&output).contains("Usage: guidepost"), "{}", err(&output));
    }
}

#[test]
fn a_missing_settings_file_is_named() {
    let output = run(&["-c", "/no/such/namesrv.conf"]);
    ends(&output, 78);
    assert!(err(&output).contains("settings file /no/such/namesrv.conf: No such file"));
    let directory = run(&["-c", "/"]);
    ends(&directory, 78);
}

#[test]
fn a_settings_file_that_may_not_be_read_is_a_matter_of_permission() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = home();
    let path = home.path().join("secret.conf");
    fs::write(&path, "").unwrap();
    for (path, mode) in [(home.path(), 0o755), (&path, 0o000)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let args = ["-c", path.to_str().unwrap()];
    let output = if fs::read(&path).is_err() {
        output(&mut program(home.path(), &args))
    } else {
        // This user may read everything, so somebody else has to run it. Who cannot get at the
        // program's folder can still run an open file.
        let binary = fs::File::open(BINARY).unwrap();
        let mut command = Command::new(format!("/proc/self/fd/{}", binary.as_raw_fd()));
        output(command.args(args).uid(NOBODY).env_clear().env("HOME", home.path()))
    };
    ends(&output, 77);
    assert!(err(&output).contains("secret.conf"), "{}", err(&output));
}

#[test]
fn a_malformed_escape_is_named_by_file_and_line() {
    let (output, path) = run_with("listenPort=21202\n\nkvConfigPath=C:\\users\n", &[]);
    ends(&output, 78);
    let wanted = format!("{path}:3: malformed escape");
    assert!(err(&output).contains(&wanted), "{}", err(&output));
}

#[test]
fn issue_8913_all_wrong_values_are_named_by_file_and_line() {
    let settings = "listenPort=abc\n# fine\nenableTopicList=ja\n";
    let (output, path) = run_with(settings, &["--shards=-1"]);
    ends(&output, 78);
    for wanted in [
        format!("{path}:1: listenPort=abc is not a number (0..65535)\n"),
        format!("{path}:3: enableTopicList=ja is neither true nor false\n"),
        "command line: shards=-1 is out of range (0..1024)\n".to_owned(),
    ] {
        assert!(err(&output).contains(&wanted), "{wanted}: {}", err(&output));
    }
}

#[test]
fn issue_8638_what_does_not_exist_here_is_refused() {
    for (key, cure) in [
        ("clusterTest", "remove this line"),
        ("enableControllerInNamesrv", "run the controller on its own"),
    ] {
        let (output, path) = run_with(&format!("{key}=true\n"), &[]);
        ends(&output, 78);
        let wanted = format!("{path}:1: {key}=true is not supported");
        assert!(err(&output).contains(&wanted) && err(&output).contains(cure), "{}", err(&output));
    }
}

#[test]
fn a_serialize_type_that_is_none_is_refused() {
    let home = home();
    let mut command = program(home.path(), &[]);
    let output = output(command.env("ROCKETMQ_SERIALIZE_TYPE", "PROTOBUF"));
    ends(&output, 78);
    let wanted = "ROCKETMQ_SERIALIZE_TYPE=PROTOBUF is neither JSON nor ROCKETMQ";
    assert!(err(&output).contains(wanted), "{}", err(&output));
}

#[test]
fn a_log_directory_that_cannot_be_made_is_named() {
    let home = home();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let dir = file.join("logs");
    let output = output(&mut program(home.path(), &["--log-dir", dir.to_str().unwrap()]));
    assert!(matches!(output.status.code(), Some(77 | 78)), "{}", err(&output));
    assert!(err(&output).contains("file/logs/namesrv.log"), "{}", err(&output));
}

#[test]
fn an_address_in_use_is_named_with_the_cure() {
    let owner = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = owner.local_addr().unwrap();
    let settings = format!("bindAddress=127.0.0.1\nlistenPort={}\n", address.port());
    let (output, _) = run_with(&settings, &[]);
    ends(&output, 69);
    let wanted = format!("address {address} is in use: stop the other server or set listenPort");
    assert!(err(&output).contains(&wanted), "{}", err(&output));
}

#[test]
fn an_address_of_another_host_is_named_with_the_cure() {
    let output = run(&["--bind-address", "192.0.2.1", "--listen-port", "0"]);
    ends(&output, 69);
    assert!(err(&output).contains("192.0.2.1:0 is not an address of this host: set bindAddress"));
}

#[test]
fn the_boot_line_has_serialize_type_and_the_address_that_listens() {
    for (value, kind) in [("", "JSON"), ("ROCKETMQ", "ROCKETMQ")] {
        let home = home();
        let mut command = program(home.path(), &["--bind-address=127.0.0.1", "--listen-port=0"]);
        let server = Program::boot(command.env("ROCKETMQ_SERIALIZE_TYPE", value));
        let words = format!("The Name Server boot success. serializeType={kind}, address ");
        let address = server.banner.strip_prefix(&words).expect(&server.banner);
        TcpStream::connect(address).expect(address);
        assert_eq!(server.stop(Signal::TERM).0, Some(0));
    }
}

#[test]
fn term_and_int_end_well() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = home();
        let args = ["--bind-address=127.0.0.1", "--listen-port=0"];
        let server = Program::boot(&mut program(home.path(), &args));
        assert_eq!(server.stop(signal).0, Some(0), "{signal:?}");
    }
}

#[test]
fn rocketmq_rust_9189_a_second_server_on_the_same_port_is_refused() {
    let home = home();
    let args = ["--bind-address=127.0.0.1", "--listen-port=0"];
    let server = Program::boot(&mut program(home.path(), &args));
    let port = server.port().to_string();
    let output = output(&mut program(home.path(), &[args[0], "--listen-port", &port]));
    ends(&output, 69);
    assert!(err(&output).contains(&format!("127.0.0.1:{port} is in use")), "{}", err(&output));
    assert_eq!(server.stop(Signal::TERM).0, Some(0));
}

#[test]
fn logs_go_to_the_directory_and_the_boot_line_to_both() {
    let home = home();
    let conf = home.path().join("namesrv.conf");
    fs::write(&conf, "bindAddress=127.0.0.1\nlistenPort=0\nbrokerName=a\nlistenport=1\n").unwrap();
    let logs = home.path().join("deep/logs");
    let args = ["-c", conf.to_str().unwrap(), "--log-dir", logs.to_str().unwrap()];
    let server = Program::boot(&mut program(home.path(), &args));
    assert_eq!(server.before, [""; 0]);
    let banner = server.banner.clone();
    assert_eq!(server.stop(Signal::TERM), (Some(0), Vec::new()));
    let log = fs::read_to_string(logs.join("namesrv.log")).unwrap();
    assert!(log.contains(&format!(" - {banner}\n")), "{log}");
    for wanted in ["brokerName (line 3)", ":4: listenport has no effect; did you mean listenPort?"]
    {
        let line =
            log.lines().find(|line| line.contains(wanted)).unwrap_or_else(|| panic!("{log}"));
        assert_eq!(&line[4..5], "-", "{line}");
        assert_eq!(&line[19..30], " WARN main ", "{line}");
    }
}

#[test]
fn lines_on_standard_output_are_plain_and_the_boot_line_comes_once() {
    let home = home();
    let args = ["--bind-address=127.0.0.1", "--listen-port=0", "--max-connections=100000", "stray"];
    let server = Program::boot(&mut program(home.path(), &args));
    let (before, banner) = (server.before.join("\n"), server.banner.clone());
    let (status, rest) = server.stop(Signal::TERM);
    let lines = [before, banner, rest.join("\n")].join("\n");
    assert_eq!(status, Some(0));
    assert!(lines.contains(" WARN main - command line: stray belongs to no option"), "{lines}");
    assert!(!lines.contains('\u{1b}'), "{lines:?}");
    assert_eq!(lines.matches("boot success").count(), 1, "{lines}");
}

#[test]
fn the_open_files_limit_is_raised_as_far_as_allowed() {
    let hard = getrlimit(Resource::Nofile).maximum;
    let home = home();
    let args = ["--bind-address=127.0.0.1", "--listen-port=0"];
    let script = format!("ulimit -S -n 64; exec {BINARY} {}", args.join(" "));
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script]).env_clear().env("HOME", home.path());
    let server = Program::boot(&mut command);
    let same = Rlimit { current: hard, maximum: hard };
    let before = prlimit(Some(server.pid()), Resource::Nofile, same).unwrap();
    assert_eq!((before.current, before.maximum), (hard, hard));
    assert_eq!(server.stop(Signal::TERM).0, Some(0));
}

#[test]
fn limits_too_low_to_start_are_named_with_the_cure() {
    for (ulimit, cure) in [("-n 20", "LimitNOFILE=1048576"), ("-l 64", "ulimit -l 512")] {
        let home = home();
        let script = format!("ulimit {ulimit}; exec {BINARY} --listen-port 0");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).env_clear().env("HOME", home.path());
        let output = output(&mut command);
        ends(&output, 71);
        assert!(err(&output).contains(cure), "{}", err(&output));
    }
}

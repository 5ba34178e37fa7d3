//! Aim: the program keeps its promises to a shell. Method: run it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

fn loadgen(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command.args(arguments.split(' '));
    command
}

fn refused(arguments: &str) -> String {
    let output = loadgen(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn wrong_arguments_end_with_2_and_what_to_write_instead() {
    assert!(refused("query 192.0.2.1:9876").contains("--allow-remote"));
    assert!(refused("query localhost").contains("HOST:PORT"));
    assert!(refused("fill 127.0.0.1:1 --brokers 2 --route-width 3").contains("1 to 2"));
    assert!(refused("floor --connections 10000000").contains("1..=1000000"));
    assert!(refused("floor --connections 1 --threads 2").contains("one thread a connection"));
    assert!(refused("floor --seconds 4000").contains("give 0.1 to 3600"));
}

#[test]
fn nobody_listening_is_said_before_anything_runs() {
    // Port 1 needs privileges and a reason to listen on.
    let output = loadgen("fill 127.0.0.1:1").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("broker 0 of 4") && text.contains("127.0.0.1:1"), "{text}");
    assert!(refused("query 127.0.0.1:1").contains("--server-pid"));
}

#[test]
fn the_floor_is_measured_and_written_as_json() {
    let file = std::env::temp_dir().join(format!("loadgen-floor-{}.json", std::process::id()));
    let arguments = "floor --connections 4 --seconds 0.3 --warmup 0.1 --misses 0.5 --json";
    let output = loadgen(arguments).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("hits of 980 bytes") && text.contains("us CPU per query"), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(json["schema"], "guidepost-loadgen/2");
    let run = &json["runs"][0];
    assert_eq!(run["totals"]["errors"], serde_json::json!({}));
    let hits = run["totals"]["answers"]["hit"].as_u64().unwrap();
    assert_eq!(run["totals"]["counts"]["hit bytes"].as_u64().unwrap(), hits * 980);
    assert!(run["cost"]["server"]["cpu_ns"].as_u64().unwrap() > 0);
}

/// Runs the floor, interrupts it, and returns its exit code and what it said.
fn interrupted(more: &str) -> (Option<i32>, String) {
    let mut child = loadgen(&format!("floor --connections 2 --seconds 600 --warmup 0{more}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("load:") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before it began");
    }
    // Not an event to wait for: the run shall have lasted a while.
    std::thread::sleep(Duration::from_millis(500));
    let begin = Instant::now();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let mut report = String::new();
    lines.read_to_string(&mut report).unwrap();
    let code = child.wait().unwrap().code();
    assert!(begin.elapsed() < Duration::from_secs(20));
    (code, report)
}

#[test]
fn the_first_interrupt_ends_the_run_with_a_report() {
    let (code, report) = interrupted("");
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("ended early") && report.contains("us CPU per query"), "{report}");
}

#[test]
fn the_floor_has_the_limit_of_open_files_that_its_connections_need() {
    let program = env!("CARGO_BIN_EXE_loadgen");
    let floor = "floor --connections 200 --seconds 0.3 --warmup 0.1 --assert errors==0";
    let script = format!("ulimit -Sn 100 && exec {program} {floor}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_was_demanded_of_an_interrupted_run_does_not_hold() {
    let (code, report) = interrupted(" --assert errors==0");
    assert_eq!(code, Some(3), "{report}");
    assert!(report.contains("not measured to the end"), "{report}");
}

#[test]
fn the_floor_server_leaves_when_its_starter_does() {
    let mut child = loadgen("floor-server --ends-with-stdin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("listening on "), "{line}");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

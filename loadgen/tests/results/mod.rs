//! Aim: what the commands show and write is what happened. Method: run them against a stub server
//! and read the files.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use loadgen::cli::EXAMPLES;
use loadgen::page::page;
use loadgen::record::{Phase, Record};
use rustix::process::{Pid, Signal, kill_process};

use crate::stub::town::{Faults, Town};
use crate::stub::{self, Seen, Stub};

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("loadgen-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn text(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn loadgen(directory: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loadgen"));
    command.current_dir(directory).args(arguments.split(' ')).output().unwrap()
}

fn by_fleet(seen: &Seen) -> Option<Vec<u8>> {
    Some(seen.answer_by_fleet())
}

/// Two seconds at 200 queries a second, by way of the command.
fn measured(scratch: &Scratch, stub: &Stub, more: &str) -> Output {
    let arguments = format!(
        "query {} --rate 200 --arrivals constant --connections 4 --seconds 2 --warmup 0.5 \
         --misses 0.25 --lateness-bound-us 1000000 --no-ceiling {more}",
        stub.address
    );
    loadgen(&scratch.0, &arguments)
}

const PLOTS: [&str; 5] = ["rate", "spectrum", "lateness", "cpu", "memory"];

/// Parses the page as strictly as XML is, and looks for anything from elsewhere.
fn is_self_contained(page: &str) {
    let document = parsed(page);
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object", "image"].contains(&name), "{name}");
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on"), "{attribute:?}");
            assert!(!["src", "href"].contains(&attribute.name()), "{attribute:?}");
        }
    }
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "@import", "url("] {
        assert!(!elsewhere.contains(word), "{word}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf\""), "a number that is none");
}

fn parsed(page: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(page, options).unwrap()
}

fn has_plot(page: &str, id: &str) -> bool {
    let document = parsed(page);
    let figure = document.descendants().find(|node| node.attribute("id") == Some(id));
    figure.is_some_and(|figure| {
        let lines = figure.descendants().filter(|node| {
            node.attribute("class").is_some_and(|class| class.starts_with("line "))
                && node.attribute("d").is_some_and(|path| path.len() > 10)
        });
        // One in the picture for wide windows and one in that for narrow ones.
        lines.count() >= 2
    })
}

#[test]
fn a_run_is_written_as_page_record_table_and_logs_that_agree() {
    let (scratch, stub) = (Scratch::new("files"), Stub::start(by_fleet));
    let files = "--html p.html --json r.json --csv t.csv --hlog l.hlog --hgrm d.hgrm --label Stub";
    let output = measured(&scratch, &stub, files);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record = Record::read_from(&scratch.0.join("r.json")).unwrap();
    let run = &record.runs[0];
    assert_eq!((run.answers(), run.errors(), run.percentiles("response").count), (400, 0, 400));
    assert_eq!((run.totals.rate, run.label.as_str()), (200.0, "Stub"));
    let measured = run.span(Phase::Measured).unwrap();
    assert_eq!((measured.begin_ns, measured.end_ns), (500_000_000, 2_500_000_000));

    let page = scratch.text("p.html");
    is_self_contained(&page);
    for id in PLOTS.iter().chain(&["response-time"]) {
        assert!(has_plot(&page, id), "{id}");
    }
    for text in ["Stub at 127.0.0.1:", "✓ valid", "<dd>200</dd>", "None: every query was answered"]
    {
        assert!(page.contains(text), "{text}");
    }
    let p99 = loadgen::page::micros(run.percentiles("response").p99_us);
    assert!(page.contains(&format!("<dt>p99</dt><dd>{p99}</dd>")), "{p99}");

    let table = scratch.text("t.csv");
    let answers: u64 = table
        .lines()
        .filter(|line| line.contains(",measured,"))
        .map(|line| line.split(',').nth(4).unwrap().parse::<u64>().unwrap())
        .sum();
    assert_eq!(answers, 400, "{table}");
    let untagged =
        scratch.text("l.hlog").lines().filter(|l| l.starts_with(char::is_numeric)).count();
    assert!((2..=4).contains(&untagged), "{untagged} lines of response times in two seconds");
    assert!(scratch.text("d.hgrm").contains("Total count    =          400"));
}

#[test]
fn a_demand_that_fails_is_named_and_sets_the_exit_code() {
    let (scratch, stub) = (Scratch::new("assert"), Stub::start(by_fleet));
    let output = measured(&scratch, &stub, "--assert errors==0,rate>=199 --assert p50<10s");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = measured(&scratch, &stub, "--assert errors==0,p50<1ns --html p.html");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("assert: holds: errors==0"), "{text}");
    assert!(text.contains("assert: FAILED: p50<1ns (it is "), "{text}");
    assert!(scratch.text("p.html").contains("FAILED: p50&lt;1ns"));
}

#[test]
fn errors_are_drawn_by_kind_and_make_the_run_invalid() {
    let wrong = |seen: &Seen| {
        Some(if seen.number % 50 == 49 { seen.answer(1, "") } else { seen.answer_by_fleet() })
    };
    let (scratch, stub) = (Scratch::new("errors"), Stub::start(wrong));
    let output = measured(&scratch, &stub, "--html p.html");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let page = scratch.text("p.html");
    is_self_contained(&page);
    assert!(has_plot(&page, "errors"));
    assert!(page.contains("code 1") && page.contains("✗ INVALID: "), "{page}");
}

#[test]
fn records_are_set_side_by_side_and_what_differs_is_said() {
    let (scratch, stub) = (Scratch::new("report"), Stub::start(by_fleet));
    measured(&scratch, &stub, "--json a.json --label <one>");
    measured(&scratch, &stub, "--json b.json --label two --seed 9");
    let output = loadgen(&scratch.0, "report a.json b.json --html both.html");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = scratch.text("both.html");
    is_self_contained(&page);
    for id in PLOTS.iter().chain(&["response-p50", "response-p99-9"]) {
        assert!(has_plot(&page, id), "{id}");
    }
    assert!(page.contains("&lt;one&gt;") && page.contains("two"));
    assert!(page.contains("not the same workload"));
    let differs = parsed(&page);
    let differs = differs.descendants().filter(|n| n.attribute("class") == Some("differs"));
    let names: Vec<String> = differs
        .map(|row| row.descendants().find(roxmltree::Node::is_text).unwrap().text().unwrap().into())
        .collect();
    assert!(names.contains(&"load: seed".to_owned()), "{names:?}");
    let refused = loadgen(&scratch.0, "report both.html --html x.html");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--json"));
}

#[test]
fn a_run_that_was_stopped_before_it_began_still_makes_a_page() {
    let (scratch, stub) = (Scratch::new("empty"), Stub::start(by_fleet));
    measured(&scratch, &stub, "--json r.json");
    let mut record = Record::read_from(&scratch.0.join("r.json")).unwrap();
    let run = &mut record.runs[0];
    (run.interrupted, run.cost) = (true, None);
    run.seconds.clear();
    run.samples.clear();
    run.totals.times.clear();
    let page = page(&[record]).unwrap();
    is_self_contained(&page);
    assert!(page.contains("ended before its time"));
}

#[test]
fn each_example_of_the_help_works_as_printed() {
    let (scratch, stub) = (Scratch::new("examples"), Stub::start(by_fleet));
    let town = Town::start(Faults::default());
    let help = String::from_utf8(loadgen(&scratch.0, "--help").stdout).unwrap();
    let examples: Vec<&str> =
        EXAMPLES.lines().filter_map(|line| line.strip_prefix("  loadgen ")).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        assert!(help.contains(example), "{example}");
        // Against the stub, with less load, and shorter: the machine has other tests to run.
        let address = if example.starts_with("fleet") { town.address } else { stub.address };
        let mut shorter = example.replace("127.0.0.1:9876", &address.to_string());
        for (long, short) in [
            ("--clients 1000", "--clients 100 --seconds 1 --within 20000"),
            ("--rate 2000", "--rate 50 --lateness-bound-us 60000000 --no-ceiling"),
            ("--seconds 10", "--seconds 1 --warmup 0"),
            ("--seconds 30", "--seconds 2 --warmup 0.5 --clients 20 --topics 20 --no-objectives"),
            ("--class s", "--class s --lateness-bound-us 60000000"),
        ] {
            shorter = shorter.replace(long, short);
        }
        let output = loadgen(&scratch.0, &shorter);
        assert_eq!(output.status.code(), Some(0), "{shorter}: {output:?}");
    }
    is_self_contained(&scratch.text("report.html"));
}

fn check(stub: &Stub, more: &str) -> (Option<i32>, String) {
    let scratch = Scratch::new("check");
    let arguments = format!("check {} --clients 200 --seconds 1 {more}", stub.address);
    let output = loadgen(&scratch.0, &arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[test]
fn a_check_says_yes_with_figures_and_leaves_nothing_behind() {
    let (code, text) = check(&Stub::start(by_fleet), "--within 20000");
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "ok  takes registrations        4 brokers with 1000 topics",
        "ok  takes its clients          200 connections, 0 lost",
        "ok  leaves nothing behind",
        "yes: this NameServer carries the fleet",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_check_says_no_to_a_server_that_answers_wrongly() {
    let wrong = |seen: &Seen| {
        let answer = if seen.fleet.brokers > 0 && seen.number > 30 {
            seen.answer(1, "")
        } else {
            seen.answer_by_fleet()
        };
        Some(answer)
    };
    let (code, text) = check(&Stub::start(wrong), "--within 20000");
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("NO  answers rightly"), "{text}");
    assert!(text.contains("no: see what is marked NO above"), "{text}");
}

#[test]
fn a_check_says_no_to_a_server_that_is_slow() {
    let slow = |seen: &Seen| {
        if seen.fleet.brokers > 0 && seen.number > 10 {
            std::thread::sleep(Duration::from_millis(1500));
        }
        Some(seen.answer_by_fleet())
    };
    let (code, text) = check(&Stub::start(slow), "--within 1000");
    assert!(text.contains("NO  answers in time"), "{text}");
    assert!(text.contains("ok  answers rightly"), "{text}");
    assert_eq!(code, Some(4), "{text}");
}

#[test]
fn a_check_keeps_off_a_server_on_which_another_is_at_work() {
    let always = |seen: &Seen| Some(seen.answer(0, &stub::route(4, "bench")));
    let (code, text) = check(&Stub::start(always), "--within 200");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("another loadgen is at work"), "{text}");
}

#[test]
fn an_interrupt_while_connecting_again_keeps_what_was_measured_before() {
    let (scratch, stub) = (Scratch::new("repeats"), Stub::start(by_fleet));
    let arguments = format!(
        "query {} --rate 50 --connections 20 --connect-rate 10 --seconds 0.3 --warmup 0 \
         --lateness-bound-us 60000000 --repeats 2 --json r.json",
        stub.address
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .current_dir(&scratch.0)
        .args(arguments.split(' '))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("  answers")), "no first run");
    let connected = || stub.peers.lock().unwrap().len();
    let before = connected();
    while connected() < before + 2 {
        std::thread::sleep(Duration::from_millis(5)); // the second run makes ten a second
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:?}");
    let record = Record::read_from(&scratch.0.join("r.json")).unwrap();
    assert_eq!((record.runs.len(), record.runs[0].interrupted), (1, false));
}

//! Aim: a living fleet does to a server what it says, and finds what is wrong with it. Method: a
//! stub server that keeps routes and has planted faults, driven through the same functions as the
//! command.

mod stub;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use loadgen::check::Expect;
use loadgen::life::class::{Class, Disconnect, Setting};
use loadgen::life::driver::Gap;
use loadgen::life::hostile::Mode;
use loadgen::life::stage::{Course, Story, live};
use loadgen::live::{Nobody, Onlooker, Progress};
use loadgen::measure::Percentiles;
use loadgen::run::Target;
use loadgen::sources::{Ending, Sources};
use loadgen::stop::Stop;
use stub::town::{Faults, Town};

/// Class s, but for a crowd that threads of a test can serve.
fn setting() -> Setting {
    let mut numbers = Class::S.numbers();
    (numbers.brokers, numbers.topics, numbers.clients) = (4, 40, 40);
    numbers.route_width = 2;
    let mut setting = Setting::of(numbers, 30.0, 7).unwrap();
    setting.change_seconds = 0.5;
    setting.probes = 2;
    setting.misses = 0.1;
    setting.churn_per_second = 20.0;
    setting.timeout_ms = 1_500;
    setting
}

fn course() -> Course {
    Course {
        seconds: 2.0,
        warmup_seconds: 0.2,
        cooldown_seconds: 0.2,
        threads: 1,
        pin: Vec::new(),
        at_once: false,
        lateness_bound_us: 60_000_000,
        sources: Sources::default(),
        ending: Ending::Fin,
        connect_rate: None,
        restart: None,
    }
}

fn target(town: &Town) -> Target {
    let setting = setting();
    let expect = Expect::Routes(Arc::new(setting.fleet));
    Target { label: "town".into(), address: town.address, expect, process: None }
}

fn story_of(town: &Town, setting: Setting) -> Story {
    story_in(town, setting, &course())
}

fn story_in(town: &Town, setting: Setting, course: &Course) -> Story {
    let setting = Arc::new(setting.checked().unwrap());
    live(&setting, course, &target(town), &Stop::default(), &mut Nobody).unwrap()
}

fn errors(story: &Story) -> &BTreeMap<String, u64> {
    &story.run.totals.errors
}

fn times(story: &Story, timing: &str) -> Percentiles {
    story.run.percentiles(timing)
}

#[track_caller]
fn is_clean(story: &Story) {
    let totals = &story.run.totals;
    assert!(totals.errors.is_empty(), "{:?}: {:?}", totals.errors, totals.error_examples);
    assert_eq!(story.run.invalid, Vec::<String>::new());
}

#[test]
fn a_right_server_passes_with_every_kind_of_request_and_peer() {
    let town = Town::start(Faults::default());
    let mut setting = Setting { zone_share: 0.3, idle: 3, compressed_share: 1.0, ..setting() };
    // As many as it takes to have some of each kind.
    setting.fleet.brokers = 8;
    // So long, what was asked at the end is answered on a busy machine as well.
    let story = story_in(&town, setting, &Course { cooldown_seconds: 1.5, ..course() });
    is_clean(&story);
    let answers = &story.run.totals.answers;
    for kind in ["hit", "miss", "registration", "heartbeat", "version query", "probe"] {
        assert!(answers.get(kind).is_some_and(|count| *count > 0), "no {kind}: {answers:?}");
    }
    for kind in ["cluster list", "topic list", "admin route"] {
        assert!(answers.get(kind).is_some_and(|count| *count > 0), "no {kind}: {answers:?}");
    }
    assert!(times(&story, "lateness of others").count > 0);
    // 40 clients with 6 topics each, every second, for two seconds.
    let polls = answers["hit"] + answers["miss"];
    assert!((470..=490).contains(&polls), "{polls} polls");
    assert!((20..90).contains(&answers["miss"]), "{answers:?}");
    let counts = &story.run.totals.counts;
    let late = counts.get("silent connections left out as the last was not made").unwrap_or(&0);
    let churn = counts["silent connections"] + late;
    // 20 a second, and 3 that stay.
    assert!((36..=45).contains(&churn), "{churn} silent connections");
    let state = town.state.lock().unwrap();
    let versions: Vec<(i64, bool)> = state.makes.iter().copied().collect();
    assert_eq!(versions, [(317, false), (407, false), (513, false), (513, true)]);
    assert!(state.compressed > 0 && state.codes[&322] > 0 && state.codes[&904] > 0);
}

#[test]
fn a_change_that_shows_late_is_found_and_timed() {
    let lag = Duration::from_millis(400);
    let prompt = story_of(&Town::start(Faults::default()), setting());
    assert!(!prompt.run.totals.counts.contains_key("stale routes"), "{:?}", prompt.run.totals);
    let story = story_of(&Town::start(Faults { lag, ..Faults::default() }), setting());
    let freshness = times(&story, "freshness");
    assert!(freshness.count > 0 && freshness.min_us > 200_000.0, "{freshness:?}");
    assert!(story.run.totals.counts["stale routes"] > 0);
}

#[test]
fn a_connection_that_sees_an_older_version_after_a_newer_one_is_an_error() {
    let faults = Faults { lag: Duration::from_secs(60), two_views: true, ..Faults::default() };
    let mut setting = setting();
    // One connection polls for everybody, so it meets each topic often.
    setting.client_connections = 2;
    (setting.clients, setting.poll_seconds, setting.change_seconds) = (10, 0.1, 0.05);
    let story = story_of(&Town::start(faults), setting);
    assert!(errors(&story).contains_key("went back"), "{:?}", errors(&story));
}

#[test]
fn corrupted_routes_among_right_ones_are_counted_one_by_one() {
    let faults = Faults { wrong_port_each: Some(50), ..Faults::default() };
    let story = story_of(&Town::start(faults), setting());
    let wrong = errors(&story)["wrong content"];
    assert!(wrong > 5 && errors(&story).len() == 1, "{:?}", errors(&story));
    assert!(!story.run.invalid.is_empty());
    let example = &story.run.totals.error_examples[0];
    assert!(example.contains("10912"), "{example}");
}

#[test]
fn a_request_without_an_answer_counts_with_its_time_out() {
    // Registration checks two routes at the start, which must be answered.
    let faults = Faults { silent_each: Some(60), ..Faults::default() };
    let setting = Setting { timeout_ms: 300, exporters: 0, dashboards: 0, ..setting() };
    let story = story_of(&Town::start(faults), setting);
    assert!(errors(&story)["time-out"] > 3, "{:?}", errors(&story));
    assert!(times(&story, "response").max_us >= 300_000.0, "{:?}", times(&story, "response"));
}

#[test]
fn restarts_of_brokers_and_a_mass_disconnect_are_no_errors() {
    let town = Town::start(Faults::default());
    let mut setting = setting();
    setting.rolling_restart_at = Some(0.1);
    setting.restart_seconds = 0.3;
    setting.reconnect_seconds = 0.3;
    setting.disconnects = vec![Disconnect { share: 0.5, at_seconds: 0.5 }];
    setting.churn_per_second = 0.0;
    let story = story_of(&town, setting);
    is_clean(&story);
    let counts = &story.run.totals.counts;
    assert_eq!(counts["broker restarts"], 4, "{counts:?}");
    assert!((8..=32).contains(&counts["disconnects"]), "{counts:?}");
    // Coming back is timed apart from the first connections of clients, probes and admin tools.
    assert_eq!(times(&story, "connect").count, 4 + counts["disconnects"]);
    assert_eq!(times(&story, "first connect").count, 40 + 2 + 2);
    assert_eq!(town.state.lock().unwrap().codes[&104], 4);
}

#[test]
fn a_broker_whose_registration_is_refused_comes_back_all_the_same() {
    let town = Town::start(Faults { refuses_who_left: true, ..Faults::default() });
    let mut setting = setting();
    setting.rolling_restart_at = Some(0.1);
    setting.restart_seconds = 0.2;
    let story = story_in(&town, setting, &Course { seconds: 3.0, ..course() });
    assert_eq!(errors(&story)["code 1"], 4, "{:?}", errors(&story));
    assert_eq!(town.state.lock().unwrap().widths(), [2; 40]);
}

/// Restarts the stub when the run is in its first second.
struct Restarting<'a>(&'a Town, bool);

impl Onlooker for Restarting<'_> {
    fn second(&mut self, _: &Progress<'_>) {
        if !std::mem::replace(&mut self.1, true) {
            self.0.restart();
        }
    }
}

fn story_with_restart(expect_outage: bool) -> Story {
    let town = Town::start(Faults::default());
    let setting = Setting { expect_outage, reconnect_seconds: 0.3, ..setting() };
    let setting = Arc::new(setting.checked().unwrap());
    let mut onlooker = Restarting(&town, false);
    live(&setting, &course(), &target(&town), &Stop::default(), &mut onlooker).unwrap()
}

#[test]
fn an_announced_restart_is_timed_and_what_nobody_announced_is_an_error() {
    let story = story_with_restart(true);
    is_clean(&story);
    assert!(!story.gaps.is_empty(), "no gap was seen");
    let lost: u64 = story.gaps.iter().map(|gap| gap.connections).sum();
    assert_eq!(lost, 40 + 4 + 2 + 2, "clients, brokers, probes, exporter and dashboard");
    assert!(story.gaps.iter().all(|gap| gap.to_ns > gap.from_ns), "{:?}", story.gaps);
    let story = story_with_restart(false);
    assert!(errors(&story).values().sum::<u64>() >= 40, "{:?}", errors(&story));
}

#[test]
fn hostile_peers_send_what_they_say_and_good_traffic_is_clean_beside_them() {
    let town = Town::start(Faults::default());
    let hostile = Mode::ALL.into_iter().map(|mode| (mode, 2)).collect();
    let setting = Setting { hostile, churn_per_second: 0.0, ..setting() };
    let first_hostile = 4 + 2 + 2 + 40; // after brokers, probes, admin tools and clients
    let story = story_of(&town, setting);
    is_clean(&story);
    let state = town.state.lock().unwrap();
    let said = &state.received[first_hostile..];
    let count = |is: &dyn Fn(&[u8]) -> bool| said.iter().filter(|bytes| is(bytes)).count();
    let query = b"\0\0\0\x9a\0\0\0\x96{\"code\":105";
    let begins = |bytes: &[u8]| bytes.starts_with(query);
    // Half a frame: the length says more than there is.
    let half = |bytes: &[u8]| {
        bytes.len() > 8 && bytes.len() < 100 && bytes[8..].starts_with(b"{\"code\":105")
    };
    // One that was cut off may just be back and have said nothing yet.
    assert!((2..=6).contains(&count(&|bytes| bytes.is_empty())), "connect only");
    assert_eq!(count(&half), 2, "partial");
    assert!(count(&|bytes| bytes.starts_with(&[0x7f, 0xff, 0xff, 0xf0])) >= 2, "over-long");
    assert_eq!(count(&|bytes| begins(bytes) && bytes.len() == 158), 2, "never close");
    assert_eq!(count(&|bytes| begins(bytes) && bytes.len() > 158 * 60), 2, "slow reader");
    let counts = &story.run.totals.counts;
    assert!(counts["cut off: over-long"] >= 2 && counts["cut off: garbage"] >= 2, "{counts:?}");
}

#[test]
fn the_same_seed_asks_the_same_in_the_same_order() {
    let bytes_of = |seed| {
        let town = Town::start(Faults::default());
        let mut setting = setting();
        setting.seed = seed;
        story_of(&town, setting);
        let clients = 4 + 2 + 2..4 + 2 + 2 + 40;
        town.state.lock().unwrap().received[clients].to_vec()
    };
    let (first, second, other) = (bytes_of(1), bytes_of(1), bytes_of(2));
    for client in 0..40 {
        let common = first[client].len().min(second[client].len());
        assert!(common > 500, "only {common} bytes to compare");
        assert_eq!(first[client][..common], second[client][..common]);
    }
    assert_ne!(first, other);
}

#[test]
fn connections_that_do_not_come_back_are_said_to_be_missing() {
    let mut story = story_with_restart(true);
    let gap = Gap { from_ns: 1_000_000_000, to_ns: 3_000_000_000, connections: 9, missing: 4 };
    story.gaps = vec![gap, Gap { missing: 0, ..gap }];
    let words = story.words();
    assert!(words.contains("4 were still missing at the end, 2.00 s later"), "{words}");
    assert!(words.contains("all were back after 2.00 s"), "{words}");
}

fn story_with_command(seconds: f64, at: f64, command: &str) -> Story {
    let course = Course { seconds, restart: Some((at, command.into())), ..course() };
    story_in(&Town::start(Faults::default()), setting(), &course)
}

#[test]
fn a_restart_that_is_not_due_in_the_run_is_not_made() {
    let begin = Instant::now();
    let mark = std::env::temp_dir().join(format!("loadgen-restart-{}", std::process::id()));
    story_with_command(0.3, 60.0, &format!("touch {}", mark.display()));
    assert!(begin.elapsed() < Duration::from_secs(30) && !mark.exists());
    story_with_command(0.3, 0.0, &format!("touch {}", mark.display()));
    std::fs::remove_file(mark).unwrap();
}

#[test]
fn a_restart_command_that_does_not_return_is_ended_soon_after_the_run() {
    let begin = Instant::now();
    let story = story_with_command(0.3, 0.0, "sleep 600; true");
    let failure = story.failed.unwrap().to_string();
    assert!(failure.contains("in the background"), "{failure}");
    assert!(story.run.totals.answers["hit"] > 0, "what was measured is kept");
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_run_that_is_stopped_reports_what_there_is() {
    let (town, stop) = (Town::start(Faults::default()), Stop::default());
    struct Stopping(Stop);
    impl Onlooker for Stopping {
        fn second(&mut self, _: &Progress<'_>) {
            self.0.ask();
        }
    }
    let course = Course { seconds: 600.0, ..course() };
    let mut onlooker = Stopping(stop.clone());
    let story = live(&Arc::new(setting()), &course, &target(&town), &stop, &mut onlooker).unwrap();
    assert!(story.run.interrupted && story.run.totals.seconds < 60.0);
    assert!(story.run.answers() > 10, "{:?}", story.run.totals.answers);
}

/// The server that `GUIDEPOST_BIN` names, ended with this, and its home.
struct Real {
    server: Child,
    home: PathBuf,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _already_gone = self.server.kill();
        let _status = self.server.wait();
        let _left_behind = std::fs::remove_dir_all(&self.home);
    }
}

/// `None` if no server is named, which only a developer may do.
fn real() -> Option<(Real, SocketAddr)> {
    let Some(program) = std::env::var_os("GUIDEPOST_BIN") else {
        let is_checked = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!is_checked, "GUIDEPOST_BIN names no server");
        eprintln!("not tested: GUIDEPOST_BIN names no server");
        return None;
    };
    let home = std::env::temp_dir().join(format!("loadgen-fleet-{}", std::process::id()));
    std::fs::create_dir_all(&home).unwrap();
    let mut server = Command::new(program)
        .args(["--listen-port", "0", "--bind-address", "127.0.0.1", "--shards", "1"])
        .envs([("HOME", &home), ("ROCKETMQ_HOME", &home)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let real = Real { server, home };
    let (send, address) = channel();
    // Read to the end, so that the server never blocks on a full pipe.
    std::thread::spawn(move || {
        let words = "The Name Server boot success. serializeType=JSON, address ";
        let addresses = lines.filter_map(|line| line.split_once(words)?.1.parse().ok());
        addresses.for_each(|address: SocketAddr| send.send(address).unwrap_or_default());
    });
    let address = address.recv_timeout(Duration::from_secs(20));
    Some((real, address.expect("it says where it serves")))
}

#[test]
fn class_s_in_a_hurry_is_clean_on_a_real_server_when_one_is_named() {
    let Some((_real, address)) = real() else { return };
    let mut setting = Setting::of(Class::S.numbers(), 20.0, 3).unwrap();
    (setting.clients, setting.client_connections, setting.zone_share) = (500, 500, 0.2);
    setting.rolling_restart_at = Some(0.2);
    setting.timeout_ms = 30_000;
    setting.hostile = Mode::ALL.into_iter().map(|mode| (mode, 3)).collect();
    let expect = Expect::Routes(Arc::new(setting.fleet.clone()));
    let target = Target { label: "real".into(), address, expect, process: None };
    let course = Course { seconds: 4.0, ..course() };
    let story = live(&Arc::new(setting), &course, &target, &Stop::default(), &mut Nobody).unwrap();
    is_clean(&story);
    assert!(times(&story, "freshness").count > 0 && times(&story, "response").count > 1_000);
}

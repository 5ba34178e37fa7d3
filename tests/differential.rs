//! Aim: guidepost answers as the Java NameServer 5.5.0 does, whatever comes.
//! Method: the same seeded random sequences go to both; after each step answers and all tables are
//! compared. Deliberate differences are a list (`differential/differences.rs`); any other is
//! shrunk to the fewest steps and printed as a scenario. `tests/interop/differential` starts both
//! servers; without them only the parts are tested here.

mod support;

#[path = "simulation/random.rs"]
mod random;

#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/differences.rs"]
mod differences;
#[path = "differential/generate.rs"]
mod generate;
#[path = "differential/ledger.rs"]
mod ledger;
#[path = "differential/run.rs"]
mod run;
#[path = "differential/shrink.rs"]
mod shrink;
#[path = "differential/steps.rs"]
mod steps;
#[path = "differential/tables.rs"]
mod tables;

use std::collections::BTreeSet;
use std::time::Instant;

use compare::View;
use differences::{DIFFERENCES, Java, Plan, Repair};
use generate::sequence;
use ledger::Ledger;
use run::{Counts, Servers, Unexplained, configure, run};
use steps::{Body, Names, Register, Step};
use support::frame::{Answer, Request};
use support::registration::Registration;
use support::script::Action;
use support::server::resolve;
use tables::Tables;

/// Settings of a run: name, and what differs from the defaults.
type Configuration = (&'static str, &'static [(&'static str, &'static str)]);

/// All of them are set while both servers run.
const CONFIGURATIONS: [Configuration; 7] = [
    ("default", &[]),
    ("acting-master", &[("supportActingMaster", "true")]),
    ("delete-with-registration", &[("deleteTopicWithBrokerRegistration", "true")]),
    ("order-messages", &[("orderMessageEnable", "true")]),
    ("zone", &[("supportActingMaster", "true"), ("orderMessageEnable", "true")]),
    (
        "gates",
        &[
            ("enableTopicList", "false"),
            ("enableAllTopicList", "false"),
            ("returnOrderTopicConfigToBroker", "false"),
        ],
    ),
    ("wait-for-service", &[("needWaitForService", "true"), ("waitSecondsForService", "86400")]),
];
/// What they are set back to. Notices (905) stay off: the brokers' addresses are nobody's.
const DEFAULTS: [(&str, &str); 8] = [
    ("deleteTopicWithBrokerRegistration", "false"),
    ("enableAllTopicList", "true"),
    ("enableTopicList", "true"),
    ("needWaitForService", "false"),
    ("orderMessageEnable", "false"),
    ("returnOrderTopicConfigToBroker", "true"),
    ("supportActingMaster", "false"),
    ("waitSecondsForService", "45"),
];
/// Replays while shrinking.
const TRIES: usize = 200;
/// Reports after which no further sequence is begun.
const REPORTS_MAX: usize = 5;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str, default: usize) -> usize {
    variable(name).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// What `tests/interop/differential` asks for by the environment.
struct Wanted {
    servers: Servers,
    first_seed: usize,
    seeds: usize,
    length: usize,
    configuration: Option<String>,
}

impl Wanted {
    fn read() -> Option<Wanted> {
        let (ours, java) = (variable("DIFFERENTIAL_OURS")?, variable("DIFFERENTIAL_JAVA")?);
        Some(Wanted {
            servers: Servers { ours: resolve(&ours), java: resolve(&java) },
            first_seed: number("DIFFERENTIAL_FIRST_SEED", 1),
            seeds: number("DIFFERENTIAL_SEEDS", CONFIGURATIONS.len()),
            length: number("DIFFERENTIAL_STEPS", 60),
            configuration: variable("DIFFERENTIAL_CONFIGURATION"),
        })
    }
}

/// Runs sequences one after the other, each under names of its own.
struct Driver {
    servers: Servers,
    runs: usize,
    counts: Counts,
    reports: Vec<String>,
}

impl Driver {
    fn run(&mut self, steps: &[Step]) -> Result<(), Unexplained> {
        self.runs += 1;
        run(self.servers, &Names::new(self.runs), steps, &mut self.counts)
    }

    fn configure(&self, settings: &[(&str, &str)]) {
        for server in [self.servers.ours, self.servers.java] {
            configure(server, settings).unwrap_or_else(|why| panic!("{why}"));
        }
    }

    /// One sequence; a difference is shrunk and printed.
    fn sequence(&mut self, configuration: &Configuration, seed: u64, length: usize) {
        let steps = sequence(seed, length);
        let Err(Unexplained { what: first, .. }) = self.run(&steps) else { return };
        let short = shrink::shrink(&steps, TRIES, |steps| self.run(steps).is_err());
        let (again, names) = (self.run(&short), Names::new(self.runs));
        let what = match again {
            Err(Unexplained { step, what }) => format!("after step {}: {what}", step + 1),
            Ok(()) => format!("not every time; at first: {first}"),
        };
        let (name, settings) = configuration;
        let settings = settings.iter().map(|(name, value)| format!("server {name}={value}\n"));
        let lines = short.iter().map(|step| step.sent(&names).text + "\n");
        let text: String =
            settings.chain([format!("scenario seed {seed}\n")]).chain(lines).collect();
        let of = format!("{} steps of {}", short.len(), steps.len());
        let again = format!("--configuration {name} --first {seed} --seeds 1 --steps {length}");
        let report = format!(
            "--- {name}, seed {seed}: {of}\n{text}{what}\n\
             again: tests/interop/differential {again}\n"
        );
        println!("{report}");
        self.reports.push(report);
    }

    /// What was sent, and how often which difference applied.
    fn summary(&self) -> String {
        let mut text = String::new();
        for ((request, answer), times) in &self.counts.answers {
            text += &format!("{request}->{answer}: {times}  ");
        }
        text += "\n";
        for (name, what) in DIFFERENCES {
            let times = self.counts.differences.get(name).copied().unwrap_or_default();
            text += &format!("{times:7} x {name}: Java {what}\n");
        }
        text
    }
}

/// Run by `tests/interop/differential`, which names both servers.
#[test]
fn both_servers_answer_alike() {
    let Some(wanted) = Wanted::read() else {
        eprintln!("not run: tests/interop/differential starts the two servers that this needs");
        return;
    };
    let (counts, reports) = (Counts::default(), Vec::new());
    let mut driver = Driver { servers: wanted.servers, runs: 0, counts, reports };
    let only = wanted.configuration.as_deref();
    let is_chosen = |(name, _): &&Configuration| only.is_none_or(|only| only == *name);
    let chosen: Vec<&Configuration> = CONFIGURATIONS.iter().filter(is_chosen).collect();
    assert!(!chosen.is_empty(), "no configuration is called {only:?}");
    let mut total = 0;
    for (at, configuration) in chosen.iter().enumerate() {
        driver.configure(&[&DEFAULTS[..], configuration.1].concat());
        let (started, before) = (Instant::now(), total);
        let all = wanted.first_seed..wanted.first_seed + wanted.seeds;
        for seed in all.skip(at).step_by(chosen.len()) {
            if driver.reports.len() < REPORTS_MAX {
                let seed = u64::try_from(seed).expect("64 bits hold a number");
                driver.sequence(configuration, seed, wanted.length);
                total += 1;
            }
        }
        let name = configuration.0;
        println!("{name}: {} sequences in {:.1?}", total - before, started.elapsed());
    }
    driver.configure(&DEFAULTS);
    print!("{}", driver.summary());
    let (length, failed) = (wanted.length, driver.reports.len());
    println!("{total} sequences of {length} steps, {failed} unexplained differences");
    assert!(failed == 0, "{failed} sequences differ, see above");
}

#[test]
fn a_sequence_depends_on_nothing_but_its_seed() {
    for seed in 0..20 {
        assert_eq!(format!("{:?}", sequence(seed, 60)), format!("{:?}", sequence(seed, 60)));
    }
    assert_ne!(format!("{:?}", sequence(1, 60)), format!("{:?}", sequence(2, 60)));
}

#[test]
fn sequences_hold_every_request_in_both_headers_and_every_body() {
    let mut found: BTreeSet<(i32, bool)> = BTreeSet::new();
    let mut bodies: BTreeSet<String> = BTreeSet::new();
    for seed in 0..200 {
        for step in sequence(seed, 60) {
            // Reading the line again fails on what is no scenario.
            let sent = step.sent(&Names::new(7));
            if let Action::Ask { request, .. } = sent.action {
                found.insert((request.code, request.binary));
            }
            bodies.extend(sent.register.map(|register| format!("{:?}", register.body)));
        }
    }
    for code in [
        100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 322,
        327, 901, 904,
    ] {
        assert!(found.contains(&(code, false)), "code {code} in JSON");
        assert!(found.contains(&(code, true)), "code {code} in binary");
    }
    assert_eq!(bodies.len(), 10, "{bodies:?}");
}

/// An answer as a server sends it.
fn answer(header: &str, body: &str) -> Answer {
    let frame = support::frame::frame(0, header.as_bytes(), body.as_bytes());
    Answer::decode(&frame[4..]).expect("a frame")
}

fn differs(request: &Request, ours: (&str, &str), java: (&str, &str)) -> bool {
    let (names, tables, ledger) = (Names::new(1), Tables::default(), Ledger::default());
    let view = View {
        names: &names,
        tables: &tables,
        only_java: &ledger.only_java,
        only_ours: &ledger.only_ours,
    };
    compare::difference(request, &answer(ours.0, ours.1), &answer(java.0, java.1), &view).is_some()
}

#[test]
fn a_difference_of_headers_is_found() {
    let request = Request::new(100);
    let plain = r#"{"code":0,"flag":1,"opaque":7}"#;
    assert!(!differs(&request, (plain, ""), (plain, "")));
    assert!(!differs(&request, (plain, ""), (&plain.replace('7', "12"), "")));
    for other in [
        r#"{"code":1,"flag":1,"opaque":7}"#,
        r#"{"code":0,"extFields":{},"flag":1,"opaque":7}"#,
        r#"{"code":0,"flag":1,"opaque":7,"remark":"x"}"#,
        r#"{"code":0,"flag":1,"opaque":7 }"#,
    ] {
        assert!(differs(&request, (plain, ""), (other, "")), "{other}");
    }
    let refused = |remark: &str| format!(r#"{{"code":1,"remark":"{remark}"}}"#);
    let exception = refused("java.lang.NullPointerException, org.apache.rocketmq.X(X.java:1)");
    assert!(!differs(&request, (&refused("no name"), ""), (&exception, "")));
    assert!(differs(&request, (r#"{"code":1}"#, ""), (&exception, "")));
    assert!(differs(&request, (&refused("no name"), ""), (&refused("disable"), "")));
}

#[test]
fn a_difference_of_bodies_is_found() {
    let header = r#"{"code":0}"#;
    let differs = |request: &Request, ours: &str, java: &str| {
        differs(request, (header, ours), (header, java))
    };
    let (legacy, standard) = (Request::new(105).version(400), Request::new(105).version(401));
    let queues = r#"{"queueDatas":[{"brokerName":"a","perm":6},{"brokerName":"b","perm":4}]}"#;
    let swapped = r#"{"queueDatas":[{"brokerName":"b","perm":4},{"brokerName":"a","perm":6}]}"#;
    assert!(!differs(&legacy, queues, swapped), "arbitrary order");
    assert!(differs(&legacy, queues, &queues.replace('6', "7")));
    assert!(differs(&legacy, queues, ""));
    assert!(differs(&legacy, queues, &queues.replace(",\"", ", \"")), "blanks");
    assert!(differs(&legacy, r#"{"a":{0:"x"}}"#, r#"{"a":{"0":"x"}}"#), "bare keys");
    assert!(!differs(&legacy, r#"{"a":{0:"x",1:"y"}}"#, r#"{"a":{1:"y",0:"x"}}"#));
    assert!(differs(&standard, r#"{"a":{"0":"x","1":"y"}}"#, r#"{"a":{"1":"y","0":"x"}}"#));
    assert!(differs(&legacy, r#"{"a":"\u000b"}"#, r#"{"a":"\u000B"}"#), "escapes");
    let near = standard.clone().ext("__ZONE_MODE", "true").ext("__ZONE_NAME", "z");
    assert!(!differs(&near, r#"{"a":{"0":"x","1":"y"}}"#, r#"{"a":{1:"y",0:"x"}}"#));
    assert!(differs(&near, r#"{"a":{0:"x"}}"#, r#"{"a":{0:"x"}}"#), "a dialect nobody asked for");
    let mapped = r#"{"queueDatas":[],"topicQueueMappingByBroker":{"a":{}}}"#;
    assert!(!differs(&near, r#"{"queueDatas":[]}"#, mapped), "a mapping of a broker filtered out");
    assert!(differs(&standard, r#"{"queueDatas":[]}"#, mapped), "a mapping nobody dropped");
}

#[test]
fn shrinking_leaves_what_is_needed_in_order() {
    let steps: Vec<usize> = (0..60).collect();
    let mut runs = 0;
    let short = shrink::shrink(&steps, 500, |steps| {
        runs += 1;
        steps.contains(&3) && steps.contains(&17) && steps.contains(&58)
    });
    assert_eq!(short, [3, 17, 58]);
    assert!(runs < 100, "{runs}");
    assert_eq!(shrink::shrink(&steps, 0, |_| true), steps, "no tries, nothing shrunk");
}

/// The plan for the first registration of a broker with so many topics.
fn plan_of_first(topics: &[&str]) -> Plan {
    let it = Registration::new("g", "10.0.0.1:1", 0, "c", topics);
    let request = it.request();
    let conn = "b0".to_owned();
    let register = Register { conn, version: 513, binary: false, it, body: Body::Plain };
    differences::for_registration(&register, &request, &Tables::default(), &Ledger::default())
}

#[test]
fn the_list_applies_where_it_says_and_nowhere_else() {
    let plain = plan_of_first(&["t", "u"]);
    assert!(plain.names.is_empty() && plain.repairs.is_empty(), "{plain:?}");
    let increment = plan_of_first(&["t"]);
    assert_eq!(increment.names, ["a refused increment leaves no trace"]);
    assert!(matches!(increment.java, Java::Same), "both refuse it");
    assert!(matches!(increment.repairs.as_slice(), [Repair::Unregister { .. }]), "{increment:?}");
    let names: BTreeSet<&str> = DIFFERENCES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), DIFFERENCES.len(), "each difference has a name of its own");
}

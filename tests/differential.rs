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

use std::time::Instant;

use differences::DIFFERENCES;
use generate::sequence;
use run::{Seen, Servers, Unexplained, configure, run};
use steps::{Names, Step};
use support::server::resolve;

/// Settings of a run: name, and what differs from the defaults.
const CONFIGURATIONS: [(&str, &[(&str, &str)]); 7] = [
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
    (
        "wait-for-service",
        &[("needWaitForService", "true"), ("waitSecondsForService", "86400")],
    ),
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

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &str, default: usize) -> usize {
    variable(name).map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// Runs sequences one after the other and counts the names that were used up.
struct Driver {
    servers: Servers,
    runs: usize,
    seen: Seen,
}

impl Driver {
    fn run(&mut self, steps: &[Step]) -> Result<(), Unexplained> {
        self.runs += 1;
        run(self.servers, &Names::new(self.runs), steps, &mut self.seen)
    }

    /// The report of a sequence that fails.
    fn report(&mut self, configuration: &str, seed: u64, steps: &[Step], first: &str) -> String {
        let short = shrink::shrink(steps, TRIES, |steps| self.run(steps).is_err());
        let (what, names) = (self.run(&short), Names::new(self.runs));
        let what = match what {
            Err(Unexplained { step, what }) => format!("after step {}: {what}", step + 1),
            Ok(()) => format!("not every time; at first: {first}"),
        };
        let lines = short.iter().map(|step| step.sent(&names).text + "\n");
        let settings = CONFIGURATIONS.iter().find(|(name, _)| *name == configuration);
        let settings = settings.map_or(&[][..], |(_, settings)| settings).iter();
        let settings: String = settings.map(|(n, v)| format!("server {n}={v}\n")).collect();
        format!(
            "--- {configuration}, seed {seed}: {} steps of {}\n{settings}scenario seed {seed}\n{}{what}\n",
            short.len(),
            steps.len(),
            lines.collect::<String>()
        )
    }
}

/// Run by `tests/interop/differential`, which names both servers.
#[test]
fn both_servers_answer_alike() {
    let (Some(ours), Some(java)) = (variable("DIFFERENTIAL_OURS"), variable("DIFFERENTIAL_JAVA"))
    else {
        eprintln!("not run: tests/interop/differential starts the two servers that this needs");
        return;
    };
    let servers = Servers { ours: resolve(&ours), java: resolve(&java) };
    let first_run = number("DIFFERENTIAL_FIRST_RUN", 0);
    let mut driver = Driver { servers, runs: first_run, seen: Seen::new() };
    let (seeds, length) = (number("DIFFERENTIAL_SEEDS", 7), number("DIFFERENTIAL_STEPS", 60));
    let first_seed = number("DIFFERENTIAL_FIRST_SEED", 1);
    let only = variable("DIFFERENTIAL_CONFIGURATION");
    let chosen = CONFIGURATIONS.iter().filter(|(name, _)| only.as_deref().is_none_or(|o| o == *name));
    let chosen: Vec<_> = chosen.collect();
    assert!(!chosen.is_empty(), "no configuration is called {only:?}");
    let mut reports = Vec::new();
    let mut count = 0;
    for (at, (name, settings)) in chosen.iter().enumerate() {
        let settings = [&DEFAULTS[..], settings].concat();
        for server in [servers.ours, servers.java] {
            configure(server, &settings).unwrap_or_else(|why| panic!("{why}"));
        }
        let started = Instant::now();
        let mine = (first_seed..first_seed + seeds).skip(at).step_by(chosen.len());
        let before = count;
        for seed in mine {
            let seed = u64::try_from(seed).expect("64 bits hold a number");
            let steps = sequence(seed, length);
            count += 1;
            if let Err(Unexplained { what, .. }) = driver.run(&steps) {
                let report = driver.report(name, seed, &steps, &what);
                println!("{report}");
                reports.push(report);
            }
            if reports.len() >= 5 {
                break;
            }
        }
        println!("{name}: {} sequences in {:.1?}", count - before, started.elapsed());
    }
    for server in [servers.ours, servers.java] {
        configure(server, &DEFAULTS).unwrap_or_else(|why| panic!("{why}"));
    }
    for (name, what) in DIFFERENCES {
        let times = driver.seen.get(name).copied().unwrap_or_default();
        println!("{times:7} x {name}: Java {what}");
    }
    println!("{count} sequences of {length} steps, {} unexplained differences", reports.len());
    assert!(reports.is_empty(), "{} sequences differ", reports.len());
}

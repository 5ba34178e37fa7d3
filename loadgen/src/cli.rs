//! The command line. What cannot work is refused here, with what to write instead.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::carry::{SECONDS_BETWEEN_POLLS, TOPICS_A_CLIENT};
use crate::cli_fleet::{self, FindMaxArgs, LifeArgs};
use crate::cli_load::LoadArgs;
use crate::failure::Failure;
use crate::fleet::{BROKERS_MAX, Fleet};
use crate::floor::{ANSWER_BYTES_MAX, ANSWER_BYTES_MIN};
use crate::output::OutputArgs;
use crate::pace::Arrivals;
use crate::run::Load;
use crate::scale::ScaleArgs;
use crate::shape::Shape;
use crate::sources::{Ending, Sources};
use crate::versus::VersusArgs;

/// The examples of `--help`; a test parses each of them.
pub const EXAMPLES: &str = "\
Examples, with a NameServer on port 9876 of this machine:

  loadgen check 127.0.0.1:9876 --clients 1000
      Does it carry 1000 clients? Yes or no, with figures, in 20 seconds; checks that answers
      are right, and leaves nothing behind on a server that is in use.

  loadgen query 127.0.0.1:9876 --rate 2000 --seconds 10 --html report.html
      Registers 4 brokers with 1000 topics and asks for 2000 routes a second, whatever the
      server does; times count from when a query was meant to be sent. Writes a page with plots.

  loadgen fleet 127.0.0.1:9876 --class s --time-factor 10 --seconds 30
      10 brokers, 1000 topics, 5000 clients of several makes, exporter, dashboard, churn, all
      ten times as fast as real ones; every answer is checked; ends with PASS or FAIL.

`loadgen COMMAND --help` has the rest: `find-max` searches the highest rate that meets an objective,
`compare` tells a query's cost beside that of an echo floor, `report` sets records side by side.

Exit codes: 0 measured, 1 could not run, 2 wrong arguments, 3 measured but not valid,
4 the answer is no: a demand of --assert failed, or `check` found the server wanting.";

/// Drives a RocketMQ NameServer over its wire protocol and says what a query costs it.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Let a whole fleet live on the server, with brokers, clients, restarts; PASS or FAIL
    #[command(after_help = cli_fleet::FLEET_EXAMPLES)]
    Fleet(Box<LifeArgs>),
    /// Find the highest rate that meets an objective
    #[command(after_help = cli_fleet::FIND_MAX_EXAMPLES)]
    FindMax(Box<FindMaxArgs>),
    /// Can this NameServer carry my fleet? Yes or no, with figures, in less than a minute
    Check(CheckArgs),
    /// Register a fleet of brokers and topics
    Fill(FillArgs),
    /// Ask for routes; measure latency and the server's CPU per query
    Query(QueryArgs),
    /// Measure server and echo floor in turns; print the ratio of their CPU per query
    Compare(CompareArgs),
    /// Start several servers, measure them and the floor in turns; print one table
    Versus(VersusArgs),
    /// Start a server and see how it fares as the fleet grows; print figures and targets
    Scale(ScaleArgs),
    /// Measure the echo floor alone
    Floor(FloorArgs),
    /// Make a page of records that --json wrote, several side by side
    Report(ReportArgs),
    /// Be the echo floor (the other commands start this themselves)
    FloorServer(FloorServerArgs),
}

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub target: TargetArgs,
    /// Clients, each with a connection; a client asks for three topics every 30 s
    #[arg(long, default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub clients: u32,
    /// Topics
    #[arg(long, default_value_t = 1000)]
    pub topics: u32,
    /// Master brokers; each topic lives on four of them
    #[arg(long, default_value_t = 4)]
    pub brokers: u32,
    /// Measured time
    #[arg(long, default_value = "15", value_parser = seconds)]
    pub seconds: f64,
    /// The longest response time at p99, in ms
    #[arg(long, default_value = "100", value_name = "MS", value_parser = milliseconds)]
    pub within: f64,
    /// Generator threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// CPUs of the generator, such as 1 or 2,3
    #[arg(long, value_delimiter = ',')]
    pub pin: Vec<usize>,
}

/// `fill`.
#[derive(Debug, Args)]
pub struct FillArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub target: TargetArgs,
    /// Master brokers to register
    #[arg(long, default_value_t = 4)]
    pub brokers: u32,
    /// Topics to register
    #[arg(long, default_value_t = 1000)]
    pub topics: u32,
    /// Brokers of each topic [default: 4, or all if there are fewer]
    #[arg(long)]
    pub route_width: Option<u32>,
    /// Name of the cluster
    #[arg(long, default_value = "bench")]
    pub cluster: String,
    /// Stay and keep the brokers alive, until Ctrl-C or for --seconds
    #[arg(long)]
    pub hold: bool,
    /// How long to hold, at most 3600
    #[arg(long, default_value = "3600", value_parser = seconds)]
    pub seconds: f64,
}

/// Whom to ask, about what, how, and where results go.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub target: TargetArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub fleet: FleetArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub load: LoadArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub output: OutputArgs,
}

/// `query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub measure: MeasureArgs,
    /// Make so many runs; median and range of each figure are printed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    /// Do not measure what this generator makes of a server that does nothing
    #[arg(long)]
    pub no_ceiling: bool,
}

/// `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub measure: MeasureArgs,
    /// How often server and floor are measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Load on the server before the first round, in seconds; give a JVM 120
    #[arg(long, default_value = "1", value_parser = zero_or_seconds)]
    pub prewarm: f64,
    /// CPU of the floor server [default: the server's if it has one only, else one not in --pin]
    #[arg(long)]
    pub floor_cpu: Option<usize>,
}

/// `floor`.
#[derive(Debug, Args)]
pub struct FloorArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub load: LoadArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub output: OutputArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub bytes: BytesArgs,
    /// CPU of the floor server [default: one not in --pin]
    #[arg(long)]
    pub floor_cpu: Option<usize>,
}

/// `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Records, one for each column
    #[arg(required = true, num_args = 1..=6, value_name = "RECORD.json")]
    pub records: Vec<PathBuf>,
    /// The page to write
    #[arg(long, value_name = "FILE")]
    pub html: PathBuf,
}

/// `floor-server`.
#[derive(Debug, Args)]
pub struct FloorServerArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub bytes: BytesArgs,
    /// Port on 127.0.0.1; 0 takes a free one and prints it
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Its CPU
    #[arg(long)]
    pub pin: Option<usize>,
    /// Ends after so long, at most 86400
    #[arg(long, default_value_t = 86_400)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Ends when standard input is closed
    #[arg(long)]
    pub ends_with_stdin: bool,
}

/// How long the floor's answers are.
#[derive(Debug, Args)]
pub struct BytesArgs {
    /// Bytes of the answer to a query for a known topic
    #[arg(long, default_value_t = 980, value_parser = answer_bytes)]
    pub reply_bytes: usize,
    /// Bytes of the answer to a query for an unknown topic
    #[arg(long, default_value_t = 320, value_parser = answer_bytes)]
    pub miss_bytes: usize,
}

/// Which server.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// Where the NameServer listens
    #[arg(value_name = "HOST:PORT")]
    pub server: String,
    /// Allow a server on another machine
    #[arg(long)]
    pub allow_remote: bool,
}

/// Which fleet is asked about.
#[derive(Debug, Args)]
pub struct FleetArgs {
    /// Master brokers to register before the run, and to keep alive during it
    #[arg(long, default_value_t = 4)]
    pub fill_brokers: u32,
    /// Topics to register
    #[arg(long, default_value_t = 1000)]
    pub fill_topics: u32,
    /// Brokers of each topic [default: 4, or all if there are fewer]
    #[arg(long)]
    pub route_width: Option<u32>,
    /// Name of the cluster
    #[arg(long, default_value = "bench")]
    pub cluster: String,
    /// Register nothing: another `loadgen fill --hold` did, with the same numbers
    #[arg(long)]
    pub no_fill: bool,
    /// The server's process id [default: whoever listens on the port]
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
}

pub(crate) fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| "not a number".to_owned())
}

pub(crate) fn within(text: &str, from: f64, to: f64, unit: &str) -> Result<f64, String> {
    let instead = format!("give {from} to {to}{unit}");
    let value = number(text).map_err(|e| format!("{e}; {instead}"))?;
    if (from..=to).contains(&value) { Ok(value) } else { Err(instead) }
}

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.1, 3600.0, " seconds")
}

pub(crate) fn zero_or_seconds(text: &str) -> Result<f64, String> {
    within(text, 0.0, 3600.0, " seconds")
}

fn milliseconds(text: &str) -> Result<f64, String> {
    within(text, 0.01, 60_000.0, " ms")
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    within(text, 0.0, 1.0, ", such as 0.1 for 10 %")
}

pub(crate) fn rate(text: &str) -> Result<f64, String> {
    within(text, 0.1, 1e8, " queries a second")
}

fn answer_bytes(text: &str) -> Result<usize, String> {
    let instead = format!("give {ANSWER_BYTES_MIN} to {ANSWER_BYTES_MAX}");
    let bytes = text.parse().map_err(|e| format!("{e}; {instead}"))?;
    let range = ANSWER_BYTES_MIN..=ANSWER_BYTES_MAX;
    if range.contains(&bytes) { Ok(bytes) } else { Err(instead) }
}

const ROUTE_WIDTH_USUAL: u32 = 4;

fn fleet(brokers: u32, topics: u32, width: Option<u32>, cluster: &str) -> Result<Fleet, Failure> {
    let route_width = width.unwrap_or(brokers.min(ROUTE_WIDTH_USUAL));
    Fleet { brokers, topics, route_width, cluster: cluster.to_owned() }.checked()
}

impl CheckArgs {
    /// The fleet that is registered for the check.
    ///
    /// # Errors
    /// [`Failure::Usage`] for numbers that do not go together.
    pub fn fleet(&self) -> Result<Fleet, Failure> {
        let cluster = format!("loadgen-check-{}", std::process::id());
        fleet(self.brokers, self.topics, None, &cluster)
    }

    /// The load of the clients on this server.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there are too few source addresses for so many.
    pub fn load(&self, server: SocketAddr) -> Result<Load, Failure> {
        Ok(Load {
            connections: self.clients,
            depth: 4,
            seconds: self.seconds,
            warmup_seconds: 2.0,
            cooldown_seconds: 0.0,
            topics: self.topics,
            misses: 0.05,
            seed: 1,
            rate: Some(f64::from(self.clients) * TOPICS_A_CLIENT / SECONDS_BETWEEN_POLLS),
            arrivals: Arrivals::Poisson,
            shape: Shape::Hold,
            sources: Sources::plan(server, self.clients.into(), None, None)?,
            ending: Ending::Fin,
            connect_rate: None,
            threads: self.threads.min(self.clients),
            timeout_ms: 3000,
            lateness_bound_us: crate::measure::whole(self.within * 1e3),
            pin: self.pin.clone(),
            at_once: false,
        })
    }
}

impl FillArgs {
    /// The fleet to register.
    ///
    /// # Errors
    /// [`Failure::Usage`] for numbers that do not go together.
    pub fn fleet(&self) -> Result<Fleet, Failure> {
        fleet(self.brokers, self.topics, self.route_width, &self.cluster)
    }
}

impl FleetArgs {
    /// The fleet that is asked about.
    ///
    /// # Errors
    /// [`Failure::Usage`] for numbers that do not go together.
    pub fn fleet(&self) -> Result<Fleet, Failure> {
        fleet(self.fill_brokers, self.fill_topics, self.route_width, &self.cluster)
    }
}

const _: () = assert!(BROKERS_MAX < u32::MAX, "route arithmetic adds two broker numbers");

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn server() -> SocketAddr {
        "127.0.0.1:9876".parse().unwrap()
    }

    fn refusal(arguments: &str) -> String {
        Cli::try_parse_from(arguments.split(' ')).unwrap_err().to_string()
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn each_example_of_the_help_is_accepted() {
        let examples: Vec<&str> =
            EXAMPLES.lines().filter_map(|line| line.strip_prefix("  loadgen ")).collect();
        assert_eq!(examples.len(), 3);
        for example in examples {
            let arguments = std::iter::once("loadgen").chain(example.split(' '));
            let parsed = Cli::try_parse_from(arguments).map(|cli| cli.command);
            match parsed.unwrap_or_else(|e| panic!("{example}: {e}")) {
                Command::Query(query) => {
                    let fleet = query.measure.fleet.fleet().unwrap();
                    query.measure.load.load(server(), Some(fleet.topics), None).unwrap();
                }
                Command::Check(check) => {
                    check.fleet().unwrap();
                    assert_eq!(check.load(server()).unwrap().rate, Some(100.0));
                }
                Command::Fleet(fleet) => drop(fleet.setting().unwrap()),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_check_with_more_clients_than_ports_spreads_them_over_addresses() {
        let cli = Cli::parse_from("loadgen check h:1 --clients 100000".split(' '));
        let Command::Check(check) = cli.command else { panic!() };
        assert!(check.load(server()).unwrap().sources.count(100_000) > 1);
    }

    #[test]
    fn a_wrong_number_is_answered_with_the_right_range() {
        assert!(refusal("loadgen query h:1 --seconds 3601").contains("give 0.1 to 3600 seconds"));
        assert!(refusal("loadgen query h:1 --seconds ten").contains("give 0.1 to 3600 seconds"));
        assert!(refusal("loadgen query h:1 --misses 10").contains("give 0 to 1, such as 0.1"));
        assert!(refusal("loadgen query h:1 --depth 0").contains("1..=1024"));
        assert!(refusal("loadgen floor --reply-bytes 5").contains("give 48 to"));
    }
}

//! The arguments of `fleet` and `find-max`.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;

use crate::cli::{self, MeasureArgs, TargetArgs};
use crate::cli_load::SourceArgs;
use crate::failure::{Failure, usage};
use crate::life::class::{Class, Disconnect, Setting};
use crate::life::hostile::Counted;
use crate::life::stage::Course;
use crate::life::wording::Wordings;
use crate::output::OutputArgs;
use crate::preflight;
use crate::search::Search;
use crate::shape::Shape;

/// Topics of the wide variant: each lives on every broker.
const WIDE_TOPICS: u32 = 10_000;

/// For the help of `fleet`; a test parses each line.
pub const FLEET_EXAMPLES: &str = "\
Examples:

  loadgen fleet 127.0.0.1:9876 --class s --time-factor 10 --seconds 30
      10 brokers, 1000 topics, 5000 clients of several makes, an exporter, a dashboard and silent
      connections, all ten times as fast as real ones. Every answer is checked against what was
      registered. PASS or FAIL (exit code 4) by the objectives of the class.

  loadgen fleet 127.0.0.1:9876 --class m --rolling-restart 10 --disconnect 0.3@30
      Brokers restart one by one; later three of ten clients lose their connections at once.

  loadgen fleet 127.0.0.1:9876 --class s --hostile partial=200 --hostile slow-reader=50
      The same objectives must hold beside connections that mean no good.

  loadgen fleet 127.0.0.1:9876 --class l --max-connections 18000 --source-prefix 127.88.0.0/16
      All polls of 300 000 clients on fewer connections; says which share of them that is.";

/// For the help of `find-max`; a test parses each line.
pub const FIND_MAX_EXAMPLES: &str = "\
Example (a shell wants the demands in quotes):

  loadgen find-max 127.0.0.1:9876 --objective p99.9<2ms,errors==0 --seconds 5
      Doubles the rate until the objective is missed, halves in between, and confirms the
      result by a longer run. Also says what this generator makes of a server that does nothing.";

/// `fleet`.
#[derive(Debug, Args)]
pub struct LifeArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub target: TargetArgs,
    /// Size of the fleet
    #[arg(long, value_enum, default_value = "s")]
    pub class: Class,
    /// Let time run so many times as fast: all periods are divided by it
    #[arg(long, default_value = "1", value_name = "N", value_parser = factor)]
    pub time_factor: f64,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub change: ChangeArgs,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub event: EventArgs,
    /// Measured time, at most 3600
    #[arg(long, default_value = "60", value_parser = cli::seconds)]
    pub seconds: f64,
    /// Time before it that is not measured
    #[arg(long, default_value = "5", value_parser = cli::zero_or_seconds)]
    pub warmup: f64,
    /// Time after it that is not measured
    #[arg(long, default_value = "1", value_parser = cli::zero_or_seconds)]
    pub cooldown: f64,
    /// Threads for clients; brokers have one of their own, and so have silent peers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// CPUs of the generator, such as 1 or 2,3
    #[arg(long, value_delimiter = ',')]
    pub pin: Vec<usize>,
    /// Let clients preempt whatever else runs on their CPUs, as root or with CAP_SYS_NICE
    #[arg(long)]
    pub at_once: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub from: SourceArgs,
    /// Open no more connections than this [default: what the limit of open files allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_connections: Option<u64>,
    /// How long an answer may take; longer is an error, recorded with the time waited
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout_ms: u64,
    /// The run is invalid when the generator was later than this at p99.9
    #[arg(long, default_value_t = 1000, value_name = "US")]
    pub lateness_bound_us: u64,
    /// Makes everything that is drawn
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Judge by --assert alone, and not by the objectives of the class
    #[arg(long)]
    pub no_objectives: bool,
    /// The server's process id [default: whoever listens on the port]
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub output: OutputArgs,
}

/// What is different from the class.
#[derive(Debug, Args)]
#[command(next_help_heading = "Instead of the numbers of the class")]
pub struct ChangeArgs {
    /// Simulate this share of the clients only
    #[arg(long, default_value = "1", value_parser = cli::share)]
    pub share: f64,
    /// 10 000 topics on every broker, instead of the class's topics
    #[arg(long)]
    pub wide: bool,
    /// Brokers
    #[arg(long)]
    pub brokers: Option<u32>,
    /// Topics
    #[arg(long)]
    pub topics: Option<u32>,
    /// Brokers of each topic
    #[arg(long)]
    pub route_width: Option<u32>,
    /// Clients
    #[arg(long)]
    pub clients: Option<u32>,
    /// Topics polled by each client
    #[arg(long)]
    pub topics_per_client: Option<u32>,
    /// Makes of clients and their shares, such as java5=0.6,java5-binary=0.1,java4.9=0.1,go=0.2
    #[arg(long)]
    pub clients_are: Option<Wordings>,
    /// Share of polls for topics nobody registered
    #[arg(long, default_value = "0.01", value_parser = cli::share)]
    pub misses: f64,
    /// Share of clients that ask for brokers of their zone only
    #[arg(long, default_value = "0", value_parser = cli::share)]
    pub zones: f64,
    /// Share of brokers that compress registrations
    #[arg(long, default_value = "0.2", value_parser = cli::share)]
    pub compressed: f64,
    /// Share of brokers that register in full every time, without asking first
    #[arg(long, default_value = "0.5", value_parser = cli::share)]
    pub forced: f64,
    /// Connections opened and closed without a word, a second [default: clients / 120, as 5.x
    /// clients do]
    #[arg(long, value_name = "N", value_parser = churn)]
    pub churn: Option<f64>,
    /// Connections that stay open without a word
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub idle: u32,
    /// Hostile connections beside the good ones: MODE=COUNT, may be repeated; modes: connect-only,
    /// partial, slow-reader, never-close, over-long, garbage
    #[arg(long, value_name = "MODE=N")]
    pub hostile: Vec<Counted>,
}

/// What happens, in seconds into the measured time.
#[derive(Debug, Args)]
#[command(next_help_heading = "What happens (seconds into the measured time)")]
pub struct EventArgs {
    /// Brokers restart one after the other from then on
    #[arg(long, value_name = "SECONDS", value_parser = cli::zero_or_seconds)]
    pub rolling_restart: Option<f64>,
    /// A share of the clients loses its connections at once and comes back: SHARE@SECONDS
    #[arg(long, value_name = "SHARE@SECONDS", value_parser = disconnect)]
    pub disconnect: Vec<Disconnect>,
    /// Run the restart command then
    #[arg(long, value_name = "SECONDS", requires = "restart_command")]
    #[arg(value_parser = cli::zero_or_seconds)]
    pub restart_at: Option<f64>,
    /// Restarts the server; run by sh
    #[arg(long, value_name = "COMMAND", requires = "restart_at")]
    pub restart_command: Option<String>,
    /// Somebody restarts the server: what fails while connections are lost is no error
    #[arg(long)]
    pub expect_outage: bool,
}

fn churn(text: &str) -> Result<f64, String> {
    cli::within(text, 0.0, 1e6, " connections a second")
}

fn factor(text: &str) -> Result<f64, String> {
    cli::within(text, 1.0, 1000.0, "")
}

fn disconnect(text: &str) -> Result<Disconnect, String> {
    let wrong = || "give SHARE@SECONDS, such as 0.3@10".to_owned();
    let (share, at) = text.split_once('@').ok_or_else(wrong)?;
    let share = cli::share(share)?;
    Ok(Disconnect { share, at_seconds: cli::zero_or_seconds(at)? })
}

impl LifeArgs {
    /// The fleet, fitted to what can be open here, with what was changed for that in words.
    ///
    /// # Errors
    /// [`Failure::Usage`] for numbers that do not go together.
    pub fn setting(&self) -> Result<(Arc<Setting>, Option<String>), Failure> {
        let mut numbers = self.class.numbers();
        let change = &self.change;
        numbers.brokers = change.brokers.unwrap_or(numbers.brokers);
        numbers.topics = change.topics.unwrap_or(numbers.topics);
        numbers.route_width = change.route_width.unwrap_or(numbers.route_width);
        if change.wide {
            (numbers.topics, numbers.route_width) = (WIDE_TOPICS, numbers.brokers);
        }
        numbers.topics_per_client = change.topics_per_client.unwrap_or(numbers.topics_per_client);
        let clients = f64::from(change.clients.unwrap_or(numbers.clients)) * change.share;
        numbers.clients = format!("{:.0}", clients.max(1.0)).parse().map_err(|_| {
            usage(format!("{clients} clients: give fewer with --clients or --share"))
        })?;
        let mut setting = Setting::of(numbers, self.time_factor, self.seed)?;
        setting.wordings = change.clients_are.clone().unwrap_or_default();
        setting.misses = change.misses;
        setting.zone_share = change.zones;
        setting.compressed_share = change.compressed;
        setting.forced_share = change.forced;
        setting.churn_per_second = change.churn.unwrap_or(setting.churn_per_second).max(0.0);
        setting.idle = change.idle;
        setting.hostile = change.hostile.iter().map(|Counted(mode, n)| (*mode, *n)).collect();
        setting.rolling_restart_at = self.event.rolling_restart;
        setting.disconnects = self.event.disconnect.clone();
        setting.expect_outage = self.event.expect_outage || self.event.restart_at.is_some();
        setting.timeout_ms = self.timeout_ms;
        let mut setting = setting.checked()?;
        let most = preflight::connections_max();
        let fitted = setting.fit(self.max_connections.unwrap_or(most).min(most))?;
        Ok((Arc::new(setting), fitted))
    }

    /// What comes after the measured time would never come.
    fn check_events(&self) -> Result<(), Failure> {
        let event = &self.event;
        let disconnects = event.disconnect.iter().map(|d| ("--disconnect", d.at_seconds));
        let restart = event.restart_at.map(|at| ("--restart-at", at));
        let rolling = event.rolling_restart.map(|at| ("--rolling-restart", at));
        for (flag, at) in disconnects.chain(restart).chain(rolling) {
            if at >= self.seconds {
                let end = self.seconds;
                return Err(usage(format!(
                    "{flag} at {at} s is after the measured time: give less than {end}, or more \
                     --seconds"
                )));
            }
        }
        Ok(())
    }

    /// How it is run.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there are too few source addresses, or something is to happen after
    /// the end.
    pub fn course(&self, server: SocketAddr, setting: &Setting) -> Result<Course, Failure> {
        let connections = u64::from(setting.client_connections) + setting.other_connections();
        let connections = u32::try_from(connections).unwrap_or(u32::MAX);
        let restart = self.event.restart_at.zip(self.event.restart_command.clone());
        self.check_events()?;
        Ok(Course {
            seconds: self.seconds,
            warmup_seconds: self.warmup,
            cooldown_seconds: self.cooldown,
            threads: self.threads,
            pin: self.pin.clone(),
            at_once: self.at_once,
            lateness_bound_us: self.lateness_bound_us,
            sources: self.from.sources(server, connections)?,
            ending: self.from.ending,
            connect_rate: self.from.connect_rate,
            restart,
        })
    }
}

/// `find-max`.
#[derive(Debug, Args)]
pub struct FindMaxArgs {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub measure: MeasureArgs,
    /// What a rate must meet, as for --assert
    #[arg(long, default_value = "p99.9<2ms,errors==0", value_name = "DEMANDS")]
    pub objective: crate::assertion::Assertions,
    /// The first rate tried [default: 1000, or --rate]
    #[arg(long, value_name = "RATE", value_parser = cli::rate)]
    pub from_rate: Option<f64>,
    /// No rate above this is tried
    #[arg(long, default_value = "5e6", value_name = "RATE", value_parser = cli::rate)]
    pub to_rate: f64,
    /// The result is right within this share of itself
    #[arg(long, default_value = "0.03", value_parser = precision)]
    pub precision: f64,
    /// The confirming run is so many times as long
    #[arg(long, default_value = "3", value_parser = factor)]
    pub confirm: f64,
}

fn precision(text: &str) -> Result<f64, String> {
    cli::within(text, 0.001, 0.5, ", such as 0.03 for 3 %")
}

impl FindMaxArgs {
    /// Refuses loads that have no rate to search for.
    ///
    /// # Errors
    /// [`Failure::Usage`] naming what to leave out.
    pub fn check(&self) -> Result<(), Failure> {
        let load = &self.measure.load;
        if load.closed {
            return Err(usage("find-max looks for a rate and a closed loop has none: no --closed"));
        }
        if matches!(load.ramp, Shape::Trace(_)) {
            return Err(usage("a trace has fixed rates, so there is none to find: another --ramp"));
        }
        Ok(())
    }

    /// Where to look.
    pub fn search(&self) -> Search {
        let from = self.from_rate.or(self.measure.load.rate).unwrap_or(1000.0);
        Search { from, to: self.to_rate, precision: self.precision }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parsed(arguments: &str) -> Command {
        Cli::try_parse_from(arguments.split(' ')).unwrap_or_else(|e| panic!("{e}")).command
    }

    #[test]
    fn each_example_is_accepted_and_each_class_has_objectives_that_can_be_judged() {
        let lines = FLEET_EXAMPLES.lines().chain(FIND_MAX_EXAMPLES.lines());
        let examples: Vec<&str> = lines
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|l| l.starts_with('l'))
            .collect();
        assert_eq!(examples.len(), 5);
        for example in examples {
            match parsed(example) {
                Command::Fleet(args) => {
                    let (setting, _) = args.setting().unwrap();
                    args.course("127.0.0.1:9876".parse().unwrap(), &setting).unwrap();
                    let objectives: Result<crate::assertion::Assertions, _> =
                        args.class.objectives().parse();
                    assert!(objectives.unwrap().0.len() > 2);
                }
                Command::FindMax(args) => assert!((args.search().precision - 0.03).abs() < 1e-9),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_is_changed_of_a_class_is_changed_and_nothing_else() {
        let changed = "loadgen fleet h:1 --class s --share 0.1 --brokers 5 --time-factor 2";
        let Command::Fleet(args) = parsed(changed) else { panic!() };
        let (setting, fitted) = args.setting().unwrap();
        assert_eq!((setting.clients, setting.fleet.brokers, fitted), (500, 5, None));
        assert!((setting.polls_per_second() - 200.0).abs() < 1e-6);
        let Command::Fleet(args) = parsed("loadgen fleet h:1 --class l --wide --share 0.01") else {
            panic!()
        };
        let (setting, _) = args.setting().unwrap();
        assert_eq!((setting.fleet.topics, setting.fleet.route_width), (10_000, 300));
    }

    #[test]
    fn nonsense_is_answered_with_what_to_write() {
        let refusal = |more: &str| {
            let arguments = format!("loadgen fleet h:1 {more}");
            Cli::try_parse_from(arguments.split(' ')).unwrap_err().to_string()
        };
        assert!(refusal("--disconnect 0.3").contains("0.3@10"));
        assert!(refusal("--hostile nice=3").contains("slow-reader"));
        assert!(refusal("--restart-at 3").contains("--restart-command"));
        assert!(refusal("--clients-are java=1").contains("java5-binary"));
        assert!(refusal("--churn inf").contains("give 0 to 1000000"));
        assert!(refusal("--restart-at=-1 --restart-command x").contains("give 0 to 3600"));
        assert!(refusal("--time-factor 0.5").contains("give 1 to 1000"));
        assert!(refusal("--source-prefix ::1/128").contains("127.0.0.0/8"));
    }

    #[test]
    fn what_would_happen_after_the_end_is_refused() {
        for event in ["--rolling-restart 8", "--disconnect 0.3@9", "--restart-at 8.5"] {
            let command =
                if event.starts_with("--restart-at") { " --restart-command true" } else { "" };
            let line = |seconds| format!("loadgen fleet h:1 --seconds {seconds} {event}{command}");
            let course = |seconds| {
                let line = line(seconds);
                let words = line.split(' ').map(str::to_owned);
                let Command::Fleet(args) = Cli::parse_from(words).command else { panic!() };
                let (setting, _) = args.setting().unwrap();
                args.course("127.0.0.1:9876".parse().unwrap(), &setting).map(drop)
            };
            let text = course(8).unwrap_err().to_string();
            assert!(text.contains("after the measured time"), "{text}");
            assert!(course(10).is_ok());
        }
    }

    #[test]
    fn find_max_refuses_what_has_no_rate_to_find() {
        let refused = |more: &str| {
            let Command::FindMax(args) = parsed(&format!("loadgen find-max h:1 {more}")) else {
                panic!()
            };
            args.check().unwrap_err().to_string()
        };
        assert!(refused("--closed").contains("--closed"));
        let file = std::env::temp_dir().join(format!("loadgen-find-{}", std::process::id()));
        std::fs::write(&file, "0 100\n").unwrap();
        assert!(refused(&format!("--ramp trace:{}", file.display())).contains("trace"));
        std::fs::remove_file(file).unwrap();
    }
}

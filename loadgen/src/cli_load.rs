//! The arguments that make a load, and what they come to.

use std::net::SocketAddr;

use clap::Args;

use crate::cli::{rate, seconds, share, zero_or_seconds};
use crate::failure::{Failure, usage};
use crate::fleet::TOPICS_MAX;
use crate::pace::Arrivals;
use crate::run::Load;
use crate::shape::Shape;
use crate::sources::{Ending, Prefix, Sources};

/// Where connections come from, and how they are made and ended.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// Addresses of this machine to connect from [default: one, or 127.0.0.0/8 when one has too few
    /// ports for a server of this machine]
    #[arg(long, value_name = "PREFIX")]
    pub source_prefix: Option<Prefix>,
    /// Connections from each address [default: nine tenths of its local ports]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub per_source: Option<u32>,
    /// Connections made per second, at most [default: as fast as they are accepted]
    #[arg(long, value_name = "N", value_parser = rate)]
    pub connect_rate: Option<f64>,
    /// How connections are ended: as clients do, or with a reset, which leaves no port at rest
    #[arg(long, value_enum, default_value = "fin")]
    pub ending: Ending,
}

impl SourceArgs {
    /// The plan for so many connections to this server.
    ///
    /// # Errors
    /// [`Failure::Usage`] when there are too few addresses.
    pub fn sources(&self, server: SocketAddr, connections: u32) -> Result<Sources, Failure> {
        Sources::plan(server, connections.into(), self.source_prefix, self.per_source)
    }
}

/// The load.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Open connections
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub connections: u32,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented where it is defined")]
    pub from: SourceArgs,
    /// Queries on the way on each connection
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: u32,
    /// Measured time, at most 3600
    #[arg(long, default_value = "10", value_parser = seconds)]
    pub seconds: f64,
    /// Time before it that is not measured, at most 3600
    #[arg(long, default_value = "2", value_parser = zero_or_seconds)]
    pub warmup: f64,
    /// Time after it with the same load that is not measured either, at most 3600
    #[arg(long, default_value = "0", value_parser = zero_or_seconds)]
    pub cooldown: f64,
    /// Share of queries for topics nobody registered, 0 to 1
    #[arg(long, default_value = "0", value_parser = share)]
    pub misses: f64,
    /// Topics asked about, of those registered [default: all]
    #[arg(long)]
    pub topics: Option<u32>,
    /// Makes the questions and the arrival times
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Open loop: queries per second over all connections, sent when they are due [default of
    /// query: 1000; of compare and floor: a closed loop]
    #[arg(long, value_parser = rate)]
    pub rate: Option<f64>,
    /// Closed loop: the next query is sent when an answer comes, so a slow server is asked less
    #[arg(long, conflicts_with_all = ["rate", "ramp"])]
    pub closed: bool,
    /// How the queries of an open loop are spread
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// How the rate of an open loop changes over the measured time: hold, linear:FROM, stairs:N,
    /// spike:FACTOR:AT:LENGTH, sine:LOW:PERIOD or trace:FILE
    #[arg(long, default_value = "hold", value_name = "SHAPE")]
    pub ramp: Shape,
    /// Generator threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: u32,
    /// How long an answer may take; longer is an error, recorded with the time waited
    #[arg(long, default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub timeout_ms: u64,
    /// An open-loop run is invalid when the generator was later than this at p99.9
    #[arg(long, default_value_t = 1000, value_name = "US")]
    pub lateness_bound_us: u64,
    /// CPUs of the generator, such as 1 or 2,3
    #[arg(long, value_delimiter = ',')]
    pub pin: Vec<usize>,
    /// Preempt whatever else runs on its CPUs, as root or with CAP_SYS_NICE
    #[arg(long)]
    pub at_once: bool,
}

impl LoadArgs {
    /// The load on a server whose fleet has so many topics; `None` when it is the floor, which has
    /// none. `default_rate`: what holds when neither a rate nor a closed loop was asked for; `None`
    /// is a closed loop.
    ///
    /// # Errors
    /// [`Failure::Usage`] for numbers that do not go together.
    pub fn load(
        &self,
        server: SocketAddr,
        fleet_topics: Option<u32>,
        default_rate: Option<f64>,
    ) -> Result<Load, Failure> {
        let most = fleet_topics.unwrap_or(TOPICS_MAX);
        let topics = self.topics.unwrap_or(most.min(fleet_topics.unwrap_or(1000)));
        if topics == 0 || topics > most {
            return Err(usage(format!(
                "--topics {topics}: there are {most} topics; give 1 to {most}, or more \
                 --fill-topics"
            )));
        }
        if self.threads > self.connections {
            return Err(usage(format!(
                "--threads {} for {} connections: give at most one thread a connection",
                self.threads, self.connections
            )));
        }
        let rate = self.rate(default_rate)?;
        if self.at_once && rate.is_none() {
            return Err(usage(
                "--at-once in a closed loop, which never sleeps, would leave nothing of its CPUs: \
                 leave it out, or give --rate",
            ));
        }
        Ok(Load {
            connections: self.connections,
            depth: self.depth as usize,
            seconds: self.seconds,
            warmup_seconds: self.warmup,
            cooldown_seconds: self.cooldown,
            sources: self.from.sources(server, self.connections)?,
            ending: self.from.ending,
            connect_rate: self.from.connect_rate,
            topics,
            misses: self.misses,
            seed: self.seed,
            rate,
            arrivals: self.arrivals,
            shape: self.ramp.clone(),
            threads: self.threads,
            timeout_ms: self.timeout_ms,
            lateness_bound_us: self.lateness_bound_us,
            pin: self.pin.clone(),
            at_once: self.at_once,
        })
    }
}

impl LoadArgs {
    /// Of the whole window; `None` is a closed loop.
    fn rate(&self, default_rate: Option<f64>) -> Result<Option<f64>, Failure> {
        let rate = self.rate.or(default_rate);
        match &self.ramp {
            _ if self.closed => Ok(None),
            Shape::Hold => Ok(rate),
            Shape::Trace(_) if self.rate.is_some() => {
                Err(usage("--ramp trace:FILE has rates of its own: leave out --rate"))
            }
            Shape::Trace(_) => match self.ramp.mean_rate(self.seconds) {
                mean if mean > 0.0 => Ok(Some(mean)),
                _ => Err(usage("the trace asks for nothing in the measured time: give --seconds")),
            },
            _ if rate.is_none() => Err(usage("--ramp is a shape of a rate: add --rate")),
            _ => Ok(rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn server() -> SocketAddr {
        "127.0.0.1:9876".parse().unwrap()
    }

    #[test]
    fn more_topics_than_there_are_is_refused() {
        let cli = Cli::parse_from("loadgen query h:1 --topics 1001".split(' '));
        let Command::Query(query) = cli.command else { panic!() };
        let text = query.measure.load.load(server(), Some(1000), None).unwrap_err().to_string();
        assert!(text.contains("give 1 to 1000"), "{text}");
    }

    #[test]
    fn a_ramp_and_going_at_once_need_a_rate_and_a_trace_has_its_own() {
        let file = std::env::temp_dir().join(format!("loadgen-trace-{}", std::process::id()));
        std::fs::write(&file, "0 100\n5 300\n").unwrap();
        let load = |more: &str| {
            let text = format!("loadgen query h:1 --seconds 10 {more}");
            let Command::Query(query) = Cli::parse_from(text.split(' ')).command else { panic!() };
            let load = query.measure.load.load(server(), Some(1000), None);
            load.map(|load| load.rate).map_err(|e| e.to_string())
        };
        let trace = format!("--ramp trace:{}", file.display());
        assert_eq!(load(&trace), Ok(Some(200.0)));
        assert!(load(&format!("{trace} --rate 5")).unwrap_err().contains("leave out --rate"));
        assert!(load("--at-once").unwrap_err().contains("give --rate"));
        assert!(load("--at-once --rate 7").is_ok());
        assert!(load("--ramp stairs:3").unwrap_err().contains("add --rate"));
        assert_eq!(load("--ramp stairs:3 --rate 7"), Ok(Some(7.0)));
        std::fs::remove_file(file).unwrap();
    }
}

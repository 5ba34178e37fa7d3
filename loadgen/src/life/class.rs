//! How large a fleet is: the classes, and what of one is simulated here.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::{Failure, usage};
use crate::fleet::Fleet;
use crate::life::hostile::Mode;
use crate::life::wording::Wordings;

/// Sizes of fleets that operators run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// 10 brokers, 1 000 topics, 5 000 clients: 1 000 polls a second.
    S,
    /// 100 brokers, 20 000 topics, 50 000 clients: 10 000 polls a second.
    M,
    /// 300 brokers, 100 000 topics, 300 000 clients: 100 000 polls a second.
    L,
    /// 1 000 brokers, 500 000 topics, 1 000 000 clients: 300 000 polls a second.
    Xl,
}

/// The numbers of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Numbers {
    pub brokers: u32,
    pub topics: u32,
    pub route_width: u32,
    pub clients: u32,
    pub topics_per_client: u32,
    pub exporters: u32,
    pub dashboards: u32,
}

impl Class {
    /// Its numbers.
    pub fn numbers(self) -> Numbers {
        let numbers =
            |brokers, topics, route_width, clients, topics_per_client, watchers| Numbers {
                brokers,
                topics,
                route_width,
                clients,
                topics_per_client,
                exporters: watchers,
                dashboards: watchers,
            };
        match self {
            Class::S => numbers(10, 1_000, 4, 5_000, 6, 1),
            Class::M => numbers(100, 20_000, 4, 50_000, 6, 1),
            Class::L => numbers(300, 100_000, 8, 300_000, 10, 2),
            Class::Xl => numbers(1_000, 500_000, 16, 1_000_000, 9, 2),
        }
    }

    /// What a server must keep to carry the class: the objectives of its PASS or FAIL.
    pub fn objectives(self) -> &'static str {
        match self {
            Class::S => "p99<2ms,p99.9<5ms,errors==0",
            Class::M => "p99<2ms,p99.9<10ms,errors==0",
            Class::L | Class::Xl => "p99<5ms,p99.9<20ms,errors==0",
        }
    }
}

/// A share of all clients loses its connection at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Disconnect {
    /// Of the clients.
    pub share: f64,
    /// Into the measured window.
    pub at_seconds: f64,
}

/// Everything a living fleet is made from. Periods are as they pass here: already divided by the
/// time factor.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// Brokers and topics.
    pub fleet: Fleet,
    /// Clients that are simulated.
    pub clients: u32,
    /// Connections they have; fewer than clients when limits do not allow more.
    pub client_connections: u32,
    /// Topics each of them polls.
    pub topics_per_client: u32,
    /// Between two polls of one topic by one client.
    pub poll_seconds: f64,
    /// Share of polls for topics nobody registered.
    pub misses: f64,
    /// Share of clients that ask for the brokers of a zone only.
    pub zone_share: f64,
    /// Makes and versions of clients.
    #[serde(serialize_with = "as_words")]
    pub wordings: Wordings,
    /// Between two registrations of a broker.
    pub register_seconds: f64,
    /// Share of brokers that register in full each time instead of asking first.
    pub forced_share: f64,
    /// Share of brokers that compress registrations.
    pub compressed_share: f64,
    /// Between two changes of topics of a broker, on average.
    pub change_seconds: f64,
    /// Share of brokers that say every second that they are alive.
    pub acting_share: f64,
    /// Between two of these.
    pub alive_seconds: f64,
    /// Connections that read a changed topic until the change shows.
    pub probes: u32,
    /// Exporters: all brokers, all topics, and a route for each topic.
    pub exporters: u32,
    /// Between two rounds of an exporter.
    pub exporter_seconds: f64,
    /// Dashboards: all brokers, all topics, and a few routes.
    pub dashboards: u32,
    /// Between two rounds of a dashboard.
    pub dashboard_seconds: f64,
    /// Connections a second that are opened and closed without a word.
    pub churn_per_second: f64,
    /// Connections that stay open without a word.
    pub idle: u32,
    /// Within this time clients come back after they lost their connection.
    pub reconnect_seconds: f64,
    /// Brokers restart one after the other from then on, seconds into the measured window.
    pub rolling_restart_at: Option<f64>,
    /// How long a broker is away when it restarts.
    pub restart_seconds: f64,
    /// Clients that lose their connections.
    pub disconnects: Vec<Disconnect>,
    /// The server will go away and come back: what fails meanwhile is no error.
    pub expect_outage: bool,
    /// Hostile connections.
    pub hostile: Vec<(Mode, u32)>,
    /// How long an answer may take.
    pub timeout_ms: u64,
    /// All periods were divided by it.
    pub time_factor: f64,
    /// Makes everything that is drawn.
    pub seed: u64,
}

fn as_words<S: serde::Serializer>(wordings: &Wordings, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&wordings.words())
}

impl Setting {
    /// The numbers of a class at a time factor; one connection a client.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the numbers do not go together.
    pub fn of(numbers: Numbers, time_factor: f64, seed: u64) -> Result<Self, Failure> {
        let Numbers { brokers, topics, route_width, .. } = numbers;
        let cluster = "bench".to_owned();
        let fleet = Fleet { brokers, topics, route_width, cluster }.checked()?;
        let seconds = |real: f64| real / time_factor;
        Ok(Self {
            fleet,
            clients: numbers.clients,
            client_connections: numbers.clients,
            topics_per_client: numbers.topics_per_client,
            poll_seconds: seconds(30.0),
            misses: 0.01,
            zone_share: 0.0,
            wordings: Wordings::default(),
            register_seconds: seconds(30.0),
            forced_share: 0.5,
            compressed_share: 0.2,
            change_seconds: seconds(60.0),
            acting_share: 0.1,
            alive_seconds: seconds(1.0),
            probes: 8,
            exporters: numbers.exporters,
            exporter_seconds: seconds(60.0),
            dashboards: numbers.dashboards,
            dashboard_seconds: seconds(10.0),
            churn_per_second: f64::from(numbers.clients) / 120.0 * time_factor,
            idle: 0,
            reconnect_seconds: seconds(10.0).max(0.2),
            rolling_restart_at: None,
            restart_seconds: seconds(10.0).max(0.5),
            disconnects: Vec::new(),
            expect_outage: false,
            hostile: Vec::new(),
            timeout_ms: 3_000,
            time_factor,
            seed,
        })
    }

    /// Topics of the broker that has most; one registration must hold them.
    ///
    /// # Errors
    /// [`Failure::Usage`] when it cannot.
    pub fn checked(self) -> Result<Self, Failure> {
        const TOPICS_PER_BROKER_MAX: u64 = 60_000;
        let Fleet { brokers, topics, route_width, .. } = self.fleet;
        let most = (u64::from(topics) * u64::from(route_width)).div_ceil(u64::from(brokers));
        if most > TOPICS_PER_BROKER_MAX {
            return Err(usage(format!(
                "{most} topics on a broker do not fit into one registration (16 MiB): give more \
                 --brokers, fewer --topics or a smaller --route-width"
            )));
        }
        if self.clients == 0 || self.topics_per_client == 0 {
            return Err(usage("give at least one of --clients and --topics-per-client"));
        }
        Ok(self)
    }

    /// Keeps the load and gives it to fewer connections, when no more can be open at once. Says so
    /// in words.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the brokers and such alone need more.
    pub fn fit(&mut self, connections_max: u64) -> Result<Option<String>, Failure> {
        let others = self.other_connections();
        let left = connections_max.saturating_sub(others);
        if u64::from(self.client_connections) <= left {
            return Ok(None);
        }
        let Some(left) = u32::try_from(left).ok().filter(|left| *left > 0) else {
            return Err(usage(format!(
                "{others} connections of brokers, probes and such leave none of {connections_max} \
                 for clients: raise the open files limit (ulimit -Hn)"
            )));
        };
        let copies = self.clients.div_ceil(left);
        self.client_connections = self.clients.div_ceil(copies);
        Ok(Some(format!(
            "{} clients on {} connections, each of which polls for {copies}: {connections_max} \
             connections can be open here. All polls are made; {:.1} % of the class's connections \
             are. For all of them raise the open files limit (ulimit -Hn {})",
            self.clients,
            self.client_connections,
            f64::from(self.client_connections) * 100.0 / f64::from(self.clients),
            u64::from(self.clients) + others + crate::preflight::OTHER_FILES,
        )))
    }

    /// Connections besides those of clients.
    pub fn other_connections(&self) -> u64 {
        let hostile: u32 = self.hostile.iter().map(|(_, count)| count).sum();
        [self.fleet.brokers, self.probes, self.exporters, self.dashboards, self.idle, hostile]
            .into_iter()
            .chain([self.churn_places()])
            .map(u64::from)
            .sum()
    }

    /// Connections that churn at the same time: each has a fifth of a second for its life.
    pub fn churn_places(&self) -> u32 {
        const MOST: f64 = 512.0;
        let places = (self.churn_per_second / 5.0).ceil().clamp(8.0, MOST);
        if self.churn_per_second > 0.0 { format!("{places:.0}").parse().unwrap_or(8) } else { 0 }
    }

    /// Clients a connection stands for, at most.
    pub fn copies(&self) -> u32 {
        self.clients.div_ceil(self.client_connections.max(1))
    }

    /// Polls per second of all clients.
    pub fn polls_per_second(&self) -> f64 {
        f64::from(self.clients) * f64::from(self.topics_per_client) / self.poll_seconds
    }

    /// How long an answer may take.
    pub fn timeout_ns(&self) -> u64 {
        self.timeout_ms * 1_000_000
    }

    /// Within this time clients come back, in ns.
    pub fn reconnect_ns(&self) -> f64 {
        self.reconnect_seconds * 1e9
    }

    /// What will be done, for a person.
    pub fn words(&self) -> String {
        let mut out = String::new();
        let Fleet { brokers, topics, route_width, .. } = &self.fleet;
        let _ = writeln!(
            out,
            "fleet: {brokers} brokers, {topics} topics on {route_width} of them each; {} clients \
             with {} topics each on {} connections ({})",
            self.clients,
            self.topics_per_client,
            self.client_connections,
            self.wordings.words(),
        );
        let registrations = f64::from(*brokers) / self.register_seconds;
        let _ = write!(
            out,
            "load: {:.0} polls/s ({:.1} % for unknown topics), {registrations:.1} registrations/s, \
             {:.1} changes/s, {:.0} silent connections/s; time runs {} times as fast, seed {}",
            self.polls_per_second(),
            self.misses * 100.0,
            f64::from(*brokers) / self.change_seconds,
            self.churn_per_second,
            self.time_factor,
            self.seed,
        );
        for (mode, count) in &self.hostile {
            let _ = write!(out, "\nhostile: {count} connections, {}", mode.words());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_the_polls_and_registrations_it_is_known_for() {
        for (class, polls, registrations) in [
            (Class::S, 1_000.0, 0.33),
            (Class::M, 10_000.0, 3.3),
            (Class::L, 100_000.0, 10.0),
            (Class::Xl, 300_000.0, 33.3),
        ] {
            let setting = Setting::of(class.numbers(), 1.0, 1).unwrap().checked().unwrap();
            assert!((setting.polls_per_second() - polls).abs() < 1.0, "{class:?}");
            let found = f64::from(setting.fleet.brokers) / setting.register_seconds;
            assert!((found - registrations).abs() < 0.1, "{class:?}: {found}");
            let fast = Setting::of(class.numbers(), 10.0, 1).unwrap();
            assert!((fast.polls_per_second() - 10.0 * polls).abs() < 1.0, "{class:?}");
        }
        let churn = Setting::of(Class::Xl.numbers(), 1.0, 1).unwrap().churn_per_second;
        assert!((8_000.0..8_700.0).contains(&churn), "{churn}");
    }

    #[test]
    fn a_class_that_needs_too_many_connections_keeps_its_polls_and_says_so() {
        let mut setting = Setting::of(Class::L.numbers(), 1.0, 1).unwrap();
        let polls = setting.polls_per_second();
        let words = setting.fit(19_000).unwrap().unwrap();
        let total = u64::from(setting.client_connections) + setting.other_connections();
        assert!(total <= 19_000, "{total}");
        assert!(setting.copies() > 15 && words.contains("300000 clients"), "{words}");
        assert!(words.contains("ulimit -Hn"), "{words}");
        assert!((setting.polls_per_second() - polls).abs() < 1e-6);
        let mut small = Setting::of(Class::S.numbers(), 1.0, 1).unwrap();
        assert_eq!(small.fit(19_000).unwrap(), None);
        assert!(small.fit(10).unwrap_err().to_string().contains("ulimit -Hn"));
    }
}

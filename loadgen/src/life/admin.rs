//! Exporters and dashboards: all brokers, all topics, then routes one after the other. Each round
//! begins at its time; within a round the next question waits for the answer before, as theirs do.

use serde_json::Value;

use crate::chance::Chance;
use crate::check::Wrong;
use crate::dialect::parse;
use crate::fleet::{Asked, broker_name};
use crate::life::class::Setting;
use crate::life::desk::{Timer, Turn, Wish};
use crate::life::line::{Ask, Pending};
use crate::measure::whole_ns;
use crate::wire::{CLUSTER_INFO, Frame, ROUTE_BY_TOPIC, SUCCESS, TOPIC_LIST};

const ADMINS: u64 = 17;
/// Routes a dashboard asks for after its lists.
const DASHBOARD_ROUTES: u32 = 10;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Asks for the route of each topic.
    Exporter,
    /// Asks for a few.
    Dashboard,
}

/// One of them.
pub struct Admin {
    kind: Kind,
    period_seconds: f64,
    chance: Chance,
    busy: bool,
    /// Routes still to ask for in this round.
    left: u32,
}

impl Admin {
    /// The n-th of its kind.
    pub fn new(kind: Kind, number: u32, setting: &Setting) -> Self {
        let period_seconds = match kind {
            Kind::Exporter => setting.exporter_seconds,
            Kind::Dashboard => setting.dashboard_seconds,
        };
        let chance = Chance::new(setting.seed, ADMINS + kind as u64 * 7, number.into());
        Self { kind, period_seconds, chance, busy: false, left: 0 }
    }

    pub(super) fn start(&mut self, turn: &mut Turn<'_>) {
        // The first round early, so that a short run has one.
        let first_ns = whole_ns(self.chance.fraction() * self.period_seconds * 1e9 / 4.0);
        turn.wake(turn.desk.window.begin_ns + first_ns, Timer::Speak);
    }

    pub(super) fn due(&mut self, timer: Timer, at_ns: u64, turn: &mut Turn<'_>) {
        if timer == Timer::Open {
            turn.wish = Wish::Open;
            return;
        }
        turn.wake(at_ns + whole_ns(self.period_seconds * 1e9), Timer::Speak);
        if !turn.open {
            return turn.desk.error(at_ns, "not connected", || "an admin tool's round".into());
        }
        if self.busy {
            return turn.desk.count(at_ns, "admin rounds left out as the last one was not over");
        }
        self.busy = true;
        turn.ask((CLUSTER_INFO, &[], b""), Ask::Cluster, at_ns);
    }

    pub(super) fn answered(&mut self, pending: &Pending, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        let now_ns = turn.now_ns;
        match pending.ask {
            Ask::Cluster => {
                let judged = judged(frame, |body| check_cluster(body, pending, turn));
                self.took("cluster list", judged, pending, turn);
                turn.ask((TOPIC_LIST, &[], b""), Ask::TopicList, now_ns);
            }
            Ask::TopicList => {
                let judged = judged(frame, |body| check_topics(body, pending, turn));
                self.took("topic list", judged, pending, turn);
                self.left = match self.kind {
                    Kind::Exporter => turn.desk.world.fleet.topics,
                    Kind::Dashboard => DASHBOARD_ROUTES.min(turn.desk.world.fleet.topics),
                };
                self.next_route(turn);
            }
            Ask::AdminRoute(ask) => {
                if turn.desk.judge(&ask, frame, now_ns).is_some() {
                    turn.desk.right("admin route", pending, now_ns);
                }
                self.next_route(turn);
            }
            _ => {}
        }
    }

    fn took(
        &self,
        kind: &'static str,
        judged: Result<(), Wrong>,
        pending: &Pending,
        turn: &mut Turn<'_>,
    ) {
        match judged {
            Ok(()) => turn.desk.right(kind, pending, turn.now_ns),
            Err(wrong) => turn.desk.wrong(turn.now_ns, wrong),
        }
    }

    fn next_route(&mut self, turn: &mut Turn<'_>) {
        if self.left == 0 {
            turn.desk.count(turn.now_ns, "admin rounds");
            self.busy = false;
            return;
        }
        self.left -= 1;
        let topics = turn.desk.world.fleet.topics;
        let topic = match self.kind {
            Kind::Exporter => topics - 1 - self.left,
            Kind::Dashboard => self.chance.below(topics),
        };
        let ask = turn.desk.route_ask(topic, turn.line, turn.now_ns);
        let name = Asked::Topic(topic).name();
        let fields = [("topic", std::str::from_utf8(&name).expect("names are ASCII"))];
        turn.ask((ROUTE_BY_TOPIC, &fields, b""), Ask::AdminRoute(ask), turn.now_ns);
    }

    /// Nothing is on the way any more.
    pub(super) fn idle(&mut self) {
        self.busy = false;
        self.left = 0;
    }
}

fn judged(
    frame: &Frame<'_>,
    check: impl FnOnce(&Value) -> Result<(), String>,
) -> Result<(), Wrong> {
    if frame.code != SUCCESS {
        let header = String::from_utf8_lossy(&frame.header[..frame.header.len().min(300)]);
        return Err(Wrong::Code(crate::check::code_kind(frame.code), header.into_owned()));
    }
    parse(frame.body).and_then(|body| check(&body)).map_err(Wrong::Content)
}

/// Every broker that was there before the question is listed with its cluster.
fn check_cluster(body: &Value, pending: &Pending, turn: &Turn<'_>) -> Result<(), String> {
    let world = &turn.desk.world;
    for broker in (0..world.fleet.brokers).filter(|b| world.is_steady(*b, pending.sent_ns)) {
        let name = broker_name(broker);
        let found = &body["brokerAddrTable"][&name]["cluster"];
        if found.as_str() != Some(world.fleet.cluster.as_str()) {
            return Err(format!("{name} is listed in cluster {found}"));
        }
    }
    Ok(())
}

/// As long as all brokers are there, so are all topics.
fn check_topics(body: &Value, pending: &Pending, turn: &Turn<'_>) -> Result<(), String> {
    let world = &turn.desk.world;
    let list = body["topicList"].as_array().ok_or("the body has no topicList")?;
    let ours = |name: &&Value| name.as_str().is_some_and(|n| n.starts_with("bench-topic-"));
    let (found, all) = (list.iter().filter(ours).count(), world.fleet.topics as usize);
    let steady = (0..world.fleet.brokers).all(|b| world.is_steady(b, pending.sent_ns));
    if found > all || (steady && found < all) {
        return Err(format!("{found} topics are listed instead of {all}"));
    }
    Ok(())
}

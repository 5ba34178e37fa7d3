//! A broker: registers again and again, tells that it is alive, changes topics, restarts.

use crate::chance::Chance;
use crate::fleet::{broker_addr, broker_name, data_version};
use crate::life::class::Setting;
use crate::life::desk::{Kick, Timer, Turn, Wish};
use crate::life::line::{Ask, Pending};
use crate::life::world::World;
use crate::measure::whole_ns;
use crate::wire::{
    BROKER_HEARTBEAT, Frame, QUERY_DATA_VERSION, REGISTER_BROKER, SUCCESS, UNREGISTER_BROKER,
};

const BROKERS: u64 = 16;
/// Registrations come so much earlier or later than their period, at most.
const JITTER: f64 = 0.1;
/// After a refused registration a broker tries again so much later.
const AGAIN_NS: u64 = 500_000_000;
/// A crc is sent as a positive 32-bit number.
const CRC_MASK: u32 = 0x7fff_ffff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// All is registered.
    Registered,
    /// Has asked to be forgotten.
    Leaving,
    /// Has no connection.
    Away,
    /// Has registered without topics: a first registration of one topic would be refused.
    Empty,
    /// Has registered with its topics; the answer is on its way.
    Filling,
}

/// One of the fleet.
pub struct Broker {
    number: u32,
    name: String,
    addr: String,
    topics: Vec<u32>,
    stage: Stage,
    counter: u64,
    forced: bool,
    compressed: bool,
    acting: bool,
    chance: Chance,
}

impl Broker {
    /// One that is registered in full already, under this data version.
    pub fn new(number: u32, counter: u64, world: &World, setting: &Setting) -> Self {
        let mut chance = Chance::new(setting.seed, BROKERS, number.into());
        Self {
            number,
            name: broker_name(number),
            addr: broker_addr(number),
            topics: world.fleet.topics_of(number).collect(),
            stage: Stage::Registered,
            counter,
            forced: chance.fraction() < setting.forced_share,
            compressed: chance.fraction() < setting.compressed_share,
            acting: chance.fraction() < setting.acting_share,
            chance,
        }
    }

    pub(super) fn start(&mut self, turn: &mut Turn<'_>) {
        let setting = turn.desk.setting.clone();
        let mut phase = |seconds: f64| whole_ns(self.chance.fraction() * seconds * 1e9);
        turn.wake(phase(setting.register_seconds), Timer::Speak);
        if self.acting {
            turn.wake(phase(setting.alive_seconds), Timer::Alive);
        }
        if turn.desk.world.owned_count(self.number) > 0 {
            self.wake_for_change(0, turn);
        }
        if let Some(at) = setting.rolling_restart_at {
            let nth = f64::from(self.number);
            let at_ns = whole_ns((at + nth * setting.restart_seconds) * 1e9);
            turn.wake(turn.desk.window.begin_ns + at_ns, Timer::Restart);
        }
    }

    fn wake_for_change(&mut self, from_ns: u64, turn: &mut Turn<'_>) {
        let mean_ns = turn.desk.setting.change_seconds * 1e9;
        let gap_ns = whole_ns(-(1.0 - self.chance.fraction()).ln() * mean_ns);
        turn.wake(from_ns.saturating_add(gap_ns), Timer::Change);
    }

    pub(super) fn due(&mut self, timer: Timer, at_ns: u64, turn: &mut Turn<'_>) {
        match timer {
            Timer::Open => turn.wish = Wish::Open,
            Timer::Speak => {
                let jitter = 1.0 - JITTER + 2.0 * JITTER * self.chance.fraction();
                let period_ns = whole_ns(turn.desk.setting.register_seconds * jitter * 1e9);
                turn.wake(at_ns + period_ns, Timer::Speak);
                if self.is_registered(turn) {
                    self.renew(at_ns, turn);
                }
            }
            Timer::Alive => {
                let period_ns = whole_ns(turn.desk.setting.alive_seconds * 1e9);
                turn.wake(at_ns + period_ns, Timer::Alive);
                if self.is_registered(turn) {
                    self.tell(BROKER_HEARTBEAT, b"", Ask::Heartbeat, at_ns, turn);
                }
            }
            Timer::Change => {
                self.wake_for_change(at_ns, turn);
                if self.is_registered(turn) {
                    self.change(at_ns, turn);
                }
            }
            Timer::Restart => self.leave(at_ns, turn),
            Timer::Drop => {}
        }
    }

    fn is_registered(&self, turn: &Turn<'_>) -> bool {
        turn.open && self.stage == Stage::Registered
    }

    fn renew(&mut self, at_ns: u64, turn: &mut Turn<'_>) {
        if self.forced {
            self.register_all(at_ns, turn);
        } else {
            let version = data_version(self.counter);
            self.tell(QUERY_DATA_VERSION, version.as_bytes(), Ask::Version, at_ns, turn);
        }
    }

    fn change(&mut self, at_ns: u64, turn: &mut Turn<'_>) {
        let world = turn.desk.world.clone();
        let nth = self.chance.below(world.owned_count(self.number));
        let Some(topic) = world.owned(self.number, nth) else { return };
        let version = world.announce(topic);
        self.counter += 1;
        let body = world.body(self.number, &[topic], self.counter);
        self.register(&body, false, Ask::Register(Some((topic, version))), at_ns, turn);
    }

    fn leave(&mut self, at_ns: u64, turn: &mut Turn<'_>) {
        if !self.is_registered(turn) {
            return;
        }
        turn.desk.world.unsteady(self.number);
        turn.desk.count(at_ns, "broker restarts");
        self.stage = Stage::Leaving;
        self.tell(UNREGISTER_BROKER, b"", Ask::Unregister, at_ns, turn);
    }

    pub(super) fn opened(&mut self, turn: &mut Turn<'_>) {
        if self.stage == Stage::Registered {
            return;
        }
        self.stage = Stage::Empty;
        turn.desk.world.comes_back(self.number);
        self.counter += 1;
        let body = turn.desk.world.body(self.number, &[], self.counter);
        self.register(&body, false, Ask::Register(None), turn.now_ns, turn);
    }

    fn register_all(&mut self, at_ns: u64, turn: &mut Turn<'_>) {
        let world = turn.desk.world.clone();
        let (topics, counter) = (&self.topics, self.counter);
        let body = if self.compressed {
            world.compressed_body(self.number, topics, counter)
        } else {
            world.body(self.number, topics, counter)
        };
        self.register(&body, self.compressed, Ask::Register(None), at_ns, turn);
    }

    fn register(&self, body: &[u8], compressed: bool, ask: Ask, at_ns: u64, turn: &mut Turn<'_>) {
        let crc = (crc32fast::hash(body) & CRC_MASK).to_string();
        let cluster = turn.desk.world.fleet.cluster.clone();
        let mut fields = vec![
            ("brokerName", self.name.as_str()),
            ("brokerAddr", &self.addr),
            ("clusterName", &cluster),
            ("haServerAddr", &self.addr),
            ("brokerId", "0"),
            ("enableActingMaster", "false"),
            ("compressed", if compressed { "true" } else { "false" }),
            ("bodyCrc32", &crc),
        ];
        if turn.desk.world.zoned {
            fields.push(("__ZONE_NAME", World::zone_name(self.number)));
        }
        turn.ask((REGISTER_BROKER, &fields, body), ask, at_ns);
    }

    fn tell(&self, code: u16, body: &[u8], ask: Ask, at_ns: u64, turn: &mut Turn<'_>) {
        let cluster = turn.desk.world.fleet.cluster.clone();
        let fields = [
            ("clusterName", cluster.as_str()),
            ("brokerAddr", &self.addr),
            ("brokerName", &self.name),
            ("brokerId", "0"),
        ];
        turn.ask((code, &fields, body), ask, at_ns);
    }

    pub(super) fn answered(&mut self, pending: &Pending, frame: &Frame<'_>, turn: &mut Turn<'_>) {
        if frame.code != SUCCESS {
            let kind = crate::check::code_kind(frame.code);
            let header = String::from_utf8_lossy(&frame.header[..frame.header.len().min(300)]);
            let what = format!("{:?} of broker {}: {header}", pending.ask, self.number);
            turn.desk.error(turn.now_ns, kind, || what);
            return self.begins_anew(turn);
        }
        let kind = match pending.ask {
            Ask::Version => "version query",
            Ask::Heartbeat => "heartbeat",
            Ask::Unregister => "unregistration",
            _ => "registration",
        };
        turn.desk.right(kind, pending, turn.now_ns);
        match pending.ask {
            Ask::Register(Some((topic, version))) => {
                turn.desk.world.acknowledge(topic, version);
                let acknowledged_ns = turn.now_ns;
                turn.desk.kicks.push_back(Kick { topic, version, acknowledged_ns });
            }
            Ask::Register(None) => self.advance(turn),
            Ask::Version if says_changed(frame.header) => {
                turn.desk.count(turn.now_ns, "registrations asked for again");
                self.register_all(turn.now_ns, turn);
            }
            Ask::Unregister => {
                self.stage = Stage::Away;
                turn.desk.world.gone(self.number, turn.now_ns);
                let back_ns = whole_ns(turn.desk.setting.restart_seconds / 2.0 * 1e9);
                turn.wish = Wish::Close(Some(turn.now_ns + back_ns));
            }
            _ => {}
        }
    }

    /// What was asked was refused, or not answered. Who is half registered connects again.
    pub(super) fn begins_anew(&self, turn: &mut Turn<'_>) {
        match self.stage {
            Stage::Empty | Stage::Filling | Stage::Leaving => {
                turn.wish = Wish::Close(Some(turn.now_ns + AGAIN_NS));
            }
            Stage::Registered | Stage::Away => {}
        }
    }

    /// An answer to a registration came: the next step of coming back.
    fn advance(&mut self, turn: &mut Turn<'_>) {
        match self.stage {
            Stage::Empty => {
                self.stage = Stage::Filling;
                self.counter += 1;
                self.register_all(turn.now_ns, turn);
            }
            Stage::Filling => {
                self.stage = Stage::Registered;
                turn.desk.world.steady(self.number, turn.now_ns);
            }
            Stage::Registered | Stage::Leaving | Stage::Away => {}
        }
    }

    pub(super) fn lost(&mut self, turn: &mut Turn<'_>) {
        turn.desk.world.unsteady(self.number);
        self.stage = Stage::Away;
    }
}

/// Whether the answer to a version query asks for a registration. Works on either kind of header:
/// the value stands close behind the name in both.
fn says_changed(header: &[u8]) -> bool {
    let name = b"changed";
    let at = header.windows(name.len()).position(|window| window == name);
    let Some(at) = at else { return false };
    let after = &header[at + name.len()..];
    after.windows(4).take(8).any(|window| window == b"true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_is_read_from_either_header() {
        assert!(says_changed(br#"{"code":0,"extFields":{"changed":"true"},"flag":1}"#));
        assert!(!says_changed(br#"{"code":0,"extFields":{"changed":"false"},"x":"true"}"#));
        assert!(says_changed(b"\0\x07changed\0\0\0\x04true"));
        assert!(!says_changed(b"\0\x07changed\0\0\0\x05false"));
        assert!(!says_changed(b"{}"));
    }
}

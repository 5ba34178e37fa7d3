//! Connections that mean no good, beside the good ones, which must not suffer from them.

use std::str::FromStr;

use serde::Serialize;

use crate::chance::Chance;
use crate::fleet::Asked;
use crate::life::desk::{Timer, Turn, Wish};
use crate::life::line::{Ask, Line, Manners};
use crate::life::wording::Wording;
use crate::measure::whole_ns;
use crate::wire::ROUTE_BY_TOPIC;

const HOSTILE: u64 = 48;
/// Between two utterances of those that say more than one thing.
const AGAIN_NS: u64 = 100_000_000;
/// A connection that was cut off is made again within this time.
const BACK_NS: f64 = 1e9;
/// Bytes of one utterance of garbage or of a frame that never ends.
const UTTERANCE_BYTES: usize = 4096;
/// Requests of one utterance of a peer that does not read the answers.
const UNREAD_REQUESTS: usize = 64;
/// More than any server accepts.
const OVER_LONG: u32 = 0x7fff_fff0;

/// What a hostile connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Connects and says nothing.
    ConnectOnly,
    /// Sends half a request and no more.
    Partial,
    /// Sends requests and does not read the answers.
    SlowReader,
    /// Sends one request, and stays when the server closes.
    NeverClose,
    /// Announces a frame of 2 GiB and begins to send it.
    OverLong,
    /// Sends chance bytes.
    Garbage,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 6] = [
        Mode::ConnectOnly,
        Mode::Partial,
        Mode::SlowReader,
        Mode::NeverClose,
        Mode::OverLong,
        Mode::Garbage,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::ConnectOnly => "connect-only",
            Mode::Partial => "partial",
            Mode::SlowReader => "slow-reader",
            Mode::NeverClose => "never-close",
            Mode::OverLong => "over-long",
            Mode::Garbage => "garbage",
        }
    }

    /// What it does, in words.
    pub fn words(self) -> &'static str {
        match self {
            Mode::ConnectOnly => "connected without a word",
            Mode::Partial => "half a request and no more",
            Mode::SlowReader => "requests whose answers are not read",
            Mode::NeverClose => "never closing",
            Mode::OverLong => "announcing a frame of 2 GiB",
            Mode::Garbage => "chance bytes",
        }
    }

    fn cut_off(self) -> &'static str {
        match self {
            Mode::ConnectOnly => "cut off: connect-only",
            Mode::Partial => "cut off: partial",
            Mode::SlowReader => "cut off: slow-reader",
            Mode::NeverClose => "cut off: never-close",
            Mode::OverLong => "cut off: over-long",
            Mode::Garbage => "cut off: garbage",
        }
    }
}

/// `MODE=COUNT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted(pub Mode, pub u32);

impl FromStr for Counted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = Mode::ALL.iter().map(|mode| mode.name()).collect();
        let wrong = || format!("give MODE=COUNT with a mode of {}", names.join(", "));
        let (name, count) = text.split_once('=').ok_or_else(wrong)?;
        let mode = Mode::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(wrong)?;
        Ok(Self(mode, count.parse().map_err(|_| wrong())?))
    }
}

/// One of them.
pub struct Hostile {
    mode: Mode,
    chance: Chance,
}

impl Hostile {
    /// The n-th of all.
    pub fn new(mode: Mode, number: u32, seed: u64) -> Self {
        Self { mode, chance: Chance::new(seed, HOSTILE, number.into()) }
    }

    /// The line of such a connection.
    pub fn line(mode: Mode, number: u32) -> Line {
        let mut line = Line::new(Wording::Java5, number);
        line.manners =
            Manners { reads: mode != Mode::SlowReader, closes: mode != Mode::NeverClose };
        line
    }

    pub(super) fn start(&mut self, turn: &mut Turn<'_>) {
        turn.wake(whole_ns(self.chance.fraction() * BACK_NS), Timer::Open);
    }

    pub(super) fn due(&mut self, timer: Timer, turn: &mut Turn<'_>) {
        if timer == Timer::Open {
            turn.wish = Wish::Open;
        } else if turn.open {
            self.speak(turn);
        }
    }

    pub(super) fn opened(&mut self, turn: &mut Turn<'_>) {
        turn.desk.count(turn.now_ns, "hostile connections");
        match self.mode {
            Mode::ConnectOnly => {}
            Mode::Partial => turn.line.say(&half_a_request()),
            Mode::NeverClose => ask(turn),
            Mode::OverLong => {
                turn.line.say(&OVER_LONG.to_be_bytes());
                self.speak(turn);
            }
            Mode::SlowReader | Mode::Garbage => self.speak(turn),
        }
    }

    fn speak(&mut self, turn: &mut Turn<'_>) {
        // What the server does not take is not piled up here.
        let blocked = !turn.line.unsent().is_empty();
        match self.mode {
            Mode::SlowReader if !blocked => (0..UNREAD_REQUESTS).for_each(|_| ask(turn)),
            Mode::OverLong if !blocked => turn.line.say(&[0; UTTERANCE_BYTES]),
            Mode::Garbage if !blocked => {
                let bytes: Vec<u8> = (0..UTTERANCE_BYTES / 8)
                    .flat_map(|_| self.chance.draw().to_le_bytes())
                    .collect();
                turn.line.say(&bytes);
            }
            _ => {}
        }
        if matches!(self.mode, Mode::SlowReader | Mode::OverLong | Mode::Garbage) {
            turn.wake(turn.now_ns + AGAIN_NS, Timer::Speak);
        }
    }

    pub(super) fn lost(&mut self, turn: &mut Turn<'_>) {
        turn.desk.count(turn.now_ns, self.mode.cut_off());
        let back_ns = whole_ns((1.0 + self.chance.fraction()) * BACK_NS / 2.0);
        turn.wake(turn.now_ns + back_ns, Timer::Open);
    }
}

/// A request nobody waits for: its answer is neither expected nor judged.
fn ask(turn: &mut Turn<'_>) {
    let name = Asked::Topic(0).name();
    let fields = [("topic", std::str::from_utf8(&name).expect("names are ASCII"))];
    let at_ns = turn.now_ns;
    turn.line.ask((ROUTE_BY_TOPIC, &fields, b""), Ask::Heartbeat, at_ns, at_ns);
}

fn half_a_request() -> Vec<u8> {
    let mut whole = Vec::new();
    Wording::Java5.append(&mut whole, ROUTE_BY_TOPIC, 1, &[("topic", "T")], b"");
    whole.truncate(whole.len() / 2);
    whole
}

//! One client connection without its socket: questions go out as bytes, bytes come in as answers.
//! Neither reads a clock nor touches a descriptor.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use crate::chance::Chance;
use crate::check::{Checker, Wrong};
use crate::fleet::{Asked, TOPICS_MAX};
use crate::measure::{Measured, Window};
use crate::outbox::Outbox;
use crate::tape::Timing;
use crate::wire::{OPAQUE_END, OPAQUE_FIRST, RouteQuery, first_frame};

/// What a connection asks about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mix {
    /// Topics asked about: `0..topics`, each as often.
    pub topics: u32,
    /// Share of queries for topics nobody registered, 0.0 to 1.0.
    pub misses: f64,
    /// Makes the sequence.
    pub seed: u64,
}

/// The sequence of questions of one connection: a pure function of seed and connection number, so
/// the order in which answers come cannot change it.
pub struct Questions {
    mix: Mix,
    chance: Chance,
}

impl Questions {
    /// The sequence of this connection.
    pub fn new(mix: Mix, connection: u64) -> Self {
        Self { mix, chance: Chance::new(mix.seed, 0, connection) }
    }

    /// The next question.
    pub fn draw(&mut self) -> Asked {
        if self.chance.fraction() < self.mix.misses {
            Asked::Absent(self.chance.below(TOPICS_MAX))
        } else {
            Asked::Topic(self.chance.below(self.mix.topics))
        }
    }
}

/// Why a connection cannot be used any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Kind of error, as it is counted.
    pub kind: &'static str,
    /// What happened.
    pub what: String,
}

impl Broken {
    /// With a kind of error and what happened.
    pub fn new(kind: &'static str, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }

    /// What an operation on a socket failed with.
    pub fn of(doing: &str, e: &io::Error) -> Self {
        Self::new(kind_of(e.kind()), format!("{doing}: {e}"))
    }
}

/// The kinds of error that end a connection.
pub const LOST: [&str; 6] = ["closed", "reset", "socket", "malformed", "opaque", "silent"];

/// The kind of error, as it is counted, behind a failure of the system.
pub fn kind_of(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ConnectionRefused => "refused",
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "reset",
        io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof => "closed",
        io::ErrorKind::TimedOut => "connect time-out",
        _ => "socket",
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

struct Pending {
    opaque: u32,
    asked: Asked,
    intended_ns: u64,
    sent_ns: u64,
    /// Its time-out was recorded; a late answer is only matched, not recorded again.
    given_up: bool,
}

/// Lives: one per socket, on one generator thread. Shares: the query template.
pub struct Connection {
    questions: Questions,
    query: Arc<RouteQuery>,
    next_opaque: u32,
    /// In order of sending. Answers may come in another order.
    pending: VecDeque<Pending>,
    given_up: usize,
    depth: usize,
    out: Outbox,
    /// The beginning of a frame whose rest has not arrived.
    partial: Vec<u8>,
}

impl Connection {
    /// A connection that keeps at most `depth` queries on the way.
    pub fn new(mix: Mix, number: u32, depth: usize, query: Arc<RouteQuery>) -> Self {
        // Far apart, so that an answer delivered on the wrong connection matches nothing there.
        let spread = u64::from(number) * 10_000_019 % u64::from(OPAQUE_END - OPAQUE_FIRST);
        let offset = u32::try_from(spread).expect("below the range of opaques");
        Self {
            questions: Questions::new(mix, u64::from(number)),
            query,
            next_opaque: OPAQUE_FIRST + offset,
            pending: VecDeque::with_capacity(depth),
            given_up: 0,
            depth,
            out: Outbox::default(),
            partial: Vec::new(),
        }
    }

    /// Whether another query may be sent.
    pub fn has_room(&self) -> bool {
        self.waiting() < self.depth
    }

    /// Queries on the way that were not given up.
    pub fn waiting(&self) -> usize {
        self.pending.len() - self.given_up
    }

    /// Puts the next query into the output.
    pub fn ask(&mut self, intended_ns: u64, now_ns: u64) {
        let (opaque, asked) = (self.next_opaque, self.questions.draw());
        self.next_opaque = if opaque + 1 == OPAQUE_END { OPAQUE_FIRST } else { opaque + 1 };
        self.query.append_to(self.out.tail(), &asked.name(), opaque);
        let sent_ns = now_ns;
        self.pending.push_back(Pending { opaque, asked, intended_ns, sent_ns, given_up: false });
    }

    /// Bytes to write.
    pub fn unsent(&self) -> &[u8] {
        self.out.unsent()
    }

    /// So many of them were written.
    pub fn wrote(&mut self, count: usize) {
        self.out.wrote(count);
    }

    /// Takes bytes that arrived; returns how many answers they completed.
    ///
    /// # Errors
    /// [`Broken`] when what arrived cannot be matched to what was asked. A wrong answer to a
    /// question that was asked is only counted.
    pub fn received(&mut self, bytes: &[u8], to: &mut Recorder<'_>) -> Result<u64, Broken> {
        if self.partial.is_empty() {
            let (taken, answers) = self.take_frames(bytes, to)?;
            self.partial.extend_from_slice(&bytes[taken..]);
            return Ok(answers);
        }
        let mut joined = std::mem::take(&mut self.partial);
        joined.extend_from_slice(bytes);
        let (taken, answers) = self.take_frames(&joined, to)?;
        joined.drain(..taken);
        self.partial = joined;
        Ok(answers)
    }

    fn take_frames(&mut self, bytes: &[u8], to: &mut Recorder<'_>) -> Result<(usize, u64), Broken> {
        let (mut taken, mut answers) = (0, 0);
        while let Some(frame) = first_frame(&bytes[taken..])
            .map_err(|what| Broken::new("malformed", what.to_string()))?
        {
            taken += frame.bytes;
            if !frame.is_answer {
                let what = format!("the server asked something, code {}", frame.code);
                return Err(Broken::new("malformed", what));
            }
            let place =
                self.pending.iter().position(|p| i64::from(p.opaque) == i64::from(frame.opaque));
            let Some(pending) = place.and_then(|place| self.pending.remove(place)) else {
                let what = format!("an answer to nothing asked, opaque {}", frame.opaque);
                return Err(Broken::new("opaque", what));
            };
            if pending.given_up {
                self.given_up -= 1;
            }
            let verdict = to.checker.check(pending.asked, &frame);
            to.answer(&pending, verdict, frame.bytes);
            answers += 1;
        }
        Ok((taken, answers))
    }

    /// Records every query that waits longer than `limit_ns` at that time, and frees its place.
    /// Returns how many there were.
    ///
    /// # Errors
    /// [`Broken`] when so many were given up that the connection is plainly dead.
    pub fn give_up_older(&mut self, limit_ns: u64, to: &mut Recorder<'_>) -> Result<u64, Broken> {
        let mut count = 0;
        for pending in &mut self.pending {
            if to.now_ns.saturating_sub(pending.sent_ns) < limit_ns {
                break;
            }
            if !pending.given_up {
                pending.given_up = true;
                count += 1;
                self.given_up += 1;
                to.timed_out(pending);
            }
        }
        if self.given_up > 4 * self.depth {
            let what = format!("{} queries without an answer", self.given_up);
            return Err(Broken::new("silent", what));
        }
        Ok(count)
    }
}

impl Connection {
    /// The connection is gone, and what was on the way with it: each query is an error, and counts
    /// with the time-out or what it waited, if that is longer.
    pub fn lose(&mut self, timeout_ns: u64, to: &mut Recorder<'_>) {
        self.given_up = 0;
        for pending in self.pending.drain(..).filter(|pending| !pending.given_up) {
            to.lost(&pending, timeout_ns);
        }
    }
}

/// Where answers are checked and recorded, at one moment.
pub struct Recorder<'a> {
    /// When the bytes were there, in ns since the start of the run.
    pub now_ns: u64,
    /// What counts.
    pub window: Window,
    /// Judges answers.
    pub checker: &'a mut Checker,
    /// Takes the times.
    pub measured: &'a mut Measured,
}

impl Recorder<'_> {
    fn answer(&mut self, pending: &Pending, verdict: Result<(), Wrong>, frame_bytes: usize) {
        let counted = self.window.holds(pending.intended_ns);
        match verdict {
            Err(Wrong::Code(kind, what)) => self.measured.note(counted, kind, || what),
            Err(Wrong::Content(what)) => self.measured.note(counted, "wrong content", || what),
            Ok(()) if pending.given_up => {}
            Ok(()) => {
                self.times(pending, counted);
                let counts = &mut self.measured.counts;
                let (kind, bytes) = match pending.asked {
                    Asked::Topic(_) => ("hit", &mut counts.hit_bytes),
                    Asked::Absent(_) => ("miss", &mut counts.miss_bytes),
                };
                *bytes += if counted { frame_bytes as u64 } else { 0 };
                self.measured.tape.slice(counted).answers.add(kind, 1);
            }
        }
    }

    fn timed_out(&mut self, pending: &Pending) {
        let waited_ms = self.now_ns.saturating_sub(pending.sent_ns) / 1_000_000;
        let counted = self.window.holds(pending.intended_ns);
        self.measured.note(counted, "time-out", || format!("no answer for {waited_ms} ms"));
        self.times(pending, counted);
    }

    fn lost(&mut self, pending: &Pending, timeout_ns: u64) {
        let counted = self.window.holds(pending.intended_ns);
        self.measured.note(counted, "lost", || "a query with its connection".into());
        self.times_of_at_least(timeout_ns, pending, counted);
    }

    fn times(&mut self, pending: &Pending, counted: bool) {
        self.times_of_at_least(0, pending, counted);
    }

    fn times_of_at_least(&mut self, least_ns: u64, pending: &Pending, counted: bool) {
        let (now, slice) = (self.now_ns, self.measured.tape.slice(counted));
        let since = |then: u64| now.saturating_sub(then).max(least_ns);
        slice.record(Timing::Response, since(pending.intended_ns));
        slice.record(Timing::Service, since(pending.sent_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Expect, FloorBytes};
    use crate::tape::Collector;
    use crate::wire::append_frame;

    const MIX: Mix = Mix { topics: 100, misses: 0.25, seed: 42 };

    fn connection(mix: Mix, number: u32, depth: usize) -> Connection {
        let sample = String::from_utf8(Asked::Topic(0).name().to_vec()).unwrap();
        Connection::new(mix, number, depth, Arc::new(RouteQuery::for_topics_like(&sample)))
    }

    fn first_bytes(mix: Mix, number: u32) -> Vec<u8> {
        let mut connection = connection(mix, number, 1000);
        (0..1000).for_each(|_| connection.ask(0, 0));
        connection.unsent().to_vec()
    }

    const WINDOW: Window = Window { begin_ns: 100, end_ns: 1_000_000 };

    struct Desk {
        checker: Checker,
        measured: Measured,
        miss_bytes: usize,
    }

    impl Desk {
        /// How many times were recorded of queries that count, and the longest of them.
        fn times(&mut self, timing: Timing) -> (u64, u64) {
            let times = self.measured.tape.slice(true).times(timing);
            times.map_or((0, 0), |times| (times.len(), times.max()))
        }

        fn new() -> Self {
            let miss_bytes = answer(OPAQUE_FIRST).len();
            let expect = Expect::Floor(FloorBytes { hit: 0, miss: miss_bytes });
            let measured = Measured::onto(Collector::new(WINDOW).tape(&[]));
            Desk { checker: Checker::new(expect), measured, miss_bytes }
        }

        fn answers(&mut self) -> u64 {
            self.measured.tape.slice(true).answers.total()
        }

        fn at(&mut self, now_ns: u64) -> Recorder<'_> {
            let window = WINDOW;
            Recorder { now_ns, window, checker: &mut self.checker, measured: &mut self.measured }
        }
    }

    fn answer(opaque: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let header = format!("{{\"code\":17,\"flag\":1,\"opaque\":{opaque}}}");
        append_frame(&mut out, header.as_bytes(), b"");
        out
    }

    const MISSES: Mix = Mix { misses: 1.0, ..MIX };

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        assert_eq!(first_bytes(MIX, 3), first_bytes(MIX, 3));
        assert_ne!(first_bytes(MIX, 3), first_bytes(MIX, 4));
        assert_ne!(first_bytes(MIX, 3), first_bytes(Mix { seed: 43, ..MIX }, 3));
    }

    #[test]
    fn the_share_of_misses_is_what_was_asked_for() {
        let mut questions = Questions::new(MIX, 0);
        let absent = |asked| matches!(asked, Asked::Absent(_));
        let misses = (0..40_000).filter(|_| absent(questions.draw())).count();
        assert!((9_600..10_400).contains(&misses), "{misses} of 40 000 at 0.25");
    }

    #[test]
    fn answers_in_any_order_and_any_cut_are_matched() {
        let mut desk = Desk::new();
        let mut connection = connection(MISSES, 0, 3);
        (0..3).for_each(|i| connection.ask(100 + i, 200 + i));
        assert!(!connection.has_room());
        let stream: Vec<u8> = [2, 0, 1].iter().flat_map(|i| answer(OPAQUE_FIRST + i)).collect();
        let mut answers = 0;
        for byte in &stream {
            answers += connection.received(&[*byte], &mut desk.at(1_000)).unwrap();
        }
        assert_eq!((answers, connection.waiting()), (3, 0));
        assert_eq!((desk.answers(), desk.measured.errors.total()), (3, 0));
        assert_eq!(desk.measured.counts.miss_bytes, 3 * desk.miss_bytes as u64);
        assert_eq!(desk.times(Timing::Response), (3, 900));
        assert_eq!(desk.times(Timing::Service), (3, 800));
    }

    #[test]
    fn an_answer_to_another_connection_breaks_this_one() {
        let mut desk = Desk::new();
        let mut connection = connection(MISSES, 1, 1);
        connection.ask(100, 100);
        let broken = connection.received(&answer(OPAQUE_FIRST), &mut desk.at(200)).unwrap_err();
        assert!(broken.what.contains("nothing asked"), "{broken}");
    }

    #[test]
    fn a_timeout_is_recorded_once_and_its_late_answer_is_no_surprise() {
        let mut desk = Desk::new();
        let mut connection = connection(MISSES, 0, 1);
        connection.ask(100, 100);
        assert_eq!(connection.give_up_older(500, &mut desk.at(599)), Ok(0));
        assert_eq!(connection.give_up_older(500, &mut desk.at(600)), Ok(1));
        assert_eq!(connection.give_up_older(500, &mut desk.at(700)), Ok(0));
        assert!(connection.has_room());
        assert_eq!(connection.received(&answer(OPAQUE_FIRST), &mut desk.at(900)), Ok(1));
        assert_eq!(desk.times(Timing::Response), (1, 500));
        assert_eq!((desk.measured.errors.total(), desk.answers()), (1, 0));
    }

    #[test]
    fn what_is_lost_with_its_connection_is_an_error_each_with_the_time_out() {
        let mut desk = Desk::new();
        let mut connection = connection(MISSES, 0, 3);
        [100, 400, 500].into_iter().for_each(|at| connection.ask(at, at));
        assert_eq!(connection.give_up_older(500, &mut desk.at(600)), Ok(1));
        connection.lose(500, &mut desk.at(700));
        assert_eq!((connection.waiting(), desk.measured.errors.total()), (0, 3));
        assert_eq!(desk.measured.errors.by_kind()["lost"], 2);
        assert_eq!(desk.times(Timing::Response), (3, 500));
    }

    #[test]
    fn warm_up_is_not_recorded_but_its_errors_are() {
        let mut desk = Desk::new();
        let mut connection = connection(MISSES, 0, 2);
        connection.ask(99, 99);
        connection.ask(99, 99);
        let mut wrong = Vec::new();
        let header = format!("{{\"code\":2,\"flag\":1,\"opaque\":{}}}", OPAQUE_FIRST + 1);
        append_frame(&mut wrong, header.as_bytes(), b"");
        connection.received(&answer(OPAQUE_FIRST), &mut desk.at(200)).unwrap();
        connection.received(&wrong, &mut desk.at(200)).unwrap();
        assert_eq!(desk.times(Timing::Response), (0, 0));
        let warm_up = desk.measured.tape.slice(false);
        assert_eq!((warm_up.answers.total(), warm_up.errors.total()), (1, 1));
        assert_eq!(desk.measured.errors.by_kind()["code 2"], 1);
    }
}

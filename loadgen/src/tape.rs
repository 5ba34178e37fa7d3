//! How generator threads hand over what they see: each fills slices of its own, one a second, and
//! sends them away over a channel. No counter is shared while load is made.
//!
//! ```text
//!  thread:     Tape -- slice(counted).record(..) -- at(now) --+   Slice, full
//!                ^                                            v
//!                +------------- Slice, empty ---------- Collector -- seconds(), total(timing)
//! ```

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};

use hdrhistogram::Histogram;

use crate::measure::{Window, histogram};
use crate::record::{Phase, Second, Times};

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Seconds kept as histograms; older ones are packed. A thread that comes later than that is merged
/// all the same, only less cheaply.
const OPEN_SECONDS: u32 = 3;
/// Empty slices that a tape begins with: what it fills until the first ones come back.
const SPARE_SLICES: usize = 3;

/// What a time is of. Add one here, and every output has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timing {
    /// From the intended time to the answer. In a closed loop a query is meant for the moment it is
    /// sent.
    Response,
    /// From the actual sending to the answer.
    Service,
    /// How late the generator itself was.
    Lateness,
    /// From the acknowledgement of a registration to the first answer that shows it.
    Freshness,
    /// Connecting, with the TLS handshake if there is one.
    Connect,
    /// From the intended time of a registration, or of its undoing, to the answer.
    Registration,
    /// The same of version queries and heartbeats of brokers.
    Heartbeat,
    /// The same of the list of all brokers.
    Cluster,
    /// The same of the list of all topics.
    TopicList,
    /// Routes for exporters and dashboards, which ask for one after the other.
    AdminRoute,
    /// How late the generator was with what brokers, exporters and dashboards had planned.
    LatenessOfOthers,
}

impl Timing {
    /// All of them, in the order of their numbers.
    pub const ALL: [Timing; 11] = [
        Timing::Response,
        Timing::Service,
        Timing::Lateness,
        Timing::Freshness,
        Timing::Connect,
        Timing::Registration,
        Timing::Heartbeat,
        Timing::Cluster,
        Timing::TopicList,
        Timing::AdminRoute,
        Timing::LatenessOfOthers,
    ];

    /// What the queries of a run are timed by.
    pub const OF_QUERIES: [Timing; 3] = [Timing::Response, Timing::Service, Timing::Lateness];

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Timing::Response => "response",
            Timing::Service => "service",
            Timing::Lateness => "lateness",
            Timing::Freshness => "freshness",
            Timing::Connect => "connect",
            Timing::Registration => "registration",
            Timing::Heartbeat => "heartbeat",
            Timing::Cluster => "cluster",
            Timing::TopicList => "topic list",
            Timing::AdminRoute => "admin route",
            Timing::LatenessOfOthers => "lateness of others",
        }
    }
}

/// Counts by kind. There are few kinds: looking through them is cheaper than hashing.
#[derive(Debug, Clone, Default)]
pub struct Tally(Vec<(&'static str, u64)>);

impl Tally {
    /// Counts some of a kind.
    pub fn add(&mut self, kind: &'static str, count: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, sum)) => *sum += count,
            None => self.0.push((kind, count)),
        }
    }

    /// All kinds together.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// By kind.
    pub fn by_kind(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect()
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: &Tally) {
        other.0.iter().for_each(|(kind, count)| self.add(kind, *count));
    }
}

/// What one thread saw in one second, of queries that count or of those that do not.
#[derive(Debug, Default)]
pub struct Slice {
    second: u32,
    counted: bool,
    /// Right answers.
    pub answers: Tally,
    /// Whatever was not one.
    pub errors: Tally,
    times: [Option<Box<Histogram<u64>>>; Timing::ALL.len()],
    /// Where it goes when it is emptied.
    home: Option<Sender<Slice>>,
}

impl Slice {
    /// Makes room for these times, down to the pages: the first touch of a page takes the kernel
    /// long, and those of all seconds would make the generator late.
    fn make_room(&mut self, timings: &[Timing]) {
        for timing in timings {
            let mut times = Box::new(histogram());
            times.reset(); // writes all of it
            self.times[*timing as usize] = Some(times);
        }
    }

    /// Records a time.
    pub fn record(&mut self, timing: Timing, nanos: u64) {
        let place = self.times[timing as usize].get_or_insert_with(|| Box::new(histogram()));
        place.saturating_record(nanos);
    }

    /// The times recorded so far, if there are any.
    pub fn times(&self, timing: Timing) -> Option<&Histogram<u64>> {
        self.times[timing as usize].as_deref().filter(|times| !times.is_empty())
    }

    fn is_empty(&self) -> bool {
        self.answers.0.is_empty()
            && self.errors.0.is_empty()
            && Timing::ALL.iter().all(|timing| self.times(*timing).is_none())
    }

    fn clear(&mut self) {
        self.answers.0.clear();
        self.errors.0.clear();
        self.times.iter_mut().flatten().for_each(|times| times.reset());
    }

    fn merge(&mut self, other: &Slice) {
        self.answers.merge(&other.answers);
        self.errors.merge(&other.errors);
        for timing in Timing::ALL {
            if let Some(theirs) = other.times(timing) {
                add(&mut self.times[timing as usize], theirs);
            }
        }
    }

    /// As it is kept in a record.
    pub fn packed(&self, phase: Phase) -> Second {
        let times =
            |timing: Timing| Some((timing.name().to_owned(), Times::of(self.times(timing)?)));
        Second {
            second: self.second,
            phase,
            answers: self.answers.by_kind(),
            errors: self.errors.by_kind(),
            times: Timing::ALL.into_iter().filter_map(times).collect(),
        }
    }
}

fn add(mine: &mut Option<Box<Histogram<u64>>>, theirs: &Histogram<u64>) {
    let mine = mine.get_or_insert_with(|| Box::new(histogram()));
    mine.add(theirs).expect("all histograms have the same bounds");
}

/// Lives: one per generator thread. Shares: nothing; the channels are touched once a second.
pub struct Tape {
    second: u32,
    counted: Slice,
    uncounted: Slice,
    full: Sender<Slice>,
    home: Sender<Slice>,
    emptied: Receiver<Slice>,
}

impl Tape {
    /// Where to record what happens now. `counted`: the query was meant for the measured phase.
    pub fn slice(&mut self, counted: bool) -> &mut Slice {
        if counted { &mut self.counted } else { &mut self.uncounted }
    }

    /// Says what time it is, in ns since the start of the load. Call it at least once a second;
    /// what is recorded belongs to the second of the last call.
    pub fn at(&mut self, now_ns: u64) {
        let second = u32::try_from(now_ns / NANOS_PER_SECOND).unwrap_or(u32::MAX);
        if second > self.second {
            self.hand_over();
            self.second = second;
        }
    }

    fn hand_over(&mut self) {
        for counted in [true, false] {
            if self.slice(counted).is_empty() {
                continue;
            }
            let mut next = self.emptied.try_recv().unwrap_or_default();
            next.home = Some(self.home.clone());
            let mut full = std::mem::replace(self.slice(counted), next);
            (full.second, full.counted) = (self.second, counted);
            // Nobody listens any more when a run was given up.
            let _ = self.full.send(full);
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Lives: one per run, on the thread that looks on.
pub struct Collector {
    sender: Sender<Slice>,
    slices: Receiver<Slice>,
    /// By second, and whether it counts.
    open: BTreeMap<(u32, bool), Slice>,
    packed: BTreeMap<(u32, bool), Second>,
    totals: Slice,
    newest: u32,
    errors: u64,
    /// What counts: tells warm-up from cool-down.
    window: Window,
}

impl Collector {
    /// For a run whose measured phase this is.
    pub fn new(window: Window) -> Self {
        let (sender, slices) = mpsc::channel();
        Self {
            sender,
            slices,
            open: BTreeMap::new(),
            packed: BTreeMap::new(),
            totals: Slice::default(),
            newest: 0,
            errors: 0,
            window,
        }
    }

    /// A tape for one thread, which mostly records these times.
    pub fn tape(&self, timings: &[Timing]) -> Tape {
        let (home, emptied) = mpsc::channel();
        let slice = || {
            let mut slice = Slice { home: Some(home.clone()), ..Slice::default() };
            slice.make_room(timings);
            slice
        };
        for _ in 0..SPARE_SLICES {
            home.send(slice()).expect("the other end is here");
        }
        Tape {
            second: 0,
            counted: slice(),
            uncounted: slice(),
            full: self.sender.clone(),
            home: home.clone(),
            emptied,
        }
    }

    /// Takes what was handed over, without waiting. Call it about once a second.
    pub fn drain(&mut self) {
        while let Ok(mut slice) = self.slices.try_recv() {
            let key = (slice.second, slice.counted);
            self.newest = self.newest.max(slice.second);
            self.errors += slice.errors.total();
            if slice.counted {
                self.totals.merge(&slice);
            }
            let empty = || Slice { second: key.0, counted: key.1, ..Slice::default() };
            self.open.entry(key).or_insert_with(empty).merge(&slice);
            slice.clear();
            if let Some(home) = slice.home.take() {
                let _ = home.send(slice); // a thread that ended needs no slice
            }
        }
        self.pack_before(self.newest.saturating_sub(OPEN_SECONDS));
    }

    fn pack_before(&mut self, second: u32) {
        let young = self.open.split_off(&(second, false));
        for (key, slice) in std::mem::replace(&mut self.open, young) {
            let phase = self.phase(&slice);
            let second = match self.packed.remove(&key) {
                None => slice.packed(phase),
                Some(earlier) => merged(earlier, &slice, phase),
            };
            self.packed.insert(key, second);
        }
    }

    fn phase(&self, slice: &Slice) -> Phase {
        let begin_ns = u64::from(slice.second) * NANOS_PER_SECOND;
        let begins_early = begin_ns < self.window.begin_ns;
        // An answer that comes while the window is open, and does not count, is a late one of the
        // warm-up.
        let ends_inside = begin_ns + NANOS_PER_SECOND <= self.window.end_ns;
        if slice.counted {
            Phase::Measured
        } else if begins_early || ends_inside {
            Phase::WarmUp
        } else {
            Phase::CoolDown
        }
    }

    /// The sum of what counts, of all that was drained.
    pub fn totals(&self) -> &Slice {
        &self.totals
    }

    /// All errors that were drained, whether their queries count or not.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// The last second that was handed over: what counts of it, else what does not. For a person
    /// who looks on.
    pub fn latest(&self) -> Option<&Slice> {
        self.open.values().next_back()
    }

    /// All seconds in order. Drop the tapes first: they hand over their last second then.
    pub fn seconds(mut self) -> Vec<Second> {
        self.drain();
        self.pack_before(u32::MAX);
        self.packed.into_values().collect()
    }
}

/// A second that was packed already, with what came late.
fn merged(earlier: Second, late: &Slice, phase: Phase) -> Second {
    let mut sum = late.packed(phase);
    for (kind, count) in earlier.answers {
        *sum.answers.entry(kind).or_default() += count;
    }
    for (kind, count) in earlier.errors {
        *sum.errors.entry(kind).or_default() += count;
    }
    for (timing, times) in earlier.times {
        let mut histogram = times.histogram().expect("we packed it ourselves");
        if let Some(late) = sum.times.get(&timing) {
            let late = late.histogram().expect("we packed it ourselves");
            histogram.add(late).expect("all histograms have the same bounds");
        }
        sum.times.insert(timing, Times::of(&histogram));
    }
    sum
}

/// Base64 with padding, as `.hlog` files have it.
pub mod base64 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    /// Bytes as text.
    pub fn encode(bytes: &[u8]) -> String {
        STANDARD.encode(bytes)
    }

    /// Text as bytes; `None` when it is not base64.
    pub fn decode(text: &str) -> Option<Vec<u8>> {
        STANDARD.decode(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = NANOS_PER_SECOND;

    fn window(begin_ns: u64, end_ns: u64) -> Window {
        Window { begin_ns, end_ns }
    }

    #[test]
    fn the_seconds_of_all_threads_add_up_to_the_total() {
        let mut collector = Collector::new(window(SECOND, 20 * SECOND));
        let mut tapes = [collector.tape(&[]), collector.tape(&[])];
        for second in 0..20 {
            for (number, tape) in tapes.iter_mut().enumerate() {
                tape.at(second * SECOND + 5);
                let slice = tape.slice(second > 0);
                slice.answers.add("hit", 10);
                slice.record(Timing::Response, (second + 1) * 1000 + number as u64);
            }
            collector.drain();
        }
        drop(tapes);
        collector.drain();
        let total = collector.totals().times(Timing::Response).unwrap().clone();
        assert_eq!((total.len(), collector.totals().answers.total()), (38, 380));
        let seconds = collector.seconds();
        assert_eq!(seconds.len(), 20);
        assert_eq!((seconds[0].phase, seconds[1].phase), (Phase::WarmUp, Phase::Measured));
        let mut sum = histogram();
        for second in &seconds[1..] {
            assert_eq!(second.answers["hit"], 20);
            sum.add(second.times["response"].histogram().unwrap()).unwrap();
        }
        assert_eq!(sum, total);
    }

    #[test]
    fn a_thread_that_is_late_by_many_seconds_loses_nothing() {
        let mut collector = Collector::new(window(0, 20 * SECOND));
        let (mut early, mut late) = (collector.tape(&[]), collector.tape(&[]));
        late.slice(true).record(Timing::Service, 7_000);
        late.slice(true).errors.add("time-out", 1);
        for second in 0..10 {
            early.at(second * SECOND);
            early.slice(true).record(Timing::Service, 5_000);
            collector.drain();
        }
        late.at(10 * SECOND);
        drop((early, late));
        let seconds = collector.seconds();
        assert_eq!(seconds[0].times["service"].percentiles.count, 2);
        assert_eq!(seconds[0].errors["time-out"], 1);
        assert_eq!(seconds[9].times["service"].percentiles.count, 1);
    }

    #[test]
    fn slices_go_round_instead_of_being_made_anew() {
        let mut collector = Collector::new(window(0, 20 * SECOND));
        let mut tape = collector.tape(&[]);
        let spares = SPARE_SLICES as u64;
        for second in 0..=spares {
            tape.at(second * SECOND);
            tape.slice(true).record(Timing::Lateness, 1);
            collector.drain();
        }
        tape.at((spares + 1) * SECOND);
        // The slice now in use is one that came back: its histogram is there, and empty.
        assert!(tape.counted.times[Timing::Lateness as usize].is_some());
        assert!(tape.counted.times(Timing::Lateness).is_none());
    }

    #[test]
    fn slices_have_room_before_the_first_of_them_comes_back() {
        let collector = Collector::new(window(0, 20 * SECOND));
        let mut tape = collector.tape(&[Timing::Service]);
        for second in 0..=SPARE_SLICES as u64 {
            tape.at(second * SECOND);
            assert!(tape.counted.times[Timing::Service as usize].is_some(), "second {second}");
            tape.slice(true).record(Timing::Service, 1);
        }
    }

    #[test]
    fn what_does_not_count_is_warm_up_until_the_window_ends_and_cool_down_after_it() {
        let collector = Collector::new(window(SECOND / 2, 2 * SECOND));
        let mut tape = collector.tape(&[]);
        for second in 0..3 {
            tape.at(second * SECOND);
            tape.slice(false).answers.add("hit", 1);
        }
        drop(tape);
        let phases: Vec<Phase> = collector.seconds().iter().map(|s| s.phase).collect();
        assert_eq!(phases, [Phase::WarmUp, Phase::WarmUp, Phase::CoolDown]);
    }
}

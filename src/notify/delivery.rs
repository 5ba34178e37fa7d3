//! The loop that brings notices to brokers: one thread, one poll over all connections.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crossbeam::channel::Receiver;
use mio::{Events, Poll, Token, Waker};
use tracing::{debug, error, warn};

use crate::clock::{Clock, Tick};
use crate::complaints::Complaints;
use crate::ids::{BrokerAddr, Opaque};
use crate::limits::{NOTICE_TARGETS_MAX, NOTICE_TIMEOUT_MS};
use crate::model::Notice;
use crate::wire::code::request::NOTIFY_MIN_BROKER_ID_CHANGE;
use crate::wire::{HeaderKind, OWN_VERSION, Request};

use super::NoticeCounters;
use super::names::Names;
use super::target::{Place, Target};

/// The waker's token. Targets count from 1, and none gets a number twice, so that a late event or
/// look-up finds nobody rather than somebody else.
const WAKER: Token = Token(0);
/// Flag of a request that wants no answer.
const ONE_WAY: i32 = 2;
/// Milliseconds between two lines about notices that were not sent.
const COMPLAINT_PAUSE_MS: u64 = 10_000;

/// Lives: in the delivery thread.
#[derive(Debug)]
pub(super) struct Delivery {
    notices: Receiver<Notice>,
    /// The notice taken out last, for those of its brokers that nobody is sending to yet.
    waiting: VecDeque<(BrokerAddr, Bytes)>,
    /// Brokers being told, by token: at most `NOTICE_TARGETS_MAX`.
    targets: HashMap<usize, Target>,
    last_token: usize,
    last_opaque: i32,
    poll: Poll,
    waker: Arc<Waker>,
    names: Names,
    kind: HeaderKind,
    clock: Clock,
    counters: Arc<NoticeCounters>,
    complaints: Complaints,
    /// Notices that were lost when the last complaint was written.
    complained: u64,
}

impl Delivery {
    pub fn new(
        notices: Receiver<Notice>,
        counters: Arc<NoticeCounters>,
        kind: HeaderKind,
        clock: Clock,
    ) -> io::Result<Delivery> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Delivery {
            notices,
            waiting: VecDeque::new(),
            targets: HashMap::new(),
            last_token: 0,
            last_opaque: 0,
            names: Names::start(&waker)?,
            poll,
            waker,
            kind,
            clock,
            counters,
            complaints: Complaints::new(1, COMPLAINT_PAUSE_MS),
            complained: 0,
        })
    }

    /// Wakes the loop: there are notices, or it should stop.
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Works until told to stop, and woken.
    pub fn run(mut self, stop: &AtomicBool) {
        let mut events = Events::with_capacity(NOTICE_TARGETS_MAX);
        // Acquire pairs with the release of whoever asks to stop.
        while !stop.load(Ordering::Acquire) {
            if let Err(error) = self.turn(&mut events) {
                error!(%error, "brokers are told nothing any more: waiting for events failed");
                return;
            }
        }
    }

    /// Starts what there is room for, then waits for something to happen and deals with it.
    pub fn turn(&mut self, events: &mut Events) -> io::Result<()> {
        self.begin();
        match self.poll.poll(events, self.patience()) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &*events {
            self.advance(event.token().0);
        }
        while let Some((token, found)) = self.names.poll() {
            self.found(token, found);
        }
        let now = self.clock.now();
        self.give_up(now);
        self.complain(now);
        Ok(())
    }

    /// Time to the next deadline.
    fn patience(&self) -> Option<Duration> {
        let next = self.targets.values().map(|target| target.deadline).min()?;
        Some(Duration::from_millis(next.since_ms(self.clock.now())))
    }

    /// Takes notices while all brokers of the one before are at least being reached.
    fn begin(&mut self) {
        loop {
            while let Some((addr, frame)) = self.waiting.pop_front() {
                if let Some(target) = self.targets.values_mut().find(|other| other.addr == addr) {
                    if !target.push(&frame) {
                        self.counters.failed.add(1);
                    }
                } else if self.targets.len() < NOTICE_TARGETS_MAX {
                    self.start(addr, &frame);
                } else {
                    return self.waiting.push_front((addr, frame));
                }
            }
            let Ok(notice) = self.notices.try_recv() else {
                return;
            };
            let frame = self.encode(&notice);
            self.waiting.extend(notice.targets.into_iter().map(|addr| (addr, frame.clone())));
        }
    }

    /// The frame, the same for all targets (Java reuses one command, too).
    fn encode(&mut self, notice: &Notice) -> Bytes {
        self.last_opaque = self.last_opaque.wrapping_add(1);
        let min_id = notice.min_id.0.to_string();
        let ha = notice.ha.as_ref().map(|ha| ("haBrokerAddr", ha.as_str()));
        let offline = notice.offline.as_ref().map(|addr| ("offlineBrokerAddr", &**addr));
        let min = [("minBrokerAddr", &*notice.min_addr), ("minBrokerId", min_id.as_str())];
        let ext: Vec<(&str, &str)> = ha.into_iter().chain(offline).chain(min).collect();
        let request = Request {
            code: NOTIFY_MIN_BROKER_ID_CHANGE,
            opaque: Opaque(self.last_opaque),
            flag: ONE_WAY,
            version: OWN_VERSION,
            ext: &ext,
            body: &[],
        };
        let mut out = Vec::new();
        request.encode(self.kind, &mut out);
        out.into()
    }

    fn start(&mut self, addr: BrokerAddr, frame: &[u8]) {
        self.last_token += 1;
        let token = self.last_token;
        let deadline = self.clock.now().after_ms(NOTICE_TIMEOUT_MS);
        let mut target = Target::new(addr, token, deadline);
        // Nothing is encoded of a notice whose addresses do not fit a header.
        let fits = !frame.is_empty() && target.push(frame);
        let begun = match Place::parse(&target.addr) {
            _ if !fits => Err(io::Error::other("the notice is too large")),
            Err(error) => Err(error),
            Ok(Place::Known(addr)) => target.connect(self.poll.registry(), vec![addr]),
            Ok(Place::Named { host, port }) => self.names.ask(token, host, port),
        };
        self.targets.insert(token, target);
        if let Err(error) = begun {
            self.fail(token, &error);
        }
    }

    /// Deals with an event of the target with this token, if it is there still.
    fn advance(&mut self, token: usize) {
        let Some(target) = self.targets.get_mut(&token) else {
            return;
        };
        match target.advance(self.poll.registry()) {
            Ok(false) => {}
            Ok(true) => {
                self.counters.sent.add(target.notices);
                self.targets.remove(&token);
            }
            Err(error) => self.fail(token, &error),
        }
    }

    fn found(&mut self, token: usize, found: io::Result<Vec<SocketAddr>>) {
        let Some(target) = self.targets.get_mut(&token) else {
            return;
        };
        let begun = found.and_then(|addrs| target.connect(self.poll.registry(), addrs));
        if let Err(error) = begun {
            self.fail(token, &error);
        }
    }

    /// Gives up the targets whose time is up.
    pub fn give_up(&mut self, now: Tick) {
        let overdue = self.targets.iter().filter(|(_, target)| target.deadline <= now);
        let overdue: Vec<usize> = overdue.map(|(token, _)| *token).collect();
        for token in overdue {
            self.fail(token, &ErrorKind::TimedOut.into());
        }
    }

    fn fail(&mut self, token: usize, error: &io::Error) {
        if let Some(target) = self.targets.remove(&token) {
            self.counters.failed.add(target.notices.max(1));
            debug!(addr = %target.addr, %error, "a broker was not told of a new smallest id");
        }
    }

    /// Says now and then how many notices were lost.
    fn complain(&mut self, now: Tick) {
        let (failed, dropped) = (self.counters.failed.get(), self.counters.dropped.get());
        let lost = failed + dropped;
        if lost == self.complained || self.complaints.may_write(now).is_none() {
            return;
        }
        self.complained = lost;
        warn!(failed, dropped, "since the start, notices of a new smallest id that were not sent");
    }
}

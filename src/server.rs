//! Puts everything together: files, writer, shards, signals; and takes it apart again.

mod kv_file;
mod report;
mod serving;
mod warm_start;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use crossbeam::utils::CachePadded;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::config::Config;
use crate::fatal::{Exit, Fatal};
use crate::handler::Desk;
use crate::ids::ShardId;
use crate::kv::KvTable;
use crate::limits::{CONNECTIONS_PER_SHARD_MAX, OUTPUT_BYTES_MAX, PARTIAL_FRAMES_BYTES_MAX};
use crate::metrics::{self, ShardCounters};
use crate::notify::{NoticeCounters, Notifier};
use crate::publish::{Publisher, Readers, View};
use crate::ring::Doorbell;
use crate::route::Restored;
use crate::shard::access::Access;
use crate::shard::mail::{self, Mail, PostBox};
use crate::shard::shutdown::{StopSignal, StopSwitch};
use crate::shard::topology::{self, CorePlan};
use crate::shard::{self, Shard, ShardOptions, accept};
use crate::store::{Pace, StoreThread, Wake};
use crate::tls::{self, Tls};
use crate::writer::lane::{self, LaneSender};
use crate::writer::{Durable, DurableFiles, SnapshotFile, Writer, WriterParts};
use crate::{logging, preflight, ring};

use serving::Serving;

/// How long a stop may take to send what is owed, unless configured.
const DRAIN_MS: u64 = 5_000;
/// When the KV table and the counters are first logged, and how often after that (Java:
/// `NamesrvController`).
const FIRST_PRINT: Duration = Duration::from_secs(60);
const PRINT_PERIOD: Duration = Duration::from_secs(600);

/// Runs until told to stop.
///
/// # Errors
/// What keeps the server from starting, or what ended it.
pub fn run(config: Config) -> Result<(), Fatal> {
    let wanted = Some(config.shards).filter(|shards| *shards > 0);
    let plan = topology::plan(wanted);
    let ready = preflight::check(&config, plan.shards.len(), ring::probe)?;
    let kv = kv_file::load(&config.kv_config_path)?;
    let restored = warm_start::load(config.route_snapshot.as_deref());
    let (tls, _watcher) = secure(&config)?;
    let listeners = accept::bind(ready.address, plan.shards.len())
        .map_err(|error| preflight::explain_bind(ready.address, &error))?;
    let address = listeners[0].local_addr().map_err(internal("read the listening address"))?;
    let (events, happened) = unbounded();
    forward_signals(events.clone())?;
    let tables = Tables { kv, restored };
    let running =
        Running::start(&config, ready.max_connections, &plan, tables, listeners, tls, &events)?;
    let running = running.wait_until_ready(&happened)?;
    for (key, value) in config.items() {
        info!("{key}={value}");
    }
    logging::banner(config.settings.header_kind, address);
    info!(%address, shards = plan.shards.len(), "serving");
    running.serve(&happened)
}

/// What the main thread waits for.
#[derive(Debug)]
enum Event {
    Signal(i32),
    /// A shard serves.
    Ready,
    /// A thread ended; with its name.
    Ended(String),
}

fn internal<E: std::fmt::Display>(doing: &str) -> impl FnOnce(E) -> Fatal {
    move |error| Fatal::new(Exit::Internal, format!("could not {doing}: {error}"))
}

/// HUP never ends the server: it may have been started with `nohup`.
fn forward_signals(events: Sender<Event>) -> Result<(), Fatal> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1])
        .map_err(internal("take over the signals"))?;
    let forward = move || {
        for signal in signals.forever() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("signals".into()).spawn(forward);
    thread.map(drop).map_err(internal("start the signal thread"))
}

/// TLS as configured, and who replaces its files while the server runs.
fn secure(config: &Config) -> Result<(Tls, tls::Watcher), Fatal> {
    let tls = Tls::load(&config.tls).map_err(|why| {
        let cure = "correct that, or set tls.server.mode=disabled to serve without TLS";
        Fatal::new(Exit::Config, format!("TLS cannot be served: {why}; {cure}"))
    })?;
    let source = config.tls_source.clone();
    let watcher = tls::watch(tls.clone(), &config.tls, move || source.read());
    Ok((tls, watcher.map_err(internal("start the TLS watcher"))?))
}

/// What was read from files.
struct Tables {
    kv: KvTable,
    restored: Restored,
}

type Counters = Arc<CachePadded<ShardCounters>>;
type WriterThread = JoinHandle<io::Result<()>>;

/// A server that serves.
struct Running {
    shards: Vec<(String, JoinHandle<io::Result<()>>)>,
    writer: WriterThread,
    leaving: Arc<AtomicBool>,
    stop_shards: StopSwitch,
    stop_writer: Arc<AtomicBool>,
    writer_bell: Doorbell,
    counters: Vec<Counters>,
    notices: Arc<NoticeCounters>,
    readers: Readers,
}

impl Running {
    fn start(
        config: &Config,
        max_connections: usize,
        plan: &CorePlan,
        tables: Tables,
        listeners: Vec<TcpListener>,
        tls: Tls,
        events: &Sender<Event>,
    ) -> Result<Running, Fatal> {
        let clock = Clock::start();
        let count = plan.shards.len();
        let writer_bell = Doorbell::new().map_err(internal("make the writer's doorbell"))?;
        let ring_writer = ringer(&writer_bell);
        let (senders, lanes) = lane::lanes(count, Arc::clone(&ring_writer));
        // Started here, where nothing is pinned yet.
        let (files, snapshot) = files(config, &ring_writer)?;
        let notifier = Notifier::start(config.settings.header_kind, clock)
            .map_err(internal("start the thread for notices"))?;
        let notices = notifier.counters();
        let posts: Result<Vec<(PostBox, Mail)>, io::Error> =
            (0..count).map(|_| mail::post()).collect();
        let (posts, mails): (Vec<PostBox>, Vec<Mail>) =
            posts.map_err(internal("make the shards' doorbells"))?.into_iter().unzip();
        let settings = Arc::new(config.settings.clone());
        let Tables { kv, restored } = tables;
        let routes = restored.table.freeze();
        let first =
            View { routes, kv: kv.view(), settings: Arc::clone(&settings), ..View::default() };
        let (publisher, readers) = Publisher::new(first);
        let stop_writer = Arc::new(AtomicBool::new(false));
        let leaving = Arc::new(AtomicBool::new(false));
        let stop_shards = StopSwitch::new(posts.iter().map(|post| post.doorbell().clone()));
        let writer = Writer::new(WriterParts {
            lanes,
            posts,
            bell: writer_bell.clone(),
            publisher,
            durable: Durable::new(kv, settings, files),
            restored,
            snapshot,
            notifier,
            clock,
            leaving: Arc::clone(&leaving),
            stop: Arc::clone(&stop_writer),
        });
        let counters: Vec<Counters> = (0..count).map(|_| Arc::default()).collect();
        let shared =
            Shared { config, readers: &readers, tls, events, clock, max_connections, count };
        let ends = listeners.into_iter().zip(senders).zip(mails).zip(&counters);
        let mut shards = Vec::with_capacity(count);
        for (index, (((listener, lane), mail), counters)) in ends.enumerate() {
            let signal = stop_shards.signal();
            let shard = shared.shard(index, listener, lane, mail, Arc::clone(counters), signal)?;
            let handle = shard::run_on_core(shard, plan.shards[index]);
            shards.push((shard_name(index), handle.map_err(internal("start a shard"))?));
        }
        let writer = run_writer(writer, plan.writer, ended("writer", events))
            .map_err(internal("start the writer"))?;
        Ok(Running {
            shards,
            writer,
            leaving,
            stop_shards,
            stop_writer,
            writer_bell,
            counters,
            notices,
            readers,
        })
    }

    /// Waits until every shard has its ring and accepts. What fails before that is the system's
    /// refusal.
    fn wait_until_ready(self, happened: &Receiver<Event>) -> Result<Running, Fatal> {
        let mut waiting = self.shards.len();
        while waiting > 0 {
            match happened.recv() {
                Ok(Event::Ready) => waiting -= 1,
                Ok(Event::Signal(SIGTERM | SIGINT)) => {
                    self.stop(happened)?;
                    return Err(Fatal::new(Exit::Generic, "stopped before it served".to_owned()));
                }
                Ok(Event::Signal(_)) => logging::reopen(),
                Ok(Event::Ended(name)) => {
                    return Err(Fatal::new(Exit::Os, self.failed(&name).message));
                }
                Err(error) => return Err(internal("start the shards")(error)),
            }
        }
        Ok(self)
    }

    /// Waits for signals, printing now and then, and for the end.
    fn serve(self, happened: &Receiver<Event>) -> Result<(), Fatal> {
        let mut wait = FIRST_PRINT;
        loop {
            match happened.recv_timeout(wait) {
                Ok(Event::Signal(SIGTERM | SIGINT)) => return self.stop(happened),
                Ok(Event::Signal(_)) => logging::reopen(),
                Ok(Event::Ready) => {}
                Ok(Event::Ended(name)) => return Err(self.failed(&name)),
                Err(RecvTimeoutError::Timeout) => {
                    self.print();
                    wait = PRINT_PERIOD;
                }
                Err(RecvTimeoutError::Disconnected) => return self.stop(happened),
            }
        }
    }

    /// The periodic report: counters, and the KV table as the Java server prints it.
    fn print(&self) {
        let sum = metrics::snapshot(&self.counters);
        info!("counters since the start: {sum:?}");
        let NoticeCounters { sent, failed, dropped } = &*self.notices;
        let (sent, failed, dropped) = (sent.get(), failed.get(), dropped.get());
        info!(sent, failed, dropped, "notices to brokers since the start");
        info!(dropped = logging::lines_dropped(), "log lines that found no room since the start");
        // A reader of its own each time: one that is kept would keep an old view alive.
        self.readers.reader().with(|view| {
            let (topics, groups) = (view.routes.topic_count(), view.routes.group_count());
            info!(topics, groups, generation = view.generation.0, "tables");
            report::kv_lines(&view.kv).for_each(|line| info!("{line}"));
        });
    }

    /// The orderly end: shards send what is owed, then the writer finishes. A second signal ends
    /// the wait.
    fn stop(self, happened: &Receiver<Event>) -> Result<(), Fatal> {
        info!("stopping: no more connections, answers that are owed are sent");
        // Release: see `WriterParts::leaving`.
        self.leaving.store(true, Ordering::Release);
        self.stop_shards.drain();
        let mut left = self.shards.len();
        let mut writer_ended = false;
        while left > 0 && !writer_ended {
            match happened.recv() {
                Ok(Event::Ended(name)) if name != "writer" => left -= 1,
                Ok(Event::Ended(_)) | Err(_) => writer_ended = true,
                Ok(Event::Ready) => {}
                Ok(Event::Signal(SIGTERM | SIGINT)) => {
                    warn!("stopping now: a second signal");
                    self.stop_shards.end();
                }
                Ok(Event::Signal(_)) => logging::reopen(),
            }
        }
        // Release: whatever the shards sent is in the lanes when the writer sees the flag.
        self.stop_writer.store(true, Ordering::Release);
        self.writer_bell.ring();
        while !writer_ended {
            match happened.recv() {
                Ok(Event::Signal(SIGTERM | SIGINT)) => {
                    let message = "a signal ended the wait for the disk: what was not \
                                   acknowledged may be lost";
                    return Err(Fatal::new(Exit::Generic, message.to_owned()));
                }
                Ok(Event::Ended(name)) => writer_ended = name == "writer",
                Ok(Event::Ready) => {}
                Ok(Event::Signal(_)) => logging::reopen(),
                Err(_) => writer_ended = true,
            }
        }
        let mut results = vec![("writer".to_owned(), self.writer.join())];
        let shards = self.shards.into_iter().map(|(name, handle)| (name, handle.join()));
        results.extend(shards);
        for (name, result) in results {
            explain(&name, result)?;
        }
        info!("stopped");
        Ok(())
    }

    /// A thread that ends by itself takes the server with it: half a server would be worse than
    /// none.
    fn failed(self, name: &str) -> Fatal {
        self.stop_shards.end();
        let handle = if name == "writer" {
            self.writer
        } else {
            let found = self.shards.into_iter().find(|(shard, _)| shard == name);
            found.expect("threads are known by name").1
        };
        let fatal = explain(name, handle.join()).err();
        fatal.unwrap_or_else(|| {
            Fatal::new(Exit::Internal, format!("{name} ended without being asked to"))
        })
    }
}

/// The files that the writer keeps, with the threads that write them.
fn files(
    config: &Config,
    ring_writer: &Wake,
) -> Result<(DurableFiles, Option<SnapshotFile>), Fatal> {
    let start = |pace| {
        let thread = StoreThread::start(pace, Arc::clone(ring_writer));
        thread.map_err(internal("start a store thread"))
    };
    let durable = DurableFiles {
        kv: config.kv_config_path.clone(),
        settings: config.config_store_path.clone(),
        store: start(Pace::Prompt)?,
    };
    let snapshot = match config.route_snapshot.clone() {
        None => None,
        Some(path) => Some(SnapshotFile { path, store: start(Pace::Patient)? }),
    };
    Ok((durable, snapshot))
}

fn shard_name(index: usize) -> String {
    format!("shard-{index}")
}

/// What all shards are made from.
struct Shared<'a> {
    config: &'a Config,
    readers: &'a Readers,
    tls: Tls,
    events: &'a Sender<Event>,
    clock: Clock,
    max_connections: usize,
    count: usize,
}

impl Shared<'_> {
    fn shard(
        &self,
        index: usize,
        listener: TcpListener,
        lane: LaneSender,
        mail: Mail,
        counters: Counters,
        stop: StopSignal,
    ) -> Result<Shard<Serving>, Fatal> {
        let serving = self.serving(&shard_name(index), lane, Arc::clone(&counters));
        let options = self.options(index, listener, counters)?;
        Ok(Shard::with_service(options, serving, mail, stop))
    }

    fn options(
        &self,
        index: usize,
        listener: TcpListener,
        counters: Counters,
    ) -> Result<ShardOptions, Fatal> {
        let share = u32::try_from(self.max_connections / self.count).unwrap_or(u32::MAX);
        Ok(ShardOptions {
            shard: ShardId(u16::try_from(index).map_err(internal("number the shards"))?),
            listener,
            connections_max: share.clamp(1, CONNECTIONS_PER_SHARD_MAX),
            idle_s: self.config.idle_timeout_ms.map_or(0, seconds),
            drain_ms: self.config.stop_ms.unwrap_or(DRAIN_MS),
            access: Access {
                proxies: self.config.proxy_protocol_from.clone(),
                brokers: self.config.broker_from.clone(),
                admins: self.config.admin_from.clone(),
            },
            tls: self.tls.clone(),
            counters,
            clock: self.clock,
            partial_frames_bytes_max: PARTIAL_FRAMES_BYTES_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
            on_ready: self.on_ready(),
        })
    }

    fn on_ready(&self) -> Box<dyn FnOnce() + Send> {
        let events = self.events.clone();
        Box::new(move || {
            // Nobody listens any more if the start was given up.
            let _ = events.send(Event::Ready);
        })
    }

    fn serving(
        &self,
        name: &str,
        lane: LaneSender,
        counters: Arc<CachePadded<ShardCounters>>,
    ) -> Serving {
        let header_kind = self.config.settings.header_kind;
        Serving {
            reader: self.readers.reader(),
            desk: Desk::new(lane, header_kind, counters, self.clock),
            _end: ended(name, self.events),
        }
    }
}

/// Starts the writer's thread on its core.
fn run_writer(writer: Writer, core: usize, end: EndNote) -> io::Result<WriterThread> {
    thread::Builder::new().name("writer".into()).spawn(move || {
        let _end = end;
        topology::executor_on("writer", core)?.run(async { writer.run() });
        Ok(())
    })
}

fn explain(name: &str, result: thread::Result<io::Result<()>>) -> Result<(), Fatal> {
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Fatal::new(Exit::Internal, format!("{name} failed: {error}"))),
        Err(_) => {
            error!("{name} panicked; see standard error");
            Err(Fatal::new(Exit::Internal, format!("{name} panicked: this is a bug")))
        }
    }
}

fn seconds(ms: u64) -> u32 {
    u32::try_from(ms.div_ceil(1000)).unwrap_or(u32::MAX)
}

fn ringer(bell: &Doorbell) -> Arc<dyn Fn() + Send + Sync> {
    let bell = bell.clone();
    Arc::new(move || bell.ring())
}

/// Reports the end of a thread, also by panic.
fn ended(name: &str, events: &Sender<Event>) -> EndNote {
    EndNote { name: name.to_owned(), events: events.clone() }
}

/// Dropped by the thread that it belongs to: the writer's as its last act, a shard's before its
/// ring is taken down, which may take a moment longer.
struct EndNote {
    name: String,
    events: Sender<Event>,
}

impl Drop for EndNote {
    fn drop(&mut self) {
        // Nobody listens any more once the server is down.
        let _ = self.events.send(Event::Ended(std::mem::take(&mut self.name)));
    }
}

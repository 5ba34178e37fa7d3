//! What we assume of glommio, of the kernel and of the ring, pinned so that an upgrade that breaks
//! it is noticed.
//!
//! Method: real executors, real sockets on the loopback. Each test names its assumption.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam::utils::CachePadded;
use glommio::{LocalExecutor, LocalExecutorBuilder};
use guidepost::clock::Clock;
use guidepost::ids::{ConnKey, ShardId};
use guidepost::metrics::{ShardCounters, Snapshot, snapshot};
use guidepost::ring::Doorbell;
use guidepost::shard::access::Access;
use guidepost::shard::service::{Requests, Served, Service};
use guidepost::shard::shutdown::StopSwitch;
use guidepost::shard::{Shard, ShardOptions, accept, mail, run_on_core};
use guidepost::wire::WireError;
use guidepost::wire::code::Rights;
use guidepost::wire::frame::FrameHead;
use guidepost::writer::request::WriteAnswer;

fn executor() -> LocalExecutor {
    LocalExecutorBuilder::default().io_memory(64 << 10).ring_depth(32).make().unwrap()
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Descriptors that glommio 0.9 leaves open when an executor ends.
const LEFT_BY_EXECUTOR: usize = 2;

/// One test at a time: they count what the whole process has open, and measure time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_ring_from_another_thread_ends_a_sleep_within_20_ms() {
    let _alone = alone();
    const ROUNDS: usize = 50;
    let bell = Doorbell::new().unwrap();
    let (told, tell) = channel();
    let ringer = {
        let bell = bell.clone();
        thread::spawn(move || {
            let mut delays = Vec::new();
            for _ in 0..ROUNDS {
                // Long enough for the sleeper to be in the kernel.
                thread::sleep(Duration::from_millis(10));
                let rung = Instant::now();
                bell.ring();
                let woken: Instant = tell.recv().unwrap();
                delays.push(woken - rung);
            }
            delays
        })
    };
    executor().run(async move {
        for _ in 0..ROUNDS {
            bell.sleep(None);
            told.send(Instant::now()).unwrap();
        }
    });
    let mut delays = ringer.join().unwrap();
    delays.sort_unstable();
    // The median: on a busy host a single wake may be late through no fault of the bell.
    assert!(delays[ROUNDS / 2] < Duration::from_millis(20), "{delays:?}");
}

#[test]
fn an_executor_that_ends_leaves_few_descriptors_open() {
    let _alone = alone();
    // Executors are made once a core, so a few each are no harm.
    let before = open_files();
    for _ in 0..100 {
        let bell = Doorbell::new().unwrap();
        executor().run(async move { bell.sleep(Some(Duration::from_micros(10))) });
    }
    let after = open_files();
    assert!(after <= before + 100 * LEFT_BY_EXECUTOR, "{before} before, {after} after");
}

#[test]
fn a_timed_sleep_ends_after_its_time_and_not_much_later() {
    let _alone = alone();
    let bell = Doorbell::new().unwrap();
    let mut late = Vec::new();
    for _ in 0..20 {
        let began = Instant::now();
        bell.sleep(Some(Duration::from_millis(5)));
        late.push(began.elapsed());
    }
    late.sort_unstable();
    assert!(late[0] >= Duration::from_millis(5), "{late:?}");
    assert!(late[10] < Duration::from_millis(25), "{late:?}");
}

struct Echo;

impl Service for Echo {
    fn batch<T>(&mut self, work: impl FnOnce(&mut dyn Requests) -> T) -> T {
        work(self)
    }

    fn answer(&mut self, _answer: WriteAnswer, _out: &mut Vec<u8>) {}

    fn lost(&mut self, _answer: WriteAnswer) {}

    fn closed(&mut self, _conn: ConnKey) {}

    fn flush_closed(&mut self) -> bool {
        false
    }

    fn over_budget(&self) -> bool {
        false
    }

    fn refresh(&mut self) {}
}

impl Requests for Echo {
    fn request(
        &mut self,
        _conn: ConnKey,
        _rights: Rights,
        _head: &FrameHead,
        frame: &[u8],
        _owner: Option<&Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<Served, WireError> {
        out.extend_from_slice(frame);
        Ok(Served::default())
    }
}

/// Lowers the open-files limit of this process for as long as it lives.
struct FewFiles {
    before: (u64, u64),
}

impl FewFiles {
    /// Leaves room for `more` files: the limit is one of numbers, and the lowest free one is next.
    fn new(more: usize) -> FewFiles {
        let names = fs::read_dir("/proc/self/fd").unwrap();
        let taken: BTreeSet<u64> = names
            .map(|name| name.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
        let last = (0..).filter(|number| !taken.contains(number)).nth(more).unwrap();
        let before = rlimit::Resource::NOFILE.get().unwrap();
        rlimit::Resource::NOFILE.set(last, before.1).unwrap();
        FewFiles { before }
    }
}

impl Drop for FewFiles {
    fn drop(&mut self) {
        rlimit::Resource::NOFILE.set(self.before.0, self.before.1).unwrap();
    }
}

/// A shard that echoes, and `waiting` clients in its listener's queue: once the files are few, the
/// test can open no more either.
struct Crowd {
    clients: Vec<TcpStream>,
    few: FewFiles,
    counters: Arc<CachePadded<ShardCounters>>,
    stop: StopSwitch,
    thread: JoinHandle<io::Result<()>>,
}

impl Crowd {
    fn new(waiting: usize, connections_max: u32) -> Crowd {
        let listener = accept::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let address = listener.local_addr().unwrap();
        let clients = (0..waiting)
            .map(|_| {
                let client = TcpStream::connect(address).unwrap();
                client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                client
            })
            .collect();
        let (post, mail) = mail::post().unwrap();
        let stop = StopSwitch::new([post.doorbell().clone()]);
        let counters = Arc::<CachePadded<ShardCounters>>::default();
        let options = ShardOptions {
            shard: ShardId(0),
            listener,
            connections_max,
            idle_s: 0,
            drain_ms: 100,
            access: Access::default(),
            tls: guidepost::tls::Tls::disabled(),
            partial_frames_bytes_max: guidepost::limits::PARTIAL_FRAMES_BYTES_MAX,
            output_bytes_max: guidepost::limits::OUTPUT_BYTES_MAX,
            on_ready: Box::new(|| ()),
            counters: Arc::clone(&counters),
            clock: Clock::start(),
        };
        // The shard's own files and about twenty connections.
        let few = FewFiles::new(40);
        let shard = Shard::with_service(options, Echo, mail, stop.signal());
        let thread = run_on_core(shard, 0).unwrap();
        Crowd { clients, few, counters, stop, thread }
    }

    fn counted(&self) -> Snapshot {
        snapshot(std::slice::from_ref(&self.counters))
    }

    fn until(&self, fits: impl Fn(Snapshot) -> bool) {
        let began = Instant::now();
        while !fits(self.counted()) {
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", self.counted());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Asks over one connection and waits for the answer.
    fn ask(&self, client: usize) {
        let mut client = &self.clients[client];
        client.write_all(b"\0\0\0\x0c\0\0\0\x02{}body..").unwrap();
        client.read_exact(&mut [0; 16]).unwrap();
    }

    fn end(self) {
        drop(self.few);
        self.stop.end();
        self.thread.join().unwrap().unwrap();
    }
}

#[test]
fn running_out_of_files_neither_stops_the_shard_nor_makes_it_spin() {
    let _alone = alone();
    let mut crowd = Crowd::new(100, 4000);
    crowd.until(|counted| counted.accept_failed > 0);
    crowd.ask(0);
    let (before, began) = (crowd.counted(), Instant::now());
    thread::sleep(Duration::from_millis(500));
    let (after, passed) = (crowd.counted(), began.elapsed().as_millis());
    let failed = u128::from(after.accept_failed - before.accept_failed);
    assert!(failed <= passed / 100 + 1, "accepting failed {failed} times in {passed} ms");
    // A sleep needs no descriptor.
    let batches = u128::from(after.batches - before.batches);
    assert!(batches <= passed / 2, "{batches} batches in {passed} ms");
    // Accepted or not: when they go, there is room for the last.
    crowd.clients.drain(1..90);
    crowd.ask(10);
    crowd.ask(0);
    crowd.end();
}

#[test]
fn a_crowd_at_a_full_shard_is_refused_at_once_though_files_are_few() {
    let _alone = alone();
    let crowd = Crowd::new(1000, 5);
    crowd.until(|counted| counted.refused == 995);
    // Not one pause of a tenth of a second was needed.
    assert_eq!(crowd.counted().accept_failed, 0);
    crowd.ask(0);
    crowd.end();
}

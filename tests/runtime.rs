//! What we assume of glommio, of the kernel and of the ring, pinned so that an upgrade that breaks
//! it is noticed.
//!
//! Method: real executors, real sockets on the loopback. Each test names its assumption.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use glommio::{LocalExecutor, LocalExecutorBuilder};
use guidepost::clock::Clock;
use guidepost::ids::{ConnKey, ShardId};
use guidepost::metrics::{ShardCounters, snapshot};
use guidepost::ring::Doorbell;
use guidepost::shard::service::{Requests, Served, Service};
use guidepost::shard::shutdown::StopSwitch;
use guidepost::shard::{Shard, ShardOptions, accept, mail, run_on_core};
use guidepost::wire::WireError;
use guidepost::wire::frame::FrameHead;
use guidepost::writer::request::WriteAnswer;

fn executor() -> LocalExecutor {
    LocalExecutorBuilder::default().io_memory(64 << 10).ring_depth(32).make().unwrap()
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Descriptors that the other tests of this process may have open at a time.
const OTHERS: usize = 200;

#[test]
fn a_ring_from_another_thread_wakes_a_sleeping_executor_within_20_ms() {
    const ROUNDS: usize = 50;
    let bell = Doorbell::new().unwrap();
    let (told, tell) = channel();
    let ringer = {
        let bell = bell.clone();
        thread::spawn(move || {
            let mut delays = Vec::new();
            for _ in 0..ROUNDS {
                // Long enough for the executor to have parked.
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
            bell.wait().await;
            told.send(Instant::now()).unwrap();
        }
    });
    let mut delays = ringer.join().unwrap();
    delays.sort_unstable();
    // The median: on a busy host a single wake may be late through no fault of the executor.
    assert!(delays[ROUNDS / 2] < Duration::from_millis(20), "{delays:?}");
}

#[test]
fn a_hundred_thousand_sleeps_leave_nothing_behind() {
    // glommio counts a task's wakers in 16 bits: one that a sleep leaves behind would show after 32
    // 767.
    const ROUNDS: u64 = 50_000;
    let before = open_files();
    let (to, from) = (Doorbell::new().unwrap(), Doorbell::new().unwrap());
    let echo = {
        let (to, from) = (to.clone(), from.clone());
        thread::spawn(move || {
            executor().run(async move {
                for _ in 0..ROUNDS {
                    to.wait().await;
                    from.ring();
                }
            });
        })
    };
    executor().run(async move {
        for _ in 0..ROUNDS {
            to.ring();
            from.wait().await;
        }
    });
    echo.join().unwrap();
    let after = open_files();
    assert!(after < before + OTHERS, "{before} before, {after} after");
}

#[test]
fn sleeps_that_end_by_their_time_leave_nothing_behind() {
    const SLEEPS: u64 = 33_000;
    let before = open_files();
    let bell = Doorbell::new().unwrap();
    executor().run(async move {
        for _ in 0..SLEEPS {
            bell.wait_for(Duration::from_micros(10)).await;
        }
        // Nor do those that end before they begin.
        for _ in 0..SLEEPS {
            bell.wait_for(Duration::ZERO).await;
        }
    });
    let after = open_files();
    assert!(after < before + OTHERS, "{before} before, {after} after");
}

#[test]
fn an_executor_that_ends_leaves_few_descriptors_open() {
    // glommio 0.9 is known to keep some; executors are made once a core, so a few each are no harm.
    let before = open_files();
    for _ in 0..100 {
        let bell = Doorbell::new().unwrap();
        executor().run(async move { bell.wait_for(Duration::from_micros(10)).await });
    }
    let after = open_files();
    assert!(after < before + 2 * 100 + OTHERS, "{before} before, {after} after");
}

#[test]
fn a_timed_sleep_ends_after_its_time_and_not_much_later() {
    let bell = Doorbell::new().unwrap();
    let mut late = executor().run(async move {
        let mut late = Vec::new();
        for _ in 0..20 {
            let began = Instant::now();
            bell.wait_for(Duration::from_millis(5)).await;
            late.push(began.elapsed());
        }
        late
    });
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
        _head: &FrameHead,
        frame: &[u8],
        _owner: Option<&Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<Served, WireError> {
        out.extend_from_slice(frame);
        Ok(Served::default())
    }
}

/// A shard for the next test, in a process of its own, whose open-files limit that test has set. It
/// believes in more connections than the limit allows. Prints its port, then, when its input ends,
/// what it counted.
#[test]
#[ignore = "run by running_out_of_files_neither_stops_the_shard_nor_makes_it_spin"]
fn shard_of_a_child_process() {
    let listener = accept::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    println!("port {}", listener.local_addr().unwrap().port());
    let (post, mail) = mail::post().unwrap();
    let stop = StopSwitch::new([post.doorbell().clone()]);
    let counters = Arc::new(crossbeam::utils::CachePadded::new(ShardCounters::default()));
    let options = ShardOptions {
        shard: ShardId(0),
        listener,
        connections_max: 4000,
        idle_s: 0,
        drain_ms: 100,
        proxy_sources: Vec::new(),
        counters: Arc::clone(&counters),
        clock: Clock::start(),
    };
    let thread = run_on_core(Shard::with_service(options, Echo, mail, stop.signal()), 0).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let counted = snapshot(std::slice::from_ref(&counters));
    println!("counted {} {}", counted.accept_failed, counted.batches);
    stop.end();
    thread.join().unwrap().unwrap();
}

#[test]
fn running_out_of_files_neither_stops_the_shard_nor_makes_it_spin() {
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "shard_of_a_child_process", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = |word: &str| -> Vec<u64> {
        let marked = lines
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.split_once(word).map(|(_, numbers)| numbers.trim().to_owned()));
        let numbers = marked.expect("the child ended early");
        numbers.split(' ').map(|number| number.parse().unwrap()).collect()
    };
    let port = u16::try_from(said("port ")[0]).unwrap();
    let connect = || {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let question = b"\0\0\0\x0c\0\0\0\x02{}body..";
    let ask = |mut stream: &TcpStream| {
        stream.write_all(&question[..]).unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
    };
    let mut clients: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    ask(&clients[0]);
    // Some of them wait in the listener's queue; the shard meets the limit several times meanwhile.
    thread::sleep(Duration::from_millis(500));
    ask(&clients[0]);
    clients.truncate(1);
    ask(&connect());
    ask(&clients[0]);
    drop(child.stdin.take());
    let counted = said("counted ");
    assert!(child.wait().unwrap().success());
    let (failed, batches) = (counted[0], counted[1]);
    let tenths = u64::try_from(began.elapsed().as_millis() / 100).unwrap();
    assert!((1..=tenths + 2).contains(&failed), "accepting failed {failed} times");
    // Without a descriptor to sleep on, it dozes 5 ms at a time.
    assert!(batches < 400 + 30 * tenths, "{batches} batches in {tenths} tenths of a second");
}

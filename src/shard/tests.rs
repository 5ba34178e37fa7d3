//! A shard over real sockets, with a service that echoes. A frame whose header is `L` is answered
//! by a writer that the test plays.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use socket2::{Domain, SockRef, Socket, Type};

use super::mail::PostBox;
use super::service::{Requests, Served};
use super::shutdown::StopSwitch;
use super::*;
use crate::ids::{ConnKey, Opaque};
use crate::limits::{OUTPUT_BYTES_MAX, PARTIAL_FRAMES_BYTES_MAX};
use crate::metrics::{Snapshot, snapshot};
use crate::wire::WireError;
use crate::wire::code::Rights;
use crate::wire::frame::FrameHead;
use crate::writer::request::{ToShard, WriteAnswer};

mod mail_pieces;
mod stopping;

struct Echo {
    asked: Sender<ConnKey>,
    /// Taken for a moment by a frame whose header is `W`: who holds it holds up the shard.
    gate: Arc<Mutex<()>>,
    /// Headers of frames as they are served, and `+` for each answer of the writer.
    order: Arc<Mutex<Vec<u8>>>,
    closed: Sender<ConnKey>,
    over_budget: Arc<AtomicBool>,
}

impl Service for Echo {
    fn batch<T>(&mut self, work: impl FnOnce(&mut dyn Requests) -> T) -> T {
        work(self)
    }

    fn answer(&mut self, answer: WriteAnswer, out: &mut Vec<u8>) {
        self.order.lock().unwrap().push(b'+');
        out.extend_from_slice(&answer.body);
    }

    fn lost(&mut self, _answer: WriteAnswer) {}

    fn closed(&mut self, conn: ConnKey) {
        self.closed.send(conn).unwrap();
    }

    fn flush_closed(&mut self) -> bool {
        false
    }

    fn over_budget(&self) -> bool {
        self.over_budget.load(Ordering::Relaxed)
    }

    fn refresh(&mut self) {}
}

impl Requests for Echo {
    fn request(
        &mut self,
        conn: ConnKey,
        _rights: Rights,
        _head: &FrameHead,
        frame: &[u8],
        _owner: Option<&Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<Served, WireError> {
        self.order.lock().unwrap().push(frame[8]);
        if frame[8] == b'W' {
            drop(self.gate.lock().unwrap());
        }
        if frame[8] == b'L' {
            self.asked.send(conn).unwrap();
            return Ok(Served { owed: true, tell_close: true, forbidden: None });
        }
        out.extend_from_slice(frame);
        Ok(Served::default())
    }
}

struct Server {
    address: SocketAddr,
    gate: Arc<Mutex<()>>,
    order: Arc<Mutex<Vec<u8>>>,
    post: PostBox,
    stop: StopSwitch,
    counters: Arc<CachePadded<ShardCounters>>,
    asked: Mutex<Receiver<ConnKey>>,
    closed: Mutex<Receiver<ConnKey>>,
    over_budget: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

fn serve(change: impl FnOnce(&mut ShardOptions)) -> Server {
    let listener = accept::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let address = listener.local_addr().unwrap();
    let (post, mail) = mail::post().unwrap();
    let stop = StopSwitch::new([post.doorbell().clone()]);
    let counters = Arc::<CachePadded<ShardCounters>>::default();
    let mut options = ShardOptions {
        shard: ShardId(0),
        listener,
        connections_max: 4000,
        idle_s: 120,
        drain_ms: 5000,
        access: Access::default(),
        tls: crate::tls::Tls::disabled(),
        counters: Arc::clone(&counters),
        clock: Clock::start(),
        partial_frames_bytes_max: PARTIAL_FRAMES_BYTES_MAX,
        output_bytes_max: OUTPUT_BYTES_MAX,
        on_ready: Box::new(|| ()),
    };
    change(&mut options);
    let (asked_in, asked) = channel();
    let (closed_in, closed) = channel();
    let over_budget = Arc::<AtomicBool>::default();
    let (gate, order) = (Arc::<Mutex<()>>::default(), Arc::<Mutex<Vec<u8>>>::default());
    let echo = Echo {
        asked: asked_in,
        gate: Arc::clone(&gate),
        order: Arc::clone(&order),
        closed: closed_in,
        over_budget: Arc::clone(&over_budget),
    };
    let shard = Shard::with_service(options, echo, mail, stop.signal());
    let thread = Some(run_on_core(shard, 0).unwrap());
    let (asked, closed) = (Mutex::new(asked), Mutex::new(closed));
    Server { address, gate, order, post, stop, counters, asked, closed, over_budget, thread }
}

impl Server {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    fn counted(&self) -> Snapshot {
        snapshot(std::slice::from_ref(&self.counters))
    }

    /// Waits until the counters fit; what changes them cannot be awaited from outside.
    fn until(&self, what: &str, fits: impl Fn(Snapshot) -> bool) {
        let began = Instant::now();
        while !fits(self.counted()) {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}: {:?}", self.counted());
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn asked(&self) -> ConnKey {
        self.asked.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap()
    }

    fn answer(&self, conn: ConnKey, body: &'static [u8]) {
        self.post.post(ToShard::Answer(WriteAnswer {
            conn,
            opaque: Opaque(0),
            code: 0,
            remark: None,
            ext: None,
            body: Bytes::from_static(body),
        }));
    }

    fn ended(&mut self) -> io::Result<()> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.end();
        if let Some(thread) = self.thread.take() {
            let end = thread.join();
            if !thread::panicking() {
                end.unwrap().unwrap();
            }
        }
    }
}

fn frame(header: &[u8], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + header.len() + body.len()).unwrap();
    let header_length = u32::try_from(header.len()).unwrap().to_be_bytes();
    [&length.to_be_bytes()[..], &[0], &header_length[1..], header, body].concat()
}

fn read(stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    stream.read_exact(&mut all).unwrap();
    all
}

/// Bytes until the server closes; a reset counts as closed.
fn read_to_close(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "not closed"),
    }
    all
}

#[test]
fn a_frame_in_pieces_of_one_byte_is_answered() {
    let server = serve(|_| {});
    let mut client = server.connect();
    let question = frame(b"question", b"body");
    for byte in &question {
        client.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read(&mut client, question.len()), question);
}

#[test]
fn many_frames_in_one_segment_are_answered_in_order() {
    let server = serve(|_| {});
    let mut client = server.connect();
    let questions: Vec<u8> =
        (0..2000u32).flat_map(|number| frame(b"question", &number.to_be_bytes())).collect();
    client.write_all(&questions).unwrap();
    assert!(read(&mut client, questions.len()) == questions);
    server.until("requests", |counted| counted.requests == 2000);
    server.until("bytes", |counted| counted.bytes_out == questions.len() as u64);
}

#[test]
fn a_large_frame_is_answered_whole() {
    let server = serve(|_| {});
    let mut client = server.connect();
    let large = frame(b"large", &vec![5; (16 << 20) - 100]);
    let (mut sender, bytes) = (client.try_clone().unwrap(), large.clone());
    let sending = thread::spawn(move || sender.write_all(&bytes).unwrap());
    assert!(read(&mut client, large.len()) == large);
    sending.join().unwrap();
}

#[test]
fn silence_ends_a_connection_also_in_the_middle_of_a_header() {
    let server = serve(|options| options.idle_s = 1);
    let began = Instant::now();
    let mut silent = server.connect();
    let mut stalled = server.connect();
    stalled.write_all(&frame(b"question", b"")[..14]).unwrap();
    let mut short = server.connect();
    short.write_all(b"11 bytes...").unwrap();
    for client in [&mut silent, &mut stalled, &mut short] {
        assert!(read_to_close(client).is_empty());
    }
    assert!(began.elapsed() >= Duration::from_secs(1));
    server.until("idle", |counted| counted.closed_idle == 3 && counted.open == 0);
}

#[test]
fn a_connection_that_is_used_is_not_idle() {
    let server = serve(|options| options.idle_s = 1);
    let mut client = server.connect();
    let question = frame(b"question", b"");
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2500) {
        client.write_all(&question).unwrap();
        assert_eq!(read(&mut client, question.len()), question);
        thread::sleep(Duration::from_millis(300));
    }
    assert!(read_to_close(&mut client).is_empty());
}

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_client_that_asks_and_never_reads_costs_no_memory() {
    let server = serve(|_| {});
    let client = server.connect();
    client.set_nonblocking(true).unwrap();
    // 100 000 requests of 1 KiB; their answers would take 100 MB.
    let question = frame(b"question", &[b'q'; 1012]).repeat(100);
    let (mut sent, mut rounds) = (0, 0);
    let before = resident();
    while rounds < 1000 {
        match (&client).write(&question[sent..]) {
            Ok(count) if sent + count == question.len() => (sent, rounds) = (0, rounds + 1),
            Ok(count) => sent += count,
            // The server has stopped reading, and the sockets are full.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let served = server.counted().requests;
                thread::sleep(Duration::from_millis(100));
                if server.counted().requests == served {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(rounds < 1000, "the server took everything");
    assert!(server.counted().pauses > 0);
    let grown = resident().saturating_sub(before);
    assert!(grown < 48 << 20, "{} KiB more", grown >> 10);
    // And it serves on once the client reads.
    client.set_nonblocking(false).unwrap();
    let served = server.counted().requests;
    let mut client = client;
    read(&mut client, 4 << 20);
    server.until("more requests", |counted| counted.requests > served);
}

#[test]
fn probes_and_resets_leave_nothing_behind() {
    let server = serve(|_| {});
    for number in 0..2000 {
        let client = server.connect();
        if number % 2 == 0 {
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
    server.until("all gone", |counted| {
        // Some are reset before they are accepted.
        counted.open == 0 && counted.accepted >= 1000 && counted.closed_by_peer == counted.accepted
    });
    assert_eq!(server.counted().probes, server.counted().accepted);
    let mut client = server.connect();
    client.write_all(&frame(b"still here", b"")).unwrap();
    read(&mut client, 18);
}

#[test]
fn a_foreign_protocol_is_closed_at_once() {
    let server = serve(|_| {});
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0];
    let first: [&[u8]; 5] = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        &hello,
        &[3, 0, 0, 0x2f, 0x2a, 0xe0, 0, 0, 0, 0, 0, 0x43],
    ];
    for bytes in first {
        let mut client = server.connect();
        client.write_all(bytes).unwrap();
        assert!(read_to_close(&mut client).is_empty());
    }
    server.until("foreign", |counted| counted.closed_foreign == 5 && counted.open == 0);
}

#[test]
fn answers_before_a_malformed_frame_arrive_and_then_it_closes() {
    let server = serve(|_| {});
    let mut client = server.connect();
    let question = frame(b"question", b"body");
    client.write_all(&[&question[..], &[0, 0, 0, 3], &question].concat()).unwrap();
    assert_eq!(read_to_close(&mut client), question);
    server.until("malformed", |counted| counted.closed_malformed == 1);
}

#[test]
fn an_answer_that_is_owed_arrives_although_what_follows_cannot_be_read() {
    let server = serve(|_| {});
    let mut client = server.connect();
    let bytes = [&frame(b"L", b"")[..], &[0, 0, 0, 3], &[0; 100_000]].concat();
    client.write_all(&bytes).unwrap();
    let conn = server.asked();
    server.answer(conn, b"the answer");
    assert_eq!(read_to_close(&mut client), b"the answer");
    drop(client);
    server.until("malformed", |counted| counted.closed_malformed == 1 && counted.open == 0);
}

#[test]
fn unread_input_does_not_reset_a_connection_that_has_answers_under_way() {
    let server = serve(|_| {});
    // With hardly any room for it here, the answer stays with the server's kernel.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(1).unwrap();
    socket.connect(&server.address.into()).unwrap();
    let mut client = TcpStream::from(socket);
    let question = frame(b"question", &[b'b'; 8192]);
    client.write_all(&[&question[..], &[0, 0, 0, 3], &[0; 100_000]].concat()).unwrap();
    server.until("sent", |counted| counted.bytes_out == question.len() as u64);
    let began = Instant::now();
    while server.counted().open > 0 && began.elapsed() < Duration::from_millis(300) {
        thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(read_to_close(&mut client).len(), question.len(), "to its last byte");
}

#[test]
fn a_peer_at_fault_that_never_closes_is_closed() {
    let server = serve(|_| {});
    let mut client = server.connect();
    let question = frame(b"question", b"body");
    client.write_all(&[&question[..], &[0, 0, 0, 3]].concat()).unwrap();
    assert_eq!(read_to_close(&mut client), question);
    assert_eq!(server.counted().open, 1, "it may still read");
    // What it still sends is thrown away.
    client.write_all(&[0; 1000]).unwrap();
    server.until("parted", |counted| counted.closed_malformed == 1 && counted.open == 0);
}

#[test]
fn a_proxy_header_is_taken_only_from_where_it_may_come() {
    let question = frame(b"question", b"body");
    let bytes = [b"PROXY TCP4 10.1.2.3 10.9.9.9 8080 9876\r\n", &question[..]].concat();
    let near = serve(|options| options.access.proxies = vec!["127.0.0.0/8".parse().unwrap()]);
    let mut client = near.connect();
    client.write_all(&bytes).unwrap();
    assert_eq!(read(&mut client, question.len()), question);
    let far = serve(|options| options.access.proxies = vec!["10.0.0.0/8".parse().unwrap()]);
    let mut client = far.connect();
    client.write_all(&bytes).unwrap();
    assert!(read_to_close(&mut client).is_empty());
    far.until("proxy", |counted| counted.closed_proxy == 1);
}

#[test]
fn the_writer_answers_whoever_asked_and_hears_of_the_close_once() {
    let server = serve(|_| {});
    let (mut one, mut two) = (server.connect(), server.connect());
    one.write_all(&frame(b"L", b"ater")).unwrap();
    let first = server.asked();
    two.write_all(&frame(b"L", b"ater")).unwrap();
    let second = server.asked();
    server.answer(second, b"for two");
    server.answer(first, b"for one");
    assert_eq!(read(&mut one, 7), b"for one");
    assert_eq!(read(&mut two, 7), b"for two");
    one.write_all(&frame(b"L", b"ater")).unwrap();
    assert_eq!(server.asked(), first);
    SockRef::from(&one).set_linger(Some(Duration::ZERO)).unwrap();
    drop(one);
    let closed = server.closed.lock().unwrap();
    assert_eq!(closed.recv_timeout(Duration::from_secs(20)), Ok(first));
    // Its slot has a new tenant when the answer comes: it must not get it.
    let mut third = server.connect();
    third.write_all(&frame(b"L", b"ater")).unwrap();
    let tenant = server.asked();
    assert_eq!((tenant.slot, tenant.generation), (first.slot, first.generation + 1));
    server.answer(first, b"nobody");
    server.answer(tenant, b"tenant");
    assert_eq!(read(&mut third, 6), b"tenant");
    server.until("stale", |counted| counted.answers_stale == 1);
    assert!(closed.try_recv().is_err(), "told once");
}

#[test]
fn a_peer_that_has_closed_its_side_still_gets_what_it_is_owed() {
    let server = serve(|_| {});
    let mut client = server.connect();
    client.write_all(&[frame(b"question", b""), frame(b"L", b"ater")].concat()).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let conn = server.asked();
    server.answer(conn, b"at last");
    assert!(read_to_close(&mut client).ends_with(b"at last"));
}

#[test]
fn the_writer_can_close_a_connection() {
    let server = serve(|_| {});
    let mut client = server.connect();
    client.write_all(&frame(b"L", b"ater")).unwrap();
    server.post.post(ToShard::Close(server.asked()));
    assert!(read_to_close(&mut client).is_empty());
    server.until("expired", |counted| counted.closed_expired == 1 && counted.open == 0);
}

#[test]
fn a_full_shard_closes_the_next_connection_quickly() {
    let server = serve(|options| options.connections_max = 3);
    let kept: Vec<_> = (0..3).map(|_| server.connect()).collect();
    server.until("full", |counted| counted.open == 3);
    assert!(read_to_close(&mut server.connect()).is_empty());
    server.until("refused", |counted| counted.refused == 1);
    drop(kept);
    server.until("empty", |counted| counted.open == 0);
    let mut client = server.connect();
    client.write_all(&frame(b"room again", b"")).unwrap();
    read(&mut client, 18);
}

#[test]
fn large_frames_wait_while_the_writer_holds_too_many_bytes() {
    let server = serve(|_| {});
    server.over_budget.store(true, Ordering::Relaxed);
    let large = frame(b"large", &vec![5; 8 << 20]);
    let mut client = server.connect();
    let (mut sender, bytes) = (client.try_clone().unwrap(), large.clone());
    let sending = thread::spawn(move || sender.write_all(&bytes).unwrap());
    server.until("paused", |counted| counted.pauses >= 1);
    // Small frames are not held back.
    let mut other = server.connect();
    let small = frame(b"small", b"");
    other.write_all(&small).unwrap();
    assert_eq!(read(&mut other, small.len()), small);
    assert_eq!(server.counted().requests, 1);
    server.over_budget.store(false, Ordering::Relaxed);
    assert!(read(&mut client, large.len()) == large);
    sending.join().unwrap();
}

#[test]
fn an_idle_shard_sleeps() {
    let server = serve(|_| {});
    let _client = server.connect();
    server.until("open", |counted| counted.open == 1);
    thread::sleep(Duration::from_millis(50));
    let before = server.counted().batches;
    thread::sleep(Duration::from_millis(300));
    assert!(server.counted().batches - before <= 1, "it wakes without cause");
}

#[test]
fn the_shard_says_when_it_is_ready() {
    let (ready_in, ready) = channel();
    let server = serve(|options| options.on_ready = Box::new(move || ready_in.send(()).unwrap()));
    ready.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(server.counted().accepted, 0);
}

#[test]
fn too_many_bytes_of_unfinished_frames_cost_the_largest_its_connection() {
    let server = serve(|options| options.partial_frames_bytes_max = 4 << 20);
    let large = frame(b"large", &vec![5; 8 << 20]);
    let mut small = server.connect();
    small.write_all(&large[..10_000]).unwrap();
    let mut greedy = server.connect();
    // It is closed in the middle of the write.
    let _ = greedy.write_all(&large[..6 << 20]);
    server.until("closed", |counted| counted.closed_over_budget == 1 && counted.open == 1);
    assert!(read_to_close(&mut greedy).is_empty());
    // What the small one takes has been counted down again: the next one has room.
    let mut next = server.connect();
    let fits = frame(b"fits", &vec![5; 1 << 20]);
    next.write_all(&fits).unwrap();
    assert!(read(&mut next, fits.len()) == fits);
    assert_eq!(server.counted().closed_over_budget, 1);
}

#[test]
fn too_many_unsent_answers_cost_the_largest_its_connection() {
    let server = serve(|options| options.output_bytes_max = 30 << 20);
    let question = frame(b"question", &vec![5; 12 << 20]);
    let mut deaf: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut deaf {
        // A reset may come while the last one still writes.
        let _ = client.write_all(&question);
    }
    server.until("closed", |counted| counted.closed_over_budget == 1 && counted.open == 2);
    let whole = deaf.into_iter().filter_map(|mut client| {
        let mut all = vec![0; question.len()];
        client.read_exact(&mut all).ok().filter(|()| all == question)
    });
    assert_eq!(whole.count(), 2, "the others get their answers");
}

#[test]
fn lock_step_requests_cost_one_sleep_each() {
    const ROUNDS: u64 = 500;
    let server = serve(|_| {});
    let mut client = server.connect();
    let question = frame(b"question", b"");
    for _ in 0..ROUNDS {
        client.write_all(&question).unwrap();
        read(&mut client, question.len());
    }
    let sleeps = server.counted().sleeps;
    assert!(sleeps <= ROUNDS + ROUNDS / 4 + 10, "{sleeps} sleeps for {ROUNDS} requests");
}

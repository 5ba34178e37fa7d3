//! The floor: what it costs to receive a query and to send as many bytes as the real answer has,
//! with one thread, one epoll loop, and no thought in between.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::check::FloorBytes;
use crate::failure::{Failure, run_failure, usage};
use crate::fleet::{Asked, KIND_ABSENT, KIND_AT};
use crate::measure::whole;
use crate::record::Run;
use crate::wire::{
    OPAQUE_DIGITS, OPAQUE_FIRST, RouteQuery, SUCCESS, TOPIC_NOT_EXIST, append_frame,
};

const READ_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 1024;
const LISTENER: u64 = u64::MAX;
const PARENT: u64 = u64::MAX - 1;

/// A floor with less than this share of its CPU left is what limits a run.
const FULL_SHARE: f64 = 0.95;

/// Whether a run against the floor says how much *it* can answer, and not how much can be asked.
pub fn is_full(run: &Run) -> bool {
    let used = run.cost.as_ref().and_then(|cost| {
        let cpu_ns = cost.server.as_ref()?.cpu_ns;
        Some(cpu_ns as f64 / 1e9 / cost.seconds.max(1e-9))
    });
    used.is_some_and(|share| share > FULL_SHARE)
}

/// The answers, ready to send but for the `opaque`.
struct Answer {
    frame: Vec<u8>,
    opaque_at: usize,
}

/// The shortest frame that can be answered with.
pub const ANSWER_BYTES_MIN: usize = 48;
const PREFIX_BYTES: usize = 8;

/// The length to answer with where a server's answers have this mean. All answers of a fleet have
/// one length: the mean is whole but for a server that varies. A kind that nobody asked for, or
/// answered, needs none.
pub fn answer_bytes(mean: Option<f64>) -> usize {
    let bytes = usize::try_from(whole(mean.unwrap_or_default())).unwrap_or(ANSWER_BYTES_MAX);
    bytes.clamp(ANSWER_BYTES_MIN, ANSWER_BYTES_MAX)
}

/// The longest one: the floor is for route answers, not for topic lists.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

impl Answer {
    /// A frame of exactly so many bytes. A hit is filled up in the body; a miss, which has no body,
    /// with blanks in the header.
    fn of(code: i32, bytes: usize) -> Result<Self, Failure> {
        if !(ANSWER_BYTES_MIN..=ANSWER_BYTES_MAX).contains(&bytes) {
            return Err(usage(format!(
                "the floor cannot answer with {bytes} bytes: \
                 give {ANSWER_BYTES_MIN} to {ANSWER_BYTES_MAX}"
            )));
        }
        let mut header = format!("{{\"code\":{code},\"flag\":1,\"opaque\":{OPAQUE_FIRST}");
        let rest = bytes - PREFIX_BYTES - header.len() - 1;
        let mut body = vec![b'x'; rest];
        if code != SUCCESS {
            header.extend(std::iter::repeat_n(' ', rest));
            body.clear();
        }
        header.push('}');
        let mut frame = Vec::new();
        append_frame(&mut frame, header.as_bytes(), &body);
        assert_eq!(frame.len(), bytes);
        let name = b"\"opaque\":";
        let at = frame.windows(name.len()).position(|w| w == name).expect("written just above");
        Ok(Self { frame, opaque_at: at + name.len() })
    }

    fn append_to(&self, out: &mut Vec<u8>, opaque: &[u8]) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        out[start + self.opaque_at..][..OPAQUE_DIGITS].copy_from_slice(opaque);
    }
}

/// Both answers, and where the queries say which one it is.
struct Answers {
    query: RouteQuery,
    hit: Answer,
    miss: Answer,
}

struct Peer {
    socket: TcpStream,
    partial: Vec<u8>,
    /// What the socket did not take. Empty nearly always.
    unsent: Vec<u8>,
}

/// The floor server.
pub struct FloorServer {
    epoll: OwnedFd,
    listener: TcpListener,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    answers: Answers,
    /// Answers of one turn of one peer.
    out: Vec<u8>,
    ends_with_stdin: bool,
}

/// A connection that does not speak this tool's queries, or is gone.
struct Gone;

impl FloorServer {
    /// Listens on the loopback address, on any free port when it is 0. With `ends_with_stdin` it
    /// ends when its standard input is closed, so that it cannot outlive who started it.
    ///
    /// # Errors
    /// When the port is taken, or the answers cannot have that many bytes.
    pub fn bind(port: u16, bytes: FloorBytes, ends_with_stdin: bool) -> Result<Self, Failure> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(at)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|e| run_failure(format!("listening on {at}: {e}; give another --port")))?;
        let sample = String::from_utf8_lossy(&Asked::Topic(0).name()).into_owned();
        let failed = |e: Errno| run_failure(format!("epoll: {e}"));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let (readable, data) = (epoll::EventFlags::IN, epoll::EventData::new_u64);
        epoll::add(&epoll, &listener, data(LISTENER), readable).map_err(failed)?;
        if ends_with_stdin {
            epoll::add(&epoll, std::io::stdin(), data(PARENT), readable).map_err(failed)?;
        }
        Ok(Self {
            epoll,
            listener,
            peers: Vec::new(),
            free: Vec::new(),
            answers: Answers {
                query: RouteQuery::for_topics_like(&sample),
                hit: Answer::of(SUCCESS, bytes.hit)?,
                miss: Answer::of(TOPIC_NOT_EXIST, bytes.miss)?,
            },
            out: Vec::new(),
            ends_with_stdin,
        })
    }

    /// The port it listens on.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn port(&self) -> Result<u16, Failure> {
        let address = self.listener.local_addr();
        address.map(|a| a.port()).map_err(|e| run_failure(format!("own address: {e}")))
    }

    /// Answers until the time is over, or standard input is closed.
    ///
    /// # Errors
    /// When epoll itself fails.
    pub fn serve(mut self, limit: Duration) -> Result<(), Failure> {
        let until = Instant::now() + limit;
        let mut buffer = vec![0; READ_BYTES];
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let timeout =
                Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(0) + 1, tv_nsec: 0 };
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(run_failure(format!("epoll: {e}"))),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    PARENT if self.ends_with_stdin => return Ok(()),
                    place => {
                        let place = usize::try_from(place).expect("we put a usize in");
                        if self.ready(place, event.flags, &mut buffer).is_err() {
                            self.peers[place] = None;
                            self.free.push(place);
                        }
                    }
                }
            }
        }
    }

    fn accept(&mut self) {
        // Out of descriptors or a peer that left again: the next turn tries again.
        while let Ok((socket, _)) = self.listener.accept() {
            if socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).is_err() {
                continue;
            }
            let place = self.free.pop().unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            let data = epoll::EventData::new_u64(place as u64);
            if epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN).is_err() {
                self.free.push(place);
                continue;
            }
            let (partial, unsent) = (Vec::new(), Vec::new());
            self.peers[place] = Some(Peer { socket, partial, unsent });
        }
    }

    fn ready(
        &mut self,
        place: usize,
        flags: epoll::EventFlags,
        buffer: &mut [u8],
    ) -> Result<(), Gone> {
        let Some(peer) = self.peers[place].as_mut() else { return Ok(()) };
        if flags.contains(epoll::EventFlags::OUT) {
            // It is not read from until it took what it asked for: nothing can pile up here.
            let sent = write_some(&mut peer.socket, &peer.unsent)?;
            peer.unsent.drain(..sent);
            if peer.unsent.is_empty() {
                self.await_event(place, epoll::EventFlags::IN)?;
            }
            return Ok(());
        }
        let count = match peer.socket.read(buffer) {
            Ok(0) => return Err(Gone),
            Ok(count) => count,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(_) => return Err(Gone),
        };
        self.out.clear();
        if peer.partial.is_empty() {
            let taken = self.answers.append_to(&mut self.out, &buffer[..count])?;
            peer.partial.extend_from_slice(&buffer[taken..count]);
        } else {
            peer.partial.extend_from_slice(&buffer[..count]);
            let taken = self.answers.append_to(&mut self.out, &peer.partial)?;
            peer.partial.drain(..taken);
        }
        let sent = write_some(&mut peer.socket, &self.out)?;
        if sent < self.out.len() {
            peer.unsent.extend_from_slice(&self.out[sent..]);
            self.await_event(place, epoll::EventFlags::OUT)?;
        }
        Ok(())
    }

    fn await_event(&self, place: usize, flags: epoll::EventFlags) -> Result<(), Gone> {
        let Some(peer) = &self.peers[place] else { return Ok(()) };
        let data = epoll::EventData::new_u64(place as u64);
        epoll::modify(&self.epoll, &peer.socket, data, flags).map_err(|_| Gone)
    }
}

impl Answers {
    /// Answers each complete query; returns how many bytes they were. Looks at the length, one
    /// byte of the topic, and the `opaque`, which all stand at fixed places.
    fn append_to(&self, out: &mut Vec<u8>, bytes: &[u8]) -> Result<usize, Gone> {
        let mut taken = 0;
        while let Some(prefix) = bytes[taken..].first_chunk::<4>() {
            let length = u32::from_be_bytes(*prefix) as usize + 4;
            if length != self.query.bytes() {
                return Err(Gone);
            }
            let Some(query) = bytes.get(taken..taken + length) else { break };
            let absent = query[self.query.topic_at() + KIND_AT] == KIND_ABSENT;
            let opaque = &query[self.query.opaque_at()..][..OPAQUE_DIGITS];
            let answer = if absent { &self.miss } else { &self.hit };
            answer.append_to(out, opaque);
            taken += length;
        }
        Ok(taken)
    }
}

/// Writes as much as the socket takes.
fn write_some(socket: &mut TcpStream, bytes: &[u8]) -> Result<usize, Gone> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(_) => return Err(Gone),
        }
    }
    Ok(sent)
}

/// The floor server as a process of its own, so that its CPU can be told from the generator's.
pub struct FloorChild {
    child: Child,
    /// Closing it ends the child, also when this process is killed.
    stdin: Option<ChildStdin>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl FloorChild {
    /// Starts `program floor-server`, on a CPU of its own if given.
    ///
    /// # Errors
    /// When it cannot be started or does not say its port.
    pub fn spawn(program: &Path, bytes: FloorBytes, cpu: Option<usize>) -> Result<Self, Failure> {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(program);
        command.args(["floor-server", "--ends-with-stdin"]);
        command.args(["--reply-bytes", &bytes.hit.to_string()]);
        command.args(["--miss-bytes", &bytes.miss.to_string()]);
        if let Some(cpu) = cpu {
            command.args(["--pin", &cpu.to_string()]);
        }
        // A group of its own: Ctrl-C is for us, and we still want its last numbers.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |e| run_failure(format!("starting {}: {e}", program.display()));
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line).map_err(failed)?;
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut started = Self { child, stdin, address };
        let port = line.trim().strip_prefix("listening on ").and_then(|port| port.parse().ok());
        let Some(port) = port else {
            return Err(run_failure(format!("the floor server said '{}' at start", line.trim())));
        };
        started.address.set_port(port);
        Ok(started)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for FloorChild {
    fn drop(&mut self) {
        drop(self.stdin.take());
        // It has nothing to finish; waiting only collects its exit code.
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::first_frame;

    #[test]
    fn an_answer_has_the_bytes_asked_for_and_is_a_frame() {
        for bytes in [ANSWER_BYTES_MIN, 49, 312, 1002, ANSWER_BYTES_MAX] {
            for code in [SUCCESS, TOPIC_NOT_EXIST] {
                let mut out = Vec::new();
                Answer::of(code, bytes).unwrap().append_to(&mut out, b"1234567890");
                let frame = first_frame(&out).unwrap().unwrap();
                assert_eq!((frame.bytes, frame.code), (bytes, code));
                assert_eq!((frame.opaque, frame.body.is_empty()), (1_234_567_890, code != 0));
            }
        }
        assert!(Answer::of(SUCCESS, ANSWER_BYTES_MIN - 1).is_err());
    }

    #[test]
    fn each_query_gets_its_number_of_bytes_however_it_is_cut() {
        let server = FloorServer::bind(0, FloorBytes { hit: 900, miss: 300 }, false).unwrap();
        let port = server.port().unwrap();
        let serving = std::thread::spawn(move || server.serve(Duration::from_millis(1500)));
        let mut queries = Vec::new();
        let query = RouteQuery::for_topics_like("bench-topic-0000000");
        for (number, asked) in
            [Asked::Topic(1), Asked::Absent(2), Asked::Topic(3)].iter().enumerate()
        {
            let opaque = OPAQUE_FIRST + u32::try_from(number).unwrap();
            query.append_to(&mut queries, &asked.name(), opaque);
        }
        for cut in [1, 7, query.bytes(), 1000] {
            let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
            socket.set_nodelay(true).unwrap();
            for piece in queries.chunks(cut) {
                socket.write_all(piece).unwrap();
            }
            let mut answers = vec![0; 900 + 300 + 900];
            socket.read_exact(&mut answers).unwrap();
            let mut rest = &answers[..];
            for (opaque, bytes) in (1_000_000_000..).zip([900, 300, 900]) {
                let frame = first_frame(rest).unwrap().unwrap();
                assert_eq!((frame.opaque, frame.bytes), (opaque, bytes), "cut at {cut}");
                rest = &rest[bytes..];
            }
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(socket.read(&mut answers).unwrap(), 0, "bytes nobody asked for");
        }
        serving.join().unwrap().unwrap();
    }
}

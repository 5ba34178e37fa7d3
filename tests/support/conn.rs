//! One client connection, blocking, with a deadline on everything.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::frame::{Answer, Request};

/// How long an answer may take. Generous: many tests share few cores.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long nothing must come before we call it silence.
pub const SILENCE: Duration = Duration::from_millis(300);

/// What came back.
#[derive(Debug)]
pub enum Got {
    /// A frame, without its length field.
    Frame(Vec<u8>),
    /// The server closed the connection.
    Closed,
    /// Nothing within the time allowed; the connection is still there.
    Silent,
}

#[derive(Debug)]
pub struct Conn {
    stream: TcpStream,
    /// Bytes read and not yet taken as frames.
    received: Vec<u8>,
    /// Answers that came before the one waited for.
    early: Vec<Answer>,
    next_opaque: i32,
}

impl Conn {
    pub fn open(addr: SocketAddr) -> Conn {
        Conn::try_open(addr).unwrap_or_else(|e| panic!("cannot connect to {addr}: {e}"))
    }

    pub fn try_open(addr: SocketAddr) -> std::io::Result<Conn> {
        let stream = TcpStream::connect_timeout(&addr, ANSWER_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        Ok(Conn::over(stream))
    }

    /// A connection that is open already.
    pub fn over(stream: TcpStream) -> Conn {
        Conn { stream, received: Vec::new(), early: Vec::new(), next_opaque: 1 }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends raw bytes. A peer that has closed already is no error: the next read tells.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Err(e) if !is_closed(e.kind()) => panic!("cannot send {} bytes: {e}", bytes.len()),
            _ => {}
        }
    }

    /// Sends a request under the next opaque number and returns that number.
    pub fn send(&mut self, mut request: Request) -> i32 {
        request.opaque = self.next_opaque;
        self.next_opaque += 1;
        self.send_bytes(&request.encode());
        request.opaque
    }

    /// The next frame, or why there is none within `limit`.
    pub fn next_frame(&mut self, limit: Duration) -> Got {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(frame) = self.take_frame() {
                return Got::Frame(frame);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Got::Silent;
            }
            self.stream.set_read_timeout(Some(left)).expect("a timeout above zero");
            let mut chunk = [0; 16 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Got::Closed,
                Ok(count) => self.received.extend(&chunk[..count]),
                Err(e) if is_closed(e.kind()) => return Got::Closed,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => panic!("cannot read: {e}"),
            }
        }
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        let head = self.received.first_chunk::<4>()?;
        let end = 4 + u32::from_be_bytes(*head) as usize;
        if self.received.len() < end {
            return None;
        }
        let rest = self.received.split_off(end);
        let mut frame = std::mem::replace(&mut self.received, rest);
        frame.drain(..4);
        Some(frame)
    }

    /// The answer to the request sent as `opaque`; answers to others are kept for their own
    /// callers.
    pub fn answer_to(&mut self, opaque: i32) -> Answer {
        self.try_answer_to(opaque).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Like [`Conn::answer_to`], with words instead of a panic.
    pub fn try_answer_to(&mut self, opaque: i32) -> Result<Answer, String> {
        let is_ours = |answer: &Answer| answer.opaque() == i64::from(opaque);
        if let Some(at) = self.early.iter().position(is_ours) {
            return Ok(self.early.swap_remove(at));
        }
        loop {
            match self.next_frame(ANSWER_WITHIN) {
                Got::Frame(frame) => {
                    let answer = Answer::decode(&frame)?;
                    if is_ours(&answer) {
                        return Ok(answer);
                    }
                    self.early.push(answer);
                }
                Got::Closed => return Err("the server closed instead of answering".to_owned()),
                Got::Silent => return Err(format!("no answer within {ANSWER_WITHIN:?}")),
            }
        }
    }

    /// Sends and waits.
    pub fn ask(&mut self, request: Request) -> Answer {
        let opaque = self.send(request);
        self.answer_to(opaque)
    }

    /// Closes with a reset instead of a FIN.
    pub fn reset(self) {
        let socket = socket2::Socket::from(self.stream);
        socket.set_linger(Some(Duration::ZERO)).expect("linger is always settable");
    }

    /// Fails unless the server closes within `limit`; answers before that are dropped.
    pub fn expect_closed(&mut self, limit: Duration, what: &str) {
        let deadline = Instant::now() + limit;
        loop {
            match self.next_frame(deadline.saturating_duration_since(Instant::now())) {
                Got::Closed => return,
                Got::Frame(_) => {}
                Got::Silent => panic!("{what}: not closed within {limit:?}"),
            }
        }
    }
}

fn is_closed(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted
    )
}

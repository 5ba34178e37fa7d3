//! One question at a time over a blocking socket: for all that is not a load.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wire::{FRAME_BYTES_MAX, Frame, Request, SUCCESS, first_frame};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A registration of many topics may take a Java server seconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes sent at once.
const PIECE_BYTES: usize = 32 << 10;

/// A connection that asks.
pub(crate) struct Caller {
    socket: TcpStream,
    timeout: Duration,
    unread: Vec<u8>,
    next_opaque: u32,
}

impl Caller {
    pub(crate) fn connect(target: SocketAddr) -> Result<Self, String> {
        Self::with_timeout(target, CALL_TIMEOUT)
    }

    /// One that waits for each answer so long.
    pub(crate) fn with_timeout(target: SocketAddr, timeout: Duration) -> Result<Self, String> {
        let socket = TcpStream::connect_timeout(&target, CONNECT_TIMEOUT)
            .map_err(|e| format!("connecting to {target}: {e}"))?;
        socket
            .set_nodelay(true)
            .and_then(|()| socket.set_read_timeout(Some(timeout)))
            .and_then(|()| socket.set_write_timeout(Some(timeout)))
            .map_err(|e| format!("setting up a socket: {e}"))?;
        Ok(Self { socket, timeout, unread: Vec::new(), next_opaque: 1 })
    }

    /// The socket, for somebody else to drive on.
    pub(crate) fn into_socket(self) -> TcpStream {
        self.socket
    }

    pub(crate) fn call_for_success(
        &mut self,
        code: u16,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(), String> {
        self.call(code, fields, body, |frame| {
            let refused = || format!("refused, {}", String::from_utf8_lossy(frame.header));
            (frame.code == SUCCESS).then_some(()).ok_or_else(refused)
        })?
    }

    /// Sends a request and hands its answer to `take`. What the server says unasked is skipped.
    pub(crate) fn call<T>(
        &mut self,
        code: u16,
        fields: &[(&str, &str)],
        body: &[u8],
        take: impl FnOnce(&Frame<'_>) -> T,
    ) -> Result<T, String> {
        let opaque = self.next_opaque;
        self.next_opaque += 1;
        let mut out = Vec::new();
        Request { code, opaque, fields, body }.append_to(&mut out);
        // In pieces: the kernel copies a piece without letting anybody else have the CPU.
        for piece in out.chunks(PIECE_BYTES) {
            self.socket.write_all(piece).map_err(|e| format!("sending: {e}"))?;
        }
        loop {
            let frame = first_frame(&self.unread)
                .map_err(|e| format!("it answers with {e}: no NameServer"))?;
            if let Some(frame) = frame {
                let bytes = frame.bytes;
                if frame.is_answer && i64::from(frame.opaque) == i64::from(opaque) {
                    let taken = take(&frame);
                    self.unread.drain(..bytes);
                    return Ok(taken);
                }
                self.unread.drain(..bytes);
                continue;
            }
            self.read_some()?;
        }
    }

    fn read_some(&mut self) -> Result<(), String> {
        assert!(self.unread.len() < FRAME_BYTES_MAX, "a complete frame would have been taken");
        let mut chunk = [0; 64 << 10];
        match self.socket.read(&mut chunk) {
            Ok(0) => Err("the server closed the connection".into()),
            Ok(count) => {
                self.unread.extend_from_slice(&chunk[..count]);
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(format!("no answer within {} s", self.timeout.as_secs()))
            }
            Err(e) => Err(format!("reading: {e}")),
        }
    }
}

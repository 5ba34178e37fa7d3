//! One connection, sans-IO: bytes in, answers and write requests out. Knows neither sockets nor
//! time.

use std::fmt;
use std::mem;
use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};

use super::access::Door;
use super::service::{Requests, Served};
use super::sniff::{self, First};
use crate::ids::ConnKey;
use crate::limits::{
    LARGE_FRAME_BYTES, OUTPUT_HIGH_WATER_BYTES, OWED_PER_CONNECTION_MAX, SHARED_FRAME_BYTES_MIN,
};
use crate::tls::ChannelError;
use crate::tls::options::Mode;
use crate::wire::WireError;
use crate::wire::code::Rights;
use crate::wire::frame::{self, FrameHead};

/// Bytes that may stay behind in a shared buffer; more are copied out, so that they do not keep a
/// large frame alive.
const TAIL_BYTES_MAX: usize = 64 << 10;

/// Why a connection must be closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Bytes that are no frame.
    Malformed(WireError),
    /// A TLS hello, and TLS is not served here.
    Tls,
    /// No TLS hello, and only TLS is served here.
    Plain,
    /// A TLS handshake or record that is refused.
    Channel(ChannelError),
    /// A malformed PROXY header.
    Proxy(&'static str),
    /// A PROXY header from a peer that may not send one.
    ProxyNotAllowed,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Malformed(error) => write!(f, "{error}"),
            Fault::Tls => {
                f.write_str("not the remoting protocol: looks like TLS (TLS is off here)")
            }
            Fault::Plain => f.write_str("not TLS (tls.server.mode is enforcing)"),
            Fault::Channel(error) => write!(f, "TLS: {error}"),
            Fault::Proxy(reason) => write!(f, "malformed PROXY header: {reason}"),
            Fault::ProxyNotAllowed => {
                f.write_str("a PROXY header from a peer that may not send one")
            }
        }
    }
}

/// Where the connection is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Nothing has been understood yet: perhaps a PROXY header comes.
    Fresh,
    /// A PROXY header has begun, and the peer may send one.
    Proxy,
    /// Behind a PROXY header: perhaps TLS comes.
    Proxied,
    /// TLS begins; the hello is in the input.
    Hello,
    /// Frames.
    Frames,
}

/// The state of one connection. Lives: in its shard. Holds no buffer while it has nothing to keep.
///
/// It is *stalled* while it is owed too many answers or does not read what it is sent: then it
/// serves no further request, buffered or not, so that a peer that only sends cannot make the
/// shard's memory grow.
#[derive(Debug)]
pub(super) struct Connection {
    key: ConnKey,
    mode: Mode,
    phase: Phase,
    /// What the peer, or the one a load balancer speaks for, may ask for.
    rights: Rights,
    /// Received and not yet served: part of a frame, or frames that wait while the connection is
    /// stalled.
    input: BytesMut,
    /// Answers that the ring does not have yet.
    output: Vec<u8>,
    /// Bytes that the ring is sending.
    in_flight: usize,
    /// Answers that the writer will send: `<= OWED_PER_CONNECTION_MAX`.
    owed: usize,
    /// Frames served since the last [`Connection::take_served`].
    served: u64,
    /// Output is scarce: stalled as long as there is any.
    tight: bool,
    /// The writer must hear when this connection closes.
    tell_close: bool,
    /// The last code that the peer had no right to, since the last [`Connection::take_forbidden`].
    forbidden: Option<i32>,
    /// Whom a load balancer speaks for, for the log.
    source: Option<Box<SocketAddr>>,
}

impl Connection {
    /// A connection that has not sent a byte.
    pub(super) fn new(key: ConnKey, mode: Mode, rights: Rights) -> Connection {
        Connection {
            key,
            mode,
            phase: Phase::Fresh,
            rights,
            input: BytesMut::new(),
            output: Vec::new(),
            in_flight: 0,
            owed: 0,
            served: 0,
            tight: false,
            tell_close: false,
            forbidden: None,
            source: None,
        }
    }

    /// Serves the frames that `bytes` complete and keeps the rest. `door` says what the peer may
    /// do.
    ///
    /// A frame that lies whole in `bytes` is served from there, without a copy.
    pub(super) fn received(
        &mut self,
        bytes: &[u8],
        door: &Door<'_>,
        requests: &mut dyn Requests,
    ) -> Result<(), Fault> {
        if !self.input.is_empty() || self.phase != Phase::Frames {
            // Grows by doubling, with the bytes that have come, never with the length that was
            // announced.
            self.input.extend_from_slice(bytes);
            if !self.understand_first(door)? {
                return Ok(());
            }
            return self.serve_buffered(requests);
        }
        let mut rest = bytes;
        while !self.stalled() {
            let Some(head) = frame::next(rest).map_err(Fault::Malformed)? else { break };
            let (frame, behind) = rest.split_at(head.total_bytes);
            rest = behind;
            self.serve(&head, frame, None, requests)?;
        }
        self.input.extend_from_slice(rest);
        Ok(())
    }

    /// True if [`Connection::take_hello`] has something.
    pub(super) fn in_hello(&self) -> bool {
        self.phase == Phase::Hello
    }

    /// The beginning of a TLS hello, once: from then on the connection expects plaintext.
    pub(super) fn take_hello(&mut self) -> Option<BytesMut> {
        if self.phase != Phase::Hello {
            return None;
        }
        self.phase = Phase::Frames;
        Some(mem::take(&mut self.input))
    }

    /// Goes on with buffered frames after a stall.
    pub(super) fn proceed(&mut self, requests: &mut dyn Requests) -> Result<(), Fault> {
        if self.phase == Phase::Frames { self.serve_buffered(requests) } else { Ok(()) }
    }

    /// Appends an answer of the writer that was owed.
    pub(super) fn answered(&mut self, append: impl FnOnce(&mut Vec<u8>)) {
        debug_assert!(self.owed > 0, "the writer answers once");
        self.owed = self.owed.saturating_sub(1);
        append(&mut self.output);
    }

    /// The next bytes to send, unless some are under way.
    pub(super) fn take_output(&mut self) -> Option<Vec<u8>> {
        if self.in_flight > 0 || self.output.is_empty() {
            return None;
        }
        let output = mem::take(&mut self.output);
        self.in_flight = output.len();
        Some(output)
    }

    /// All of what [`Connection::take_output`] gave has been sent.
    pub(super) fn sent(&mut self) {
        self.in_flight = 0;
    }

    /// Lends the connection an empty output buffer, if it has none.
    pub(super) fn lend(&mut self, spare: impl FnOnce() -> Vec<u8>) {
        if self.output.capacity() == 0 {
            self.output = spare();
            debug_assert!(self.output.is_empty());
        }
    }

    /// Takes the output buffer back if nothing is in it.
    pub(super) fn reclaim(&mut self) -> Option<Vec<u8>> {
        (self.output.is_empty() && self.output.capacity() > 0).then(|| mem::take(&mut self.output))
    }

    /// True while no request is to be served, see [`Connection`].
    pub(super) fn stalled(&self) -> bool {
        self.output_bytes() > if self.tight { 0 } else { OUTPUT_HIGH_WATER_BYTES }
            || self.owed >= OWED_PER_CONNECTION_MAX
    }

    /// Says whether any output at all stalls the connection.
    pub(super) fn tighten(&mut self, tight: bool) {
        self.tight = tight;
    }

    /// Bytes of the buffer for what has come and is not served.
    pub(super) fn input_bytes(&self) -> usize {
        self.input.capacity()
    }

    /// Bytes that have not been sent.
    pub(super) fn output_bytes(&self) -> usize {
        self.output.len() + self.in_flight
    }

    /// True if the connection is in the middle of a large frame.
    pub(super) fn in_large_frame(&self) -> bool {
        self.phase == Phase::Frames
            && frame::announced(&self.input).is_some_and(|bytes| bytes > LARGE_FRAME_BYTES)
    }

    /// True if nothing is to be sent any more and no answer will come.
    pub(super) fn quiet(&self) -> bool {
        self.output.is_empty() && self.in_flight == 0 && self.owed == 0
    }

    /// True if there are answers that the ring does not have yet.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// True if all that was to be sent has been.
    pub(super) fn flushed(&self) -> bool {
        self.output.is_empty() && self.in_flight == 0
    }

    /// True if not a byte has come that was not part of a PROXY header.
    pub(super) fn unused(&self) -> bool {
        self.phase != Phase::Frames && self.input.is_empty()
    }

    /// Whose connection it is.
    pub(super) fn key(&self) -> ConnKey {
        self.key
    }

    /// True if the writer must hear of the close.
    pub(super) fn tell_close(&self) -> bool {
        self.tell_close
    }

    /// Whom a load balancer speaks for.
    pub(super) fn source(&self) -> Option<SocketAddr> {
        self.source.as_deref().copied()
    }

    /// The last code that the peer had no right to, since the last call.
    pub(super) fn take_forbidden(&mut self) -> Option<i32> {
        self.forbidden.take()
    }

    /// Frames served since the last call.
    pub(super) fn take_served(&mut self) -> u64 {
        mem::take(&mut self.served)
    }

    /// Reads what comes before the first frame. False while more bytes are needed.
    fn understand_first(&mut self, door: &Door<'_>) -> Result<bool, Fault> {
        if self.phase == Phase::Fresh && sniff::is_proxy(&self.input) {
            // Asked as soon as can be: a stranger is not to leave 64 KiB of a header here.
            if !door.opens_for_proxy() {
                return Err(Fault::ProxyNotAllowed);
            }
            self.phase = Phase::Proxy;
        }
        if matches!(self.phase, Phase::Fresh | Phase::Proxy) {
            match sniff::first(&self.input).map_err(Fault::Proxy)? {
                First::Incomplete => return Ok(false),
                First::Plain => {}
                First::Proxy { bytes, source } => {
                    self.input.advance(bytes);
                    if let Some(source) = source {
                        self.rights = door.access.rights_behind(self.rights, source.ip());
                    }
                    self.source = source.map(Box::new);
                }
            }
            self.phase = Phase::Proxied;
        }
        if self.phase == Phase::Proxied {
            match self.input.first() {
                None => return Ok(false),
                Some(byte) if sniff::is_tls(*byte) => match self.mode {
                    Mode::Disabled => return Err(Fault::Tls),
                    Mode::Permissive | Mode::Enforcing => self.phase = Phase::Hello,
                },
                Some(_) if self.mode == Mode::Enforcing => return Err(Fault::Plain),
                Some(_) => self.phase = Phase::Frames,
            }
        }
        Ok(self.phase == Phase::Frames)
    }

    fn serve_buffered(&mut self, requests: &mut dyn Requests) -> Result<(), Fault> {
        // On an error the rest is discarded with it.
        let mut input = mem::take(&mut self.input);
        let mut skipped_bytes = 0;
        while !self.stalled() {
            let Some(head) = frame::next(&input).map_err(Fault::Malformed)? else { break };
            if head.total_bytes < SHARED_FRAME_BYTES_MIN {
                self.serve(&head, &input[..head.total_bytes], None, requests)?;
                input.advance(head.total_bytes);
                skipped_bytes += head.total_bytes;
                continue;
            }
            let frame = input.split_to(head.total_bytes).freeze();
            if input.len() <= TAIL_BYTES_MAX {
                input = BytesMut::from(&input[..]);
            }
            self.serve(&head, &frame, Some(&frame), requests)?;
        }
        // An empty buffer is let go of: most connections are idle most of the time.
        if !input.is_empty() {
            // One that is mostly room, too: growth alone never leaves more room than content.
            let room_bytes = skipped_bytes + input.capacity() - input.len();
            let shrink = room_bytes > input.len() + TAIL_BYTES_MAX;
            self.input = if shrink { BytesMut::from(&input[..]) } else { input };
        }
        Ok(())
    }

    fn serve(
        &mut self,
        head: &FrameHead,
        frame: &[u8],
        owner: Option<&Bytes>,
        requests: &mut dyn Requests,
    ) -> Result<(), Fault> {
        let served = requests.request(self.key, self.rights, head, frame, owner, &mut self.output);
        let Served { owed, tell_close, forbidden } = served.map_err(Fault::Malformed)?;
        self.served += 1;
        self.owed += usize::from(owed);
        self.tell_close |= tell_close;
        self.forbidden = forbidden.or(self.forbidden);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

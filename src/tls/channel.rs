//! One TLS connection, sans-IO: ciphertext in, plaintext out, and back. Owns no socket and knows no
//! time.
//!
//! What is not understood yet is handed to rustls again at every call, unchanged and from its first
//! byte: it remembers places in it. A shorter buffer would be a panic that a peer can cause.
//!
//! At rest it holds no buffer: what has come and is not a whole record yet, and what waits to be
//! sent, is all there ever is.

use std::fmt;
use std::mem;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus,
};

use crate::limits::{TLS_HANDSHAKE_OUTPUT_BYTES_MAX, TLS_PENDING_BYTES_MAX};

/// Most plaintext of one record.
const RECORD_PLAIN_BYTES: usize = 16 << 10;
/// What a record adds to it, with room to spare: head, explicit nonce, content type, tag.
const RECORD_EXTRA_BYTES: usize = 64;

/// Why a connection must be closed. The alert for the peer, if there is one, is in the output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelError(String);

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<rustls::Error> for ChannelError {
    fn from(error: rustls::Error) -> ChannelError {
        use rustls::PeerIncompatible::{
            SignatureAlgorithmsExtensionRequired, Tls12NotOffered, Tls12NotOfferedOrEnabled,
        };
        match error {
            // The extension came with 1.2: rustls misses it before it looks at the version.
            rustls::Error::PeerIncompatible(
                SignatureAlgorithmsExtensionRequired | Tls12NotOffered | Tls12NotOfferedOrEnabled,
            ) => ChannelError("the peer offers no version that is served (1.1 or older?)".into()),
            error => ChannelError(error.to_string()),
        }
    }
}

/// What has happened since the last call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// The handshake is done now, and was not before.
    pub established: bool,
    /// The peer will send no more.
    pub ended: bool,
}

/// The state of one TLS connection. Lives: beside its connection.
pub struct Channel {
    tls: UnbufferedServerConnection,
    /// Received and not yet understood: `<= TLS_PENDING_BYTES_MAX`.
    pending: Vec<u8>,
    /// To be sent.
    output: Vec<u8>,
    /// The ring is sending.
    sending: bool,
    established: bool,
    /// Nothing is sent any more: after `close_notify`, or after an error.
    closed: bool,
}

impl Channel {
    /// A channel that expects a hello.
    ///
    /// # Errors
    /// When the configuration cannot be used, which was checked when it was loaded.
    pub fn new(config: Arc<ServerConfig>) -> Result<Channel, ChannelError> {
        Ok(Channel {
            tls: UnbufferedServerConnection::new(config)?,
            pending: Vec::new(),
            output: Vec::new(),
            sending: false,
            established: false,
            closed: false,
        })
    }

    /// Takes received bytes and appends what they hold to `plain`.
    ///
    /// # Errors
    /// The connection must be closed; what came before has been appended.
    pub fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Progress, ChannelError> {
        let mut pending = mem::take(&mut self.pending);
        pending.extend_from_slice(bytes);
        let mut taken = 0;
        let mut progress = Progress::default();
        let result = self.understand(&mut pending, &mut taken, plain, &mut progress);
        if let Err(error) = result {
            self.alert(&mut pending[taken..]);
            return Err(error);
        }
        if taken < pending.len() {
            pending.drain(..taken);
            self.pending = pending;
        }
        if self.pending.len() > TLS_PENDING_BYTES_MAX {
            self.closed = true;
            return Err(ChannelError("a message that does not end".to_owned()));
        }
        Ok(progress)
    }

    fn understand(
        &mut self,
        bytes: &mut [u8],
        taken: &mut usize,
        plain: &mut Vec<u8>,
        progress: &mut Progress,
    ) -> Result<(), ChannelError> {
        loop {
            let UnbufferedStatus { discard, state, .. } =
                self.tls.process_tls_records(&mut bytes[*taken..]);
            if state.is_err() {
                *taken += discard;
            }
            let rest = match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    let mut behind = 0;
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        behind += record.discard;
                        plain.extend_from_slice(record.payload);
                    }
                    Some(behind)
                }
                ConnectionState::EncodeTlsData(mut message) => {
                    encode(&mut self.output, &mut message)?;
                    if !self.established && self.output.len() > TLS_HANDSHAKE_OUTPUT_BYTES_MAX {
                        return Err(ChannelError("the peer does not read".to_owned()));
                    }
                    Some(0)
                }
                // It is in the output, which is sent in order.
                ConnectionState::TransmitTlsData(message) => {
                    message.done();
                    Some(0)
                }
                ConnectionState::PeerClosed => {
                    progress.ended = true;
                    Some(0)
                }
                ConnectionState::WriteTraffic(_) => {
                    progress.established = !mem::replace(&mut self.established, true);
                    None
                }
                ConnectionState::Closed => {
                    progress.ended = true;
                    None
                }
                // Early data is not offered.
                _ => None,
            };
            *taken += discard + rest.unwrap_or(0);
            if rest.is_none() {
                return Ok(());
            }
        }
    }

    /// Puts the alert for an error into the output; nothing else is sent after it. `rest` is what
    /// was not understood: rustls remembers places in it.
    fn alert(&mut self, rest: &mut [u8]) {
        self.closed = true;
        let state = self.tls.process_tls_records(rest).state;
        if let Ok(ConnectionState::EncodeTlsData(mut message)) = state {
            // Without it, the peer sees the connection end, which is all it needs.
            let _ = encode(&mut self.output, &mut message);
        }
    }

    /// Encrypts an answer into the output.
    ///
    /// # Errors
    /// When the keys are used up, which takes some 2^24 records, and the peer is too old to renew
    /// them.
    pub fn seal(&mut self, plain: &[u8]) -> Result<(), ChannelError> {
        if self.closed {
            return Ok(());
        }
        let records = plain.len().div_ceil(RECORD_PLAIN_BYTES) + 1;
        let room = plain.len() + records * RECORD_EXTRA_BYTES;
        // With what is pending, because rustls remembers places in it.
        let state = self.tls.process_tls_records(&mut self.pending).state?;
        let ConnectionState::WriteTraffic(mut traffic) = state else {
            return Err(ChannelError("nothing can be sent in this state".to_owned()));
        };
        append(&mut self.output, room, |room| too_small(traffic.encrypt(plain, room)))
    }

    /// Tells the peer that nothing more will come.
    pub fn close(&mut self) {
        if !self.established || mem::replace(&mut self.closed, true) {
            return;
        }
        let state = self.tls.process_tls_records(&mut self.pending).state;
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = state {
            // Without it, the peer sees the connection end, which is all it needs.
            let _ = append(&mut self.output, RECORD_EXTRA_BYTES, |room| {
                too_small(traffic.queue_close_notify(room))
            });
        }
    }

    /// Lends the channel an empty output buffer, if it has none.
    pub fn lend(&mut self, spare: impl FnOnce() -> Vec<u8>) {
        if self.output.capacity() == 0 {
            self.output = spare();
            debug_assert!(self.output.is_empty());
        }
    }

    /// Takes the output buffer back if nothing is in it.
    pub fn reclaim(&mut self) -> Option<Vec<u8>> {
        (self.output.is_empty() && self.output.capacity() > 0).then(|| mem::take(&mut self.output))
    }

    /// The next bytes for the ring, unless some are under way.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        if self.sending || self.output.is_empty() {
            return None;
        }
        self.sending = true;
        Some(mem::take(&mut self.output))
    }

    /// All of what [`Channel::take_output`] gave has been sent.
    pub fn sent(&mut self) {
        self.sending = false;
    }

    /// True while the ring sends.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        self.sending
    }

    /// True if there are bytes that the ring does not have yet.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// True if all that was to be sent has been.
    #[must_use]
    pub fn flushed(&self) -> bool {
        self.output.is_empty() && !self.sending
    }

    /// True once the handshake is done.
    #[cfg(test)]
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Bytes of the buffer for what has come and is not understood.
    #[must_use]
    pub fn input_bytes(&self) -> usize {
        self.pending.capacity()
    }

    /// Bytes that the ring does not have yet.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.output.len()
    }

    /// True if nothing is sent any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("established", &self.established)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

fn encode<Data>(
    output: &mut Vec<u8>,
    message: &mut EncodeTlsData<'_, Data>,
) -> Result<(), ChannelError> {
    append(output, RECORD_EXTRA_BYTES, |room| {
        message.encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => Some(size),
            EncodeError::AlreadyEncoded => None,
        })
    })
}

fn too_small(result: Result<usize, EncryptError>) -> Result<usize, Option<InsufficientSizeError>> {
    result.map_err(|error| match error {
        EncryptError::InsufficientSize(size) => Some(size),
        EncryptError::EncryptExhausted => None,
    })
}

/// Lets `write` append to `output`, giving it `room` bytes first, and what it asks for if that is
/// too little.
fn append(
    output: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> Result<(), ChannelError> {
    let begin = output.len();
    let mut room = room;
    for _ in 0..2 {
        output.resize(begin + room, 0);
        match write(&mut output[begin..]) {
            Ok(written) => {
                output.truncate(begin + written);
                return Ok(());
            }
            Err(Some(InsufficientSizeError { required_size })) => room = required_size,
            Err(None) => break,
        }
    }
    output.truncate(begin);
    Err(ChannelError("a message cannot be encoded".to_owned()))
}

#[cfg(test)]
mod tests;

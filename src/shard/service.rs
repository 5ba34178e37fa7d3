//! What a shard needs of the code that understands requests.

use bytes::Bytes;

use crate::ids::ConnKey;
use crate::wire::WireError;
use crate::wire::code::Rights;
use crate::wire::frame::FrameHead;
use crate::writer::request::WriteAnswer;

/// What became of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// The writer will send an answer.
    pub owed: bool,
    /// The writer must hear when the connection closes: a broker may have registered over it.
    pub tell_close: bool,
    /// The code of the request, if it was refused because the peer has no right to it.
    pub forbidden: Option<i32>,
}

/// Answers requests with one view of the tables.
pub trait Requests {
    /// Serves one whole frame and appends its answer, if it has one already, to `out`. `owner` is
    /// the buffer that `frame` fills, where it can be shared. `rights` are the peer's.
    ///
    /// # Errors
    /// When the frame cannot be read: the connection is closed.
    fn request(
        &mut self,
        conn: ConnKey,
        rights: Rights,
        head: &FrameHead,
        frame: &[u8],
        owner: Option<&Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<Served, WireError>;
}

/// Everything behind the connections of one shard. Lives: in its shard.
pub trait Service {
    /// Runs `work` with the newest view. Called once a batch of received bytes.
    fn batch<T>(&mut self, work: impl FnOnce(&mut dyn Requests) -> T) -> T;

    /// Prepares for the requests in what several connections have received and will be served next.
    /// Changes nothing that anybody could see.
    fn fetch_ahead<'a>(&mut self, received: impl Iterator<Item = &'a [u8]>) {
        let _ = received;
    }

    /// Encodes an answer of the writer.
    fn answer(&mut self, answer: WriteAnswer, out: &mut Vec<u8>);

    /// Takes note of an answer whose connection is gone, in place of [`Service::answer`].
    fn lost(&mut self, answer: WriteAnswer);

    /// Tells the writer that a connection is gone; never lost.
    fn closed(&mut self, conn: ConnKey);

    /// Tells the writer what it could not be told yet. True if some is left.
    fn flush_closed(&mut self) -> bool;

    /// True while the writer holds so many bytes that no large frame is to be read.
    fn over_budget(&self) -> bool;

    /// Lets go of a view that has been replaced.
    fn refresh(&mut self);
}

//! What a shard serves from: its reader of the view and its desk.

use bytes::Bytes;

use crate::handler::{Desk, Dispatch, dispatch, fetch_ahead, refuse};
use crate::ids::ConnKey;
use crate::publish::{Reader, View};
use crate::shard::service::{Requests, Served, Service};
use crate::wire::code::Rights;
use crate::wire::{Command, FrameHead, WireError};
use crate::writer::request::WriteAnswer;

use super::EndNote;

/// Everything behind the connections of one shard. Lives: in its shard.
pub(super) struct Serving {
    pub reader: Reader,
    pub desk: Desk,
    /// Reports the shard's end when it is dropped with the shard.
    pub _end: EndNote,
}

/// One batch of requests: all see the same view.
struct Batch<'a> {
    view: &'a View,
    desk: &'a mut Desk,
}

impl Requests for Batch<'_> {
    fn request(
        &mut self,
        conn: ConnKey,
        rights: Rights,
        head: &FrameHead,
        frame: &[u8],
        owner: Option<&Bytes>,
        out: &mut Vec<u8>,
    ) -> Result<Served, WireError> {
        let mut command = Command::default();
        command.read(head, frame, owner)?;
        if let Some(sender) = rights.forbid(command.code)
            && !command.is_response()
        {
            refuse(&command, sender, self.desk, out);
            return Ok(Served { forbidden: Some(command.code), ..Served::default() });
        }
        let dispatched = dispatch(&command, conn, self.view, self.desk, out);
        Ok(Served {
            owed: dispatched == Dispatch::Owed,
            tell_close: dispatched != Dispatch::Done,
            forbidden: None,
        })
    }
}

impl Service for Serving {
    fn batch<T>(&mut self, work: impl FnOnce(&mut dyn Requests) -> T) -> T {
        let desk = &mut self.desk;
        self.reader.with(|view| work(&mut Batch { view, desk }))
    }

    fn fetch_ahead<'a>(&mut self, received: impl Iterator<Item = &'a [u8]>) {
        self.reader.with(|view| fetch_ahead(view, received));
    }

    fn answer(&mut self, answer: WriteAnswer, out: &mut Vec<u8>) {
        self.desk.answer(&answer, out);
    }

    fn lost(&mut self, _answer: WriteAnswer) {
        self.desk.lost();
    }

    fn closed(&mut self, conn: ConnKey) {
        self.desk.closed(conn);
    }

    fn flush_closed(&mut self) -> bool {
        self.desk.flush_closed()
    }

    fn over_budget(&self) -> bool {
        self.desk.over_budget()
    }

    fn refresh(&mut self) {
        self.reader.with(|_| ());
    }
}

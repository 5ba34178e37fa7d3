//! The reply to one request, as handlers fill it in.

use tracing::warn;

use crate::ids::Opaque;
use crate::limits::FRAME_BYTES_MAX;
use crate::wire::code::{ANSWER_TOO_LARGE, response};
use crate::wire::{self, Command, HeaderKind};

use super::Desk;

/// Writes one reply, or none if the request was one-way.
pub(super) struct Reply<'a> {
    kind: HeaderKind,
    opaque: Opaque,
    wanted: bool,
    out: &'a mut Vec<u8>,
}

impl<'a> Reply<'a> {
    /// A reply to `command`; a request without an opaque gets one of ours, as in Java.
    pub fn to(command: &Command<'_>, desk: &mut Desk, out: &'a mut Vec<u8>) -> Reply<'a> {
        let opaque = command.opaque.unwrap_or_else(|| desk.invent_opaque());
        Reply { kind: desk.header_kind(), opaque, wanted: !command.is_oneway(), out }
    }

    /// Whom the writer is to answer.
    pub fn address(&self) -> Option<Opaque> {
        self.wanted.then_some(self.opaque)
    }

    /// Success with the body that `write` appends.
    pub fn body(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.frame(response::SUCCESS, None, None, write);
    }

    /// The refusal of a route query.
    pub fn no_route(&mut self, topic: &str) {
        if self.wanted {
            wire::put_no_route(self.kind, self.opaque, topic, self.out);
        }
    }

    /// Success without a body.
    pub fn success(&mut self) {
        self.frame(response::SUCCESS, None, None, |_| ());
    }

    /// Success with extension fields.
    pub fn success_with(&mut self, ext: &[(&str, &str)]) {
        self.frame(response::SUCCESS, None, Some(ext), |_| ());
    }

    /// Success with a remark and a body.
    pub fn body_with_remark(&mut self, remark: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.frame(response::SUCCESS, Some(remark), None, write);
    }

    /// A refusal.
    pub fn fail(&mut self, code: i32, remark: &str) {
        self.frame(code, Some(remark), None, |_| ());
    }

    /// A refusal by a code whose answers have a header class, so that the JSON form carries empty
    /// `extFields`.
    pub fn fail_with_ext(&mut self, code: i32, remark: &str) {
        self.frame(code, Some(remark), Some(&[]), |_| ());
    }

    fn frame(
        &mut self,
        code: i32,
        remark: Option<&str>,
        ext: Option<&[(&str, &str)]>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if !self.wanted {
            return;
        }
        let before = self.out.len();
        let head = wire::ReplyHead { code, opaque: self.opaque, remark, ext };
        let open = head.begin(self.kind, self.out);
        write(self.out);
        open.finish(self.out);
        refuse_oversize(self.kind, self.opaque, before, self.out);
    }
}

/// Puts a refusal in the place of an answer, from `before` on, that no client reads. The log needs
/// no bound here: such an answer has cost more than its line.
pub(super) fn refuse_oversize(kind: HeaderKind, opaque: Opaque, before: usize, out: &mut Vec<u8>) {
    let bytes = out.len() - before;
    if bytes <= FRAME_BYTES_MAX {
        return;
    }
    warn!(bytes, "an answer larger than 16 MiB, which no client reads, was not sent");
    out.truncate(before);
    let remark = Some(ANSWER_TOO_LARGE);
    let refusal = wire::ReplyHead { code: response::SYSTEM_ERROR, opaque, remark, ext: None };
    refusal.begin(kind, out).finish(out);
}

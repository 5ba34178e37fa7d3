//! Lists of very many topics, written in pieces. The writer does so because it may take its time:
//! on a shard queries would wait.

use bytes::Bytes;
use tracing::warn;

use crate::limits::FRAME_BYTES_MAX;
use crate::route::{RouteTable, RouteView, TopicList, TopicListing};
use crate::wire::code::{ANSWER_TOO_LARGE, response};

use super::lane::Received;
use super::request::ToShard;
use super::{Answer, Asker, push_answer};

/// Topics looked at in one turn: a fraction of a millisecond.
const TOPICS_A_TURN: usize = 2048;
/// Largest body: with its header it fits a frame.
const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - 1024;

/// Lists that are asked for. Bounded by the lanes: a request counts against its shard's until it is
/// answered.
#[derive(Debug, Default)]
pub(super) struct Lists {
    waiting: Vec<(TopicList, Received)>,
    current: Option<Current>,
}

/// The list that is written, and who waits for it.
#[derive(Debug)]
struct Current {
    listing: TopicListing,
    askers: Vec<Received>,
}

impl Lists {
    pub fn push(&mut self, list: TopicList, received: Received) {
        self.waiting.push((list, received));
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.current.is_none()
    }

    /// Writes a piece of a list; answers all who wait for it when it is complete. Then the view it
    /// was written from is no longer needed, and perhaps nobody else has it any more.
    pub fn work(&mut self, table: &RouteTable, answers: &mut Vec<ToShard>) -> Option<RouteView> {
        let mut current = self.current.take().or_else(|| self.begin(table))?;
        let complete = current.listing.step(TOPICS_A_TURN);
        let too_large = current.listing.body().len() > BODY_BYTES_MAX;
        if !complete && !too_large {
            self.current = Some(current);
            return None;
        }
        if too_large {
            warn!("a list of topics larger than 16 MiB, which no client reads, was not sent");
        }
        let (body, view) = current.listing.finish();
        let body = if too_large { Bytes::new() } else { body.into() };
        for received in current.askers {
            let request = &received.request;
            let asker = Asker { conn: request.conn, reply_to: request.reply_to };
            let reply = if too_large {
                Answer::refused(response::SYSTEM_ERROR, ANSWER_TOO_LARGE)
            } else {
                Answer { body: body.clone(), ..Answer::success() }
            };
            push_answer(answers, asker, reply);
        }
        Some(view)
    }

    /// Takes up the list that has waited longest, for all who ask for the same by now: what they
    /// were told before, its view shows.
    fn begin(&mut self, table: &RouteTable) -> Option<Current> {
        let (list, _) = self.waiting.first()?;
        let listing = TopicListing::new(table.freeze(), list);
        let list = list.clone();
        let same = self.waiting.extract_if(.., |(other, _)| *other == list);
        let askers = same.map(|(_, received)| received).collect();
        Some(Current { listing, askers })
    }
}

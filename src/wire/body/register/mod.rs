//! The body of code 103, in its three layouts, decoded in pieces.
//!
//! A full registration can have 16 MiB and more than 100 000 topics. The writer has other work to
//! do meanwhile, so it calls [`RegisterDecoder::step`] until the body is whole; nothing is applied
//! before that.

mod compressed;
mod json;
mod members;

use bytes::Bytes;

use super::data_version;
use crate::model::{DataVersion, QueueMapping, TopicConfig};
use crate::wire::BodyError;

/// First version whose body is a whole `RegisterBrokerBody` (Java: `V3_0_11`).
const FULL_BODY_VERSION: i32 = 37;
/// First version whose compressed body has a section of mappings (Java: `V5_0_0`).
const MAPPING_SECTION_VERSION: i32 = 413;
/// First byte of every zlib stream with a window of 32 KiB; JSON cannot begin with it.
const ZLIB_FIRST_BYTE: u8 = 0x78;
/// A step ends after this many decoded bytes even if it has entries left, so that large entries do
/// not make it long.
const STEP_BYTES: usize = 256 << 10;

/// How a registration's body is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// A topic table and its version alone: senders older than 3.0.11.
    Bare,
    /// `RegisterBrokerBody` as JSON.
    Json,
    /// A zlib stream of length-prefixed parts.
    Compressed {
        /// Whether it must end in a section of mappings of static topics.
        mapping_section: bool,
    },
}

impl Layout {
    /// The layout that a sender of `version` uses.
    ///
    /// 5.x brokers with `compressedRegister=true` compress the body but say in the header that they
    /// did not; so bytes that begin like a zlib stream are taken for one whatever `compressed`
    /// says.
    #[must_use]
    pub fn of(version: i32, compressed: bool, body: &[u8]) -> Layout {
        if version < FULL_BODY_VERSION {
            Layout::Bare
        } else if compressed || body.first() == Some(&ZLIB_FIRST_BYTE) {
            Layout::Compressed { mapping_section: version >= MAPPING_SECTION_VERSION }
        } else {
            Layout::Json
        }
    }
}

/// What a registration says beside its header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisterBody {
    /// Version of the topic table; `None` if the sender wrote a null.
    pub data_version: Option<DataVersion>,
    /// The topics as they came. One that came twice is here twice: the last counts.
    pub topics: Vec<TopicConfig>,
    /// Mappings of static topics as they came.
    pub mappings: Vec<QueueMapping>,
    /// The broker's filter servers; `None` leaves those of before as they are.
    pub filter_servers: Option<Vec<String>>,
}

/// The outcome of one step.
#[derive(Debug)]
pub enum Step {
    /// There is more to do.
    More,
    /// The body is whole.
    Done(RegisterBody),
}

/// Decodes one registration body. Lives: writer core, for one request.
#[derive(Debug)]
pub struct RegisterDecoder {
    source: Source,
    body: RegisterBody,
}

#[derive(Debug)]
enum Source {
    /// No body was sent, or it has been handed out.
    Nothing,
    Json(json::JsonSource),
    Compressed(Box<compressed::CompressedSource>),
}

impl RegisterDecoder {
    /// A decoder of `body`; `now_ms` is the wall clock, the time stamp of a data version that has
    /// none.
    ///
    /// No body at all is a registration without topics and with an all-zero data version.
    #[must_use]
    pub fn new(body: Bytes, layout: Layout, now_ms: i64) -> RegisterDecoder {
        let mut decoded = RegisterBody {
            data_version: Some(data_version::absent(now_ms)),
            filter_servers: (layout != Layout::Bare).then(Vec::new),
            ..RegisterBody::default()
        };
        let source = match layout {
            _ if body.is_empty() => {
                decoded.data_version = Some(data_version::absent(0));
                Source::Nothing
            }
            Layout::Bare => Source::Json(json::JsonSource::bare(body, now_ms)),
            Layout::Json => Source::Json(json::JsonSource::full(body, now_ms)),
            Layout::Compressed { mapping_section } => {
                let source = compressed::CompressedSource::new(body, mapping_section, now_ms);
                Source::Compressed(Box::new(source))
            }
        };
        RegisterDecoder { source, body: decoded }
    }

    /// Goes on for at most `entries` topics, mappings or other members, and a bounded number of
    /// bytes; at least one entry is taken. A decoder that is done gives an empty body from then on.
    ///
    /// # Errors
    ///
    /// When the body cannot be read or Java would apply only half of it; the decoder is of no use
    /// after that.
    pub fn step(&mut self, entries: usize) -> Result<Step, BodyError> {
        let entries = entries.max(1);
        let done = match &mut self.source {
            Source::Nothing => true,
            Source::Json(source) => source.step(entries, &mut self.body)?,
            Source::Compressed(source) => source.step(entries, &mut self.body)?,
        };
        if !done {
            return Ok(Step::More);
        }
        self.source = Source::Nothing;
        Ok(Step::Done(std::mem::take(&mut self.body)))
    }
}

/// Decodes a whole body at once: for tools and tests, where nobody waits.
///
/// # Errors
///
/// As [`RegisterDecoder::step`].
pub fn decode(body: Bytes, layout: Layout, now_ms: i64) -> Result<RegisterBody, BodyError> {
    let mut decoder = RegisterDecoder::new(body, layout, now_ms);
    loop {
        if let Step::Done(body) = decoder.step(usize::MAX)? {
            return Ok(body);
        }
    }
}

#[cfg(test)]
mod tests;

//! The compressed layout: a zlib stream of parts, each behind its length (Java:
//! `RegisterBrokerBody.encode`).
//!
//! ```text
//! version | topic count | topic* | filter servers | [mapping count | mapping*]
//! ```
//!
//! The stream is inflated only as far as it is read. What it announces never sizes an allocation: a
//! part grows as its bytes arrive, up to [`INFLATED_ENTRY_BYTES_MAX`], and all parts together up to
//! [`INFLATED_BYTES_MAX`].

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

use super::super::data_version;
use super::{RegisterBody, STEP_BYTES, members};
use crate::limits::{INFLATED_BYTES_MAX, INFLATED_ENTRY_BYTES_MAX, REGISTERED_ENTRIES_MAX};
use crate::wire::BodyError;
use crate::wire::json::{JsonError, Reader};

/// Inflated bytes are made this many at a time.
const CHUNK_BYTES: usize = 32 << 10;
/// Bytes of a length or count.
const NUMBER_BYTES: usize = 4;

/// The part that comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Version,
    TopicCount,
    Topic { index: usize, count: usize },
    FilterServers,
    MappingCount,
    Mapping { index: usize, count: usize },
    End,
}

impl Part {
    fn name(self) -> String {
        match self {
            Part::Version => "data version".into(),
            Part::TopicCount => "topic count".into(),
            Part::Topic { index, count } => format!("topic {} of {count}", index + 1),
            Part::FilterServers => "filter servers".into(),
            Part::MappingCount => "mapping count".into(),
            Part::Mapping { index, count } => format!("mapping {} of {count}", index + 1),
            Part::End => "end".into(),
        }
    }
}

/// A compressed body, and how far it has been read.
#[derive(Debug)]
pub(super) struct CompressedSource {
    stream: Inflation,
    part: Part,
    mapping_section: bool,
    now_ms: i64,
}

impl CompressedSource {
    pub(super) fn new(body: Bytes, mapping_section: bool, now_ms: i64) -> CompressedSource {
        CompressedSource {
            stream: Inflation::new(body),
            part: Part::Version,
            mapping_section,
            now_ms,
        }
    }

    /// The same with another bound on all inflated bytes, as 256 MiB take a while without
    /// optimization.
    #[cfg(test)]
    pub(super) fn bounded(mut self, bytes_max: usize) -> CompressedSource {
        self.stream.bytes_max = bytes_max;
        self
    }

    /// Bytes that the inflated, not yet read part takes.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.stream.plain.capacity()
    }

    /// Reads on into `body`; true when the last part has been read. What follows is not even
    /// inflated.
    pub(super) fn step(
        &mut self,
        entries: usize,
        body: &mut RegisterBody,
    ) -> Result<bool, BodyError> {
        let until = self.stream.taken().saturating_add(STEP_BYTES);
        for _ in 0..entries {
            if self.part == Part::End {
                return Ok(true);
            }
            let (part, before) = (self.part, self.stream.taken());
            self.part = self.take(part, body).map_err(|fault| fault.at(part, before))?;
            if self.stream.taken() >= until {
                break;
            }
        }
        Ok(false)
    }

    /// Takes one part and says which comes next.
    fn take(&mut self, part: Part, body: &mut RegisterBody) -> Result<Part, Fault> {
        match part {
            Part::Version => {
                let bytes = self.stream.part()?;
                body.data_version = match bytes {
                    [] => None,
                    _ => whole(bytes, |reader| data_version::read(reader, self.now_ms))?,
                };
                Ok(Part::TopicCount)
            }
            Part::TopicCount => Ok(topic_or_next(0, self.stream.count()?)),
            Part::Topic { index, count } => {
                let topic = members::topic_line(self.stream.part()?).map_err(Fault::Is)?;
                body.topics.push(topic);
                Ok(topic_or_next(index + 1, count))
            }
            Part::FilterServers => {
                // Java tolerates nonsense here: the list stays empty.
                let list = whole(self.stream.part()?, members::filter_servers);
                body.filter_servers = list.unwrap_or_else(|_| Some(Vec::new()));
                Ok(if self.mapping_section { Part::MappingCount } else { Part::End })
            }
            Part::MappingCount => Ok(mapping_or_end(0, self.stream.count()?)),
            Part::Mapping { index, count } => {
                let bytes = self.stream.part()?;
                body.mappings.push(whole(bytes, |reader| members::mapping(reader, None))?);
                Ok(mapping_or_end(index + 1, count))
            }
            Part::End => Ok(Part::End),
        }
    }
}

fn topic_or_next(index: usize, count: usize) -> Part {
    if index < count { Part::Topic { index, count } } else { Part::FilterServers }
}

fn mapping_or_end(index: usize, count: usize) -> Part {
    if index < count { Part::Mapping { index, count } } else { Part::End }
}

/// Reads `bytes` as one JSON value with nothing behind.
fn whole<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, JsonError>,
) -> Result<T, JsonError> {
    let mut reader = Reader::new(bytes);
    let value = read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// What is wrong with a part, before it is known which one.
enum Fault {
    Is(&'static str),
    Json(JsonError),
}

impl Fault {
    /// `before` is the part's offset in the inflated bytes.
    fn at(self, part: Part, before: usize) -> BodyError {
        let place = format!("compressed registration: {}", part.name());
        match self {
            Fault::Is(what) => BodyError::new(place, what),
            Fault::Json(error) => BodyError::json(place, error, before + NUMBER_BYTES),
        }
    }
}

impl From<JsonError> for Fault {
    fn from(error: JsonError) -> Fault {
        Fault::Json(error)
    }
}

/// The inflated bytes of a zlib stream, made as they are asked for.
#[derive(Debug)]
struct Inflation {
    source: Bytes,
    /// Bytes of `source` that were inflated.
    used: usize,
    stream: Decompress,
    ended: bool,
    /// Inflated bytes; those before `start` were taken.
    plain: Vec<u8>,
    /// `start <= plain.len()`
    start: usize,
    /// Inflated bytes that were dropped from the front of `plain`.
    dropped: usize,
    /// Bound on all inflated bytes, give or take a chunk.
    bytes_max: usize,
}

impl Inflation {
    fn new(source: Bytes) -> Inflation {
        Inflation {
            source,
            used: 0,
            stream: Decompress::new(true),
            ended: false,
            plain: Vec::new(),
            start: 0,
            dropped: 0,
            bytes_max: INFLATED_BYTES_MAX,
        }
    }

    /// Inflated bytes that were taken so far.
    fn taken(&self) -> usize {
        self.dropped + self.start
    }

    /// The next part: a length and that many bytes.
    fn part(&mut self) -> Result<&[u8], Fault> {
        let length = self.number()?;
        match usize::try_from(length) {
            Ok(length) if length <= INFLATED_ENTRY_BYTES_MAX => self.take(length),
            Ok(_) => Err(Fault::Is("length is over the limit of 1 MiB for one part")),
            Err(_) => Err(Fault::Is("length is negative")),
        }
    }

    /// A number of parts. Whether so many really come shows when they are taken.
    fn count(&mut self) -> Result<usize, Fault> {
        match usize::try_from(self.number()?) {
            Ok(count) if count <= REGISTERED_ENTRIES_MAX => Ok(count),
            Ok(_) => Err(Fault::Is("count is over the limit of 1048576")),
            Err(_) => Err(Fault::Is("count is negative")),
        }
    }

    fn number(&mut self) -> Result<i32, Fault> {
        let bytes = self.take(NUMBER_BYTES)?;
        bytes.first_chunk().map(|bytes| i32::from_be_bytes(*bytes)).ok_or(Fault::Is("no number"))
    }

    /// The next `length` bytes, at most [`INFLATED_ENTRY_BYTES_MAX`].
    fn take(&mut self, length: usize) -> Result<&[u8], Fault> {
        debug_assert!(length <= INFLATED_ENTRY_BYTES_MAX);
        while self.plain.len() - self.start < length {
            self.inflate()?;
        }
        let from = self.start;
        self.start += length;
        Ok(&self.plain[from..self.start])
    }

    /// Makes at least one more byte.
    fn inflate(&mut self) -> Result<(), Fault> {
        self.dropped += self.start;
        self.plain.drain(..self.start);
        self.start = 0;
        if self.dropped + self.plain.len() >= self.bytes_max {
            return Err(Fault::Is("inflates to more than the limit of 256 MiB"));
        }
        let before = self.plain.len();
        self.plain.reserve(CHUNK_BYTES);
        while self.plain.len() == before {
            if self.ended {
                return Err(Fault::Is("ends here"));
            }
            let (read, input) = (self.stream.total_in(), &self.source[self.used..]);
            let status = self
                .stream
                .decompress_vec(input, &mut self.plain, FlushDecompress::None)
                .map_err(|_| Fault::Is("not a zlib stream, or a damaged one"))?;
            let read = usize::try_from(self.stream.total_in() - read).unwrap_or(usize::MAX);
            self.used = self.used.saturating_add(read).min(self.source.len());
            self.ended = status == Status::StreamEnd || (read == 0 && self.plain.len() == before);
        }
        Ok(())
    }
}

const _: () = assert!(INFLATED_ENTRY_BYTES_MAX == 1 << 20, "a message names the limit");
const _: () = assert!(REGISTERED_ENTRIES_MAX == 1_048_576, "a message names the limit");
const _: () = assert!(INFLATED_BYTES_MAX == 256 << 20, "a message names the limit");

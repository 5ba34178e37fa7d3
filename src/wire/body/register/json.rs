//! The two JSON layouts: the whole body, and the bare topic table of ancient senders.
//!
//! Java keeps what it has applied when it stumbles later; here a null where Java stumbles refuses
//! the body: for the wrapper, the topic table, the mapping table, a topic, a mapping.

use bytes::Bytes;

use super::super::data_version;
use super::{RegisterBody, STEP_BYTES, members};
use crate::wire::BodyError;
use crate::wire::error::excerpt;
use crate::wire::json::{JsonError, Raw, Reader};

/// Where reading goes on: always between two members of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Start,
    /// In `RegisterBrokerBody`.
    Body,
    /// In `topicConfigSerializeWrapper`, or in the body of the bare layout.
    Configs,
    /// In `topicConfigTable`.
    Topics,
    /// In `topicQueueMappingInfoMap`.
    Mappings,
    End,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Start | Place::Body | Place::End => "registration",
            Place::Configs => "topicConfigSerializeWrapper",
            Place::Topics => "topicConfigTable",
            Place::Mappings => "topicQueueMappingInfoMap",
        }
    }
}

/// A body in one of the two layouts, and how far it has been read.
#[derive(Debug)]
pub(super) struct JsonSource {
    bytes: Bytes,
    at: usize,
    place: Place,
    bare: bool,
    now_ms: i64,
}

impl JsonSource {
    pub(super) fn bare(bytes: Bytes, now_ms: i64) -> JsonSource {
        JsonSource { bytes, at: 0, place: Place::Start, bare: true, now_ms }
    }

    pub(super) fn full(bytes: Bytes, now_ms: i64) -> JsonSource {
        JsonSource { bytes, at: 0, place: Place::Start, bare: false, now_ms }
    }

    /// Reads on into `body`; true when the end has been reached.
    pub(super) fn step(
        &mut self,
        entries: usize,
        body: &mut RegisterBody,
    ) -> Result<bool, BodyError> {
        // A second handle, as the reader borrows the bytes while `self` changes.
        let bytes = self.bytes.clone();
        let mut reader = Reader::resume(&bytes, self.at);
        let until = self.at.saturating_add(STEP_BYTES);
        for _ in 0..entries {
            if self.place == Place::End {
                reader.finish().map_err(|error| BodyError::json("registration", error, 0))?;
                return Ok(true);
            }
            self.entry(&mut reader, body)?;
            if reader.at() >= until {
                break;
            }
        }
        self.at = reader.at();
        Ok(false)
    }

    /// Takes one member, whatever the place.
    fn entry(&mut self, reader: &mut Reader<'_>, body: &mut RegisterBody) -> Result<(), BodyError> {
        let place = self.place;
        if place == Place::Start {
            self.place = if self.bare { Place::Configs } else { Place::Body };
            return reader.open_object().map_err(|error| BodyError::json(place.name(), error, 0));
        }
        let at_place = |error| BodyError::json(place.name(), error, 0);
        let Some(key) = reader.key().map_err(at_place)? else {
            self.place = match place {
                Place::Configs if !self.bare => Place::Body,
                Place::Topics | Place::Mappings => Place::Configs,
                _ => Place::End,
            };
            return Ok(());
        };
        let taken = match place {
            Place::Body => self.body_member(&key, reader, body),
            Place::Configs => self.configs_member(&key, reader, body),
            Place::Topics => topic(&key, reader, body),
            _ => mapping(&key, reader, body),
        };
        taken.map_err(|error| {
            let key = key.text().unwrap_or_default();
            BodyError::json(format!("{}[{}]", place.name(), excerpt(&key)), error, 0)
        })
    }

    fn body_member(
        &mut self,
        key: &Raw<'_>,
        reader: &mut Reader<'_>,
        body: &mut RegisterBody,
    ) -> Result<(), JsonError> {
        match &*key.name()? {
            b"filterServerList" => body.filter_servers = members::filter_servers(reader)?,
            b"topicConfigSerializeWrapper" => {
                refuse_null(reader)?;
                reader.open_object()?;
                // The last of two wrappers counts, whole.
                body.data_version = Some(data_version::absent(self.now_ms));
                body.topics.clear();
                body.mappings.clear();
                self.place = Place::Configs;
            }
            _ => reader.skip_member(key)?,
        }
        Ok(())
    }

    fn configs_member(
        &mut self,
        key: &Raw<'_>,
        reader: &mut Reader<'_>,
        body: &mut RegisterBody,
    ) -> Result<(), JsonError> {
        match &*key.name()? {
            b"dataVersion" => body.data_version = data_version::read(reader, self.now_ms)?,
            b"topicConfigTable" => {
                refuse_null(reader)?;
                reader.open_object()?;
                body.topics.clear();
                self.place = Place::Topics;
            }
            b"topicQueueMappingInfoMap" if !self.bare => {
                refuse_null(reader)?;
                reader.open_object()?;
                body.mappings.clear();
                self.place = Place::Mappings;
            }
            _ => reader.skip_member(key)?,
        }
        Ok(())
    }
}

fn topic(key: &Raw<'_>, reader: &mut Reader<'_>, body: &mut RegisterBody) -> Result<(), JsonError> {
    // The key is not kept, as the topic names itself; yet it must be text.
    key.check()?;
    refuse_null(reader)?;
    body.topics.push(members::topic(reader)?);
    Ok(())
}

fn mapping(
    key: &Raw<'_>,
    reader: &mut Reader<'_>,
    body: &mut RegisterBody,
) -> Result<(), JsonError> {
    refuse_null(reader)?;
    body.mappings.push(members::mapping(reader, Some(&key.text()?))?);
    Ok(())
}

fn refuse_null(reader: &mut Reader<'_>) -> Result<(), JsonError> {
    let at = reader.at();
    match reader.null()? {
        true => Err(JsonError { reason: "null where an object must be", at }),
        false => Ok(()),
    }
}

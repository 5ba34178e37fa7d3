//! One topic, one mapping, one list: the parts that the layouts share.

use std::borrow::Cow;

use crate::ids::{BrokerName, Topic};
use crate::limits::{FILTER_SERVERS_MAX, NAME_BYTES_MAX};
use crate::model::{QueueMapping, Queues, TopicConfig};
use crate::wire::json::{JsonError, Reader};

/// Queues of a topic that does not say (Java: `TopicConfig.defaultReadQueueNums`).
const DEFAULT_QUEUES: i32 = 16;
/// Permission of a topic that does not say: read and write.
const DEFAULT_PERM: i32 = crate::model::perm::READ | crate::model::perm::WRITE;
/// Scope of a mapping that does not say (Java: `MixAll.METADATA_SCOPE_GLOBAL`).
const DEFAULT_SCOPE: &str = "__global__";
/// What is said of a name beyond [`NAME_BYTES_MAX`].
const NAME_TOO_LONG: &str = "name is longer than 4096 bytes";

/// Takes a `TopicConfig`. Its own name counts, not the key it stands under.
pub(super) fn topic(reader: &mut Reader<'_>) -> Result<TopicConfig, JsonError> {
    let at = reader.at();
    let mut name: Option<Cow<'_, str>> = None;
    let mut queues =
        Queues { read: DEFAULT_QUEUES, write: DEFAULT_QUEUES, perm: DEFAULT_PERM, sys_flag: 0 };
    reader.open_object()?;
    while let Some(key) = reader.key()? {
        match &*key.name()? {
            b"topicName" => name = reader.any_as_text()?,
            b"readQueueNums" => queues.read = reader.int()?,
            b"writeQueueNums" => queues.write = reader.int()?,
            b"perm" => queues.perm = reader.int()?,
            b"topicSysFlag" => queues.sys_flag = reader.int()?,
            _ => reader.skip_member(&key)?,
        }
    }
    let name = name.ok_or(JsonError { reason: "topic without topicName", at })?;
    let name = bounded_at(&name, at)?;
    Ok(TopicConfig { topic: Topic::from(name), queues })
}

/// `name`, unless it is longer than any real one.
fn bounded(name: &str) -> Result<&str, &'static str> {
    if name.len() > NAME_BYTES_MAX { Err(NAME_TOO_LONG) } else { Ok(name) }
}

/// [`bounded`], of a name in JSON.
fn bounded_at(name: &str, at: usize) -> Result<&str, JsonError> {
    bounded(name).map_err(|reason| JsonError { reason, at })
}

/// Reads a topic of the compressed form: name, read and write queues, permission, filter type, and
/// attributes that nobody keeps, with one blank between (Java: `TopicConfig.decode`).
pub(super) fn topic_line(line: &[u8]) -> Result<TopicConfig, &'static str> {
    let line = std::str::from_utf8(line).map_err(|_| "topic is not UTF-8")?;
    let mut parts = line.split(' ');
    let mut part = || parts.next().ok_or("topic has fewer than 5 parts");
    let (name, read, write, perm, filter) = (part()?, part()?, part()?, part()?, part()?);
    let name = bounded(name)?;
    let number = |text: &str| text.parse::<i32>().map_err(|_| "topic's number is no number");
    if !matches!(filter, "SINGLE_TAG" | "MULTI_TAG") {
        return Err("topic's filter type is neither SINGLE_TAG nor MULTI_TAG");
    }
    let queues =
        Queues { read: number(read)?, write: number(write)?, perm: number(perm)?, sys_flag: 0 };
    Ok(TopicConfig { topic: Topic::from(name), queues })
}

/// Takes a `TopicQueueMappingInfo`, registered under `key`; under its own topic if there is no key.
pub(super) fn mapping(
    reader: &mut Reader<'_>,
    key: Option<&str>,
) -> Result<QueueMapping, JsonError> {
    let at = reader.at();
    let mut broker = None;
    let mut topic_member = None;
    let mut scope = Some(Cow::Borrowed(DEFAULT_SCOPE));
    let (mut total_queues, mut epoch, mut dirty) = (0, 0, false);
    let mut current_ids = Some(Vec::new());
    reader.open_object()?;
    while let Some(member) = reader.key()? {
        match &*member.name()? {
            b"bname" => broker = reader.any_as_text()?,
            b"topic" => topic_member = reader.any_as_text()?,
            b"scope" => scope = reader.any_as_text()?,
            b"totalQueues" => total_queues = reader.int()?,
            b"epoch" => epoch = reader.long()?,
            b"dirty" => dirty = reader.boolean()?,
            b"currIdMap" => current_ids = ids(reader)?,
            _ => reader.skip_member(&member)?,
        }
    }
    let broker = broker.ok_or(JsonError { reason: "mapping without bname", at })?;
    let topic = key.or(topic_member.as_deref());
    let topic = topic.ok_or(JsonError { reason: "mapping without topic", at })?;
    let (broker, topic) = (bounded_at(&broker, at)?, bounded_at(topic, at)?);
    for text in [&topic_member, &scope].into_iter().flatten() {
        bounded_at(text, at)?;
    }
    Ok(QueueMapping {
        topic: Topic::from(topic),
        topic_member: topic_member.as_deref().map(String::from),
        broker: BrokerName::from(broker),
        total_queues,
        epoch,
        dirty,
        scope: scope.map(Cow::into_owned),
        current_ids,
    })
}

/// Takes a map of 32-bit numbers, its keys bare or quoted, and sorts it; null stays null.
fn ids(reader: &mut Reader<'_>) -> Result<Option<Vec<(i32, i32)>>, JsonError> {
    if reader.null()? {
        return Ok(None);
    }
    let mut ids = Vec::new();
    reader.open_object()?;
    while let Some(key) = reader.key()? {
        let id = key.text()?.parse();
        let id = id.map_err(|_| JsonError { reason: "key is not a 32-bit number", at: key.at })?;
        let at = reader.at();
        if reader.null()? {
            return Err(JsonError { reason: "null for a queue id", at });
        }
        ids.push((id, reader.int()?));
    }
    // Stable, so that of equal keys the last one that came is the last one here, and stays.
    ids.sort_by_key(|(id, _)| *id);
    ids.reverse();
    ids.dedup_by_key(|(id, _)| *id);
    ids.reverse();
    Ok(Some(ids))
}

/// Takes a list of filter servers; null is `None`, and a null inside is left out.
pub(super) fn filter_servers(reader: &mut Reader<'_>) -> Result<Option<Vec<String>>, JsonError> {
    if reader.null()? {
        return Ok(None);
    }
    let mut texts = Vec::new();
    reader.open_array()?;
    while reader.element()? {
        let at = reader.at();
        if let Some(text) = reader.any_as_text()? {
            if texts.len() == FILTER_SERVERS_MAX {
                return Err(JsonError { reason: "more than 1024 filter servers", at });
            }
            texts.push(bounded_at(&text, at)?.to_owned());
        }
    }
    Ok(Some(texts))
}

const _: () = assert!(FILTER_SERVERS_MAX == 1024, "a message names the limit");
const _: () = assert!(NAME_BYTES_MAX == 4096, "a message names the limit");

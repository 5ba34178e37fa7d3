//! The body of code 217: of a whole `TopicRouteData` only `queueDatas` counts.

use crate::ids::BrokerName;
use crate::model::{QueueData, Queues};
use crate::wire::BodyError;
use crate::wire::json::{JsonError, Reader};

/// Reads the queues of each named group; empty if there are none, if the member or the body is
/// null, or if one element is null or names no group. In the last case Java, too, stores nothing
/// and reports success.
///
/// # Errors
///
/// When the bytes are not an object of that form.
pub fn decode(bytes: &[u8]) -> Result<Vec<QueueData>, BodyError> {
    let mut reader = Reader::new(bytes);
    read(&mut reader)
        .and_then(|queues| reader.finish().map(|()| queues))
        .map_err(|error| BodyError::json("topic route", error, 0))
}

fn read(reader: &mut Reader<'_>) -> Result<Vec<QueueData>, JsonError> {
    let mut queues = Vec::new();
    if reader.null()? {
        return Ok(queues);
    }
    reader.open_object()?;
    while let Some(key) = reader.key()? {
        match &*key.name()? {
            b"queueDatas" => queues = elements(reader)?,
            _ => reader.skip_member(&key)?,
        }
    }
    Ok(queues)
}

fn elements(reader: &mut Reader<'_>) -> Result<Vec<QueueData>, JsonError> {
    let mut queues = Vec::new();
    let mut all_named = true;
    if reader.null()? {
        return Ok(queues);
    }
    reader.open_array()?;
    while reader.element()? {
        match element(reader)? {
            Some(element) => queues.push(element),
            None => all_named = false,
        }
    }
    Ok(if all_named { queues } else { Vec::new() })
}

/// One group's queues; numbers that are absent are 0, unlike those of a registration.
fn element(reader: &mut Reader<'_>) -> Result<Option<QueueData>, JsonError> {
    if reader.null()? {
        return Ok(None);
    }
    let mut broker = None;
    let mut queues = Queues { read: 0, write: 0, perm: 0, sys_flag: 0 };
    reader.open_object()?;
    while let Some(key) = reader.key()? {
        match &*key.name()? {
            b"brokerName" => broker = reader.any_as_text()?,
            b"readQueueNums" => queues.read = reader.int()?,
            b"writeQueueNums" => queues.write = reader.int()?,
            b"perm" => queues.perm = reader.int()?,
            b"topicSysFlag" => queues.sys_flag = reader.int()?,
            _ => reader.skip_member(&key)?,
        }
    }
    Ok(broker.map(|broker| QueueData { broker: BrokerName::from(&*broker), queues }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(text: &str) -> Vec<QueueData> {
        decode(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn only_the_queues_count() {
        let body = concat!(
            r#"{"brokerDatas":[{"brokerAddrs":{0:"a"}}],"queueDatas":[{"brokerName":"b0","#,
            r#""perm":3,"readQueueNums":1,"topicSysFlag":4,"writeQueueNums":2},"#,
            r#"{"brokerName":"b1"}]}"#
        );
        let expected = [
            QueueData {
                broker: "b0".into(),
                queues: Queues { read: 1, write: 2, perm: 3, sys_flag: 4 },
            },
            QueueData {
                broker: "b1".into(),
                queues: Queues { read: 0, write: 0, perm: 0, sys_flag: 0 },
            },
        ];
        assert_eq!(queues(body), expected);
    }

    #[test]
    fn nothing_is_stored_where_java_stores_nothing() {
        for text in [
            "null",
            "{}",
            r#"{"queueDatas":null}"#,
            r#"{"queueDatas":[]}"#,
            r#"{"queueDatas":[{"brokerName":"b0"},null]}"#,
            r#"{"queueDatas":[{"perm":6},{"brokerName":"b0"}]}"#,
        ] {
            assert_eq!(queues(text), [], "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", " ", "[]", "{\"queueDatas\":[{]}", "{\"queueDatas\":{}}", "{}x"] {
            decode(text.as_bytes()).expect_err(text);
        }
        let error = decode(b"{\"queueDatas\":[{]}").expect_err("a bracket too many");
        let expected = "topic route: not a key in quotes, a whole number or } at byte 16";
        assert_eq!(error.to_string(), expected);
    }
}

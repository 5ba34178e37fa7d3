//! Is an answer right? One answer for each set of brokers is parsed and compared with what was
//! registered: a route names brokers and queues, not its topic. Others only have to have the same
//! bytes, which is cheap enough for every answer.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::fleet::{Asked, Fleet};
use crate::wire::{Frame, SUCCESS, TOPIC_NOT_EXIST};

/// What right answers look like.
#[derive(Clone)]
pub enum Expect {
    /// Routes of this fleet.
    Routes(Arc<Fleet>),
    /// Frames of these lengths, from the floor server, whatever their bodies are.
    Floor(FloorBytes),
}

/// Frame bytes the floor server answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, Default)]
pub struct FloorBytes {
    /// To a query for a topic of the fleet.
    pub hit: usize,
    /// To a query for a topic nobody registered.
    pub miss: usize,
}

/// An answer that is not right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrong {
    /// Another code than the expected one: the kind of error, and the answer.
    Code(&'static str, String),
    /// The right code with wrong content.
    Content(String),
}

/// The kind of error, as it is counted, of an answer with this code.
pub fn code_kind(code: i32) -> &'static str {
    match code {
        0 => "code 0",
        1 => "code 1",
        2 => "code 2",
        17 => "code 17",
        _ => "another code",
    }
}

/// Digest and length of a body; no length: none yet.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Body {
    digest: u64,
    bytes: usize,
}

/// Lives: one per generator thread. Shares: nothing.
pub struct Checker {
    expect: Expect,
    /// By topic: the body that was found right.
    learned: Vec<Body>,
    /// By [`Fleet::group_of`]: the last one that was parsed and found right.
    parsed: Vec<Body>,
    compared: u64,
    reworded: u64,
}

impl Checker {
    /// Nothing is learned yet.
    pub fn new(expect: Expect) -> Self {
        let (topics, groups) = match &expect {
            Expect::Routes(fleet) => (fleet.topics as usize, fleet.brokers as usize),
            Expect::Floor(_) => (0, 0),
        };
        let (learned, parsed) = (vec![Body::default(); topics], vec![Body::default(); groups]);
        Self { expect, learned, parsed, compared: 0, reworded: 0 }
    }

    /// Distinct topics whose answer was found to say what was registered.
    pub fn topics_compared(&self) -> u64 {
        self.compared
    }

    /// Answers that changed their bytes and were still right.
    pub fn reworded(&self) -> u64 {
        self.reworded
    }

    /// Checks one answer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&mut self, asked: Asked, frame: &Frame<'_>) -> Result<(), Wrong> {
        let expected_code = match asked {
            Asked::Topic(_) => SUCCESS,
            Asked::Absent(_) => TOPIC_NOT_EXIST,
        };
        if frame.code != expected_code {
            return Err(Wrong::Code(
                code_kind(frame.code),
                format!(
                    "{} instead of {expected_code} for {}; header {}",
                    frame.code,
                    String::from_utf8_lossy(&asked.name()),
                    String::from_utf8_lossy(&frame.header[..frame.header.len().min(300)])
                ),
            ));
        }
        match (&self.expect, asked) {
            (Expect::Floor(bytes), _) => check_length(asked, *bytes, frame.bytes),
            (Expect::Routes(_), Asked::Absent(_)) if frame.body.is_empty() => Ok(()),
            (Expect::Routes(_), Asked::Absent(_)) => {
                Err(Wrong::Content("a body in the answer for a topic that does not exist".into()))
            }
            (Expect::Routes(_), Asked::Topic(topic)) => self.check_route(topic, frame.body),
        }
    }

    fn check_route(&mut self, topic: u32, body: &[u8]) -> Result<(), Wrong> {
        let found = Body { digest: xxh3_64(body), bytes: body.len() };
        let Expect::Routes(fleet) = &self.expect else { return Ok(()) };
        let known = &mut self.learned[topic as usize];
        if *known == found && found.bytes > 0 {
            return Ok(());
        }
        let parsed = &mut self.parsed[fleet.group_of(topic) as usize];
        if *parsed != found || found.bytes == 0 {
            if let Err(what) = fleet.check_route(topic, body) {
                return Err(Wrong::Content(format!("topic {topic}: {what}")));
            }
            *parsed = found;
        }
        if known.bytes == 0 {
            self.compared += 1;
        } else {
            self.reworded += 1;
        }
        *known = found;
        Ok(())
    }
}

fn check_length(asked: Asked, expected: FloorBytes, found: usize) -> Result<(), Wrong> {
    let expected = match asked {
        Asked::Topic(_) => expected.hit,
        Asked::Absent(_) => expected.miss,
    };
    if found == expected {
        return Ok(());
    }
    Err(Wrong::Content(format!("a frame of {found} bytes instead of {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker() -> Checker {
        checker_of(1)
    }

    fn checker_of(brokers: u32) -> Checker {
        let fleet = Fleet { brokers, topics: 2, route_width: 1, cluster: "c".into() };
        Checker::new(Expect::Routes(Arc::new(fleet)))
    }

    fn frame(code: i32, body: &str) -> Frame<'_> {
        Frame { code, opaque: 0, is_answer: true, header: b"{}", body: body.as_bytes(), bytes: 0 }
    }

    const RIGHT: &str = concat!(
        r#"{"brokerDatas":[{"brokerAddrs":{"0":"10.100.100.100:10911"},"#,
        r#""brokerName":"bench-broker-0000","cluster":"c"}],"#,
        r#""queueDatas":[{"brokerName":"bench-broker-0000","perm":6,"readQueueNums":4,"#,
        r#""topicSysFlag":0,"writeQueueNums":4}]}"#,
    );

    #[test]
    fn a_topic_is_compared_once_and_a_changed_byte_is_found_later() {
        let mut checker = checker();
        assert_eq!(checker.check(Asked::Topic(1), &frame(0, RIGHT)), Ok(()));
        assert_eq!(checker.check(Asked::Topic(1), &frame(0, RIGHT)), Ok(()));
        assert_eq!(checker.topics_compared(), 1);
        let corrupted = RIGHT.replace("\"perm\":6", "\"perm\":4");
        let result = checker.check(Asked::Topic(1), &frame(0, &corrupted));
        assert!(matches!(result, Err(Wrong::Content(_))), "{result:?}");
    }

    #[test]
    fn what_is_right_for_a_topic_is_wrong_for_one_on_another_broker() {
        let mut checker = checker_of(2);
        assert_eq!(checker.check(Asked::Topic(0), &frame(0, RIGHT)), Ok(()));
        let result = checker.check(Asked::Topic(1), &frame(0, RIGHT));
        assert!(matches!(result, Err(Wrong::Content(_))), "{result:?}");
        assert_eq!(checker.topics_compared(), 1);
    }

    #[test]
    fn other_bytes_with_the_same_meaning_are_right_and_counted() {
        let mut checker = checker();
        checker.check(Asked::Topic(0), &frame(0, RIGHT)).unwrap();
        checker.check(Asked::Topic(0), &frame(0, &format!(" {RIGHT}"))).unwrap();
        assert_eq!((checker.topics_compared(), checker.reworded()), (1, 1));
    }

    #[test]
    fn hit_and_miss_are_not_confused() {
        let mut checker = checker();
        let result = checker.check(Asked::Topic(0), &frame(17, ""));
        assert!(matches!(result, Err(Wrong::Code(..))), "{result:?}");
        let result = checker.check(Asked::Absent(0), &frame(0, RIGHT));
        assert!(matches!(result, Err(Wrong::Code(..))), "{result:?}");
        assert_eq!(checker.check(Asked::Absent(0), &frame(17, "")), Ok(()));
    }
}

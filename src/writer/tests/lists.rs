//! Lists of many topics take turns with writes, and show one moment.

use super::*;
use crate::route::TopicList;

/// The answer to request `opaque`: its code and the topics in its body.
fn listed(letters: &[ToShard], opaque: i32) -> (i32, Vec<String>) {
    let answers = letters.iter().filter_map(|letter| match letter {
        ToShard::Answer(answer) if answer.opaque == Opaque(opaque) => Some(answer),
        _ => None,
    });
    let [answer] = answers.collect::<Vec<_>>()[..] else { panic!("one answer to {opaque}") };
    let body: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    let names = body["topicList"].as_array().expect("a list").iter();
    let mut names: Vec<String> = names.map(|name| name.as_str().unwrap().to_owned()).collect();
    names.sort();
    (answer.code, names)
}

fn all_of(broker: &str, topics: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..topics).map(|n| format!("{broker}-{n}")).collect();
    names.sort();
    names
}

#[test]
fn a_write_passes_a_long_list_which_shows_the_moment_it_was_taken_up() {
    let mut stage = stage();
    stage.send(1, None, register("a", 20_000, None));
    stage.settle(0);
    stage.send(2, Some(5), WriteOp::ListTopics(TopicList::All));
    assert!(stage.writer.turn(Tick(0)), "the list takes several turns");
    assert_eq!(stage.posted(), []);
    stage.send(3, Some(6), WriteOp::DeleteTopic { topic: "a-7".into(), cluster: None });
    assert!(stage.writer.turn(Tick(0)));
    assert_eq!(stage.posted(), [Some((6, 0))]);
    stage.settle(0);
    assert_eq!(listed(&stage.letters(), 5), (0, all_of("a", 20_000)));
}

#[test]
fn whoever_asks_after_his_write_was_answered_sees_it_in_the_list() {
    let mut stage = stage();
    stage.send(1, None, register("a", 20_000, None));
    stage.settle(0);
    stage.send(2, Some(5), WriteOp::ListTopics(TopicList::All));
    assert!(stage.writer.turn(Tick(0)));
    stage.send(1, Some(6), register("b", 2, None));
    assert!(stage.writer.turn(Tick(0)));
    assert_eq!(stage.posted(), [Some((6, 0))]);
    stage.send(1, Some(7), WriteOp::ListTopics(TopicList::All));
    stage.send(3, Some(8), WriteOp::ListTopics(TopicList::All));
    stage.send(4, Some(9), WriteOp::ListTopics(TopicList::OfCluster(Some("other".into()))));
    stage.settle(0);
    let letters = stage.letters();
    assert_eq!(listed(&letters, 5).1, all_of("a", 20_000));
    let both = [all_of("a", 20_000), all_of("b", 2)].concat();
    assert_eq!(listed(&letters, 7).1, both);
    assert_eq!(listed(&letters, 8).1, both);
    assert_eq!(listed(&letters, 9), (0, vec![]));
}

//! Single claims, then a seeded comparison with plain maps.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::limits::{KV_BYTES_MAX, KV_NAMESPACES_MAX};
use crate::wire::body::kv_file;

type Maps = BTreeMap<String, BTreeMap<String, String>>;

fn put(namespace: &str, key: &str, value: &str) -> KvChange {
    KvChange::Put { namespace: namespace.into(), key: key.into(), value: Some(value.into()) }
}

fn put_null(namespace: &str, key: &str) -> KvChange {
    KvChange::Put { namespace: namespace.into(), key: key.into(), value: None }
}

fn delete(namespace: &str, key: &str) -> KvChange {
    KvChange::Delete { namespace: namespace.into(), key: key.into() }
}

fn maps(table: &KvTable) -> Maps {
    let entries = |found: &mut dyn Iterator<Item = (&str, &str)>| {
        found.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    table
        .view()
        .namespaces()
        .map(|(name, mut found)| (name.to_owned(), entries(&mut found)))
        .collect()
}

fn encoded(table: &KvTable, namespace: &str) -> String {
    String::from_utf8(table.view().encoded(namespace).unwrap().to_vec()).unwrap()
}

#[test]
fn what_was_put_is_read_listed_and_encoded() {
    let table = KvTable::default()
        .with(&[put("ORDER_TOPIC_CONFIG", "t2", "b:4"), put("ORDER_TOPIC_CONFIG", "t1", "a:4;b:4")])
        .unwrap();
    let view = table.view();
    assert_eq!(view.get("ORDER_TOPIC_CONFIG", "t1"), Some("a:4;b:4"));
    assert_eq!(view.get("ORDER_TOPIC_CONFIG", "t3"), None);
    assert_eq!(view.get("other", "t1"), None);
    let listed: Vec<_> = view.namespace("ORDER_TOPIC_CONFIG").unwrap().collect();
    assert_eq!(listed, [("t1", "a:4;b:4"), ("t2", "b:4")]);
    assert!(view.namespace("other").is_none() && view.encoded("other").is_none());
    let expected = r#"{"table":{"t1":"a:4;b:4","t2":"b:4"}}"#;
    assert_eq!(encoded(&table, "ORDER_TOPIC_CONFIG"), expected);
    assert_eq!((view.len(), view.namespaces_len()), (2, 1));
}

#[test]
fn a_put_without_value_hides_the_key_and_makes_the_namespace() {
    let made = KvTable::default().with(&[put_null("n", "k")]).unwrap();
    assert_eq!(encoded(&made, "n"), r#"{"table":{}}"#);
    assert!(made.with(&[put_null("n", "k")]).is_none());
    let filled = made.with(&[put("n", "k", "v")]).unwrap();
    let hidden = filled.with(&[put_null("n", "k")]).unwrap();
    assert_eq!(hidden.view().get("n", "k"), None);
    assert_eq!(encoded(&hidden, "n"), r#"{"table":{}}"#);
}

#[test]
fn an_emptied_namespace_stays() {
    let table = KvTable::default().with(&[put("n", "k", "v")]).unwrap();
    let emptied = table.with(&[delete("n", "k")]).unwrap();
    assert_eq!(encoded(&emptied, "n"), r#"{"table":{}}"#);
    assert_eq!(maps(&emptied), BTreeMap::from([("n".to_owned(), BTreeMap::new())]));
    assert!(emptied.view().is_empty());
    assert_eq!(emptied.view().namespaces_len(), 1);
}

#[test]
fn deleting_what_is_not_there_changes_nothing_and_makes_no_namespace() {
    let table = KvTable::default().with(&[put("n", "k", "v")]).unwrap();
    assert!(table.with(&[delete("n", "x"), delete("other", "k")]).is_none());
}

#[test]
fn changes_there_and_back_are_no_change() {
    let table = KvTable::default().with(&[put("n", "k", "v")]).unwrap();
    assert!(table.with(&[]).is_none());
    assert!(table.with(&[put("n", "k", "v")]).is_none());
    assert!(table.with(&[put("n", "k", "w"), put("n", "k", "v")]).is_none());
    assert!(table.with(&[put("n", "x", "w"), delete("n", "x")]).is_none());
    // The namespace is new, so this is a change.
    assert!(table.with(&[put("m", "x", "w"), delete("m", "x")]).is_some());
}

#[test]
fn an_older_view_keeps_what_it_showed() {
    let old = KvTable::default().with(&[put("n", "k", "v"), put("m", "k", "v")]).unwrap();
    let before = old.view();
    let new = old.with(&[put("n", "k", "w")]).unwrap();
    assert_eq!(before.get("n", "k"), Some("v"));
    assert_eq!(old.view().get("n", "k"), Some("v"));
    assert_eq!(new.view().get("n", "k"), Some("w"));
    assert_eq!(&before.encoded("n").unwrap()[..], br#"{"table":{"k":"v"}}"#);
    // What was not touched is not encoded anew.
    let pointer = |view: &KvView| view.encoded("m").unwrap().as_ptr();
    assert_eq!(pointer(&before), pointer(&new.view()));
}

#[test]
fn what_does_not_fit_is_refused_and_the_rest_applies() {
    let half = "x".repeat(KV_BYTES_MAX / 2);
    let table = KvTable::default();
    let mut draft = table.draft();
    draft.apply(&put("n", "a", &half)).unwrap();
    assert_eq!(draft.apply(&put("n", "b", &half)), Err(KvRefusal::Bytes));
    draft.apply(&put("n", "c", "v")).unwrap();
    // Replacing counts the difference only.
    draft.apply(&put("n", "a", &half)).unwrap();
    draft.apply(&put("n", "a", &half[1..])).unwrap();
    let full = draft.finish().unwrap();
    assert_eq!(full.view().len(), 2);
    assert!(full.view().encoded("n").unwrap().len() <= KV_BYTES_MAX);
    assert!(full.with(&[put("n", "b", &half)]).is_none());
    let text = KvRefusal::Bytes.to_string();
    assert_eq!(text, "KV table is full: at most 15728640 bytes; delete keys that are not needed");
}

#[test]
fn namespaces_are_bounded_also_when_made_by_a_put_without_value() {
    let names = (0..KV_NAMESPACES_MAX).map(|number| (number.to_string(), BTreeMap::new()));
    let table = KvTable::from_namespaces(names.collect());
    let mut draft = table.draft();
    assert_eq!(draft.apply(&put_null("one more", "k")), Err(KvRefusal::Namespaces));
    assert_eq!(draft.apply(&put("one more", "k", "v")), Err(KvRefusal::Namespaces));
    assert_eq!(draft.apply(&put_null("0", "k")), Ok(()));
    assert!(draft.finish().is_none());
}

#[test]
fn printing_a_view_shows_no_values() {
    let table = KvTable::default().with(&[put("n", "k", "secret")]).unwrap();
    assert!(!format!("{:?}", table.view()).contains("secret"));
}

fn apply_to_maps(maps: &mut Maps, change: &KvChange) {
    match change.clone() {
        KvChange::Put { namespace, key, value: Some(value) } => {
            maps.entry(namespace).or_default().insert(key, value);
        }
        KvChange::Put { namespace, key, value: None } => {
            maps.entry(namespace).or_default().remove(&key);
        }
        KvChange::Delete { namespace, key } => {
            if let Some(entries) = maps.get_mut(&namespace) {
                entries.remove(&key);
            }
        }
    }
}

fn change() -> impl Strategy<Value = KvChange> {
    let word = || prop::sample::select(vec!["", "a", "b", "\"", "\u{1}", "\n\\", "中"]);
    prop_oneof![
        4 => (word(), word(), word()).prop_map(|(n, k, v)| put(n, k, v)),
        1 => (word(), word()).prop_map(|(n, k)| put_null(n, k)),
        3 => (word(), word()).prop_map(|(n, k)| delete(n, k)),
    ]
}

/// The same cases with each run; `PROPTEST_RNG_SEED` chooses others.
fn seeded() -> ProptestConfig {
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x5eed);
    }
    config
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn behaves_like_plain_maps(batches in prop::collection::vec(
        prop::collection::vec(change(), 0..6), 0..20))
    {
        let mut table = KvTable::default();
        let mut model = Maps::new();
        for batch in batches {
            let before = model.clone();
            for change in &batch {
                apply_to_maps(&mut model, change);
            }
            let next = table.with(&batch);
            prop_assert_eq!(next.is_some(), model != before);
            table = next.unwrap_or(table);
            prop_assert_eq!(&maps(&table), &model);
            let reloaded = KvTable::from_namespaces(model.clone());
            prop_assert_eq!(table.view().size, reloaded.view().size);
            let file = table.file();
            prop_assert_eq!(kv_file::decode(&file), Ok(model.clone()));
            let bound = table.view().file_bytes();
            prop_assert!(file.len() <= bound && bound <= file.len() + 1 + model.len());
            for name in model.keys() {
                prop_assert_eq!(encoded(&table, name), encoded(&reloaded, name));
                let json: serde_json::Value =
                    serde_json::from_slice(table.view().encoded(name).unwrap()).unwrap();
                prop_assert_eq!(&json["table"], &serde_json::json!(model[name]));
                let view = table.view();
                prop_assert!(view.encoded(name).unwrap().len() <= view.file_bytes());
            }
        }
    }
}

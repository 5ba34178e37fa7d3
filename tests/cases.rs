//! Aim: the chapter on public reports (`src/docs/cases.rs`) and the tests agree.
//! Method: both are read as text. A report's number must stand in the name of a test in each file
//! that the chapter gives for it, a claim in quotes must be the whole name of a test, and no test
//! may carry a number that the chapter does not give.

#[path = "support/chapter.rs"]
mod chapter;

use std::collections::{BTreeMap, BTreeSet};

use chapter::{Item, Label, as_name, items, label_of, resolve, root, tests_in};

fn chapter() -> Vec<Item> {
    let text = std::fs::read_to_string(root().join("src/docs/cases.rs"));
    items(&text.expect("the chapter is part of the repository"))
}

#[test]
fn every_report_of_the_chapter_is_held_by_the_tests_it_names() {
    let mut findings = Vec::new();
    let chapter = chapter();
    assert!(chapter.len() > 30, "the items are found");
    for item in &chapter {
        if item.places.is_empty() {
            findings.push(format!("{item:?} names no test"));
        }
        let mut missing: BTreeSet<&Label> = item.labels.iter().collect();
        for (place, claims) in &item.places {
            let Some(path) = resolve(place) else {
                findings.push(format!("{place} does not exist"));
                continue;
            };
            let tests = tests_in(&path);
            let held: BTreeSet<Label> = tests.iter().filter_map(|test| label_of(test)).collect();
            if claims.is_empty() && !item.labels.iter().any(|label| held.contains(label)) {
                findings.push(format!("{place} has no test named after {:?}", item.labels));
            }
            missing.retain(|label| !held.contains(*label));
            for claim in claims.iter().filter(|claim| !tests.contains(&as_name(place, claim))) {
                findings.push(format!("{place} has no test \"{claim}\""));
            }
        }
        if !missing.is_empty() && item.places.iter().all(|(_, claims)| claims.is_empty()) {
            findings.push(format!("no test is named after {missing:?}"));
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn every_test_with_a_number_stands_in_the_chapter() {
    let mut listed: BTreeMap<Label, BTreeSet<String>> = BTreeMap::new();
    for item in chapter() {
        for label in item.labels {
            let places = item.places.iter().map(|(place, _)| place.clone());
            listed.entry(label).or_default().extend(places);
        }
    }
    let mut findings = Vec::new();
    for folder in ["tests", "tests/scenarios"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder of the repository") {
            let path = entry.expect("readable").path();
            if !path.extension().is_some_and(|ext| ext == "rs" || ext == "scn") {
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name of ours");
            for (test, label) in tests_in(&path).iter().filter_map(|t| Some((t, label_of(t)?))) {
                if !listed.get(&label).is_some_and(|places| places.contains(name)) {
                    findings.push(format!("{name}: `{test}`: {label} is not listed for it"));
                }
            }
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn items_and_names_are_read_as_they_are_written() {
    let text =
        "//! * `#12` Something of `x`:\n//!   `a.scn`, `b.rs` \"one two\",\n//!   \"three\".\n";
    let claims = vec!["one two".to_owned(), "three".to_owned()];
    let places = vec![("a.scn".to_owned(), Vec::new()), ("b.rs".to_owned(), claims)];
    let found = items(text);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].labels[..], &found[0].places), (&["#12".to_owned()][..], &places));
    assert_eq!(label_of("issue_12_it_works").as_deref(), Some("#12"));
    assert_eq!(label_of("cve_2023_37582_x").as_deref(), Some("CVE-2023-37582"));
    assert_eq!(label_of("rocketmq_rust_425_x").as_deref(), Some("rocketmq-rust#425"));
    assert_eq!(label_of("#12 it works").as_deref(), Some("#12"));
    for none in ["it works", "issue_that_is_none_x", "a_test", "one", "#x it works"] {
        assert_eq!(label_of(none), None, "{none}");
    }
    assert_eq!(as_name("b.rs", "one two"), "one_two");
}

//! Aim: the page of differences (`src/docs/differences.rs`), the tests and the differential test's
//! list agree.
//! Method: they are read as text. Each item of the page must name files of tests that exist, a
//! claim in quotes must be a test of that file, and the names that the differential test counts
//! differences under must be those of the page, all of them.

#[path = "support/chapter.rs"]
mod chapter;

use std::collections::BTreeSet;
use std::path::Path;

use chapter::{Item, as_name, items, label_of, resolve, root, tests_in};

/// The file with the differential test's list.
const LIST: &str = "differential/differences.rs";

fn page() -> Vec<Item> {
    let text = std::fs::read_to_string(root().join("src/docs/differences.rs"));
    items(&text.expect("the page is part of the repository"))
}

/// The names that the differential test counts differences under.
fn listed(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).expect("the list is part of the repository");
    let constants = text.lines().filter_map(|line| line.split_once(": &str = \""));
    constants.filter_map(|(_, rest)| Some(rest.split_once('"')?.0.to_owned())).collect()
}

/// Whether a test has this name, perhaps behind the number of a report.
fn holds(tests: &BTreeSet<String>, name: &str) -> bool {
    let labelled = |test: &&String| label_of(test).is_some() && test.ends_with(name);
    tests.contains(name) || tests.iter().any(|test| labelled(&test))
}

#[test]
fn every_difference_names_tests_that_exist() {
    let page = page();
    assert!(page.len() > 70, "the items are found: {}", page.len());
    let mut findings = Vec::new();
    for item in &page {
        if item.places.is_empty() {
            findings.push(format!("no test is named: {}", item.text));
        }
        for (place, claims) in &item.places {
            let Some(path) = resolve(place) else {
                findings.push(format!("{place} does not exist"));
                continue;
            };
            let tests = if place == LIST { listed(&path) } else { tests_in(&path) };
            if tests.is_empty() {
                findings.push(format!("{place} has no tests"));
            }
            let has = |claim: &str| match place == LIST {
                true => tests.contains(claim),
                false => holds(&tests, &as_name(place, claim)),
            };
            for claim in claims.iter().filter(|claim| !has(claim)) {
                findings.push(format!("{place} has no test \"{claim}\""));
            }
        }
    }
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
}

#[test]
fn every_name_of_the_differential_test_stands_on_the_page() {
    let names = listed(&root().join("tests").join(LIST));
    assert!(names.len() > 10, "the names are found: {names:?}");
    let places = page().into_iter().flat_map(|item| item.places);
    let given: BTreeSet<String> =
        places.filter(|(place, _)| place == LIST).flat_map(|(_, claims)| claims).collect();
    let missing: Vec<&String> = names.difference(&given).collect();
    assert!(missing.is_empty(), "the page lacks {missing:?}");
}

#[test]
fn a_name_may_stand_behind_the_number_of_a_report() {
    let tests = ["#12 it works", "issue_7_it_holds", "others_it_fails"].map(str::to_owned);
    let tests = BTreeSet::from(tests);
    assert!(holds(&tests, "it works") && holds(&tests, "it_holds"));
    assert!(!holds(&tests, "it_fails") && !holds(&tests, "it breaks"));
}

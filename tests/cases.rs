//! Aim: the chapter on public reports (`src/docs/cases.rs`) and the tests agree.
//! Method: both are read as text. A report's number must stand in the name of a test in each file
//! that the chapter gives for it, a claim in quotes must be the whole name of a test, and no test
//! may carry a number that the chapter does not give.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A report as tests name it: `#11043`, `CVE-2023-37582`, `rocketmq-rust#9189`.
type Label = String;

/// One item of the chapter.
#[derive(Debug, Default, PartialEq)]
struct Item {
    labels: Vec<Label>,
    /// Files of tests, each with the claims in quotes behind it.
    places: Vec<(String, Vec<String>)>,
}

/// The items of a chapter in the order they stand.
fn items(chapter: &str) -> Vec<Item> {
    let mut texts: Vec<String> = Vec::new();
    for line in chapter.lines() {
        if let Some(begin) = line.strip_prefix("//! * ") {
            texts.push(begin.to_owned());
        } else if let (Some(more), Some(text)) = (line.strip_prefix("//!   "), texts.last_mut()) {
            *text += " ";
            *text += more;
        }
    }
    texts.iter().map(|text| item(text)).collect()
}

fn item(text: &str) -> Item {
    let mut item = Item::default();
    for (number, part) in text.split('`').enumerate() {
        let quoted = number % 2 == 1;
        if quoted && is_label(part) {
            item.labels.push(part.to_owned());
        } else if quoted && (part.ends_with(".scn") || part.ends_with(".rs")) {
            item.places.push((part.to_owned(), Vec::new()));
        } else if let (false, Some((_, claims))) = (quoted, item.places.last_mut()) {
            claims.extend(part.split('"').skip(1).step_by(2).map(str::to_owned));
        }
    }
    item
}

fn is_label(text: &str) -> bool {
    let numeric = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('#') {
        Some((repository, number)) => {
            numeric(number) && (repository.is_empty() || repository == "rocketmq-rust")
        }
        None => text.strip_prefix("CVE-").is_some_and(|rest| rest.split('-').all(numeric)),
    }
}

/// Whose number a test carries.
fn label_of(test: &str) -> Option<Label> {
    let first = test.split(' ').next()?;
    if is_label(first) {
        return Some(first.to_owned());
    }
    let mut words = test.split('_');
    let label = match (words.next()?, words.next()?, words.next()?) {
        ("issue", number, _) => format!("#{number}"),
        ("cve", year, number) => format!("CVE-{year}-{number}"),
        ("rocketmq", "rust", number) => format!("rocketmq-rust#{number}"),
        _ => return None,
    };
    Some(label).filter(|label| is_label(label))
}

/// The tests of a file: names of test functions, or claims of scenarios.
fn tests_in(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if path.extension().is_some_and(|ext| ext == "scn") {
        let claims = text.lines().filter_map(|line| line.strip_prefix("scenario "));
        return claims.map(|claim| claim.trim().to_owned()).collect();
    }
    let mut names = BTreeSet::new();
    let mut marked = false;
    for line in text.lines().map(str::trim) {
        if let (true, Some(rest)) = (marked, line.strip_prefix("fn ")) {
            names.extend(rest.split('(').next().map(str::to_owned));
            marked = false;
        } else {
            marked = line == "#[test]" || marked && line.starts_with("#[");
        }
    }
    names
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where a file of the chapter is: a scenario, a test, or unit tests.
fn resolve(place: &str) -> Option<PathBuf> {
    let folders = ["tests/scenarios", "tests", "src"];
    folders.iter().map(|folder| root().join(folder).join(place)).find(|path| path.is_file())
}

fn chapter() -> Vec<Item> {
    let text = std::fs::read_to_string(root().join("src/docs/cases.rs"));
    items(&text.expect("the chapter is part of the repository"))
}

/// A claim as a test of that file has it.
fn as_name(place: &str, claim: &str) -> String {
    if place.ends_with(".scn") { claim.to_owned() } else { claim.replace([' ', '.', '-'], "_") }
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
    assert_eq!(items(text), [Item { labels: vec!["#12".to_owned()], places }]);
    assert_eq!(label_of("issue_12_it_works").as_deref(), Some("#12"));
    assert_eq!(label_of("cve_2023_37582_x").as_deref(), Some("CVE-2023-37582"));
    assert_eq!(label_of("rocketmq_rust_425_x").as_deref(), Some("rocketmq-rust#425"));
    assert_eq!(label_of("#12 it works").as_deref(), Some("#12"));
    for none in ["it works", "issue_that_is_none_x", "a_test", "one", "#x it works"] {
        assert_eq!(label_of(none), None, "{none}");
    }
    assert_eq!(as_name("b.rs", "one two"), "one_two");
}

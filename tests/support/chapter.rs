//! Chapters of `src/docs` whose items name the tests that hold them, and the names of tests.
//!
//! An item begins with `//! * `. A file in backquotes is one of tests; texts in double quotes
//! behind it are claims: names of tests of that file, in words.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A report as tests name it: `#11043`, `CVE-2023-37582`, `rocketmq-rust#9189`.
pub type Label = String;

/// One item of the chapter.
#[derive(Debug, Default, PartialEq)]
pub struct Item {
    pub text: String,
    pub labels: Vec<Label>,
    /// Files of tests, each with the claims in quotes behind it.
    pub places: Vec<(String, Vec<String>)>,
}

/// The items of a chapter in the order they stand.
pub fn items(chapter: &str) -> Vec<Item> {
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
    let mut item = Item { text: text.to_owned(), ..Item::default() };
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

pub fn is_label(text: &str) -> bool {
    let numeric = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('#') {
        Some((repository, number)) => {
            numeric(number) && (repository.is_empty() || repository == "rocketmq-rust")
        }
        None => text.strip_prefix("CVE-").is_some_and(|rest| rest.split('-').all(numeric)),
    }
}

/// Whose number a test carries.
pub fn label_of(test: &str) -> Option<Label> {
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
pub fn tests_in(path: &Path) -> BTreeSet<String> {
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

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where a file of the chapter is: a scenario, a test, or unit tests.
pub fn resolve(place: &str) -> Option<PathBuf> {
    let folders = ["tests/scenarios", "tests", "src"];
    folders.iter().map(|folder| root().join(folder).join(place)).find(|path| path.is_file())
}

/// A claim as a test of that file has it.
pub fn as_name(place: &str, claim: &str) -> String {
    if place.ends_with(".scn") { claim.to_owned() } else { claim.replace([' ', '.', '-'], "_") }
}

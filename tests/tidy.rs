//! Aim: the sources keep the shape that the architecture page promises.
//! Method: they are read as text, without comments and literals. Each finding names file, line and
//! what to do instead. Every rule is fed a bad snippet too, so that none can stop working
//! unnoticed.

#[path = "support/source.rs"]
mod source;

use std::collections::BTreeSet;
use std::path::Path;

use source::Source;

const LINE_WIDTH_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// Files that are one flat table of data and may be longer, each with a reason.
const DATA_TABLES: [(&str, &str); 0] = [];
/// Files of `src` that may sleep, each with a reason.
const MAY_SLEEP: [(&str, &str); 3] = [
    ("src/ring/mod.rs", "a ring that is dropped waits for the kernel, which tells nobody"),
    ("src/shard/accept.rs", "nothing reports that a killed server's port is free again"),
    ("src/shard/driver.rs", "the kernel is short of a resource, and tells nobody when it has some"),
];
/// Words that say nothing about a thing.
const BANNED_WORDS: [&str; 5] = ["manager", "inner", "wrapper", "helper", "util"];

/// May name no other crate.
const STD_ONLY: [&str; 4] = ["limits", "ids", "clock", "model"];
/// May name every module.
const EVERYTHING: [&str; 1] = ["server"];
/// Who may name whom. The longest row that fits a file counts; its own module is always open to it.
const MAY_NAME: [(&str, &[&str]); 29] = [
    ("wire", &["limits", "ids", "model"]),
    ("route", &["limits", "ids", "model"]),
    ("route::fragment", &["limits", "ids", "model", "wire::json", "wire::body"]),
    ("route::answer", &["limits", "ids", "model", "wire::json", "wire::body"]),
    ("route::lists", &["limits", "ids", "model", "wire::json"]),
    ("liveness", &["limits", "ids", "clock"]),
    ("kv", &["limits", "ids"]),
    ("kv::view", &["limits", "ids", "wire::body"]),
    ("kv::file", &["limits", "ids", "wire::body", "wire::json"]),
    ("publish", &["route", "kv", "config::settings", "ids"]),
    ("writer", &WRITER),
    ("handler", &HANDLER),
    ("ring", &["limits", "ids"]),
    ("shard", &SHARD),
    ("store", &["limits"]),
    ("tls", &["limits"]),
    ("config", &["limits", "fatal", "wire::HeaderKind", "wire::code", "tls::options"]),
    ("fatal", &[]),
    ("notify", &["wire", "limits", "ids", "model", "clock", "complaints", "metrics"]),
    ("complaints", &["clock"]),
    ("metrics", &["ids"]),
    ("logging", &["config", "fatal", "limits", "wire::HeaderKind"]),
    ("preflight", &["config", "fatal", "limits"]),
    ("main", &["config", "server", "logging", "fatal"]),
    ("limits", &[]),
    ("ids", &[]),
    ("clock", &[]),
    ("clock::running", &["limits"]),
    ("model", &["ids"]),
];
const WRITER: [&str; 17] = [
    "route",
    "liveness",
    "kv",
    "publish",
    "config::settings",
    "clock",
    "complaints",
    "limits",
    "ids",
    "model",
    "wire::body",
    "wire::BodyError",
    "wire::code",
    "store",
    "ring::Doorbell",
    "notify",
    "shard::mail",
];
const HANDLER: [&str; 13] = [
    "wire",
    "route::RouteQuery",
    "route::TopicList",
    "route::UnitList",
    "publish",
    "writer::request",
    "writer::lane",
    "config::settings",
    "ids",
    "limits",
    "model",
    "clock",
    "metrics",
];
const SHARD: [&str; 12] = [
    "wire",
    "tls",
    "config::network",
    "publish",
    "writer::request",
    "writer::lane",
    "ring",
    "metrics",
    "clock",
    "complaints",
    "limits",
    "ids",
];

type Rule = fn(&Source, &mut Vec<String>);

/// Every rule that looks at one file.
const RULES: [(&str, Rule); 9] = [
    ("dependencies", dependencies),
    ("width", width),
    ("lengths", lengths),
    ("names", names),
    ("notes", notes),
    ("unsafe", unsafe_code),
    ("clocks", clocks),
    ("ignored", ignored),
    ("sleeping", sleeping),
];

#[test]
fn the_sources_keep_their_shape() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = Source::all(root, &["src", "tests", "benches", "loadgen/src", "loadgen/tests"]);
    assert!(sources.iter().any(|source| source.path == "src/lib.rs"), "the sources are found");
    let mut findings = Vec::new();
    for source in &sources {
        for (_, rule) in RULES {
            rule(source, &mut findings);
        }
    }
    unlinked(&sources, &mut findings);
    assert!(findings.is_empty(), "{} findings\n{}", findings.len(), findings.join("\n"));
}

fn find(source: &Source, offset: usize, what: &str, findings: &mut Vec<String>) {
    findings.push(format!("{}:{}: {what}", source.path, source.line_of(offset)));
}

/// The table of who may name whom.
fn dependencies(source: &Source, findings: &mut Vec<String>) {
    if !source.path.starts_with("src/") || source.path == "src/lib.rs" {
        return;
    }
    let module = source.module();
    let top = module[0].as_str();
    if EVERYTHING.contains(&top) || top == "docs" {
        return;
    }
    let Some((row, allowed)) = row_of(&module) else {
        let what = format!("module `{top}` has no row in `MAY_NAME`; say there whom it may name");
        return find(source, 0, &what, findings);
    };
    let root = if top == "main" { "guidepost" } else { "crate" };
    let mut named = source.paths_from(root);
    named.extend(beyond_super(source, module.len()));
    for (offset, path) in named {
        let own = path.first().is_none_or(|first| first == top);
        if !own && !allowed.iter().any(|open| begins(&path, open)) && !source.is_test_at(offset) {
            let path = path.join("::");
            let what = format!("`{row}` may not name `{path}`; it may name {}", allowed.join(", "));
            find(source, offset, &what, findings);
        }
    }
    if STD_ONLY.contains(&top) {
        for at in source.words("use") {
            let path = source.code[at + 3..].trim_start();
            let open = ["std::", "core::", "alloc::", "super::", "self::", "crate::"];
            if !source.is_test_at(at) && !open.iter().any(|start| path.starts_with(start)) {
                find(source, at, &format!("`{top}` uses std only; move this elsewhere"), findings);
            }
        }
    }
}

/// The longest row that fits a module.
fn row_of(module: &[String]) -> Option<(&'static str, &'static [&'static str])> {
    let fitting = MAY_NAME.iter().filter(|(row, _)| begins(module, row));
    fitting.max_by_key(|(row, _)| row.len()).map(|(row, allowed)| (*row, *allowed))
}

/// Whether `path` is `prefix` or below it.
fn begins(path: &[String], prefix: &str) -> bool {
    let mut names = path.iter();
    prefix.split("::").all(|part| names.next().is_some_and(|name| name == part))
}

/// Paths that leave their top-level module by `super`: as if written from the crate's root.
fn beyond_super(source: &Source, depth: usize) -> Vec<(usize, Vec<String>)> {
    let supers = |path: &[String]| 1 + path.iter().take_while(|name| *name == "super").count();
    let paths = source.paths_from("super").into_iter();
    let outside = paths.filter(|(at, path)| supers(path) >= depth + source.inline_modules_at(*at));
    outside
        .filter(|(at, _)| !source.is_test_at(*at))
        .map(|(at, path)| (at, path.into_iter().filter(|name| name != "super").collect()))
        .collect()
}

fn width(source: &Source, findings: &mut Vec<String>) {
    for (number, line) in (1..).zip(source.text.lines()) {
        let columns = line.chars().count();
        if columns > LINE_WIDTH_MAX {
            let path = &source.path;
            findings.push(format!("{path}:{number}: {columns} columns; break at {LINE_WIDTH_MAX}"));
        }
    }
}

fn lengths(source: &Source, findings: &mut Vec<String>) {
    let lines = source.text.lines().count();
    let is_table = DATA_TABLES.iter().any(|(path, _)| *path == source.path);
    if lines > FILE_LINES_MAX && !is_table {
        let what = format!("{lines} lines; split it below {FILE_LINES_MAX} by subject");
        find(source, 0, &what, findings);
    }
    for (at, name, lines) in source.functions() {
        if lines > FUNCTION_LINES_MAX {
            let what = format!("`{name}` has {lines} lines; split it below {FUNCTION_LINES_MAX}");
            find(source, at, &what, findings);
        }
    }
}

fn names(source: &Source, findings: &mut Vec<String>) {
    for (at, name) in source.declared_names() {
        if let Some(word) = BANNED_WORDS.iter().find(|word| words_of(&name).contains(**word)) {
            let what = format!("`{name}`: `{word}` says nothing; name the thing or what it does");
            find(source, at, &what, findings);
        }
    }
}

/// The lower-case words of a name in either case style. A plural counts as its singular.
fn words_of(name: &str) -> BTreeSet<String> {
    let mut spaced = String::new();
    for c in name.chars() {
        if c.is_uppercase() || c == '_' {
            spaced.push(' ');
        }
        spaced.extend(c.to_lowercase().filter(|c| *c != '_'));
    }
    spaced.split(' ').map(|word| word.strip_suffix('s').unwrap_or(word).to_owned()).collect()
}

/// Notes to oneself. The words are put together here so that this file has none.
fn notes(source: &Source, findings: &mut Vec<String>) {
    let words = [["to", "do"], ["fix", "me"], ["unimplem", "ented!"], ["db", "g!"]];
    let words = words.map(|word| word.concat());
    let shout = ["XX", "X"].concat(); // in capitals only: `\xXX` is no note
    for (number, line) in (1..).zip(source.text.lines()) {
        let mut parts = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!'));
        let note = parts.find(|part| {
            let lower = part.to_lowercase();
            let is_word = |word: &String| lower == *word || lower.strip_suffix('!') == Some(word);
            *part == shout || words.iter().any(is_word)
        });
        if let Some(note) = note {
            let path = &source.path;
            findings.push(format!("{path}:{number}: leftover `{note}`; do it or drop it"));
        }
    }
}

fn unsafe_code(source: &Source, findings: &mut Vec<String>) {
    let is_ring = source.path.starts_with("src/ring/") || source.path == "src/ring.rs";
    for at in source.words("unsafe").filter(|_| !is_ring) {
        find(source, at, "unsafe code lives in src/ring only; ask for it there", findings);
    }
}

fn clocks(source: &Source, findings: &mut Vec<String>) {
    let is_clock = source.path == "src/clock.rs" || !source.path.starts_with("src/");
    for clock in ["Instant::now", "SystemTime::now"] {
        for at in source.words(clock).filter(|at| !is_clock && !source.is_test_at(*at)) {
            let what =
                format!("`{clock}` is read in clock.rs only; take `now: Tick` as an argument");
            find(source, at, &what, findings);
        }
    }
}

fn ignored(source: &Source, findings: &mut Vec<String>) {
    for (at, _) in source.code.match_indices("#[ignore") {
        find(source, at, "a test that is not run proves nothing; run it or drop it", findings);
    }
}

fn sleeping(source: &Source, findings: &mut Vec<String>) {
    let may = MAY_SLEEP.iter().any(|(path, _)| *path == source.path);
    for at in source.words("sleep").filter(|at| !may && !source.is_test_at(*at)) {
        // A method of ours that happens to be called so waits for something.
        if source.code[..at].ends_with(['.']) || source.code[..at].ends_with("fn ") {
            continue;
        }
        find(source, at, "nothing here sleeps; wait for the event instead", findings);
    }
}

/// Files of `src` that no `mod` line leads to.
fn unlinked(sources: &[Source], findings: &mut Vec<String>) {
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut next = vec!["src/lib.rs".to_owned(), "src/main.rs".to_owned()];
    while let Some(path) = next.pop() {
        let Some(source) = sources.iter().find(|source| source.path == path) else { continue };
        if !reached.insert(path.clone()) {
            continue;
        }
        let folder = match path.rsplit_once('/') {
            Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder.to_owned(),
            _ => path.trim_end_matches(".rs").to_owned(),
        };
        for at in source.words("mod") {
            let rest = source.code[at + 3..].trim_start();
            if let Some((name, _)) = rest.split_once(';').filter(|(name, _)| !name.contains('{')) {
                next.push(format!("{folder}/{name}.rs"));
                next.push(format!("{folder}/{name}/mod.rs"));
            }
        }
    }
    for source in sources.iter().filter(|source| source.path.starts_with("src/")) {
        if !reached.contains(&source.path) {
            find(source, 0, "no `mod` line leads here; link it or delete it", findings);
        }
    }
}

/// Each rule finds what it is for, and nothing in decent code.
mod rules {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source::new(path, text);
        let mut findings = Vec::new();
        for (_, rule) in RULES {
            rule(&source, &mut findings);
        }
        findings
    }

    #[track_caller]
    fn one(path: &str, text: &str, beginning: &str) {
        let findings = found(path, text);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with(beginning), "{findings:?}");
    }

    #[test]
    fn decent_code_passes() {
        let text = "//! Says `unsafe` and crate::server in words.\n\
                    use std::sync::Mutex;\n\
                    use crate::{ids::Topic, limits};\n\
                    use super::view;\n\
                    const TEXT: &str = \"unsafe Instant::now() sleep crate::server\";\n\
                    fn f<'a>(c: char, t: &'a Mutex<u8>) -> u8 { *t.into_inner() + limits::A }\n\
                    #[cfg(test)]\nmod tests {\n    use crate::server::Server;\n\
                    fn now() { std::time::Instant::now(); }\n}\n";
        assert_eq!(found("src/route/table.rs", text), Vec::<String>::new());
    }

    #[test]
    fn a_forbidden_dependency_is_found() {
        one(
            "src/wire/frame.rs",
            "\nuse crate::server::Server;\n",
            "src/wire/frame.rs:2: `wire` may",
        );
        one("src/wire/frame.rs", "fn f() { crate::kv::g() }", "src/wire/frame.rs:1: `wire` may");
        one(
            "src/route/table.rs",
            "use crate::{ids::Topic,\n    wire::body::Route,\n};\n",
            "src/route/table.rs:2:",
        );
        one(
            "src/kv/mod.rs",
            "use super::route::Table;",
            "src/kv/mod.rs:1: `kv` may not name `route",
        );
        one("src/kv/table.rs", "use super::super::route::T;", "src/kv/table.rs:1: `kv` may not");
        one("src/main.rs", "use guidepost::wire;", "src/main.rs:1: `main` may not name `wire`");
        one("src/ids.rs", "use bytes::Bytes;", "src/ids.rs:1: `ids` uses std only");
        one("src/config/raw.rs", "use crate::wire::Command;", "src/config/raw.rs:1: `config` may");
        one("src/newcomer.rs", "fn f() {}", "src/newcomer.rs:1: module `newcomer` has no row");
    }

    #[test]
    fn an_allowed_dependency_is_not_found() {
        for (path, text) in [
            ("src/route/fragment.rs", "use crate::wire::body::Route;"),
            ("src/kv/view.rs", "use crate::wire::body::{self, Kv};"),
            ("src/config/mod.rs", "use crate::wire::HeaderKind;"),
            ("src/shard/mod.rs", "use crate::{config::network, wire::{frame, Command}};"),
            (
                "src/writer/mod.rs",
                "use crate::ring::Doorbell;\nuse self::request;\nmod a { use super::b; }",
            ),
            ("src/server.rs", "use crate::wire::Command;"),
            ("src/main.rs", "use guidepost::config::Config;"),
        ] {
            assert_eq!(found(path, text), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn long_lines_functions_and_files_are_found() {
        one("src/kv/a.rs", &format!("// {}\n", "x".repeat(98)), "src/kv/a.rs:1: 101 columns");
        let body = |lines| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines));
        one("src/kv/a.rs", &body(69), "src/kv/a.rs:1: `f` has 71 lines");
        assert_eq!(found("src/kv/a.rs", &body(68)), Vec::<String>::new());
        one("src/kv/a.rs", &"\n".repeat(601), "src/kv/a.rs:1: 601 lines");
        assert_eq!(found("src/kv/a.rs", &"\n".repeat(600)), Vec::<String>::new());
    }

    #[test]
    fn empty_words_in_names_are_found() {
        for text in ["struct TopicManager;", "fn helper_of() {}", "mod utils {}", "let inner = 1;"]
        {
            one("src/kv/a.rs", text, "src/kv/a.rs:1: `");
        }
        one("src/kv/a.rs", "struct A { wrapper: u8 }", "src/kv/a.rs:1: `wrapper`");
        let used = "fn f(a: Inners) { a.into_inner(); spinner() }";
        assert_eq!(found("src/kv/a.rs", used), Vec::<String>::new());
    }

    #[test]
    fn leftover_notes_are_found() {
        for word in [["TO", "DO"], ["fix", "me"], ["XX", "X"]] {
            one(
                "src/kv/a.rs",
                &format!("// {}: later\n", word.concat()),
                "src/kv/a.rs:1: leftover",
            );
        }
        for call in [["to", "do!()"], ["unimplem", "ented!()"], ["db", "g!(x)"]] {
            let text = format!("fn f() {{ {} }}", call.concat());
            one("src/kv/a.rs", &text, "src/kv/a.rs:1: leftover");
        }
    }

    #[test]
    fn unsafe_code_clocks_and_sleep_are_found() {
        one("src/kv/a.rs", "fn f() { unsafe { g() } }", "src/kv/a.rs:1: unsafe");
        assert_eq!(found("src/ring/mod.rs", "unsafe fn f() {}"), Vec::<String>::new());
        one("src/kv/a.rs", "\nfn f() { Instant::now() }", "src/kv/a.rs:2: `Instant::now`");
        one("src/kv/a.rs", "fn f() { std::time::SystemTime::now() }", "src/kv/a.rs:1: `SystemTime");
        assert_eq!(found("src/clock.rs", "fn f() { Instant::now() }"), Vec::<String>::new());
        one(
            "src/kv/a.rs",
            "fn f() { std::thread::sleep(d) }",
            "src/kv/a.rs:1: nothing here sleeps",
        );
        one("tests/a.rs", "#[test]\n#[ignore]\nfn f() {}", "tests/a.rs:2: a test that");
    }

    #[test]
    fn a_file_without_a_mod_line_is_found() {
        let sources = [
            Source::new("src/lib.rs", "pub mod kv;\n// mod lost;\nmod inline { fn f() {} }"),
            Source::new("src/kv/mod.rs", "mod table;"),
            Source::new("src/kv/table.rs", "#[cfg(test)]\nmod tests;"),
            Source::new("src/kv/table/tests.rs", ""),
            Source::new("src/lost.rs", ""),
        ];
        let mut findings = Vec::new();
        unlinked(&sources, &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("src/lost.rs:1:"), "{findings:?}");
    }

    #[test]
    fn literals_and_comments_are_no_code() {
        let text = "let a = r#\"unsafe \" x\"#; let b = 'u'; let c = b'\\'';\n\
                    /* unsafe /* */ unsafe */ let d = \"\\\"unsafe\";\n\
                    let e: &'static str = \"\u{e9} unsafe\";";
        let source = Source::new("src/kv/a.rs", text);
        assert_eq!(source.words("unsafe").count(), 0, "{}", source.code);
        assert_eq!(source.words("let").count(), 5, "{}", source.code);
        assert_eq!(source.code.len(), text.len());
    }
}

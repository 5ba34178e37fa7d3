//! Rust sources as `tests/tidy.rs` reads them: without comments and texts, with tests marked.

use std::ops::Range;
use std::path::Path;

/// One file.
#[derive(Debug)]
pub struct Source {
    /// From the root of the repository, with `/`.
    pub path: String,
    /// As written.
    pub text: String,
    /// The same length and lines, with comments and the insides of literals blanked.
    pub code: String,
    /// Byte ranges of items behind `#[cfg(test)]`.
    tests: Vec<Range<usize>>,
}

impl Source {
    pub fn new(path: &str, text: &str) -> Source {
        let code = blank(text);
        let tests = test_items(&code);
        Source { path: path.to_owned(), text: text.to_owned(), code, tests }
    }

    /// Every `.rs` file below `folders`, sorted.
    pub fn all(root: &Path, folders: &[&str]) -> Vec<Source> {
        let mut paths = Vec::new();
        for folder in folders {
            collect(&root.join(folder), &mut paths);
        }
        paths.sort();
        let read = |path: &std::path::PathBuf| {
            let text = std::fs::read_to_string(path).expect("a readable source");
            let path = path.strip_prefix(root).expect("below the root");
            Source::new(&path.to_string_lossy(), &text)
        };
        paths.iter().map(read).collect()
    }

    pub fn line_of(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    pub fn is_test_at(&self, offset: usize) -> bool {
        !self.path.starts_with("src/")
            || self.path.ends_with("/tests.rs")
            || self.path.contains("/tests/")
            || self.tests.iter().any(|item| item.contains(&offset))
    }

    /// How many `mod name { … }` of this file enclose an offset.
    pub fn inline_modules_at(&self, offset: usize) -> usize {
        let blocks = self.words("mod").map(|at| at..item_end(&self.code, at));
        blocks.filter(|block| block.contains(&offset)).count()
    }

    /// Where `word` stands as a whole word in code.
    pub fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        self.code.match_indices(word).map(|(at, _)| at).filter(move |at| {
            let (before, after) = (&self.code[..*at], &self.code[at + word.len()..]);
            let ends_open = word.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let goes_on = ends_open && is_part(after.chars().next());
            !is_part(before.chars().next_back()) && !goes_on
        })
    }

    /// The module path: `src/route/table.rs` is `["route", "table"]`, `src/wire/mod.rs` is
    /// `["wire"]`.
    pub fn module(&self) -> Vec<String> {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        path.split('/').filter(|part| *part != "mod").map(str::to_owned).collect()
    }

    /// Paths that begin with `root::`, groups taken apart: offset, names behind the root.
    pub fn paths_from(&self, root: &str) -> Vec<(usize, Vec<String>)> {
        let mut found = Vec::new();
        for at in self.words(root) {
            let behind = at + root.len();
            if self.code[behind..].starts_with("::") {
                tree(&self.code, behind + 2, &[], &mut found);
            }
        }
        found
    }

    /// Functions with a body: offset, name, lines from `fn` to the closing brace.
    pub fn functions(&self) -> Vec<(usize, String, usize)> {
        let mut found = Vec::new();
        for at in self.words("fn") {
            let behind = self.code[at + 2..].trim_start();
            let name: String =
                behind.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let end = item_end(&self.code, at);
            if !name.is_empty() && self.code[..end].ends_with('}') {
                let lines = self.line_of(end - 1) - self.line_of(at) + 1;
                found.push((at, name, lines));
            }
        }
        found
    }

    /// Names that this file gives: offset and name.
    pub fn declared_names(&self) -> Vec<(usize, String)> {
        const KEYWORDS: [&str; 11] = [
            "fn", "struct", "enum", "union", "trait", "type", "mod", "const", "static", "let",
            "mut",
        ];
        let name_at = |at: usize| -> String {
            self.code[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
        };
        let mut found = Vec::new();
        for keyword in KEYWORDS {
            for at in self.words(keyword) {
                let behind = at + keyword.len();
                let blanks = self.code[behind..].len() - self.code[behind..].trim_start().len();
                found.push((behind + blanks, name_at(behind + blanks)));
            }
        }
        // Fields and arguments: a name in front of one colon.
        for (at, _) in self.code.match_indices(": ") {
            let before = &self.code[..at];
            let start =
                before.rfind(|c: char| !(c.is_alphanumeric() || c == '_')).map_or(0, |i| i + 1);
            found.push((start, name_at(start)));
        }
        found.retain(|(_, name)| !name.is_empty());
        found
    }
}

fn collect(folder: &Path, paths: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.map(|entry| entry.expect("a readable folder").path()) {
        if entry.is_dir() {
            collect(&entry, paths);
        } else if entry.extension().is_some_and(|ext| ext == "rs") {
            paths.push(entry);
        }
    }
}

/// Reads a path or a group of paths at `at` and returns where it ends.
fn tree(code: &str, at: usize, before: &[String], found: &mut Vec<(usize, Vec<String>)>) -> usize {
    let bytes = code.as_bytes();
    let mut at = skip_blanks(code, at);
    if bytes.get(at) == Some(&b'{') {
        at += 1;
        loop {
            at = skip_blanks(code, at);
            match bytes.get(at) {
                Some(b'}') => return at + 1,
                None => return at,
                Some(b',') => at += 1,
                Some(_) => {
                    let end = tree(code, at, before, found);
                    // `as name`, or something unexpected: go on behind the next comma.
                    at = if end > at { end } else { at + 1 };
                    while bytes.get(at).is_some_and(|byte| !b",}".contains(byte)) {
                        at += 1;
                    }
                }
            }
        }
    }
    let name: String =
        code[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let end = at + name.len();
    let mut path = before.to_vec();
    if !name.is_empty() {
        path.push(name);
    }
    let goes_on = code[end..].starts_with("::") && !code[end + 2..].starts_with(['<', '*']);
    if goes_on && end > at {
        return tree(code, end + 2, &path, found);
    }
    found.push((at, path));
    end
}

fn skip_blanks(code: &str, at: usize) -> usize {
    at + code[at..].len() - code[at..].trim_start().len()
}

/// Where the item that begins at `at` ends: behind its `;` or its closing brace.
fn item_end(code: &str, at: usize) -> usize {
    let (mut depth, mut brackets) = (0_i32, 0_i32);
    for (offset, byte) in code.as_bytes()[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth <= 0 {
                    return at + offset + 1;
                }
            }
            b';' if depth == 0 && brackets == 0 => return at + offset + 1,
            _ => {}
        }
    }
    code.len()
}

fn test_items(code: &str) -> Vec<Range<usize>> {
    let found = code.match_indices("#[cfg(test)]");
    found.map(|(at, mark)| at..item_end(code, at + mark.len())).collect()
}

/// `text` with comments and the insides of texts and characters blanked, lines kept.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (end, keep) = if rest.starts_with(b"//") {
            (at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()), 0)
        } else if rest.starts_with(b"/*") {
            (at + block_comment(rest), 0)
        } else if let Some(length) = raw_text(rest, at == 0 || !is_name(bytes[at - 1])) {
            (at + length, 1)
        } else if rest[0] == b'"' {
            (at + quoted(rest, b'"'), 1)
        } else if rest[0] == b'\'' && is_char(rest) {
            (at + quoted(rest, b'\''), 1)
        } else {
            at += 1;
            continue;
        };
        let end = end.min(bytes.len());
        for byte in &mut out[(at + keep).min(end)..end.saturating_sub(keep).max(at)] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).expect("whole characters are blanked")
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if bytes[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Length of a raw text `r#"…"#` or `br"…"` at the start, if there is one.
fn raw_text(bytes: &[u8], at_word_start: bool) -> Option<usize> {
    let prefix = if bytes.starts_with(b"br") { 2 } else { usize::from(bytes.starts_with(b"r")) };
    if prefix == 0 || !at_word_start {
        return None;
    }
    let hashes = bytes[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let start = prefix + hashes + 1;
    if bytes.get(start - 1) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let inside = bytes[start..].windows(close.len()).position(|window| window == close);
    Some(inside.map_or(bytes.len(), |inside| start + inside + close.len()))
}

/// Length of a literal with escapes, both quotes included.
fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// Whether a quote begins a character and not a lifetime.
fn is_char(bytes: &[u8]) -> bool {
    match bytes.get(1) {
        Some(b'\\') => true,
        Some(first) => {
            let length = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            bytes.get(1 + length) == Some(&b'\'')
        }
        None => false,
    }
}

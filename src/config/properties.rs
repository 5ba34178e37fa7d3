//! Java `.properties` text: the syntax of the settings file and of an update over the wire.
//!
//! Reading follows `java.util.Properties.load`, with two differences. A last line of a lone
//! backslash is nothing, where Java makes an entry without key and value of it. And bytes are
//! UTF-8, and Latin-1 (all that Java knows) only if they are not valid UTF-8. So a file of either
//! kind means what its author sees. Writing uses ASCII only, which both readings agree on.

use std::borrow::Cow;
use std::fmt::Write as _;

/// One `key=value`, unescaped. Blanks at the end of the value are kept, as in Java.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Left of the separator.
    pub key: String,
    /// Right of it.
    pub value: String,
    /// Number of the line where the entry begins, from 1.
    pub line: usize,
}

/// The text has a `\u` that is not followed by four hexadecimal digits; nothing else is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Number of the line where the entry with the escape begins, from 1.
    pub line: usize,
}

/// Reads all entries in the order of the text. A key may come more than once; the last one counts.
///
/// # Errors
/// A malformed `\u` escape.
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let text = decode(bytes);
    let mut lines = Lines { rest: text.strip_prefix('\u{feff}').unwrap_or(&text), next: 1 };
    let mut entries = Vec::new();
    while let Some((line, logical)) = lines.next_logical() {
        let (key, value) = split(&logical);
        let key = unescape(key).ok_or(Malformed { line })?;
        let value = unescape(value).ok_or(Malformed { line })?;
        entries.push(Entry { key, value, line });
    }
    Ok(entries)
}

/// Appends one line that reads back as the same key and value, here and in Java.
pub fn write_entry(out: &mut String, key: &str, value: &str) {
    for c in key.chars() {
        if matches!(c, ' ' | '=' | ':' | '#' | '!') {
            out.push('\\');
        }
        write_char(out, c);
    }
    out.push('=');
    let text = value.trim_start_matches(' ');
    for _ in text.len()..value.len() {
        out.push_str("\\ ");
    }
    text.chars().for_each(|c| write_char(out, c));
    out.push('\n');
}

fn write_char(out: &mut String, c: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\u{c}' => out.push_str("\\f"),
        ' '..='~' => out.push(c),
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04X}").expect("a String takes all text");
            }
        }
    }
}

fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Cuts text into logical lines: comments and empty lines left out, continued lines joined.
struct Lines<'a> {
    rest: &'a str,
    /// Number of the line that `rest` begins with.
    next: usize,
}

impl<'a> Lines<'a> {
    /// The next logical line and the number of its first line; never empty.
    fn next_logical(&mut self) -> Option<(usize, Cow<'a, str>)> {
        let mut logical = Cow::Borrowed("");
        let mut begin = self.next;
        while let Some(natural) = self.next_natural() {
            let text = natural.trim_start_matches(is_blank);
            if logical.is_empty() {
                begin = self.next - 1;
                if text.is_empty() || text.starts_with(['#', '!']) {
                    continue;
                }
            }
            let backslashes = text.len() - text.trim_end_matches('\\').len();
            let continued = backslashes % 2 == 1;
            let text = if continued { &text[..text.len() - 1] } else { text };
            if logical.is_empty() {
                logical = Cow::Borrowed(text);
            } else {
                logical.to_mut().push_str(text);
            }
            if !continued && !logical.is_empty() {
                break;
            }
        }
        (!logical.is_empty()).then_some((begin, logical))
    }

    /// The next line as it stands, ended by LF, CR, CR LF or the end of the text.
    fn next_natural(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.find(['\n', '\r']).unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        let skip = if rest.starts_with("\r\n") { 2 } else { rest.len().min(1) };
        self.rest = &rest[skip..];
        self.next += 1;
        Some(line)
    }
}

/// Cuts at the first separator that is not escaped: blanks, perhaps with one `=` or `:` among them.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let separates = !escaped && (is_blank(c) || matches!(c, '=' | ':'));
        escaped = c == '\\' && !escaped;
        separates
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(is_blank))
}

/// `None` if a `\u` escape is malformed. A backslash before any other character just goes.
fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::new();
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let escape = if c == '\\' { Some(chars.next()) } else { None };
        if escape == Some(Some('u')) {
            let digits = chars.as_str().get(..4)?;
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            units.push(u16::from_str_radix(digits, 16).ok()?);
            chars = chars.as_str()[4..].chars();
            continue;
        }
        flush(&mut units, &mut out);
        match escape {
            None => out.push(c),
            Some(Some('t')) => out.push('\t'),
            Some(Some('n')) => out.push('\n'),
            Some(Some('r')) => out.push('\r'),
            Some(Some('f')) => out.push('\u{c}'),
            Some(Some(other)) => out.push(other),
            Some(None) => {}
        }
    }
    flush(&mut units, &mut out);
    Some(out)
}

/// Moves UTF-16 units from escapes over, joining pairs; half a pair becomes U+FFFD.
fn flush(units: &mut Vec<u16>, out: &mut String) {
    if !units.is_empty() {
        out.push_str(&String::from_utf16_lossy(units));
        units.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let entries = parse(text.as_bytes()).expect("well-formed");
        entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
    }

    fn one(text: &str) -> (String, String) {
        let mut entries = read(text);
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn equals_colon_and_blank_separate() {
        for text in ["a=b", "a:b", "a b", "a\tb", " a = b", "a : b", "a\u{c}=\tb"] {
            assert_eq!(one(text), pair("a", "b"), "{text:?}");
        }
        assert_eq!(one("a==b"), pair("a", "=b"));
        assert_eq!(one("a:=b"), pair("a", "=b"));
        assert_eq!(one("a"), pair("a", ""));
        assert_eq!(one("=b"), pair("", "b"));
    }

    #[test]
    fn blanks_stay_at_the_end_and_go_at_the_beginning_of_a_value() {
        assert_eq!(one("a=  b  "), pair("a", "b  "));
    }

    #[test]
    fn comments_and_empty_lines_are_passed_over_and_counted() {
        let entries = parse(b"# one\n\n  ! three\r\na=1\rb=2\n").unwrap();
        let lines: Vec<_> = entries.iter().map(|entry| (&*entry.key, entry.line)).collect();
        assert_eq!(lines, [("a", 4), ("b", 5)]);
    }

    #[test]
    fn a_backslash_at_the_end_continues_the_line() {
        assert_eq!(one("a=1,\\\n   2,\\\r\n\t3"), pair("a", "1,2,3"));
        assert_eq!(read("a=1\\\\\nb=2"), [pair("a", "1\\"), pair("b", "2")]);
        assert_eq!(read("a=1\\\n\nb=2"), [pair("a", "1"), pair("b", "2")]);
        assert_eq!(one("a=1\\\n#2"), pair("a", "1#2"));
        assert_eq!(one("a=1\\"), pair("a", "1"));
        let entries = parse(b"\n\na=1\\\n2\nb=3").unwrap();
        assert_eq!((entries[0].line, entries[1].line), (3, 5));
    }

    #[test]
    fn escapes_are_resolved_in_keys_and_values() {
        assert_eq!(one(r"a\ b\=c\:d=e"), pair("a b=c:d", "e"));
        assert_eq!(one(r"a=\t\n\r\f\q\\\u00e9\ud83d\ude00"), pair("a", "\t\n\r\u{c}q\\é😀"));
        assert_eq!(one(r"a=\ud83dx"), pair("a", "\u{fffd}x"));
    }

    #[test]
    fn a_malformed_unicode_escape_names_its_line() {
        for text in
            ["x=1\na=\\u00g1", "x=1\na=\\u12", "x=1\na\\u=1", "x=1\na=\\u+123", "x=1\na=\\u00é"]
        {
            assert_eq!(parse(text.as_bytes()), Err(Malformed { line: 2 }), "{text:?}");
        }
    }

    #[test]
    fn utf8_is_read_as_such_and_anything_else_as_latin1() {
        assert_eq!(one("a=café"), pair("a", "café"));
        assert_eq!(parse(b"a=caf\xe9").unwrap()[0].value, "café");
        assert_eq!(one("\u{feff}a=b"), pair("a", "b"));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(
            key in "\\PC{1,8}|[ =:#!\\\\\t\n]{1,8}",
            value in "\\PC{0,8}|[ =:#!\\\\\t\r\n]{0,8}",
        ) {
            let mut text = String::new();
            write_entry(&mut text, &key, &value);
            prop_assert!(text.is_ascii());
            prop_assert_eq!(one(&text), (key, value));
        }

        #[test]
        fn no_text_breaks_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }
}

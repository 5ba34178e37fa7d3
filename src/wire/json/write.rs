//! Writing JSON as the Java 5.5.0 NameServer does (fastjson2: `JSONWriterUTF8`).

use super::scan;
use crate::model::Dialect;

/// Largest number that a JavaScript reader holds exactly; beyond it the standard dialect writes
/// text.
const EXACT_MAX: i64 = (1 << 53) - 1;

/// Appends `text` in quotes. Escaped are `"`, `\` and control characters below U+0020; all else
/// stays as it is, in both dialects.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    put_text(out, text.as_bytes());
}

/// As [`put_string`], of bytes that are known to be UTF-8.
pub fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    put_escaped(out, text);
    out.push(b'"');
}

/// As [`put_text`], without the quotes: for a part of a string.
#[inline]
pub fn put_escaped(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        let (clean, behind) = rest.split_at(clean_length(rest));
        out.extend_from_slice(clean);
        let Some((&byte, behind)) = behind.split_first() else { break };
        put_escape(out, byte);
        rest = behind;
    }
}

/// Appends `items` with commas between them.
pub fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put(out, item);
    }
}

/// Bytes before the first that needs an escape.
#[inline]
fn clean_length(bytes: &[u8]) -> usize {
    const QUOTES: u64 = scan::all(b'"');
    const BACKSLASHES: u64 = scan::all(b'\\');
    scan::bytes_before(
        bytes,
        |word| {
            let controls = scan::below::<0x20>(word);
            controls | scan::below::<1>(word ^ QUOTES) | scan::below::<1>(word ^ BACKSLASHES)
        },
        |byte| byte < 0x20 || matches!(byte, b'"' | b'\\'),
    )
}

#[cold]
fn put_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// Appends a number.
pub fn put_int(out: &mut Vec<u8>, value: impl Into<i64>) {
    let value: i64 = value.into();
    match u8::try_from(value) {
        // Most of the numbers in a route: queues, permissions and flags.
        Ok(digit @ 0..=9) => out.push(b'0' + digit),
        Ok(small @ 10..=99) => out.extend_from_slice(&[b'0' + small / 10, b'0' + small % 10]),
        _ => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
    }
}

/// Appends a number; the standard dialect puts quotes around one beyond ±(2^53-1).
pub fn put_long(out: &mut Vec<u8>, value: i64, dialect: Dialect) {
    let quoted = dialect == Dialect::Standard && !(-EXACT_MAX..=EXACT_MAX).contains(&value);
    if quoted {
        out.push(b'"');
    }
    put_int(out, value);
    if quoted {
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> String {
        let mut out = Vec::new();
        put_string(&mut out, text);
        String::from_utf8(out).expect("text stays text")
    }

    #[test]
    fn escapes_are_those_of_release_5_5() {
        // Golden sample "kv-get-mix": every class of character at once.
        let raw = "a/b\"\\\u{8}\t\n\u{c}\r\u{1}\u{b}\u{1f}\u{7f}\u{80}é中\u{2028}😀<&'";
        let written = "\"a/b\\\"\\\\\\b\\t\\n\\f\\r\\u0001\\u000b\\u001f\
                       \u{7f}\u{80}é中\u{2028}😀<&'\"";
        assert_eq!(string(raw), written);
        assert_eq!(string(""), "\"\"");
        assert_eq!(string("plain"), "\"plain\"");
    }

    #[test]
    fn an_escape_is_found_wherever_it_stands() {
        for before in 0..20 {
            for (raw, written) in
                [("\"", "\\\""), ("\\", "\\\\"), ("\u{1f}", "\\u001f"), ("é", "é")]
            {
                let (front, back) = ("x".repeat(before), "y".repeat(before % 7));
                let expected = format!("\"{front}{written}{back}{written}\"");
                assert_eq!(string(&format!("{front}{raw}{back}{raw}")), expected);
            }
        }
    }

    #[test]
    fn numbers_of_any_length_are_written() {
        for value in [0, 9, 10, 16, 99, 100, -1, 255, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_int(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
        }
    }

    #[test]
    fn only_the_standard_dialect_quotes_big_numbers() {
        let long = |value, dialect| {
            let mut out = Vec::new();
            put_long(&mut out, value, dialect);
            String::from_utf8(out).expect("digits")
        };
        let max = 9_007_199_254_740_991;
        assert_eq!(long(max, Dialect::Standard), "9007199254740991");
        assert_eq!(long(max + 1, Dialect::Standard), "\"9007199254740992\"");
        assert_eq!(long(-max - 1, Dialect::Standard), "\"-9007199254740992\"");
        assert_eq!(long(max + 1, Dialect::Legacy), "9007199254740992");
        assert_eq!(long(i64::MIN, Dialect::Legacy), "-9223372036854775808");
    }
}

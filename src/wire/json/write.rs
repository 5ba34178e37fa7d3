//! Writing JSON as the Java 5.5.0 NameServer does (fastjson2: `JSONWriterUTF8`).

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

/// Bytes before the first that needs an escape, eight at a time.
#[inline]
fn clean_length(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_le_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_le_bytes([b'\\'; 8]);
    // Sets the high bit of each byte below `limit`, and perhaps of some above the lowest such one.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & HIGHS;
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(*chunk);
        let found = below(word, 0x20) | below(word ^ QUOTES, 1) | below(word ^ BACKSLASHES, 1);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = &bytes[at..];
    let stops = |byte: &u8| *byte < 0x20 || matches!(*byte, b'"' | b'\\');
    at + rest.iter().position(stops).unwrap_or(rest.len())
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

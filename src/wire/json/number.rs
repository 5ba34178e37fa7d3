//! Numbers in all the spellings that the Java reader takes.

use std::borrow::Cow;

/// The value of `text`: an optional sign, digits, perhaps a fraction (cut off), an exponent, an
/// `L`; empty is 0. `None` for anything else and for what an `i64` cannot hold.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let text = text.strip_suffix(b"L").unwrap_or(text);
    let unsigned = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    let digits = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let (whole, rest) = text.split_at(text.len() - unsigned.len() + digits);
    if rest.is_empty() {
        return std::str::from_utf8(whole).ok()?.parse().ok();
    }
    // `f64` would also take "inf" and the like: let through only what begins like a fraction or an
    // exponent.
    let decimal: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    match rest {
        [b'.', fraction @ ..] if fraction.iter().all(u8::is_ascii_digit) => {
            std::str::from_utf8(whole).ok()?.parse().ok()
        }
        [b'.' | b'e' | b'E', ..] => cut(decimal),
        _ => None,
    }
}

/// The whole part of a number with an exponent, if it fits.
#[allow(clippy::cast_possible_truncation, reason = "the range is checked, the fraction is cut")]
fn cut(decimal: f64) -> Option<i64> {
    // 2^63 as a float is exact; i64::MAX is not, hence the exclusive bound.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (-LIMIT..LIMIT).contains(&decimal).then_some(decimal as i64)
}

/// A number where text is wanted, as Java prints it: a fraction keeps its digits, an exponent does
/// not stay, a sign or zeros that say nothing go. `None` if it is no number or an infinite one.
pub(super) fn as_text(text: &str) -> Option<Cow<'_, str>> {
    let text = text.strip_suffix('L').unwrap_or(text);
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
        return None;
    }
    let decimal: f64 = text.parse().ok().filter(|decimal: &f64| decimal.is_finite())?;
    if text.contains(['e', 'E']) {
        return Some(Cow::Owned(java_double(decimal)));
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let plain = match unsigned.as_bytes() {
        [b'0'] => text == "0",
        [b'0', b'.', ..] | [b'1'..=b'9', ..] => !text.starts_with('+'),
        _ => false,
    };
    Some(match text.parse::<i64>() {
        Ok(value) if !plain => Cow::Owned(value.to_string()),
        _ => Cow::Borrowed(text),
    })
}

/// A number with an exponent as Java prints a double (`1e3` is `1000.0`, `1e7` is `1.0E7`).
fn java_double(decimal: f64) -> String {
    let size = decimal.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{decimal:?}");
    }
    let text = format!("{decimal:E}");
    match text.split_once('E') {
        Some((digits, power)) if !digits.contains('.') => format!("{digits}.0E{power}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_that_java_takes() {
        let cases: [(&str, i64); 15] = [
            ("", 0),
            ("0", 0),
            ("-0", 0),
            ("101", 101),
            ("+5", 5),
            ("-5", -5),
            ("0101", 101),
            ("101L", 101),
            ("101.0", 101),
            ("7.9", 7),
            ("-7.9", -7),
            ("1.01e2", 101),
            ("1E3", 1000),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ];
        for (text, value) in cases {
            assert_eq!(integer(text.as_bytes()), Some(value), "{text:?}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let cases = [
            "0x65",
            "abc",
            "+",
            "-",
            "L",
            ".5",
            "1.2.3",
            "1e",
            "1 ",
            " 1",
            "1_000",
            "inf",
            "nan",
            "1e19",
            "9223372036854775808",
            "--1",
            "1-",
            "1.e",
            "5x",
            "1f",
        ];
        for text in cases {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn numbers_as_text_are_those_of_java() {
        for (text, expected) in [
            ("1.50", "1.50"),
            ("-7", "-7"),
            ("-0", "0"),
            ("+5", "5"),
            ("0101", "101"),
            ("101L", "101"),
            ("1.", "1"),
            ("1e3", "1000.0"),
            ("12345678901234567890123", "12345678901234567890123"),
        ] {
            assert_eq!(as_text(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["1e400", "1e", "0x65", "1.2.3", "--1", "nan", "inf", "+", "", "L", "."] {
            assert_eq!(as_text(text), None, "{text}");
        }
    }

    #[test]
    fn doubles_print_as_in_java() {
        for (value, text) in [
            (1e3, "1000.0"),
            (1.5e2, "150.0"),
            (1e7, "1.0E7"),
            (1.25e10, "1.25E10"),
            (1e-3, "0.001"),
            (1e-4, "1.0E-4"),
            (0.0, "0.0"),
        ] {
            assert_eq!(java_double(value), text);
        }
    }
}

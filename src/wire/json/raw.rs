//! Strings as they stand in the input, and what their escapes stand for.

use std::borrow::Cow;

use super::read::JsonError;
use super::write::put_string;

/// A string as it stands in the input, or a bare integer key.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub(super) bytes: &'a [u8],
    /// Bytes before the first backslash; all of them if there is none. A word and not a flag, as
    /// copying a struct with a flag in it stalls the processor on every key.
    pub(super) clean: usize,
    /// Offset of its first byte.
    pub at: usize,
}

impl<'a> Raw<'a> {
    /// The bytes it stands for, to compare with a known name. Not yet checked to be UTF-8.
    ///
    /// # Errors
    ///
    /// When an escape is wrong.
    #[inline]
    pub fn name(&self) -> Result<Cow<'a, [u8]>, JsonError> {
        if self.clean == self.bytes.len() {
            return Ok(Cow::Borrowed(self.bytes));
        }
        self.unescaped().map(|text| Cow::Owned(text.into_bytes()))
    }

    /// The text it stands for.
    ///
    /// # Errors
    ///
    /// When it is not UTF-8 or an escape is wrong.
    #[inline]
    pub fn text(&self) -> Result<Cow<'a, str>, JsonError> {
        if self.clean < self.bytes.len() {
            return self.unescaped().map(Cow::Owned);
        }
        self.utf8(0, self.bytes.len()).map(Cow::Borrowed)
    }

    /// Checks that it is text, for a key that nobody asks for.
    ///
    /// # Errors
    ///
    /// As [`Raw::text`].
    pub fn check(&self) -> Result<(), JsonError> {
        self.text().map(|_| ())
    }

    /// Appends it in quotes, if there is somewhere to append to.
    pub(super) fn put(&self, out: &mut Option<&mut Vec<u8>>) -> Result<(), JsonError> {
        let text = self.text()?;
        if let Some(out) = out {
            put_string(out, &text);
        }
        Ok(())
    }

    fn utf8(&self, from: usize, to: usize) -> Result<&'a str, JsonError> {
        std::str::from_utf8(&self.bytes[from..to]).map_err(|error| JsonError {
            reason: "not UTF-8",
            at: self.at + from + error.valid_up_to(),
        })
    }

    #[cold]
    fn unescaped(&self) -> Result<String, JsonError> {
        let mut text = String::with_capacity(self.bytes.len());
        let mut at = 0;
        while let Some(clean) = memchr::memchr(b'\\', &self.bytes[at..]) {
            text.push_str(self.utf8(at, at + clean)?);
            at += clean;
            let (letter, length) = self.escape(at)?;
            text.push(letter);
            at += length;
        }
        text.push_str(self.utf8(at, self.bytes.len())?);
        Ok(text)
    }

    /// The character that the escape at `at` stands for, and the bytes it takes.
    fn escape(&self, at: usize) -> Result<(char, usize), JsonError> {
        let letter = match self.bytes.get(at + 1) {
            Some(b'u') => return self.unicode(at),
            Some(b'x') => return Ok((char::from(self.hex_byte(at + 2)?), 4)),
            Some(b'b') => '\u{8}',
            Some(b't') => '\t',
            Some(b'n') => '\n',
            Some(b'v') => '\u{b}',
            Some(b'f') => '\u{c}',
            Some(b'r') => '\r',
            Some(b'0') => '\0',
            Some(&same @ (b'"' | b'\'' | b'\\' | b'/')) => char::from(same),
            _ => return Err(self.bad_escape(at)),
        };
        Ok((letter, 2))
    }

    /// `\uXXXX`, two of them for a supplementary character. A lone surrogate becomes `?`, as it
    /// does when Java encodes it.
    fn unicode(&self, at: usize) -> Result<(char, usize), JsonError> {
        let high = self.unit(at + 2)?;
        if let Some(letter) = char::from_u32(high) {
            return Ok((letter, 6));
        }
        let is_pair = (0xd800..0xdc00).contains(&high)
            && self.bytes.get(at + 6..at + 8) == Some(b"\\u".as_slice());
        if is_pair {
            let low = self.unit(at + 8)?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok((char::from_u32(code).unwrap_or('?'), 12));
            }
        }
        Ok(('?', 6))
    }

    fn unit(&self, at: usize) -> Result<u32, JsonError> {
        Ok(u32::from(self.hex_byte(at)?) << 8 | u32::from(self.hex_byte(at + 2)?))
    }

    fn hex_byte(&self, at: usize) -> Result<u8, JsonError> {
        let digit = |at: usize| {
            let byte = self.bytes.get(at).copied().unwrap_or_default();
            char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
        };
        match (digit(at), digit(at + 1)) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => Err(self.bad_escape(at)),
        }
    }

    fn bad_escape(&self, at: usize) -> JsonError {
        JsonError { reason: "unknown escape", at: self.at + at }
    }
}

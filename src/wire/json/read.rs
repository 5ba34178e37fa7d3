//! A pull reader over bytes: the caller says what it expects next. Copies only strings that have
//! escapes.

use std::borrow::Cow;
use std::fmt;

use super::number;
use super::raw::Raw;
use super::scan;
use crate::limits::JSON_DEPTH_MAX;

/// Text that is not what the reader takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JsonError {
    /// What is wrong.
    pub reason: &'static str,
    /// Offset of the byte it was noticed at.
    pub at: usize,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.reason, self.at)
    }
}

impl std::error::Error for JsonError {}

/// What the next value is, by its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// A quote of either kind.
    Text,
    /// A digit or a sign.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `null`
    Null,
}

/// Reads from the front. Holds nothing but its place, so that reading can stop between two members
/// and go on later with [`Reader::resume`].
///
/// Every value takes one comma behind it along; so a reader at the end of a value needs no memory
/// of having been there, and commas are refused where none may stand: at the front, and twice in a
/// row.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// A reader of the same bytes at a place that [`Reader::at`] gave.
    #[must_use]
    pub fn resume(bytes: &'a [u8], at: usize) -> Reader<'a> {
        debug_assert!(at <= bytes.len());
        Reader { bytes, at }
    }

    /// Offset of the next byte.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// What comes next, without taking it.
    ///
    /// # Errors
    ///
    /// When it is the end or no value begins like this.
    #[inline]
    pub fn peek(&mut self) -> Result<Kind, JsonError> {
        self.blanks()?;
        match self.byte() {
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'"' | b'\'') => Ok(Kind::Text),
            Some(b'0'..=b'9' | b'-' | b'+') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Boolean),
            Some(b'n') => Ok(Kind::Null),
            Some(_) => Err(self.error("no value begins like this")),
            None => Err(self.error("ends where a value should be")),
        }
    }

    /// Takes a `{`.
    ///
    /// # Errors
    ///
    /// When something else comes.
    #[inline]
    pub fn open_object(&mut self) -> Result<(), JsonError> {
        self.open(b'{', "not an object")
    }

    /// Takes a `[`.
    ///
    /// # Errors
    ///
    /// When something else comes.
    pub fn open_array(&mut self) -> Result<(), JsonError> {
        self.open(b'[', "not an array")
    }

    /// The next key of the open object with its colon, or `None` behind its `}`.
    ///
    /// # Errors
    ///
    /// When neither comes: a name without quotes, a comma too many.
    #[inline]
    pub fn key(&mut self) -> Result<Option<Raw<'a>>, JsonError> {
        self.blanks()?;
        let key = match self.byte() {
            Some(b'}') => {
                self.at += 1;
                self.after_value()?;
                return Ok(None);
            }
            Some(b'"' | b'\'') => self.string()?,
            Some(b'0'..=b'9' | b'-') => self.bare_key()?,
            Some(_) => return Err(self.error("not a key in quotes, a whole number or }")),
            None => return Err(self.error("ends inside an object")),
        };
        self.blanks()?;
        if self.byte() != Some(b':') {
            return Err(self.error("no colon behind a key"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// The byte behind the next one, for a guess which key comes.
    #[inline]
    #[must_use]
    pub fn second_byte(&self) -> Option<u8> {
        self.bytes.get(self.at + 1).copied()
    }

    /// Takes `literal` if exactly that comes next; says whether it did. A short cut past
    /// [`Reader::key`] for a key with its quotes and colon, where a member may stand.
    #[inline]
    pub fn literal<const N: usize>(&mut self, literal: &[u8; N]) -> bool {
        let found = self.bytes[self.at..].first_chunk() == Some(literal);
        if found {
            self.at += N;
        }
        found
    }

    /// True if the open array has another element, false behind its `]`.
    ///
    /// # Errors
    ///
    /// When the input ends.
    pub fn element(&mut self) -> Result<bool, JsonError> {
        self.blanks()?;
        match self.byte() {
            Some(b']') => {
                self.at += 1;
                self.after_value()?;
                Ok(false)
            }
            Some(_) => Ok(true),
            None => Err(self.error("ends inside an array")),
        }
    }

    /// Takes a `null` if one comes; says whether it did.
    ///
    /// # Errors
    ///
    /// When no value comes.
    pub fn null(&mut self) -> Result<bool, JsonError> {
        if self.peek()? != Kind::Null {
            return Ok(false);
        }
        self.word(b"null")?;
        Ok(true)
    }

    /// Takes a string.
    ///
    /// # Errors
    ///
    /// When something else comes.
    #[inline]
    pub fn text(&mut self) -> Result<Raw<'a>, JsonError> {
        if self.peek()? != Kind::Text {
            return Err(self.error("not text"));
        }
        let raw = self.string()?;
        self.after_value()?;
        Ok(raw)
    }

    /// Takes any value as the text that Java makes of it: objects and arrays as compact JSON, null
    /// as `None`.
    ///
    /// # Errors
    ///
    /// When no well-formed value comes.
    #[inline]
    pub fn any_as_text(&mut self) -> Result<Option<Cow<'a, str>>, JsonError> {
        match self.peek()? {
            Kind::Text => Ok(Some(self.text()?.text()?)),
            Kind::Null => self.word(b"null").map(|()| None),
            Kind::Boolean => {
                Ok(Some(Cow::Borrowed(if self.boolean()? { "true" } else { "false" })))
            }
            Kind::Number => {
                let token = self.number_token();
                self.after_value()?;
                self.number_as_text(token).map(Some)
            }
            Kind::Object | Kind::Array => {
                let mut out = Vec::new();
                self.walk(Some(&mut out))?;
                // Strings were checked one by one, everything else is ASCII.
                String::from_utf8(out).map(|text| Some(Cow::Owned(text))).map_err(|_| self.utf8())
            }
        }
    }

    /// Takes a number of 32 bits.
    ///
    /// # Errors
    ///
    /// When something else comes, or a number out of range.
    #[inline]
    pub fn int(&mut self) -> Result<i32, JsonError> {
        let at = self.at;
        i32::try_from(self.long()?)
            .map_err(|_| JsonError { reason: "number does not fit 32 bits", at })
    }

    /// Takes a number of 64 bits.
    ///
    /// # Errors
    ///
    /// When something else comes, or a number out of range.
    #[inline]
    pub fn long(&mut self) -> Result<i64, JsonError> {
        self.blanks()?;
        if let Some(value) = self.plain_number() {
            self.after_value()?;
            return Ok(value);
        }
        self.unusual_number()
    }

    /// Takes a boolean: also `null` (false), a number (only 1 is true), a text (only
    /// `true` is true).
    ///
    /// # Errors
    ///
    /// When an object, an array or no value comes.
    pub fn boolean(&mut self) -> Result<bool, JsonError> {
        match self.peek()? {
            Kind::Boolean if self.byte() == Some(b't') => self.word(b"true").map(|()| true),
            Kind::Boolean => self.word(b"false").map(|()| false),
            Kind::Null => self.word(b"null").map(|()| false),
            Kind::Number => Ok(self.long()? == 1),
            Kind::Text => Ok(self.text()?.name()?.eq_ignore_ascii_case(b"true")),
            Kind::Object | Kind::Array => Err(self.error("not a boolean")),
        }
    }

    /// Takes any value and forgets it, but checks that it is well formed and not nested too deep.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub fn skip(&mut self) -> Result<(), JsonError> {
        if self.peek()? == Kind::Text {
            return self.text()?.check();
        }
        self.walk(None)
    }

    /// Skips the value of a member that nobody asks for; the key must be text all the same.
    ///
    /// # Errors
    ///
    /// As [`Reader::skip`].
    pub fn skip_member(&mut self, key: &Raw<'_>) -> Result<(), JsonError> {
        key.check()?;
        self.skip()
    }

    /// Checks that nothing but blanks is left.
    ///
    /// # Errors
    ///
    /// When something is.
    pub fn finish(&mut self) -> Result<(), JsonError> {
        self.blanks()?;
        match self.byte() {
            None => Ok(()),
            Some(_) => Err(self.error("something follows the end")),
        }
    }

    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn error(&self, reason: &'static str) -> JsonError {
        JsonError { reason, at: self.at }
    }

    fn utf8(&self) -> JsonError {
        self.error("not UTF-8")
    }

    #[inline]
    fn open(&mut self, bracket: u8, reason: &'static str) -> Result<(), JsonError> {
        self.blanks()?;
        if self.byte() != Some(bracket) {
            return Err(self.error(reason));
        }
        self.at += 1;
        Ok(())
    }

    #[inline]
    fn blanks(&mut self) -> Result<(), JsonError> {
        match self.byte() {
            Some(byte) if byte <= b' ' || byte == b'/' => self.blanks_and_comments(),
            _ => Ok(()),
        }
    }

    #[cold]
    fn blanks_and_comments(&mut self) -> Result<(), JsonError> {
        loop {
            match self.byte() {
                Some(b' ' | b'\t' | b'\n' | b'\r' | 0x08 | 0x0c | 0 | 0x1a) => self.at += 1,
                Some(b'/') => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Result<(), JsonError> {
        let behind = &self.bytes[self.at + 1..];
        let length = match behind.first() {
            Some(b'/') => memchr::memchr(b'\n', behind).unwrap_or(behind.len()),
            Some(b'*') => match memchr::memmem::find(&behind[1..], b"*/") {
                Some(end) => end + 3,
                None => return Err(self.error("comment without an end")),
            },
            _ => return Err(self.error("neither a value nor a comment")),
        };
        self.at += 1 + length;
        Ok(())
    }

    #[inline]
    fn after_value(&mut self) -> Result<(), JsonError> {
        self.blanks()?;
        if self.byte() == Some(b',') {
            self.at += 1;
        }
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Result<(), JsonError> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(self.error("neither null, true nor false"));
        }
        self.at += word.len();
        if self.byte().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            return Err(self.error("neither null, true nor false"));
        }
        self.after_value()
    }

    /// A quoted string; the caller has seen its opening quote.
    #[inline]
    fn string(&mut self) -> Result<Raw<'a>, JsonError> {
        let quote = self.bytes[self.at];
        let start = self.at + 1;
        let clean = clean_length(&self.bytes[start..], quote);
        let mut end = start + clean;
        while self.bytes.get(end) == Some(&b'\\') {
            end += 2;
            end += clean_length(self.bytes.get(end..).unwrap_or_default(), quote);
        }
        if end >= self.bytes.len() {
            return Err(self.error("string without an end"));
        }
        self.at = end + 1;
        Ok(Raw { bytes: &self.bytes[start..end], clean, at: start })
    }

    fn bare_key(&mut self) -> Result<Raw<'a>, JsonError> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let digits = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == digits {
            return Err(self.error("a sign without digits"));
        }
        Ok(Raw { bytes: &self.bytes[start..self.at], clean: self.at - start, at: start })
    }

    /// A number of at most 18 digits that ends there: nearly all of them. Takes nothing otherwise.
    #[inline]
    fn plain_number(&mut self) -> Option<i64> {
        let negative = self.byte() == Some(b'-');
        let start = self.at + usize::from(negative);
        let mut end = start;
        let mut value = 0i64;
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(end) {
            if end - start == 18 {
                return None;
            }
            value = value * 10 + i64::from(digit - b'0');
            end += 1;
        }
        let ends = matches!(self.bytes.get(end), Some(b',' | b'}' | b']' | b' ' | b'\n'));
        if end == start || !ends {
            return None;
        }
        self.at = end;
        Some(if negative { -value } else { value })
    }

    #[cold]
    fn unusual_number(&mut self) -> Result<i64, JsonError> {
        let kind = self.peek()?;
        let at = self.at;
        let value = match kind {
            Kind::Number => {
                let token = self.number_token();
                self.after_value()?;
                number::integer(token)
            }
            Kind::Text => number::integer(&self.text()?.name()?),
            Kind::Null => return self.word(b"null").map(|()| 0),
            Kind::Boolean => return self.boolean().map(i64::from),
            Kind::Object | Kind::Array => None,
        };
        value.ok_or(JsonError { reason: "not a whole number of 64 bits", at })
    }

    /// The bytes of a number in any spelling, and of what is glued to it.
    fn number_token(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = rest.iter().take_while(|byte| part(byte)).count();
        self.at += length;
        &rest[..length]
    }

    fn number_as_text(&self, token: &'a [u8]) -> Result<Cow<'a, str>, JsonError> {
        let text = std::str::from_utf8(token).map_err(|_| self.utf8())?;
        number::as_text(text).ok_or(self.error("not a number"))
    }

    /// Goes through one value, writing it compactly to `out` if there is one. The peer's nesting
    /// costs a bit a level, never a stack frame.
    fn walk(&mut self, mut out: Option<&mut Vec<u8>>) -> Result<(), JsonError> {
        // One bit for each open bracket, the innermost lowest: 1 for an object.
        let mut objects = 0u64;
        let mut depth = 0usize;
        loop {
            let kind = self.peek()?;
            if matches!(kind, Kind::Object | Kind::Array) {
                if depth == JSON_DEPTH_MAX {
                    return Err(self.error("nested too deep"));
                }
                objects = objects << 1 | u64::from(kind == Kind::Object);
                depth += 1;
                put(&mut out, if kind == Kind::Object { b"{" } else { b"[" });
                self.at += 1;
            } else {
                self.scalar(kind, &mut out)?;
            }
            // Close what closes here, then stand before the next value.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let is_object = objects & 1 == 1;
                if is_object && let Some(key) = self.key()? {
                    separate(&mut out);
                    key.put(&mut out)?;
                    put(&mut out, b":");
                    break;
                }
                if !is_object && self.element()? {
                    separate(&mut out);
                    break;
                }
                put(&mut out, if is_object { b"}" } else { b"]" });
                objects >>= 1;
                depth -= 1;
            }
        }
    }

    fn scalar(&mut self, kind: Kind, out: &mut Option<&mut Vec<u8>>) -> Result<(), JsonError> {
        if kind == Kind::Text {
            return self.text()?.put(out);
        }
        let text = self.any_as_text()?;
        put(out, text.as_deref().unwrap_or("null").as_bytes());
        Ok(())
    }
}

/// Bytes before the first `quote` or backslash: most time of reading goes here.
#[inline]
pub(in crate::wire) fn clean_length(bytes: &[u8], quote: u8) -> usize {
    const BACKSLASHES: u64 = scan::all(b'\\');
    let quotes = scan::all(quote);
    scan::bytes_before(
        bytes,
        |word| scan::below::<1>(word ^ quotes) | scan::below::<1>(word ^ BACKSLASHES),
        |byte| byte == quote || byte == b'\\',
    )
}

fn put(out: &mut Option<&mut Vec<u8>>, bytes: &[u8]) {
    if let Some(out) = out {
        out.extend_from_slice(bytes);
    }
}

/// A comma, unless an opening bracket stands before. A string that ends in one is followed by its
/// quote.
fn separate(out: &mut Option<&mut Vec<u8>>) {
    if let Some(out) = out
        && !matches!(out.last(), Some(b'{' | b'['))
    {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests;

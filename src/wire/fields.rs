//! Extension fields and the typed look at them.
//!
//! Java decodes them into a header object and swallows what is missing or unparseable: the member
//! keeps its default. Here absence and nonsense are both `None`, and the handler decides (Java:
//! `RemotingCommand.decodeCommandCustomHeader`).

use std::borrow::Cow;

use smallvec::SmallVec;

use super::command::Command;
use super::error::WireError;
use crate::limits::EXT_FIELDS_MAX;

/// Extension fields in the order they came; a name that comes twice counts with its last value.
#[derive(Debug, Default)]
pub struct ExtFields<'a> {
    /// Name and value: parts of the header. Small, as nearly all fields of nearly all requests are
    /// here.
    parts: SmallVec<[(&'a str, &'a str); 8]>,
    /// The first field that is not a part of the header, and all behind it.
    behind: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Members seen, also those that are not kept: `<= EXT_FIELDS_MAX`.
    seen: usize,
}

impl<'a> ExtFields<'a> {
    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        if !self.behind.is_empty()
            && let Some((_, value)) = self.behind.iter().rfind(|(field, _)| field == name)
        {
            return Some(value);
        }
        self.parts.iter().rfind(|(field, _)| *field == name).map(|(_, value)| *value)
    }

    /// Names and values in the order they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let behind = self.behind.iter().map(|(name, value)| (&**name, &**value));
        self.parts.iter().copied().chain(behind)
    }

    /// Whether reading them has allocated.
    #[cfg(test)]
    pub(super) fn are_copied(&self) -> bool {
        self.parts.spilled() || self.behind.capacity() > 0
    }

    /// Forgets all fields, but not how many have been seen.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
        self.behind.clear();
    }

    /// Adds a part of the header.
    #[inline]
    pub(super) fn push(&mut self, name: &'a str, value: &'a str) -> Result<(), TooMany> {
        self.count()?;
        // `get` looks from the end, so duplicates need no search here.
        self.parts.push((name, value));
        Ok(())
    }

    /// As [`ExtFields::push`], of texts that may be copies.
    pub(super) fn put(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) -> Result<(), TooMany> {
        match (name, value) {
            (Cow::Borrowed(name), Cow::Borrowed(value)) if self.behind.is_empty() => {
                self.push(name, value)
            }
            field => {
                self.count()?;
                self.behind.push(field);
                Ok(())
            }
        }
    }

    /// A field that is null takes an earlier one of that name away, as it does in Java's map.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), TooMany> {
        // These count, too: each walks over all fields.
        self.count()?;
        self.parts.retain(|(field, _)| *field != name);
        self.behind.retain(|(field, _)| field != name);
        Ok(())
    }

    #[inline]
    fn count(&mut self) -> Result<(), TooMany> {
        if self.seen >= EXT_FIELDS_MAX {
            return Err(TooMany);
        }
        self.seen += 1;
        Ok(())
    }
}

/// More than [`EXT_FIELDS_MAX`] fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMany;

impl From<TooMany> for WireError {
    fn from(_: TooMany) -> WireError {
        WireError::TooManyFields
    }
}

impl Command<'_> {
    /// The extension field `name` as it is; `None` if absent.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.ext.get(name)
    }

    /// True only for a text that is `true` in any letter case (Java: `Boolean.parseBoolean`);
    /// `None` if absent.
    #[must_use]
    pub fn boolean(&self, name: &str) -> Option<bool> {
        self.text(name).map(|text| text.eq_ignore_ascii_case("true"))
    }

    /// A decimal number with an optional sign (Java: `Long.parseLong`); `None` if absent or
    /// anything else.
    #[must_use]
    pub fn long(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    /// A decimal number with an optional sign (Java: `Integer.parseInt`); `None` if absent or
    /// anything else.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i32> {
        self.text(name)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put<'a>(
        ext: &mut ExtFields<'a>,
        name: &'a str,
        value: Option<&'a str>,
    ) -> Result<(), TooMany> {
        match value {
            Some(value) => ext.push(name, value),
            None => ext.remove(name),
        }
    }

    fn command<'a>(fields: &[(&'a str, Option<&'a str>)]) -> Command<'a> {
        let mut command = Command::default();
        for (name, value) in fields {
            put(&mut command.ext, name, *value).expect("few fields");
        }
        command
    }

    #[test]
    fn last_duplicate_wins_and_a_null_takes_the_field_away() {
        let command = command(&[
            ("topic", Some("a")),
            ("x", Some("1")),
            ("topic", Some("b")),
            ("x", None),
            ("empty", Some("")),
        ]);
        assert_eq!(command.text("topic"), Some("b"));
        assert_eq!(command.text("x"), None);
        assert_eq!(command.text("empty"), Some(""));
        assert_eq!(command.text("Topic"), None);
    }

    #[test]
    fn copies_and_parts_of_the_header_keep_their_order() {
        let texts: [(Cow<'_, str>, Cow<'_, str>); 5] = [
            ("a".into(), "1".into()),
            ("a".to_owned().into(), "2".into()),
            ("b".into(), "3".to_owned().into()),
            ("b".into(), "4".into()),
            ("c".into(), "5".into()),
        ];
        for count in 0..=texts.len() {
            let mut ext = ExtFields::default();
            for (name, value) in &texts[..count] {
                ext.put(name.clone(), value.clone()).expect("few fields");
            }
            let expected: Vec<_> = texts[..count].iter().map(|(n, v)| (&**n, &**v)).collect();
            assert_eq!(ext.iter().collect::<Vec<_>>(), expected);
            for name in ["a", "b", "c"] {
                let last = expected.iter().rfind(|(field, _)| *field == name);
                assert_eq!(ext.get(name), last.map(|(_, value)| *value), "{name} of {count}");
            }
            ext.remove("a").expect("few fields");
            assert!(ext.iter().all(|(name, _)| name != "a"));
            ext.clear();
            assert_eq!(ext.iter().next(), None);
        }
    }

    #[test]
    fn only_true_is_true() {
        let command = command(&[("a", Some("TrUe")), ("b", Some("yes")), ("c", Some("1"))]);
        assert_eq!(command.boolean("a"), Some(true));
        assert_eq!(command.boolean("b"), Some(false));
        assert_eq!(command.boolean("c"), Some(false));
        assert_eq!(command.boolean("d"), None);
    }

    #[test]
    fn numbers_follow_the_rules_of_java() {
        let number = |text| command(&[("n", Some(text))]).long("n");
        assert_eq!(number("0"), Some(0));
        assert_eq!(number("+5"), Some(5));
        assert_eq!(number("-9223372036854775808"), Some(i64::MIN));
        for text in ["", "+", "abc", " 1", "1 ", "1.0", "1L", "9223372036854775808", "0x10"] {
            assert_eq!(number(text), None, "{text:?}");
        }
        let int = |text| command(&[("n", Some(text))]).int("n");
        assert_eq!(int("2147483647"), Some(i32::MAX));
        assert_eq!(int("2147483648"), None);
    }

    #[test]
    fn the_number_of_fields_is_bounded() {
        for value in [Some("b"), None] {
            let mut ext = ExtFields::default();
            for _ in 0..EXT_FIELDS_MAX {
                put(&mut ext, "a", value).expect("within the bound");
            }
            let one_more = put(&mut ext, "a", value);
            assert_eq!(one_more, Err(TooMany), "{value:?}");
        }
    }
}

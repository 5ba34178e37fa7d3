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
    /// Name and value.
    pub fields: SmallVec<[(Cow<'a, str>, Cow<'a, str>); 8]>,
    /// Members seen, also those that are not kept: `<= EXT_FIELDS_MAX`.
    seen: usize,
}

impl<'a> ExtFields<'a> {
    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(field, _)| field == name).map(|(_, value)| &**value)
    }

    /// Adds a field.
    #[inline]
    pub(super) fn push(
        &mut self,
        name: Cow<'a, str>,
        value: Cow<'a, str>,
    ) -> Result<(), WireError> {
        self.count()?;
        // `get` looks from the end, so duplicates need no search here.
        self.fields.push((name, value));
        Ok(())
    }

    /// A field that is null takes an earlier one of that name away, as it does in Java's map.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), WireError> {
        // These count, too: each walks over all fields.
        self.count()?;
        self.fields.retain(|(field, _)| *field != name);
        Ok(())
    }

    #[inline]
    fn count(&mut self) -> Result<(), WireError> {
        if self.seen >= EXT_FIELDS_MAX {
            return Err(WireError::TooManyFields);
        }
        self.seen += 1;
        Ok(())
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
    ) -> Result<(), WireError> {
        match value {
            Some(value) => ext.push(name.into(), value.into()),
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
            assert_eq!(one_more, Err(WireError::TooManyFields), "{value:?}");
        }
    }
}

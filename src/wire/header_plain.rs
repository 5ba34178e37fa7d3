//! JSON headers in the spelling of the peers in use: no blanks, no escapes, no member that is not
//! in the list below. Read in one pass, and checked to be UTF-8 all at once.
//!
//! Whatever else comes is left to [`super::header_json`], which knows all the rules, and every
//! error: here nothing is refused. What both take they read alike, which its tests show.

use std::borrow::Cow;

use super::command::Command;
use super::fields::ExtFields;
use super::json;
use crate::ids::Opaque;

/// Reads `header` into `command`, or gives up: then `command` holds whatever had been read.
pub(super) fn decode<'a>(header: &'a [u8], command: &mut Command<'a>) -> Option<()> {
    let mut plain = Plain { text: std::str::from_utf8(header).ok()?, at: 0 };
    plain.take(b"{")?;
    loop {
        match plain.bytes().get(plain.at + 1)? {
            b'c' => {
                plain.take(b"\"code\":")?;
                command.code = plain.int()?;
            }
            b'e' => {
                plain.take(b"\"extFields\":{")?;
                plain.fields(&mut command.ext)?;
            }
            b'f' => {
                plain.take(b"\"flag\":")?;
                command.flag = plain.int()?;
            }
            b'l' => {
                plain.take(b"\"language\":\"")?;
                plain.string()?;
            }
            b'o' => {
                plain.take(b"\"opaque\":")?;
                command.opaque = Some(Opaque(plain.int()?));
            }
            b'r' => {
                plain.take(b"\"remark\":\"")?;
                command.remark = Some(Cow::Borrowed(plain.string()?));
            }
            b's' => {
                plain.take(b"\"serializeTypeCurrentRPC\":\"")?;
                plain.string()?;
            }
            b'v' => {
                plain.take(b"\"version\":")?;
                command.version = plain.int()?;
            }
            _ => return None,
        }
        if !plain.goes_on()? {
            break;
        }
    }
    (plain.at == header.len()).then_some(())
}

/// Takes pieces from the front; `None` where something unusual stands.
struct Plain<'a> {
    text: &'a str,
    /// Offset of the next byte, `<= text.len()`; never within a character.
    at: usize,
}

impl<'a> Plain<'a> {
    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    #[inline]
    fn take<const N: usize>(&mut self, literal: &[u8; N]) -> Option<()> {
        let found = self.bytes().get(self.at..)?.first_chunk() == Some(literal);
        self.at += N;
        found.then_some(())
    }

    /// Whether another member follows in the object that is read: a comma, not its end.
    #[inline]
    fn goes_on(&mut self) -> Option<bool> {
        let byte = self.bytes().get(self.at)?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            b'}' => Some(false),
            _ => None,
        }
    }

    /// A number; what follows it is looked at by [`Plain::goes_on`].
    #[inline]
    fn int(&mut self) -> Option<i32> {
        let negative = self.bytes().get(self.at) == Some(&b'-');
        self.at += usize::from(negative);
        let start = self.at;
        let mut value = 0i64;
        while let Some(digit @ b'0'..=b'9') = self.bytes().get(self.at) {
            value = value * 10 + i64::from(digit - b'0');
            self.at += 1;
            if self.at - start > 10 {
                return None;
            }
        }
        if self.at == start {
            return None;
        }
        i32::try_from(if negative { -value } else { value }).ok()
    }

    /// A string whose opening quote has been taken.
    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        let start = self.at;
        let end = start + json::clean_length(self.bytes().get(start..)?, b'"');
        if self.bytes().get(end) != Some(&b'"') {
            return None;
        }
        self.at = end + 1;
        self.text.get(start..end)
    }

    /// Names to texts, behind the opening bracket; the last ones count, as for all members.
    #[inline]
    fn fields(&mut self, ext: &mut ExtFields<'a>) -> Option<()> {
        ext.fields.clear();
        if self.bytes().get(self.at) == Some(&b'}') {
            self.at += 1;
            return Some(());
        }
        loop {
            self.take(b"\"")?;
            let name = self.string()?;
            self.take(b":\"")?;
            let value = self.string()?;
            ext.put(Cow::Borrowed(name), Some(Cow::Borrowed(value))).ok()?;
            if !self.goes_on()? {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::header_json;

    /// What was read, in a form that can be compared.
    fn all<'a>(command: &'a Command<'_>) -> impl PartialEq + std::fmt::Debug + 'a {
        let Command { code, version, opaque, flag, remark, ext, .. } = command;
        (code, version, opaque, flag, remark, &ext.fields)
    }

    fn is_plain(header: &[u8]) -> bool {
        let (mut plain, mut general) = (Command::default(), Command::default());
        if decode(header, &mut plain).is_none() {
            return false;
        }
        let shown = String::from_utf8_lossy(header);
        header_json::decode(header, &mut general).unwrap_or_else(|e| panic!("{shown}: {e}"));
        assert_eq!(all(&plain), all(&general), "{shown}");
        true
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![20 => "\"[a-z :,{}'/é😀\n]{0,12}\"", 1 => "\"([ -~]|\\\\[nu\"]){0,8}\""]
    }

    fn number() -> impl Strategy<Value = String> {
        prop_oneof![20 => any::<i32>().prop_map(|n| n.to_string()), 1 => "-?[0-9]{0,12}L?"]
    }

    fn fields() -> impl Strategy<Value = String> {
        let value = prop_oneof![30 => text(), 1 => number(), 1 => Just("null".to_owned())];
        let fields = prop::collection::vec((text(), value), 0..5);
        fields.prop_map(|fields| {
            let members: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name}:{value}")).collect();
            format!("{{{}}}", members.join(","))
        })
    }

    /// A member as peers write it; now and then one that only looks like it.
    fn member() -> impl Strategy<Value = String> {
        const NUMBERS: [&str; 4] = ["code", "flag", "opaque", "version"];
        const TEXTS: [&str; 3] = ["language", "remark", "serializeTypeCurrentRPC"];
        let any_name = prop::sample::select(vec!["code", "remark", "extFields", "codes", "c", ""]);
        let any_value = prop_oneof![text(), number(), fields()];
        let named = prop_oneof![
            10 => (prop::sample::select(NUMBERS.to_vec()), number()),
            10 => (prop::sample::select(TEXTS.to_vec()), text()),
            10 => (Just("extFields"), fields()),
            1 => (any_name, any_value),
        ];
        named.prop_map(|(name, value)| format!("\"{name}\":{value}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_is_plain_is_read_as_the_general_reader_does(
            members in prop::collection::vec(member(), 0..8),
            change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut header = format!("{{{}}}", members.join(",")).into_bytes();
            is_plain(&header);
            if let Some((place, byte)) = change {
                let place = place.index(header.len());
                header[place] = byte;
                is_plain(&header);
                header.truncate(place);
                is_plain(&header);
            }
        }
    }

    #[test]
    fn peers_in_use_write_plain_headers() {
        let java = r#"{"code":105,"extFields":{"acceptStandardJsonOnly":"true","topic":"T1"},"#;
        let java = [java, r#""flag":0,"language":"JAVA","opaque":124,"#].concat();
        let java = [&java, r#""serializeTypeCurrentRPC":"JSON","version":513}"#].concat();
        assert!(is_plain(java.as_bytes()));
        let go = r#"{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","#;
        let go = [go, r#""extFields":{"topic":"T1-é中"}}"#].concat();
        assert!(is_plain(go.as_bytes()));
        assert!(is_plain(br#"{"code":106,"extFields":{},"opaque":-2147483648}"#));
    }

    #[test]
    fn the_unusual_is_left_alone() {
        for header in [
            r#"{}"#,
            r#" {"code":1}"#,
            r#"{"code":1} "#,
            r#"{"code":1,}"#,
            r#"{"code":"1"}"#,
            r#"{"code":2147483648}"#,
            r#"{"code":99999999999}"#,
            r#"{"code":}"#,
            r#"{"code":-}"#,
            r#"{"code":1}x"#,
            r#"{"code":1"#,
            r#"{"remark":null}"#,
            r#"{"remark":"a\n"}"#,
            r#"{"extFields":{"a":1}}"#,
            r#"{"extFields":{"a":"b",}}"#,
            r#"{"extFields":null}"#,
            r#"{"other":"x"}"#,
            r#"{'code':1}"#,
            r#"{"code":1 }"#,
            "{",
            "",
        ] {
            assert!(!is_plain(header.as_bytes()), "{header}");
        }
        assert!(!is_plain(b"{\"remark\":\"\xff\"}"), "not UTF-8");
    }
}

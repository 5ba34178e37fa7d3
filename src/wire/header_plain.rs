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
///
/// The members are tried in the order in which Java peers write them, so that theirs are found by
/// one comparison each; with each round any other order comes to its next member, too.
pub(super) fn decode<'a>(header: &'a [u8], command: &mut Command<'a>) -> Option<()> {
    let mut plain = Plain { rest: std::str::from_utf8(header).ok()?.strip_prefix('{')? };
    while plain.rest != "}" {
        let before = plain.rest.len();
        if plain.take("\"code\":") {
            command.code = plain.int()?;
        }
        if plain.take("\"extFields\":{") {
            plain.fields(&mut command.ext)?;
        }
        if plain.take("\"flag\":") {
            command.flag = plain.int()?;
        }
        if !plain.take("\"language\":\"JAVA\",") && plain.take("\"language\":\"") {
            plain.text()?;
        }
        if plain.take("\"opaque\":") {
            command.opaque = Some(Opaque(plain.int()?));
        }
        if plain.take("\"remark\":\"") {
            command.remark = Some(Cow::Borrowed(plain.text()?));
        }
        if !plain.take("\"serializeTypeCurrentRPC\":\"JSON\",")
            && plain.take("\"serializeTypeCurrentRPC\":\"")
        {
            plain.text()?;
        }
        if plain.take("\"version\":") {
            command.version = plain.int()?;
        }
        if plain.rest.len() == before {
            return None;
        }
    }
    Some(())
}

/// Takes pieces from the front; `None` where something unusual stands. Every value takes one comma
/// behind it along: as for the general reader, it may be missing, and stand behind the last.
struct Plain<'a> {
    rest: &'a str,
}

impl<'a> Plain<'a> {
    /// Whether `literal` stands there; then it is taken.
    #[inline]
    fn take(&mut self, literal: &str) -> bool {
        let behind = self.rest.strip_prefix(literal);
        self.rest = behind.unwrap_or(self.rest);
        behind.is_some()
    }

    #[inline]
    fn int(&mut self) -> Option<i32> {
        let negative = self.take("-");
        let mut value = 0i64;
        let mut count = 0;
        for byte in self.rest.bytes() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            count += 1;
        }
        if !(1..=10).contains(&count) {
            return None;
        }
        self.rest = self.rest.get(count..)?;
        // Nothing else may be glued to it: `1L`, `1.5`.
        if !self.take(",") && !self.rest.starts_with('}') {
            return None;
        }
        i32::try_from(if negative { -value } else { value }).ok()
    }

    /// A string whose opening quote has been taken.
    #[inline]
    fn text(&mut self) -> Option<&'a str> {
        let text = self.string()?;
        self.take(",");
        Some(text)
    }

    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        let length = json::clean_length(self.rest.as_bytes(), b'"');
        let (text, behind) = self.rest.split_at_checked(length)?;
        self.rest = behind.strip_prefix('"')?;
        Some(text)
    }

    /// Names to texts, behind the opening bracket; the last ones count, as for all members.
    #[inline]
    fn fields(&mut self, ext: &mut ExtFields<'a>) -> Option<()> {
        ext.fields.clear();
        while !self.take("}") {
            // What clients send, in one comparison each.
            let name = if self.take("\"topic\":\"") {
                "topic"
            } else if self.take("\"acceptStandardJsonOnly\":\"") {
                "acceptStandardJsonOnly"
            } else {
                self.name()?
            };
            ext.push(Cow::Borrowed(name), Cow::Borrowed(self.text()?)).ok()?;
        }
        self.take(",");
        Some(())
    }

    /// A field's name and all before its value.
    #[inline]
    fn name(&mut self) -> Option<&'a str> {
        self.rest = self.rest.strip_prefix('"')?;
        let name = self.string()?;
        self.rest = self.rest.strip_prefix(":\"")?;
        Some(name)
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
    fn commas_are_read_as_the_general_reader_reads_them() {
        for header in [
            r#"{}"#,
            r#"{"code":1,}"#,
            r#"{"extFields":{"a":"b",},}"#,
            r#"{"remark":"a""extFields":{"a":"b""c":"d"}"code":1}"#,
        ] {
            assert!(is_plain(header.as_bytes()), "{header}");
        }
    }

    #[test]
    fn the_unusual_is_left_alone() {
        for header in [
            r#" {"code":1}"#,
            r#"{"code":1} "#,
            r#"{"code":1},"#,
            r#"{"code":1}"flag":2}"#,
            r#"{"code":1"flag":2}"#,
            r#"{"code":1L}"#,
            r#"{"code":1.5}"#,
            r#"{,"code":1}"#,
            r#"{"code":1,,"flag":2}"#,
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
            r#"{"extFields":{"a":"b",,"c":"d"}}"#,
            r#"{"extFields":{"a","b"}}"#,
            r#"{"extFields":{"a",:"b"}}"#,
            r#"{"extFields":{"a":"b"}"#,
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

//! JSON headers in the spelling of the peers in use: no blanks, no escapes, no member that is not
//! in the list below. Read in one pass, and checked to be UTF-8 all at once.
//!
//! Whatever else comes is left to [`super::header_json`], which knows all the rules, and every
//! error: here nothing is refused. What both take they read alike, which its tests show.

use std::borrow::Cow;

use super::code::request;
use super::command::Command;
use super::fields::ExtFields;
use super::json;
use crate::ids::Opaque;

/// Reads `header` into `command`, or gives up: then `command` holds whatever had been read.
pub(super) fn decode<'a>(header: &'a [u8], command: &mut Command<'a>) -> Option<()> {
    let text = std::str::from_utf8(header).ok()?;
    route_query(text, command).or_else(|| members(text, command))
}

/// A route query as Java clients write it, which nearly all requests are: the same each time but
/// for a topic and two numbers.
fn route_query<'a>(text: &'a str, command: &mut Command<'a>) -> Option<()> {
    let rest = text.strip_prefix("{\"code\":105,\"extFields\":{")?;
    let accepts = rest.strip_prefix("\"acceptStandardJsonOnly\":\"true\",");
    let mut plain = Plain { rest: accepts.unwrap_or(rest).strip_prefix("\"topic\":\"")? };
    let topic = plain.string()?;
    // In pieces of at most 32 bytes: these are compared without a call.
    plain.expect("},\"flag\":0,\"language\":\"JAVA\",")?;
    plain.expect("\"opaque\":")?;
    let opaque = plain.int()?;
    plain.expect("\"serializeTypeCurrentRPC\":\"JSON\"")?;
    plain.expect(",\"version\":")?;
    let version = plain.int()?;
    plain.end()?;
    command.code = request::GET_ROUTEINFO_BY_TOPIC;
    command.opaque = Some(Opaque(opaque));
    command.version = version;
    let fields = [("acceptStandardJsonOnly", "true"), ("topic", topic)];
    for (name, value) in &fields[usize::from(accepts.is_none())..] {
        command.ext.push(name, value).ok()?;
    }
    Some(())
}

/// Members in any order. They are tried in that of Java peers, so that theirs are found by one
/// comparison each; with each round any other order comes to its next member, too.
fn members<'a>(text: &'a str, command: &mut Command<'a>) -> Option<()> {
    let mut plain = Plain { rest: text.strip_prefix('{')? };
    while plain.end().is_none() {
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
        if plain.take("\"language\":\"") {
            plain.text()?;
        }
        if plain.take("\"opaque\":") {
            command.opaque = Some(Opaque(plain.int()?));
        }
        if plain.take("\"remark\":\"") {
            command.remark = Some(Cow::Borrowed(plain.text()?));
        }
        if plain.take("\"serializeTypeCurrentRPC\":\"") {
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
        match self.rest.strip_prefix(literal) {
            Some(behind) => {
                self.rest = behind;
                true
            }
            None => false,
        }
    }

    #[inline]
    fn expect(&mut self, literal: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(literal)?;
        Some(())
    }

    /// Whether nothing but the header's last bracket is left.
    #[inline]
    fn end(&self) -> Option<()> {
        (self.rest == "}").then_some(())
    }

    /// A number that is not negative. What is glued to it, as in `1L` or `1.5`, is no member.
    #[inline]
    fn int(&mut self) -> Option<i32> {
        let (mut value, mut behind) = (0i64, self.rest.as_bytes());
        while let [digit @ b'0'..=b'9', rest @ ..] = behind {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            behind = rest;
        }
        let digits = self.rest.len() - behind.len();
        if !(1..=10).contains(&digits) {
            return None;
        }
        self.rest = self.rest.get(digits..)?;
        self.take(",");
        i32::try_from(value).ok()
    }

    /// A string whose opening quote has been taken, as a value.
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
        ext.clear();
        while !self.take("}") {
            self.expect("\"")?;
            let name = self.string()?;
            self.expect(":\"")?;
            let value = self.text()?;
            ext.push(name, value).ok()?;
        }
        self.take(",");
        Some(())
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
        (code, version, opaque, flag, remark, ext.iter().collect::<Vec<_>>())
    }

    fn is_plain(header: &[u8]) -> bool {
        let shown = String::from_utf8_lossy(header);
        let (mut plain, mut general) = (Command::default(), Command::default());
        if decode(header, &mut plain).is_none() {
            return false;
        }
        header_json::decode(header, &mut general).unwrap_or_else(|e| panic!("{shown}: {e}"));
        assert_eq!(all(&plain), all(&general), "{shown}");
        let mut any = Command::default();
        members(&shown, &mut any).expect("takes all that is plain");
        assert_eq!(all(&plain), all(&any), "{shown}");
        true
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![20 => "\"[a-z :,{}'/é😀\n]{0,12}\"", 1 => "\"([ -~]|\\\\[nu\"]){0,8}\""]
    }

    fn number() -> impl Strategy<Value = String> {
        prop_oneof![
            20 => (0..=i32::MAX).prop_map(|n| n.to_string()),
            1 => any::<i32>().prop_map(|n| n.to_string()),
            1 => "-?[0-9]{0,12}L?",
        ]
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

    /// The one request that is read at a stroke; now and then with something else in a hole.
    fn query() -> impl Strategy<Value = String> {
        let accepts = prop::option::of(Just("\"acceptStandardJsonOnly\":\"true\","));
        (accepts, text(), number(), number()).prop_map(|(accepts, topic, opaque, version)| {
            let accepts = accepts.unwrap_or_default();
            let head = format!("{{\"code\":105,\"extFields\":{{{accepts}\"topic\":{topic}}},");
            let tail = format!("\"flag\":0,\"language\":\"JAVA\",\"opaque\":{opaque},");
            let rest = "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":";
            format!("{head}{tail}{rest}{version}}}")
        })
    }

    /// With a byte changed, and cut off there, too.
    fn is_read_alike(header: String, change: Option<(prop::sample::Index, u8)>) {
        let mut header = header.into_bytes();
        is_plain(&header);
        if let Some((place, byte)) = change {
            let place = place.index(header.len());
            header[place] = byte;
            is_plain(&header);
            header.truncate(place);
            is_plain(&header);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn what_is_plain_is_read_as_the_general_reader_does(
            members in prop::collection::vec(member(), 0..8),
            change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            is_read_alike(format!("{{{}}}", members.join(",")), change);
        }

        #[test]
        fn a_query_is_read_as_the_general_reader_does(
            query in query(),
            change in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            is_read_alike(query, change);
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
        assert!(is_plain(br#"{"code":106,"extFields":{},"opaque":2147483647}"#));
    }

    #[test]
    fn a_query_of_a_java_client_is_read_at_a_stroke() {
        for (accepts, topic) in
            [("", "T1"), ("\"acceptStandardJsonOnly\":\"true\",", "%RETRY%é中😀'"), ("", "")]
        {
            let header = format!(
                "{{\"code\":105,\"extFields\":{{{accepts}\"topic\":\"{topic}\"}},\"flag\":0,\
                 \"language\":\"JAVA\",\"opaque\":2147483647,\
                 \"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}}"
            );
            let mut command = Command::default();
            route_query(&header, &mut command).expect("is such a query");
            assert_eq!(command.text("topic"), Some(topic));
            assert_eq!(command.boolean("acceptStandardJsonOnly").is_some(), !accepts.is_empty());
            assert!(is_plain(header.as_bytes()));
        }
    }

    #[test]
    fn commas_are_read_as_the_general_reader_reads_them() {
        for header in [
            r#"{}"#,
            r#"{"code":1,}"#,
            r#"{"extFields":{"a":"b",},}"#,
            r#"{"code":1"flag":2}"#,
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
            r#"{"code":1L}"#,
            r#"{"code":1.5}"#,
            r#"{,"code":1}"#,
            r#"{"code":1,,"flag":2}"#,
            r#"{"code":"1"}"#,
            r#"{"code":2147483648}"#,
            r#"{"code":99999999999}"#,
            r#"{"code":}"#,
            r#"{"code":-}"#,
            r#"{"opaque":-1}"#,
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

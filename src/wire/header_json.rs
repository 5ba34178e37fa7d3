//! Headers as JSON objects (Java: `RemotingCommand`, `RemotingSerializable`, read by fastjson2).

use super::command::Command;
use super::error::WireError;
use super::fields::ExtFields;
use super::json::{JsonError, Kind, Reader};
use crate::ids::Opaque;

/// Languages are numbered 0 to this (Java: `LanguageCode`); nobody acts on them.
const LANGUAGE_MAX: i64 = 13;

/// A member that is read; all others are passed over.
#[derive(Clone, Copy)]
enum Member {
    Code,
    ExtFields,
    Flag,
    Language,
    Opaque,
    Remark,
    Version,
    Other,
}

/// Reads `header` into `command`. Of members that come twice the last counts, also for all
/// extension fields at once.
pub(super) fn decode<'a>(header: &'a [u8], command: &mut Command<'a>) -> Result<(), WireError> {
    let mut reader = Reader::new(header);
    reader.open_object()?;
    while let Some(member) = member(&mut reader)? {
        match member {
            Member::Code => command.code = reader.int()?,
            Member::ExtFields => ext_fields(&mut reader, &mut command.ext)?,
            Member::Flag => command.flag = reader.int()?,
            // What Java peers write, in one comparison each.
            Member::Language if reader.literal(b"\"JAVA\",") => {}
            Member::Other if reader.literal(b"\"JSON\",") => {}
            Member::Language => language(&mut reader)?,
            Member::Opaque => command.opaque = Some(Opaque(reader.int()?)),
            Member::Remark => command.remark = reader.any_as_text()?,
            Member::Version => command.version = reader.int()?,
            Member::Other => reader.skip()?,
        }
    }
    reader.finish()?;
    Ok(())
}

/// The next member, or `None` behind the last. Peers write them without blanks and escapes, so that
/// one look at the first letter and one comparison find most of them.
#[inline]
fn member(reader: &mut Reader<'_>) -> Result<Option<Member>, JsonError> {
    let plain = match reader.second_byte() {
        Some(b'c') => reader.literal(b"\"code\":").then_some(Member::Code),
        Some(b'e') => reader.literal(b"\"extFields\":").then_some(Member::ExtFields),
        Some(b'f') => reader.literal(b"\"flag\":").then_some(Member::Flag),
        Some(b'l') => reader.literal(b"\"language\":").then_some(Member::Language),
        Some(b'o') => reader.literal(b"\"opaque\":").then_some(Member::Opaque),
        Some(b's') => reader.literal(b"\"serializeTypeCurrentRPC\":").then_some(Member::Other),
        Some(b'v') => reader.literal(b"\"version\":").then_some(Member::Version),
        _ => None,
    };
    match plain {
        Some(member) => Ok(Some(member)),
        None => any_member(reader),
    }
}

fn any_member(reader: &mut Reader<'_>) -> Result<Option<Member>, JsonError> {
    let Some(key) = reader.key()? else { return Ok(None) };
    Ok(Some(match &*key.name()? {
        b"code" => Member::Code,
        b"extFields" => Member::ExtFields,
        b"flag" => Member::Flag,
        b"language" => Member::Language,
        b"opaque" => Member::Opaque,
        b"remark" => Member::Remark,
        b"version" => Member::Version,
        _ => key.check().map(|()| Member::Other)?,
    }))
}

/// Names to texts; null and an empty text mean that there are none.
fn ext_fields<'a>(reader: &mut Reader<'a>, ext: &mut ExtFields<'a>) -> Result<(), WireError> {
    ext.clear();
    match reader.peek()? {
        Kind::Null => {
            reader.null()?;
        }
        Kind::Text => {
            let at = reader.at();
            if !reader.text()?.name()?.is_empty() {
                return Err(JsonError { reason: "extFields is text", at }.into());
            }
        }
        _ => {
            reader.open_object()?;
            while let Some(name) = reader.key()? {
                let name = name.text()?;
                match reader.any_as_text()? {
                    Some(value) => ext.put(name, value)?,
                    None => ext.remove(&name)?,
                }
            }
        }
    }
    Ok(())
}

/// Any name will do, but a number must be one of the known and nothing else may come.
fn language(reader: &mut Reader<'_>) -> Result<(), JsonError> {
    let kind = reader.peek()?;
    let at = reader.at();
    match kind {
        Kind::Text => reader.skip(),
        Kind::Null => reader.null().map(|_| ()),
        Kind::Number if (0..=LANGUAGE_MAX).contains(&reader.long()?) => Ok(()),
        _ => Err(JsonError { reason: "not a language", at }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> Result<Command<'_>, WireError> {
        let mut command = Command::default();
        decode(header.as_bytes(), &mut command).map(|()| command)
    }

    fn accepted(header: &str) -> Command<'_> {
        read(header).unwrap_or_else(|error| panic!("{header}: {error}"))
    }

    #[test]
    fn a_route_query_of_a_java_client_is_read_without_copies() {
        let command = accepted(concat!(
            r#"{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","#,
            r#""opaque":124,"serializeTypeCurrentRPC":"JSON","version":400}"#
        ));
        assert_eq!((command.code, command.version, command.flag), (105, 400, 0));
        assert_eq!(command.opaque, Some(Opaque(124)));
        assert_eq!(command.text("topic"), Some("T1"));
        assert_eq!(command.remark, None);
        assert!(!command.ext.are_copied());
    }

    #[test]
    fn a_route_query_of_the_go_client_is_read() {
        let command = accepted(concat!(
            r#"{"code":105,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","#,
            r#""extFields":{"topic":"T1"}}"#
        ));
        assert_eq!((command.code, command.version, command.opaque), (105, 317, Some(Opaque(1))));
        assert_eq!(command.remark.as_deref(), Some(""));
        assert_eq!(command.text("topic"), Some("T1"));
    }

    #[test]
    fn missing_members_have_defaults_and_a_null_opaque_is_zero() {
        let command = accepted("{}");
        assert_eq!((command.code, command.version, command.flag), (0, 0, 0));
        assert_eq!(command.opaque, None);
        assert_eq!(accepted(r#"{"code":999,"opaque":null}"#).opaque, Some(Opaque(0)));
        assert_eq!(accepted(r#"{"opaque":-2147483648}"#).opaque, Some(Opaque(i32::MIN)));
        assert_eq!(accepted(r#"{"Code":101,"opaque":12}"#).code, 0, "letter case matters");
    }

    #[test]
    fn the_last_of_two_members_counts() {
        let command = accepted(concat!(
            r#"{"code":1,"code":101,"opaque":11,"extFields":{"namespace":"a","x":"y"},"#,
            r#""extFields":{"namespace":"n","key":"k"}}"#
        ));
        assert_eq!(command.code, 101);
        assert_eq!(command.text("namespace"), Some("n"));
        assert_eq!(command.text("key"), Some("k"));
        assert_eq!(command.text("x"), None);
    }

    #[test]
    fn fields_that_are_not_text_become_text() {
        let command = accepted(concat!(
            r#"{"extFields":{"namespace":1.50,"key":{"b":true, "a":[1, null]},"t":true,"#,
            r#""n":null,"e":1e3,"s":""}}"#
        ));
        assert_eq!(command.text("namespace"), Some("1.50"));
        assert_eq!(command.text("key"), Some(r#"{"b":true,"a":[1,null]}"#));
        assert_eq!(command.text("t"), Some("true"));
        assert_eq!(command.text("n"), None);
        assert_eq!(command.text("e"), Some("1000.0"));
        assert_eq!(command.text("s"), Some(""));
    }

    #[test]
    fn escapes_and_single_quotes_are_read_everywhere() {
        let command = accepted(concat!(
            r#"{"c\u006fde":101,'opaque':15,"extFields":{"namespace":'n',"#,
            r#""key":"\ud83d\ude00\/\x41"}}"#
        ));
        assert_eq!((command.code, command.opaque), (101, Some(Opaque(15))));
        assert_eq!(command.text("namespace"), Some("n"));
        assert_eq!(command.text("key"), Some("😀/A"));
    }

    #[test]
    fn numbers_come_in_many_spellings() {
        for code in
            ["101", "\"101\"", "+101", "0101", "101L", "101.0", "101.9", "1.01e2", " 101 ", "'101'"]
        {
            assert_eq!(accepted(&format!(r#"{{"code":{code}}}"#)).code, 101, "{code}");
        }
        assert_eq!(accepted(r#"{"code":""}"#).code, 0);
        assert_eq!(accepted(r#"{"code":true}"#).code, 1);
        for code in ["0x65", "2147483648", "abc", "\"abc\"", "{}", "[]", "NaN", "1e10", "", "nul"] {
            read(&format!(r#"{{"code":{code}}}"#)).expect_err(code);
        }
    }

    #[test]
    fn absent_fields_may_be_null_or_an_empty_text_but_nothing_else() {
        for ext in ["null", "\"\"", "{}"] {
            let header = format!(r#"{{"extFields":{ext},"code":7}}"#);
            let command = accepted(&header);
            assert!(command.ext.iter().next().is_none());
            assert_eq!(command.code, 7);
        }
        for ext in ["\"x\"", "[]", "1", "true"] {
            read(&format!(r#"{{"extFields":{ext}}}"#)).expect_err(ext);
        }
    }

    #[test]
    fn languages_are_checked_as_java_checks_them() {
        for language in ["\"COBOL\"", "\"java\"", "\"12\"", "0", "13", "null"] {
            accepted(&format!(r#"{{"language":{language}}}"#));
        }
        for language in ["14", "-1", "true", "{}", "[]"] {
            read(&format!(r#"{{"language":{language}}}"#)).expect_err(language);
        }
    }

    #[test]
    fn what_java_refuses_is_refused() {
        for header in [
            "",
            " ",
            "null",
            "[1,2,3,4]",
            "\"text\"",
            "101",
            "{\"code\":99",
            "{\"code\":999,\"opaque\":7}x",
            "{code:999,opaque:7,flag:0}",
            "{\"code\":1,,\"flag\":0}",
            "{,\"code\":1}",
            "{\"code\":1},,",
            "\u{feff}{\"code\":1}",
            "{\"code\":1 # comment\n}",
            "{\"remark\":\"\\q\"}",
            "{\"zzz\":undefined}",
        ] {
            read(header).expect_err(header);
        }
        let mut command = Command::default();
        decode(b"{\"code\":999,\"opaque\":7,\"remark\":\"\xff\"}", &mut command)
            .expect_err("invalid UTF-8");
        decode(b"{\"zzz\":\"\xff\"}", &mut command).expect_err("also where nobody looks");
    }

    #[test]
    fn what_java_tolerates_is_tolerated() {
        for header in [
            "{\"code\":101,}",
            "{\"code\":101},",
            "{\"code\":101}\0\u{1a} ",
            "{\"flag\":0\"code\":101}",
            "/* a */{\"code\":101/* b */} // c",
            "{\"zzz\":{\"a\":[1,{\"b\":null}]},\"code\":101}",
            "{\"remark\":\"raw \u{1} control\",\"code\":101}",
        ] {
            assert_eq!(accepted(header).code, 101, "{header}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_deep_recursion() {
        let nested =
            |levels: usize| format!("{{\"zzz\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        accepted(&nested(64));
        read(&nested(65)).expect_err("65 levels");
        read(&nested(100_000)).expect_err("100 000 levels");
        read(&format!("{{\"zzz\":{}", "{\"a\":".repeat(100_000))).expect_err("objects too");
    }

    #[test]
    fn too_many_fields_are_refused() {
        let fields = "\"a\":\"b\",".repeat(crate::limits::EXT_FIELDS_MAX + 1);
        let error = read(&format!("{{\"extFields\":{{{fields}}}}}")).map(|_| ());
        assert_eq!(error, Err(WireError::TooManyFields));
    }
}

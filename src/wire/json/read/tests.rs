use std::borrow::Cow;

use super::*;

fn all<T>(text: &str, read: impl FnOnce(&mut Reader<'_>) -> Result<T, JsonError>) -> T {
    let mut reader = Reader::new(text.as_bytes());
    let value = read(&mut reader).unwrap_or_else(|error| panic!("{text}: {error}"));
    reader.finish().unwrap_or_else(|error| panic!("{text}: {error}"));
    value
}

fn text_of(text: &str) -> String {
    all(text, |reader| reader.text()?.text().map(Cow::into_owned))
}

#[test]
fn a_string_without_escapes_is_not_copied() {
    let mut reader = Reader::new("\"中 plain\"".as_bytes());
    let text = reader.text().expect("a string").text().expect("UTF-8");
    assert!(matches!(text, Cow::Borrowed("中 plain")));
}

#[test]
fn escapes_stand_for_what_java_reads() {
    let written = r#""\"\'\\\/\b\t\n\v\f\r\0\x41\u00e9\uD83D\uDE00""#;
    assert_eq!(text_of(written), "\"'\\/\u{8}\t\n\u{b}\u{c}\r\0Aé😀");
    assert_eq!(text_of(r"'it\'s \\'"), "it's \\");
    assert_eq!(text_of("'\"'"), "\"");
}

#[test]
fn a_lone_surrogate_becomes_a_question_mark() {
    for written in [r#""\ud83d""#, r#""\ude00""#] {
        assert_eq!(text_of(written), "?");
    }
    assert_eq!(text_of(r#""\ud83dx""#), "?x");
    assert_eq!(text_of(r#""\ud83d\u0041""#), "?A");
    assert_eq!(text_of(r#""\ud83d\ud83d\ude00""#), "?😀");
}

#[test]
fn wrong_strings_are_refused_where_they_are_wrong() {
    for (written, at) in
        [(r#""ab\q""#, 3), (r#""\u12""#, 5), (r#""\u12g4""#, 5), (r#""\x4""#, 3), (r#""\"#, 0)]
    {
        let mut reader = Reader::new(written.as_bytes());
        let error = reader.text().and_then(|raw| raw.text()).expect_err(written);
        assert_eq!(error.at, at, "{written}: {error}");
    }
    let mut reader = Reader::new(b"\"ab\xffc\"");
    let error = reader.text().and_then(|raw| raw.text()).expect_err("not UTF-8");
    assert_eq!(error, JsonError { reason: "not UTF-8", at: 3 });
}

#[test]
fn integer_keys_may_be_bare_but_names_may_not() {
    let keys = |text: &str| {
        all(text, |reader| {
            reader.open_object()?;
            let mut keys = Vec::new();
            while let Some(key) = reader.key()? {
                keys.push(key.text()?.into_owned());
                reader.long()?;
            }
            Ok(keys)
        })
    };
    assert_eq!(keys(r#"{0:0,-1:1,"2":2,'03':3}"#), ["0", "-1", "2", "03"]);
    for text in ["{a:0}", "{-:0}", "{+1:0}", "{1.5:0}", "{\"a\" 0}", "{1}"] {
        let mut reader = Reader::new(text.as_bytes());
        reader.open_object().expect("an object");
        reader.key().expect_err(text);
    }
}

#[test]
fn one_comma_may_stand_behind_any_value_but_not_two_and_none_before() {
    let skip = |text: &str| {
        let mut reader = Reader::new(text.as_bytes());
        reader.skip().and_then(|()| reader.finish())
    };
    for text in
        ["[1,2,]", "{\"a\":1,}", "[[1],]", "{},", "[1 2]", "{\"a\":1 \"b\":2}", "[\n1 ,\n2\n]"]
    {
        assert_eq!(skip(text), Ok(()), "{text}");
    }
    for text in
        ["[,1]", "[1,,2]", "{,}", "{\"a\":1,,}", "{},,", "[1", "{\"a\":", "{\"a\"", "]", "}"]
    {
        skip(text).expect_err(text);
    }
}

#[test]
fn comments_are_blanks_and_must_end() {
    all("/* x */ [ // one\n 1 /**/, /* two */ 2 ] // three", |reader| reader.skip());
    for text in ["[1 /* ]", "[1 / 2]", "[1] /", "# x\n[1]"] {
        let mut reader = Reader::new(text.as_bytes());
        reader.skip().and_then(|()| reader.finish()).expect_err(text);
    }
}

#[test]
fn reading_stops_and_goes_on_between_members() {
    let text = b"{\"a\":1, \"b\":[2,3],\"c\":4}";
    let mut reader = Reader::new(text);
    reader.open_object().expect("an object");
    let mut seen = Vec::new();
    loop {
        reader = Reader::resume(text, reader.at());
        let Some(key) = reader.key().expect("a key") else { break };
        seen.push(key.text().expect("text").into_owned());
        reader.skip().expect("a value");
    }
    assert_eq!(seen, ["a", "b", "c"]);
    reader.finish().expect("the end");
}

#[test]
fn any_value_becomes_text_as_in_java() {
    let any = |text: &str| all(text, |reader| Ok(reader.any_as_text()?.map(Cow::into_owned)));
    assert_eq!(any("\"x\""), Some("x".into()));
    assert_eq!(any("1.50"), Some("1.50".into()));
    assert_eq!(any("-7"), Some("-7".into()));
    assert_eq!(any("101L"), Some("101".into()));
    assert_eq!(any("1e3"), Some("1000.0".into()));
    assert_eq!(any("false"), Some("false".into()));
    assert_eq!(any("null"), None);
    assert_eq!(any("[ ]"), Some("[]".into()));
    let nested = "{ 'a' : [ 1 , { } , \"q\\\"\" , null ] , 5 : true , }";
    assert_eq!(any(nested), Some(r#"{"a":[1,{},"q\"",null],"5":true}"#.into()));
    for text in ["1e", "0x65", "1.2.3", "--1", "nan", "+", "truee", "nulll", "fals"] {
        Reader::new(text.as_bytes()).any_as_text().expect_err(text);
    }
}

#[test]
fn booleans_come_in_many_spellings() {
    let boolean = |text: &str| all(text, |reader| reader.boolean());
    for text in ["true", "1", "\"true\"", "'TRUE'"] {
        assert!(boolean(text), "{text}");
    }
    for text in ["false", "0", "7", "null", "\"\"", "\"yes\""] {
        assert!(!boolean(text), "{text}");
    }
}

#[test]
fn numbers_keep_their_range() {
    assert_eq!(all("9223372036854775807", |reader| reader.long()), i64::MAX);
    assert_eq!(all("-9223372036854775808", |reader| reader.long()), i64::MIN);
    assert_eq!(all("999999999999999999", |reader| reader.long()), 999_999_999_999_999_999);
    assert_eq!(all("-2147483648", |reader| reader.int()), i32::MIN);
    for text in ["9223372036854775808", "-", "+", "1x", "[1]", "{}", "\"1 \""] {
        Reader::new(text.as_bytes()).long().expect_err(text);
    }
    Reader::new(b"2147483648").int().expect_err("33 bits");
}

#[test]
fn the_end_of_a_string_is_found_at_every_distance() {
    // 0x21 and 0x5b are next to the quote and the backslash: a borrow must not look like a hit.
    for filler in ['a', '!', '[', '#', ']', '中', '\u{1}'] {
        for length in 0..40 {
            let text: String = std::iter::repeat_n(filler, length).collect();
            assert_eq!(text_of(&format!("\"{text}\"")), text);
            assert_eq!(text_of(&format!("'{text}\"\\'{text}'")), format!("{text}\"'{text}"));
            Reader::new(format!("\"{text}\\").as_bytes()).text().expect_err("no end");
        }
    }
}

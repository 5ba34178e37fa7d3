//! JSON as NameServers write it. Those before 4.9.4, and later ones for old clients, leave member
//! names that are numbers without quotes: `{"brokerAddrs":{0:"..."}}`.

use serde_json::Value;

/// Parses an answer in either dialect.
///
/// # Errors
/// What is wrong with it as JSON.
pub fn parse(body: &[u8]) -> Result<Value, String> {
    let quoted = quote_bare_keys(body);
    serde_json::from_slice(&quoted).map_err(|e| format!("the body is no JSON: {e}"))
}

/// Puts member names that are bare numbers, as old dialects write them, in quotes.
fn quote_bare_keys(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 16);
    let (mut in_text, mut escaped, mut may_be_key) = (false, false, false);
    let mut rest = body.iter().enumerate();
    while let Some((at, &byte)) = rest.next() {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            out.push(byte);
            continue;
        }
        let number = &body[at..];
        let digits = number.iter().take_while(|b| b.is_ascii_digit() || **b == b'-').count();
        if may_be_key && digits > 0 && number.get(digits) == Some(&b':') {
            out.push(b'"');
            out.extend(&number[..digits]);
            out.push(b'"');
            for _ in 1..digits {
                rest.next();
            }
            may_be_key = false;
            continue;
        }
        in_text = byte == b'"';
        may_be_key = matches!(byte, b'{' | b',');
        out.push(byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_bare_numbers_are_put_in_quotes() {
        let odd = br#"{"a":{0:"{1:\"",12:2,-3:[1,{4:5}]},"b":[1,2]}"#;
        let expected = br#"{"a":{"0":"{1:\"","12":2,"-3":[1,{"4":5}]},"b":[1,2]}"#;
        assert_eq!(quote_bare_keys(odd), expected);
    }
}

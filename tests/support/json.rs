//! JSON as a NameServer writes it: the legacy dialect has integer keys without quotes, `{0:"a"}`.

use serde_json::Value;

/// The value, and whether any integer key was bare.
pub fn parse(text: &[u8]) -> Result<(Value, bool), String> {
    let text = std::str::from_utf8(text).map_err(|e| e.to_string())?;
    let (quoted, bare) = quote_integer_keys(text);
    let value = serde_json::from_str(&quoted).map_err(|e| format!("{e}: {text}"))?;
    Ok((value, bare))
}

fn quote_integer_keys(text: &str) -> (String, bool) {
    let bytes = text.as_bytes();
    let (mut out, mut bare, mut at) = (String::with_capacity(text.len()), false, 0);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                at = end_of_string(bytes, at);
                out.push_str(&text[start..at]);
            }
            b'{' | b',' => {
                out.push(char::from(bytes[at]));
                at += 1;
                let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit() || **b == b'-');
                let end = at + digits.count();
                if end > at && bytes.get(end) == Some(&b':') {
                    out.push('"');
                    out.push_str(&text[at..end]);
                    out.push('"');
                    (at, bare) = (end, true);
                }
            }
            _ => {
                at += bytes[at..].iter().take_while(|b| !b"\"{,".contains(b)).count();
                out.push_str(&text[start..at]);
            }
        }
    }
    (out, bare)
}

/// Where the string that begins at `at` ends, its closing quote included.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != b'"' {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    (end + 1).min(bytes.len())
}

/// Members whose arrays are sets: a Java server writes them in hash order.
const SETS: [&str; 3] = ["brokerDatas", "queueDatas", "topicList"];

/// `value` with sets sorted, and maps too unless `ordered`; paths in `dropped` (`body.timestamp`)
/// left out.
pub fn canonical(value: &Value, ordered: bool, dropped: &[&str]) -> Value {
    canonical_at(value, "body", "", ordered, dropped)
}

fn canonical_at(value: &Value, path: &str, key: &str, ordered: bool, dropped: &[&str]) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<(String, Value)> = Vec::new();
            for (name, member) in map {
                let path = format!("{path}.{name}");
                if !dropped.contains(&path.as_str()) {
                    let member = canonical_at(member, &path, name, ordered, dropped);
                    members.push((name.clone(), member));
                }
            }
            if !ordered {
                members.sort_by(|a, b| a.0.cmp(&b.0));
            }
            // Pairs, because maps compare equal in any order.
            Value::Array(members.into_iter().map(|(k, v)| serde_json::json!([k, v])).collect())
        }
        Value::Array(items) => {
            let each = items.iter().map(|item| canonical_at(item, path, "", ordered, dropped));
            let mut items: Vec<Value> = each.collect();
            if SETS.contains(&key) || path.starts_with("body.clusterAddrTable") {
                items.sort_by_cached_key(Value::to_string);
            }
            Value::Array(items)
        }
        scalar => scalar.clone(),
    }
}

/// Whether a blank follows `:`, `,`, `{` or `[` outside of strings. The Go client needs compact
/// text.
pub fn is_compact(text: &[u8]) -> bool {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => at = end_of_string(text, at),
            b':' | b',' | b'{' | b'[' if text.get(at + 1).is_some_and(u8::is_ascii_whitespace) => {
                return false;
            }
            _ => at += 1,
        }
    }
    true
}

//! What a step of a scenario expects of its answer.

use std::collections::BTreeSet;

use serde_json::Value;

use super::frame::Answer;
use super::json::{canonical, is_compact, parse};
use super::script::Words;

/// One `expect` line.
#[derive(Debug)]
pub enum Expectation {
    Code(i64),
    /// Whatever the code is.
    AnyCode,
    Remark(Option<String>),
    /// An extension field; `None`: it is absent.
    Ext(String, Option<String>),
    NoBody,
    /// `-> JSON`: equal as JSON and in dialect, sets in any order, compact.
    Json(Vec<u8>),
    /// `=> TEXT`: equal byte for byte.
    Text(Vec<u8>),
    /// `body contains TEXT` or `body lacks TEXT`.
    Body {
        contains: bool,
        text: String,
    },
    /// `brokers NAME(0=ADDR,1=ADDR) …`: the brokers of a route, all of them.
    Brokers(BTreeSet<String>),
    /// `queues NAME:PERM …`: the queues of a route, all of them.
    Queues(BTreeSet<String>),
    /// `group 0=ADDR …`: the members in an answer to 901.
    Group(BTreeSet<String>),
    /// `/pointer = JSON`, `/pointer absent`, `/pointer contains JSON`, `/pointer lacks JSON`.
    At {
        pointer: String,
        what: What,
    },
}

#[derive(Debug)]
pub enum What {
    Equals(Value),
    Absent,
    Contains(Value),
    Lacks(Value),
}

impl Expectation {
    pub fn parse(text: &str) -> Result<Expectation, String> {
        if let Some(body) = text.strip_prefix("-> ") {
            parse(body.as_bytes())?;
            return Ok(Expectation::Json(body.as_bytes().to_vec()));
        }
        if let Some(body) = text.strip_prefix("=> ") {
            return Ok(Expectation::Text(body.as_bytes().to_vec()));
        }
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let set = || rest.split_ascii_whitespace().map(str::to_owned).collect();
        match word {
            "no-route" => Ok(Expectation::Code(17)),
            "any-code" => Ok(Expectation::AnyCode),
            "no-remark" => Ok(Expectation::Remark(None)),
            "no-body" => Ok(Expectation::NoBody),
            "brokers" => Ok(Expectation::Brokers(set())),
            "queues" => Ok(Expectation::Queues(set())),
            "group" => Ok(Expectation::Group(set())),
            "body" => {
                let mut words = Words::of(rest)?.plain.into_iter();
                let (Some(verb), Some(text), None) = (words.next(), words.next(), words.next())
                else {
                    return Err("`expect body contains \"TEXT\"`".to_owned());
                };
                Ok(Expectation::Body { contains: verb == "contains", text })
            }
            _ if word.starts_with('/') => Expectation::at(word, rest),
            _ => Expectation::field(text),
        }
    }

    fn at(pointer: &str, rest: &str) -> Result<Expectation, String> {
        let (verb, value) = rest.split_once(' ').unwrap_or((rest, ""));
        let value = || Ok::<_, String>(parse(value.as_bytes())?.0);
        let what = match verb {
            "=" => What::Equals(value()?),
            "absent" => What::Absent,
            "contains" => What::Contains(value()?),
            "lacks" => What::Lacks(value()?),
            _ => return Err(format!("`{verb}`: one of =, absent, contains, lacks")),
        };
        Ok(Expectation::At { pointer: pointer.to_owned(), what })
    }

    fn field(text: &str) -> Result<Expectation, String> {
        let words = Words::of(text)?;
        let [(name, value)] = words.pairs.as_slice() else {
            return Err(format!("one thing an `expect`: {text}"));
        };
        let number = || value.parse().map_err(|_| format!("`{value}` is no number"));
        match (name.as_str(), name.strip_prefix("ext.")) {
            ("code", _) => Ok(Expectation::Code(number()?)),
            ("remark", _) => Ok(Expectation::Remark(Some(value.clone()))),
            (_, Some(field)) => {
                let value = (value != "absent").then(|| value.clone());
                Ok(Expectation::Ext(field.to_owned(), value))
            }
            _ => Err(format!("nothing to expect of `{name}`")),
        }
    }

    /// `Err` says how the answer differs.
    pub fn check(&self, answer: &Answer) -> Result<(), String> {
        match self {
            Expectation::Code(code) => equal("code", code, &answer.code()),
            Expectation::AnyCode => Ok(()),
            Expectation::Remark(remark) => equal("remark", &remark.as_deref(), &answer.remark()),
            Expectation::Ext(name, value) => {
                equal(&format!("ext.{name}"), &value.as_deref(), &answer.ext(name))
            }
            Expectation::NoBody => equal("body", &"", &answer.body_text().as_str()),
            Expectation::Text(text) => {
                let text = String::from_utf8_lossy(text);
                equal("body", &text.as_ref(), &answer.body_text().as_str())
            }
            Expectation::Body { contains, text } => {
                let found = answer.body_text().contains(text);
                equal(&format!("body contains {text:?}"), contains, &found)
            }
            Expectation::Json(expected) => same_json(expected, answer),
            Expectation::Brokers(expected) => equal("brokers", expected, &brokers(answer)?),
            Expectation::Queues(expected) => equal("queues", expected, &queues(answer)?),
            Expectation::Group(expected) => {
                let body = parse(&answer.body)?.0;
                equal("group", expected, &members(&body["brokerMemberGroup"]["brokerAddrs"]))
            }
            Expectation::At { pointer, what } => at(pointer, what, answer),
        }
    }

    /// Whether it names the response code.
    pub fn is_about_code(&self) -> bool {
        matches!(self, Expectation::Code(_) | Expectation::AnyCode)
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, got {got:?}"))
    }
}

fn same_json(expected: &[u8], answer: &Answer) -> Result<(), String> {
    let (wanted, wanted_bare) = parse(expected)?;
    let (value, bare) = parse(&answer.body)?;
    equal("body", &canonical(&wanted, false, &[]), &canonical(&value, false, &[]))?;
    equal("bare integer keys", &wanted_bare, &bare)?;
    equal("compact", &true, &is_compact(&answer.body))
}

fn brokers(answer: &Answer) -> Result<BTreeSet<String>, String> {
    let body = parse(&answer.body)?.0;
    let list = body["brokerDatas"].as_array().ok_or("no brokerDatas")?;
    let one = |broker: &Value| {
        let members: Vec<String> = members(&broker["brokerAddrs"]).into_iter().collect();
        format!("{}({})", broker["brokerName"].as_str().unwrap_or("?"), members.join(","))
    };
    Ok(list.iter().map(one).collect())
}

fn queues(answer: &Answer) -> Result<BTreeSet<String>, String> {
    let body = parse(&answer.body)?.0;
    let list = body["queueDatas"].as_array().ok_or("no queueDatas")?;
    let one = |queue: &Value| {
        format!("{}:{}", queue["brokerName"].as_str().unwrap_or("?"), queue["perm"])
    };
    Ok(list.iter().map(one).collect())
}

fn members(addrs: &Value) -> BTreeSet<String> {
    let entries = addrs.as_object().into_iter().flatten();
    entries.map(|(id, addr)| format!("{id}={}", addr.as_str().unwrap_or("?"))).collect()
}

fn at(pointer: &str, what: &What, answer: &Answer) -> Result<(), String> {
    let body = parse(&answer.body)?.0;
    let found = body.pointer(pointer);
    let has = |item: &Value| found.and_then(Value::as_array).is_some_and(|all| all.contains(item));
    let right = match what {
        What::Equals(value) => found == Some(value),
        What::Absent => found.is_none(),
        What::Contains(item) => has(item),
        What::Lacks(item) => !has(item),
    };
    if right { Ok(()) } else { Err(format!("{pointer}: expected {what:?}, got {found:?}")) }
}

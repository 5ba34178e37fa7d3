//! Requests to bytes, bytes to answers.

use serde_json::{Map, Value, json};

/// One request, its fields as they go over the wire.
#[derive(Clone, Debug)]
pub struct Request {
    pub code: i32,
    pub version: i32,
    pub opaque: i32,
    /// 1 = a response, 2 = one-way.
    pub flag: i32,
    /// `None` leaves `extFields` out altogether.
    pub ext: Option<Vec<(String, String)>>,
    pub body: Vec<u8>,
    /// The ROCKETMQ header instead of JSON.
    pub binary: bool,
}

impl Request {
    pub fn new(code: i32) -> Request {
        let body = Vec::new();
        Request { code, version: 513, opaque: 0, flag: 0, ext: None, body, binary: false }
    }

    pub fn ext(mut self, name: &str, value: impl ToString) -> Request {
        self.ext.get_or_insert_default().push((name.to_owned(), value.to_string()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    pub fn version(mut self, version: i32) -> Request {
        self.version = version;
        self
    }

    /// The whole frame, its length in front.
    pub fn encode(&self) -> Vec<u8> {
        if self.binary {
            frame(1, &self.binary_header(), &self.body)
        } else {
            frame(0, self.json_header().to_string().as_bytes(), &self.body)
        }
    }

    fn json_header(&self) -> Value {
        let mut header = json!({
            "code": self.code, "flag": self.flag, "language": "JAVA", "opaque": self.opaque,
            "serializeTypeCurrentRPC": "JSON", "version": self.version,
        });
        if let Some(ext) = &self.ext {
            let fields = ext.iter().map(|(name, value)| (name.clone(), json!(value)));
            header["extFields"] = Value::Object(fields.collect::<Map<_, _>>());
        }
        header
    }

    fn binary_header(&self) -> Vec<u8> {
        let mut ext = Vec::new();
        for (name, value) in self.ext.iter().flatten() {
            ext.extend(i16::try_from(name.len()).expect("a short name").to_be_bytes());
            ext.extend(name.as_bytes());
            ext.extend(length(value.len()));
            ext.extend(value.as_bytes());
        }
        let mut header = Vec::new();
        header.extend(i16::try_from(self.code).expect("a 16-bit code").to_be_bytes());
        header.push(0); // language JAVA
        header.extend(i16::try_from(self.version).expect("a 16-bit version").to_be_bytes());
        header.extend(self.opaque.to_be_bytes());
        header.extend(self.flag.to_be_bytes());
        header.extend(length(0)); // no remark
        header.extend(length(ext.len()));
        header.extend(ext);
        header
    }
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("a length below 4 GiB").to_be_bytes()
}

/// A frame around a header of `kind` (0 JSON, 1 binary) and a body.
pub fn frame(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(8 + header.len() + body.len());
    frame.extend(length(4 + header.len() + body.len()));
    let mut header_length = length(header.len());
    header_length[0] = kind;
    frame.extend(header_length);
    frame.extend(header);
    frame.extend(body);
    frame
}

/// One frame that the server sent, split and its header decoded.
#[derive(Clone, Debug)]
pub struct Answer {
    /// 0 JSON, 1 binary.
    pub kind: u8,
    pub header: Vec<u8>,
    pub body: Vec<u8>,
    /// The header as JSON, whichever way it was serialized. Absent members are `null`.
    pub fields: Value,
}

impl Answer {
    /// Splits a frame, its length field not included. A test fails on what cannot be read.
    pub fn decode(frame: &[u8]) -> Result<Answer, String> {
        let (head, rest) = frame.split_at_checked(4).ok_or("shorter than 4 bytes")?;
        let header_length = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        let (header, body) = rest.split_at_checked(header_length).ok_or("header cut off")?;
        let fields = match head[0] {
            0 => serde_json::from_slice(header).map_err(|e| format!("header is no JSON: {e}"))?,
            1 => binary_fields(header).ok_or("binary header cut off")?,
            kind => return Err(format!("serialize type {kind}")),
        };
        Ok(Answer { kind: head[0], header: header.to_vec(), body: body.to_vec(), fields })
    }

    pub fn code(&self) -> i64 {
        self.fields["code"].as_i64().unwrap_or(i64::MIN)
    }

    pub fn opaque(&self) -> i64 {
        self.fields["opaque"].as_i64().unwrap_or(i64::MIN)
    }

    pub fn remark(&self) -> Option<&str> {
        self.fields["remark"].as_str()
    }

    pub fn ext(&self, name: &str) -> Option<&str> {
        self.fields["extFields"][name].as_str()
    }

    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Header and body as one line for people.
    pub fn text(&self) -> String {
        let header = match self.kind {
            0 => String::from_utf8_lossy(&self.header).into_owned(),
            _ => format!("binary {}", self.fields),
        };
        if self.body.is_empty() { header } else { format!("{header} | {}", self.body_text()) }
    }
}

fn binary_fields(header: &[u8]) -> Option<Value> {
    let mut at = header;
    let code = i16::from_be_bytes(take(&mut at, 2)?.try_into().ok()?);
    let language = take(&mut at, 1)?[0];
    let version = i16::from_be_bytes(take(&mut at, 2)?.try_into().ok()?);
    let opaque = take_i32(&mut at)?;
    let flag = take_i32(&mut at)?;
    let remark_length = usize::try_from(take_i32(&mut at)?).ok()?;
    let remark = text(take(&mut at, remark_length)?)?;
    let ext_length = usize::try_from(take_i32(&mut at)?).ok()?;
    let mut block = take(&mut at, ext_length)?;
    let mut ext = Map::new();
    while !block.is_empty() {
        let length = i16::from_be_bytes(take(&mut block, 2)?.try_into().ok()?);
        let name = text(take(&mut block, usize::try_from(length).ok()?)?)?;
        let length = usize::try_from(take_i32(&mut block)?).ok()?;
        ext.insert(name, json!(text(take(&mut block, length)?)?));
    }
    Some(json!({
        "code": code, "language": if language == 0 { json!("JAVA") } else { json!(language) },
        "version": version, "opaque": opaque, "flag": flag,
        "remark": if remark.is_empty() { Value::Null } else { json!(remark) },
        "extFields": if ext_length == 0 { Value::Null } else { Value::Object(ext) },
    }))
}

fn take<'a>(at: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = at.split_at_checked(count)?;
    *at = rest;
    Some(taken)
}

fn take_i32(at: &mut &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(take(at, 4)?.try_into().ok()?))
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

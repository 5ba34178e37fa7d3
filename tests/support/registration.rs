//! A broker's registration (code 103) in every layout that releases have sent.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Map, Value, json};

use super::frame::Request;

/// One entry of the topic table.
#[derive(Clone, Debug)]
pub struct Topic {
    pub name: String,
    /// The key in the table, if it is not the name.
    pub key: Option<String>,
    pub perm: i32,
    pub read: i32,
    pub write: i32,
    /// 1 = unit, 2 = unit-sub.
    pub flag: i32,
}

impl Topic {
    pub fn new(name: &str) -> Topic {
        Topic { name: name.to_owned(), key: None, perm: 6, read: 4, write: 4, flag: 0 }
    }
}

/// How the body is laid out.
#[derive(Clone, Debug, Default)]
pub enum Layout {
    /// The full JSON body, since version 37.
    #[default]
    Json,
    /// The bare wrapper, before version 37.
    Bare,
    /// Compressed, with the mapping section of version 413 and later.
    Zip,
    /// Compressed, without it.
    ZipWithoutMappings,
    /// These bytes.
    Raw(Vec<u8>),
}

/// A registration; `None` leaves a field out.
#[derive(Clone, Debug, Default)]
pub struct Registration {
    pub name: Option<String>,
    pub addr: Option<String>,
    pub id: Option<String>,
    pub cluster: Option<String>,
    pub ha: Option<String>,
    pub timeout: Option<String>,
    pub acting: Option<String>,
    pub zone: Option<String>,
    /// The flag in the header, whatever the layout is.
    pub compressed: Option<String>,
    /// `None`: the right one.
    pub crc: Option<String>,
    pub topics: Vec<Topic>,
    pub filters: Vec<String>,
    /// Topics with a queue mapping.
    pub mappings: Vec<String>,
    pub counter: i64,
    pub state: i64,
    pub timestamp: i64,
    pub layout: Layout,
    /// Bytes cut from the end of the body.
    pub cut: usize,
}

impl Registration {
    /// A 5.x broker as it registers by default.
    pub fn new(name: &str, addr: &str, id: i64, cluster: &str, topics: &[&str]) -> Registration {
        Registration {
            name: Some(name.to_owned()),
            addr: Some(addr.to_owned()),
            id: Some(id.to_string()),
            cluster: Some(cluster.to_owned()),
            topics: topics.iter().map(|topic| Topic::new(topic)).collect(),
            ..Registration::unnamed()
        }
    }

    /// One without any of the four names.
    pub fn unnamed() -> Registration {
        let acting = Some("false".to_owned());
        Registration { acting, counter: 1, timestamp: 1_700_000_000_000, ..Registration::default() }
    }

    pub fn request(&self) -> Request {
        let body = self.body();
        let zip = matches!(self.layout, Layout::Zip | Layout::ZipWithoutMappings);
        let crc = (crc32fast::hash(&body) & 0x7fff_ffff).to_string();
        let fields = [
            ("brokerId", self.id.clone()),
            ("bodyCrc32", self.crc.clone().or(Some(crc))),
            ("clusterName", self.cluster.clone()),
            ("brokerAddr", self.addr.clone()),
            ("haServerAddr", self.ha.clone()),
            ("heartbeatTimeoutMillis", self.timeout.clone()),
            ("enableActingMaster", self.acting.clone()),
            ("compressed", self.compressed.clone().or(Some(zip.to_string()))),
            ("brokerName", self.name.clone()),
            ("__ZONE_NAME", self.zone.clone()),
        ];
        let mut request = Request::new(103).body(body);
        for (name, value) in fields {
            if let Some(value) = value {
                request = request.ext(name, value);
            }
        }
        request
    }

    pub fn body(&self) -> Vec<u8> {
        let mut body = match &self.layout {
            Layout::Raw(bytes) => bytes.clone(),
            Layout::Bare => {
                let (version, table) = (self.data_version(), self.table());
                json!({"dataVersion": version, "topicConfigTable": table}).to_string().into_bytes()
            }
            Layout::Json => self.json().into_bytes(),
            Layout::Zip => deflate(&self.sections(true)),
            Layout::ZipWithoutMappings => deflate(&self.sections(false)),
        };
        body.truncate(body.len().saturating_sub(self.cut));
        body
    }

    fn data_version(&self) -> Value {
        let (counter, state) = (self.counter, self.state);
        json!({"counter": counter, "stateVersion": state, "timestamp": self.timestamp})
    }

    fn table(&self) -> Value {
        let entry = |topic: &Topic| {
            let key = topic.key.clone().unwrap_or_else(|| topic.name.clone());
            let config = json!({
                "attributes": {}, "order": false, "perm": topic.perm, "readQueueNums": topic.read,
                "topicFilterType": "SINGLE_TAG", "topicName": topic.name,
                "topicSysFlag": topic.flag, "writeQueueNums": topic.write,
            });
            (key, config)
        };
        Value::Object(self.topics.iter().map(entry).collect::<Map<_, _>>())
    }

    /// As a Java broker writes it, with the bare integer keys of mappings.
    fn json(&self) -> String {
        let mappings: Vec<String> = self.mappings.iter().map(|t| self.mapping(t)).collect();
        let entries = self.mappings.iter().zip(&mappings);
        let mappings: Vec<String> =
            entries.map(|(t, text)| format!("{}:{text}", json!(t))).collect();
        format!(
            "{{\"filterServerList\":{},\"topicConfigSerializeWrapper\":{{\"dataVersion\":{},\
             \"mappingDataVersion\":{{\"counter\":0,\"stateVersion\":0,\"timestamp\":1}},\
             \"topicConfigTable\":{},\"topicQueueMappingDetailMap\":{{}},\
             \"topicQueueMappingInfoMap\":{{{}}}}}}}",
            json!(self.filters),
            self.data_version(),
            self.table(),
            mappings.join(",")
        )
    }

    fn mapping(&self, topic: &str) -> String {
        format!(
            "{{\"bname\":{},\"currIdMap\":{{0:0,1:1}},\"dirty\":false,\"epoch\":7,\
             \"scope\":\"__global__\",\"topic\":{},\"totalQueues\":2}}",
            json!(self.name),
            json!(topic)
        )
    }

    /// What a compressed body holds before compression.
    fn sections(&self, with_mappings: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, &self.data_version().to_string());
        push_count(&mut bytes, self.topics.len());
        for topic in &self.topics {
            let Topic { name, read, write, perm, .. } = topic;
            push(&mut bytes, &format!("{name} {read} {write} {perm} SINGLE_TAG {{\"a\":\"b\"}}"));
        }
        push(&mut bytes, &json!(self.filters).to_string());
        if with_mappings {
            push_count(&mut bytes, self.mappings.len());
            for topic in &self.mappings {
                push(&mut bytes, &self.mapping(topic));
            }
        }
        bytes
    }
}

fn push_count(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend(i32::try_from(count).expect("a small count").to_be_bytes());
}

fn push(bytes: &mut Vec<u8>, text: &str) {
    push_count(bytes, text.len());
    bytes.extend(text.as_bytes());
}

/// A zlib stream, as Java's `Deflater` makes one.
pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("a vector takes everything");
    encoder.finish().expect("a vector takes everything")
}

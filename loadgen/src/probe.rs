//! One question to a server, before anything else: is it there, who does it say it is, does it know
//! a topic?

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::caller::Caller;
use crate::failure::{Failure, run_failure};
use crate::wire::{Frame, ROUTE_BY_TOPIC, SUCCESS, TOPIC_NOT_EXIST};

const TIMEOUT: Duration = Duration::from_secs(3);

/// What a server says of itself, and how long it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Language and version number of its answers, as the protocol has them.
    pub version: Option<String>,
    /// To connect, ask, and get the answer.
    pub took: Duration,
    /// Whether it knows the topic.
    pub knows_topic: bool,
}

/// Asks for the route of a topic.
///
/// # Errors
/// When there is no answer, or one that is no NameServer's.
pub fn probe(address: SocketAddr, topic: &str) -> Result<Greeting, Failure> {
    let begin = Instant::now();
    let failed =
        |why| run_failure(format!("asking {address}: {why}; is a NameServer listening there?"));
    let mut caller = Caller::with_timeout(address, TIMEOUT).map_err(failed)?;
    let greeted = caller.call(ROUTE_BY_TOPIC, &[("topic", topic)], b"", |frame| {
        greeting(address, frame, begin.elapsed())
    });
    greeted.map_err(failed)?
}

fn greeting(address: SocketAddr, frame: &Frame<'_>, took: Duration) -> Result<Greeting, Failure> {
    let knows_topic = match frame.code {
        SUCCESS => true,
        TOPIC_NOT_EXIST => false,
        code => {
            let header = String::from_utf8_lossy(&frame.header[..frame.header.len().min(300)]);
            return Err(run_failure(format!("{address} answers with code {code}: {header}")));
        }
    };
    Ok(Greeting { version: version(frame.header), took, knows_topic })
}

/// Of a JSON header. A binary one has numbers for both.
fn version(header: &[u8]) -> Option<String> {
    if let Ok(json) = serde_json::from_slice::<serde_json::Value>(header) {
        let (language, version) = (json["language"].as_str()?, json["version"].as_i64()?);
        return Some(format!("{language}, protocol version {version}"));
    }
    let &[_, _, language, v0, v1] = header.first_chunk::<5>()?;
    let version = i16::from_be_bytes([v0, v1]);
    Some(format!("language number {language}, protocol version {version}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::wire::append_frame;

    fn answered(bytes: Vec<u8>) -> Result<Greeting, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut question = [0; 1024];
            assert!(socket.read(&mut question).unwrap() > 0);
            socket.write_all(&bytes).unwrap();
        });
        let greeting = probe(address, "a-topic");
        server.join().unwrap();
        greeting
    }

    fn frame(header: &str) -> Vec<u8> {
        let mut out = Vec::new();
        append_frame(&mut out, header.as_bytes(), b"");
        out
    }

    #[test]
    fn a_server_says_who_it_is_and_whether_it_knows_the_topic() {
        let header = r#"{"code":17,"flag":1,"language":"JAVA","opaque":1,"version":513}"#;
        let greeting = answered(frame(header)).unwrap();
        assert_eq!(greeting.version.as_deref(), Some("JAVA, protocol version 513"));
        assert!(!greeting.knows_topic);
        let known = answered(frame(r#"{"code":0,"flag":1,"opaque":1}"#)).unwrap();
        assert!(known.knows_topic && known.version.is_none());
    }

    #[test]
    fn who_is_no_name_server_is_told_so() {
        let refused = |bytes: &[u8]| answered(bytes.to_vec()).unwrap_err().to_string();
        assert!(refused(b"HTTP/1.1 400 Bad Request\r\n").contains("no NameServer"));
        assert!(refused(b"").contains("closed the connection"));
        let busy = answered(frame(r#"{"code":2,"flag":1,"opaque":1,"remark":"busy"}"#));
        assert!(busy.unwrap_err().to_string().contains("busy"));
    }
}

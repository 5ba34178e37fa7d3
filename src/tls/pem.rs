//! The text form of certificates and keys.
//!
//! A file may hold anything around its sections, as `openssl x509 -text` writes it. But a section
//! that begins must end: half a file is no file.

use base64ct::{Base64, Encoding as _};
use zeroize::Zeroizing;

/// One `-----BEGIN label-----` to its end.
pub(super) struct Section<'a> {
    /// What it says it is.
    pub label: &'a str,
    /// Lines of the form `Name: value` in front of the content: how OpenSSL's own encryption is
    /// told.
    pub headers: Vec<(&'a str, &'a str)>,
    /// Decoded; may be a key.
    pub content: Zeroizing<Vec<u8>>,
}

impl Section<'_> {
    /// The value of a header line.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(each, _)| *each == name).map(|(_, value)| *value)
    }
}

/// All sections of `text`, in order.
///
/// # Errors
/// Where the text is broken, by line; nothing of the content is told.
pub(super) fn sections(text: &[u8]) -> Result<Vec<Section<'_>>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "is not a PEM file (binary?)".to_owned())?;
    let mut sections = Vec::new();
    let mut lines = (1..).zip(text.lines().map(str::trim));
    while let Some((begin, line)) = lines.next() {
        let Some(label) = marker(line, "-----BEGIN ") else { continue };
        let end = |line: &str| marker(line, "-----END ").is_some_and(|ends| ends == label);
        let mut headers = Vec::new();
        let mut encoded = Zeroizing::new(String::new());
        loop {
            let Some((number, line)) = lines.next() else {
                return Err(format!(
                    "is cut off: the section that begins in line {begin} does \
                     not end"
                ));
            };
            if end(line) {
                break;
            }
            if line.starts_with("-----") {
                return Err(format!(
                    "has an unexpected line {number} in the section that begins \
                     in line {begin}"
                ));
            }
            match line.split_once(": ") {
                Some(header) => headers.push(header),
                None => encoded.push_str(line),
            }
        }
        let content = Base64::decode_vec(&encoded).map_err(|_| {
            format!("has no valid Base64 in the section that begins in line {begin}")
        })?;
        sections.push(Section { label, headers, content: Zeroizing::new(content) });
    }
    Ok(sections)
}

fn marker<'a>(line: &'a str, begins: &str) -> Option<&'a str> {
    line.strip_prefix(begins)?.strip_suffix("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "junk\n-----BEGIN A B-----\nProc-Type: 4,ENCRYPTED\nX: y\n\naGVs\nbG8=\n\
        -----END A B-----\r\nmore: junk\n-----BEGIN C-----\r\naGk=\r\n-----END C-----";

    #[test]
    fn sections_are_found_among_other_text() {
        let sections = sections(TEXT.as_bytes()).unwrap();
        let seen: Vec<_> = sections.iter().map(|each| (each.label, &each.content[..])).collect();
        assert_eq!(seen, [("A B", &b"hello"[..]), ("C", b"hi")]);
        assert_eq!(sections[0].header("X"), Some("y"));
        assert_eq!(sections[1].headers, []);
    }

    #[test]
    fn a_section_that_does_not_end_is_an_error_wherever_it_is_cut() {
        let end = TEXT.find("-----END C").unwrap();
        let begin = TEXT.find("-----BEGIN C-----").unwrap() + "-----BEGIN C-----".len();
        for cut in begin..=end + 5 {
            assert!(sections(&TEXT.as_bytes()[..cut]).is_err(), "cut at {cut}");
        }
        assert!(sections(b"-----BEGIN C-----\na?k=\n-----END C-----").is_err());
        assert!(sections(b"-----BEGIN C-----\n-----BEGIN D-----\n-----END D-----").is_err());
        assert!(sections(b"\x30\x82\xff").is_err());
    }
}

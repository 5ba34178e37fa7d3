//! Headers in the compact form (Java: `RocketMQSerializable`).
//!
//! ```text
//! code i16 | language u8 | version i16 | opaque i32 | flag i32
//! remark length i32 | remark
//! fields length i32 | (name length i16 | name | value length i32 | value)*
//! ```
//!
//! Stricter than Java in one point: nothing may run past the header's declared end into the body,
//! and what is left of the header behind the fields is passed over. No known peer writes either.

use std::borrow::Cow;

use super::command::Command;
use super::error::WireError;
use super::fields::ExtFields;
use crate::ids::Opaque;

/// Bytes before the remark, and where its length begins.
const HEAD_BYTES: usize = 17;

/// Reads `header` into `command`. A text of no bytes is absent, which differs from the JSON form.
pub(super) fn decode<'a>(header: &'a [u8], command: &mut Command<'a>) -> Result<(), WireError> {
    let Some((head, _)) = header.split_first_chunk::<HEAD_BYTES>() else {
        return Err(WireError::Binary { reason: ends_in(header.len()), at: header.len() });
    };
    let [c0, c1, _language, v0, v1, o0, o1, o2, o3, f0, f1, f2, f3, remark @ ..] = *head;
    command.code = i32::from(i16::from_be_bytes([c0, c1]));
    command.version = i32::from(i16::from_be_bytes([v0, v1]));
    command.opaque = Some(Opaque(i32::from_be_bytes([o0, o1, o2, o3])));
    command.flag = i32::from_be_bytes([f0, f1, f2, f3]);
    let mut cut = Cut { bytes: header, at: HEAD_BYTES };
    let remark = i32::from_be_bytes(remark);
    command.remark = cut.text(remark, "remark is longer than the header")?.map(Cow::Borrowed);
    let fields = i32::from_be_bytes(cut.array("ends in the fields' length")?);
    if fields <= 0 {
        return Ok(());
    }
    let fields = cut.part(fields, "fields are longer than the header")?;
    // Lengths below 128 are ASCII: nearly always the fields are text as a whole.
    if let Ok(text) = std::str::from_utf8(fields) {
        if plain_fields(text, &mut command.ext).is_some() {
            return Ok(());
        }
        command.ext = ExtFields::default();
    }
    any_fields(fields, &mut command.ext)
}

/// What is cut off in a header of fewer than [`HEAD_BYTES`].
#[cold]
fn ends_in(bytes: usize) -> &'static str {
    match bytes {
        0..2 => "ends in the code",
        2..5 => "ends in the language or version",
        5..9 => "ends in the opaque",
        9..13 => "ends in the flag",
        _ => "ends in the remark's length",
    }
}

/// Names and values that are text as a whole, none empty; gives up at anything else.
#[inline]
fn plain_fields<'a>(mut rest: &'a str, ext: &mut ExtFields<'a>) -> Option<()> {
    while !rest.is_empty() {
        let name = usize::try_from(i16::from_be_bytes(*rest.as_bytes().first_chunk()?)).ok()?;
        let (name, behind) = rest.get(2..)?.split_at_checked(name)?;
        let value = usize::try_from(i32::from_be_bytes(*behind.as_bytes().first_chunk()?)).ok()?;
        let (value, behind) = behind.get(4..)?.split_at_checked(value)?;
        if name.is_empty() || value.is_empty() {
            return None;
        }
        ext.push(name, value).ok()?;
        rest = behind;
    }
    Some(())
}

/// All rules, and every error.
fn any_fields<'a>(fields: &'a [u8], ext: &mut ExtFields<'a>) -> Result<(), WireError> {
    let mut cut = Cut { bytes: fields, at: 0 };
    while cut.at < fields.len() {
        let name = i16::from_be_bytes(cut.array("fields end in a name's length")?);
        let name = cut.text(i32::from(name), "name is longer than the fields")?;
        let value = i32::from_be_bytes(cut.array("fields end in a value's length")?);
        let value = cut.text(value, "value is longer than the fields")?;
        match (name, value) {
            (Some(name), Some(value)) => ext.push(name, value)?,
            (Some(name), None) => ext.remove(name)?,
            (None, _) => {}
        }
    }
    Ok(())
}

/// Takes pieces from the front; every length is checked against what is left.
struct Cut<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cut<'a> {
    #[inline]
    fn array<const N: usize>(&mut self, reason: &'static str) -> Result<[u8; N], WireError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let part = rest.first_chunk().ok_or(WireError::Binary { reason, at: self.at })?;
        self.at += N;
        Ok(*part)
    }

    #[inline]
    fn part(&mut self, length: i32, reason: &'static str) -> Result<&'a [u8], WireError> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let part = end.and_then(|end| self.bytes.get(self.at..end));
        let part = part.ok_or(WireError::Binary { reason, at: self.at })?;
        self.at += part.len();
        Ok(part)
    }

    #[inline]
    fn text(&mut self, length: i32, reason: &'static str) -> Result<Option<&'a str>, WireError> {
        let at = self.at;
        let part = self.part(length, reason)?;
        if part.is_empty() {
            return Ok(None);
        }
        // Java puts U+FFFD where bytes are not UTF-8; names that are not what was sent help nobody.
        let text = std::str::from_utf8(part);
        text.map(Some).map_err(|_| WireError::Binary { reason: "text is not UTF-8", at })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(header: &[u8]) -> Result<Command<'_>, WireError> {
        let mut command = Command::default();
        decode(header, &mut command).map(|()| command)
    }

    /// Code 101, language 0, version 513, opaque 7, flag 0, then `tail`.
    fn header(tail: &[u8]) -> Vec<u8> {
        let mut header = b"\x00\x65\x00\x02\x01\x00\x00\x00\x07\x00\x00\x00\x00".to_vec();
        header.extend_from_slice(tail);
        header
    }

    fn refused(tail: &[u8]) -> WireError {
        read(&header(tail)).map(|_| ()).expect_err("must be refused")
    }

    /// Bytes of a header without remark and fields.
    const FIXED_BYTES: usize = 21;

    #[test]
    fn the_smallest_header_has_21_bytes() {
        let bytes = header(&[0; 8]);
        assert_eq!(bytes.len(), FIXED_BYTES);
        let command = read(&bytes).expect("decodes");
        assert_eq!((command.code, command.version, command.flag), (101, 513, 0));
        assert_eq!(command.opaque, Some(Opaque(7)));
        assert!(command.remark.is_none() && command.ext.iter().next().is_none());
        for cut in 0..FIXED_BYTES {
            read(&bytes[..cut]).expect_err("cut short");
        }
    }

    #[test]
    fn numbers_are_signed_16_bits_and_any_language_will_do() {
        let mut bytes = header(&[0; 8]);
        bytes[..5].copy_from_slice(b"\x9c\x40\x63\x80\x00");
        let command = read(&bytes).expect("decodes");
        assert_eq!((command.code, command.version), (-25536, -32768));
    }

    #[test]
    fn fields_are_read_and_an_empty_value_is_absent() {
        let bytes = header(
            b"\x00\x00\x00\x00\x00\x00\x00\x19\
            \x00\x09namespace\x00\x00\x00\x01n\x00\x03key\x00\x00\x00\x00",
        );
        let command = read(&bytes).expect("decodes");
        assert_eq!(command.text("namespace"), Some("n"));
        assert_eq!(command.text("key"), None);
    }

    #[test]
    fn an_empty_name_is_passed_over_and_a_remark_is_read() {
        let bytes = header(
            b"\x00\x00\x00\x02hi\
            \x00\x00\x00\x0f\x00\x00\x00\x00\x00\x01x\x00\x01k\x00\x00\x00\x01v",
        );
        let command = read(&bytes).expect("decodes");
        assert_eq!(command.remark.as_deref(), Some("hi"));
        assert_eq!(command.ext.iter().count(), 1);
        assert_eq!(command.text("k"), Some("v"));
    }

    #[test]
    fn negative_length_of_fields_means_none() {
        assert!(read(&header(b"\x00\x00\x00\x00\xff\xff\xff\xfb")).is_ok());
    }

    #[test]
    fn lengths_are_checked_against_the_bytes_left() {
        let remark = "remark is longer than the header";
        for tail in [
            b"\x7f\xff\xff\xff\x00\x00\x00\x00".as_slice(),
            b"\xff\xff\xff\xff\x00\x00\x00\x00",
            b"\x00\x00\x00\x05\x00\x00\x00\x00",
        ] {
            assert_eq!(refused(tail), WireError::Binary { reason: remark, at: 17 });
        }
        let fields = "fields are longer than the header";
        assert_eq!(
            refused(b"\x00\x00\x00\x00\x00\x00\x00\x64"),
            WireError::Binary { reason: fields, at: 21 }
        );
        let name = "name is longer than the fields";
        for length in [b"\x80\x00", b"\x7f\xff", b"\x00\x02"] {
            let tail = [b"\x00\x00\x00\x00\x00\x00\x00\x03", length.as_slice(), b"k"].concat();
            assert_eq!(refused(&tail), WireError::Binary { reason: name, at: 2 });
        }
        let value = "value is longer than the fields";
        for length in [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x02"] {
            let tail =
                [b"\x00\x00\x00\x00\x00\x00\x00\x08\x00\x01k", length.as_slice(), b"v"].concat();
            assert_eq!(refused(&tail), WireError::Binary { reason: value, at: 7 });
        }
    }

    fn encoded(fields: &[(String, String)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in fields {
            out.extend(i16::try_from(name.len()).expect("short").to_be_bytes());
            out.extend(name.bytes());
            out.extend(i32::try_from(value.len()).expect("short").to_be_bytes());
            out.extend(value.bytes());
        }
        out
    }

    /// Whether the fields are plain; then both ways to read them agree.
    fn are_plain(fields: &[u8]) -> bool {
        let (mut plain, mut any) = (ExtFields::default(), ExtFields::default());
        let text = std::str::from_utf8(fields).ok();
        if text.and_then(|text| plain_fields(text, &mut plain)).is_none() {
            return false;
        }
        any_fields(fields, &mut any).expect("what is plain is well formed");
        assert!(plain.iter().eq(any.iter()), "{plain:?} {any:?}");
        true
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn plain_fields_are_read_as_all_are(
            fields in prop::collection::vec(("[a-zé😀]{0,9}", "[ -~é😀]{0,300}"), 0..5),
            place in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut bytes = encoded(&fields);
            let full = fields.iter().all(|(name, value)| !name.is_empty() && !value.is_empty());
            let short = fields.iter().all(|(name, value)| name.len().max(value.len()) < 128);
            assert!(!(full && short) || are_plain(&bytes), "{fields:?}");
            are_plain(&bytes);
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = byte;
                are_plain(&bytes);
                bytes.truncate(place);
                are_plain(&bytes);
            }
        }
    }

    #[test]
    fn bytes_behind_the_fields_are_passed_over() {
        assert!(read(&header(b"\x00\x00\x00\x00\x00\x00\x00\x00 left")).is_ok());
    }
}

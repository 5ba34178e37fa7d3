//! The bound of names, checked where they come in.

use crate::limits::NAME_BYTES_MAX;
use crate::wire::Command;

/// Fields of write requests that the tables keep, the log shows, or brokers are told.
const NAMES: [&str; 6] =
    ["clusterName", "brokerName", "brokerAddr", "haServerAddr", "topic", "__ZONE_NAME"];

/// The field whose name is longer than any real one.
pub(super) fn too_long(command: &Command<'_>) -> Option<&'static str> {
    let is_long = |text: &str| text.len() > NAME_BYTES_MAX;
    NAMES.into_iter().find(|field| command.text(field).is_some_and(is_long))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HeaderKind, Request, frame};

    fn found(field: &str, bytes: usize) -> Option<&'static str> {
        let (name, value) = ("n".repeat(bytes), "v".repeat(100_000));
        let ext = [("value", value.as_str()), (field, name.as_str())];
        let mut out = Vec::new();
        Request { code: 103, ext: &ext, ..Request::default() }.encode(HeaderKind::Json, &mut out);
        let head = frame::next(&out).expect("a frame").expect("whole");
        too_long(&Command::decode(&head, &out, None).expect("decodes"))
    }

    #[test]
    fn the_longest_name_is_taken_and_one_byte_more_is_named() {
        for field in NAMES {
            assert_eq!(found(field, NAME_BYTES_MAX), None);
            assert_eq!(found(field, NAME_BYTES_MAX + 1), Some(field));
        }
    }
}

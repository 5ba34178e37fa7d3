//! The bound of names, checked where they come in.

use crate::limits::NAME_BYTES_MAX;
use crate::wire::Command;

/// Fields of write requests that the tables keep, the log shows, or brokers are told.
const NAMES: [&str; 6] =
    ["clusterName", "brokerName", "brokerAddr", "haServerAddr", "topic", "__ZONE_NAME"];

/// The field whose name is longer than any real one.
pub(super) fn too_long(command: &Command<'_>) -> Option<&'static str> {
    let fields = command.ext.iter();
    let mut long = fields.filter(|(_, value)| value.len() > NAME_BYTES_MAX);
    long.find_map(|(field, _)| NAMES.into_iter().find(|name| field == *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_is_taken_and_one_byte_more_is_named() {
        for field in NAMES {
            let mut command = Command::default();
            command.ext.put(field.into(), "n".repeat(NAME_BYTES_MAX).into()).unwrap();
            command.ext.put("value".into(), "v".repeat(1 << 20).into()).unwrap();
            assert_eq!(too_long(&command), None);
            command.ext.put(field.into(), "n".repeat(NAME_BYTES_MAX + 1).into()).unwrap();
            assert_eq!(too_long(&command), Some(field));
        }
    }
}

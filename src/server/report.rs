//! The KV table in the periodic print.

use crate::kv::KvView;

/// Most keys that are printed: the log's queue must have room for what else happens meanwhile.
const KEYS_PRINTED_MAX: usize = 1000;

/// The table as the Java server prints it, or its beginning and the number of keys left out.
pub(super) fn kv_lines(kv: &KvView) -> impl Iterator<Item = String> {
    let keys = kv.namespaces().flat_map(|(namespace, entries)| {
        entries.map(move |(key, value)| {
            format!("configTable NS: {namespace} Key: {key} Value: {value}")
        })
    });
    let left_out = kv.len().saturating_sub(KEYS_PRINTED_MAX);
    let rest = (left_out > 0).then(|| format!("configTable: and {left_out} more keys"));
    keys.take(KEYS_PRINTED_MAX).chain(rest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kv::KvTable;
    use crate::limits::LOG_LINES_MAX;

    fn table(keys: usize) -> KvView {
        let entries = (0..keys).map(|key| (format!("{key:06}"), format!("value {key}")));
        let one = BTreeMap::from([("ns".to_owned(), entries.collect::<BTreeMap<_, _>>())]);
        KvTable::from_namespaces(one).view()
    }

    #[test]
    fn a_small_table_is_printed_whole_as_java_prints_it() {
        let lines: Vec<String> = kv_lines(&table(2)).collect();
        let wanted = [0, 1].map(|n| format!("configTable NS: ns Key: 00000{n} Value: value {n}"));
        assert_eq!(lines, wanted);
        assert_eq!(kv_lines(&table(KEYS_PRINTED_MAX)).count(), KEYS_PRINTED_MAX);
    }

    #[test]
    fn a_large_table_leaves_room_in_the_log() {
        let lines: Vec<String> = kv_lines(&table(20_000)).collect();
        assert!(lines.len() < LOG_LINES_MAX / 4, "{} lines", lines.len());
        assert_eq!(lines.last().unwrap(), "configTable: and 19000 more keys");
    }
}

use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

use proptest::prelude::*;

use super::*;

/// A record: some have long names, some much content, by `which`.
fn record(number: u32, which: u32) -> OwnRecord {
    let mut record = OwnRecord::named(name(number).as_bytes());
    record.put(&content(number, which));
    record
}

fn name(number: u32) -> String {
    let padding = if number % 16 == 5 { 250 + number as usize } else { 0 };
    format!("{number}{}", "-".repeat(padding))
}

fn content(number: u32, which: u32) -> Vec<u8> {
    let bytes = if number % 16 == 7 { 1_500 } else { number as usize % 3 };
    vec![u8::try_from(which).expect("small"); bytes * which as usize]
}

/// Few different hashes, which differ in few bits.
#[derive(Default)]
struct Poor(DefaultHasher);

impl Hasher for Poor {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finish() & 0x0100_0000_0000_0001
    }
}

type Map = NameMap<BuildHasherDefault<DefaultHasher>>;
type PoorMap = NameMap<BuildHasherDefault<Poor>>;

#[track_caller]
fn same<S: BuildHasher>(map: &NameMap<S>, expected: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(map.len(), expected.len());
    for (name, content) in expected {
        let found = map.get(name).expect("was put in");
        assert_eq!((found.name, found.content), (name.as_bytes(), &content[..]));
    }
    let mut all: Vec<Record<'_>> = map.iter().collect();
    all.sort_by_key(|record| record.name);
    let expected = expected.iter().map(|(name, content)| (name.as_bytes(), &content[..]));
    assert!(all.iter().map(|record| (record.name, record.content)).eq(expected));
    let mut parts: Vec<Record<'_>> = (0..PARTS).flat_map(|part| map.part(part)).collect();
    parts.sort_by_key(|record| record.name);
    assert_eq!(parts, all);
    for record in all {
        let place = map.place(record.name);
        assert_eq!(map.find(place, |other| *other == record), Some(record));
        assert_eq!(map.find(place, |_| false), None);
    }
    limits(&map.root, 0);
}

/// No leaf is larger than it may be.
fn limits(node: &Node, level: u32) {
    match node {
        Node::Empty => {}
        Node::Leaf(leaf) => {
            let fits = leaf.len() <= LEAF_MAX && leaf.0.slice.len() <= LEAF_BYTES_MAX;
            assert!(fits || leaf.len() == 1 || level == LEVELS, "{}", leaf.len());
        }
        Node::Branch(children) => children.iter().for_each(|node| limits(node, level + 1)),
    }
}

/// Applies changes (number, what: 0 removes) and looks at the result and at a clone taken half
/// way.
fn follow<S: BuildHasher + Default + Clone>(changes: &[(u32, u32)]) {
    let (mut map, mut expected) = (NameMap::<S>::default(), BTreeMap::new());
    let (first, second) = changes.split_at(changes.len() / 2);
    let mut apply = |part: &[(u32, u32)], map: &mut NameMap<S>| {
        for (number, which) in part {
            if *which == 0 {
                map.remove(name(*number));
                expected.remove(&name(*number));
            } else {
                map.insert(record(*number, *which));
                expected.insert(name(*number), content(*number, *which));
            }
            assert_eq!(map.len(), expected.len());
        }
        expected.clone()
    };
    let half = apply(first, &mut map);
    let clone = map.clone();
    let end = apply(second, &mut map);
    same(&clone, &half);
    same(&map, &end);
}

proptest! {
    #[test]
    fn it_is_a_map_and_its_clones_do_not_change(
        changes in prop::collection::vec((0..400u32, 0..3u32), 0..2_000),
    ) {
        follow::<BuildHasherDefault<DefaultHasher>>(&changes);
    }

    #[test]
    fn equal_hashes_cost_time_and_nothing_else(
        changes in prop::collection::vec((0..150u32, 0..3u32), 0..600),
    ) {
        follow::<BuildHasherDefault<Poor>>(&changes);
    }

    #[test]
    fn a_record_has_the_parts_it_was_made_of(
        name in prop::collection::vec(any::<u8>(), 0..600),
        content in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let mut own = OwnRecord::named(&name);
        own.put(&content);
        prop_assert_eq!(own.get(), Record { name: &name, content: &content });
        let copy = own.get().to_owned();
        prop_assert_eq!(copy.get(), own.get());
    }
}

#[test]
fn an_empty_map_has_nothing() {
    let mut map = Map::default();
    map.remove("a");
    assert_eq!((map.len(), map.get("a"), map.iter().next()), (0, None, None));
    map.fetch(&[b"a", b"b"]);
}

#[test]
fn a_leaf_beyond_its_tags_is_searched_to_its_end() {
    let mut map = PoorMap::default();
    (0..400).for_each(|number| map.insert(record(number, 1)));
    for number in 0..400 {
        let found = map.get(name(number)).map(|record| record.content.len());
        assert_eq!(found, Some(content(number, 1).len()));
    }
    assert_eq!(map.get("400"), None);
}

#[test]
fn what_is_there_is_fetched_and_little_of_what_is_not() {
    let mut map = Map::default();
    (0..2_000).for_each(|number| map.insert(record(number, 1)));
    let fetched = |numbers: std::ops::Range<u32>| -> usize {
        let hash = |number| map.hasher.hash_one(name(number).as_bytes());
        let hashes: Vec<u64> = numbers.map(hash).collect();
        hashes.chunks(SIDE_BY_SIDE).map(|hashes| map.fetch_hashes(hashes)).sum()
    };
    assert_eq!(fetched(0..2_000), 2_000);
    // One in 256 tags of the records of a leaf is equal by chance.
    assert!(fetched(2_000..4_000) < 400);
}

#[test]
fn what_is_emptied_takes_no_room() {
    let mut map = Map::default();
    (0..5_000).for_each(|number| map.insert(record(number, 1)));
    assert!(matches!(map.root, Node::Branch(_)));
    (0..5_000).for_each(|number| map.remove(name(number)));
    assert!(matches!(map.root, Node::Empty));
}

#[test]
fn a_change_of_what_nobody_shares_is_made_in_place() {
    let mut map = Map::default();
    let content = |map: &Map| map.get("1").expect("is there").content.as_ptr_range();
    let first = record(1, 1);
    map.insert(first.clone());
    let place = content(&map);
    let mut second = OwnRecord::named(b"1");
    second.put(&[2]);
    map.insert(second.clone());
    assert_eq!(content(&map), place);
    let clone = map.clone();
    map.insert(first.clone());
    assert_eq!((clone.get("1"), map.get("1")), (Some(second.get()), Some(first.get())));
}

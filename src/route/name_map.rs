//! A persistent map of things that carry their own names.
//!
//! A trie over the bits of a keyed hash. A leaf is one allocation: a byte of each thing's hash, to
//! find the few worth a look, and the things, exactly as many as there are. So each thing takes
//! little more than the pointer to it, however many there are. A change copies one leaf and the
//! branches above it that somebody shares.
//!
//! Why not `imbl`'s hash map, as for groups: its leaves have room for 16 or 32 entries whether they
//! are filled or not. Measured with pointers to topics, it takes 55 to 190 bytes for each, by how
//! many there are, and this one 12 to 30; a change costs half, a lookup the same. What would
//! change our mind: leaves of fitting size there.

use std::fmt;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::slice;
use std::sync::Arc;

use ahash::RandomState;
use smallvec::SmallVec;
use triomphe::ThinArc;

/// Bits of the hash that choose a branch's child.
const LEVEL_BITS: u32 = 2;
/// Children of a branch.
const FAN: usize = 1 << LEVEL_BITS;
/// Levels that a hash has bits for.
const LEVELS: u32 = u64::BITS / LEVEL_BITS;
/// Most things in a leaf; only at the last level, with equal hashes, there can be more.
const LEAF_MAX: usize = 24;

/// How many names [`NameMap::fetch`] follows side by side: about as many loads as a core has under
/// way at a time.
const SIDE_BY_SIDE: usize = 16;

/// Levels that a [`Place`] has bits for.
const PLACE_LEVELS: u32 = 24 / LEVEL_BITS;

/// Levels above the parts of a map.
const PART_LEVELS: u32 = 5;
/// Into how many parts a map can be divided, of about equal size if it is large.
pub const PARTS: u64 = 1 << (PART_LEVELS * LEVEL_BITS);

/// Where a thing of one map is: its hash's lowest three bytes and the highest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place([u8; 4]);

/// What knows its name. Cloning must be cheap.
pub trait Named: Clone {
    /// The name, as bytes; it never changes.
    fn name(&self) -> &[u8];
    /// Reads a byte of whatever will be read of it once it is found. Which one says nothing.
    fn touch(&self) -> u8;
}

/// Things by name. Cloning it copies pointers only. Hashing is keyed, since names come from peers.
#[derive(Clone)]
pub struct NameMap<T, S = RandomState> {
    root: Node<T>,
    len: usize,
    hasher: S,
}

#[derive(Clone)]
enum Node<T> {
    Empty,
    Leaf(Leaf<T>),
    Branch(Arc<[Node<T>; FAN]>),
}

/// Things with the tags of the first [`LEAF_MAX`] of them.
#[derive(Clone)]
struct Leaf<T>(ThinArc<[u8; LEAF_MAX], T>);

type Things<T> = SmallVec<[T; LEAF_MAX + 1]>;

impl<T: Named, S: BuildHasher> NameMap<T, S> {
    /// How many things there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The thing called `name`.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&T> {
        let name = name.as_ref();
        let hash = self.hasher.hash_one(name);
        let (mut node, mut level) = (&self.root, 0);
        loop {
            match node {
                Node::Empty => return None,
                Node::Leaf(leaf) => {
                    let at = leaf.find(tag(hash), |thing| thing.name() == name)?;
                    return leaf.things().get(at);
                }
                Node::Branch(children) => node = &children[child(hash, level)],
            }
            level += 1;
        }
    }

    /// Gets what [`NameMap::get`] will read for these names into the caches; it changes nothing.
    ///
    /// In a large map most of a look-up is waiting for memory, four or five times in a row. Here
    /// all names go down the map in step, so that the core waits for their loads together.
    pub fn fetch(&self, names: &[&[u8]]) {
        for names in names.chunks(SIDE_BY_SIDE) {
            let mut hashes = [0; SIDE_BY_SIDE];
            for (hash, name) in hashes.iter_mut().zip(names) {
                *hash = self.hasher.hash_one(name);
            }
            self.fetch_hashes(&hashes[..names.len()]);
        }
    }

    /// Each loop is over loads that do not depend on each other, nor on a guess that could turn out
    /// wrong before they have come.
    fn fetch_hashes(&self, hashes: &[u64]) {
        let mut nodes = [&self.root; SIDE_BY_SIDE];
        let mut level = 0;
        let mut is_deeper = true;
        while is_deeper {
            is_deeper = false;
            for (node, hash) in nodes.iter_mut().zip(hashes) {
                if let Node::Branch(children) = *node {
                    *node = &children[child(*hash, level)];
                    is_deeper = true;
                }
            }
            level += 1;
        }
        let leaves = nodes.iter().zip(hashes);
        let leaves = leaves.filter_map(|(node, hash)| match node {
            Node::Leaf(leaf) => Some((leaf, tag(*hash))),
            Node::Empty | Node::Branch(_) => None,
        });
        black_box(leaves.clone().fold(0, |seen, (leaf, _)| seen ^ leaf.0.header.header[0]));
        // The first thing of that tag is mostly the one; if not, it is found without help.
        let found = leaves.filter_map(|(leaf, tag)| leaf.find(tag, |_| true).map(|at| (leaf, at)));
        let found: SmallVec<[&T; SIDE_BY_SIDE]> =
            found.filter_map(|(leaf, at)| leaf.things().get(at)).collect();
        black_box(found.iter().fold(0, |seen, thing| seen ^ thing.touch()));
    }

    /// Where a thing called `name` is, now or once it is put in. Much shorter than a name.
    #[must_use]
    pub fn place(&self, name: impl AsRef<[u8]>) -> Place {
        let [first, second, third, .., last] = self.hasher.hash_one(name.as_ref()).to_le_bytes();
        Place([first, second, third, last])
    }

    /// The thing at `place` that is `wanted`.
    pub fn find(&self, place: Place, wanted: impl Fn(&T) -> bool) -> Option<&T> {
        let Place([first, second, third, last]) = place;
        let hash = u64::from_le_bytes([first, second, third, 0, 0, 0, 0, last]);
        let (mut node, mut level) = (&self.root, 0);
        while let Node::Branch(children) = node
            && level < PLACE_LEVELS
        {
            node = &children[child(hash, level)];
            level += 1;
        }
        match node {
            Node::Leaf(leaf) => {
                let at = leaf.find(tag(hash), wanted)?;
                leaf.things().get(at)
            }
            // More than 2^24 leaves, or equal hashes.
            deeper => Iter::of(deeper).find(|thing| wanted(thing)),
        }
    }

    /// The things of one part of [`PARTS`], numbered from 0: each thing is in one.
    #[must_use]
    pub fn part(&self, part: u64) -> Iter<'_, T> {
        let (mut node, mut level) = (&self.root, 0);
        while let Node::Branch(children) = node
            && level < PART_LEVELS
        {
            node = &children[child(part, level)];
            level += 1;
        }
        // A leaf that stands above the parts' level is wholly in the first of its parts.
        let is_first = level == PART_LEVELS || part >> (level * LEVEL_BITS) == 0;
        Iter::of(if is_first { node } else { &Node::Empty })
    }

    /// Puts a thing in, in the place of the one that has its name.
    pub fn insert(&mut self, thing: T) {
        let hash = self.hasher.hash_one(thing.name());
        let (mut node, mut level) = (&mut self.root, 0);
        loop {
            match node {
                Node::Empty => {
                    *node = Node::Leaf(Leaf::new([(tag(hash), thing)].into_iter()));
                    self.len += 1;
                    return;
                }
                Node::Leaf(leaf) => {
                    if let Some(at) = leaf.find(tag(hash), |old| old.name() == thing.name()) {
                        return leaf.replace(at, thing);
                    }
                    if leaf.things().len() < LEAF_MAX || level == LEVELS {
                        self.len += 1;
                        return leaf.push(tag(hash), thing);
                    }
                    *node = leaf.split(&self.hasher, level);
                }
                Node::Branch(children) => {
                    node = &mut Arc::make_mut(children)[child(hash, level)];
                    level += 1;
                }
            }
        }
    }

    /// Takes out the thing called `name`, if it is there.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) {
        let name = name.as_ref();
        if self.get(name).is_some() {
            self.root.remove(self.hasher.hash_one(name), 0, name);
            self.len -= 1;
        }
    }

    /// All things, in the order of their hashes.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter::of(&self.root)
    }
}

impl<T, S: Default> Default for NameMap<T, S> {
    fn default() -> NameMap<T, S> {
        NameMap { root: Node::Empty, len: 0, hasher: S::default() }
    }
}

impl<T: Named + fmt::Debug, S: BuildHasher> fmt::Debug for NameMap<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The child that `hash` belongs to at `level`.
fn child(hash: u64, level: u32) -> usize {
    let bits = hash >> (level * LEVEL_BITS) & (FAN as u64 - 1);
    usize::try_from(bits).expect("a few bits")
}

/// The byte that a leaf keeps of a hash: the one that branches use last.
fn tag(hash: u64) -> u8 {
    hash.to_be_bytes()[0]
}

impl<T: Named> Leaf<T> {
    fn new(tagged: impl ExactSizeIterator<Item = (u8, T)>) -> Leaf<T> {
        let mut tags = [0; LEAF_MAX];
        let mut at = 0;
        let things: Things<T> = tagged
            .map(|(tag, thing)| {
                if let Some(place) = tags.get_mut(at) {
                    *place = tag;
                }
                at += 1;
                thing
            })
            .collect();
        Leaf(ThinArc::from_header_and_iter(tags, things.into_iter()))
    }

    fn things(&self) -> &[T] {
        &self.0.slice
    }

    /// Where the thing with this tag is that is `wanted`. Compares eight tags at a time; where a
    /// borrow makes one look equal that is not, `wanted` decides.
    #[inline]
    fn find(&self, tag: u8, wanted: impl Fn(&T) -> bool) -> Option<usize> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = LOW << 7;
        let things = self.things();
        let (words, _) = self.0.header.header.as_chunks::<8>();
        for (word, tags) in words.iter().enumerate() {
            let differs = u64::from_le_bytes(*tags) ^ (LOW * u64::from(tag));
            let mut equal = differs.wrapping_sub(LOW) & !differs & HIGH;
            while equal != 0 {
                let at = word * 8 + equal.trailing_zeros() as usize / 8;
                match things.get(at) {
                    None => return None,
                    Some(thing) if wanted(thing) => return Some(at),
                    Some(_) => equal &= equal - 1,
                }
            }
        }
        let rest = things.get(LEAF_MAX..)?;
        rest.iter().position(wanted).map(|at| LEAF_MAX + at)
    }

    /// Replaces a thing by one of the same name, in place if nobody shares the leaf.
    fn replace(&mut self, at: usize, new: T) {
        let shared = self.0.with_arc_mut(|leaf| match triomphe::Arc::get_mut(leaf) {
            Some(own) => {
                own.slice_mut()[at] = new;
                None
            }
            None => Some(new),
        });
        if let Some(new) = shared {
            let mut things: Things<T> = self.things().into();
            things[at] = new;
            *self = Leaf(ThinArc::from_header_and_iter(self.0.header.header, things.into_iter()));
        }
    }

    fn push(&mut self, tag: u8, new: T) {
        let mut tags = self.0.header.header;
        if let Some(place) = tags.get_mut(self.things().len()) {
            *place = tag;
        }
        let mut things: Things<T> = self.things().into();
        things.push(new);
        *self = Leaf(ThinArc::from_header_and_iter(tags, things.into_iter()));
    }

    /// A branch with the things of a leaf at `level`.
    fn split(&self, hasher: &impl BuildHasher, level: u32) -> Node<T> {
        let mut parts: [SmallVec<[(u8, T); 12]>; FAN] = Default::default();
        for thing in self.things() {
            let hash = hasher.hash_one(thing.name());
            parts[child(hash, level)].push((tag(hash), thing.clone()));
        }
        let node = |part: SmallVec<[(u8, T); 12]>| match part.is_empty() {
            true => Node::Empty,
            false => Node::Leaf(Leaf::new(part.into_iter())),
        };
        Node::Branch(Arc::new(parts.map(node)))
    }

    /// A leaf of more than [`LEAF_MAX`] things is at the last level: all have the same hash, so
    /// those without a tag have the tag of the others.
    fn tagged(&self) -> impl Iterator<Item = (u8, T)> {
        let tags = &self.0.header.header;
        let tags = tags.iter().chain(std::iter::repeat(&tags[0]));
        tags.copied().zip(self.things().iter().cloned())
    }
}

impl<T: Named> Node<T> {
    /// Takes out a thing that is there.
    fn remove(&mut self, hash: u64, level: u32, name: &[u8]) {
        match self {
            Node::Empty => {}
            Node::Leaf(leaf) => {
                let others = leaf.tagged().filter(|(_, thing)| thing.name() != name);
                let others: Vec<(u8, T)> = others.collect();
                *self = match others.is_empty() {
                    true => Node::Empty,
                    false => Node::Leaf(Leaf::new(others.into_iter())),
                };
            }
            Node::Branch(children) => {
                let children = Arc::make_mut(children);
                let child = &mut children[child(hash, level)];
                child.remove(hash, level + 1, name);
                if matches!(child, Node::Empty)
                    && let Some(joined) = joined(children)
                {
                    *self = joined;
                }
            }
        }
    }
}

/// One node in the place of a branch whose leaves hold little together.
fn joined<T: Named>(children: &[Node<T>; FAN]) -> Option<Node<T>> {
    let mut all: Vec<(u8, T)> = Vec::new();
    for node in children {
        match node {
            Node::Empty => {}
            Node::Leaf(leaf) if all.len() + leaf.things().len() <= LEAF_MAX / 2 => {
                all.extend(leaf.tagged());
            }
            _ => return None,
        }
    }
    Some(if all.is_empty() { Node::Empty } else { Node::Leaf(Leaf::new(all.into_iter())) })
}

impl<'a, T> Iter<'a, T> {
    fn of(node: &'a Node<T>) -> Iter<'a, T> {
        Iter { nodes: SmallVec::from_iter([slice::from_ref(node).iter()]), things: [].iter() }
    }
}

/// See [`NameMap::iter`].
pub struct Iter<'a, T> {
    /// Nodes to be visited, a level each.
    nodes: SmallVec<[slice::Iter<'a, Node<T>>; 16]>,
    things: slice::Iter<'a, T>,
}

impl<'a, T: Named> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(thing) = self.things.next() {
                return Some(thing);
            }
            match self.nodes.last_mut()?.next() {
                None => drop(self.nodes.pop()),
                Some(Node::Empty) => {}
                Some(Node::Leaf(leaf)) => self.things = leaf.things().iter(),
                Some(Node::Branch(children)) => self.nodes.push(children.iter()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

    use proptest::prelude::*;

    use super::*;

    /// A name and which of several things of that name it is.
    #[derive(Clone, PartialEq, Debug)]
    struct Thing(Arc<str>, u32);

    impl Named for Thing {
        fn name(&self) -> &[u8] {
            self.0.as_bytes()
        }

        fn touch(&self) -> u8 {
            TOUCHED.with_borrow_mut(|touched| touched.push(self.0.to_string()));
            0
        }
    }

    thread_local! {
        /// Names of things that were touched.
        static TOUCHED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn thing(number: u32, which: u32) -> Thing {
        Thing(number.to_string().into(), which)
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

    type Map = NameMap<Thing, BuildHasherDefault<DefaultHasher>>;
    type PoorMap = NameMap<Thing, BuildHasherDefault<Poor>>;

    #[track_caller]
    fn same<S: BuildHasher>(map: &NameMap<Thing, S>, expected: &BTreeMap<String, Thing>) {
        assert_eq!(map.len(), expected.len());
        for (name, thing) in expected {
            assert_eq!(map.get(name), Some(thing));
        }
        let mut all: Vec<&Thing> = map.iter().collect();
        all.sort_by_key(|thing| &thing.0);
        assert_eq!(all, expected.values().collect::<Vec<_>>());
        let mut parts: Vec<&Thing> = (0..PARTS).flat_map(|part| map.part(part)).collect();
        parts.sort_by_key(|thing| &thing.0);
        assert_eq!(parts, all);
        for thing in all {
            let place = map.place(thing.name());
            assert_eq!(map.find(place, |other| other == thing), Some(thing));
            assert_eq!(map.find(place, |_| false), None);
        }
    }

    /// Applies changes (number, what: 0 removes) and looks at the result and at a clone taken half
    /// way.
    fn follow<S: BuildHasher + Default + Clone>(changes: &[(u32, u32)]) {
        let (mut map, mut expected) = (NameMap::<Thing, S>::default(), BTreeMap::new());
        let (first, second) = changes.split_at(changes.len() / 2);
        let mut apply = |part: &[(u32, u32)], map: &mut NameMap<Thing, S>| {
            for (number, which) in part {
                if *which == 0 {
                    map.remove(number.to_string());
                    expected.remove(&number.to_string());
                } else {
                    map.insert(thing(*number, *which));
                    expected.insert(number.to_string(), thing(*number, *which));
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
    }

    #[test]
    fn an_empty_map_has_nothing() {
        let mut map = Map::default();
        map.remove("a");
        assert_eq!((map.len(), map.get("a"), map.iter().next()), (0, None, None));
    }

    #[test]
    fn a_leaf_beyond_its_tags_is_searched_to_its_end() {
        let mut map = PoorMap::default();
        (0..400).for_each(|number| map.insert(thing(number, 1)));
        (0..400)
            .for_each(|number| assert_eq!(map.get(number.to_string()), Some(&thing(number, 1))));
        assert_eq!(map.get("400"), None);
    }

    #[test]
    fn nearly_all_that_is_there_is_fetched_and_nothing_else() {
        let mut map = Map::default();
        map.fetch(&[b"0"]);
        (0..2_000).for_each(|number| map.insert(thing(number, 1)));
        let names: Vec<String> = (0..2_010).map(|number| number.to_string()).collect();
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        map.fetch(&names);
        let mut touched = TOUCHED.take();
        // Names that are not there lead to a thing whose tag happens to be theirs, or to none.
        assert!(touched.len() <= names.len());
        touched.sort();
        touched.dedup();
        assert!(touched.len() > 1_700, "{} of 2000", touched.len());
    }

    #[test]
    fn equal_hashes_are_fetched_as_one() {
        let mut map = PoorMap::default();
        (0..400).for_each(|number| map.insert(thing(number, 1)));
        map.fetch(&[b"1", b"2", b"3", b"400"]);
        assert!(TOUCHED.take().len() <= 4);
    }

    #[test]
    fn what_is_emptied_takes_no_room() {
        let mut map = Map::default();
        (0..5_000).for_each(|number| map.insert(thing(number, 1)));
        assert!(matches!(map.root, Node::Branch(_)));
        (0..5_000).for_each(|number| map.remove(number.to_string()));
        assert!(matches!(map.root, Node::Empty));
    }

    #[test]
    fn a_change_of_what_nobody_shares_is_made_in_place() {
        let mut map = Map::default();
        map.insert(thing(1, 1));
        let place = std::ptr::from_ref(map.get("1").expect("just put in"));
        map.insert(thing(1, 2));
        assert_eq!(std::ptr::from_ref(map.get("1").expect("still there")), place);
        let clone = map.clone();
        map.insert(thing(1, 3));
        assert_eq!((clone.get("1"), map.get("1")), (Some(&thing(1, 2)), Some(&thing(1, 3))));
    }
}

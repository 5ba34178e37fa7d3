//! A persistent map of records, each a name and some bytes.
//!
//! A trie over the bits of a keyed hash. A leaf is one allocation with whole records in it, one
//! behind the other: there are no pointers to records, and no counters in them. So a record takes
//! little more than its own bytes, and finding one reads two or three places of memory that lie
//! side by side. A change copies one leaf, which is mostly less than a kilobyte, and the branches
//! above it that somebody shares.
//!
//! ```text
//! leaf:   counts | 24 tags | ends u32, u32, ... | record, record, ...
//! record: bytes of the name u8, or 255 and u32 | name | content
//! ```
//!
//! A tag is a byte of a record's hash, to find the one worth a look. The first of the ends is where
//! the first record begins, the others are where each one ends.
//!
//! Why not `imbl`'s hash map, as for groups: its leaves have room for 16 or 32 entries whether they
//! are filled or not, and hold pointers, of which each change copies a leaf's worth with their
//! counters. Measured with pointers to topics, it took 55 to 190 bytes for each, by how many there
//! are. What would change our mind: leaves of fitting size there, which own their entries.

mod remains;

use std::fmt;
use std::hash::BuildHasher;
use std::hint::black_box;
use std::slice;
use std::sync::Arc;

use ahash::RandomState;
use smallvec::SmallVec;
use triomphe::ThinArc;

pub use remains::Remains;

/// Bits of the hash that choose a branch's child.
const LEVEL_BITS: u32 = 2;
/// Children of a branch.
const FAN: usize = 1 << LEVEL_BITS;
/// Levels that a hash has bits for.
const LEVELS: u32 = u64::BITS / LEVEL_BITS;
/// Most records in a leaf; only at the last level, with equal hashes, there can be more.
const LEAF_MAX: usize = 24;
/// Most bytes in a leaf of more than one record, but for the same exception: what one change
/// copies.
const LEAF_BYTES_MAX: usize = 4096;

/// How many names [`NameMap::fetch`] follows side by side: about as many loads as a core has under
/// way at a time.
const SIDE_BY_SIDE: usize = 16;

/// Levels that a [`Place`] has bits for.
const PLACE_LEVELS: u32 = 24 / LEVEL_BITS;

/// Levels above the parts of a map.
const PART_LEVELS: u32 = 5;
/// Into how many parts a map can be divided, of about equal size if it is large.
pub const PARTS: u64 = 1 << (PART_LEVELS * LEVEL_BITS);

/// Bytes of a number in a leaf.
const NUMBER: usize = size_of::<u32>();
/// Stands where a record has the length of its name, if that is in the four bytes behind.
const LONG: u8 = u8::MAX;

/// Where a record of one map is: its hash's lowest three bytes and the highest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place([u8; 4]);

/// A name and what is kept under it, lying in a map or in an [`OwnRecord`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub(super) name: &'a [u8],
    pub(super) content: &'a [u8],
}

/// A record by itself, as it lies in a leaf.
#[derive(Clone, Debug)]
pub struct OwnRecord(SmallVec<[u8; 128]>);

impl OwnRecord {
    /// A record whose content is still to be [put](OwnRecord::put) behind.
    pub fn named(name: &[u8]) -> OwnRecord {
        let mut bytes = SmallVec::new();
        match u8::try_from(name.len()) {
            Ok(length) if length != LONG => bytes.push(length),
            _ => {
                bytes.push(LONG);
                bytes.extend_from_slice(&number(name.len()).to_le_bytes());
            }
        }
        bytes.extend_from_slice(name);
        OwnRecord(bytes)
    }

    /// Appends to the content.
    pub fn put(&mut self, content: &[u8]) {
        self.0.extend_from_slice(content);
    }

    /// Its parts.
    pub fn get(&self) -> Record<'_> {
        Record::in_bytes(&self.0)
    }
}

impl<'a> Record<'a> {
    #[inline]
    fn in_bytes(bytes: &'a [u8]) -> Record<'a> {
        let (&length, rest) = bytes.split_first().expect("a record begins with a length");
        let (length, rest) = match length {
            LONG => {
                let (length, rest) = rest.split_first_chunk().expect("a long length is there");
                (u32::from_le_bytes(*length) as usize, rest)
            }
            short => (usize::from(short), rest),
        };
        let (name, content) = rest.split_at(length);
        Record { name, content }
    }

    /// The same by itself.
    pub fn to_owned(self) -> OwnRecord {
        let mut own = OwnRecord::named(self.name);
        own.put(self.content);
        own
    }
}

/// Records by name. Cloning it copies pointers only. Hashing is keyed, since names come from peers.
#[derive(Clone)]
pub struct NameMap<S = RandomState> {
    root: Node,
    len: usize,
    hasher: S,
}

#[derive(Clone)]
enum Node {
    Empty,
    Leaf(Leaf),
    Branch(Arc<[Node; FAN]>),
}

/// Records with the tags of the first [`LEAF_MAX`] of them.
#[derive(Clone)]
struct Leaf(ThinArc<[u8; LEAF_MAX], u8>);

/// The records of a leaf to be made, with their tags.
type Parts<'a> = SmallVec<[(u8, &'a [u8]); LEAF_MAX + 1]>;

impl<S: BuildHasher> NameMap<S> {
    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The record called `name`.
    #[must_use]
    #[inline]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<Record<'_>> {
        let name = name.as_ref();
        let hash = self.hasher.hash_one(name);
        let (mut node, mut level) = (&self.root, 0);
        loop {
            match node {
                Node::Empty => return None,
                Node::Leaf(leaf) => {
                    return leaf.find(tag(hash), |record| record.name == name).map(|(_, it)| it);
                }
                Node::Branch(children) => node = &children[child(hash, level)],
            }
            level += 1;
        }
    }

    /// Gets what [`NameMap::get`] will read for these names into the caches; it changes nothing.
    ///
    /// In a large map most of a look-up is waiting for memory, several times in a row. Here all
    /// names go down the map in step, so that the core waits for their loads together.
    pub fn fetch(&self, names: &[&[u8]]) {
        for names in names.chunks(SIDE_BY_SIDE) {
            let mut hashes = [0; SIDE_BY_SIDE];
            for (hash, name) in hashes.iter_mut().zip(names) {
                *hash = self.hasher.hash_one(name);
            }
            black_box(self.fetch_hashes(&hashes[..names.len()]));
        }
    }

    /// Each loop is over loads that do not depend on each other, nor on a guess that could turn out
    /// wrong before they have come. Returns how many records were fetched.
    fn fetch_hashes(&self, hashes: &[u64]) -> usize {
        let mut nodes = [&self.root; SIDE_BY_SIDE];
        let (mut level, mut is_deeper) = (0, true);
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
        // The first record of that tag is mostly the one; if not, it is found without help.
        let found = leaves.filter_map(|(leaf, tag)| Some(leaf.bytes_of(leaf.first_of(tag)?)));
        let found: SmallVec<[&[u8]; SIDE_BY_SIDE]> = found.collect();
        let ends = found.iter().filter_map(|bytes| Some(bytes.first()? ^ bytes.last()?));
        black_box(ends.fold(0, |seen, end| seen ^ end));
        found.len()
    }

    /// Where a record called `name` is, now or once it is put in. Much shorter than a name.
    #[must_use]
    pub fn place(&self, name: impl AsRef<[u8]>) -> Place {
        let [first, second, third, .., last] = self.hasher.hash_one(name.as_ref()).to_le_bytes();
        Place([first, second, third, last])
    }

    /// The record at `place` that is `wanted`.
    pub fn find(&self, place: Place, wanted: impl Fn(&Record<'_>) -> bool) -> Option<Record<'_>> {
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
            Node::Leaf(leaf) => leaf.find(tag(hash), wanted).map(|(_, record)| record),
            // More than 2^24 leaves, or equal hashes.
            deeper => Iter::of(deeper).find(wanted),
        }
    }

    /// The records of one part of [`PARTS`], numbered from 0: each record is in one.
    #[must_use]
    pub fn part(&self, part: u64) -> Iter<'_> {
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

    /// Puts a record in, in the place of the one that has its name.
    pub fn insert(&mut self, record: OwnRecord) {
        let (name, bytes) = (record.get().name, &record.0[..]);
        let hash = self.hasher.hash_one(name);
        let (mut node, mut level) = (&mut self.root, 0);
        loop {
            match node {
                Node::Empty => {
                    *node = Node::Leaf(Leaf::new(&[(tag(hash), bytes)]));
                    self.len += 1;
                    return;
                }
                Node::Leaf(leaf) => {
                    let old = leaf.find(tag(hash), |old| old.name == name).map(|(at, _)| at);
                    if leaf.has_room(old, bytes) || level == LEVELS {
                        self.len += usize::from(old.is_none());
                        return leaf.put(old, tag(hash), bytes);
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

    /// Takes out the record called `name`, if it is there.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) {
        let name = name.as_ref();
        if self.get(name).is_some() {
            self.root.remove(self.hasher.hash_one(name), 0, name);
            self.len -= 1;
        }
    }
}

impl<S: Default> Default for NameMap<S> {
    fn default() -> NameMap<S> {
        NameMap { root: Node::Empty, len: 0, hasher: S::default() }
    }
}

impl<S> NameMap<S> {
    /// All records, in the order of their hashes.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter::of(&self.root)
    }
}

impl<S> fmt::Debug for NameMap<S> {
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

fn number(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("names and records are parts of frames")
}

impl Leaf {
    fn new(parts: &[(u8, &[u8])]) -> Leaf {
        let mut tags = [0; LEAF_MAX];
        let mut all: SmallVec<[u8; LEAF_BYTES_MAX]> = SmallVec::new();
        let mut end = (parts.len() + 1) * NUMBER;
        all.extend_from_slice(&number(end).to_le_bytes());
        for (at, (tag, bytes)) in parts.iter().enumerate() {
            if let Some(place) = tags.get_mut(at) {
                *place = *tag;
            }
            end += bytes.len();
            all.extend_from_slice(&number(end).to_le_bytes());
        }
        parts.iter().for_each(|(_, bytes)| all.extend_from_slice(bytes));
        Leaf(ThinArc::from_header_and_slice(tags, &all))
    }

    #[inline]
    fn number_at(&self, at: usize) -> usize {
        let number = self.0.slice.get(at * NUMBER..).and_then(<[u8]>::first_chunk);
        u32::from_le_bytes(*number.expect("a leaf has one end more than records")) as usize
    }

    /// Records in it.
    #[inline]
    fn len(&self) -> usize {
        self.number_at(0) / NUMBER - 1
    }

    #[inline]
    fn bytes_of(&self, at: usize) -> &[u8] {
        &self.0.slice[self.number_at(at)..self.number_at(at + 1)]
    }

    /// The records with their tags. A leaf of more than [`LEAF_MAX`] is at the last level: all have
    /// the same hash, so those without a tag have the tag of the others.
    fn parts(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let tags = &self.0.header.header;
        let tags = tags.iter().chain(std::iter::repeat(&tags[0])).copied();
        tags.zip((0..self.len()).map(|at| self.bytes_of(at)))
    }

    /// A bit for each of the first [`LEAF_MAX`] records, or for room, that may have this tag.
    /// Compares eight tags at a time; a borrow can make one look equal that is not.
    #[inline]
    fn likely(&self, tag: u8) -> impl Iterator<Item = usize> {
        const LOW: u64 = 0x0101_0101_0101_0101;
        const HIGH: u64 = LOW << 7;
        let (words, _) = self.0.header.header.as_chunks::<8>();
        words.iter().enumerate().flat_map(move |(word, tags)| {
            let differs = u64::from_le_bytes(*tags) ^ (LOW * u64::from(tag));
            let mut equal = differs.wrapping_sub(LOW) & !differs & HIGH;
            std::iter::from_fn(move || {
                let at = word * 8 + equal.trailing_zeros() as usize / 8;
                let is_left = equal != 0;
                equal &= equal.wrapping_sub(1);
                is_left.then_some(at)
            })
        })
    }

    /// The first record that may have this tag.
    #[inline]
    fn first_of(&self, tag: u8) -> Option<usize> {
        self.likely(tag).next().filter(|at| *at < self.len())
    }

    /// The record with this tag that is `wanted`, and where it is.
    #[inline]
    fn find(&self, tag: u8, wanted: impl Fn(&Record<'_>) -> bool) -> Option<(usize, Record<'_>)> {
        let len = self.len();
        let at = |at: usize| Some((at, Record::in_bytes(self.bytes_of(at))));
        let is_wanted = |(_, record): &(usize, Record<'_>)| wanted(record);
        let tagged = self.likely(tag).take_while(|at| *at < len);
        let mut all = tagged.filter_map(at);
        all.find(is_wanted).or_else(|| (LEAF_MAX..len).filter_map(at).find(is_wanted))
    }

    /// Whether `new` may be put in, in the place of the record at `old` if there is one.
    fn has_room(&self, old: Option<usize>, new: &[u8]) -> bool {
        let (len, bytes) = match old {
            Some(at) => (self.len(), self.0.slice.len() - self.bytes_of(at).len()),
            None => (self.len() + 1, self.0.slice.len() + NUMBER),
        };
        let bytes = bytes + new.len();
        len == 1 || (len <= LEAF_MAX && bytes <= LEAF_BYTES_MAX)
    }

    /// Puts `new` in: where `old` is, in place if it is as long and nobody shares the leaf; or at
    /// the end.
    fn put(&mut self, old: Option<usize>, tag: u8, new: &[u8]) {
        if let Some(at) = old
            && self.bytes_of(at).len() == new.len()
        {
            let start = self.number_at(at);
            let is_done = self.0.with_arc_mut(|leaf| {
                let own = triomphe::Arc::get_mut(leaf);
                let place = own.map(|own| &mut own.slice_mut()[start..start + new.len()]);
                place.map(|place| place.copy_from_slice(new)).is_some()
            });
            if is_done {
                return;
            }
        }
        *self = self.with(old, tag, new);
    }

    /// The leaf with `new` where `old` is, or at the end. What lies before and behind it is copied
    /// as a whole.
    fn with(&self, old: Option<usize>, tag: u8, new: &[u8]) -> Leaf {
        let (len, bytes) = (self.len(), &self.0.slice);
        let at = old.unwrap_or(len);
        let before = &bytes[self.number_at(0)..self.number_at(at)];
        let behind = &bytes[self.number_at(old.map_or(at, |at| at + 1))..];
        let mut all: SmallVec<[u8; LEAF_BYTES_MAX]> = SmallVec::new();
        // The ends before that of `new`, its own, and those behind, which move as the last one.
        let start = (len + 1 + usize::from(old.is_none())) * NUMBER;
        let earlier = (0..=at).map(|at| start + self.number_at(at) - self.number_at(0));
        let own_end = start + before.len() + new.len();
        let later =
            (at + 2..=len).map(|at| own_end + behind.len() - (bytes.len() - self.number_at(at)));
        let own_end = std::iter::once(own_end);
        earlier.chain(own_end).chain(later).for_each(|end| {
            all.extend_from_slice(&number(end).to_le_bytes());
        });
        [before, new, behind].iter().for_each(|part| all.extend_from_slice(part));
        let mut tags = self.0.header.header;
        if let Some(place) = tags.get_mut(at) {
            *place = tag;
        }
        Leaf(ThinArc::from_header_and_slice(tags, &all))
    }

    /// A branch with the records of a leaf at `level`.
    fn split(&self, hasher: &impl BuildHasher, level: u32) -> Node {
        let mut shares: [Parts<'_>; FAN] = Default::default();
        for (tag, bytes) in self.parts() {
            let hash = hasher.hash_one(Record::in_bytes(bytes).name);
            shares[child(hash, level)].push((tag, bytes));
        }
        Node::Branch(Arc::new(shares.map(|share| Node::of(&share))))
    }
}

impl Node {
    fn of(parts: &[(u8, &[u8])]) -> Node {
        if parts.is_empty() { Node::Empty } else { Node::Leaf(Leaf::new(parts)) }
    }

    /// Takes out a record that is there.
    fn remove(&mut self, hash: u64, level: u32, name: &[u8]) {
        match self {
            Node::Empty => {}
            Node::Leaf(leaf) => {
                let parts = leaf.parts();
                let others = parts.filter(|(_, bytes)| Record::in_bytes(bytes).name != name);
                let others: Parts<'_> = others.collect();
                let left = Node::of(&others);
                drop(others);
                *self = left;
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
fn joined(children: &[Node; FAN]) -> Option<Node> {
    let mut all = Parts::new();
    let mut bytes = 0;
    for node in children {
        match node {
            Node::Empty => {}
            Node::Leaf(leaf) => {
                bytes += leaf.0.slice.len();
                all.extend(leaf.parts());
                if all.len() > LEAF_MAX / 2 || bytes > LEAF_BYTES_MAX / 2 {
                    return None;
                }
            }
            Node::Branch(_) => return None,
        }
    }
    Some(Node::of(&all))
}

impl<'a> Iter<'a> {
    fn of(node: &'a Node) -> Iter<'a> {
        let nodes = SmallVec::from_iter([slice::from_ref(node).iter()]);
        Iter { nodes, leaf: None }
    }
}

/// See [`NameMap::iter`].
pub struct Iter<'a> {
    /// Nodes to be visited, a level each.
    nodes: SmallVec<[slice::Iter<'a, Node>; 16]>,
    /// The leaf being visited, and its next record.
    leaf: Option<(&'a Leaf, usize)>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            if let Some((leaf, at)) = &mut self.leaf
                && *at < leaf.len()
            {
                *at += 1;
                return Some(Record::in_bytes(leaf.bytes_of(*at - 1)));
            }
            match self.nodes.last_mut()?.next() {
                None => drop(self.nodes.pop()),
                Some(Node::Empty) => {}
                Some(Node::Leaf(leaf)) => self.leaf = Some((leaf, 0)),
                Some(Node::Branch(children)) => self.nodes.push(children.iter()),
            }
        }
    }
}

#[cfg(test)]
mod tests;

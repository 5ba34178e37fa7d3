//! Freeing a map of very many things in steps.

use std::fmt;
use std::sync::Arc;

use triomphe::ThinArc;

use super::{NameMap, Node};

/// What is left of a map that nobody needs any more. Dropping it frees the rest at once.
pub struct Remains<T> {
    nodes: Vec<Node<T>>,
}

impl<T, S> NameMap<T, S> {
    /// Takes the map apart, to be freed in steps.
    pub fn dismantle(self) -> Remains<T> {
        Remains { nodes: vec![self.root] }
    }
}

impl<T> Remains<T> {
    /// Frees about `things` of what no other map has; whether nothing is left.
    pub fn step(&mut self, things: usize) -> bool {
        let mut freed = 0;
        while freed < things
            && let Some(node) = self.nodes.pop()
        {
            // Letting go of what another map has, too, costs about as much as freeing a thing.
            freed += 1;
            match node {
                Node::Empty => {}
                Node::Leaf(leaf) if ThinArc::strong_count(&leaf.0) > 1 => {}
                Node::Leaf(leaf) => freed += leaf.0.slice.len(),
                Node::Branch(children) => {
                    self.nodes.extend(Arc::into_inner(children).into_iter().flatten());
                }
            }
        }
        self.nodes.is_empty()
    }
}

impl<T> fmt::Debug for Remains<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remains").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Named;
    use super::*;

    /// A thing that can be counted.
    #[derive(Clone)]
    struct Thing(Arc<str>);

    impl Named for Thing {
        fn name(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }

    #[test]
    fn what_another_map_has_stays_and_the_rest_is_freed_a_few_at_a_time() {
        let names: Vec<Arc<str>> = (0..2_000).map(|n: u32| n.to_string().into()).collect();
        let mut map: NameMap<Thing> = NameMap::default();
        names.iter().for_each(|name| map.insert(Thing(name.clone())));
        let old = map.clone();
        let (gone, kept) = names.split_at(1_000);
        gone.iter().for_each(|name| map.remove(name.as_bytes()));
        let alive = |names: &[Arc<str>]| names.iter().filter(|n| Arc::strong_count(n) > 1).count();
        assert_eq!((alive(gone), alive(kept)), (1_000, 1_000));
        let mut remains = old.dismantle();
        let (mut steps, mut before) = (0, 1_000);
        while !remains.step(100) {
            let now = alive(gone);
            // A leaf has up to 24 things, and is freed whole.
            assert!(before - now <= 100 + 24, "{} in one step", before - now);
            (steps, before) = (steps + 1, now);
        }
        assert!(steps >= 8, "{steps} steps");
        assert_eq!((alive(gone), alive(kept)), (0, 1_000));
        assert!(kept.iter().all(|name| map.get(name.as_bytes()).is_some()));
    }
}

//! Freeing a map of very many records in steps.

use std::fmt;
use std::sync::Arc;

use super::{NameMap, Node};

/// What is left of a map that nobody needs any more. Dropping it frees the rest at once.
pub struct Remains {
    nodes: Vec<Node>,
}

impl<S> NameMap<S> {
    /// Takes the map apart, to be freed in steps.
    pub fn dismantle(self) -> Remains {
        Remains { nodes: vec![self.root] }
    }
}

impl Remains {
    /// Lets go of so many nodes, each with the records of a leaf, and frees those that no other map
    /// has; whether nothing is left.
    pub fn step(&mut self, nodes: usize) -> bool {
        for _ in 0..nodes {
            match self.nodes.pop() {
                None => return true,
                Some(Node::Empty | Node::Leaf(_)) => {}
                Some(Node::Branch(children)) => {
                    self.nodes.extend(Arc::into_inner(children).into_iter().flatten());
                }
            }
        }
        self.nodes.is_empty()
    }
}

impl fmt::Debug for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remains").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use triomphe::ThinArc;

    use super::super::OwnRecord;
    use super::*;

    /// Leaves below a node that something else has, too.
    fn shared(node: &Node) -> usize {
        match node {
            Node::Empty => 0,
            Node::Leaf(leaf) => usize::from(ThinArc::strong_count(&leaf.0) > 1),
            Node::Branch(children) if Arc::strong_count(children) > 1 => 1,
            Node::Branch(children) => children.iter().map(shared).sum(),
        }
    }

    #[test]
    fn what_another_map_has_stays_and_the_rest_is_freed_a_few_at_a_time() {
        let names: Vec<String> = (0..2_000).map(|n: u32| n.to_string()).collect();
        let mut map: NameMap = NameMap::default();
        names.iter().for_each(|name| map.insert(OwnRecord::named(name.as_bytes())));
        let old = map.clone();
        let (gone, kept) = names.split_at(100);
        gone.iter().for_each(|name| map.remove(name.as_bytes()));
        assert!(shared(&map.root) > 0, "the two maps have something in common");
        let mut remains = old.dismantle();
        let mut steps = 0;
        while !remains.step(10) {
            steps += 1;
        }
        assert!(steps >= 8, "{steps} steps");
        assert_eq!(shared(&map.root), 0, "nothing holds what the old map had");
        assert!(gone.iter().all(|name| map.get(name.as_bytes()).is_none()));
        assert!(kept.iter().all(|name| map.get(name.as_bytes()).is_some()));
    }
}

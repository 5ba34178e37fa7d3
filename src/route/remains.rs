//! Freeing a view in steps: what a large change replaced is as much as the change.

use super::name_map::Remains;
use super::view::RouteView;

/// What is left of a view that nobody looks at any more.
#[derive(Debug)]
pub struct ViewRemains(Remains);

impl RouteView {
    /// Takes the view apart: all but its topics is freed now.
    #[must_use]
    pub fn dismantle(self) -> ViewRemains {
        ViewRemains(self.topics.dismantle())
    }
}

impl ViewRemains {
    /// Lets go of so many parts of the map of topics, each of a few dozen topics at most, and frees
    /// what no other view has; whether all is done.
    pub fn step(&mut self, parts: usize) -> bool {
        self.0.step(parts)
    }
}

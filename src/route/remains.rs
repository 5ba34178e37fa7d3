//! Freeing a view in steps: what a large change replaced is as much as the change.

use super::name_map::Remains;
use super::topic::TopicRoute;
use super::view::RouteView;

/// What is left of a view that nobody looks at any more.
#[derive(Debug)]
pub struct ViewRemains(Remains<TopicRoute>);

impl RouteView {
    /// Takes the view apart: all but its topics is freed now.
    #[must_use]
    pub fn dismantle(self) -> ViewRemains {
        ViewRemains(self.topics.dismantle())
    }
}

impl ViewRemains {
    /// Frees about so many topics, fewer where other views share them; whether all are freed.
    pub fn step(&mut self, topics: usize) -> bool {
        self.0.step(topics)
    }
}

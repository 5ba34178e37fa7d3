//! The one place that makes a new [`View`] visible, and the only way to see it.
//!
//! One root is published, never its parts, so that an answer never mixes moments. Readers hold no
//! lock: each keeps an [`arc_swap::Cache`] and compares one pointer a batch.

use std::collections::VecDeque;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::config::settings::Settings;
use crate::ids::Generation;
use crate::kv::KvView;
use crate::route::{RouteView, ViewRemains};

/// Parts of a view that are freed at a time, some tenths of a millisecond.
const PARTS_FREED: usize = 1024;
/// Views that are freed in pieces at a time. When more come, whoever changes the tables is faster
/// than the freeing; then the oldest is freed at once.
const REMAINS_MAX: usize = 8;

/// Everything a reader can see, frozen at one moment.
#[derive(Debug, Default)]
pub struct View {
    /// Grows by one with each publication.
    pub generation: Generation,
    /// Topics, brokers, clusters.
    pub routes: RouteView,
    /// The KV table as it is on disk.
    pub kv: KvView,
    /// The settings that can change while the server runs.
    pub settings: Arc<Settings>,
}

/// Makes views visible. Lives: writer core only; not `Clone`, so there is one.
#[derive(Debug)]
pub struct Publisher {
    root: Arc<ArcSwap<View>>,
    /// Views that a reader may still hold. They are dropped here, on the writer's core, never by a
    /// reader.
    retired: Vec<Arc<View>>,
    /// Views that nobody holds, being freed. At most [`REMAINS_MAX`], the oldest first.
    remains: VecDeque<ViewRemains>,
    generation: Generation,
}

impl Publisher {
    /// Publishes `first` as generation 0 and returns the publisher with a factory of readers.
    #[must_use]
    pub fn new(first: View) -> (Publisher, Readers) {
        let root = Arc::new(ArcSwap::from_pointee(first));
        let readers = Readers { root: Arc::clone(&root) };
        let (retired, remains) = (Vec::new(), VecDeque::new());
        (Publisher { root, retired, remains, generation: Generation(0) }, readers)
    }

    /// Makes a view of the three parts visible to every reader.
    ///
    /// `ArcSwap::swap` is sequentially consistent: whoever is told of the publication afterwards
    /// (an acknowledgement through a shard's post box) finds this view or a later one when its
    /// cache next compares pointers.
    pub fn publish(
        &mut self,
        routes: RouteView,
        kv: KvView,
        settings: Arc<Settings>,
    ) -> Generation {
        self.generation = Generation(self.generation.0 + 1);
        let view = View { generation: self.generation, routes, kv, settings };
        self.retired.push(self.root.swap(Arc::new(view)));
        self.retire();
        self.generation
    }

    /// Frees a piece of the retired views that nobody holds any more. Called with each publication
    /// and by housekeeping.
    pub fn retire(&mut self) {
        // Nobody can take hold of a replaced view again.
        for view in self.retired.extract_if(.., |view| Arc::strong_count(view) == 1) {
            let view = Arc::into_inner(view);
            self.remains.extend(view.map(|view| view.routes.dismantle()));
        }
        while self.remains.len() > REMAINS_MAX {
            self.remains.pop_front();
        }
        // The newest first: after a small change it is freed at once, and does not wait for what a
        // large one left.
        while self.remains.back_mut().is_some_and(|newest| newest.step(PARTS_FREED)) {
            self.remains.pop_back();
        }
    }

    /// Takes a copy of routes that its holder is done with, to be freed as a retired view's are.
    pub fn discard(&mut self, routes: RouteView) {
        self.remains.push_back(routes.dismantle());
    }

    /// Whether [`Publisher::retire`] has more to free at once.
    #[must_use]
    pub fn is_freeing(&self) -> bool {
        !self.remains.is_empty()
    }

    /// Views that were replaced but are still held by a reader.
    #[must_use]
    pub fn retired(&self) -> usize {
        self.retired.len()
    }
}

/// Makes readers, one for each shard.
#[derive(Clone, Debug)]
pub struct Readers {
    root: Arc<ArcSwap<View>>,
}

impl Readers {
    /// A reader of its own for one thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader { cache: Cache::new(Arc::clone(&self.root)) }
    }
}

/// Sees the newest view. Lives: one per shard, never leaves it.
#[derive(Debug)]
pub struct Reader {
    cache: Cache<Arc<ArcSwap<View>>, Arc<View>>,
}

impl Reader {
    /// Runs `look` on the newest view. No guard escapes, so no view can be held across an await.
    pub fn with<T>(&mut self, look: impl FnOnce(&View) -> T) -> T {
        look(self.cache.load())
    }
}

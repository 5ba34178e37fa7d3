//! The one place that makes a new [`View`] visible, and the only way to see it.
//!
//! One root is published, never its parts, so that an answer never mixes moments. Readers hold no
//! lock: each keeps an [`arc_swap::Cache`] and compares one pointer a batch.

use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};

use crate::config::settings::Settings;
use crate::ids::Generation;
use crate::kv::KvView;
use crate::route::RouteView;

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
    generation: Generation,
}

impl Publisher {
    /// Publishes `first` as generation 0 and returns the publisher with a factory of readers.
    #[must_use]
    pub fn new(first: View) -> (Publisher, Readers) {
        let root = Arc::new(ArcSwap::from_pointee(first));
        let readers = Readers { root: Arc::clone(&root) };
        (Publisher { root, retired: Vec::new(), generation: Generation(0) }, readers)
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

    /// Drops retired views that nobody holds any more. Called with each publication and by
    /// housekeeping.
    pub fn retire(&mut self) {
        self.retired.retain(|view| Arc::strong_count(view) > 1);
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

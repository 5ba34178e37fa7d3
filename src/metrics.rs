//! What a shard counts. One core writes each set, anybody reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crossbeam::utils::CachePadded;

/// A number with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. To be called by the owning core alone.
    pub fn add(&self, count: u64) {
        // Relaxed, and no read-modify-write: one core writes this counter, others only want a
        // recent value.
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Sets a gauge. To be called by the owning core alone.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// A recent value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! shard_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one shard. Lives: one per shard. Shares: readers anywhere.
        #[derive(Debug, Default)]
        pub struct ShardCounters { $($(#[$doc])* pub $name: Counter,)* }

        /// The counters of all shards together, at one moment or nearly so.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Snapshot { $($(#[$doc])* pub $name: u64,)* }

        /// Adds up what the shards have counted.
        #[must_use]
        pub fn snapshot(shards: &[Arc<CachePadded<ShardCounters>>]) -> Snapshot {
            let mut sum = Snapshot::default();
            for counters in shards {
                $(sum.$name = sum.$name.wrapping_add(counters.$name.get());)*
            }
            sum
        }
    };
}

shard_counters! {
    /// Connections accepted and served.
    accepted,
    /// Connections closed as soon as they were accepted: the shard was full.
    refused,
    /// Times that accepting failed for want of a resource.
    accept_failed,
    /// Connections open now (a gauge).
    open,
    /// Connections that the peer closed or reset.
    closed_by_peer,
    /// Of these: connections that never sent a byte, as load balancers' probes do.
    probes,
    /// Connections closed for silence.
    closed_idle,
    /// Connections closed for a frame or header that cannot be read.
    closed_malformed,
    /// Connections closed because the peer speaks another protocol.
    closed_foreign,
    /// Connections closed for a PROXY header that is malformed or not allowed.
    closed_proxy,
    /// Connections closed because they were not TLS, which `tls.server.mode` enforces.
    closed_plain,
    /// Connections closed for a TLS handshake or record that was refused, or took too long.
    closed_tls,
    /// Connections closed because their broker had been silent for too long.
    closed_expired,
    /// Connections closed because the shard's connections held too many bytes, and these the most.
    closed_over_budget,
    /// Connections closed by the shutdown.
    closed_shutdown,
    /// TLS handshakes done.
    tls_handshakes,
    /// Frames served.
    requests,
    /// Bytes received.
    bytes_in,
    /// Bytes sent.
    bytes_out,
    /// Batches of events.
    batches,
    /// Times the shard slept.
    sleeps,
    /// Times that reading from a connection was stopped: it was owed or did not read too much.
    pauses,
    /// Answers of the writer whose connection was gone.
    answers_stale,
    /// Requests refused because `adminFrom` or `brokerFrom` does not name their peer.
    forbidden,
    /// Requests answered "busy" because the writer's lane was full.
    writer_busy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_shards_count_in_one_cache_line() {
        let shards: Vec<Arc<CachePadded<ShardCounters>>> = (0..8).map(|_| Arc::default()).collect();
        let bytes = size_of::<CachePadded<ShardCounters>>();
        // Pairs of lines are fetched together, and the count of owners stands in front.
        assert_eq!((align_of::<CachePadded<ShardCounters>>(), bytes % 128), (128, 0));
        let mut places: Vec<usize> =
            shards.iter().map(|shard| (&raw const ***shard).addr()).collect();
        places.sort_unstable();
        assert!(places.iter().all(|place| place % 128 == 0));
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= bytes + 128), "{places:?}");
    }

    #[test]
    fn a_snapshot_adds_up_the_shards() {
        let shards: Vec<Arc<CachePadded<ShardCounters>>> = (0..3).map(|_| Arc::default()).collect();
        for (shard, count) in shards.iter().zip(1..) {
            shard.requests.add(count);
            shard.requests.add(10);
            shard.open.set(count);
        }
        let sum = snapshot(&shards);
        assert_eq!((sum.requests, sum.open, sum.accepted), (36, 6, 0));
    }
}

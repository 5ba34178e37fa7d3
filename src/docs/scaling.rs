//! More than one shard: what they share, what it costs, and where it ends.
//!
//! # What two shards write together
//!
//! For a route query: nothing. A query touches its connection, its shard's ring and counters, and
//! reads the view. What is shared at all, by how often it is written:
//!
//! | Shared | Written by | Read with | Cost to a shard, each time |
//! |---|---|---|---|
//! | Pointer to the view ([`crate::publish`]) | each publication | each batch | one miss |
//! | The view's count of owners | a publication, by each shard | - | one atomic add a publication |
//! | The view's nodes | never once published | each query | misses only on what changed |
//! | Body budget ([`crate::writer::lane`]) | a request to the writer | each batch | one miss |
//! | Stop switch ([`crate::shard::shutdown`]) | once, at the end | each batch | none |
//! | Next request's number ([`crate::writer::lane`]) | the same | the writer | one atomic add |
//! | A lane's ends | its shard, the writer | its shard, the writer | none to other shards |
//! | A shard's counters ([`crate::metrics`]) | their shard | the report, every ten minutes | none |
//! | A doorbell's state | whoever rings, its owner | the same | none to other shards |
//!
//! Everything written stands in a line of its own (padded to 128 bytes, as processors fetch lines
//! in pairs), which tests assert for counters and lanes. There is no lock that two shards take. The
//! view's own nodes carry counts of owners. A query borrows from the view and counts nothing; the
//! writer does, copying a path, and of a shard's requests two: a heartbeat (twice, on names of its
//! own broker) and a short list of topics (once, on the roots).
//!
//! A publication is one pointer for all shards. Each notices it with its next batch, takes the new
//! view (one count up, one down, on lines that all shards share then), and goes on. With `s` shards
//! and `p` publications a second that is `2 * s * p` atomic operations on a line that moves from
//! core to core, at 50 to 200 ns each: 63 shards and 1 000 publications a second come to 1 to 3 %
//! of every core. The writer publishes once a batch of requests, not once a request, so `p` falls
//! as it becomes busy.
//!
//! # Sleeping
//!
//! A shard sleeps in its own ring: one system call. The executor's own sleep took fifteen, one of
//! which was `membarrier`: an interrupt to every core that runs a thread of this process. With 63
//! shards that sleep a thousand times a second each, every core would have been interrupted 63 000
//! times a second. The writer sleeps the same way, on its doorbell.
//!
//! # Measured here
//!
//! Two cores, so at most two shards, and the generator on one of them: spread can be measured, a
//! gain in throughput cannot.
//!
//! ```text
//! benches/scale shards closes connections
//! ```
//!
//! # 64 cores, two sockets: a plan
//!
//! Nothing here was measured; it is what the design gives, and what to look at first.
//!
//! **One process a socket.** NameServers do not know each other, and every client and broker takes
//! a list of them. So two processes, each bound to one socket's cores and memory (`numactl
//! --cpunodebind=0 --membind=0`) with an address of its own, have nothing between them at all, at
//! the price of each broker registering twice (which it does with two NameServers anyway). This is
//! what we would run.
//!
//! **One process over both** works, and these things cross between the sockets:
//!
//! * The view, which lies in the memory of the writer's socket. A query on the other socket misses
//!   its caches on a path of about six nodes (less for topics in use): some 0.1 us each, so up to
//!   half a microsecond a query with a million topics, against four in the kernel.
//! * Publications: the pointer and the count of owners above, at the higher of the two costs.
//! * Requests to the writer and their answers: bodies are read by the writer where the shard
//!   received them.
//!
//! **Connections to cores.** The kernel hashes connections over the shards' listeners
//! (`SO_REUSEPORT`), evenly to within the square root of their number. The network card's queues
//! hash them over cores too, and otherwise: a connection's packets are then handled on one core and
//! its requests on another, a few hundred ns and two lines a packet. The first thing to try on such
//! a machine is as many queues as shards, each bound to its shard's core, and a socket filter that
//! picks the listener by the core a connection came in on (`SO_ATTACH_REUSEPORT_CBPF`).
//!
//! **Where it stops.** Queries scale with the cores: they share nothing but the kernel. What does
//! not scale is the one writer, on purpose:
//!
//! * Bytes of registrations: a core decodes 300 to 400 MB/s of changed ones, twenty times that of
//!   unchanged ones. A thousand brokers with 20 000 topics each, that register every 30 s, send 150
//!   MB/s, nearly all unchanged: a few percent of the writer. If all of them change at once, it
//!   works for ten to fifteen seconds, and queries do not notice.
//! * Small requests: each costs the writer some microseconds when they come in batches, more when
//!   it has to be woken for each.
//! * Memory: the tables exist once, whatever the number of shards.
//!
//! A shard costs 5 to 6 MiB (4 of them receive buffers) and seven descriptors: its ring, three of
//! its executor, its listener, and what wakes it.

//! What it costs, measured, with the commands that measure it again.
//!
//! The machine: a virtual one with 2 cores and 24 GiB, Linux 6.18, everything on the loopback.
//! Ratios matter, not the absolute numbers. Server and floor take turns within one run.
//!
//! # Over sockets
//!
//! One shard on core 0, the generator on core 1, 4 brokers a topic, 1000 topics, queries of 158
//! bytes, answers of 1051. CPU is the server process's own, user and system. The floor is a bare
//! epoll loop that answers with as many bytes. Medians of 5 rounds of 2 s (least to most):
//!
//! | Connections x depth | Server, us CPU | Floor, us CPU | Ratio by round | Target |
//! |---|---|---|---|---|
//! | 64 x 1 | 4.37 (4.22-4.86) | 4.03 (3.99-4.12) | 1.10 (1.04-1.18) | - |
//! | 900 x 1 | 4.37 (4.36-4.58) | 4.18 (4.16-4.20) | 1.05 (1.04-1.10) | 1.25: met |
//! | 64 x 16 | 0.73 (0.70-0.73) | 0.42 (0.41-0.45) | 1.72 (1.64-1.79) | 2: met |
//!
//! At 64 x 16 the shard answered 1.34 million queries a second on its core (target 1.2 million:
//! met). The process had 13 MiB resident with these tables.
//!
//! ```text
//! target/release/guidepost --listen-port 20876
//! target/release/loadgen compare 127.0.0.1:20876 --connections 900 --depth 1 --seconds 2 \
//!     --warmup 1 --rounds 5 --pin 1
//! ```
//!
//! # In memory
//!
//! `cargo bench --bench NAME -- --warm-up-time 0.5 --measurement-time 2`, the thread's CPU time,
//! medians with criterion's range, on the same machine with other work on it (load about 3). A pair
//! is a topic on a broker.
//!
//! | Work (`NAME`) | Target | Measured | Met |
//! |---|---|---|---|
//! | `request` hit, 4 brokers, JSON header | 300 ns | 400 ns (398-403) | no |
//! | `request` hit, 4 brokers, binary header | 300 ns | 303 ns (300-307) | just not |
//! | `request` miss, JSON header | 150 ns | 380 ns (378-383) | no |
//! | `request` miss, binary header | 150 ns | 194 ns (191-197) | no |
//! | `publish` 1 topic of 100 k x 4 brokers | 50 us | 7.6 us (7.5-7.8) | yes |
//! | `publish` 1 topic of 1 M x 4 brokers | 2 x that | 15.2 us (14.5-16.0) | yes |
//! | `register` 20 k topics, new version | 200 MB/s | 430 MB/s | yes |
//! | `register` 20 k topics, all queues new | 200 MB/s | 302 MB/s, 155 when busy | when quiet |
//! | `register` unchanged : new version | 1/20 | 1/22, 1/20 in a busier run | just |
//! | `lookup` hit at 10 k / 100 k / 1 M topics | 250 ns at 100 k | 50 / 194 / 410 ns | yes |
//! | `memory` a pair, 4 brokers, 100 k / 400 k / 1 M | 40 B | 42.6 / 40.7 / 39.5 B | nearly |
//! | `memory` a pair, 1 broker, 100 k / 1 M | 40 B | 114 / 102 B | no |
//!
//! # Where the time of a query goes, and what was missed
//!
//! Over sockets nearly all of it is the kernel's: 4.4 us against 0.3 to 0.4 us in memory. Of those,
//! decoding a JSON header is the largest part (about 3000 of 4900 instructions; a good share checks
//! short texts for UTF-8 one by one). Checking the header once would remove most of that. A topic
//! with a single broker pays for its own head and map entry, which is where the memory goes.
//! Resident memory is about twice the counted bytes; holes left by topics that grew broker by
//! broker are the likely cause, not proven.
//!
//! `tests/allocations.rs` asserts that hits, misses and heartbeats of registered brokers allocate
//! nothing. The list of 100 k topics (code 206) takes its shard 5 to 15 ms, and is not cut.
//!
//! Not measured yet: more than one shard, 18 000 connections, other NameServers in the same run,
//! queries during storms of registrations.

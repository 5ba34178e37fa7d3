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
//! | `request` hit, 4 brokers, JSON header | 300 ns | 400 ns (398-403), before | open |
//! | `request` hit, 4 brokers, binary header | 300 ns | 303 ns (300-307), before | open |
//! | `request` miss, JSON header | 150 ns | 380 ns (378-383), before | open |
//! | `request` miss, binary header | 150 ns | 194 ns (191-197), before | open |
//! | `publish` 1 topic of 100 k x 4 brokers | 50 us | 7.6 us (7.5-7.8), before | yes |
//! | `publish` 1 topic of 1 M x 4 brokers | 2 x that | 15.2 us (14.5-16.0), before | yes |
//! | `register` 20 k topics, new version | 200 MB/s | 430 MB/s, before | yes |
//! | `register` 20 k topics, all queues new | 200 MB/s | 302 MB/s, before | when quiet |
//! | `register` unchanged : new version | 1/20 | 1/22, before | open |
//! | `lookup` hit at 10 k / 100 k / 1 M topics | 250 ns at 100 k | 50 / 194 / 410 ns before | yes |
//! | `memory` a pair, 4 brokers, 100 k / 400 k / 1 M | 40 B | 42.6 / 40.7 / 39.5 B, before | open |
//! | `memory` a pair, 1 broker, 100 k / 1 M | 40 B | 114 / 102 B, before | open |
//!
//! "Before" marks figures older than the changes described below; the commands measure them anew.
//! Memory is now counted beyond the names' text alone: up to then the 16 bytes of counts that came
//! with each name were left out, too, so that 114 was 130.
//!
//! # Instructions
//!
//! `cargo bench --bench instructions` counts them with valgrind, and fails if one exceeds its bound
//! by a tenth: unlike times they can be held against a number anywhere. `.ci/run instructions` does
//! so with each change; two of its bounds are estimates still. Before: 100 k topics on 4 brokers.
//! After: that bench, 1000 topics on 4 brokers; `-` is not counted yet:
//!
//! | Work | Before | After |
//! |---|---|---|
//! | hit, JSON header | 4978 | 3475 |
//! | hit, binary header | 3521 | 2760 |
//! | miss, JSON header | 4540 | 2290 |
//! | miss, binary header | 2290 | 1314 |
//! | one-way heartbeat, JSON header | 4914 | - |
//!
//! What gave them (of 4978 for a hit):
//!
//! * The header in one pass (2515 to 1513). Short texts were checked for UTF-8 one by one, and
//!   members looked for blanks, comments and escapes that no peer writes. Now a header is checked
//!   once, and read by a reader that knows one spelling and gives up on any other
//!   (`wire/header_plain.rs`); the general reader then starts anew.
//! * The answer (1943 to 1191). A topic mostly has the same queues on all groups: the second is a
//!   copy of the first. A list is written with a comma behind each element, the last of which
//!   becomes its bracket.
//! * A miss (1225 to 180 for the reply). A template with the topic's name instead of a formatted
//!   text that was then looked through for escapes, and no answer begun before the topic is found.
//!
//! # Memory
//!
//! A topic was a pointer to a head with a counted name, 20 bytes a group, and its name once more by
//! its number. Now it is one allocation with its name in it and 6 bytes a group (`route/topic.rs`);
//! its number leads to it by 4 bytes of its hash. By layout a topic takes 24 bytes and its name and
//! 6 bytes a group there, 8 and its share of a leaf in the map, 4 to 5 by its number, about 2 in
//! each group's set: near 50 on one group, and below 20 a pair on four. The rest cannot go without
//! unsafe code: two counts of 8 bytes and a pointer of 8.
//!
//! That is arithmetic; `cargo bench --bench memory` has yet to confirm it.
//!
//! Resident memory was twice the counted bytes. The likely cause, not proven: each topic was two
//! chunks (its name another), and grew by 20 bytes with each broker, so that it always moved to a
//! chunk of another size and left a hole. With 6 bytes it should mostly stay in its size class, so
//! that the next topic fills the hole.
//!
//! # What is not met, or not cut
//!
//! Applying a registration is one piece of work, however large: 20 k changed topics hold the writer
//! for about 15 ms. Queries are not held up, as shards only read. A heartbeat behind it is late by
//! as much; brokers give it 1 s, and liveness counts from when it arrives in 120 s. Cutting it
//! means that other changes wait until it is whole or are made to a second table, which is not
//! worth 15 ms.
//!
//! Lists of more than 4096 topics (codes 206, 224, 311 to 313) are written by the writer, 2048
//! topics a turn; 100 k of them took a shard 5 to 15 ms. Their bytes are still copied by the shard,
//! 2.7 MB for 100 k names. Lists of brokers (106, 304) stay with the shard; what 1000 brokers take
//! is `answer` "cluster info, 1000 brokers".
//!
//! `tests/allocations.rs` asserts that hits, misses and heartbeats of registered brokers allocate
//! nothing.
//!
//! Not measured yet: more than one shard, 18 000 connections, other NameServers in the same run,
//! queries during storms of registrations.

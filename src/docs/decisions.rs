//! Choices, each with its date, its reason, and what would change our mind.
//!
//! **2026-11-29, sockets on a ring of our own.** glommio gives executors, pinning and timers; its
//! streams poll anew for each request and cost up to twice an epoll loop. So each shard has a ring
//! with multishot accept and receive ([`crate::ring`]). A glommio whose streams use multishot
//! receive would change this.
//!
//! **2026-11-29, shards and writer sleep in one system call of their own,** not in the executor.
//! glommio's sleep took fifteen, among them `membarrier`, which interrupts every core that runs a
//! thread of this process: with many shards each would have disturbed all others. Each executor
//! runs one task, so blocking its thread holds up nobody. A shard waits in its ring, where a poll
//! of the doorbell stands for whoever else may wake it; the writer polls its doorbell. At 20 000
//! queries a second that took a tenth to a quarter of the CPU off each. A glommio that sleeps more
//! cheaply, or a second task in an executor, would change this.
//!
//! **2026-11-29, one table for writer and readers.** The writer changes persistent maps and
//! publishes a clone of them, which shares all but the changed paths: no second copy of a million
//! topics, and publishing costs what changed. `imbl` is MPL-2.0 (used unmodified, as a library). A
//! map with cheaper look-ups and the same sharing would change this.
//!
//! **2026-11-30, topics are in a trie of our own, whose leaves own them** (`route/name_map.rs`);
//! groups and clusters are in `imbl` maps. For a million topics `imbl`'s map took 55 to 190 bytes a
//! topic, depending on their number. Before, a leaf had pointers, and each topic was an allocation
//! with a count, a length and a head of 8 bytes each; a change of one topic then touched the
//! counters of 15 others, each in a place of its own in memory. Now a leaf is one allocation with 6
//! to 24 topics in it, and a change copies their bytes, mostly less than a kilobyte and never more
//! than 4 KB of several topics. Branches have 4 children: with 16, a leaf that was split left as
//! many of one or two topics. Wider branches for the upper levels alone were not made: of a look-up
//! at a million topics the way down took a sixth, leaf and topic the rest.
//!
//! **2026-11-30, a topic takes 6 bytes for a group whose numbers are small** (`route/topic.rs`).
//! Numbers of any size fit, in a longer form. Shared values for equal queues would be shorter
//! still, but somebody would have to know when the last user is gone.
//!
//! **2026-11-30, topics are fetched ahead for all queries of a batch**
//! ([`crate::handler::fetch_ahead`]), where a fleet has 32 768 topics or more. A look-up in a large
//! table is three or four loads from memory, one after the other. Sixteen at a time, level by
//! level, wait for memory together: in memory a quarter of the time. Topics are guessed from the
//! bytes, so that the way a request is served stays one. With fewer topics there is nothing to
//! wait for. Behind TLS nothing can be guessed before it is deciphered, and nothing is fetched.
//!
//! **2026-11-29, two readers of JSON headers.** One reads the spelling of the peers in use, in one
//! pass, and gives up on all else; the other knows every rule and alone refuses. A property test
//! holds them to each other. A reader fast enough to be the only one would change this.
//!
//! **2026-11-30, a Java client's route query is spelled out in the code,** not learned by each
//! shard from what it is sent: there is nothing to forget, and nothing that a peer can fill. Other
//! clients that ask as much, in another order, would change this.
//!
//! **2026-11-29, very long lists are written by the writer,** a piece a turn, since shards have no
//! time of their own and the writer has. Kept answers would have to be made anew with each change
//! of a topic, and held in memory for nobody.
//!
//! **2026-11-30, a large change is made in steps of 512 topics** ([`crate::route::RouteTable`]),
//! some tenths of a millisecond each, so that a sign of life behind 80 000 changed topics waits for
//! one step and not for 40 ms. The steps go into the writer's own table; until they are done
//! readers keep the view of before, and other changes wait as long as they did when it was one
//! piece. That needs neither a second table nor a way to undo half of a change. Changes that must
//! not wait for each other, in a fleet of several owners, would change this.
//!
//! **2026-11-30, replaced views are freed in steps, too,** by taking their map apart: what a change
//! of 80 000 topics replaced takes 4 to 10 ms to free. A thread of its own for freeing would take a
//! core from somebody, and contend for the allocator.
//!
//! **2026-11-30, brokers whose connections close together are removed together.** A topic of four
//! brokers that all go is taken out once instead of rewritten four times.
//!
//! **2026-11-29, a repeated registration is recognised before its checksum is computed:** the
//! digest covers the body and the checksum that came with it, and that pair was found right. One
//! pass over the bytes instead of two.
//!
//! **2026-11-29, instructions are counted by callgrind** in a bench of our own, some hundred lines:
//! `iai-callgrind` and its successor need a runner of the same version installed beside valgrind.
//!
//! **2026-11-29, answers are composed, not cached.** See [`crate::route::answer`]. A cache of whole
//! answers would have to be rebuilt for every topic when one broker's address changes.
//!
//! **2026-11-29, unchanged registrations are recognised by a digest** of everything that decides
//! what they do (128 bits of XXH3 with a seed of the process), together with a counter of the
//! group's changes. Most registrations repeat the last one; they cost a pass over their bytes.
//!
//! **2026-11-29, brokers are kept by group and address.** Java's liveness table has one entry for
//! (cluster, address), so that two groups announcing one address overwrite each other's.
//!
//! **2026-11-29, a JSON reader of our own.** Brokers send integer keys without quotes, and fastjson
//! takes single quotes, numbers as texts and the last of two equal keys; `serde_json` takes none of
//! that. See [`crate::wire::json`].
//!
//! **2026-11-29, KV changes are acknowledged after the file is replaced** and only then shown.
//! Changes that wait for the disk are saved together. Java answers first and logs a failure.
//!
//! **2026-11-29, writes take effect in the order in which shards accepted them.** Each gets a
//! number from one counter when its shard takes it (reads do not), and the writer takes the
//! smallest of all lanes. So a broker that reconnects to another shard is not undone by what it
//! said before, and an unregistration not by a registration that takes longer to decode. Dropping
//! what is older than the broker's newest registration would be simpler, but an increment of one
//! topic is newer than the full registration before it without replacing it. The price: a shard
//! whose lane is full delays the others by up to a lane; before, by one request.
//!
//! **2026-11-29, the store has a thread of its own,** since `fsync` may take a second.
//!
//! **2026-11-29, a damaged KV file stops the start** instead of being replaced by its backup: only
//! a person knows which state is meant. An empty or missing one, the trace of a crash, is replaced.
//!
//! **2026-11-29, remote changes of settings are off by default.** They were the way into two
//! remote-code-execution flaws (CVE-2023-33246, CVE-2023-37582), and nothing authenticates them.
//!
//! **2026-11-29, who may change something is limited by network** (`adminFrom`, `brokerFrom`),
//! since that needs nothing of clients, brokers or tools. The default is anybody: an upgrade must
//! not shut brokers out. Whose request a code is stands in one table,
//! [`crate::wire::code::sender`]; what only reads is open to all. A signature in the header, once
//! tools send one to NameServers, would change this.
//!
//! **2026-11-29, PROXY headers are taken from anybody unless told otherwise,** as Java does. The
//! address in them is used for log lines, and for the limits above only together with the peer's
//! own, unless `proxyProtocolFrom` names the peer. They are read by our own code: 170 lines
//! without a dependency.
//!
//! **2026-11-29, a filtered route (zone mode) is in the dialect that was asked for,** and names no
//! broker that it does not describe, in mappings of static topics neither. Java encodes every
//! filtered answer in the legacy dialect and leaves the mappings whole. All known clients read
//! both.
//!
//! **2026-11-29, log rotation of our own.** `tracing-appender` cannot keep the name `namesrv.log`,
//! which scripts look for.
//!
//! **2026-11-29, notices (905) leave on one thread of their own** with non-blocking sockets, 64
//! brokers at a time and 3 s each, over a connection that is closed after sending. The writer never
//! waits, a dead broker delays nobody, and no stale connection swallows a notice. What is lost
//! costs latency only, since brokers poll (901). Fleets with more than 64 dead brokers at once, or
//! TLS towards brokers, would change this.
//!
//! **2026-11-29, TLS by rustls with its `ring` provider,** which needs a C compiler and nothing
//! else. Its unbuffered interface lets a connection at rest keep no buffer: 3.2 KB for an idle one.
//! The price is a rule that [`crate::tls`] keeps: bytes not understood yet are handed over again
//! unchanged.
//!
//! **2026-11-29, no TLS session is resumed.** Java clients never ask for it, a cache shared by all
//! shards would need a lock, and a withdrawn client certificate counts at once. Clients that do
//! resume, reconnecting by the hundred thousand, would change this.
//!
//! **2026-11-29, a certificate is loaded when it fits its key,** not when both files have changed,
//! as in Java, where a certificate renewed for the same key is never loaded. Two looks in a row,
//! half a second apart, must find the same content.
//!
//! **2026-11-29, TLS that cannot be served as configured stops the start,** also in permissive
//! mode, where Java serves plain connections alone and says so in the log. The same goes for
//! misspelt modes (Java: permissive) and for `need.client.auth=require` in test mode (Java: not
//! required). While serving, nothing in these files can stop the server.
//!
//! **2026-11-29, `tls.server.mode` may stand in the settings file and in `tls.config.file`,** which
//! wins over the settings file; flags win over both. In Java it is a system property alone. A
//! password has no flag: command lines can be seen by everybody.
//!
//! **2026-11-29, X.509 version 1 and old key encryptions are read,** because RocketMQ's own
//! description of TLS made such files for years. rustls refuses version 1; see [`crate::tls`].
//!
//! **2026-11-29, a living fleet has a loop of its own in the load generator,** beside that of plain
//! queries: its roles speak at times of their own, reconnect and check against a model that
//! changes, which the loop that measures CPU per query must not pay for. One loop for both if the
//! difference in CPU per query is below what runs differ by.
//!
//! **2026-11-29, the load generator's page is made by hand,** as SVG in one HTML file: plotting
//! libraries draw neither for light and dark alike nor for narrow windows, and bring a font
//! renderer or a script. Its live view is plain ANSI text without raw mode, so nothing needs to
//! be restored.
//!
//! **2026-11-30, the route table is kept over a restart if a file is named for it.** Java starts
//! without routes, and for up to 30 s tells clients that their topics do not exist. A restored
//! broker counts as seen at the start: it goes after its own time-out unless it speaks, and is told
//! that its data version is not known, so that it registers. Off by default, since a broker that
//! went while the server was down is shown for that long. A file older than 15 minutes, damaged, or
//! of another version is not used; it never stops the start. It is written at most every 30 s, by a
//! thread that goes last, and at a stop before connections close.
//!
//! **2026-11-29, no `unsafe` outside [`crate::ring`],** enforced by a lint and by `tests/tidy.rs`.
//!
//! # Libraries
//!
//! | Crate | For |
//! |---|---|
//! | `aes`, `cbc`, `cipher`, `des`, `rc4`, `md-5`, `sha1`, `pkcs8` | Private keys with a password |
//! | `ahash` | Keyed hashing of names that come from peers |
//! | `arc-swap` | The published view, and each shard's cached pointer to it |
//! | `base64ct`, `zeroize` | Reading PEM files, and wiping what was a key |
//! | `bytes` | Bodies handed to the writer without copying |
//! | `clap` | The command line |
//! | `crc32fast` | `bodyCrc32` |
//! | `crossbeam` | Lanes, post boxes, padded counters |
//! | `flate2` with zlib-rs | Compressed registrations |
//! | `glommio` | Executors pinned to cores, timers |
//! | `imbl` | Persistent maps |
//! | `io-uring` | The sockets' ring |
//! | `itoa`, `memchr` | Formatting numbers, finding bytes |
//! | `libc`, `rustix`, `socket2` | System calls: in the ring, for limits, for listeners |
//! | `mio` | Connections to brokers for notices, without unsafe code |
//! | `postcard`, `serde` (MIT or Apache-2.0) | The route snapshot: compact, with a written format |
//! | `rcgen` | The self-signed certificate of test mode |
//! | `roaring` | Sets of topic numbers, under two bytes an element |
//! | `rustls` | TLS |
//! | `signal-hook` | Signals |
//! | `smallvec` | Short lists without allocation: header fields, members |
//! | `tracing` and its subscribers | Logging |
//! | `triomphe` | A leaf of the topics' map in one allocation |
//! | `x509-cert` | What a certificate says: key, serial number, validity |
//! | `xxhash-rust` | Digests of registrations |
//!
//! In `loadgen` besides `clap`, `rustix`, `signal-hook` and `xxhash-rust`:
//!
//! | Crate | For |
//! |---|---|
//! | `base64`, `hdrhistogram` with serialization | Histograms without loss, logs other tools read |
//! | `crc32fast`, `flate2` | Registrations of brokers that compress |
//! | `nix` | `IP_BIND_ADDRESS_NO_PORT`, which `rustix` has not: more connections than ports |
//! | `serde`, `serde_json` | The record of a run; checking answers with a reader not our own |
//! | `thread-priority` (MIT, since 2018) | The FIFO class of the kernel, without unsafe code |
//! | `roxmltree` (tests) | Whether the page is well-formed |

//! Every bound, and the relations between them that must hold. An option lives in
//! [`crate::config`]; its ceiling here.

/// Largest frame, its 4-byte length included (Java: `com.rocketmq.remoting.frameMaxLength`, 16
/// MiB).
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Largest value of the length field: it does not count itself.
pub const FRAME_LENGTH_MAX: usize = FRAME_BYTES_MAX - 4;
/// Largest header. The three-byte field allows 16 MiB; KV values travel in headers, so this is
/// generous.
pub const HEADER_BYTES_MAX: usize = 1 << 20;
/// Most extension fields in one header. Known peers send about ten; a look-up walks them all.
pub const EXT_FIELDS_MAX: usize = 512;
/// A fresh connection is not looked at before this many bytes (Java: `HandshakeHandler` waits for a
/// PROXY signature).
pub const FIRST_BYTES_MIN: usize = 12;
/// Deepest nesting of JSON that is read.
pub const JSON_DEPTH_MAX: usize = 64;
/// Most bytes that one compressed registration may inflate to.
pub const INFLATED_BYTES_MAX: usize = 256 << 20;
/// Largest single entry (a topic, a mapping, a list) of a compressed registration.
pub const INFLATED_ENTRY_BYTES_MAX: usize = 1 << 20;
/// Most topics, and most mappings, of one compressed registration: more than an uncompressed one
/// can hold, too.
pub const REGISTERED_ENTRIES_MAX: usize = 1 << 20;
/// Most filter servers of one broker (they were given up in 4.x; lists are short or empty).
pub const FILTER_SERVERS_MAX: usize = 1024;
/// Longest name of a topic, broker or cluster, and longest address, in bytes. The longest topic
/// that a broker makes has 255.
pub const NAME_BYTES_MAX: usize = 4096;
/// Largest body of the codes that speak of one topic or one data version (217, 322); it is read in
/// one go.
pub const SMALL_BODY_BYTES_MAX: usize = 1 << 20;
/// Most write requests that one shard may have with the writer at a time; one more is answered
/// "busy".
pub const LANE_REQUESTS_MAX: usize = 4096;
/// Most bytes of request bodies with the writer, all shards together; over it shards stop reading
/// large frames.
pub const BODY_BUDGET_BYTES: usize = 512 << 20;
/// Most changes the writer applies before it publishes.
pub const WRITE_BATCH_MAX: usize = 512;
/// Bytes of requests after which the writer takes no more into a batch: what it decodes and applies
/// between two looks at its lanes is about a millisecond's work.
pub const WRITE_BATCH_BYTES_MAX: usize = 256 << 10;
/// Largest registration that the writer decodes at once; larger ones are cut into pieces, so that
/// what is behind them is not held up.
pub const AT_ONCE_BYTES_MAX: usize = 64 << 10;
/// Most answers that one connection may be owed by the writer before the shard stops reading from
/// it.
pub const OWED_PER_CONNECTION_MAX: usize = 1024;
/// Output of one connection beyond which the shard stops reading from it, until it drains (Netty's
/// high-water mark).
pub const OUTPUT_HIGH_WATER_BYTES: usize = 64 << 10;
/// Most bytes of frames that are not complete, all connections of one shard together; over it the
/// largest are closed.
pub const PARTIAL_FRAMES_BYTES_MAX: usize = 512 << 20;
/// Most bytes of answers that are not sent, all connections of one shard together; over it the
/// largest are closed, and from half of it on no connection is served while it has some.
pub const OUTPUT_BYTES_MAX: usize = 512 << 20;
/// Time for a frame to come in, in seconds, once it has begun; later the connection counts as
/// silent.
pub const PARTIAL_FRAME_S_MAX: u32 = 60;
/// Receive buffers of one shard's ring, a power of two; when all are filled, the kernel holds back
/// until some return.
pub const RECEIVE_BUFFERS: u16 = 1024;
/// Bytes of one receive buffer.
pub const RECEIVE_BUFFER_BYTES: u32 = 4096;
/// Frames from this size on keep their buffer, so that the writer can share the body instead of
/// copying it.
pub const SHARED_FRAME_BYTES_MIN: usize = 4096;
/// A connection in the middle of a frame larger than this is not read from while the body budget is
/// spent.
pub const LARGE_FRAME_BYTES: usize = 64 << 10;
/// Most connections of one shard, whatever the open-files limit allows; slot numbers have 24 bits.
pub const CONNECTIONS_PER_SHARD_MAX: u32 = 1 << 22;
/// Connections that a listener's queue holds until they are accepted; the kernel cuts it to
/// `net.core.somaxconn`.
pub const LISTEN_BACKLOG: i32 = 4096;
/// Silence after which the kernel asks whether a peer's host is still there, in seconds. Clients
/// and brokers speak every 30 s, so it asks only those that are in trouble.
pub const KEEPALIVE_AFTER_S: u64 = 60;
/// Pause before it asks again, in seconds.
pub const KEEPALIVE_EVERY_S: u64 = 15;
/// Questions without an answer after which it ends the connection.
pub const KEEPALIVE_PROBES: u32 = 4;
/// Time that sent bytes may be without an acknowledgement, or a peer without room for more, until
/// the kernel ends the connection, in seconds. It also cuts the questions above short.
pub const DEAD_PEER_S: u64 = 120;
/// Time that a peer which sent something unreadable, or finds the server stopping, gets to take
/// what it was owed and close, in milliseconds.
pub const PARTING_MS: u64 = 2_000;
/// Pause after accepting failed for want of a resource, in milliseconds.
pub const ACCEPT_RETRY_MS: u64 = 100;
/// Bytes of output buffers that a shard keeps for the next answers.
pub const SPARE_OUTPUT_BYTES: usize = 4 << 20;
/// Pause before a shard looks again at something that nothing reports: the body budget, a full
/// lane. In milliseconds.
pub const LOOK_AGAIN_MS: u64 = 20;
/// An idle shard lets go of a replaced view after this time at the latest, in milliseconds.
pub const VIEW_REFRESH_MS: u64 = 10_000;
/// Longest PROXY header of version 1: a line with its end. (Version 2 names its length in 16 bits.)
pub const PROXY_LINE_BYTES_MAX: usize = 107;
/// Silence after which a broker is dropped unless it named its own, in milliseconds (Java:
/// `DEFAULT_BROKER_CHANNEL_EXPIRED_TIME`).
pub const HEARTBEAT_TIMEOUT_MS: u64 = 120_000;
/// Most that one look at the clock moves liveness time on: what passed beyond it, the process did
/// not run.
pub const RUNNING_STEP_MS_MAX: u64 = 2_000;
/// Most bytes of the KV table, counted as its file has them: the file and an answer with a whole
/// namespace stay below a frame.
pub const KV_BYTES_MAX: usize = 15 << 20;
/// Most keys in all namespaces together.
pub const KV_KEYS_MAX: usize = 1 << 18;
/// Most namespaces.
pub const KV_NAMESPACES_MAX: usize = 1 << 14;
/// Largest small file (KV table, settings) that is read at start.
pub const STORE_FILE_BYTES_MAX: u64 = 64 << 20;
/// Largest route snapshot that is read at start: some ten million topics.
pub const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;
/// Age from which a route snapshot is no longer believed, in milliseconds: a restart takes less.
pub const SNAPSHOT_AGE_MS_MAX: i64 = 15 * 60 * 1000;
/// Pause between two route snapshots, in milliseconds. What is lost with the process in between,
/// brokers say again within 30 s.
pub const SNAPSHOT_EVERY_MS: u64 = 30_000;
/// Pause between two route snapshots of a table that does not change, in milliseconds: a good part
/// below [`SNAPSHOT_AGE_MS_MAX`].
pub const SNAPSHOT_REFRESH_MS: u64 = 5 * 60 * 1000;
/// Most saves that may be under way; one more is refused.
pub const STORE_SAVES_MAX: usize = 16;
/// Most notices to brokers that may wait to be sent; further ones are dropped rather than waited
/// for.
pub const NOTICES_MAX: usize = 4096;
/// Most brokers that notices are being sent to at a time; each takes a connection.
pub const NOTICE_TARGETS_MAX: usize = 64;
/// Most bytes of notices that wait for one broker to be reached.
pub const NOTICE_BYTES_MAX: usize = 64 << 10;
/// Time to reach one broker and to send it what there is, in milliseconds (Java: connect timeout of
/// the name server's client).
pub const NOTICE_TIMEOUT_MS: u64 = 3_000;
/// Most shards; their number is a `u16`.
pub const SHARDS_MAX: u16 = 1024;
/// Most connections that can be asked for, all shards together.
pub const CONNECTIONS_MAX: usize = 1 << 24;
/// Largest settings file.
pub const CONFIG_BYTES_MAX: usize = 1 << 20;
/// Largest update of settings over the wire; the writer reads it in one go.
pub const SETTINGS_UPDATE_BYTES_MAX: usize = 64 << 10;
/// Most keys of a refused update that its answer names.
pub const UPDATE_KEYS_NAMED_MAX: usize = 8;
/// Largest log file; then it is renamed and another begun (Java: 100 MB).
pub const LOG_FILE_BYTES_MAX: u64 = 100 << 20;
/// Log files that are kept beside the current one (Java: 5).
pub const LOG_FILES_KEPT: u32 = 5;
/// Most lines that may wait to be written to the log; further ones are dropped rather than waited
/// for.
pub const LOG_LINES_MAX: usize = 8192;
/// Most bytes of one message in the log; the rest is left out. With the bound above it, lines that
/// wait take some 16 MiB at most.
pub const LOG_MESSAGE_BYTES_MAX: usize = 2048;
/// Largest certificate, key or trust file; all authorities of a system are a quarter of it.
pub const TLS_FILE_BYTES_MAX: u64 = 1 << 20;
/// Most rounds of the derivation of a key's password; whoever writes the file chooses the number.
pub const KEY_ITERATIONS_MAX: u32 = 10_000_000;
/// Seconds that a TLS handshake may take (Netty: `SslHandler`'s 10).
pub const TLS_HANDSHAKE_S: u32 = 10;
/// TLS handshakes that a shard begins in one turn; the others wait, and queries do not. With RSA
/// keys of 2048 bits a handshake takes about a millisecond.
pub const TLS_HANDSHAKES_PER_TURN: usize = 4;
/// Most received bytes that a TLS connection keeps because they are not a whole record or handshake
/// message yet: the largest handshake message in records, and one record.
pub const TLS_PENDING_BYTES_MAX: usize = 96 << 10;
/// Most bytes of a TLS handshake that wait to be sent: a long certificate chain is a tenth of it.
pub const TLS_HANDSHAKE_OUTPUT_BYTES_MAX: usize = 1 << 20;
/// How often the certificate, key and trust files are looked at, in milliseconds (Java:
/// `FileWatchService`). They are loaded when two looks in a row find the same.
pub const TLS_WATCH_MS: u64 = 500;
/// Looks after which files that were refused are tried, and complained of, again.
pub const TLS_RETRY_LOOKS: u32 = 120;

const _: () = assert!(FRAME_LENGTH_MAX == 16_777_212);
const _: () = assert!(HEADER_BYTES_MAX < 1 << 24);
const _: () = assert!(HEADER_BYTES_MAX < FRAME_LENGTH_MAX);
const _: () = assert!(INFLATED_ENTRY_BYTES_MAX <= INFLATED_BYTES_MAX);
const _: () = assert!(JSON_DEPTH_MAX <= 64, "the skipping reader keeps one bit a level in a u64");
const _: () = assert!(WRITE_BATCH_MAX <= LANE_REQUESTS_MAX);
const _: () = assert!(OWED_PER_CONNECTION_MAX <= LANE_REQUESTS_MAX);
const _: () = assert!(KV_BYTES_MAX + HEADER_BYTES_MAX <= FRAME_BYTES_MAX);
const _: () = assert!(HEADER_BYTES_MAX < KV_BYTES_MAX);
const _: () = assert!(2 * SNAPSHOT_REFRESH_MS < SNAPSHOT_AGE_MS_MAX.unsigned_abs());
const _: () = assert!(RUNNING_STEP_MS_MAX < HEARTBEAT_TIMEOUT_MS);
const _: () = assert!((FRAME_BYTES_MAX as u64) < STORE_FILE_BYTES_MAX);
const _: () = assert!(PARTIAL_FRAMES_BYTES_MAX >= 8 * FRAME_BYTES_MAX);
const _: () = assert!(OUTPUT_BYTES_MAX >= 8 * FRAME_BYTES_MAX);
const _: () =
    assert!(KEEPALIVE_AFTER_S + KEEPALIVE_EVERY_S * KEEPALIVE_PROBES as u64 <= DEAD_PEER_S);
const _: () = assert!(SHARDS_MAX < u16::MAX, "one number means no shard");
const _: () = assert!(RECEIVE_BUFFERS.is_power_of_two());
const _: () = assert!(CONNECTIONS_PER_SHARD_MAX <= 1 << 24);
const _: () = assert!(SHARED_FRAME_BYTES_MIN <= LARGE_FRAME_BYTES);
const _: () = assert!(PROXY_LINE_BYTES_MAX >= FIRST_BYTES_MIN);

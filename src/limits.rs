//! Every bound, and the relations between them that must hold. An option lives in [`crate::config`]; its ceiling here.

/// Largest frame, its 4-byte length included (Java: `com.rocketmq.remoting.frameMaxLength`, 16 MiB).
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Largest value of the length field: it does not count itself.
pub const FRAME_LENGTH_MAX: usize = FRAME_BYTES_MAX - 4;
/// Largest header. The three-byte field allows 16 MiB; KV values travel in headers, so this is generous.
pub const HEADER_BYTES_MAX: usize = 1 << 20;
/// Most extension fields in one header. Known peers send about ten; a look-up walks them all.
pub const EXT_FIELDS_MAX: usize = 512;
/// A fresh connection is not looked at before this many bytes (Java: `HandshakeHandler` waits for a PROXY signature).
pub const FIRST_BYTES_MIN: usize = 12;
/// Deepest nesting of JSON that is read.
pub const JSON_DEPTH_MAX: usize = 64;
/// Most bytes that one compressed registration may inflate to.
pub const INFLATED_BYTES_MAX: usize = 256 << 20;
/// Largest single entry (a topic, a mapping, a list) of a compressed registration.
pub const INFLATED_ENTRY_BYTES_MAX: usize = 1 << 20;
/// Most topics, and most mappings of static topics, in one compressed registration: what a JSON
/// one can hold, too.
pub const REGISTERED_ENTRIES_MAX: usize = 1 << 20;
/// Most filter servers of one broker (they were given up in 4.x; lists are short or empty).
pub const FILTER_SERVERS_MAX: usize = 1024;
/// Most write requests that one shard may have with the writer at a time; one more is answered "busy".
pub const LANE_REQUESTS_MAX: usize = 4096;
/// Most bytes of request bodies with the writer, all shards together; over it shards stop reading large frames.
pub const BODY_BUDGET_BYTES: usize = 512 << 20;
/// Most changes the writer applies before it publishes.
pub const WRITE_BATCH_MAX: usize = 512;
/// Most answers that one connection may be owed by the writer before the shard stops reading from it.
pub const OWED_PER_CONNECTION_MAX: usize = 1024;
/// Output of one connection beyond which the shard stops reading from it, until it drains (Netty's high-water mark).
pub const OUTPUT_HIGH_WATER_BYTES: usize = 64 << 10;
/// Silence after which a broker is dropped unless it named its own, in milliseconds (Java: `DEFAULT_BROKER_CHANNEL_EXPIRED_TIME`).
pub const HEARTBEAT_TIMEOUT_MS: u64 = 120_000;

const _: () = assert!(FRAME_LENGTH_MAX == 16_777_212);
const _: () = assert!(HEADER_BYTES_MAX < 1 << 24);
const _: () = assert!(HEADER_BYTES_MAX < FRAME_LENGTH_MAX);
const _: () = assert!(INFLATED_ENTRY_BYTES_MAX <= INFLATED_BYTES_MAX);
const _: () = assert!(JSON_DEPTH_MAX <= 64, "the skipping reader keeps one bit a level in a u64");
const _: () = assert!(WRITE_BATCH_MAX <= LANE_REQUESTS_MAX);
const _: () = assert!(OWED_PER_CONNECTION_MAX <= LANE_REQUESTS_MAX);

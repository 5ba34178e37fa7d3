//! Where this server answers differently from the Java NameServer 5.5.0, and why; and what it keeps
//! although one may wonder.
//!
//! Everything else is meant to be equal, byte by byte where clients parse text. Where a difference
//! can be tried over the wire, `tests/scenarios/*.scn` mark it with `ours:` and `java:`. Names
//! behind `differential/differences.rs` are those under which `tests/interop/differential` finds
//! and counts a difference while it compares both servers. `tests/differences.rs` checks that every
//! test and every name given here exists, and that none of those names is missing.
//!
//! # Registration
//!
//! * A refused registration (one topic from an unknown broker, or a lower state version) leaves an
//!   empty group in the cluster table, and the zone and acting master of the refused one. **Here:**
//!   nothing is left: `registration.scn` "a single topic from an unknown broker is refused and
//!   leaves no trace", "a refused registration changes nothing of its group",
//!   `differential/differences.rs` "a refused increment leaves no trace", "a refused stale
//!   registration leaves no trace".
//! * A body with a null table, a topic without name or a null mapping is half applied and answered
//!   with success; so is whatever else fails midway, and such a broker expires although it goes on
//!   registering. **Here:** code 1, which says what and where; nothing is applied: `bodies.scn` "a
//!   null wrapper is refused and leaves no half entry", "a topic without a name refuses the whole
//!   registration", `hostile.rs`, `differential/differences.rs` "nulls refuse the whole body".
//! * A null data version fails when an id changes hands: success, and not registered. **Here:** it
//!   is of state 0: `differential/differences.rs` "a null data version is of state 0".
//! * `clusterName`, `brokerName` or `brokerAddr` missing: success, and a group called `null`.
//!   **Here:** code 1: `registration.scn` "a registration without one of its names is refused and
//!   leaves no trace", `differential/differences.rs` "a broker has names".
//! * A compressed body is understood only if the header says so, which 5.x brokers never do.
//!   **Here:** a body that begins like a zlib stream is taken as one: `bodies.scn` "a zlib stream
//!   is recognised whatever the header says", `differential/differences.rs` "compression is
//!   recognised".
//! * Inflated bytes and counts inside a compressed body are believed. **Here:** bounded, see
//!   [`crate::limits`]: `hostile.rs`, `wire/body/register/tests.rs` "a bomb is refused with little
//!   memory", "announced sizes are checked before anything is reserved".
//! * A negative version ends in an exception text. **Here:** code 1 with a reason:
//!   `registration.scn` "a negative version is refused".
//! * An id taken over by another address leaves the old address's entry for ever, and so does a
//!   move to another cluster. **Here:** the old entry goes: `failover.scn` "an address that lost
//!   its id is forgotten", `differential/differences.rs` "no orphaned addresses".
//! * Code 217 for a known topic stores the queues in front of the first unknown broker. **Here:**
//!   all or nothing: `topics.scn` "a known topic takes no queues either if any broker is unknown",
//!   `differential/differences.rs` "all queues of a new topic or none".
//! * A negative `heartbeatTimeoutMillis` expires at once. **Here:** it counts as not given:
//!   `writer/tests.rs` "a negative timeout counts as none given".
//! * Parts of static topics come only with a new data version, although queues come without; a
//!   broker that registers between making the topic and its mapping loses the mapping. **Here:**
//!   what is lacking comes: `topics.scn` "a static topic that was deleted comes back with its
//!   mapping", "a mapping that the table lacks comes without a new data version",
//!   `differential/differences.rs` "mappings come with their queues".
//! * A broker may store parts of static topics in another group's name. **Here:** only in its own:
//!   `writer/tests.rs` "parts of static topics in the name of another group are left out".
//! * Bodies of codes 217 and 322 may be as large as a frame. **Here:** at most 1 MiB:
//!   `writer/tests.rs` "bodies of 217 and 322 are bounded".
//! * Requests of one broker on several connections have no order. **Here:** they count in the order
//!   in which the server took them, also if another takes longer: `writer/tests/order.rs`,
//!   `races.rs` "what a broker said on its old connection does not undo the new one".
//!
//! # Leaving
//!
//! * One broker of a closed connection goes, the others wait for their timeout. **Here:** all go,
//!   in one step: `connections.scn` "all brokers of a closed connection go",
//!   `differential/differences.rs` "all brokers of a connection go".
//! * More than 10 000 closes that wait are forgotten. **Here:** none is: `races.rs`.
//! * Code 104 is answered before it is done, and by address alone can undo a later registration.
//!   **Here:** done when answered: `unregister.scn` "an unregistration has taken effect when it is
//!   answered", "a registration right behind an unregistration wins".
//! * Code 104 without `brokerId` abandons everything that was queued with it. **Here:** code 1:
//!   `unregister.scn` "an unregistration without brokerId does not disturb the next ones",
//!   `differential/differences.rs` "an unregistration is complete".
//! * Code 104 under another cluster leaves orphans. **Here:** the named group's broker goes, whole:
//!   `unregister.scn` "an unregistration under another cluster takes the whole broker",
//!   `differential/differences.rs` "an unregistration names a member".
//! * A group in two clusters leaves its name in one of them. **Here:** it leaves both:
//!   `registration.scn` "the same broker name in two clusters is listed in both and keeps its first
//!   cluster", `differential/differences.rs` "no orphaned cluster members".
//! * Expiry is looked for every 5 s, on the wall clock. **Here:** at the deadline, on a clock that
//!   stands still while the process does: `liveness.scn` "expiry is exact", `liveness/tests.rs` "a
//!   suspend expires nobody whose heartbeat still waits in its socket".
//! * Parts of a static topic stay when the topic or its broker is gone, and make a later topic of
//!   that name static. **Here:** they go with their queues: `topics.scn` "the mapping of a static
//!   topic goes with the topic", "the mapping of a static topic goes with its broker",
//!   `differential/differences.rs` "mappings go with their queues".
//! * Notices (905) of a removal go by the `brokerId` of the request, one for each broker removed.
//!   **Here:** by the id that the table holds; one for each group when several members go together,
//!   naming the previous smallest as gone: `route/notices.rs` "several that go at once are one
//!   notice that names the smallest as gone".
//! * Notices leave over connections that are kept, with TLS if `tls.server.mode` is enforcing or
//!   `tls.enable` is set. **Here:** over one that is closed after sending, always in plaintext,
//!   which brokers take unless their own mode is enforcing; those learn by asking (901):
//!   `notices.scn`, `notify/tests.rs` "brokers that cannot be reached hold up nobody".
//!
//! # Settings and KV
//!
//! * Anybody may change settings (code 318). **Here:** code 16 unless `allowRemoteConfigUpdate`;
//!   then only settings that can change while serving, within their ranges: `settings_refused.scn`,
//!   `config/settings/tests.rs` "what is fixed is refused by name unless it stays as it is".
//! * A changed value may hold line breaks, and plant settings for the next start. **Here:** code 1:
//!   `settings.scn` "a value cannot smuggle in a second line".
//! * Anybody may register brokers, delete topics, change KV. **Here:** also, unless `brokerFrom` or
//!   `adminFrom` names networks; then others get code 16 and nothing changes: `access.rs`.
//! * A save that fails is answered with success, and the change is served. **Here:** code 1, and
//!   the old state stays; what is not on disk is not shown: `writer/tests.rs` "a save that fails is
//!   refused and not shown".
//! * Files are overwritten in place. **Here:** written aside, synced, renamed; the old one is kept
//!   as `.bak`: `store/tests.rs` "what an interrupted replacement left does not matter".
//! * A KV file cut to nothing by a crash is an empty table. **Here:** its backup is read:
//!   `server/kv_file.rs` "a file cut to nothing by a crash is replaced by its backup".
//! * `true` with a blank behind it is false; a number with one is ignored. **Here:** values are
//!   trimmed; what is no value stops the start, with file and line: `config/checked/tests.rs`
//!   "blanks around values do not matter", "every mistake is named with file and line".
//! * Settings files and bodies of 318 are Latin-1. **Here:** UTF-8 where they are valid UTF-8; what
//!   is stored reads back as it was: `config/properties.rs`, `config/settings/tests.rs` "a stored
//!   file holds everything and reads back".
//! * 319 shows every property. **Here:** passwords and the like are left out:
//!   `config/checked/tests.rs` "other properties are listed and stored but secrets only stored".
//! * `clusterTest=true` starts a server that takes no registrations. **Here:** refused at the
//!   start: `startup.rs` "what does not exist here is refused".
//! * `ROCKETMQ_HOME` is needed. **Here:** it may be missing: `startup.rs`.
//! * Exit status 255 for most failures, 143 after SIGTERM. **Here:** distinct ones, see `guidepost
//!   --help`; 0 after SIGTERM: `startup.rs` "help names flags environment and exit statuses", "term
//!   and int end well".
//! * A graceful stop answers newer clients with code 1500 (go away) for a while. **Here:** a stop
//!   takes no more requests, sends what is owed, and closes: `shard/tests/stopping.rs` "the
//!   shutdown sends what is owed and ends".
//!
//! # TLS
//!
//! * A certificate renewed for the same key is never loaded; one that does not belong to the key
//!   is, if both files have changed. **Here:** whatever fits together, and nothing else: `tls.rs`,
//!   `tls/watcher/tests.rs` "a renewed certificate for the same key is served".
//! * With an unreadable key, an unknown protocol or suite, plain connections are served and TLS
//!   ones closed. **Here:** the server does not start, and says what to correct: `tls.rs` "what
//!   cannot be served keeps the server from starting".
//! * `tls.server.authClient=true` without a trust file trusts whom the JVM trusts. **Here:**
//!   refused at the start: `tls.rs` "what cannot be served keeps the server from starting".
//! * Names in `tls.ciphers` and `tls.protocols` that are not offered undo TLS. **Here:** they are
//!   left out with a warning, as long as something is left. Offered are 1.2 and 1.3, with forward
//!   secrecy and authenticated encryption: `tls.rs`.
//! * In test mode a client's certificate is asked for, but not required. **Here:** not asked for:
//!   `tls/material/tests.rs` "test mode makes a certificate and says what it ignores".
//! * Private keys: **here,** DSA, RSA below 2048 bits, and those encrypted with RC2 or single DES
//!   are refused; the message says how to convert them: `tls/key.rs`.
//! * Hellos are answered as they come. **Here:** a few in a turn of the shard, so that queries do
//!   not wait for a storm of them: `tls.rs` "a query passes the handshakes that came before it".
//!
//! # The wire
//!
//! * A route in zone mode is in the legacy dialect whoever asks. **Here:** in the dialect asked
//!   for: `zones.scn` "a filtered answer is in the dialect that was asked for", `golden.rs`,
//!   `differential/differences.rs` "a filtered route is in the dialect asked for".
//! * It keeps parts of static topics on brokers that the filter takes out. **Here:** they are
//!   filtered, too, so that an answer names no broker that it does not describe: `zones.scn`
//!   "mappings of static topics are filtered with their brokers", `differential/differences.rs`
//!   "mappings are filtered with their brokers".
//! * A connection with something unreadable on it is closed at once, and answers in front of it may
//!   be lost. **Here:** they arrive first: `shard/tests.rs` "answers before a malformed frame
//!   arrive and then it closes".
//! * Remarks of failed requests are Java exceptions, some with the beginning of the body. **Here:**
//!   sentences that quote nothing: `wire/body/data_version.rs` "an error says what and where but
//!   quotes nothing", `differential/differences.rs` "error texts".
//! * Codes 105 and 106 may mix several moments, or fail. **Here:** one moment: `races.rs` "cluster
//!   info is of one moment while brokers come and go".
//! * JSON nested at any depth, headers up to 16 MiB. **Here:** depth 64, headers up to 1 MiB:
//!   `wire/header_json.rs` "deep nesting is refused without deep recursion", `hostile.rs`.
//! * Names and addresses have any length. **Here:** up to 4096 bytes; longer ones are refused with
//!   code 1: `hostile.rs` "names longer than any real one are refused and neither kept nor logged",
//!   `wire/body/register/tests.rs` "a name longer than any real one refuses the registration".
//! * Requests, connections and answers wait without a bound. **Here:** each is bounded, see
//!   [`crate::limits`]: `shard/tests.rs` "too many unsent answers cost the largest its connection",
//!   "a full shard closes the next connection quickly", `kv/table/tests.rs`.
//! * Answers above 16 MiB are sent, and every client cuts the connection. **Here:** code 1 says so:
//!   `crowds.rs`, `handler/desk.rs` "an answer beyond a frame is refused in words".
//! * Bytes left in a binary header shift the body. **Here:** they are skipped:
//!   `wire/header_binary.rs` "bytes behind the fields are passed over".
//! * A map key with an escape and a supplementary character is refused. **Here:** read:
//!   `wire/json/read/tests.rs` "escapes stand for what java reads".
//! * PROXY headers are believed whoever sends them. **Here:** also, unless `proxyProtocolFrom`
//!   names networks: `shard/tests.rs` "a proxy header is taken only from where it may come".
//!
//! # Kept as Java does it, though surprising
//!
//! * A registration with a lower state version is answered with success, and its sender is
//!   forgotten: it finds out by not seeing itself: `failover.scn` "a lower state version does not
//!   take the id, and looks like success".
//! * A broker with exactly one topic can never register first: `registration.scn` "a single topic
//!   from an unknown broker is refused and leaves no trace".
//! * Wiped write permission comes back with the broker's next data version: `perms.scn` "an
//!   increment with a new data version resets only its own topic".
//! * Adding write permission sets 6, whatever was there, and counts topics that it does not change:
//!   `perms.scn` "adding write permission drops every other bit", "topics are counted even if
//!   nothing changes".
//! * A deleted topic comes back while a broker still has it, and one deleted on its broker stays:
//!   `topics.scn` "a deleted topic comes back with the next full registration", `registration.scn`
//!   "a topic that a broker no longer sends stays by default".
//! * With `deleteTopicWithBrokerRegistration` an increment, or a part of a split registration,
//!   removes every topic that is not in it: `deleting.scn` "an increment removes every other
//!   topic".
//! * A group registered in two clusters has one list of members, under the first cluster, and both
//!   name it: `registration.scn` "the same broker name in two clusters is listed in both and keeps
//!   its first cluster".
//! * Code 217 that names an unknown broker is answered with success: `topics.scn` "a new topic with
//!   any unknown broker is not stored, and that looks like success".
//! * Code 217 in its meaning before 5.0 (a look for a KV value) is success and nothing; codes 47
//!   and 218 are unknown: `topics.scn` "code 217 in its meaning of old, a look for a value, finds
//!   nothing and does nothing", `frames.scn` "an unknown code is named in the remark".
//! * Heartbeats of unknown brokers succeed, so after a restart a broker is missing until it
//!   registers; `needWaitForService` hides that from clients: `liveness.scn` "a heartbeat of an
//!   unknown broker succeeds and creates nothing", `readiness.scn`.
//! * Any id is accepted, also a negative one, which is then the smallest: `registration.scn` "a
//!   negative id is a slave like any other", `notices.scn` "a broker that starts below zero is told
//!   of itself".
//! * An acting master is shown only for a topic that cannot be written: `acting_master.scn` "a
//!   queue that can be written is not given to an acting master".
//! * A KV value that is missing is stored as nothing: success, and not found: `kv.scn` "a put
//!   without a value succeeds and reads as not found".
//! * What 318 has stored is read at the next start only from the file named by `-c`: `startup.rs`
//!   "stored settings are read only where they are named".
//! * A damaged KV file stops the start, whatever its backup holds: `server/kv_file.rs` "a damaged
//!   file stops the start and its backup is not taken unasked".
//! * Answers have the header of the server's serialize type, whatever the request's is:
//!   `golden.rs`, `config/checked/tests.rs` "the serialize type is one of two words".
//! * Integer keys of the legacy dialect have no quotes, which is no JSON; brokers send such bodies,
//!   too: `dialects.scn` "cluster info and group members always have bare keys", `bodies.scn`
//!   "mappings may have integer keys in quotes or without".
//! * U+007F to U+009F, U+2028 and U+2029 stand raw in answers: `golden.rs`, `dialects.scn` "names
//!   outside of ASCII are written raw in both dialects".
//! * What JSON is taken beyond the standard is what 5.5 takes, no more: `wire/header_json.rs` "what
//!   java refuses is refused", "what java tolerates is tolerated".
//! * A null for a number is 0, not its default: `bodies.scn` "absent numbers have their defaults
//!   and null ones are 0".
//! * An empty value is absent in a binary header and empty in a JSON one: `frames.scn` "an empty
//!   binary value counts as absent, an empty JSON one does not".
//! * A request without `opaque` is answered under a number of the server's own; a null is 0:
//!   `golden.rs`, `wire/header_json.rs` "missing members have defaults and a null opaque is zero".
//! * Nothing is said to a connection before its twelfth byte: `frames.scn` "eleven bytes of
//!   anything are met with silence".
//! * Code 901 is successful with the remark `not set any response code`: `lists.scn` "members are
//!   echoed by name, with the remark that clients of Java see".

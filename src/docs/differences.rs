//! Where this server answers differently from the Java NameServer 5.5.0, and why.
//!
//! Everything else is meant to be equal, byte by byte where clients parse text. Where a difference
//! can be tried over the wire, `tests/scenarios/*.scn` mark it with `ours:` and `java:`.
//!
//! # Registration
//!
//! * A refused registration (one topic from an unknown broker) leaves an empty group in the cluster
//!   table. **Here:** nothing is left.
//! * A body with a null table, a topic without name or a null mapping is half applied and answered
//!   with success. **Here:** code 1, which says what and where; nothing is applied.
//! * `clusterName`, `brokerName` or `brokerAddr` missing: success, and a group called `null`.
//!   **Here:** code 1.
//! * A compressed body is understood only if the header says so, which 5.x brokers never do.
//!   **Here:** a body that begins like a zlib stream is taken as one.
//! * Inflated bytes and counts inside a compressed body are believed. **Here:** bounded, see
//!   [`crate::limits`].
//! * A negative version ends in an exception text. **Here:** code 1 with a reason.
//! * An id taken over by another address leaves the old address's entry for ever. **Here:** the old
//!   entry goes.
//! * Code 217 for a known topic stores the queues in front of the first unknown broker. **Here:**
//!   all or nothing.
//!
//! * A negative `heartbeatTimeoutMillis` expires at once. **Here:** it counts as not given.
//! * A broker may store parts of static topics in another group's name. **Here:** only in its own.
//! * Bodies of codes 217 and 322 may be as large as a frame. **Here:** at most 1 MiB.
//!
//! # Leaving
//!
//! * One broker of a closed connection goes, the others wait for their timeout. **Here:** all go,
//!   in one step.
//! * Code 104 is answered before it is done, and by address alone can undo a later registration.
//!   **Here:** done when answered.
//! * Code 104 without `brokerId` abandons everything that was queued with it. **Here:** code 1.
//! * Code 104 under another cluster leaves orphans. **Here:** the named group's broker goes, whole.
//! * Expiry is looked for every 5 s, on the wall clock. **Here:** at the deadline, on a clock that
//!   stands still while the process does.
//! * Parts of a static topic stay when the topic or its broker is gone. **Here:** they go with it.
//!
//! * Notices (905) of a removal go by the `brokerId` of the request, one for each broker removed.
//!   **Here:** by the id that the table holds; one for each group when several members go together,
//!   naming the previous smallest as gone.
//!
//! # Settings and KV
//!
//! * Anybody may change settings (code 318). **Here:** code 16 unless `allowRemoteConfigUpdate`;
//!   then only settings that can change while serving, within their ranges, without control
//!   characters.
//! * Anybody may register brokers, delete topics, change KV. **Here:** also, unless `brokerFrom` or
//!   `adminFrom` names networks; then others get code 16 and nothing changes.
//! * A save that fails is answered with success. **Here:** code 1, and the old state stays.
//! * Files are overwritten in place. **Here:** written aside, synced, renamed; the old one is kept
//!   as `.bak`.
//! * `true` with a blank behind it is false; a number with one is ignored. **Here:** values are
//!   trimmed; what is no value stops the start, with file and line.
//! * 319 shows every property. **Here:** passwords and the like are left out.
//! * `clusterTest=true` starts a server that takes no registrations. **Here:** refused at the
//!   start.
//! * `ROCKETMQ_HOME` is needed. **Here:** it may be missing.
//! * Exit status 255 for most failures, 143 after SIGTERM. **Here:** distinct ones, see `guidepost
//!   --help`; 0 after SIGTERM.
//!
//! * A graceful stop answers newer clients with code 1500 (go away) for a while. **Here:** a stop
//!   takes no more requests, sends what is owed, and closes.
//!
//! # TLS
//!
//! The tests of this section are in `tests/tls.rs`.
//!
//! * A certificate renewed for the same key is never loaded; one that does not belong to the key
//!   is, if both files have changed. **Here:** whatever fits together, and nothing else.
//! * With an unreadable key, an unknown protocol or suite, plain connections are served and TLS
//!   ones closed. **Here:** the server does not start, and says what to correct.
//! * `tls.server.authClient=true` without a trust file trusts whom the JVM trusts. **Here:**
//!   refused at the start.
//! * Names in `tls.ciphers` and `tls.protocols` that are not offered undo TLS. **Here:** they are
//!   left out with a warning, as long as something is left. Offered are 1.2 and 1.3, with forward
//!   secrecy and authenticated encryption.
//! * In test mode a client's certificate is asked for, but not required. **Here:** not asked for.
//! * Private keys: **here,** DSA, RSA below 2048 bits, and those encrypted with RC2 or single DES
//!   are refused; the message says how to convert them.
//!
//! # The wire
//!
//! * A connection with something unreadable on it is closed at once, and answers in front of it
//!   may be lost. **Here:** they arrive first.
//! * Remarks of failed requests are Java exceptions. **Here:** sentences.
//! * Code 106 may mix several moments. **Here:** one moment.
//! * JSON nested at any depth, headers up to 16 MiB. **Here:** depth 64, headers up to 1 MiB.
//! * Bytes left in a binary header shift the body. **Here:** they are skipped.
//! * A map key with an escape and a supplementary character is refused. **Here:** read.
//! * Code 101 and 219 may show a KV change that is not on disk. **Here:** only what is on disk.

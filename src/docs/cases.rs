//! What users of NameServers reported in public, and the tests that hold the right answer.
//!
//! A number like `#11043` is an issue or pull request of apache/rocketmq, `rocketmq-rust#9189` one
//! of mxsm/rocketmq-rust. A test carries the number in its name: `scenario #11043 ...` in
//! `tests/scenarios`, `fn issue_11043_...`, `fn cve_2023_37582_...` or `fn
//! rocketmq_rust_9189_...` elsewhere. Items without a number were found by reading the Java server;
//! their tests are named by their claims. `tests/cases.rs` checks that every test named here exists
//! and that every test with a number is named here.
//!
//! # Routes
//!
//! * `#10982` An answer is made anew from what counts now, without allocating, also for topics that
//!   do not exist: `order.scn`, `allocations.rs`.
//! * `#4245` A registration that changes nothing costs nothing, and the expensive lists can be
//!   switched off: `crowds.rs`, `gates.scn`.
//! * `#11043` A close or an expiry that is dealt with late removes nothing newer:
//!   `connections.scn`, `failover.scn`, `races.rs`.
//! * `#4522` A single topic does not stand in for a first registration, and a topic that is missing
//!   is added whatever the data version says: `registration.scn`.
//! * `#5322` A server that has just started can say so instead of "no such topic":
//!   `readiness.scn`.
//! * `#7600` The write bit goes only from a group with acting master that has lost its master, and
//!   comes back with it: `acting_master.scn`, `failover.scn`.
//! * `#5374` What leaves is named by its address: `failover.scn`, `unregister.scn`.
//! * `#1464` A master with a lower state version does not take over: `failover.scn`.
//! * `#288` A topic that its broker no longer has stays, or goes with
//!   `deleteTopicWithBrokerRegistration`; deleting in one cluster leaves the others:
//!   `registration.scn`, `deleting.scn`, `topics.scn`.
//! * `#1432` The list of clusters is of one moment: `lists.scn`, `races.rs`.
//! * `#313` Write permission goes and comes back for a whole broker: `perms.scn`.
//! * `#3991` One broker name in two clusters: `registration.scn`.
//! * `#4382` Near routing: `zones.scn`.
//! * `#8638` Cluster-test mode does not exist, and says so: `startup.rs`.
//! * `#5795` Brokers that expire or close together go together: `races.rs`.
//! * `#7534` Many topics are listed once each, and at once: `crowds.rs`.
//! * `#9467` An answer above 16 MiB, which clients cannot read, is refused in words: `crowds.rs`.
//! * `#3792` Reads and registrations do not wait for each other: `crowds.rs`.
//! * `rocketmq-rust#2170` An unregistration is done when it is answered: `unregister.scn`.
//! * `rocketmq-rust#4421` Masters that change at the same time leave whole tables: `races.rs`.
//! * `rocketmq-rust#10116` Only what does not exist is called absent: `gates.scn`.
//!
//! # Registrations
//!
//! * `#5296` A frame of the largest size is taken, one byte more is not, and what is announced is
//!   not reserved: `hostile.rs`.
//! * `#7326` Seventy thousand topics fit, compressed: `crowds.rs`.
//! * `#3407` Storms of full registrations: `crowds.rs`.
//! * `rocketmq-rust#425` The checksum of a body is Java's: `bodies.scn`.
//! * `#5536` Compressed bodies of every release: `bodies.scn`.
//! * `rocketmq-rust#9189` What a body inflates to is bounded; a port in use ends the start:
//!   `hostile.rs`, `startup.rs`.
//! * `#11120` Null in a body never leaves half a broker: `bodies.scn`, `hostile.rs`.
//! * `#9881` Nobody waits while brokers are told of a new smallest id: `notices.scn`.
//!
//! # Peers and connections
//!
//! * `#1445`, `#4471` Integer keys bare or in quotes, as the client can read them:
//!   `dialects.scn`, `old_clients.rs`.
//! * `rocketmq-rust#6983` Both dialects, with both headers: `dialects.scn`.
//! * `rocketmq-rust#9301` Errors stay errors when their answers have fields: `frames.scn`.
//! * `rocketmq-rust#117`, `rocketmq-rust#8944` Every request and answer of a Java peer, name by
//!   name: `golden.rs` "every recorded answer is given again".
//! * `#3474` Malformed frames close their connection and nothing else: `frames.scn`, `hostile.rs`.
//! * `#8086` Other protocols on the port: `hostile.rs`.
//! * `#10110` Where TLS is enforced nothing in plaintext is executed: `tls.rs`.
//! * `#9483` New certificates are served without a restart: `tls.rs`.
//! * `#9769` Old protocols and weak suites are refused: `tls.rs`.
//! * `#7010` A request in pieces is answered: `hostile.rs`.
//! * `#6957`, `#7008`, `#8259` PROXY headers of both versions, in pieces, with IPv6, in front of
//!   TLS: `shard/sniff.rs` "version 1 lines are read to their end", "version 2 headers are read in
//!   every family", "tlvs must fit and a checksum must be right", "malformed version 1 lines are
//!   refused", "malformed version 2 headers are refused"; `shard/connection/tests.rs` "a proxy
//!   header is consumed once in any pieces"; `tls.rs` "a proxy header may come before tls".
//! * `#2565` Connections are spread over the cores, however few addresses they come from:
//!   `shard/accept.rs` "connections of few addresses are spread over the listeners".
//! * `#7296` A stop sends what is owed, also to those who go on asking: `shard/tests/stopping.rs`
//!   "the shutdown sends what is owed and ends", "the shutdown resets nobody whose answer is under
//!   way", "the shutdown waits no longer than its deadline"; `startup.rs` "term and int end well".
//! * `#8358` Silence ends a connection, and the broker on it alone: `idle.scn`, `connections.scn`.
//! * `#2164` Probes leave nothing behind: `hostile.rs`.
//! * `#4533` No close is lost in a storm of them: `connections.scn`, `races.rs`.
//! * `#9290` A server that stood still or is full is no trap, and hosts that are gone are noticed:
//!   `suspended.rs`, `shard/accept.rs` "accepted sockets notice within two minutes that their peer
//!   is dead".
//! * `#3651` Who does not read is not buffered for: `hostile.rs`.
//!
//! # Administration
//!
//! * `CVE-2023-37582` Settings changed over the wire must not write files: `settings.scn`,
//!   `settings_refused.scn`.
//! * `#7542` Nor strangle the server: `settings.scn`, `durability.rs`.
//! * `#5905` What was acknowledged survives `kill -9`: `durability.rs`.
//! * `rocketmq-rust#9195` What is not on disk is not shown: `durability.rs`.
//! * `#1842` Who may change something can be limited by network: `access.rs`.
//! * `rocketmq-rust#10097` Nothing is limited unless asked for: `access.rs`.
//! * `CVE-2024-23321` No secret is shown: `tls.rs`, `durability.rs`.
//! * `#8913` A settings file with mistakes is refused, each named: `startup.rs`.
//!
//! # Found by reading the Java server
//!
//! * `ZoneRouteRPCHook` answers in the legacy dialect to everybody: `zones.scn` "a filtered
//!   answer is in the dialect that was asked for".
//! * `RouteInfoManager.deleteTopic` never forgets parts of a static topic: `topics.scn` "the
//!   mapping of a static topic goes with the topic", "the mapping of a static topic goes with its
//!   broker".
//! * `RouteInfoManager.registerBroker` leaves an empty group when it refuses: `registration.scn` "a
//!   refused registration changes nothing of its group".
//! * `RouteInfoManager.updateBrokerInfoUpdateTimestamp`: a heartbeat of an unknown broker succeeds:
//!   `liveness.scn` "a heartbeat of an unknown broker succeeds and creates nothing".
//! * `RouteInfoManager.operateWritePermOfBroker` sets 6 whatever was there. Kept: `perms.scn`
//!   "adding write permission drops every other bit".
//! * `RouteInfoManager.setupUnRegisterRequest` finds one broker of a closed connection:
//!   `connections.scn` "all brokers of a closed connection go".
//! * `MQVersion.value2Version` fails for a negative version: `registration.scn` "a negative version
//!   is refused".
//! * `RouteInfoManager.getTopicsByCluster` answers success for an unknown cluster. Kept:
//!   `lists.scn` "an unknown cluster has no topics".
//! * `RouteInfoManager.scanNotActiveBroker` measures silence on the wall clock:
//!   `liveness/tests.rs` "a suspend expires nobody whose heartbeat still waits in its socket".
//! * `RouteInfoManager.registerBroker` answers success when it fails midway: `bodies.scn` "a topic
//!   without a name refuses the whole registration", "a null mapping refuses the whole
//!   registration".

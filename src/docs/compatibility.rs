//! Which published programs have been run with it, and what each showed.
//!
//! Every row is a step of `tests/interop/run`, which starts the program as its project publishes it
//! and fails when the outcome is another one. `tests/interop/run --list` names the steps, a step's
//! name runs it, and `--java-namesrv` runs it against the Java NameServer 5.5.0 instead:
//!
//! ```text
//! tests/interop/run                      # all of them
//! tests/interop/run clients grpc sweep   # the chapters "Clients" and "mqadmin" below
//! tests/interop/run client-rust          # not in a whole run: its build takes minutes
//! tests/interop/run frozen-broker        # nor this one, which takes two
//! ```
//!
//! # Brokers and proxy
//!
//! | Program | As | Steps | Shown |
//! |---|---|---|---|
//! | Broker 5.5.0 | masters | part `core` | registers, JSON and binary header |
//! | Broker 5.5.0 | ended | `broker-kill`, `broker-stop` | its routes are gone at once |
//! | Broker 5.5.0 | server restarted | `server-restart` | back within one heartbeat |
//! | Broker 5.5.0 | frozen | `frozen-broker` | gone after 120 s, then back |
//! | Broker 5.5.0 | `compressedRegister` | `compressed-register` | registers; not with Java |
//! | Broker 5.5.0 | TLS alone | `tls` | registers, each side verifying the other |
//! | Broker 5.5.0 | master and slave | `acting-pair`, `-kill`, `-freeze` | slave acts as master |
//! | Broker 5.5.0 | with a controller | `controller` | the chosen slave becomes master |
//! | Broker 5.5.0 | in a container | `container` | all brokers of the process go at once |
//! | Broker 5.5.0 | split registration | `split` | the parts add up |
//! | Broker 5.5.0 | one topic at a time | `single-topic` | 217 makes the route |
//! | Broker 5.5.0 | `forceRegister=false` | `register-on-change` | asks by 322, and is kept |
//! | Broker 5.5.0 | static topics | part `static-topics` | mappings come, move and go |
//! | Broker 5.5.0 | of two servers | `second-server` | registers with each that is there |
//! | Broker 4.9.7 | master | `old-broker` | registers, serves a 5.5.0 client |
//! | Broker 4.9.7 | `compressedRegister` | `old-compressed` | registers |
//! | Proxy 5.5.0 | cluster mode | part `grpc` | finds brokers for clients that speak gRPC |
//!
//! # Clients
//!
//! Each sends 100 messages to a new topic (50 through the proxy) and receives every one of them.
//! Ids is how broker ids are written in the routes it gets: bare (`0:`) for clients that announce a
//! version below 401, whose parsers expect that, else quoted. All ask for routes alone (105).
//!
//! | Client | Step | Announces | Ids |
//! |---|---|---|---|
//! | Java 5.5.0 | `client-java-5.5.0`, `client-json` | JAVA 513 | quoted |
//! | Java 5.5.0, binary header | `client-binary` | JAVA 513 | quoted |
//! | Java 4.9.7 | `client-java-4.9.7` | JAVA 407 | quoted |
//! | Java 4.3.2 | `client-java-4.3.2` | JAVA 277 | bare |
//! | Java 5.5.0, 4.9.7, 4.3.2 by TLS alone | `tls` | as above | as above |
//! | Go `rocketmq-client-go/v2` v2.1.2 | `client-go` | GO 317 | bare |
//! | C++, in PyPI `rocketmq` 0.4.4 | `client-cpp` | CPP 63 | bare |
//! | JavaScript `ali-ons` 3.12.0 | `client-node` | JAVA 121 | bare |
//! | Rust `rocketmq-client-rust` 1.0.0 | `client-rust` | RUST 474 | quoted |
//! | Java `rocketmq-client-java` 5.1.0 | `grpc-java` | by the proxy | - |
//! | JavaScript `rocketmq-client-nodejs` 1.0.8 | `grpc-node` | by the proxy | - |
//! | Python `rocketmq-python-client` 5.1.2 | `grpc-python` | by the proxy | - |
//!
//! Further, with Java clients: `client-auto-topic` makes a topic by sending to it;
//! `client-namespace` has a namespace and a unit name; `client-ordered` takes the queues of an
//! ordered topic from `ORDER_TOPIC_CONFIG`, and receives each key's messages in order. With the Go
//! client's administration, `client-go-admin` lists topics (206) and deletes one (216).
//!
//! # mqadmin
//!
//! `mqadmin-sweep` gives 127 commands to mqadmin 5.5.0, one after another: all that talk to a
//! NameServer and end by themselves, most of them also with something that does not exist. For each
//! it compares what the command asked of the NameServer, what that answered, and what was printed,
//! with what they were with the Java NameServer: `tests/interop/sweep/mqadmin-5.5.0.tsv`. One
//! differs, on purpose: `updateNamesrvConfig` of a setting without effect here is refused.
//! mqadmin 4.9.7 reads routes (`old-broker`).
//!
//! # Not run
//!
//! These cannot be had from a package registry, or do not run on systems of today.
//!
//! | Program | Why | What stands in for it |
//! |---|---|---|
//! | PyPI `rocketmq-client-python` | brings no C++ library | `client-cpp`: the same library |
//! | npm `apache-rocketmq` | for Node.js 8 to 10 | `client-cpp`: the same library |
//! | RocketMQ dashboard | not published | `mqadmin-sweep`: the same Java class asks |
//! | RocketMQ exporter | not published | `mqadmin-sweep`: `topicList -c`, `statsAll` |
//!
//! Both sorts of ids, and where they change, are in `tests/scenarios/dialects.scn`; answers that
//! were recorded from a Java NameServer, byte by byte, in `tests/golden`.

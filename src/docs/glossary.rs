//! The words of this code, one a thing.
//!
//! | Word | Meaning | Java |
//! |---|---|---|
//! | topic | A named stream of messages, spread over groups | topic |
//! | broker | One broker process, known by group and address | broker |
//! | group | Brokers sharing one `brokerName`: a master and its slaves | `BrokerData` |
//! | member | A registered broker as an entry of the route table | `BrokerLiveInfo` |
//! | cluster | A named set of groups | cluster |
//! | route | Which groups serve a topic, with how many queues | `TopicRouteData` |
//! | queues, perm | A topic's share on one group: counts and permission bits | `QueueData` |
//! | data version | How a broker numbers its topic table | `DataVersion` |
//! | dialect | How maps with integer keys are written: legacy or standard | - |
//! | shard | One core's executor with its own listener and connections | - |
//! | writer | The one owner of the mutable tables | - |
//! | lane | The bounded queue from a shard to the writer | - |
//! | post box | The queue from the writer to a shard | - |
//! | letter, mail | What lies in a post box: an answer, or the order to close a connection | - |
//! | lease | A request's place with the writer and share of memory, until it is done | - |
//! | desk | What a handler has beside the view: settings, counters, the way to the writer | - |
//! | seat | A connection in its shard, with what is known of its peer's doings | - |
//! | door | What a connection may ask about its peer: which network, whether a proxy | - |
//! | slot | A place in a table that is used again: of a socket, a member, a group | - |
//! | epoch | Counts the changes of a group: tells whether a registration says nothing new | - |
//! | channel | The TLS of one connection | - |
//! | material | Certificates, keys and what else TLS is served with | - |
//! | doorbell | What wakes a sleeping shard or writer | - |
//! | view | Everything a reader can see, frozen at one moment | - |
//! | generation | Numbers views, or the uses of a slot | - |
//! | fragment | A piece of an answer, encoded when its source changed | - |
//! | notice | Tells brokers of a new smallest id in their group | code 905 |
//! | liveness | When a broker was last heard of | `brokerLiveTable` |

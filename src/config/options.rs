//! Every option there is: one entry each, and nothing about it anywhere else but where it is used.

use std::str::FromStr;

use super::network::Network;
use crate::limits::{CONNECTIONS_MAX, SHARDS_MAX};

/// What a value must look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `true` or `false`, in any letter case.
    Flag,
    /// A whole number from the first to the second, both included.
    Number(i64, i64),
    /// Any text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, in any letter case.
    OneOfAnyCase(&'static [&'static str]),
    /// Networks or single addresses, separated by commas; perhaps none.
    Networks,
}

/// What a value does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Works at once when it is changed through request code 318.
    Live,
    /// Works from the next start on.
    Start,
    /// Nothing, but it is kept and shown, because files and tools name it.
    Kept,
    /// Must be `false`: the function it switches on does not exist here.
    Absent,
}

/// Where an option comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// `NamesrvConfig` and `NettyServerConfig`: shown by request code 319, always.
    Java,
    /// Ours; shown by 319 only if the settings file has it.
    Own,
    /// `NettyClientConfig`: accepted in the file, where a Java server reads it for its outgoing
    /// client.
    Client,
    /// TLS. A Java server reads these from system properties or from a file of their own; here also
    /// from the settings file.
    Tls,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Its name in the settings file, letter case included.
    pub key: &'static str,
    /// Value if it is not given. Empty for paths means: made from the home directory.
    pub default: &'static str,
    /// What a value must look like.
    pub kind: Kind,
    /// What a value does.
    pub effect: Effect,
    /// Where it comes from.
    pub group: Group,
    /// Its long name on the command line, if it has one.
    pub flag: Option<&'static str>,
    /// For people.
    pub help: &'static str,
}

impl Opt {
    /// Says what is wrong with `value`, blanks around it already gone; `None` if it is right.
    #[must_use]
    pub fn objection(&self, value: &str) -> Option<String> {
        match self.kind {
            Kind::Flag if parse_flag(value).is_some() => None,
            Kind::Flag => Some("is neither true nor false".to_owned()),
            Kind::Number(min, max) => match value.parse::<i64>() {
                Ok(number) if (min..=max).contains(&number) => None,
                Ok(_) => Some(format!("is out of range ({min}..{max})")),
                Err(_) => Some(format!("is not a number ({min}..{max})")),
            },
            Kind::Text => None,
            Kind::OneOf(words) if words.contains(&value) => None,
            Kind::OneOfAnyCase(words)
                if words.iter().any(|word| word.eq_ignore_ascii_case(value)) =>
            {
                None
            }
            Kind::OneOf(words) | Kind::OneOfAnyCase(words) => {
                Some(format!("is none of: {}", words.join(", ")))
            }
            Kind::Networks => value
                .split(',')
                .map(str::trim)
                .find(|part| !part.is_empty() && Network::from_str(part).is_err())
                .map(|part| format!("is not a list of networks: {part:?} (like 10.0.0.0/8,::1)")),
        }
    }
}

/// `true` and `false` in any letter case, as `Boolean.parseBoolean`; unlike there, nothing else is
/// false.
#[must_use]
pub fn parse_flag(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// The option named `key`, letter case included.
#[must_use]
pub fn find(key: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.key == key)
}

/// The option whose name differs from `key` in letter case or separators only: what a misspelt line
/// may have meant.
#[must_use]
pub fn find_similar(key: &str) -> Option<&'static Opt> {
    let plain = |text: &str| text.replace(['-', '_', '.'], "").to_ascii_lowercase();
    let wanted = plain(key);
    OPTIONS.iter().find(|option| plain(option.key) == wanted)
}

/// Keys that request code 318 refuses whatever `configBlackList` says (Java: the same four).
pub const NEVER_REMOTE: [&str; 4] =
    ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"];

const INT: Kind = Kind::Number(i32::MIN as i64, i32::MAX as i64);
const LONG: Kind = Kind::Number(i64::MIN, i64::MAX);
const COUNT: Kind = Kind::Number(0, i32::MAX as i64);
const NO_EFFECT: &str = "no effect here";

const fn option(
    group: Group,
    effect: Effect,
    key: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Opt {
    Opt { key, default, kind, effect, group, flag: None, help }
}

const fn java(
    effect: Effect,
    key: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Opt {
    option(Group::Java, effect, key, kind, default, help)
}

const fn kept(key: &'static str, kind: Kind, default: &'static str) -> Opt {
    option(Group::Java, Effect::Kept, key, kind, default, NO_EFFECT)
}

const fn own(
    key: &'static str,
    flag: Option<&'static str>,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Opt {
    Opt { flag, ..option(Group::Own, Effect::Start, key, kind, default, help) }
}

/// Accepted whatever its value, because nothing reads it.
const fn ignored(group: Group, key: &'static str) -> Opt {
    option(group, Effect::Kept, key, Kind::Text, "", NO_EFFECT)
}

const fn tls(
    key: &'static str,
    flag: Option<&'static str>,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Opt {
    Opt { flag, ..option(Group::Tls, Effect::Start, key, kind, default, help) }
}

const fn flagged(flag: &'static str, option: Opt) -> Opt {
    Opt { flag: Some(flag), ..option }
}

use Effect::{Absent, Live, Start};
use Kind::{Flag, Networks, Number, OneOf, OneOfAnyCase, Text};

/// All options, in the order they are printed.
#[rustfmt::skip]
pub const OPTIONS: &[Opt] = &[
    java(Start, "rocketmqHome", Text, "", "installation directory; shown, not used"),
    java(Start, "kvConfigPath", Text, "", "file of the KV table; default ~/namesrv/kvConfig.json"),
    java(Start, "configStorePath", Text, "",
        "where changed settings are written; the -c file if there is one"),
    java(Start, "configBlackList", Text, "configBlackList;configStorePath;kvConfigPath",
        "more keys that 318 refuses, separated by semicolons"),
    kept("productEnvName", Text, "center"),
    java(Absent, "clusterTest", Flag, "false", "does not exist here"),
    java(Live, "orderMessageEnable", Flag, "false",
        "add the order configuration of a topic to its route"),
    java(Live, "returnOrderTopicConfigToBroker", Flag, "true",
        "send all order configurations to registering brokers"),
    kept("clientRequestThreadPoolNums", INT, "8"),
    kept("defaultThreadPoolNums", INT, "16"),
    kept("clientRequestThreadPoolQueueCapacity", INT, "50000"),
    kept("defaultThreadPoolQueueCapacity", INT, "10000"),
    kept("scanNotActiveBrokerInterval", LONG, "5000"),
    kept("unRegisterBrokerQueueCapacity", INT, "3000"),
    java(Live, "supportActingMaster", Flag, "false",
        "let a slave stand in for a missing master in routes"),
    java(Live, "enableAllTopicList", Flag, "true", "answer 206, the list of all topics"),
    java(Live, "enableTopicList", Flag, "true", "answer 224 and 311-313, the lists of some topics"),
    java(Live, "notifyMinBrokerIdChanged", Flag, "false",
        "tell brokers when the lowest id of their group changes"),
    java(Absent, "enableControllerInNamesrv", Flag, "false", "does not exist here"),
    java(Live, "needWaitForService", Flag, "false", "refuse route queries right after the start"),
    java(Live, "waitSecondsForService", Number(0, 86_400), "45",
        "how long needWaitForService refuses, in seconds"),
    java(Live, "deleteTopicWithBrokerRegistration", Flag, "false",
        "a registration deletes the topics it leaves out"),

    flagged("bind-address", java(Start, "bindAddress", Text, "0.0.0.0",
        "host, IPv4 or IPv6 address; :: serves both")),
    flagged("listen-port", java(Start, "listenPort", Number(0, 65_535), "9876",
        "port; 0 takes a free one")),
    kept("serverWorkerThreads", INT, "8"),
    kept("serverCallbackExecutorThreads", INT, "0"),
    kept("serverSelectorThreads", INT, "3"),
    kept("serverOnewaySemaphoreValue", INT, "256"),
    kept("serverAsyncSemaphoreValue", INT, "64"),
    java(Start, "serverChannelMaxIdleTimeSeconds", COUNT, "120",
        "close silent connections after so many seconds; 0 never"),
    kept("serverSocketSndBufSize", COUNT, "0"),
    kept("serverSocketRcvBufSize", COUNT, "0"),
    kept("writeBufferHighWaterMark", INT, "0"),
    kept("writeBufferLowWaterMark", INT, "0"),
    kept("serverSocketBacklog", INT, "1024"),
    kept("serverNettyWorkerGroupEnable", Flag, "true"),
    kept("serverPooledByteBufAllocatorEnable", Flag, "true"),
    kept("useEpollNativeSelector", Flag, "false"),
    java(Start, "enableShutdownGracefully", Flag, "false",
        "give a stop shutdownWaitTimeSeconds, not 5, to send what is owed"),
    java(Start, "shutdownWaitTimeSeconds", Number(0, 86_400), "30",
        "longest that a stop takes with enableShutdownGracefully, in seconds"),

    own("shards", Some("shards"), Number(0, SHARDS_MAX as i64), "0",
        "cores that serve connections; 0 all but one"),
    own("maxConnections", Some("max-connections"), Number(0, CONNECTIONS_MAX as i64), "0",
        "most connections at a time; 0 as many as the open-files limit allows"),
    own("logDir", Some("log-dir"), Text, "",
        "write namesrv.log in this directory instead of standard output"),
    own("logLevel", Some("log-level"), OneOf(&["off", "error", "warn", "info", "debug", "trace"]),
        "info",
        "least serious kind of line to log"),
    own("routeSnapshotPath", Some("route-snapshot"), Text, "",
        "file to keep the route table in over a restart; empty starts without routes"),
    own("allowRemoteConfigUpdate", Some("allow-remote-config-update"), Flag, "false",
        "let request code 318 change live settings; adminFrom says who may send it"),
    own("proxyProtocolFrom", None, Networks, "", "who may send a PROXY header; empty anybody"),
    own("adminFrom", None, Networks, "",
        "who may change KV, topics, permissions and settings; empty anybody"),
    own("brokerFrom", None, Networks, "",
        "who may register brokers and topics' queues; empty anybody"),

    ignored(Group::Client, "clientWorkerThreads"),
    ignored(Group::Client, "clientCallbackExecutorThreads"),
    ignored(Group::Client, "clientOnewaySemaphoreValue"),
    ignored(Group::Client, "clientAsyncSemaphoreValue"),
    ignored(Group::Client, "connectTimeoutMillis"),
    ignored(Group::Client, "channelNotActiveInterval"),
    ignored(Group::Client, "clientChannelMaxIdleTimeSeconds"),
    ignored(Group::Client, "clientSocketSndBufSize"),
    ignored(Group::Client, "clientSocketRcvBufSize"),
    ignored(Group::Client, "clientPooledByteBufAllocatorEnable"),
    ignored(Group::Client, "clientCloseSocketIfTimeout"),
    ignored(Group::Client, "useTLS"),
    ignored(Group::Client, "socksProxyConfig"),
    ignored(Group::Client, "disableCallbackExecutor"),
    ignored(Group::Client, "disableNettyWorkerGroup"),
    ignored(Group::Client, "maxReconnectIntervalTimeSeconds"),
    ignored(Group::Client, "enableReconnectForGoAway"),
    ignored(Group::Client, "scanAvailableNameSrv"),

    tls("tls.server.mode", Some("tls-server-mode"),
        OneOf(&["disabled", "permissive", "enforcing"]), "permissive",
        "serve plain connections, both kinds, or TLS only"),
    tls("tls.config.file", Some("tls-config-file"), Text, "",
        "file with more tls.* settings; default /etc/rocketmq/tls.properties if it exists"),
    tls("tls.test.mode.enable", Some("tls-test-mode-enable"), Flag, "true",
        "serve a self-signed certificate made at start, whatever files are named"),
    tls("tls.server.certPath", Some("tls-server-cert-path"), Text, "",
        "certificate chain in PEM form, the server's own first"),
    tls("tls.server.keyPath", Some("tls-server-key-path"), Text, "", "private key in PEM form"),
    // No flag: everybody can see a process's command line.
    tls("tls.server.keyPassword", None, Text, "", "password of the private key"),
    tls("tls.server.need.client.auth", Some("tls-server-need-client-auth"),
        OneOfAnyCase(&["none", "optional", "require"]), "none",
        "whether clients must show a certificate"),
    tls("tls.server.authClient", Some("tls-server-auth-client"), Flag, "false",
        "accept only certificates of clients that tls.server.trustCertPath vouches for"),
    tls("tls.server.trustCertPath", Some("tls-server-trust-cert-path"), Text, "",
        "certificates of those who may issue clients' certificates, in PEM form"),
    tls("tls.ciphers", Some("tls-ciphers"), Text, "",
        "cipher suites, separated by commas; empty all that are secure"),
    tls("tls.protocols", Some("tls-protocols"), Text, "",
        "TLSv1.2 and TLSv1.3, separated by a comma; empty both"),
    ignored(Group::Tls, "tls.enable"),
    ignored(Group::Tls, "tls.client.keyPath"),
    ignored(Group::Tls, "tls.client.keyPassword"),
    ignored(Group::Tls, "tls.client.certPath"),
    ignored(Group::Tls, "tls.client.authServer"),
    ignored(Group::Tls, "tls.client.trustCertPath"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_and_flags_are_unique() {
        let keys: BTreeSet<_> = OPTIONS.iter().map(|option| option.key).collect();
        assert_eq!(keys.len(), OPTIONS.len());
        let flags: Vec<_> = OPTIONS.iter().filter_map(|option| option.flag).collect();
        assert_eq!(flags.iter().collect::<BTreeSet<_>>().len(), flags.len());
    }

    #[test]
    fn every_default_passes_its_own_check() {
        for option in OPTIONS {
            assert_eq!(option.objection(option.default), None, "{}", option.key);
        }
    }

    #[test]
    fn there_are_39_java_options_and_the_home() {
        let java = OPTIONS.iter().filter(|option| option.group == Group::Java);
        assert_eq!(java.count(), 40);
    }

    #[test]
    fn numbers_are_read_as_java_reads_them() {
        let port = find("listenPort").unwrap();
        for good in ["0", "9876", "+9", "65535"] {
            assert_eq!(port.objection(good), None, "{good}");
        }
        for bad in ["abc", "", "0x10", "9.0", "99999999999999999999"] {
            let objection = port.objection(bad);
            assert_eq!(objection.as_deref(), Some("is not a number (0..65535)"), "{bad}");
        }
        assert_eq!(port.objection("65536").as_deref(), Some("is out of range (0..65535)"));
        assert_eq!(port.objection("-5").as_deref(), Some("is out of range (0..65535)"));
    }

    #[test]
    fn flags_words_and_networks_are_checked() {
        let flag = find("enableTopicList").unwrap();
        assert_eq!(flag.objection("TRUE"), None);
        assert!(flag.objection("yes").is_some());
        let level = find("logLevel").unwrap();
        assert_eq!(level.objection("debug"), None);
        assert!(level.objection("loud").unwrap().contains("off, error"));
        let auth = find("tls.server.need.client.auth").unwrap();
        assert_eq!(auth.objection("REQUIRE"), None);
        assert!(auth.objection("must").unwrap().contains("none, optional"));
        let networks = find("proxyProtocolFrom").unwrap();
        assert_eq!(networks.objection("10.0.0.0/8, ::1"), None);
        assert!(networks.objection("10.0.0.0/8,lb1").unwrap().contains("\"lb1\""));
    }

    #[test]
    fn a_near_miss_finds_the_option_it_means() {
        assert_eq!(find_similar("listenport").unwrap().key, "listenPort");
        assert_eq!(find_similar("log-dir").unwrap().key, "logDir");
        assert!(find_similar("brokerName").is_none());
    }
}

//! Request and response codes and their names.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: i32 = $code;)*

        /// The name of a code of this list, for the log.
        #[must_use]
        pub fn name(code: i32) -> Option<&'static str> {
            match code {
                $($name => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

/// What is asked (Java: `RequestCode`).
pub mod request {
    codes! {
        /// Stores one value of the KV table.
        PUT_KV_CONFIG = 100;
        /// One value of the KV table.
        GET_KV_CONFIG = 101;
        /// Removes one value of the KV table.
        DELETE_KV_CONFIG = 102;
        /// A broker announces itself and its topics.
        REGISTER_BROKER = 103;
        /// A broker leaves.
        UNREGISTER_BROKER = 104;
        /// Where is this topic? Nearly all requests.
        GET_ROUTEINFO_BY_TOPIC = 105;
        /// All brokers and clusters.
        GET_BROKER_CLUSTER_INFO = 106;
        /// Takes write permission from all topics of a broker.
        WIPE_WRITE_PERM_OF_BROKER = 205;
        /// The names of all topics.
        GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206;
        /// Removes a topic.
        DELETE_TOPIC_IN_NAMESRV = 216;
        /// Adds a topic without a broker's registration. Up to 3.x the code meant a look-up of KV
        /// values.
        REGISTER_TOPIC_IN_NAMESRV = 217;
        /// All values of one KV namespace.
        GET_KVLIST_BY_NAMESPACE = 219;
        /// The topics of a cluster.
        GET_TOPICS_BY_CLUSTER = 224;
        /// Names of clusters and brokers, and one broker's address.
        GET_SYSTEM_TOPIC_LIST_FROM_NS = 304;
        /// Topics with the unit flag.
        GET_UNIT_TOPIC_LIST = 311;
        /// Topics with the unit-subscription flag.
        GET_HAS_UNIT_SUB_TOPIC_LIST = 312;
        /// Topics with the unit-subscription flag but not the unit flag.
        GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313;
        /// Changes settings.
        UPDATE_NAMESRV_CONFIG = 318;
        /// All settings.
        GET_NAMESRV_CONFIG = 319;
        /// Has this broker's data version changed? Counts as a sign of life.
        QUERY_DATA_VERSION = 322;
        /// Gives write permission back.
        ADD_WRITE_PERM_OF_BROKER = 327;
        /// The members of one group of brokers.
        GET_BROKER_MEMBER_GROUP = 901;
        /// A sign of life.
        BROKER_HEARTBEAT = 904;
        /// Sent by the server to brokers: another broker has the smallest id of your group now.
        NOTIFY_MIN_BROKER_ID_CHANGE = 905;
    }
}

/// What is answered (Java: `ResponseCode`, `RemotingSysResponseCode`).
pub mod response {
    codes! {
        /// Done.
        SUCCESS = 0;
        /// Not done; the remark says why.
        SYSTEM_ERROR = 1;
        /// Not done, try again later.
        SYSTEM_BUSY = 2;
        /// No such request code.
        REQUEST_CODE_NOT_SUPPORTED = 3;
        /// Forbidden.
        NO_PERMISSION = 16;
        /// The topic has no route.
        TOPIC_NOT_EXIST = 17;
        /// Nothing is stored under this name.
        QUERY_NOT_FOUND = 22;
        /// The server is going down: connect to another one.
        GO_AWAY = 1500;
    }
}

/// Remark in place of an answer that no client reads: every one cuts the connection at a larger
/// frame.
pub const ANSWER_TOO_LARGE: &str = "the answer is larger than 16 MiB";
const _: () = assert!(crate::limits::FRAME_BYTES_MAX == 16 << 20, "a message names the limit");

/// Whether a request may change a table or a broker's liveness; the others only read.
#[must_use]
pub fn is_write(code: i32) -> bool {
    matches!(
        code,
        request::PUT_KV_CONFIG
            | request::DELETE_KV_CONFIG
            | request::REGISTER_BROKER
            | request::UNREGISTER_BROKER
            | request::BROKER_HEARTBEAT
            | request::QUERY_DATA_VERSION
            | request::REGISTER_TOPIC_IN_NAMESRV
            | request::DELETE_TOPIC_IN_NAMESRV
            | request::WIPE_WRITE_PERM_OF_BROKER
            | request::ADD_WRITE_PERM_OF_BROKER
            | request::UPDATE_NAMESRV_CONFIG
    )
}

/// Who has a reason to send a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// Anybody: it reads. Also whatever is not known.
    Anybody,
    /// A broker: it changes what is known of brokers.
    Broker,
    /// Whoever runs the fleet, through `mqadmin` or a dashboard: it changes everything else.
    Admin,
}

/// Who has a reason to send a request with this code.
#[must_use]
pub fn sender(code: i32) -> Sender {
    match code {
        request::REGISTER_BROKER
        | request::UNREGISTER_BROKER
        | request::BROKER_HEARTBEAT
        | request::QUERY_DATA_VERSION
        | request::REGISTER_TOPIC_IN_NAMESRV => Sender::Broker,
        request::PUT_KV_CONFIG
        | request::DELETE_KV_CONFIG
        | request::DELETE_TOPIC_IN_NAMESRV
        | request::WIPE_WRITE_PERM_OF_BROKER
        | request::ADD_WRITE_PERM_OF_BROKER
        | request::UPDATE_NAMESRV_CONFIG => Sender::Admin,
        _ => Sender::Anybody,
    }
}

/// Which requests a peer may send beside those that anybody may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Those of a broker.
    pub broker: bool,
    /// Those of whoever runs the fleet.
    pub admin: bool,
}

impl Rights {
    /// Every request.
    pub const ALL: Rights = Rights { broker: true, admin: true };

    /// Whose request it is, if it is none of a peer with these rights.
    #[must_use]
    pub fn forbid(self, code: i32) -> Option<Sender> {
        if self == Rights::ALL {
            return None;
        }
        let sender = sender(code);
        let may = match sender {
            Sender::Anybody => true,
            Sender::Broker => self.broker,
            Sender::Admin => self.admin,
        };
        (!may).then_some(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        assert_eq!(request::name(105), Some("GET_ROUTEINFO_BY_TOPIC"));
        assert_eq!(request::name(218), None);
        assert_eq!(response::name(1500), Some("GO_AWAY"));
        assert_eq!(response::name(-1), None);
    }

    #[test]
    fn what_changes_something_is_a_brokers_or_an_admins() {
        for code in -1..1000 {
            assert_eq!(is_write(code), sender(code) != Sender::Anybody, "{code}");
        }
    }

    #[test]
    fn rights_forbid_what_is_others_to_ask() {
        let broker = Rights { broker: true, admin: false };
        let nobody = Rights { broker: false, admin: false };
        assert_eq!(Rights::ALL.forbid(318), None);
        assert_eq!(broker.forbid(103), None);
        assert_eq!(broker.forbid(318), Some(Sender::Admin));
        assert_eq!(nobody.forbid(904), Some(Sender::Broker));
        for code in [101, 105, 106, 206, 219, 224, 304, 311, 312, 313, 319, 901, 999] {
            assert_eq!(nobody.forbid(code), None, "{code}");
        }
    }
}

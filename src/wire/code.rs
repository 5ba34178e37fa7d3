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
}

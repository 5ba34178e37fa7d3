use proptest::prelude::*;

use super::*;

/// As Java's defaults, with remote updates on, and two properties of the file that are no option.
fn open() -> Settings {
    let mut fixed = Settings::default().fixed.to_vec();
    for (key, value, listed) in [("brokerName", "b0", true), ("aclSecretKey", "s", false)] {
        let (key, value) = (key.to_owned(), value.to_owned());
        fixed.push(Property { key, in_file: Some(value.clone()), value, listed });
    }
    Settings { allow_remote_config_update: true, fixed: fixed.into(), ..Settings::default() }
}

fn refused(text: &str) -> (i32, String) {
    let refused = open().update(text.as_bytes()).unwrap_err();
    (refused.code, refused.remark.into_owned())
}

fn listing(settings: &Settings) -> String {
    let mut out = Vec::new();
    settings.listing(&mut out);
    String::from_utf8(out).unwrap()
}

const FORBIDDEN: &str = "Can not update config in black list.";

#[test]
fn defaults_are_those_of_java() {
    let settings = Settings::default();
    assert!(settings.return_order_topic_config_to_broker);
    assert!(settings.enable_all_topic_list && settings.enable_topic_list);
    assert_eq!(settings.wait_seconds_for_service, 45);
    let off = [
        settings.order_message_enable,
        settings.support_acting_master,
        settings.notify_min_broker_id_changed,
        settings.need_wait_for_service,
        settings.delete_topic_with_broker_registration,
        settings.allow_remote_config_update,
    ];
    assert_eq!(off, [false; 6]);
}

#[test]
fn the_listing_of_defaults_is_that_of_java() {
    let wanted = "bindAddress=0.0.0.0\n\
        clientRequestThreadPoolNums=8\n\
        clientRequestThreadPoolQueueCapacity=50000\n\
        clusterTest=false\n\
        configBlackList=configBlackList;configStorePath;kvConfigPath\n\
        configStorePath=\n\
        defaultThreadPoolNums=16\n\
        defaultThreadPoolQueueCapacity=10000\n\
        deleteTopicWithBrokerRegistration=false\n\
        enableAllTopicList=true\n\
        enableControllerInNamesrv=false\n\
        enableShutdownGracefully=false\n\
        enableTopicList=true\n\
        kvConfigPath=\n\
        listenPort=9876\n\
        needWaitForService=false\n\
        notifyMinBrokerIdChanged=false\n\
        orderMessageEnable=false\n\
        productEnvName=center\n\
        returnOrderTopicConfigToBroker=true\n\
        scanNotActiveBrokerInterval=5000\n\
        serverAsyncSemaphoreValue=64\n\
        serverCallbackExecutorThreads=0\n\
        serverChannelMaxIdleTimeSeconds=120\n\
        serverNettyWorkerGroupEnable=true\n\
        serverOnewaySemaphoreValue=256\n\
        serverPooledByteBufAllocatorEnable=true\n\
        serverSelectorThreads=3\n\
        serverSocketBacklog=1024\n\
        serverSocketRcvBufSize=0\n\
        serverSocketSndBufSize=0\n\
        serverWorkerThreads=8\n\
        shutdownWaitTimeSeconds=30\n\
        supportActingMaster=false\n\
        unRegisterBrokerQueueCapacity=3000\n\
        useEpollNativeSelector=false\n\
        waitSecondsForService=45\n\
        writeBufferHighWaterMark=0\n\
        writeBufferLowWaterMark=0\n";
    assert_eq!(listing(&Settings::default()), wanted);
}

#[test]
fn every_live_option_changes_and_shows_its_change() {
    for option in OPTIONS.iter().filter(|option| option.effect == Effect::Live) {
        let value = match option.default {
            "true" => "false",
            "false" => "true",
            _ => "7",
        };
        let line = format!("{}={value}\n", option.key);
        let next = open().update(line.as_bytes()).unwrap();
        assert_ne!(next, open(), "{line}");
        assert!(listing(&next).contains(&line), "{line}");
        assert!(next.file_text().contains(&format!("\n{line}")), "{line}");
    }
}

#[test]
fn an_update_is_refused_unless_switched_on() {
    let closed = Settings::default();
    let refused = closed.update(b"orderMessageEnable=true").unwrap_err();
    assert_eq!(refused.code, 16);
    assert!(refused.remark.contains("allowRemoteConfigUpdate=true"), "{}", refused.remark);
    assert_eq!(closed.update(b""), Ok(closed.clone()));
}

#[test]
fn malformed_text_is_a_system_error() {
    assert_eq!(refused("a=\\u00g1"), (1, "string2Properties error".to_owned()));
}

#[test]
fn a_forbidden_key_refuses_the_whole_update() {
    for key in ["configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"] {
        let text = format!("waitSecondsForService=7\n{key}=/x\n");
        assert_eq!(refused(&text), (16, FORBIDDEN.to_owned()), "{key}");
    }
}

#[test]
fn the_black_list_of_the_file_adds_to_the_four() {
    let mut settings = open();
    let mut fixed = settings.fixed.to_vec();
    let list = fixed.iter_mut().find(|property| property.key == "configBlackList").unwrap();
    list.value = "enableTopicList; notifyMinBrokerIdChanged".to_owned();
    settings.fixed = fixed.into();
    for key in ["enableTopicList", "notifyMinBrokerIdChanged", "kvConfigPath"] {
        let refused = settings.update(format!("{key}=true").as_bytes()).unwrap_err();
        assert_eq!((refused.code, &*refused.remark), (16, FORBIDDEN), "{key}");
    }
    assert!(settings.update(b"orderMessageEnable=true").is_ok());
}

#[test]
fn unknown_keys_and_numbers_that_are_none_are_passed_over() {
    let texts = ["noSuchKey=1", "waitSecondsForService=abc", "waitSecondsForService=", "\n# x\n"];
    for text in texts {
        assert_eq!(open().update(text.as_bytes()), Ok(open()), "{text:?}");
    }
    let next = open().update(b"noSuchKey=1\nwaitSecondsForService=+9\n").unwrap();
    assert_eq!(next.wait_seconds_for_service, 9);
}

#[test]
fn what_is_fixed_is_refused_by_name_unless_it_stays_as_it_is() {
    for text in [
        "defaultThreadPoolNums=0",
        "scanNotActiveBrokerInterval=0",
        "listenPort=1",
        "allowRemoteConfigUpdate=false",
        "shards=9",
        "tls.server.mode=disabled",
        "brokerName=b1",
        "aclSecretKey=t",
        "aclSecretKey=s",
    ] {
        let (code, remark) = refused(&format!("orderMessageEnable=true\n{text}"));
        assert_eq!(code, 16);
        let key = text.split('=').next().unwrap();
        assert!(remark.contains(&format!(": {key}. ")), "{remark}");
    }
    let next = open().update(b"listenPort=9876\nbrokerName=b0\norderMessageEnable=true").unwrap();
    assert!(next.order_message_enable);
    let many: String = OPTIONS.iter().map(|option| format!("{}=1\n", option.key)).collect();
    assert_eq!(refused(&many).1, FORBIDDEN);
}

#[test]
fn values_out_of_range_or_of_another_kind_are_refused() {
    for text in ["waitSecondsForService=-5", "waitSecondsForService=99999999"] {
        assert!(refused(text).1.contains("is out of range (0..86400)"), "{text}");
    }
    assert!(refused("enableTopicList=ture").1.contains("is neither true nor false"));
    let next = open().update(b"orderMessageEnable=true \n").unwrap();
    assert!(next.order_message_enable);
}

#[test]
fn control_characters_cannot_plant_lines() {
    for text in ["waitSecondsForService=7\\nkvConfigPath=/x", "noSuchKey=a\\u0000b"] {
        let (code, remark) = refused(text);
        assert_eq!(code, 16);
        assert!(remark.contains("control characters"), "{remark}");
    }
    let mut settings = Settings::default();
    let value = "a\nlistenPort=1".to_owned();
    let property =
        Property { key: "x".to_owned(), in_file: Some(value.clone()), value, listed: true };
    settings.fixed = [property].into();
    assert!(listing(&settings).contains("\nx=a\\nlistenPort=1\n"));
    assert!(settings.file_text().contains("\nx=a\\nlistenPort=1\n"));
}

#[test]
fn an_update_is_bounded() {
    let text = vec![b'#'; SETTINGS_UPDATE_BYTES_MAX + 1];
    assert_eq!(open().update(&text).unwrap_err().code, 16);
}

#[test]
fn the_last_of_equal_keys_counts() {
    let next = open().update(b"waitSecondsForService=7\nwaitSecondsForService=8").unwrap();
    assert_eq!(next.wait_seconds_for_service, 8);
}

#[test]
fn a_stored_file_holds_everything_and_reads_back() {
    let settings = open().update(b"supportActingMaster=true").unwrap();
    let text = settings.file_text();
    let entries = properties::parse(text.as_bytes()).unwrap();
    assert_eq!(entries.len(), 41);
    let value =
        |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_str());
    assert_eq!(value("supportActingMaster"), Some("true"));
    assert_eq!(value("aclSecretKey"), Some("s"));
    assert_eq!(value("listenPort"), Some("9876"));
}

proptest! {
    #[test]
    fn no_update_breaks_the_settings(
        text in "(waitSecondsForService|enableTopicList|listenPort|x)[=: ]\\PC{0,12}"
    ) {
        if let Ok(next) = open().update(text.as_bytes()) {
            prop_assert_eq!(&next.fixed, &open().fixed);
            prop_assert!(next.wait_seconds_for_service <= 86_400);
        }
    }
}

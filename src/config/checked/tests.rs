use std::path::Path;

use super::*;
use crate::tls::options::{ClientAuth, Mode};

fn given(key: &str, value: &str, origin: Origin) -> Given {
    Given { key: key.to_owned(), value: value.to_owned(), origin }
}

/// As if `namesrv.conf` had these lines, the first being line 1.
fn file(lines: &[(&str, &str)]) -> Raw {
    let given = lines
        .iter()
        .enumerate()
        .map(|(at, (key, value))| given(key, value, Origin::File("namesrv.conf".into(), at + 1)));
    Raw {
        config_file: Some("namesrv.conf".into()),
        user_home: Some("/home/mq".into()),
        given: given.collect(),
        ..Raw::default()
    }
}

fn config(lines: &[(&str, &str)]) -> Config {
    Config::check(file(lines)).unwrap()
}

fn errors(lines: &[(&str, &str)]) -> String {
    let fatal = Config::check(file(lines)).unwrap_err();
    assert_eq!(fatal.exit_code, Exit::Config);
    fatal.message
}

fn listing(config: &Config) -> String {
    let mut out = Vec::new();
    config.settings.listing(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn nothing_given_is_what_a_java_server_starts_with() {
    let raw = Raw { user_home: Some("/home/mq".into()), ..Raw::default() };
    let config = Config::check(raw).unwrap();
    assert_eq!((&*config.bind_address, config.listen_port), ("0.0.0.0", 9876));
    assert_eq!(config.kv_config_path, Path::new("/home/mq/namesrv/kvConfig.json"));
    assert_eq!(config.config_store_path, Path::new("/home/mq/namesrv/namesrv.properties"));
    assert_eq!(config.idle_timeout_ms, Some(120_000));
    assert_eq!((config.stop_ms, config.max_connections, config.shards), (None, None, 0));
    assert!(config.warnings.is_empty());
    let defaults = Settings { fixed: config.settings.fixed.clone(), ..Settings::default() };
    assert_eq!(config.settings, defaults);
}

#[test]
fn every_mistake_is_named_with_file_and_line() {
    let message = errors(&[
        ("orderMessageEnable", "yes"),
        ("kvConfigPath", "/kv"),
        ("listenPort", "abc"),
        ("serverWorkerThreads", "9.0"),
        ("waitSecondsForService", "-1"),
    ]);
    let wanted = "namesrv.conf:1: orderMessageEnable=yes is neither true nor false\n\
        namesrv.conf:3: listenPort=abc is not a number (0..65535)\n\
        namesrv.conf:4: serverWorkerThreads=9.0 is not a number (-2147483648..2147483647)\n\
        namesrv.conf:5: waitSecondsForService=-1 is out of range (0..86400)";
    assert_eq!(message, wanted);
}

#[test]
fn blanks_around_values_do_not_matter() {
    let config = config(&[("listenPort", "9877 "), ("supportActingMaster", " true\t")]);
    assert_eq!(config.listen_port, 9877);
    assert!(config.settings.support_acting_master);
}

#[test]
fn what_does_not_exist_here_is_refused_with_its_cure() {
    let message = errors(&[("clusterTest", "true"), ("enableControllerInNamesrv", "TRUE")]);
    assert!(message.starts_with("namesrv.conf:1: clusterTest=true is not supported"), "{message}");
    assert!(message.contains("run the controller on its own"), "{message}");
    config(&[("clusterTest", "false"), ("enableControllerInNamesrv", "false")]);
}

#[test]
fn the_serialize_type_is_one_of_two_words() {
    let with = |text: &str| {
        Config::check(Raw { serialize_type: Some(text.to_owned()), ..file(&[]) })
            .map(|config| config.settings.header_kind)
    };
    assert_eq!(with(""), Ok(HeaderKind::Json));
    assert_eq!(with("JSON"), Ok(HeaderKind::Json));
    assert_eq!(with("ROCKETMQ"), Ok(HeaderKind::Binary));
    let message = with("rocketmq").unwrap_err().message;
    let wanted = "environment: ROCKETMQ_SERIALIZE_TYPE=rocketmq is neither JSON nor ROCKETMQ";
    assert_eq!(message, wanted);
}

#[test]
fn a_flag_wins_over_the_file_but_does_not_get_into_it() {
    let mut raw = file(&[("listenPort", "1111"), ("bindAddress", "::1"), ("shards", "1")]);
    for (key, value) in [("listenPort", "2222"), ("shards", "2"), ("maxConnections", "9")] {
        raw.given.push(given(key, value, Origin::Flag("some-flag")));
    }
    let config = Config::check(raw).unwrap();
    assert_eq!((config.listen_port, config.shards), (2222, 2));
    assert_eq!(config.max_connections, Some(9));
    let listing = listing(&config);
    assert!(listing.contains("listenPort=2222\n") && listing.contains("shards=2\n"), "{listing}");
    assert!(!listing.contains("maxConnections"), "{listing}");
    let text = config.settings.file_text();
    assert!(text.contains("\nlistenPort=1111\n") && text.contains("\nshards=1\n"), "{text}");
    assert!(!text.contains("maxConnections"), "{text}");
}

#[test]
fn the_settings_file_is_where_changes_are_stored() {
    let config = config(&[("configStorePath", "/elsewhere")]);
    assert_eq!(config.config_store_path, Path::new("namesrv.conf"));
    assert!(listing(&config).contains("configStorePath=namesrv.conf\n"));
}

#[test]
fn without_a_home_directory_the_paths_must_be_given() {
    let message = Config::check(Raw::default()).unwrap_err().message;
    assert_eq!(message.lines().count(), 2);
    assert!(message.starts_with("kvConfigPath is not set and neither is HOME"), "{message}");
    assert!(Config::check(Raw { print: true, ..Raw::default() }).is_ok());
    let raw = Raw { user_home: None, ..file(&[("kvConfigPath", "/kv")]) };
    assert_eq!(Config::check(raw).unwrap().kv_config_path, Path::new("/kv"));
}

#[test]
fn odd_lines_are_warned_of_once() {
    let config = config(&[
        ("brokerName", "a"),
        ("listenport", "1"),
        ("listenPort", "2"),
        ("listenPort", "3"),
        ("brokerId", "0"),
        ("tls.enable", "true"),
    ]);
    let wanted = [
        "namesrv.conf:2: listenport has no effect; did you mean listenPort?",
        "namesrv.conf:4: listenPort stands in line 3 too; the last counts",
        "namesrv.conf: not known here, kept without effect: brokerName (line 1), brokerId (line 5)",
    ];
    assert_eq!(config.warnings, wanted);
    assert_eq!(config.listen_port, 3);
}

#[test]
fn other_properties_are_listed_and_stored_but_secrets_only_stored() {
    let config = config(&[
        ("brokerName", " two words "),
        ("aclSecretKey", "s3cret"),
        ("tls.server.keyPassword", "hunter2"),
        ("initAuthenticationUser", "{\"username\":\"a\",\"password\":\"b\"}"),
        ("store", "redis://user:pw@host"),
    ]);
    let listing = listing(&config);
    assert!(listing.contains("brokerName= two words \n"), "{listing}");
    let text = config.settings.file_text();
    for (key, secret) in [
        ("aclSecretKey", "s3cret"),
        ("tls.server.keyPassword", "hunter2"),
        ("initAuthenticationUser", "username"),
        ("store", "pw@host"),
    ] {
        assert!(!listing.contains(key) && !listing.contains(secret), "{listing}");
        assert!(text.contains(key) && text.contains(secret), "{text}");
        let items = config.print_items();
        assert!(items.contains(&format!("{key}=(hidden)\n")) && !items.contains(secret));
    }
}

#[test]
fn the_home_of_the_environment_is_listed_and_not_stored() {
    let mut raw = file(&[]);
    raw.given.push(given("rocketmqHome", "/opt/mq", Origin::Env("ROCKETMQ_HOME")));
    let config = Config::check(raw).unwrap();
    assert!(listing(&config).contains("rocketmqHome=/opt/mq\n"));
    assert_eq!(listing(&config).lines().count(), 40);
    assert!(!config.settings.file_text().contains("rocketmqHome"));
}

#[test]
fn an_empty_path_is_as_good_as_none_and_an_empty_number_is_not() {
    let config = config(&[("kvConfigPath", ""), ("bindAddress", " ")]);
    assert_eq!(config.kv_config_path, Path::new("/home/mq/namesrv/kvConfig.json"));
    assert_eq!(config.bind_address, "0.0.0.0");
    assert!(errors(&[("listenPort", "")]).contains("listenPort= is not a number"));
}

#[test]
fn messages_stay_short_and_on_one_line() {
    let long = format!("a\nb{}", "x".repeat(1000));
    let message = errors(&[("listenPort", &long), ("logDir", "/a\tb/c\u{7}d")]);
    assert_eq!(message.lines().count(), 2);
    assert!(message.len() < 300, "{message}");
    assert!(message.contains("logDir=/a\\tb/c\\u{7}d has control characters"), "{message}");
}

#[test]
fn a_password_is_not_in_the_message_that_refuses_it() {
    for value in ["hunter2\ta\tb", "hunter2\nx"] {
        let message = errors(&[("tls.server.keyPassword", value)]);
        let wanted = "namesrv.conf:1: tls.server.keyPassword=(hidden) has control characters";
        assert_eq!(message, wanted);
    }
}

#[test]
fn the_number_of_shards_is_left_open_unless_told() {
    assert_eq!(config(&[]).shards, 0);
    assert_eq!(config(&[("shards", "3")]).shards, 3);
    assert_eq!(config(&[("shards", "-0")]).shards, 0);
}

#[test]
fn printing_has_each_setting_once_and_reads_back() {
    let items = config(&[("noSuch", "1")]).print_items();
    let entries = crate::config::properties::parse(items.as_bytes()).unwrap();
    let value = |key: &str| {
        let mut found = entries.iter().filter(|entry| entry.key == key);
        let value = found.next().map(|entry| entry.value.clone());
        assert!(found.next().is_none(), "{key} twice");
        value
    };
    assert_eq!(value("listenPort").as_deref(), Some("9876"));
    assert_eq!(value("maxConnections").as_deref(), Some("0"));
    assert_eq!(value("noSuch").as_deref(), Some("1"));
    assert_eq!(value("clientWorkerThreads"), None);
}

#[test]
fn go_away_takes_as_long_as_told_only_if_switched_on() {
    assert_eq!(config(&[("shutdownWaitTimeSeconds", "5")]).stop_ms, None);
    let graceful = [("enableShutdownGracefully", "true"), ("shutdownWaitTimeSeconds", "5")];
    assert_eq!(config(&graceful).stop_ms, Some(5000));
}

#[test]
fn settings_of_tls_come_from_the_settings_file_and_stronger_from_their_own() {
    let mut raw = file(&[
        ("tls.server.mode", "enforcing"),
        ("tls.server.certPath", "/weak"),
        ("tls.server.need.client.auth", "Require"),
        ("tls.protocols", "TLSv1.3, TLSv1.2"),
    ]);
    for (line, (key, value)) in [
        ("tls.server.certPath", "/cert"),
        ("tls.server.keyPassword", "hunter2"),
        ("tls.test.mode.enable", "false"),
        ("tls.client.certPath", "/other"),
    ]
    .into_iter()
    .enumerate()
    {
        raw.given.push(given(key, value, Origin::TlsFile("tls.properties".into(), line)));
    }
    let config = Config::check(raw).unwrap();
    let tls = &config.tls;
    assert_eq!((tls.mode, tls.client_auth), (Mode::Enforcing, ClientAuth::Require));
    assert_eq!(tls.cert_path.as_deref(), Some(Path::new("/cert")));
    assert_eq!(tls.protocols, ["TLSv1.3", "TLSv1.2"]);
    assert!(!tls.test_mode && !tls.verify_clients && tls.key_path.is_none());
    assert_eq!(config.warnings, [""; 0]);
    assert!(!format!("{config:?}").contains("hunter2"), "{config:?}");
    assert!(!config.print_items().contains("hunter2"));
    assert!(!listing(&config).contains("hunter2"));
    assert!(!config.settings.file_text().contains("hunter2"), "it is not the settings file's");
    assert!(config.settings.file_text().contains("tls.server.certPath=/weak\n"));
    let message = errors(&[("tls.server.mode", "Enforcing"), ("tls.test.mode.enable", "no")]);
    assert!(message.contains("namesrv.conf:1: tls.server.mode=Enforcing is none of: disabled"));
    assert!(message.contains("namesrv.conf:2: "), "{message}");
}

//! [`Config`]: all settings, checked. Built once, never edited.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::network::Network;
use super::options::{Effect, Group, Kind, OPTIONS, Opt, find, find_similar, parse_flag};
use super::raw::{ENV_SERIALIZE_TYPE, Given, Origin, Raw};
use super::settings::{Property, Settings, is_secret};
use super::shown::{plain, shown};
use super::tls::{self, TlsSource};
use crate::fatal::{Exit, Fatal};
use crate::tls::options::Options as TlsOptions;
use crate::wire::HeaderKind;

/// Stands for a value that must not be seen.
const HIDDEN: &str = "(hidden)";

/// What the server starts with.
#[derive(Clone, Debug)]
pub struct Config {
    /// `bindAddress`: a host name or an address.
    pub bind_address: String,
    /// `listenPort`; 0 takes a free one.
    pub listen_port: u16,
    /// `kvConfigPath`.
    pub kv_config_path: PathBuf,
    /// `configStorePath`, or the settings file.
    pub config_store_path: PathBuf,
    /// `routeSnapshotPath`: `None` keeps no routes over a restart.
    pub route_snapshot: Option<PathBuf>,
    /// `shards`; 0 is one for each core but the writer's.
    pub shards: usize,
    /// `maxConnections`; `None` leaves the number to the open-files limit.
    pub max_connections: Option<usize>,
    /// `serverChannelMaxIdleTimeSeconds`, in milliseconds; `None` is never.
    pub idle_timeout_ms: Option<u64>,
    /// `shutdownWaitTimeSeconds` if `enableShutdownGracefully`, in milliseconds.
    pub stop_ms: Option<u64>,
    /// `proxyProtocolFrom`: who may send a PROXY header; empty is anybody.
    pub proxy_protocol_from: Vec<Network>,
    /// `adminFrom`: who may change what is not a broker's; empty is anybody.
    pub admin_from: Vec<Network>,
    /// `brokerFrom`: who may register brokers and topics' queues, and say that brokers live; empty
    /// is anybody.
    pub broker_from: Vec<Network>,
    /// `tls.*`.
    pub tls: TlsOptions,
    /// Where they are read again.
    pub tls_source: TlsSource,
    /// `logDir`: `None` logs to standard output.
    pub log_dir: Option<PathBuf>,
    /// `logLevel`.
    pub log_level: tracing::level_filters::LevelFilter,
    /// What the server starts with of the settings that can change.
    pub settings: Settings,
    /// To be logged once, as warnings.
    pub warnings: Vec<String>,
    /// `-p`: print [`Config::print_items`] and end.
    pub print: bool,
    items: Vec<(String, String)>,
}

impl Config {
    /// Combines and checks all that the user gave.
    ///
    /// # Errors
    /// Every mistake, one a line.
    pub fn check(raw: Raw) -> Result<Config, Fatal> {
        let mut errors = Vec::new();
        let print = raw.print;
        let mut values = Values::collect(&raw, &mut errors);
        let header_kind = header_kind(raw.serialize_type.as_deref(), &mut errors);
        fill_paths(&raw, &mut values, &mut errors);
        if !errors.is_empty() {
            return Err(Fatal::new(Exit::Config, errors.join("\n")));
        }
        for stray in &raw.stray {
            let stray = shown(stray);
            values.warnings.push(format!("command line: {stray} belongs to no option; ignored"));
        }
        let settings = values.settings(header_kind);
        let some = |key| Some(values.number(key)).filter(|&number| number > 0);
        let seconds = |key| some(key).map(|seconds| seconds as u64 * 1000);
        let path = |key| Some(values.text(key)).filter(|path| !path.is_empty()).map(PathBuf::from);
        let graceful = values.flag("enableShutdownGracefully");
        Ok(Config {
            bind_address: values.text("bindAddress").to_owned(),
            listen_port: u16::try_from(values.number("listenPort")).unwrap_or_default(),
            kv_config_path: values.text("kvConfigPath").into(),
            config_store_path: values.text("configStorePath").into(),
            route_snapshot: path("routeSnapshotPath"),
            shards: values.number("shards"),
            max_connections: some("maxConnections"),
            idle_timeout_ms: seconds("serverChannelMaxIdleTimeSeconds"),
            stop_ms: graceful.then(|| seconds("shutdownWaitTimeSeconds").unwrap_or_default()),
            proxy_protocol_from: values.networks("proxyProtocolFrom"),
            admin_from: values.networks("adminFrom"),
            broker_from: values.networks("brokerFrom"),
            tls: tls::options(&|key| values.text(key)),
            tls_source: TlsSource::new(&raw),
            log_dir: path("logDir"),
            log_level: values.text("logLevel").parse().expect("one of the words of its option"),
            settings,
            print,
            items: values.items(),
            warnings: values.warnings,
        })
    }

    /// All settings by name, with their values as they are in effect. Secrets are hidden.
    pub fn items(&self) -> impl Iterator<Item = (&str, &str)> {
        self.items.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// All settings as `name=value` lines, for `-p`. Secrets are hidden.
    #[must_use]
    pub fn print_items(&self) -> String {
        let mut text = String::new();
        for (key, value) in self.items() {
            writeln!(text, "{key}={value}").expect("a String takes all text");
        }
        text
    }
}

/// Text of each option, and the entries of the settings file that are none.
struct Values {
    /// Value in effect by option; those not given have their default.
    texts: BTreeMap<&'static str, String>,
    /// Value that the settings file has, by option.
    in_file: BTreeMap<&'static str, String>,
    /// Entries of the settings file that are no option.
    extra: BTreeMap<String, String>,
    /// Names and lines of those that do not even resemble one: a file shared with a broker has
    /// many.
    unknown: Vec<String>,
    warnings: Vec<String>,
}

impl Values {
    fn collect(raw: &Raw, errors: &mut Vec<String>) -> Values {
        let texts = OPTIONS.iter().map(|option| (option.key, option.default.to_owned()));
        let mut values = Values {
            texts: texts.collect(),
            in_file: BTreeMap::new(),
            extra: BTreeMap::new(),
            unknown: Vec::new(),
            warnings: Vec::new(),
        };
        let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
        for given in &raw.given {
            if let Origin::File(path, line) = &given.origin
                && let Some(before) = lines.insert(&given.key, *line)
            {
                let (path, key) = (path.display(), shown(&given.key));
                let warning =
                    format!("{path}:{line}: {key} stands in line {before} too; the last counts");
                values.warnings.push(warning);
            }
            match find(&given.key) {
                Some(option) => values.take(option, given, errors),
                None => values.take_unknown(given),
            }
        }
        if !values.unknown.is_empty() {
            let path = raw.config_file.as_deref().unwrap_or("settings file".as_ref()).display();
            let names = values.unknown.join(", ");
            values.warnings.push(format!("{path}: not known here, kept without effect: {names}"));
        }
        values
    }

    fn take(&mut self, option: &'static Opt, given: &Given, errors: &mut Vec<String>) {
        let value = given.value.trim();
        // An empty path or address is a line somebody left to be filled in, not a wish.
        let empty = value.is_empty() && option.kind == Kind::Text;
        let value = if empty { option.default } else { value };
        let Given { origin, key, .. } = given;
        let words = || if hides(option, value) { HIDDEN.to_owned() } else { shown(value) };
        if let Some(objection) = option.objection(value) {
            errors.push(format!("{origin}{key}={} {objection}", words()));
            return;
        }
        if value.contains(char::is_control) {
            errors.push(format!("{origin}{key}={} has control characters", words()));
            return;
        }
        if option.effect == Effect::Absent && parse_flag(value) == Some(true) {
            errors.push(format!("{origin}{key}=true {}", absence(option.key)));
            return;
        }
        if matches!(origin, Origin::File(..)) {
            self.in_file.insert(option.key, value.to_owned());
        }
        self.texts.insert(option.key, value.to_owned());
    }

    fn take_unknown(&mut self, given: &Given) {
        let (origin, key) = (&given.origin, shown(&given.key));
        match (find_similar(&given.key), origin) {
            (Some(option), _) => {
                let meant = option.key;
                self.warnings.push(format!("{origin}{key} has no effect; did you mean {meant}?"));
            }
            (None, Origin::File(_, line)) => self.unknown.push(format!("{key} (line {line})")),
            (None, _) => self.unknown.push(key),
        }
        self.extra.insert(given.key.clone(), given.value.clone());
    }

    /// Text of an option.
    fn text(&self, key: &str) -> &str {
        self.texts.get(key).map_or("", String::as_str)
    }

    /// A checked number of an option whose range begins at 0 or above.
    fn number(&self, key: &str) -> usize {
        // As it was checked: `-0` is in range and no `usize`.
        let number: i64 = self.text(key).parse().expect("checked against its range");
        usize::try_from(number).expect("no range of these begins below 0")
    }

    fn flag(&self, key: &str) -> bool {
        parse_flag(self.text(key)).expect("checked to be a flag")
    }

    fn networks(&self, key: &str) -> Vec<Network> {
        let parts = self.text(key).split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| part.parse().expect("checked to be a network")).collect()
    }

    fn settings(&self, header_kind: HeaderKind) -> Settings {
        let fixed = OPTIONS.iter().filter(|option| option.effect != Effect::Live);
        let fixed = fixed.filter_map(|option| self.property(option));
        let extra = self.extra.iter().map(|(key, value)| Property {
            key: key.clone(),
            value: value.clone(),
            in_file: Some(value.clone()),
            listed: !is_secret(key, value),
        });
        let mut settings = Settings {
            header_kind,
            allow_remote_config_update: self.flag("allowRemoteConfigUpdate"),
            fixed: fixed.chain(extra).collect(),
            ..Settings::default()
        };
        for option in OPTIONS.iter().filter(|option| option.effect == Effect::Live) {
            settings.set(option, self.text(option.key));
        }
        settings
    }

    fn property(&self, option: &Opt) -> Option<Property> {
        let (key, value) = (option.key, self.text(option.key));
        let given = self.in_file.get(key);
        // The environment's home is shown, but must not stick in a file that is read before it.
        let home = key == "rocketmqHome";
        let shown = match option.group {
            Group::Java => !home || !value.is_empty(),
            _ => given.is_some(),
        };
        let default = match (option.group, home) {
            (Group::Java, false) => Some(match option.default {
                "" => value,
                default => default,
            }),
            _ => None,
        };
        shown.then(|| Property {
            key: key.to_owned(),
            value: value.to_owned(),
            in_file: given.map(String::as_str).or(default).map(str::to_owned),
            listed: !hides(option, value),
        })
    }

    /// Every setting by name, except those without effect that were not given.
    fn items(&self) -> Vec<(String, String)> {
        let options = OPTIONS.iter().filter(|option| {
            matches!(option.group, Group::Java | Group::Own)
                || self.in_file.contains_key(option.key)
                || self.text(option.key) != option.default
        });
        let known = options.map(|option| {
            let value = self.text(option.key);
            (option.key, value, hides(option, value))
        });
        let extra = self.extra.iter().map(|(key, value)| (&**key, &**value, is_secret(key, value)));
        known
            .chain(extra)
            .map(|(key, value, hide)| {
                let value = if hide { HIDDEN.to_owned() } else { plain(value) };
                (plain(key), value)
            })
            .collect()
    }
}

/// Whether the value must not be seen. The Java server shows all of its own settings.
fn hides(option: &Opt, value: &str) -> bool {
    option.group != Group::Java && is_secret(option.key, value)
}

/// The paths that depend on the user's home and on `-c`.
fn fill_paths(raw: &Raw, values: &mut Values, errors: &mut Vec<String>) {
    if let Some(path) = &raw.config_file {
        values.texts.insert("configStorePath", path.to_string_lossy().into_owned());
        values.in_file.remove("configStorePath");
    }
    for (key, name) in
        [("kvConfigPath", "kvConfig.json"), ("configStorePath", "namesrv.properties")]
    {
        if !values.text(key).is_empty() {
            continue;
        }
        match &raw.user_home {
            Some(home) => {
                let path = home.join("namesrv").join(name);
                values.texts.insert(key, path.to_string_lossy().into_owned());
            }
            None if raw.print => {}
            None => errors.push(format!("{key} is not set and neither is HOME; set one of them")),
        }
    }
}

fn header_kind(text: Option<&str>, errors: &mut Vec<String>) -> HeaderKind {
    match text.unwrap_or_default() {
        text if text.trim().is_empty() => HeaderKind::Json,
        "JSON" => HeaderKind::Json,
        "ROCKETMQ" => HeaderKind::Binary,
        other => {
            let other = shown(other);
            errors.push(format!(
                "environment: {ENV_SERIALIZE_TYPE}={other} is neither JSON nor ROCKETMQ"
            ));
            HeaderKind::Json
        }
    }
}

/// Why an option that exists in Java cannot be switched on, and what to do.
fn absence(key: &str) -> &'static str {
    match key {
        "enableControllerInNamesrv" => {
            "is not supported: run the controller on its own and remove this line"
        }
        _ => {
            "is not supported: cluster-test mode, which asks another cluster about unknown topics, \
             does not exist here; remove this line"
        }
    }
}

#[cfg(test)]
mod tests;

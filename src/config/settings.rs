//! The settings that can change while the server runs, and what request codes 318 and 319 make of
//! all settings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::warn;

use super::options::{Effect, Group, Kind, NEVER_REMOTE, OPTIONS, Opt, find, parse_flag};
use super::properties;
use super::shown::{plain, shown};
use crate::limits::{SETTINGS_UPDATE_BYTES_MAX, UPDATE_KEYS_NAMED_MAX};
use crate::wire::HeaderKind;
use crate::wire::code::response;

/// The live subset of all settings, published in the view, with the fixed ones beside it for
/// listing. Lives: one value in each view, never changed in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `orderMessageEnable`.
    pub order_message_enable: bool,
    /// `returnOrderTopicConfigToBroker`.
    pub return_order_topic_config_to_broker: bool,
    /// `supportActingMaster`.
    pub support_acting_master: bool,
    /// `enableAllTopicList`.
    pub enable_all_topic_list: bool,
    /// `enableTopicList`.
    pub enable_topic_list: bool,
    /// `notifyMinBrokerIdChanged`.
    pub notify_min_broker_id_changed: bool,
    /// `needWaitForService`.
    pub need_wait_for_service: bool,
    /// `waitSecondsForService`, in seconds.
    pub wait_seconds_for_service: u64,
    /// `deleteTopicWithBrokerRegistration`.
    pub delete_topic_with_broker_registration: bool,
    /// How headers of everything sent are serialized; from `ROCKETMQ_SERIALIZE_TYPE`, fixed.
    pub header_kind: HeaderKind,
    /// Whether request code 318 is obeyed; fixed.
    pub allow_remote_config_update: bool,
    /// Everything else, for listing and storing. Shared, because no update changes it.
    pub fixed: Arc<[Property]>,
}

/// One setting that does not change while the server runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Property {
    /// Its name.
    pub key: String,
    /// The value the server runs with.
    pub value: String,
    /// The value that belongs in the settings file, whatever a flag says; `None` if it does not
    /// belong there.
    pub in_file: Option<String>,
    /// Whether 319 shows it.
    pub listed: bool,
}

/// An update was refused as a whole; the code and remark to answer with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateRefused {
    /// Response code: 1 or 16.
    pub code: i32,
    /// For people; `mqadmin` prints it.
    pub remark: Cow<'static, str>,
}

impl UpdateRefused {
    fn no_permission(remark: impl Into<Cow<'static, str>>) -> UpdateRefused {
        UpdateRefused { code: response::NO_PERMISSION, remark: remark.into() }
    }

    fn malformed() -> UpdateRefused {
        UpdateRefused { code: response::SYSTEM_ERROR, remark: "string2Properties error".into() }
    }
}

impl Default for Settings {
    /// A Java server's defaults. Paths and home, which depend on the machine, are empty.
    fn default() -> Settings {
        let fixed = OPTIONS
            .iter()
            .filter(|option| option.group == Group::Java && option.effect != Effect::Live)
            .filter(|option| option.key != "rocketmqHome")
            .map(|option| Property {
                key: option.key.to_owned(),
                value: option.default.to_owned(),
                in_file: Some(option.default.to_owned()),
                listed: true,
            });
        let mut settings = Settings {
            order_message_enable: false,
            return_order_topic_config_to_broker: false,
            support_acting_master: false,
            enable_all_topic_list: false,
            enable_topic_list: false,
            notify_min_broker_id_changed: false,
            need_wait_for_service: false,
            wait_seconds_for_service: 0,
            delete_topic_with_broker_registration: false,
            header_kind: HeaderKind::Json,
            allow_remote_config_update: false,
            fixed: fixed.collect(),
        };
        for option in OPTIONS.iter().filter(|option| option.effect == Effect::Live) {
            settings.set(option, option.default);
        }
        settings
    }
}

impl Settings {
    /// The settings after an update by request code 318; `self` stays as it is.
    ///
    /// An allow-list: only live options change, within their ranges, all or none. As in Java, keys
    /// that mean nothing and numbers that are none are passed over with success. Unlike in Java, an
    /// update of anything that is not live is refused, unless it names the present value.
    ///
    /// # Errors
    /// The answer to give; nothing must be applied.
    pub fn update(&self, properties_text: &[u8]) -> Result<Settings, UpdateRefused> {
        if properties_text.is_empty() {
            return Ok(self.clone());
        }
        if !self.allow_remote_config_update {
            return Err(UpdateRefused::no_permission(
                "Can not update config: remote updates are switched off. Set \
                 allowRemoteConfigUpdate=true in the settings file and restart to allow them.",
            ));
        }
        if properties_text.len() > SETTINGS_UPDATE_BYTES_MAX {
            let remark =
                format!("Can not update config with more than {SETTINGS_UPDATE_BYTES_MAX} bytes.");
            return Err(UpdateRefused::no_permission(remark));
        }
        let entries = properties::parse(properties_text).map_err(|_| UpdateRefused::malformed())?;
        let wanted: BTreeMap<&str, &str> =
            entries.iter().map(|entry| (&*entry.key, entry.value.trim())).collect();
        self.refuse_forbidden(&wanted)?;
        let mut next = self.clone();
        let mut ignored = Vec::new();
        for (key, value) in wanted {
            if !next.change(key, value)? {
                ignored.push(key);
            }
        }
        if !ignored.is_empty() {
            let names = ignored.iter().take(UPDATE_KEYS_NAMED_MAX).map(|key| shown(key));
            let names = names.collect::<Vec<_>>().join(", ");
            let count = ignored.len();
            warn!("an update of settings passed over {count} keys without meaning here: {names}");
        }
        Ok(next)
    }

    /// Appends what request code 319 answers: `key=value` lines, sorted, unescaped but for control
    /// characters. What is not [`Property::listed`], secrets among it, is left out.
    pub fn listing(&self, out: &mut Vec<u8>) {
        let fixed = self.fixed.iter().filter(|property| property.listed);
        let fixed = fixed.map(|property| (&*property.key, Cow::from(&property.value)));
        let mut lines: Vec<(&str, Cow<'_, str>)> = fixed.chain(self.live()).collect();
        lines.sort_unstable();
        for (key, value) in lines {
            // A line break inside a value must not look like another property.
            out.extend_from_slice(format!("{}={}\n", plain(key), plain(&value)).as_bytes());
        }
    }

    /// The text of a settings file with these settings, which reads back here and in Java. Unlike
    /// the listing it holds every property of the file it replaces, secrets included, and no value
    /// that a flag gave.
    #[must_use]
    pub fn file_text(&self) -> String {
        let fixed = self
            .fixed
            .iter()
            .filter_map(|property| Some((&*property.key, Cow::from(property.in_file.as_deref()?))));
        let mut lines: Vec<(&str, Cow<'_, str>)> = fixed.chain(self.live()).collect();
        lines.sort_unstable();
        let mut text =
            String::from("# Written by the name server after a change of its settings.\n");
        for (key, value) in lines {
            properties::write_entry(&mut text, key, &value);
        }
        text
    }

    /// Takes `value` for a live option; one that is not of its kind changes nothing.
    pub(super) fn set(&mut self, option: &Opt, value: &str) {
        match (self.field(option.key), option.kind) {
            (Some(Field::Flag(field)), Kind::Flag) => *field = parse_flag(value).unwrap_or(*field),
            (Some(Field::Seconds(field)), Kind::Number(..)) => {
                *field = value.parse().unwrap_or(*field);
            }
            (field, kind) => unreachable!("{} is live, {kind:?}: {}", option.key, field.is_some()),
        }
    }

    fn refuse_forbidden(&self, wanted: &BTreeMap<&str, &str>) -> Result<(), UpdateRefused> {
        let more = self.fixed.iter().find(|property| property.key == "configBlackList");
        let more = more.map_or("", |property| &property.value).split(';').map(str::trim);
        let more = more.filter(|key| !key.is_empty());
        if NEVER_REMOTE.into_iter().chain(more).any(|key| wanted.contains_key(key)) {
            return Err(UpdateRefused::no_permission("Can not update config in black list."));
        }
        if wanted.values().any(|value| value.contains(char::is_control)) {
            return Err(UpdateRefused::no_permission(
                "Can not update config: a value has control characters.",
            ));
        }
        let differs = |(key, value): &(&&str, &&str)| {
            match self.fixed.iter().find(|property| property.key == **key) {
                // What is not shown must not be told by guessing either.
                Some(property) => !property.listed || property.value.trim() != **value,
                None => find(key).is_some_and(|option| option.effect != Effect::Live),
            }
        };
        let names: Vec<_> = wanted.iter().filter(differs).map(|(key, _)| shown(key)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let shown = names[..names.len().min(UPDATE_KEYS_NAMED_MAX)].join(", ");
        Err(UpdateRefused::no_permission(format!(
            "Can not update config that is fixed while the server runs: {shown}. Change the \
             settings file and restart."
        )))
    }

    /// Takes `value` if `key` is live; `false` if it means nothing and there is nothing to change.
    fn change(&mut self, key: &str, value: &str) -> Result<bool, UpdateRefused> {
        let Some(option) = find(key) else { return Ok(false) };
        if option.effect != Effect::Live {
            // It has passed `refuse_forbidden`, so it names the present value.
            return Ok(true);
        }
        if matches!(option.kind, Kind::Number(..)) && value.parse::<i64>().is_err() {
            return Ok(false);
        }
        if let Some(objection) = option.objection(value) {
            let remark = format!("Can not update config: {key} {objection}.");
            return Err(UpdateRefused::no_permission(remark));
        }
        self.set(option, value);
        Ok(true)
    }

    /// The live options with their values.
    fn live(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let mut copy = self.clone();
        OPTIONS.iter().filter_map(move |option| {
            let value = match copy.field(option.key)? {
                Field::Flag(true) => "true".into(),
                Field::Flag(false) => "false".into(),
                Field::Seconds(seconds) => seconds.to_string().into(),
            };
            Some((option.key, value))
        })
    }

    /// The field of the live option named `key`.
    fn field(&mut self, key: &str) -> Option<Field<'_>> {
        Some(match key {
            "orderMessageEnable" => Field::Flag(&mut self.order_message_enable),
            "returnOrderTopicConfigToBroker" => {
                Field::Flag(&mut self.return_order_topic_config_to_broker)
            }
            "supportActingMaster" => Field::Flag(&mut self.support_acting_master),
            "enableAllTopicList" => Field::Flag(&mut self.enable_all_topic_list),
            "enableTopicList" => Field::Flag(&mut self.enable_topic_list),
            "notifyMinBrokerIdChanged" => Field::Flag(&mut self.notify_min_broker_id_changed),
            "needWaitForService" => Field::Flag(&mut self.need_wait_for_service),
            "waitSecondsForService" => Field::Seconds(&mut self.wait_seconds_for_service),
            "deleteTopicWithBrokerRegistration" => {
                Field::Flag(&mut self.delete_topic_with_broker_registration)
            }
            _ => return None,
        })
    }
}

enum Field<'a> {
    Flag(&'a mut bool),
    Seconds(&'a mut u64),
}

/// Whether a property must never be shown to a peer. Guesses by words, and rather once too often:
/// the settings file may be shared with a broker, whose keys are not ours to know (some hold JSON
/// with a password in it).
pub(super) fn is_secret(key: &str, value: &str) -> bool {
    const WORDS: [&str; 8] = [
        "password",
        "passwd",
        "secret",
        "credential",
        "token",
        "accesskey",
        "privatekey",
        "passphrase",
    ];
    let named = [key, value].iter().any(|text| {
        let text = text.to_ascii_lowercase();
        WORDS.iter().any(|word| text.contains(word))
    });
    named || (value.contains("://") && value.contains('@'))
}

#[cfg(test)]
mod tests;

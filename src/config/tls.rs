//! The settings of TLS as values, and where they are read again.

use std::path::PathBuf;

use super::options::{Group, find, parse_flag};
use super::raw::{self, Given, Origin, Raw};
use crate::tls::options::{ClientAuth, Mode, Options, Secret};

/// Where the settings of TLS come from: a server whose certificate is replaced reads them again,
/// for the password may be new as well (Java: `TlsHelper` does the same).
#[derive(Clone, Default)]
pub struct TlsSource {
    file: Option<PathBuf>,
    /// Weaker than the file, then the file's place, then stronger.
    weaker: Vec<Given>,
    stronger: Vec<Given>,
}

impl TlsSource {
    pub(super) fn new(raw: &Raw) -> TlsSource {
        let ours = |given: &&Given| find(&given.key).is_some_and(|opt| opt.group == Group::Tls);
        let given = raw.given.iter().filter(ours).cloned();
        let given = given.filter(|given| !matches!(given.origin, Origin::TlsFile(..)));
        let (stronger, weaker) = given.partition(|given| matches!(given.origin, Origin::Flag(_)));
        TlsSource { file: raw.tls_file.clone(), weaker, stronger }
    }

    /// The settings as they are now.
    ///
    /// # Errors
    /// What is wrong in the file.
    pub fn read(&self) -> Result<Options, String> {
        let file = self.file.as_deref().map(raw::read_tls_file).transpose();
        let file = file.map_err(|fatal| fatal.message)?.unwrap_or_default();
        let given = || self.weaker.iter().chain(&file).chain(&self.stronger);
        for given in given() {
            let objection = find(&given.key).and_then(|opt| opt.objection(given.value.trim()));
            if let Some(objection) = objection {
                return Err(format!("{}{} {objection}", given.origin, given.key));
            }
        }
        let text = |key: &str| {
            let last = given().rfind(|given| given.key == key);
            last.map(|given| given.value.trim())
                .or_else(|| find(key).map(|option| option.default))
                .unwrap_or_default()
        };
        Ok(options(&text))
    }
}

impl std::fmt::Debug for TlsSource {
    /// Without values: a password is among them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSource").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Values of checked text.
pub(super) fn options<'a>(text: &dyn Fn(&str) -> &'a str) -> Options {
    let given = |key: &str| Some(text(key)).filter(|text| !text.is_empty());
    let flag = |key: &str| parse_flag(text(key)).unwrap_or_default();
    let list = |key: &str| {
        let words = text(key).split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    Options {
        mode: match text("tls.server.mode") {
            "disabled" => Mode::Disabled,
            "enforcing" => Mode::Enforcing,
            _ => Mode::Permissive,
        },
        test_mode: flag("tls.test.mode.enable"),
        cert_path: given("tls.server.certPath").map(PathBuf::from),
        key_path: given("tls.server.keyPath").map(PathBuf::from),
        key_password: given("tls.server.keyPassword").map(|text| Secret(text.to_owned())),
        client_auth: match &*text("tls.server.need.client.auth").to_ascii_lowercase() {
            "require" => ClientAuth::Require,
            "optional" => ClientAuth::Optional,
            _ => ClientAuth::None,
        },
        verify_clients: flag("tls.server.authClient"),
        trust_path: given("tls.server.trustCertPath").map(PathBuf::from),
        ciphers: list("tls.ciphers"),
        protocols: list("tls.protocols"),
    }
}

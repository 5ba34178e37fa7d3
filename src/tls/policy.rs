//! Which protocol versions and cipher suites are offered (`tls.protocols`, `tls.ciphers`).
//!
//! What a Java server would accept and this one does not have (TLS 1.0 and 1.1, suites without
//! forward secrecy or authenticated encryption) is left out with a warning. If nothing is left, the
//! setting is refused.

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring as provider;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use super::options::Options;

/// What is offered.
pub(super) struct Policy {
    pub provider: CryptoProvider,
    pub versions: Vec<&'static SupportedProtocolVersion>,
    /// Left out, to be warned of.
    pub left_out: Vec<String>,
}

impl Policy {
    /// # Errors
    /// When nothing would be offered; names what can be.
    pub(super) fn new(options: &Options) -> Result<Policy, String> {
        let mut left_out = Vec::new();
        let all = [("TLSv1.2", &TLS12), ("TLSv1.3", &TLS13)];
        let versions = choose("tls.protocols", &options.protocols, &all, &mut left_out)?;
        let mut provider = provider::default_provider();
        let suites: Vec<(String, SupportedCipherSuite)> =
            provider.cipher_suites.iter().map(|suite| (java_name(*suite), *suite)).collect();
        let suites: Vec<_> = suites.iter().map(|(name, suite)| (&**name, *suite)).collect();
        provider.cipher_suites = choose("tls.ciphers", &options.ciphers, &suites, &mut left_out)?;
        for version in &versions {
            let of_version =
                |suite: &SupportedCipherSuite| suite.version().version == version.version;
            if !provider.cipher_suites.iter().any(of_version) {
                left_out.push(format!("{:?} (tls.ciphers has no suite for it)", version.version));
            }
        }
        let usable = |version: &&SupportedProtocolVersion| {
            provider.cipher_suites.iter().any(|s| s.version().version == version.version)
        };
        let versions: Vec<_> = versions.into_iter().filter(usable).collect();
        if versions.is_empty() {
            return Err("tls.ciphers has no suite for the versions of tls.protocols".to_owned());
        }
        Ok(Policy { provider, versions, left_out })
    }
}

/// Those of `all` that `wanted` names, in its order; all of them if it names none.
fn choose<T: Copy>(
    key: &str,
    wanted: &[String],
    all: &[(&str, T)],
    left_out: &mut Vec<String>,
) -> Result<Vec<T>, String> {
    if wanted.is_empty() {
        return Ok(all.iter().map(|(_, each)| *each).collect());
    }
    let mut chosen = Vec::new();
    for name in wanted {
        match all.iter().find(|(each, _)| each == name) {
            Some((_, each)) => chosen.push(*each),
            None => left_out.push(format!("{name} of {key}")),
        }
    }
    if chosen.is_empty() {
        let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        let names = names.join(",");
        return Err(format!("{key} names nothing that is offered here; there are {names}"));
    }
    Ok(chosen)
}

/// The standard's name, which Java uses; rustls marks the version in its own.
fn java_name(suite: SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replace("TLS13_", "TLS_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(protocols: &[&str], ciphers: &[&str]) -> Result<Policy, String> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let options =
            Options { protocols: own(protocols), ciphers: own(ciphers), ..Options::default() };
        Policy::new(&options)
    }

    fn shape(policy: &Policy) -> (Vec<String>, Vec<String>) {
        let versions = policy.versions.iter().map(|version| format!("{:?}", version.version));
        let suites = policy.provider.cipher_suites.iter().map(|suite| java_name(*suite));
        (versions.collect(), suites.collect())
    }

    #[test]
    fn nothing_named_is_all_of_1_2_and_1_3() {
        let (versions, suites) = shape(&policy(&[], &[]).unwrap());
        assert_eq!(versions, ["TLSv1_2", "TLSv1_3"]);
        assert_eq!(suites.len(), 9);
        assert!(suites.contains(&"TLS_AES_256_GCM_SHA384".to_owned()));
        assert!(suites.contains(&"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".to_owned()));
    }

    #[test]
    fn what_is_named_is_offered_in_that_order_and_the_rest_is_told() {
        let named = [
            "TLS_RSA_WITH_AES_128_CBC_SHA",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        ];
        let policy = policy(&["TLSv1.1", "TLSv1.2", "TLSv1.3"], &named).unwrap();
        let (versions, suites) = shape(&policy);
        assert_eq!(versions, ["TLSv1_2"], "no suite is left for 1.3");
        assert_eq!(suites, named[1..]);
        let told = policy.left_out.join("; ");
        for wanted in ["TLSv1.1 of tls.protocols", "TLS_RSA_WITH_AES_128_CBC_SHA", "TLSv1_3"] {
            assert!(told.contains(wanted), "{told}");
        }
    }

    #[test]
    fn nothing_left_is_refused_by_name() {
        assert!(policy(&["TLSv1", "TLSv1.1"], &[]).err().unwrap().contains("TLSv1.2,TLSv1.3"));
        assert!(policy(&[], &["RC4-MD5"]).err().unwrap().contains("TLS_AES_128_GCM_SHA256"));
        let crossed = policy(&["TLSv1.3"], &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
        assert!(crossed.err().unwrap().contains("tls.ciphers"));
    }
}

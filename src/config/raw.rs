//! What the user gave, as text and with its origin. Nothing is combined or judged here.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Arg, ArgAction, Command};

use super::options::{Kind, OPTIONS};
use super::properties;
use crate::fatal::{Exit, Fatal};
use crate::limits::CONFIG_BYTES_MAX;

/// Environment variable: installation directory, shown by request code 319.
pub const ENV_HOME: &str = "ROCKETMQ_HOME";
/// Environment variable: how headers of everything sent are serialized.
pub const ENV_SERIALIZE_TYPE: &str = "ROCKETMQ_SERIALIZE_TYPE";

/// Where a Java server looks for settings of TLS unless told otherwise.
const TLS_FILE: &str = "/etc/rocketmq/tls.properties";

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A line of the settings file, from 1.
    File(PathBuf, usize),
    /// A line of the file that `tls.config.file` names, from 1.
    TlsFile(PathBuf, usize),
    /// A flag, by its long name.
    Flag(&'static str),
    /// An environment variable.
    Env(&'static str),
}

impl fmt::Display for Origin {
    /// What stands before a value in a message about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(path, line) | Origin::TlsFile(path, line) => {
                write!(f, "{}:{line}: ", path.display())
            }
            Origin::Flag(_) => f.write_str("command line: "),
            Origin::Env(_) => f.write_str("environment: "),
        }
    }
}

/// One value that the user gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    /// Name of the option, or whatever the settings file has instead of one.
    pub key: String,
    /// As given, blanks included.
    pub value: String,
    /// From where.
    pub origin: Origin,
}

/// All that the user gave.
#[derive(Clone, Default, Debug)]
pub struct Raw {
    /// Argument of `-c`.
    pub config_file: Option<PathBuf>,
    /// File with more settings of TLS: `tls.config.file`.
    pub tls_file: Option<PathBuf>,
    /// `-p`: print all settings and end.
    pub print: bool,
    /// The user's home directory, if there is one.
    pub user_home: Option<PathBuf>,
    /// `ROCKETMQ_SERIALIZE_TYPE`.
    pub serialize_type: Option<String>,
    /// Values of options in order of precedence, the strongest last.
    pub given: Vec<Given>,
    /// Arguments that belong to no option; a Java server does not look at them either.
    pub stray: Vec<String>,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// To start, or to print settings.
    Run(Box<Raw>),
    /// To print this text and end well: help or version.
    Print(String),
}

/// Reads command line, settings file and environment. `args` begins with the program's name.
///
/// # Errors
/// A command line that cannot be understood; a file that cannot be read or has a malformed escape.
pub fn read(
    args: impl IntoIterator<Item = OsString>,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Asked, Fatal> {
    let matches = match command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(answer) if !answer.use_stderr() => return Ok(Asked::Print(answer.to_string())),
        Err(problem) => {
            let usage = command().render_usage().to_string();
            let mut text = problem.to_string();
            if !text.contains(&usage) {
                text = format!("{}\n\n{usage}", text.trim_end());
            }
            return Err(Fatal::new(Exit::Usage, text.trim_start_matches("error: ").trim_end()));
        }
    };
    let text = |name| env(name).map(|value| value.to_string_lossy().into_owned());
    let mut raw = Raw {
        config_file: matches.get_one::<PathBuf>("configFile").cloned(),
        tls_file: None,
        print: matches.get_flag("printConfigItem"),
        user_home: env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from),
        serialize_type: text(ENV_SERIALIZE_TYPE),
        given: Vec::new(),
        stray: matches.get_many::<String>("stray").unwrap_or_default().cloned().collect(),
    };
    if let Some(value) = text(ENV_HOME).filter(|home| !home.is_empty()) {
        let origin = Origin::Env(ENV_HOME);
        raw.given.push(Given { key: "rocketmqHome".to_owned(), value, origin });
    }
    if let Some(path) = &raw.config_file {
        raw.given.extend(read_file(path)?);
    }
    let mut flags = Vec::new();
    for option in OPTIONS {
        let Some(flag) = option.flag else { continue };
        if let Some(value) = matches.get_one::<String>(option.key) {
            let (key, value) = (option.key.to_owned(), value.clone());
            flags.push(Given { key, value, origin: Origin::Flag(flag) });
        }
    }
    raw.tls_file = tls_file(raw.given.iter().chain(&flags));
    if let Some(path) = &raw.tls_file {
        raw.given.extend(read_tls_file(path)?);
    }
    raw.given.extend(flags);
    Ok(Asked::Run(Box::new(raw)))
}

/// The file with the settings of TLS: as told, else where a Java server looks for one.
fn tls_file<'a>(given: impl Iterator<Item = &'a Given>) -> Option<PathBuf> {
    let told = given.filter(|given| given.key == "tls.config.file").last();
    match told.map(|given| given.value.trim()).filter(|path| !path.is_empty()) {
        Some(path) => Some(path.into()),
        None => Some(PathBuf::from(TLS_FILE)).filter(|path| path.exists()),
    }
}

/// Entries of the file with the settings of TLS; others than `tls.*` mean nothing there.
///
/// # Errors
/// When it cannot be read or has a malformed escape.
pub(super) fn read_tls_file(path: &Path) -> Result<Vec<Given>, Fatal> {
    let mut given = read_file(path)?;
    given.retain(|given| given.key.starts_with("tls."));
    for given in &mut given {
        if let Origin::File(path, line) = &mut given.origin {
            given.origin = Origin::TlsFile(std::mem::take(path), *line);
        }
    }
    Ok(given)
}

/// Entries of the settings file.
fn read_file(path: &Path) -> Result<Vec<Given>, Fatal> {
    let bytes = read_bounded(path).map_err(|error| {
        let exit = match error.kind() {
            io::ErrorKind::PermissionDenied => Exit::Permission,
            _ => Exit::Config,
        };
        Fatal::new(exit, format!("cannot read the settings file {}: {error}", path.display()))
    })?;
    let entries = properties::parse(&bytes).map_err(|malformed| {
        let (path, line) = (path.display(), malformed.line);
        Fatal::new(
            Exit::Config,
            format!(
                "{path}:{line}: malformed escape: \\u needs four hexadecimal digits behind it \
                 (write \\\\ for a backslash)"
            ),
        )
    })?;
    let given = entries.into_iter().map(|entry| Given {
        key: entry.key,
        value: entry.value,
        origin: Origin::File(path.to_owned(), entry.line),
    });
    Ok(given.collect())
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > CONFIG_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {CONFIG_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// The command line: the four options of a Java server and every option of the table that has a
/// flag.
fn command() -> Command {
    let options = OPTIONS.iter().filter_map(|option| Some((option.flag?, option)));
    let flags = options.map(|(flag, option)| {
        let help = match option.default {
            "" => option.help.to_owned(),
            default => format!("{} [default: {default}]", option.help),
        };
        let arg = Arg::new(option.key).long(flag).help(help).overrides_with(option.key);
        let arg = if flag == option.key { arg } else { arg.alias(option.key) };
        match option.kind {
            Kind::Flag => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .value_name("true|false"),
            Kind::OneOfAnyCase(words) => arg
                .value_name("WORD")
                .ignore_case(true)
                .value_parser(words.iter().map(PossibleValue::new).collect::<Vec<_>>()),
            Kind::OneOf(words) => arg
                .value_name("WORD")
                .value_parser(words.iter().map(PossibleValue::new).collect::<Vec<_>>())
                .hide_possible_values(false),
            Kind::Number(..) => arg.value_name("NUMBER").allow_negative_numbers(true),
            Kind::Text | Kind::Networks => arg.value_name("TEXT"),
        }
    });
    Command::new("guidepost")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .infer_long_args(true)
        .arg(
            Arg::new("configFile")
                .short('c')
                .long("configFile")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Settings file in Java properties syntax"),
        )
        .arg(
            Arg::new("printConfigItem")
                .short('p')
                .long("printConfigItem")
                .action(ArgAction::SetTrue)
                .help("Print all settings and exit"),
        )
        .arg(
            Arg::new("namesrvAddr")
                .short('n')
                .long("namesrvAddr")
                .value_name("LIST")
                .help("Accepted, as by a Java server, without effect"),
        )
        .args(flags)
        .arg(Arg::new("stray").num_args(0..).hide(true))
        .after_help(FOOTER)
}

const FOOTER: &str = "\
Every setting can stand in the settings file by its name (see -p); a flag wins over the file.

Environment:
  ROCKETMQ_HOME            installation directory, optional
  ROCKETMQ_SERIALIZE_TYPE  JSON (default) or ROCKETMQ: how headers of answers are serialized
  TZ                       time zone of log lines; the system's if not set

Exit status:
   0  stopped on request, or printed what was asked for
   1  any other failure
   2  command line not understood
  69  address in use, or not an address of this host
  70  internal error
  71  the operating system refuses: a limit, its version, io_uring
  77  not allowed to open the port or a file
  78  a setting, or a file it names, is wrong";

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn ask(args: &[&str]) -> Result<Asked, Fatal> {
        let args = std::iter::once("guidepost").chain(args.iter().copied()).map(OsString::from);
        read(args, |_| None)
    }

    fn raw(args: &[&str]) -> Raw {
        match ask(args) {
            Ok(Asked::Run(raw)) => *raw,
            other => panic!("{other:?}"),
        }
    }

    fn flags(args: &[&str]) -> Vec<(String, String)> {
        raw(args).given.into_iter().map(|given| (given.key, given.value)).collect()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn flags_have_kebab_and_camel_case_names_and_short_forms_of_them() {
        let port = [("listenPort".to_owned(), "7".to_owned())];
        for name in ["--listen-port", "--listenPort", "--listen-p"] {
            assert_eq!(flags(&[name, "7"]), port, "{name}");
        }
        let on = [("allowRemoteConfigUpdate".to_owned(), "true".to_owned())];
        assert_eq!(flags(&["--allow-remote-config-update"]), on);
        assert_eq!(flags(&["--allow-remote-config-update=false"])[0].1, "false");
        assert_eq!(flags(&["--shards", "1", "--shards=2"])[0].1, "2");
    }

    #[test]
    fn the_options_of_a_java_server_are_understood() {
        assert!(raw(&["-p", "-n", "a:1;b:2", "start"]).print);
        assert!(raw(&["--print"]).print);
        assert_eq!(raw(&["a", "b"]).stray, ["a", "b"]);
        assert!(matches!(ask(&["-h"]), Ok(Asked::Print(text)) if text.contains("--configFile")));
        assert!(matches!(ask(&["--version"]), Ok(Asked::Print(text)) if text.contains("0.")));
    }

    #[test]
    fn what_is_not_understood_is_a_usage_error() {
        for args in [&["-z"][..], &["-c"], &["--log", "x"], &["--log-level", "loud"]] {
            let fatal = ask(args).unwrap_err();
            assert_eq!(fatal.exit_code, Exit::Usage, "{args:?}");
            assert!(fatal.message.contains("Usage: guidepost"), "{}", fatal.message);
        }
    }

    #[test]
    fn flags_come_after_the_file_and_the_file_after_the_environment() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\nlistenPort=1\nrocketmqHome=/file\n").unwrap();
        let path = file.path().to_str().unwrap();
        let args = ["guidepost", "--listen-port=2", "-c", path].map(OsString::from);
        let env = |name: &str| (name == ENV_HOME).then(|| OsString::from("/env"));
        let Ok(Asked::Run(raw)) = read(args, env) else { panic!() };
        let origins: Vec<_> = raw.given.iter().map(|given| given.origin.clone()).collect();
        let file = |line| Origin::File(file.path().to_owned(), line);
        let flag = Origin::Flag("listen-port");
        assert_eq!(origins, [Origin::Env(ENV_HOME), file(2), file(3), flag]);
    }

    #[test]
    fn the_file_for_tls_stands_between_settings_file_and_flags() {
        let mut tls = tempfile::NamedTempFile::new().unwrap();
        tls.write_all(b"tls.server.certPath=/c\nlistenPort=1\n").unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "tls.config.file={}\ntls.ciphers=a\n", tls.path().display()).unwrap();
        let path = file.path().to_str().unwrap();
        let raw = raw(&["-c", path, "--tls.server.mode", "enforcing"]);
        let keys: Vec<_> = raw.given.iter().map(|given| &*given.key).collect();
        assert_eq!(
            keys,
            ["tls.config.file", "tls.ciphers", "tls.server.certPath", "tls.server.mode"]
        );
        assert_eq!(raw.given[2].origin, Origin::TlsFile(tls.path().to_owned(), 1));
        let missing = ask(&["--tls-config-file=/no/such/file"]).unwrap_err();
        assert!(missing.message.contains("/no/such/file"), "{missing}");
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'#'; CONFIG_BYTES_MAX + 1]).unwrap();
        let fatal = ask(&["-c", file.path().to_str().unwrap()]).unwrap_err();
        assert_eq!(fatal.exit_code, Exit::Config);
    }
}

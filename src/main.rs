//! Starts the server: arguments to settings to [`guidepost::server::run`]; a failure to an exit
//! status.

use std::io::Write as _;
use std::process::ExitCode;

use guidepost::config::Config;
use guidepost::config::raw::{self, Asked};
use guidepost::fatal::Fatal;
use guidepost::{logging, server};

fn main() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => {
            let _ = writeln!(std::io::stderr(), "guidepost: {fatal}");
            fatal.exit_code.into()
        }
    }
}

fn start() -> Result<(), Fatal> {
    let raw = match raw::read(std::env::args_os(), |name| std::env::var_os(name))? {
        Asked::Run(raw) => raw,
        Asked::Print(text) => return print(&text),
    };
    let config = Config::check(*raw)?;
    if config.print {
        return print(&config.print_items());
    }
    let _logging = logging::start(config.log_dir.as_deref(), config.log_level)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    server::run(config).inspect_err(|fatal| {
        tracing::error!(target: logging::FILE_ONLY, "{fatal}");
    })
}

/// Prints what was asked for. Whoever closes the pipe early has read enough.
fn print(text: &str) -> Result<(), Fatal> {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    Ok(())
}

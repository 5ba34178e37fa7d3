//! Why a command could not do its work, and the exit code that says so to a script.

use std::fmt;

/// Why a command ended without a result.
#[derive(Debug)]
pub enum Failure {
    /// The arguments cannot work; the text says what to write instead. Exit code 2.
    Usage(String),
    /// The arguments were fine, the world was not (refused connection, limit reached). Exit code 1.
    Run(String),
}

impl Failure {
    /// The exit code of the process.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Run(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}

/// A shorthand for the failures of the world outside.
pub fn run_failure(text: impl Into<String>) -> Failure {
    Failure::Run(text.into())
}

/// A shorthand for arguments that cannot work.
pub fn usage(text: impl Into<String>) -> Failure {
    Failure::Usage(text.into())
}

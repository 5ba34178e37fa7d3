//! Why the process ends otherwise than by being told to.

use std::fmt;
use std::process::ExitCode;

/// How the process ends, in the numbers of `sysexits.h` where it has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Anything without a number of its own.
    Generic,
    /// The command line cannot be understood.
    Usage,
    /// A listener or another resource is taken.
    Unavailable,
    /// A mistake of the program itself.
    Internal,
    /// The operating system refuses: a limit, its version, io_uring.
    Os,
    /// Not allowed to open a file or a port.
    Permission,
    /// A setting, or a file that a setting names, is wrong.
    Config,
}

impl Exit {
    /// The status the process ends with.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Exit::Generic => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 69,
            Exit::Internal => 70,
            Exit::Os => 71,
            Exit::Permission => 77,
            Exit::Config => 78,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

/// Ends the process. The message says what is wrong and what to do, for a person who reads nothing
/// else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fatal {
    /// How the process ends.
    pub exit_code: Exit,
    /// What is wrong, and the cure. May have several lines.
    pub message: String,
}

impl Fatal {
    /// A reason to end with `exit_code`.
    pub fn new(exit_code: Exit, message: impl Into<String>) -> Fatal {
        Fatal { exit_code, message: message.into() }
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fatal {}

//! The exit codes, in one table, and the one place where an error becomes one of them.

use std::{borrow::Cow, fmt::Write as _, io, process::ExitCode};

use crate::output;

/// What the program's exit code says. The numbers never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok,
    /// Something broke: a file, a network address, the database.
    Failed,
    /// The command line or the configuration is wrong; nothing was done.
    Usage,
    /// A tool refused or failed, or a file was left alone because it could not be understood.
    Refused,
    /// `doctor` found problems that are still there, `audit verify` a line that does not fit, or a
    /// server cannot be reached.
    Problems,
    /// It is not permitted: nobody has approved it, or a rule forbids it.
    Denied,
    /// A plan that was waited for failed.
    PlanFailed,
    /// A plan that was waited for was canceled.
    PlanCanceled,
    /// A plan that was waited for has not ended: it goes on without the one who waited, or is paused.
    PlanOpen,
}

/// Every exit code with its meaning, for `--help`, the manual and the README.
pub(crate) const TABLE: [(Exit, &str); 9] = [
    (Exit::Ok, "success"),
    (
        Exit::Failed,
        "operation failed: a file, an address, the database; or a server failed its check",
    ),
    (
        Exit::Usage,
        "invalid command line or configuration; nothing was done",
    ),
    (
        Exit::Refused,
        "a tool refused the call, or a file that cannot be parsed was skipped",
    ),
    (
        Exit::Problems,
        "doctor or audit verify found problems, or a server cannot be reached",
    ),
    (
        Exit::Denied,
        "not permitted: not approved, or forbidden by a rule",
    ),
    (Exit::PlanFailed, "the awaited plan failed"),
    (Exit::PlanCanceled, "the awaited plan was canceled"),
    (
        Exit::PlanOpen,
        "the awaited plan is paused, or continues in the background",
    ),
];

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Problems => 4,
            Self::Denied => 5,
            Self::PlanFailed => 6,
            Self::PlanCanceled => 7,
            Self::PlanOpen => 8,
        }
    }
}

/// The table as text for `--help`.
pub(crate) fn table() -> String {
    TABLE.iter().fold(
        String::from("Exit codes:\n"),
        |mut text, (exit, meaning)| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {}  {meaning}", exit.code());
            text
        },
    )
}

/// Longest text of a failure that concerns the configuration, in bytes.
const MAX_CONFIG_TEXT: usize = 4 * 1024;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub enum Failure {
    /// Something broke.
    Failed(anyhow::Error),
    /// What the user asked for makes no sense.
    Usage(anyhow::Error),
    /// What the user asked for is not allowed.
    Refused(anyhow::Error),
    /// What the user asked for is not permitted.
    Denied(anyhow::Error),
    /// Whoever read our output has gone, which is no error.
    BrokenPipe,
}

impl Failure {
    /// A wrong command line or configuration.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }

    /// A wrong command line, in words.
    pub fn usage_text(text: impl Into<String>) -> Self {
        Self::Usage(anyhow::Error::msg(text.into()))
    }

    /// Something that is not permitted, in words.
    pub(crate) fn denied(text: impl Into<String>) -> Self {
        Self::Denied(anyhow::Error::msg(text.into()))
    }

    /// The same failure, with what was attempted before its causes.
    pub(crate) fn context(self, attempt: String) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(error.context(attempt)),
            Self::Usage(error) => Self::Usage(error.context(attempt)),
            Self::Refused(error) => Self::Refused(error.context(attempt)),
            Self::Denied(error) => Self::Denied(error.context(attempt)),
            Self::BrokenPipe => Self::BrokenPipe,
        }
    }

    /// The same failure; of a text that is longer than [`MAX_CONFIG_TEXT`] only the beginning and the end, for what
    /// quotes a configuration may quote all of it.
    pub(crate) fn bounded(self) -> Self {
        let bounded = |error: anyhow::Error| {
            let text = format!("{error:#}");
            match output::without_middle(&text, MAX_CONFIG_TEXT) {
                Cow::Borrowed(_) => error,
                Cow::Owned(text) => anyhow::Error::msg(text),
            }
        };
        match self {
            Self::Failed(error) => Self::Failed(bounded(error)),
            Self::Usage(error) => Self::Usage(bounded(error)),
            Self::Refused(error) => Self::Refused(bounded(error)),
            Self::Denied(error) => Self::Denied(bounded(error)),
            Self::BrokenPipe => Self::BrokenPipe,
        }
    }

    /// What went wrong, with its causes.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Failed(error)
            | Self::Usage(error)
            | Self::Refused(error)
            | Self::Denied(error) => format!("{error:#}"),
            Self::BrokenPipe => "the reader of standard output has closed it".to_owned(),
        }
    }

    /// A refusal, in words.
    pub fn refused(text: impl Into<String>) -> Self {
        Self::Refused(anyhow::Error::msg(text.into()))
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Says what went wrong, on stderr, and gives the exit code.
pub(crate) fn report(result: Result<Exit, Failure>) -> ExitCode {
    let (exit, error) = match result {
        Ok(exit) => (exit, None),
        Err(Failure::Failed(error)) => (Exit::Failed, Some(error)),
        Err(Failure::Usage(error)) => (Exit::Usage, Some(error)),
        Err(Failure::Refused(error)) => (Exit::Refused, Some(error)),
        Err(Failure::Denied(error)) => (Exit::Denied, Some(error)),
        Err(Failure::BrokenPipe) => (Exit::Ok, None),
    };
    if let Some(error) = error {
        let error = format!("{error:#}");
        // Files of a workspace and answers of servers are quoted in errors.
        let error = orchestra_secret::text(&error);
        output::complain(&format!("error: {}", output::printable(&error)));
    }
    ExitCode::from(exit.code())
}

/// Ends the program where it stands, at a second signal.
pub(crate) fn at_once() -> ! {
    output::complain("stopped at once by a second signal; running work was interrupted");
    std::process::exit(i32::from(Exit::Failed.code()))
}

/// Ends the program where it stands, after a signal.
pub(crate) fn stopped() {
    output::complain("stopped by a signal");
    std::process::exit(i32::from(Exit::Failed.code()))
}

/// Lets clap say what is wrong with the command line; help and version go to stdout.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    let exit = if error.use_stderr() {
        Exit::Usage
    } else {
        Exit::Ok
    };
    match error.print() {
        Err(cause) if cause.kind() != io::ErrorKind::BrokenPipe => {
            ExitCode::from(Exit::Failed.code())
        }
        _ => ExitCode::from(exit.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_its_place_in_the_table() {
        for (place, (exit, _)) in TABLE.iter().enumerate() {
            assert_eq!(usize::from(exit.code()), place);
        }
    }
}

//! A line for a shell.

use super::{CommandText, WorkError};
use crate::value::choice;

choice! {
    /// A shell that a line is given to.
    Shell: "a shell: cmd, powershell, pwsh, bash or sh" {
        /// The one of Windows.
        Cmd = "cmd",
        /// Windows PowerShell.
        PowerShell = "powershell",
        /// PowerShell.
        Pwsh = "pwsh",
        /// Bash.
        Bash = "bash",
        /// The one of POSIX.
        Sh = "sh",
    }
}

choice! {
    /// What a PowerShell does about errors that would not end it.
    ErrorAction: "an error action: Continue, Stop or SilentlyContinue" {
        /// It tells of them and goes on.
        Continue = "Continue",
        /// It ends.
        Stop = "Stop",
        /// It goes on.
        SilentlyContinue = "SilentlyContinue",
    }
}

/// A line for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellWork {
    command: CommandText,
    shell: Option<Shell>,
    error_action: Option<ErrorAction>,
}

impl Shell {
    /// Whether it is a PowerShell.
    #[must_use]
    pub const fn is_powershell(self) -> bool {
        matches!(self, Self::PowerShell | Self::Pwsh)
    }
}

impl ShellWork {
    /// A line for a shell; for the system's own where none is named.
    ///
    /// # Errors
    /// When a PowerShell is given `2>&1`, which makes every line on its error output a failure, or
    /// another shell is given an error action.
    pub fn new(
        command: CommandText,
        shell: Option<Shell>,
        error_action: Option<ErrorAction>,
    ) -> Result<Self, WorkError> {
        let powershell = shell.is_some_and(Shell::is_powershell);
        if powershell && command.as_str().contains("2>&1") {
            return Err(WorkError::PowerShellRedirect);
        }
        if !powershell && error_action.is_some() {
            return Err(WorkError::ErrorAction);
        }
        Ok(Self {
            command,
            shell,
            error_action,
        })
    }

    /// The line.
    #[must_use]
    pub const fn command(&self) -> &CommandText {
        &self.command
    }

    /// The shell; the system's own if there is none.
    #[must_use]
    pub const fn shell(&self) -> Option<Shell> {
        self.shell
    }

    /// What a PowerShell does about errors.
    #[must_use]
    pub const fn error_action(&self) -> Option<ErrorAction> {
        self.error_action
    }
}

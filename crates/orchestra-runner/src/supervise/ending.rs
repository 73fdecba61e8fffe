//! How a run ended.

use serde::{Deserialize, Serialize};

/// Why a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The command ended by itself, with a code.
    Exited,
    /// A signal ended it that we have not sent.
    Signaled,
    /// It took longer than it may.
    Timeout,
    /// It was silent for longer than it may.
    Idle,
    /// It printed more than it may.
    Output,
    /// It and what descended from it had more memory than they may.
    Memory,
    /// It ran into another limit, which the detail names.
    Limit,
    /// The supervisor was asked to end it: by SIGTERM or SIGINT, whoever sent that.
    Stopped,
    /// The command could not be started; the detail says why.
    NotStarted,
    /// Nobody knows: its supervisor was killed, or the machine stopped. Nothing of it is left.
    Lost,
}

/// How a run ended, with what it took. What is not known is 0 or absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Why it is over.
    pub how: How,
    /// The exit code of the command, also when it was asked to end and did.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// More in words.
    pub detail: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When it ended.
    pub ended: u64,
    /// Bytes that it printed on standard output.
    pub out_bytes: u64,
    /// Bytes that it printed on standard error.
    pub err_bytes: u64,
    /// What it and all that descended from it have computed, in milliseconds; what ended unasked for is
    /// left out.
    pub cpu_ms: u64,
    /// The most memory that they were seen to have at once. Short runs are not looked at.
    pub peak_memory: u64,
}

impl Ending {
    /// Nobody knows how it ended.
    pub(crate) const fn lost(ended: u64) -> Self {
        Self {
            how: How::Lost,
            code: None,
            signal: None,
            detail: None,
            began: 0,
            ended,
            out_bytes: 0,
            err_bytes: 0,
            cpu_ms: 0,
            peak_memory: 0,
        }
    }

    /// Whether the command ended well: by itself, with 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.how == How::Exited && self.code == Some(0)
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self.code.unwrap_or_default();
        match self.how {
            How::Exited => write!(f, "exited with code {code}")?,
            How::Signaled => match self.signal {
                Some(signal) => write!(f, "ended by signal {signal}")?,
                None => f.write_str("killed")?,
            },
            How::Timeout => f.write_str("ended for it took too long")?,
            How::Idle => f.write_str("ended for it was silent for too long")?,
            How::Output => f.write_str("ended for it printed too much")?,
            How::Memory => f.write_str("ended for it took too much memory")?,
            How::Limit => f.write_str("ended at a limit")?,
            How::Stopped => f.write_str("ended on request")?,
            How::NotStarted => f.write_str("could not be started")?,
            How::Lost => f.write_str("lost: its supervisor was killed")?,
        }
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}

//! Which run of which phase of which attempt of which job.

use serde::{Deserialize, Serialize};

/// The variable by which a command and all that it starts can be known: the name of its run.
pub const RUN_VARIABLE: &str = "ORCHESTRA_RUN";

/// Longest name of a job or phase here.
const MAX_NAME_BYTES: usize = 64;

/// A run: nobody has the same name again, so that an old one is never taken for the present one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct RunId {
    job: String,
    attempt: u32,
    phase: String,
    run: u32,
}

/// A run as it stands in files.
#[derive(Clone, Serialize, Deserialize)]
struct Parts {
    job: String,
    attempt: u32,
    phase: String,
    run: u32,
}

/// Why there can be no such run.
#[derive(Debug, thiserror::Error)]
#[error("a {what} cannot have the name {name:?}; use 1 to 64 letters, digits, `-` or `_`")]
pub struct BadRun {
    what: &'static str,
    name: String,
}

impl RunId {
    /// The run of a phase (by its name on the wire) in an attempt of a job.
    ///
    /// # Errors
    /// When a name could not be that of a file.
    pub fn new(job: &str, attempt: u32, phase: &str, run: u32) -> Result<Self, BadRun> {
        let name = |what, name: &str| {
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_safe);
            match fits {
                true => Ok(name.to_owned()),
                false => Err(BadRun {
                    what,
                    name: name.chars().take(MAX_NAME_BYTES).collect(),
                }),
            }
        };
        Ok(Self {
            job: name("job", job)?,
            attempt,
            phase: name("phase", phase)?,
            run,
        })
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> &str {
        &self.job
    }

    /// The attempt.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The phase.
    #[must_use]
    pub fn phase(&self) -> &str {
        &self.phase
    }

    /// Which run of the phase.
    #[must_use]
    pub const fn run(&self) -> u32 {
        self.run
    }

    /// What its files begin with.
    pub(crate) fn stem(&self) -> String {
        format!("{}.{}", self.phase, self.run)
    }

    /// Its whole name, which is the value of [`RUN_VARIABLE`].
    pub(crate) fn name(&self) -> String {
        format!("{}/{}/{}/{}", self.job, self.attempt, self.phase, self.run)
    }

    /// Kills what is left of it, where nobody can read what became of it. Its supervisor sees that.
    pub(crate) async fn kill_left(&self) {
        orchestra_process::kill_left(&self.mark(), None, None).await;
    }

    /// The variable with its value.
    pub(crate) fn mark(&self) -> String {
        format!("{RUN_VARIABLE}={}", self.name())
    }
}

impl TryFrom<Parts> for RunId {
    type Error = BadRun;

    fn try_from(parts: Parts) -> Result<Self, BadRun> {
        Self::new(&parts.job, parts.attempt, &parts.phase, parts.run)
    }
}

impl From<RunId> for Parts {
    fn from(id: RunId) -> Self {
        Self {
            job: id.job,
            attempt: id.attempt,
            phase: id.phase,
            run: id.run,
        }
    }
}

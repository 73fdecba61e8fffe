//! Asking a program what it can do: its version, the options that its help names, its models.
//!
//! It is called for a moment, in an empty directory that only the user can write, without a key, and what it prints
//! is bounded.
//! What was found is kept as long as its file stays the same, models for half an hour.

mod help;

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    fmt,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use orchestra_fs::Directory;
use orchestra_plan::work::ProfileName;
use orchestra_process::{Child, Command, Launcher};
use rustix::fs::{Access, access};
use serde::Serialize;
use tempfile::TempDir;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{Instant, timeout},
};

use super::{
    AgentError, Profile,
    profile::{OWN_PROGRAM, is_model},
};
use help::{capabilities, choices};

/// How long a program may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long it may take to end when it has said all.
const ENDING: Duration = Duration::from_secs(5);

/// How much of an answer is read.
const MAX_BYTES: u64 = 256 * 1024;

/// How much of an answer is shown when it is a failure.
const MAX_SHOWN_CHARS: usize = 300;

/// The longest version that is kept.
const MAX_VERSION_CHARS: usize = 100;

/// The most models that are kept.
const MAX_MODELS: usize = 500;

/// How long what a program says of its models is taken to be so.
const MODELS_STAY: Duration = Duration::from_secs(30 * 60);

/// The most programs of which something is kept.
const MAX_KEPT: usize = 64;

/// What work may ask of an agent besides its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Naming a model.
    Model,
    /// Resuming a session.
    Resume,
    /// How much it thinks.
    Effort,
    /// How many turns it takes at most.
    MaxTurns,
    /// Folders besides the worktree.
    Folders,
    /// Addresses that it may reach.
    Urls,
}

/// What the installed program of an agent can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Its program.
    pub program: PathBuf,
    /// Its version, as it says it.
    pub version: Option<String>,
    /// What work may ask of it.
    pub features: BTreeSet<Feature>,
    /// Whether of addresses only whole domains can be told to it.
    pub domains_only: bool,
    /// Models that it knows, when that is known.
    pub models: Option<Vec<String>>,
    /// Options that its profile gives only to programs that know them, and that this one knows.
    pub(super) known: BTreeSet<String>,
}

impl Capabilities {
    /// Whether work may ask for this.
    #[must_use]
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }
}

/// What identifies a program: its file, and how it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    program: PathBuf,
    modified: Option<SystemTime>,
    bytes: u64,
    agent: ProfileName,
}

struct Kept {
    at: Instant,
    profile: Profile,
    capabilities: Arc<Capabilities>,
}

/// Finds programs and asks them, and keeps what they say.
pub struct Prober {
    path: OsString,
    own_program: PathBuf,
    launcher: Option<Launcher>,
    state: Option<PathBuf>,
    user_file: String,
    kept: Mutex<HashMap<Key, Kept>>,
}

impl fmt::Debug for Prober {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Prober {
    /// Looks for programs on `path`; `{orchestra}` in a profile stands for `own_program`.
    #[must_use]
    pub fn new(path: OsString, own_program: PathBuf) -> Self {
        Self {
            path,
            own_program,
            launcher: None,
            state: None,
            user_file: "orchestra.toml".to_owned(),
            kept: Mutex::default(),
        }
    }

    /// Which program guards those that are asked; ours unless said.
    #[must_use]
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.launcher = Some(launcher);
        self
    }

    /// Sets the directory of the user's state: programs are asked in an empty directory below it. Without one, they are
    /// asked in `/`.
    #[must_use]
    pub fn with_state(mut self, state: PathBuf) -> Self {
        self.state = Some(state);
        self
    }

    /// Sets how messages name the user's own configuration file.
    #[must_use]
    pub fn with_user_file(mut self, name: String) -> Self {
        self.user_file = name;
        self
    }

    /// The user's own configuration file, as messages name it.
    pub(crate) fn user_file(&self) -> &str {
        &self.user_file
    }

    /// The program of a profile, if it is there.
    #[must_use]
    pub fn find(&self, profile: &Profile) -> Option<PathBuf> {
        let program = profile.text().program.as_str();
        if program == OWN_PROGRAM {
            return Some(self.own_program.clone());
        }
        let program = Path::new(program);
        if program.components().count() > 1 {
            return is_runnable(program).then(|| program.to_owned());
        }
        let places = std::env::split_paths(&self.path).map(|place| place.join(program));
        let mut places = places.filter(|place| place.is_absolute() && is_runnable(place));
        places.next()
    }

    /// What the program of an agent can do. `others` are agents to name when it is not there.
    ///
    /// # Errors
    /// When the program is not there, or does not answer as its profile says.
    pub async fn probe(
        &self,
        agent: &ProfileName,
        profile: &Profile,
        others: impl FnOnce() -> Vec<String>,
    ) -> Result<Arc<Capabilities>, AgentError> {
        let program = self.find(profile).ok_or_else(|| AgentError::NotInstalled {
            agent: agent.to_string(),
            program: profile.text().program.clone(),
            installed: others(),
            user_file: self.user_file.clone(),
        })?;
        let file = std::fs::metadata(&program).ok();
        let key = Key {
            modified: file.as_ref().and_then(|file| file.modified().ok()),
            bytes: file.map_or(0, |file| file.len()),
            program,
            agent: agent.clone(),
        };
        if let Some(kept) = self.kept(&key, profile) {
            return Ok(kept);
        }
        let capabilities = Arc::new(self.ask(agent, profile, &key.program).await?);
        let kept = Kept {
            at: Instant::now(),
            profile: profile.clone(),
            capabilities: Arc::clone(&capabilities),
        };
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_KEPT {
            all.clear();
        }
        all.insert(key, kept);
        Ok(capabilities)
    }

    fn kept(&self, key: &Key, profile: &Profile) -> Option<Arc<Capabilities>> {
        let all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.get(key).filter(|kept| kept.profile == *profile)?;
        let is_fresh = kept.capabilities.models.is_none() || kept.at.elapsed() < MODELS_STAY;
        is_fresh.then(|| Arc::clone(&kept.capabilities))
    }

    async fn ask(
        &self,
        agent: &ProfileName,
        profile: &Profile,
        program: &Path,
    ) -> Result<Capabilities, AgentError> {
        let probe = &profile.text().probe;
        let mut version = None;
        if !probe.version.is_empty() {
            let said = self.call(agent, program, &probe.version, true).await?;
            let first = said.lines().map(str::trim).find(|line| !line.is_empty());
            version = first.map(|line| line.chars().take(MAX_VERSION_CHARS).collect());
        }
        let mut help = None;
        if !probe.help.is_empty() {
            help = Some(self.call(agent, program, &probe.help, false).await?);
        }
        let mut models = Vec::new();
        if !profile.text().models.known.is_empty() {
            models.clone_from(&profile.text().models.known);
        } else if !probe.models.is_empty() {
            // A program that cannot list them, for want of a login or a network, takes any.
            let said = self
                .call(agent, program, &probe.models, true)
                .await
                .unwrap_or_default();
            models = said
                .lines()
                .map(str::trim)
                .filter(|line| is_model(line))
                .map(str::to_owned)
                .collect();
        } else if let (Some(option), Some(help)) = (&probe.model_choices, &help) {
            models = choices(help, option);
        }
        models.truncate(MAX_MODELS);
        let models = Some(models).filter(|models| !models.is_empty());
        Ok(capabilities(
            profile,
            program,
            version,
            help.as_deref(),
            models,
        ))
    }

    /// What the program prints when it is called like that.
    async fn call(
        &self,
        agent: &ProfileName,
        program: &Path,
        arguments: &[String],
        has_to_succeed: bool,
    ) -> Result<String, AgentError> {
        let fault = |what: String| AgentError::Probe {
            agent: agent.to_string(),
            command: format!("{} {}", program.display(), arguments.join(" ")),
            what,
        };
        let place = self.state.as_deref().map(empty_directory).transpose();
        let place = place.map_err(|error| fault(format!("has no directory: {error}")))?;
        let directory = place.as_ref().map_or(Path::new("/"), TempDir::path);
        let variables = [("CI", "1"), ("NO_COLOR", "1"), ("TERM", "dumb")];
        // direct: it is the command of a guarded child.
        let mut command = Command::new(program)
            .args(arguments)
            .directory(directory)
            .variables(variables)
            .name(format!("probe of {agent}"));
        if let Some(launcher) = &self.launcher {
            command = command.launcher(launcher.clone());
        }
        let child = command.spawn().await;
        let child = child.map_err(|error| fault(format!("cannot be started: {error}")))?;
        let Child {
            stdin,
            stdout,
            stderr,
            handle,
        } = child;
        drop(stdin);
        let answer = async { tokio::join!(bounded(stdout), bounded(stderr)) };
        let Ok((out, error)) = timeout(PATIENCE, answer).await else {
            handle.kill();
            return Err(fault(format!(
                "did not answer within {} s",
                PATIENCE.as_secs()
            )));
        };
        let exit = timeout(ENDING, handle.exited()).await;
        handle.kill();
        let said = if out.trim().is_empty() { &error } else { &out };
        let code = exit.ok().and_then(|exit| exit.code);
        let is_well = code == Some(0);
        let is_answer = if has_to_succeed {
            is_well
        } else {
            !said.trim().is_empty()
        };
        if is_answer {
            return Ok(format!("{out}\n{error}"));
        }
        let said = if error.trim().is_empty() {
            &out
        } else {
            &error
        };
        let shown: String = said.trim().chars().take(MAX_SHOWN_CHARS).collect();
        let shown = orchestra_secret::text(&shown).replace(char::is_control, " ");
        Err(fault(match (shown.is_empty(), code) {
            (false, _) => format!("failed: {shown}"),
            (true, Some(0)) => "printed nothing".to_owned(),
            (true, Some(code)) => format!("printed nothing and exited with code {code}"),
            (true, None) => "printed nothing and was ended".to_owned(),
        }))
    }
}

/// Makes an empty directory below the user's state. The directories above it are the user's as well: programs such as
/// `npx` look for files there. It is removed with the value.
fn empty_directory(state: &Path) -> io::Result<TempDir> {
    Directory::private(state).map_err(orchestra_fs::Error::into_cause)?;
    let mut directory = tempfile::Builder::new();
    directory.prefix("probe-");
    directory.permissions(Permissions::from_mode(0o700));
    directory.tempdir_in(state)
}

async fn bounded(stream: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not there; the exit tells whether that was meant.
    let _ = stream.take(MAX_BYTES).read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_runnable(program: &Path) -> bool {
    let is_file = std::fs::metadata(program).is_ok_and(|file| file.is_file());
    is_file && access(program, Access::EXEC_OK).is_ok()
}

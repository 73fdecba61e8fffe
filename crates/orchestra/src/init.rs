//! Sets a workspace up for coding agents, and takes that back: bundled files, client
//! configurations and hooks. Nothing that a person edited, or that cannot be understood, is
//! touched; doing it twice is doing it once.

mod clients;
mod hooks;
pub(crate) mod ignore;
pub(crate) mod jsonc;
mod manifest;
mod steps;

use std::{
    io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_fs::{Access, Lock};

use crate::{
    board,
    bundle::{self, Kind, Resource, Selection},
    config,
    files::{FileError, Root},
    workspace::{has_board, run_directory_of},
};
use manifest::{Manifest, ManifestError};
use steps::Edit;

pub(crate) use clients::Client;
pub(crate) use manifest::PATH as MANIFEST;
pub(crate) use steps::{Action, Step};

/// Whether files are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Changes are made.
    Apply,
    /// Changes are only told.
    DryRun,
}

/// Skills and agents that a command asks for; those chosen before where it names none.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choices {
    /// Skills.
    pub(crate) skills: Option<Selection>,
    /// Agents.
    pub(crate) agents: Option<Selection>,
}

impl Choices {
    const fn of(self, kind: Kind) -> Option<Selection> {
        match kind {
            Kind::Skill => self.skills,
            Kind::Agent => self.agents,
            Kind::Guide | Kind::Hook => None,
        }
    }
}

/// Why a workspace was not set up. What was done before stays, and is in the manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// The manifest cannot be understood, so nothing was touched.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The workspace has no place for its lock.
    #[error(transparent)]
    Place(anyhow::Error),
    /// Its lock cannot be taken.
    #[error(
        "cannot lock this workspace; if a sandbox protects its git directory, run `orchestra init` outside of the sandbox"
    )]
    Lock(#[from] orchestra_fs::Error),
    /// Another process is setting up the same workspace.
    #[error("another process is changing this workspace; try again in a moment")]
    Busy,
}

/// Puts things into one workspace, or takes them out.
#[derive(Debug)]
pub(crate) struct Installer {
    root: Root,
    /// Ports at which this program may listen.
    ports: RangeInclusive<u16>,
    effect: Effect,
    before: Manifest,
    manifest: Manifest,
    steps: Vec<Step>,
    /// Held until the end, so that two processes do not lose each other's manifest.
    _lock: Option<Lock>,
}

/// Where hook scripts are.
const HOOKS: &str = ".claude/hooks";

/// How long another process is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// Most backups of one file; more would mean that something runs in circles.
const MAX_BACKUPS: u32 = 100;

impl Installer {
    /// Opens a workspace for changes.
    ///
    /// # Errors
    /// When its manifest cannot be understood.
    pub(crate) fn open(root: Root, effect: Effect) -> Result<Self, InitError> {
        let lock = match effect {
            Effect::Apply => lock(root.path())?,
            Effect::DryRun => None,
        };
        let before = Manifest::read(&root)?;
        let manifest = before.clone();
        Ok(Self {
            root,
            ports: config::usual_ports(),
            effect,
            before,
            manifest,
            steps: Vec::new(),
            _lock: lock,
        })
    }

    /// Accepts entries of clients that reach this program over HTTP at these ports.
    #[must_use]
    pub(crate) fn with_ports(mut self, ports: RangeInclusive<u16>) -> Self {
        self.ports = ports;
        self
    }

    /// The clients for which a workspace was set up.
    ///
    /// # Errors
    /// When its manifest cannot be understood.
    pub(crate) fn clients(root: &Root) -> Result<Vec<Client>, InitError> {
        let manifest = Manifest::read(root)?;
        let mut clients = Client::ALL.to_vec();
        clients.retain(|client| client.is_in(&manifest));
        Ok(clients)
    }

    /// Installs the chosen files, with the configuration of `clients`. Removes skills and agents of an earlier
    /// choice that `choices` leaves out, except edited ones.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn install(
        mut self,
        clients: &[Client],
        choices: Choices,
    ) -> Result<Vec<Step>, InitError> {
        let result = self.install_all(clients, choices);
        self.finish(result)
    }

    /// Takes out what was installed, except what was edited.
    ///
    /// # Errors
    /// When a file cannot be changed.
    pub(crate) fn uninstall(mut self, clients: &[Client]) -> Result<Vec<Step>, InitError> {
        let result = self.uninstall_all(clients);
        self.finish(result)
    }

    /// Installs some bundled files.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn install_resources<'a>(
        mut self,
        resources: impl Iterator<Item = &'a Resource>,
    ) -> Result<Vec<Step>, InitError> {
        let result = resources
            .into_iter()
            .try_for_each(|resource| self.add_resource(resource));
        self.finish(result)
    }

    fn install_all(&mut self, clients: &[Client], choices: Choices) -> Result<(), FileError> {
        let selected = |kind| {
            choices
                .of(kind)
                .unwrap_or_else(|| self.manifest.selection(kind))
        };
        let (skills, agents) = (selected(Kind::Skill), selected(Kind::Agent));
        self.manifest.select(skills, agents);
        let (workspace, ports) = (self.root.path().to_owned(), self.ports.clone());
        for client in clients {
            self.edit(client.path(), |text, manifest| {
                client.add(text, manifest, &workspace, &ports)
            })?;
        }
        let with_hooks = clients.contains(&Client::Claude);
        for resource in bundle::RESOURCES
            .iter()
            .filter(|r| with_hooks || r.kind != Kind::Hook)
        {
            let path = resource.path();
            if self.manifest.selection(resource.kind).includes(resource) {
                self.add_resource(resource)?;
            } else if self.manifest.names_file(&path) {
                // A tool installed it, or an earlier choice, which a command without one leaves as it is.
                match choices.of(resource.kind) {
                    Some(_) => self.remove_resource(&path)?,
                    None => self.add_resource(resource)?,
                }
            }
        }
        // A client is not told to run what is not ours.
        if with_hooks && !self.left_alone(&hook_script(), Action::Refused) {
            self.edit(Path::new(hooks::SETTINGS), hooks::add)?;
        }
        self.record_manifest();
        Ok(())
    }

    fn uninstall_all(&mut self, clients: &[Client]) -> Result<(), FileError> {
        let (workspace, ports) = (self.root.path().to_owned(), self.ports.clone());
        for client in clients {
            self.edit_existing(client.path(), |text, manifest| {
                client.remove(text, manifest, &workspace, &ports)
            })?;
        }
        if clients.contains(&Client::Claude) {
            self.edit_existing(Path::new(hooks::SETTINGS), hooks::remove)?;
        }
        let script_is_used = self.left_alone(Path::new(hooks::SETTINGS), Action::Kept);
        // Skills, agents and guides serve every client, so they go with the last one.
        let everything = Client::ALL.iter().all(|client| clients.contains(client));
        if everything {
            self.manifest
                .select(Selection::default(), Selection::default());
        }
        for path in self.manifest.paths() {
            let path = PathBuf::from(path);
            if script_is_used && path == hook_script() {
                self.manifest.forget_file(&path);
                let reason = "a hook that was edited still runs it";
                self.record(&path, Action::Kept, Some(reason.into()));
                continue;
            }
            let hook = clients.contains(&Client::Claude) && path.starts_with(HOOKS);
            if is_bundled_place(&path) && (everything || hook) {
                self.remove_resource(&path)?;
            }
        }
        self.record_manifest();
        Ok(())
    }

    /// Records the change of the manifest, if there is one.
    fn record_manifest(&mut self) {
        let none = Manifest::default();
        let action = match (&self.before, &self.manifest) {
            (before, after) if before == after => return,
            (before, _) if *before == none => Action::Created,
            (_, after) if *after == none => Action::Removed,
            _ => Action::Updated,
        };
        self.record(Path::new(manifest::PATH), action, None);
    }

    /// Writes the manifest, also when something failed, and hands out the steps.
    fn finish(self, result: Result<(), FileError>) -> Result<Vec<Step>, InitError> {
        if self.effect == Effect::Apply {
            self.manifest.write(&self.root, &self.before)?;
        }
        result?;
        Ok(self.steps)
    }

    /// Installs one bundled file, unless the user has another there.
    fn add_resource(&mut self, resource: &Resource) -> Result<(), FileError> {
        let path = resource.path();
        let mode = if resource.kind == Kind::Hook {
            Access::Executable
        } else {
            Access::Shared
        };
        let present = match self.read(&path)? {
            Ok(present) => present,
            // A guide may well be a link to another guide; that is the user's choice.
            Err(reason) if resource.kind == Kind::Guide => {
                self.record(&path, Action::Kept, Some(reason));
                return Ok(());
            }
            Err(reason) => {
                self.record(&path, Action::Refused, Some(reason));
                return Ok(());
            }
        };
        let skills = self.manifest.selection(Kind::Skill);
        let agents = self.manifest.selection(Kind::Agent);
        let wanted = resource.text_with(skills, agents);
        let mut reason = None;
        let action = match &present {
            None => Action::Created,
            // A checkout may have changed the line ends.
            Some(text) if text.replace("\r\n", "\n") == wanted => Action::Unchanged,
            Some(text) if self.manifest.has_file(&path, text) => Action::Updated,
            Some(text) if resource.kind == Kind::Hook && is_earlier_hook(text) => {
                let backup = self.back_up(&path, text)?;
                reason = Some(format!(
                    "the script of the earlier program was replaced; the previous file is {backup}"
                ));
                Action::Updated
            }
            // The repository may have brought it.
            Some(_) if resource.kind == Kind::Hook => {
                let reason = "it is not the script of Orchestra, so no hook was registered; delete it and repeat \
                              `orchestra init`, or register it in `.claude/settings.json` yourself";
                self.record(&path, Action::Refused, Some(reason.to_owned()));
                return Ok(());
            }
            Some(text) => {
                let mut reason = "it was edited, or was not created by Orchestra".to_owned();
                if let Some(line) = resource.missing_line(text) {
                    reason.push_str("; add this line, with which agents find the board: ");
                    reason.push_str(line);
                }
                self.record(&path, Action::Kept, Some(reason));
                return Ok(());
            }
        };
        let repair = mode == Access::Executable && !is_executable(&self.root.path().join(&path));
        if action != Action::Unchanged || repair {
            self.write(&path, &wanted, mode)?;
        }
        // What the user put there is not ours for being the same.
        if action != Action::Unchanged {
            self.manifest.add_file(&path, &wanted);
        }
        if repair && action == Action::Unchanged {
            let reason = "it could not be executed".to_owned();
            self.record(&path, Action::Updated, Some(reason));
        } else {
            self.record(&path, action, reason);
        }
        Ok(())
    }

    /// Removes one installed file, unless it was edited.
    fn remove_resource(&mut self, path: &Path) -> Result<(), FileError> {
        match self.read(path)? {
            Ok(None) => self.manifest.forget_file(path),
            Ok(Some(text)) if self.manifest.has_file(path, &text) => {
                self.delete(path)?;
                self.manifest.forget_file(path);
                self.record(path, Action::Removed, None);
            }
            Ok(Some(_)) => {
                self.manifest.forget_file(path);
                self.record(path, Action::Kept, Some("it was edited".into()));
            }
            Err(reason) => self.record(path, Action::Refused, Some(reason)),
        }
        Ok(())
    }

    /// Changes a file that others own too.
    fn edit(
        &mut self,
        path: &Path,
        change: impl FnOnce(Option<&str>, &mut Manifest) -> Result<Edit, jsonc::Refusal>,
    ) -> Result<(), FileError> {
        let present = match self.read(path)? {
            Ok(present) => present,
            Err(reason) => {
                self.record(path, Action::Refused, Some(reason));
                return Ok(());
            }
        };
        let edit = match change(present.as_deref(), &mut self.manifest) {
            Ok(edit) => edit,
            Err(refusal) => {
                self.record(path, Action::Refused, Some(refusal.0));
                return Ok(());
            }
        };
        let mut reason = edit.reason.map(str::to_owned);
        if let Some(text) = edit.text.filter(|text| present.as_ref() != Some(text)) {
            if let Some(before) = present.as_ref().filter(|_| edit.backup) {
                let backup = self.back_up(path, before)?;
                reason = reason.map(|reason| format!("{reason}; the previous file is {backup}"));
            }
            // A file that is ours as a whole goes as a whole when it is taken out.
            if present
                .as_ref()
                .is_none_or(|before| self.manifest.has_file(path, before))
            {
                self.manifest.add_file(path, &text);
            }
            self.write(path, &text, Access::Shared)?;
        }
        self.record(path, edit.action, reason);
        Ok(())
    }

    /// Takes something out of a file that others own too, or the whole file if nobody else wrote
    /// to it.
    fn edit_existing(
        &mut self,
        path: &Path,
        change: impl FnOnce(&str, &mut Manifest) -> Result<Edit, jsonc::Refusal>,
    ) -> Result<(), FileError> {
        let text = match self.read(path)? {
            Ok(Some(text)) => text,
            Ok(None) => return Ok(()),
            Err(reason) => {
                self.record(path, Action::Refused, Some(reason));
                return Ok(());
            }
        };
        let whole = self.manifest.has_file(path, &text);
        let edit = match change(&text, &mut self.manifest) {
            Ok(edit) => edit,
            Err(refusal) => {
                self.record(path, Action::Refused, Some(refusal.0));
                return Ok(());
            }
        };
        self.manifest.forget_file(path);
        if whole {
            self.delete(path)?;
            self.record(path, Action::Removed, None);
            return Ok(());
        }
        if let Some(after) = edit.text.filter(|after| *after != text) {
            self.write(path, &after, Access::Shared)?;
        }
        self.record(path, edit.action, edit.reason.map(str::to_owned));
        Ok(())
    }

    /// Keeps a copy of a file beside it; the copy's name.
    fn back_up(&self, path: &Path, text: &str) -> Result<String, FileError> {
        for number in 1..=MAX_BACKUPS {
            let mut name = path.as_os_str().to_owned();
            name.push(if number == 1 {
                ".bak".to_owned()
            } else {
                format!(".bak.{number}")
            });
            let backup = PathBuf::from(name);
            match self.root.read(&backup) {
                Ok(None) => self.write(&backup, text, Access::Shared)?,
                Ok(Some(present)) if present == text => {}
                _ => continue,
            }
            return Ok(backup.display().to_string());
        }
        let source = io::Error::other("too many backups; remove some");
        Err(FileError::Io {
            action: "back up",
            path: path.to_owned(),
            source,
        })
    }

    /// A file's text, or why it must be left alone.
    fn read(&self, path: &Path) -> Result<Result<Option<String>, String>, FileError> {
        match self.root.read(path) {
            Ok(text) => Ok(Ok(text)),
            Err(error @ FileError::Io { .. }) => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn write(&self, path: &Path, text: &str, mode: Access) -> Result<(), FileError> {
        match self.effect {
            Effect::Apply => self.root.write(path, text, mode),
            Effect::DryRun => Ok(()),
        }
    }

    fn delete(&self, path: &Path) -> Result<(), FileError> {
        match self.effect {
            Effect::Apply => self.root.remove_with_directories(path),
            Effect::DryRun => Ok(()),
        }
    }

    /// Whether a file was left as it is, for this reason.
    fn left_alone(&self, path: &Path, action: Action) -> bool {
        let path = path.display().to_string();
        self.steps
            .iter()
            .any(|step| step.path == path && step.action == action)
    }

    fn record(&mut self, path: &Path, action: Action, reason: Option<String>) {
        self.steps.push(Step {
            path: path.display().to_string(),
            action,
            reason,
        });
    }
}

/// Where the hook script is installed, relative to the workspace.
pub(crate) fn hook_script() -> PathBuf {
    Path::new(HOOKS).join(bundle::HOOK_SCRIPT)
}

/// Whether a script is the earlier program's: it handed the event to a server of its own.
fn is_earlier_hook(text: &str) -> bool {
    text.contains("receive_hook_event") && text.contains("tools/call")
}

/// Whether `path`, as a manifest names it, is a place where bundled files go: a manifest that
/// somebody else wrote must not make us delete other files.
fn is_bundled_place(path: &Path) -> bool {
    let plain = path
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    let places = [".claude/skills", ".claude/agents", HOOKS];
    plain
        && (places.iter().any(|place| path.starts_with(place))
            || bundle::of_kind(Kind::Guide).any(|guide| guide.path() == path))
}

/// Takes the lock of a workspace; `None` where there is no place for it yet.
fn lock(workspace: &Path) -> Result<Option<Lock>, InitError> {
    if !has_board(workspace) {
        return Ok(None);
    }
    let run = run_directory_of(workspace, board::home(workspace)).and_then(|run| Ok(run.make()?));
    let path = run.map_err(InitError::Place)?.path().join("init.lock");
    match Lock::wait_for(&path, LOCK_PATIENCE)? {
        Some(lock) => Ok(Some(lock)),
        None => Err(InitError::Busy),
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests;

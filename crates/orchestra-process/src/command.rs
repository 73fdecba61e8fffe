//! What is to be started, and how it is found.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::fs::{Access, access};
use tokio::runtime::RuntimeFlavor;

use crate::{
    Child, Environment, Launcher, Limits, NestedNames, Sandbox, SpawnError,
    message::{self, Confinement, Order},
};

/// How long a guard may take to take its order. It takes some milliseconds.
const HAND_OVER: Duration = Duration::from_secs(10);

/// Longest part of a name that is shown in lists of processes.
const MAX_NAME_CHARS: usize = 64;

/// What is wrong with a guard that does not take or answer its order.
pub(crate) const NO_ANSWER: &str = "it did not answer; the program must come to `child_main`";

/// Held while descriptors are made and a guard is started: where the system cannot make them
/// closed to other programs at once, no two starts get into each other's way.
static STARTING: Mutex<()> = Mutex::new(());

/// A program that is to be started, and within which bounds. No shell is involved.
#[derive(Debug, Clone)]
pub struct Command {
    name: Option<String>,
    program: OsString,
    arguments: Vec<OsString>,
    directory: Option<PathBuf>,
    environment: Environment,
    variables: BTreeMap<OsString, OsString>,
    limits: Limits,
    sandbox: Sandbox,
    hidden: Vec<PathBuf>,
    nested: Vec<NestedNames>,
    granted: Option<PathBuf>,
    launcher: Option<Launcher>,
    is_staged: bool,
    inherited: Option<(OsString, Arc<OwnedFd>)>,
}

/// A guard that was started, with our ends of its socket and of the child's pipes.
pub(crate) struct Begun {
    pub(crate) guard: tokio::process::Child,
    pub(crate) launcher: PathBuf,
    pub(crate) control: UnixStream,
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) error: OwnedFd,
}

impl Command {
    /// A program by its path, or by its name on `PATH`: the child's, if it is given one.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            name: None,
            program: program.into(),
            arguments: Vec::new(),
            directory: None,
            environment: Environment::default(),
            variables: BTreeMap::new(),
            limits: Limits::default(),
            sandbox: Sandbox::default(),
            hidden: Vec::new(),
            nested: Vec::new(),
            granted: None,
            launcher: None,
            is_staged: true,
            inherited: None,
        }
    }

    /// What its guard is called in lists of processes; the file name of the program unless said.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Its working directory; ours unless said. A relative path of the program is looked for there.
    #[must_use]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// What it inherits of our environment.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// More variables of its own, which win over what it inherits.
    #[must_use]
    pub fn variables<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let variables = variables.into_iter();
        self.variables
            .extend(variables.map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// What it may take.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What it may reach.
    #[must_use]
    pub fn sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = sandbox;
        self
    }

    /// Directories that are closed to it below what its sandbox opens, whether they exist or not.
    ///
    /// Where the system allows mount namespaces, an empty directory covers each that exists. Elsewhere the entries of
    /// the directories above are granted one by one, as those above protected paths: their names can be listed, and
    /// what replaces an entry is closed until the next start. A path that the sandbox names and that is in a hidden
    /// one is open.
    #[must_use]
    pub fn hidden(mut self, hidden: Vec<PathBuf>) -> Self {
        self.hidden = hidden;
        self
    }

    /// Limits of the names that its sandbox protects deeper in a directory.
    #[must_use]
    pub fn nested(mut self, nested: Vec<NestedNames>) -> Self {
        self.nested = nested;
        self
    }

    /// File that its sandbox opens as its own program, with no symbolic link in its path. Unless set, it is the file to
    /// which the path of the program leads, but for a link from a directory that the child may write to another one.
    #[must_use]
    pub fn program_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.granted = Some(file.into());
        self
    }

    /// Which program guards it; [`Launcher::this_program`] unless said.
    #[must_use]
    pub fn launcher(mut self, launcher: Launcher) -> Self {
        self.launcher = Some(launcher);
        self
    }

    /// Leaves the stage out where no limit and no sandbox needs one, which saves a start of our program.
    /// Such a child does not end by itself when its guard is killed: we end it, if we have called
    /// [`adopt_orphans`](crate::adopt_orphans), and when both are killed at the same moment whoever calls
    /// [`kill_left`](crate::kill_left) does. For programs of ours that have no terminal.
    #[must_use]
    pub fn without_stage(mut self) -> Self {
        self.is_staged = false;
        self
    }

    /// Descriptor that it inherits besides the standard ones. The environment variable `variable` has its number.
    /// It stays open here as well until this command and its clones are dropped.
    #[must_use]
    pub fn inherit(mut self, variable: impl Into<OsString>, descriptor: OwnedFd) -> Self {
        self.inherited = Some((variable.into(), Arc::new(descriptor)));
        self
    }

    /// Starts it, within a tokio runtime; resolves when the program runs. Dropping the future
    /// kills what has been started.
    ///
    /// # Errors
    /// When the program or its directory is not there or may not be used, a limit or the sandbox
    /// cannot be had on this system, or the guard cannot be started.
    pub async fn spawn(&self) -> Result<Child, SpawnError> {
        let begun = match tokio::runtime::Handle::current().runtime_flavor() {
            // Nobody else is kept waiting for long, and a thread would cost as much as it takes.
            RuntimeFlavor::CurrentThread => self.begin()?,
            _ => {
                let command = self.clone();
                let begun = tokio::task::spawn_blocking(move || command.begin());
                begun.await.map_err(|error| SpawnError::Guard {
                    program: PathBuf::new(),
                    what: error.to_string(),
                })??
            }
        };
        Child::await_start(
            begun,
            &self.program,
            self.directory.as_deref(),
            &self.limits,
        )
        .await
    }

    /// Starts the guard and gives it its order.
    fn begin(&self) -> Result<Begun, SpawnError> {
        if let Some(limit) = self.limits.unsupported() {
            return Err(SpawnError::LimitUnsupported { limit });
        }
        let environment = self
            .environment
            .resolve(std::env::vars_os(), &self.variables);
        let program = self.find(environment.get(OsStr::new("PATH")))?;
        let no_guard = |program: &Path, error: &dyn std::fmt::Display| SpawnError::Guard {
            program: program.to_owned(),
            what: error.to_string(),
        };
        let launcher = match &self.launcher {
            Some(launcher) => launcher.clone(),
            None => Launcher::this_program().map_err(|error| no_guard(Path::new(""), &error))?,
        };
        let confinement = self.confinement(&program)?;
        let directory = match &confinement {
            Some((directory, _)) => Some(directory),
            None => self.directory.as_ref(),
        };
        let order = Order {
            program: program.into(),
            arguments: self.arguments.clone(),
            directory: directory.map(Into::into),
            environment: environment.into_iter().collect(),
            limits: self.limits.clone(),
            confinement: confinement.map(|(_, confinement)| confinement),
            launcher: launcher.program.clone().into(),
            launcher_arguments: launcher.arguments.clone(),
            is_staged: self.is_staged || self.needs_stage(),
            inherited: self
                .inherited
                .as_ref()
                .map(|(variable, _)| variable.clone()),
        };
        let inherited = self
            .inherited
            .as_ref()
            .map(|(_, descriptor)| descriptor.as_fd());
        let leads_group = order.is_staged;
        let order =
            serde_json::to_vec(&order).map_err(|error| no_guard(&launcher.program, &error))?;
        start_guard(&launcher, &self.title(), &order, inherited, leads_group)
            .map_err(|error| no_guard(&launcher.program, &error))
    }

    /// Whether something is to be done by the child before it is the program.
    fn needs_stage(&self) -> bool {
        let guards_alone = Limits {
            processes: self.limits.processes,
            ..Limits::default()
        };
        self.limits != guards_alone || self.sandbox != Sandbox::None || self.inherited.is_some()
    }

    /// What the guard is called where processes are listed.
    fn title(&self) -> String {
        let program = Path::new(&self.program);
        let program = program.file_name().unwrap_or(&self.program);
        let name = self.name.clone();
        let name = name.unwrap_or_else(|| program.to_string_lossy().into_owned());
        let shown = name.chars().filter(|char| !char.is_control());
        let shown: String = shown.take(MAX_NAME_CHARS).collect();
        format!("orchestra: guard of {shown}")
    }

    /// The bounds of the sandbox, with the working directory, where there is one.
    fn confinement(&self, program: &Path) -> Result<Option<(PathBuf, Confinement)>, SpawnError> {
        let Sandbox::Workspace {
            paths,
            read_only,
            protected,
        } = &self.sandbox
        else {
            return Ok(None);
        };
        let directory = match &self.directory {
            Some(directory) => directory.clone(),
            None => std::env::current_dir().map_err(|error| SpawnError::Sandbox {
                what: format!("the working directory is not known: {error}"),
            })?,
        };
        // The stage compares them with protected paths.
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let directory = absolute(&directory);
        let write = [&directory].into_iter().chain(paths).map(absolute);
        let write: Vec<PathBuf> = write.collect();
        let confinement = Confinement {
            program: match &self.granted {
                Some(granted) => Some(granted.into()),
                None => self.found_file(program, &write).map(Into::into),
            },
            write: write.into_iter().map(Into::into).collect(),
            read: read_only.iter().map(absolute).map(Into::into).collect(),
            protected: protected.iter().map(Into::into).collect(),
            nested: self.nested.clone(),
            hidden: self.hidden.iter().map(Into::into).collect(),
            mounts: !(protected.is_empty() && self.hidden.is_empty()),
        };
        Ok(Some((directory, confinement)))
    }

    /// File of the program, unless a link in a directory that the child may write leads to it from there: the child
    /// would decide which file is opened to it.
    fn found_file(&self, program: &Path, write: &[PathBuf]) -> Option<PathBuf> {
        let file = program.canonicalize().ok()?;
        let is_named = Path::new(&self.program).components().count() > 1;
        let above = program.parent().and_then(|above| above.canonicalize().ok());
        let mut led_out = write.iter().filter_map(|root| {
            let real = root.canonicalize().ok()?;
            let is_below = |path: &Path| path.starts_with(root) || path.starts_with(&real);
            let is_from = is_below(program) || above.as_deref().is_some_and(is_below);
            Some(is_from && !file.starts_with(&real))
        });
        match is_named && led_out.any(|is_out| is_out) {
            true => None,
            false => Some(file),
        }
    }

    /// The path of the program, from where the child works.
    fn find(&self, path: Option<&OsString>) -> Result<PathBuf, SpawnError> {
        let program = Path::new(&self.program);
        if program.components().count() > 1 || program.is_absolute() {
            let whole = match &self.directory {
                Some(directory) => directory.join(program),
                None => program.to_owned(),
            };
            return match runnable(&whole) {
                Ok(()) => std::path::absolute(&whole),
                Err(error) => Err(error),
            }
            .map_err(|source| SpawnError::NotRunnable {
                program: whole,
                source,
            });
        }
        let ours = std::env::var_os("PATH");
        let path = path.cloned().or(ours).unwrap_or_default();
        // A relative one may be of a workspace, whose programs are started by a path alone.
        let directories = std::env::split_paths(&path).filter(|path| path.is_absolute());
        let mut found = directories.map(|directory| directory.join(program));
        let found = found.find(|candidate| runnable(candidate).is_ok());
        found.ok_or_else(|| SpawnError::NotOnPath {
            program: self.program.to_string_lossy().into_owned(),
        })
    }
}

/// Whether there is a file that we may run.
fn runnable(path: &Path) -> io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(access(path, Access::EXEC_OK)?)
}

fn start_guard(
    launcher: &Launcher,
    title: &str,
    order: &[u8],
    inherited: Option<BorrowedFd<'_>>,
    leads_group: bool,
) -> io::Result<Begun> {
    let starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let (control, theirs) = UnixStream::pair()?;
    let (their_input, input) = io::pipe()?;
    let (output, their_output) = io::pipe()?;
    let (error, their_error) = io::pipe()?;
    // direct: this is the one place where a guard begins.
    let mut guard = tokio::process::Command::new(&launcher.program);
    guard
        .arg0(title)
        .args(&launcher.arguments)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if leads_group {
        // A key that ends us by the terminal leaves it time to end the child. A guard that makes a
        // session of its own may not lead a group before.
        guard.process_group(0);
    }
    let guard = guard.spawn()?;
    drop(starting);
    control.set_write_timeout(Some(HAND_OVER))?;
    let stdio = [
        their_input.as_fd(),
        their_output.as_fd(),
        their_error.as_fd(),
    ];
    let descriptors: Vec<BorrowedFd<'_>> = stdio.into_iter().chain(inherited).collect();
    message::send(&control, order, &descriptors).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::other(NO_ANSWER),
        _ => error,
    })?;
    control.set_nonblocking(true)?;
    Ok(Begun {
        guard,
        launcher: launcher.program.clone(),
        control,
        input: input.into(),
        output: output.into(),
        error: error.into(),
    })
}

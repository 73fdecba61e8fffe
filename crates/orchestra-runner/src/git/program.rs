//! The `git` program: how it is found and checked, and what it gets of our environment.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{GitError, call::Call, names::shortened};

/// The oldest git that we work with: the first with `merge-tree --write-tree`.
pub const OLDEST_GIT: &str = "2.38";
const OLDEST: (u32, u32) = (2, 38);

/// The first git that reads attributes from a tree that is named (`--attr-source`).
const ATTRIBUTES_OF_A_TREE: (u32, u32) = (2, 41);

/// How long a call may take unless said otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How much a call may say unless said otherwise: the names of a few hundred thousand files.
const OUTPUT: usize = 64 << 20;

/// What git gets of our environment: its way to programs, to the user's configuration, and to a remote
/// from which a partial clone fetches what it lacks. Nothing that begins with `GIT_` but where the
/// configuration is, and the author and the committer.
const INHERITED: [&str; 23] = [
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "TZ",
    "XDG_CONFIG_HOME",
    "SSH_AUTH_SOCK",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
];

/// How git is to be run.
#[derive(Debug, Clone)]
pub struct GitSettings {
    /// The program: a name that is looked for on `PATH`, or a path.
    pub program: PathBuf,
    /// How long a call may take.
    pub timeout: Duration,
    /// How many bytes a call may say.
    pub output: usize,
    /// Variables that git gets besides the few that it inherits, or in place of them.
    pub environment: Vec<(OsString, OsString)>,
}

impl Default for GitSettings {
    fn default() -> Self {
        Self {
            program: PathBuf::from("git"),
            timeout: TIMEOUT,
            output: OUTPUT,
            environment: Vec::new(),
        }
    }
}

/// How many git processes were started, and how long they took together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GitTimes {
    /// Processes that we started; what git starts by itself is not counted.
    pub processes: u64,
    /// From each start to each end, added up.
    pub spent: Duration,
}

/// The `git` program, found and checked. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Git(pub(super) Arc<Inner>, Fetching);

/// Whether git fetches objects that a partial clone lacks, from a remote that the repository names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetching {
    Lazy,
    None,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) program: PathBuf,
    pub(super) timeout: Duration,
    pub(super) output: usize,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) lfs: bool,
    version: (u32, u32),
    processes: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Inner {
    /// Value of a variable of every call.
    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        let mut environment = self.environment.iter();
        let (_, value) = environment.rfind(|(known, _)| known == name)?;
        Some(value)
    }
}

impl Git {
    /// Finds git and checks its version.
    ///
    /// # Errors
    /// [`GitError::Missing`] and [`GitError::TooOld`], or what went wrong when it was asked.
    pub async fn find(settings: GitSettings) -> Result<Self, GitError> {
        let environment = environment(&settings);
        let path = environment
            .iter()
            .rfind(|(name, _)| name == "PATH")
            .map(|(_, value)| value.clone());
        let program =
            find_program(&settings.program, path.as_deref()).ok_or_else(|| GitError::Missing {
                program: settings.program.display().to_string(),
            })?;
        let mut inner = Inner {
            program,
            timeout: settings.timeout,
            output: settings.output,
            lfs: find_program(Path::new("git-lfs"), path.as_deref()).is_some(),
            environment,
            version: OLDEST,
            processes: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
        };
        let first = Self(Arc::new(inner), Fetching::Lazy);
        let said = first
            .call("ask for the version of git", Path::new("/"), ["version"])
            .run()
            .await?
            .text();
        let version = said.trim().strip_prefix("git version ").unwrap_or_default();
        let number = parse_version(version).ok_or_else(|| GitError::Unreadable {
            operation: "ask for the version of git",
            subject: first.0.program.display().to_string(),
            what: shortened(&said),
        })?;
        if number < OLDEST {
            return Err(GitError::TooOld {
                found: shortened(version),
                needed: OLDEST_GIT,
            });
        }
        inner = Inner {
            program: first.0.program.clone(),
            timeout: first.0.timeout,
            output: first.0.output,
            lfs: first.0.lfs,
            environment: first.0.environment.clone(),
            version: number,
            processes: AtomicU64::new(1),
            nanoseconds: AtomicU64::new(first.0.nanoseconds.load(Ordering::Relaxed)),
        };
        Ok(Self(Arc::new(inner), Fetching::Lazy))
    }

    /// How many processes were started so far, and how long they took.
    pub fn times(&self) -> GitTimes {
        GitTimes {
            processes: self.0.processes.load(Ordering::Relaxed),
            spent: Duration::from_nanos(self.0.nanoseconds.load(Ordering::Relaxed)),
        }
    }

    /// Counts a process that was started.
    pub(super) fn count(&self) {
        self.0.processes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts how long a process took.
    pub(super) fn count_time(&self, spent: Duration) {
        let spent = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.0.nanoseconds.fetch_add(spent, Ordering::Relaxed);
    }

    /// How long a call may take.
    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// The same program, which fetches no objects that a partial clone lacks. Git before 2.45 fetches them all the same.
    pub(super) fn without_lazy_fetches(&self) -> Self {
        Self(Arc::clone(&self.0), Fetching::None)
    }

    /// Returns whether objects that a partial clone lacks are errors.
    pub(super) fn fetches_nothing(&self) -> bool {
        self.1 == Fetching::None
    }

    /// Whether attributes can be read from a tree that is named.
    pub(super) fn reads_attributes_of_a_tree(&self) -> bool {
        self.0.version >= ATTRIBUTES_OF_A_TREE
    }

    /// A call of git in a directory, which is the subject of its errors until another is named.
    pub(super) fn call<I, A>(&self, operation: &'static str, directory: &Path, arguments: I) -> Call
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Call::new(self.clone(), operation, directory, arguments)
    }
}

/// The environment of every call.
fn environment(settings: &GitSettings) -> Vec<(OsString, OsString)> {
    INHERITED
        .iter()
        .filter_map(|name| Some((OsString::from(name), env::var_os(name)?)))
        .chain(settings.environment.iter().cloned())
        .collect()
}

/// Where a program is: a path as it stands, a name wherever `PATH` first has it.
fn find_program(program: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    let runs = |candidate: &PathBuf| {
        candidate
            .metadata()
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if program.components().count() > 1 || program.is_absolute() {
        return Some(program.to_owned()).filter(runs);
    }
    env::split_paths(path?)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(runs)
}

/// The first two numbers of a version.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(['.', ' ', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_systems_write_them() {
        assert_eq!(parse_version("2.47.3"), Some((2, 47)));
        assert_eq!(parse_version("2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(parse_version("2.45.windows.1"), Some((2, 45)));
        assert_eq!(parse_version("3.0-rc1"), Some((3, 0)));
        assert_eq!(parse_version("two"), None);
    }
}

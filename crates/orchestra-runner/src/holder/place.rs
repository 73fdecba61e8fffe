//! Leader election of the processes that run plans, in the storage root, and the socket of the leader.

use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_fs::Directory;
use orchestra_place::{Election, Leader};
use orchestra_process::ProcessRecord;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use crate::hex::hex;

/// Election of the process that runs the plans. Its lock file names the process that leads.
const ELECTION: Election = Election::new(".lock", "runner.json");
/// Where it listens.
const SOCKET: &str = "runner.sock";
/// The longest path that every system takes for a socket.
const MAX_SOCKET_PATH: usize = 100;
/// How long the names are of sockets whose own path would be too long.
const SOCKET_NAME: usize = 16;
/// Bytes that such a socket adds to the path of its directory: a slash, the name and the extension.
const SHORT_SOCKET: usize = 1 + SOCKET_NAME + ".sock".len();
/// How long nobody may listen at a socket yet, by far.
const NEW_SOCKET: Duration = Duration::from_secs(60);
/// How long somebody who listens may take to be connected to.
const ANSWER: Duration = Duration::from_millis(50);
/// How many sockets of others are looked at.
const MAX_OLD_SOCKETS: usize = 256;
/// Bytes of a token.
const TOKEN_BYTES: usize = 32;
/// What both sides speak.
pub(super) const PROTOCOL: u32 = 1;

/// Trouble with the place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// A file or directory of the election cannot be used.
    #[error(transparent)]
    File(#[from] orchestra_fs::Error),
    /// A socket or its directory cannot be used.
    #[error("cannot {attempted} {}", .path.display())]
    Io {
        /// What was attempted.
        attempted: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// No path is short enough for a socket.
    #[error(
        "no path is short enough for a socket, because {} is too long; set XDG_RUNTIME_DIR or TMPDIR to a shorter directory",
        .0.display()
    )]
    TooLong(PathBuf),
    /// Another user created the directory for sockets.
    #[error(
        "cannot use `{}` for a socket, because it belongs to another user; set XDG_RUNTIME_DIR or TMPDIR to a directory of your own",
        .0.display()
    )]
    Taken(PathBuf),
}

/// What proves that somebody may read this user's files.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Token(String);

impl Token {
    fn random() -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(hex(&bytes)))
    }

    /// Whether it is the same; how long that takes says nothing of either.
    pub(super) fn is(&self, other: &Self) -> bool {
        Sha256::digest(&self.0) == Sha256::digest(&other.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Content of the endpoint file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Endpoint {
    /// What it speaks.
    pub(super) protocol: u32,
    /// The version of its program.
    pub(super) version: String,
    /// Which process it is.
    pub(super) pid: u32,
    /// When that began, in the system's measure.
    pub(super) began: Option<u64>,
    pub(super) socket: PathBuf,
    pub(super) token: Token,
}

/// A directory for sockets whose own path would be too long: the runtime directory of the user, or else their state
/// directory. If a path would be too long there as well, it is below the directory for temporary files.
#[must_use]
pub fn short_directory() -> PathBuf {
    let named = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let runtime = named("XDG_RUNTIME_DIR").filter(|path| path.is_dir());
    let usual = || Some(named("HOME")?.join(".local/state"));
    let state = named("XDG_STATE_HOME").or_else(usual);
    short_of(runtime.as_deref(), state.as_deref(), &std::env::temp_dir())
}

fn short_of(runtime: Option<&Path>, state: Option<&Path>, temporary: &Path) -> PathBuf {
    if let Some(runtime) = runtime {
        return runtime.join("orchestra");
    }
    let fits = |path: &PathBuf| path.as_os_str().len() + SHORT_SOCKET <= MAX_SOCKET_PATH;
    // Another user can create the name in the directory for temporary files first, and so block the plans.
    let state = state.map(|state| state.join("orchestra/sockets"));
    state.filter(fits).unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        temporary.join(format!("orchestra-{user}"))
    })
}

/// The directory of a place as it once was. As long as it is kept open no other has its number.
#[derive(Debug)]
pub(super) struct Home {
    directory: File,
    root: PathBuf,
}

impl Home {
    /// Whether it is still there, and not another of its name.
    pub(super) fn is_there(&self) -> bool {
        let named = fs::symlink_metadata(&self.root);
        let (Ok(open), Ok(named)) = (self.directory.metadata(), named) else {
            return false;
        };
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }
}

/// The place below a storage root.
#[derive(Debug, Clone)]
pub struct Place {
    root: PathBuf,
    short: PathBuf,
}

impl Place {
    /// The place below `root`. A socket whose path would be too long there goes into `short`.
    #[must_use]
    pub fn new(root: &Path, short: &Path) -> Self {
        Self {
            root: root.to_owned(),
            short: short.to_owned(),
        }
    }

    /// The storage root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes this process the leader; `None` while another process leads.
    ///
    /// # Errors
    /// When the directory or a file in it cannot be created or locked.
    pub fn lead(&self) -> Result<Option<Leadership>, PlaceError> {
        self.lead_in(&orchestra_fs::make_private(&self.root)?)
    }

    /// Makes a process the leader that has taken part before: a directory that was removed is not recreated.
    ///
    /// # Errors
    /// When the directory does not exist, or a file in it cannot be created or locked.
    pub(super) fn lead_again(&self) -> Result<Option<Leadership>, PlaceError> {
        self.lead_in(&Directory::open(&self.root)?)
    }

    fn lead_in(&self, root: &Directory) -> Result<Option<Leadership>, PlaceError> {
        let Some(mut leadership) = ELECTION.lead(root)? else {
            return Ok(None);
        };
        // For people who ask which process leads; a full disk is no reason not to lead.
        let _ = leadership.identify(&ProcessRecord::this());
        Ok(Some(Leadership {
            place: self.clone(),
            leadership,
        }))
    }

    /// Returns whether a process leads. Creates and changes nothing.
    ///
    /// # Errors
    /// When the lock file cannot be used.
    pub fn is_led(&self) -> Result<bool, PlaceError> {
        match self.directory()? {
            Some(root) => Ok(ELECTION.is_led(&root)?),
            None => Ok(false),
        }
    }

    /// Returns the id of the process that leads, by its own account; only for messages.
    #[must_use]
    pub fn leader(&self) -> Option<u32> {
        let root = Directory::open(&self.root).ok()?;
        let leader: ProcessRecord = ELECTION.identity(&root).ok()??;
        Some(leader.pid)
    }

    /// Opens the storage root; `None` where it does not exist.
    fn directory(&self) -> orchestra_fs::Result<Option<Directory>> {
        match Directory::open(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            directory => directory.map(Some),
        }
    }

    /// The directory as it is now.
    pub(super) fn home(&self) -> Result<Home, PlaceError> {
        let directory = File::open(&self.root).map_err(failed("open", &self.root))?;
        Ok(Home {
            directory,
            root: self.root.clone(),
        })
    }

    /// Returns the endpoint of the leader; `None` while it publishes none.
    pub(super) fn endpoint(&self) -> io::Result<Option<Endpoint>> {
        let Some(root) = self.directory()? else {
            return Ok(None);
        };
        Ok(match ELECTION.leader(&root)? {
            Leader::Published(endpoint) => Some(endpoint),
            Leader::None | Leader::Silent => None,
        })
    }

    /// Removes the sockets of holders that were killed, at which nobody listens.
    pub(super) async fn sweep(self) {
        let looked = tokio::task::spawn_blocking(move || self.old_sockets()).await;
        for path in looked.unwrap_or_default() {
            let answer = timeout(ANSWER, tokio::net::UnixStream::connect(&path)).await;
            let is_dead = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
            if matches!(answer, Ok(Err(error)) if is_dead(&error)) {
                // Another holder may be as quick.
                let _ = orchestra_fs::remove(&path);
            }
        }
    }

    /// The sockets of other places, in the directory for those whose own path would be too long, at which
    /// nobody may listen any more.
    fn old_sockets(&self) -> Vec<PathBuf> {
        let is_old = |path: &PathBuf| {
            let name = path.file_stem().unwrap_or_default().as_bytes();
            let is_ours = name.len() == SOCKET_NAME
                && name.iter().all(u8::is_ascii_hexdigit)
                && path.extension().is_some_and(|end| end == "sock");
            let changed = fs::symlink_metadata(path).and_then(|found| found.modified());
            let age = changed.ok().and_then(|changed| changed.elapsed().ok());
            // One that was made just now may not be listened at yet.
            is_ours && age.is_some_and(|age| age > NEW_SOCKET)
        };
        let entries = fs::read_dir(&self.short).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path()).filter(is_old);
        paths.take(MAX_OLD_SOCKETS).collect()
    }

    /// Where a holder listens, in a directory that is this user's alone.
    fn socket(&self) -> Result<PathBuf, PlaceError> {
        let near = self.root.join(SOCKET);
        if near.as_os_str().len() <= MAX_SOCKET_PATH {
            return Ok(near);
        }
        let root = self
            .root
            .canonicalize()
            .map_err(failed("find", &self.root))?;
        let name = hex(&Sha256::digest(root.as_os_str().as_bytes())[..SOCKET_NAME / 2]);
        let short = self.short.join(format!("{name}.sock"));
        if short.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(PlaceError::TooLong(short));
        }
        match orchestra_fs::make_private(&self.short) {
            Ok(_) => Ok(short),
            // Only its owner can remove it from a directory for temporary files.
            Err(_) if is_of_another_user(&self.short) => Err(PlaceError::Taken(self.short.clone())),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_of_another_user(directory: &Path) -> bool {
    let found = fs::symlink_metadata(directory);
    found.is_ok_and(|found| found.uid() != rustix::process::geteuid().as_raw())
}

fn failed(attempted: &'static str, path: &Path) -> impl Fn(io::Error) -> PlaceError {
    let path = path.to_owned();
    move |source| PlaceError::Io {
        attempted,
        path: path.clone(),
        source,
    }
}

/// Leadership of this process. Dropping it ends the leadership.
#[derive(Debug)]
pub struct Leadership {
    place: Place,
    leadership: orchestra_place::Leadership,
}

impl Leadership {
    /// The storage root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.place.root
    }

    /// The place.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// Returns whether other processes see this leadership.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.leadership.is_current()
    }

    /// Listens, and publishes the endpoint of this process. Must run inside a runtime.
    pub(super) fn publish(&self) -> Result<(tokio::net::UnixListener, Endpoint), PlaceError> {
        let socket = self.place.socket()?;
        // The process that listened there no longer leads.
        orchestra_fs::remove(&socket)?;
        let listener =
            tokio::net::UnixListener::bind(&socket).map_err(failed("listen on", &socket))?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))
            .map_err(failed("protect", &socket))?;
        let this = ProcessRecord::this();
        let endpoint = Endpoint {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: this.pid,
            began: this.began,
            token: Token::random().map_err(failed("make a token for", &socket))?,
            socket,
        };
        self.leadership.publish(&endpoint)?;
        Ok((listener, endpoint))
    }

    /// Removes the endpoint file and the socket. The leadership continues.
    pub(super) fn withdraw(&self, endpoint: &Endpoint) {
        // After a loss the socket belongs to another leader.
        if self.is_current() {
            let file = self.leadership.withdraw();
            let socket = orchestra_fs::remove(&endpoint.socket).map(drop);
            for error in [file, socket].into_iter().filter_map(Result::err) {
                tracing::warn!(%error, "cannot withdraw the endpoint of the plans");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_in_the_state_directory_without_a_runtime_directory() {
        let user = rustix::process::geteuid().as_raw();
        let in_temporary = format!("/tmp/orchestra-{user}");
        // 18 bytes of the two directories and 22 of the socket follow.
        let longest = format!("/{}", "d".repeat(59));
        let in_longest = format!("{longest}/orchestra/sockets");
        let longer = format!("{longest}d");
        for (runtime, state, expected) in [
            (Some("/run/user/1"), Some("/state"), "/run/user/1/orchestra"),
            (None, Some("/state"), "/state/orchestra/sockets"),
            (None, Some(longest.as_str()), in_longest.as_str()),
            (None, Some(longer.as_str()), in_temporary.as_str()),
            (None, None, in_temporary.as_str()),
        ] {
            let (runtime, state) = (runtime.map(Path::new), state.map(Path::new));
            let short = short_of(runtime, state, Path::new("/tmp"));
            assert_eq!(short, Path::new(expected));
        }
    }

    #[test]
    fn directory_of_another_user_is_refused_with_the_variables_to_set() {
        if !rustix::process::geteuid().is_root() {
            assert!(
                std::env::var_os("CI").is_none(),
                "CI runs this test as root"
            );
            eprintln!("SKIPPED: only root can give a directory away");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("d".repeat(MAX_SOCKET_PATH));
        let short = directory.path().join("s");
        fs::create_dir(&root).unwrap();
        fs::create_dir(&short).unwrap();
        std::os::unix::fs::chown(&short, Some(12_346), None).unwrap();
        for mode in [0o755, 0o700] {
            fs::set_permissions(&short, fs::Permissions::from_mode(mode)).unwrap();
            let error = Place::new(&root, &short).socket().unwrap_err();
            let error = error.to_string();
            assert!(
                error.ends_with("belongs to another user; set XDG_RUNTIME_DIR or TMPDIR to a directory of your own"),
                "{error}"
            );
        }
    }
}

//! The place below the storage root where the holder is told of: a lock that it has for as long as it
//! lives, a file that says how it is reached, and its socket.

use std::{
    fmt,
    fs::{self, File},
    io::{self, Seek as _, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_fs::{Access, Lock};
use orchestra_process::Process;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::timeout;

use crate::hex::hex;

/// What its holder locks.
const LOCK: &str = ".lock";
/// What says how the holder is reached.
const TOLD: &str = "runner.json";
/// Where it listens.
const SOCKET: &str = "runner.sock";
/// The longest path that every system takes for a socket.
const MAX_SOCKET_PATH: usize = 100;
/// The file is a few hundred bytes.
const MAX_TOLD: u64 = 16 * 1024;
/// How long the names are of sockets whose own path would be too long.
const SOCKET_NAME: usize = 16;
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
    /// A file or directory cannot be used.
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
        "no path for a socket: {} is too long as well; set XDG_RUNTIME_DIR or TMPDIR to a shorter directory",
        .0.display()
    )]
    TooLong(PathBuf),
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

/// How a holder is reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Told {
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

/// A directory for sockets whose own path would be too long: the user's for what runs, else one in the
/// directory for temporary files.
#[must_use]
pub fn short_directory() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let user = rustix::process::geteuid().as_raw();
    match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(path) => path.join("orchestra"),
        None => std::env::temp_dir().join(format!("orchestra-{user}")),
    }
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
        use std::os::unix::fs::MetadataExt as _;
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

    /// Takes the lock for this process; `None` where another has it.
    ///
    /// # Errors
    /// When its file cannot be made or locked.
    pub fn claim(&self) -> Result<Option<Claim>, PlaceError> {
        orchestra_fs::make_private(&self.root)
            .map_err(failed_by("make the directory", &self.root))?;
        self.claim_there()
    }

    /// The same for who has had a part there: where the directory was removed it is not made again.
    ///
    /// # Errors
    /// When it is not there, or the file cannot be made or locked.
    pub(super) fn claim_there(&self) -> Result<Option<Claim>, PlaceError> {
        let path = self.root.join(LOCK);
        let lock = Lock::attempt(&path).map_err(failed_by("lock", &path))?;
        let Some(mut lock) = lock else {
            return Ok(None);
        };
        // Left behind by a holder that was killed.
        let told = self.root.join(TOLD);
        orchestra_fs::remove(&told).map_err(failed_by("remove", &told))?;
        // For people who ask who it is; a full disk is no reason not to be it.
        let _ = say(lock.file_mut());
        Ok(Some(Claim {
            place: self.clone(),
            lock,
        }))
    }

    /// Returns whether a process has the lock. Creates and changes nothing.
    ///
    /// # Errors
    /// When its file cannot be used.
    pub fn is_held(&self) -> Result<bool, PlaceError> {
        let path = self.root.join(LOCK);
        orchestra_fs::is_locked(&path).map_err(failed_by("look at", &path))
    }

    /// The process that has the lock, by its own account; only for messages.
    #[must_use]
    pub fn holder(&self) -> Option<u32> {
        #[derive(Deserialize)]
        struct Said {
            pid: u32,
        }
        let text = orchestra_fs::read_own(&self.root.join(LOCK), MAX_TOLD).ok()??;
        let said: Said = serde_json::from_slice(&text).ok()?;
        Some(said.pid)
    }

    /// The directory as it is now.
    pub(super) fn home(&self) -> Result<Home, PlaceError> {
        let directory = File::open(&self.root).map_err(failed("open", &self.root))?;
        Ok(Home {
            directory,
            root: self.root.clone(),
        })
    }

    /// What the holder says of how it is reached; `None` while it says nothing that can be trusted.
    pub(super) fn told(&self) -> io::Result<Option<Told>> {
        let text = orchestra_fs::read_own(&self.root.join(TOLD), MAX_TOLD)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
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
        orchestra_fs::make_private(&self.short)
            .map_err(failed_by("make the directory", &self.short))?;
        Ok(short)
    }
}

fn say(lock: &mut File) -> io::Result<()> {
    let this = Process::this();
    let text = serde_json::json!({"pid": this.id(), "began": this.began()});
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(text.to_string().as_bytes())
}

fn failed_by(attempted: &'static str, path: &Path) -> impl Fn(orchestra_fs::Error) -> PlaceError {
    let failed = failed(attempted, path);
    move |error| failed(error.into_cause())
}

fn failed(attempted: &'static str, path: &Path) -> impl Fn(io::Error) -> PlaceError {
    let path = path.to_owned();
    move |source| PlaceError::Io {
        attempted,
        path: path.clone(),
        source,
    }
}

/// The lock of a place, which this process has. Dropping it leaves the place to others.
#[derive(Debug)]
pub struct Claim {
    place: Place,
    lock: Lock,
}

impl Claim {
    /// The storage root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.place.root
    }

    /// The place.
    pub(super) const fn place(&self) -> &Place {
        &self.place
    }

    /// Whether the lock is still the one that others would take.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.lock.is_current()
    }

    /// Listens, and tells others how this process is reached. Must run inside a runtime.
    pub(super) fn publish(&self) -> Result<(tokio::net::UnixListener, Told), PlaceError> {
        let socket = self.place.socket()?;
        // Whoever listened there has lost the lock.
        orchestra_fs::remove(&socket).map_err(failed_by("remove", &socket))?;
        let listener =
            tokio::net::UnixListener::bind(&socket).map_err(failed("listen on", &socket))?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))
            .map_err(failed("protect", &socket))?;
        let this = Process::this();
        let path = self.place.root.join(TOLD);
        let told = Told {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: this.id(),
            began: this.began(),
            token: Token::random().map_err(failed("make a token for", &path))?,
            socket,
        };
        let text =
            serde_json::to_vec(&told).map_err(|error| failed("write", &path)(error.into()))?;
        orchestra_fs::write(&path, &text, Access::Private).map_err(failed_by("write", &path))?;
        Ok((listener, told))
    }

    /// Tells nobody any more; the lock stays.
    pub(super) fn withdraw(&self, told: &Told) {
        // What lies at a place that was lost is another's.
        if self.is_ours() {
            for path in [&self.place.root.join(TOLD), &told.socket] {
                if let Err(error) = orchestra_fs::remove(path) {
                    tracing::warn!(%error, "cannot remove `{}`", path.display());
                }
            }
        }
    }
}

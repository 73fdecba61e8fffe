//! The configuration file's form on disk, and its way into checked values.

use std::{
    io,
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    str::FromStr,
    thread,
    time::Duration,
};

use orchestra_mcp::{files, http::NameError, owners::Owners};
use orchestra_place::Choice;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    EngineUse, TextFormat, TlsFiles,
    access::AccessFile,
    audit::{AuditFile, AuditOnDisk},
    chat::{ChatFile, ChatOnDisk},
    memory::{MemoryFile, MemoryOnDisk},
    oauth::OAuthOnDisk,
    plans::{PlansFile, PlansOnDisk},
    quic::QuicFile,
    sync::{SyncFile, SyncOnDisk},
};
use crate::{board::BoardMode, http, output};

/// The longest file; the same as for its servers.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Time for which an empty file must be unchanged before it counts as empty.
const EMPTY_AGE: Duration = Duration::from_secs(2);

/// Pause before an empty file is read again.
const EMPTY_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of reads of an empty file; together with the pauses, they exceed [`EMPTY_AGE`].
const EMPTY_READS: u32 = 60;

/// How long a call may be given, in seconds: up to a day.
const CALL_TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=86_400;

/// How many calls of one connection may run at once.
const CONCURRENT_CALLS: RangeInclusive<u64> = 1..=1_024;

/// How long a message may be: from a little more than a handshake to what memory easily holds.
const LINE_BYTES: RangeInclusive<u64> = 4_096..=268_435_456;

/// How many requests a second a caller may be allowed; 0 for any number.
const REQUESTS_PER_SECOND: RangeInclusive<u64> = 0..=1_000_000;

/// Stands for every directory in `safe_directories`, as in git's `safe.directory`.
const EVERY_DIRECTORY: &str = "*";

/// What a configuration file sets.
#[derive(Debug, Default)]
pub(super) struct ConfigFile {
    pub(super) tools: Option<String>,
    pub(super) format: Option<TextFormat>,
    pub(super) http: Option<SocketAddr>,
    pub(super) quic: QuicFile,
    pub(super) engine: Option<EngineUse>,
    pub(super) log: Option<String>,
    pub(super) call_timeout: Option<Duration>,
    pub(super) concurrent_calls: Option<usize>,
    pub(super) line_bytes: Option<usize>,
    pub(super) audit: AuditFile,
    pub(super) memory: MemoryFile,
    pub(super) chat: ChatFile,
    pub(super) plans: PlansFile,
    pub(super) sync: SyncFile,
    pub(super) access: AccessFile,
    /// Workspaces that are used regardless of their owner.
    pub(super) safe_directories: Vec<PathBuf>,
    /// Directories whose workspaces may bring servers that are started without approval.
    pub(super) trusted_directories: Vec<PathBuf>,
    /// Directory of the private state of a workspace.
    pub(super) place: Option<Choice>,
    /// Where the board of a workspace is.
    pub(super) board: Option<BoardMode>,
}

impl ConfigFile {
    /// Returns whether a workspace is used regardless of its owner. Links in the listed paths are followed.
    pub(super) fn is_safe(&self, workspace: &Path) -> bool {
        self.safe_directories.iter().any(|path| {
            path == Path::new(EVERY_DIRECTORY)
                || path.canonicalize().is_ok_and(|path| path == workspace)
        })
    }
}

/// Why a configuration file was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigFileError {
    /// It cannot be read.
    #[error("configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is wrong.
    #[error("configuration file {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: ParseError,
    },
}

/// What is wrong with the text of a configuration file.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseError {
    /// Not TOML, or a key or type that is not known.
    #[error("{0}")]
    Toml(String),
    /// A value that is not allowed.
    #[error("{key}: {expected}, not `{found}`")]
    Value {
        /// Dotted key.
        key: &'static str,
        /// What is expected.
        expected: String,
        /// What was found.
        found: String,
    },
}

impl ParseError {
    /// An error of the parser, which shows a line of the file. A key or value that it quotes adds no lines.
    pub(super) fn toml(error: &toml::de::Error) -> Self {
        let (text, message) = (error.to_string(), error.message());
        let text = text.trim_end_matches('\n');
        let shown = text.strip_suffix(message.trim_end_matches('\n'));
        let shown = output::printable(shown.unwrap_or_default());
        Self::Toml(format!("{shown}{}", output::in_a_line(message)))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OnDisk {
    tools: Option<String>,
    format: Option<String>,
    http: Option<String>,
    quic: Option<String>,
    certs_dir: Option<String>,
    admit: Option<Vec<String>>,
    claude_first: Option<bool>,
    #[serde(default)]
    safe_directories: Vec<PathBuf>,
    #[serde(default)]
    trusted_directories: Vec<PathBuf>,
    place: Option<String>,
    board: Option<String>,
    engine: Option<String>,
    log: Option<String>,
    #[serde(default)]
    limits: LimitsOnDisk,
    #[serde(default)]
    audit: AuditOnDisk,
    #[serde(default)]
    memory: MemoryOnDisk,
    #[serde(default)]
    chat: ChatOnDisk,
    #[serde(default)]
    plans: PlansOnDisk,
    /// Profiles of agents, by name; those of a file that may not name any are not looked at.
    #[serde(default)]
    agents: toml::Table,
    #[serde(default)]
    sync: SyncOnDisk,
    #[serde(default)]
    access: AccessOnDisk,
    /// Servers of others, which are read apart: what is wrong there stops nothing else.
    #[serde(rename = "mcp")]
    _mcp: Option<IgnoredAny>,
    /// The same: orchestrators elsewhere, and other servers.
    #[serde(rename = "servers")]
    _servers: Option<IgnoredAny>,
    /// The same: plugins.
    #[serde(rename = "plugins")]
    _plugins: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessOnDisk {
    token_file: Option<PathBuf>,
    hosts: Option<Vec<String>>,
    origins: Option<Vec<String>>,
    requests_per_second: Option<u64>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    #[serde(default)]
    oauth: OAuthOnDisk,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsOnDisk {
    call_timeout_seconds: Option<u64>,
    concurrent_calls: Option<u64>,
    line_bytes: Option<u64>,
}

/// Reads a configuration file, which must belong to `owners` where they are given; `None` when there is none.
pub(super) fn read(
    path: &Path,
    owners: Option<&Owners>,
) -> Result<Option<ConfigFile>, ConfigFileError> {
    let read = || match owners {
        Some(owners) => files::read_own_text(path, MAX_BYTES, owners),
        None => files::read_text(path, MAX_BYTES),
    };
    let text = match read_settled(path, read, || thread::sleep(EMPTY_PAUSE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(ConfigFileError::Read {
                path: path.to_owned(),
                source,
            });
        }
    };
    let mut file = parse(&text).map_err(|source| ConfigFileError::Parse {
        path: path.to_owned(),
        source,
    })?;
    if let Some(directory) = path.parent() {
        file.access.resolve(directory);
        file.quic.resolve(directory);
        file.memory.resolve(directory);
    }
    Ok(Some(file))
}

/// Reads a file. While another program truncates and rewrites the file, the file is empty. An empty text therefore
/// counts only if the file is unchanged for [`EMPTY_AGE`].
fn read_settled(
    path: &Path,
    read: impl Fn() -> io::Result<String>,
    pause: impl Fn(),
) -> io::Result<String> {
    let is_settled = || {
        let found = path.metadata().ok().filter(|found| found.len() == 0);
        let changed = found.and_then(|found| found.modified().ok());
        let age = changed.and_then(|changed| changed.elapsed().ok());
        age.is_some_and(|age| age >= EMPTY_AGE)
    };
    for _ in 0..EMPTY_READS {
        let text = read()?;
        if !text.is_empty() || is_settled() {
            return Ok(text);
        }
        pause();
    }
    Err(io::Error::other(
        "the file is empty, and another program may still be writing it; write or remove the file, and try again",
    ))
}

/// Understands the text of a configuration file.
pub(super) fn parse(text: &str) -> Result<ConfigFile, ParseError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let on_disk: OnDisk = toml::from_str(text).map_err(|error| ParseError::toml(&error))?;
    let format = on_disk.format.map(|found| match found.as_str() {
        "json" => Ok(TextFormat::Json),
        "toon" => Ok(TextFormat::Toon),
        _ => Err(wrong("format", "json or toon", found)),
    });
    let http = on_disk.http.map(|found| {
        let address = http::parse_address(&found);
        address.map_err(|_| {
            let expected = "an address such as 127.0.0.1:7420 or localhost:7420, or a port";
            wrong("http", expected, found)
        })
    });
    let quic = on_disk.quic.map(|found| {
        let expected = "an address such as 127.0.0.1:7421 or localhost:7421, a port, or off";
        found.parse().map_err(|_| wrong("quic", expected, found))
    });
    let quic = QuicFile {
        address: quic.transpose()?,
        certs: on_disk.certs_dir.filter(|path| !path.is_empty()),
        admit: names(
            "admit",
            on_disk.admit,
            |_| "ids of plugins, such as tools.mine",
        )?,
        claude_first: on_disk.claude_first,
    };
    let engine = on_disk.engine.map(|found| {
        EngineUse::named(&found).ok_or_else(|| wrong("engine", "auto, always or off", found))
    });
    let place = on_disk.place.map(|found| match found.as_str() {
        "repository" => Ok(Choice::Repository),
        "state" => Ok(Choice::State),
        _ => Err(wrong("place", "repository or state", found)),
    });
    let board = on_disk.board.map(|found| {
        BoardMode::named(&found).ok_or_else(|| wrong("board", "repository or checkout", found))
    });
    let limits = on_disk.limits;
    let seconds = within(
        "limits.call_timeout_seconds",
        limits.call_timeout_seconds,
        &CALL_TIMEOUT_SECONDS,
    )?;
    let calls = within(
        "limits.concurrent_calls",
        limits.concurrent_calls,
        &CONCURRENT_CALLS,
    )?;
    let bytes = within("limits.line_bytes", limits.line_bytes, &LINE_BYTES)?;
    let size = |number: u64| usize::try_from(number).expect("the ranges fit every usize");
    Ok(ConfigFile {
        tools: on_disk.tools,
        format: format.transpose()?,
        http: http.transpose()?,
        quic,
        engine: engine.transpose()?,
        log: on_disk.log,
        call_timeout: seconds.map(Duration::from_secs),
        concurrent_calls: calls.map(size),
        line_bytes: bytes.map(size),
        audit: on_disk.audit.checked()?,
        memory: on_disk.memory.checked()?,
        chat: on_disk.chat.checked()?,
        plans: on_disk.plans.checked(on_disk.agents)?,
        sync: on_disk.sync.checked()?,
        access: access(on_disk.access)?,
        safe_directories: safe_directories(on_disk.safe_directories)?,
        trusted_directories: trusted_directories(on_disk.trusted_directories)?,
        place: place.transpose()?,
        board: board.transpose()?,
    })
}

fn safe_directories(found: Vec<PathBuf>) -> Result<Vec<PathBuf>, ParseError> {
    let wrong_one = found
        .iter()
        .find(|path| path.is_relative() && *path != Path::new(EVERY_DIRECTORY));
    match wrong_one {
        Some(path) => {
            let expected = "absolute paths, or * for every directory";
            let found = path.display().to_string();
            Err(wrong("safe_directories", expected, found))
        }
        None => Ok(found),
    }
}

fn trusted_directories(found: Vec<PathBuf>) -> Result<Vec<PathBuf>, ParseError> {
    let wrong_one = found.iter().find(|path| path.is_relative());
    match wrong_one {
        Some(path) => {
            let found = path.display().to_string();
            Err(wrong("trusted_directories", "absolute paths", found))
        }
        None => Ok(found),
    }
}

fn access(on_disk: AccessOnDisk) -> Result<AccessFile, ParseError> {
    // Nothing is what `config show` writes where nothing is set.
    let path = |path: Option<PathBuf>| path.filter(|path| !path.as_os_str().is_empty());
    let rate = on_disk.requests_per_second;
    let rate = within("access.requests_per_second", rate, &REQUESTS_PER_SECOND)?;
    let tls = match (path(on_disk.tls_cert), path(on_disk.tls_key)) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        _ => {
            let expected = "both access.tls_cert and access.tls_key, or neither";
            return Err(wrong("access", expected, "one of them".to_owned()));
        }
    };
    Ok(AccessFile {
        token_file: path(on_disk.token_file),
        hosts: names("access.hosts", on_disk.hosts, NameError::expected)?,
        origins: names("access.origins", on_disk.origins, NameError::expected)?,
        requests_per_second: rate.map(|rate| u32::try_from(rate).expect("the range fits")),
        tls,
        oauth: on_disk.oauth.checked()?,
    })
}

/// Names, of which nobody counts as none.
pub(super) fn names<T: FromStr>(
    key: &'static str,
    found: Option<Vec<String>>,
    expected: fn(T::Err) -> &'static str,
) -> Result<Option<Vec<T>>, ParseError> {
    let parse = |text: String| {
        text.parse()
            .map_err(|error| wrong(key, expected(error), text))
    };
    let found = found.filter(|found| !found.is_empty());
    found
        .map(|found| found.into_iter().map(parse).collect())
        .transpose()
}

/// One name; nothing is what `config show` writes where nothing is set.
pub(super) fn parsed<T: FromStr>(
    key: &'static str,
    found: Option<String>,
    expected: fn(T::Err) -> &'static str,
) -> Result<Option<T>, ParseError> {
    let found = found.filter(|found| !found.is_empty());
    let all = names(key, found.map(|found| vec![found]), expected)?;
    Ok(all.and_then(|mut all| all.pop()))
}

/// A number that must lie in a range.
pub(super) fn within(
    key: &'static str,
    found: Option<u64>,
    range: &RangeInclusive<u64>,
) -> Result<Option<u64>, ParseError> {
    match found {
        Some(number) if !range.contains(&number) => {
            let expected = format!("{} to {}", range.start(), range.end());
            Err(wrong(key, &expected, number.to_string()))
        }
        found => Ok(found),
    }
}

/// A value that a key cannot have.
pub(super) fn wrong(key: &'static str, expected: &str, found: String) -> ParseError {
    ParseError::Value {
        key,
        expected: expected.to_owned(),
        found: output::in_a_line(&found),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs, time::SystemTime};

    use super::{super::audit::FsyncChoice, *};

    #[test]
    fn empty_file_counts_only_after_it_is_unchanged_for_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orchestra.toml");
        let read = || files::read_text(&path, MAX_BYTES);

        fs::write(&path, "").unwrap();
        let rewrite = || fs::write(&path, "tools = \"lean\"").unwrap();
        let text = read_settled(&path, read, rewrite).unwrap();
        assert_eq!(text, "tools = \"lean\"");

        fs::write(&path, "").unwrap();
        let pauses = Cell::new(0);
        let error = read_settled(&path, read, || pauses.set(pauses.get() + 1)).unwrap_err();
        assert!(error.to_string().contains("the file is empty"), "{error}");
        assert_eq!(pauses.get(), EMPTY_READS);

        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - EMPTY_AGE).unwrap();
        let text = read_settled(&path, read, || pauses.set(0)).unwrap();
        assert_eq!((text.as_str(), pauses.get()), ("", EMPTY_READS));
    }

    #[test]
    fn quoted_texts_of_a_file_add_no_lines_and_no_control_characters() {
        for (text, lines) in [
            ("\"x\\u000aerror: forged\" = 1\n", 5),
            ("\"\\u001b]0;title\\u0007\" = 1\n", 5),
            ("board = \"\\u001b[2J\\nerror: forged\"\n", 5),
            ("format = \"\\u202e\\nerror: forged\"\n", 1),
            ("# \u{1b}[2J\nx =\n", 5),
        ] {
            let shown = parse(text).unwrap_err().to_string();
            assert!(!shown.contains("\nerror"), "{shown}");
            let is_harmless = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
            assert!(shown.chars().all(is_harmless), "{shown:?}");
            assert!(shown.lines().count() <= lines, "{shown}");
        }
    }

    #[test]
    fn every_key_is_read() {
        let file = parse(
            "tools = \"lean\"\nformat = \"toon\"\nhttp = \"[::1]:0\"\nlog = \"debug\"\n\
             [limits]\ncall_timeout_seconds = 5\nconcurrent_calls = 7\nline_bytes = 4096\n\
             [audit]\nkeep_days = 30\nmax_bytes = 65536\nkeep_files = 0\nfsync = \"always\"\n\
             [memory]\nmax_items = 5\nmax_bytes = 65536\n",
        )
        .unwrap();
        assert_eq!(file.tools.as_deref(), Some("lean"));
        assert_eq!(file.format, Some(TextFormat::Toon));
        assert_eq!(file.http, Some("[::1]:0".parse().unwrap()));
        assert_eq!(file.log.as_deref(), Some("debug"));
        assert_eq!(file.call_timeout, Some(Duration::from_secs(5)));
        assert_eq!(
            (file.concurrent_calls, file.line_bytes),
            (Some(7), Some(4_096))
        );
        assert_eq!(file.audit.age, Some(Duration::from_secs(30 * 86_400)));
        assert_eq!(
            (file.audit.bytes, file.audit.files),
            (Some(65_536), Some(0))
        );
        assert_eq!(file.audit.fsync, Some(FsyncChoice::Always));
        assert_eq!(
            (file.memory.items, file.memory.bytes),
            (Some(5), Some(65_536))
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("format = \"yaml\"", "format: json or toon, not `yaml`"),
            ("engine = \"on\"", "engine: auto, always or off, not `on`"),
            ("place = \"here\"", "place: repository or state, not `here`"),
            (
                "board = \"here\"",
                "board: repository or checkout, not `here`",
            ),
            (
                "http = \"here\"",
                "http: an address such as 127.0.0.1:7420 or localhost:7420, or a port, not `here`",
            ),
            ("[limits]\ncall_timeout_seconds = 0", "1 to 86400, not `0`"),
            (
                "[memory]\nmax_items = 0",
                "memory.max_items: 1 to 10000000, not `0`",
            ),
            (
                "[audit]\nkeep_days = 0",
                "audit.keep_days: 1 to 3650, not `0`",
            ),
            (
                "[audit]\nmax_bytes = 1000",
                "audit.max_bytes: 65536 to 1073741824, not `1000`",
            ),
            (
                "[audit]\nkeep_files = 1001",
                "audit.keep_files: 0 to 1000, not `1001`",
            ),
            (
                "[audit]\nfsync = \"often\"",
                "audit.fsync: never, interval or always, not `often`",
            ),
            ("colour = 1", "unknown field `colour`"),
            ("tools = 1", "line 1"),
            ("tools", "line 1"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

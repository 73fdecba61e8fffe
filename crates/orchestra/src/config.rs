//! The configuration: flags, the environment, `orchestra.toml` of the workspace and of the user,
//! and the defaults settle once into one [`Config`] that knows where each value came from.

mod access;
mod audit;
mod chat;
mod engine;
mod entries;
mod file;
mod keys;
mod memory;
mod model;
mod oauth;
mod plans;
mod quic;
mod setting;
mod sync;

use std::{
    fmt,
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use orchestra_hub::Toolset;
use orchestra_mcp::owners::Owners;
use orchestra_place::{Choice, Safety};
use orchestra_store::Home;
use orchestra_wire::MAX_LINE_BYTES;

use crate::{
    board::{self, BoardMode},
    cli::Common,
    env::Variable,
    exit::Failure,
    files::Root,
    http::PORTS_TRIED,
    logging, output,
    servers::ServerFlags,
    workspace,
};
use file::{ConfigFile, ConfigFileError};

pub(crate) use access::{AccessConfig, AccessFlags, TlsFiles, TokenSource};
pub(crate) use audit::AuditSettings;
pub(crate) use chat::{BackendKind, ChatFlags, ChatSettings, USUAL_CONTEXT, bounds_of};
pub(crate) use engine::{EngineFlags, EngineUse, engine_port, wrong_engine_port};
pub(crate) use entries::Entry;
pub(crate) use memory::MemorySettings;
pub(crate) use model::NONE as NO_MODEL;
pub(crate) use plans::PlansConfig;
pub(crate) use quic::{QuicAddress, QuicConfig, QuicFlags};
pub(crate) use setting::{set_board, set_memory};
pub(crate) use sync::SyncSettings;

/// The configuration file's name.
pub(crate) const FILE: &str = "orchestra.toml";

/// Where a value comes from, strongest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The command line.
    Flag,
    /// An environment variable.
    Environment(Variable),
    /// A configuration file.
    File(PathBuf),
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("command line"),
            Self::Environment(variable) => write!(f, "environment {variable}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Setting<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it comes from.
    pub(crate) origin: Origin,
}

/// Text format of tool results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum TextFormat {
    /// Compact JSON.
    #[default]
    Json,
    /// TOON, which takes fewer tokens.
    Toon,
}

impl TextFormat {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Toon => "toon",
        }
    }
}

/// What flags of single commands may set; a command leaves out what it has no flag for.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    /// `--tools`.
    pub(crate) tools: Option<String>,
    /// `--format`.
    pub(crate) format: Option<TextFormat>,
    /// `--http`.
    pub(crate) http: Option<SocketAddr>,
    /// Who is let in.
    pub(crate) access: AccessFlags,
    /// Where plugins and bridges reach the program.
    pub(crate) quic: QuicFlags,
    /// Whether there is a memory engine.
    pub(crate) engine: EngineFlags,
    /// Servers of others.
    pub(crate) servers: ServerFlags,
    /// Whom `chat` talks to.
    pub(crate) chat: ChatFlags,
}

/// The settled configuration.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The workspace, absolute.
    pub(crate) workspace: PathBuf,
    /// Where it comes from.
    pub(crate) workspace_origin: Origin,
    /// Users whose files are used there; `None` where `safe_directories` lists it.
    pub(crate) owners: Option<Owners>,
    /// Workspaces that are used regardless of their owner.
    pub(crate) safe_directories: Setting<Vec<PathBuf>>,
    /// Directories whose workspaces may bring servers that are started without approval.
    pub(crate) trusted_directories: Setting<Vec<PathBuf>>,
    /// Directory of the private state of the workspace.
    pub(crate) place: Setting<Choice>,
    /// Where the board of the workspace is.
    pub(crate) board: Setting<BoardMode>,
    /// Its place, by these settings; `None` where it has none.
    home: Option<Home>,
    /// Which tools a client sees.
    pub(crate) tools: Setting<String>,
    /// How results are written as text.
    pub(crate) format: Setting<TextFormat>,
    /// Where `up` listens.
    pub(crate) http: Setting<SocketAddr>,
    /// Who is let in there.
    pub(crate) access: AccessConfig,
    /// Where plugins and bridges reach it.
    pub(crate) quic: QuicConfig,
    /// Whether there is a memory engine.
    pub(crate) engine: Setting<EngineUse>,
    /// What is logged.
    pub(crate) log: Setting<String>,
    /// How long one call may take.
    pub(crate) call_timeout: Setting<Duration>,
    /// How many calls of one connection run at once.
    pub(crate) concurrent_calls: Setting<usize>,
    /// How long a message may be, in bytes.
    pub(crate) line_bytes: Setting<usize>,
    /// How records of calls are kept.
    pub(crate) audit: AuditSettings,
    /// How much a project may remember.
    pub(crate) memory: MemorySettings,
    /// Where plans are kept, and how they are run.
    pub(crate) plans: PlansConfig,
    /// Whom `chat` talks to, and how.
    pub(crate) chat: ChatSettings,
    /// Exchange of the board with other clones.
    pub(crate) sync: SyncSettings,
    /// Which servers of others are offered beside the built-in tools, or instead of them.
    pub(crate) servers: ServerFlags,
}

const DEFAULT_HTTP: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);

/// Ports at which `up` may listen without settings.
pub(crate) const fn usual_ports() -> RangeInclusive<u16> {
    ports_from(DEFAULT_HTTP.port())
}

/// The port of a setting, and the ports that `up` tries if that one is taken.
const fn ports_from(first: u16) -> RangeInclusive<u16> {
    first..=first.saturating_add(PORTS_TRIED - 1)
}

/// Far longer than any built-in tool takes, and short enough that what hangs ends some day.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// More than a client ever has in flight; the rest waits.
const DEFAULT_CONCURRENT_CALLS: usize = 64;

impl Config {
    /// Settles the configuration.
    ///
    /// # Errors
    /// When the workspace does not exist, or a file or variable holds something wrong.
    pub(crate) fn settle(common: &Common, overrides: Overrides) -> Result<Self, Failure> {
        let workspace = workspace::find(common.workspace.as_deref()).map_err(Failure::usage)?;
        Self::settle_in(workspace, common, overrides)
    }

    /// Settles the configuration for a workspace that is already known.
    ///
    /// # Errors
    /// When a file or variable holds something wrong.
    pub(crate) fn settle_in(
        workspace: PathBuf,
        common: &Common,
        overrides: Overrides,
    ) -> Result<Self, Failure> {
        Self::settle_unbounded(workspace, common, overrides).map_err(Failure::bounded)
    }

    fn settle_unbounded(
        workspace: PathBuf,
        common: &Common,
        overrides: Overrides,
    ) -> Result<Self, Failure> {
        let user = read_user_file()?;
        let place = place_of(user.as_ref().map(|(_, file)| file), &workspace);
        let place = workspace::place_as(&workspace, || Ok(place));
        let files = files_of(&workspace, user)?;
        let home = {
            let shared = match &place {
                Ok(place) => board::shared_in(place.clone()),
                Err(failure) => Err(Failure::Failed(anyhow::Error::msg(failure.text()))),
            };
            board::locate(&workspace, Ok(board_in(&files)), shared).ok()
        };
        let log_variable = Variable::Log
            .read()
            .map(|value| {
                value
                    .into_string()
                    .map_err(|_| Failure::usage_text("RUST_LOG is not UTF-8 text"))
            })
            .transpose()?
            .filter(|value| is_for_us(value))
            .map(|value| (value, Origin::Environment(Variable::Log)));
        let log = flag(common.log.clone()).or(log_variable);
        let http = settle(
            flag(overrides.http),
            &files,
            |file| file.http,
            || DEFAULT_HTTP,
        );
        let quic = overrides.quic.or_of(&overrides.servers.lists()?)?;
        let config = Self {
            access: AccessConfig::settle(overrides.access, &files, http.value),
            http,
            tools: settle(
                flag(overrides.tools),
                &files,
                |file| file.tools.clone(),
                || "all".into(),
            ),
            format: settle(
                flag(overrides.format),
                &files,
                |file| file.format,
                TextFormat::default,
            ),
            log: settle(log, &files, |file| file.log.clone(), || "warn".into()),
            call_timeout: settle(
                None,
                &files,
                |file| file.call_timeout,
                || DEFAULT_CALL_TIMEOUT,
            ),
            concurrent_calls: settle(
                None,
                &files,
                |file| file.concurrent_calls,
                || DEFAULT_CONCURRENT_CALLS,
            ),
            quic: QuicConfig::settle(quic, &files),
            engine: Setting::of_engine(&overrides.engine, &files)?,
            audit: AuditSettings::settle(&workspace.join(FILE), &files),
            memory: MemorySettings::settle(&workspace, &files)?,
            plans: PlansConfig::settle(&workspace, &files, place)?,
            chat: ChatSettings::settle(overrides.chat, &workspace, &files)?,
            sync: SyncSettings::settle(&files),
            servers: overrides.servers,
            owners: owners(&workspace, files.iter().map(|(_, file)| file)),
            safe_directories: settle(
                None,
                &files,
                |file| Some(file.safe_directories.clone()).filter(|paths| !paths.is_empty()),
                Vec::new,
            ),
            trusted_directories: settle(
                None,
                &files,
                |file| Some(file.trusted_directories.clone()).filter(|paths| !paths.is_empty()),
                Vec::new,
            ),
            place: settle(None, &files, |file| file.place, Choice::default),
            board: board::setting(board_in(&files), home.as_ref()),
            home,
            line_bytes: settle(None, &files, |file| file.line_bytes, || MAX_LINE_BYTES),
            workspace_origin: match (&common.workspace, Variable::Workspace.read()) {
                (Some(_), _) => Origin::Flag,
                (None, Some(_)) => Origin::Environment(Variable::Workspace),
                (None, None) => Origin::Default,
            },
            workspace,
        };
        config.check()?;
        Ok(config)
    }

    /// Settings of plans of a workspace by the configuration files as they are now.
    ///
    /// # Errors
    /// When a file holds something wrong or cannot be read.
    pub(crate) fn plans_now(workspace: &Path) -> Result<PlansConfig, Failure> {
        let user = read_user_file()?;
        let place = place_of(user.as_ref().map(|(_, file)| file), workspace);
        let place = workspace::place_as(workspace, || Ok(place));
        let files = files_of(workspace, user)?;
        PlansConfig::settle(workspace, &files, place).map_err(Failure::bounded)
    }

    /// The directory of `trusted_directories` that the workspace is in. Links in both are followed.
    pub(crate) fn trusted_by(&self) -> Option<&Path> {
        trusting(&self.trusted_directories.value, &self.workspace)
    }

    /// The same configuration for another directory.
    pub(crate) fn at(&self, workspace: PathBuf) -> Self {
        Self {
            workspace,
            home: None,
            ..self.clone()
        }
    }

    /// Where the board of the workspace is. It was found once, with the configuration.
    ///
    /// # Errors
    /// When it has no place.
    pub(crate) fn home(&self) -> Result<Home, Failure> {
        match &self.home {
            Some(home) => Ok(home.clone()),
            // The reason is found again.
            None => board::home(&self.workspace),
        }
    }

    /// The files of the workspace.
    pub(crate) fn root(&self) -> Root {
        Root::of(&self.workspace, self.owners.clone())
    }

    /// Ports at which `up` may listen by the settings of the user. The file of the workspace does not count.
    pub(crate) fn own_ports(&self) -> RangeInclusive<u16> {
        let of_workspace = Origin::File(self.workspace.join(FILE));
        match self.http.value.port() {
            0 => usual_ports(),
            _ if self.http.origin == of_workspace => usual_ports(),
            first => ports_from(first),
        }
    }

    /// Refuses what no command could work with.
    fn check(&self) -> Result<(), Failure> {
        self.tools.check("tools", |tools| check_tools(tools))?;
        self.log.check("log", |filter| logging::check(filter))
    }

    /// Refuses what HTTP cannot be served with. Other commands do not look at it: the rest of it may
    /// be given to `up` alone.
    ///
    /// # Errors
    /// When what says who is let in does not go together.
    pub(crate) fn check_access(&self) -> Result<(), Failure> {
        self.access.check(&self.http)
    }
}

impl<T> Setting<T> {
    /// Has the value checked; what is wrong with it is told with where it comes from.
    fn check(
        &self,
        key: &'static str,
        check: impl FnOnce(&T) -> anyhow::Result<()>,
    ) -> Result<(), Failure> {
        check(&self.value)
            .with_context(|| format!("{} ({})", self.origin.name_of(key), self.origin))
            .map_err(Failure::usage)
    }
}

/// The first of these directories that a workspace is in.
fn trusting<'a>(directories: &'a [PathBuf], workspace: &Path) -> Option<&'a Path> {
    let workspace = workspace.canonicalize().ok()?;
    let trusts = |path: &&PathBuf| {
        let path = path.canonicalize();
        path.is_ok_and(|path| workspace.starts_with(path))
    };
    directories.iter().find(trusts).map(PathBuf::as_path)
}

/// Whether we understand a value of `RUST_LOG`. Other programs read it as well, so what it says to
/// them is no fault.
fn is_for_us(filter: &str) -> bool {
    let checked = logging::check(filter);
    if let Err(error) = &checked {
        output::complain(&format!("RUST_LOG is not used: {error:#}"));
    }
    checked.is_ok()
}

/// Refuses a toolset that does not exist. Which servers there are is not known here.
fn check_tools(text: &str) -> anyhow::Result<()> {
    Ok(Toolset::parse(text)?.check_groups(orchestra_tools::group_names())?)
}

fn flag<T>(value: Option<T>) -> Option<(T, Origin)> {
    value.map(|value| (value, Origin::Flag))
}

/// The strongest of: what is given, the files in order, the default.
fn settle<T>(
    given: Option<(T, Origin)>,
    files: &[(PathBuf, ConfigFile)],
    pick: impl Fn(&ConfigFile) -> Option<T>,
    default: impl FnOnce() -> T,
) -> Setting<T> {
    let in_files = || {
        files
            .iter()
            .find_map(|(path, file)| Some((pick(file)?, Origin::File(path.clone()))))
    };
    let (value, origin) = given
        .or_else(in_files)
        .unwrap_or_else(|| (default(), Origin::Default));
    Setting { value, origin }
}

/// A limit of the user, else the default, which a workspace's file may lower and not raise. `size` returns the number to
/// compare, since a value may stand for no limit.
fn least(
    files: &[(PathBuf, ConfigFile)],
    key: &str,
    pick: impl Fn(&ConfigFile) -> Option<u64>,
    default: u64,
    size: fn(u64) -> u64,
    overreach: &mut Vec<String>,
) -> Setting<u64> {
    let of = |file: &ConfigFile, is_shared: bool| {
        pick(file).filter(|_| file.plans.is_shared == is_shared)
    };
    let own = settle(None, files, |file| of(file, false), || default);
    let shared = settle(None, files, |file| of(file, true), || own.value);
    if size(shared.value) > size(own.value) {
        overreach.push(format!(
            "{}: a higher {key} is not used: a workspace may only lower this limit, and only {} may raise it",
            shared.origin,
            model::own_file()
        ));
    }
    match size(shared.value) < size(own.value) {
        true => shared,
        false => own,
    }
}

/// The user's configuration directory of this program, whether it is there or not.
pub(crate) fn user_directory() -> Option<PathBuf> {
    let usual = || Some(Variable::Home.directory()?.join(".config"));
    let directory = Variable::ConfigHome.directory().or_else(usual)?;
    Some(directory.join("orchestra"))
}

/// The user's own configuration file, as messages name it: its path, where the user has a home.
pub(crate) fn user_file() -> String {
    user_directory().map_or_else(
        || FILE.to_owned(),
        |directory| directory.join(FILE).display().to_string(),
    )
}

/// Returns whether the user's own configuration lists a workspace in `safe_directories`. A file that cannot be read
/// lists none; commands report it where they need it.
pub(crate) fn is_safe(workspace: &Path) -> bool {
    let user = read_user_file().ok().flatten();
    user.is_some_and(|(_, file)| file.is_safe(workspace))
}

/// Returns [`is_safe`] as the place of a workspace takes it.
pub(crate) fn safety(workspace: &Path) -> Safety {
    safety_of(is_safe(workspace))
}

const fn safety_of(is_safe: bool) -> Safety {
    match is_safe {
        true => Safety::Safe,
        false => Safety::Unlisted,
    }
}

/// Returns `place` of the user's own configuration, and [`safety`].
///
/// # Errors
/// When the file is wrong or cannot be read.
pub(crate) fn place(workspace: &Path) -> Result<(Choice, Safety), Failure> {
    let user = read_user_file()?;
    Ok(place_of(user.as_ref().map(|(_, file)| file), workspace))
}

fn place_of(user: Option<&ConfigFile>, workspace: &Path) -> (Choice, Safety) {
    let is_safe = user.is_some_and(|user| user.is_safe(workspace));
    let choice = user.and_then(|user| user.place).unwrap_or_default();
    (choice, safety_of(is_safe))
}

/// `board` of the configuration, if a file sets it.
type ConfiguredMode = Result<Option<Setting<BoardMode>>, Failure>;

/// `place` of the user's configuration, and whether it lists the workspace as safe.
type ConfiguredPlace = Result<(Choice, Safety), Failure>;

/// Configuration files of a workspace for programs that need no whole [`Config`]: where its board is, and its limits.
pub(crate) struct BoardSettings {
    /// The files that exist, strongest first.
    files: Result<Vec<(PathBuf, ConfigFile)>, Failure>,
    /// `place` of the user's own file, and whether that lists the workspace as safe.
    place: ConfiguredPlace,
}

impl BoardSettings {
    /// Returns `board`, if a file sets it.
    ///
    /// # Errors
    /// When a file is wrong or cannot be read.
    pub(crate) fn board(self) -> ConfiguredMode {
        self.into_parts().0
    }

    /// Returns `board`, if a file sets it, and the settings of [`place`].
    pub(crate) fn into_parts(self) -> (ConfiguredMode, ConfiguredPlace) {
        (self.files.map(|files| board_in(&files)), self.place)
    }
}

/// Reads the configuration files of a workspace, each once.
pub(crate) fn board_settings(workspace: &Path) -> BoardSettings {
    match read_user_file() {
        Ok(user) => BoardSettings {
            place: Ok(place_of(user.as_ref().map(|(_, file)| file), workspace)),
            files: files_of(workspace, user),
        },
        Err(failure) => BoardSettings {
            place: Err(Failure::usage_text(failure.text())),
            files: Err(failure),
        },
    }
}

fn board_in(files: &[(PathBuf, ConfigFile)]) -> Option<Setting<BoardMode>> {
    files.iter().find_map(|(path, file)| {
        let (value, origin) = (file.board?, Origin::File(path.clone()));
        Some(Setting { value, origin })
    })
}

/// Users whose files are used in a workspace; `None` where one of the files lists it as safe.
fn owners<'a>(workspace: &Path, files: impl IntoIterator<Item = &'a ConfigFile>) -> Option<Owners> {
    let is_safe = files.into_iter().any(|file| file.is_safe(workspace));
    (!is_safe).then(workspace::owners)
}

/// The configuration files that exist, strongest first.
fn read_files(workspace: &Path) -> Result<Vec<(PathBuf, ConfigFile)>, Failure> {
    files_of(workspace, read_user_file()?)
}

/// The file of a workspace, if it exists, and that of the user.
fn files_of(
    workspace: &Path,
    user: Option<(PathBuf, ConfigFile)>,
) -> Result<Vec<(PathBuf, ConfigFile)>, Failure> {
    let owners = owners(workspace, user.as_ref().map(|(_, file)| file));
    let near = workspace.join(FILE);
    let mut files = Vec::new();
    let read = file::read(&near, owners.as_ref()).map_err(|error| match error {
        // The target may be a file with secrets of the user.
        ConfigFileError::Parse { .. } if near.is_symlink() => Failure::usage_text(format!(
            "{}: the target of this symbolic link is not a valid configuration, and its text is not shown; replace the link with a file",
            near.display()
        )),
        error => Failure::usage(error).bounded(),
    })?;
    if let Some(mut file) = read {
        check_shared(&near, &file)?;
        file.access.leave_out_rates();
        file.memory.bound(&near);
        file.plans.bound(&near);
        file.chat.bound(&near);
        let is_trusted = user
            .as_ref()
            .is_some_and(|(_, user)| trusting(&user.trusted_directories, workspace).is_some());
        file.sync.bound(&near, is_trusted);
        if file.place.take().is_some() {
            file.plans.report(format!(
                "{}: place is ignored: set it in {}",
                near.display(),
                model::own_file()
            ));
        }
        files.push((near, file));
    }
    files.extend(user);
    Ok(files)
}

/// The user's own configuration file, if there is one.
fn read_user_file() -> Result<Option<(PathBuf, ConfigFile)>, Failure> {
    let Some(path) = user_directory().map(|directory| directory.join(FILE)) else {
        return Ok(None);
    };
    let file = file::read(&path, None).map_err(|error| Failure::usage(error).bounded())?;
    Ok(file.map(|file| (path, file)))
}

/// Refuses keys in the file of a workspace that only the user's own file may set.
fn check_shared(path: &Path, file: &ConfigFile) -> Result<(), Failure> {
    let is_open = file.http.is_some_and(|address| !address.ip().is_loopback());
    if file.access.lets_in() || file.quic.lets_in() || is_open {
        return Err(Failure::usage_text(format!(
            "{}: [access], http, quic and certs_dir are not allowed in the file of a workspace, because other people may have written it; set them in orchestra/{FILE} of your own configuration directory, or use flags",
            path.display()
        )));
    }
    for (key, paths) in [
        ("safe_directories", &file.safe_directories),
        ("trusted_directories", &file.trusted_directories),
    ] {
        if !paths.is_empty() {
            return Err(Failure::usage_text(format!(
                "{}: {key} is only for orchestra/{FILE} of your own configuration directory; remove it here",
                path.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_from_a_high_port_include_every_port_tried() {
        for (first, last) in [
            (7420, 7519),
            (65_436, 65_535),
            (65_500, 65_535),
            (65_535, 65_535),
        ] {
            assert_eq!(ports_from(first), first..=last, "{first}");
        }
    }

    #[test]
    fn the_strongest_source_wins_and_is_named() {
        let files = vec![
            (
                PathBuf::from("near"),
                file::parse("tools = \"lean\"").unwrap(),
            ),
            (
                PathBuf::from("far"),
                file::parse("tools = \"all\"\nformat = \"toon\"").unwrap(),
            ),
        ];
        let tools = |given| settle(given, &files, |f| f.tools.clone(), || "default".to_owned());
        assert_eq!(tools(None).value, "lean");
        assert_eq!(tools(None).origin, Origin::File("near".into()));
        assert_eq!(tools(flag(Some("search".into()))).origin, Origin::Flag);
        let format = settle(None, &files, |f| f.format, TextFormat::default);
        assert_eq!(
            (format.value, format.origin),
            (TextFormat::Toon, Origin::File("far".into()))
        );
        let log = settle(None, &files, |f| f.log.clone(), || "warn".to_owned());
        assert_eq!(log.origin, Origin::Default);
    }
}

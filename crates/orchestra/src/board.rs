//! Where the board of a workspace is: in its checkout, or outside of the working tree for all checkouts.

mod settings_check;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_fs::{Access, Directory, quoted};
use orchestra_place::Place;
use orchestra_runner::git::WORKTREES;
use orchestra_store::{
    BoardSize, Fault, Home, Options, SharedHome, has_own_database, own_database,
};

use crate::{
    config::{self, BoardSettings, Config, Setting},
    exit::Failure,
    output, servers,
    workspace::{self, PROJECTS},
};
use settings_check::SettingsCheck;

/// File beside the database of a board in a checkout that shows that the mode was reported.
const REPORTED: &str = "mode-reported";

/// `board` of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum BoardMode {
    /// In the git directory: one board for all worktrees of the repository. `.projects/` of the main worktree
    /// mirrors it, and git ignores it
    Repository,
    /// In the checkout: a board of its own, whose files in `.projects/` are committed to git
    Checkout,
}

impl BoardMode {
    /// The mode of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "repository" => Some(Self::Repository),
            "checkout" => Some(Self::Checkout),
            _ => None,
        }
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Checkout => "checkout",
        }
    }
}

/// Finds where the board of a workspace is, from its configuration as it is now. Creates nothing. [`Config::home`] reads
/// no file again.
///
/// # Errors
/// When the configuration cannot be used, or the board has no place.
pub(crate) fn home(workspace: &Path) -> Result<Home, Failure> {
    home_by(workspace, config::board_settings(workspace))
}

/// Finds where the board of a workspace is, as [`home`], from files that were read.
///
/// # Errors
/// Those of [`home`].
pub(crate) fn home_by(workspace: &Path, settings: BoardSettings) -> Result<Home, Failure> {
    let (configured, place) = settings.into_parts();
    let place = workspace::place_as(workspace, || place);
    locate(workspace, configured, place.and_then(shared_in))
}

/// Finds where the board of a workspace is, as [`home`], whatever this process found before.
///
/// # Errors
/// Those of [`home`].
fn home_anew(workspace: &Path) -> Result<Home, Failure> {
    let (configured, place) = config::board_settings(workspace).into_parts();
    let place = workspace::find_place(workspace, place);
    locate(workspace, configured, place.and_then(shared_in))
}

/// Decides where the board of a workspace is. `shared` is where it is if all worktrees share it.
///
/// # Errors
/// Those of [`home`].
pub(crate) fn locate(
    workspace: &Path,
    configured: Result<Option<Setting<BoardMode>>, Failure>,
    shared: Result<SharedHome, Failure>,
) -> Result<Home, Failure> {
    let configured = match configured {
        Ok(Some(set)) if set.value == BoardMode::Checkout => {
            return Ok(match split(workspace, &set, shared.ok()) {
                Some(home) => Home::Shared(home),
                None => Home::Checkout,
            });
        }
        Ok(set) => set.map(|setting| setting.value),
        // A board that exists is where it is, whatever is wrong with the configuration.
        Err(failure) => match existing(workspace, shared.as_ref().ok()) {
            Some(mode) => Some(mode),
            None => return Err(failure),
        },
    };
    match mode(configured, workspace, shared.as_ref().ok()) {
        BoardMode::Checkout => Ok(Home::Checkout),
        BoardMode::Repository => Ok(Home::Shared(shared?)),
    }
}

/// Returns the board that all worktrees share, where the file of the workspace sets [`BoardMode::Checkout`] and does not
/// count: the file comes with a branch. A second board would give the same ids, and git would see a board that is private.
/// In the main checkout the file counts beside a database there, and in a linked worktree where it counts in the main one.
fn split(
    workspace: &Path,
    set: &Setting<BoardMode>,
    shared: Option<SharedHome>,
) -> Option<SharedHome> {
    let file = workspace.join(config::FILE);
    if !matches!(&set.origin, config::Origin::File(path) if *path == file) {
        return None;
    }
    let home = shared.filter(SharedHome::has_board)?;
    let is_shared = match home.mirror() {
        Some(main) if main == workspace => {
            let projects = workspace.join(PROJECTS);
            !has_own_database(&projects) || orchestra_place::is_tracked(&own_store(&projects))
        }
        Some(main) => matches!(self::home(main), Ok(Home::Shared(_))),
        None => true,
    };
    is_shared.then_some(home)
}

/// Decides the mode of a workspace: what is configured, else that of the board that exists. Without one it is
/// [`BoardMode::Checkout`] where git tracks `.projects/`, and otherwise [`BoardMode::Repository`].
fn mode(configured: Option<BoardMode>, workspace: &Path, shared: Option<&SharedHome>) -> BoardMode {
    let found = configured.or_else(|| existing(workspace, shared));
    let projects = workspace.join(PROJECTS);
    found.unwrap_or_else(
        || match projects.is_dir() && orchestra_place::is_tracked(&projects) {
            true => BoardMode::Checkout,
            false => BoardMode::Repository,
        },
    )
}

/// The mode of the board that a workspace has. A linked worktree is in the mode of the main checkout.
fn existing(workspace: &Path, shared: Option<&SharedHome>) -> Option<BoardMode> {
    let main = shared.and_then(SharedHome::mirror);
    let mut checkouts = [Some(workspace), main].into_iter().flatten();
    let is_in_checkout = checkouts.any(|checkout| has_own_database(&checkout.join(PROJECTS)));
    match shared.filter(|home| home.has_board()) {
        // A move into the checkout was cut off, perhaps after the point from which that one counts.
        Some(home) if is_in_checkout && home.is_moved().unwrap_or(false) => {
            Some(BoardMode::Checkout)
        }
        Some(_) => Some(BoardMode::Repository),
        None => is_in_checkout.then_some(BoardMode::Checkout),
    }
}

/// The mode of a workspace as the configuration shows it. `home` is where its board is, if it has a place.
pub(crate) fn setting(
    configured: Option<Setting<BoardMode>>,
    home: Option<&Home>,
) -> Setting<BoardMode> {
    configured.unwrap_or(Setting {
        value: match home {
            Some(Home::Checkout) => BoardMode::Checkout,
            Some(Home::Shared(_)) | None => BoardMode::Repository,
        },
        origin: config::Origin::Default,
    })
}

/// Options with the place of the board of a workspace. Its store refuses calls after a change of the configuration that
/// places it elsewhere.
///
/// # Errors
/// Those of [`home`].
pub(crate) fn options(config: &Config, options: Options) -> Result<Options, Failure> {
    let workspace = &config.workspace;
    let home = config.home()?;
    match &home {
        Home::Checkout => report_once(config),
        Home::Shared(_) => report_split(config),
    }
    let check = Arc::new(SettingsCheck::new(workspace, &home));
    Ok(Options {
        home,
        check: Some(check),
        ..options
    })
}

/// Reports a workspace whose file sets a board of its own beside the one that all worktrees share.
fn report_split(config: &Config) {
    if config.board.value == BoardMode::Checkout {
        output::complain(&format!(
            "warning: `board = \"checkout\"` in {} is not used, since the worktrees of this repository share a board; \
             `orchestra board convert checkout` moves that into the main checkout",
            config.workspace.join(config::FILE).display()
        ));
    }
}

/// Reports the mode of a board that is in its checkout without a setting, the first time that a command opens it.
fn report_once(config: &Config) {
    let workspace = &config.workspace;
    if config.board.origin != config::Origin::Default || reported(workspace).exists() {
        return;
    }
    // Without the note each command would report it.
    if note_report(workspace).is_ok() {
        output::complain(&format!(
            "warning: the board of {} is in this checkout alone (mode `checkout`), and git commands that change \
             {PROJECTS} change it; `orchestra board convert` makes it one board for all worktrees, and `board = \
             \"checkout\"` in {} confirms this mode",
            workspace.display(),
            config::FILE
        ));
    }
}

fn reported(workspace: &Path) -> PathBuf {
    own_store(&workspace.join(PROJECTS)).join(REPORTED)
}

/// Directory of the database of a checkout, in the directory of its readable files.
fn own_store(projects: &Path) -> PathBuf {
    let mut database = own_database(projects);
    database.pop();
    database
}

/// Creates the note that the user knows that the board is in its checkout.
///
/// # Errors
/// When it exists or cannot be created.
pub(crate) fn note_report(workspace: &Path) -> orchestra_fs::Result<()> {
    let reported = reported(workspace);
    let store = own_store(Path::new(""));
    Directory::open(workspace)?
        .make_below(PROJECTS.as_ref(), Access::Shared)?
        .make_below(&store, Access::Private)?;
    orchestra_fs::create_new(&reported, Access::Private).map(drop)
}

/// Board of a linked worktree beside the one that all worktrees share.
pub(crate) struct LinkedBoard {
    /// Directory of the workspace in the worktree.
    pub(crate) workspace: PathBuf,
    /// `None` for readable files without a database.
    pub(crate) size: Result<Option<BoardSize>, Fault>,
    /// Reason why it is merged only if the user names it.
    pub(crate) doubt: Option<&'static str>,
}

impl LinkedBoard {
    fn of(workspace: PathBuf) -> Self {
        let mut above = workspace.components();
        let is_of_job = above.any(|name| name.as_os_str() == WORKTREES);
        let doubt = match is_of_job {
            true => Some("the directory is one for jobs of plans"),
            false => orchestra_place::is_tracked(&own_store(&workspace.join(PROJECTS)))
                .then_some("git tracks its database"),
        };
        Self {
            size: BoardSize::of_checkout(&workspace),
            workspace,
            doubt,
        }
    }

    /// Content of the board, in a line.
    pub(crate) fn shown(&self) -> String {
        let content = match &self.size {
            Ok(Some(size)) => format!("issues: {}, memories: {}", size.issues, size.memories),
            Ok(None) => "readable files without a database".to_owned(),
            Err(fault) => self.failed(fault),
        };
        format!("{}: {content}", self.workspace.display())
    }

    /// Reason why the board cannot be merged, with the next step.
    pub(crate) fn failed(&self, fault: &Fault) -> String {
        let workspace = quoted(&self.workspace);
        match fault {
            Fault::Corrupt => format!(
                "its database is damaged: remove {}, and then merge its readable files by \
                 `orchestra board merge {workspace}`, if you need them",
                own_store(&self.workspace.join(PROJECTS)).display()
            ),
            fault => fault.to_string(),
        }
    }
}

/// Which boards of linked worktrees are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Databases, and readable files that no commit has.
    Uncommitted,
    /// Databases and readable files.
    All,
}

/// Finds the boards that linked worktrees have beside the one that all worktrees share, and were not merged into it.
pub(crate) fn linked(workspace: &Path, home: &SharedHome, wanted: Wanted) -> Vec<LinkedBoard> {
    let has_board = |workspace: &Path| has_own_board(&workspace.join(PROJECTS), wanted);
    let mut found = home.in_linked(&has_board);
    // A submodule of a linked worktree is in no list of worktrees.
    let is_main = home.mirror().is_none_or(|main| main == workspace);
    if !is_main && !found.iter().any(|found| found == workspace) && has_board(workspace) {
        found.push(workspace.to_owned());
    }
    // The first of two values of a field wins.
    found.sort();
    found.into_iter().map(LinkedBoard::of).collect()
}

/// Reports boards and readable files of linked worktrees that are not in the board that all worktrees share. They are
/// lost when the worktree is removed.
///
/// # Errors
/// As [`home`].
pub(crate) fn left_behind(workspace: &Path) -> Result<Vec<String>, Failure> {
    let Home::Shared(home) = home(workspace)? else {
        return Ok(Vec::new());
    };
    let boards = linked(workspace, &home, Wanted::Uncommitted).into_iter();
    // What a job wrote is removed with its worktree.
    let boards = boards.filter(|board| board.doubt.is_none());
    Ok(boards
        .map(|board| {
            let shown = board.shown();
            let workspace = quoted(&board.workspace);
            match board.size {
                Ok(_) => format!(
                    "{shown}: not in the board that all worktrees share, and lost with the worktree: merge it by \
                     `orchestra board merge {workspace}`, or remove {}",
                    board.workspace.join(PROJECTS).display()
                ),
                Err(_) => shown,
            }
        })
        .collect())
}

/// Returns whether a worktree has a database that was not merged, or readable files without one.
fn has_own_board(projects: &Path, wanted: Wanted) -> bool {
    let is_project = |entry: std::fs::DirEntry| {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let has_project = || {
        let mut entries = std::fs::read_dir(projects).into_iter().flatten().flatten();
        entries.any(is_project)
    };
    match own_database(projects).is_file() {
        true => has_own_database(projects),
        false => has_project() && (wanted == Wanted::All || !orchestra_place::is_tracked(projects)),
    }
}

/// Returns whether all checkouts share a board that the workspace has.
pub(crate) fn is_shared(workspace: &Path) -> bool {
    matches!(home(workspace), Ok(Home::Shared(home)) if home.has_board())
}

/// Directory without which a workspace has no board any more.
///
/// # Errors
/// As [`home`].
pub(crate) fn root(config: &Config) -> Result<PathBuf, Failure> {
    Ok(match config.home()? {
        Home::Checkout => config.workspace.join(PROJECTS),
        Home::Shared(home) => home.anchor().to_owned(),
    })
}

/// Directory of the database of a workspace.
///
/// # Errors
/// As [`home`].
pub(crate) fn database_directory(workspace: &Path) -> Result<PathBuf, Failure> {
    Ok(directory_in(workspace, &home(workspace)?))
}

fn directory_in(workspace: &Path, home: &Home) -> PathBuf {
    match home {
        Home::Checkout => own_store(&workspace.join(PROJECTS)),
        Home::Shared(home) => home.directory(),
    }
}

/// Returns whether the system lets this process write in a directory of a board.
pub(crate) fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Returns whether all checkouts share a board that the workspace has, or its readable files in the main checkout, from
/// which it is built again.
pub(crate) fn is_shared_or_mirrored(home: &Home) -> bool {
    let has_mirror = |home: &SharedHome| {
        let main = home.mirror();
        main.is_some_and(|main| main.join(PROJECTS).is_dir())
    };
    matches!(home, Home::Shared(home) if home.has_board() || has_mirror(home))
}

/// Workspace whose programs serve the board: that of the main checkout where all checkouts share it.
pub(crate) fn seat(config: &Config) -> PathBuf {
    let workspace = &config.workspace;
    match config.home() {
        Ok(Home::Shared(home)) => home.mirror().unwrap_or(workspace).to_owned(),
        _ => workspace.clone(),
    }
}

/// The board that all checkouts of a workspace share, whether there is one or not.
///
/// # Errors
/// When it has no place.
pub(crate) fn shared(workspace: &Path) -> Result<SharedHome, Failure> {
    let place = workspace::place(workspace)?;
    shared_in(place)
}

/// The board that all checkouts share in a place.
///
/// # Errors
/// When the user has no home.
pub(crate) fn shared_in(place: Place) -> Result<SharedHome, Failure> {
    Ok(SharedHome::new(place, servers::state_directory()?).or_in_use_before())
}

/// The nearest directory upwards from `here` and below `top`, the top of a repository, of which all checkouts share a
/// board.
pub(crate) fn nearest_shared<'a>(here: &'a Path, top: &Path) -> Option<&'a Path> {
    let below = here.ancestors().take_while(|directory| *directory != top);
    let mut below = below.filter(|directory| {
        let place = workspace::place(directory);
        place.and_then(shared_in).is_ok_and(|home| home.has_board())
    });
    below.next()
}

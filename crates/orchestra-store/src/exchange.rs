//! Exchange of a board with its other clones: the board as readable files, and the merge of such files into it.
//!
//! The files are canonical: two boards with the same content have the same files. They are rendered from the content and
//! not copied from `.projects/`. Claims, usage and hook events are records of one machine. No file contains them, and no
//! merge changes them.

mod cycles;
mod describe;
mod patch;
mod read;
mod render;
mod settle;
mod since;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use orchestra_board::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::files::Board;
use crate::files::needs::Job;
use crate::merge::{self, BoardContents, Context};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::{ActionError, Clock as _, DocumentPath, Fault, ReadError, SystemClock};

pub use self::describe::changes_between;
pub(crate) use self::patch::exchange_changes;
pub use self::patch::files_to_parse;
pub use self::since::BoardChanges;
pub(crate) use self::since::{EVERYTHING, since};

/// Rules for git about the files of a board: no line end is converted.
const ATTRIBUTES: (&str, &[u8]) = (".gitattributes", b"* -text\n");

/// Readable files of a board by their paths.
#[derive(Debug, Clone, Default)]
pub struct BoardFiles(Arc<ParsedFiles>);

/// Files with their content, once it was parsed.
#[derive(Debug, Default)]
struct ParsedFiles {
    files: BTreeMap<String, Vec<u8>>,
    contents: OnceLock<Result<BoardContents, ExchangeError>>,
}

/// State of a board: each later change has a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoardVersion(i64);

/// Files of a board, with the version that they are of.
#[derive(Debug, Clone)]
pub struct BoardSnapshot {
    /// The files.
    pub files: BoardFiles,
    /// The version.
    pub version: BoardVersion,
}

/// Result of a merge of files into a board.
#[derive(Debug, Clone)]
pub struct Exchanged {
    /// Files of the board before the merge.
    pub before: BoardFiles,
    /// The board after it.
    pub after: BoardSnapshot,
}

/// The last exchange of a board.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastExchange {
    /// The commit that it was exchanged as.
    pub commit: String,
    /// The version of the board that was exchanged.
    pub version: BoardVersion,
    /// Whether the board has not changed since.
    pub is_current: bool,
}

/// Whether a merge is applied to the board, or only computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The board is changed.
    Apply,
    /// The board stays as it is.
    Preview,
}

/// Reason why files of another clone are not merged. The board stays as it is.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExchangeError {
    /// A path is none of a board's.
    #[error("`{0}` is not the path of a file that boards exchange")]
    Path(String),
    /// A file cannot be parsed, or contradicts another one.
    #[error("{0}")]
    File(String),
    /// The dependencies of issues are circular.
    #[error(
        "issue {issue} of `{project}` depends on itself through its dependencies; remove one of them"
    )]
    Circular {
        /// The project.
        project: String,
        /// An issue of the circle.
        issue: String,
    },
    /// The board does not accept the result.
    #[error("the board cannot hold the result: {0}")]
    Refused(String),
    /// The store failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl BoardFiles {
    /// The files with these paths and contents. They are parsed when they are merged.
    #[must_use]
    pub fn new(files: BTreeMap<String, Vec<u8>>) -> Self {
        Self(Arc::new(ParsedFiles {
            files,
            contents: OnceLock::new(),
        }))
    }

    /// The files by their paths.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.0.files
    }

    /// Checks that the files are those of a board, as a merge does.
    ///
    /// # Errors
    /// When one of them is not.
    pub fn check(&self) -> Result<(), ExchangeError> {
        self.contents(SystemClock.now()).map(|_| ())
    }

    /// The content of the files, which are parsed the first time.
    fn contents(&self, now: Timestamp) -> Result<&BoardContents, ExchangeError> {
        let parsed = self.0.contents.get_or_init(|| read::contents(self, now));
        parsed.as_ref().map_err(Clone::clone)
    }

    /// Files that differ from those of `before`; `None` for a file that is gone.
    #[must_use]
    pub fn since(&self, before: &Self) -> BTreeMap<String, Option<Vec<u8>>> {
        let mut changed: BTreeMap<String, Option<Vec<u8>>> = self
            .files()
            .iter()
            .filter(|(path, content)| before.files().get(*path) != Some(*content))
            .map(|(path, content)| (path.clone(), Some(content.clone())))
            .collect();
        let gone = before.files().keys();
        // A document that is ignored here stays in the files of other clones.
        let gone = gone.filter(|path| {
            !self.files().contains_key(*path) && !DocumentPath::is_of_earlier_version(path)
        });
        changed.extend(gone.map(|path| (path.clone(), None)));
        changed
    }
}

impl PartialEq for BoardFiles {
    fn eq(&self, other: &Self) -> bool {
        self.files() == other.files()
    }
}

impl Eq for BoardFiles {}

/// Renders the files of the board that a reader sees.
pub(crate) fn snapshot(reader: &Reader<'_>) -> Result<BoardSnapshot, ReadError> {
    // Expired texts are part of the board until they are removed.
    let contents = Reader::new(reader.connection()).contents()?;
    Ok(BoardSnapshot {
        files: render::files(&contents),
        version: version(reader)?,
    })
}

fn version(reader: &Reader<'_>) -> Result<BoardVersion, ReadError> {
    let sql = "SELECT value FROM counter WHERE name = 'change'";
    let mut statement = reader.connection().prepare_cached(sql)?;
    Ok(BoardVersion(statement.query_row([], |row| row.get(0))?))
}

/// Merges published files into the board, in one transaction. `base` has the files that both sides come from.
pub(crate) fn exchange(
    shared: &Shared,
    published: &BoardFiles,
    base: Option<&BoardFiles>,
    origin: &str,
    effect: Effect,
) -> Result<Exchanged, ExchangeError> {
    let now = shared.options.clock.now();
    parse_both(published, base, now)?;
    let (published, base) = (published.clone(), base.cloned());
    let outcome = Arc::new(Mutex::new(None));
    let (sent, origin) = (Arc::clone(&outcome), origin.to_owned());
    let written = Board::write(
        shared,
        Job::synced(move |work| {
            let before = Reader::new(work.connection()).contents()?;
            let refused = |error: ExchangeError| ActionError::Invalid(error.to_string());
            let base = base.as_ref().map(|base| base.contents(now));
            let base = base.transpose().map_err(refused)?;
            let published = published.contents(now).map_err(refused)?;
            let merged = merged(published, &before, base, &origin, now);
            work.adopt(&before, &merged)?;
            let exchanged = Exchanged {
                before: render::files(&before),
                after: snapshot(&Reader::new(work.connection()))?,
            };
            *sent.lock().unwrap_or_else(PoisonError::into_inner) = Some(exchanged);
            match effect {
                Effect::Apply => Ok(()),
                // An error undoes all of it.
                Effect::Preview => Err(ActionError::Invalid("it is a preview".to_owned())),
            }
        }),
    );
    let exchanged = outcome
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    match (written, exchanged) {
        (Err(ActionError::Fault(fault)), _) => Err(fault.into()),
        (Err(error), None) => Err(ExchangeError::Refused(error.to_string())),
        (Ok(()) | Err(_), Some(exchanged)) => Ok(exchanged),
        (Ok(()), None) => Err(Fault::Panicked.into()),
    }
}

/// Parses the files of two boards at the same time.
fn parse_both(
    published: &BoardFiles,
    base: Option<&BoardFiles>,
    now: Timestamp,
) -> Result<(), ExchangeError> {
    thread::scope(|scope| {
        let base = base.map(|base| scope.spawn(move || base.contents(now).map(|_| ())));
        let published = published.contents(now).map(|_| ());
        let panicked = || Err(Fault::Panicked.into());
        let base = base.map_or(Ok(()), |base| base.join().unwrap_or_else(|_| panicked()));
        published.and(base)
    })
}

/// Prefix of the counter whose name has the commit that a board was last exchanged as.
const EXCHANGED: &str = "exchanged/";

/// The last exchange of the board.
pub(crate) fn last(reader: &Reader<'_>) -> Result<Option<LastExchange>, ReadError> {
    let sql = "SELECT name, value FROM counter WHERE name GLOB 'exchanged/*'";
    let mut statement = reader.connection().prepare_cached(sql)?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
    let Some((name, value)) = statement.query_row([], row).optional()? else {
        return Ok(None);
    };
    let exchanged = BoardVersion(value);
    let is_current = version(reader)? == exchanged;
    let commit = name.strip_prefix(EXCHANGED).map(str::to_owned);
    Ok(commit.map(|commit| LastExchange {
        commit,
        version: exchanged,
        is_current,
    }))
}

/// The commit that the board, or the board that it is a copy of, was last exchanged as.
pub(crate) fn ancestor(reader: &Reader<'_>) -> Result<Option<String>, ReadError> {
    let sql = "SELECT substr(name, instr(name, '/') + 1) FROM counter \
               WHERE name GLOB 'exchanged/*' OR name GLOB 'copied/*' ORDER BY name DESC";
    let mut statement = reader.connection().prepare_cached(sql)?;
    Ok(statement.query_row([], |row| row.get(0)).optional()?)
}

/// Makes the record of the last exchange one of the board that this one is a copy of: the user has not agreed to publish
/// the copy. A merge still needs the commit.
pub(crate) fn disown(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "UPDATE OR REPLACE counter SET name = 'copied' || substr(name, instr(name, '/')) \
               WHERE name GLOB 'exchanged/*'";
    connection.execute(sql, [])?;
    Ok(())
}

/// Records the commit that a version of the board was exchanged as.
pub(crate) fn note(
    shared: &Shared,
    commit: &str,
    version: BoardVersion,
) -> Result<(), ActionError> {
    let name = format!("{EXCHANGED}{commit}");
    Board::write(
        shared,
        Job::synced(move |work| {
            let connection = work.connection();
            let sql = "DELETE FROM counter WHERE name GLOB 'exchanged/*' OR name GLOB 'copied/*'";
            connection.execute(sql, [])?;
            let sql = "INSERT INTO counter (name, value) VALUES (?1, ?2)";
            connection.execute(sql, params![name, version.0])?;
            connection.execute("DELETE FROM changed WHERE seq <= ?1", [version.0])?;
            Ok(())
        }),
    )
}

/// The content of a local board after the merge with published content. What is published keeps its ids, and its values
/// where both sides changed a field. Claims, usage and hook events are those of the local board.
fn merged(
    published: &BoardContents,
    local: &BoardContents,
    base: Option<&BoardContents>,
    origin: &str,
    now: Timestamp,
) -> BoardContents {
    let (mut ours, mut theirs) = (portable(published), portable(local));
    if let Some(base) = base {
        settle::settle(base, &mut ours, &mut theirs, now);
    }
    let context = Context {
        base,
        origin,
        now,
        is_repeated: false,
    };
    let mut merged = merge::merge(&ours, &theirs, &context);
    for project in merged.projects.values_mut() {
        cycles::remove(project);
    }
    retain_own(&mut merged, local);
    merged
}

/// The part of a board that clones exchange.
fn portable(contents: &BoardContents) -> BoardContents {
    let mut portable = BoardContents {
        projects: contents.projects.clone(),
        documents: contents.documents.clone(),
        ..BoardContents::default()
    };
    for project in portable.projects.values_mut() {
        merge::fold_duplicates(project);
        project.project = project.counted();
        for issue in project.issues.values_mut() {
            issue.issue.claim = None;
        }
    }
    portable
}

/// Restores the records of this machine in merged content.
fn retain_own(merged: &mut BoardContents, local: &BoardContents) {
    for (slug, project) in &mut merged.projects {
        let local = local.projects.get(slug);
        if let Some(local) = local {
            // They are also above ids of which nothing is left.
            let (own, counted) = (&local.project, &mut project.project);
            counted.next_issue = counted.next_issue.max(own.next_issue);
            counted.next_bug = counted.next_bug.max(own.next_bug);
            counted.next_request = counted.next_request.max(own.next_request);
        }
        let claims: BTreeMap<_, _> = local
            .into_iter()
            .flat_map(|local| local.issues.values())
            .filter_map(|contents| Some((contents.uid(), contents.issue.claim.clone()?)))
            .collect();
        for contents in project.issues.values_mut() {
            let claim = claims.get(&contents.uid()).cloned();
            contents.issue.claim = claim.filter(|_| !contents.issue.state.is_final());
        }
    }
    merged.usage.clone_from(&local.usage);
    merged.hook_events.clone_from(&local.hook_events);
}

#[cfg(test)]
mod tests;

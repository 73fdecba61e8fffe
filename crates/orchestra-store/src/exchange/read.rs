//! Content of a board from its files, which can come from anywhere. They are parsed into a database in memory, so that
//! each of them passes the same checks as a readable file in `.projects/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use orchestra_board::{Body, IssueId, Timestamp};
use rusqlite::Connection;

use super::{ATTRIBUTES, BoardFiles, ExchangeError, cycles};
use crate::db;
use crate::db::schema::migrate;
use crate::document::DocumentBody;
use crate::files::place::Place;
use crate::files::{FilesError, ledger, read_document, rebuild};
use crate::io::{Entry, EntryKind, FileIo, Stat};
use crate::merge::{BoardContents, MAX_CHUNK, ProjectContents, fold_duplicates};
use crate::reader::Reader;
use crate::toon::project::MAX_NUMBER;
use crate::writing::{KnownWords, Limits, Writing};
use crate::{ActionError, DocumentPath, Fault, ReadError};

/// Beginning of a mark of an unfinished merge, which parsers refuse in texts.
const MARK: &str = "<<<<<<<";
/// The same, while it is parsed. Git merges none of the files, so a mark in a text is part of it.
const COVERED: &str = "<<<<<<\u{E000}<";

/// Directory that the files are in, as far as their parsers see.
const ROOT: &str = "/";

/// Parses files. Claims in them are dropped.
pub(super) fn contents(files: &BoardFiles, now: Timestamp) -> Result<BoardContents, ExchangeError> {
    let mut own = BTreeSet::new();
    let mut documents = BTreeMap::new();
    for (path, bytes) in files.files() {
        match place(path)? {
            None => {}
            Some(Place::Document(document)) => {
                let body = read_document(path, bytes).map_err(|error| file(&error))?;
                add_document(&mut documents, document, body)?;
            }
            Some(_) => drop(own.insert(path.clone())),
        }
    }
    let memory = MemoryFiles::new(files, &own);
    let connection = db::open_in_memory()?;
    load(&connection, memory, now)?;
    check(&connection, &own)?;
    let mut contents = Reader::new(&connection).contents().map_err(of_reading)?;
    contents.documents = documents;
    for project in contents.projects.values_mut() {
        check_numbers(project)?;
        fold_duplicates(project);
        project.project = project.counted();
        uncover(project);
        for issue in project.issues.values_mut() {
            issue.issue.claim = None;
        }
        if let Some((issue, _)) = cycles::closing(&cycles::of(project)) {
            return Err(ExchangeError::Circular {
                project: project.project.slug.to_string(),
                issue: issue.to_string(),
            });
        }
    }
    Ok(contents)
}

/// The place of a file that boards exchange; `None` for the rules of git, and for a document that is ignored.
fn place(path: &str) -> Result<Option<Place>, ExchangeError> {
    if path == ATTRIBUTES.0 {
        return Ok(None);
    }
    match Place::parse(path) {
        // A board can have such a document from an earlier version, and so a file of it that is never written here.
        None if DocumentPath::is_of_earlier_version(path) => Ok(None),
        None | Some(Place::HookEvents | Place::Usage | Place::SessionIndex(_)) => {
            Err(ExchangeError::Path(path.escape_debug().to_string()))
        }
        Some(place) => Ok(Some(place)),
    }
}

type Documents = BTreeMap<String, (DocumentPath, DocumentBody)>;

fn add_document(
    documents: &mut Documents,
    path: DocumentPath,
    body: DocumentBody,
) -> Result<(), ExchangeError> {
    let (key, shown) = (path.key(), path.to_string());
    match documents.insert(key, (path, body)) {
        None => Ok(()),
        Some((other, _)) => Err(ExchangeError::File(format!(
            "{shown}: has the same name as {other}"
        ))),
    }
}

fn load(connection: &Connection, files: MemoryFiles, now: Timestamp) -> Result<(), ExchangeError> {
    connection.execute_batch("BEGIN").map_err(Fault::from)?;
    migrate(connection)?;
    let mut words = KnownWords::default();
    // The board that wrote the files had limits of its own.
    let limits = Limits {
        chunks: u64::MAX,
        memory_bytes: u64::MAX,
        makes_room: false,
    };
    let mut writing = Writing::new(connection, &mut words, limits, now);
    // They are merged afterwards.
    writing.accept_duplicates();
    writing.begin_loading().map_err(of_writing)?;
    let io: Arc<dyn FileIo> = Arc::new(files);
    rebuild(Path::new(ROOT), &io, &mut writing, now.unix_seconds()).map_err(
        |error| match error {
            FilesError::Fault(fault) => ExchangeError::Fault(fault),
            other => ExchangeError::File(other.to_string()),
        },
    )?;
    writing.recount().map_err(of_writing)
}

/// Checks that each file was read, and none in part.
fn check(connection: &Connection, own: &BTreeSet<String>) -> Result<(), ExchangeError> {
    let problems = ledger::problems(connection).map_err(of_reading)?;
    if let Some((_, _, message)) = problems.into_iter().next() {
        return Err(ExchangeError::File(message));
    }
    let read = || -> rusqlite::Result<BTreeSet<String>> {
        let mut statement = connection.prepare("SELECT path FROM file")?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let read = read().map_err(Fault::from)?;
    match own.iter().find(|path| !read.contains(*path)) {
        None => Ok(()),
        Some(path) => Err(ExchangeError::File(format!(
            "{path}: belongs to an issue or a project that is missing"
        ))),
    }
}

fn check_numbers(project: &ProjectContents) -> Result<(), ExchangeError> {
    let own = &project.project;
    let issues = project.issues.keys().map(IssueId::number);
    let stones = project.retired.deleted.iter();
    let retired = stones.map(|stone| stone.id.number());
    let aliases = project.retired.aliases.iter();
    let retired = retired.chain(aliases.map(|(old, _)| old.number()));
    let requests = project.requests.iter().map(|request| request.number);
    let all = issues.chain(retired).chain(requests);
    let chunks = project.chunks.iter().map(|chunk| chunk.id.number());
    let is_large = all.max() > Some(MAX_NUMBER) || chunks.max() > Some(MAX_CHUNK);
    match is_large {
        false => Ok(()),
        true => Err(ExchangeError::File(format!(
            "{}: a number of an id is too large",
            own.slug
        ))),
    }
}

/// Restores marks in texts.
fn uncover(project: &mut ProjectContents) {
    let plans = project.plans.iter_mut().map(|(_, text)| text);
    let texts = plans.chain([&mut project.prd]).chain(&mut project.readme);
    for text in texts.filter(|text| text.contains(COVERED)) {
        *text = text.replace(COVERED, MARK);
    }
    for issue in project.issues.values_mut() {
        let description = &mut issue.issue.description;
        if description.as_str().contains(COVERED)
            && let Ok(restored) = Body::parse(&description.as_str().replace(COVERED, MARK))
        {
            *description = restored;
        }
    }
}

fn file(error: &crate::FileError) -> ExchangeError {
    ExchangeError::File(error.to_string())
}

fn of_reading(error: ReadError) -> ExchangeError {
    match error {
        ReadError::Fault(Fault::Unknown { what }) => {
            ExchangeError::File(format!("a file has an unknown {what}"))
        }
        ReadError::Fault(fault) => fault.into(),
        other => ExchangeError::File(other.to_string()),
    }
}

fn of_writing(error: ActionError) -> ExchangeError {
    match error {
        ActionError::Fault(fault) => fault.into(),
        other => ExchangeError::File(other.to_string()),
    }
}

/// Files in memory, which can only be read.
#[derive(Debug)]
struct MemoryFiles {
    files: BoardFiles,
    /// Entries of each directory by its path below the root.
    directories: BTreeMap<String, BTreeMap<String, EntryKind>>,
}

impl MemoryFiles {
    /// Those of the files that have one of these paths.
    fn new(files: &BoardFiles, paths: &BTreeSet<String>) -> Self {
        let mut directories: BTreeMap<String, BTreeMap<String, EntryKind>> = BTreeMap::new();
        for path in paths {
            let (mut below, mut kind) = (path.as_str(), EntryKind::File);
            loop {
                let (directory, name) = below.rsplit_once('/').unwrap_or(("", below));
                let entries = directories.entry(directory.to_owned()).or_default();
                let is_known = entries.insert(name.to_owned(), kind).is_some();
                if directory.is_empty() || is_known {
                    break;
                }
                (below, kind) = (directory, EntryKind::Directory);
            }
        }
        Self {
            files: files.clone(),
            directories,
        }
    }

    fn find<'a>(&self, path: &'a Path) -> Option<(&'a str, Stat)> {
        let path = path.strip_prefix(ROOT).ok()?.to_str()?;
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let kind = *self.directories.get(directory)?.get(name)?;
        let size = self.files.files().get(path).map_or(0, Vec::len);
        let stat = Stat {
            kind,
            size: u64::try_from(size).unwrap_or(u64::MAX),
            modified: 0,
        };
        Some((path, stat))
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl FileIo for MemoryFiles {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (path, stat) = self.find(path).ok_or(io::ErrorKind::NotFound)?;
        if stat.size > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let content = self.files.files().get(path);
        let content = content.ok_or(io::ErrorKind::NotFound)?.clone();
        Ok(match path.ends_with(".md") {
            false => content,
            true => match String::from_utf8(content) {
                Ok(text) => text.replace(MARK, COVERED).into_bytes(),
                Err(error) => error.into_bytes(),
            },
        })
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        Ok(self.find(path).map(|(_, stat)| stat))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<Entry>> {
        let path = directory.strip_prefix(ROOT).ok().and_then(Path::to_str);
        let entries = path.and_then(|path| self.directories.get(path));
        let entries = entries.into_iter().flatten();
        Ok(entries
            .map(|(name, kind)| Entry {
                name: name.into(),
                kind: *kind,
            })
            .collect())
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn write_temp(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn sync_file(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_open(&self, _: &File, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn sync_all(&self, _: &Path) -> io::Result<bool> {
        read_only()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove_dir(&self, _: &Path) -> io::Result<bool> {
        read_only()
    }
}

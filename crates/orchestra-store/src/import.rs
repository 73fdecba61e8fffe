//! Takes over the files of the earlier program, which are YAML in spite of their ending: once, with
//! a copy of everything set aside first. Running it again changes nothing.

mod convert;
mod yaml;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use orchestra_board::Slug;

use crate::files::ledger;
use crate::files::owner::Owner;
use crate::files::{Engine, Work};
use crate::io::{EntryKind, FileIo};
use crate::reader::Reader;
use crate::shared::Shared;
use crate::toon::project::Retired;
use crate::toon::records::MAX_FILE_BYTES;
use crate::{
    Action, ActionError, FilesError, NewChunk, NewSession, NewSessionEvent, SessionEvent, uid,
};
use convert::{OldProject, OldWorkspace};

/// How long another process may look at the files before the import gives up.
const PATIENCE: Duration = Duration::from_secs(30);
/// How deep the earlier program's files stand, with some to spare.
const MAX_DEPTH: usize = 10;

/// What was taken over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// The projects that were taken over.
    pub projects: Vec<Slug>,
    /// How many issues they have.
    pub issues: u64,
    /// What could not be taken over as it was, and what became of it.
    pub remarks: Vec<String>,
    /// What was left as it is, and why; when one file of a project is, the whole project is. Once it
    /// is mended by hand, another import takes it over.
    pub left: Vec<String>,
    /// Where the old files are now; `None` when there was nothing to take over.
    pub backup: Option<PathBuf>,
}

/// Why nothing, or not everything, was taken over. The old files are untouched, or in the backup.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The readable files could not be looked at.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The old files could not be set aside.
    #[error("cannot copy the old files to {}; nothing was changed", .to.display())]
    Backup {
        /// Where to.
        to: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The old files could not be read.
    #[error("cannot read the old files in .projects; nothing was changed")]
    Read(#[source] io::Error),
}

/// The directories of `.projects/` that hold a project of the earlier program.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn waiting(shared: &Shared) -> io::Result<Vec<String>> {
    earlier(&shared.options.files, &shared.paths.projects)
}

/// The same, where `root` is `.projects/`.
pub(crate) fn earlier(io: &Arc<dyn FileIo>, root: &Path) -> io::Result<Vec<String>> {
    let files = Tree {
        io: Arc::clone(io),
        root: root.to_owned(),
    };
    let mut waiting = Vec::new();
    for name in files.names("", EntryKind::Directory)? {
        let status = files.text(&format!("{name}/project-status.toon"))?;
        if status.is_some_and(|text| yaml::is_project(&text)) {
            waiting.push(name);
        }
    }
    Ok(waiting)
}

/// The texts and sessions that the earlier program remembered of projects which the board has, as they
/// are saved: one that is there already changes nothing.
///
/// # Errors
/// When the files cannot be read.
pub(crate) fn remembered(shared: &Shared) -> Result<Vec<Action>, ImportError> {
    let files = Tree {
        io: Arc::clone(&shared.options.files),
        root: shared.paths.projects.clone(),
    };
    let mut old =
        OldWorkspace::read(&files, shared.options.clock.now()).map_err(ImportError::Read)?;
    let there = shared.read(|reader| reader.slugs());
    let there = there.map_err(|error| ImportError::Read(io::Error::other(error)))?;
    old.leave_memories(&there);
    let actions = old.memories.into_iter().flat_map(|memory| {
        let chunks = memory.chunks.into_iter().map(|chunk| {
            Action::SaveMemory(NewChunk {
                summary: chunk.summary,
                source: chunk.source,
                source_id: chunk.source_id,
                tags: chunk.tags,
                created_at: Some(chunk.created_at),
                ..NewChunk::of(chunk.project, chunk.content)
            })
        });
        let sessions = memory.sessions.into_iter().map(|session| {
            let event = |event: SessionEvent| NewSessionEvent {
                kind: event.kind,
                summary: event.summary,
                at: Some(event.at),
            };
            Action::SaveSession(NewSession {
                project: session.project,
                id: session.id,
                summary: session.summary,
                events: session.events.into_iter().map(event).collect(),
                started_at: Some(session.started_at),
                ended_at: Some(session.ended_at),
                from_hooks: false,
            })
        });
        chunks.chain(sessions).collect::<Vec<_>>()
    });
    Ok(actions.collect())
}

/// Takes over what there is of the earlier program's.
pub(crate) fn import(shared: &Shared, mut engine: Engine) -> Result<Imported, ImportError> {
    let start = Instant::now();
    let _lock = loop {
        if let Some(lock) = engine.try_lock()? {
            break lock;
        }
        if start.elapsed() > PATIENCE {
            return Err(FilesError::Timeout.into());
        }
        thread::sleep(Duration::from_millis(10));
    };
    let files = Tree {
        io: Arc::clone(&shared.options.files),
        root: shared.paths.projects.clone(),
    };
    let now = shared.options.clock.now();
    let mut old = OldWorkspace::read(&files, now).map_err(ImportError::Read)?;
    let there = engine.read(|reader| reader.slugs())?;
    old.leave_projects(&there);
    old.leave_memories(&there);
    if old.is_empty() {
        return Ok(Imported {
            left: old.left,
            ..Imported::default()
        });
    }
    let backup = shared.paths.projects.with_file_name(format!(
        ".projects-backup-{}",
        now.to_string().replace(':', "-")
    ));
    files
        .copy(&old.places(), &backup)
        .and_then(|()| files.keep_from_git(&backup))
        .map_err(|source| ImportError::Backup {
            to: backup.clone(),
            source,
        })?;
    let mut imported = Imported {
        backup: Some(backup),
        ..Imported::default()
    };
    imported.remarks.append(&mut old.remarks);
    imported.left.append(&mut old.left);
    let (usage, events, mut paths, mut lost) = (old.usage, old.hook_events, old.files, old.lost);
    for memory in old.memories {
        imported.remarks.push(format!(
            "{}: {} remembered texts and {} sessions of orchestra-mcp were imported",
            memory.slug,
            memory.chunks.len(),
            memory.sessions.len()
        ));
        let files = memory.files.clone();
        let owner = Owner::Chunks(memory.slug, 1);
        // A file that is not known to have been there is not taken for removed, but written.
        engine.write(move |work| {
            for path in &files {
                ledger::forget(work.connection(), path)?;
                ledger::approve(work.connection(), path)?;
            }
            Ok(ledger::make_due(work.connection(), &owner)?)
        })?;
        paths.extend(memory.files);
        lost.merge(memory.lost);
    }
    for mut project in old.projects {
        let own: BTreeSet<String> = project.files.iter().cloned().collect();
        let of_it = std::mem::take(&mut project.lost);
        match take_over(&engine, project, &mut imported)? {
            Taken::Whole => lost.merge(of_it),
            Taken::Not => paths.retain(|path| !own.contains(path)),
        }
    }
    imported.remarks.append(&mut lost.remarks());
    engine.write(move |work| {
        if let Some(usage) = &usage {
            work.load_usage(usage)?;
        }
        if !events.is_empty() {
            work.load_hook_events(&events)?;
        }
        Ok(())
    })?;
    engine.remove_all(&paths)?;
    engine.sweep_whole()?;
    engine.flush_all()?;
    Ok(imported)
}

/// Whether a project was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Whole,
    Not,
}

/// Puts one project into the database, in one go. Its old files stay where they are.
fn take_over(
    engine: &Engine,
    project: OldProject,
    imported: &mut Imported,
) -> Result<Taken, ImportError> {
    let (slug, issues) = (project.project.slug.clone(), project.issues.len());
    let outcome = Arc::new(Mutex::new(Ok(())));
    let (told, paths) = (Arc::clone(&outcome), project.files.clone());
    engine.write(move |work| {
        let result = put(work, project);
        if let Err(Untaken::Store(error)) = result {
            return Err(error);
        }
        if result.is_ok() {
            for path in &paths {
                ledger::forget(work.connection(), path)?;
                ledger::approve(work.connection(), path)?;
            }
        }
        *told.lock().unwrap_or_else(PoisonError::into_inner) = result;
        Ok(())
    })?;
    let outcome = std::mem::replace(
        &mut *outcome.lock().unwrap_or_else(PoisonError::into_inner),
        Ok(()),
    );
    match outcome {
        Ok(()) => {
            imported.issues += u64::try_from(issues).unwrap_or(u64::MAX);
            imported.projects.push(slug);
            Ok(Taken::Whole)
        }
        Err(_) => {
            imported.left.push(convert::is_there(&slug));
            Ok(Taken::Not)
        }
    }
}

/// Why a project is not taken over.
enum Untaken {
    /// It is there.
    There,
    /// The store failed.
    Store(ActionError),
}

impl<E: Into<ActionError>> From<E> for Untaken {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

fn put(work: &mut dyn Work, mut old: OldProject) -> Result<(), Untaken> {
    let reader = Reader::new(work.connection());
    let slug = old.project.slug.clone();
    if reader.find_project(&slug)?.is_some() {
        return Err(Untaken::There);
    }
    let taken = |key: &orchestra_board::Key| {
        orchestra_board::View::key_taken(&reader, key)
            .map_err(|error| ActionError::from(crate::ReadError::from(error)))
    };
    if taken(&old.project.key)? {
        let mut free = None;
        for key in orchestra_board::Key::candidates(old.project.name.as_str()) {
            if !taken(&key)? {
                free = Some(key);
                break;
            }
        }
        old.project.key =
            free.ok_or_else(|| ActionError::Refused(orchestra_board::Refusal::NoKeyLeft))?;
        old.project.next_issue = old.next_issue();
    }
    work.load_project(&old.project, &Retired::default())?;
    work.load_prd(&slug, &old.prd, old.project.prd_origin)?;
    for issue in &mut old.issues {
        let made = [convert::made(issue)];
        // The same in every clone that imports these files.
        issue.uid = Some(uid::of_issue_with(issue, &made));
        work.load_issue(issue)?;
        work.load_history(&slug, &issue.id, &made)?;
    }
    if let Some(session) = &old.prd_session {
        work.load_prd_session(&slug, Some(session))?;
    }
    if !old.requests.is_empty() {
        work.load_requests(&slug, &old.requests)?;
    }
    for (segment, chunks) in (1..).zip(old.chunks.chunks(CHUNKS_IN_A_SEGMENT)) {
        work.load_chunks(&slug, segment, chunks)?;
    }
    for session in &old.sessions {
        work.load_session(session)?;
    }
    for (plan, content) in &old.plans {
        work.load_plan(plan, Some(content.as_str()))?;
    }
    Ok(())
}

/// How many old chunks go into one segment; they were short.
const CHUNKS_IN_A_SEGMENT: usize = 200;

/// The old files.
pub(crate) struct Tree {
    io: Arc<dyn FileIo>,
    root: PathBuf,
}

impl Tree {
    /// The text of a file; `None` when it is not there, is no text, or too large to be one of ours.
    fn text(&self, path: &str) -> io::Result<Option<String>> {
        let full = crate::files::place::under(&self.root, path);
        match self.io.stat(&full)? {
            Some(stat) if stat.kind == EntryKind::File && stat.size <= MAX_FILE_BYTES => {
                Ok(String::from_utf8(self.io.read(&full, MAX_FILE_BYTES)?).ok())
            }
            _ => Ok(None),
        }
    }

    /// The names in a directory that are of a kind, sorted.
    fn names(&self, directory: &str, kind: EntryKind) -> io::Result<Vec<String>> {
        let full = crate::files::place::under(&self.root, directory);
        // A link to a directory is not one.
        if !directory.is_empty()
            && self
                .io
                .stat(&full)?
                .is_none_or(|stat| stat.kind != EntryKind::Directory)
        {
            return Ok(Vec::new());
        }
        let entries = self
            .io
            .list(&full)?
            .into_iter()
            .filter(|entry| entry.kind == kind);
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.name.into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Copies files and directories, durably.
    fn copy(&self, places: &[String], to: &Path) -> io::Result<()> {
        let mut made = BTreeSet::new();
        let mut left: Vec<String> = places.to_vec();
        self.io.create_dir(to)?;
        while let Some(path) = left.pop() {
            let full = crate::files::place::under(&self.root, &path);
            match self.io.stat(&full)?.map(|stat| stat.kind) {
                Some(EntryKind::Directory) if path.split('/').count() < MAX_DEPTH => {
                    for entry in self.io.list(&full)? {
                        if let Some(name) = entry.name.to_str() {
                            left.push(format!("{path}/{name}"));
                        }
                    }
                }
                Some(EntryKind::File) => {
                    let target = crate::files::place::under(to, &path);
                    self.make_directories(to, crate::files::place::directory(&path), &mut made)?;
                    self.io
                        .write_temp(&target, &self.io.read(&full, u64::MAX - 1)?)?;
                    self.io.sync_file(&target)?;
                }
                _ => {}
            }
        }
        for directory in &made {
            self.io
                .sync_dir(&crate::files::place::under(to, directory))?;
        }
        self.io.sync_dir(to)
    }

    /// Has git leave a copy out: it holds what hooks reported, which was never masked.
    fn keep_from_git(&self, copy: &Path) -> io::Result<()> {
        let file = copy.join(".gitignore");
        self.io.write_temp(&file, b"*\n")?;
        self.io.sync_file(&file)?;
        self.io.sync_dir(copy)
    }

    fn make_directories(
        &self,
        to: &Path,
        directory: &str,
        made: &mut BTreeSet<String>,
    ) -> io::Result<()> {
        if directory.is_empty() || made.contains(directory) {
            return Ok(());
        }
        self.make_directories(to, crate::files::place::directory(directory), made)?;
        self.io
            .create_dir(&crate::files::place::under(to, directory))?;
        made.insert(directory.to_owned());
        Ok(())
    }
}

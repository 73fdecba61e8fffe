//! Makes a database from the files alone: one thread reads and parses, the caller's inserts.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use orchestra_board::{Event, Issue, IssueId, Project, Slug};

use super::fields::{Fields, content_hash, of_chunks, of_issue, of_project};
use super::intake::{Value, owner_of};
use super::ledger::{self, Seen};
use super::place::{CONFLICT, Part, Place, TEMP, under};
use super::{FilesError, Owner, Work};
use crate::Chunk;
use crate::io::{EntryKind, FileIo};
use crate::toon::project::Alias;
use crate::toon::records::{MAX_FILE_BYTES, read_chunks, utf8};
use crate::toon::{self, FileError, FileFault, IssuePlace};

/// How many things go from one thread to the other at once.
const BATCH: usize = 128;
/// How many batches may wait.
const WAITING: usize = 16;

/// One thing with its files, read and parsed.
struct Loaded {
    owner: Owner,
    item: Item,
    files: Vec<(String, Seen)>,
}

enum Item {
    Project(Box<Project>, Vec<Alias>),
    Issue(Box<Issue>, Vec<Event>),
    Chunks(Slug, u64, Vec<Chunk>),
    Whole(Value),
}

type Parsed = Result<Loaded, FileError>;

/// Loads everything that the files say into an empty database. What cannot be read is noted as a
/// problem, and its file left alone.
pub(crate) fn rebuild(
    root: &Path,
    io: &Arc<dyn FileIo>,
    work: &mut dyn Work,
    now: i64,
) -> Result<(), FilesError> {
    let (sender, receiver) = sync_channel(WAITING);
    std::thread::scope(|scope| {
        let mut reader = Source {
            root: root.to_path_buf(),
            io: Arc::clone(io),
            batch: Vec::new(),
            sender,
        };
        let reading = std::thread::Builder::new()
            .name("orchestra-rebuild".to_owned())
            .spawn_scoped(scope, move || reader.read_all())?;
        let inserted = Loader::default().insert_all(&receiver, work, now);
        // If inserting failed, the reader finds nobody to send to, and ends.
        drop(receiver);
        let read = reading.join().unwrap_or(Err(crate::Fault::Panicked.into()));
        inserted.and(read)
    })
}

/// The thread that reads and parses.
struct Source {
    root: PathBuf,
    io: Arc<dyn FileIo>,
    batch: Vec<Parsed>,
    sender: SyncSender<Vec<Parsed>>,
}

/// What stands in a directory, sorted so that every run sees the same order.
#[derive(Default)]
struct Listing {
    directories: Vec<String>,
    files: Vec<String>,
}

impl Source {
    fn read_all(&mut self) -> Result<(), FilesError> {
        let top = self.list("")?;
        for name in top.directories {
            match Slug::parse(&name) {
                Ok(slug) => self.read_project(&slug)?,
                Err(_) if name == ".store" || name == ".run" => {}
                Err(_) => self.read_files(&name)?,
            }
        }
        self.send();
        Ok(())
    }

    fn read_project(&mut self, slug: &Slug) -> Result<(), FilesError> {
        let place = Place::Project(slug.clone());
        let parsed = self.read(&place.path()).and_then(|read| match read {
            Some((text, seen)) => self.project(slug, &text, seen).map(Some),
            None => Ok(None),
        });
        let Some(parsed) = parsed.transpose() else {
            return Ok(());
        };
        let readable = parsed.is_ok();
        self.put(parsed);
        if !readable {
            return Ok(());
        }
        let listing = self.list(slug.as_str())?;
        for path in listing.files.iter().filter(|path| **path != place.path()) {
            self.read_file(path);
        }
        for directory in listing.directories {
            if directory == format!("{slug}/epics") {
                self.read_epics(slug, &directory)?;
            } else {
                self.read_files(&directory)?;
            }
        }
        Ok(())
    }

    fn project(&self, slug: &Slug, text: &str, seen: Seen) -> Parsed {
        let path = Place::Project(slug.clone()).path();
        let (project, aliases) = toon::project::read(&path, text, slug)?;
        let seen = Seen {
            fields: of_project(&project, &aliases),
            ..seen
        };
        let owner = Owner::Project(slug.clone());
        Ok(Loaded {
            owner,
            item: Item::Project(Box::new(project), aliases),
            files: vec![(path, seen)],
        })
    }

    /// All files of ours below a directory that holds no issues.
    fn read_files(&mut self, directory: &str) -> Result<(), FilesError> {
        let listing = self.list(directory)?;
        for path in &listing.files {
            self.read_file(path);
        }
        for directory in listing.directories {
            self.read_files(&directory)?;
        }
        Ok(())
    }

    fn read_file(&mut self, path: &str) {
        let Some(place) = Place::parse(path) else {
            return;
        };
        let parsed = self.read(path).and_then(|read| match read {
            Some((text, seen)) => parse_file(path, place, &text, seen).map(Some),
            None => Ok(None),
        });
        if let Some(parsed) = parsed.transpose() {
            self.put(parsed);
        }
    }

    fn read_epics(&mut self, project: &Slug, directory: &str) -> Result<(), FilesError> {
        for (epic, path) in self.issue_directories(directory)? {
            let place = IssuePlace {
                project: project.clone(),
                id: epic.clone(),
                epic: None,
                story: None,
            };
            let listing = self.list(&path)?;
            self.read_issue(&place, &listing);
            for (story, path) in self.issue_directories(&format!("{path}/stories"))? {
                let epic = Some(epic.clone());
                let place = IssuePlace {
                    project: project.clone(),
                    id: story.clone(),
                    epic,
                    story: None,
                };
                let listing = self.list(&path)?;
                self.read_issue(&place, &listing);
                self.read_tasks(&place, &format!("{path}/tasks"))?;
            }
        }
        Ok(())
    }

    fn issue_directories(&self, directory: &str) -> Result<Vec<(IssueId, String)>, FilesError> {
        let id = |path: String| {
            let name = path.rsplit('/').next()?;
            Some((IssueId::parse(name).ok()?, path))
        };
        let mut found: Vec<_> = self
            .list(directory)?
            .directories
            .into_iter()
            .filter_map(id)
            .collect();
        found.sort();
        Ok(found)
    }

    fn read_tasks(&mut self, story: &IssuePlace, directory: &str) -> Result<(), FilesError> {
        let listing = self.list(directory)?;
        let mut ids = Vec::new();
        for path in &listing.files {
            let name = path.rsplit('/').next().unwrap_or_default();
            if let Some(Ok(id)) = name.strip_suffix(".toon").map(IssueId::parse) {
                ids.push(id);
            }
        }
        ids.sort();
        for id in ids {
            let (epic, above) = (story.epic.clone(), Some(story.id.clone()));
            self.read_issue(
                &IssuePlace {
                    project: story.project.clone(),
                    id,
                    epic,
                    story: above,
                },
                &listing,
            );
        }
        Ok(())
    }

    fn read_issue(&mut self, place: &IssuePlace, listing: &Listing) {
        let there = |part| {
            let path = Place::Issue(place.clone(), part).path();
            listing.files.binary_search(&path).is_ok().then_some(path)
        };
        let Some(fields) = there(Part::Fields) else {
            return;
        };
        let parsed = self.issue(
            place,
            fields,
            there(Part::Description),
            there(Part::History),
        );
        self.put(parsed);
    }

    fn issue(
        &self,
        place: &IssuePlace,
        fields: String,
        description: Option<String>,
        history: Option<String>,
    ) -> Parsed {
        let gone = |path: &str| {
            FileError::whole(path, FileFault::Io("vanished while it was read".to_owned()))
        };
        let (text, mut seen) = self.read(&fields)?.ok_or_else(|| gone(&fields))?;
        let beside = match &description {
            Some(path) => self.read(path)?,
            None => None,
        };
        let beside_text = description
            .as_deref()
            .zip(beside.as_ref().map(|(text, _)| text.as_str()));
        let issue = toon::issue::read(&fields, &text, place, beside_text)?;
        seen.fields = of_issue(&issue);
        let mut files = vec![(fields, seen)];
        files.extend(description.zip(beside.map(|(_, seen)| seen)));
        let mut events = Vec::new();
        if let Some(path) = history
            && let Some((text, seen)) = self.read(&path)?
        {
            events = toon::history::read(&path, &text, &place.project, &place.id)?;
            files.push((path, seen));
        }
        let owner = Owner::Issue(place.project.clone(), place.id.clone());
        Ok(Loaded {
            owner,
            item: Item::Issue(Box::new(issue), events),
            files,
        })
    }

    /// A file's text, and what it looks like; `None` when it is not there.
    fn read(&self, path: &str) -> Result<Option<(String, Seen)>, FileError> {
        let full = under(&self.root, path);
        let failed = |error: std::io::Error| {
            FileError::whole(path, FileFault::Io(format!("cannot be read: {error}")))
        };
        let Some((bytes, stat)) = self.io.read_whole(&full, MAX_FILE_BYTES).map_err(failed)? else {
            return Ok(None);
        };
        let hash = content_hash(&bytes);
        let seen = Seen {
            hash,
            size: stat.size,
            modified: stat.modified,
            fields: Fields::default(),
        };
        utf8(path, &bytes)?;
        let text = String::from_utf8(bytes).expect("checked on the line above");
        Ok(Some((text, seen)))
    }

    fn list(&self, directory: &str) -> Result<Listing, FilesError> {
        let mut listing = Listing::default();
        for entry in self.io.list(&under(&self.root, directory))? {
            let Some(name) = entry.name.to_str() else {
                continue;
            };
            let path = if directory.is_empty() {
                name.to_owned()
            } else {
                format!("{directory}/{name}")
            };
            match entry.kind {
                EntryKind::Directory => listing.directories.push(path),
                EntryKind::File if name.ends_with(TEMP) || name.ends_with(CONFLICT) => {}
                EntryKind::File | EntryKind::Other => listing.files.push(path),
            }
        }
        listing.directories.sort();
        listing.files.sort();
        Ok(listing)
    }

    fn put(&mut self, parsed: Parsed) {
        self.batch.push(parsed);
        if self.batch.len() >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        // Nobody receives when inserting failed; that error is the one that is told.
        let _ = self.sender.send(std::mem::take(&mut self.batch));
    }
}

fn parse_file(path: &str, place: Place, text: &str, mut seen: Seen) -> Parsed {
    let owner = owner_of(&place);
    let item = match place {
        Place::Chunks(slug, segment) => {
            let chunks = read_chunks(path, text, &slug)?;
            seen.fields = of_chunks(&chunks);
            Item::Chunks(slug, segment, chunks)
        }
        place => {
            let value = Value::read(path, text, &place)?;
            seen.fields = Fields::whole(&value.canonical());
            Item::Whole(value)
        }
    };
    Ok(Loaded {
        owner,
        item,
        files: vec![(path.to_owned(), seen)],
    })
}

/// The thread that inserts.
#[derive(Default)]
struct Loader {
    /// The issues that are there, of the projects that are.
    known: HashMap<Slug, HashSet<IssueId>>,
    /// The keys that projects have.
    keys: HashSet<String>,
}

impl Loader {
    fn insert_all(
        &mut self,
        receiver: &Receiver<Vec<Parsed>>,
        work: &mut dyn Work,
        now: i64,
    ) -> Result<(), FilesError> {
        for batch in receiver {
            for parsed in batch {
                match parsed.and_then(|loaded| self.check(loaded)) {
                    Ok(loaded) => insert(work, loaded)?,
                    Err(error) => ledger::complain(work.connection(), &error.file, &error, now)?,
                }
            }
        }
        Ok(())
    }

    /// Refuses what the database cannot hold.
    fn check(&mut self, loaded: Loaded) -> Parsed {
        let path = loaded.files.first().map_or("", |(path, _)| path.as_str());
        let refuse = |what: String| Err(FileError::whole(path, FileFault::Place(what)));
        match &loaded.item {
            Item::Project(project, _) => {
                if !self.keys.insert(project.key.to_string()) {
                    return refuse(format!(
                        "the key {} is another project's already",
                        project.key
                    ));
                }
                self.known.insert(project.slug.clone(), HashSet::new());
            }
            Item::Issue(issue, _) => {
                let Some(known) = self.known.get_mut(&issue.project) else {
                    return refuse(format!("project {} cannot be read", issue.project));
                };
                if let Some(parent) = issue
                    .parent
                    .as_ref()
                    .filter(|parent| !known.contains(parent))
                {
                    return refuse(format!("{parent} above it cannot be read"));
                }
                if !known.insert(issue.id.clone()) {
                    return refuse(format!(
                        "{} stands in two places; `orchestra doctor --fix` gives the younger another id",
                        issue.id
                    ));
                }
            }
            Item::Chunks(..) | Item::Whole(_) => {}
        }
        Ok(loaded)
    }
}

fn insert(work: &mut dyn Work, loaded: Loaded) -> Result<(), FilesError> {
    match &loaded.item {
        Item::Project(project, aliases) => work.load_project(project, aliases)?,
        Item::Issue(issue, events) => {
            work.load_issue(issue)?;
            work.load_history(&issue.project, &issue.id, events)?;
        }
        Item::Chunks(slug, segment, chunks) => work.load_chunks(slug, *segment, chunks)?,
        Item::Whole(value) => value.load(work)?,
    }
    for (path, seen) in &loaded.files {
        ledger::record(work.connection(), path, &loaded.owner, seen)?;
    }
    Ok(())
}

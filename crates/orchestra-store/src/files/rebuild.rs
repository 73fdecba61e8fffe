//! Makes a database from the files alone. One thread walks through the directories and hands what
//! it finds to others, which read and parse it; the caller's inserts, in the order of the walk. So
//! the disk's waiting, the parsing and the inserting go on at once, and every run sees the same
//! order.
//!
//! One file that cannot be read, or that says what the database cannot hold, is noted as a problem,
//! and harms nothing beside it.

mod source;
mod walk;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use orchestra_board::{Event, Issue, IssueId, Project, Slug, Uid};

use self::source::Source;
use self::walk::Walk;
use super::intake::{Value, apart, below_another, fault_of_file, shorten_claim};
use super::ledger::{self, Seen};
use super::place::Place;
use super::{FilesError, Owner, Work, report};
use crate::document::DocumentBody;
use crate::io::FileIo;
use crate::toon::project::Retired;
use crate::toon::{FileError, FileFault, IssuePlace};
use crate::{ActionError, Chunk, DocumentPath, uid};

/// How many threads read and parse: as many as keep a disk and two cores busy.
const READERS: usize = 3;
/// How many things go from one thread to another at once.
const BATCH: usize = 64;
/// The most bytes of files that do.
const BATCH_BYTES: u64 = 256 * 1024;
/// How many batches may wait for a thread.
const WAITING: usize = 2;

/// Something the walk has found.
enum Thing {
    Issue(Box<IssuePlace>, Parts),
    /// Any other file of ours.
    File(String),
    /// What the walk had to read by itself.
    Read(Box<Parsed>),
}

/// Which files of an issue are there.
struct Parts {
    fields: String,
    description: Option<String>,
    history: Option<String>,
}

/// One thing with its files, read and parsed.
struct Loaded {
    owner: Owner,
    item: Item,
    files: Vec<(String, Seen)>,
    /// What is wrong with a file that the thing can do without.
    trouble: Option<FileError>,
}

enum Item {
    /// The last is the line of its key.
    Project(Box<Project>, Retired, u64),
    Issue(Box<Issue>, Vec<Event>),
    Chunks(Slug, u64, Vec<Chunk>),
    Whole(Value),
    /// The last is the version beside the file.
    Document(DocumentPath, DocumentBody, Option<i64>),
}

type Parsed = Result<Loaded, FileError>;

/// Some of what one thread made of one batch.
struct Parcel {
    items: Vec<Parsed>,
    /// Whether the batch ends here.
    last: bool,
}

/// Loads everything that the files say into an empty database. What cannot be read is noted as a
/// problem, and its file left alone.
pub(crate) fn rebuild(
    root: &Path,
    io: &Arc<dyn FileIo>,
    work: &mut dyn Work,
    now: i64,
) -> Result<(), FilesError> {
    std::thread::scope(|scope| {
        let thread = || std::thread::Builder::new().name("orchestra-rebuild".to_owned());
        let (mut batches, mut parcels, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..READERS {
            let (give, batch) = sync_channel(WAITING);
            let (send, parcel) = sync_channel(WAITING);
            let source = Source::new(root, io);
            let read = move || {
                source.read_all(&batch, &send);
                Ok(())
            };
            threads.push(thread().spawn_scoped(scope, read)?);
            batches.push(give);
            parcels.push(parcel);
        }
        let walk = Walk::new(Source::new(root, io), batches);
        threads.push(thread().spawn_scoped(scope, move || walk.walk())?);
        let mut loader = Loader::default();
        let inserted = loader.insert_all(&parcels, work, now);
        report::report_all(io, root, &loader.troubles);
        // If inserting failed, the others find nobody to send to, and end.
        drop(parcels);
        threads.into_iter().fold(inserted, |outcome, thread| {
            let ended = thread.join().unwrap_or(Err(crate::Fault::Panicked.into()));
            outcome.and(ended)
        })
    })
}

/// The thread that inserts.
#[derive(Default)]
struct Loader {
    /// The issues that are there, each with its parent, of the projects that are.
    known: HashMap<Slug, HashMap<IssueId, Option<IssueId>>>,
    /// The keys that projects have.
    keys: HashSet<String>,
    /// The uids that issues have.
    uids: HashSet<Uid>,
    /// Those that files list as deleted. An issue that has its file is there all the same: without a database nothing
    /// proves that it was deleted.
    buried: HashSet<Uid>,
    /// The files that cannot be taken in.
    troubles: Vec<FileError>,
}

impl Loader {
    /// Inserts what comes, until nothing more does. The batches were given to the readers in turn.
    fn insert_all(
        &mut self,
        parcels: &[Receiver<Parcel>],
        work: &mut dyn Work,
        now: i64,
    ) -> Result<(), FilesError> {
        for turn in parcels.iter().cycle() {
            loop {
                let Ok(Parcel { items, last }) = turn.recv() else {
                    return Ok(());
                };
                for parsed in items {
                    self.insert(parsed, work, now)?;
                }
                if last {
                    break;
                }
            }
        }
        Ok(())
    }

    fn insert(&mut self, parsed: Parsed, work: &mut dyn Work, now: i64) -> Result<(), FilesError> {
        let mut loaded = match parsed.and_then(|loaded| self.check(loaded)) {
            Ok(loaded) => loaded,
            Err(error) => return self.complain(work, error, now),
        };
        let is_shortened = match &mut loaded.item {
            Item::Issue(issue, _) => shorten_claim(issue, now),
            _ => false,
        };
        let is_copy = self.settle(&mut loaded);
        // Nothing can be undone here, but what fails does so before it has written anything.
        if let Err(error) = load(work, &loaded.item) {
            let error = FileError::whole(first_path(&loaded), fault_of_file(error)?);
            return self.complain(work, error, now);
        }
        if let Item::Issue(issue, _) = &loaded.item
            && issue.uid.is_some_and(|uid| self.buried.contains(&uid))
        {
            // Its file lists the issue as deleted.
            ledger::make_due(work.connection(), &Owner::Project(issue.project.clone()))?;
        }
        for (path, seen) in &loaded.files {
            ledger::record(work.connection(), path, &loaded.owner, seen)?;
        }
        if is_copy || is_shortened {
            // Its file still says the uid of the other, or the longer claim.
            ledger::make_due(work.connection(), &loaded.owner)?;
        }
        match loaded.trouble {
            Some(error) => self.complain(work, error, now),
            None => Ok(()),
        }
    }

    /// Notes that a file cannot be taken in.
    fn complain(&mut self, work: &dyn Work, error: FileError, now: i64) -> Result<(), FilesError> {
        ledger::complain(work.connection(), &error.file, &error, now)?;
        self.troubles.push(error);
        Ok(())
    }

    /// Refuses what the database cannot hold.
    fn check(&mut self, loaded: Loaded) -> Parsed {
        let path = first_path(&loaded);
        let refuse = |what: String| Err(FileError::whole(path, FileFault::Place(what)));
        if let Item::Project(project, retired, line) = &loaded.item {
            if !self.keys.insert(project.key.to_string()) {
                let what = format!(
                    "the key {} is another project's already; give this one another key and its issues other ids",
                    project.key
                );
                return Err(FileError {
                    file: path.to_owned(),
                    line: *line,
                    field: "key".to_owned(),
                    fault: FileFault::Field(what),
                });
            }
            self.buried
                .extend(retired.deleted.iter().map(|stone| stone.uid));
            self.known.insert(project.slug.clone(), HashMap::new());
        }
        let Some(slug) = loaded.owner.project() else {
            return Ok(loaded);
        };
        let Some(known) = self.known.get_mut(slug) else {
            return refuse(format!(
                "project {slug} has no project-status.toon that can be taken"
            ));
        };
        if let Item::Issue(issue, _) = &loaded.item {
            if let Some(parent) = &issue.parent {
                let Some(above) = known.get(parent) else {
                    return refuse(format!("{parent} above it cannot be read"));
                };
                // Of a task the path names the epic as well.
                let epic = match Place::parse(path) {
                    Some(Place::Issue(place, _)) if place.story.is_some() => place.epic,
                    _ => None,
                };
                if epic.is_some() && epic != *above {
                    let there = IssuePlace {
                        project: slug.clone(),
                        id: parent.clone(),
                        epic: above.clone(),
                        story: None,
                    };
                    return refuse(below_another(&there));
                }
            }
            if known.contains_key(&issue.id) {
                return refuse(format!(
                    "{} has files in two places; {}",
                    issue.id,
                    apart(path)
                ));
            }
            known.insert(issue.id.clone(), issue.parent.clone());
        }
        Ok(loaded)
    }
}

impl Loader {
    /// Gives an issue uids of its own when its files were copied from another's; returns whether
    /// they were.
    fn settle(&mut self, loaded: &mut Loaded) -> bool {
        let Item::Issue(issue, events) = &mut loaded.item else {
            return false;
        };
        if issue.uid.is_some_and(|uid| self.uids.insert(uid)) {
            return false;
        }
        let derived = uid::of_issue_with(issue, events);
        issue.uid = Some(derived).filter(|uid| self.uids.insert(*uid));
        for event in events {
            event.uid = None;
        }
        true
    }
}

fn first_path(loaded: &Loaded) -> &str {
    loaded.files.first().map_or("", |(path, _)| path.as_str())
}

fn load(work: &mut dyn Work, item: &Item) -> Result<(), ActionError> {
    match item {
        Item::Project(project, retired, _) => work.load_project(project, retired),
        Item::Issue(issue, events) => {
            work.load_issue(issue)?;
            work.load_history(&issue.project, &issue.id, events)
        }
        Item::Chunks(slug, segment, chunks) => work.load_chunks(slug, *segment, chunks),
        Item::Whole(value) => value.load(work),
        Item::Document(path, body, start) => work.load_document(path, body, *start),
    }
}

//! Finds what there is to read, parents before what is below them, everything sorted.

use std::sync::mpsc::SyncSender;

use orchestra_board::{IssueId, Slug};

use super::source::Source;
use super::{BATCH, Parts, Thing};
use crate::files::FilesError;
use crate::files::listing::Listing;
use crate::files::place::{Part, Place};
use crate::toon::IssuePlace;

/// The thread that goes through the directories.
pub(super) struct Walk {
    source: Source,
    batch: Vec<Thing>,
    /// The readers, each of which is given a batch in turn.
    readers: Vec<SyncSender<Vec<Thing>>>,
    turn: usize,
    /// Whether the readers have ended before their time.
    ended: bool,
}

impl Walk {
    pub(super) fn new(source: Source, readers: Vec<SyncSender<Vec<Thing>>>) -> Self {
        Self {
            source,
            batch: Vec::new(),
            readers,
            turn: 0,
            ended: false,
        }
    }

    pub(super) fn walk(mut self) -> Result<(), FilesError> {
        let top = self.list("")?;
        for path in top.files {
            self.file(path);
        }
        for name in top.directories {
            match Slug::parse(&name) {
                Ok(slug) => self.project(&slug)?,
                Err(_) => self.files(&name)?,
            }
        }
        self.send();
        Ok(())
    }

    fn project(&mut self, slug: &Slug) -> Result<(), FilesError> {
        let Some(parsed) = self.source.project(slug).transpose() else {
            return self.documents(slug.as_str());
        };
        // Without it nothing below can be taken, and one problem says so.
        let readable = parsed.is_ok();
        self.put(Thing::Read(Box::new(parsed)));
        if !readable {
            return self.documents(slug.as_str());
        }
        let listing = self.list(slug.as_str())?;
        let itself = Place::Project(slug.clone()).path();
        for path in listing.files.into_iter().filter(|path| *path != itself) {
            self.file(path);
        }
        for directory in listing.directories {
            if directory == format!("{slug}/epics") {
                self.epics(slug, &directory)?;
            } else {
                self.files(&directory)?;
            }
        }
        Ok(())
    }

    /// All files of ours below a directory that holds no issues.
    fn files(&mut self, directory: &str) -> Result<(), FilesError> {
        let mut listing = self.list(directory)?;
        // Numbered ones in the order of their numbers.
        orchestra_sort::sort_by(&mut listing.files, |a, b| (a.len(), a).cmp(&(b.len(), b)));
        for path in listing.files {
            self.file(path);
        }
        for directory in listing.directories {
            self.files(&directory)?;
        }
        Ok(())
    }

    /// The documents below the directory of what is no project that can be read.
    fn documents(&mut self, directory: &str) -> Result<(), FilesError> {
        let listing = self.list(directory)?;
        for path in listing.files {
            if matches!(Place::found(&path), Some(Place::Document(_))) {
                self.file(path);
            }
        }
        for directory in listing.directories {
            self.documents(&directory)?;
        }
        Ok(())
    }

    fn file(&mut self, path: String) {
        if Place::found(&path).is_some() {
            self.put(Thing::File(path));
        }
    }

    fn epics(&mut self, project: &Slug, directory: &str) -> Result<(), FilesError> {
        for (epic, path) in self.issue_directories(directory)? {
            let place = IssuePlace {
                project: project.clone(),
                id: epic.clone(),
                epic: None,
                story: None,
            };
            let listing = self.list(&path)?;
            self.issue(place, &listing);
            for (story, path) in self.issue_directories(&format!("{path}/stories"))? {
                let place = IssuePlace {
                    project: project.clone(),
                    id: story,
                    epic: Some(epic.clone()),
                    story: None,
                };
                let listing = self.list(&path)?;
                self.issue(place.clone(), &listing);
                self.tasks(&place, &format!("{path}/tasks"))?;
            }
        }
        Ok(())
    }

    fn issue_directories(&self, directory: &str) -> Result<Vec<(IssueId, String)>, FilesError> {
        let id = |path: String| {
            let name = path.rsplit('/').next()?;
            Some((IssueId::parse(name).ok()?, path))
        };
        let listing = self.list(directory)?;
        let mut found: Vec<_> = listing.directories.into_iter().filter_map(id).collect();
        found.sort();
        Ok(found)
    }

    fn tasks(&mut self, story: &IssuePlace, directory: &str) -> Result<(), FilesError> {
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
            let place = IssuePlace {
                project: story.project.clone(),
                id,
                epic: story.epic.clone(),
                story: Some(story.id.clone()),
            };
            self.issue(place, &listing);
        }
        Ok(())
    }

    fn issue(&mut self, place: IssuePlace, listing: &Listing) {
        let there = |part| {
            let path = Place::Issue(place.clone(), part).path();
            listing.files.binary_search(&path).is_ok().then_some(path)
        };
        if let Some(fields) = there(Part::Fields) {
            let parts = Parts {
                fields,
                description: there(Part::Description),
                history: there(Part::History),
            };
            self.put(Thing::Issue(Box::new(place), parts));
        }
    }

    fn list(&self, directory: &str) -> Result<Listing, FilesError> {
        if self.ended {
            return Ok(Listing::default());
        }
        let (root, io) = self.source.parts();
        Ok(Listing::of(io, root, directory)?)
    }

    fn put(&mut self, thing: Thing) {
        self.batch.push(thing);
        if self.batch.len() >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let reader = &self.readers[self.turn % self.readers.len()];
        self.ended |= reader.send(batch).is_err();
        self.turn += 1;
    }
}

//! Reads and parses what the walk has found.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use orchestra_board::Slug;

use super::{BATCH_BYTES, Item, Loaded, Parcel, Parsed, Parts, Thing};
use crate::document::{SIDE, front};
use crate::files::Owner;
use crate::files::fields::{Fields, content_hash, of_chunks, of_issue, of_project};
use crate::files::intake::{Value, read_document, side_version};
use crate::files::ledger::Seen;
use crate::files::place::{Place, under};
use crate::io::FileIo;
use crate::toon::records::{MAX_FILE_BYTES, read_chunks, utf8};
use crate::toon::{self, FileError, FileFault, IssuePlace};
use crate::{DocumentPath, uid};

/// The files.
pub(super) struct Source {
    root: PathBuf,
    io: Arc<dyn FileIo>,
}

impl Source {
    pub(super) fn new(root: &Path, io: &Arc<dyn FileIo>) -> Self {
        Self {
            root: root.to_path_buf(),
            io: Arc::clone(io),
        }
    }

    pub(super) fn parts(&self) -> (&Path, &dyn FileIo) {
        (&self.root, self.io.as_ref())
    }

    /// Reads batch after batch, as long as somebody wants them.
    pub(super) fn read_all(&self, batches: &Receiver<Vec<Thing>>, parcels: &SyncSender<Parcel>) {
        for batch in batches {
            let (mut items, mut bytes) = (Vec::new(), 0);
            for thing in batch {
                let parsed = match thing {
                    Thing::Issue(place, parts) => Some(self.issue(&place, parts)),
                    Thing::File(path) => self.file(&path).transpose(),
                    Thing::Read(parsed) => Some(*parsed),
                };
                if let Some(Ok(loaded)) = &parsed {
                    bytes += loaded.files.iter().map(|(_, seen)| seen.size).sum::<u64>();
                }
                items.extend(parsed);
                if bytes > BATCH_BYTES {
                    let (items, last) = (std::mem::take(&mut items), false);
                    bytes = 0;
                    if parcels.send(Parcel { items, last }).is_err() {
                        return;
                    }
                }
            }
            // Nobody receives when inserting failed; that error is the one that is told.
            if parcels.send(Parcel { items, last: true }).is_err() {
                return;
            }
        }
    }

    pub(super) fn project(&self, slug: &Slug) -> Result<Option<Loaded>, FileError> {
        let path = Place::Project(slug.clone()).path();
        let Some((text, seen)) = self.read(&path)? else {
            return Ok(None);
        };
        let (project, retired) = toon::project::read(&path, &text, slug)?;
        let seen = Seen {
            fields: of_project(&project, &retired),
            ..seen
        };
        let line = toon::line_of(&text, "key");
        Ok(Some(Loaded {
            owner: Owner::Project(slug.clone()),
            item: Item::Project(Box::new(project), retired, line),
            files: vec![(path, seen)],
            trouble: None,
        }))
    }

    fn file(&self, path: &str) -> Result<Option<Loaded>, FileError> {
        if let Some(Place::Document(path)) = Place::parse(path) {
            return self.document(path);
        }
        let (Some(place), Some((text, mut seen))) = (Place::parse(path), self.read(path)?) else {
            return Ok(None);
        };
        let owner = Owner::of(&place);
        let item = match place {
            Place::Chunks(slug, segment) => {
                let chunks = read_chunks(path, &text, &slug)?;
                seen.fields = of_chunks(&chunks);
                Item::Chunks(slug, segment, chunks)
            }
            place => {
                let value = Value::read(path, &text, &place)?;
                seen.fields = Fields::whole(value.canonical());
                Item::Whole(value)
            }
        };
        Ok(Some(Loaded {
            owner,
            item,
            files: vec![(path.to_owned(), seen)],
            trouble: None,
        }))
    }

    fn document(&self, path: DocumentPath) -> Result<Option<Loaded>, FileError> {
        let Some((bytes, mut seen)) = self.bytes(path.as_str())? else {
            return Ok(None);
        };
        let body = read_document(path.as_str(), &bytes)?;
        seen.fields = Fields::whole(front::write(&body));
        let mut files = vec![(path.to_string(), seen)];
        let side = format!("{path}{SIDE}");
        // One that cannot be read counts for nothing.
        let start = self.bytes(&side).ok().flatten().and_then(|(bytes, seen)| {
            files.push((side, seen));
            side_version(&bytes)
        });
        Ok(Some(Loaded {
            owner: Owner::Document(path.clone()),
            item: Item::Document(path, body, start),
            files,
            trouble: None,
        }))
    }

    fn issue(&self, place: &IssuePlace, parts: Parts) -> Parsed {
        let Parts {
            fields,
            description,
            history,
        } = parts;
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
        let mut issue = toon::issue::read(&fields, &text, place, beside_text)?;
        seen.fields = of_issue(&issue);
        let mut files = vec![(fields, seen)];
        files.extend(description.zip(beside.map(|(_, seen)| seen)));
        let (mut events, mut trouble) = (Vec::new(), None);
        // An issue whose history cannot be read is there all the same.
        if let Some(path) = history {
            match self.history(&path, place) {
                Ok(Some((read, seen))) => {
                    events = read;
                    files.push((path, seen));
                }
                Ok(None) => {}
                Err(error) => trouble = Some(error),
            }
        }
        if issue.uid.is_none() {
            issue.uid = Some(uid::of_issue_with(&issue, &events));
        }
        Ok(Loaded {
            owner: Owner::of_issue(place),
            item: Item::Issue(Box::new(issue), events),
            files,
            trouble,
        })
    }

    fn history(
        &self,
        path: &str,
        place: &IssuePlace,
    ) -> Result<Option<(Vec<orchestra_board::Event>, Seen)>, FileError> {
        let Some((text, seen)) = self.read(path)? else {
            return Ok(None);
        };
        let events = toon::history::read(path, &text, &place.project, &place.id)?;
        Ok(Some((events, seen)))
    }

    /// A file's text, and what it looks like; `None` when it is not there.
    fn read(&self, path: &str) -> Result<Option<(String, Seen)>, FileError> {
        let Some((bytes, seen)) = self.bytes(path)? else {
            return Ok(None);
        };
        Ok(Some((utf8(path, &bytes)?.to_owned(), seen)))
    }

    fn bytes(&self, path: &str) -> Result<Option<(Vec<u8>, Seen)>, FileError> {
        let full = under(&self.root, path);
        let failed = |error: std::io::Error| {
            let fault = match error.kind() {
                std::io::ErrorKind::FileTooLarge => FileFault::TooLarge {
                    limit: MAX_FILE_BYTES,
                },
                _ => FileFault::Io(format!("cannot be read: {error}")),
            };
            FileError::whole(path, fault)
        };
        let Some((bytes, stat)) = self.io.read_whole(&full, MAX_FILE_BYTES).map_err(failed)? else {
            return Ok(None);
        };
        let seen = Seen {
            hash: content_hash(&bytes),
            size: stat.size,
            modified: stat.modified,
            fields: Fields::default(),
        };
        Ok(Some((bytes, seen)))
    }
}

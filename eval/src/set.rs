//! The set: texts, queries and which texts answer them; and a store with the texts in it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use anyhow::{Context as _, Result, bail};
use orchestra_board::{Body, Command, Label, NewProject, Slug, Timestamp, Title};
use orchestra_store::{Action, ChunkId, Clock, Made, NewChunk, Options, Store};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A text that is remembered.
#[derive(Deserialize)]
pub(crate) struct Text {
    pub(crate) id: String,
    pub(crate) project: String,
    pub(crate) source: String,
    pub(crate) source_id: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) created_at: String,
    pub(crate) summary: String,
    pub(crate) content: String,
}

/// A query and the texts that answer it.
#[derive(Deserialize)]
pub(crate) struct Query {
    pub(crate) project: String,
    pub(crate) kind: String,
    pub(crate) query: String,
    pub(crate) relevant: Vec<String>,
}

/// Texts and queries.
pub(crate) struct Set {
    pub(crate) texts: Vec<Text>,
    pub(crate) queries: Vec<Query>,
}

impl Set {
    /// Reads the set that lies in a directory.
    pub(crate) fn read(directory: &Path) -> Result<Self> {
        Ok(Self {
            texts: lines(&directory.join("texts.jsonl"))?,
            queries: lines(&directory.join("queries.jsonl"))?,
        })
    }
}

fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let parse = |(at, line)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), at + 1))
    };
    text.lines().enumerate().map(parse).collect()
}

/// A clock that is set.
#[derive(Debug, Default)]
struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_seconds(self.0.load(Ordering::Relaxed))
    }
}

/// The texts in a store, and what they are called there.
pub(crate) struct Memory {
    pub(crate) store: Store,
    ids: HashMap<(String, ChunkId), String>,
    _directory: tempfile::TempDir,
}

impl Memory {
    /// Saves all texts, in their order, each at its time.
    pub(crate) fn save(set: &Set) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let clock = Arc::new(SetClock::default());
        let options = Options {
            clock: clock.clone(),
            watch: false,
            sweep: false,
            flush: false,
            ..Options::default()
        };
        let store = Store::open(directory.path(), options)?;
        let mut projects: Vec<&str> = set.texts.iter().map(|text| text.project.as_str()).collect();
        projects.sort_unstable();
        projects.dedup();
        for name in projects {
            let project = NewProject {
                name: Title::parse(name)?,
                description: Body::default(),
            };
            store.submit_blocking(None, Action::Board(Command::CreateProject(project)))?;
        }
        let mut ids = HashMap::new();
        for text in &set.texts {
            let at = Timestamp::parse(&text.created_at)?;
            clock.0.store(at.unix_seconds(), Ordering::Relaxed);
            let receipt = store.submit_blocking(None, Action::SaveMemory(chunk(text)?))?;
            let Made::Chunk { chunk, .. } = receipt.made else {
                bail!("{}: the store did not say what it made", text.id);
            };
            ids.insert((text.project.clone(), chunk.id), text.id.clone());
        }
        Ok(Self {
            store,
            ids,
            _directory: directory,
        })
    }

    /// What the set calls a text of the store.
    pub(crate) fn name(&self, project: &str, id: ChunkId) -> Option<&str> {
        let key = (project.to_owned(), id);
        self.ids.get(&key).map(String::as_str)
    }
}

fn chunk(text: &Text) -> Result<NewChunk> {
    Ok(NewChunk {
        project: Slug::parse(&text.project)?,
        content: Body::parse(&text.content)?,
        summary: Body::parse(&text.summary)?,
        source: Some(Label::parse(&text.source)?),
        created_at: None,
        expires_at: None,
        supersedes: Vec::new(),
        source_id: text.source_id.as_deref().map(Label::parse).transpose()?,
        tags: text
            .tags
            .iter()
            .map(|tag| Label::parse(tag))
            .collect::<Result<_, _>>()?,
    })
}

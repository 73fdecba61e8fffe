//! What is judged: each ranker answers a query with the texts it finds, best first.

use anyhow::Result;
use orchestra_board::{Slug, Timestamp};
use orchestra_engine::vectors::Within;
use orchestra_memory::search::{Near, Search, search, weight};
use orchestra_store::{ContextItem, MemoryFilter};

use crate::models::Model;
use crate::set::{Memory, Query, Set};

/// How many texts a ranker is asked for.
pub(crate) const WANTED: u32 = 10;

/// How many hits by meaning there are beside those by words, as the tools ask for.
const NEAR: usize = 100;

/// Something that finds texts.
pub(crate) trait Ranker {
    /// What it is called.
    fn name(&self) -> &str;

    /// The ids of the texts that fit, best first, at most [`WANTED`].
    fn rank(&self, query: &Query) -> Result<Vec<String>>;
}

/// All rankers, from the plainest on.
pub(crate) fn all<'a>(
    set: &'a Set,
    memory: &'a Memory,
    models: &'a [Model],
) -> Vec<Box<dyn Ranker + 'a>> {
    let mut all: Vec<Box<dyn Ranker>> = vec![
        Box::new(Substrings(set)),
        Box::new(Bm25(memory)),
        Box::new(Words(memory)),
    ];
    for model in models {
        all.push(Box::new(Meaning { memory, model }));
        all.push(Box::new(Hybrid {
            name: format!("{} + words", model.name),
            meaning: Meaning { memory, model },
        }));
    }
    all
}

/// What the earlier program did: the share of a query's words that occur somewhere in a text, as
/// parts of other words too; among equals the newest first.
struct Substrings<'a>(&'a Set);

impl Ranker for Substrings<'_> {
    fn name(&self) -> &str {
        "substrings"
    }

    fn rank(&self, query: &Query) -> Result<Vec<String>> {
        let wanted = query.query.to_lowercase();
        let words: Vec<&str> = wanted.split_whitespace().collect();
        let mut found: Vec<(usize, &str)> = Vec::new();
        for text in self.0.texts.iter().rev() {
            let line = format!("{} {} {}", text.summary, text.content, text.tags.join(" "));
            let line = line.to_lowercase();
            let count = words.iter().filter(|word| line.contains(*word)).count();
            if count > 0 && text.project == query.project {
                found.push((count, &text.id));
            }
        }
        found.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let ids = found.iter().map(|(_, id)| (*id).to_owned());
        Ok(ids.take(WANTED as usize).collect())
    }
}

/// BM25 as the store's full-text index has it, and nothing else.
struct Bm25<'a>(&'a Memory);

impl Ranker for Bm25<'_> {
    fn name(&self) -> &str {
        "bm25"
    }

    fn rank(&self, query: &Query) -> Result<Vec<String>> {
        let project = Slug::parse(&query.project)?;
        let hits = self
            .0
            .store
            .read(|reader| reader.search_memory(&project, &query.query, WANTED))?;
        let names = hits
            .iter()
            .filter_map(|hit| self.0.name(&query.project, hit.item.id));
        Ok(names.map(str::to_owned).collect())
    }
}

/// Search as the tools have it where there is no model.
struct Words<'a>(&'a Memory);

impl Ranker for Words<'_> {
    fn name(&self) -> &str {
        "words"
    }

    fn rank(&self, query: &Query) -> Result<Vec<String>> {
        self.0.find(query, &[], 0.0)
    }
}

impl Memory {
    fn find(&self, query: &Query, near: &[Near], weight: f64) -> Result<Vec<String>> {
        let project = Slug::parse(&query.project)?;
        let filter = MemoryFilter::default();
        let ask = Search {
            project: &project,
            query: &query.query,
            filter: &filter,
            limit: WANTED as usize,
            sessions: false,
            now: Timestamp::parse("2026-09-01T00:00:00Z")?,
            near,
            weight,
        };
        let found = self.store.read(|reader| search(reader, &ask))?;
        let names = found.iter().filter_map(|found| match &found.item {
            ContextItem::Chunk(chunk) => self.name(&query.project, chunk.id),
            ContextItem::Session(_) => None,
        });
        Ok(names.map(str::to_owned).collect())
    }
}

/// What a model finds by itself.
struct Meaning<'a> {
    memory: &'a Memory,
    model: &'a Model,
}

impl Meaning<'_> {
    fn near(&self, query: &Query) -> Result<Vec<Near>> {
        let project = Slug::parse(&query.project)?;
        let store = &self.memory.store;
        let rows = store.read(|reader| reader.remembered_range(&project))?;
        let within = Within::rows(rows);
        let near = self.model.index.near(&query.query, NEAR, &within)?;
        let hit = |near: &orchestra_engine::vectors::Near| Near {
            row: near.row,
            similarity: f64::from(near.similarity),
        };
        Ok(near.iter().map(hit).collect())
    }
}

impl Ranker for Meaning<'_> {
    fn name(&self) -> &str {
        &self.model.name
    }

    fn rank(&self, query: &Query) -> Result<Vec<String>> {
        let project = Slug::parse(&query.project)?;
        let mut ids = Vec::new();
        for near in self.near(query)?.iter().take(WANTED as usize) {
            let store = &self.memory.store;
            let item = store.read(|reader| reader.remembered_at(&project, near.row))?;
            if let Some(ContextItem::Chunk(chunk)) = item {
                ids.extend(self.memory.name(&query.project, chunk.id));
            }
        }
        Ok(ids.into_iter().map(str::to_owned).collect())
    }
}

/// Search as the tools have it where there is a model.
struct Hybrid<'a> {
    name: String,
    meaning: Meaning<'a>,
}

impl Ranker for Hybrid<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn rank(&self, query: &Query) -> Result<Vec<String>> {
        let Meaning { memory, model } = self.meaning;
        let near = self.meaning.near(query)?;
        memory.find(query, &near, weight(model.kind))
    }
}

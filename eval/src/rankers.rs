//! What is judged: each ranker answers a query with the texts it finds, best first.

use anyhow::Result;
use orchestra_board::{Slug, Timestamp};
use orchestra_memory::search::{Search, search};
use orchestra_store::{ContextItem, MemoryFilter};

use crate::set::{Memory, Query, Set};

/// How many texts a ranker is asked for.
pub(crate) const WANTED: u32 = 10;

/// Something that finds texts.
pub(crate) trait Ranker {
    /// What it is called.
    fn name(&self) -> &str;

    /// The ids of the texts that fit, best first, at most [`WANTED`].
    fn rank(&self, query: &Query) -> Result<Vec<String>>;
}

/// All rankers, from the plainest on.
pub(crate) fn all<'a>(set: &'a Set, memory: &'a Memory) -> Vec<Box<dyn Ranker + 'a>> {
    vec![
        Box::new(Substrings(set)),
        Box::new(Bm25(memory)),
        Box::new(Words(memory)),
    ]
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
        let project = Slug::parse(&query.project)?;
        let filter = MemoryFilter::default();
        let ask = Search {
            project: &project,
            query: &query.query,
            filter: &filter,
            limit: WANTED as usize,
            sessions: false,
            now: Timestamp::parse("2026-09-01T00:00:00Z")?,
            near: &[],
            weight: 0.0,
        };
        let found = self.0.store.read(|reader| search(reader, &ask))?;
        let names = found.iter().filter_map(|found| match &found.item {
            ContextItem::Chunk(chunk) => self.0.name(&query.project, chunk.id),
            ContextItem::Session(_) => None,
        });
        Ok(names.map(str::to_owned).collect())
    }
}

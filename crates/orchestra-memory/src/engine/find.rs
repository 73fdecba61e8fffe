//! Searching for those who ask over the wire: by words, and by meaning where there is a model.

use orchestra_board::Slug;
use orchestra_store::{MemoryFilter, ReadError, Store};
use tonic::Status;

use super::{
    answers::fitting,
    convert,
    generated::{ContextResponse, SearchResponse},
    meaning::Meaning,
    status,
};
use crate::model::ModelKind;
use crate::search::{Asked, Near, Search, gather, search, weight};

/// How many rows are asked for that are near: enough to be weighed against those that hold the words, where
/// sessions, superseded and expired texts are among them, which are left out before they are counted.
const NEAR: usize = 1_000;
/// How many tokens context may cost: a caller here says how many pieces it wants, not how long ones.
const BUDGET: usize = 200_000;

/// A way to search.
pub(crate) type By<T> = fn(&Store, Option<&dyn Meaning>, &Wanted) -> Result<T, Status>;

/// What is searched for.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) project: Slug,
    pub(crate) query: String,
    pub(crate) limit: usize,
}

/// The remembered texts that fit. Blocks.
pub(crate) fn texts(
    store: &Store,
    meaning: Option<&dyn Meaning>,
    wanted: &Wanted,
) -> Result<SearchResponse, Status> {
    let (near, weight) = near(meaning, wanted);
    let filter = MemoryFilter::default();
    let ask = Search {
        project: &wanted.project,
        query: &wanted.query,
        filter: &filter,
        limit: wanted.limit,
        sessions: false,
        now: store.now(),
        near: &near,
        weight,
    };
    let found = store.read(|reader| search(reader, &ask));
    let found = found.map_err(|error: ReadError| status::of_read(&error))?;
    let scored = wanted.scores();
    let found = found
        .iter()
        .map(|found| convert::item(&found.item, scored * found.score));
    Ok(SearchResponse {
        results: fitting(found),
    })
}

/// What fits the work at hand. Blocks.
pub(crate) fn context(
    store: &Store,
    meaning: Option<&dyn Meaning>,
    wanted: &Wanted,
) -> Result<ContextResponse, Status> {
    let (near, weight) = near(meaning, wanted);
    let asked = Asked {
        project: &wanted.project,
        query: &wanted.query,
        limit: wanted.limit,
        budget: BUDGET,
        now: store.now(),
        near: &near,
        weight,
    };
    let found = store.read(|reader| gather(reader, &asked));
    let found = found.map_err(|error: ReadError| status::of_read(&error))?;
    let scored = wanted.scores();
    let found = found
        .pieces
        .iter()
        .map(|piece| convert::piece(&wanted.project, piece, scored));
    Ok(ContextResponse {
        chunks: fitting(found),
    })
}

impl Wanted {
    /// What scores are multiplied with: where nothing was searched for, nothing fits better.
    fn scores(&self) -> f64 {
        f64::from(u8::from(!self.query.trim().is_empty()))
    }
}

/// What is near, and how much that counts beside words; nothing where it cannot be said now.
fn near(meaning: Option<&dyn Meaning>, wanted: &Wanted) -> (Vec<Near>, f64) {
    let Some(meaning) = meaning.filter(|_| !wanted.query.trim().is_empty()) else {
        return (Vec::new(), 0.0);
    };
    match meaning.near(&wanted.project, &wanted.query, NEAR) {
        Ok(hits) => {
            let near = hits.iter().map(|hit| Near {
                row: hit.row,
                similarity: f64::from(hit.similarity),
            });
            // Who does not say what it is is trusted the least.
            let kind = meaning.standing().kind.unwrap_or(ModelKind::Static);
            (near.collect(), weight(kind))
        }
        Err(error) => {
            tracing::debug!(%error, "search by meaning failed; searching by words only");
            (Vec::new(), 0.0)
        }
    }
}

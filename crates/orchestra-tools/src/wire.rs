//! What tools answer: one type per shape, whatever the tool. Fields that are empty are left out;
//! every list is `{items, total, next_cursor?}`.

mod issue;
mod project;
mod word;

pub(crate) use issue::{Address, Ancestors, Brief, ClaimOut, IssueFull, Row, claim_now};
pub(crate) use project::{ProjectFull, ProjectRow, completion};
pub(crate) use word::{Counts, Word};

use orchestra_board::Timestamp;
use orchestra_store::Page;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

/// A page of a list.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
    pub(crate) total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

impl<T> List<T> {
    /// A list that is shown whole.
    pub(crate) fn whole(items: Vec<T>) -> Self {
        let total = items.len() as u64;
        Self {
            items,
            total,
            next_cursor: None,
        }
    }

    /// A page of the store, each item made what is answered.
    pub(crate) fn of<S>(page: Page<S>, show: impl FnMut(S) -> T) -> Self {
        let Page {
            items,
            total,
            next_cursor,
        } = page;
        Self {
            items: items.into_iter().map(show).collect(),
            total,
            next_cursor,
        }
    }
}

/// A point in time as it is answered.
pub(crate) fn time(at: Timestamp) -> String {
    at.to_string()
}

/// Text that is left out when it is empty.
pub(crate) fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

//! A project as it is answered: whole, and as a row of a list.

use orchestra_board::{Kind, State};
use orchestra_store::{Census, IssueFilter, PageRequest, ProjectRecord, Reader};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::{Address, Counts, List, filled, time};
use crate::failure::Failure;

/// A project in a list.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct ProjectRow {
    slug: String,
    name: String,
    key: String,
    status: &'static str,
    tasks: u64,
    done: u64,
}

/// A project with counts and the first rows of what is in it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub(crate) struct ProjectFull {
    project: String,
    slug: String,
    key: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_slug: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<u32>,
    completion_pct: f64,
    by_status: Counts,
    by_type: Counts,
    epics: List<Address>,
    stories: List<Address>,
    tasks: List<Address>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    updated_at: Option<String>,
}

/// What every project is, as long as it is there.
const ACTIVE: &str = "active";

/// How much of the work that is still wanted is done, in percent with one decimal.
pub(crate) fn completion(census: &Census) -> f64 {
    let dropped = census.leaves_in(State::Rejected) + census.leaves_in(State::Cancelled);
    let wanted = census.leaves() - dropped;
    if wanted == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a percentage, shown only")]
    let share = census.leaves_in(State::Done) as f64 / wanted as f64;
    (share * 1_000.0).round() / 10.0
}

impl ProjectRow {
    pub(crate) fn new(record: &ProjectRecord) -> Self {
        Self {
            slug: record.project.slug.to_string(),
            name: record.project.name.to_string(),
            key: record.project.key.to_string(),
            status: ACTIVE,
            tasks: record.census.leaves(),
            done: record.census.leaves_in(State::Done),
        }
    }
}

impl ProjectFull {
    /// The project with at most `limit` rows of each kind.
    pub(crate) fn read(
        reader: &Reader<'_>,
        record: &ProjectRecord,
        limit: u32,
    ) -> Result<Self, Failure> {
        let ProjectRecord { project, census } = record;
        let rows = |kinds: &[Kind]| -> Result<List<Address>, Failure> {
            let filter = IssueFilter {
                kinds: kinds.to_vec(),
                ..IssueFilter::default()
            };
            let found = reader.issues(&project.slug, &filter, &PageRequest::first(limit))?;
            Ok(List::of(found, |record| Address::from(&record.issue)))
        };
        Ok(Self {
            project: project.name.to_string(),
            slug: project.slug.to_string(),
            key: project.key.to_string(),
            status: ACTIVE,
            description: filled(project.description.as_str()),
            parent_slug: project
                .phase_of
                .as_ref()
                .map(|(parent, _)| parent.to_string()),
            phase: project.phase_of.as_ref().map(|(_, phase)| *phase),
            completion_pct: completion(census),
            by_status: Counts::by_state(census),
            by_type: Counts::by_kind(census),
            epics: rows(&[Kind::Epic])?,
            stories: rows(&[Kind::Story])?,
            tasks: rows(&[Kind::Task, Kind::Bug, Kind::Hotfix])?,
            created_at: time(project.created_at),
            updated_at: project.updated_at.map(time),
        })
    }
}

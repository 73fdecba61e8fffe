//! What every tool works with: the store, the workspace and the settings of the provider.

use std::path::Path;
use std::sync::Arc;

use orchestra_board::{IssueId, IssueRef, Kind, Refusal, Slug, Timestamp};
use orchestra_memory::engine::{Engines, NearAnswer};
use orchestra_store::{IssueRecord, PageRequest, ProjectRecord, Reader, Store};

use crate::args::{Arg, Limit};
use crate::builtin::EmptyBoardHint;
use crate::bundle::Bundle;
use crate::failure::Failure;
use crate::plan_service::PlanService;
use crate::text::TextFormat;

/// What every tool works with.
pub(crate) struct Services {
    store: Store,
    workspace_text: String,
    text: TextFormat,
    bundle: Arc<dyn Bundle>,
    engines: Option<Engines>,
    plans: Option<Arc<dyn PlanService>>,
    empty_board_hint: Option<EmptyBoardHint>,
}

impl Services {
    pub(crate) fn new(
        store: Store,
        text: TextFormat,
        bundle: Arc<dyn Bundle>,
        engines: Option<Engines>,
        plans: Option<Arc<dyn PlanService>>,
        empty_board_hint: Option<EmptyBoardHint>,
    ) -> Self {
        let workspace_text = store.workspace().to_string_lossy().into_owned();
        Self {
            store,
            workspace_text,
            text,
            bundle,
            engines,
            plans,
            empty_board_hint,
        }
    }

    pub(crate) const fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.store.workspace()
    }

    /// The path of the workspace as errors might show it.
    pub(crate) fn workspace_text(&self) -> &str {
        &self.workspace_text
    }

    pub(crate) const fn text(&self) -> TextFormat {
        self.text
    }

    pub(crate) fn bundle(&self) -> &dyn Bundle {
        &*self.bundle
    }

    /// Whoever runs the plans, if anybody does.
    pub(crate) fn plans(&self) -> Option<Arc<dyn PlanService>> {
        self.plans.clone()
    }

    /// What is near a query in meaning, for a tool; `None` where nothing says so in time.
    pub(crate) async fn near(&self, tool: &str, query: &NearQuery) -> Option<NearAnswer> {
        let engines = self.engines.as_ref()?;
        // Nothing is near to marks and blanks.
        if !query.text.contains(char::is_alphanumeric) {
            return None;
        }
        engines
            .near(tool, &query.project, &query.text, query.limit)
            .await
    }

    /// Next step for a board without projects, if there is one besides creating a project.
    pub(crate) fn empty_board_hint(&self) -> Option<&'static str> {
        self.empty_board_hint.as_ref().and_then(|hint| hint())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.store.now()
    }

    /// Reads in place, in one transaction.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Reader<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.store.read(|reader| Ok(read(reader)))?
    }
}

/// What a tool wants to be found by meaning.
pub(crate) struct NearQuery {
    pub(crate) project: Slug,
    pub(crate) text: String,
    pub(crate) limit: u32,
}

/// An issue as the arguments of a call name it.
pub(crate) fn target(
    project: Arg<Slug>,
    epic: Option<Arg<IssueId>>,
    story: Option<Arg<IssueId>>,
    id: Arg<IssueId>,
) -> IssueRef {
    IssueRef {
        project: project.0,
        id: id.0,
        epic: epic.map(|id| id.0),
        story: story.map(|id| id.0),
    }
}

/// Which page of a list is wanted.
pub(crate) fn page(
    limit: Option<Limit>,
    cursor: Option<Arg<orchestra_store::Cursor>>,
) -> PageRequest {
    PageRequest {
        limit: limit.map_or(PageRequest::DEFAULT_LIMIT, Limit::get),
        cursor: cursor.map(|cursor| cursor.0),
    }
}

/// The project, or the refusal that there is none.
pub(crate) fn project(reader: &Reader<'_>, slug: &Slug) -> Result<ProjectRecord, Failure> {
    match reader.project(slug)? {
        Some(record) => Ok(record),
        None => Err(Refusal::NoProject {
            project: slug.clone(),
        }
        .into()),
    }
}

/// The issue that a caller names, after its ancestors were checked, as the board checks them
/// before a change.
pub(crate) fn find(
    reader: &Reader<'_>,
    target: &IssueRef,
    what: Sort,
) -> Result<IssueRecord, Failure> {
    let IssueRef {
        project: slug,
        id,
        epic,
        story,
    } = target;
    let Some(record) = reader.issue(slug, id)? else {
        project(reader, slug)?;
        let what = what.name();
        return Err(Refusal::NoIssue {
            kind: what,
            id: id.clone(),
            project: slug.clone(),
        }
        .into());
    };
    if !what.fits(record.issue.kind) {
        let (id, kind, expected) = (record.issue.id, record.issue.kind, what.name());
        return Err(Refusal::WrongKind { id, kind, expected }.into());
    }
    check_ancestor(
        reader,
        &record,
        "story",
        story.as_ref(),
        record.story.as_ref(),
    )?;
    check_ancestor(reader, &record, "epic", epic.as_ref(), record.epic.as_ref())?;
    Ok(record)
}

fn check_ancestor(
    reader: &Reader<'_>,
    record: &IssueRecord,
    what: &'static str,
    given: Option<&IssueId>,
    actual: Option<&IssueId>,
) -> Result<(), Failure> {
    let (Some(given), Some(actual)) = (given, actual) else {
        return Ok(());
    };
    let issue = &record.issue;
    let alias = || {
        reader
            .issue(&issue.project, given)
            .map(|found| found.is_some_and(|found| found.issue.id == *actual))
    };
    if given == actual || alias()? {
        return Ok(());
    }
    let (id, given, actual) = (issue.id.clone(), given.clone(), actual.clone());
    Err(Refusal::WrongParent {
        id,
        what,
        given,
        actual,
    }
    .into())
}

/// What a tool takes an issue for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    /// An epic.
    Epic,
    /// A story.
    Story,
    /// A task, bug or hotfix.
    Task,
    /// Any of them.
    Any,
}

impl Sort {
    const fn fits(self, kind: Kind) -> bool {
        match self {
            Self::Epic => matches!(kind, Kind::Epic),
            Self::Story => matches!(kind, Kind::Story),
            Self::Task => kind.is_leaf(),
            Self::Any => true,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Epic => "epic",
            Self::Story => "story",
            Self::Task => "task",
            Self::Any => "issue",
        }
    }
}

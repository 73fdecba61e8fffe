//! What a decision may look at.

use std::ops::ControlFlow;

use crate::{Issue, IssueId, Key, PrdSession, Project, Slug, Tally};

/// What stands behind a view failed to answer.
pub type ViewError = Box<dyn std::error::Error + Send + Sync>;

/// The stored board, as a decision sees it: inside one transaction of the store, or a model.
///
/// Every method fails only when what stands behind it does.
#[expect(clippy::missing_errors_doc, reason = "said once, for all of them")]
pub trait View {
    /// A project.
    fn project(&self, slug: &Slug) -> Result<Option<Project>, ViewError>;

    /// Whether a project of the workspace has this key.
    fn key_taken(&self, key: &Key) -> Result<bool, ViewError>;

    /// An issue, by its id or by an alias that a renumbering left behind.
    fn issue(&self, project: &Slug, id: &IssueId) -> Result<Option<Issue>, ViewError>;

    /// The states of an issue's children.
    fn tally(&self, project: &Slug, parent: &IssueId) -> Result<Tally, ViewError>;

    /// The ids of an issue's children, ascending.
    fn children(&self, project: &Slug, parent: &IssueId) -> Result<Vec<IssueId>, ViewError>;

    /// Shows the tasks that have a [`rank`](crate::rank), by rank and then by id, until `visit`
    /// breaks.
    fn ranked(
        &self,
        project: &Slug,
        visit: &mut dyn FnMut(Issue) -> Result<ControlFlow<()>, ViewError>,
    ) -> Result<(), ViewError>;

    /// The PRD questionnaire of a project.
    fn prd_session(&self, project: &Slug) -> Result<Option<PrdSession>, ViewError>;

    /// Whether a usage session is open.
    fn usage_session_open(&self) -> Result<bool, ViewError>;
}

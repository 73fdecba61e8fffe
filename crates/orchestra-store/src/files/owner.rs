//! Whose files are out of date: the unit in which the database tells the files of a change.

use orchestra_board::{IssueId, PlanId, SessionId, Slug};

use super::place::Place;
use crate::DocumentPath;
use crate::toon::IssuePlace;

/// What the key of a document begins with.
const DOCUMENT: &str = "document/";

/// One thing in the database that has files of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// `project-status.toon`: due after every change in the project. When the project is gone, all
    /// of its files go.
    Project(Slug),
    /// An epic, story or task: its fields, description and history. When it is gone, all files at
    /// its place and below go.
    Issue(Slug, IssueId),
    /// `prd.md`
    Prd(Slug),
    /// `prd-session.toon`
    PrdSession(Slug),
    /// `requests.toon`
    Requests(Slug),
    /// `README.md`
    Readme(Slug),
    /// A saved plan.
    Plan(Slug, PlanId),
    /// A segment of the remembered texts, as the column `segment` of the table `chunk` has it.
    Chunks(Slug, u64),
    /// A session; the list of sessions follows it.
    Session(Slug, SessionId),
    /// `.memory/sessions/index.toon`
    Sessions(Slug),
    /// The hook events of the workspace.
    HookEvents,
    /// The usage of the workspace.
    Usage,
    /// A document of a plugin.
    Document(DocumentPath),
}

impl Owner {
    /// Whether a key is a document's.
    pub(crate) fn is_document(key: &str) -> bool {
        key.starts_with(DOCUMENT)
    }

    /// Whose file stands at a place.
    pub(crate) fn of(place: &Place) -> Self {
        match place {
            Place::Project(slug) => Self::Project(slug.clone()),
            Place::Prd(slug) => Self::Prd(slug.clone()),
            Place::PrdSession(slug) => Self::PrdSession(slug.clone()),
            Place::Requests(slug) => Self::Requests(slug.clone()),
            Place::Readme(slug) => Self::Readme(slug.clone()),
            Place::Plan(slug, plan) => Self::Plan(slug.clone(), plan.clone()),
            Place::Issue(place, _) => Self::of_issue(place),
            Place::Chunks(slug, segment) => Self::Chunks(slug.clone(), *segment),
            Place::SessionIndex(slug) => Self::Sessions(slug.clone()),
            Place::Session(slug, id) => Self::Session(slug.clone(), id.clone()),
            Place::HookEvents => Self::HookEvents,
            Place::Usage => Self::Usage,
            Place::Document(path) => Self::Document(path.clone()),
        }
    }

    /// Whose files stand at an issue's place.
    pub(crate) fn of_issue(place: &IssuePlace) -> Self {
        Self::Issue(place.project.clone(), place.id.clone())
    }

    /// The owner as text, as the tables `dirty` and `file` have it.
    pub(crate) fn key(&self) -> String {
        match self {
            Self::Project(slug) => format!("project/{slug}"),
            Self::Issue(slug, id) => format!("issue/{slug}/{id}"),
            Self::Prd(slug) => format!("prd/{slug}"),
            Self::PrdSession(slug) => format!("prd-session/{slug}"),
            Self::Requests(slug) => format!("requests/{slug}"),
            Self::Readme(slug) => format!("readme/{slug}"),
            Self::Plan(slug, plan) => format!("plan/{slug}/{plan}"),
            Self::Chunks(slug, segment) => format!("chunks/{slug}/{segment}"),
            Self::Session(slug, id) => format!("session/{slug}/{id}"),
            Self::Sessions(slug) => format!("sessions/{slug}"),
            Self::HookEvents => "hook-events".to_owned(),
            Self::Usage => "usage".to_owned(),
            Self::Document(path) => format!("{DOCUMENT}{path}"),
        }
    }

    /// The project that it is of, if of one.
    pub(crate) const fn project(&self) -> Option<&Slug> {
        match self {
            Self::Project(slug)
            | Self::Issue(slug, _)
            | Self::Prd(slug)
            | Self::PrdSession(slug)
            | Self::Requests(slug)
            | Self::Readme(slug)
            | Self::Plan(slug, _)
            | Self::Chunks(slug, _)
            | Self::Session(slug, _)
            | Self::Sessions(slug) => Some(slug),
            Self::HookEvents | Self::Usage | Self::Document(_) => None,
        }
    }

    /// Returns whether its file is a text that contains neither its earlier content nor the time of its changes.
    pub(crate) const fn lacks_history(&self) -> bool {
        match self {
            Self::Document(_)
            | Self::Prd(_)
            | Self::PrdSession(_)
            | Self::Readme(_)
            | Self::Session(..) => true,
            Self::Project(_)
            | Self::Issue(..)
            | Self::Requests(_)
            | Self::Plan(..)
            | Self::Chunks(..)
            | Self::Sessions(_)
            | Self::HookEvents
            | Self::Usage => false,
        }
    }

    /// Reads back [`Owner::key`]; `None` for other text.
    pub(crate) fn parse(key: &str) -> Option<Self> {
        if let Some(path) = key.strip_prefix(DOCUMENT) {
            return DocumentPath::parse_existing(path).ok().map(Self::Document);
        }
        let mut parts = key.splitn(3, '/');
        let kind = parts.next()?;
        let (slug, rest) = (parts.next(), parts.next());
        match (kind, rest) {
            ("hook-events", _) => return Some(Self::HookEvents),
            ("usage", _) => return Some(Self::Usage),
            _ => {}
        }
        let slug = Slug::parse(slug?).ok()?;
        Some(match (kind, rest) {
            ("project", None) => Self::Project(slug),
            ("prd", None) => Self::Prd(slug),
            ("prd-session", None) => Self::PrdSession(slug),
            ("requests", None) => Self::Requests(slug),
            ("readme", None) => Self::Readme(slug),
            ("sessions", None) => Self::Sessions(slug),
            ("issue", Some(id)) => Self::Issue(slug, IssueId::parse(id).ok()?),
            ("plan", Some(plan)) => Self::Plan(slug, PlanId::parse(plan).ok()?),
            ("chunks", Some(segment)) => Self::Chunks(slug, segment.parse().ok()?),
            ("session", Some(id)) => Self::Session(slug, SessionId::parse(id).ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Owner;

    #[test]
    fn keys_are_read_back() {
        for key in [
            "project/a",
            "issue/a/A-1",
            "prd/a",
            "prd-session/a",
            "requests/a",
            "readme/a",
            "sessions/a",
            "plan/a/b",
            "chunks/a/3",
            "session/a/s.1",
            "hook-events",
            "usage",
            "document/a/b.md",
            "document/notes.md",
        ] {
            assert_eq!(
                Owner::parse(key).map(|owner| owner.key()).as_deref(),
                Some(key)
            );
        }
        for key in [
            "",
            "issue/a",
            "issue/../A-1",
            "plan/a/../b",
            "x/a",
            "document/../x.md",
        ] {
            assert_eq!(Owner::parse(key), None, "{key}");
        }
    }
}

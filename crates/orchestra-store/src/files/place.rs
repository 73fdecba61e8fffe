//! Which file stands where below `.projects/`, both ways: the one table of names.

use std::path::{Path, PathBuf};

use orchestra_board::{IssueId, PlanId, SessionId, Slug};

use crate::DocumentPath;
use crate::document::can_be_made_by_hand;
use crate::toon::IssuePlace;

/// What a readable file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// `{slug}/project-status.toon`
    Project(Slug),
    /// `{slug}/prd.md`
    Prd(Slug),
    /// `{slug}/prd-session.toon`
    PrdSession(Slug),
    /// `{slug}/requests.toon`
    Requests(Slug),
    /// `{slug}/README.md`
    Readme(Slug),
    /// `{slug}/.plans/{plan}.md`
    Plan(Slug, PlanId),
    /// A file of an issue.
    Issue(IssuePlace, Part),
    /// `{slug}/.memory/chunks.toon`, then `chunks-2.toon` and on; the first segment is 1.
    Chunks(Slug, u64),
    /// `{slug}/.memory/sessions/index.toon`
    SessionIndex(Slug),
    /// `{slug}/.memory/sessions/{id}.toon`
    Session(Slug, SessionId),
    /// `.events/hook-events.toon`; see [`PRIVATE`].
    HookEvents,
    /// `.usage/usage.toon`
    Usage,
    /// A document of a plugin, anywhere else.
    Document(DocumentPath),
}

/// Which of an issue's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// `epic.toon`, `story.toon` or `tasks/{id}.toon`
    Fields,
    /// `{id}.md`
    Description,
    /// `{id}.history.jsonl`
    History,
}

/// The ending of the file that holds our side of a conflict.
pub(crate) const CONFLICT: &str = ".conflict";
/// The last segment of remembered texts that a project can have; its quota is far below.
const LAST_SEGMENT: u64 = 1_000_000;
/// The ending of a file in the making.
pub(crate) const TEMP: &str = ".orchestra-tmp";

/// The directories right below `.projects/` that hold nothing readable; the database is written all
/// the time.
pub(crate) const OTHERS: [&str; 2] = [".store", ".run"];

/// The directory of what concerns only whoever works here: what hooks reported of their commands.
/// Its files are readable for their owner alone, and git is told to leave them out.
pub(crate) const PRIVATE: &str = ".events/";

impl Place {
    /// The path below `.projects/`, with `/` between the names.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Project(slug) => format!("{slug}/project-status.toon"),
            Self::Prd(slug) => format!("{slug}/prd.md"),
            Self::PrdSession(slug) => format!("{slug}/prd-session.toon"),
            Self::Requests(slug) => format!("{slug}/requests.toon"),
            Self::Readme(slug) => format!("{slug}/README.md"),
            Self::Plan(slug, plan) => format!("{slug}/.plans/{plan}.md"),
            Self::Issue(place, part) => issue_path(place, *part),
            Self::Chunks(slug, 1) => format!("{slug}/.memory/chunks.toon"),
            Self::Chunks(slug, segment) => format!("{slug}/.memory/chunks-{segment}.toon"),
            Self::SessionIndex(slug) => format!("{slug}/.memory/sessions/index.toon"),
            Self::Session(slug, id) => format!("{slug}/.memory/sessions/{id}.toon"),
            Self::HookEvents => ".events/hook-events.toon".to_owned(),
            Self::Usage => ".usage/usage.toon".to_owned(),
            Self::Document(path) => path.to_string(),
        }
    }

    /// What stands at a path below `.projects/`; `None` for what is none of ours.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        Self::of_board(path).or_else(|| {
            let document = DocumentPath::parse(path).ok()?;
            (document.as_str() == path).then_some(Self::Document(document))
        })
    }

    /// What stands at the path of a file that nobody here has written; `None` for what is not taken
    /// in.
    pub(crate) fn found(path: &str) -> Option<Self> {
        Self::parse(path).filter(|place| match place {
            Self::Document(path) => can_be_made_by_hand(path),
            _ => true,
        })
    }

    fn of_board(path: &str) -> Option<Self> {
        let names: Vec<&str> = path.split('/').collect();
        match names.as_slice() {
            [".events", "hook-events.toon"] => Some(Self::HookEvents),
            [".usage", "usage.toon"] => Some(Self::Usage),
            [slug, rest @ ..] => Self::in_project(Slug::parse(slug).ok()?, rest),
            [] => None,
        }
    }

    fn in_project(slug: Slug, rest: &[&str]) -> Option<Self> {
        match rest {
            ["project-status.toon"] => Some(Self::Project(slug)),
            ["prd.md"] => Some(Self::Prd(slug)),
            ["prd-session.toon"] => Some(Self::PrdSession(slug)),
            ["requests.toon"] => Some(Self::Requests(slug)),
            ["README.md"] => Some(Self::Readme(slug)),
            [".plans", name] => {
                let plan = PlanId::parse(name.strip_suffix(".md")?).ok()?;
                Some(Self::Plan(slug, plan))
            }
            [".memory", "chunks.toon"] => Some(Self::Chunks(slug, 1)),
            [".memory", name] => {
                let digits = name.strip_prefix("chunks-")?.strip_suffix(".toon")?;
                let segment: u64 = digits
                    .parse()
                    .ok()
                    .filter(|segment| (2..=LAST_SEGMENT).contains(segment))?;
                (digits == segment.to_string()).then_some(Self::Chunks(slug, segment))
            }
            [".memory", "sessions", "index.toon"] => Some(Self::SessionIndex(slug)),
            [".memory", "sessions", name] => Some(Self::Session(
                slug,
                SessionId::parse(name.strip_suffix(".toon")?).ok()?,
            )),
            ["epics", epic, rest @ ..] => Self::in_epic(slug, IssueId::parse(epic).ok()?, rest),
            _ => None,
        }
    }

    fn in_epic(project: Slug, epic: IssueId, rest: &[&str]) -> Option<Self> {
        let (place, name, fields) = match rest {
            ["stories", story, "tasks", name] => {
                let story = IssueId::parse(story).ok()?;
                let stem = name.split('.').next()?;
                let id = IssueId::parse(stem).ok()?;
                let fields = format!("{stem}.toon");
                (
                    IssuePlace {
                        project,
                        id,
                        epic: Some(epic),
                        story: Some(story),
                    },
                    *name,
                    fields,
                )
            }
            ["stories", story, name] => {
                let id = IssueId::parse(story).ok()?;
                (
                    IssuePlace {
                        project,
                        id,
                        epic: Some(epic),
                        story: None,
                    },
                    *name,
                    "story.toon".to_owned(),
                )
            }
            [name] => (
                IssuePlace {
                    project,
                    id: epic,
                    epic: None,
                    story: None,
                },
                *name,
                "epic.toon".to_owned(),
            ),
            _ => return None,
        };
        let part = if name == fields {
            Part::Fields
        } else {
            match name.strip_prefix(&place.id.to_string())? {
                ".md" => Part::Description,
                ".history.jsonl" => Part::History,
                _ => return None,
            }
        };
        Some(Self::Issue(place, part))
    }
}

fn issue_path(place: &IssuePlace, part: Part) -> String {
    let IssuePlace {
        project,
        id,
        epic,
        story,
    } = place;
    let (directory, fields) = match (epic, story) {
        (Some(epic), Some(story)) => (
            format!("{project}/epics/{epic}/stories/{story}/tasks"),
            format!("{id}.toon"),
        ),
        (Some(epic), None) => (
            format!("{project}/epics/{epic}/stories/{id}"),
            "story.toon".to_owned(),
        ),
        (None, _) => (format!("{project}/epics/{id}"), "epic.toon".to_owned()),
    };
    match part {
        Part::Fields => format!("{directory}/{fields}"),
        Part::Description => format!("{directory}/{id}.md"),
        Part::History => format!("{directory}/{id}.history.jsonl"),
    }
}

/// The path of a file below `root`, the directory `.projects`.
pub(crate) fn under(root: &Path, path: &str) -> PathBuf {
    let mut full = root.to_path_buf();
    full.extend(path.split('/'));
    full
}

/// The directory of a path below `.projects/`.
pub(crate) fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn paths_and_places_agree() {
        for path in [
            "a/project-status.toon",
            "a/prd.md",
            "a/prd-session.toon",
            "a/requests.toon",
            "a/README.md",
            "a/.plans/b.md",
            "a/epics/A-1/epic.toon",
            "a/epics/A-1/A-1.md",
            "a/epics/A-1/A-1.history.jsonl",
            "a/epics/A-1/stories/A-2/story.toon",
            "a/epics/A-1/stories/A-2/A-2.md",
            "a/epics/A-1/stories/A-2/tasks/BUG-3.toon",
            "a/epics/A-1/stories/A-2/tasks/BUG-3.md",
            "a/epics/A-1/stories/A-2/tasks/BUG-3.history.jsonl",
            "a/.memory/chunks.toon",
            "a/.memory/chunks-2.toon",
            "a/.memory/sessions/index.toon",
            "a/.memory/sessions/S.1.toon",
            ".events/hook-events.toon",
            ".usage/usage.toon",
            "a/features/FEAT-ABC.md",
            "notes.md",
        ] {
            let place = Place::parse(path);
            assert_eq!(place.map(|place| place.path()).as_deref(), Some(path));
        }
        for path in [
            "",
            "a",
            "../x/prd.md",
            "a/../prd.md",
            "a/epics/A-1/A-2.md",
            "a/epics/A-1/epic.toon.conflict",
            "a/epics/a/epic.toon",
            "a/epics/A-1/stories/A-2/tasks/A-3.toon.orchestra-tmp",
            "a/.memory/chunks-1.toon",
            "a/.memory/chunks-02.toon",
            "a/.memory/chunks-9999999999999999999.toon",
            ".store/board.db",
            "A/prd.md",
        ] {
            assert_eq!(Place::parse(path), None, "{path}");
        }
    }
}

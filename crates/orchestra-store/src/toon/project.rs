//! `project-status.toon`: the project, its counters, and for people what is in it.

use orchestra_board::{Body, IssueId, Key, PrdOrigin, Project, Slug, State, Timestamp, Title, Uid};

use super::write::Writer;
use super::{Document, FileError};

/// A row of the tables of epics and stories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: String,
    /// The epic of a story; empty for an epic.
    pub(crate) parent: String,
    pub(crate) title: String,
    pub(crate) state: State,
}

/// What `project-status.toon` shows beside the project itself. It follows from the issues' files
/// and is not read back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Shown {
    /// How many tasks are in each state, none left out but those without a task.
    pub(crate) counts: Vec<(State, u64)>,
    pub(crate) epics: Vec<Row>,
    pub(crate) stories: Vec<Row>,
}

/// An id that a renumbering left behind, and the one that took its place.
pub(crate) type Alias = (IssueId, IssueId);

/// An issue that was deleted, so that its file does not bring it back and its id is not given again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tombstone {
    pub(crate) id: IssueId,
    pub(crate) uid: Uid,
    /// When it was deleted.
    pub(crate) at: Timestamp,
}

/// The ids of a project that no issue has any more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Retired {
    pub(crate) aliases: Vec<Alias>,
    /// Oldest first.
    pub(crate) deleted: Vec<Tombstone>,
}

pub(crate) fn write(project: &Project, retired: &Retired, shown: &Shown) -> String {
    let mut file = Writer::new();
    file.text("project", project.name.as_str());
    file.shown("slug", &project.slug);
    file.shown("key", &project.key);
    if !project.description.is_empty() {
        file.shown("description", &project.description);
    }
    file.number("next_issue", project.next_issue);
    file.number("next_bug", project.next_bug);
    file.number("next_request", project.next_request);
    if let Some((parent, phase)) = &project.phase_of {
        file.shown("phase_of", parent);
        file.number("phase", u64::from(*phase));
    }
    file.text("prd", project.prd_origin.as_str());
    file.shown("created_at", &project.created_at);
    file.optional("updated_at", project.updated_at.as_ref());
    let aliases: Vec<[String; 2]> = retired
        .aliases
        .iter()
        .map(|(old, new)| [old.to_string(), new.to_string()])
        .collect();
    let aliases: Vec<[&str; 2]> = aliases
        .iter()
        .map(|[old, new]| [old.as_str(), new.as_str()])
        .collect();
    file.table("aliases", ["old", "new"], &aliases);
    let deleted: Vec<[String; 3]> = retired
        .deleted
        .iter()
        .map(|stone| {
            [
                stone.id.to_string(),
                stone.uid.to_string(),
                stone.at.to_string(),
            ]
        })
        .collect();
    let deleted: Vec<[&str; 3]> = deleted
        .iter()
        .map(|[id, uid, at]| [id.as_str(), uid.as_str(), at.as_str()])
        .collect();
    file.table("deleted", ["id", "uid", "at"], &deleted);
    file.numbers(
        "tasks",
        shown
            .counts
            .iter()
            .map(|(state, count)| (state.as_str(), *count)),
    );
    let epics: Vec<[&str; 3]> = shown
        .epics
        .iter()
        .map(|row| [row.id.as_str(), row.title.as_str(), row.state.as_str()])
        .collect();
    file.table("epics", ["id", "title", "status"], &epics);
    let stories: Vec<[&str; 4]> = shown
        .stories
        .iter()
        .map(|row| {
            [
                row.id.as_str(),
                row.parent.as_str(),
                row.title.as_str(),
                row.state.as_str(),
            ]
        })
        .collect();
    file.table("stories", ["id", "epic", "title", "status"], &stories);
    file.finish()
}

pub(crate) fn read(file: &str, text: &str, slug: &Slug) -> Result<(Project, Retired), FileError> {
    let mut fields = Document::parse(file, text)?;
    let named = fields.parsed("slug", Slug::parse)?;
    if named != *slug {
        return Err(fields.error("slug", format!("is {named}, but the directory is {slug}")));
    }
    let parent = fields.optional_parsed("phase_of", Slug::parse)?;
    let phase = fields.optional_number("phase")?;
    let phase_of = match (parent, phase.map(u32::try_from)) {
        (None, None) => None,
        (Some(parent), Some(Ok(phase))) => Some((parent, phase)),
        (Some(_), _) => return Err(fields.error("phase", "must be the number of the phase")),
        (None, Some(_)) => {
            return Err(fields.error("phase_of", "is missing, though phase is there"));
        }
    };
    let counter = |fields: &mut Document<'_>, key| {
        let number = fields.number(key)?;
        if (1..=LAST_NUMBER + 1).contains(&number) {
            Ok(number)
        } else {
            Err(fields.error(key, format!("must be 1 to {}", LAST_NUMBER + 1)))
        }
    };
    let project = Project {
        slug: named,
        key: fields.parsed("key", Key::parse)?,
        name: fields.parsed("project", Title::parse)?,
        description: fields
            .optional_parsed("description", Body::parse)?
            .unwrap_or_default(),
        next_issue: counter(&mut fields, "next_issue")?,
        next_bug: counter(&mut fields, "next_bug")?,
        next_request: counter(&mut fields, "next_request")?,
        phase_of,
        prd_origin: fields.named("prd", PrdOrigin::parse)?,
        created_at: fields.parsed("created_at", Timestamp::parse)?,
        updated_at: fields.optional_parsed("updated_at", Timestamp::parse)?,
    };
    let mut retired = Retired::default();
    for mut row in fields.rows("aliases")? {
        retired.aliases.push((
            row.parsed("old", IssueId::parse)?,
            row.parsed("new", IssueId::parse)?,
        ));
        row.finish()?;
    }
    for mut row in fields.rows("deleted")? {
        retired.deleted.push(Tombstone {
            id: row.parsed("id", IssueId::parse)?,
            uid: row.parsed("uid", Uid::parse)?,
            at: row.parsed("at", Timestamp::parse)?,
        });
        row.finish()?;
    }
    for shown in ["tasks", "epics", "stories"] {
        fields.ignore(shown);
    }
    fields.finish()?;
    Ok((project, retired))
}

/// The largest number an id can have: 15 digits.
const LAST_NUMBER: u64 = 999_999_999_999_999;
/// Largest number of an id or a request of another board or a file that raises a counter. Larger ones would use up the
/// ids of a project.
pub(crate) const MAX_NUMBER: u64 = 1_000_000_000_000;

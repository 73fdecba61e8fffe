//! The file of an epic, story or task: short fields in TOON, and beside it the description when it
//! has more than one line.

use orchestra_board::{
    AgentName, Body, Claim, Issue, IssueId, Kind, Label, OwnState, Priority, Slug, State,
    Timestamp, Title, Uid,
};

use super::document::check_merge_marks;
use super::write::Writer;
use super::{Document, FileError, FileFault};

/// What an issue's place says of it: the directory decides, not a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IssuePlace {
    /// The project.
    pub(crate) project: Slug,
    /// The id in the file's name, or of the directory of an epic or story.
    pub(crate) id: IssueId,
    /// The epic above, if any.
    pub(crate) epic: Option<IssueId>,
    /// The story above, if any.
    pub(crate) story: Option<IssueId>,
}

impl IssuePlace {
    /// The parent that the place says.
    pub(crate) fn parent(&self) -> Option<&IssueId> {
        self.story.as_ref().or(self.epic.as_ref())
    }

    /// What stands at such a place: an epic, a story, or for any kind of task [`Kind::Task`].
    pub(crate) fn kind(&self) -> Kind {
        match (&self.epic, &self.story) {
            (_, Some(_)) => Kind::Task,
            (Some(_), None) => Kind::Story,
            (None, None) => Kind::Epic,
        }
    }
}

/// The text of an issue's file. `epic` is the one above a task's story.
pub(crate) fn write(issue: &Issue, epic: Option<&IssueId>) -> String {
    let mut file = Writer::new();
    file.shown("id", &issue.id);
    file.text("type", issue.kind.as_str());
    file.text("title", issue.title.as_str());
    file.text("status", issue.state.as_str());
    if !issue.kind.is_leaf() && own_of(issue.state) != issue.own {
        file.text("own", issue.own.as_state().as_str());
    }
    if !issue.description.is_empty() && !issue.description.is_multi_line() {
        file.text("description", issue.description.as_str());
    }
    file.optional("priority", issue.priority.as_ref());
    if issue.kind.is_leaf() {
        file.optional("epic", epic);
        file.optional("story", issue.parent.as_ref());
    } else {
        file.optional("epic", issue.parent.as_ref());
    }
    file.list("assignees", issue.assignees.iter().map(AgentName::as_str));
    file.list("labels", issue.labels.iter().map(Label::as_str));
    let depends_on: Vec<String> = issue.depends_on.iter().map(IssueId::to_string).collect();
    file.list("depends_on", depends_on.iter().map(String::as_str));
    file.optional("fixes", issue.fixes.as_ref());
    file.optional("cancelled_with", issue.cancelled_with.as_ref());
    file.optional("claimed_by", issue.claim.as_ref().map(|claim| &claim.agent));
    file.optional(
        "claimed_until",
        issue.claim.as_ref().map(|claim| &claim.until),
    );
    file.optional("uid", issue.uid.as_ref());
    file.shown("created_at", &issue.created_at);
    file.optional("updated_at", issue.updated_at.as_ref());
    file.finish()
}

/// The text of the file beside, if the description needs one.
pub(crate) fn write_description(issue: &Issue) -> Option<String> {
    issue
        .description
        .is_multi_line()
        .then(|| format!("{}\n", issue.description))
}

/// What a parent is by itself when its file has no field that says so.
fn own_of(state: State) -> OwnState {
    OwnState::of_state(state).unwrap_or_default()
}

/// Reads an issue's file, and the text of the file with its description, if there is one.
pub(crate) fn read(
    file: &str,
    text: &str,
    place: &IssuePlace,
    beside: Option<(&str, &str)>,
) -> Result<Issue, FileError> {
    let mut fields = Document::parse(file, text)?;
    let id = fields.parsed("id", IssueId::parse)?;
    if id != place.id {
        return Err(fields.error(
            "id",
            format!("is {id}, but the path of the file requires {}", place.id),
        ));
    }
    let kind = fields.choice("type", &Kind::ALL, Kind::as_str)?;
    if kind != place.kind() && !(kind.is_leaf() && place.kind() == Kind::Task) {
        return Err(fields.error(
            "type",
            format!(
                "is {kind}, but the path of the file requires {}",
                place.kind()
            ),
        ));
    }
    let state = fields.choice("status", &State::ALL, State::as_str)?;
    let own = if kind.is_leaf() {
        OwnState::default()
    } else {
        match fields.optional_choice("own", &State::ALL, State::as_str)? {
            None => own_of(state),
            Some(own) => OwnState::of_state(own)
                .ok_or_else(|| fields.error("own", "must be backlog, todo or cancelled"))?,
        }
    };
    let issue = Issue {
        project: place.project.clone(),
        id,
        uid: fields.optional_parsed("uid", Uid::parse)?,
        kind,
        parent: place.parent().cloned(),
        title: fields.parsed("title", Title::parse)?,
        description: description(&mut fields, beside)?,
        priority: fields.optional_choice("priority", &Priority::ALL, Priority::as_str)?,
        state,
        own,
        cancelled_with: fields.optional_parsed("cancelled_with", IssueId::parse)?,
        fixes: fields.optional_parsed("fixes", IssueId::parse)?,
        assignees: fields.list("assignees", AgentName::parse)?,
        labels: fields.list("labels", Label::parse)?,
        depends_on: {
            let mut ids = fields.list("depends_on", IssueId::parse)?;
            ids.sort();
            ids.dedup();
            ids
        },
        claim: claim(&mut fields)?,
        created_at: fields.parsed("created_at", Timestamp::parse)?,
        updated_at: fields.optional_parsed("updated_at", Timestamp::parse)?,
    };
    for (key, above) in [("epic", &place.epic), ("story", &place.story)] {
        if above.is_some() {
            fields.ignore(key);
        }
    }
    fields.finish()?;
    Ok(issue)
}

/// What an issue's file says of the issues above it, which its place decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SaidAbove {
    /// The field `epic`.
    pub(crate) epic: Option<String>,
    /// The field `story`.
    pub(crate) story: Option<String>,
}

/// Reads what an issue's file says of the issues above it.
pub(crate) fn said_above(file: &str, text: &str) -> Result<SaidAbove, FileError> {
    let mut fields = Document::parse(file, text)?;
    Ok(SaidAbove {
        epic: fields.optional_text("epic")?,
        story: fields.optional_text("story")?,
    })
}

fn description(fields: &mut Document<'_>, beside: Option<(&str, &str)>) -> Result<Body, FileError> {
    let short = fields.optional_parsed("description", Body::parse)?;
    // One that is empty says nothing: somebody is about to write it, or has emptied it.
    let Some((name, text)) = beside.filter(|(_, text)| !text.is_empty()) else {
        return Ok(short.unwrap_or_default());
    };
    check_merge_marks(name, text)?;
    if short.is_some() {
        let also = name.rsplit('/').next().unwrap_or(name);
        return Err(fields.error(
            "description",
            format!("is given twice, here and in {also}; keep one of them"),
        ));
    }
    Body::parse(text).map_err(|error| FileError::whole(name, FileFault::Field(error.to_string())))
}

fn claim(fields: &mut Document<'_>) -> Result<Option<Claim>, FileError> {
    let agent = fields.optional_parsed("claimed_by", AgentName::parse)?;
    let until = fields.optional_parsed("claimed_until", Timestamp::parse)?;
    match (agent, until) {
        (Some(agent), Some(until)) => Ok(Some(Claim { agent, until })),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(fields.error("claimed_until", "is missing, though claimed_by is there"))
        }
        (None, Some(_)) => {
            Err(fields.error("claimed_by", "is missing, though claimed_until is there"))
        }
    }
}

//! Short words for commanding a board, and for how much is tried.

use orchestra_board::{
    AgentName, Body, Command, Cost, IssueId, IssuePatch, IssueRef, Kind, Label, NewIssue,
    NewProject, Slug, Title, UsageEntry, UsageOf,
};
use orchestra_store::{
    ActionError, Cursor, IssueRecord, NewChunk, NewHookEvent, Page, PageRequest, ReadError,
    Receipt, Submission,
};

/// What is tried: little, or with `ORCHESTRA_SOAK` in the environment as much as is promised.
pub(crate) fn effort<T>(little: T, promised: T) -> T {
    if std::env::var_os("ORCHESTRA_SOAK").is_some() {
        promised
    } else {
        little
    }
}

pub(crate) fn slug() -> Slug {
    Slug::parse("my-app").expect("a slug")
}

pub(crate) fn id(text: &str) -> IssueId {
    IssueId::parse(text).expect("an id")
}

pub(crate) fn title(text: &str) -> Title {
    Title::parse(text).expect("a title")
}

pub(crate) fn body(text: &str) -> Body {
    Body::parse(text).expect("a body")
}

pub(crate) fn agent(text: &str) -> AgentName {
    AgentName::parse(text).expect("a name")
}

pub(crate) fn label(text: &str) -> Label {
    Label::parse(text).expect("a label")
}

pub(crate) fn target(text: &str) -> IssueRef {
    IssueRef::new(slug(), id(text))
}

pub(crate) fn create_project(name: &str) -> Command {
    Command::CreateProject(NewProject {
        name: title(name),
        description: Body::default(),
    })
}

pub(crate) fn new_issue(kind: Kind, parent: Option<&str>, text: &str) -> NewIssue {
    NewIssue {
        kind,
        parent: parent.map(id),
        epic: None,
        title: title(text),
        description: Body::default(),
        priority: None,
        assignees: Vec::new(),
        labels: Vec::new(),
        depends_on: Vec::new(),
    }
}

pub(crate) fn create(kind: Kind, parent: Option<&str>, text: &str) -> Command {
    Command::CreateIssue {
        project: slug(),
        issue: new_issue(kind, parent, text),
    }
}

pub(crate) fn update(issue: &str, patch: IssuePatch) -> Command {
    Command::UpdateIssue {
        target: target(issue),
        patch,
        evidence: None,
        version: None,
    }
}

pub(crate) fn rename(issue: &str, name: &str) -> Command {
    let patch = IssuePatch {
        title: Some(title(name)),
        ..IssuePatch::default()
    };
    update(issue, patch)
}

pub(crate) fn comment(issue: &str, text: &str) -> Command {
    Command::Comment {
        target: target(issue),
        text: body(text),
    }
}

pub(crate) fn chunk(content: &str) -> NewChunk {
    NewChunk::of(slug(), body(content))
}

pub(crate) fn hook(event_type: &str) -> NewHookEvent {
    NewHookEvent {
        event_type: label(event_type),
        session_id: None,
        tool_name: None,
        agent_type: None,
        data: None,
    }
}

/// One of the kinds of leaves.
/// A request to a model that was made for an issue.
pub(crate) fn used_for(issue: &str, tokens: u64) -> UsageEntry {
    UsageEntry {
        provider: None,
        model: None,
        input_tokens: tokens,
        output_tokens: 1,
        cost: Cost::from_billionths(tokens),
        of: Some(UsageOf {
            project: slug(),
            issue: Some(id(issue)),
        }),
    }
}

pub(crate) fn kinds_of(leaf: u8) -> Kind {
    [Kind::Task, Kind::Bug, Kind::Hotfix][usize::from(leaf) % 3]
}

/// Waits for the answer to what was submitted.
pub(crate) fn answer(submission: Submission) -> Result<Receipt, ActionError> {
    block(submission)
}

/// Waits for what comes.
pub(crate) fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
        .block_on(future)
}

pub(crate) fn ids_of(page: &Page<IssueRecord>) -> Vec<String> {
    page.items
        .iter()
        .map(|record| record.issue.id.to_string())
        .collect()
}

/// Everything that is on the pages of a list.
pub(crate) fn every<T>(
    mut page: impl FnMut(&PageRequest) -> Result<Page<T>, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let mut request = PageRequest::first(PageRequest::MAX_LIMIT);
    let mut items = Vec::new();
    loop {
        let found = page(&request)?;
        items.extend(found.items);
        match found.next_cursor {
            Some(cursor) => request.cursor = Some(Cursor::parse(&cursor)?),
            None => return Ok(items),
        }
    }
}

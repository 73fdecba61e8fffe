//! A board in memory and short words for commanding it.

use orchestra_board::{
    AgentName, Body, Command, Context, DecideError, Decision, Issue, IssueId, IssuePatch, IssueRef,
    Kind, Model, NewIssue, NewProject, Refusal, Slug, Source, State, Timestamp, Title, View,
};

pub(crate) struct Board {
    pub(crate) model: Model,
    pub(crate) now: Timestamp,
    pub(crate) slug: Slug,
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

impl Board {
    /// Project "My App" with epic MA-1, story MA-2 and task MA-3.
    pub(crate) fn with_a_task() -> Self {
        let mut board = Self::with_a_project("My App");
        board.create(Kind::Epic, None, "Epic");
        board.create(Kind::Story, Some("MA-1"), "Story");
        board.create(Kind::Task, Some("MA-2"), "Task");
        board
    }

    pub(crate) fn with_a_project(name: &str) -> Self {
        let slug = Slug::of_name(name).expect("a slug");
        let now = Timestamp::from_unix_seconds(1_770_000_000);
        let mut board = Self {
            model: Model::default(),
            now,
            slug,
        };
        let project = NewProject {
            name: title(name),
            description: Body::default(),
        };
        board
            .run(&Command::CreateProject(project))
            .expect("a project");
        board
    }

    pub(crate) fn run_as(
        &mut self,
        who: Option<&str>,
        command: &Command,
    ) -> Result<Decision, Refusal> {
        self.run_from(Source::Tool, who, command)
    }

    pub(crate) fn run_from(
        &mut self,
        source: Source,
        who: Option<&str>,
        command: &Command,
    ) -> Result<Decision, Refusal> {
        let cx = Context {
            now: self.now,
            agent: who.map(agent),
            source,
        };
        self.model.run(&cx, command).map_err(|error| match error {
            DecideError::Refused(refusal) => refusal,
            DecideError::View(error) => panic!("a model cannot fail: {error}"),
        })
    }

    pub(crate) fn run(&mut self, command: &Command) -> Result<Decision, Refusal> {
        self.run_as(None, command)
    }

    pub(crate) fn create(&mut self, kind: Kind, parent: Option<&str>, text: &str) -> IssueId {
        let issue = new_issue(kind, parent, text);
        let command = Command::CreateIssue {
            project: self.slug.clone(),
            issue,
        };
        self.run(&command).expect("an issue").subjects[0].1.clone()
    }

    pub(crate) fn target(&self, text: &str) -> IssueRef {
        IssueRef::new(self.slug.clone(), id(text))
    }

    pub(crate) fn issue(&self, text: &str) -> Issue {
        self.model
            .issue(&self.slug, &id(text))
            .expect("a model cannot fail")
            .expect("an issue")
    }

    pub(crate) fn states(&self, ids: &[&str]) -> Vec<&'static str> {
        ids.iter().map(|id| self.issue(id).state.as_str()).collect()
    }

    /// Moves by `update_task`, with evidence in case there is a gate.
    pub(crate) fn set(&mut self, text: &str, state: State) -> Result<Decision, Refusal> {
        self.set_as(None, text, state)
    }

    pub(crate) fn set_as(
        &mut self,
        who: Option<&str>,
        text: &str,
        state: State,
    ) -> Result<Decision, Refusal> {
        let patch = IssuePatch {
            state: Some(state),
            ..IssuePatch::default()
        };
        let evidence = Some(body("evidence that is long enough"));
        let command = Command::UpdateIssue {
            target: self.target(text),
            patch,
            evidence,
            version: None,
        };
        self.run_as(who, &command)
    }

    /// Puts a task straight into a state, as a file may.
    pub(crate) fn force(&mut self, text: &str, state: State) {
        let mut issue = self.issue(text);
        issue.state = state;
        self.run_from(Source::File, None, &Command::PutIssue(Box::new(issue)))
            .expect("a file may");
    }

    pub(crate) fn delete(&mut self, text: &str) -> Result<Decision, Refusal> {
        let expected = self.issue(text).kind;
        self.run(&Command::DeleteIssue {
            target: self.target(text),
            expected,
        })
    }
}

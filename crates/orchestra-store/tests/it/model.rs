//! Whatever is commanded, the store says what the model in memory says, in every view.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use orchestra_board::{
    Change, Command, Context, DecideError, Decision, Issue, IssuePatch, Kind, Label, Model,
    NewRequest, NextTask, PrdMove, Priority, RequestKind, Source, State, Timestamp, UsageEntry,
    UsageOf, View, next_task,
};
use orchestra_store::{
    Action, ActionError, Cursor, Fix, IssueFilter, PageRequest, Reader, Receipt, Waiting,
};
use proptest::prelude::*;

use crate::fixture::{Workspace, open};
use crate::words::{
    agent, answer, body, create, create_project, id, ids_of, kinds_of, label, new_issue, slug,
    target, title,
};

/// One random step: which command, and numbers that pick what it is about.
type Step = (u8, u8, u8, u8);

const LABELS: [&str; 3] = ["ui", "core", "docs"];
const WORDS: [&str; 5] = ["login", "parser", "indexWriter", "Überblick", "北京"];

fn command((what, which, other, state): Step) -> Command {
    let id_of = |number: u8| format!("MA-{}", number % 24 + 1);
    let (target, parent) = (target(&id_of(which)), id_of(other));
    let text = format!(
        "{} {}",
        WORDS[usize::from(state) % 5],
        WORDS[usize::from(other) % 5]
    );
    let create = |kind: Kind| {
        let mut issue = new_issue(kind, (kind != Kind::Epic).then_some(parent.as_str()), &text);
        issue.description = body(&format!("about {}", WORDS[usize::from(which) % 5]));
        issue.priority = Priority::ALL.get(usize::from(state) % 6).copied();
        issue.labels = labels(state);
        issue.assignees = [agent("ada"), agent("bo")]
            .into_iter()
            .take(usize::from(which) % 3)
            .collect();
        issue.depends_on = (state % 5 == 0)
            .then(|| id(&id_of(which)))
            .into_iter()
            .collect();
        issue
    };
    let to = State::ALL[usize::from(state) % 13];
    let evidence = Some(body("long enough evidence"));
    let project = slug();
    match what % 28 {
        0 => Command::CreateIssue {
            project,
            issue: create(Kind::Epic),
        },
        1 | 2 => Command::CreateIssue {
            project,
            issue: create(Kind::Story),
        },
        3..=6 => Command::CreateIssue {
            project,
            issue: create(kinds_of(which)),
        },
        7..=10 => Command::UpdateIssue {
            target,
            patch: IssuePatch {
                state: Some(to),
                title: (which % 3 == 0).then(|| title(&text)),
                labels: (which % 4 == 0).then(|| labels(other)),
                description: (which % 5 == 0).then(|| body(&text)),
                ..IssuePatch::default()
            },
            evidence,
            version: None,
        },
        11 | 12 => Command::AdvanceTask { target, evidence },
        13 => Command::RejectTask {
            target,
            reason: (which % 2 == 0).then(|| body("not good enough")),
        },
        14 => Command::MoveIssue {
            target,
            to: id(&parent),
        },
        15 => Command::DeleteIssue {
            target,
            expected: [Kind::Task, Kind::Story, Kind::Epic][usize::from(state) % 3],
        },
        16 | 17 => Command::AddDependency {
            target,
            on: id(&parent),
        },
        18 => Command::RemoveDependency {
            target,
            on: id(&parent),
        },
        19 => Command::ClaimNext {
            project,
            agent: agent("ada"),
        },
        20 => Command::Claim {
            target,
            agent: agent("bo"),
        },
        21 => Command::Release {
            target,
            agent: None,
        },
        22 => Command::Comment {
            target,
            text: body("a remark"),
        },
        23 => Command::StartTask { target },
        24 => Command::ReportBug {
            project,
            issue: create(Kind::Bug),
        },
        25 => Command::LogRequest {
            project,
            request: NewRequest {
                kind: RequestKind::Feature,
                description: body(&text),
            },
        },
        26 => match state % 4 {
            0 => Command::Prd {
                project,
                step: PrdMove::Start {
                    restart: which % 2 == 0,
                },
            },
            1 => Command::Prd {
                project,
                step: PrdMove::Answer {
                    text: body(&text),
                    overwrite: true,
                },
            },
            2 => Command::Prd {
                project,
                step: PrdMove::Back,
            },
            _ => Command::WritePrd {
                project,
                content: text,
            },
        },
        _ => match state % 4 {
            0 => Command::RenameProject {
                project,
                name: title(&text),
            },
            1 => Command::EndUsageSession,
            2 => create_project(WORDS[usize::from(which) % 5]),
            _ => Command::RecordUsage(UsageEntry {
                provider: None,
                model: None,
                input_tokens: 1,
                output_tokens: 2,
                cost: orchestra_board::Cost::from_billionths(3),
                of: (which % 3 > 0).then(|| UsageOf {
                    project,
                    issue: (which % 3 > 1).then_some(target.id),
                }),
            }),
        },
    }
}

fn labels(bits: u8) -> Vec<Label> {
    (0_u8..3)
        .filter(|bit| bits >> bit & 1 == 1)
        .map(|bit| label(LABELS[usize::from(bit)]))
        .collect()
}

fn context(now: Timestamp) -> Context {
    Context {
        now,
        agent: Some(agent("ada")),
        source: Source::Tool,
    }
}

/// Refusals and events are the same.
fn same(
    stored: &Result<Receipt, ActionError>,
    expected: &Result<Decision, DecideError>,
) -> Result<(), TestCaseError> {
    match (stored, expected) {
        (Ok(receipt), Ok(decision)) => {
            prop_assert_eq!(&receipt.events, &decision.events);
            let next = receipt.next.clone().map(|next| NextTask {
                task: next.task.map(without_uid),
                ..next
            });
            prop_assert_eq!(&next, &decision.next);
        }
        (Err(stored), Err(expected)) => prop_assert_eq!(stored.to_string(), expected.to_string()),
        (stored, expected) => prop_assert!(false, "stored {stored:?}, expected {expected:?}"),
    }
    Ok(())
}

/// All pages of a list, two at a time.
fn all(reader: &Reader<'_>, filter: &IssueFilter) -> Vec<String> {
    let mut request = PageRequest::first(2);
    let mut found = Vec::new();
    loop {
        let page = reader.issues(&slug(), filter, &request).expect("a page");
        found.extend(ids_of(&page));
        match page.next_cursor {
            Some(cursor) => request.cursor = Some(Cursor::parse(&cursor).expect("a cursor")),
            None => {
                assert_eq!(page.total, found.len() as u64, "the total is what there is");
                return found;
            }
        }
    }
}

fn expected(model: &Model, wanted: impl Fn(&Issue) -> bool) -> Vec<String> {
    model
        .issues()
        .filter(|issue| issue.project == slug() && wanted(issue))
        .map(|issue| issue.id.to_string())
        .collect()
}

/// An issue as the model has it: the store gives uids.
fn without_uid(issue: Issue) -> Issue {
    Issue { uid: None, ..issue }
}

/// Every way to look at the board shows the same.
fn check(model: &Model, reader: &Reader<'_>, now: Timestamp) {
    let project = slug();
    let projects = reader.projects(&PageRequest::default()).expect("projects");
    assert!(
        projects
            .items
            .iter()
            .map(|record| &record.project)
            .eq(model.projects())
    );
    assert_eq!(projects.total, model.projects().count() as u64);
    for issue in model.issues() {
        let record = reader
            .issue(&issue.project, &issue.id)
            .expect("readable")
            .expect("there");
        assert!(record.issue.uid.is_some(), "{}", issue.id);
        assert_eq!(&without_uid(record.issue.clone()), issue);
        let view: &dyn View = reader;
        let tally = view.tally(&issue.project, &issue.id).expect("a tally");
        assert_eq!(
            tally,
            model.tally(&issue.project, &issue.id).expect("a tally"),
            "{}",
            issue.id
        );
        assert_eq!(record.children, tally.total());
        let children = model.children(&issue.project, &issue.id).expect("children");
        assert_eq!(
            view.children(&issue.project, &issue.id).expect("children"),
            children
        );
        let parent = record.story.clone().or_else(|| record.epic.clone());
        assert_eq!(parent, issue.parent);
        let filter = IssueFilter {
            parent: Some(issue.id.clone()),
            ..IssueFilter::default()
        };
        assert_eq!(
            all(reader, &filter),
            expected(model, |child| child.parent.as_ref() == Some(&issue.id))
        );
        let happened = model
            .events()
            .iter()
            .filter(|event| event.issue.as_ref() == Some(&issue.id))
            // What was spent on an issue changes nothing of it.
            .filter(|event| !matches!(event.change, Change::UsageRecorded(_)))
            .count();
        let history = reader
            .history(&project, &issue.id, &PageRequest::first(500))
            .expect("a history");
        assert_eq!(history.total, happened as u64);
        assert!(matches!(history.items[0].change, Change::IssueCreated(_)));
    }
    check_lists(model, reader);
    let (mut stored, mut ranked) = (Vec::new(), Vec::new());
    let gather = |list: &mut Vec<_>, issue| {
        list.push(without_uid(issue));
        Ok(ControlFlow::Continue(()))
    };
    View::ranked(reader, &project, &mut |issue| gather(&mut stored, issue)).expect("ranked");
    model
        .ranked(&project, &mut |issue| gather(&mut ranked, issue))
        .expect("ranked");
    assert_eq!(stored, ranked);
    let next = next_task(model, &project, Some(&agent("ada")), now).expect("a next task");
    let found = reader
        .next(&project, Some(&agent("ada")), now)
        .expect("a next task");
    let task = found.task.map(|record| without_uid(record.issue));
    assert_eq!(task, next.task);
    assert_eq!((found.claimed, found.waiting), (next.claimed, next.waiting));
    assert_eq!(
        Some(reader.prd_text(&project).expect("a text").as_str()),
        model.prd(&project)
    );
    assert_eq!(
        reader.prd_session(&project).expect("readable"),
        model.prd_session(&project).expect("a model")
    );
    let requests = reader
        .requests(&project, &PageRequest::first(500))
        .expect("requests")
        .items;
    assert!(
        requests
            .iter()
            .eq(model.requests().iter().map(|(_, request)| request))
    );
}

fn check_lists(model: &Model, reader: &Reader<'_>) {
    let none = IssueFilter::default;
    assert_eq!(all(reader, &none()), expected(model, |_| true));
    let census = reader
        .project(&slug())
        .expect("readable")
        .expect("there")
        .census;
    for kind in Kind::ALL {
        let ids = expected(model, |issue| issue.kind == kind);
        assert_eq!(census.of_kind(kind), ids.len() as u64);
        assert_eq!(
            all(
                reader,
                &IssueFilter {
                    kinds: vec![kind],
                    ..none()
                }
            ),
            ids
        );
    }
    for state in State::ALL {
        let leaves = vec![Kind::Task, Kind::Bug, Kind::Hotfix];
        let ids = expected(model, |issue| issue.state == state && issue.kind.is_leaf());
        assert_eq!(census.leaves_in(state), ids.len() as u64);
        assert_eq!(
            all(
                reader,
                &IssueFilter {
                    kinds: leaves,
                    states: vec![state],
                    ..none()
                }
            ),
            ids
        );
    }
    for text in LABELS {
        let ids = expected(model, |issue| issue.labels.contains(&label(text)));
        assert_eq!(
            all(
                reader,
                &IssueFilter {
                    label: Some(label(text)),
                    ..none()
                }
            ),
            ids
        );
    }
    for name in ["ada", "bo"] {
        let ids = expected(model, |issue| issue.assignees.contains(&agent(name)));
        assert_eq!(
            all(
                reader,
                &IssueFilter {
                    assignee: Some(agent(name)),
                    ..none()
                }
            ),
            ids
        );
    }
    let open: BTreeSet<String> = model
        .issues()
        .filter(|i| !i.state.is_final())
        .map(|i| i.id.to_string())
        .collect();
    let waits = |issue: &orchestra_board::Issue| {
        issue
            .depends_on
            .iter()
            .any(|on| open.contains(&on.to_string()))
    };
    assert_eq!(
        all(
            reader,
            &IssueFilter {
                waiting: Waiting::Waiting,
                ..none()
            }
        ),
        expected(model, waits)
    );
    assert_eq!(
        all(
            reader,
            &IssueFilter {
                waiting: Waiting::Free,
                ..none()
            }
        ),
        expected(model, |issue| !waits(issue))
    );
    let parents: BTreeMap<_, _> = model
        .issues()
        .map(|issue| (&issue.id, &issue.parent))
        .collect();
    for epic in model.issues().filter(|issue| issue.kind == Kind::Epic) {
        let below = |issue: &orchestra_board::Issue| {
            let Some(parent) = &issue.parent else {
                return false;
            };
            *parent == epic.id
                || parents
                    .get(parent)
                    .is_some_and(|above| above.as_ref() == Some(&epic.id))
        };
        assert_eq!(
            all(
                reader,
                &IssueFilter {
                    epic: Some(epic.id.clone()),
                    ..none()
                }
            ),
            expected(model, below)
        );
    }
    for word in WORDS {
        let has = |issue: &orchestra_board::Issue| {
            format!("{} {}", issue.title, issue.description)
                .split_whitespace()
                .any(|other| other == word)
        };
        let found = reader
            .search(&slug(), word, &[], &PageRequest::first(500))
            .expect("a search");
        assert_eq!(
            ids_of(&found).into_iter().collect::<BTreeSet<_>>(),
            expected(model, has).into_iter().collect(),
            "{word}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(steps in prop::collection::vec(any::<Step>(), 1..100)) {
        let workspace = Workspace::with_a_story();
        let now = workspace.store.now();
        let mut model = Model::default();
        for command in [create_project("My App"),
            create(Kind::Epic, None, "Epic"),
            create(Kind::Story, Some("MA-1"), "Story")] {
            model.run(&Context { agent: None, ..context(now) }, &command).expect("allowed");
        }
        // All at once: they come to the store in groups, and in order.
        let commands: Vec<Command> = steps.into_iter().map(command).collect();
        let submit = |command: &Command| workspace.store.submit(Some(agent("ada")), Action::Board(command.clone()));
        let submitted: Vec<_> = commands.iter().map(submit).collect();
        for (command, submission) in commands.iter().zip(submitted) {
            let stored = answer(submission);
            same(&stored, &model.run(&context(now), command))?;
        }
        workspace.read(|reader| { check(&model, reader, now); Ok(()) });
        // Nothing that is derived has come apart.
        let report = workspace.store.doctor(Fix::Nothing).expect("examines");
        prop_assert_eq!(report.findings, Vec::<String>::new());
        // What another process sees is the same.
        let second = open(workspace.path());
        second.read(|reader| { check(&model, reader, now); Ok(()) }).expect("readable");
    }
}

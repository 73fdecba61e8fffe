//! Properties of merges, over boards that went apart in random steps.

mod memory;

use std::collections::BTreeSet;

use orchestra_board::{
    AgentName, Body, Change, Claim, Cost, Edit, Event, Issue, IssueId, Key, Kind, Label, OwnState,
    PlanId, PrdOrigin, Project, Request, RequestKind, RequestStatus, SessionId, Slug, Source,
    State, Timestamp, Title, Uid, UsageTotals,
};
use proptest::prelude::*;

use super::{BoardContents, CONFLICT, Context, IssueContents, ProjectContents, merge};
use crate::document::DocumentBody;
use crate::toon::history::line;
use crate::toon::project::Tombstone;
use crate::{Chunk, ChunkId, DocumentPath, PlanRecord, SessionEvent, SessionRecord, UsageRecord};

const START: i64 = 1_770_000_000;

/// A step of a person or an agent on one side. Numbers choose among the issues that there are.
#[derive(Debug, Clone)]
enum Step {
    Create(u8, usize, u8),
    Rename(usize, u8),
    Label(usize, u8),
    Wait(usize, usize),
    Claim(usize, u8),
    Comment(usize, u8),
    Delete(usize),
    Remember(u8, u8),
    Use(u8),
}

/// A board that steps are made on, with the time that they take.
#[derive(Debug, Clone)]
struct Side {
    board: BoardContents,
    name: &'static str,
    now: i64,
    steps: u32,
}

fn slug() -> Slug {
    Slug::parse("my-app").expect("a slug")
}

fn title(number: u8) -> Title {
    Title::parse(&format!("title {number}")).expect("a title")
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

impl Side {
    fn new() -> Self {
        let key = Key::parse("MA").expect("a key");
        let name = Title::parse("My App").expect("a title");
        let project = Project::new(slug(), key, name, Body::default(), at(START));
        let contents = ProjectContents {
            prd: "stub".to_owned(),
            ..ProjectContents::empty(project)
        };
        let mut board = BoardContents::default();
        board.projects.insert(slug(), contents);
        Self {
            board,
            name: "base",
            now: START,
            steps: 0,
        }
    }

    fn of(&self, name: &'static str) -> Self {
        Self {
            name,
            ..self.clone()
        }
    }

    fn run(&self, name: &'static str, steps: &[Step]) -> Self {
        let mut side = self.of(name);
        steps.iter().for_each(|step| side.step(step));
        side
    }

    fn project(&mut self) -> &mut ProjectContents {
        self.board.projects.get_mut(&slug()).expect("there is one")
    }

    fn uid(&mut self) -> Uid {
        self.steps += 1;
        Uid::derived([self.name, &self.steps.to_string()])
    }

    fn pick(&mut self, number: usize, kinds: &[Kind]) -> Option<IssueId> {
        let issues = self.project().issues.values();
        let fitting: Vec<IssueId> = issues
            .filter(|contents| kinds.is_empty() || kinds.contains(&contents.issue.kind))
            .map(|contents| contents.issue.id.clone())
            .collect();
        (!fitting.is_empty()).then(|| fitting[number % fitting.len()].clone())
    }

    fn change(&mut self, number: usize, change: impl FnOnce(&mut Issue) -> Change) {
        self.now += 1;
        let (now, uid) = (at(self.now), self.uid());
        let Some(id) = self.pick(number, &[]) else {
            return;
        };
        let issues = &mut self.project().issues;
        let contents = issues.get_mut(&id).expect("it was picked");
        let change = change(&mut contents.issue);
        contents.issue.updated_at = Some(now);
        contents.events.push(event(now, &id, change, uid));
    }

    fn create(&mut self, kind: u8, parent: usize, name: u8) {
        self.now += 1;
        let kind = [Kind::Epic, Kind::Story, Kind::Task][usize::from(kind) % 3];
        let parent = match kind {
            Kind::Epic => None,
            Kind::Story => self.pick(parent, &[Kind::Epic]),
            _ => self.pick(parent, &[Kind::Story]),
        };
        if parent.is_none() && kind != Kind::Epic {
            return;
        }
        let (now, uid, line) = (at(self.now), self.uid(), self.uid());
        let project = self.project();
        let id = IssueId::of_project(&project.project.key, project.project.next_issue);
        project.project.next_issue += 1;
        let issue = Issue {
            project: slug(),
            id: id.clone(),
            uid: Some(uid),
            kind,
            parent,
            title: title(name),
            description: Body::default(),
            priority: None,
            state: State::Backlog,
            own: OwnState::default(),
            cancelled_with: None,
            fixes: None,
            assignees: Vec::new(),
            labels: Vec::new(),
            depends_on: Vec::new(),
            claim: None,
            created_at: now,
            updated_at: None,
        };
        let created = Change::IssueCreated(Box::new(issue.clone()));
        let events = vec![event(now, &id, created, line)];
        project.issues.insert(id, IssueContents { issue, events });
    }

    fn delete(&mut self, number: usize) {
        self.now += 1;
        let (now, id) = (at(self.now), self.pick(number, &[]));
        let mut going: Vec<IssueId> = id.into_iter().collect();
        let project = self.project();
        while let Some(id) = going.pop() {
            let below = project.issues.values();
            let below = below.filter(|contents| contents.issue.parent.as_ref() == Some(&id));
            going.extend(below.map(|contents| contents.issue.id.clone()));
            let gone = project.issues.remove(&id).expect("it is there");
            let uid = gone.issue.uid.expect("it has one");
            let stone = Tombstone { id, uid, at: now };
            project.retired.deleted.push(stone);
        }
        let order = |stone: &Tombstone| (stone.at, stone.id.clone(), stone.uid);
        project.retired.deleted.sort_by_key(order);
        for contents in project.issues.values_mut() {
            let ids = project.retired.deleted.iter().map(|stone| &stone.id);
            let gone: BTreeSet<&IssueId> = ids.collect();
            contents.issue.depends_on.retain(|id| !gone.contains(id));
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Create(kind, parent, name) => self.create(kind, parent, name),
            Step::Rename(number, name) => self.change(number, |issue| {
                issue.title = title(name);
                Change::Edited(Edit::Title(title(name)))
            }),
            Step::Label(number, name) => self.change(number, |issue| {
                let label = Label::parse(&format!("label {name}")).expect("a label");
                match issue.labels.iter().position(|known| *known == label) {
                    Some(place) => drop(issue.labels.remove(place)),
                    None => issue.labels.push(label),
                }
                Change::Edited(Edit::Labels(issue.labels.clone()))
            }),
            Step::Wait(number, other) => {
                let other = self.pick(other, &[]);
                self.change(number, |issue| {
                    let on = other.unwrap_or_else(|| issue.id.clone());
                    if on != issue.id && !issue.depends_on.contains(&on) {
                        issue.depends_on.push(on.clone());
                        issue.depends_on.sort();
                    }
                    Change::DependencyAdded { on }
                });
            }
            Step::Claim(number, name) => {
                let agent = AgentName::parse(&format!("{} {name}", self.name)).expect("a name");
                let until = at(self.now + 1_800);
                self.change(number, |issue| {
                    let agent = agent.clone();
                    issue.claim = Some(Claim {
                        agent: agent.clone(),
                        until,
                    });
                    Change::Claimed { agent, until }
                });
            }
            Step::Comment(number, text) => self.change(number, |_| Change::Commented {
                text: Body::parse(&format!("comment {text}")).expect("a text"),
            }),
            Step::Delete(number) => self.delete(number),
            Step::Remember(text, tag) => {
                let now = at(self.now);
                let project = self.project();
                let content = format!("text {text}");
                let chunks = project.chunks.iter();
                if chunks
                    .map(|chunk| chunk.content.as_str())
                    .any(|known| known == content)
                {
                    return;
                }
                let (id, content) = (project.next_chunk, Body::parse(&content));
                let content = content.expect("a text");
                project.chunks.push(Chunk {
                    tags: vec![Label::parse(&format!("tag {tag}")).expect("a label")],
                    ..Chunk::new(ChunkId::new(id), slug(), content, now)
                });
                project.next_chunk += 1;
            }
            Step::Use(tokens) => {
                let totals = UsageTotals {
                    input: u64::from(tokens),
                    output: 1,
                    cost: Cost::default(),
                };
                self.board.usage.totals.add(&totals);
            }
        }
    }
}

fn event(at: Timestamp, id: &IssueId, change: Change, uid: Uid) -> Event {
    Event {
        at,
        project: Some(slug()),
        issue: Some(id.clone()),
        agent: None,
        source: Source::Tool,
        change,
        uid: Some(uid),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<u8>(), any::<usize>(), any::<u8>()).prop_map(|(a, b, c)| Step::Create(a, b, c)),
        3 => (any::<usize>(), any::<u8>()).prop_map(|(a, b)| Step::Rename(a, b)),
        2 => (any::<usize>(), 0..3_u8).prop_map(|(a, b)| Step::Label(a, b)),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Step::Wait(a, b)),
        1 => (any::<usize>(), 0..3_u8).prop_map(|(a, b)| Step::Claim(a, b)),
        1 => (any::<usize>(), any::<u8>()).prop_map(|(a, b)| Step::Comment(a, b)),
        1 => any::<usize>().prop_map(Step::Delete),
        2 => (0..6_u8, 0..3_u8).prop_map(|(a, b)| Step::Remember(a, b)),
        1 => any::<u8>().prop_map(Step::Use),
    ];
    proptest::collection::vec(step, 0..16)
}

fn context(base: Option<&BoardContents>, is_repeated: bool) -> Context<'_> {
    Context {
        base,
        origin: "the worktree other",
        now: at(START + 100),
        is_repeated,
    }
}

fn project(board: &BoardContents) -> &ProjectContents {
    &board.projects[&slug()]
}

/// Checks that ids lead to one issue each, and references to issues that there are.
fn check_ids(merged: &ProjectContents) -> Result<(), TestCaseError> {
    let mut uids = BTreeSet::new();
    for (id, contents) in &merged.issues {
        prop_assert_eq!(id, &contents.issue.id);
        prop_assert!(uids.insert(contents.uid()), "{} has the uid of another", id);
        prop_assert!(
            id.number() < merged.project.next_issue,
            "{} is given again",
            id
        );
        if let Some(parent) = &contents.issue.parent {
            prop_assert!(
                merged.issues.contains_key(parent),
                "{} is below nothing",
                id
            );
        }
        prop_assert!(
            !contents.issue.depends_on.contains(id),
            "{} waits for itself",
            id
        );
    }
    let retired = &merged.retired;
    for (old, new) in &retired.aliases {
        prop_assert!(merged.issues.contains_key(new), "{} leads to nothing", old);
        prop_assert!(!merged.issues.contains_key(old), "{} is an issue", old);
        let is_buried = retired.deleted.iter().any(|stone| stone.id == *old);
        prop_assert!(!is_buried, "{} was deleted", old);
    }
    let numbers: BTreeSet<ChunkId> = merged.chunks.iter().map(|chunk| chunk.id).collect();
    prop_assert_eq!(numbers.len(), merged.chunks.len());
    Ok(())
}

/// Checks that everything of a side is in the result, but for issues that the other side has deleted.
fn check_whole(
    side: &ProjectContents,
    other: &ProjectContents,
    merged: &ProjectContents,
) -> Result<(), TestCaseError> {
    let stones: BTreeSet<Uid> = other
        .retired
        .deleted
        .iter()
        .map(|stone| stone.uid)
        .collect();
    for contents in side.issues.values() {
        let mut all = merged.issues.values();
        let Some(found) = all.find(|found| found.uid() == contents.uid()) else {
            prop_assert!(stones.contains(&contents.uid()), "{:?}", contents);
            continue;
        };
        let lines: Vec<String> = found.events.iter().filter_map(line).collect();
        let uids: BTreeSet<Uid> = found.events.iter().filter_map(|event| event.uid).collect();
        for event in &contents.events {
            prop_assert!(event.uid.is_some_and(|uid| uids.contains(&uid)));
        }
        let name = contents.issue.title.as_str();
        let is_told = lines.iter().any(|line| line.contains(name));
        prop_assert!(found.issue.title.as_str() == name || is_told, "{}", name);
    }
    for chunk in &side.chunks {
        let mut all = merged.chunks.iter();
        let found = all.find(|found| found.content == chunk.content);
        prop_assert!(
            found.is_some_and(|found| chunk.tags.iter().all(|tag| found.tags.contains(tag)))
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn merged_board_has_everything_of_both_sides_under_unique_ids(
        (before, ours, theirs, has_base) in (steps(), steps(), steps(), any::<bool>())
    ) {
        let base = Side::new().run("base", &before);
        let (ours, theirs) = (base.run("ours", &ours), base.run("theirs", &theirs));
        let known = has_base.then_some(&base.board);
        let merged = merge(&ours.board, &theirs.board, &context(known, false));
        check_ids(project(&merged))?;
        check_whole(project(&ours.board), project(&theirs.board), project(&merged))?;
        check_whole(project(&theirs.board), project(&ours.board), project(&merged))?;
        for (id, contents) in &project(&ours.board).issues {
            if let Some(found) = project(&merged).issues.get(id) {
                prop_assert_eq!(found.uid(), contents.uid());
            }
        }
    }

    #[test]
    fn second_merge_of_a_side_changes_nothing(
        (before, ours, theirs) in (steps(), steps(), steps())
    ) {
        let base = Side::new().run("base", &before);
        let (ours, theirs) = (base.run("ours", &ours), base.run("theirs", &theirs));
        let merged = merge(&ours.board, &theirs.board, &context(None, false));
        let again = merge(&merged, &theirs.board, &context(None, true));
        prop_assert_eq!(&again, &merged);
        let own = merge(&ours.board, &ours.board, &context(None, true));
        prop_assert_eq!(&own, &ours.board);
    }
}

/// A board with epic MA-1.
fn with_an_epic() -> Side {
    Side::new().run("base", &[Step::Create(0, 0, 1)])
}

fn issue<'a>(board: &'a BoardContents, id: &str) -> &'a IssueContents {
    &project(board).issues[&IssueId::parse(id).expect("an id")]
}

#[test]
fn side_that_is_older_gives_way_without_a_conflict() {
    let base = with_an_epic();
    let newer = base.run("newer", &[Step::Rename(0, 2)]);
    for (ours, theirs) in [(&base, &newer), (&newer, &base)] {
        let merged = merge(&ours.board, &theirs.board, &context(None, false));
        let epic = issue(&merged, "MA-1");
        assert_eq!(epic.issue.title, title(2));
        assert_eq!(epic.issue.labels, []);
    }
}

#[test]
fn field_that_both_sides_changed_keeps_our_value_and_names_the_other() {
    let base = with_an_epic();
    let ours = base.run("ours", &[Step::Rename(0, 2)]);
    let theirs = base.run("theirs", &[Step::Rename(0, 3), Step::Label(0, 1)]);
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    let epic = issue(&merged, "MA-1");
    assert_eq!(epic.issue.title, title(2));
    let labels: Vec<&str> = epic.issue.labels.iter().map(Label::as_str).collect();
    assert_eq!(labels, ["label 1", CONFLICT]);
    let expected = Body::parse("title on the worktree other: title 3").unwrap();
    let comments = epic.events.iter().filter(|event| match &event.change {
        Change::Commented { text } => *text == expected,
        _ => false,
    });
    assert_eq!(comments.count(), 1);
}

#[test]
fn issue_whose_id_is_anothers_gets_a_free_one_and_references_follow() {
    let base = with_an_epic();
    let ours = base.run("ours", &[Step::Create(1, 0, 2), Step::Create(2, 0, 3)]);
    let theirs = [
        Step::Create(1, 0, 4),
        Step::Create(2, 0, 5),
        Step::Create(2, 0, 6),
        Step::Wait(3, 2),
    ];
    let theirs = base.run("theirs", &theirs);
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    let ids: Vec<String> = project(&merged)
        .issues
        .keys()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ids, ["MA-1", "MA-2", "MA-3", "MA-4", "MA-5", "MA-6"]);
    let (story, task) = (issue(&merged, "MA-5"), issue(&merged, "MA-6"));
    assert_eq!(
        (&story.issue.title, &task.issue.title),
        (&title(4), &title(5))
    );
    assert_eq!(task.issue.parent.as_ref(), Some(&story.issue.id));
    let waiting = issue(&merged, "MA-4");
    assert_eq!(waiting.issue.title, title(6));
    assert_eq!(
        waiting.issue.depends_on,
        std::slice::from_ref(&task.issue.id)
    );
    // A deletion of MA-2 that is retried must not find MA-5.
    assert_eq!(project(&merged).retired.aliases, []);
}

#[test]
fn id_that_an_issue_of_ours_had_leads_to_no_issue_of_theirs() {
    let base = with_an_epic();
    let ours = base.run("ours", &[Step::Create(1, 0, 2), Step::Delete(1)]);
    let mut theirs = base.run("theirs", &[Step::Create(1, 0, 3)]);
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    assert_eq!(issue(&merged, "MA-3").issue.title, title(3));
    assert_eq!(project(&merged).retired.aliases, []);
    // An alias that an earlier merge made is given up as well.
    let mut before = merged.clone();
    let ids = ["MA-2", "MA-3"].map(|id| IssueId::parse(id).unwrap());
    let contents = before.projects.get_mut(&slug()).unwrap();
    contents.retired.aliases = vec![ids.clone().into()];
    assert_eq!(merge(&before, &theirs.board, &context(None, true)), merged);
    // The other side's deletion of an issue of ours buries our id, whatever id it has there.
    let ours = base.run("ours", &[Step::Create(1, 0, 2)]);
    let uid = issue(&ours.board, "MA-2").uid();
    let stone = Tombstone {
        id: IssueId::parse("MA-9").unwrap(),
        uid,
        at: at(START + 50),
    };
    theirs.project().retired.deleted.push(stone);
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    let retired = &project(&merged).retired;
    assert_eq!(retired.deleted[0].id, ids[0]);
    assert_eq!(retired.aliases, []);
}

#[test]
fn numbers_of_another_board_do_not_use_up_ids() {
    let large = 999_999_999_999_999;
    let base = with_an_epic();
    let ours = base.run("ours", &[Step::Remember(0, 0)]);
    let mut theirs = base.run("theirs", &[Step::Create(1, 0, 2), Step::Remember(1, 0)]);
    let side = theirs.project();
    let id = IssueId::of_project(&side.project.key, large);
    let mut contents = side
        .issues
        .remove(&IssueId::parse("MA-2").unwrap())
        .unwrap();
    contents.issue.id = id.clone();
    side.issues.insert(id.clone(), contents);
    let stone = |id| Tombstone {
        id,
        uid: Uid::derived(["stone"]),
        at: at(START),
    };
    side.retired.deleted = vec![stone(id)];
    side.requests = vec![request(large, "theirs")];
    side.project.next_issue = large;
    side.project.next_bug = large;
    side.project.next_request = large;
    side.chunks[0].id = ChunkId::new(large);
    side.next_chunk = large;
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    assert_eq!(issue(&merged, "MA-2").issue.title, title(2));
    let found = project(&merged);
    let counters = &found.project;
    assert_eq!(
        [
            counters.next_issue,
            counters.next_bug,
            counters.next_request
        ],
        [3, 1, 2]
    );
    assert_eq!(found.next_chunk, 3);
    let alone = merge(
        &BoardContents::default(),
        &theirs.board,
        &context(None, false),
    );
    let counters = &project(&alone).project;
    assert_eq!(
        [
            counters.next_issue,
            counters.next_bug,
            counters.next_request
        ],
        [3, 1, 2]
    );
}

#[test]
fn claim_of_another_board_lasts_no_longer_than_a_lease() {
    let base = with_an_epic();
    let mut theirs = base.run("theirs", &[Step::Claim(0, 1)]);
    let epic = theirs.project().issues.values_mut().next().unwrap();
    epic.issue.claim.as_mut().unwrap().until = at(START + 1_000_000_000);
    let merged = merge(&base.board, &theirs.board, &context(None, false));
    let claim = issue(&merged, "MA-1").issue.claim.as_ref().unwrap();
    assert_eq!(claim.until, at(START + 100 + 1_800));
}

#[test]
fn earlier_of_two_live_claims_holds() {
    let base = with_an_epic();
    let early = base.run("early", &[Step::Claim(0, 1)]);
    let late = base.run("late", &[Step::Comment(0, 1), Step::Claim(0, 1)]);
    for (ours, theirs) in [(&early, &late), (&late, &early)] {
        let merged = merge(&ours.board, &theirs.board, &context(None, false));
        let claim = issue(&merged, "MA-1").issue.claim.as_ref();
        assert_eq!(claim.unwrap().agent.as_str(), "early 1");
    }
}

#[test]
fn deleted_issue_stays_deleted_unless_the_other_side_changed_it() {
    let base = with_an_epic();
    let deleted = base.run("deleted", &[Step::Delete(0)]);
    let changed = base.run("changed", &[Step::Comment(0, 1), Step::Rename(0, 2)]);
    for (other, is_there) in [(&base, false), (&changed, true)] {
        for (ours, theirs) in [(&deleted, other), (other, &deleted)] {
            let merged = merge(&ours.board, &theirs.board, &context(None, false));
            assert_eq!(project(&merged).issues.len(), usize::from(is_there));
            let stones = &project(&merged).retired.deleted;
            assert_eq!(stones.len(), usize::from(!is_there));
        }
    }
}

#[test]
fn usage_of_a_side_is_added_once() {
    let base = Side::new();
    let (ours, theirs) = (
        base.run("ours", &[Step::Use(2)]),
        base.run("theirs", &[Step::Use(3)]),
    );
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    assert_eq!(merged.usage.totals.input, 5);
    let again = merge(&merged, &theirs.board, &context(None, true));
    assert_eq!(again.usage, merged.usage);
    let none = UsageRecord::default();
    assert_eq!(base.board.usage, none);
}

fn plan(id: &str, text: &str) -> (PlanRecord, String) {
    let record = PlanRecord {
        project: slug(),
        id: PlanId::parse(id).expect("an id"),
        title: Title::parse(id).expect("a title"),
        issue: None,
        created_at: at(START),
        updated_at: None,
    };
    (record, text.to_owned())
}

fn request(number: u64, text: &str) -> Request {
    Request {
        number,
        kind: RequestKind::Feature,
        description: Body::parse(text).expect("a text"),
        status: RequestStatus::default(),
        at: at(START),
    }
}

#[test]
fn texts_that_differ_are_on_the_board_beside_each_other() {
    let (mut ours, mut theirs) = (Side::new(), Side::new());
    for (side, name) in [(&mut ours, "ours"), (&mut theirs, "theirs")] {
        let project = side.project();
        project.prd = format!("PRD of {name}");
        project.project.prd_origin = PrdOrigin::Written;
        project.plans = vec![plan("both", "same"), plan("plan", name)];
        project.requests = vec![request(1, "same"), request(2, name)];
        project.project.next_request = 3;
        let path = DocumentPath::parse("notes/a.md").expect("a path");
        let content = name.as_bytes().to_vec();
        let body = DocumentBody {
            content,
            metadata: None,
        };
        side.board.documents.insert(path.key(), (path, body));
    }
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    let found = project(&merged);
    assert_eq!(found.prd, "PRD of ours");
    let plans: Vec<(&str, &str)> = found
        .plans
        .iter()
        .map(|(plan, text)| (plan.id.as_str(), text.as_str()))
        .collect();
    let expected = [
        ("both", "same"),
        ("plan", "ours"),
        ("plan-2", "theirs"),
        ("prd-of-my-app-on-the-worktree-other", "PRD of theirs"),
    ];
    assert_eq!(plans, expected);
    let requests: Vec<(u64, &str)> = found
        .requests
        .iter()
        .map(|request| (request.number, request.description.as_str()))
        .collect();
    assert_eq!(requests, [(1, "same"), (2, "ours"), (3, "theirs")]);
    assert_eq!(found.project.next_request, 4);
    let documents: Vec<&str> = merged
        .documents
        .values()
        .map(|(path, _)| path.as_str())
        .collect();
    assert_eq!(documents.len(), 2, "{documents:?}");
    assert!(documents.contains(&"notes/a-2.md"), "{documents:?}");
    let again = merge(&merged, &theirs.board, &context(None, true));
    assert_eq!(again, merged);
}

#[test]
fn sessions_are_merged_by_id_with_the_events_of_both() {
    let session = |summary: &str, end: i64| SessionRecord {
        project: slug(),
        id: SessionId::parse("s").expect("an id"),
        summary: Body::parse(summary).expect("a text"),
        events: vec![SessionEvent {
            kind: Label::parse("note").expect("a label"),
            summary: Body::parse(summary).expect("a text"),
            at: at(end),
        }],
        started_at: at(START),
        ended_at: at(end),
        from_hooks: false,
    };
    let (mut ours, mut theirs) = (Side::new(), Side::new());
    for (side, session) in [
        (&mut ours, session("early", START + 1)),
        (&mut theirs, session("late", START + 2)),
    ] {
        let sessions = &mut side.project().sessions;
        sessions.insert("s".to_owned(), session);
    }
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    let session = &project(&merged).sessions["s"];
    assert_eq!(session.summary.as_str(), "late");
    assert_eq!(session.ended_at, at(START + 2));
    let events: Vec<(&str, &str)> = session
        .events
        .iter()
        .map(|event| (event.kind.as_str(), event.summary.as_str()))
        .collect();
    let expected = [("summary", "early"), ("note", "early"), ("note", "late")];
    assert_eq!(events, expected);
    let again = merge(&merged, &theirs.board, &context(None, true));
    assert_eq!(again, merged);
}

#[test]
fn project_whose_key_is_anothers_gets_another_key() {
    let ours = with_an_epic();
    let mut theirs = with_an_epic();
    let mut other = theirs.board.projects.remove(&slug()).unwrap();
    let slug = Slug::parse("my-api").unwrap();
    other.project.slug = slug.clone();
    other.project.name = Title::parse("My Api").unwrap();
    for contents in other.issues.values_mut() {
        contents.issue.project = slug.clone();
        contents.issue.uid = Some(Uid::derived(["other"]));
    }
    theirs.board.projects.insert(slug.clone(), other);
    let merged = merge(&ours.board, &theirs.board, &context(None, false));
    let found = &merged.projects[&slug];
    assert_eq!(found.project.key.as_str(), "MA2");
    let ids: Vec<String> = found.issues.keys().map(ToString::to_string).collect();
    assert_eq!(ids, ["MA2-1"]);
    assert_eq!(project(&merged), project(&ours.board));
    let again = merge(&merged, &theirs.board, &context(None, true));
    assert_eq!(again, merged);
}

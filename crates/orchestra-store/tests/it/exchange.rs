//! Exchange of boards with other clones. A commit is simulated by its files.

mod few_changes;
mod memory;

use std::collections::{BTreeMap, BTreeSet};

use orchestra_board::{Command, IssuePatch, Kind, Slug, State, Uid};
use orchestra_store::{
    Action, BoardFiles, Effect, ExchangeError, IssueFilter, IssueRecord, changes_between,
    files_to_parse,
};
use proptest::prelude::*;

use crate::fixture::Workspace;
use crate::words::{
    agent, body, chunk, comment, create, create_project, effort, id, label, new_issue, rename,
    target, update,
};

/// A clone, with the files that it exchanged last.
struct Replica {
    workspace: Workspace,
    name: &'static str,
    base: Option<BoardFiles>,
}

impl Replica {
    fn new(name: &'static str) -> Self {
        Self {
            workspace: Workspace::empty(),
            name,
            base: None,
        }
    }

    /// A clone with epic MA-1, stories MA-2 and MA-3, and task MA-4.
    fn filled() -> Self {
        let workspace = Workspace::with_a_story();
        workspace.create(Kind::Story, Some("MA-1"), "Other story");
        workspace.create(Kind::Task, Some("MA-2"), "Task");
        Self {
            workspace,
            name: "a",
            base: None,
        }
    }

    fn files(&self) -> BoardFiles {
        self.workspace.store.board_files().expect("readable").files
    }

    fn merge(&self, published: &BoardFiles, effect: Effect) -> Result<BoardFiles, ExchangeError> {
        let store = &self.workspace.store;
        let exchanged = store.exchange(published, self.base.as_ref(), self.name, effect)?;
        Ok(exchanged.after.files)
    }

    /// Exchanges the board with a remote, as no other clone does meanwhile.
    fn sync(&mut self, remote: &mut BoardFiles) {
        self.check_changes();
        let is_new = self.base.as_ref() != Some(remote) && !remote.files().is_empty();
        let after = match is_new && !self.merge_changes(remote) {
            false => self.files(),
            true => self
                .merge(remote, Effect::Apply)
                .expect("boards can be merged"),
        };
        after.check().expect("other clones can read the result");
        memory::check_unique(self);
        *remote = after.clone();
        self.base = Some(after);
        let store = &self.workspace.store;
        let version = store.board_files().expect("readable").version;
        store.note_exchange("commit", version).expect("writable");
    }

    /// Checks that the files that can have changed since the last exchange, and the other ones as they were, are the board.
    fn check_changes(&self) {
        let store = &self.workspace.store;
        let last = store.last_exchange().expect("readable");
        let (Some(last), Some(base)) = (last, &self.base) else {
            return;
        };
        let Some(changes) = store.board_changes(&last).expect("readable") else {
            return;
        };
        let unchanged = base.files().iter();
        let unchanged = unchanged.filter(|(path, _)| !changes.concerns(path));
        let mut files: BTreeMap<_, _> = unchanged
            .map(|(path, content)| (path.clone(), content.clone()))
            .collect();
        files.extend(changes.files().files().clone());
        let files = BoardFiles::new(files);
        assert_eq!(changes_between(&files, &self.files()), Vec::<String>::new());
        assert_eq!(files, self.files());
    }

    /// Merges what a remote has changed since the last exchange without the rest of the board, and checks that the result
    /// is that of a merge of all. Returns whether it did.
    fn merge_changes(&self, remote: &BoardFiles) -> bool {
        let store = &self.workspace.store;
        let last = store.last_exchange().expect("readable");
        let (Some(last), Some(base)) = (last, &self.base) else {
            return false;
        };
        let changed = remote.since(base);
        let is_all_there = changed.values().all(Option::is_some);
        let mut changed: Vec<String> = changed.into_keys().collect();
        let Some(own) = store.board_changes(&last).expect("readable") else {
            return false;
        };
        changed.extend(own.files().files().keys().cloned());
        // Also the earlier files of moved issues.
        let earlier = base.files().keys().filter(|path| own.concerns(path));
        changed.extend(earlier.cloned());
        let Some(wanted) = files_to_parse(&changed).filter(|_| is_all_there) else {
            return false;
        };
        let part = |files: &BoardFiles| {
            let files = files.files().iter();
            let files = files.filter(|(path, _)| wanted.contains(*path));
            let files = files.map(|(path, content)| (path.clone(), content.clone()));
            BoardFiles::new(files.collect())
        };
        let whole = self.merge(remote, Effect::Preview);
        let parts = (&part(remote), &part(base));
        let merged = store.exchange_changes(&changed, parts, &last, self.name);
        let is_merged = merged.expect("the store works");
        if is_merged {
            let whole = whole.expect("boards can be merged");
            assert_eq!(changes_between(&whole, &self.files()), Vec::<String>::new());
            assert_eq!(whole, self.files());
        }
        is_merged
    }

    fn issue(&self, name: &str) -> IssueRecord {
        self.workspace.issue(name).expect("the issue is there")
    }

    fn uid(&self, name: &str) -> Uid {
        self.issue(name)
            .issue
            .uid
            .expect("a stored issue has a uid")
    }

    fn tasks(&self) -> Vec<String> {
        let kinds = vec![Kind::Task];
        self.workspace.ids(&IssueFilter {
            kinds,
            ..IssueFilter::default()
        })
    }

    fn try_run(&self, command: Command) -> bool {
        self.workspace.try_act(Action::Board(command)).is_ok()
    }

    /// Title of a task of the board.
    fn title(&self, name: &str) -> String {
        self.issue(name).issue.title.to_string()
    }
}

fn text(files: &BoardFiles) -> String {
    let texts = files.files().values();
    texts.map(|bytes| String::from_utf8_lossy(bytes)).collect()
}

/// Two clones that have exchanged the same board.
fn pair() -> (Replica, Replica, BoardFiles) {
    let (mut one, mut two) = (Replica::filled(), Replica::new("b"));
    let mut remote = BoardFiles::default();
    one.sync(&mut remote);
    two.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    (one, two, remote)
}

fn delete(name: &str) -> Command {
    Command::DeleteIssue {
        target: target(name),
        expected: Kind::Task,
    }
}

fn claim(name: &str, by: &str) -> Command {
    Command::Claim {
        target: target(name),
        agent: agent(by),
    }
}

#[test]
fn empty_clone_gets_the_board() {
    let (one, two, _) = pair();
    assert_eq!(two.title("MA-4"), "Task");
    assert_eq!(one.uid("MA-4"), two.uid("MA-4"));
    assert_eq!(
        changes_between(&one.files(), &two.files()),
        Vec::<String>::new()
    );
}

#[test]
fn issue_with_an_id_that_was_published_first_gets_another_one() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.create(Kind::Task, Some("MA-2"), "First");
    two.workspace.create(Kind::Task, Some("MA-2"), "Second");
    two.workspace.create(Kind::Task, Some("MA-2"), "Third");
    let on = id("MA-5");
    two.workspace.run(Command::AddDependency {
        target: target("MA-6"),
        on,
    });
    one.sync(&mut remote);
    let before = two.files();
    two.sync(&mut remote);
    let received = changes_between(&before, &two.files());
    let created = received.iter().filter(|line| line.contains("created"));
    assert_eq!(created.collect::<Vec<_>>(), ["MA-5 created: First"]);
    assert!(
        received.contains(&"MA-5 is now MA-7: Second".to_owned()),
        "{received:?}"
    );
    one.sync(&mut remote);
    for replica in [&one, &two] {
        assert_eq!(replica.title("MA-5"), "First");
        let ids = ["MA-6", "MA-7"];
        let titles = ids.map(|id| replica.title(id));
        let second = ids[usize::from(titles[0] != "Second")];
        let third = ids[usize::from(titles[0] == "Second")];
        assert_eq!(replica.title(second), "Second");
        assert_eq!(replica.title(third), "Third");
        assert_eq!(replica.issue(third).issue.depends_on, [id(second)]);
    }
    assert_eq!(one.files(), two.files());
}

#[test]
fn field_that_two_clones_change_keeps_both_values() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.run(rename("MA-4", "From one"));
    two.workspace.run(rename("MA-4", "From two"));
    for replica in [&mut one, &mut two] {
        replica.sync(&mut remote);
    }
    let before = one.files();
    one.sync(&mut remote);
    let received = changes_between(&before, &one.files());
    let line = "MA-4 title: From one; a comment has the other value: From two";
    assert!(received.contains(&line.to_owned()), "{received:?}");
    assert_eq!(one.files(), two.files());
    assert_eq!(one.title("MA-4"), "From one");
    assert!(
        one.issue("MA-4")
            .issue
            .labels
            .contains(&label("merge-conflict"))
    );
    assert!(text(&one.files()).contains("title on b: From two"));
}

#[test]
fn records_that_one_clone_changes_or_removes_follow() {
    let (mut one, mut two, mut remote) = pair();
    for content in ["stays", "goes", "was"] {
        one.workspace.act(Action::SaveMemory(chunk(content)));
    }
    one.sync(&mut remote);
    two.sync(&mut remote);
    assert!(text(&two.files()).contains("goes"));
    let forgotten = orchestra_store::ChunkId::parse("mem-2").expect("an id");
    two.workspace.act(Action::ForgetMemory {
        project: crate::words::slug(),
        id: forgotten,
    });
    two.workspace.run(delete("MA-4"));
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    assert!(one.workspace.issue("MA-4").is_none());
    let text = text(&one.files());
    assert!(text.contains("stays") && !text.contains("goes"), "{text}");
}

#[test]
fn deleted_issue_that_another_clone_changed_stays() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.run(delete("MA-4"));
    two.workspace.run(comment("MA-4", "still needed"));
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    assert_eq!(one.title("MA-4"), "Task");
}

#[test]
fn claims_stay_on_their_machine() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.run(claim("MA-4", "mine"));
    two.workspace.run(rename("MA-4", "Renamed"));
    assert!(!text(&one.files()).contains("claimed_by"));
    two.sync(&mut remote);
    one.sync(&mut remote);
    let before = two.files();
    two.sync(&mut remote);
    assert_ne!(before, two.files());
    let received = changes_between(&before, &two.files());
    assert_eq!(received, Vec::<String>::new());
    let held = one.issue("MA-4").issue.claim.expect("the claim is held");
    assert_eq!(held.agent, agent("mine"));
    assert_eq!(two.issue("MA-4").issue.claim, None);
}

/// The files with one of them changed.
fn with(files: &BoardFiles, path: &str, change: impl FnOnce(String) -> String) -> BoardFiles {
    let mut files = files.files().clone();
    let text = files.remove(path).unwrap_or_default();
    let text = String::from_utf8(text).expect("text");
    files.insert(path.to_owned(), change(text).into_bytes());
    BoardFiles::new(files)
}

const TASK: &str = "my-app/epics/MA-1/stories/MA-2/tasks/MA-4.toon";

#[test]
fn claim_in_published_files_is_dropped() {
    let (_, two, remote) = pair();
    let forged = with(&remote, TASK, |text| {
        let claim = "claimed_by: evil\nclaimed_until: \"2099-01-01T00:00:00Z\"\n";
        text.replacen("created_at", &format!("{claim}created_at"), 1)
    });
    two.merge(&forged, Effect::Apply)
        .expect("the rest is a board");
    assert_eq!(two.issue("MA-4").issue.claim, None);
}

#[test]
fn hostile_files_are_refused_and_the_board_stays() {
    let (one, _, remote) = pair();
    let before = one.files();
    let orphan = "my-app/epics/MA-1/stories/MA-9/tasks/MA-8.toon";
    for (path, content, part) in [
        ("../evil", "x", "not the path"),
        (".store/board.db", "x", "not the path"),
        (".usage/usage.toon", "x", "not the path"),
        (".events/hook-events.toon", "x", "not the path"),
        ("notes/.git/config", "x", "not the path"),
        (
            "my-app/project-status.toon",
            "garbage",
            "project-status.toon",
        ),
        (TASK, "\u{0}", "MA-4.toon"),
        (orphan, "x", "MA-8.toon"),
        ("other/prd.md", "x", "other/prd.md"),
        (
            "my-app/.memory/chunks.toon",
            "schema: 99\nend: true\n",
            "chunks.toon",
        ),
    ] {
        let hostile = with(&remote, path, |_| content.to_owned());
        let refusal = one
            .merge(&hostile, Effect::Apply)
            .expect_err(path)
            .to_string();
        assert!(refusal.contains(part), "{path}: {refusal}");
        assert_eq!(one.files(), before, "{path}");
    }
    one.workspace.run(rename("MA-4", "The board is in use"));
}

#[test]
fn documents_that_other_programs_would_use_are_ignored_and_stay_published() {
    let (one, _, remote) = pair();
    let mut hostile = remote.clone();
    let paths = [
        ".envrc",
        ".vscode/tasks.json",
        "my-app/.claude/settings.json",
        "notes/CLAUDE.md",
        "notes/HEAD",
        "notes/config",
        "notes/objects/a",
        "notes/refs/a",
        "my-app/Makefile",
    ];
    for path in paths {
        hostile = with(&hostile, path, |_| "{}".to_owned());
    }
    let after = one.merge(&hostile, Effect::Apply).expect("merges");
    assert_eq!(after, remote);
    assert!(after.since(&hostile).is_empty());
    let projects = one.workspace.path().join(".projects");
    for path in paths {
        assert!(!projects.join(path).exists(), "{path}");
    }
    let after = one.merge(&hostile, Effect::Apply).expect("merges again");
    assert_eq!(after, remote);
}

#[test]
fn issue_that_another_clone_deleted_counts_as_deleted_here() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.run(delete("MA-4"));
    one.sync(&mut remote);
    two.sync(&mut remote);
    // It never had the issue.
    let mut three = Replica::new("c");
    three.sync(&mut remote);
    for replica in [one, two, three] {
        let path = replica.workspace.path().join(".projects/.store/board.db");
        let raw = rusqlite::Connection::open(path).expect("opens");
        let sql = "SELECT count(*) FROM tombstone t JOIN gone g ON g.project = t.project AND g.uid = t.uid";
        let count = raw.query_row(sql, [], |row| row.get::<_, i64>(0));
        assert_eq!(count.expect("readable"), 1, "{}", replica.name);
    }
}

#[test]
fn numbers_that_use_up_the_ids_are_refused() {
    let (one, _, remote) = pair();
    let path = "my-app/project-status.toon";
    for counter in ["999999999", "999999999999999"] {
        let raised = with(&remote, path, |text| {
            text.replacen("next_issue: 5", &format!("next_issue: {counter}"), 1)
        });
        assert_ne!(raised, remote);
        let after = one.merge(&raised, Effect::Preview).expect("merges");
        assert_eq!(after, remote, "a counter alone raises none");
    }
    let uid = Uid::derived(["hostile"]);
    let row = format!("MA-999999999999999,{uid},\"2030-01-01T00:00:00Z\"");
    let hostile = with(&remote, path, |text| {
        format!("{text}deleted[1]{{id,uid,at}}:\n  {row}\n")
    });
    let refusal = one.merge(&hostile, Effect::Apply).expect_err("refused");
    assert!(refusal.to_string().contains("too large"), "{refusal}");
}

#[test]
fn circular_dependencies_of_two_clones_are_cut() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.create(Kind::Task, Some("MA-2"), "Other");
    one.sync(&mut remote);
    two.sync(&mut remote);
    for (replica, from, on) in [(&one, "MA-4", "MA-5"), (&two, "MA-5", "MA-4")] {
        replica.workspace.run(Command::AddDependency {
            target: target(from),
            on: id(on),
        });
    }
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    let waiting = ["MA-4", "MA-5"].map(|task| one.issue(task).issue.depends_on.len());
    assert_eq!(waiting.iter().sum::<usize>(), 1, "{waiting:?}");
}

#[test]
fn board_is_current_until_it_changes() {
    let one = Replica::filled();
    let store = &one.workspace.store;
    assert_eq!(store.last_exchange().expect("readable"), None);
    let version = store.board_files().expect("readable").version;
    store.note_exchange("abc", version).expect("recorded");
    let is_current = || {
        store
            .last_exchange()
            .expect("readable")
            .map(|last| last.is_current)
    };
    assert_eq!(is_current(), Some(true));
    one.workspace.run(comment("MA-4", "changed"));
    assert_eq!(is_current(), Some(false));
}

#[test]
fn text_with_marks_of_a_merge_is_exchanged() {
    let (mut one, mut two, mut remote) = pair();
    let marks = "How to solve:\n\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n";
    let description = Some(body(marks.trim_end()));
    let patch = IssuePatch {
        description,
        ..IssuePatch::default()
    };
    one.workspace.run(update("MA-4", patch));
    one.workspace.run(Command::WritePrd {
        project: crate::words::slug(),
        content: marks.to_owned(),
    });
    one.sync(&mut remote);
    two.sync(&mut remote);
    assert_eq!(one.files(), two.files());
    let described = two.issue("MA-4").issue.description;
    assert_eq!(described.as_str(), marks.trim_end());
}

#[test]
fn preview_changes_nothing() {
    let (one, two, _) = pair();
    one.workspace.run(rename("MA-4", "Renamed"));
    let before = two.files();
    let after = two
        .merge(&one.files(), Effect::Preview)
        .expect("it can be merged");
    assert_eq!(after, one.files());
    assert_eq!(two.files(), before);
    assert_eq!(changes_between(&before, &after), ["MA-4 title: Renamed"]);
}

#[test]
fn issue_of_a_project_that_gets_another_key_is_found_by_its_earlier_id() {
    let (mut one, mut two, mut remote) = pair();
    one.workspace.run(create_project("Shop"));
    two.workspace.run(create_project("Site"));
    let site = Slug::parse("site").unwrap();
    two.workspace.run(Command::CreateIssue {
        project: site.clone(),
        issue: new_issue(Kind::Epic, None, "Epic"),
    });
    let before = two.files();
    one.sync(&mut remote);
    two.sync(&mut remote);
    one.sync(&mut remote);
    let received = changes_between(&before, &two.files());
    assert!(
        received.contains(&"S-1 is now S2-1: Epic".to_owned()),
        "{received:?}"
    );
    for side in [&one, &two] {
        let found = side
            .workspace
            .store
            .read(|reader| reader.issue(&site, &id("S-1")));
        assert_eq!(found.unwrap().unwrap().issue.id, id("S2-1"));
    }
}

/// A step of a clone. Numbers choose among the tasks that it has.
#[derive(Debug, Clone)]
enum Step {
    Create(bool),
    Rename(usize),
    State(usize, usize),
    Label(usize),
    Comment(usize),
    Wait(usize, usize),
    Move(usize, bool),
    Claim(usize),
    Delete(usize),
    Remember(usize, usize),
    Memory(usize, usize),
    Sync,
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let task = 0..8_usize;
    let step = prop_oneof![
        3 => any::<bool>().prop_map(Step::Create),
        3 => task.clone().prop_map(Step::Rename),
        3 => (task.clone(), 0..State::ALL.len()).prop_map(|(task, state)| Step::State(task, state)),
        1 => task.clone().prop_map(Step::Label),
        2 => task.clone().prop_map(Step::Comment),
        2 => (task.clone(), 0..8_usize).prop_map(|(task, on)| Step::Wait(task, on)),
        2 => (task.clone(), any::<bool>()).prop_map(|(task, other)| Step::Move(task, other)),
        1 => task.clone().prop_map(Step::Claim),
        2 => task.clone().prop_map(Step::Delete),
        2 => (task.clone(), 0..8_usize).prop_map(|(which, text)| Step::Remember(which, text)),
        3 => (task.clone(), 0..24_usize).prop_map(|(which, to)| Step::Memory(which, to)),
        4 => Just(Step::Sync),
    ];
    prop::collection::vec((0..3_usize, step), 4..40)
}

/// Texts that steps wrote, and the issues that they are about.
#[derive(Debug, Default)]
struct Written {
    texts: BTreeMap<String, Option<Uid>>,
    /// Texts that steps changed to other ones.
    replaced: BTreeSet<String>,
    created: BTreeSet<Uid>,
    deleted: BTreeSet<Uid>,
}

impl Written {
    fn step(&mut self, replica: &Replica, number: usize, step: &Step) {
        let tasks = replica.tasks();
        let pick = |which: &usize| tasks.get(which % tasks.len().max(1)).cloned();
        let text = format!("{}-{number}", replica.name);
        let story = |other: bool| if other { "MA-3" } else { "MA-2" };
        match step {
            Step::Create(other) => {
                let created = replica
                    .workspace
                    .run(create(Kind::Task, Some(story(*other)), &text));
                let uid = created.issues.first().and_then(|record| record.issue.uid);
                self.created.extend(uid);
                self.texts.insert(text, uid);
            }
            Step::Remember(superseded, which) => {
                let text = memory::text(text, *which);
                memory::remember(replica, &text, *superseded);
                self.texts.insert(text, None);
            }
            Step::Memory(which, to) => {
                if let Some((old, new)) = memory::change(replica, &text, *which, *to) {
                    self.texts.insert(new, None);
                    self.replaced.insert(old);
                }
            }
            Step::Sync => {}
            Step::Rename(which) => {
                self.change(replica, pick(which), &text, |task| rename(task, &text))
            }
            Step::Comment(which) => {
                self.change(replica, pick(which), &text, |task| comment(task, &text));
            }
            Step::Label(which) => self.change(replica, pick(which), &text, |task| {
                let labels = Some(vec![label(&text)]);
                update(
                    task,
                    IssuePatch {
                        labels,
                        ..IssuePatch::default()
                    },
                )
            }),
            Step::Delete(which) => {
                if let Some(task) = pick(which) {
                    let uid = replica.uid(&task);
                    self.deleted.insert(uid);
                    // A change of another clone brings the issue back as that clone had it, without what only this one had.
                    let seen = crate::exchange::text(&replica.files());
                    self.texts
                        .retain(|text, about| *about != Some(uid) || !seen.contains(text));
                    replica.try_run(delete(&task));
                }
            }
            Step::State(which, state) => {
                if let Some(task) = pick(which) {
                    let state = State::ALL.get(*state).copied();
                    replica.try_run(Command::UpdateIssue {
                        target: target(&task),
                        patch: IssuePatch {
                            state,
                            ..IssuePatch::default()
                        },
                        evidence: Some(body("evidence that is long enough")),
                        version: None,
                    });
                }
            }
            Step::Wait(which, on) => {
                if let (Some(task), Some(on)) = (pick(which), pick(on)) {
                    let (target, on) = (target(&task), id(&on));
                    replica.try_run(Command::AddDependency { target, on });
                }
            }
            Step::Move(which, other) => {
                if let Some(task) = pick(which) {
                    let (target, to) = (target(&task), id(story(*other)));
                    replica.try_run(Command::MoveIssue { target, to });
                }
            }
            Step::Claim(which) => {
                if let Some(task) = pick(which) {
                    replica.try_run(claim(&task, replica.name));
                }
            }
        }
    }

    /// Does a command that writes a text to a task.
    fn change(
        &mut self,
        replica: &Replica,
        task: Option<String>,
        text: &str,
        command: impl FnOnce(&str) -> Command,
    ) {
        if let Some(task) = task
            && replica.try_run(command(&task))
        {
            self.texts.insert(text.to_owned(), Some(replica.uid(&task)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(u32::try_from(effort(8, 1_000)).expect("few")))]

    /// Three clones that change the board and exchange it in any order come to the same files, with all that was written.
    #[test]
    fn clones_converge_and_lose_nothing(steps in steps()) {
        let mut replicas = [Replica::filled(), Replica::new("b"), Replica::new("c")];
        let mut remote = BoardFiles::default();
        for replica in &mut replicas {
            replica.sync(&mut remote);
        }
        let mut written = Written::default();
        for (number, (which, step)) in steps.iter().enumerate() {
            let replica = &mut replicas[*which];
            replica.workspace.clock.pass(1 + i64::try_from(*which).expect("few"));
            match step {
                Step::Sync => replica.sync(&mut remote),
                step => written.step(replica, number, step),
            }
        }
        for _ in 0..2 {
            for replica in &mut replicas {
                replica.sync(&mut remote);
            }
        }
        for replica in &mut replicas {
            let before = remote.clone();
            replica.sync(&mut remote);
            prop_assert_eq!(changes_between(&before, &remote), Vec::<String>::new());
            prop_assert_eq!(&before, &remote);
            prop_assert_eq!(&replica.files(), &remote);
        }
        let whole = text(&remote);
        let is_there = |uid: &Uid| {
            let quoted = format!("\nuid: \"{uid}\"");
            whole.contains(&format!("\nuid: {uid}")) || whole.contains(&quoted)
        };
        for uid in written.created.difference(&written.deleted) {
            prop_assert!(is_there(uid), "an issue is lost: {}", uid);
        }
        written.texts.retain(|text, _| !written.replaced.contains(text));
        for (text, about) in &written.texts {
            if about.as_ref().is_none_or(is_there) {
                prop_assert!(whole.contains(text), "`{}` is lost", text);
            }
        }
    }
}

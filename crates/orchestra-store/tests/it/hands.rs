//! People and git at the files while agents are at the board.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use orchestra_board::{Command, IssuePatch, Kind, Priority, State};
use orchestra_store::{Action, Options, What};

use crate::board::{Board, still};
use crate::git::git;
use crate::words::{body, chunk, create, effort, id, slug, target, title, update, used_for};

/// How many edits.
fn edits() -> usize {
    effort(100, 1_000)
}

/// The tasks that everybody works on, from MA-3 on.
const TASKS: u64 = 12;

fn task_path(number: u64) -> String {
    format!("my-app/epics/MA-1/stories/MA-2/tasks/MA-{number}.toon")
}

/// Numbers that look random and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        // Knuth's MMIX generator; its high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Which of an issue's fields people edit; agents change the others.
#[derive(Debug, Clone, Copy)]
enum Edit {
    Title,
    Labels,
    Description,
}

/// Of the tasks with an even number agents describe what people name, of the others the other way
/// round. Priorities are the agents' everywhere, so that both are always at one file.
fn is_described_by_people(number: u64) -> bool {
    number % 2 == 1
}

/// What agents said last of each task.
type Said = std::collections::BTreeMap<u64, IssuePatch>;

/// Changes tasks until told to stop. As somebody who looks at the board, it goes on when it was
/// told of its last change.
fn work_as_agents(store: &orchestra_store::Store, stop: &AtomicBool) -> (u64, Said) {
    let (mut said, mut chance, mut count) = (Said::new(), Chance(7), 0);
    let (mut changes, _close) = (store.changes(), store.watch_closely());
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let number = 3 + chance.below(TASKS);
        let mut patch = IssuePatch {
            priority: Some(Some(
                Priority::ALL[usize::try_from(chance.below(4)).expect("small")],
            )),
            ..IssuePatch::default()
        };
        if is_described_by_people(number) {
            patch.title = Some(title(&format!("By an agent {count}")));
        } else {
            patch.description = Some(body(&format!("by an agent, {count}\nand more")));
        }
        said.insert(number, patch.clone());
        let task = format!("MA-{number}");
        let command = update(&task, patch);
        store
            .submit_blocking(None, Action::Board(command))
            .expect("done");
        let changed = Some(id(&task));
        // Whoever has missed notices has missed this one.
        while let Ok(notice) = changes.blocking_recv() {
            if notice.issue == changed || notice.what == What::Everything {
                break;
            }
        }
    }
    (count, said)
}

/// Replaces a file as careful editors do: what stood there is put aside, and only if it is what
/// was read does the new text take its place.
fn replace_as_editor(path: &Path, edited: impl Fn(&str) -> String) {
    let (aside, beside) = (path.with_extension("aside"), path.with_extension("edited"));
    loop {
        let read = fs::read_to_string(path).unwrap_or_default();
        fs::write(&beside, edited(&read)).expect("writes");
        if read.is_empty() && fs::hard_link(&beside, path).is_ok() {
            break;
        }
        if fs::rename(path, &aside).is_err() {
            continue;
        }
        if fs::read_to_string(&aside).expect("reads") == read {
            fs::hard_link(&beside, path).expect("takes its place");
            fs::remove_file(&aside).expect("removes");
            break;
        }
        fs::rename(&aside, path).expect("goes back");
    }
    fs::remove_file(&beside).expect("removes");
}

/// One edit by hand; how long it took to be seen.
fn edit_by_hand(board: &Board, chance: &mut Chance, count: usize) -> Duration {
    let number = 3 + chance.below(TASKS);
    let edit = match chance.below(2) {
        0 => Edit::Labels,
        _ if is_described_by_people(number) => Edit::Description,
        _ => Edit::Title,
    };
    let fields = board.path(&task_path(number));
    let with_line = |line: &str, name: &str| {
        let with = |text: &str| {
            let rest = text
                .lines()
                .filter(|line| !line.starts_with(name) && *line != "end: true");
            let rest: String = rest.map(|line| format!("{line}\n")).collect();
            format!("{rest}{line}\nend: true\n")
        };
        replace_as_editor(&fields, with);
    };
    let text = format!("by-hand-{count}");
    match edit {
        Edit::Title => with_line(&format!("title: {text}"), "title: "),
        Edit::Labels => with_line(&format!("labels[1]: {text}"), "labels["),
        Edit::Description => {
            replace_as_editor(&fields.with_extension("md"), |_| {
                format!("{text}\nand more\n")
            });
        }
    }
    let issue = format!("MA-{number}");
    board.wait("the edit", |board| {
        let issue = board.issue(&issue).expect("there");
        match edit {
            Edit::Title => issue.title.as_str() == text,
            Edit::Labels => issue.labels.iter().any(|label| label.as_str() == text),
            Edit::Description => issue.description.as_str().starts_with(&text),
        }
    })
}

/// Agents and people work on the same issues at once: every edit is seen, and neither side loses
/// anything.
#[test]
fn hand_edits_while_agents_write() {
    let board = Board::with_tasks(Options::default());
    for _ in 2..TASKS {
        board.run(create(Kind::Task, Some("MA-2"), "More"));
    }
    board.settle();
    let (mut chance, stop) = (Chance(1), AtomicBool::new(false));
    let said = std::thread::scope(|scope| {
        let agents = scope.spawn(|| work_as_agents(&board.store, &stop));
        let mut took: Vec<Duration> = (1..=edits())
            .map(|count| edit_by_hand(&board, &mut chance, count))
            .collect();
        stop.store(true, Ordering::Relaxed);
        took.sort();
        let (changes, said) = agents.join().expect("agents");
        let (median, late) = (took[took.len() / 2], took[took.len() * 99 / 100 - 1]);
        println!(
            "{} edits by hand, {changes} changes by agents: seen after {median:?}, 99 of 100 within {late:?}",
            took.len()
        );
        said
    });
    board.settle();
    let conflicts = board.tree().matches(".conflict\n").count();
    assert_eq!((conflicts, board.problems().as_str()), (0, ""));
    for (number, said) in said {
        let issue = board.issue(&format!("MA-{number}")).expect("there");
        assert_eq!(Some(issue.priority), said.priority, "MA-{number}");
        assert_eq!(
            Some(&issue.title),
            said.title.as_ref().or(Some(&issue.title))
        );
        let described = said.description.as_ref().unwrap_or(&issue.description);
        assert_eq!(&issue.description, described, "MA-{number}");
        let text = board.file(&task_path(number));
        assert!(
            text.contains(&format!("title: {}\n", issue.title)),
            "{text}"
        );
    }
}

#[test]
fn another_branch_is_checked_out_under_a_running_store() {
    let board = Board::with_tasks(Options::default());
    let at = board.directory.path().to_path_buf();
    git(&at, &["init", "-q"]);
    git(&at, &["add", "-A"]);
    git(&at, &["commit", "-q", "-m", "one"]);
    git(&at, &["checkout", "-q", "-b", "topic"]);
    board.rename("MA-3", "On topic");
    board.set_state("MA-4", State::Todo);
    for number in 0..20 {
        let name = format!("Only on topic {number}");
        board.run(create(Kind::Task, Some("MA-2"), &name));
    }
    board.settle();
    git(&at, &["add", "-A"]);
    git(&at, &["commit", "-q", "-m", "two"]);
    let start = Instant::now();
    git(&at, &["checkout", "-q", "main"]);
    board.wait("the main branch", |board| {
        board.title_of("MA-3").as_deref() == Some("First")
            && board
                .issue("MA-4")
                .is_some_and(|issue| issue.state == State::Backlog)
            && (5..25).all(|number| board.issue(&format!("MA-{number}")).is_none())
    });
    println!("the branch was there after {:?}", start.elapsed());
    board.settle();
    assert_eq!(board.problems(), "");
    // The numbers are those of the branch as well.
    let made = board.run(create(Kind::Task, Some("MA-2"), "New"));
    assert_eq!(made.issues[0].issue.id, id("MA-5"));
    board.run(Command::DeleteIssue {
        target: target("MA-5"),
        expected: Kind::Task,
    });
    board.settle();
    git(&at, &["checkout", "-q", "-f", "topic"]);
    board.wait("the topic branch", |board| {
        board.title_of("MA-3").as_deref() == Some("On topic")
            && (5..25).all(|number| board.title_of(&format!("MA-{number}")).is_some())
    });
    board.settle();
    assert_eq!(board.problems(), "");
}

#[test]
fn two_branches_gave_one_id_and_the_doctor_renumbers_the_younger() {
    let board = Board::with_tasks(still());
    board.run(create(Kind::Story, Some("MA-1"), "Other story"));
    board.settle();
    // A merge brought a second MA-4, younger than ours, into the other story.
    let twin = board
        .file(&task_path(4))
        .replace("title: Second", "title: Twin")
        .replace("created_at: \"20", "created_at: \"30");
    let place = board.path("my-app/epics/MA-1/stories/MA-5/tasks");
    fs::create_dir(&place).expect("makes");
    fs::write(place.join("MA-4.toon"), twin).expect("writes");
    let found = board.mend().findings.join("\n");
    assert!(
        found.contains("two issues had the id MA-4; the younger is MA-6 now"),
        "{found}"
    );
    assert_eq!(board.title_of("MA-4").as_deref(), Some("Second"));
    let twin = board.issue("MA-6").expect("there");
    assert_eq!(
        (twin.title.as_str(), twin.parent),
        ("Twin", Some(id("MA-5")))
    );
    board.settle();
    assert!(!place.join("MA-4.toon").exists() && place.join("MA-6.toon").exists());
    assert_eq!(board.problems(), "");
    // And the other way round: ours is the younger. What it cost goes along.
    board.run(Command::RecordUsage(used_for("MA-3", 7)));
    let twin = board
        .file(&task_path(3))
        .replace("title: First", "title: Elder")
        .replace("created_at: \"20", "created_at: \"19");
    fs::write(place.join("MA-3.toon"), twin).expect("writes");
    // A date in a file proves nothing: a person has to name it.
    board.mend();
    board.settle();
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    let file = "my-app/epics/MA-1/stories/MA-5/tasks/MA-3.toon";
    let problems = board.problems();
    assert!(problems.contains(&format!("--take {file}`")), "{problems}");
    let refused = board.store.mend_taking(&[task_path(4)]).unwrap_err();
    assert!(refused.to_string().contains("has no problem"), "{refused}");
    let taken = board.store.mend_taking(&[file.to_owned()]).expect("mends");
    let found = taken.findings.join("\n");
    assert!(found.contains("has the id MA-3 now"), "{found}");
    assert_eq!(board.title_of("MA-3").as_deref(), Some("Elder"));
    assert_eq!(board.title_of("MA-7").as_deref(), Some("First"));
    let used = |issue: &str| {
        let sums = board
            .store
            .read(|reader| reader.usage_of(&slug(), Some(&id(issue))));
        sums.expect("readable").totals.input
    };
    assert_eq!((used("MA-3"), used("MA-7")), (0, 7));
    board.settle();
    assert_eq!(board.problems(), "");
    assert!(
        board.exists("my-app/epics/MA-1/stories/MA-2/tasks/MA-7.toon")
            && !board.exists(&task_path(3))
    );
}

const TWIN: &str = "my-app/epics/MA-5/stories/MA-6";

/// A board whose story MA-6 below MA-1 is about to get a twin below MA-5.
fn elder() -> Board {
    let board = Board::with_tasks(still());
    for (kind, parent, name) in [
        (Kind::Epic, None, "Other epic"),
        (Kind::Story, Some("MA-1"), "Elder"),
        (Kind::Task, Some("MA-6"), "Elder's task"),
    ] {
        board.run(create(kind, parent, name));
    }
    board.settle();
    board
}

/// A merge brings a younger story MA-6 below the other epic, with a task of a new id and one whose
/// id is taken as well.
fn plant_twin(projects: &Path) {
    let read = |path: &str| fs::read_to_string(projects.join(path)).expect("reads");
    let story = read("my-app/epics/MA-1/stories/MA-6/story.toon")
        .replace("title: Elder", "title: Younger")
        .replace("epic: MA-1", "epic: MA-5")
        .replace("created_at: \"20", "created_at: \"30");
    let task = read("my-app/epics/MA-1/stories/MA-6/tasks/MA-7.toon");
    let new = task
        .replace("MA-7", "MA-12")
        .replace("Elder's task", "Younger's task");
    let taken = read(&task_path(3))
        .replace("title: First", "title: Younger's twin")
        .replace("created_at: \"20", "created_at: \"30");
    let tasks = projects.join(TWIN).join("tasks");
    fs::create_dir_all(&tasks).expect("makes");
    fs::write(projects.join(TWIN).join("story.toon"), story).expect("writes");
    fs::write(tasks.join("MA-12.toon"), new).expect("writes");
    fs::write(tasks.join("MA-3.toon"), taken).expect("writes");
}

#[test]
fn a_rebuild_keeps_twins_apart() {
    let board = elder().reopened(still(), |projects| {
        plant_twin(projects);
        fs::remove_dir_all(projects.join(".store")).expect("removes");
    });
    let problems = board.problems();
    for name in ["story.toon", "tasks/MA-12.toon", "tasks/MA-3.toon"] {
        assert!(problems.contains(&format!("{TWIN}/{name}")), "{problems}");
    }
    assert_eq!(board.issue("MA-12"), None, "it is no child of the elder");
    let report = board.mend();
    board.settle();
    assert_eq!(board.problems(), "", "{report:?}");
    assert!(board.issue("MA-12").is_some() && !board.exists(TWIN));
}

#[test]
fn a_twin_is_renumbered_with_what_is_below_it() {
    let board = elder().reopened(Options::default(), plant_twin);
    board.wait("the problem", |board| {
        board
            .problems()
            .contains(&format!("{TWIN}/tasks/MA-12.toon"))
    });
    assert_eq!(board.issue("MA-12"), None, "it is no child of the elder");
    let elder = board.issue("MA-6").expect("there");
    let report = board.mend();
    board.settle();
    assert_eq!(board.problems(), "", "{report:?}");
    assert_eq!(board.issue("MA-6").expect("there"), elder);
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    let named = |name: &str| {
        let found = (3..30).find_map(|number| {
            board
                .issue(&format!("MA-{number}"))
                .filter(|issue| issue.title.as_str() == name)
        });
        found.unwrap_or_else(|| panic!("{name} is gone: {report:?}"))
    };
    let younger = named("Younger");
    assert_eq!(younger.parent, Some(id("MA-5")));
    for (name, parent) in [
        ("Younger's task", &younger.id),
        ("Younger's twin", &younger.id),
        ("Elder's task", &elder.id),
    ] {
        assert_eq!(named(name).parent.as_ref(), Some(parent), "{name}");
    }
    assert!(!board.exists(TWIN));
    let story = format!("my-app/epics/MA-5/stories/{}", younger.id);
    assert!(board.exists(&format!("{story}/tasks/MA-12.toon")));
    assert!(board.exists("my-app/epics/MA-1/stories/MA-6/tasks/MA-7.toon"));
}

/// A person moves a story with all that is below it.
#[test]
fn a_story_is_moved_by_hand_with_its_tasks() {
    let board = Board::with_tasks(Options::default());
    board.run(create(Kind::Epic, None, "Other epic"));
    board.settle();
    fs::create_dir(board.path("my-app/epics/MA-5/stories")).expect("makes");
    fs::rename(
        board.path("my-app/epics/MA-1/stories/MA-2"),
        board.path("my-app/epics/MA-5/stories/MA-2"),
    )
    .expect("moves");
    board.wait("the move", |board| {
        let story = board.issue("MA-2").and_then(|issue| issue.parent);
        story == Some(id("MA-5"))
    });
    board.settle();
    assert_eq!(board.title_of("MA-3").as_deref(), Some("First"));
    assert_eq!(board.title_of("MA-4").as_deref(), Some("Second"));
    assert!(board.exists("my-app/epics/MA-5/stories/MA-2/tasks/MA-3.toon"));
    assert_eq!(board.problems(), "");
}

#[test]
fn documents_and_memory_are_edited_by_hand() {
    let board = Board::with_tasks(Options::default());
    for text in ["first memory", "second memory"] {
        board.act(Action::SaveMemory(chunk(text)));
    }
    board.settle();
    fs::write(board.path("my-app/prd.md"), "# By hand\n").expect("writes");
    let prd = |board: &Board| {
        board
            .store
            .read(|reader| reader.prd_text(&slug()))
            .expect("reads")
    };
    board.wait("the document", |board| prd(board) == "# By hand\n");
    board.edit(
        "my-app/.memory/chunks.toon",
        "first memory",
        "memory by hand",
    );
    let memory = |board: &Board| {
        let page = orchestra_store::PageRequest::first(10);
        let chunks = board
            .store
            .read(|reader| reader.chunks(&slug(), &page))
            .expect("reads")
            .items;
        chunks
            .into_iter()
            .map(|chunk| chunk.content.to_string())
            .collect::<Vec<_>>()
    };
    board.wait("the memory", |board| {
        memory(board) == ["memory by hand", "second memory"]
    });
    let text = board.file("my-app/.memory/chunks.toon");
    let kept = text.lines().filter(|line| !line.starts_with("  mem-2,"));
    let shorter: String = kept.map(|line| format!("{line}\n")).collect();
    let shorter = shorter.replace("chunks[2]", "chunks[1]");
    fs::write(board.path("my-app/.memory/chunks.toon"), shorter).expect("writes");
    board.wait("the removal", |board| memory(board) == ["memory by hand"]);
    board.edit(
        "my-app/project-status.toon",
        "project: My App",
        "project: Renamed",
    );
    board.wait("the name", |board| {
        let found = board
            .store
            .read(|reader| reader.project(&slug()))
            .expect("reads");
        found.is_some_and(|record| record.project.name.as_str() == "Renamed")
    });
    // Both sides changed the document: the person's stays.
    let board = board.reopened(still(), |projects| {
        fs::write(projects.join("my-app/prd.md"), "# Theirs\n").expect("writes");
    });
    board.run(Command::WritePrd {
        project: slug(),
        content: "# Ours\n".into(),
    });
    board.settle();
    assert_eq!(board.file("my-app/prd.md"), "# Theirs\n");
    assert_eq!(board.file("my-app/prd.md.conflict"), "# Ours\n");
    assert_eq!(prd(&board), "# Ours\n");
}

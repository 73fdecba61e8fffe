//! People and git at the files while agents are at the board.

use std::fs;
use std::path::Path;
use std::process::Command as Process;
use std::time::{Duration, Instant};

use orchestra_board::{Command, IssuePatch, Kind, Priority, State};
use orchestra_store::{Action, Fix, NewChunk, Options};

use crate::board::{Board, body, id, issue, slug, still};

/// How many edits: few, or with `ORCHESTRA_SOAK` as many as are promised.
fn edits() -> u64 {
    if std::env::var_os("ORCHESTRA_SOAK").is_some() {
        1_000
    } else {
        60
    }
}

fn task(number: u64) -> String {
    format!("my-app/epics/MA-1/stories/MA-2/tasks/MA-{number}.toon")
}

/// Agents change priorities and descriptions, people titles and labels: none of it is lost.
#[test]
fn hand_edits_while_agents_write() {
    const TASKS: u64 = 12;
    let board = Board::with_tasks(Options::default());
    for _ in 2..TASKS {
        board.run(Command::CreateIssue {
            project: slug(),
            issue: issue(Kind::Task, Some("MA-2"), "More"),
        });
    }
    board.settle();
    let (first, mut slowest, mut late) = (3, Duration::ZERO, 0);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stop, store) = (&stop, board.store.clone());
        let agents = scope.spawn(move || {
            let mut number: u64 = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                number += 1;
                let target = orchestra_board::IssueRef::new(
                    slug(),
                    id(&format!("MA-{}", first + number % TASKS)),
                );
                let priority = Priority::ALL[usize::try_from(number % 4).expect("small")];
                let patch = IssuePatch {
                    priority: Some(Some(priority)),
                    description: Some(body(&format!("by an agent, {number}\nand more"))),
                    ..IssuePatch::default()
                };
                let command = Command::UpdateIssue {
                    target,
                    patch,
                    evidence: None,
                    version: None,
                };
                store
                    .submit_blocking(None, Action::Board(command))
                    .expect("done");
                std::thread::sleep(Duration::from_millis(3));
            }
            number
        });
        for number in 0..edits() {
            let issue = first + number % TASKS;
            let (path, name) = (board.path(&task(issue)), format!("By hand {number}"));
            // As an editor does it: look, think, replace. What came between is the editor's to notice.
            loop {
                let text = fs::read_to_string(&path).expect("reads");
                let lines = text.lines().map(|line| {
                    if line.starts_with("title: ") {
                        format!("title: {name}\n")
                    } else {
                        format!("{line}\n")
                    }
                });
                let edited: String = lines.collect();
                let beside = path.with_extension("edited");
                fs::write(&beside, edited).expect("writes");
                if fs::read_to_string(&path).expect("reads") == text {
                    fs::rename(&beside, &path).expect("renames");
                    break;
                }
            }
            let text = format!("MA-{issue}");
            let took = board.wait("the edit", |board| {
                board.title_of(&text).as_deref() == Some(&name)
            });
            slowest = slowest.max(took);
            late += u64::from(took > Duration::from_millis(200));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        println!(
            "{} edits by hand, {} by agents",
            edits(),
            agents.join().expect("agents")
        );
    });
    println!("the slowest edit was seen after {slowest:?}, {late} after more than 200 ms");
    board.settle();
    let conflicts = board.tree().matches(".conflict\n").count();
    assert_eq!((conflicts, board.problems().as_str()), (0, ""));
    for number in first..first + TASKS {
        let issue = board.issue(&format!("MA-{number}")).expect("there");
        let text = board.file(&task(number));
        assert!(
            text.contains(&format!("title: {}\n", issue.title)),
            "{text}"
        );
        assert!(
            issue.description.as_str().starts_with("by an agent"),
            "{issue:?}"
        );
    }
}

fn git(at: &Path, arguments: &[&str]) {
    let output = Process::new("git")
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .current_dir(at)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
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
        board.run(Command::CreateIssue {
            project: slug(),
            issue: issue(Kind::Task, Some("MA-2"), &name),
        });
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
    // What it had grown is not forgotten: no id comes twice.
    let made = board.run(Command::CreateIssue {
        project: slug(),
        issue: issue(Kind::Task, Some("MA-2"), "New"),
    });
    assert_eq!(made.issues[0].issue.id, id("MA-25"));
    board.run(Command::DeleteIssue {
        target: orchestra_board::IssueRef::new(slug(), id("MA-25")),
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
    board.run(Command::CreateIssue {
        project: slug(),
        issue: issue(Kind::Story, Some("MA-1"), "Other story"),
    });
    board.settle();
    // A merge brought a second MA-4, younger than ours, into the other story.
    let twin = board
        .file(&task(4))
        .replace("title: Second", "title: Twin")
        .replace("created_at: \"20", "created_at: \"30");
    let place = board.path("my-app/epics/MA-1/stories/MA-5/tasks");
    fs::create_dir(&place).expect("makes");
    fs::write(place.join("MA-4.toon"), twin).expect("writes");
    let found = board
        .store
        .doctor(Fix::Mend)
        .expect("mends")
        .findings
        .join("\n");
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
    // And the other way round: ours is the younger.
    let twin = board
        .file(&task(3))
        .replace("title: First", "title: Elder")
        .replace("created_at: \"20", "created_at: \"19");
    fs::write(place.join("MA-3.toon"), twin).expect("writes");
    board.store.doctor(Fix::Mend).expect("mends");
    assert_eq!(board.title_of("MA-3").as_deref(), Some("Elder"));
    assert_eq!(board.title_of("MA-7").as_deref(), Some("First"));
    board.settle();
    assert_eq!(board.problems(), "");
    assert!(
        board.exists("my-app/epics/MA-1/stories/MA-2/tasks/MA-7.toon") && !board.exists(&task(3))
    );
}

#[test]
fn documents_and_memory_are_edited_by_hand() {
    let board = Board::with_tasks(Options::default());
    for text in ["first memory", "second memory"] {
        board.act(Action::SaveMemory(NewChunk {
            project: slug(),
            content: body(text),
            summary: body("s"),
            source: None,
            source_id: None,
            tags: Vec::new(),
        }));
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

//! Symbolic links in every place where the program writes in a repository, as archives bring them along. No command
//! creates or changes anything where they lead, and what cannot be done is reported.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    every_command::{ATTEMPTS, Attempt, own_files},
    local_users::{DAEMON, by, give, is_root},
    support::{Said, Workspace},
};

/// Content of the files that links lead to.
const CONTENT: &str = "content of another file";

/// What a link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Missing,
    Directory,
    File,
}

/// Places that do not lie in each other, so that links in all of them can be there at once. Of the places that earlier
/// versions wrote to, all are here as well.
const PLACES: [&[&str]; 7] = [
    &[
        ".projects",
        ".orchestrator",
        ".orchestra",
        ".worktrees",
        ".git/.orchestra",
        ".git/info",
        ".git/orchestra.lock",
        ".git/orchestra-landing.lock",
        ".git/orchestra-board.lock",
        ".claude",
        ".vscode",
        ".cursor",
        ".github",
        ".mcp.json",
        ".gitignore",
        "CLAUDE.md",
        "AGENTS.md",
        "CONTEXT.md",
    ],
    &[
        ".projects/.store",
        ".projects/.run",
        ".projects/.events",
        ".projects/.gitignore",
        ".projects/.gitattributes",
        ".projects/own",
        ".orchestrator/plans",
        ".git/.orchestra/_",
        ".git/info/exclude",
        ".claude/.orchestra-manifest.json",
        ".claude/settings.json",
        ".claude/hooks",
        ".claude/skills",
        ".claude/agents",
        ".vscode/mcp.json",
        ".cursor/mcp.json",
    ],
    &[
        ".projects/.store/board.db",
        ".projects/.store/board.db-wal",
        ".projects/.store/board.db.new",
        ".projects/.store/files.lock",
        ".projects/.store/keeper.lock",
        ".projects/.store/writer.lock",
        ".projects/.run/audit.jsonl",
        ".projects/.run/audit.jsonl.head",
        ".projects/.run/endpoint.json",
        ".projects/.run/engine.json",
        ".projects/.run/engine.lock",
        ".projects/.run/init.lock",
        ".projects/.run/up.lock",
        ".orchestrator/plans/.gitignore",
        ".orchestrator/plans/.lock",
        ".orchestrator/plans/plans.db",
        ".orchestrator/plans/plans.db-wal",
        ".orchestrator/plans/plans.db.rebuilt",
        ".orchestrator/plans/runner.json",
        ".orchestrator/plans/runner.sock",
        ".git/.orchestra/_/board",
        ".git/.orchestra/_/plans",
        ".git/.orchestra/_/run",
    ],
    &[
        ".git/.orchestra/_/board/board.db",
        ".git/.orchestra/_/board/board.db-wal",
        ".git/.orchestra/_/board/board.db.new",
        ".git/.orchestra/_/board/files.lock",
        ".git/.orchestra/_/board/keeper.lock",
        ".git/.orchestra/_/board/writer.lock",
        ".git/.orchestra/_/plans/.gitignore",
        ".git/.orchestra/_/plans/.lock",
        ".git/.orchestra/_/plans/plans.db",
        ".git/.orchestra/_/plans/plans.db-wal",
        ".git/.orchestra/_/plans/plans.db.rebuilt",
        ".git/.orchestra/_/plans/runner.json",
        ".git/.orchestra/_/plans/runner.sock",
        ".git/.orchestra/_/run/audit.jsonl",
        ".git/.orchestra/_/run/audit.jsonl.head",
        ".git/.orchestra/_/run/endpoint.json",
        ".git/.orchestra/_/run/engine.json",
        ".git/.orchestra/_/run/engine.lock",
        ".git/.orchestra/_/run/init.lock",
        ".git/.orchestra/_/run/up.lock",
    ],
    &[
        "orchestra.toml",
        "plugins.yaml",
        ".claude/hooks/orchestra-mcp-hook.sh",
    ],
    &[
        ".git/hooks",
        ".git/logs",
        ".git/objects/pack",
        ".git/refs/heads",
        ".git/worktrees",
    ],
    &[".git/HEAD", ".git/config", ".git/index", ".git/packed-refs"],
];

/// Places without which a command cannot do its work, and the command that has to report that. Links elsewhere are
/// replaced, or the place is done without.
const REPORTED: [(&str, &str); 30] = [
    (".projects", "tool call create_project"),
    (".projects/.store", "tool call create_project"),
    (".projects/.store/writer.lock", "tool call create_project"),
    (".git/.orchestra/_/board", "tool call create_project"),
    (
        ".git/.orchestra/_/board/writer.lock",
        "tool call create_project",
    ),
    (".git/.orchestra", "plan create"),
    (".git/.orchestra/_", "plan create"),
    (".git/.orchestra/_/plans", "plan create"),
    (".git/.orchestra/_/plans/.lock", "plan create"),
    (".git/.orchestra/_/plans/plans.db", "plan create"),
    (".git/.orchestra/_/run", "up"),
    (".git/.orchestra/_/run/up.lock", "up"),
    (".git/.orchestra/_/run/endpoint.json", "up"),
    (".git/.orchestra/_/run/init.lock", "init"),
    (".git/info", "plan run"),
    (".git/info/exclude", "plan run"),
    (".git/orchestra.lock", "plan run"),
    (".git/logs", "plan run"),
    (".git/objects/pack", "plan run"),
    (".git/refs/heads", "plan run"),
    (".git/worktrees", "plan run"),
    (".git/HEAD", "plan run"),
    (".git/config", "plan run"),
    (".git/index", "plan run"),
    (".git/packed-refs", "plan run"),
    (".worktrees", "plan run"),
    (".mcp.json", "init"),
    (".claude", "init"),
    (".claude/.orchestra-manifest.json", "init"),
    (".vscode/mcp.json", "init"),
];

/// Commands that create something in a workspace which has nothing yet.
const WRITERS: [&str; 9] = [
    "doctor --fix",
    "engine",
    "hook",
    "init",
    "plan create",
    "plan run",
    "tool call create_project",
    "tool call install_skills",
    "up",
];

/// Writers that come to the places which begin with a path. The first path that fits counts, and the last of its writers
/// writes most.
const WRITERS_OF: [(&str, &[&str]); 11] = [
    (
        ".projects/.run",
        &["tool call create_project", "up", "doctor --fix"],
    ),
    (".projects/.events", &["hook"]),
    (".projects", &["up", "tool call create_project"]),
    (".orchestrator", &["doctor --fix", "plan run"]),
    (
        ".git/.orchestra/_/board",
        &["up", "tool call create_project"],
    ),
    (".git/.orchestra/_/plans", &["plan create", "plan run"]),
    (
        ".git/.orchestra/_/run",
        &["init", "tool call create_project", "engine", "up"],
    ),
    (".git/.orchestra", &["init", "up", "plan create"]),
    (".git/", &["plan run"]),
    (".worktrees", &["plan run"]),
    ("", &["tool call install_skills", "init"]),
];

/// A repository with links, and the directory that they lead into.
struct Linked {
    workspace: Workspace,
    outside: PathBuf,
    before: BTreeMap<PathBuf, Option<String>>,
}

impl Linked {
    fn at(places: &[&str], target: Target) -> Self {
        let workspace = match places
            .iter()
            .any(|place| place.starts_with(".projects/.store"))
        {
            true => Workspace::git().with_board_in_checkout(),
            false => Workspace::git(),
        };
        let commit = Command::new("git")
            .args([
                "-c",
                "user.name=Other",
                "-c",
                "user.email=other@example.org",
            ])
            .args(["commit", "--quiet", "--allow-empty", "--message", "First"])
            .current_dir(workspace.path())
            .status();
        assert!(commit.unwrap().success());
        let outside = workspace.path().parent().unwrap().join("outside");
        fs::create_dir(&outside).unwrap();
        for place in places {
            let leads_to = outside.join(place.replace('/', "%"));
            match target {
                Target::Missing => {}
                Target::Directory => fs::create_dir(&leads_to).unwrap(),
                Target::File => fs::write(&leads_to, CONTENT).unwrap(),
            }
            let path = workspace.join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // What git creates by itself.
            drop(fs::remove_file(&path));
            drop(fs::remove_dir_all(&path));
            symlink(leads_to, path).unwrap();
        }
        own_files(&workspace);
        let before = contents(&outside);
        Self {
            workspace,
            outside,
            before,
        }
    }

    fn run(&self, attempt: &Attempt, user: Option<u32>) -> Said {
        let command = attempt.command(&self.workspace, &[]);
        let command = match user {
            Some(user) => by(user, &command),
            None => command,
        };
        let said = attempt.run(command);
        assert_eq!(
            contents(&self.outside),
            self.before,
            "{}: {said:?}",
            attempt.line()
        );
        said
    }
}

/// Files below a directory with their contents, and directories.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Option<String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            found.extend(contents(&path));
            found.insert(path, None);
        } else {
            let bytes = fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            found.insert(path, Some(text));
        }
    }
    found
}

/// The first command of the table that begins with these words and does more than to show what it would do.
fn writer(words: &str) -> &'static Attempt {
    let is_writer =
        |attempt: &&Attempt| attempt.begins_with(words) && !attempt.line().contains("--dry-run");
    ATTEMPTS.iter().find(is_writer).unwrap()
}

/// Writers that come to a place.
fn writers_of(place: &str) -> &'static [&'static str] {
    let mut all = WRITERS_OF.iter();
    all.find(|(path, _)| place.starts_with(path)).unwrap().1
}

/// Runs every command where links are in all of some places.
fn check_every_command(places: &[&str], target: Target) {
    let linked = Linked::at(places, target);
    for attempt in ATTEMPTS {
        let said = linked.run(attempt, None);
        assert!(
            !said.err.contains("panicked at"),
            "{}: {said:?}",
            attempt.line()
        );
    }
}

#[test]
fn every_command_leaves_targets_of_links_at_the_top_alone() {
    check_every_command(PLACES[0], Target::Directory);
}

#[test]
fn every_command_leaves_targets_of_links_in_directories_alone() {
    check_every_command(PLACES[1], Target::Directory);
}

#[test]
fn every_command_leaves_targets_of_links_to_locks_and_databases_alone() {
    check_every_command(PLACES[2], Target::File);
}

#[test]
fn every_command_leaves_targets_of_links_in_private_state_alone() {
    check_every_command(PLACES[3], Target::File);
}

#[test]
fn every_command_leaves_targets_of_linked_configuration_alone() {
    check_every_command(PLACES[4], Target::File);
}

#[test]
fn every_command_leaves_targets_of_links_in_the_git_directory_alone() {
    check_every_command(PLACES[5], Target::Directory);
}

#[test]
fn every_command_leaves_targets_of_linked_files_of_git_alone() {
    check_every_command(PLACES[6], Target::File);
}

#[test]
fn writers_of_an_ordinary_user_leave_targets_of_links_alone() {
    if !is_root("writers_of_an_ordinary_user_leave_targets_of_links_alone") {
        return;
    }
    for places in PLACES {
        let linked = Linked::at(places, Target::Missing);
        give(&linked.workspace, DAEMON);
        for words in WRITERS {
            linked.run(writer(words), Some(DAEMON));
        }
    }
}

/// Runs commands that come to a place where a link is in it alone: where there are many, a command ends at the first that
/// is in its way.
fn check_each_alone(places: &[&str], target: Target) {
    for place in places {
        let writers = writers_of(place);
        Linked::at(&[*place], target).run(writer(writers.last().unwrap()), None);
        let missing = Linked::at(&[*place], Target::Missing);
        for words in writers {
            let said = missing.run(writer(words), None);
            let text = format!("{}{}", said.out, said.err);
            let is_named = text.contains(place.rsplit('/').next().unwrap());
            let is_reported = is_named && said.code != Some(0);
            let has_to_be = REPORTED.contains(&(*place, *words));
            assert!(is_reported || !has_to_be, "{place}, {words}: {said:?}");
        }
    }
}

#[test]
fn table_of_reports_names_writers_of_their_places() {
    for (place, command) in REPORTED {
        assert!(writers_of(place).contains(&command), "{place}");
        assert!(
            PLACES.iter().any(|places| places.contains(&place)),
            "{place}"
        );
    }
}

#[test]
fn link_at_the_top_alone_leads_nowhere_and_is_reported() {
    check_each_alone(PLACES[0], Target::Directory);
}

#[test]
fn link_in_a_directory_alone_leads_nowhere_and_is_reported() {
    check_each_alone(PLACES[1], Target::Directory);
}

#[test]
fn link_to_a_lock_or_database_alone_leads_nowhere_and_is_reported() {
    check_each_alone(PLACES[2], Target::File);
}

#[test]
fn link_in_private_state_alone_leads_nowhere_and_is_reported() {
    check_each_alone(PLACES[3], Target::File);
}

#[test]
fn link_in_the_git_directory_alone_leads_nowhere_and_is_reported() {
    check_each_alone(PLACES[5], Target::Directory);
}

#[test]
fn linked_file_of_git_alone_leads_nowhere_and_is_reported() {
    check_each_alone(PLACES[6], Target::File);
}

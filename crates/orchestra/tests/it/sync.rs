//! `orchestra sync` and `orchestra log`: clones that exchange one board through a bare repository.

mod background;
mod copies;
mod hooks;
mod refused;
mod session_commits;

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::one_board::{Repository, git};
use crate::support::{Said, run_directory, said};

pub(crate) const REFERENCE: &str = "refs/orchestra/board";

/// A filled board in the first clone, and the bare repository that clones share.
pub(crate) struct Clones {
    repository: Repository,
}

impl Clones {
    pub(crate) fn new() -> Self {
        let repository = Repository::new("board = \"repository\"\n");
        repository.fill();
        let clones = Self { repository };
        let (one, remote) = (clones.one(), clones.remote());
        let remote = remote.display().to_string();
        git(
            &one,
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                &remote,
            ],
        );
        git(&one, &["remote", "add", "origin", &remote]);
        git(&one, &["push", "--quiet", "origin", "HEAD:main"]);
        clones
    }

    pub(crate) fn one(&self) -> PathBuf {
        self.repository.main()
    }

    pub(crate) fn remote(&self) -> PathBuf {
        self.one().with_file_name("remote.git")
    }

    /// One more clone, which has no board yet.
    pub(crate) fn clone_as(&self, name: &str) -> PathBuf {
        let clone = self.one().with_file_name(name);
        let remote = self.remote().display().to_string();
        git(
            &self.one(),
            &["clone", "--quiet", &remote, &clone.display().to_string()],
        );
        clone
    }

    pub(crate) fn command(&self, clone: &Path, words: &[&str]) -> Command {
        self.repository.command(clone, words)
    }

    pub(crate) fn run(&self, clone: &Path, words: &[&str]) -> Said {
        self.repository.run(clone, words)
    }

    /// Runs `orchestra sync`, and returns its answer.
    pub(crate) fn sync(&self, clone: &Path, words: &[&str]) -> Value {
        let words: Vec<&str> = ["sync", "--json"]
            .into_iter()
            .chain(words.iter().copied())
            .collect();
        let said = self.run(clone, &words);
        assert_eq!(said.code, Some(0), "{said:?}");
        serde_json::from_str(&said.out).unwrap()
    }

    fn refused(&self, clone: &Path, code: i32, part: &str) {
        let said = self.run(clone, &["sync"]);
        assert_eq!(said.code, Some(code), "{said:?}");
        assert!(said.err.contains(part), "{said:?}");
        assert_eq!(said.err.lines().count(), 1, "{said:?}");
    }

    fn rename(&self, clone: &Path, task: &str, title: &str) {
        let change = json!({"project": "my-app", "task_id": task, "title": title});
        self.repository.call(clone, "update_task", &change);
    }

    fn get(&self, clone: &Path, task: &str) -> Value {
        let task = json!({"project": "my-app", "task_id": task});
        self.repository.call(clone, "get_task", &task)
    }

    /// Removes the record of the last background exchange, after which the next one would wait.
    fn forget_attempt(&self, clone: &Path) {
        let run = run_directory(clone, &self.repository.workspace.home());
        fs::remove_file(run.join("sync.json")).unwrap();
    }

    /// Adds a commit to the board of the remote, whose tree has these entries of `git mktree`.
    fn publish(&self, entries: &str) {
        let remote = self.remote();
        let tree = git_with(&remote, &["mktree", "--missing"], entries.as_bytes());
        let parent = tip(&remote);
        let words = [
            "commit-tree",
            tree.trim(),
            "-p",
            parent.trim(),
            "-m",
            "Hostile",
        ];
        let commit = git(&remote, &words);
        git(&remote, &["update-ref", REFERENCE, commit.trim()]);
    }

    /// A tree of the remote that has more files than a list of them could have.
    fn tree_of_many_files(&self) -> String {
        let blob = self.blob(b"");
        self.tree_of_many("f", format!("100644 blob {blob}"))
    }

    /// The same with empty directories. Their names differ from those of the files, since git would compare both trees at
    /// each common path when it sends one to a clone that has the other.
    fn tree_of_many_directories(&self) -> String {
        let tree = git_with(&self.remote(), &["mktree"], b"");
        self.tree_of_many("d", format!("040000 tree {}", tree.trim()))
    }

    fn tree_of_many(&self, initial: &str, mut entry: String) -> String {
        for _ in 0..10 {
            let names = 0..20;
            let entries = names.map(|name| format!("{entry}\t{initial}{name:02}\n"));
            let entries: String = entries.collect();
            let tree = git_with(&self.remote(), &["mktree"], entries.as_bytes());
            entry = format!("040000 tree {}", tree.trim());
        }
        entry.replace("040000 tree ", "")
    }

    fn blob(&self, content: &[u8]) -> String {
        let blob = git_with(&self.remote(), &["hash-object", "-w", "--stdin"], content);
        blob.trim().to_owned()
    }
}

fn git_with(directory: &Path, words: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("git")
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn tip(directory: &Path) -> String {
    git(directory, &["rev-parse", REFERENCE])
}

#[test]
fn settings_for_signed_pushes_and_mirrors_do_not_hinder_an_exchange() {
    let clones = Clones::new();
    let one = clones.one();
    // No bare repository accepts signed pushes unless it is set up for that.
    git(&one, &["config", "push.gpgSign", "true"]);
    let mirror = "+refs/orchestra/*:refs/orchestra/*";
    git(&one, &["config", "--add", "remote.origin.fetch", mirror]);
    clones.sync(&one, &[]);
    let two = clones.clone_as("two");
    clones.sync(&two, &[]);
    clones.rename(&two, "MA-3", "Renamed");
    clones.sync(&two, &[]);
    assert!(
        !clones.sync(&one, &[])["received"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn clones_exchange_their_boards() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    let memory = json!({"project": "my-app", "content": "The sky is blue", "summary": "Sky"});
    clones.repository.call(&one, "save_memory", &memory);
    let claim = json!({"project": "my-app", "task_id": "MA-3", "agent": "ada"});
    clones.repository.call(&one, "claim_task", &claim);
    let status = git(&one, &["status", "--porcelain"]);
    let sent = clones.sync(&one, &[]);
    assert_eq!(sent["reference"], REFERENCE, "{sent}");
    assert!(
        sent["sent"].to_string().contains("MA-3 created: T"),
        "{sent}"
    );
    let received = clones.sync(&two, &[]);
    assert!(
        received["received"].to_string().contains("MA-3 created: T"),
        "{received}"
    );
    assert_eq!(tip(&one), tip(&two));
    assert_eq!(clones.get(&two, "MA-3")["title"], "T");
    assert!(clones.get(&two, "MA-3")["claim"].is_null());
    let all = json!({"project": "my-app"});
    let remembered = clones.repository.call(&two, "list_memory", &all);
    assert_eq!(remembered["total"], 1, "{remembered}");

    clones.rename(&two, "MA-3", "Renamed in two");
    clones.repository.task(&two, "Of two");
    clones.repository.task(&one, "Of one");
    clones.sync(&two, &[]);
    clones.sync(&one, &[]);
    clones.sync(&two, &[]);
    for clone in [&one, &two] {
        assert_eq!(clones.get(clone, "MA-3")["title"], "Renamed in two");
        assert_eq!(clones.get(clone, "MA-4")["title"], "Of two");
        assert_eq!(clones.get(clone, "MA-5")["title"], "Of one");
    }
    assert_eq!(clones.get(&one, "MA-3")["claim"]["agent"], "ada");
    assert_eq!(tip(&one), tip(&two));
    assert_eq!(tip(&one), tip(&clones.remote()));
    assert_eq!(git(&one, &["status", "--porcelain"]), status);
    let again = clones.sync(&one, &[]);
    assert_eq!(
        (&again["received"], &again["sent"]),
        (&json!([]), &json!([])),
        "{again}"
    );

    let log = clones.run(&two, &["log", "MA-3"]);
    assert!(log.out.contains("MA-3 title: Renamed in two"), "{log:?}");
    assert!(!log.out.contains("MA-5"), "{log:?}");
    let log = clones.run(&one, &["log", "--json", "--limit", "1"]);
    let log: Value = serde_json::from_str(&log.out).unwrap();
    assert_eq!(log.as_array().map(Vec::len), Some(1), "{log}");
}

#[test]
fn value_that_two_clones_set_is_shown_on_both() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.sync(&one, &[]);
    clones.sync(&two, &[]);
    clones.rename(&one, "MA-3", "From one");
    clones.rename(&two, "MA-3", "From two");
    clones.sync(&one, &[]);
    let sent = clones.sync(&two, &[])["sent"].to_string();
    assert!(
        sent.contains("MA-3 comment: title on the board of"),
        "{sent}"
    );
    let received = clones.sync(&one, &[])["received"].to_string();
    let title = "MA-3 title: From one; a comment has the other value: From two";
    for changes in [&sent, &received] {
        assert!(changes.contains("MA-3 has a conflict"), "{changes}");
        assert!(changes.contains(title), "{changes}");
    }
    for clone in [&one, &two] {
        let task = clones.get(clone, "MA-3");
        assert_eq!(task["title"], "From one", "{task}");
        assert_eq!(task["labels"], json!(["merge-conflict"]), "{task}");
        let history = json!({"project": "my-app", "issue_id": "MA-3"});
        let history = clones
            .repository
            .call(clone, "get_history", &history)
            .to_string();
        assert!(history.contains("From two"), "{history}");
    }
}

#[test]
fn dry_run_changes_neither_side() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    let answer = clones.sync(&one, &["--dry-run"]);
    assert!(
        answer["sent"].to_string().contains("MA-3 created"),
        "{answer}"
    );
    assert_eq!(
        git(&clones.remote(), &["for-each-ref", "refs/orchestra"]),
        ""
    );
    clones.sync(&one, &[]);
    let before = tip(&one);
    let answer = clones.sync(&two, &["--dry-run"]);
    assert!(
        answer["received"].to_string().contains("MA-3 created"),
        "{answer}"
    );
    assert!(!two.join(".projects").exists());
    assert!(!two.join(".git/.orchestra").exists());
    clones.sync(&two, &[]);
    clones.rename(&two, "MA-3", "Renamed");
    let answer = clones.sync(&two, &["--dry-run"]);
    assert_eq!(answer["sent"], json!(["MA-3 title: Renamed"]), "{answer}");
    assert_eq!(tip(&clones.remote()), before);
    assert_eq!(tip(&two), before);
}

#[test]
fn branch_of_the_remote_can_have_the_board() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.sync(&one, &["origin", "--branch", "board"]);
    let remote = clones.remote();
    assert_eq!(git(&remote, &["for-each-ref", "refs/orchestra"]), "");
    assert_eq!(git(&remote, &["rev-parse", "refs/heads/board"]), tip(&one));
    clones.sync(&two, &["origin", "--branch", "board"]);
    assert_eq!(clones.get(&two, "MA-3")["title"], "T");
    // The code has no such branch here.
    assert_eq!(git(&one, &["branch", "--list", "board"]), "");
}

#[test]
fn clones_that_push_at_once_lose_nothing() {
    let clones = Clones::new();
    let directories = [
        clones.one(),
        clones.clone_as("two"),
        clones.clone_as("three"),
    ];
    for clone in &directories {
        clones.sync(clone, &[]);
    }
    for round in 0..3 {
        std::thread::scope(|scope| {
            for (number, clone) in directories.iter().enumerate() {
                let clones = &clones;
                scope.spawn(move || {
                    clones
                        .repository
                        .task(clone, &format!("Task {round} of {number}"));
                    clones.sync(clone, &[]);
                });
            }
        });
    }
    for clone in directories.iter().chain(&directories) {
        clones.sync(clone, &[]);
    }
    for clone in &directories {
        assert_eq!(tip(clone), tip(&clones.remote()));
        let found = git(clone, &["grep", "-h", "^title: Task", REFERENCE]);
        let titles: BTreeSet<&str> = found.lines().collect();
        assert_eq!(titles.len(), 9, "{titles:?}");
    }
}

#[test]
fn log_shows_a_commit_with_a_long_message() {
    let clones = Clones::new();
    let (one, remote) = (clones.one(), clones.remote());
    clones.sync(&one, &[]);
    let tree = git(&remote, &["rev-parse", &format!("{REFERENCE}^{{tree}}")]);
    let message = "long".repeat(100_000);
    let message_file = remote.with_file_name("message");
    fs::write(&message_file, message).unwrap();
    let file = message_file.display().to_string();
    let words = ["commit-tree", tree.trim(), "-p", REFERENCE, "-F", &file];
    let commit = git(&remote, &words);
    git(&remote, &["update-ref", REFERENCE, commit.trim()]);
    clones.sync(&one, &[]);
    let log = clones.run(&one, &["log", "--limit", "1"]);
    assert_eq!(log.code, Some(0), "{log:?}");
    assert!(log.out.contains("longlong"), "{log:?}");
}

#[test]
fn board_without_its_database_gets_everything_back() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.sync(&one, &[]);
    clones.sync(&two, &[]);
    fs::remove_dir_all(two.join(".git/.orchestra")).unwrap();
    fs::remove_dir_all(two.join(".projects")).unwrap();
    let answer = clones.sync(&two, &[]);
    assert_eq!(answer["sent"], json!([]), "{answer}");
    clones.sync(&one, &[]);
    for clone in [&one, &two] {
        assert_eq!(clones.get(clone, "MA-3")["title"], "T");
    }
}

#[test]
fn linked_worktree_exchanges_the_board_of_all_worktrees() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.sync(&clones.repository.linked(), &[]);
    clones.sync(&two, &[]);
    clones.rename(&two, "MA-3", "Renamed");
    clones.sync(&two, &[]);
    clones.sync(&clones.repository.linked(), &[]);
    assert_eq!(clones.get(&one, "MA-3")["title"], "Renamed");
}

#[test]
fn shallow_and_partial_clone_gets_the_whole_board() {
    let clones = Clones::new();
    let one = clones.one();
    clones.sync(&one, &[]);
    clones.rename(&one, "MA-3", "Renamed");
    clones.sync(&one, &[]);
    let (remote, two) = (clones.remote(), one.with_file_name("two"));
    git(&remote, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", remote.display());
    let two_text = two.display().to_string();
    let filter = "--filter=blob:none";
    git(
        &one,
        &["clone", "--quiet", "--depth=1", filter, &url, &two_text],
    );
    clones.sync(&two, &[]);
    assert_eq!(clones.get(&two, "MA-3")["title"], "Renamed");
    clones.repository.task(&two, "Of two");
    clones.sync(&two, &[]);
    clones.sync(&one, &[]);
    assert_eq!(clones.get(&one, "MA-4")["title"], "Of two");
}

#[test]
fn repositories_of_other_formats_exchange_boards() {
    let clones = Clones::new();
    for (name, format) in [
        ("sha", "--object-format=sha256"),
        ("table", "--ref-format=reftable"),
    ] {
        let directory = |suffix: &str| clones.one().with_file_name(format!("{name}-{suffix}"));
        let (remote, first, second) = (directory("remote"), directory("one"), directory("two"));
        let init = |path: &Path, kind: &str| {
            let mut command = Command::new("git");
            command.args(["init", "--quiet", kind, format]).arg(path);
            command.stderr(Stdio::null()).status().unwrap().success()
        };
        // Not every version of git has each format.
        if !init(&remote, "--bare") || !init(&first, "--initial-branch=main") {
            continue;
        }
        let shown = remote.display().to_string();
        git(&first, &["remote", "add", "origin", &shown]);
        let project = json!({"name": "My App"});
        clones.repository.call(&first, "create_project", &project);
        clones.sync(&first, &[]);
        git(
            &clones.one(),
            &["clone", "--quiet", &shown, &second.display().to_string()],
        );
        clones.sync(&second, &[]);
        let projects = clones.repository.call(&second, "list_projects", &json!({}));
        assert!(
            projects.to_string().contains("my-app"),
            "{format}: {projects}"
        );
        assert_eq!(tip(&first), tip(&second), "{format}");
    }
}

#[test]
fn command_in_a_clone_without_a_board_names_sync() {
    let clones = Clones::new();
    let two = clones.clone_as("two");
    let list = ["tool", "call", "list_projects"];
    let refused = clones.run(&two, &list);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    assert!(refused.err.contains("`orchestra sync`"), "{refused:?}");
    // The remote has no board either.
    let refused = clones.run(&two, &["sync"]);
    let expected =
        "none at the git remote. Run `orchestra sync` first in the clone that has the board";
    assert!(refused.err.contains(expected), "{refused:?}");
    git(&two, &["remote", "remove", "origin"]);
    let refused = clones.run(&two, &list);
    assert!(!refused.err.contains("`orchestra sync`"), "{refused:?}");
}

#[test]
fn empty_board_in_a_clone_names_sync_until_it_has_a_project() {
    let clones = Clones::new();
    let two = clones.clone_as("two");
    let list = ["tool", "call", "list_projects"];
    let hints = |said: &Said| {
        let texts = [&said.out, &said.err];
        texts.map(|text| text.matches("`orchestra sync` fetches").count())
    };
    let created = said(clones.command(&two, &["stdio"]), "");
    assert_eq!(hints(&created), [0, 1], "{created:?}");
    let listed = clones.run(&two, &list);
    assert_eq!(
        (listed.code, hints(&listed)),
        (Some(0), [1, 0]),
        "{listed:?}"
    );
    for words in [&["sync", "--dry-run"][..], &["sync"], &["sync"]] {
        let nothing = clones.run(&two, words);
        assert!(nothing.out.starts_with("neither this board"), "{nothing:?}");
    }
    clones.sync(&clones.one(), &[]);
    clones.sync(&two, &[]);
    let same = clones.run(&two, &["sync"]);
    assert!(same.out.contains("have the same content"), "{same:?}");
    let listed = clones.run(&two, &list);
    assert_eq!(
        (listed.code, hints(&listed)),
        (Some(0), [0, 0]),
        "{listed:?}"
    );
}

#[test]
fn board_of_a_checkout_travels_with_its_commits() {
    let repository = Repository::new("board = \"checkout\"\n");
    repository.fill();
    let said = repository.run(&repository.main(), &["sync"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("travel with its commits"), "{said:?}");
}

#[test]
fn changes_after_an_exchange_are_sent_without_the_rest() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.sync(&one, &[]);
    clones.sync(&two, &[]);
    let comment = json!({"project": "my-app", "issue_id": "MA-3", "text": "Seen"});
    clones.rename(&one, "MA-3", "Renamed");
    clones.repository.call(&one, "add_comment", &comment);
    clones.repository.task(&one, "New");
    let sent = clones.sync(&one, &[]);
    for part in [
        "MA-3 title: Renamed",
        "MA-3 comment: Seen",
        "MA-4 created: New",
    ] {
        assert!(sent["sent"].to_string().contains(part), "{sent}");
    }
    let story =
        json!({"project": "my-app", "epic_id": "MA-1", "title": "Other", "user_story": "U"});
    clones.repository.call(&one, "create_story", &story);
    let moved = json!({"project": "my-app", "issue_id": "MA-3", "parent_id": "MA-5"});
    clones.repository.call(&one, "move_issue", &moved);
    clones.sync(&one, &[]);
    let memory = json!({"project": "my-app", "content": "The sky is blue", "summary": "Sky"});
    clones.repository.call(&one, "save_memory", &memory);
    let deleted = json!({"project": "my-app", "task_id": "MA-4"});
    clones.repository.call(&one, "delete_task", &deleted);
    clones.sync(&one, &[]);
    clones.sync(&two, &[]);
    // A clone that builds its board from the commits has what the other one has, and adds nothing.
    let again = clones.sync(&one, &[]);
    let nothing = (&json!([]), &json!([]));
    assert_eq!((&again["received"], &again["sent"]), nothing, "{again}");
    let whole = clones.clone_as("three");
    let built = clones.sync(&whole, &[]);
    assert_eq!(built["sent"], json!([]), "{built}");
    assert_eq!(tip(&one), tip(&whole));
    let files = git(&one, &["ls-tree", "-r", "--name-only", REFERENCE]);
    assert_eq!(files.matches("MA-3.toon").count(), 1, "{files}");
    assert!(!files.contains("MA-4.toon"), "{files}");
    for clone in [&one, &two, &whole] {
        assert_eq!(clones.get(clone, "MA-3")["title"], "Renamed");
        assert!(!clones.repository.has(clone, "MA-4"));
    }
}

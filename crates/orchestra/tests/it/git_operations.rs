//! Effects of git commands on a board in both modes, as the table in `docs/how-to/worktrees.md` lists them.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    one_board::{Repository, git},
    support::PATIENCE,
};

const PAGE: &str = include_str!("../../../../docs/how-to/worktrees.md");

/// Heading of the section with the table.
const SECTION: &str = "## Effects of git commands on a board";

/// Tag of the commit that each operation begins with.
const START: &str = "start";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Repository,
    Checkout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    History,
    Branches,
    Files,
    Sparse,
    Worktrees,
}

/// Commands of git, each with its arguments.
type Commands = &'static [&'static [&'static str]];

/// A row of the table.
struct Operation {
    /// First cell of the row.
    name: &'static str,
    group: Group,
    /// Commands before the board is looked at for the first time.
    set_up: Commands,
    /// Adds a task and a line of code that no commit has.
    is_unsaved: bool,
    /// Commands after that.
    then: Commands,
    run: Commands,
    /// Project whose tasks are compared.
    project: &'static str,
    /// Checkouts that are looked at before and after the operation, relative to the main one.
    checkouts: [&'static str; 2],
}

impl Operation {
    const fn new(name: &'static str, group: Group, run: Commands) -> Self {
        Self {
            name,
            group,
            set_up: &[],
            is_unsaved: false,
            then: &[],
            run,
            project: "my-app",
            checkouts: [".", "."],
        }
    }

    const fn set_up(self, set_up: Commands) -> Self {
        Self { set_up, ..self }
    }

    const fn unsaved(self) -> Self {
        Self {
            is_unsaved: true,
            ..self
        }
    }

    const fn then(self, then: Commands) -> Self {
        Self { then, ..self }
    }

    const fn on(self, project: &'static str) -> Self {
        Self { project, ..self }
    }

    const fn between(self, checkouts: [&'static str; 2]) -> Self {
        Self { checkouts, ..self }
    }
}

/// An editor that stops a rebase after its first commit.
const STOP: &str = "sequence.editor=sed -i 1s/^pick/edit/";

const OPERATIONS: [Operation; 22] = {
    use Group::{Branches, Files, History, Sparse, Worktrees};
    [
        Operation::new(
            "`git add` and `git commit`",
            History,
            &[&["add", "--all"], &["commit", "--quiet", "--message=Next"]],
        )
        .unsaved(),
        Operation::new(
            "`git checkout` of a branch",
            Branches,
            &[&["checkout", "--quiet", "side"]],
        ),
        Operation::new(
            "`git checkout` of an older commit",
            Branches,
            &[&["checkout", "--quiet", "HEAD~1"]],
        ),
        Operation::new(
            "`git switch -c`",
            Branches,
            &[&["switch", "--quiet", "-c", "new"]],
        ),
        Operation::new(
            "`git merge`",
            Branches,
            &[&["merge", "--quiet", "--no-edit", "side"]],
        )
        .on("other"),
        Operation::new("`git rebase`", Branches, &[&["rebase", "--quiet", "side"]]).on("other"),
        Operation::new(
            "`git rebase` that stops, and `--continue`",
            Branches,
            &[
                &["-c", STOP, "rebase", "--quiet", "--interactive", "side"],
                &["-c", "core.editor=true", "rebase", "--continue"],
            ],
        )
        .on("other"),
        Operation::new("`git cherry-pick`", History, &[&["cherry-pick", "side"]]).on("other"),
        Operation::new("`git revert`", History, &[&["revert", "--no-edit", "HEAD"]]),
        Operation::new(
            "`git reset --hard`",
            History,
            &[&["reset", "--quiet", "--hard", "HEAD~1"]],
        ),
        Operation::new(
            "`git reset --soft`",
            History,
            &[&["reset", "--quiet", "--soft", "HEAD~1"]],
        ),
        Operation::new("`git stash -u`", Files, &[&["stash", "--quiet", "-u"]]).unsaved(),
        Operation::new("`git stash pop`", Files, &[&["stash", "pop", "--quiet"]])
            .unsaved()
            .then(&[&["stash", "--quiet", "-u"]]),
        Operation::new("`git clean -fdx`", Files, &[&["clean", "--quiet", "-fdx"]]),
        Operation::new("`git clean -fd`", Files, &[&["clean", "--quiet", "-fd"]]).unsaved(),
        Operation::new(
            "`git worktree add`",
            Worktrees,
            &[&["worktree", "add", "--quiet", "../added"]],
        )
        .unsaved()
        .between([".", "../added"]),
        Operation::new(
            "`git worktree move`",
            Worktrees,
            &[&["worktree", "move", "../from", "../moved"]],
        )
        .set_up(&[&["worktree", "add", "--quiet", "../from"]])
        .between(["../from", "../moved"]),
        Operation::new(
            "`git worktree remove`",
            Worktrees,
            &[&["worktree", "remove", "--force", "../removed"]],
        )
        .set_up(&[&["worktree", "add", "--quiet", "../removed"]])
        .unsaved()
        .between(["../removed", "."]),
        Operation::new(
            "`git pull --rebase`",
            Branches,
            &[&["pull", "--quiet", "--rebase", "../remote.git", "main"]],
        )
        .set_up(&[
            &["init", "--quiet", "--bare", "../remote.git"],
            &["push", "--quiet", "../remote.git", "side:refs/heads/main"],
        ])
        .on("other"),
        Operation::new(
            "`git bisect`, one step",
            Branches,
            &[&["bisect", "start", "HEAD", "HEAD~2"]],
        ),
        Operation::new(
            "`git sparse-checkout set`",
            // Alone in its group, because git leaves files in place that are not committed.
            Sparse,
            &[&["sparse-checkout", "set", "src"]],
        ),
        Operation::new("`git gc`", History, &[&["gc", "--quiet", "--prune=now"]]),
    ]
};

/// State of a checkout.
#[derive(Debug)]
struct Seen {
    /// Directory that has the board, or the checkout with its readable files.
    holder: PathBuf,
    /// Titles of the tasks on the board.
    board: BTreeMap<String, String>,
    /// Titles of the tasks in the readable files.
    files: BTreeMap<String, String>,
    /// `git status` lists readable files.
    is_changed: bool,
}

impl Seen {
    /// Cells of the table for what came after this.
    fn cells(&self, after: &Self) -> [&'static str; 3] {
        let is_lost = !self.holder.exists();
        let follows = after.board == after.files;
        let board = if after.board == self.board {
            "same"
        } else if is_lost {
            "lost"
        } else if follows {
            "follows"
        } else {
            "neither the same nor that of the files"
        };
        let files = if after.files == self.files {
            "same"
        } else if is_lost {
            "lost"
        } else if follows {
            "follow"
        } else if after.files.is_empty() {
            "missing"
        } else {
            "neither the same nor those of the board"
        };
        let status = match after.is_changed {
            true => "changed",
            false => "clean",
        };
        [board, files, status]
    }
}

/// A repository whose branches `main` and `side` differ in a task each, and of which only `side` has project `third`.
struct Scene {
    repository: Repository,
    mode: Mode,
}

impl Scene {
    fn new(mode: Mode) -> Self {
        let repository = Repository::new(match mode {
            // The mode of new workspaces.
            Mode::Repository => "",
            Mode::Checkout => "board = \"checkout\"\n",
        });
        let main = repository.main();
        git(&main, &["branch", "--move", "--force", "main"]);
        repository.fill();
        let project = "other";
        repository.call(&main, "create_project", &json!({"name": "Other"}));
        let epic = json!({"project": project, "title": "E"});
        let epic = repository.call(&main, "create_epic", &epic)["id"].clone();
        let story = json!({"project": project, "epic_id": epic, "title": "S", "user_story": "U"});
        let story = repository.call(&main, "create_story", &story)["id"].clone();
        let task = json!({"project": project, "story_id": story, "title": "T", "type": "task"});
        let task = repository.call(&main, "create_task", &task)["id"].clone();
        repository.workspace.write("src/lib.txt", "one\n");
        commit(&main, "Board");
        git(&main, &["checkout", "--quiet", "-b", "side"]);
        let renamed = json!({"project": project, "task_id": task, "title": "Renamed"});
        repository.call(&main, "update_task", &renamed);
        repository.call(&main, "create_project", &json!({"name": "Third"}));
        let epic = json!({"project": "third", "title": "E"});
        repository.call(&main, "create_epic", &epic);
        repository.workspace.write("side.txt", "one\n");
        commit(&main, "Side");
        git(&main, &["checkout", "--quiet", "main"]);
        repository.task(&main, "Second");
        repository.workspace.write("src/lib.txt", "two\n");
        commit(&main, "More");
        git(&main, &["tag", START]);
        Self { repository, mode }
    }

    /// Brings the main checkout back to where each operation begins.
    fn reset(&self) {
        let main = self.repository.main();
        for words in [
            &["bisect", "reset"][..],
            &["checkout", "--quiet", "--force", "main"],
            &["reset", "--quiet", "--hard", START],
            &["clean", "--quiet", "-fd"],
        ] {
            git(&main, words);
        }
        if self.mode == Mode::Repository {
            self.repository.run(&main, &["doctor", "--fix"]);
        }
    }

    fn see(&self, checkout: &str, project: &str) -> Seen {
        let at = self.repository.main().join(checkout);
        let at = at.canonicalize().expect("the checkout exists");
        let asked = json!({"project": project}).to_string();
        let words = ["tool", "call", "list_tasks", "--args", &asked];
        let listed = self.repository.run(&at, &words);
        // In mode `checkout`, a project without files is not on the board.
        let listed: Value = serde_json::from_str(&listed.out).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = listed["items"].as_array().into_iter().flatten();
        let (checkout, holder) = match self.mode {
            Mode::Repository => (self.repository.main(), self.repository.main()),
            Mode::Checkout => (at.clone(), at.join(".projects")),
        };
        let mut files = BTreeMap::new();
        read_tasks(&checkout.join(".projects").join(project), &mut files);
        let status = git(&at, &["status", "--porcelain", "--", ".projects"]);
        Seen {
            holder,
            board: items
                .map(|item| (text(&item["id"]), text(&item["title"])))
                .collect(),
            files,
            is_changed: !status.is_empty(),
        }
    }

    /// Looks until the readable files and the board have the same tasks.
    fn see_settled(&self, checkout: &str, project: &str) -> Seen {
        let end = Instant::now() + PATIENCE;
        loop {
            let seen = self.see(checkout, project);
            if seen.board == seen.files {
                return seen;
            }
            assert!(
                Instant::now() < end,
                "{:?} {checkout}: {seen:#?}",
                self.mode
            );
        }
    }

    /// Runs commands of git. Programs look at the board after each of them.
    fn git(&self, commands: Commands) {
        let main = self.repository.main();
        for words in commands {
            git(&main, words);
            self.see(".", "my-app");
        }
    }

    /// Runs an operation and compares its effects with the row of the table.
    fn check(&self, operation: &Operation) {
        let (name, mode, project) = (operation.name, self.mode, operation.project);
        let [first, last] = operation.checkouts;
        self.reset();
        self.git(operation.set_up);
        self.see_settled(first, project);
        if operation.is_unsaved {
            self.repository.workspace.write("src/lib.txt", "three\n");
            let at = self.repository.main().join(first);
            self.repository.task(&at, "Unsaved");
        }
        self.git(operation.then);
        let before = self.see_settled(first, project);
        self.git(operation.run);
        let expected = expected(name, mode);
        let end = Instant::now() + PATIENCE;
        loop {
            let after = self.see(last, project);
            let found = before.cells(&after);
            if found == expected {
                return;
            }
            assert!(
                Instant::now() < end,
                "{name} in mode {mode:?}: the page has {expected:?}, found {found:?}\n\
                 before {before:#?}\nafter {after:#?}"
            );
        }
    }
}

fn commit(directory: &Path, message: &str) {
    git(directory, &["add", "--all"]);
    git(directory, &["commit", "--quiet", "--message", message]);
}

/// Reads the titles of the tasks in the readable files below a directory.
fn read_tasks(directory: &Path, tasks: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.expect("a readable directory").path();
        if path.is_dir() {
            read_tasks(&path, tasks);
        }
        let is_of_tasks = directory.file_name().is_some_and(|name| name == "tasks");
        if is_of_tasks
            && path
                .extension()
                .is_some_and(|extension| extension == "toon")
        {
            let text = fs::read_to_string(&path).expect("a readable file");
            let title = text.lines().find_map(|line| line.strip_prefix("title: "));
            let id = path.file_stem().expect("a file").to_string_lossy();
            tasks.insert(id.into_owned(), title.unwrap_or_default().to_owned());
        }
    }
}

/// Rows of the table: the operation, then its cells in mode `repository` and in mode `checkout`.
fn rows() -> Vec<Vec<&'static str>> {
    let (_, section) = PAGE.split_once(SECTION).expect("the page has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `git "));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Cells of an operation in a mode.
fn expected(name: &str, mode: Mode) -> [&'static str; 3] {
    let rows = rows();
    let row = rows
        .iter()
        .find(|row| row[0] == name)
        .expect("the table has a row");
    let cells = match mode {
        Mode::Repository => &row[1..4],
        Mode::Checkout => &row[4..],
    };
    cells.try_into().expect("a row has seven cells")
}

fn check(mode: Mode, group: Group) {
    let scene = Scene::new(mode);
    for operation in &OPERATIONS {
        if operation.group == group {
            scene.check(operation);
        }
    }
}

#[test]
fn table_has_one_row_for_each_operation() {
    let rows = rows();
    let names: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(names, OPERATIONS.map(|operation| operation.name));
    assert!(rows.iter().all(|row| row.len() == 7), "{rows:?}");
}

#[test]
fn history_changes_a_board_of_the_repository_as_the_table_shows() {
    check(Mode::Repository, Group::History);
}

#[test]
fn history_changes_a_board_of_the_checkout_as_the_table_shows() {
    check(Mode::Checkout, Group::History);
}

#[test]
fn branches_change_a_board_of_the_repository_as_the_table_shows() {
    check(Mode::Repository, Group::Branches);
}

#[test]
fn branches_change_a_board_of_the_checkout_as_the_table_shows() {
    check(Mode::Checkout, Group::Branches);
}

#[test]
fn commands_on_files_change_a_board_of_the_repository_as_the_table_shows() {
    check(Mode::Repository, Group::Files);
}

#[test]
fn commands_on_files_change_a_board_of_the_checkout_as_the_table_shows() {
    check(Mode::Checkout, Group::Files);
}

#[test]
fn sparse_checkout_changes_a_board_of_the_repository_as_the_table_shows() {
    check(Mode::Repository, Group::Sparse);
}

#[test]
fn sparse_checkout_changes_a_board_of_the_checkout_as_the_table_shows() {
    check(Mode::Checkout, Group::Sparse);
}

#[test]
fn board_that_a_sparse_checkout_leaves_out_is_reported_and_comes_back() {
    let scene = Scene::new(Mode::Checkout);
    let main = scene.repository.main();
    let before = scene.see_settled(".", "my-app");
    git(&main, &["sparse-checkout", "set", "src"]);
    assert!(!main.join(".projects").exists());
    for words in [
        &["tool", "call", "list_projects"][..],
        &["tool", "call", "create_project", "name=Second"],
        &["stdio"],
    ] {
        let refused = scene.repository.run(&main, words);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let hint = "git tracks `.projects`, but the directory is missing in the checkout";
        assert!(refused.err.contains(hint), "{refused:?}");
        assert!(!refused.err.contains("orchestra init"), "{refused:?}");
    }
    assert!(!main.join(".projects").exists());
    git(&main, &["sparse-checkout", "add", ".projects"]);
    let after = scene.see_settled(".", "my-app");
    assert_eq!(after.board, before.board);
    assert!(!after.is_changed, "{after:?}");
}

#[test]
fn worktrees_change_a_board_of_the_repository_as_the_table_shows() {
    check(Mode::Repository, Group::Worktrees);
}

#[test]
fn worktrees_change_a_board_of_the_checkout_as_the_table_shows() {
    check(Mode::Checkout, Group::Worktrees);
}

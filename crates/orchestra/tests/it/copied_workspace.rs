//! Workspaces that were copied, moved, extracted from an archive, given to another user, or mounted read-only, and the
//! plans in them.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::Command,
};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::{
    local_users::{DAEMON, by, found, is_root},
    plans::{git, waits_for},
    support::{Running, Said, Workspace, program, said, until},
};

/// Directory of the database of plans in a repository.
const PLANS: &str = ".git/.orchestra/_/plans";

/// Status of a mount that the system does not permit.
const NOT_MOUNTED: i32 = 32;

/// A workspace with the plans `runs`, killed while its job worked, and `waits`, which was not started. Each of their
/// jobs adds a line to a file of its own beside the workspace.
struct Original {
    /// An empty directory, and the home of the user.
    workspace: Workspace,
    beside: PathBuf,
}

impl Original {
    fn new() -> Self {
        let workspace = Workspace::new();
        let beside = workspace.path().parent().unwrap().to_owned();
        let original = Self { workspace, beside };
        let path = original.path();
        fs::create_dir(&path).unwrap();
        let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
        for words in [
            &["init", "--quiet"][..],
            &["commit", "--quiet", "--allow-empty", "--message", "First"],
        ] {
            let mut git = Command::new("git");
            let status = git.args(identity).args(words).current_dir(&path).status();
            assert!(status.unwrap().success(), "{words:?}");
        }
        for name in ["runs", "waits"] {
            let marker = original.beside.join(name);
            let gate = original.beside.join("gate");
            let text = format!(
                "name: {name}\ntargetBranch: {name}\njobs:\n- producerId: marks\n  task: Mark\n  autoHeal: false\n  \
                 expectsNoChanges: true\n  work: |\n    echo started >> '{}'\n    \
                 while ! test -e '{}'; do sleep 0.02; done\n",
                marker.display(),
                gate.display()
            );
            fs::write(path.join(format!("{name}.yaml")), text).unwrap();
        }
        let created = original.plan(&path, &["create", "waits.yaml"]);
        assert_eq!(created.code, Some(0), "{created:?}");
        let run = original.command(&path, &["plan", "run", "runs.yaml", "--json"]);
        let mut run = Running::start(run);
        until(|| (original.starts("runs") == 1).then_some(()));
        run.kill();
        fs::write(original.beside.join("gate"), "").unwrap();
        // The job outlives the program. Nothing is written after its end.
        until(|| found(&path, "work.1.exit.json"));
        original
    }

    /// The directory in which it was created.
    fn path(&self) -> PathBuf {
        self.beside.join("original")
    }

    /// The command in a directory, of the user of the original.
    fn command(&self, directory: &Path, words: &[&str]) -> Command {
        let mut command = self.workspace.command(words);
        command
            .current_dir(directory)
            .env_remove("ORCHESTRATOR_WORKSPACE");
        command
    }

    fn run(&self, directory: &Path, words: &[&str]) -> Said {
        said(self.command(directory, words), "")
    }

    fn plan(&self, directory: &Path, words: &[&str]) -> Said {
        let words: Vec<&str> = ["plan"].iter().chain(words).copied().collect();
        self.run(directory, &words)
    }

    fn status(&self, directory: &Path, plan: &str) -> String {
        let shown = self.plan(directory, &["show", plan, "--json"]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        shown["status"].as_str().unwrap().to_owned()
    }

    /// How often the job of a plan has started.
    fn starts(&self, plan: &str) -> usize {
        let text = fs::read_to_string(self.beside.join(plan));
        text.map_or(0, |text| text.lines().count())
    }

    /// Looks at the plans by each command that does so, and asserts that none has started.
    fn look(&self, directory: &Path) {
        for words in [
            &["plan", "list"][..],
            &["plan", "show", "runs"],
            &["plan", "graph", "runs"],
            &["plan", "logs", "runs", "marks"],
            &["tool", "call", "list_copilot_plans"],
            &["top", "--once"],
            &["doctor"],
        ] {
            self.run(directory, words);
            assert_eq!(self.starts("runs"), 1, "{words:?}");
            assert_eq!(self.starts("waits"), 0, "{words:?}");
        }
    }
}

/// Runs a program of the system.
fn system(program: &str, arguments: &[&OsString]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// The random id of a database of plans. Workspaces of earlier versions have none.
fn id(workspace: &Path) -> Option<Vec<u8>> {
    let database = found(&workspace.join(PLANS), "plans.db")?;
    let connection =
        Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let id = "SELECT value FROM fact WHERE name = 'id'";
    Some(connection.query_row(id, [], |row| row.get(0)).unwrap())
}

#[test]
fn copy_of_a_workspace_has_an_id_of_its_own_and_paused_plans() {
    let original = Original::new();
    let (from, to) = (original.path(), original.beside.join("copy"));
    let before = id(&from);
    system(
        "cp",
        &[&"-r".into(), &from.clone().into(), &to.clone().into()],
    );
    assert_eq!(id(&to), before);
    original.look(&to);
    let accepted = original.plan(&to, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    original.look(&to);
    // Only a command continues one, and that in the copy alone.
    let resumed = original.plan(&to, &["resume", "waits"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let watched = original.plan(&to, &["watch", "waits"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(original.starts("waits"), 1);
    let status = original.status(&to, "runs");
    assert!(["failed", "paused"].contains(&&*status), "{status}");
    assert_eq!(original.starts("runs"), 1);
    assert_ne!(id(&to), before);
    assert_eq!(id(&from), before);
    assert_eq!(original.status(&from, "waits"), "pending-start");
    // The original is still trusted.
    let resumed = original.plan(&from, &["resume", "waits"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let watched = original.plan(&from, &["watch", "waits"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(original.starts("waits"), 2);
}

#[test]
fn moved_workspace_stays_the_same_and_what_is_put_in_its_old_place_is_a_copy() {
    let original = Original::new();
    let (from, to) = (original.path(), original.beside.join("moved to here"));
    let before = id(&from);
    system("mv", &[&from.clone().into(), &to.clone().into()]);
    original.look(&to);
    let resumed = original.plan(&to, &["resume", "waits"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    assert!(!resumed.err.contains("plan trust"), "{resumed:?}");
    let watched = original.plan(&to, &["watch", "waits"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(original.starts("waits"), 1);
    assert_eq!(id(&to), before);
    let lock = to.join(PLANS).join(".lock");
    until(|| (!orchestra_fs::is_locked(&lock).unwrap()).then_some(()));
    system(
        "cp",
        &[&"-r".into(), &to.clone().into(), &from.clone().into()],
    );
    let accepted = original.plan(&from, &["trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let created = original.plan(&from, &["create", "waits.yaml", "--name", "more"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    assert_ne!(id(&from), before);
    assert_eq!(id(&to), before);
}

#[test]
fn restored_backup_of_a_workspace_is_a_copy() {
    let original = Original::new();
    let (from, backup) = (original.path(), original.beside.join("backup"));
    let before = id(&from);
    let copy = |from: &Path, to: &Path| {
        let (from, to): (OsString, OsString) = (from.into(), to.into());
        system("cp", &[&"-r".into(), &from, &to]);
    };
    copy(&from, &backup);
    fs::remove_dir_all(&from).unwrap();
    // At the path of the original, and elsewhere after the original is gone.
    copy(&backup, &from);
    for place in [&from, &backup] {
        original.look(place);
        // A leader is elected, and continues nothing.
        let created = original.plan(place, &["create", "waits.yaml", "--name", "more"]);
        assert_eq!(created.code, Some(0), "{created:?}");
        let status = original.status(place, "runs");
        assert!(["failed", "paused"].contains(&&*status), "{status}");
        assert_eq!(original.starts("runs"), 1);
        assert_ne!(id(place), before);
    }
    let resumed = original.plan(&from, &["resume", "waits"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let watched = original.plan(&from, &["watch", "waits"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(original.starts("waits"), 1);
}

#[test]
fn clone_of_a_repository_has_no_plans() {
    let original = Original::new();
    let clone = original.beside.join("clone");
    system(
        "git",
        &[
            &"clone".into(),
            &"--quiet".into(),
            &original.path().into(),
            &clone.clone().into(),
        ],
    );
    let listed = original.plan(&clone, &["list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(!listed.out.contains("runs"), "{listed:?}");
    let created = original.plan(&clone, &["create", "../original/waits.yaml"]);
    assert_eq!(created.code, Some(0), "{created:?}");
    assert_ne!(id(&clone), id(&original.path()));
}

/// The git directory, and with it the database, comes along. The other user has another state directory.
#[test]
fn archive_that_another_user_extracts_is_data_until_accepted() {
    let original = Original::new();
    let theirs = Workspace::new();
    let archive = theirs.home().join("archive.tar");
    let directory = OsString::from("-C");
    system(
        "tar",
        &[
            &"-cf".into(),
            &archive.clone().into(),
            &directory,
            &original.path().into(),
            &".".into(),
        ],
    );
    system(
        "tar",
        &[
            &"-xf".into(),
            &archive.into(),
            &directory,
            &theirs.path().into(),
            &"--no-same-owner".into(),
        ],
    );
    let run = |words: &[&str]| theirs.run(words.iter().copied());
    let list = ["plan", "list"];
    let listed = run(&list);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("runs"), "{listed:?}");
    for words in [
        &list[..],
        &["plan", "resume", "waits"],
        &["plan", "retry", "runs"],
        &["doctor"],
    ] {
        let refused = run(words);
        let text = format!("{}{}", refused.out, refused.err);
        assert!(
            text.contains("orchestra plan trust"),
            "{words:?}: {refused:?}"
        );
        assert_eq!(original.starts("runs"), 1, "{words:?}");
        assert_eq!(original.starts("waits"), 0, "{words:?}");
    }
    let accepted = run(&["plan", "trust", "--yes"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    let listed = run(&list);
    assert!(!listed.err.contains("plan trust"), "{listed:?}");
    assert_eq!(original.starts("runs"), 1);
    assert_ne!(id(&theirs.path()), id(&original.path()));
}

/// As a container sees it that runs as another user: the owner of the files is that of the host.
#[test]
fn workspace_mounted_for_another_user_is_refused_in_one_sentence() {
    if !is_root("workspace_mounted_for_another_user_is_refused_in_one_sentence") {
        return;
    }
    let original = Original::new();
    let opened = ["original", "original/.git"].map(|path| original.beside.join(path));
    for path in opened.iter().chain([&original.beside]) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let home = original.beside.join("home of the container");
    fs::create_dir(&home).unwrap();
    chown(&home, Some(DAEMON), Some(DAEMON)).unwrap();
    for words in [
        &["plan", "list"][..],
        &["plan", "resume", "waits"],
        &["doctor"],
        &["stdio"],
        &["tool", "call", "list_projects"],
    ] {
        let mut command = original.command(&original.path(), words);
        command.env("HOME", &home);
        let refused = said(by(DAEMON, &command), "");
        assert_eq!(refused.code, Some(2), "{words:?}: {refused:?}");
        assert_eq!(refused.err.lines().count(), 1, "{words:?}: {refused:?}");
        let path = original.path().display().to_string();
        assert!(refused.err.contains(&path), "{words:?}: {refused:?}");
    }
    assert_eq!(original.starts("waits"), 0);
    assert_eq!(entries(&home), Vec::<OsString>::new());
}

/// Only the git directory is another user's, as where a container created it.
#[test]
fn git_directory_of_another_user_gets_no_plans() {
    if !is_root("git_directory_of_another_user_gets_no_plans") {
        return;
    }
    let workspace = Workspace::git();
    let git = workspace.join(".git");
    workspace.write("plan.yaml", &waits_for("waits", &workspace.home()));
    chown(&git, Some(DAEMON), None).unwrap();
    let before = entries(&git);
    let refused = workspace.run(["plan", "create", "plan.yaml"]);
    assert_not_stored_elsewhere(&workspace, &refused);
    assert!(refused.err.contains(".git"), "{refused:?}");
    assert_eq!(entries(&git), before);
}

/// Names in a directory, sorted.
fn entries(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// Asserts that a command was refused in one sentence, and stored no plan in another place instead.
fn assert_not_stored_elsewhere(workspace: &Workspace, refused: &Said) {
    assert_ne!(refused.code, Some(0), "{refused:?}");
    let errors = refused.err.lines().filter(|line| line.starts_with("error"));
    assert_eq!(errors.count(), 1, "{refused:?}");
    for directory in [workspace.path(), workspace.home()] {
        assert_eq!(found(&directory, "plans.db"), None, "{refused:?}");
    }
}

/// The program in the directory `here`, where a directory is mounted read-only.
pub(crate) fn read_only_command(
    workspace: &Workspace,
    here: &Path,
    mounted: &Path,
    words: &[&str],
) -> Command {
    // The directory is entered again: it is another one once something is mounted there.
    let script = format!(
        "mount --bind '{mounted}' '{mounted}' && mount -o remount,bind,ro '{mounted}' && cd '{here}' && exec \"$0\" \"$@\"",
        mounted = mounted.display(),
        here = here.display()
    );
    let own_namespace: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["--mount", "sh", "-c"],
        false => &["--user", "--map-root-user", "--mount", "sh", "-c"],
    };
    let mut command = workspace.command_as(Path::new("unshare"), own_namespace);
    command
        .env_remove("ORCHESTRATOR_WORKSPACE")
        .arg(script)
        .arg(program())
        .args(words);
    command
}

/// Runs the program in the directory `here`, where a directory is mounted read-only; `None` where the system mounts
/// nothing.
pub(crate) fn read_only(
    workspace: &Workspace,
    here: &Path,
    mounted: &Path,
    words: &[&str],
) -> Option<Said> {
    let said = said(read_only_command(workspace, here, mounted, words), "");
    let is_unsupported = said.code == Some(NOT_MOUNTED) || said.err.starts_with("unshare:");
    if is_unsupported {
        crate::skip::skip(&format!("this system mounts nothing here: {}", said.err));
    }
    (!is_unsupported).then_some(said)
}

#[test]
fn read_only_workspace_is_shown_and_changes_are_refused_in_one_sentence() {
    let original = Original::new();
    let (workspace, top) = (&original.workspace, original.path());
    let create = ["tool", "call", "create_project", "name=Shop"];
    let created = original.run(&top, &create);
    assert_eq!(created.code, Some(0), "{created:?}");
    let home = all_below(&workspace.home());
    let run = |words: &[&str]| read_only(workspace, &top, &top, words);
    let Some(listed) = run(&["plan", "list"]) else {
        return;
    };
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.out.contains("waits"), "{listed:?}");
    for words in [
        &["plan", "create", "waits.yaml"][..],
        &["plan", "resume", "waits"],
        &["tool", "call", "create_project", "name=More"],
        &["init"],
        &["up", "--http", "127.0.0.1:0", "--quic", "off"],
    ] {
        let refused = run(words).unwrap();
        assert_ne!(refused.code, Some(0), "{words:?}: {refused:?}");
        assert!(refused.code.is_some(), "{words:?}: {refused:?}");
        let text = refused.err.to_lowercase();
        let is_named = ["read-only", "read only", "cannot be written"]
            .iter()
            .any(|words| text.contains(words));
        assert!(is_named, "{words:?}: {refused:?}");
        assert!(!refused.err.contains("panicked"), "{words:?}: {refused:?}");
    }
    assert_eq!(original.starts("waits"), 0);
    // Nothing was stored in the home directory instead.
    assert_eq!(databases(&home), databases(&all_below(&workspace.home())));
    let shown = original.run(&top, &["tool", "call", "list_projects"]);
    assert!(!shown.out.contains("More"), "{shown:?}");
}

/// Files and directories below a directory.
fn all_below(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for name in entries(directory) {
        let path = directory.join(name);
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            all.extend(all_below(&path));
        }
        all.push(path);
    }
    all
}

/// The databases among files.
fn databases(paths: &[PathBuf]) -> Vec<&PathBuf> {
    let is_database = |path: &&PathBuf| path.extension().is_some_and(|end| end == "db");
    paths.iter().filter(is_database).collect()
}

/// As sandboxes of agents have it: the working tree can be written, and the git directory cannot.
#[test]
fn read_only_git_directory_gets_no_plans_unless_the_user_chooses_the_state_directory() {
    let workspace = Workspace::git();
    // A plan begins at a commit, and creates one in a repository without any.
    let identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
    let commit = ["commit", "--quiet", "--allow-empty", "--message", "First"];
    git(&workspace, &[&identity[..], &commit[..]].concat());
    workspace.write("plan.yaml", &waits_for("waits", &workspace.home()));
    let (top, git) = (workspace.path(), workspace.join(".git"));
    let run = |words: &[&str]| read_only(&workspace, &top, &git, words);
    let create = ["plan", "create", "plan.yaml"];
    let Some(refused) = run(&create) else {
        return;
    };
    assert_not_stored_elsewhere(&workspace, &refused);
    assert!(refused.err.contains(".git"), "{refused:?}");
    let configuration = workspace.home().join(".config/orchestra/orchestra.toml");
    fs::create_dir_all(configuration.parent().unwrap()).unwrap();
    fs::write(configuration, "place = \"state\"\n").unwrap();
    let created = run(&create).unwrap();
    assert_eq!(created.code, Some(0), "{created:?}");
    let state = workspace.home().join(".local/state/orchestra/workspaces");
    assert!(found(&state, "plans.db").is_some(), "{created:?}");
    assert_eq!(found(&workspace.path(), "plans.db"), None);
    let listed = run(&["plan", "list"]).unwrap();
    assert!(listed.out.contains("waits"), "{listed:?}");
}

#[test]
fn read_only_git_directory_with_the_board_refuses_changes_and_names_the_ways_out() {
    let workspace = Workspace::git();
    for words in [
        &["init"][..],
        &["tool", "call", "create_project", "name=Shop"],
    ] {
        let created = workspace.run(words);
        assert_eq!(created.code, Some(0), "{created:?}");
    }
    let (top, git) = (workspace.path(), workspace.join(".git"));
    let run = |words: &[&str]| read_only(&workspace, &top, &git, words);
    let Some(epic) = run(&["tool", "call", "create_epic", "project=shop", "title=One"]) else {
        return;
    };
    let memory = run(&["memory", "save", "Greetings are short"]).unwrap();
    for refused in [epic, memory] {
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(!refused.err.contains("not audited"), "{refused:?}");
        // One sentence, with each way out.
        for part in ["MCP tools", "writable_roots"] {
            assert_eq!(refused.err.matches(part).count(), 1, "{part}: {refused:?}");
        }
    }
    let doctor = run(&["doctor"]).unwrap();
    let text = format!("{}{}", doctor.out, doctor.err);
    assert!(text.contains("sandbox.filesystem.allowWrite"), "{doctor:?}");
    let init = run(&["init"]).unwrap();
    assert!(init.err.contains("outside of the sandbox"), "{init:?}");
}

//! A repository of a user, whose path has a space and an emoji, with the user's own git beside ours.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use orchestra_plan::ids::{Branch, Commit, JobId, PlanId};
use orchestra_runner::git::{
    Committed, Forward, Git, GitSettings, Integration, Intent, Landing, Owner, Prepared,
    Repository, TargetChoice, Worktree,
};
use tempfile::TempDir;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user with a repository.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) root: PathBuf,
}

/// Variables for a git of ours or the user's that no configuration of this machine reaches.
fn environment(home: &Path) -> Vec<(OsString, OsString)> {
    [
        ("HOME", home.as_os_str().to_owned()),
        ("XDG_CONFIG_HOME", home.join("config").into_os_string()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_CONFIG_GLOBAL", home.join("gitconfig").into_os_string()),
    ]
    .map(|(name, value)| (name.into(), value))
    .to_vec()
}

impl World {
    /// A repository with one commit on `main`.
    pub(crate) fn new() -> Self {
        let world = Self::empty();
        world.save("first", &[("README", "read me\n"), ("src/a.txt", "a\n")]);
        world
    }

    /// A repository without commits.
    pub(crate) fn empty() -> Self {
        Self::of_format("sha1")
    }

    pub(crate) fn of_format(format: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("work here 🎉");
        fs::create_dir(&root).unwrap();
        let world = Self { directory, root };
        world.git(&["init", "-q", "-b", "main", "--object-format", format]);
        world.git(&["config", "user.name", "A User"]);
        world.git(&["config", "user.email", "user@example.org"]);
        world
    }

    /// The user runs git, which must succeed.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git_in(self.directory.path(), &self.root, arguments)
    }

    /// The user runs git, which may fail.
    pub(crate) fn try_git(&self, arguments: &[&str]) -> Output {
        command(self.directory.path(), &self.root, arguments)
            .output()
            .unwrap()
    }

    pub(crate) fn settings(&self) -> GitSettings {
        GitSettings {
            environment: environment(self.directory.path()),
            ..GitSettings::default()
        }
    }

    /// We open the repository.
    pub(crate) async fn open(&self) -> Repository {
        let git = Git::find(self.settings()).await.unwrap();
        let repository = Repository::open(&git, &self.root).await.unwrap();
        repository
            .exclude(&orchestra_runner::git::EXCLUDED)
            .await
            .unwrap();
        repository
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.root, path, content);
    }

    /// The user commits files.
    pub(crate) fn save(&self, message: &str, files: &[(&str, &str)]) -> Commit {
        for (path, content) in files {
            self.write(path, content);
        }
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.rev("HEAD")
    }

    /// The commit that a name stands for.
    pub(crate) fn rev(&self, name: &str) -> Commit {
        Commit::parse(self.git(&["rev-parse", "--verify", name]).trim()).unwrap()
    }

    /// The content of a file in a commit.
    pub(crate) fn show(&self, commit: &Commit, path: &str) -> String {
        self.git(&["show", &format!("{commit}:{path}")])
    }

    /// The paths that a commit has.
    pub(crate) fn files(&self, commit: &Commit) -> Vec<String> {
        let listed = self.git(&["ls-tree", "-r", "-z", "--name-only", commit.as_str()]);
        listed.split_terminator('\0').map(str::to_owned).collect()
    }

    /// What is the user's: `HEAD`, index, configuration and every file but in our directory, by content,
    /// mode and time.
    pub(crate) fn picture(&self) -> BTreeMap<PathBuf, String> {
        let mut picture = BTreeMap::new();
        let git = self.root.join(".git");
        for name in ["HEAD", "index", "config"] {
            look(&git.join(name), &mut picture);
        }
        for entry in fs::read_dir(&self.root).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap();
            if name != ".git" && name != ".worktrees" {
                look_below(&path, &mut picture);
            }
        }
        picture
    }

    /// All branches but our snapshots, and where they are.
    pub(crate) fn branches(&self) -> String {
        self.git(&[
            "for-each-ref",
            "--format=%(refname) %(objectname)",
            "refs/heads",
        ])
        .lines()
        .filter(|line| !line.contains("orchestrator/snapshot"))
        .map(|line| format!("{line}\n"))
        .collect()
    }
}

fn look_below(path: &Path, picture: &mut BTreeMap<PathBuf, String>) {
    look(path, picture);
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            look_below(&entry.unwrap().path(), picture);
        }
    }
}

fn look(path: &Path, picture: &mut BTreeMap<PathBuf, String>) {
    let Ok(data) = fs::symlink_metadata(path) else {
        return;
    };
    let content = if data.is_file() {
        format!("{:x?}", fs::read(path).unwrap())
    } else if data.is_symlink() {
        format!("{:?}", fs::read_link(path).unwrap())
    } else {
        "directory".to_owned()
    };
    let times = if data.is_dir() {
        0
    } else {
        data.mtime_nsec() + data.mtime()
    };
    picture.insert(
        path.to_owned(),
        format!("{:o} {times} {content}", data.mode()),
    );
}

pub(crate) fn command(home: &Path, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .envs(environment(home))
        .current_dir(directory)
        .args(arguments);
    command
}

pub(crate) fn git_in(home: &Path, directory: &Path, arguments: &[&str]) -> String {
    succeeding(arguments, || {
        command(home, directory, arguments).output().unwrap()
    })
}

/// Output of git, which must succeed. It runs again while it finds a worktree that another git is
/// creating: git fails to read it until it is complete.
pub(crate) fn succeeding(arguments: &[&str], run: impl Fn() -> Output) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let output = run();
        if output.status.success() {
            return String::from_utf8_lossy(&output.stdout).into_owned();
        }
        let error = String::from_utf8_lossy(&output.stderr);
        let is_incomplete = error.contains("/commondir");
        assert!(
            is_incomplete && Instant::now() < end,
            "git {arguments:?}: {error}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn write(root: &Path, path: &str, content: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn branch(name: &str) -> Branch {
    Branch::parse(name).unwrap()
}

pub(crate) fn plan(number: u8) -> PlanId {
    PlanId::of_random([number; 16])
}

pub(crate) fn job(plan: u8, number: u8) -> Owner {
    let mut bytes = [plan; 16];
    bytes[0] = number;
    Owner::Job(self::plan(plan), JobId::of_random(bytes))
}

/// A new worktree of a job.
pub(crate) async fn prepare(repository: &Repository, number: u8, commit: &Commit) -> Worktree {
    let Prepared { worktree, .. } = repository.prepare(job(1, number), commit).await.unwrap();
    worktree
}

/// A job that writes files, from its worktree to its commit.
pub(crate) async fn work(
    repository: &Repository,
    number: u8,
    base: &Commit,
    files: &[(&str, &str)],
) -> Commit {
    let worktree = prepare(repository, number, base).await;
    for (path, content) in files {
        write(worktree.path(), path, content);
    }
    commit(&worktree, base).await.commit
}

pub(crate) async fn commit(worktree: &Worktree, base: &Commit) -> Committed {
    worktree.commit(base, "[Plan] work").await.unwrap().unwrap()
}

/// The commit that a merge came to.
pub(crate) async fn merged(repository: &Repository, commits: &[Commit]) -> Commit {
    match repository.merge(commits, "merge").await.unwrap() {
        Forward::Merged(commit) => commit,
        Forward::Conflict(conflict) => panic!("{conflict}"),
    }
}

/// What an integration came to that has no obstacles.
pub(crate) async fn ready(
    repository: &Repository,
    target: &str,
    commits: &[Commit],
) -> (Intent, Landing) {
    match repository
        .integrate(&branch(target), commits, "plan", 80)
        .await
        .unwrap()
    {
        Integration::Ready { intent, landing } => (intent, landing),
        other => panic!("{other:?}"),
    }
}

/// A choice of a target by a plan that is called `A plan`.
pub(crate) fn choice<'a>(asked: Option<&'a str>, taken: &'a [Branch]) -> TargetChoice<'a> {
    TargetChoice {
        asked,
        plan: "A plan",
        prefix: "orchestra/",
        taken,
    }
}

//! Repositories, and the answers of git.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use orchestra_place::{Choice, Place, PlaceError, Safety};

/// A temporary directory with a canonical path, and a state directory in it.
pub(crate) struct Root {
    _directory: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Root {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        fs::create_dir(path.join("state")).unwrap();
        Self {
            _directory: directory,
            path,
        }
    }

    /// Creates a repository with one commit, and a directory in it.
    pub(crate) fn repository(&self, name: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::create_dir_all(path.join("apps/web")).unwrap();
        fs::write(path.join("apps/web/file"), name).unwrap();
        git(&path, &["init", "--quiet", "--initial-branch", "main"]);
        commit(&path);
        path
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path.join("state")
    }

    pub(crate) fn find(&self, workspace: &Path) -> Result<Place, PlaceError> {
        let workspace = workspace.canonicalize().unwrap();
        Place::find(&workspace, Some(&self.state()), Choice::Repository)
    }

    /// Returns the place of a workspace that the user lists as safe.
    pub(crate) fn find_safe(&self, workspace: &Path) -> Place {
        let workspace = workspace.canonicalize().unwrap();
        let (state, choice) = (self.state(), Choice::Repository);
        Place::find_as(&workspace, Some(&state), choice, Safety::Safe).unwrap()
    }

    /// Returns the place, whose directories are those of the git directories that git answers.
    pub(crate) fn found(&self, workspace: &Path, key: &str) -> Place {
        let place = self.find(workspace).unwrap();
        let directory = |option: &str| answer(workspace, option).join(".orchestra").join(key);
        assert_eq!(
            place.shared(),
            directory("--git-common-dir"),
            "{workspace:?}"
        );
        assert_eq!(place.own(), directory("--git-dir"), "{workspace:?}");
        place
    }

    /// Checks that the place is in the state directory.
    pub(crate) fn found_in_state(&self, workspace: &Path) {
        let place = self.find(workspace).unwrap();
        assert!(place.shared().starts_with(self.state()), "{place:?}");
        assert_eq!(place.shared(), place.own());
    }
}

/// Returns a path that git prints for a directory, without links.
pub(crate) fn answer(directory: &Path, option: &str) -> PathBuf {
    let text = git(directory, &["rev-parse", option]);
    directory.join(text).canonicalize().unwrap()
}

pub(crate) fn commit(repository: &Path) {
    git(repository, &["add", "--all"]);
    git(repository, &["commit", "--quiet", "--message", "x"]);
}

/// Runs git without the configuration and the environment of the user, and returns its output.
pub(crate) fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let output = command
        .args(["-c", "user.name=n", "-c", "user.email=n@example.org"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .current_dir(directory)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        text(output.stderr)
    );
    text(output.stdout).trim_end().to_owned()
}

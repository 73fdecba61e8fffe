//! Programs that a repository has ready for a sync: hooks of the receiving repository, and programs with
//! names that git starts.

use std::{ffi::OsStr, fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use super::Clones;
use crate::one_board::git;

#[test]
fn sync_runs_no_hook_of_a_repository_on_this_machine() {
    let clones = Clones::new();
    let ran = clones.one().with_file_name("ran");
    for hook in [
        "pre-receive",
        "update",
        "post-receive",
        "post-update",
        "reference-transaction",
    ] {
        let path = clones.remote().join("hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        program(&path, &format!("echo {hook} >> '{}'", ran.display()));
    }
    let other = clones.clone_as("other");
    let info = clones.remote().join("objects/info");
    fs::create_dir_all(&info).unwrap();
    fs::write(
        info.join("alternates"),
        other.join(".git/objects").display().to_string(),
    )
    .unwrap();
    let command = format!("echo alternates >> '{}'; :", ran.display());
    git(
        &clones.remote(),
        &["config", "core.alternateRefsCommand", &command],
    );
    clones.sync(&clones.one(), &[]);
    assert!(!ran.exists(), "{:?}", fs::read_to_string(&ran));
    let url = format!("file://{}", clones.remote().display());
    let one = clones.one();
    git(&one, &["config", "remote.origin.pushurl", "host:board"]);
    git(
        &one,
        &["config", &format!("url.{url}.insteadOf"), "host:board"],
    );
    for (title, words) in [("Renamed", &[][..]), ("Renamed again", &["host:board"])] {
        clones.rename(&clones.one(), "MA-3", title);
        clones.sync(&clones.one(), words);
    }
    assert!(!ran.exists(), "{:?}", fs::read_to_string(&ran));
}

fn program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn path_of(command: &Command) -> String {
    let mut variables = command.get_envs();
    let path = variables.find_map(|(name, value)| value.filter(|_| name == "PATH"));
    path.and_then(OsStr::to_str).unwrap().to_owned()
}

#[test]
fn sync_starts_no_program_of_a_relative_directory_in_path() {
    let clones = Clones::new();
    let (one, ran) = (clones.one(), clones.one().with_file_name("ran"));
    for name in ["ssh", "git-remote-evil"] {
        let script = format!("echo {name} >> '{}'; exit 1", ran.display());
        program(&one.join(name), &script);
    }
    for url in ["ssh://localhost/x", "evil::x"] {
        git(&one, &["remote", "set-url", "origin", url]);
        for place in [".:", ":", "bin/..:"] {
            let mut sync = clones.command(&one, &["sync"]);
            let path = format!("{place}{}", path_of(&sync));
            let ended = sync.env("PATH", path).output().unwrap();
            assert!(!ended.status.success(), "{ended:?}");
        }
    }
    assert!(!ran.exists(), "{:?}", fs::read_to_string(&ran));
}

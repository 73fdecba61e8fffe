//! Hooks of the repository that receives a board.

use std::{fs, os::unix::fs::PermissionsExt as _};

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
        fs::write(
            &path,
            format!("#!/bin/sh\necho {hook} >> '{}'\n", ran.display()),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
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
    git(
        &clones.one(),
        &[
            "config",
            &format!("url.{url}.pushInsteadOf"),
            "https://host.invalid/board",
        ],
    );
    git(
        &clones.one(),
        &[
            "config",
            "remote.origin.pushurl",
            "https://host.invalid/board",
        ],
    );
    git(
        &clones.one(),
        &["config", &format!("url.{url}.insteadOf"), "host:board"],
    );
    for (title, words) in [("Renamed", &[][..]), ("Renamed again", &["host:board"])] {
        clones.rename(&clones.one(), "MA-3", title);
        clones.sync(&clones.one(), words);
    }
    assert!(!ran.exists(), "{:?}", fs::read_to_string(&ran));
}

//! Paths to which protected ones lead, in the sandbox of a child.

#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use orchestra_process::{CHILD_COMMAND, Launcher, mounts_allowed};

use crate::{
    mounts::{sandbox, shell, without_mounts},
    program::{path, run},
};

/// Files of a workspace, a change, and the file in which a program reads the change. An arrow marks a link.
type Case = (
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
);

const CASES: [Case; 9] = [
    (
        &[
            (".git", "gitdir: own/real\n"),
            ("own/real/HEAD", ""),
            ("own/real/config", "old"),
        ],
        "echo x > own/real/config; mv own/real own/moved",
        "own/real/config",
    ),
    (
        &[(".git", "gitdir: own/real\n"), ("own/real/HEAD", "")],
        "mkdir own/real/hooks; echo x > own/real/hooks/pre-commit",
        "own/real/hooks/pre-commit",
    ),
    (
        &[
            (".git/HEAD", ""),
            (".git/commondir", "../own/common\n"),
            ("own/common/objects/file", ""),
            ("own/common/config", "[include]\npath = ../other"),
            ("own/other", "old"),
        ],
        "echo x > own/common/config; echo x > own/other",
        "own/other",
    ),
    (
        &[
            (".git/HEAD", ""),
            (".git/config", "[include]\n\tpath = \"../own/one\" ; c\n"),
            ("own/one", "[includeIf \"x]\"]\npath=two"),
            ("own/two", "old"),
        ],
        "echo x > own/two; rm own/two; echo x > own/one",
        "own/two",
    ),
    (
        &[
            (".git/HEAD", ""),
            (".git/config", "[include]path=../own/absent\n"),
            ("own/file", ""),
        ],
        "echo x > own/absent; mv own/file own/absent",
        "own/absent",
    ),
    (
        &[
            (".git/HEAD", ""),
            (".git/config", "[core]\nhooksPath = own/hooks\n"),
            ("own/hooks/pre-commit", "old"),
        ],
        "echo x > own/hooks/pre-commit; mv own/hooks own/moved",
        "own/hooks/pre-commit",
    ),
    (
        &[
            (".git/HEAD", ""),
            (".git/config", "-> ../own/config"),
            ("own/config", "old"),
        ],
        "echo x > own/config; rm own/config",
        "own/config",
    ),
    (
        &[
            ("settings", "-> own/link/file"),
            ("own/link", "-> real"),
            ("own/real/file", "old"),
        ],
        "echo x > own/real/file; rm own/link && mkdir own/link && echo x > own/link/file",
        "own/link/file",
    ),
    (
        &[(".git/hooks", "-> ../own/hooks"), ("own/file", "")],
        "mkdir own/hooks; echo x > own/hooks/pre-commit",
        "own/hooks/pre-commit",
    ),
];

/// The same, where only mounts protect.
const DEEPER: [Case; 2] = [
    (
        &[
            ("a/b/.git", "gitdir: ../../own/real\n"),
            ("own/real/HEAD", ""),
            ("own/real/config", "old"),
        ],
        "echo x > own/real/config; mv own/real own/moved; mv own/real/config own/config",
        "own/real/config",
    ),
    (
        &[
            ("a/.vscode", "-> ../own/deep/settings"),
            ("own/deep/settings/tasks.json", "old"),
        ],
        "echo x > own/deep/settings/tasks.json; mv own/deep own/moved; mkdir -p own/deep/settings; \
         echo x > own/deep/settings/tasks.json",
        "own/deep/settings/tasks.json",
    ),
];

fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let place = |name: &str| -> PathBuf {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    for (name, text) in files {
        match text.strip_prefix("-> ") {
            Some(target) => symlink(target, place(name)).unwrap(),
            None => fs::write(place(name), text).unwrap(),
        }
    }
    fs::create_dir(place("free")).unwrap();
    root
}

async fn check((files, change, read): Case, launcher: Option<Launcher>) {
    let text = |root: &Path| fs::read_to_string(root.join(read)).ok();
    let root = workspace(files);
    let before = text(root.path());
    let script = format!("{change}; echo x > free/file");
    let mut confined = shell(root.path(), &script).sandbox(sandbox(root.path()));
    if let Some(launcher) = launcher {
        confined = confined.launcher(launcher);
    }
    let (_, told, exit) = run(&confined).await;
    assert!(exit.is_success(), "{change}: {told}");
    assert_eq!(text(root.path()), before, "{change}: {told}");
    // Without a sandbox, the change is made.
    let root = workspace(files);
    let (_, told, exit) = run(&shell(root.path(), &script)).await;
    assert!(exit.is_success(), "{change}: {told}");
    assert_ne!(text(root.path()), before, "{change}");
}

#[tokio::test]
async fn path_to_which_a_protected_one_leads_is_read_only() {
    for case in CASES {
        check(case, None).await;
    }
    if let Err(reason) = mounts_allowed(&Launcher::new(path(), [CHILD_COMMAND])) {
        crate::skip::skip(&format!("this system allows no mounts: {reason}"));
        return;
    }
    for case in DEEPER {
        check(case, None).await;
    }
}

#[tokio::test]
async fn path_to_which_a_protected_one_leads_is_read_only_where_mounts_are_not_allowed() {
    for case in CASES {
        check(case, Some(without_mounts())).await;
    }
}

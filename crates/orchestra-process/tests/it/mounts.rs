//! Read-only mounts in the sandbox of a child, as root and as an ordinary user.

#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process,
};

use orchestra_process::{CHILD_COMMAND, Command, Launcher, NestedNames, Sandbox, mounts_allowed};
use rustix::process::geteuid;

use crate::program::{path, run};

/// Each of these would change a protected path of [`workspace`]. Each works without a sandbox.
const ATTEMPTS: [&str; 19] = [
    "echo x >> .git/config",
    "echo x > .git/hooks/pre-commit",
    "mv own/file .git/config",
    "ln -f own/file .git/config",
    "ln .git/config own/linked",
    "ln a/b/.git/config own/linked",
    "chmod 777 .git/config",
    "touch -d @0 .git/config",
    "mv .git own/git",
    "mkdir .vscode",
    "ln -s own .vscode",
    "echo x > new",
    "chmod 777 settings",
    "rm settings",
    "echo x > a/b/.git/hooks/post-checkout",
    "chmod 777 a/b/.git/config",
    "mv a/b/.git a/b/git",
    "mv a/b a/c",
    "echo x > a/b/settings",
];

fn workspace() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for directory in [".git/hooks", "own", "a/b/.git/hooks", "node_modules/x/.git"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    let files = [
        ".git/config",
        "settings",
        "own/file",
        "a/b/.git/config",
        "a/b/settings",
        "a/b/source",
    ];
    for file in files {
        fs::write(root.path().join(file), "old").unwrap();
    }
    root
}

pub(crate) fn sandbox(root: &Path) -> Sandbox {
    Sandbox::Workspace {
        paths: Vec::new(),
        read_only: Vec::new(),
        protected: [".git", ".vscode", "settings"]
            .map(|name| root.join(name))
            .to_vec(),
    }
}

pub(crate) fn shell(root: &Path, script: &str) -> Command {
    Command::new("sh")
        .args(["-c", script])
        .directory(root)
        .launcher(Launcher::new(path(), [CHILD_COMMAND]))
}

/// Names, modes, owners, times and texts of all files.
fn state(root: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let found = fs::symlink_metadata(&path).unwrap();
            let text = fs::read(&path).unwrap_or_default();
            let (mode, owner, time) = (found.mode(), found.uid(), found.mtime());
            all.push(format!("{path:?} {mode:o} {owner} {time} {text:?}"));
            if found.is_dir() {
                directories.push(path);
            }
        }
    }
    all.sort();
    all
}

#[tokio::test]
async fn protected_paths_change_in_no_way_where_mounts_are_allowed() {
    if let Err(reason) = mounts_allowed(&Launcher::new(path(), [CHILD_COMMAND])) {
        crate::skip::skip(&format!("this system allows no mounts: {reason}"));
        return;
    }
    for attempt in ATTEMPTS {
        let root = workspace();
        let before = state(root.path());
        let confined = shell(root.path(), attempt).sandbox(sandbox(root.path()));
        let (_, told, exit) = run(&confined).await;
        assert!(!exit.is_success(), "{attempt}: {told}");
        assert_eq!(state(root.path()), before, "{attempt}");
        // A mount of the host would refuse this.
        let (_, told, exit) = run(&shell(root.path(), attempt)).await;
        assert!(exit.is_success(), "{attempt}: {told}");
    }
}

#[tokio::test]
async fn directory_beside_protected_paths_is_writable_in_mounts() {
    let root = workspace();
    let script = "set -e; echo x > own/new; mkdir own/deep; mv own/new own/deep/new; chmod 700 own/deep; \
                  echo new > a/b/source; echo x > a/b/new; mv a/b/new a/b/newer; rm -r node_modules/x/.git; \
                  cat .git/config a/b/.git/config; id -u; grep CapEff /proc/self/status; \
                  ! umount .git; ! mount -o remount,rw,bind .git; ! unshare -Urm umount .git";
    let confined = shell(root.path(), script).sandbox(sandbox(root.path()));
    let (said, told, exit) = run(&confined).await;
    assert!(exit.is_success(), "{exit:?} {said} {told}");
    let user = geteuid().as_raw().to_string();
    assert!(said.starts_with(&format!("oldold{user}\n")), "{said}");
    for path in ["own/deep/new", "a/b/newer"] {
        assert_eq!(fs::read_to_string(root.path().join(path)).unwrap(), "x\n");
    }
    let held = said.split_whitespace().next_back().unwrap();
    let held = u64::from_str_radix(held, 16).unwrap();
    let sys_admin = 1 << 21;
    assert_eq!(held & sys_admin, 0, "{said}");
    assert!(geteuid().is_root() || held == 0, "{said}");
}

#[tokio::test]
async fn deeper_entry_that_is_named_writable_is_no_read_only_mount() {
    let root = workspace();
    let Sandbox::Workspace { protected, .. } = sandbox(root.path()) else {
        unreachable!("it is a sandbox");
    };
    let sandbox = Sandbox::Workspace {
        paths: vec![root.path().join("a/b/.git")],
        read_only: Vec::new(),
        protected,
    };
    let confined = shell(root.path(), "echo x > a/b/.git/config").sandbox(sandbox);
    let (_, told, exit) = run(&confined).await;
    assert!(exit.is_success(), "{told}");
}

/// Limits `settings` to directories with a `.git` or a `build`.
fn limit() -> NestedNames {
    NestedNames {
        names: vec!["settings".into()],
        beside: vec![".git".into(), "build".into()],
    }
}

#[tokio::test]
async fn deeper_entry_with_a_limited_name_is_read_only_in_certain_directories() {
    if let Err(reason) = mounts_allowed(&Launcher::new(path(), [CHILD_COMMAND])) {
        crate::skip::skip(&format!("this system allows no mounts: {reason}"));
        return;
    }
    let root = workspace();
    for directory in ["own/deep/settings/.git", "own/project"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    let closed = [
        "settings",
        "a/b/settings",
        "own/project/settings",
        "own/deep/settings/.git/config",
    ];
    let open = [
        "own/settings",
        "own/project/build",
        "own/deep/settings/file",
    ];
    for file in closed.iter().chain(&open) {
        fs::write(root.path().join(file), "old").unwrap();
    }
    let files = [closed.as_slice(), open.as_slice()].concat().join(" ");
    let script = format!("for file in {files}; do if echo x > $file; then echo $file; fi; done");
    let confined = shell(root.path(), &script)
        .sandbox(sandbox(root.path()))
        .nested(vec![limit()]);
    let (said, told, _) = run(&confined).await;
    assert_eq!(said.lines().collect::<Vec<_>>(), open, "{told}");
}

#[tokio::test]
async fn more_protected_entries_than_mounts_fail_the_start() {
    if let Err(reason) = mounts_allowed(&Launcher::new(path(), [CHILD_COMMAND])) {
        crate::skip::skip(&format!("this system allows no mounts: {reason}"));
        return;
    }
    let root = workspace();
    // Each needs a mount, and one for its directory.
    for number in 0..5_000 {
        let directory = root.path().join(format!("own/{number}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("settings"), "old").unwrap();
    }
    let confined = shell(root.path(), "echo x > own/1/settings").sandbox(sandbox(root.path()));
    let refused = confined.spawn().await.unwrap_err().to_string();
    let expected = "at most 10000 are made; set `cwd`, and the paths that it may write";
    assert!(refused.contains(expected), "{refused}");
    let (_, told, exit) = run(&confined.nested(vec![limit()])).await;
    assert!(exit.is_success(), "{told}");
}

/// Has a child try to read, move and create hidden directories, one of them absent.
async fn hides(root: &Path, launcher: Option<Launcher>) {
    fs::create_dir_all(root.join(".git/state/deep")).unwrap();
    fs::create_dir_all(root.join("own/above/state")).unwrap();
    for file in [".git/state/deep/token", "own/above/state/token"] {
        fs::write(root.join(file), "secret").unwrap();
    }
    let hidden = [".git/state", "own/above/state", "own/absent"].map(|path| root.join(path));
    let script = "cat .git/state/deep/token own/above/state/token; echo x > own/above/state/token; \
                  mv own/above/state own/moved; mkdir own/absent; mv own/above own/moved; \
                  cat .git/config own/above/../file settings";
    let mut confined = shell(root, script)
        .sandbox(sandbox(root))
        .hidden(hidden.to_vec());
    if let Some(launcher) = launcher {
        confined = confined.launcher(launcher);
    }
    let (said, told, _) = run(&confined).await;
    assert_eq!(said, "oldoldold", "{told}");
    let token = fs::read_to_string(root.join("own/above/state/token")).unwrap();
    assert_eq!(token, "secret", "{told}");
    assert!(!root.join("own/absent").exists(), "{told}");
    // Without it, the tokens are open.
    let (said, told, _) =
        run(&shell(root, "cat .git/state/deep/token").sandbox(sandbox(root))).await;
    assert_eq!(said, "secret", "{told}");
}

#[tokio::test]
async fn hidden_directories_are_closed_below_an_open_one() {
    let root = workspace();
    hides(root.path(), None).await;
}

#[tokio::test]
async fn hidden_directories_are_closed_where_mounts_are_not_allowed() {
    let root = workspace();
    hides(root.path(), Some(without_mounts())).await;
}

/// Starts a guard that may have no mount namespaces.
pub(crate) fn without_mounts() -> Launcher {
    // direct: a user namespace that may have no mount namespaces; it becomes the guard.
    let words = [
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        "echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"",
        "sh",
    ];
    let child = path();
    let words = words
        .into_iter()
        .chain([child.to_str().unwrap(), CHILD_COMMAND]);
    Launcher::new("/usr/bin/unshare", words)
}

/// Has a child write to protected files under further names, those that are there and those that it would create.
async fn closes_further_names(root: &Path, launcher: Option<Launcher>) {
    // A deeper one is protected by a mount alone.
    let has_mounts =
        launcher.is_none() && mounts_allowed(&Launcher::new(path(), [CHILD_COMMAND])).is_ok();
    let deeper = [("a/b/.git/config", "node_modules/x/deep")];
    let links = [(".git/config", "own/config"), ("settings", "a/b/other")];
    let links = links.iter().chain(deeper.iter().filter(|_| has_mounts));
    let names: Vec<&str> = links.clone().map(|(_, name)| *name).collect();
    for (file, name) in links.clone() {
        fs::hard_link(root.join(file), root.join(name)).unwrap();
    }
    let script = format!(
        "for name in {}; do echo x >> $name; ln $name own/linked && echo x >> own/linked; \
         mv $name own/moved && echo x >> own/moved; done; \
         ln .git/config own/linked && echo x >> own/linked; cat {}; echo new > own/file",
        names.join(" "),
        names.join(" "),
    );
    let mut confined = shell(root, &script).sandbox(sandbox(root));
    if let Some(launcher) = launcher {
        confined = confined.launcher(launcher);
    }
    let (said, told, exit) = run(&confined).await;
    assert!(exit.is_success(), "{told}");
    assert_eq!(said, "old".repeat(names.len()), "{told}");
    for (file, _) in links {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(text, "old", "{file}: {told}");
    }
    let text = fs::read_to_string(root.join("own/file")).unwrap();
    assert_eq!(text, "new\n", "{told}");
}

#[tokio::test]
async fn hard_link_to_a_hidden_file_is_refused() {
    let root = workspace();
    let hidden = root.path().join(".git/state");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("token"), "secret").unwrap();
    fs::hard_link(hidden.join("token"), root.path().join("own/token")).unwrap();
    let confined = shell(root.path(), "cat own/token")
        .sandbox(sandbox(root.path()))
        .hidden(vec![hidden]);
    let refused = confined.spawn().await.unwrap_err().to_string();
    assert!(refused.contains("own/token` is a hard link"), "{refused}");
}

#[tokio::test]
async fn further_names_of_protected_files_are_read_only() {
    let root = workspace();
    closes_further_names(root.path(), None).await;
}

#[tokio::test]
async fn further_names_of_protected_files_are_read_only_where_mounts_are_not_allowed() {
    let root = workspace();
    closes_further_names(root.path(), Some(without_mounts())).await;
}

/// The same tests, by a user without privileges.
#[test]
fn user_without_privileges_has_the_same_mounts() {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: the other tests of this file ran as such a user");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let home = place.path().join("home");
    fs::create_dir(&home).unwrap();
    chown(&home, Some(1), Some(1)).unwrap();
    // The target directory may be closed to others.
    let copies = ["deps/tests", "examples/child"].map(|name| place.path().join(name));
    let files = [std::env::current_exe().unwrap(), path()];
    for (file, copy) in files.iter().zip(&copies) {
        fs::create_dir(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
    // direct: the tests of this file once more, which end by themselves.
    let ran = process::Command::new("setpriv")
        .args(["--reuid", "1", "--regid", "1", "--clear-groups"])
        .arg(&copies[0])
        .args(["mounts::", "--skip", "user_without_privileges"])
        .env("TMPDIR", &home)
        .current_dir(&home)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("11 passed"), "{said}");
}

#[test]
fn missing_namespace_is_reported_and_settings_stay_closed() {
    let root = workspace();
    let child = path();
    let off = |words: &[&str]| {
        // direct: it ends by itself.
        let mut command = process::Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "sh", "-c"])
            .arg("echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$@\"")
            .arg("sh")
            .args(words);
        command.output().unwrap()
    };
    let tried = off(&[child.to_str().unwrap(), CHILD_COMMAND, "mounts"]);
    let said = String::from_utf8_lossy(&tried.stdout);
    assert!(
        !tried.status.success() && said.contains("no mount namespace"),
        "{tried:?}"
    );
    let ran = off(&[
        child.to_str().unwrap(),
        "confined",
        root.path().to_str().unwrap(),
    ]);
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        said.contains("without mounts: Some(\"no mount namespace"),
        "{ran:?}"
    );
    assert!(said.contains(".git/config: refused\n"), "{ran:?}");
    assert!(said.contains("own/new: written\n"), "{ran:?}");
}

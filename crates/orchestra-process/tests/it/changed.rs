//! Paths of a sandbox that another program exchanges between their check and the start.

#![cfg(target_os = "linux")]

use std::{fs, os::unix::fs::symlink, path::Path};

use orchestra_process::{Command, Sandbox, SpawnError};
use tempfile::TempDir;

use crate::program::{command, path, run};

/// A directory with a secret, and the directory of the checked path.
fn places() -> (TempDir, TempDir) {
    let (outside, inside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "secret").unwrap();
    for name in ["own", "above/checked"] {
        fs::create_dir_all(inside.path().join(name)).unwrap();
    }
    (outside, inside)
}

fn listed(write: &[&Path], read: &[&Path], protected: &[&Path]) -> Sandbox {
    let owned = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect();
    Sandbox::Workspace {
        paths: owned(write),
        read_only: owned(read),
        protected: owned(protected),
    }
}

async fn refusal(command: &Command) -> String {
    match command.spawn().await {
        Err(SpawnError::Sandbox { what }) => what,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn path_that_becomes_a_link_after_its_check_is_refused() {
    for exchanged in ["above/checked", "above"] {
        let (outside, inside) = places();
        fs::create_dir(outside.path().join("checked")).unwrap();
        let secret = outside.path().join("secret");
        let read = command(&["read", secret.to_str().unwrap()]);
        let own = inside.path().join("own");
        let checked = inside.path().join("above/checked");
        let protected = inside.path().join(".git");
        let commands = [
            read.clone()
                .directory(&checked)
                .sandbox(listed(&[], &[], &[])),
            read.clone()
                .directory(&own)
                .sandbox(listed(&[&checked], &[], &[])),
            read.clone()
                .directory(&own)
                .sandbox(listed(&[], &[&checked], &[])),
            read.clone()
                .directory(&checked)
                .sandbox(listed(&[], &[], &[&protected])),
            read.directory(&own)
                .sandbox(listed(&[], &[], &[]))
                .program_file(&checked),
        ];
        for command in &commands[..4] {
            let (said, ..) = run(command).await;
            assert_eq!(said, "", "it is closed before the exchange");
        }
        let link = inside.path().join(exchanged);
        fs::rename(&link, inside.path().join("moved")).unwrap();
        symlink(outside.path(), &link).unwrap();
        for command in &commands {
            let what = refusal(command).await;
            let expected = format!("`{}` changed during the start", link.display());
            assert!(what.contains(&expected), "{what}");
        }
    }
}

#[tokio::test]
async fn link_in_a_writable_directory_opens_no_file_as_the_program() {
    let (outside, inside) = places();
    let program = outside.path().join("program");
    fs::write(&program, "#!/bin/sh\necho ran\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).unwrap();
    let link = inside.path().join("own/run");
    symlink(&program, &link).unwrap();
    let confined = |sandbox| {
        let launcher = orchestra_process::Launcher::new(path(), [orchestra_process::CHILD_COMMAND]);
        Command::new(&link)
            .launcher(launcher)
            .directory(inside.path())
            .sandbox(sandbox)
    };
    let refused = confined(listed(&[], &[], &[])).spawn().await.unwrap_err();
    assert!(
        matches!(refused, SpawnError::NotRunnable { .. }),
        "{refused:?}"
    );
    let read = confined(listed(&[], &[&program], &[]));
    assert_eq!(run(&read).await.0, "ran\n");
    let checked = confined(listed(&[], &[], &[])).program_file(&program);
    assert_eq!(run(&checked).await.0, "ran\n");
}

#[tokio::test]
async fn working_directory_is_below_the_mounts() {
    let (_outside, inside) = places();
    let checked = inside.path().join("above/checked");
    fs::create_dir(checked.join(".vscode")).unwrap();
    // The directory is a mount point of its own, as another writable one is above it.
    let protected = inside.path().join(".vscode");
    let sandbox = listed(&[inside.path()], &[], &[&protected]);
    let write = command(&["write", ".vscode/tasks.json"])
        .directory(&checked)
        .sandbox(sandbox);
    let child = write.spawn().await.unwrap();
    let is_mounted = child.handle.without_mounts().is_none();
    drop(child);
    if is_mounted {
        assert!(!run(&write).await.2.is_success());
    }
    assert!(!is_mounted || !checked.join(".vscode/tasks.json").exists());
}

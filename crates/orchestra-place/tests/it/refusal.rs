//! Repositories that have no place: each refusal is one sentence with the next step.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
};

use orchestra_place::PlaceError;

use crate::support::{Root, git};

#[test]
fn git_file_that_leads_nowhere_is_reported_with_both_paths() {
    let root = Root::new();
    let main = root.repository("main");
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    let linked = root.path.join("linked");
    fs::rename(&main, root.path.join("moved")).unwrap();
    let error = root.find(&linked).unwrap_err();
    assert!(matches!(error, PlaceError::Dangling { .. }), "{error}");
    let text = error.to_string();
    for part in [
        "linked/.git`",
        "main/.git/worktrees/linked`",
        "git worktree repair",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains('\n') && !text.ends_with('.'), "{text}");
}

#[test]
fn common_directory_that_leads_nowhere_is_reported() {
    let root = Root::new();
    let main = root.repository("main");
    fs::write(main.join(".git/commondir"), "../away\n").unwrap();
    let error = root.find(&main).unwrap_err();
    assert!(matches!(error, PlaceError::Dangling { .. }), "{error}");
}

#[test]
fn git_file_with_other_content_is_reported() {
    let root = Root::new();
    let plain = root.path.join("plain");
    fs::create_dir(&plain).unwrap();
    for text in ["", "gitdir:", "gitdir: ", "gitdir: \n", "elsewhere"] {
        fs::write(plain.join(".git"), text).unwrap();
        let error = root.find(&plain).unwrap_err();
        assert!(
            matches!(error, PlaceError::NotALink(_)),
            "{text:?}: {error}"
        );
    }
    fs::write(plain.join(".git"), vec![b'x'; 70_000]).unwrap();
    let error = root.find(&plain).unwrap_err();
    assert!(matches!(error, PlaceError::Unreadable { .. }), "{error}");
}

#[test]
fn shared_repository_is_refused() {
    let root = Root::new();
    let main = root.repository("main");
    git(&main, &["config", "core.sharedRepository", "group"]);
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    for workspace in [&main, &root.path.join("linked")] {
        let error = root.find(workspace).unwrap_err();
        assert!(matches!(error, PlaceError::SharedRepository(_)), "{error}");
        assert!(error.to_string().contains("place = \"state\""), "{error}");
    }
    git(&main, &["config", "core.sharedRepository", "umask"]);
    root.found(&main, "_");
}

#[test]
fn git_directory_of_another_user_is_refused() {
    let root = Root::new();
    let main = root.repository("main");
    let git = main.join(".git");
    // Only root can give a directory away. Where it cannot, the directory keeps its owner.
    let other = fs::metadata(&git).unwrap().uid() + 1;
    if std::os::unix::fs::chown(&git, Some(other), None).is_err() {
        root.found(&main, "_");
        return;
    }
    let error = root.find(&main).unwrap_err();
    assert!(matches!(error, PlaceError::AnotherOwner(_)), "{error}");
    assert!(error.to_string().contains("place = \"state\""), "{error}");
}

#[test]
fn git_directory_or_configuration_that_others_may_write_is_refused() {
    let root = Root::new();
    let main = root.repository("main");
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    let workspaces = [main.clone(), root.path.join("linked")];
    for (name, safe) in [(".git", 0o755), (".git/config", 0o644)] {
        let path = main.join(name);
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        set(safe | 0o002);
        for workspace in &workspaces {
            let error = root.find(workspace).unwrap_err();
            assert!(matches!(error, PlaceError::Writable { .. }), "{error}");
            let text = error.to_string();
            for part in [
                format!("chmod go-w {}`", path.display()).as_str(),
                "place = \"state\"",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        set(safe);
        root.found(&main, "_");
    }
}

#[test]
fn git_directory_of_a_group_with_other_members_is_refused() {
    let root = Root::new();
    let main = root.repository("main");
    let git = main.join(".git");
    let mode = fs::Permissions::from_mode(0o775);
    // Only root can give a directory to a group that it is not a member of.
    if std::os::unix::fs::chown(&git, None, Some(4_000_000_001)).is_err() {
        return;
    }
    root.found(&main, "_");
    fs::set_permissions(&git, mode).unwrap();
    let error = root.find(&main).unwrap_err();
    assert!(matches!(error, PlaceError::Writable { .. }), "{error}");
}

#[test]
fn configuration_of_another_user_is_refused() {
    let root = Root::new();
    let main = root.repository("main");
    let config = main.join(".git/config");
    let other = fs::metadata(&config).unwrap().uid() + 1;
    if std::os::unix::fs::chown(&config, Some(other), None).is_err() {
        root.found(&main, "_");
        return;
    }
    let error = root.find(&main).unwrap_err();
    assert!(matches!(error, PlaceError::AnotherOwner(_)), "{error}");
    assert!(error.to_string().contains(".git/config`"), "{error}");
}

//! Repositories that have no place: each refusal is one sentence with the next step.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

use orchestra_place::{Choice, Place, PlaceError, Safety, check_answer, check_links, repository};

use crate::support::{Root, commit, git};

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

/// Checks that no choice leads from `evil` to the repositories beside it, and returns the refusal.
fn refused(root: &Root, evil: &Path) -> PlaceError {
    let state = Place::find(evil, Some(&root.state()), Choice::State).unwrap();
    assert_eq!(state.main(), Some(evil));
    assert_eq!(repository(evil, Safety::Safe), None);
    let (choice, safe) = (Choice::Repository, Safety::Safe);
    Place::find_as(evil, Some(&root.state()), choice, safe).unwrap_err();
    let error = root.find(evil).unwrap_err();
    assert!(error.to_string().contains("place = \"state\""), "{error}");
    error
}

#[test]
fn git_file_or_link_to_the_git_directory_of_another_working_tree_is_refused() {
    let root = Root::new();
    let own = root.repository("own");
    let library = root.repository("library");
    let library = library.to_str().unwrap();
    git(&own, &["submodule", "--quiet", "add", library, "lib"]);
    commit(&own);
    git(&own, &["worktree", "add", "--quiet", "../linked"]);
    let evil = root.path.join("evil");
    fs::create_dir(&evil).unwrap();
    for target in [
        "../own/.git",
        "../own/.git/worktrees/linked",
        "../own/.git/modules/lib",
        "../linked/.git",
    ] {
        if target != "../linked/.git" {
            fs::write(evil.join(".git"), format!("gitdir: {target}\n")).unwrap();
            refused(&root, &evil);
            fs::remove_file(evil.join(".git")).unwrap();
        }
        symlink(target, evil.join(".git")).unwrap();
        refused(&root, &evil);
        fs::remove_file(evil.join(".git")).unwrap();
    }
    fs::hard_link(root.path.join("linked/.git"), evil.join(".git")).unwrap();
    let error = refused(&root, &evil);
    assert!(matches!(error, PlaceError::Elsewhere { .. }), "{error}");
}

#[test]
fn common_directory_of_another_repository_is_refused() {
    let root = Root::new();
    root.repository("own");
    let evil = root.repository("evil");
    fs::write(evil.join(".git/commondir"), "../../own/.git\n").unwrap();
    let error = refused(&root, &evil);
    assert!(matches!(error, PlaceError::Elsewhere { .. }), "{error}");

    // The form of a linked worktree, whose git directory is not inside the repository.
    let planted = root.repository("planted");
    let git = root.path.join("away/worktrees/planted");
    fs::create_dir_all(git.parent().unwrap()).unwrap();
    fs::rename(planted.join(".git"), &git).unwrap();
    fs::write(planted.join(".git"), format!("gitdir: {}", git.display())).unwrap();
    fs::write(git.join("commondir"), "../../../own/.git\n").unwrap();
    let named = planted.join(".git");
    fs::write(git.join("gitdir"), named.display().to_string()).unwrap();
    let error = refused(&root, &planted);
    assert!(matches!(error, PlaceError::Elsewhere { .. }), "{error}");
}

#[test]
fn form_of_a_submodule_in_a_linked_worktree_leads_to_no_other_repository() {
    let root = Root::new();
    let own = root.repository("own");
    fs::create_dir(own.join(".git/modules")).unwrap();
    let evil = root.repository("evil");
    let module = root.path.join("away/worktrees/x/modules/m");
    fs::create_dir_all(module.parent().unwrap()).unwrap();
    fs::rename(evil.join(".git"), &module).unwrap();
    fs::write(evil.join(".git"), format!("gitdir: {}", module.display())).unwrap();
    git(&evil, &["config", "core.worktree", evil.to_str().unwrap()]);
    let of_worktree = module.ancestors().nth(2).unwrap();
    fs::write(of_worktree.join("HEAD"), "ref: refs/heads/main").unwrap();
    symlink(own.join(".git"), own.join(".git/modules/m")).unwrap();
    let away = root.path.join("away");
    for name in ["objects", "refs", "modules"] {
        fs::create_dir(away.join(name)).unwrap();
    }
    fs::write(away.join("HEAD"), "ref: refs/heads/main").unwrap();
    symlink(own.join(".git"), away.join("modules/m")).unwrap();
    for common in ["../../../own/.git", "../.."] {
        fs::write(of_worktree.join("commondir"), common).unwrap();
        root.found_in_state(&evil);
    }
}

#[test]
fn configuration_that_names_another_working_tree_is_refused() {
    let root = Root::new();
    root.repository("own");
    let evil = root.repository("evil");
    git(&evil, &["worktree", "add", "--quiet", "../linked"]);
    let config = evil.join(".git/config");
    let before = fs::read_to_string(&config).unwrap();
    for (name, line) in [
        ("config", "[core]\n\tworktree = ../../own\n"),
        ("config", "[a] [core] worktree=../../own\n"),
        ("config", "[core]\n\tworktree = ../../missing\n"),
        ("config.worktree", "[core]\n\tworktree = ../../own\n"),
    ] {
        let file = evil.join(".git").join(name);
        let start = match name {
            "config" => before.as_str(),
            _ => "",
        };
        fs::write(&file, format!("{start}{line}")).unwrap();
        for workspace in [&evil, &root.path.join("linked")] {
            let error = refused(&root, workspace);
            let is_other = matches!(error, PlaceError::OtherWorkingTree { .. });
            assert!(is_other, "{line}: {error}");
        }
        fs::write(&config, &before).unwrap();
    }
    fs::write(evil.join(".git/config.worktree"), "").unwrap();
    git(&evil, &["config", "core.worktree", "../../evil"]);
    root.found(&evil, "_");
    let linked = evil.join(".git/worktrees/linked/config.worktree");
    fs::write(linked, "[core]\n\tworktree = ../../../../own\n").unwrap();
    let error = refused(&root, &root.path.join("linked"));
    let is_other = matches!(error, PlaceError::OtherWorkingTree { .. });
    assert!(is_other, "{error}");
}

#[test]
fn link_in_a_git_directory_that_leads_out_of_it_is_refused() {
    let root = Root::new();
    let own = root.repository("own");
    for (index, name) in [
        "HEAD",
        "config",
        "index",
        "logs",
        "logs/refs",
        "objects",
        "objects/pack",
        "packed-refs",
        "refs",
        "refs/heads",
        "worktrees",
    ]
    .into_iter()
    .enumerate()
    {
        let evil = root.repository(&format!("evil-{index}"));
        let link = evil.join(".git").join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        drop(fs::remove_file(&link));
        drop(fs::remove_dir_all(&link));
        symlink(own.join(".git").join(name), &link).unwrap();
        let error = root.find(&evil).unwrap_err();
        assert!(matches!(error, PlaceError::LinkOut { .. }), "{error}");
        let text = error.to_string();
        for part in [link.to_str().unwrap(), "safe_directories"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(repository(&evil, Safety::Unlisted), None, "{name}");
        let git = evil.join(".git");
        check_answer(&evil, Safety::Unlisted, &evil, &git).unwrap_err();
        root.find_safe(&evil);
    }
}

#[test]
fn link_below_the_entries_of_a_git_directory_is_refused_before_git_writes() {
    let root = Root::new();
    let own = root.repository("own");
    for (index, name) in [
        "FETCH_HEAD",
        "info",
        "logs/HEAD",
        "logs/refs/heads",
        "logs/refs/heads/main",
        "logs/refs/orchestra/remotes/origin/board",
        "objects/ab",
        "objects/info/commit-graph",
        "refs/heads/orchestra/plans",
        "refs/tags/deep/er/v1",
        "shallow",
        "worktrees/linked",
        "worktrees/linked/index",
        "worktrees/linked/logs",
        "worktrees/linked/logs/HEAD",
        "worktrees/linked/refs/bisect/bad",
    ]
    .into_iter()
    .enumerate()
    {
        let evil = root.repository(&format!("evil-{index}"));
        let git = evil.join(".git");
        let link = git.join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        drop(fs::remove_file(&link));
        drop(fs::remove_dir_all(&link));
        symlink(own.join(".git").join(name), &link).unwrap();
        root.find(&evil).unwrap();
        let error = check_answer(&evil, Safety::Unlisted, &evil, &git).unwrap_err();
        assert!(matches!(error, PlaceError::LinkOut { .. }), "{error}");
        let text = error.to_string();
        for part in [link.to_str().unwrap(), "safe_directories"] {
            assert!(text.contains(part), "{text}");
        }
        check_answer(&evil, Safety::Safe, &evil, &git).unwrap();
        let error = check_links(&evil, Safety::Unlisted).unwrap_err();
        assert!(matches!(error, PlaceError::LinkOut { .. }), "{error}");
        check_links(&evil, Safety::Safe).unwrap();
    }
    check_links(&own, Safety::Unlisted).unwrap();
}

/// The longest path of the system is shorter than that of the last directory, which a walk from the top cannot list.
#[test]
fn references_are_walked_before_git_writes_and_not_where_a_place_is_found() {
    let root = Root::new();
    let main = root.repository("main");
    let git = main.join(".git");
    let name = "d".repeat(200);
    let mut directory = orchestra_fs::Directory::open(&git.join("refs")).unwrap();
    for _ in 0..30 {
        let access = orchestra_fs::Access::Private;
        directory = directory.make_below(name.as_ref(), access).unwrap();
    }
    root.found(&main, "_");
    let error = check_answer(&main, Safety::Unlisted, &main, &git).unwrap_err();
    assert!(matches!(error, PlaceError::Unreadable { .. }), "{error}");
    check_answer(&main, Safety::Safe, &main, &git).unwrap();
}

#[test]
fn link_that_stays_in_the_git_directory_or_that_nothing_is_written_through_is_followed() {
    let root = Root::new();
    let (main, own) = (root.repository("main"), root.repository("own"));
    let git_directory = main.join(".git");
    for (name, target) in [
        ("HEAD", "refs/heads/new".into()),
        ("hooks", own.join(".git/hooks")),
    ] {
        let link = git_directory.join(name);
        drop(fs::remove_file(&link));
        drop(fs::remove_dir_all(&link));
        symlink(target, link).unwrap();
    }
    root.found(&main, "_");
    git(&main, &["commit", "--quiet", "--allow-empty", "-m", "x"]);
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    root.found(&root.path.join("linked"), "_");
}

#[test]
fn copy_of_a_linked_worktree_is_refused() {
    let root = Root::new();
    let main = root.repository("main");
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    let (linked, copy) = (root.path.join("linked"), root.path.join("copy"));
    fs::create_dir(&copy).unwrap();
    fs::copy(linked.join(".git"), copy.join(".git")).unwrap();
    let error = refused(&root, &copy);
    assert!(error.to_string().contains("git worktree repair"), "{error}");
    root.found(&linked, "_");
}

#[test]
fn answer_of_git_that_the_files_do_not_give_is_refused() {
    let root = Root::new();
    let (main, own) = (root.repository("main"), root.repository("own"));
    let check = |top: &Path, git: &Path| {
        let workspace = main.join("apps/web");
        check_answer(&workspace, Safety::Unlisted, top, git)
    };
    check(&main, &main.join(".git")).unwrap();
    for (top, git) in [(&own, &main), (&main, &own)] {
        let error = check(top, &git.join(".git")).unwrap_err();
        assert!(matches!(error, PlaceError::OtherAnswer { .. }), "{error}");
    }
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

//! The place in each kind of checkout, compared with the answers of git.

use std::{fs, os::unix::fs::symlink, path::Path};

use orchestra_place::{Choice, Place, PlaceError};

use crate::support::{Root, answer, commit, git};

#[test]
fn main_checkout_and_folders_of_it_have_a_place_each_in_the_git_directory() {
    let root = Root::new();
    let main = root.repository("main");
    let top = root.found(&main, "_");
    let folder = root.found(&main.join("apps/web"), "apps%2Fweb");
    assert_eq!(top.shared(), main.join(".git/.orchestra/_"));
    assert_ne!(top.shared(), folder.shared());
    assert!(!main.join(".git/.orchestra").exists(), "nothing is created");
}

#[test]
fn linked_worktrees_share_a_place_and_have_one_of_their_own() {
    let root = Root::new();
    let main = root.repository("main");
    let linked = root.path.join("elsewhere/linked");
    git(
        &main,
        &["worktree", "add", "--quiet", linked.to_str().unwrap()],
    );
    let (in_main, in_linked) = (root.found(&main, "_"), root.found(&linked, "_"));
    assert_eq!(in_main.shared(), in_linked.shared());
    assert_ne!(in_main.own(), in_linked.own());
    let folder = root.found(&linked.join("apps/web"), "apps%2Fweb");
    let in_main = root.found(&main.join("apps/web"), "apps%2Fweb");
    assert_eq!(folder.shared(), in_main.shared());
}

#[test]
fn other_checkouts_with_private_state_are_found() {
    let root = Root::new();
    let main = root.repository("main");
    let linked = root.path.join("linked");
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    git(&main, &["worktree", "add", "--quiet", "../without"]);
    let (in_main, in_linked) = (root.found(&main, "_"), root.found(&linked, "_"));
    assert_eq!(in_main.other_checkouts(), []);
    for place in [&in_main, &in_linked] {
        place.make_own("plans").unwrap();
    }
    for (place, other, top) in [
        (&in_main, &in_linked, &linked),
        (&in_linked, &in_main, &main),
    ] {
        let found = place.other_checkouts();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].own, &found[0].top), (other.own(), top));
    }
}

#[test]
fn folder_is_found_in_linked_worktrees_that_lead_back_and_in_no_planted_one() {
    let root = Root::new();
    let (main, other) = (root.repository("main"), root.repository("other"));
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    git(&main, &["worktree", "add", "--quiet", "../removed"]);
    fs::remove_dir_all(root.path.join("removed")).unwrap();
    let planted = main.join(".git/worktrees/planted");
    fs::create_dir(&planted).unwrap();
    fs::write(planted.join("gitdir"), other.join(".git").to_str().unwrap()).unwrap();
    fs::write(planted.join("commondir"), "../..\n").unwrap();
    fs::write(planted.join("HEAD"), "ref: refs/heads/planted\n").unwrap();
    let folder = root.path.join("linked/apps/web");
    for workspace in [main.join("apps/web"), folder.clone()] {
        let workspace = workspace.as_path();
        for choice in [Choice::Repository, Choice::State] {
            let place = Place::find(workspace, Some(&root.state()), choice).unwrap();
            assert_eq!(place.in_linked(Path::is_dir), std::slice::from_ref(&folder));
            assert!(place.in_linked(|_| false).is_empty());
        }
    }
}

#[test]
fn worktree_with_relative_paths_is_followed() {
    let root = Root::new();
    let main = root.repository("main");
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    let linked = root.path.join("linked");
    fs::write(
        linked.join(".git"),
        "gitdir: ../main/.git/worktrees/linked\r\n",
    )
    .unwrap();
    root.found(&linked, "_");
}

#[test]
fn worktree_that_is_reached_by_another_path_is_followed() {
    let root = Root::new();
    let main = root.repository("main");
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    let own = main.join(".git/worktrees/linked");
    symlink(&root.path, root.path.join("link")).unwrap();
    for named in [
        root.path.join("link/linked/.git"),
        "../../../../linked/.git".into(),
    ] {
        fs::write(own.join("gitdir"), format!("{}\n", named.display())).unwrap();
        root.found(&root.path.join("linked"), "_");
    }
}

#[test]
fn link_to_the_git_directory_that_names_the_working_tree_is_followed() {
    let root = Root::new();
    let main = root.repository("main");
    let away = root.path.join("away");
    fs::rename(main.join(".git"), &away).unwrap();
    symlink("../away", main.join(".git")).unwrap();
    let error = root.find(&main).unwrap_err();
    assert!(matches!(error, PlaceError::Separate { .. }), "{error}");
    git(&main, &["config", "core.worktree", "../main"]);
    root.found(&main, "_");
}

#[test]
fn submodules_have_the_git_directory_of_their_own() {
    let root = Root::new();
    let (main, library) = (root.repository("main"), root.repository("library"));
    git(
        &main,
        &[
            "submodule",
            "--quiet",
            "add",
            library.to_str().unwrap(),
            "lib/inner",
        ],
    );
    commit(&main);
    let inner = main.join("lib/inner");
    let place = root.found(&inner, "_");
    assert_eq!(
        place.shared(),
        main.join(".git/modules/lib/inner/.orchestra/_")
    );

    let linked = root.path.join("of-the-submodule");
    git(
        &inner,
        &["worktree", "add", "--quiet", linked.to_str().unwrap()],
    );
    assert_eq!(root.found(&linked, "_").shared(), place.shared());
}

#[test]
fn submodule_in_a_linked_worktree_shares_the_place_of_the_main_checkout() {
    let root = Root::new();
    let (main, library) = (root.repository("main"), root.repository("library"));
    git(
        &main,
        &[
            "submodule",
            "--quiet",
            "add",
            library.to_str().unwrap(),
            "lib",
        ],
    );
    commit(&main);
    let linked = root.path.join("linked");
    git(
        &main,
        &["worktree", "add", "--quiet", linked.to_str().unwrap()],
    );
    git(&linked, &["submodule", "--quiet", "update", "--init"]);
    let in_main = root.found(&main.join("lib"), "_");
    let in_linked = root.find(&linked.join("lib")).unwrap();
    assert_eq!(in_linked.shared(), in_main.shared());
    let own = answer(&linked.join("lib"), "--git-dir");
    assert!(own.starts_with(main.join(".git/worktrees/linked/modules")));
    assert_eq!(in_linked.own(), own.join(".orchestra/_"));
}

#[test]
fn submodule_of_a_linked_worktree_alone_has_a_place_in_the_state_directory() {
    let root = Root::new();
    let (main, library) = (root.repository("main"), root.repository("library"));
    let linked = root.path.join("linked");
    git(
        &main,
        &["worktree", "add", "--quiet", linked.to_str().unwrap()],
    );
    git(
        &linked,
        &[
            "submodule",
            "--quiet",
            "add",
            library.to_str().unwrap(),
            "lib",
        ],
    );
    root.found_in_state(&linked.join("lib"));
}

#[test]
fn bare_layout_has_the_place_in_the_bare_repository() {
    let root = Root::new();
    let main = root.repository("main");
    let layout = root.path.join("layout");
    fs::create_dir(&layout).unwrap();
    let source = main.to_str().unwrap();
    git(&layout, &["clone", "--quiet", "--bare", source, ".bare"]);
    fs::write(layout.join(".git"), "gitdir: ./.bare\n").unwrap();
    git(
        &layout,
        &["worktree", "add", "--quiet", "first", "-b", "first"],
    );
    git(
        &layout,
        &["worktree", "add", "--quiet", "second", "-b", "second"],
    );
    let first = root.found(&layout.join("first"), "_");
    assert_eq!(first.shared(), layout.join(".bare/.orchestra/_"));
    assert_eq!(
        root.found(&layout.join("second"), "_").shared(),
        first.shared()
    );
    // The bare repository names its worktrees, and not the directory around it.
    assert!(matches!(
        root.find(&layout).unwrap_err(),
        PlaceError::Separate { .. }
    ));
    assert_eq!(root.find_safe(&layout).shared(), first.shared());
}

#[test]
fn separate_git_directory_is_followed_in_a_workspace_that_is_listed_as_safe() {
    let root = Root::new();
    let (top, separate) = (root.path.join("top"), root.path.join("separate.git"));
    fs::create_dir(&top).unwrap();
    let option = format!("--separate-git-dir={}", separate.display());
    git(&top, &["init", "--quiet", &option]);
    let error = root.find(&top).unwrap_err();
    assert!(matches!(error, PlaceError::Separate { .. }), "{error}");
    let text = error.to_string();
    for part in ["safe_directories", "place = \"state\"", "top/.git`"] {
        assert!(text.contains(part), "{text}");
    }
    let place = root.find_safe(&top);
    assert_eq!(place.shared(), separate.join(".orchestra/_"));
}

#[test]
fn bare_repository_inside_a_working_tree_is_not_entered() {
    let root = Root::new();
    let main = root.repository("main");
    git(&main, &["clone", "--quiet", "--bare", ".", "planted"]);
    fs::create_dir(main.join("planted/inside")).unwrap();
    for (workspace, key) in [
        ("planted", "planted"),
        ("planted/inside", "planted%2Finside"),
    ] {
        let place = root.find(&main.join(workspace)).unwrap();
        assert_eq!(place.shared(), main.join(".git/.orchestra").join(key));
    }
}

#[test]
fn workspace_without_a_repository_has_a_place_in_the_state_directory() {
    let root = Root::new();
    let plain = root.path.join("plain");
    fs::create_dir_all(plain.join(".git")).unwrap();
    root.found_in_state(&plain);
    let other = root.path.join("other");
    fs::create_dir(&other).unwrap();
    let (one, two) = (root.find(&plain).unwrap(), root.find(&other).unwrap());
    assert_ne!(one, two);
    let name = one.shared().file_name().unwrap();
    assert_eq!(name.len(), 32);
    assert_eq!(
        one.shared().parent().unwrap(),
        root.state().join("workspaces")
    );
}

#[test]
fn choice_of_the_state_directory_holds_in_a_repository() {
    let root = Root::new();
    let main = root.repository("main");
    let place = Place::find(&main, Some(&root.state()), Choice::State).unwrap();
    assert!(place.shared().starts_with(root.state()));
    let without = Place::find(&main, None, Choice::Repository).unwrap();
    assert_eq!(without.shared(), main.join(".git/.orchestra/_"));
    let error = Place::find(&main, None, Choice::State)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("HOME") && error.contains("XDG_STATE_HOME"),
        "{error}"
    );
}

/// git removes the git directory of a worktree with the place inside, and leaves the shared one.
#[test]
fn removed_worktree_takes_its_own_place_and_leaves_the_shared_one() {
    let root = Root::new();
    let main = root.repository("main");
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    let place = root.found(&root.path.join("linked"), "_");
    place.make_own("run").unwrap();
    place.make_shared("plans").unwrap();
    git(&main, &["worktree", "remove", "../linked"]);
    git(&main, &["gc", "--quiet"]);
    git(&main, &["fsck"]);
    let exists = |path: &Path| path.exists();
    assert!(!exists(place.own()) && exists(&place.shared().join("plans")));
}

#[test]
fn tracked_directory_is_found_in_each_form_of_index() {
    let root = Root::new();
    let main = root.repository("main");
    fs::create_dir_all(main.join("apps/web/.projects/a")).unwrap();
    fs::write(main.join("apps/web/.projects/a/prd.md"), "").unwrap();
    fs::write(main.join("apps/web/.prettierrc"), "").unwrap();
    let is_tracked = |path: &str| orchestra_place::is_tracked(&main.join(path));
    assert!(!is_tracked("apps/web/.projects"));
    git(&main, &["add", "--all"]);
    for arguments in [
        &["update-index", "--index-version", "2"][..],
        &["update-index", "--index-version", "3"],
        &["update-index", "--index-version", "4"],
        &["update-index", "--split-index"],
    ] {
        git(&main, arguments);
        assert!(is_tracked("apps/web/.projects"), "{arguments:?}");
        assert!(!is_tracked(".projects"), "{arguments:?}");
        assert!(!is_tracked("apps/web/.project"), "{arguments:?}");
    }
    fs::write(main.join(".git/index"), "DIRC").unwrap();
    fs::remove_dir_all(main.join("apps/web/.projects")).unwrap();
    assert!(!orchestra_place::is_tracked(&root.path.join(".projects")));
}

#[test]
fn main_checkout_is_named_from_linked_worktrees() {
    let root = Root::new();
    let main = root.repository("main");
    let linked = root.path.join("linked");
    git(&main, &["worktree", "add", "--quiet", "../linked"]);
    for below in ["", "apps/web"] {
        let (here, there) = (main.join(below), linked.join(below));
        let here = here.canonicalize().unwrap();
        for workspace in [&here, &there] {
            let place = root.find(workspace).unwrap();
            assert_eq!(place.main(), Some(&*here));
            let workspace = workspace.canonicalize().unwrap();
            let state = Place::find(&workspace, Some(&root.state()), Choice::State).unwrap();
            assert_eq!(state.main(), Some(&*here));
            let of_main = Place::find(&here, Some(&root.state()), Choice::State).unwrap();
            assert_eq!(state.shared(), of_main.shared());
        }
    }
    let bare = root.path.join("bare");
    git(
        &root.path,
        &["clone", "--quiet", "--bare", "main", "bare/.git"],
    );
    git(&bare, &["worktree", "add", "--quiet", "../of-bare"]);
    let place = root.find(&root.path.join("of-bare")).unwrap();
    assert_eq!(place.main(), None);
}

//! Boards in a git directory that is removed or moved while programs have them open.

use std::fs;
use std::path::{Path, PathBuf};

use orchestra_board::Kind;
use orchestra_place::{Choice, Place};
use orchestra_store::{Action, ActionError, Fault, Home, OpenError, Options, SharedHome, Store};

use super::{Checkouts, add_task, fill, has, remove, run};
use crate::git::git;
use crate::words::{create, create_project};

impl Checkouts {
    /// Makes the main checkout a repository, and returns a workspace in it.
    fn in_repository(&self, below: &str) -> PathBuf {
        let workspace = self.path("main").join(below);
        fs::create_dir_all(self.path("main")).expect("set up");
        fs::create_dir_all(&workspace).expect("set up");
        git(&self.path("main"), &["init", "--quiet"]);
        workspace.canonicalize().expect("set up")
    }

    fn try_open(&self, workspace: &Path) -> Result<Store, OpenError> {
        let state = self.path("state");
        let place = Place::find(workspace, Some(&state), Choice::Repository).expect("set up");
        let options = Options {
            home: Home::Shared(SharedHome::new(place, state)),
            ..self.without_files()
        };
        Store::open(workspace, options)
    }
}

fn try_to_add(store: &Store) -> Result<(), ActionError> {
    let task = Action::Board(create(Kind::Task, Some("MA-2"), "Next"));
    store.submit_blocking(None, task).map(drop)
}

fn is_of_removed(fault: &Fault, git_directory: &Path) -> bool {
    matches!(fault, Fault::RepositoryRemoved(removed) if removed == git_directory)
}

#[test]
fn second_board_is_refused_while_a_program_has_that_of_the_removed_git_directory_open() {
    for below in [".", "a/b"] {
        let checkouts = Checkouts::new();
        let workspace = checkouts.in_repository(below);
        let (main, git_directory) = (checkouts.path("main"), checkouts.path("main/.git"));
        let store = checkouts.try_open(&workspace).unwrap();
        fill(&store);
        let is_refused = || {
            let refused = checkouts.try_open(&workspace);
            matches!(refused, Err(OpenError::Fault { source, .. }) if is_of_removed(&source, &git_directory))
        };
        remove(&git_directory);
        assert!(is_refused(), "{below}");
        assert!(has(&store, "MA-3"), "{below}");
        let refused = try_to_add(&store).unwrap_err();
        assert!(
            matches!(&refused, ActionError::Fault(fault) if is_of_removed(fault, &git_directory)),
            "{below}: {refused}"
        );
        git(&main, &["init", "--quiet"]);
        assert!(has(&checkouts.try_open(&workspace).unwrap(), "MA-3"));
        add_task(&store, "Next");
        // A git directory that is elsewhere for a while.
        let away = checkouts.path("away");
        fs::rename(&git_directory, &away).unwrap();
        assert!(is_refused(), "{below}");
        fs::rename(&away, &git_directory).unwrap();
        add_task(&store, "Next");
        assert!(has(&checkouts.try_open(&workspace).unwrap(), "MA-5"));
        drop(store);
        remove(&git_directory);
        checkouts.try_open(&workspace).unwrap();
    }
}

#[test]
fn workspace_that_moves_inside_its_repository_is_refused_by_programs_that_have_its_board_open() {
    let checkouts = Checkouts::new();
    let workspace = checkouts.in_repository("a");
    let store = checkouts.try_open(&workspace).unwrap();
    fill(&store);
    let moved = checkouts.path("main/b");
    fs::rename(&workspace, &moved).unwrap();
    let is_named = |fault: &Fault| matches!(fault, Fault::DirectoryMoved { from, to } if *from == workspace && *to == moved);
    let refused = try_to_add(&store).unwrap_err();
    assert!(
        matches!(&refused, ActionError::Fault(fault) if is_named(fault)),
        "{refused}"
    );
    store.read(|_| Ok(())).unwrap_err();
    fs::rename(&moved, &workspace).unwrap();
    add_task(&store, "Next");
    assert!(has(&store, "MA-4"));
}

#[test]
fn new_repository_at_the_path_of_a_moved_one_waits_for_no_program() {
    let checkouts = Checkouts::new();
    let workspace = checkouts.in_repository(".");
    let store = checkouts.try_open(&workspace).unwrap();
    fill(&store);
    fs::rename(&workspace, checkouts.path("moved")).unwrap();
    let new = checkouts.try_open(&checkouts.in_repository(".")).unwrap();
    run(&new, create_project("My App"));
    let refused = try_to_add(&store).unwrap_err();
    assert!(
        matches!(refused, ActionError::Fault(Fault::DirectoryMoved { .. })),
        "{refused}"
    );
    assert!(!has(&new, "MA-3"));
}

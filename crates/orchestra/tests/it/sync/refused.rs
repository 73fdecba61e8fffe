//! Boards and remotes with which `orchestra sync` exchanges nothing.

use super::{Clones, git_with};
use crate::one_board::{Repository, git};

#[test]
fn remote_that_hides_references_of_boards_is_refused_with_the_option_for_a_branch() {
    let clones = Clones::new();
    let one = clones.one();
    for key in ["receive.hideRefs", "uploadpack.hideRefs"] {
        git(&clones.remote(), &["config", key, "refs/orchestra"]);
    }
    clones.refused(&one, 1, "`orchestra sync --branch NAME`");
    let answer = clones.sync(&one, &["--branch", "board"]);
    assert_eq!(answer["reference"], "refs/heads/board");
}

#[test]
fn hostile_board_is_refused_and_the_own_one_is_used_further() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    // A board that was exchanged is compared with the published one, and another one is merged with it.
    clones.sync(&one, &[]);
    let blob = clones.blob(b"/etc/passwd");
    let tree = git_with(
        &clones.remote(),
        &["mktree"],
        format!("100644 blob {blob}\tproject-status.toon\n").as_bytes(),
    );
    let tree = tree.trim();
    for (entries, part) in [
        (format!("120000 blob {blob}\tlink\n"), "a symbolic link"),
        (
            format!("100755 blob {blob}\tprogram.md\n"),
            "not a regular file",
        ),
        (
            format!("160000 commit {}\tmodule\n", "1".repeat(40)),
            "a submodule",
        ),
        (
            // 20 to the power of 10 files, in eleven objects.
            format!("040000 tree {}\tmy-app\n", clones.tree_of_many_files()),
            "more than 400000 files",
        ),
        (
            format!(
                "040000 tree {}\tmy-app\n",
                clones.tree_of_many_directories()
            ),
            "a list of files and directories of more than",
        ),
        (
            format!("040000 tree {tree}\tmy-app\n"),
            "my-app/project-status.toon",
        ),
        (
            format!("040000 tree {tree}\t.store\n"),
            ".store/project-status.toon",
        ),
    ] {
        clones.publish(&entries);
        clones.refused(&one, 3, part);
        clones.refused(&two, 3, part);
        assert!(!two.join(".projects").exists(), "{part}");
        clones.rename(&one, "MA-3", part);
    }
}

#[test]
fn bare_repository_among_the_documents_of_a_board_is_not_written() {
    let clones = Clones::new();
    let (one, two) = (clones.one(), clones.clone_as("two"));
    clones.sync(&one, &[]);
    let blob = clones.blob(b"ref: refs/heads/main\n");
    let tree = |entries: &str| {
        let made = git_with(&clones.remote(), &["mktree"], entries.as_bytes());
        made.trim().to_owned()
    };
    let part = tree(&format!("100644 blob {blob}\ta\n"));
    let notes = tree(&format!(
        "100644 blob {blob}\tHEAD\n100644 blob {blob}\tconfig\n040000 tree {part}\tobjects\n040000 tree {part}\trefs\n"
    ));
    let board = git(&clones.remote(), &["ls-tree", "refs/orchestra/board"]);
    clones.publish(&format!("{}\n040000 tree {notes}\tnotes\n", board.trim()));
    for clone in [&one, &two] {
        clones.sync(clone, &[]);
        assert!(!clone.join(".projects/notes").exists());
        clones.rename(clone, "MA-3", "The board is in use");
    }
}

#[test]
fn objects_that_git_refuses_are_named_in_one_line() {
    let clones = Clones::new();
    let one = clones.one();
    clones.sync(&one, &[]);
    let blob = clones.blob(b"text");
    let inner = git_with(
        &clones.remote(),
        &["mktree"],
        format!("100644 blob {blob}\t.git\n").as_bytes(),
    );
    clones.publish(&format!("040000 tree {}\tmy-app\n", inner.trim()));
    clones.refused(&one, 1, "hasDotgit");
}

#[test]
fn sync_without_remote_names_the_next_step() {
    let repository = Repository::new("board = \"repository\"\n");
    repository.fill();
    let said = repository.run(&repository.main(), &["sync"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("git remote add origin URL"), "{said:?}");
    let said = repository.run(&repository.main(), &["log"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.err.contains("orchestra sync"), "{said:?}");
}

#[test]
fn program_that_the_repository_names_is_not_started() {
    let clones = Clones::new();
    let one = clones.one();
    let mark = one.with_file_name("started");
    let program = format!("touch {}; false", mark.display());
    for key in [
        "core.sshCommand",
        "remote.origin.uploadpack",
        "credential.helper",
    ] {
        git(&one, &["config", key, &program]);
        clones.refused(&one, 5, "starts a program");
        git(&one, &["config", "--unset", key]);
    }
    assert!(!mark.exists());
    clones.sync(&one, &[]);
}

#[test]
fn remote_that_cannot_be_reached_is_named() {
    let clones = Clones::new();
    let one = clones.one();
    let said = clones.run(&one, &["sync", "../none-such"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("../none-such"), "{said:?}");
    assert_eq!(said.err.matches("fetch the board").count(), 1, "{said:?}");
    let said = clones.run(&one, &["sync", "--", "--upload-pack=touch"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

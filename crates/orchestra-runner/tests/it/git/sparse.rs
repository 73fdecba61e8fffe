//! Sparse checkouts of the user: worktrees of jobs have every file, and the checkout stays as it is.

use std::fs;

use orchestra_plan::ids::Commit;
use orchestra_runner::git::{Applied, Git, Repository};

use super::kit::{World, commit, git_in, prepare, ready, write};

/// Ways in which a checkout with the directories `a` and `b` has only `a`.
const KINDS: [&[&[&str]]; 4] = [
    &[&["sparse-checkout", "set", "--cone", "a"]],
    &[&["sparse-checkout", "set", "--cone", "--sparse-index", "a"]],
    &[&["sparse-checkout", "set", "--no-cone", "/a/", "/README"]],
    // As git before 2.36 did it, without a configuration for each worktree.
    &[
        &["config", "core.sparseCheckout", "true"],
        &["config", "core.sparseCheckoutCone", "false"],
        &["read-tree", "-m", "-u", "HEAD"],
    ],
];

fn sparse(kind: &[&[&str]]) -> (World, Commit) {
    let world = World::new();
    let head = world.save("directories", &[("a/f", "1\n"), ("b/f", "1\n")]);
    world.write(".git/info/sparse-checkout", "/a/\n");
    for arguments in kind {
        world.git(arguments);
    }
    assert!(!world.root.join("b").exists() && world.root.join("a/f").exists());
    (world, head)
}

fn list(world: &World) -> String {
    let list = world.git(&["ls-files", "-t"]);
    let patterns = fs::read_to_string(world.root.join(".git/info/sparse-checkout")).unwrap();
    format!("{list}{patterns}")
}

#[tokio::test]
async fn worktree_has_every_file_and_changes_outside_of_a_sparse_checkout_are_committed() {
    for kind in KINDS {
        let (world, head) = sparse(kind);
        let (before, listed) = (world.picture(), list(&world));
        let repository = world.open().await;
        let worktree = prepare(&repository, 1, &head).await;
        for file in ["README", "a/f", "b/f", "src/a.txt"] {
            assert!(worktree.path().join(file).exists(), "{kind:?}: {file}");
        }
        assert!(!commit(&worktree, &head).await.made);
        write(worktree.path(), "b/f", "changed\n");
        write(worktree.path(), "c/z", "z\n");
        let done = commit(&worktree, &head).await;
        assert_eq!(done.stats.changes.len(), 2, "{kind:?}: {:?}", done.stats);
        assert_eq!(world.show(&done.commit, "b/f"), "changed\n");
        assert_eq!(world.show(&done.commit, "c/z"), "z\n");
        // What the job stages itself is refused by git outside of a sparse checkout.
        write(worktree.path(), "b/new", "new\n");
        let job = |arguments: &[&str]| git_in(world.directory.path(), worktree.path(), arguments);
        job(&["add", "b/new"]);
        job(&["commit", "-q", "-m", "by the job"]);
        assert_eq!(commit(&worktree, &head).await.stats.changes.len(), 3);
        assert_eq!(
            (world.picture(), list(&world)),
            (before, listed),
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn sparse_checkout_of_the_target_follows_and_stays_sparse() {
    for kind in KINDS {
        let (world, head) = sparse(kind);
        let repository = world.open().await;
        let worktree = prepare(&repository, 1, &head).await;
        for (path, content) in [
            ("a/f", "2\n"),
            ("b/f", "2\n"),
            ("b/new", "2\n"),
            ("c/z", "z\n"),
        ] {
            write(worktree.path(), path, content);
        }
        fs::remove_file(worktree.path().join("src/a.txt")).unwrap();
        let done = commit(&worktree, &head).await.commit;
        let (intent, _) = ready(&repository, "main", std::slice::from_ref(&done)).await;
        assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
        assert_eq!(world.rev("HEAD"), done);
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{kind:?}");
        assert_eq!(fs::read_to_string(world.root.join("a/f")).unwrap(), "2\n");
        assert!(!world.root.join("b").exists(), "{kind:?}");
        assert!(!world.root.join("c").exists(), "{kind:?}");
    }
}

#[tokio::test]
async fn sparse_checkout_of_a_linked_worktree_of_the_user_is_not_copied() {
    let (world, head) = sparse(KINDS[0]);
    let linked = world.directory.path().join("linked");
    world.git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
    let git = Git::find(world.settings()).await.unwrap();
    let repository = Repository::open(&git, &linked).await.unwrap();
    assert!(!linked.join("b").exists());
    let worktree = prepare(&repository, 1, &head).await;
    write(worktree.path(), "b/f", "changed\n");
    assert_eq!(commit(&worktree, &head).await.stats.changes.len(), 1);
    assert!(!linked.join("b").exists());
}

#[tokio::test]
async fn worktree_that_a_job_made_sparse_keeps_its_files_and_is_complete_when_it_restarts() {
    let (world, head) = sparse(KINDS[0]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    let job = |arguments: &[&str]| git_in(world.directory.path(), worktree.path(), arguments);
    job(&["sparse-checkout", "set", "--cone", "a"]);
    assert!(!worktree.path().join("b/f").exists());
    write(worktree.path(), "a/f", "2\n");
    write(worktree.path(), "b/f", "2\n");
    write(worktree.path(), "c/z", "z\n");
    let done = commit(&worktree, &head).await;
    assert_eq!(done.stats.changes.len(), 3, "{:?}", done.stats);
    assert_eq!(world.files(&done.commit).len(), 5);
    worktree.restart(&head).await.unwrap();
    for file in ["a/f", "b/f", "src/a.txt"] {
        assert!(worktree.path().join(file).exists(), "{file}");
    }
    assert!(!commit(&worktree, &head).await.made);
}

#[tokio::test]
async fn partial_clone_fetches_what_a_worktree_needs_and_names_a_remote_that_is_gone() {
    let world = World::new();
    world.save("directories", &[("a/f", "1\n"), ("b/f", "1\n")]);
    world.git(&["config", "uploadpack.allowFilter", "true"]);
    world.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let url = format!("file://{}", world.root.display());
    let path = world.directory.path().join("partial");
    let clone = ["clone", "-q", "--filter=blob:none", "--sparse", &url];
    world.git(&[&clone[..], &[path.to_str().unwrap()]].concat());
    assert!(!path.join("b").exists());
    let git = Git::find(world.settings()).await.unwrap();
    let repository = Repository::open(&git, &path).await.unwrap();
    let head = world.rev("HEAD");
    let away = world.directory.path().join("away");
    fs::rename(&world.root, &away).unwrap();
    let error = repository
        .prepare(super::kit::job(1, 1), &head)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("promisor remote"), "{error}");
    assert!(error.hint().contains("partial clone"), "{}", error.hint());
    fs::rename(&away, &world.root).unwrap();
    let worktree = prepare(&repository, 1, &head).await;
    let content = fs::read_to_string(worktree.path().join("b/f")).unwrap();
    assert_eq!(content, "1\n");
    write(worktree.path(), "b/f", "changed\n");
    assert_eq!(commit(&worktree, &head).await.stats.changes.len(), 1);
}

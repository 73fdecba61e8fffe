//! Worktrees are removed when they hold nothing of anybody's.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
};

use orchestra_runner::git::{HalfDone, Held, Removal};
use rustix::fs::{Mode, OFlags};

use super::kit::{World, commit, git_in, job, plan, prepare, write};

#[tokio::test]
async fn a_finished_worktree_is_removed_with_what_git_ignores() {
    let world = World::new();
    world.save("ignore", &[(".gitignore", "target/\n")]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    write(worktree.path(), "done", "done");
    write(worktree.path(), "target/big", "built");
    let done = commit(&worktree, &base).await.commit;
    assert_eq!(
        worktree.remove(&[]).await.unwrap(),
        Removal::Kept(Held::Commits(done.clone()))
    );
    assert_eq!(worktree.remove(&[done]).await.unwrap(), Removal::Removed);
    assert!(!worktree.path().exists());
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(
        fs::read_dir(world.root.join(".git/worktrees")).map_or(0, Iterator::count),
        0
    );
}

#[tokio::test]
async fn directories_of_a_job_that_git_cannot_delete_are_removed_with_the_worktree() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    let home = worktree.directory().join("orchestra-home");
    for closed in [home.join("closed"), worktree.path().join("closed")] {
        fs::create_dir_all(closed.join("inner")).unwrap();
        fs::set_permissions(closed, Permissions::from_mode(0o000)).unwrap();
    }
    // Longer than a path.
    let flags = OFlags::DIRECTORY | OFlags::RDONLY;
    let mut deep = rustix::fs::open(&home, flags, Mode::empty()).unwrap();
    for _ in 0..1_000 {
        rustix::fs::mkdirat(&deep, "directory", Mode::RWXU).unwrap();
        deep = rustix::fs::openat(&deep, "directory", flags, Mode::empty()).unwrap();
    }
    fs::set_permissions(worktree.path(), Permissions::from_mode(0o500)).unwrap();
    assert_eq!(worktree.remove(&[]).await.unwrap(), Removal::Removed);
    assert!(!worktree.path().exists() && !worktree.directory().exists());
}

#[tokio::test]
async fn uncommitted_changes_keep_it_unless_the_job_made_them() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    write(worktree.path(), "left", "by the job");
    let kept = Removal::Kept(Held::Changes(vec!["left".into()]));
    assert_eq!(worktree.remove(&[]).await.unwrap(), kept);
    worktree.seal().await.unwrap();
    write(worktree.path(), "left", "by THE job");
    assert_eq!(
        worktree.remove(&[]).await.unwrap(),
        kept,
        "somebody has written the same length"
    );
    worktree.seal().await.unwrap();
    assert_eq!(worktree.remove(&[]).await.unwrap(), Removal::Removed);
}

/// As git leaves it that is told to end while it makes one.
#[tokio::test]
async fn what_is_left_of_a_worktree_that_was_never_made_goes_and_nothing_that_anybody_has_put_there()
 {
    let world = World::new();
    let repository = world.open().await;
    let owners = [1, 2, 3, 4].map(|number| job(1, number));
    let paths = owners.map(|owner| repository.worktree_path(owner));
    for path in &paths {
        fs::create_dir_all(path).unwrap();
    }
    let gone = world.root.join(".git/worktrees/gone");
    let link = format!("gitdir: {}\n", gone.display());
    fs::write(paths[1].join(".git"), &link).unwrap();
    fs::write(paths[2].join(".git"), &link).unwrap();
    write(&paths[2], "mine", "of the user");
    let others = &owners[..3];
    repository.remove_plan(plan(1), others, &[]).await.unwrap();
    let there = paths.map(|path| path.exists());
    assert_eq!(there, [false, false, true, true], "the last is nobody's");
}

#[tokio::test]
async fn a_merge_that_somebody_began_keeps_it() {
    let world = World::new();
    let base = world.rev("HEAD");
    let repository = world.open().await;
    let ours = super::kit::work(&repository, 1, &base, &[("README", "1\n")]).await;
    let theirs = super::kit::work(&repository, 2, &base, &[("README", "2\n")]).await;
    let worktree = prepare(&repository, 3, &ours).await;
    worktree.begin_merge(&theirs, "m").await.unwrap();
    let kept = Removal::Kept(Held::HalfDone(HalfDone::Merge));
    assert_eq!(worktree.remove(&[]).await.unwrap(), kept);
}

#[tokio::test]
async fn a_removal_that_was_broken_off_goes_on() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    let marker = worktree.directory().join("orchestra.json");
    let text = fs::read_to_string(&marker)
        .unwrap()
        .replace("\"removing\":false", "\"removing\":true");
    fs::write(&marker, text).unwrap();
    fs::remove_file(worktree.path().join("README")).unwrap();
    let swept = repository.sweep(|_| false).await.unwrap();
    assert_eq!(swept.removed, [job(1, 1)]);
    assert!(!worktree.path().exists());
}

/// Whatever of it was deleted first: the next call goes on, whichever call that is.
#[tokio::test]
async fn a_removal_that_was_broken_off_anywhere_goes_on() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    for (gone, rest) in [
        (vec![".git"], "README"),
        (vec!["README", "src"], ".git"),
        (vec![".git", "README", "src"], "."),
    ] {
        let mut worktrees = Vec::new();
        for number in 1..=3 {
            let worktree = prepare(&repository, number, &base).await;
            let marker = worktree.directory().join("orchestra.json");
            let text = fs::read_to_string(&marker).unwrap();
            let text = text.replace("\"removing\":false", "\"removing\":true");
            fs::write(&marker, text).unwrap();
            for name in &gone {
                let path = worktree.path().join(name);
                match path.is_dir() {
                    true => fs::remove_dir_all(path).unwrap(),
                    false => fs::remove_file(path).unwrap(),
                }
            }
            assert!(worktree.path().join(rest).exists());
            worktrees.push(worktree);
        }
        // A retry, a plan that is deleted, and the start of the next runner.
        let again = repository.prepare(job(1, 1), &base).await.unwrap();
        assert!(again.worktree.path().join("README").exists());
        let status = git_in(
            world.directory.path(),
            again.worktree.path(),
            &["status", "-s"],
        );
        assert_eq!(status, "");
        let removed = worktrees[1].remove(&[]).await.unwrap();
        assert_eq!(removed, Removal::Removed);
        let swept = repository.sweep(|owner| *owner == job(1, 1)).await.unwrap();
        assert_eq!(swept.removed, [job(1, 3)]);
        assert_eq!(
            repository
                .remove_plan(plan(1), &[], &[])
                .await
                .unwrap()
                .removed,
            [job(1, 1)]
        );
        assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
        assert_eq!(
            fs::read_dir(world.root.join(".worktrees")).unwrap().count(),
            0
        );
    }
}

#[tokio::test]
async fn orphans_are_removed_and_nothing_else() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let mut worktrees = Vec::new();
    for number in 1..=5 {
        worktrees.push(prepare(&repository, number, &base).await);
    }
    write(worktrees[1].path(), "precious", "x");
    git_in(
        world.directory.path(),
        worktrees[2].path(),
        &["commit", "-q", "--allow-empty", "-m", "x"],
    );
    fs::remove_dir_all(worktrees[3].path()).unwrap();
    let theirs = world.root.join(".worktrees/theirs");
    world.git(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        theirs.to_str().unwrap(),
    ]);
    world.write(".worktrees/no worktree/file", "x");
    let swept = repository.sweep(|owner| *owner == job(1, 5)).await.unwrap();
    let mut removed = swept.removed.clone();
    removed.sort();
    let mut expected = vec![job(1, 1), job(1, 4)];
    expected.sort();
    assert_eq!(removed, expected);
    assert_eq!(swept.kept.len(), 2);
    assert!(worktrees[1].path().join("precious").exists());
    assert!(worktrees[2].path().exists() && worktrees[4].path().exists());
    assert!(
        theirs.join("README").exists() && world.root.join(".worktrees/no worktree/file").exists()
    );
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1 + 4);
}

#[tokio::test]
async fn a_snapshot_branch_that_the_user_has_taken_up_is_left_to_them() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let other = world.save("other", &[("b", "b")]);
    let name = format!("orchestrator/snapshot/{}", plan(1));
    let reflog = || world.git(&["reflog", "show", &name]).lines().count();
    repository.begin_snapshot(plan(1), &base).await.unwrap();
    // As a runner that was killed before that was known begins again elsewhere.
    repository.begin_snapshot(plan(1), &other).await.unwrap();
    assert_eq!(world.rev(&name), other);

    world.git(&["switch", "-q", &name]);
    let before = (world.picture(), reflog());
    repository.begin_snapshot(plan(1), &base).await.unwrap();
    repository.remove_plan(plan(1), &[], &[]).await.unwrap();
    assert_eq!((world.picture(), reflog()), before);
    assert_eq!(world.rev("HEAD"), other);

    let mine = world.save("mine", &[("c", "c")]);
    world.git(&["switch", "-q", "main"]);
    repository.begin_snapshot(plan(1), &base).await.unwrap();
    repository.remove_plan(plan(1), &[], &[]).await.unwrap();
    repository.forget_plan(plan(1)).await.unwrap();
    repository.remove_plan(plan(1), &[], &[]).await.unwrap();
    assert_eq!(world.rev(&name), mine);

    // Once it is left where the plan had put it, it goes, with what was kept for that.
    world.git(&["branch", "-q", "-f", &name, base.as_str()]);
    repository.remove_plan(plan(1), &[], &[]).await.unwrap();
    repository.forget_plan(plan(1)).await.unwrap();
    let left = ["for-each-ref", "--format=%(refname)"];
    assert_eq!(world.git(&left), "refs/heads/main\n");
}

#[tokio::test]
async fn a_plan_is_removed_with_its_snapshot_but_its_branch_stays() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    world.git(&["branch", "target"]);
    repository.begin_snapshot(plan(1), &base).await.unwrap();
    repository.begin_snapshot(plan(2), &base).await.unwrap();
    prepare(&repository, 1, &base).await;
    repository
        .prepare(orchestra_runner::git::Owner::Snapshot(plan(1)), &base)
        .await
        .unwrap();
    repository.prepare(job(2, 1), &base).await.unwrap();
    let swept = repository.remove_plan(plan(1), &[], &[]).await.unwrap();
    assert_eq!((swept.removed.len(), swept.kept.len()), (2, 0));
    let left = world.git(&["branch", "--list", "--format=%(refname:short)"]);
    assert_eq!(
        left,
        format!("main\norchestrator/snapshot/{}\ntarget\n", plan(2))
    );
    assert!(repository.worktree_path(job(2, 1)).exists());
}

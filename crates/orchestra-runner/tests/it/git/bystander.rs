//! The user works on while a plan runs: what they leave is what they find, to the byte.

use std::{fs, os::unix::fs::PermissionsExt as _};

use orchestra_runner::git::{Applied, CheckoutRefusal, Repository};

use super::kit::{World, commit, job, merged, plan, prepare, ready, work, write};

/// A plan of three jobs from the first git of it to the last, between whose steps the user does something.
async fn run(
    world: &World,
    target: &str,
    meanwhile: &[&dyn Fn(&World)],
) -> Result<(), CheckoutRefusal> {
    let mut meanwhile = meanwhile.iter();
    let mut user = || {
        if let Some(action) = meanwhile.next() {
            action(world);
        }
        (world.picture(), branches_but(world, target))
    };
    let unchanged = |before, step: &str| {
        assert_eq!(
            (world.picture(), branches_but(world, target)),
            before,
            "{step}"
        );
    };
    let repository = world.open().await;
    let base = repository.choose_base(Some("main")).await.unwrap().commit;

    let before = user();
    repository.begin_snapshot(plan(1), &base).await.unwrap();
    let one = prepare(&repository, 1, &base).await;
    let two = prepare(&repository, 2, &base).await;
    unchanged(before, "preparation");

    let before = user();
    write(one.path(), "one", "1\n");
    write(two.path(), "two", "2\n");
    let first = commit(&one, &base).await.commit;
    let second = commit(&two, &base).await.commit;
    unchanged(before, "commits");

    let before = user();
    let both = merged(&repository, &[first, second]).await;
    let third = work(&repository, 3, &both, &[("three", "3\n")]).await;
    unchanged(before, "forward integration");

    let before = user();
    let (intent, _) = ready(&repository, target, &[third]).await;
    unchanged(before, "reverse integration");

    let before = user();
    match repository.apply(&intent).await.unwrap() {
        Applied::Done => {}
        Applied::Moved { .. } => {
            unchanged(before.clone(), "a branch that has moved");
            let (again, _) = ready(&repository, target, std::slice::from_ref(&intent.new)).await;
            assert_eq!(repository.apply(&again).await.unwrap(), Applied::Done);
        }
        Applied::Refused(refusal) => {
            unchanged(before, "a refusal");
            return Err(refusal);
        }
    }
    if world.git(&["rev-parse", "--abbrev-ref", "HEAD"]).trim() != target {
        unchanged(before, "the branch moves");
    }

    let before = user();
    let swept = repository.remove_plan(plan(1), &[], &[]).await.unwrap();
    assert_eq!((swept.removed.len(), swept.kept.len()), (3, 0));
    unchanged(before, "cleanup");
    let tip = world.files(&world.rev(target));
    for file in ["one", "two", "three"] {
        assert!(tip.iter().any(|path| path == file), "{tip:?}");
    }
    Ok(())
}

fn branches_but(world: &World, target: &str) -> String {
    let target = format!("refs/heads/{target} ");
    world
        .branches()
        .lines()
        .filter(|line| !line.starts_with(&target))
        .collect()
}

#[tokio::test]
async fn the_user_edits_stages_and_commits() {
    let world = World::new();
    run(
        &world,
        "plan",
        &[
            &|it| it.write("README", "half an edit"),
            &|it| drop(it.git(&["add", "README"])),
            &|it| it.write("README", "staged, and edited again"),
            &|it| drop(it.save("committed", &[("mine", "mine\n")])),
            &|it| it.write("untracked", "x"),
            &|it| it.write("src/a.txt", "last"),
        ],
    )
    .await
    .unwrap();
    assert_eq!(
        fs::read_to_string(world.root.join("src/a.txt")).unwrap(),
        "last"
    );
}

#[tokio::test]
async fn the_user_switches_rebases_and_deletes_branches() {
    let world = World::new();
    world.git(&["branch", "topic"]);
    world.git(&["branch", "doomed"]);
    run(
        &world,
        "plan",
        &[
            &|it| drop(it.git(&["checkout", "-q", "topic"])),
            &|it| drop(it.save("on the topic", &[("t", "t\n")])),
            &|it| {
                it.git(&["checkout", "-q", "main"]);
                it.save("on main", &[("m", "m\n")]);
                it.git(&["checkout", "-q", "topic"]);
                it.git(&["rebase", "-q", "main"]);
            },
            &|it| drop(it.git(&["branch", "-D", "doomed"])),
            &|it| drop(it.git(&["checkout", "-q", "--detach", "HEAD~1"])),
            &|it| drop(it.git(&["branch", "-m", "main", "trunk"])),
        ],
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn the_user_moves_or_deletes_the_branch_that_the_plan_ends_on() {
    let world = World::new();
    world.git(&["branch", "plan"]);
    run(
        &world,
        "plan",
        &[
            &|_| {},
            &|it| {
                it.git(&["checkout", "-q", "plan"]);
                it.save("the user's own", &[("own", "own\n")]);
                it.git(&["checkout", "-q", "main"]);
            },
            &|_| {},
            &|_| {},
            &|it| {
                it.git(&["checkout", "-q", "plan"]);
                it.save("and once more", &[("more", "more\n")]);
                it.git(&["checkout", "-q", "main"]);
            },
        ],
    )
    .await
    .unwrap();
    let files = world.files(&world.rev("plan"));
    assert!(files.contains(&"own".to_owned()) && files.contains(&"more".to_owned()));

    let world = World::new();
    world.git(&["branch", "plan"]);
    run(
        &world,
        "plan",
        &[&|_| {}, &|it| drop(it.git(&["branch", "-D", "plan"]))],
    )
    .await
    .unwrap();
}

#[tokio::test]
async fn the_user_collects_garbage() {
    let world = World::new();
    let collect = |it: &World| {
        it.git(&["reflog", "expire", "--expire=now", "--all"]);
        it.git(&["gc", "-q", "--prune=now"]);
        it.git(&["worktree", "prune"]);
    };
    run(&world, "plan", &[&|_| {}, &collect, &collect, &collect])
        .await
        .unwrap();
    world.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn a_clean_checkout_of_the_branch_follows() {
    let world = World::new();
    world.write(".git/info/exclude", "ignored\n");
    world.write("ignored", "mine");
    world.write("untracked", "mine");
    run(&world, "main", &[]).await.unwrap();
    assert_eq!(fs::read_to_string(world.root.join("three")).unwrap(), "3\n");
    assert_eq!(
        fs::read_to_string(world.root.join("ignored")).unwrap(),
        "mine"
    );
    assert_eq!(world.git(&["status", "--porcelain"]), "?? untracked\n");
    assert_eq!(world.git(&["symbolic-ref", "HEAD"]), "refs/heads/main\n");
}

/// A repository whose files take their time to be written, and a plan that is about to bring ten of them to
/// the branch that is checked out.
async fn slowly(world: &World) -> (Repository, orchestra_runner::git::Intent) {
    world.git(&["config", "filter.slow.smudge", "sleep 0.03; cat"]);
    let repository = world.open().await;
    let names: Vec<String> = (0..10).map(|at| format!("new-{at}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "new\n")).collect();
    let done = work(&repository, 1, &world.rev("HEAD"), &files).await;
    world.write(".git/info/attributes", "new-* filter=slow\n");
    let (intent, _) = ready(&repository, "main", &[done]).await;
    (repository, intent)
}

/// Whoever brings a plan to it may be told to end: by a cancellation, or with the whole program.
#[tokio::test]
async fn a_checkout_that_follows_is_not_left_half_way_when_nobody_waits_for_it() {
    for moment in [5, 40, 90, 150, 220, 300] {
        let moment = std::time::Duration::from_millis(moment);
        let world = World::new();
        let (repository, intent) = slowly(&world).await;
        let is_dropped = tokio::time::timeout(moment, repository.apply(&intent)).await;
        repository.landed().await;
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{moment:?}");
        assert_eq!(world.rev("HEAD"), intent.new, "{moment:?} {is_dropped:?}");

        let world = World::new();
        let (_, intent) = slowly(&world).await;
        let (own, root, settings) = (intent.clone(), world.root.clone(), world.settings());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let (begun, begins) = std::sync::mpsc::channel();
            runtime.spawn(async move {
                let git = orchestra_runner::git::Git::find(settings).await.unwrap();
                let repository = Repository::open(&git, &root).await.unwrap();
                begun.send(()).unwrap();
                repository.apply(&own).await
            });
            begins.recv().unwrap();
            std::thread::sleep(moment);
            runtime.shutdown_background();
        })
        .join()
        .unwrap();
        // Whoever comes next waits until it is over, and finds it done or does it.
        let repository = world.open().await;
        assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{moment:?}");
        assert_eq!(world.rev("HEAD"), intent.new);
    }
}

/// Between our look for a working tree that has the branch and the move of it.
#[tokio::test]
async fn a_branch_that_is_checked_out_when_it_moves_brings_its_files() {
    let world = World::new();
    world.git(&["branch", "plan"]);
    let repository = world.open().await;
    let done = work(&repository, 1, &world.rev("HEAD"), &[("one", "1\n")]).await;
    let (intent, _) = ready(&repository, "plan", &[done]).await;
    let repository = meddling(&world, "update-ref", "git switch -q plan").await;
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(world.git(&["symbolic-ref", "HEAD"]), "refs/heads/plan\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(fs::read_to_string(world.root.join("one")).unwrap(), "1\n");
}

/// The repository with a git that does something once, right before a call with this word.
async fn meddling(world: &World, before: &str, what: &str) -> Repository {
    let (program, done) = (
        world.directory.path().join("git"),
        world.directory.path().join("done"),
    );
    let script = format!(
        "#!/bin/sh\nfor word; do\nif [ \"$word\" = {before} ] && [ ! -e '{0}' ]; then\n: > '{0}'; {what} || exit 9\nfi; done\nexec git \"$@\"\n",
        done.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = orchestra_runner::git::GitSettings {
        program,
        ..world.settings()
    };
    let git = orchestra_runner::git::Git::find(settings).await.unwrap();
    Repository::open(&git, &world.root).await.unwrap()
}

/// Between our look at the working tree and git's merge in it.
#[tokio::test]
async fn a_branch_that_is_checked_out_at_the_last_moment_is_put_back() {
    for (there, head) in [("other", "refs/heads/other\n"), ("--detach", "")] {
        let world = World::new();
        world.git(&["branch", "other"]);
        let base = world.rev("HEAD");
        world.open().await;
        let repository = meddling(&world, "--ff-only", &format!("git switch -q {there}")).await;
        let work = work(
            &repository,
            1,
            &base,
            &[("new", "new"), ("README", "changed")],
        )
        .await;
        let (intent, _) = ready(&repository, "main", &[work]).await;
        assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
        assert!(
            world.directory.path().join("done").exists(),
            "nobody has switched"
        );
        assert_eq!(world.rev("main"), intent.new);
        assert_eq!(
            (world.rev("other"), world.rev("HEAD")),
            (base.clone(), base)
        );
        let symbolic = world.try_git(&["symbolic-ref", "-q", "HEAD"]).stdout;
        assert_eq!(String::from_utf8(symbolic).unwrap(), head);
        assert_eq!(world.git(&["status", "--porcelain"]), "");
        assert!(!world.root.join("new").exists());
    }
}

#[tokio::test]
async fn a_checkout_of_a_branch_without_commits_follows() {
    let world = World::empty();
    run_from_nothing(&world).await;
    assert_eq!(fs::read_to_string(world.root.join("a")).unwrap(), "a");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

async fn run_from_nothing(world: &World) {
    let repository = world.open().await;
    let base = repository.choose_base(None).await.unwrap().commit;
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let (intent, _) = ready(&repository, "main", &[done]).await;
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
}

/// What is refused, after the user did something in the checkout of the branch that the plan ends on.
async fn refused(prepare: impl Fn(&World), files: &[(&str, &str)]) -> CheckoutRefusal {
    let world = World::new();
    refused_in(&world, prepare, files).await
}

async fn refused_in(
    world: &World,
    prepare: impl Fn(&World),
    files: &[(&str, &str)],
) -> CheckoutRefusal {
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, files).await;
    let (intent, _) = ready(&repository, "main", &[done]).await;
    prepare(world);
    let before = (world.picture(), world.branches());
    let Applied::Refused(refusal) = repository.apply(&intent).await.unwrap() else {
        panic!("it was applied");
    };
    assert_eq!((world.picture(), world.branches()), before);
    refusal
}

#[tokio::test]
async fn a_checkout_that_is_not_clean_is_not_touched() {
    let edited = refused(|it| it.write("README", "edit"), &[("a", "a")]).await;
    assert_eq!(edited.code(), "target-checkout-dirty");
    assert!(edited.to_string().contains("(README)"), "{edited}");
    let staged = |it: &World| {
        it.write("new", "new");
        it.git(&["add", "new"]);
    };
    assert_eq!(
        refused(staged, &[("a", "a")]).await.code(),
        "target-checkout-dirty"
    );
    let deleted = |it: &World| fs::remove_file(it.root.join("README")).unwrap();
    assert_eq!(
        refused(deleted, &[("a", "a")]).await.code(),
        "target-checkout-dirty"
    );
}

#[tokio::test]
async fn files_in_the_way_are_not_touched_not_even_ignored_ones() {
    let untracked = refused(|it| it.write("a", "the user's"), &[("a", "ours")]).await;
    assert_eq!(untracked.code(), "target-checkout-files-in-the-way");
    let ignored = |it: &World| {
        it.write(".git/info/exclude", "a\nd\n");
        it.write("a", "the user's");
    };
    assert_eq!(
        refused(ignored, &[("a", "ours")]).await.code(),
        "target-checkout-files-in-the-way"
    );
    let directory = refused(|it| it.write("a/b", "the user's"), &[("a", "ours")]).await;
    assert_eq!(directory.code(), "target-checkout-files-in-the-way");
    let parent = refused(|it| it.write("d", "the user's"), &[("d/e/f", "ours")]).await;
    assert_eq!(parent.code(), "target-checkout-files-in-the-way");
    assert!(parent.to_string().contains("(d)"), "{parent}");
}

#[tokio::test]
async fn a_checkout_in_the_midst_of_something_is_not_touched() {
    let busy = refused(|it| it.write(".git/index.lock", ""), &[("a", "a")]).await;
    assert_eq!(busy.code(), "target-checkout-busy");
    let merging = |it: &World| {
        let tree = format!("{}^{{tree}}", it.rev("HEAD"));
        let other = it.git(&["commit-tree", &tree, "-p", "HEAD", "-m", "other"]);
        it.git(&["merge", "-q", "--no-ff", "--no-commit", other.trim()]);
    };
    assert_eq!(
        refused(merging, &[("a", "a")]).await.code(),
        "target-checkout-half-done"
    );
    let rebasing = |it: &World| {
        it.git(&["branch", "keep"]);
        let output = it.try_git(&[
            "-c",
            "sequence.editor=sed -i 1ibreak",
            "rebase",
            "-q",
            "-i",
            "--root",
        ]);
        assert!(output.status.success());
        it.git(&["update-ref", "refs/heads/main", "keep"]);
    };
    assert_eq!(
        refused(rebasing, &[("a", "a")]).await.code(),
        "target-checkout-half-done"
    );
}

#[tokio::test]
async fn a_checkout_in_another_worktree_of_the_users_follows_or_is_not_touched() {
    let world = World::new();
    world.git(&["worktree", "add", "-q", "-b", "plan", "../other tree"]);
    let other = world.directory.path().join("other tree");
    let dirty = |_: &World| write(&other, "README", "edit");
    let world_before = world.picture();
    let repository: Repository = world.open().await;
    let done = work(&repository, 1, &world.rev("HEAD"), &[("a", "a")]).await;
    let (intent, _) = ready(&repository, "plan", &[done]).await;
    dirty(&world);
    let Applied::Refused(refusal) = repository.apply(&intent).await.unwrap() else {
        panic!("it was applied");
    };
    assert_eq!(refusal.code(), "target-checkout-dirty");
    assert_eq!(fs::read_to_string(other.join("README")).unwrap(), "edit");
    write(&other, "README", "read me\n");
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "a");
    assert_eq!(world.picture(), world_before);
}

#[tokio::test]
async fn a_user_who_works_in_a_worktree_of_ours_loses_nothing() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    write(worktree.path(), "job", "job\n");
    let done = commit(&worktree, &base).await.commit;
    worktree.seal().await.unwrap();
    write(worktree.path(), "notes of the user", "precious");
    let swept = repository
        .remove_plan(plan(1), &[], std::slice::from_ref(&done))
        .await
        .unwrap();
    assert_eq!(swept.removed, []);
    assert_eq!(swept.kept[0].0, job(1, 1));
    assert!(worktree.path().join("notes of the user").exists());
}

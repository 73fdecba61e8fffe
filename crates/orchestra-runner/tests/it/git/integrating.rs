//! A plan's work comes onto its branch once, from exactly where the branch was.

use orchestra_runner::git::{Applied, Integration, Intent, IntentState, Landing};

use super::kit::{World, branch, merged, plan, ready, work};

#[tokio::test]
async fn a_branch_that_is_not_there_is_made_only_if_it_is_still_not_there() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let before = world.picture();
    let (intent, landing) = ready(&repository, "new/branch", std::slice::from_ref(&done)).await;
    assert_eq!(
        (landing, &intent.old, &intent.new),
        (Landing::Created, &None, &done)
    );
    assert_eq!(
        repository.state_of(&intent).await.unwrap(),
        IntentState::Void
    );
    world.git(&["branch", "new/branch", base.as_str()]);
    let moved = Applied::Moved { to: Some(base) };
    assert_eq!(repository.apply(&intent).await.unwrap(), moved);
    assert_eq!(world.picture(), before);
    world.git(&["branch", "-D", "new/branch"]);
    let before = world.picture();
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(
        repository.apply(&intent).await.unwrap(),
        Applied::Done,
        "applied twice"
    );
    assert_eq!(world.rev("new/branch"), done);
    assert_eq!(world.picture(), before);
}

#[tokio::test]
async fn a_branch_moves_along_or_is_merged_with_and_nothing_is_lost() {
    let world = World::new();
    world.git(&["branch", "target"]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let a = work(&repository, 1, &base, &[("a", "a")]).await;
    let b = work(&repository, 2, &base, &[("b", "b")]).await;
    let (intent, landing) = ready(&repository, "target", std::slice::from_ref(&a)).await;
    assert_eq!((landing, &intent.new), (Landing::FastForward, &a));
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    let (second, landing) = ready(&repository, "target", std::slice::from_ref(&b)).await;
    assert_eq!(landing, Landing::Merge);
    assert_eq!(repository.apply(&second).await.unwrap(), Applied::Done);
    let parents = world.git(&["log", "-1", "--format=%P", "target"]);
    assert_eq!(parents.trim(), format!("{a} {b}"));
    assert_eq!(
        repository.state_of(&intent).await.unwrap(),
        IntentState::Done,
        "it is among the ancestors"
    );
    // Another message makes another merge of the two, which the branch does not have.
    let again = repository
        .integrate(&branch("target"), &[a, b], "again", 80)
        .await;
    let Integration::Ready { intent, landing } = again.unwrap() else {
        panic!("it has both");
    };
    assert_eq!((landing, &intent.new), (Landing::There, &second.new));
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(world.rev("target"), second.new);
}

#[tokio::test]
async fn a_moved_branch_is_not_overwritten() {
    let world = World::new();
    world.git(&["branch", "target"]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let (intent, _) = ready(&repository, "target", std::slice::from_ref(&done)).await;
    let users = world.save("the user's", &[("u", "u")]);
    world.git(&["branch", "-f", "target", users.as_str()]);
    let moved = Applied::Moved {
        to: Some(users.clone()),
    };
    assert_eq!(repository.apply(&intent).await.unwrap(), moved);
    assert_eq!(world.rev("target"), users);
    world.git(&["branch", "-D", "target"]);
    assert_eq!(
        repository.apply(&intent).await.unwrap(),
        Applied::Moved { to: None }
    );
    assert_eq!(
        repository.state_of(&intent).await.unwrap(),
        IntentState::Moved { to: None }
    );
    assert!(!world.branches().contains("target"));
}

#[tokio::test]
async fn of_many_who_apply_at_once_each_is_merged_exactly_once() {
    let world = World::new();
    world.git(&["branch", "target"]);
    let base = world.rev("HEAD");
    let first = world.open().await;
    let mut commits = Vec::new();
    for number in 0..6 {
        let file = format!("file-{number}");
        commits.push(work(&first, number, &base, &[(&file, "x\n")]).await);
    }
    let runners = commits.iter().map(|commit| async {
        let repository = world.open().await;
        loop {
            let (intent, _) = ready(&repository, "target", std::slice::from_ref(commit)).await;
            match repository.apply(&intent).await {
                Ok(Applied::Done) => return,
                Ok(Applied::Moved { .. }) => {}
                Err(error) if error.code() == "git-locked" => {}
                other => panic!("{other:?}"),
            }
        }
    });
    futures_util::future::join_all(runners).await;
    let target = world.rev("target");
    assert_eq!(world.files(&target).len(), 2 + 6);
    let log = world.git(&["log", "--format=%s", "target"]);
    assert_eq!(log.matches("[Plan] work").count(), 6);
}

#[tokio::test]
async fn a_conflict_with_the_branch_is_told() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("README", "ours\n")]).await;
    world.git(&["checkout", "-q", "-b", "target"]);
    let tip = world.save("theirs", &[("README", "theirs\n")]);
    let result = repository
        .integrate(&branch("target"), std::slice::from_ref(&done), "m", 80)
        .await;
    let Integration::Conflict(conflict) = result.unwrap() else {
        panic!("it merged");
    };
    assert_eq!((conflict.onto, conflict.with), (tip, done));
    assert_eq!(conflict.paths[0].kind, "contents");
}

#[tokio::test]
async fn a_destroyed_tree_is_refused() {
    let world = World::new();
    let files: Vec<String> = (0..20).map(|number| format!("f{number}")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|name| (name.as_str(), "x\n")).collect();
    let base = world.save("many", &files);
    world.git(&["branch", "target"]);
    let repository = world.open().await;
    let worktree = super::kit::prepare(&repository, 1, &base).await;
    for number in 0..5 {
        std::fs::remove_file(worktree.path().join(format!("f{number}"))).unwrap();
    }
    let done = super::kit::commit(&worktree, &base).await.commit;
    let integrate = async |floor| {
        repository
            .integrate(&branch("target"), std::slice::from_ref(&done), "m", floor)
            .await
            .unwrap()
    };
    assert_eq!(
        integrate(80).await,
        Integration::Destroyed {
            before: 22,
            after: 17
        }
    );
    assert!(matches!(integrate(75).await, Integration::Ready { .. }));
    assert!(matches!(integrate(0).await, Integration::Ready { .. }));
}

#[tokio::test]
async fn work_that_began_with_nothing_meets_a_branch_made_meanwhile() {
    let world = World::empty();
    let repository = world.open().await;
    let base = repository.choose_base(None).await.unwrap().commit;
    let a = work(&repository, 1, &base, &[("a", "a")]).await;
    let b = work(&repository, 2, &base, &[("b", "b")]).await;
    let both = merged(&repository, &[a, b]).await;
    let (intent, landing) = ready(&repository, "plan", std::slice::from_ref(&both)).await;
    assert_eq!(landing, Landing::Created);
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(world.files(&world.rev("plan")), ["a", "b"]);
    world.save("the user's first", &[("u", "u")]);
    world.git(&["checkout", "-q", "-b", "elsewhere"]);
    let (intent, landing) = ready(&repository, "main", &[both]).await;
    assert_eq!(landing, Landing::Merge);
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(world.files(&world.rev("main")), ["a", "b", "u"]);
}

#[tokio::test]
async fn an_intent_is_found_void_or_done_after_a_crash() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    world.git(&["branch", "target"]);
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let intent = Intent {
        target: branch("target"),
        old: Some(base),
        new: done.clone(),
    };
    assert_eq!(
        repository.state_of(&intent).await.unwrap(),
        IntentState::Void
    );
    world.git(&["update-ref", "refs/heads/target", done.as_str()]);
    assert_eq!(
        repository.state_of(&intent).await.unwrap(),
        IntentState::Done
    );
}

#[tokio::test]
async fn a_snapshot_branch_is_made_moved_and_deleted() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    repository.begin_snapshot(plan(1), &base).await.unwrap();
    repository.begin_snapshot(plan(1), &done).await.unwrap();
    let name = format!("orchestrator/snapshot/{}", plan(1));
    assert_eq!(world.rev(&name), done);
    repository.remove_snapshot(plan(1)).await.unwrap();
    repository.remove_snapshot(plan(1)).await.unwrap();
}

#[tokio::test]
async fn snapshot_branch_has_another_prefix_beside_a_branch_that_is_in_its_way() {
    for in_the_way in ["orchestrator", "orchestrator/snapshot"] {
        let world = World::new();
        world.git(&["branch", in_the_way]);
        let repository = world.open().await;
        let base = world.rev("HEAD");
        let done = work(&repository, 1, &base, &[("a", "a")]).await;
        let name = format!("orchestrator-snapshot-{}", plan(1));
        for commit in [&base, &done] {
            let branch = repository.begin_snapshot(plan(1), commit).await.unwrap();
            assert_eq!(branch.as_str(), name);
            assert_eq!(world.rev(&name), *commit);
        }
        assert_eq!(
            repository.snapshot_branches().await.unwrap(),
            std::slice::from_ref(&name)
        );
        let found = repository.prefixes_in_the_way(Some("orchestra/")).await;
        let found = found.unwrap();
        let [(branch, _, instead)] = &found[..] else {
            panic!("{in_the_way}");
        };
        assert_eq!(
            (branch.as_str(), instead.as_str()),
            (in_the_way, "orchestrator-snapshot-")
        );
        repository.remove_snapshot(plan(1)).await.unwrap();
        assert!(!world.branches().contains(&name));
    }
}

#[tokio::test]
async fn a_commit_that_was_collected_before_it_was_applied_is_made_anew() {
    let world = World::new();
    world.git(&["branch", "target"]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let a = work(&repository, 1, &base, &[("a", "a")]).await;
    let b = work(&repository, 2, &base, &[("b", "b")]).await;
    let commits = [a, b];
    let (intent, _) = ready(&repository, "target", &commits).await;
    world.git(&["prune", "--expire=now"]);
    assert!(matches!(
        repository.apply(&intent).await.unwrap(),
        Applied::Moved { .. }
    ));
    let (again, _) = ready(&repository, "target", &commits).await;
    assert_eq!(repository.apply(&again).await.unwrap(), Applied::Done);
    assert_eq!(
        world.files(&world.rev("target")),
        ["README", "a", "b", "src/a.txt"]
    );
}

#[tokio::test]
async fn references_in_tables_do_as_well() {
    let world = World::new();
    if !world
        .try_git(&["refs", "migrate", "--ref-format=reftable"])
        .status
        .success()
    {
        return;
    }
    world.git(&["branch", "target"]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let (intent, _) = ready(&repository, "target", &[done]).await;
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    world.git(&["branch", "orchestrator"]);
    let made = repository.begin_snapshot(plan(1), &base).await.unwrap();
    assert!(
        made.as_str().starts_with("orchestrator-snapshot-"),
        "{made}"
    );
    let users = world.save("u", &[("u", "u")]);
    let stale = Intent {
        target: branch("target"),
        old: Some(base),
        new: users,
    };
    assert!(matches!(
        repository.apply(&stale).await.unwrap(),
        Applied::Moved { .. }
    ));
}

#[tokio::test]
async fn a_job_that_has_the_branch_checked_out_does_not_keep_it_from_moving() {
    let world = World::new();
    world.git(&["branch", "target"]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let failed = super::kit::prepare(&repository, 2, &base).await;
    super::kit::git_in(
        world.directory.path(),
        failed.path(),
        &["checkout", "-q", "target"],
    );
    super::kit::write(failed.path(), "half", "way");
    let (intent, _) = ready(&repository, "target", std::slice::from_ref(&done)).await;
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(world.rev("target"), done);
    assert_eq!(failed.head().await.unwrap(), base);
    let status = super::kit::git_in(
        world.directory.path(),
        failed.path(),
        &["status", "--porcelain"],
    );
    assert_eq!(status, "?? half\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn those_that_bring_work_onto_one_branch_at_once_wait_for_each_other() {
    const AT_ONCE: u8 = 5;
    for (round, target) in ["main", "target", "main", "target", "main", "target"]
        .iter()
        .enumerate()
    {
        let world = World::new();
        world.git(&["branch", "target"]);
        let repository = world.open().await;
        let base = world.rev("HEAD");
        let mut landing = tokio::task::JoinSet::new();
        for number in 0..AT_ONCE {
            let (file, text) = (format!("file-{number}"), format!("{number}\n"));
            let done = work(&repository, number, &base, &[(&file, &text)]).await;
            // Every other one is another process.
            let ours = match number % 2 {
                0 => repository.clone(),
                _ => world.open().await,
            };
            landing.spawn(async move {
                loop {
                    let (intent, _) = ready(&ours, target, std::slice::from_ref(&done)).await;
                    match ours.apply(&intent).await {
                        Ok(Applied::Done) => return,
                        Ok(Applied::Moved { .. }) => {}
                        other => panic!("round {round}: {other:?}"),
                    }
                }
            });
        }
        while let Some(landed) = landing.join_next().await {
            landed.unwrap();
        }
        let files = world.files(&world.rev(target));
        for number in 0..AT_ONCE {
            let file = format!("file-{number}");
            assert!(files.contains(&file), "round {round}: {files:?}");
            assert_eq!(world.root.join(file).exists(), *target == "main");
        }
        assert_eq!(world.git(&["status", "--porcelain"]), "", "round {round}");
    }
}

#[tokio::test]
async fn a_git_that_is_at_work_where_the_branch_is_checked_out_is_waited_for() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let (intent, _) = ready(&repository, "main", &[done]).await;
    let lock = world.root.join(".git/index.lock");
    std::fs::write(&lock, "").unwrap();
    let applying = repository.apply(&intent);
    tokio::pin!(applying);
    let a_while = std::time::Duration::from_millis(400);
    let early = tokio::time::timeout(a_while, &mut applying).await;
    assert!(early.is_err(), "{early:?}");
    assert_eq!(world.rev("main"), base);
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(applying.await.unwrap(), Applied::Done);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_branch_that_moves_while_the_files_come_takes_them_back() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let (intent, _) = ready(&repository, "main", &[done]).await;
    let tree = format!("{base}^{{tree}}");
    let other = world.git(&["commit-tree", &tree, "-p", "HEAD", "-m", "other"]);
    // A filter of the user's is run as the file is written, and stands for them.
    world.write(".git/info/attributes", "a filter=slow\n");
    let line = format!("git update-ref refs/heads/main {}; cat", other.trim());
    world.git(&["config", "filter.slow.smudge", &line]);
    let applied = repository.apply(&intent).await.unwrap();
    let to = Some(world.rev(other.trim()));
    assert_eq!(applied, Applied::Moved { to });
    assert!(!world.root.join("a").exists());
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

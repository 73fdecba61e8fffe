//! Changes that git is configured to overlook, paths that it leaves out without a failure, and configurations that
//! make it fail: nothing is lost, and an error names the next step.

use std::{fs, os::unix::fs::symlink, time::Duration};

use orchestra_runner::git::{Applied, Git, GitSettings, Repository};

use super::kit::{World, commit, job, prepare, ready, work, write};

#[tokio::test]
async fn changes_are_committed_although_git_is_configured_not_to_look_for_them() {
    for (key, value) in [
        ("core.ignoreStat", "true"),
        ("core.checkStat", "minimal"),
        ("core.fsmonitor", "true"),
        ("status.showUntrackedFiles", "no"),
        ("diff.ignoreSubmodules", "all"),
    ] {
        let world = World::new();
        world.git(&["config", key, value]);
        let head = world.rev("HEAD");
        let repository = world.open().await;
        let worktree = prepare(&repository, 1, &head).await;
        write(worktree.path(), "README", "changed\n");
        write(worktree.path(), "new", "new\n");
        fs::remove_file(worktree.path().join("src/a.txt")).unwrap();
        let done = commit(&worktree, &head).await;
        assert_eq!(world.files(&done.commit), ["README", "new"], "{key}");
        assert_eq!(world.show(&done.commit, "README"), "changed\n", "{key}");
    }
}

#[tokio::test]
async fn path_that_git_does_not_stage_fails_the_commit_and_is_named() {
    let world = World::new();
    let head = world.rev("HEAD");
    let repository = world.open().await;
    for (number, path) in [(1, "git~1/a"), (2, "src/.GIT"), (3, ".gitmodules")] {
        let worktree = prepare(&repository, number, &head).await;
        write(worktree.path(), "new", "new\n");
        match path {
            ".gitmodules" => symlink("README", worktree.path().join(path)).unwrap(),
            _ => write(worktree.path(), path, "a\n"),
        }
        let error = worktree.commit(&head, "work").await.unwrap_err();
        assert_eq!(error.code(), "bad-name", "{path}: {error}");
        assert!(error.to_string().contains(&format!("`{path}`")), "{error}");
        fs::remove_file(worktree.path().join(path)).unwrap();
        assert_eq!(commit(&worktree, &head).await.stats.changes.len(), 1);
    }
}

#[tokio::test]
async fn checkout_of_the_target_with_overlooked_changes_is_left_alone_and_they_are_named() {
    for option in ["--assume-unchanged", "--skip-worktree"] {
        let world = World::new();
        world.git(&["update-index", option, "README"]);
        world.write("README", "of the user\n");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{option}");
        let repository = world.open().await;
        let head = world.rev("HEAD");
        let done = work(&repository, 1, &head, &[("README", "of the job\n")]).await;
        let (intent, _) = ready(&repository, "main", &[done]).await;
        let Applied::Refused(refusal) = repository.apply(&intent).await.unwrap() else {
            panic!("the checkout followed");
        };
        assert_eq!(refusal.code(), "target-checkout-overlooked", "{option}");
        let said = refusal.to_string();
        assert!(
            said.contains("(README)") && said.contains("git update-index"),
            "{said}"
        );
        assert_eq!(world.rev("HEAD"), head, "{option}");
        let content = fs::read_to_string(world.root.join("README")).unwrap();
        assert_eq!(content, "of the user\n", "{option}");
    }
}

#[tokio::test]
async fn checkout_of_the_target_follows_whatever_its_branch_configures_for_merges() {
    for options in ["--squash", "--no-commit", "--no-ff", "-s ours", "--signoff"] {
        let world = World::new();
        world.git(&["config", "branch.main.mergeOptions", options]);
        let repository = world.open().await;
        let head = world.rev("HEAD");
        let done = work(&repository, 1, &head, &[("new", "new\n")]).await;
        let (intent, _) = ready(&repository, "main", std::slice::from_ref(&done)).await;
        let applied = repository.apply(&intent).await.unwrap();
        assert_eq!(applied, Applied::Done, "{options}");
        assert_eq!(world.rev("HEAD"), done, "{options}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{options}");
    }
}

#[tokio::test]
async fn filter_that_fails_is_one_sentence_with_the_next_step() {
    let world = World::new();
    world.git(&["config", "filter.gone.clean", "cat"]);
    world.git(&[
        "config",
        "filter.gone.smudge",
        "echo no such key >&2; exit 1",
    ]);
    world.git(&["config", "filter.gone.required", "true"]);
    world.write(".gitattributes", "*.txt filter=gone\n");
    let head = world.save("filtered", &[("key.txt", "key\n")]);
    let repository = world.open().await;
    let error = repository.prepare(job(1, 1), &head).await.unwrap_err();
    let said = error.to_string();
    assert!(said.contains("no such key; "), "{said}");
    assert!(!said.contains('\n'), "{said}");
    let hint = error.hint();
    assert!(hint.contains("a filter of this repository fails"), "{hint}");
}

#[tokio::test]
async fn filter_that_takes_longer_than_a_call_of_git_may_is_waited_for() {
    let world = World::new();
    // Git is busy for longer than the limit below.
    let busy = "end=$(($(date +%s) + 5)); while [ $(date +%s) -lt $end ]; do :; done; cat";
    world.git(&["config", "filter.slow.clean", "cat"]);
    world.write(".gitattributes", "slow.bin filter=slow\n");
    let head = world.save("filtered", &[("slow.bin", "content\n")]);
    world.git(&["config", "filter.slow.smudge", busy]);
    let settings = GitSettings {
        timeout: Duration::from_secs(4),
        ..world.settings()
    };
    let git = Git::find(settings).await.unwrap();
    let repository = Repository::open(&git, &world.root).await.unwrap();
    let worktree = prepare(&repository, 1, &head).await;
    let content = fs::read_to_string(worktree.path().join("slow.bin")).unwrap();
    assert_eq!(content, "content\n");
}

#[tokio::test]
async fn file_in_the_place_of_the_directory_of_worktrees_is_named() {
    let world = World::new();
    world.write(".worktrees", "a file\n");
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let owner = job(1, 1);
    assert!(repository.usable_worktree(owner).await.unwrap().is_none());
    let error = repository.prepare(owner, &head).await.unwrap_err();
    assert!(error.to_string().contains(".worktrees` "), "{error}");
}

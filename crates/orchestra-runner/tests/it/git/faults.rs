//! A full disk, locks of others, broken markers, and futures that are dropped.

use std::{fs, time::Duration};

use orchestra_runner::git::{Applied, Git, GitSettings, Held, Removal, Repository};

use super::kit::{World, commit, git_in, job, plan, prepare, ready, work, write};
use crate::small_disk::SmallDisk;

#[tokio::test]
async fn on_a_full_disk_nothing_moves_and_afterwards_it_goes_on() {
    let world = World::new();
    let disk = world.directory.path().join("disk");
    let Some(_disk) = SmallDisk::mount(&disk, 2) else {
        return;
    };
    world.git(&[
        "clone",
        "-q",
        "--no-hardlinks",
        ".",
        disk.join("repo").to_str().unwrap(),
    ]);
    let root = disk.join("repo");
    let user = |arguments: &[&str]| git_in(world.directory.path(), &root, arguments);
    let noise = |seed: u32| -> Vec<u8> {
        let mut state = seed;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..400_000).map(next).collect()
    };
    write(&root, "noise", noise(1));
    user(&["add", "-A"]);
    user(&[
        "-c",
        "user.name=U",
        "-c",
        "user.email=u@example.org",
        "commit",
        "-q",
        "-m",
        "noise",
    ]);
    let git = Git::find(world.settings()).await.unwrap();
    let repository = Repository::open(&git, &root).await.unwrap();
    repository
        .exclude(&orchestra_runner::git::EXCLUDED)
        .await
        .unwrap();
    let base = repository.choose_base(None).await.unwrap().commit;
    let worktree = prepare(&repository, 1, &base).await;
    let refs = user(&["for-each-ref"]);

    let filler = disk.join("filler");
    let _ = fs::write(&filler, vec![0; 2 << 20]);
    let error = repository.prepare(job(1, 2), &base).await.unwrap_err();
    assert!(
        matches!(error.code(), "disk-full" | "file-failed"),
        "{error}"
    );
    assert!(!repository.worktree_path(job(1, 2)).join("noise").exists());
    let _ = fs::write(worktree.path().join("more"), b"");
    let error = worktree.commit(&base, "m").await.unwrap_err();
    assert_eq!(error.code(), "disk-full", "{error}");
    assert_eq!(worktree.head().await.unwrap(), base);
    assert_eq!(user(&["for-each-ref"]), refs);

    fs::remove_file(filler).unwrap();
    fs::write(worktree.path().join("more"), b"more").unwrap();
    let done = commit(&worktree, &base).await.commit;
    assert!(repository.prepare(job(1, 2), &base).await.is_ok());
    let (intent, _) = ready(&repository, "plan", &[done]).await;
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    user(&["fsck", "--strict"]);
}

#[tokio::test]
async fn a_reference_that_another_git_locks_is_told_and_not_forced() {
    let world = World::new();
    world.git(&["branch", "target"]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let done = work(&repository, 1, &base, &[("a", "a")]).await;
    let (intent, _) = ready(&repository, "target", &[done]).await;
    let lock = world.root.join(".git/refs/heads/target.lock");
    fs::write(&lock, "").unwrap();
    let error = repository.apply(&intent).await.unwrap_err();
    assert_eq!(error.code(), "git-locked", "{error}");
    assert!(
        lock.exists(),
        "a lock of somebody else's is not ours to remove"
    );
    assert_eq!(world.rev("target"), base);
    fs::remove_file(lock).unwrap();
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
}

#[tokio::test]
async fn a_stale_lock_in_our_worktree_is_removed() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    fs::write(worktree.directory().join("index.lock"), "").unwrap();
    write(worktree.path(), "new", "x");
    assert!(commit(&worktree, &base).await.made);
}

#[tokio::test]
async fn a_lock_that_another_process_keeps_is_waited_for_only_so_long() {
    let world = World::new();
    let base = world.rev("HEAD");
    let settings = GitSettings {
        timeout: Duration::from_millis(400),
        ..world.settings()
    };
    let git = Git::find(settings).await.unwrap();
    let repository = Repository::open(&git, &world.root).await.unwrap();
    let lock = world.open().await.lock().await.unwrap();
    let error = repository.prepare(job(1, 1), &base).await.unwrap_err();
    assert_eq!(error.code(), "repository-busy");
    drop(lock);
    repository.prepare(job(1, 1), &base).await.unwrap();
}

#[tokio::test]
async fn named_pipe_that_git_waits_for_is_reported_by_its_path() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    write(worktree.path(), "new", "x");
    let (own, of_job) = (
        world.root.join("src/.gitignore"),
        worktree.path().join(".gitignore"),
    );
    for pipe in [&own, &of_job] {
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
    }
    let errors = [
        (repository.uncommitted().await.map(drop), &own),
        (worktree.commit(&base, "work").await.map(drop), &of_job),
    ];
    for (error, pipe) in errors {
        let error = error.unwrap_err();
        assert_eq!(error.code(), "git-waits-for-pipe");
        let path = pipe.display().to_string();
        assert!(error.to_string().contains(&path), "{error}");
        assert!(error.hint().contains(&path), "{}", error.hint());
    }
    let removal = worktree.remove(&[]).await.unwrap();
    assert_eq!(removal, Removal::Kept(Held::Pipe(of_job.clone())));
    for pipe in [&own, &of_job] {
        fs::remove_file(pipe).unwrap();
    }
    assert_eq!(repository.uncommitted().await.unwrap().other, 0);
    assert!(commit(&worktree, &base).await.made);
}

#[tokio::test]
async fn a_marker_that_is_broken_or_newer_is_left_alone() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    for (number, content) in [
        (1, "{"),
        (2, r#"{"v":2,"plan":"p","job":"j","base":null}"#),
        (3, r#"{"v":1,"plan":"../x","job":"j","base":null}"#),
    ] {
        let worktree = prepare(&repository, number, &base).await;
        fs::write(worktree.directory().join("orchestra.json"), content).unwrap();
        let error = repository.prepare(job(1, number), &base).await.unwrap_err();
        assert_eq!(error.code(), "not-ours", "{content}");
    }
    let swept = repository.sweep(|_| false).await.unwrap();
    assert_eq!((swept.removed.len(), swept.kept.len()), (0, 0));
    assert_eq!(
        fs::read_dir(world.root.join(".worktrees")).unwrap().count(),
        3
    );
    assert!(
        repository
            .remove_plan(plan(1), &[], &[])
            .await
            .unwrap()
            .removed
            .is_empty()
    );
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_no_lock_behind() {
    let world = World::new();
    let files: Vec<(String, String)> = (0..2000)
        .map(|number| (format!("d{}/f{number}", number % 50), number.to_string()))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let base = world.save("many", &files);
    let repository = world.open().await;
    for number in 0..12_u8 {
        let making = repository.prepare(job(1, number), &base);
        let patience = Duration::from_millis(u64::from(number) * 6);
        let _ = tokio::time::timeout(patience, making).await;
    }
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    for number in 0..12 {
        // The git of a future that was dropped may still be ending.
        let worktree = loop {
            match repository.prepare(job(1, number), &base).await {
                Ok(prepared) => break prepared.worktree,
                Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
            }
        };
        let status = || {
            git_in(
                world.directory.path(),
                worktree.path(),
                &["status", "--porcelain"],
            )
        };
        while !status().is_empty() {
            assert!(tokio::time::Instant::now() < deadline);
            repository.prepare(job(1, number), &base).await.unwrap();
            worktree.restart(&base).await.unwrap();
        }
    }
}

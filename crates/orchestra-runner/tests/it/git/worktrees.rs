//! Worktrees of jobs: made, found again, put in order, and never anybody else's.

use std::{
    fs,
    io::ErrorKind::ExecutableFileBusy,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    time::Duration,
};

use futures_util::future::join_all;
use orchestra_plan::ids::JobId;
use orchestra_runner::git::{Git, GitError, GitSettings, HalfDone, Owner, Repository};

use super::kit::{World, commit, job, prepare, write};

#[tokio::test]
async fn a_worktree_is_made_at_its_commit_and_the_users_is_not_touched() {
    let world = World::new();
    let first = world.rev("HEAD");
    world.save("second", &[("b", "b")]);
    let repository = world.open().await;
    let before = (world.picture(), world.branches());
    let prepared = repository.prepare(job(1, 1), &first).await.unwrap();
    let worktree = prepared.worktree;
    assert!(!prepared.reused);
    assert_eq!(prepared.head, first);
    assert_eq!(worktree.head().await.unwrap(), first);
    assert_eq!(
        fs::read_to_string(worktree.path().join("src/a.txt")).unwrap(),
        "a\n"
    );
    assert!(!worktree.path().join("b").exists());
    assert!(worktree.path().ends_with(job(1, 1).directory()));
    assert_eq!(worktree.marker().unwrap().base, Some(first));
    assert_eq!((world.picture(), world.branches()), before);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_worktree_costs_three_processes_and_finding_it_again_one() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let start = repository.git().times().processes;
    prepare(&repository, 1, &head).await;
    let made = repository.git().times().processes;
    assert_eq!(made - start, 3);
    assert!(repository.prepare(job(1, 1), &head).await.unwrap().reused);
    assert_eq!(repository.git().times().processes - made, 1);
}

#[tokio::test]
async fn two_runners_prepare_many_worktrees_at_once() {
    let world = World::new();
    let head = world.rev("HEAD");
    let repositories = [world.open().await, world.open().await];
    let jobs = (0..24_u8).map(|number| {
        let repository = &repositories[usize::from(number % 2)];
        let head = &head;
        async move { prepare(repository, number, head).await }
    });
    let made = join_all(jobs).await;
    assert_eq!(made.len(), 24);
    assert_eq!(repositories[0].worktrees().await.unwrap().len(), 25);
}

#[tokio::test]
async fn one_job_prepared_twice_at_once_has_one_worktree() {
    let world = World::new();
    let head = world.rev("HEAD");
    let (one, two) = (world.open().await, world.open().await);
    let (one, two) = tokio::join!(one.prepare(job(1, 1), &head), two.prepare(job(1, 1), &head));
    // One of them may find the other's half made, and has it when it asks again; so may both.
    let asked = world.open().await;
    let is_there = one.is_ok() || two.is_ok();
    let mut made = Vec::new();
    for prepared in [one, two] {
        made.push(match prepared {
            Ok(prepared) => prepared.worktree,
            Err(_) => {
                let again = asked.prepare(job(1, 1), &head).await.unwrap();
                assert!(again.reused || !is_there);
                again.worktree
            }
        });
    }
    assert_eq!(made[0].path(), made[1].path());
    assert_eq!(made[0].head().await.unwrap(), head);
    assert_eq!(world.open().await.worktrees().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_own_git_adds_worktrees_meanwhile() {
    let world = std::sync::Arc::new(World::new());
    let head = world.rev("HEAD");
    let repository = world.open().await;
    let theirs = world.clone();
    let user = tokio::task::spawn_blocking(move || {
        for number in 0..20 {
            let path = format!("../user {number}");
            // The user's git may lose the race that ours must win.
            theirs.try_git(&["worktree", "add", "-q", "--detach", &path]);
        }
    });
    for number in 0..20 {
        prepare(&repository, number, &head).await;
    }
    user.await.unwrap();
}

#[tokio::test]
async fn work_of_an_earlier_attempt_is_found_again() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    write(worktree.path(), "done", "by then\n");
    commit(&worktree, &head).await;
    write(worktree.path(), "half", "way\n");
    let again = repository.prepare(job(1, 1), &head).await.unwrap();
    assert!(again.reused);
    assert_ne!(again.head, head);
    assert!(worktree.path().join("half").exists());
    worktree.restart(&head).await.unwrap();
    assert!(!worktree.path().join("half").exists() && !worktree.path().join("done").exists());
    assert_eq!(worktree.head().await.unwrap(), head);
}

#[tokio::test]
async fn what_was_broken_off_is_undone() {
    let world = World::new();
    let base = world.rev("HEAD");
    let ours = world.save("ours", &[("README", "ours\n")]);
    world.git(&["checkout", "-q", "--detach", base.as_str()]);
    let theirs = world.save("theirs", &[("README", "theirs\n")]);
    let repository = world.open().await;
    for (number, command, expected) in [
        (1, "merge", HalfDone::Merge),
        (2, "rebase", HalfDone::Rebase),
        (3, "cherry-pick", HalfDone::CherryPick),
    ] {
        let worktree = prepare(&repository, number, &ours).await;
        let output = super::kit::command(
            world.directory.path(),
            worktree.path(),
            &[command, theirs.as_str()],
        )
        .output()
        .unwrap();
        assert!(!output.status.success());
        fs::write(worktree.directory().join("index.lock"), "").unwrap();
        let again = repository.prepare(job(1, number), &ours).await.unwrap();
        assert_eq!(again.undone, Some(expected));
        assert_eq!(again.head, ours);
        assert!(!worktree.directory().join("index.lock").exists());
        let readme = fs::read_to_string(worktree.path().join("README")).unwrap();
        assert_eq!(readme, "ours\n");
    }
}

#[tokio::test]
async fn a_worktree_whose_making_was_broken_off_is_made_to_its_end() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    // As after a crash between git's first step and the last of ours.
    fs::remove_file(worktree.directory().join("index")).unwrap();
    fs::remove_file(worktree.directory().join("orchestra.json")).unwrap();
    fs::remove_file(worktree.path().join("README")).unwrap();
    let again = repository.prepare(job(1, 1), &head).await.unwrap();
    assert!(again.reused && worktree.path().join("README").exists());
    assert_eq!(worktree.marker().unwrap().base, Some(head));
}

/// Git syncs objects and references, and neither what leads to a worktree nor its `HEAD` and index.
#[tokio::test]
async fn a_worktree_of_which_a_power_cut_has_taken_git_files_is_put_in_order() {
    let world = World::new();
    let head = world.rev("HEAD");
    let repository = world.open().await;
    let files = [".git", "gitdir", "commondir", "HEAD", "index", "locked"];
    let alone = files.iter().map(|file| vec![*file]);
    let cases = alone.chain([files.to_vec(), vec![".git", "HEAD", "README"]]);
    for (number, lost) in (1..).zip(cases) {
        let worktree = prepare(&repository, number, &head).await;
        for name in &lost {
            let inside = worktree.directory().join(name);
            let path = match inside.exists() {
                true => inside,
                false => worktree.path().join(name),
            };
            fs::write(path, "").unwrap();
        }
        let again = repository.prepare(job(1, number), &head).await;
        let again = again.unwrap_or_else(|error| panic!("{lost:?}: {error}"));
        assert!(again.reused);
        assert_eq!(again.head, head, "{lost:?}");
        let directory = world.directory.path();
        let status = super::kit::git_in(directory, worktree.path(), &["status", "-s"]);
        assert_eq!(status, "", "{lost:?}");
        let readme = fs::read_to_string(worktree.path().join("README")).unwrap();
        assert_eq!(readme, "read me\n");
        let listed = repository.worktrees().await.unwrap();
        let ours = listed.iter().any(|entry| {
            entry.path == worktree.path()
                && entry
                    .marker
                    .as_ref()
                    .is_some_and(|marker| marker.owner == job(1, number))
        });
        assert!(ours, "{lost:?}");
    }
    // Of these nothing was on the disk yet, our mark neither.
    for number in [50, 51] {
        let worktree = prepare(&repository, number, &head).await;
        for name in files {
            let inside = worktree.directory().join(name);
            if inside.exists() {
                fs::write(inside, "").unwrap();
            }
        }
        fs::remove_file(worktree.directory().join("orchestra.json")).unwrap();
        fs::remove_dir_all(worktree.path()).unwrap();
        fs::create_dir(worktree.path()).unwrap();
        if number == 51 {
            fs::write(worktree.path().join(".git"), "").unwrap();
        }
        let again = repository.prepare(job(1, number), &head).await.unwrap();
        assert!(!again.reused && again.worktree.path().join("README").exists());
    }
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[tokio::test]
async fn a_worktree_that_somebody_deleted_is_made_anew() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    fs::remove_dir_all(worktree.path()).unwrap();
    assert!(!repository.prepare(job(1, 1), &head).await.unwrap().reused);
    assert!(worktree.path().join("README").exists());
}

#[tokio::test]
async fn what_is_not_ours_is_refused() {
    let world = World::new();
    let head = world.rev("HEAD");
    let repository = world.open().await;
    let place = |number| repository.worktree_path(job(1, number));
    fs::create_dir_all(place(1)).unwrap();
    fs::write(place(1).join("mine"), "mine").unwrap();
    world.git(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        place(2).to_str().unwrap(),
    ]);
    symlink("/tmp", place(3)).unwrap();
    fs::write(place(4), "a file").unwrap();
    world.git(&["clone", "-q", ".", place(5).to_str().unwrap()]);
    prepare(&repository, 6, &head).await;
    fs::rename(place(6), place(7)).unwrap();
    for number in [1, 2, 3, 4, 5] {
        let error = repository.prepare(job(1, number), &head).await.unwrap_err();
        assert_eq!(error.code(), "not-ours", "{number}: {error}");
    }
    let error = repository.prepare(job(1, 7), &head).await.unwrap_err();
    assert_eq!(
        error.code(),
        "not-ours",
        "it carries another's mark: {error}"
    );
    assert_eq!(fs::read_to_string(place(1).join("mine")).unwrap(), "mine");
}

#[tokio::test]
async fn worktrees_are_called_by_whole_ids() {
    let world = World::new();
    let head = world.rev("HEAD");
    let repository = world.open().await;
    let ids = [[7; 16], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8]].map(JobId::of_random);
    let [one, two] = ids.map(|id| id.to_string());
    assert_eq!(one[..8], two[..8]);
    for id in ids {
        let Owner::Job(plan, _) = job(1, 1) else {
            unreachable!("it is that of a job");
        };
        let made = repository.prepare(Owner::Job(plan, id), &head).await;
        let made = made.unwrap();
        assert!(!made.reused);
        let place = world.root.join(".worktrees").join(id.to_string());
        assert!(place.join(".git").exists(), "{}", place.display());
        assert_eq!(
            made.worktree.path().canonicalize().unwrap(),
            place.canonicalize().unwrap()
        );
    }
}

#[tokio::test]
async fn a_directory_of_worktrees_that_leads_away_is_refused() {
    let world = World::new();
    let repository = world.open().await;
    let elsewhere = world.directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, world.root.join(".worktrees")).unwrap();
    let error = repository
        .prepare(job(1, 1), &world.rev("HEAD"))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "not-ours");
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[tokio::test]
async fn a_branch_that_a_job_checks_out_does_not_move() {
    let world = World::new();
    world.git(&["branch", "precious"]);
    let head = world.rev("HEAD");
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    super::kit::git_in(
        world.directory.path(),
        worktree.path(),
        &["checkout", "-q", "precious"],
    );
    write(worktree.path(), "new", "new\n");
    let committed = commit(&worktree, &head).await;
    assert_ne!(committed.commit, head);
    assert_eq!(world.rev("precious"), head);
    assert_eq!(worktree.head().await.unwrap(), committed.commit);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_git_that_outlives_its_runner_is_waited_for() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    let lock = worktree.directory().join("index.lock");
    fs::write(&lock, "").unwrap();
    let arguments = ["hash-object", "--stdin"];
    let mut other = super::kit::command(world.directory.path(), worktree.path(), &arguments)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // It is git only once it has become that.
    let name = format!("/proc/{}/comm", other.id());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !fs::read_to_string(&name).unwrap().starts_with("git") {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    let again = repository.prepare(job(1, 1), &head);
    let patience = std::time::Duration::from_millis(200);
    assert!(tokio::time::timeout(patience, again).await.is_err());
    assert!(lock.exists());
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    assert!(repository.prepare(job(1, 1), &head).await.unwrap().reused);
    assert!(!lock.exists());
}

#[tokio::test]
async fn a_rebase_that_is_undone_moves_no_branch() {
    let world = World::new();
    let base = world.rev("HEAD");
    world.git(&["checkout", "-q", "-b", "target"]);
    let ours = world.save("ours", &[("README", "ours\n")]);
    world.git(&["checkout", "-q", "--detach", base.as_str()]);
    let theirs = world.save("theirs", &[("README", "theirs\n")]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &ours).await;
    for arguments in [["checkout", "target"], ["rebase", theirs.as_str()]] {
        let job = super::kit::command(world.directory.path(), worktree.path(), &arguments).output();
        assert_eq!(job.unwrap().status.success(), arguments[0] == "checkout");
    }
    let moved = world.save("moved on", &[("more", "x")]);
    world.git(&["update-ref", "refs/heads/target", moved.as_str()]);
    let again = repository.prepare(job(1, 1), &ours).await.unwrap();
    assert_eq!((again.undone, again.head), (Some(HalfDone::Rebase), ours));
    assert_eq!(world.rev("target"), moved);
}

/// A git of a runner that was killed may take away what another has just made.
#[tokio::test]
async fn a_worktree_whose_git_directory_vanished_is_made_anew() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let other = prepare(&repository, 2, &head).await;
    for others in [1, 0] {
        let worktree = prepare(&repository, 1, &head).await;
        write(worktree.path(), "left", "behind");
        fs::remove_dir_all(worktree.directory()).unwrap();
        if others == 0 {
            // Git removes what held it as well.
            fs::remove_dir_all(other.directory()).unwrap();
            fs::remove_dir(worktree.directory().parent().unwrap()).unwrap();
        }
        assert!(repository.worktree(job(1, 1)).is_err());
        let usable = repository.usable_worktree(job(1, 1)).await;
        assert!(usable.unwrap().is_none());
        let again = repository.prepare(job(1, 1), &head).await.unwrap();
        assert!(!again.reused && again.worktree.path().join("README").exists());
        assert!(!again.worktree.path().join("left").exists());
    }
    // Where the worktree of another repository leads is not ours to judge.
    let stranger = repository.worktree_path(job(1, 3));
    fs::create_dir_all(&stranger).unwrap();
    write(
        &stranger,
        ".git",
        "gitdir: /somewhere/else/.git/worktrees/x\n",
    );
    let error = repository.prepare(job(1, 3), &head).await.unwrap_err();
    assert_eq!(error.code(), "not-ours");
    assert!(stranger.join(".git").exists());
}

#[tokio::test]
async fn a_git_directory_that_vanishes_before_the_checkout_is_made_anew_a_few_times() {
    for (times, is_made) in [(1, true), (4, true), (5, false)] {
        let world = World::new();
        let head = world.rev("HEAD");
        let home = world.directory.path();
        let program = home.join("some-git");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *'reset --quiet --hard'*)\n\
             if [ $(ls '{0}' | grep -c gone) -lt {times} ]; then mktemp '{0}/gone.XXXXXX'; rm -rf \"$GIT_DIR\"; fi >/dev/null ;;\n\
             esac\nexec git \"$@\"\n",
            home.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let settings = GitSettings {
            program,
            ..world.settings()
        };
        let git = find_written(&settings).await;
        let repository = Repository::open(&git, &world.root).await.unwrap();
        let prepared = repository.prepare(job(1, 1), &head).await;
        match is_made {
            true => assert!(prepared.unwrap().worktree.path().join("README").exists()),
            false => assert!(
                prepared
                    .unwrap_err()
                    .to_string()
                    .contains("check a commit out")
            ),
        }
    }
}

/// Finds a git that was written just now, which a process that another test starts at the same moment may
/// still have open.
async fn find_written(settings: &GitSettings) -> Git {
    loop {
        match Git::find(settings.clone()).await {
            Err(GitError::Start { source, .. }) if source.kind() == ExecutableFileBusy => {
                tokio::task::yield_now().await;
            }
            found => return found.unwrap(),
        }
    }
}

/// A lock on a reference, as a git that was killed so long ago has left it.
fn lock_reference(world: &World, name: &str, age: Duration) -> PathBuf {
    let lock = world.root.join(format!(".git/{name}.lock"));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let file = fs::File::create(&lock).unwrap();
    file.set_modified(std::time::SystemTime::now() - age)
        .unwrap();
    lock
}

#[tokio::test]
async fn locks_that_a_power_cut_left_on_references_of_ours_go() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let plan = job(1, 1).plan();
    let branch = format!("orchestrator/snapshot/{plan}");
    let snapshot = format!("refs/heads/{branch}");
    let kept = |name: &str| format!("refs/orchestra/{plan}/{name}");
    let long_ago = Duration::from_secs(60);
    let leave = |name: &str| lock_reference(&world, name, long_ago);

    let left = [leave(&snapshot), leave(&kept("base"))];
    repository.begin_snapshot(plan, &head).await.unwrap();
    assert_eq!(world.rev(&branch), head);
    assert_eq!(world.rev(&kept("base")), head);
    assert!(left.iter().all(|lock| !lock.exists()));

    leave(&kept("target"));
    repository.note_target(plan, &head).await.unwrap();
    assert_eq!(repository.noted_target(plan).await.unwrap(), Some(head));

    leave(&snapshot);
    repository.remove_snapshot(plan).await.unwrap();
    leave(&kept("base"));
    leave(&kept("target"));
    repository.forget_plan(plan).await.unwrap();
    let all = world.git(&["for-each-ref", "--format=%(refname)"]);
    assert_eq!(all, "refs/heads/main\n");
}

/// It is waited for while somebody may be at it, and nobody else's lock is ever touched.
#[tokio::test]
async fn a_lock_that_somebody_holds_on_a_reference_of_ours_is_waited_for() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let plan = job(1, 1).plan();
    let base = format!("refs/orchestra/{plan}/base");
    let lock = lock_reference(&world, &base, Duration::ZERO);
    let begin = repository.begin_snapshot(plan, &head);
    let before = repository.git().times();
    let release = async {
        // The second git has failed on it: all that was started has ended.
        let mut ended = (0, before.spent);
        while ended.0 < 2 {
            let now = repository.git().times().spent;
            ended = match now == ended.1 {
                true => ended,
                false => (ended.0 + 1, now),
            };
            tokio::task::yield_now().await;
        }
        let was_there = lock.exists();
        fs::remove_file(&lock).unwrap();
        was_there
    };
    let (begun, was_there) = tokio::join!(begin, release);
    begun.unwrap();
    assert!(was_there, "a lock that is younger stays");
    // One that nobody takes away is left behind, whatever the clock says.
    let later = std::time::SystemTime::now() + Duration::from_secs(3600);
    let file = fs::File::create(&lock).unwrap();
    file.set_modified(later).unwrap();
    repository.begin_snapshot(plan, &head).await.unwrap();
    assert!(!lock.exists());
}

/// It would move `HEAD` and files after they were put in order. A user may look at what is there.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_git_of_ours_that_outlives_its_runner_is_waited_for_before_it_locks_anything() {
    let world = World::new();
    let head = world.rev("HEAD");
    let program = world.directory.path().join("git-that-tells");
    let said = world.directory.path().join("said");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}'\nexec git \"$@\"\n",
        said.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let settings = GitSettings {
        program,
        ..world.settings()
    };
    let git = Git::find(settings).await.unwrap();
    let repository = Repository::open(&git, &world.root).await.unwrap();
    let worktree = prepare(&repository, 1, &head).await;
    let said = fs::read_to_string(said).unwrap();
    // The options of git itself, by which a call of ours is known.
    let ours: Vec<&str> = said
        .lines()
        .take_while(|word| *word != "diff-files")
        .collect();
    assert!(ours.len() > 20, "{ours:?}");
    for (options, is_waited_for) in [(ours, true), (vec!["--no-pager"], false)] {
        let arguments = [options, vec!["hash-object", "--stdin"]].concat();
        let mut other = super::kit::command(world.directory.path(), worktree.path(), &arguments)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let line = format!("/proc/{}/cmdline", other.id());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !fs::read_to_string(&line).unwrap().contains("hash-object") {
            assert!(std::time::Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
        let mut again = Box::pin(repository.prepare(job(1, 1), &head));
        if is_waited_for {
            let patience = std::time::Duration::from_millis(200);
            let early = tokio::time::timeout(patience, &mut again).await;
            assert!(early.is_err());
            drop(other.stdin.take());
            other.wait().unwrap();
        }
        assert!(again.await.unwrap().reused);
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}

/// Whoever looks for a worktree while such a git makes it finds it made, or nothing.
#[tokio::test]
async fn a_worktree_that_another_git_is_making_is_waited_for() {
    let world = World::new();
    let repository = world.open().await;
    let path = repository.worktree_path(job(1, 1));
    fs::create_dir_all(&path).unwrap();
    let lock = repository.lock().await.unwrap();
    let mut usable = Box::pin(repository.usable_worktree(job(1, 1)));
    let patience = std::time::Duration::from_millis(200);
    assert!(tokio::time::timeout(patience, &mut usable).await.is_err());
    fs::remove_dir(&path).unwrap();
    drop(lock);
    assert!(usable.await.unwrap().is_none());
    // It was killed, and has left what it had begun.
    fs::create_dir(&path).unwrap();
    fs::write(path.join(".git"), "").unwrap();
    assert!(
        repository
            .usable_worktree(job(1, 1))
            .await
            .unwrap()
            .is_none()
    );
    let prepared = repository.prepare(job(1, 1), &world.rev("HEAD")).await;
    assert!(!prepared.unwrap().reused);
}

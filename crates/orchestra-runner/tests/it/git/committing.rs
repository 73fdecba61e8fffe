//! What a job leaves becomes a commit: everything, once, and onto what it began from.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use orchestra_plan::ids::Commit;
use orchestra_runner::git::{BoardPaths, ChangeKind, CommitRefusal, Git, HalfDone, Repository};

use super::kit::{World, commit, git_in, job, prepare, write};

#[tokio::test]
async fn nothing_changed_is_told_at_the_cost_of_one_process() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    write(worktree.path(), ".orchestrator/evidence/x.json", "{}");
    let before = repository.git().times().processes;
    let committed = commit(&worktree, &head).await;
    assert_eq!(repository.git().times().processes - before, 1);
    assert_eq!(
        (committed.commit, committed.made, committed.by_job),
        (head, false, 0)
    );
    assert!(committed.stats.is_empty());
}

#[tokio::test]
async fn all_kinds_of_files_are_committed_and_counted() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    let at = worktree.path();
    write(at, "README", "read\nmore\n");
    fs::remove_file(at.join("src/a.txt")).unwrap();
    write(at, "binary", [0, 159, 146, 150]);
    write(at, "-rf", "dash\n");
    write(at, "with space/🎉.txt", "party\n");
    write(at, ":(exclude)x", "magic\n");
    write(at, "Case", "upper\n");
    write(at, "case", "lower\n");
    symlink("/etc/passwd", at.join("link")).unwrap();
    symlink("nowhere", at.join("dangling")).unwrap();
    let committed = commit(&worktree, &head).await;
    assert_eq!(
        world.files(&committed.commit),
        [
            "-rf",
            ":(exclude)x",
            "Case",
            "README",
            "binary",
            "case",
            "dangling",
            "link",
            "with space/🎉.txt"
        ]
    );
    let stats = &committed.stats;
    assert_eq!(stats.count(ChangeKind::Added), 8);
    assert_eq!(stats.count(ChangeKind::Modified), 1);
    assert_eq!(stats.count(ChangeKind::Deleted), 1);
    assert_eq!((stats.lines_added, stats.lines_deleted), (2 + 5 + 2, 1 + 1));
    assert_eq!(world.show(&committed.commit, "link"), "/etc/passwd");
    let said = world.git(&[
        "log",
        "-1",
        "--format=%s|%P|%an|%ce",
        committed.commit.as_str(),
    ]);
    assert_eq!(
        said.trim(),
        format!("[Plan] work|{head}|A User|user@example.org")
    );
    assert_eq!(
        git_in(world.directory.path(), at, &["status", "--porcelain"]),
        ""
    );
}

#[tokio::test]
async fn committing_twice_is_committing_once() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    write(worktree.path(), "new", "new\n");
    let first = commit(&worktree, &head).await;
    let second = commit(&worktree, &head).await;
    assert!(first.made && !second.made);
    assert_eq!((first.commit, first.stats), (second.commit, second.stats));
}

#[tokio::test]
async fn commits_of_the_job_are_kept_and_added_to() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    let job = |arguments: &[&str]| git_in(world.directory.path(), worktree.path(), arguments);
    job(&["commit", "-q", "--allow-empty", "-m", "by the job"]);
    let empty = commit(&worktree, &head).await;
    assert_eq!((empty.by_job, empty.made), (1, false));
    assert!(empty.stats.is_empty(), "an empty commit changes nothing");
    write(worktree.path(), "rest", "rest\n");
    let committed = commit(&worktree, &head).await;
    assert_eq!((committed.by_job, committed.made), (1, true));
    let log = world.git(&[
        "log",
        "--format=%s",
        &format!("{head}..{}", committed.commit),
    ]);
    assert_eq!(log, "[Plan] work\nby the job\n");
}

#[tokio::test]
async fn a_rewritten_history_is_refused() {
    let world = World::new();
    let head = world.save("second", &[("b", "b")]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    git_in(
        world.directory.path(),
        worktree.path(),
        &["commit", "-q", "--amend", "-m", "mine"],
    );
    write(worktree.path(), "new", "new\n");
    let refusal = worktree.commit(&head, "m").await.unwrap().unwrap_err();
    assert_eq!(refusal.code(), "history-rewritten");
    assert!(worktree.path().join("new").exists());
    assert_eq!(world.rev("main"), head);
}

#[tokio::test]
async fn what_is_half_done_is_refused() {
    let world = World::new();
    let base = world.rev("HEAD");
    let repository = world.open().await;
    let ours = super::kit::work(&repository, 1, &base, &[("README", "1\n")]).await;
    let theirs = super::kit::work(&repository, 2, &base, &[("README", "2\n")]).await;
    let worktree = prepare(&repository, 3, &ours).await;
    worktree.begin_merge(&theirs, "m").await.unwrap();
    let refusal = worktree.commit(&ours, "m").await.unwrap().unwrap_err();
    assert_eq!(
        refusal,
        CommitRefusal::Unmerged {
            paths: vec![PathBuf::from("README")]
        }
    );
    write(worktree.path(), "README", "3\n");
    git_in(world.directory.path(), worktree.path(), &["add", "-A"]);
    let refusal = worktree.commit(&ours, "m").await.unwrap().unwrap_err();
    assert_eq!(
        refusal,
        CommitRefusal::HalfDone {
            operation: HalfDone::Merge
        }
    );
}

#[tokio::test]
async fn repositories_inside_are_refused_by_name() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    git_in(
        world.directory.path(),
        worktree.path(),
        &["init", "-q", "in side/nested"],
    );
    let refusal = worktree.commit(&head, "m").await.unwrap().unwrap_err();
    assert_eq!(
        refusal,
        CommitRefusal::Nested {
            paths: vec![PathBuf::from("in side/nested")]
        }
    );
}

#[tokio::test]
async fn paths_of_orchestra_and_bare_repositories_are_refused_unless_the_base_has_them() {
    let world = World::new();
    let head = world.rev("HEAD");
    let own = world.save(
        "own",
        &[
            (".worktrees/a", "a"),
            ("b/HEAD", "a"),
            ("b/objects/a", "a"),
            ("b/refs/a", "a"),
        ],
    );
    let board = world.save("board", &[(".projects/p/project-status.toon", "a")]);
    let repository = world.open().await;
    let top = Path::new("");
    let check = async |base: &Commit, commit: &Commit, board: BoardPaths<'_>| {
        let bases: [&Commit; 1] = [base];
        let checked = repository.check_paths(&bases, commit, board).await.unwrap();
        checked.map_err(|refusal| refusal.to_string())
    };
    let refusal = check(&head, &own, BoardPaths::Committed).await.unwrap_err();
    assert!(refusal.ends_with(": .worktrees/a"), "{refusal}");
    let refusal = check(&own, &board, BoardPaths::Refused(top))
        .await
        .unwrap_err();
    assert!(
        refusal.contains(".projects/p/project-status.toon"),
        "{refusal}"
    );
    assert_eq!(check(&own, &board, BoardPaths::Committed).await, Ok(()));
    let below = BoardPaths::Refused(Path::new("services/a"));
    assert_eq!(check(&own, &board, below).await, Ok(()));
    let nested = world.save("nested", &[("services/a/.projects/p\u{1b}x", "a")]);
    assert_eq!(
        check(&board, &nested, BoardPaths::Refused(top)).await,
        Ok(())
    );
    let refusal = check(&board, &nested, below).await.unwrap_err();
    assert!(
        refusal.ends_with(": services/a/.projects/p\\u{1b}x"),
        "{refusal}"
    );
    let bases: [&Commit; 2] = [&own, &nested];
    let merged = repository
        .check_paths(&bases, &nested, BoardPaths::Refused(top))
        .await;
    assert_eq!(merged.unwrap(), Ok(()));
    let changed = world.save("changed", &[(".worktrees/a", "b"), ("b/HEAD", "b")]);
    assert_eq!(
        check(&nested, &changed, BoardPaths::Committed).await,
        Ok(())
    );
    let configured = world.save("configured", &[("b/config", "[core]")]);
    let refusal = check(&changed, &configured, BoardPaths::Committed)
        .await
        .unwrap_err();
    assert!(refusal.contains("bare git repositories"), "{refusal}");
    let linked = world.save("linked", &[("sub/.Projects", "a")]);
    let refusal = check(&configured, &linked, BoardPaths::Committed)
        .await
        .unwrap_err();
    assert!(refusal.ends_with(": sub/.Projects"), "{refusal}");
}

#[tokio::test]
async fn repositories_of_commands_are_refused_before_an_agent_unless_ignored_or_in_the_base() {
    let world = World::new();
    let base = world.save(
        "bare",
        &[
            (".gitignore", "target/\ncommondir\n"),
            ("b/HEAD", "a"),
            ("b/config", "a"),
            ("b/objects/a", "a"),
            ("b/refs/a", "a"),
        ],
    );
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &base).await;
    let at = worktree.path();
    let init = |path: &str| git_in(world.directory.path(), at, &["init", "-q", path]);
    let bases: [&Commit; 1] = [&base];
    let check = async || {
        let checked = worktree.check_repositories(&bases).await.unwrap();
        checked.map_err(|refusal| refusal.to_string())
    };
    assert!(!worktree.may_have_repositories());
    worktree.expect_repositories().unwrap();
    init("target/ignored");
    assert_eq!(check().await, Ok(()));
    assert!(!worktree.may_have_repositories());
    worktree.expect_repositories().unwrap();
    init("src");
    init("untracked/deep");
    write(at, "b/commondir", "../target/ignored/.git");
    let refusal = check().await.unwrap_err();
    assert!(refusal.ends_with(": b, src, untracked/deep"), "{refusal}");
    assert!(worktree.may_have_repositories());
    for path in ["src/.git", "untracked"] {
        fs::remove_dir_all(at.join(path)).unwrap();
    }
    fs::remove_file(at.join("b/commondir")).unwrap();
    write(at, "b/config", "other");
    let refusal = check().await.unwrap_err();
    assert!(refusal.ends_with(": b"), "{refusal}");
    write(at, "b/config", "a");
    assert_eq!(check().await, Ok(()));
    // Git of an agent searches the directories above the target of a link.
    fs::remove_dir_all(at.join("src")).unwrap();
    write(at, "target/ignored/src/a.txt", "a\n");
    symlink("target/ignored/src", at.join("src")).unwrap();
    let refusal = check().await.unwrap_err();
    assert!(refusal.ends_with(": src"), "{refusal}");
}

#[tokio::test]
async fn author_and_committer_of_the_environment_come_before_the_configuration() {
    let world = World::new();
    let head = world.rev("HEAD");
    let mut settings = world.settings();
    for (name, value) in [
        ("GIT_AUTHOR_NAME", "An Author"),
        ("GIT_AUTHOR_EMAIL", "author@example.org"),
        ("GIT_COMMITTER_NAME", "A Committer"),
        ("GIT_COMMITTER_EMAIL", " "),
    ] {
        settings.environment.push((name.into(), value.into()));
    }
    let git = Git::find(settings).await.unwrap();
    let repository = Repository::open(&git, &world.root).await.unwrap();
    let worktree = prepare(&repository, 1, &head).await;
    write(worktree.path(), "new", "new\n");
    let committed = worktree.commit(&head, "m").await.unwrap().unwrap();
    let format = "--format=%an <%ae>, %cn <%ce>";
    let shown = world.git(&["log", "-1", format, committed.commit.as_str()]);
    assert_eq!(
        shown.trim(),
        "An Author <author@example.org>, A Committer <user@example.org>"
    );
    assert_eq!(repository.author().await.unwrap(), "An Author");
}

/// A job in a sandbox cannot commit, so these are among the changes that are not committed.
#[tokio::test]
async fn settings_of_git_lfs_that_were_not_committed_before_are_found() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.save(
        "settings",
        &[(".lfsconfig", "[lfs]\n"), ("sub/.lfsconfig", "[lfs]\n")],
    );
    let worktree = prepare(&repository, 1, &base).await;
    let found = async || worktree.lfs_settings().await.unwrap();
    let at = |path: &str| Some(PathBuf::from(path));
    assert_eq!(found().await, None);
    write(worktree.path(), "sub/.lfsconfig", "[lfs]\nurl = x\n");
    assert_eq!(found().await, None);
    write(worktree.path(), ".lfsconfig", "[lfs]\nurl = x\n");
    assert_eq!(found().await, at(".lfsconfig"));
    write(worktree.path(), ".lfsconfig", "[lfs]\n");
    assert_eq!(found().await, None);
    let other = worktree.path().join(".LfsConfig");
    symlink("README", &other).unwrap();
    assert_eq!(found().await, at(".LfsConfig"));
    // No commit has an ignored file, but a checkout into the same worktree reads it.
    write(worktree.path(), ".gitignore", ".LfsConfig\n");
    assert_eq!(found().await, at(".LfsConfig"));
    fs::remove_file(&other).unwrap();
    assert_eq!(found().await, None);
    // A link to a file that the job changes.
    let linked = worktree.path().join(".lfsconfig");
    fs::remove_file(&linked).unwrap();
    symlink("sub/.lfsconfig", &linked).unwrap();
    git_in(
        world.directory.path(),
        worktree.path(),
        &["add", ".lfsconfig"],
    );
    let commit = ["commit", "-q", "-m", "link"];
    git_in(world.directory.path(), worktree.path(), &commit);
    assert_eq!(found().await, at("sub/.lfsconfig"));
    symlink("README", &other).unwrap();
    worktree.restart(&base).await.unwrap();
    assert_eq!(found().await, None);
    assert!(other.symlink_metadata().is_err());
}

#[tokio::test]
async fn hooks_do_not_run() {
    let world = World::new();
    for hook in [
        "pre-commit",
        "commit-msg",
        "post-checkout",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "pre-merge-commit",
        "post-merge",
        "fsmonitor-watchman",
    ] {
        let path = world.root.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(
            &path,
            "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\nexit 1\n",
        )
        .unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let a = super::kit::work(&repository, 1, &head, &[("a", "a")]).await;
    let b = super::kit::work(&repository, 2, &head, &[("b", "b")]).await;
    let worktree = prepare(&repository, 3, &a).await;
    worktree.begin_merge(&b, "m").await.unwrap();
    let (intent, _) = super::kit::ready(&repository, "main", &[a, b]).await;
    repository.apply(&intent).await.unwrap();
    assert!(!world.root.join(".git/hooks/ran").exists());
    assert_eq!(world.rev("main"), intent.new);
}

#[tokio::test]
async fn without_an_identity_we_commit_in_our_own_name() {
    let world = World::new();
    world.git(&["config", "--unset", "user.name"]);
    world.git(&["config", "--unset", "user.email"]);
    world.git(&["config", "user.useConfigOnly", "true"]);
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let done = super::kit::work(&repository, 1, &head, &[("a", "a")]).await;
    let said = world.git(&["log", "-1", "--format=%an <%ae> %cn <%ce>", done.as_str()]);
    let us = "Orchestra <orchestra@localhost>";
    assert_eq!(said.trim(), format!("{us} {us}"));
}

#[tokio::test]
async fn pointers_of_lfs_stay_pointers_where_it_is_not_installed() {
    let world = World::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 3\n";
    world.save(
        "lfs",
        &[
            (
                ".gitattributes",
                "*.bin filter=lfs diff=lfs merge=lfs -text\n",
            ),
            ("x.bin", pointer),
        ],
    );
    for (key, value) in [
        ("smudge", "git-lfs smudge"),
        ("clean", "git-lfs clean"),
        ("process", "git-lfs filter-process"),
        ("required", "true"),
    ] {
        world.git(&["config", &format!("filter.lfs.{key}"), value]);
    }
    let head = world.rev("HEAD");
    let mut settings = world.settings();
    let bin = world.directory.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for program in ["git", "sh"] {
        let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
            .map(|directory| directory.join(program))
            .find(|path| path.exists())
            .unwrap();
        symlink(found, bin.join(program)).unwrap();
    }
    settings.environment.push(("PATH".into(), bin.into()));
    let git = orchestra_runner::git::Git::find(settings).await.unwrap();
    let repository = orchestra_runner::git::Repository::open(&git, &world.root)
        .await
        .unwrap();
    let worktree = prepare(&repository, 1, &head).await;
    assert_eq!(
        fs::read_to_string(worktree.path().join("x.bin")).unwrap(),
        pointer
    );
    assert!(!commit(&worktree, &head).await.made);
    let moved = pointer.replace("ab", "cd");
    write(worktree.path(), "x.bin", &moved);
    let committed = commit(&worktree, &head).await;
    assert_eq!(world.show(&committed.commit, "x.bin"), moved);
}

#[tokio::test]
async fn a_job_that_puts_another_repository_in_place_of_its_worktree_reaches_nobody_elses() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    for (number, content) in [(1, None), (2, Some(world.root.join(".git")))] {
        let before = (world.picture(), world.branches());
        let worktree = prepare(&repository, number, &head).await;
        fs::remove_file(worktree.path().join(".git")).unwrap();
        match content {
            None => drop(git_in(
                world.directory.path(),
                worktree.path(),
                &["init", "-q"],
            )),
            Some(users) => write(
                worktree.path(),
                ".git",
                format!("gitdir: {}\n", users.display()),
            ),
        }
        write(worktree.path(), "new", "x");
        let done = commit(&worktree, &head).await.commit;
        assert_eq!(world.files(&done), ["README", "new", "src/a.txt"]);
        assert_eq!((world.picture(), world.branches()), before);
        let error = repository.prepare(job(1, number), &head).await.unwrap_err();
        assert_eq!(error.code(), "not-ours");
    }
}

#[tokio::test]
async fn work_on_a_branch_without_commits_is_committed_onto_the_base() {
    let world = World::new();
    let repository = world.open().await;
    let head = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &head).await;
    let job = |arguments: &[&str]| git_in(world.directory.path(), worktree.path(), arguments);
    job(&["checkout", "-q", "--orphan", "alone"]);
    assert!(!commit(&worktree, &head).await.made, "nothing changed");
    job(&["checkout", "-q", "--orphan", "again"]);
    write(worktree.path(), "new", "new\n");
    fs::remove_file(worktree.path().join("src/a.txt")).unwrap();
    let done = commit(&worktree, &head).await;
    assert_eq!(world.files(&done.commit), ["README", "new"]);
    assert_eq!(world.rev(&format!("{}^", done.commit)), head);
    // Commits there are no work that can be merged.
    job(&["checkout", "-q", "--orphan", "third"]);
    job(&[
        "-c",
        "user.name=J",
        "-c",
        "user.email=j@example.org",
        "commit",
        "-q",
        "-m",
        "x",
    ]);
    let refusal = worktree.commit(&head, "x").await.unwrap().unwrap_err();
    assert_eq!(refusal.code(), "history-rewritten");
}

#[tokio::test]
async fn branch_without_commits_is_named_where_a_commit_is_needed() {
    let world = World::new();
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &world.rev("HEAD")).await;
    git_in(
        world.directory.path(),
        worktree.path(),
        &["checkout", "-q", "--orphan", "alone"],
    );
    let error = worktree.head().await.unwrap_err();
    assert_eq!(error.code(), "branch-without-commits");
    assert!(error.hint().contains("--detach"), "{}", error.hint());
}

#[tokio::test]
async fn leftovers_of_an_agent_are_in_no_commit_and_the_files_of_the_user_stay() {
    let world = World::new();
    let head = world.save("history", &[(".agent.conf", "old\n")]);
    let repository = world.open().await;
    let exclude = world.root.join(".git/info/exclude");
    let before = fs::read(&exclude).unwrap();
    let worktree = prepare(&repository, 1, &head).await;
    let patterns = [".agent*".to_owned(), "cache/".to_owned()];
    for _ in 0..2 {
        worktree.leave_out(&patterns).unwrap();
    }
    let at = worktree.path();
    for file in [
        ".agent.history",
        "src/.agent/log",
        "cache/x",
        "staged/.agent",
    ] {
        write(at, file, "x\n");
    }
    git_in(world.directory.path(), at, &["add", "staged"]);
    assert!(!commit(&worktree, &head).await.made);
    write(at, "done", "x\n");
    // What the commit has already is work.
    write(at, ".agent.conf", "new\n");
    let done = commit(&worktree, &head).await;
    assert_eq!(
        world.files(&done.commit),
        [".agent.conf", "README", "done", "src/a.txt"]
    );
    assert!(at.join("staged/.agent").exists());
    assert_eq!(fs::read(&exclude).unwrap(), before);
    let text = String::from_utf8(before).unwrap();
    let ours: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(ours, [".worktrees/", ".orchestrator/"]);
}

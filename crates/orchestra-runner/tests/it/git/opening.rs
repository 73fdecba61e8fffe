//! Finding git and a repository, and what is said when either is not as it has to be.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use orchestra_runner::git::{Git, GitError, GitSettings, HalfDone, ObjectFormat, Repository};

use super::kit::{World, git_in};

async fn refused(world: &World, path: &std::path::Path) -> GitError {
    let git = Git::find(world.settings()).await.unwrap();
    Repository::open(&git, path).await.unwrap_err()
}

fn script(world: &World, name: &str, content: &str) -> std::path::PathBuf {
    let path = world.directory.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{content}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_missing_git_is_said_to_be_missing() {
    let world = World::empty();
    let mut settings = world.settings();
    settings
        .environment
        .push(("PATH".into(), "/nowhere".into()));
    let error = Git::find(settings).await.unwrap_err();
    assert_eq!(error.code(), "git-missing");
    assert!(error.hint().contains("install"), "{}", error.hint());
}

#[tokio::test]
async fn an_old_git_is_refused_with_its_version() {
    let world = World::empty();
    let program = script(&world, "git", "echo git version 2.30.1");
    let settings = GitSettings {
        program,
        ..world.settings()
    };
    let error = Git::find(settings).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "git 2.30.1 is too old; version 2.38 or newer is required"
    );
}

#[tokio::test]
async fn a_program_that_is_no_git_is_found_out() {
    let world = World::empty();
    let program = script(&world, "git", "echo hello");
    let settings = GitSettings {
        program,
        ..world.settings()
    };
    assert_eq!(
        Git::find(settings).await.unwrap_err().code(),
        "git-answer-unreadable"
    );
}

#[tokio::test]
async fn a_git_that_hangs_is_ended_with_what_it_has_started() {
    let world = World::empty();
    let note = world.directory.path().join("pid");
    let program = script(
        &world,
        "git",
        &format!("sleep 600 & echo $! > '{}'; wait", note.display()),
    );
    let timeout = Duration::from_millis(300);
    let settings = GitSettings {
        program,
        timeout,
        ..world.settings()
    };
    assert_eq!(
        Git::find(settings).await.unwrap_err().code(),
        "git-timed-out"
    );
    let pid = fs::read_to_string(note).unwrap();
    let runs = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z")
    };
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while runs() {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_git_that_says_too_much_is_ended() {
    let world = World::empty();
    let program = script(&world, "git", "exec yes");
    let settings = GitSettings {
        program,
        output: 1000,
        ..world.settings()
    };
    assert_eq!(
        Git::find(settings).await.unwrap_err().code(),
        "git-output-too-large"
    );
}

#[tokio::test]
async fn look_at_a_repository_runs_no_remote_of_a_partial_clone() {
    let world = World::new();
    let mark = world.directory.path().join("ran");
    let tree = world.git(&["rev-parse", "HEAD^{tree}"]);
    let (directory, name) = tree.trim().split_at(2);
    let object = world.root.join(".git/objects").join(directory).join(name);
    fs::remove_file(object).unwrap();
    fs::remove_file(world.root.join(".git/index")).unwrap();
    let repository = world.open().await;
    let program = format!("ext::touch {}", mark.display());
    for url in ["ssh://host.invalid/x", &program] {
        let config = format!(
            "[core]\n repositoryformatversion = 1\n sshCommand = \"touch '{mark}'; false\"\n\
             [extensions]\n partialClone = origin\n[protocol \"ext\"]\n allow = always\n\
             [remote \"origin\"]\n promisor = true\n url = \"{url}\"\n",
            mark = mark.display(),
        );
        fs::write(world.root.join(".git/config"), config).unwrap();
        let look = repository.without_lazy_fetches();
        look.uncommitted().await.unwrap_err();
        assert!(!mark.exists(), "{url}");
        if url.starts_with("ext") {
            repository.uncommitted().await.unwrap_err();
            assert!(!mark.exists(), "{url}");
        }
    }
}

#[tokio::test]
async fn what_is_no_repository_is_refused() {
    let world = World::empty();
    let outside = tempfile::tempdir().unwrap();
    assert_eq!(
        refused(&world, outside.path()).await.code(),
        "not-a-repository"
    );
    assert_eq!(
        refused(&world, &world.root.join("nowhere")).await.code(),
        "not-a-repository"
    );
    assert_eq!(
        refused(&world, &world.root.join(".git")).await.code(),
        "not-a-repository"
    );
}

#[tokio::test]
async fn a_bare_repository_is_refused_but_not_its_worktrees() {
    let world = World::new();
    let bare = world.directory.path().join("bare.git");
    world.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let error = refused(&world, &bare).await;
    assert_eq!(error.code(), "bare-repository");
    assert!(error.hint().contains("worktree"), "{}", error.hint());
    let tree = world.directory.path().join("tree");
    git_in(
        world.directory.path(),
        &bare,
        &["worktree", "add", "-q", tree.to_str().unwrap()],
    );
    let git = Git::find(world.settings()).await.unwrap();
    let repository = Repository::open(&git, &tree).await.unwrap();
    assert!(repository.is_linked());
    assert_eq!(repository.toplevel(), tree.canonicalize().unwrap());
}

#[tokio::test]
async fn a_repository_of_somebody_else_is_not_trusted() {
    let world = World::new();
    if rustix::process::getuid().as_raw() != 0 {
        crate::skip::skip("only root can give a repository away");
        return;
    }
    std::os::unix::fs::chown(world.root.join(".git"), Some(1234), None).unwrap();
    std::os::unix::fs::chown(&world.root, Some(1234), None).unwrap();
    let error = refused(&world, &world.root).await;
    assert_eq!(error.code(), "untrusted-repository");
    assert!(error.hint().contains("safe.directory"), "{}", error.hint());
}

#[tokio::test]
async fn what_a_repository_is_is_told() {
    let world = World::of_format("sha256");
    let commit = world.save("first", &[("a", "a")]);
    assert_eq!(commit.as_str().len(), 64);
    let repository = world.open().await;
    assert_eq!(repository.format(), ObjectFormat::Sha256);
    assert!(!repository.is_linked());
    assert_eq!(repository.half_done(), None);
    let head = repository.head().await.unwrap();
    assert_eq!(head.branch.unwrap().as_str(), "main");
    assert_eq!(head.commit.unwrap(), commit);
}

#[tokio::test]
async fn a_merge_under_way_is_seen() {
    let world = World::new();
    world.git(&["checkout", "-q", "-b", "other"]);
    world.save("theirs", &[("README", "theirs\n")]);
    world.git(&["checkout", "-q", "main"]);
    world.save("ours", &[("README", "ours\n")]);
    assert!(!world.try_git(&["merge", "other"]).status.success());
    assert_eq!(world.open().await.half_done(), Some(HalfDone::Merge));
}

#[tokio::test]
async fn variables_of_the_host_do_not_reach_git() {
    // A cargo that is run by a hook of git has these set.
    let world = World::new();
    let mut settings = world.settings();
    settings
        .environment
        .push(("PATH".into(), std::env::var_os("PATH").unwrap()));
    let git = Git::find(settings).await.unwrap();
    let before = git.times().processes;
    let repository = Repository::open(&git, &world.root.join("src"))
        .await
        .unwrap();
    assert_eq!(repository.toplevel(), world.root.canonicalize().unwrap());
    assert_eq!(git.times().processes, before + 1);
    assert!(git.times().spent > Duration::ZERO);
}

#[tokio::test]
async fn repository_whose_path_has_a_line_break_or_is_not_utf_8_is_refused_with_what_to_do() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    for name in [&b"line\nbreak"[..], b"end\n", b"\nbegin", b"\xff\xfe"] {
        let world = World::new();
        let root = world.directory.path().join(OsStr::from_bytes(name));
        fs::rename(&world.root, &root).unwrap();
        for path in [root.clone(), root.join("src")] {
            let error = refused(&world, &path).await;
            assert_eq!(error.code(), "path-of-repository", "{name:?}");
            assert!(!error.to_string().contains('\n'), "{error}");
            assert!(error.hint().contains("rename"), "{}", error.hint());
        }
    }
}

#[tokio::test]
async fn repository_works_at_a_path_and_on_branches_with_unusual_names() {
    let names = ["-dash", "quote\"s'", "tab\there", "\x1b[31m", " "];
    for name in names {
        let world = World::new();
        let root = world.directory.path().join(name);
        fs::rename(&world.root, &root).unwrap();
        let git = Git::find(world.settings()).await.unwrap();
        let repository = Repository::open(&git, &root).await.unwrap();
        assert_eq!(repository.toplevel(), root.canonicalize().unwrap());
        let head = repository.choose_base(None).await.unwrap().commit;
        let worktree = super::kit::prepare(&repository, 1, &head).await;
        super::kit::write(worktree.path(), "new", "new\n");
        let done = super::kit::commit(&worktree, &head).await.commit;
        let (intent, _) = super::kit::ready(&repository, "main", &[done]).await;
        let applied = repository.apply(&intent).await.unwrap();
        assert_eq!(applied, orchestra_runner::git::Applied::Done, "{name:?}");
        assert!(root.join("new").exists(), "{name:?}");
    }
}

#[tokio::test]
async fn branch_whose_name_no_plan_can_have_is_a_commit_to_start_from() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    for name in [&b"caf\xe9"[..], b"-dash"] {
        let world = World::new();
        let head = world.rev("HEAD");
        let reference = [b"refs/heads/", name].concat();
        let mut file = world.root.join(".git");
        file.push(OsStr::from_bytes(&reference));
        fs::write(file, format!("{head}\n")).unwrap();
        fs::write(
            world.root.join(".git/HEAD"),
            [b"ref: ", &reference[..], b"\n"].concat(),
        )
        .unwrap();
        let repository = world.open().await;
        let base = repository.choose_base(None).await.unwrap();
        assert_eq!((base.branch, base.commit), (None, head));
    }
}

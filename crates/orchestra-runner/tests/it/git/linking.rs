//! Directories that worktrees share with the user's working tree, and submodules, which they do not.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use orchestra_plan::ids::Commit;
use orchestra_runner::git::{Owner, Removal, Worktree};

use super::kit::{World, commit, git_in, job, prepare, ready, write};

#[tokio::test]
async fn linked_directories_are_in_no_commit_and_survive_the_worktree() {
    let world = World::new();
    let base = world.save("ignore", &[(".gitignore", "node_modules/\n")]);
    world.write("node_modules/lib/index.js", "x");
    world.write("packages/a/vendor/x", "x");
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &base).await;
    let asked = ["node_modules", "packages/a/vendor/", "not there", "src"];
    assert_eq!(
        worktree.link_directories(&asked).unwrap(),
        ["node_modules", "packages/a/vendor"]
    );
    assert_eq!(
        worktree.link_directories(&asked).unwrap(),
        Vec::<String>::new(),
        "asked twice"
    );
    assert!(worktree.path().join("node_modules/lib/index.js").exists());
    assert!(!commit(&worktree, &base).await.made);
    write(worktree.path(), "done", "x");
    write(worktree.path(), "packages/a/own", "x");
    let done = commit(&worktree, &base).await.commit;
    assert_eq!(
        world.files(&done),
        [
            ".gitignore",
            "README",
            "done",
            "packages/a/own",
            "src/a.txt"
        ]
    );
    worktree.restart(&base).await.unwrap();
    assert!(worktree.path().join("node_modules/lib/index.js").exists());
    assert_eq!(worktree.remove(&[]).await.unwrap(), Removal::Removed);
    assert!(world.root.join("node_modules/lib/index.js").exists());
    assert!(world.root.join("packages/a/vendor/x").exists());
}

#[tokio::test]
async fn links_do_not_lead_out_of_the_working_tree() {
    let world = World::new();
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &world.rev("HEAD")).await;
    symlink("/etc", world.root.join("away")).unwrap();
    symlink(".", world.root.join("whole")).unwrap();
    symlink("src/../.git", world.root.join("hidden")).unwrap();
    fs::create_dir(world.root.join("cache")).unwrap();
    for bad in [
        "../x",
        "/etc",
        "",
        ".git",
        "a/../../b",
        "src/.GIT/x",
        "./cache",
        "away",
        "whole",
        "whole/whole",
        "hidden",
        ".worktrees",
    ] {
        let error = worktree.link_directories(&[bad]).unwrap_err();
        assert_eq!(error.code(), "bad-name", "{bad}");
    }
    // A job could have left a link where a directory above the place of ours should be.
    world.write("deep/cache/x", "x");
    symlink("/tmp", worktree.path().join("deep")).unwrap();
    assert_eq!(
        worktree.link_directories(&["deep/cache"]).unwrap(),
        Vec::<String>::new()
    );
}

/// A repository with a submodule that the user has checked out.
#[tokio::test]
async fn checkout_of_the_target_with_changes_inside_of_a_submodule_follows_and_they_stay() {
    let world = with_submodule();
    world.write("deps/the library/lib.txt", "of the user\n");
    world.write("deps/the library/new", "new\n");
    let repository = world.open().await;
    assert_eq!(repository.uncommitted().await.unwrap().changed, 0);
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    write(worktree.path(), "README", "changed\n");
    let done = commit(&worktree, &base).await.commit;
    let (intent, _) = ready(&repository, "main", std::slice::from_ref(&done)).await;
    let applied = repository.apply(&intent).await.unwrap();
    assert_eq!(applied, orchestra_runner::git::Applied::Done);
    assert_eq!(world.rev("HEAD"), done);
    let inside = world.root.join("deps/the library");
    let content = fs::read_to_string(inside.join("lib.txt")).unwrap();
    assert_eq!(content, "of the user\n");
    assert!(inside.join("new").exists());
}

fn with_submodule() -> World {
    let world = World::new();
    let library = world.directory.path().join("library");
    fs::create_dir(&library).unwrap();
    let git = |arguments: &[&str]| git_in(world.directory.path(), &library, arguments);
    git(&["init", "-q", "-b", "main"]);
    write(&library, "lib.txt", "library\n");
    git(&["add", "-A"]);
    git(&[
        "-c",
        "user.name=L",
        "-c",
        "user.email=l@example.org",
        "commit",
        "-q",
        "-m",
        "library",
    ]);
    let allow = "protocol.file.allow=always";
    world.git(&[
        "-c",
        allow,
        "submodule",
        "add",
        "-q",
        library.to_str().unwrap(),
        "deps/the library",
    ]);
    world.git(&["commit", "-q", "-m", "submodule"]);
    world
}

#[tokio::test]
async fn submodules_are_checked_out_apart_from_the_users() {
    let world = with_submodule();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let before = (world.picture(), world.branches());
    let worktree = prepare(&repository, 1, &base).await;
    let place = "deps/the library";
    assert_eq!(worktree.link_submodules().await.unwrap(), [place]);
    assert_eq!(
        worktree.link_submodules().await.unwrap(),
        Vec::<String>::new(),
        "asked twice"
    );
    let inside = worktree.path().join(place);
    assert_eq!(
        fs::read_to_string(inside.join("lib.txt")).unwrap(),
        "library\n"
    );
    assert!(!commit(&worktree, &base).await.made);
    let job_owner = worktree.owner();

    // What it changes there and does not commit would go with the worktree: new, and known.
    commits_no_changes_inside(&worktree, &base, place).await;

    write(&inside, "new.txt", "new\n");
    let job = |arguments: &[&str]| git_in(world.directory.path(), &inside, arguments);
    job(&["add", "-A"]);
    job(&[
        "-c",
        "user.name=J",
        "-c",
        "user.email=j@example.org",
        "commit",
        "-q",
        "-m",
        "in the library",
    ]);
    let inner = job(&["rev-parse", "HEAD"]);
    let committed = commit(&worktree, &base).await;
    assert!(committed.made && committed.stats.changes[0].submodule);
    let tree = world.git(&["ls-tree", committed.commit.as_str(), place]);
    assert!(tree.contains(inner.trim()), "{tree}");
    assert_eq!(
        worktree.remove(&[committed.commit]).await.unwrap(),
        Removal::Removed
    );
    assert_eq!((world.picture(), world.branches()), before);
    let users = world.root.join(place);
    let in_users = |arguments: &[&str]| git_in(world.directory.path(), &users, arguments);
    // As git does by itself sooner or later.
    in_users(&["reflog", "expire", "--expire=now", "--all"]);
    in_users(&["gc", "-q", "--prune=now"]);
    assert_eq!(
        in_users(&["cat-file", "-t", inner.trim()]).trim(),
        "commit",
        "what a job commits in a submodule outlives its worktree and a collection"
    );
    // It is kept until a branch of the submodule has it.
    let kept = || {
        in_users(&["for-each-ref", "refs/orchestra/"])
            .lines()
            .count()
    };
    let Owner::Job(plan, _) = job_owner else {
        panic!("{job_owner:?}");
    };
    repository.forget_plan(plan).await.unwrap();
    assert_eq!(kept(), 1);
    in_users(&["branch", "-q", "taken", inner.trim()]);
    repository.forget_plan(plan).await.unwrap();
    assert_eq!(kept(), 0);
    let trees = git_in(world.directory.path(), &users, &["worktree", "list"]);
    assert_eq!(trees.lines().count(), 1, "{trees}");
}

#[tokio::test]
async fn what_begins_anew_has_nothing_of_what_was_done_in_a_submodule() {
    let world = with_submodule();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    let place = "deps/the library";
    worktree.link_submodules().await.unwrap();
    let inside = worktree.path().join(place);
    let job = |arguments: &[&str]| git_in(world.directory.path(), &inside, arguments);
    let named = ["-c", "user.name=J", "-c", "user.email=j@example.org"];
    for is_committed in [true, false] {
        write(&inside, "lib.txt", format!("by a job: {is_committed}\n"));
        write(&inside, "new.txt", "new\n");
        if is_committed {
            job(&["add", "-A"]);
            job(&[&named[..], &["commit", "-q", "-m", "in the library"]].concat());
        }
        worktree.restart(&base).await.unwrap();
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 0);
        assert_eq!(worktree.link_submodules().await.unwrap(), [place]);
        let lib = fs::read_to_string(inside.join("lib.txt")).unwrap();
        assert_eq!(lib, "library\n");
        assert!(!commit(&worktree, &base).await.made);
    }
    // A link in its place is removed, and nothing of what it leads to.
    let elsewhere = world.directory.path().join("elsewhere");
    write(&elsewhere, "mine", "mine\n");
    fs::remove_dir_all(&inside).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &inside).unwrap();
    worktree.restart(&base).await.unwrap();
    assert!(elsewhere.join("mine").exists());
    assert_eq!(worktree.link_submodules().await.unwrap(), [place]);
    // The user's own worktree of the submodule, on a disk that is not there now, is not forgotten.
    let (users, away) = (world.root.join(place), world.directory.path().join("away"));
    let in_users = |arguments: &[&str]| git_in(world.directory.path(), &users, arguments);
    in_users(&["worktree", "add", "-q", "--detach", away.to_str().unwrap()]);
    fs::rename(&away, away.with_extension("unmounted")).unwrap();
    assert_eq!(worktree.remove(&[]).await.unwrap(), Removal::Removed);
    let trees = in_users(&["worktree", "list"]);
    assert_eq!(trees.lines().count(), 2, "{trees}");
}

#[tokio::test]
async fn converted_file_of_a_submodule_that_the_job_has_not_changed_is_no_change() {
    let world = with_submodule();
    let place = "deps/the library";
    let users = world.root.join(place);
    let in_users = |arguments: &[&str]| git_in(world.directory.path(), &users, arguments);
    in_users(&["config", "filter.up.smudge", "tr a-z A-Z"]);
    let attributes = in_users(&["rev-parse", "--git-path", "info/attributes"]);
    let attributes = users.join(attributes.trim());
    fs::create_dir_all(attributes.parent().unwrap()).unwrap();
    fs::write(attributes, "lib.txt filter=up\n").unwrap();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    for attempt in ["first", "restarted"] {
        assert_eq!(worktree.link_submodules().await.unwrap(), [place]);
        let inside = worktree.path().join(place).join("lib.txt");
        assert_eq!(fs::read_to_string(&inside).unwrap(), "LIBRARY\n");
        // Git now compares the content.
        let file = fs::File::options().write(true).open(&inside).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(worktree.is_clean().await.unwrap(), "{attempt}");
        assert!(!commit(&worktree, &base).await.made, "{attempt}");

        write(&worktree.path().join(place), "lib.txt", "changed\n");
        let refusal = worktree.commit(&base, "x").await.unwrap().unwrap_err();
        assert_eq!(refusal.code(), "submodules-dirty", "{attempt}");
        worktree.restart(&base).await.unwrap();
    }
}

/// Puts a clone in the place of a submodule whose filter leaves a file at the returned path when it runs.
fn replace_submodule(world: &World, worktree: &Worktree, place: &str) -> PathBuf {
    let (inside, ran) = (
        worktree.path().join(place),
        world.directory.path().join("ran"),
    );
    let library = world.directory.path().join("library");
    let in_world = |arguments: &[&str]| git_in(world.directory.path(), &world.root, arguments);
    fs::remove_dir_all(&inside).unwrap();
    in_world(&[
        "clone",
        "-q",
        library.to_str().unwrap(),
        inside.to_str().unwrap(),
    ]);
    let job = |arguments: &[&str]| git_in(world.directory.path(), &inside, arguments);
    let filter = format!("touch '{}'; cat", ran.display());
    job(&["config", "filter.own.clean", &filter]);
    job(&["config", "core.fsmonitor", &filter]);
    write(&inside, ".git/info/attributes", "* filter=own\n");
    // Another time than the index has: git looks at the content.
    touch(&inside.join("lib.txt"));
    ran
}

/// Checks that nothing is committed while the submodule at a place has a file that is new or changed.
async fn commits_no_changes_inside(worktree: &Worktree, base: &Commit, place: &str) {
    let inside = worktree.path().join(place);
    for file in ["new.txt", "lib.txt"] {
        let before = fs::read_to_string(inside.join(file)).ok();
        write(&inside, file, "changed\n");
        touch(&inside.join(file));
        let refusal = worktree.commit(base, "x").await.unwrap().unwrap_err();
        assert_eq!(refusal.code(), "submodules-dirty");
        assert!(refusal.to_string().contains(place), "{refusal}");
        match before {
            Some(before) => write(&inside, file, &before),
            None => fs::remove_file(inside.join(file)).unwrap(),
        }
    }
}

fn touch(path: &std::path::Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
}

#[tokio::test]
async fn repository_in_the_place_of_a_submodule_runs_no_filter_of_its_own() {
    let world = with_submodule();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    let place = "deps/the library";
    for is_linked in [true, false] {
        if is_linked {
            worktree.link_submodules().await.unwrap();
        }
        let ran = replace_submodule(&world, &worktree, place);
        let inside = worktree.path().join(place);
        assert!(!commit(&worktree, &base).await.made);
        assert!(worktree.is_clean().await.unwrap());
        commits_no_changes_inside(&worktree, &base, place).await;
        // What it has a commit of, and the rest of the worktree, are committed.
        write(&inside, "lib.txt", "by a job\n");
        let named = ["-c", "user.name=J", "-c", "user.email=j@example.org"];
        let other = ["-c", "filter.own.clean=", "-c", "core.fsmonitor=false"];
        let words = ["commit", "-q", "-a", "-m", "in the library"];
        let all = [&named[..], &other[..], &words[..]].concat();
        git_in(world.directory.path(), &inside, &all);
        write(worktree.path(), "done.txt", "done\n");
        fs::remove_file(worktree.path().join("README")).unwrap();
        touch(&inside.join("lib.txt"));
        let committed = commit(&worktree, &base).await;
        let files = world.files(&committed.commit);
        assert_eq!(files, [".gitmodules", place, "done.txt", "src/a.txt"]);
        assert_eq!(committed.stats.changes.len(), 3, "{:?}", committed.stats);
        worktree.restart(&base).await.unwrap();
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 0);
        assert!(!ran.exists(), "linked: {is_linked}");
    }
}

#[tokio::test]
async fn repository_in_the_place_of_a_submodule_with_huge_files_counts_as_changed() {
    let world = with_submodule();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    let place = "deps/the library";
    replace_submodule(&world, &worktree, place);
    assert!(!commit(&worktree, &base).await.made);
    let inside = worktree.path().join(place);
    write(&inside, ".git/info/exclude", "*.o\n");
    for name in ["info/exclude", "index"] {
        let file = inside.join(".git").join(name);
        let before = fs::read(&file).unwrap();
        // Zeros behind the content, which take no room.
        let huge = fs::File::options().write(true).open(&file).unwrap();
        huge.set_len(100 << 20).unwrap();
        let refusal = worktree.commit(&base, "x").await.unwrap().unwrap_err();
        assert_eq!(refusal.code(), "submodules-dirty", "{name}");
        assert!(refusal.to_string().contains(place), "{refusal}");
        fs::write(&file, before).unwrap();
    }
    assert!(!commit(&worktree, &base).await.made);
}

#[tokio::test]
async fn merge_beside_a_repository_in_the_place_of_a_submodule_is_refused() {
    let world = with_submodule();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let other = world.save("other", &[("other.txt", "other\n")]);
    let worktree = prepare(&repository, 1, &base).await;
    worktree.link_submodules().await.unwrap();
    write(worktree.path(), "done.txt", "done\n");
    commit(&worktree, &base).await;
    let ran = replace_submodule(&world, &worktree, "deps/the library");
    let refused = worktree.begin_merge(&other, "merge").await.unwrap_err();
    assert_eq!(refused.code(), "not-ours");
    assert!(refused.to_string().contains("the library"), "{refused}");
    assert!(!ran.exists());
}

#[tokio::test]
async fn worktree_that_leads_to_the_git_directory_of_another_is_refused() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let (first, second) = (
        prepare(&repository, 1, &base).await,
        prepare(&repository, 2, &base).await,
    );
    let link = first.path().join(".git");
    let admins = first.directory().parent().unwrap();
    let own = first.directory().file_name().unwrap();
    // By a link of the job's, which could lead elsewhere a moment later.
    let through = first.path().join("through");
    symlink(admins, &through).unwrap();
    let leads = |to: PathBuf| format!("gitdir: {}\n", to.display());
    fs::write(&link, leads(through.join(own))).unwrap();
    let found = repository.worktree(job(1, 1)).unwrap().unwrap();
    assert!(!found.directory().starts_with(first.path()));
    fs::write(&link, leads(second.directory().to_owned())).unwrap();
    let error = repository.worktree(job(1, 1)).unwrap_err();
    assert!(error.to_string().contains("another worktree"), "{error}");
    // A pipe is not waited for.
    fs::remove_file(&link).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&link).status();
    assert!(made.unwrap().success());
    let error = repository.worktree(job(1, 1)).unwrap_err();
    assert!(error.to_string().contains("is no file"), "{error}");
}

#[tokio::test]
async fn replaced_git_file_of_a_worktree_is_moved_away_and_written_again() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let (first, second) = (
        prepare(&repository, 1, &base).await,
        prepare(&repository, 2, &base).await,
    );
    let (owner, link) = (job(1, 1), first.path().join(".git"));
    assert_eq!(repository.restore_link(owner).unwrap(), None);
    let original = fs::read(&link).unwrap();
    let other = format!("gitdir: {}\n", second.directory().display());
    let restrict = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o500)).unwrap();
    let replacements: [&dyn Fn(); 6] = [
        &|| fs::create_dir(&link).unwrap(),
        &|| {
            fs::create_dir(&link).unwrap();
            restrict(&link);
        },
        &|| {
            fs::create_dir(&link).unwrap();
            restrict(first.path());
        },
        &|| fs::write(&link, &other).unwrap(),
        &|| symlink(world.root.join(".git"), &link).unwrap(),
        &|| symlink(world.root.join("missing"), &link).unwrap(),
    ];
    for replace in replacements {
        fs::remove_file(&link).unwrap();
        replace();
        let moved = repository.restore_link(owner).unwrap().unwrap();
        assert!(moved.starts_with(first.directory()), "{moved:?}");
        assert!(fs::symlink_metadata(&moved).is_ok(), "{moved:?}");
        assert_eq!(fs::read(&link).unwrap(), original);
    }
    assert_eq!(repository.restore_link(owner).unwrap(), None);
    assert_eq!(first.remove(&[]).await.unwrap(), Removal::Removed);
    assert_eq!(repository.restore_link(owner).unwrap(), None);
}

#[tokio::test]
async fn deleted_git_file_of_a_worktree_is_written_again() {
    let world = World::new();
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &world.rev("HEAD")).await;
    let (root, link) = (worktree.path(), worktree.path().join(".git"));
    let original = fs::read(&link).unwrap();
    fs::remove_file(&link).unwrap();
    // Git takes a directory with these files for a bare repository.
    git_in(world.directory.path(), root, &["init", "-q", "--bare", "."]);
    assert!(root.join("HEAD").is_file());
    fs::set_permissions(root, Permissions::from_mode(0o500)).unwrap();
    assert_eq!(repository.restore_link(job(1, 1)).unwrap(), None);
    assert_eq!(fs::read(&link).unwrap(), original);
    fs::write(root.join("new"), "x").unwrap();
}

#[tokio::test]
async fn a_checkout_whose_submodule_would_change_is_not_touched() {
    let world = with_submodule();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    worktree.link_submodules().await.unwrap();
    let inside = worktree.path().join("deps/the library");
    git_in(
        world.directory.path(),
        &inside,
        &[
            "-c",
            "user.name=J",
            "-c",
            "user.email=j@example.org",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        ],
    );
    let done = commit(&worktree, &base).await.commit;
    let (intent, _) = ready(&repository, "main", &[done]).await;
    let before = (world.picture(), world.branches());
    let applied = repository.apply(&intent).await.unwrap();
    let orchestra_runner::git::Applied::Refused(refusal) = applied else {
        panic!("{applied:?}");
    };
    assert_eq!(refusal.code(), "target-checkout-submodules");
    assert!(refusal.to_string().contains("the library"));
    assert_eq!((world.picture(), world.branches()), before);
}

#[tokio::test]
async fn a_repository_that_is_a_submodule_has_plans_of_its_own() {
    let world = with_submodule();
    let git = orchestra_runner::git::Git::find(world.settings())
        .await
        .unwrap();
    let path: PathBuf = world.root.join("deps/the library");
    let repository = orchestra_runner::git::Repository::open(&git, &path)
        .await
        .unwrap();
    assert_eq!(
        repository.superproject(),
        Some(world.root.canonicalize().unwrap().as_path())
    );
    repository
        .exclude(&orchestra_runner::git::EXCLUDED)
        .await
        .unwrap();
    let base = repository.choose_base(None).await.unwrap().commit;
    let before = world
        .picture()
        .into_iter()
        .filter(|(path, _)| !path.to_string_lossy().contains(".worktrees"));
    let before: Vec<_> = before.collect();
    let worktree = repository.prepare(job(1, 1), &base).await.unwrap().worktree;
    write(worktree.path(), "new", "x");
    commit(&worktree, &base).await;
    let after = world
        .picture()
        .into_iter()
        .filter(|(path, _)| !path.to_string_lossy().contains(".worktrees"));
    assert_eq!(after.collect::<Vec<_>>(), before);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

/// A repository with a submodule `outer` that has the submodule `inner`, which the user has checked out, and what
/// commits in them.
fn with_nested_submodules() -> (World, impl Fn(&std::path::Path, &[&str]) -> String) {
    let world = World::new();
    let home = world.directory.path().to_owned();
    let git = move |at: &std::path::Path, arguments: &[&str]| {
        let named = ["-c", "user.name=L", "-c", "user.email=l@example.org"];
        let allow = ["-c", "protocol.file.allow=always"];
        git_in(&home, at, &[&named[..], &allow[..], arguments].concat())
    };
    let at = |name: &str| world.directory.path().join(name);
    for name in ["inner", "outer"] {
        fs::create_dir(at(name)).unwrap();
        git(&at(name), &["init", "-q", "-b", "main"]);
        write(&at(name), "lib.txt", name);
        write(&at(name), "deep/lib.txt", name);
        if name == "outer" {
            let inner = at("inner");
            git(
                &at(name),
                &["submodule", "add", "-q", inner.to_str().unwrap(), "x/inner"],
            );
        }
        git(&at(name), &["add", "-A"]);
        git(&at(name), &["commit", "-q", "-m", name]);
    }
    let outer = at("outer");
    git(
        &world.root,
        &[
            "submodule",
            "add",
            "-q",
            outer.to_str().unwrap(),
            "deps/outer",
        ],
    );
    git(
        &world.root,
        &["submodule", "update", "-q", "--init", "--recursive"],
    );
    world.git(&["commit", "-q", "-m", "submodule"]);
    (world, git)
}

#[tokio::test]
async fn submodules_inside_submodules_are_checked_out_and_their_commits_kept() {
    let (world, git) = with_nested_submodules();
    let (outer, inner) = ("deps/outer", "deps/outer/x/inner");
    // The user's own submodule is sparse, and the job's is not.
    git(
        &world.root.join(inner),
        &["sparse-checkout", "set", "--cone", "none"],
    );
    assert!(!world.root.join(inner).join("deep").exists());
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let before = (world.picture(), world.branches());
    let worktree = prepare(&repository, 1, &base).await;
    assert_eq!(worktree.link_submodules().await.unwrap(), [outer, inner]);
    let at = worktree.path().join(inner);
    assert_eq!(
        fs::read_to_string(at.join("deep/lib.txt")).unwrap(),
        "inner"
    );
    assert!(!commit(&worktree, &base).await.made);

    write(&at, "lib.txt", "by a job");
    let refusal = worktree.commit(&base, "x").await.unwrap().unwrap_err();
    assert_eq!(refusal.code(), "submodules-dirty");
    git(&at, &["commit", "-q", "-a", "-m", "inner"]);
    let refusal = worktree.commit(&base, "x").await.unwrap().unwrap_err();
    assert_eq!(refusal.code(), "submodules-dirty");
    let made = git(&at, &["rev-parse", "HEAD"]);
    git(
        &worktree.path().join(outer),
        &["commit", "-q", "-a", "-m", "outer"],
    );
    let committed = commit(&worktree, &base).await;
    assert_eq!(committed.stats.changes.len(), 1, "{:?}", committed.stats);

    // A merge works beside submodules of ours.
    let other = prepare(&repository, 2, &base).await;
    write(other.path(), "README", "other\n");
    let other = commit(&other, &base).await.commit;
    worktree.begin_merge(&other, "merge").await.unwrap();

    let known = [worktree.head().await.unwrap()];
    assert_eq!(worktree.remove(&known).await.unwrap(), Removal::Removed);
    assert_eq!((world.picture(), world.branches()), before);
    for place in [outer, inner] {
        let trees = git(&world.root.join(place), &["worktree", "list"]);
        assert_eq!(trees.lines().count(), 1, "{trees}");
    }
    let users = world.root.join(inner);
    git(&users, &["reflog", "expire", "--expire=now", "--all"]);
    git(&users, &["gc", "-q", "--prune=now"]);
    assert_eq!(
        git(&users, &["cat-file", "-t", made.trim()]).trim(),
        "commit"
    );
    git(&users, &["branch", "-q", "taken", made.trim()]);
    repository.forget_plan(super::kit::plan(1)).await.unwrap();
    assert_eq!(git(&users, &["for-each-ref", "refs/orchestra/"]), "");
}

#[tokio::test]
async fn submodules_inside_submodules_are_empty_and_linked_again_after_a_restart() {
    let (world, git) = with_nested_submodules();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let worktree = prepare(&repository, 1, &base).await;
    let paths = ["deps/outer", "deps/outer/x/inner"];
    for _ in 0..2 {
        assert_eq!(worktree.link_submodules().await.unwrap(), paths);
        let at = worktree.path().join(paths[1]);
        assert_eq!(fs::read_to_string(at.join("lib.txt")).unwrap(), "inner");
        write(&at, "lib.txt", "by a job");
        git(&at, &["commit", "-q", "-a", "-m", "inner"]);
        worktree.restart(&base).await.unwrap();
        assert!(!commit(&worktree, &base).await.made);
    }
}

#[tokio::test]
async fn converted_file_of_a_submodule_is_no_change_of_it() {
    let world = with_submodule();
    let inside = world.root.join("deps/the library");
    let git = |at: &std::path::Path, arguments: &[&str]| {
        let named = ["-c", "user.name=L", "-c", "user.email=l@example.org"];
        git_in(
            world.directory.path(),
            at,
            &[&named[..], arguments].concat(),
        )
    };
    write(&inside, "dos.txt", "a\r\n");
    git(&inside, &["add", "dos.txt"]);
    git(&inside, &["commit", "-q", "-m", "content"]);
    write(&inside, ".gitattributes", "*.txt text eol=lf\n");
    git(&inside, &["add", ".gitattributes"]);
    git(&inside, &["commit", "-q", "-m", "attributes"]);
    git(&world.root, &["add", "deps/the library"]);
    git(&world.root, &["commit", "-q", "-m", "library"]);
    let base = world.rev("HEAD");
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &base).await;
    worktree.link_submodules().await.unwrap();
    touch(&worktree.path().join("deps/the library/dos.txt"));
    assert!(!commit(&worktree, &base).await.made);
}

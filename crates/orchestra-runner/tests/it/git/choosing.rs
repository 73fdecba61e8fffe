//! Where a plan begins, on which branch it ends, and what git overlooks.

use std::fs;

use super::kit::{World, branch, choice};

#[tokio::test]
async fn a_base_is_what_was_asked_for_else_what_is_checked_out() {
    let world = World::new();
    let first = world.rev("HEAD");
    world.git(&["tag", "v1"]);
    world.git(&["checkout", "-q", "-b", "feature/x"]);
    let second = world.save("second", &[("b", "b")]);
    let repository = world.open().await;

    let base = repository.choose_base(None).await.unwrap();
    assert_eq!(
        (base.branch, base.commit),
        (Some(branch("feature/x")), second)
    );
    let base = repository.choose_base(Some("main")).await.unwrap();
    assert_eq!(
        (base.branch, base.commit),
        (Some(branch("main")), first.clone())
    );
    for asked in ["v1", first.as_str(), "feature/x~1"] {
        let base = repository.choose_base(Some(asked)).await.unwrap();
        assert_eq!((base.branch, base.commit), (None, first.clone()), "{asked}");
    }
    world.git(&["checkout", "-q", "--detach", "main"]);
    assert_eq!(repository.choose_base(None).await.unwrap().commit, first);
}

#[tokio::test]
async fn names_that_look_like_options_are_only_names() {
    let world = World::new();
    let repository = world.open().await;
    for asked in [
        "--all",
        "-h",
        "--git-dir=/",
        "nowhere",
        "",
        "a\0b",
        "main\nmain",
    ] {
        let error = repository.choose_base(Some(asked)).await.unwrap_err();
        assert_eq!(error.code(), "unknown-commit", "{asked:?}");
    }
    for asked in ["--force", "-D", "a..b", "a b", "HEAD"] {
        let error = repository
            .choose_target(choice(Some(asked), &[]))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "bad-name", "{asked:?}");
    }
}

#[tokio::test]
async fn an_orphan_checkout_begins_from_main() {
    let world = World::new();
    let first = world.rev("main");
    world.git(&["checkout", "-q", "--orphan", "new"]);
    let base = world.open().await.choose_base(None).await.unwrap();
    assert_eq!((base.commit, base.made), (first, false));
}

#[tokio::test]
async fn without_commits_a_plan_begins_with_nothing_and_no_reference_moves() {
    for format in ["sha1", "sha256"] {
        let world = World::of_format(format);
        let before = world.picture();
        let repository = world.open().await;
        let base = repository.choose_base(None).await.unwrap();
        assert!(base.made);
        assert_eq!(world.files(&base.commit), Vec::<String>::new());
        assert_eq!(
            repository.choose_base(Some("main")).await.unwrap().commit,
            base.commit
        );
        assert_eq!(world.branches(), "");
        assert_eq!(world.picture(), before);
        world.git(&["fsck", "--strict"]);
    }
}

#[tokio::test]
async fn a_target_that_is_named_and_there_is_where_the_plan_begins() {
    let world = World::new();
    let first = world.rev("HEAD");
    world.git(&["branch", "wanted"]);
    world.save("second", &[("b", "b")]);
    let repository = world.open().await;
    let target = repository
        .choose_target(choice(Some("wanted"), &[]))
        .await
        .unwrap();
    assert_eq!((target.tip, target.made_up), (Some(first), false));
    let target = repository
        .choose_target(choice(Some("new"), &[]))
        .await
        .unwrap();
    assert_eq!((target.branch, target.tip), (branch("new"), None));
    assert!(!world.branches().contains("new"), "nothing is made yet");
}

#[tokio::test]
async fn a_target_that_is_not_named_is_nobody_elses_and_never_what_is_checked_out() {
    let world = World::new();
    world.git(&["checkout", "-q", "-b", "mine"]);
    let repository = world.open().await;
    let chosen = async |taken: &[_]| {
        repository
            .choose_target(choice(None, taken))
            .await
            .unwrap()
            .branch
    };
    assert_eq!(chosen(&[]).await, branch("orchestra/a-plan"));
    assert_eq!(
        chosen(&[branch("orchestra/a-plan")]).await,
        branch("orchestra/a-plan-2")
    );
    world.git(&["branch", "orchestra/A-plan"]);
    world.git(&["branch", "orchestra/a-plan-2/below"]);
    assert_eq!(chosen(&[]).await, branch("orchestra/a-plan-3"));
}

#[tokio::test]
async fn a_branch_called_like_the_prefix_leaves_room_beside_it() {
    let world = World::new();
    world.git(&["branch", "orchestra"]);
    let repository = world.open().await;
    let target = repository.choose_target(choice(None, &[])).await.unwrap();
    assert_eq!(target.branch, branch("orchestra-a-plan"));
    let error = repository
        .choose_target(choice(Some("orchestra/x"), &[]))
        .await
        .unwrap_err();
    assert_eq!(error.code(), "branch-in-the-way");
    assert!(error.hint().contains("`orchestra`"), "{}", error.hint());
}

#[tokio::test]
async fn lines_are_excluded_once_and_what_was_there_stays() {
    let world = World::new();
    let path = world.root.join(".git/info/exclude");
    let before = b"# mine \xff\n*.bak\n.orchestrator/\nlast without a line end";
    fs::write(&path, before).unwrap();
    let repository = world.open().await;
    let after = fs::read(&path).unwrap();
    assert!(after.starts_with(before));
    let text = String::from_utf8_lossy(&after).into_owned();
    assert_eq!(text.matches("\n.worktrees/\n").count(), 1);
    assert_eq!(text.matches("\n.orchestrator/\n").count(), 1);
    assert!(
        !repository
            .exclude(&orchestra_runner::git::EXCLUDED)
            .await
            .unwrap()
    );
    assert_eq!(fs::read(&path).unwrap(), after);
    fs::remove_dir_all(world.root.join(".git/info")).unwrap();
    assert!(repository.exclude(&["x/"]).await.unwrap());
}

/// Each of them says what its own agent leaves behind; a line that is lost is work that is committed.
#[tokio::test(flavor = "multi_thread")]
async fn many_exclude_at_once_and_no_line_is_lost() {
    let world = World::new();
    let repositories = [world.open().await, world.open().await];
    let mut work = tokio::task::JoinSet::new();
    for number in 0..64 {
        let repository = repositories[number % 2].clone();
        work.spawn(async move { repository.exclude(&[&format!("left-{number}/")]).await });
    }
    while let Some(excluded) = work.join_next().await {
        assert!(excluded.unwrap().unwrap());
    }
    let text = fs::read_to_string(world.root.join(".git/info/exclude")).unwrap();
    for number in 0..64 {
        let line = format!("left-{number}/");
        assert_eq!(
            text.lines().filter(|there| *there == line).count(),
            1,
            "{line}"
        );
    }
}

#[tokio::test]
async fn an_exclude_file_that_is_a_link_is_left_alone() {
    let world = World::new();
    let path = world.root.join(".git/info/exclude");
    let elsewhere = world.directory.path().join("elsewhere");
    fs::write(&elsewhere, "a/\n").unwrap();
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let git = orchestra_runner::git::Git::find(world.settings())
        .await
        .unwrap();
    let repository = orchestra_runner::git::Repository::open(&git, &world.root)
        .await
        .unwrap();
    assert!(!repository.exclude(&["a/"]).await.unwrap());
    let error = repository.exclude(&["b/"]).await.unwrap_err();
    assert_eq!(error.code(), "not-ours");
    assert!(
        error.to_string().ends_with("these lines are missing: b/"),
        "{error}"
    );
    assert!(
        error.hint().contains("replace the link"),
        "{}",
        error.hint()
    );
    assert_eq!(fs::read_to_string(elsewhere).unwrap(), "a/\n");
}

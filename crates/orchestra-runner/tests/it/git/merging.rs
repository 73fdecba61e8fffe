//! Merging what a job depends on, and conflicts that are left to be solved.

use std::{fs, path::PathBuf};

use orchestra_runner::git::{Conflict, Forward, Merging, Repository};

use super::kit::{World, git_in, merged, prepare, work, write};

/// Two commits that both change a file, and the conflict that they come to.
async fn conflict(repository: &Repository, world: &World) -> Conflict {
    let base = world.rev("HEAD");
    let ours = work(repository, 1, &base, &[("README", "ours\n"), ("o", "o")]).await;
    let theirs = work(repository, 2, &base, &[("README", "theirs\n"), ("t", "t")]).await;
    match repository.merge(&[ours, theirs], "merge").await.unwrap() {
        Forward::Conflict(conflict) => conflict,
        Forward::Merged(commit) => panic!("{commit}"),
    }
}

#[tokio::test]
async fn commits_are_merged_in_their_order_and_those_contained_are_passed_over() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let a = work(&repository, 1, &base, &[("a", "a")]).await;
    let b = work(&repository, 2, &base, &[("b", "b")]).await;
    let c = work(&repository, 3, &a, &[("c", "c")]).await;
    let before = (world.picture(), world.branches());
    let all = merged(
        &repository,
        &[base.clone(), a.clone(), b.clone(), c.clone(), a.clone()],
    )
    .await;
    assert_eq!(world.files(&all), ["README", "a", "b", "c", "src/a.txt"]);
    let parents = world.git(&["log", "-1", "--format=%P %an <%ae>", all.as_str()]);
    assert_eq!(parents.trim(), format!("{b} {c} A User <user@example.org>"));
    assert_eq!(merged(&repository, &[base.clone(), a.clone()]).await, a);
    assert_eq!(merged(&repository, &[c.clone(), base.clone(), a]).await, c);
    assert_eq!(merged(&repository, std::slice::from_ref(&base)).await, base);
    assert_eq!((world.picture(), world.branches()), before);
}

#[tokio::test]
async fn a_conflict_names_its_paths_and_kinds() {
    let world = World::new();
    world.save("more", &[("gone", "1\n"), ("bin", "a\0b"), ("dir", "file")]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let ours = work(
        &repository,
        1,
        &base,
        &[
            ("README", "1\n"),
            ("gone", "2\n"),
            ("bin", "c\0"),
            ("new\nline", "1"),
        ],
    )
    .await;
    let worktree = prepare(&repository, 2, &base).await;
    fs::remove_file(worktree.path().join("gone")).unwrap();
    write(worktree.path(), "README", "2\n");
    write(worktree.path(), "bin", "d\0");
    write(worktree.path(), "new\nline", "2");
    let theirs = super::kit::commit(&worktree, &base).await.commit;
    let Forward::Conflict(conflict) = repository
        .merge(&[ours.clone(), theirs.clone()], "m")
        .await
        .unwrap()
    else {
        panic!("it merged");
    };
    assert_eq!(
        (&conflict.onto, &conflict.with, conflict.index),
        (&ours, &theirs, 1)
    );
    let mut found: Vec<(String, &str)> = conflict
        .paths
        .iter()
        .map(|it| (it.path.display().to_string(), it.kind.as_str()))
        .collect();
    found.sort();
    let expected = [
        ("README", "contents"),
        ("bin", "binary"),
        ("gone", "modify/delete"),
        ("new\nline", "contents"),
    ];
    assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
    assert!(conflict.to_string().contains("gone (modify/delete)"));
}

#[tokio::test]
async fn unrelated_histories_are_refused() {
    let world = World::new();
    let first = world.rev("HEAD");
    world.git(&["checkout", "-q", "--orphan", "other"]);
    let other = world.save("other", &[("z", "z")]);
    let error = world
        .open()
        .await
        .merge(&[first, other], "merge")
        .await
        .unwrap_err();
    assert_eq!(error.code(), "unrelated-histories");
}

#[tokio::test]
async fn a_conflict_is_left_in_the_worktree_and_concluded_when_it_is_solved() {
    let world = World::new();
    let repository = world.open().await;
    let conflict = conflict(&repository, &world).await;
    let worktree = prepare(&repository, 3, &conflict.onto).await;
    let begun = worktree
        .begin_merge(&conflict.with, "merge both")
        .await
        .unwrap();
    let paths = vec![PathBuf::from("README")];
    assert_eq!(begun, Merging::Conflicts(paths.clone()));
    let finish = async || {
        worktree
            .finish_merge(&conflict.onto, &conflict.with, &paths, "merge both")
            .await
            .unwrap()
    };
    assert_eq!(finish().await.unwrap_err().markers, paths);
    write(worktree.path(), "README", "both\n");
    let commit = finish().await.unwrap();
    assert_eq!(world.show(&commit, "README"), "both\n");
    assert_eq!(world.files(&commit), ["README", "o", "src/a.txt", "t"]);
    let parents = world.git(&["log", "-1", "--format=%P", commit.as_str()]);
    assert_eq!(
        parents.trim(),
        format!("{} {}", conflict.onto, conflict.with)
    );
    assert_eq!(finish().await.unwrap(), commit, "asked twice");
}

#[tokio::test]
async fn an_agent_that_concludes_the_merge_itself_is_believed_and_one_that_gives_up_is_not() {
    let world = World::new();
    let repository = world.open().await;
    let conflict = conflict(&repository, &world).await;
    let paths = vec![PathBuf::from("README")];
    let worktree = prepare(&repository, 3, &conflict.onto).await;
    worktree.begin_merge(&conflict.with, "m").await.unwrap();
    let agent = |arguments: &[&str]| git_in(world.directory.path(), worktree.path(), arguments);
    agent(&["merge", "--abort"]);
    let finish = async || {
        worktree
            .finish_merge(&conflict.onto, &conflict.with, &paths, "m")
            .await
            .unwrap()
    };
    assert!(finish().await.unwrap_err().given_up);
    worktree.begin_merge(&conflict.with, "m").await.unwrap();
    agent(&["commit", "-q", "-a", "-m", "markers and all"]);
    assert_eq!(finish().await.unwrap_err().markers, paths);
    write(worktree.path(), "README", "both\n");
    agent(&["commit", "-q", "-a", "-m", "solved"]);
    let head = worktree.head().await.unwrap();
    assert_eq!(finish().await.unwrap(), head);
}

#[tokio::test]
async fn conflicts_without_markers_have_to_be_decided() {
    let world = World::new();
    world.save("more", &[("bin", "a\0b"), ("gone", "1\n")]);
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let ours = work(&repository, 1, &base, &[("bin", "c\0"), ("gone", "2\n")]).await;
    let other = prepare(&repository, 2, &base).await;
    write(other.path(), "bin", "d\0");
    fs::remove_file(other.path().join("gone")).unwrap();
    let theirs = super::kit::commit(&other, &base).await.commit;
    let worktree = prepare(&repository, 3, &ours).await;
    let Merging::Conflicts(paths) = worktree.begin_merge(&theirs, "m").await.unwrap() else {
        panic!("it merged");
    };
    let unsolved = worktree
        .finish_merge(&ours, &theirs, &paths, "m")
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(unsolved.undecided, ["bin", "gone"].map(PathBuf::from));
    git_in(
        world.directory.path(),
        worktree.path(),
        &["rm", "-q", "gone"],
    );
    git_in(
        world.directory.path(),
        worktree.path(),
        &["checkout", "-q", "--theirs", "bin"],
    );
    git_in(world.directory.path(), worktree.path(), &["add", "bin"]);
    let commit = worktree
        .finish_merge(&ours, &theirs, &paths, "m")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(world.show(&commit, "bin"), "d\0");
}

#[tokio::test]
async fn attributes_of_the_users_working_tree_have_no_say() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let a = work(&repository, 1, &base, &[("README", "one\n")]).await;
    let b = work(&repository, 2, &base, &[("README", "two\n")]).await;
    world.write(".gitattributes", "* merge=union\n");
    let result = repository.merge(&[a, b], "merge").await.unwrap();
    assert!(matches!(result, Forward::Conflict(_)), "{result:?}");
}

#[tokio::test]
async fn merge_drivers_run_from_the_configuration_of_the_user_alone() {
    let world = World::new();
    let (theirs, own) = (
        world.directory.path().join("theirs"),
        world.directory.path().join("own"),
    );
    let attributes = "f merge=x\nu merge=union\nb merge=binary\n";
    let lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let files = [
        (".gitattributes", attributes),
        ("f", lines),
        ("u", lines),
        ("b", lines),
    ];
    let base = world.save("attributes", &files);
    let repository = world.open().await;
    for name in ["x", "union", "binary", "text", "a.b=c"] {
        let line = format!("touch '{}'; true", theirs.display());
        world.git(&["config", &format!("merge.{name}.driver"), &line]);
    }
    world.git(&["config", "merge.default", "a.b=c"]);
    let (first, last) = (lines.replace('1', "one"), lines.replace('9', "nine"));
    let a = work(&repository, 1, &base, &[("f", &first), ("README", "a\n")]).await;
    let b = work(&repository, 2, &base, &[("f", &last)]).await;
    let both = merged(&repository, &[a.clone(), b]).await;
    assert_eq!(world.show(&both, "f"), last.replace('1', "one"));
    let u = [
        work(&repository, 3, &base, &[("u", &format!("{lines}a\n"))]).await,
        work(&repository, 4, &base, &[("u", &format!("{lines}b\n"))]).await,
    ];
    let both = merged(&repository, &u).await;
    assert_eq!(world.show(&both, "u"), format!("{lines}a\nb\n"));
    let c = work(&repository, 5, &base, &[("f", "c\n"), ("README", "c\n")]).await;
    let bin = [
        work(&repository, 6, &base, &[("b", &first)]).await,
        work(&repository, 7, &base, &[("b", &last)]).await,
    ];
    for commits in [[a.clone(), c.clone()], bin] {
        let result = repository.merge(&commits, "merge").await.unwrap();
        assert!(matches!(result, Forward::Conflict(_)), "{result:?}");
    }
    let worktree = prepare(&repository, 8, &a).await;
    let Merging::Conflicts(paths) = worktree.begin_merge(&c, "merge").await.unwrap() else {
        panic!("a conflict is expected");
    };
    let unsolved = worktree
        .finish_merge(&a, &c, &paths, "merge")
        .await
        .unwrap();
    let mut markers = unsolved.unwrap_err().markers;
    markers.sort();
    assert_eq!(markers, [PathBuf::from("README"), PathBuf::from("f")]);
    assert!(!theirs.exists());
    let line = format!("touch '{}'; cp %B %A", own.display());
    world.git(&["config", "--global", "merge.x.driver", &line]);
    let d = work(&repository, 9, &base, &[("f", "d\n")]).await;
    let e = work(&repository, 10, &base, &[("f", "e\n")]).await;
    let both = merged(&repository, &[d, e]).await;
    assert_eq!(world.show(&both, "f"), "e\n");
    assert!(own.exists() && !theirs.exists());
}

#[tokio::test]
async fn what_changed_is_shown_line_by_line_up_to_a_size() {
    let world = World::new();
    let repository = world.open().await;
    let base = world.rev("HEAD");
    let long = "one more line\n".repeat(1_000);
    let files: &[(&str, &str)] = &[("README", "other\n"), ("a b", "new\n"), ("z", &long)];
    let changed = work(&repository, 1, &base, files).await;
    let whole = repository.patch(&base, &changed, 1 << 20).await.unwrap();
    assert!(!whole.truncated);
    for part in [
        "--- a/README\n",
        "+++ b/a b",
        "+new\n",
        "+other\n",
        "+++ b/z\n",
    ] {
        assert!(whole.text.contains(part), "{part}: {}", whole.text);
    }
    let begun = repository.patch(&base, &changed, 1_000).await.unwrap();
    assert!(begun.truncated);
    assert!(begun.text.len() <= 1_000 && begun.text.len() > 900);
    assert!(whole.text.starts_with(&begun.text) && begun.text.ends_with('\n'));
    let same = repository.patch(&base, &base, 1_000).await.unwrap();
    assert_eq!((same.text.as_str(), same.truncated), ("", false));
}

//! Files that a checkout and back do not preserve: git takes them for changed, and they are no work of a job.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use orchestra_plan::ids::Commit;
use orchestra_runner::git::{Applied, Removal, Worktree};

use super::kit::{World, commit, git_in, merged, prepare, ready, write};

/// Settings, attributes and a file `dos.txt` that a checkout and back do not preserve.
struct Conversion {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    attributes: &'static str,
    content: &'static str,
}

const CONVERSIONS: [Conversion; 8] = [
    Conversion {
        name: "eol=lf",
        settings: &[],
        attributes: "*.txt text eol=lf\n",
        content: "a\r\nb\r\n",
    },
    Conversion {
        name: "eol=crlf",
        settings: &[],
        attributes: "*.txt text eol=crlf\n",
        content: "a\r\nb\r\n",
    },
    Conversion {
        name: "text",
        settings: &[("core.eol", "lf")],
        attributes: "dos.txt text\n",
        content: "a\r\nb\n",
    },
    Conversion {
        name: "autocrlf=input",
        settings: &[("core.autocrlf", "input")],
        attributes: "*.txt text\n",
        content: "a\r\nb\r\n",
    },
    Conversion {
        name: "ident",
        settings: &[],
        attributes: "dos.txt ident\n",
        content: "$Id: 1234$\nb\n",
    },
    Conversion {
        name: "filter without clean",
        settings: &[("filter.up.smudge", "tr a-z A-Z")],
        attributes: "dos.txt filter=up\n",
        content: "a\nb\n",
    },
    Conversion {
        name: "filter without smudge",
        settings: &[("filter.up.clean", "tr a-z A-Z")],
        attributes: "dos.txt filter=up\n",
        content: "a\nb\n",
    },
    Conversion {
        name: "smudge with other results",
        settings: &[(
            "filter.now.smudge",
            "cat; tr -d - < /proc/sys/kernel/random/uuid",
        )],
        attributes: "dos.txt filter=now\n",
        content: "a\nb\n",
    },
];

/// A repository in which `dos.txt` was committed before its attributes.
fn with(conversion: &Conversion) -> (World, Commit) {
    let world = World::new();
    world.save("content", &[("dos.txt", conversion.content)]);
    for (key, value) in conversion.settings {
        world.git(&["config", key, value]);
    }
    world.write(".gitattributes", conversion.attributes);
    world.git(&["add", ".gitattributes"]);
    world.git(&["commit", "-q", "-m", "attributes"]);
    let head = world.rev("HEAD");
    (world, head)
}

/// Gives a file another time, so that git compares its content.
fn touch(file: &Path) {
    let file = fs::File::options().write(true).open(file).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
}

fn status(world: &World, worktree: &Worktree) -> String {
    git_in(
        world.directory.path(),
        worktree.path(),
        &["status", "--porcelain"],
    )
}

#[tokio::test]
async fn converted_file_that_the_job_has_not_changed_is_not_committed() {
    for conversion in &CONVERSIONS {
        let (name, (world, head)) = (conversion.name, with(conversion));
        let repository = world.open().await;
        let worktree = prepare(&repository, 1, &head).await;
        assert_eq!(status(&world, &worktree), "", "{name}");
        let nothing = commit(&worktree, &head).await;
        assert_eq!(
            (nothing.commit, nothing.made),
            (head.clone(), false),
            "{name}"
        );
        write(worktree.path(), "x.md", "x\n");
        touch(&worktree.path().join("dos.txt"));
        let done = commit(&worktree, &head).await;
        assert_eq!(done.stats.changes.len(), 1, "{name}: {:?}", done.stats);
        assert_eq!(
            world.show(&done.commit, "dos.txt"),
            conversion.content,
            "{name}"
        );
        let known = [done.commit];
        let removed = worktree.remove(&known).await.unwrap();
        assert_eq!(removed, Removal::Removed, "{name}");
    }
}

#[tokio::test]
async fn converted_file_is_left_out_when_the_job_commits_everything_itself() {
    for conversion in &CONVERSIONS {
        let (name, (world, head)) = (conversion.name, with(conversion));
        let repository = world.open().await;
        let worktree = prepare(&repository, 1, &head).await;
        write(worktree.path(), "x.md", "x\n");
        let job = |arguments: &[&str]| git_in(world.directory.path(), worktree.path(), arguments);
        job(&["add", "-A"]);
        job(&["commit", "-q", "-a", "-m", "all"]);
        let done = commit(&worktree, &head).await;
        assert_eq!(done.by_job, 1, "{name}");
        assert_eq!(done.stats.changes.len(), 1, "{name}: {:?}", done.stats);
    }
}

#[tokio::test]
async fn change_of_a_converted_file_is_committed_as_git_add_stages_it() {
    for conversion in &CONVERSIONS {
        let (name, (world, head)) = (conversion.name, with(conversion));
        let repository = world.open().await;
        let (one, two) = (
            prepare(&repository, 1, &head).await,
            prepare(&repository, 2, &head).await,
        );
        write(one.path(), "x.md", "x\n");
        let file = two.path().join("dos.txt");
        let mut content = fs::read(&file).unwrap();
        content.extend_from_slice(b"c\n");
        fs::write(&file, content).unwrap();
        let expected = git_in(
            world.directory.path(),
            two.path(),
            &["hash-object", "dos.txt"],
        );
        let (one, two) = (commit(&one, &head).await, commit(&two, &head).await);
        assert_eq!(two.stats.changes.len(), 1, "{name}: {:?}", two.stats);
        let both = merged(&repository, &[one.commit, two.commit]).await;
        let found = world.git(&["rev-parse", &format!("{both}:dos.txt")]);
        assert_eq!(found, expected, "{name}");
        assert_eq!(
            world.files(&both),
            [".gitattributes", "README", "dos.txt", "src/a.txt", "x.md"],
            "{name}"
        );
    }
}

#[tokio::test]
async fn change_of_the_same_length_in_a_converted_file_is_committed() {
    let (world, head) = with(&CONVERSIONS[0]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    for (path, content) in [("dos.txt", "a\r\nc\r\n"), ("src/a.txt", "b\n")] {
        write(worktree.path(), path, content);
    }
    let done = commit(&worktree, &head).await;
    assert_eq!(world.show(&done.commit, "dos.txt"), "a\nc\n");
    assert_eq!(world.show(&done.commit, "src/a.txt"), "b\n");
}

#[tokio::test]
async fn attributes_that_a_job_adds_change_no_file_that_it_does_not_renormalize() {
    let world = World::new();
    let head = world.save("content", &[("dos.txt", "a\r\n"), ("more.txt", "a\r\n")]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    write(worktree.path(), ".gitattributes", "*.txt text eol=lf\n");
    touch(&worktree.path().join("dos.txt"));
    let done = commit(&worktree, &head).await;
    assert_eq!(done.stats.changes.len(), 1, "{:?}", done.stats);
    let job = |arguments: &[&str]| git_in(world.directory.path(), worktree.path(), arguments);
    job(&["add", "--renormalize", "."]);
    let done = commit(&worktree, &head).await;
    assert_eq!(done.stats.changes.len(), 3, "{:?}", done.stats);
    assert_eq!(world.show(&done.commit, "more.txt"), "a\n");
}

#[tokio::test]
async fn mode_of_a_converted_file_is_committed_without_its_content() {
    let (world, head) = with(&CONVERSIONS[0]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    let file = worktree.path().join("dos.txt");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let done = commit(&worktree, &head).await;
    assert_eq!(done.stats.changes.len(), 1, "{:?}", done.stats);
    assert_eq!(world.show(&done.commit, "dos.txt"), "a\r\nb\r\n");
    let tree = world.git(&["ls-tree", done.commit.as_str(), "dos.txt"]);
    assert!(tree.starts_with("100755"), "{tree}");
}

#[tokio::test]
async fn mode_that_a_checkout_does_not_set_is_not_committed() {
    let world = World::new();
    // As in a file system in which every file is executable.
    world.git(&[
        "config",
        "filter.mode.smudge",
        "cat; chmod 755 README 2> /dev/null; true",
    ]);
    world.write(".gitattributes", "z filter=mode\n");
    let head = world.save("modes", &[("z", "z\n")]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    let mode = fs::metadata(worktree.path().join("README")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o111, 0o111);
    assert!(!commit(&worktree, &head).await.made);
    assert!(worktree.is_clean().await.unwrap());
    write(worktree.path(), "README", "more\n");
    write(worktree.path(), "src/a.txt", "more\n");
    let done = commit(&worktree, &head).await;
    assert_eq!(done.stats.changes.len(), 2, "{:?}", done.stats);
    assert_eq!(world.show(&done.commit, "README"), "more\n");
    let tree = world.git(&["ls-tree", done.commit.as_str(), "README"]);
    assert!(tree.starts_with("100644"), "{tree}");
}

#[tokio::test]
async fn files_without_modes_and_links_keep_the_mode_that_git_has() {
    let world = World::new();
    symlink("README", world.root.join("link")).unwrap();
    world.write("run.sh", "true\n");
    fs::set_permissions(world.root.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let head = world.save("modes", &[]);
    world.git(&["config", "core.fileMode", "false"]);
    world.git(&["config", "core.symlinks", "false"]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    let at = worktree.path();
    assert_eq!(fs::read_to_string(at.join("link")).unwrap(), "README");
    fs::set_permissions(at.join("run.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!commit(&worktree, &head).await.made);
    write(at, "run.sh", "false\n");
    fs::write(at.join("link"), "src/a.txt").unwrap();
    let done = commit(&worktree, &head).await;
    let tree = world.git(&["ls-tree", done.commit.as_str(), "run.sh", "link"]);
    let modes: Vec<&str> = tree.lines().map(|line| &line[..6]).collect();
    assert_eq!(modes, ["120000", "100755"]);
    assert_eq!(world.show(&done.commit, "link"), "src/a.txt");
}

#[tokio::test]
async fn text_in_another_encoding_is_committed_where_it_is_changed() {
    let world = World::new();
    world.write(".gitattributes", "*.txt working-tree-encoding=UTF-16LE\n");
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    world.write("dos.txt", utf16("a\nb\n"));
    world.write("src/a.txt", utf16("a\n"));
    let head = world.save("encoding", &[]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    assert!(!commit(&worktree, &head).await.made);
    touch(&worktree.path().join("src/a.txt"));
    write(worktree.path(), "dos.txt", utf16("a\nb\nc\n"));
    let done = commit(&worktree, &head).await;
    assert_eq!(done.stats.changes.len(), 1, "{:?}", done.stats);
    assert_eq!(world.show(&done.commit, "dos.txt"), "a\nb\nc\n");
}

#[tokio::test]
async fn checkout_of_the_user_with_a_converted_file_follows_unless_the_plan_changes_that() {
    let (world, head) = with(&CONVERSIONS[0]);
    touch(&world.root.join("dos.txt"));
    assert_eq!(world.git(&["status", "--porcelain"]), " M dos.txt\n");
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    write(worktree.path(), "x.md", "x\n");
    let done = commit(&worktree, &head).await.commit;
    let (intent, _) = ready(&repository, "main", std::slice::from_ref(&done)).await;
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    assert_eq!(world.rev("HEAD"), done);
    assert!(world.root.join("x.md").exists());
    let content = fs::read_to_string(world.root.join("dos.txt")).unwrap();
    assert_eq!(content, "a\r\nb\r\n");

    write(worktree.path(), "dos.txt", "c\n");
    let done = commit(&worktree, &head).await.commit;
    let (intent, _) = ready(&repository, "main", &[done]).await;
    let before = world.picture();
    let Applied::Refused(refusal) = repository.apply(&intent).await.unwrap() else {
        panic!("the checkout followed");
    };
    assert_eq!(refusal.code(), "target-checkout-converted");
    assert!(refusal.to_string().contains("(dos.txt)"), "{refusal}");
    assert_eq!(world.picture(), before);

    // The steps that the refusal names.
    world.git(&["checkout", "-q", "--detach"]);
    assert_eq!(repository.apply(&intent).await.unwrap(), Applied::Done);
    world.git(&["checkout", "-q", "--force", "main"]);
    let content = fs::read_to_string(world.root.join("dos.txt")).unwrap();
    assert_eq!(content, "c\n");
}

#[tokio::test]
async fn unreadable_file_of_the_user_alone_counts_as_changed() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root can read every file");
        return;
    }
    let world = World::new();
    world.save("content", &[("dos.txt", "a\r\nb\r\n")]);
    world.save("attributes", &[(".gitattributes", "*.txt text eol=lf\n")]);
    touch(&world.root.join("dos.txt"));
    let unreadable = world.root.join("README");
    touch(&unreadable);
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).unwrap();
    let repository = world.open().await;
    assert_eq!(repository.uncommitted().await.unwrap().changed, 1);
}

#[tokio::test]
async fn converted_file_is_unchanged_after_a_restart_and_in_a_merge() {
    let (world, head) = with(&CONVERSIONS[0]);
    let repository = world.open().await;
    let worktree = prepare(&repository, 1, &head).await;
    write(worktree.path(), "dos.txt", "c\n");
    worktree.restart(&head).await.unwrap();
    assert!(worktree.is_clean().await.unwrap());
    assert!(!commit(&worktree, &head).await.made);
    // One side of the merge changes `README`, as does the other.
    write(worktree.path(), "README", "one\n");
    let one = commit(&worktree, &head).await.commit;
    let other = prepare(&repository, 2, &head).await;
    write(other.path(), "README", "two\n");
    let two = commit(&other, &head).await.commit;
    let conflicts = other.begin_merge(&one, "merge").await.unwrap();
    assert!(matches!(
        conflicts,
        orchestra_runner::git::Merging::Conflicts(_)
    ));
    touch(&other.path().join("dos.txt"));
    write(other.path(), "README", "both\n");
    let finished = other
        .finish_merge(&two, &one, &["README".into()], "merge")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(world.show(&finished, "dos.txt"), "a\r\nb\r\n");
    assert_eq!(world.show(&finished, "README"), "both\n");
}

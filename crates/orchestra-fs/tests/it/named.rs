//! Files of a tree that texts name.

#[cfg(target_os = "linux")]
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use orchestra_fs::{Candidates, Code, Content, Entry, Loads, Tree, Unlisted, parts};

fn tree() -> (tempfile::TempDir, Tree) {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().join("top");
    fs::create_dir(&top).unwrap();
    let tree = Tree::open(&top).unwrap();
    (directory, tree)
}

#[test]
fn files_are_found_below_the_top_and_nowhere_else() {
    let (directory, mut tree) = tree();
    fs::write(directory.path().join("out"), "x").unwrap();
    fs::create_dir(tree.top().join("a")).unwrap();
    fs::write(tree.top().join("a/b"), "x").unwrap();
    let file = Some(Entry::File("a/b".into()));
    assert_eq!(tree.find(Path::new(""), Path::new("a/b")), file);
    assert_eq!(tree.find(Path::new("a"), Path::new("./b")), file);
    let absolute = tree.top().join("a/../a/b");
    assert_eq!(tree.find(Path::new(""), &absolute), file);
    for text in ["a/b/", "a//b//", "a/b/.", "a/./b/././"] {
        assert_eq!(tree.find(Path::new(""), Path::new(text)), file, "{text}");
        let below = tree.top().join(text);
        assert_eq!(tree.find(Path::new(""), &below), file, "{text}");
    }
    let a = Some(Entry::Directory("a".into()));
    assert_eq!(tree.find(Path::new(""), Path::new("a")), a);
    for text in ["", "c", "a/b/c", "../out", "/", "x\0y", &"n".repeat(5_000)] {
        assert_eq!(tree.find(Path::new(""), Path::new(text)), None, "{text:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn file_with_a_name_that_is_not_utf_8_is_found() {
    let (_directory, mut tree) = tree();
    let name = Path::new(OsStr::from_bytes(b"\xff"));
    fs::write(tree.top().join(name), "x").unwrap();
    assert_eq!(
        tree.find(Path::new(""), name),
        Some(Entry::File(name.into()))
    );
}

#[test]
fn words_in_a_line_of_a_shell_are_parts_and_options_are_not() {
    for (word, expected) in [
        ("a", &["a"][..]),
        ("--import=./a,b", &["./a,b", "./a", "b"][..]),
        ("x:y:x", &["x:y:x", "x", "y"][..]),
        ("cat a|sh", &["cat a|sh", "cat", "a", "sh"][..]),
        ("sh <a >b 2>&1", &["sh <a >b 2>&1", "sh", "a", "2"][..]),
    ] {
        assert_eq!(parts(word).words, expected, "{word}");
    }
}

#[test]
fn link_out_of_the_tree_is_named_and_not_followed() {
    let (directory, mut tree) = tree();
    let out = directory.path().join("out");
    fs::write(&out, "x").unwrap();
    symlink(&out, tree.top().join("link")).unwrap();
    symlink("nowhere", tree.top().join("dangling")).unwrap();
    let out = Content::Outside(out.canonicalize().unwrap());
    let link = Some(Entry::Closed("link".into(), out));
    assert_eq!(tree.find(Path::new(""), Path::new("link")), link);
    let dangling = tree.find(Path::new(""), Path::new("./dangling"));
    assert!(
        matches!(&dangling, Some(Entry::Closed(path, Content::Unreadable(_))) if path.as_path() == Path::new("dangling")),
        "{dangling:?}"
    );
    // A link that takes the place of a file afterwards.
    assert!(matches!(
        tree.content(Path::new("link")),
        Content::Unreadable(_)
    ));
}

#[test]
fn content_is_a_digest_a_length_or_a_reason() {
    let (_directory, mut tree) = tree();
    fs::write(tree.top().join("a"), "abc").unwrap();
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let digest = Content::Digest(known.to_owned());
    assert_eq!(tree.content(Path::new("a")), digest);
    let long = File::create(tree.top().join("long")).unwrap();
    long.set_len(65 * 1024 * 1024).unwrap();
    assert!(matches!(tree.content(Path::new("long")), Content::Long(_)));
    let absent = tree.content(Path::new("absent"));
    assert!(matches!(absent, Content::Unreadable(_)), "{absent:?}");
}

#[test]
fn digest_of_code_is_that_of_its_paths_and_contents() {
    let (_directory, mut tree) = tree();
    fs::create_dir(tree.top().join("classes")).unwrap();
    for (name, text) in [("x.class", "abc"), ("notes", "x"), (".hidden.class", "x")] {
        fs::write(tree.top().join("classes").join(name), text).unwrap();
    }
    // SHA-256 of the path, the kind and the digest of the content, each with a NUL behind it.
    let known = "65f8e3e93f0f7e2dc6544ab4922819b2765dc1f1c9532850670ffcc6246222bb";
    let code = Code::Content(Content::Digest(known.to_owned()));
    assert_eq!(tree.code(Loads::Code, Path::new("classes")), code);
}

#[test]
fn code_is_unknown_where_a_directory_can_be_opened_and_not_listed() {
    let (_directory, mut tree) = tree();
    let below = tree.top().join("classes/below");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("x.class"), "x").unwrap();
    let mode = |mode| fs::set_permissions(&below, fs::Permissions::from_mode(mode)).unwrap();
    mode(0);
    // The superuser lists every directory.
    if fs::read_dir(&below).is_err() {
        assert_eq!(tree.code(Loads::Code, Path::new("classes")), Code::None);
        mode(0o300);
        let unlisted = Unlisted::Directory("classes/below".into());
        assert_eq!(
            tree.code(Loads::Code, Path::new("classes")),
            Code::Unknown(unlisted)
        );
    }
    mode(0o700);
    assert!(matches!(
        tree.code(Loads::Code, Path::new("classes")),
        Code::Content(_)
    ));
}

#[test]
fn code_is_unknown_where_more_entries_are_found_than_are_listed() {
    let (_directory, mut tree) = tree();
    fs::write(tree.top().join("x.go"), "x").unwrap();
    for number in 0..1_000 {
        fs::create_dir(tree.top().join(number.to_string())).unwrap();
        fs::write(tree.top().join(format!("{number}.txt")), "x").unwrap();
    }
    let top = Path::new("");
    for _ in 0..47 {
        assert!(matches!(tree.code(Loads::Code, top), Code::Content(_)));
    }
    // Of 50,000, each look uses 1,001 for directories and code, and 62 for other files.
    assert_eq!(
        tree.code(Loads::Code, top),
        Code::Unknown(Unlisted::Entries)
    );
}

#[test]
fn tree_looks_up_a_limited_number_of_paths() {
    let (_directory, mut tree) = tree();
    fs::write(tree.top().join("a"), "x").unwrap();
    let top = Path::new("");
    for _ in 1..Tree::MAX_PATHS {
        assert!(tree.find(top, Path::new("a")).is_some());
    }
    assert!(!tree.is_exhausted());
    assert!(tree.find(top, Path::new("a")).is_some());
    assert!(tree.is_exhausted());
    assert_eq!(tree.find(top, Path::new("a")), None);
    assert_eq!(tree.candidates(top, Path::new("a")), Candidates::default());
}

#[test]
fn paths_in_directories_that_do_not_exist_are_no_candidates() {
    let (_directory, mut tree) = tree();
    fs::create_dir(tree.top().join("there")).unwrap();
    let mut candidates = |part: &str| tree.candidates(Path::new(""), Path::new(part)).paths;
    assert!(candidates("absent/x").is_empty());
    assert!(candidates("there/x").contains(Path::new("there/x.js")));
}

#[test]
fn manifest_with_a_long_name_is_unclear() {
    let (_directory, mut tree) = tree();
    for (length, is_unclear) in [(1_000, false), (2_000, true)] {
        let directory = tree.top().join(length.to_string());
        fs::create_dir(&directory).unwrap();
        let name = "n".repeat(length);
        let manifest = format!(r#"{{"imports": {{"{name}": ["a", "b"]}}}}"#);
        fs::write(directory.join("package.json"), manifest).unwrap();
        let candidates = tree.candidates(Path::new(""), Path::new(&length.to_string()));
        assert_eq!(candidates.is_unclear, is_unclear, "{length}");
    }
}

#[test]
fn program_is_recognized_by_its_first_bytes() {
    let (_directory, tree) = tree();
    for (name, content, is_program) in [
        ("script", "#!/bin/sh\n", true),
        ("binary", "\x7fELF\x02", true),
        ("data", "SQLite format 3", false),
    ] {
        fs::write(tree.top().join(name), content).unwrap();
        assert_eq!(tree.is_program(Path::new(name)), is_program, "{name}");
    }
}

//! Rules for files that no compiler holds.

use std::{fmt::Write as _, fs, process::Command};

use crate::tree::{self, File};

/// Lines of code, unit tests left aside, at which a file must have been split.
const SPLIT_AT: usize = 800;

/// Machine paths and registry hosts, each written so that this file does not hold it.
const FORBIDDEN: &[&str] = &[
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/ro", "ot/."),
    concat!("registry.", "npmjs.org"),
    concat!("files.python", "hosted.org"),
    concat!("static.crates", ".io"),
    concat!("deb.debian", ".org"),
];

/// Calls that have a wrapper, and why. A line that must make one says so in a comment that holds
/// `direct:` on the line before it.
const WRAPPED: &[(&str, &str)] = &[
    ("fs::write(", "a crash leaves half a file: use orchestra-fs"),
    (
        "File::create(",
        "a crash leaves half a file: use orchestra-fs",
    ),
    (
        "NamedTempFile::",
        "the directory is not synced: use orchestra-fs",
    ),
    (
        "OpenOptions::new(",
        "a symbolic link is followed: use orchestra-fs",
    ),
    (
        "File::options(",
        "a symbolic link is followed: use orchestra-fs",
    ),
    (
        "Command::new(",
        "a bare child inherits everything and outlives us",
    ),
];

/// What waits for others for as long as they wait for something themselves: locks of the runtime.
/// They are there to make work single-flight, and whoever takes one says of which work in a comment
/// that holds `single-flight:` on the line before. Locks of the standard library are never held
/// across an `await`, which a lint of clippy sees to.
const ASYNC_LOCKS: [&str; 6] = [
    ".lock().await",
    ".lock_owned().await",
    ".read().await",
    ".read_owned().await",
    ".write().await",
    ".write_owned().await",
];

/// Finds faults in every file and fails with all of them at once.
fn check(files: &[File], fault: impl Fn(&File) -> Option<String>) {
    let mut faults = String::new();
    for file in files {
        if let Some(fault) = fault(file) {
            writeln!(faults, "{}: {fault}", file.path).unwrap();
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

/// Whether a program wrote the file.
fn is_generated(file: &File) -> bool {
    file.text.starts_with("// @generated")
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    check(&tree::rust_files(), |file| {
        let opens = file.text.starts_with("//!");
        (!opens && !is_generated(file)).then(|| "opens without `//!`".to_owned())
    });
}

#[test]
fn no_file_is_too_long() {
    check(&tree::rust_files(), |file| {
        let lines = file.code().len();
        let long = lines > SPLIT_AT && !file.is_test() && !is_generated(file);
        long.then(|| format!("{lines} lines without tests, split it"))
    });
}

#[test]
fn nothing_speaks_of_one_machine() {
    check(&tree::files(), |file| {
        let found = FORBIDDEN.iter().find(|word| file.text.contains(**word));
        found.map(|word| format!("holds {word}"))
    });
}

#[test]
fn lock_files_name_no_host() {
    let mut files = tree::files();
    files.retain(|file| file.path.ends_with("package-lock.json"));
    check(&files, |file| {
        let resolved = file.text.contains("\"resolved\"");
        resolved
            .then(|| "holds `resolved`: lock it with omit-lockfile-registry-resolved".to_owned())
    });
}

/// The code of programs and libraries, without that of tests.
fn sources() -> Vec<File> {
    let mut files = tree::rust_files();
    files.retain(|file| file.path.starts_with("crates/") && file.path.contains("/src/"));
    files.retain(|file| !file.is_test() && !file.path.contains("/fixtures/"));
    files
}

/// Whether the comment before a line holds a word.
fn comment_says(before: &[&str], word: &str) -> bool {
    let mut comment = before
        .iter()
        .rev()
        .take_while(|line| line.trim_start().starts_with("//"));
    comment.any(|line| line.contains(word))
}

#[test]
fn wrapped_calls_are_not_made_directly() {
    check(&sources(), |file| {
        let code = file.code();
        let mut lines = code.iter().enumerate();
        lines.find_map(|(number, line)| {
            let line = line.replace("orchestra_fs::", "");
            let (call, why) = WRAPPED.iter().find(|(call, _)| line.contains(call))?;
            let allowed = comment_says(&code[..number], "direct:");
            (!allowed).then(|| format!("line {}: {call}…): {why}", number + 1))
        })
    });
}

#[test]
fn a_lock_across_an_await_makes_work_single_flight_and_says_which() {
    check(&sources(), |file| {
        let code = file.code();
        let mut lines = code.iter().enumerate();
        lines.find_map(|(number, line)| {
            let call = ASYNC_LOCKS.iter().find(|call| line.contains(*call))?;
            let said = comment_says(&code[..number], "single-flight:");
            (!said).then(|| format!("line {}: {call} without `// single-flight: …`", number + 1))
        })
    });
}

#[test]
fn no_test_is_ignored() {
    let ignore = concat!("#[ig", "nore");
    let panic = concat!("#[should", "_panic");
    check(&tree::rust_files(), |file| {
        let found = [ignore, panic]
            .into_iter()
            .find(|word| file.text.contains(word));
        found.map(|word| format!("holds {word}"))
    });
}

#[test]
fn every_module_of_an_integration_test_is_declared() {
    let files = tree::rust_files();
    check(&files, |file| {
        let (directory, name) = file.path.rsplit_once('/')?;
        let module = name.strip_suffix(".rs").filter(|name| *name != "main")?;
        if !directory.ends_with("/tests/it") {
            return None;
        }
        let main = files
            .iter()
            .find(|file| file.path == format!("{directory}/main.rs"));
        let declared = main.is_some_and(|main| {
            let line = format!("mod {module};");
            main.text.lines().any(|found| found.trim().ends_with(&line))
        });
        (!declared).then(|| "is not declared in main.rs".to_owned())
    });
}

/// The directory of the book's pictures, and how large one may be: a clone has all of them.
const PICTURES: &str = "docs/pictures/";
const PICTURE_BYTES: usize = 150 * 1024;

/// A workspace that an earlier version left, for the tests that open it.
const EARLIER_WORKSPACE: &str = "crates/orchestra/tests/earlier/workspace.tar.gz";

/// What is executable is a script, and nothing but the book's pictures holds bytes that are no text.
#[test]
fn no_build_output_is_committed() {
    let output = Command::new("git")
        .current_dir(tree::root())
        .args(["ls-files", "--stage", "-z"])
        .output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        return; // Not a git checkout, for instance an unpacked archive.
    };
    let listed = String::from_utf8(output.stdout).unwrap();
    for entry in listed.split('\0').filter(|entry| !entry.is_empty()) {
        let (kind, path) = entry.split_once('\t').unwrap();
        let Ok(bytes) = fs::read(tree::root().join(path)) else {
            continue; // Removed, but not yet committed as such.
        };
        let executable = kind.starts_with("100755");
        assert!(!executable || bytes.starts_with(b"#!"), "{path}");
        if path.starts_with(PICTURES) && path.ends_with(".png") {
            assert!(bytes.starts_with(b"\x89PNG"), "{path} is no picture");
            assert!(
                bytes.len() <= PICTURE_BYTES,
                "{path}: {} bytes",
                bytes.len()
            );
            continue;
        }
        if path == EARLIER_WORKSPACE {
            assert!(bytes.starts_with(b"\x1f\x8b"), "{path} is no archive");
            assert!(
                bytes.len() <= PICTURE_BYTES,
                "{path}: {} bytes",
                bytes.len()
            );
            continue;
        }
        assert!(!bytes.contains(&0), "{path} is no text");
    }
}

//! Replacing, creating and reading files.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use orchestra_fs::{Access, Directory, Reason};

const LIMIT: u64 = 16;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names
}

#[test]
fn written_file_replaces_the_one_before_and_leaves_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    assert_eq!(orchestra_fs::read(&path, LIMIT).unwrap(), None);
    for content in [&b"one"[..], b"", b"three"] {
        orchestra_fs::write(&path, content, Access::Private).unwrap();
        assert_eq!(
            orchestra_fs::read(&path, LIMIT).unwrap().as_deref(),
            Some(content)
        );
    }
    assert_eq!(names(root.path()), ["file"]);
    assert!(orchestra_fs::remove(&path).unwrap());
    assert!(!orchestra_fs::remove(&path).unwrap());
}

#[test]
fn private_files_and_directories_are_for_their_owner() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("a/b");
    let directory = Directory::private(&deep).unwrap();
    directory.write("written", b"", Access::Private).unwrap();
    directory.append("appended", Access::Private).unwrap();
    directory.create_new("created", Access::Private).unwrap();
    orchestra_fs::open_or_create(&deep.join("locked"), Access::Private).unwrap();
    for name in names(&deep) {
        assert_eq!(mode(&deep.join(&name)), 0o600, "{name}");
    }
    assert_eq!((mode(&deep), mode(&root.path().join("a"))), (0o700, 0o700));
    fs::set_permissions(deep.join("written"), fs::Permissions::from_mode(0o644)).unwrap();
    directory.write("written", b"", Access::Private).unwrap();
    assert_eq!(mode(&deep.join("written")), 0o600);
}

#[test]
fn shared_file_retains_the_permissions_of_the_one_before() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    orchestra_fs::write(&path, b"", Access::Shared).unwrap();
    assert_eq!(mode(&path) & 0o111, 0);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    orchestra_fs::write(&path, b"", Access::Shared).unwrap();
    assert_eq!(mode(&path), 0o640);
    orchestra_fs::write(&path, b"", Access::Executable).unwrap();
    assert_eq!(mode(&path) & 0o700, 0o700);
}

#[test]
fn private_directory_loses_the_permission_of_others_to_write() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    Directory::private(&path).unwrap();
    assert_eq!(mode(&path), 0o755);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    orchestra_fs::make_private(&path).unwrap();
    assert_eq!(mode(&path), 0o755);
}

#[test]
fn failed_write_leaves_the_file_and_no_temporary_file() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    orchestra_fs::write(&path, b"before", Access::Shared).unwrap();
    let mut staged = orchestra_fs::stage(&path, Access::Shared).unwrap();
    staged.write_all(b"half").unwrap();
    drop(staged);
    fs::create_dir(root.path().join("directory")).unwrap();
    let directory = Directory::open(root.path()).unwrap();
    let refused = directory
        .write("directory", b"after", Access::Shared)
        .unwrap_err();
    assert!(matches!(refused.reason(), Reason::NotAFile), "{refused}");
    assert_eq!(names(root.path()), ["directory", "file"]);
    assert_eq!(fs::read(&path).unwrap(), b"before");
}

#[test]
fn new_file_is_published_once() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    for (content, is_new) in [(b"one", true), (b"two", false)] {
        let mut staged = orchestra_fs::stage(&path, Access::Private).unwrap();
        staged.write_all(content).unwrap();
        assert_eq!(staged.publish_new("file").unwrap(), is_new);
    }
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(names(root.path()), ["file"]);
    let taken = orchestra_fs::create_new(&path, Access::Private).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
}

#[test]
fn finished_file_is_published_in_place_of_another() {
    let root = tempfile::tempdir().unwrap();
    let (built, place) = (root.path().join("built"), root.path().join("place"));
    fs::write(&place, "before").unwrap();
    fs::write(&built, "after").unwrap();
    orchestra_fs::publish(&built, &place).unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"after");
    assert_eq!(names(root.path()), ["place"]);
}

#[test]
fn file_larger_than_the_limit_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    fs::write(&path, [b'x'; LIMIT as usize]).unwrap();
    assert!(orchestra_fs::read(&path, LIMIT).unwrap().is_some());
    let error = orchestra_fs::read(&path, LIMIT - 1).unwrap_err();
    let text = format!(
        "cannot read `{}`: it is larger than 15 bytes; remove it",
        path.display()
    );
    assert_eq!(error.to_string(), text);
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
}

#[test]
fn own_file_that_others_can_write_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    fs::write(&path, "").unwrap();
    for (mode, is_read) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let read = orchestra_fs::read_own(&path, LIMIT);
        assert_eq!(read.is_ok(), is_read, "{mode:o}");
    }
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let below = root.path().join("below");
    fs::create_dir(&below).unwrap();
    let directory = Directory::open(&below).unwrap();
    for name in ["../file", "..", ".", "", "a/b", "/tmp/file"] {
        let refusals = [
            directory.write(name, b"", Access::Shared).unwrap_err(),
            directory.read(name, LIMIT).unwrap_err(),
            directory.append(name, Access::Shared).unwrap_err(),
            directory.remove(name).unwrap_err(),
        ];
        for error in refusals {
            assert!(
                matches!(error.reason(), Reason::InvalidName),
                "{name:?}: {error}"
            );
        }
    }
    assert_eq!(names(root.path()), ["below"]);
    assert!(names(&below).is_empty());
}

#[test]
fn directory_that_is_moved_or_replaced_is_not_in_place() {
    let root = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (root.path().join("a"), root.path().join("b"));
    fs::create_dir(&path).unwrap();
    let directory = Directory::open(&path).unwrap();
    assert!(directory.is_in_place());
    fs::rename(&path, &elsewhere).unwrap();
    assert!(!directory.is_in_place());
    if cfg!(any(target_os = "linux", target_vendor = "apple")) {
        let now = directory.current_path().unwrap();
        assert_eq!(now, elsewhere.canonicalize().unwrap());
    }
    fs::create_dir(&path).unwrap();
    assert!(!directory.is_in_place());
    fs::remove_dir(&path).unwrap();
    fs::rename(&elsewhere, &path).unwrap();
    assert!(directory.is_in_place() && !directory.is_removed());
    fs::remove_dir(&path).unwrap();
    assert!(!directory.is_in_place() && directory.is_removed());
    assert_eq!(directory.current_path(), None);
}

#[test]
fn file_is_moved_in_place_of_another() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).unwrap();
    for name in ["a", "b"] {
        fs::write(root.path().join(name), name).unwrap();
    }
    assert_eq!(directory.entries().unwrap().len(), 2);
    assert!(directory.move_file("a", "b").unwrap());
    assert!(!directory.move_file("a", "b").unwrap());
    assert_eq!(directory.entries().unwrap(), ["b"]);
    assert_eq!(fs::read_to_string(root.path().join("b")).unwrap(), "a");
    let refused = directory.move_file("b", "../b").unwrap_err();
    assert!(matches!(refused.reason(), Reason::InvalidName));
}

#[test]
fn missing_directory_is_an_error_of_writing_alone() {
    let path = Path::new("/missing/file");
    assert_eq!(orchestra_fs::read(path, LIMIT).unwrap(), None);
    assert!(!orchestra_fs::remove(path).unwrap());
    let error = orchestra_fs::write(path, b"", Access::Private).unwrap_err();
    assert_eq!(error.to_string(), "cannot open `/missing`");
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(
        error.to_string(),
        "cannot open `/missing`: No such file or directory (os error 2)"
    );
}

#[test]
fn directory_that_all_users_share_is_not_claimed() {
    let parent = tempfile::tempdir().unwrap();
    let shared = parent.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let error = Directory::private(&shared).unwrap_err();
    assert!(error.to_string().contains("all users share it"), "{error}");
    let mode = fs::metadata(&shared).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777);
}

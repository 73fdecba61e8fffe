//! Symbolic links, pipes and directories in the place of files and directories.

use std::{fs, os::unix::fs::symlink, path::Path};

use orchestra_fs::{Access, Directory, Error, Lock, Reason};

const LIMIT: u64 = 16;

/// Results of every operation that opens or creates the file `name`, in a directory that contains the file `built`.
fn attempts(directory: &Path, name: &str) -> Vec<(&'static str, Result<(), Error>)> {
    let path = directory.join(name);
    let opened = Directory::open(directory).unwrap();
    let built = directory.join("built");
    fs::write(&built, "").unwrap();
    vec![
        ("read", orchestra_fs::read(&path, LIMIT).map(drop)),
        ("read_own", orchestra_fs::read_own(&path, LIMIT).map(drop)),
        ("open", orchestra_fs::open(&path).map(drop)),
        (
            "write",
            orchestra_fs::write(&path, b"evil", Access::Private),
        ),
        (
            "shared",
            orchestra_fs::write(&path, b"evil", Access::Shared),
        ),
        (
            "append",
            orchestra_fs::append(&path, Access::Private).map(drop),
        ),
        ("publish", orchestra_fs::publish(&built, &path)),
        ("publish from", opened.publish(name, "built")),
        (
            "open_or_create",
            orchestra_fs::open_or_create(&path, Access::Private).map(drop),
        ),
        ("is_locked", orchestra_fs::is_locked(&path).map(drop)),
        ("wait", Lock::wait(&path).map(drop)),
        ("share", Lock::share(&path).map(drop)),
        ("attempt", Lock::attempt(&path).map(drop)),
    ]
}

#[test]
fn link_in_the_place_of_a_file_is_refused() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (target, missing) = (
        outside.path().join("target"),
        outside.path().join("missing"),
    );
    fs::write(&target, "kept").unwrap();
    for to in [&target, &missing, &outside.path().to_owned()] {
        let link = root.path().join("link");
        symlink(to, &link).unwrap();
        for (operation, result) in attempts(root.path(), "link") {
            let error = result.expect_err(operation);
            assert!(
                matches!(error.reason(), Reason::SymbolicLink),
                "{operation}: {error}"
            );
            assert_eq!(error.path(), link, "{operation}");
            assert!(
                error.to_string().contains("is a symbolic link; remove it"),
                "{error}"
            );
        }
        let created = orchestra_fs::create_new(&link, Access::Private).unwrap_err();
        assert_eq!(created.kind(), std::io::ErrorKind::AlreadyExists);
        assert!(orchestra_fs::remove(&link).unwrap());
    }
    assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    assert!(!missing.exists());
}

#[test]
fn pipe_or_directory_in_the_place_of_a_file_is_refused_without_waiting() {
    let root = tempfile::tempdir().unwrap();
    let mode = rustix::fs::Mode::from_bits_truncate(0o600);
    let pipe = root.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::create_dir(root.path().join("directory")).unwrap();
    for name in ["pipe", "directory"] {
        for (operation, result) in attempts(root.path(), name) {
            let error = result.expect_err(operation);
            assert!(
                matches!(error.reason(), Reason::NotAFile),
                "{operation} {name}: {error}"
            );
        }
    }
}

#[test]
fn link_in_the_place_of_a_directory_is_refused_below_a_root() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(outside.path(), root.path().join("link")).unwrap();
    fs::write(root.path().join("file"), "").unwrap();
    let directory = Directory::open(root.path()).unwrap();
    for relative in ["link", "link/below"] {
        let relative = Path::new(relative);
        for access in [Access::Private, Access::Shared] {
            let error = directory.make_below(relative, access).unwrap_err();
            assert!(matches!(error.reason(), Reason::SymbolicLink), "{error}");
            assert_eq!(error.path(), root.path().join("link"));
        }
        let error = directory.below(relative).unwrap_err();
        assert!(matches!(error.reason(), Reason::SymbolicLink), "{error}");
    }
    let error = orchestra_fs::make_private(&root.path().join("link")).unwrap_err();
    assert!(matches!(error.reason(), Reason::SymbolicLink), "{error}");
    let error = directory.below(Path::new("file")).unwrap_err();
    assert!(matches!(error.reason(), Reason::NotADirectory), "{error}");
    for relative in ["..", "../elsewhere", "/tmp"] {
        let error = directory
            .make_below(Path::new(relative), Access::Shared)
            .unwrap_err();
        assert!(matches!(error.reason(), Reason::InvalidName), "{error}");
    }
    assert!(
        directory
            .below(Path::new("missing/below"))
            .unwrap()
            .is_none()
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn open_directory_is_not_left_when_a_link_takes_its_place() {
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let run = root.path().join("run");
    fs::create_dir(&run).unwrap();
    let directory = Directory::open(&run).unwrap();
    fs::rename(&run, root.path().join("moved")).unwrap();
    symlink(outside.path(), &run).unwrap();
    directory
        .write("file", b"content", Access::Private)
        .unwrap();
    assert_eq!(
        fs::read(root.path().join("moved/file")).unwrap(),
        b"content"
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

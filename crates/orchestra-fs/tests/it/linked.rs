//! Files of the user's home that are symbolic links.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use orchestra_fs::{Reason, own_target};

#[test]
fn link_to_a_file_of_the_user_leads_to_that_file() {
    let root = tempfile::tempdir().unwrap();
    let home = root.path().canonicalize().unwrap();
    let (dotfiles, workspace) = (home.join("dotfiles"), home.join("workspace"));
    fs::create_dir(&dotfiles).unwrap();
    fs::create_dir(&workspace).unwrap();
    let (link, target) = (home.join("settings.json"), dotfiles.join("settings.json"));
    assert_eq!(
        own_target(&link, &workspace).unwrap(),
        link,
        "a missing file"
    );
    symlink("dotfiles/settings.json", &link).unwrap();
    let error = own_target(&link, &workspace).unwrap_err();
    assert!(matches!(error.reason(), Reason::System(_)), "{error}");
    fs::write(&target, "").unwrap();
    assert_eq!(own_target(&link, &workspace).unwrap(), target);
    assert_eq!(
        own_target(&target, &workspace).unwrap(),
        target,
        "a regular file"
    );
    let error = own_target(&link, &dotfiles).unwrap_err();
    assert!(matches!(error.reason(), Reason::InsideWorkspace), "{error}");
    for path in [&target, &dotfiles] {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = own_target(&link, &workspace).unwrap_err();
        assert!(
            matches!(error.reason(), Reason::WritableByOthers),
            "{error}"
        );
        fs::set_permissions(path, before).unwrap();
    }
    fs::remove_file(&target).unwrap();
    fs::create_dir(&target).unwrap();
    let error = own_target(&link, &workspace).unwrap_err();
    assert!(matches!(error.reason(), Reason::NotAFile), "{error}");
}

#[test]
fn link_to_a_file_of_another_user_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let link = root.path().join("settings.json");
    // A file that every system has, and that root does not own in the tests of an ordinary user.
    symlink("/etc/passwd", &link).unwrap();
    let own = fs::metadata("/etc/passwd").unwrap();
    let is_own = std::os::unix::fs::MetadataExt::uid(&own) == rustix::process::geteuid().as_raw();
    let result = own_target(&link, root.path());
    match result {
        Ok(_) => assert!(is_own),
        Err(error) => assert!(matches!(error.reason(), Reason::AnotherOwner), "{error}"),
    }
}

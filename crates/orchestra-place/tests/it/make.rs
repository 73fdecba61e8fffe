//! Creation of the directories.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

use orchestra_place::{Choice, Place, PlaceError};

use crate::support::Root;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn created_directories_are_for_their_owner_alone() {
    let root = Root::new();
    let main = root.repository("main");
    for choice in [Choice::Repository, Choice::State] {
        let state = root.path.join("new/state");
        let place = Place::find(&main, Some(&state), choice).unwrap();
        let made = place.make_shared("plans").unwrap();
        assert_eq!(made.path(), place.shared().join("plans"));
        let above = place.shared().parent().unwrap();
        for path in [made.path(), place.shared(), above] {
            assert_eq!(mode(path), 0o700, "{path:?}");
        }
        place.make_shared("plans").unwrap();
        place.make_own("run").unwrap();
    }
}

#[test]
fn directory_that_others_may_write_is_protected() {
    let root = Root::new();
    let place = root.find(&root.repository("main")).unwrap();
    fs::create_dir_all(place.shared()).unwrap();
    fs::set_permissions(place.shared(), fs::Permissions::from_mode(0o777)).unwrap();
    place.make_shared("plans").unwrap();
    assert_eq!(mode(place.shared()) & 0o022, 0);
}

#[test]
fn links_in_the_place_are_refused() {
    let root = Root::new();
    let main = root.repository("main");
    let outside = root.path.join("outside");
    fs::create_dir_all(outside.join("_/plans")).unwrap();
    let place = root.find(&main).unwrap();
    for link in [".orchestra", ".orchestra/_", ".orchestra/_/plans"] {
        let link = main.join(".git").join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&outside, &link).unwrap();
        let made = place.make_shared("plans").map(drop);
        for refused in [made, place.open_own("plans").map(drop)] {
            let error = refused.unwrap_err();
            assert!(matches!(error, PlaceError::Unusable { .. }), "{error}");
            assert!(error.to_string().contains("place = \"state\""), "{error}");
        }
        fs::remove_file(&link).unwrap();
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    place.make_shared("plans").unwrap();
}

#[test]
fn directory_of_another_user_is_refused_and_a_missing_one_is_not() {
    let root = Root::new();
    let place = root.find(&root.repository("main")).unwrap();
    assert!(place.open_own("plans").unwrap().is_none());
    place.make_own("plans").unwrap();
    assert!(place.open_own("plans").unwrap().is_some());
    let other = fs::metadata(place.own()).unwrap().uid() + 1;
    // Only root can give a directory away.
    if std::os::unix::fs::chown(place.own(), Some(other), None).is_ok() {
        let error = place.open_own("plans").unwrap_err();
        assert!(matches!(error, PlaceError::Unusable { .. }), "{error}");
    }
}

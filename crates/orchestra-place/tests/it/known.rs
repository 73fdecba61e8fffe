//! The list of known databases.

use std::{collections::BTreeMap, fs, path::Path};

use orchestra_place::{DatabaseId, KnownDatabases, ListError};

use crate::support::Root;

#[test]
fn list_of_a_directory_that_is_recreated_again_and_again_does_not_grow() {
    let root = Root::new();
    let list = KnownDatabases::new(&root.state());
    let storage = root.path.join("board");
    let next: BTreeMap<_, _> = (0..100)
        .map(|project| (format!("project-{project}"), [9, 9, 9]))
        .collect();
    let mut sizes = Vec::new();
    for number in 0..8 {
        fs::create_dir(&storage).unwrap();
        let id = DatabaseId::random().unwrap();
        let recorded = list.change(|list| {
            list.record(id, &storage, &root.path)?;
            list.raise_next(id, &next);
            Ok(())
        });
        recorded.unwrap();
        assert_eq!(list.read().unwrap().next_at(&storage).unwrap(), next);
        // Kept beside, so that its inode is not used again.
        fs::rename(&storage, root.path.join(format!("former-{number}"))).unwrap();
        sizes.push(fs::metadata(root.state().join("plans.json")).unwrap().len());
    }
    assert!(sizes[7] < sizes[0] * 2, "{sizes:?}");
}

#[test]
fn list_that_would_be_too_large_to_read_is_not_written() {
    let root = Root::new();
    let list = KnownDatabases::new(&root.state());
    let id = DatabaseId::random().unwrap();
    list.change(|list| list.record(id, &root.path, &root.path))
        .unwrap();
    let next: BTreeMap<_, _> = (0..100_000)
        .map(|project| (format!("project-{project}-{}", "x".repeat(80)), [9, 9, 9]))
        .collect();
    let refused = list.change(|list| {
        list.raise_next(id, &next);
        Ok(())
    });
    assert!(
        matches!(refused, Err(ListError::TooLarge(_))),
        "{refused:?}"
    );
    assert!(list.read().unwrap().has_place(&root.path));
}

#[test]
fn databases_of_a_moved_workspace_are_found_until_they_are_forgotten() {
    let root = Root::new();
    let list = KnownDatabases::new(&root.state());
    let [storage, workspace, moved] =
        ["storage", "workspace", "moved"].map(|name| root.path.join(name));
    for directory in [&storage, &workspace] {
        fs::create_dir(directory).unwrap();
    }
    let id = DatabaseId::random().unwrap();
    list.change(|list| list.record(id, &storage, &workspace))
        .unwrap();
    let found = |workspace: &Path| list.read().unwrap().before_move(workspace).unwrap();
    assert!(found(&workspace).is_empty());
    fs::rename(&workspace, &moved).unwrap();
    assert_eq!(found(&moved), [storage.canonicalize().unwrap()]);
    // The directory that is at its path now may be another user of the list.
    fs::create_dir(&workspace).unwrap();
    assert!(found(&workspace).is_empty());
    list.change(|list| list.forget(&storage)).unwrap();
    fs::remove_dir(&workspace).unwrap();
    assert!(found(&moved).is_empty());
}

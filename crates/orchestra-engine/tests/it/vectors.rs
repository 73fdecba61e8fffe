//! Vectors: kept over a restart, and begun anew whatever became of their file.

use std::fs;
use std::path::{Path, PathBuf};

use orchestra_engine::model::ModelId;
use orchestra_engine::vectors::{NewVector, TextHash, Vectors, Within};
use orchestra_memory::engine::remove_other_vectors;

use crate::tiny::model;

fn put(vectors: &Vectors, rows: std::ops::Range<i64>) {
    let numbers: Vec<Vec<f32>> = rows.clone().map(|row| direction(row).to_vec()).collect();
    let new: Vec<NewVector<'_>> = rows
        .zip(&numbers)
        .map(|(row, numbers)| NewVector {
            row,
            hash: TextHash::of(&row.to_string()),
            numbers,
        })
        .collect();
    vectors.put(&new);
}

/// Rows near each other point to near directions.
fn direction(row: i64) -> [f32; 3] {
    let angle = row as f32 / 50.0;
    [angle.cos(), angle.sin(), 0.1]
}

fn rows(vectors: &Vectors, row: i64, wanted: usize, within: &Within<'_>) -> Vec<i64> {
    let near = vectors.near(&direction(row), wanted, within);
    near.iter().map(|near| near.row).collect()
}

fn id() -> ModelId {
    model().id().clone()
}

fn file(directory: &Path) -> PathBuf {
    directory.join(format!("vectors-{}.db", id()))
}

#[test]
fn they_are_there_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let vectors = Vectors::open(directory.path(), &id(), 3);
    assert!(vectors.is_empty());
    put(&vectors, 0..300);
    vectors.remove(&[7, 8, 1_000]);
    put(&vectors, 9..10);
    let before = vectors.near(&direction(50), 10, &Within::default());
    drop(vectors);
    let vectors = Vectors::open(directory.path(), &id(), 3);
    assert_eq!(vectors.len(), 298);
    assert_eq!(vectors.near(&direction(50), 10, &Within::default()), before);
    assert_eq!(vectors.hash(9), Some(TextHash::of("9")));
    assert_eq!(vectors.hash(7), None);
}

#[test]
fn only_what_is_searched_is_found() {
    let vectors = Vectors::in_memory(&id(), 3);
    put(&vectors, 0..300);
    assert_eq!(
        rows(&vectors, 100, 0, &Within::default()),
        Vec::<i64>::new()
    );
    assert_eq!(rows(&vectors, 100, 1, &Within::default()), [100]);
    let project = Within::rows(200..=250);
    let found = rows(&vectors, 100, 1_000, &project);
    assert_eq!(found.len(), 51);
    assert_eq!(vectors.count(&project.rows), 51);
    assert_eq!(found[0], 200);
    let odd = Within {
        rows: 0..=i64::MAX,
        keep: &|row| row % 2 == 1,
    };
    let found = rows(&vectors, 100, 4, &odd);
    assert_eq!(found.len(), 4);
    assert!(
        found
            .iter()
            .all(|row| row % 2 == 1 && (97..=103).contains(row)),
        "{found:?}"
    );
    assert!(vectors.near(&[0.0; 3], 5, &Within::default()).is_empty());
    assert!(vectors.near(&[1.0; 2], 5, &Within::default()).is_empty());
    assert!(
        vectors
            .near(&[f32::NAN; 3], 5, &Within::default())
            .is_empty()
    );
}

/// Damages the file of 300 vectors, opens them again, and says how many are still there. Whatever
/// happened, they work, and are whole after the next start.
#[track_caller]
fn survivors(damage: impl FnOnce(&Path)) -> usize {
    let directory = tempfile::tempdir().expect("a directory");
    let vectors = Vectors::open(directory.path(), &id(), 3);
    put(&vectors, 0..300);
    drop(vectors);
    let path = file(directory.path());
    assert!(path.is_file());
    damage(&path);
    let vectors = Vectors::open(directory.path(), &id(), 3);
    let left = vectors.len();
    put(&vectors, 0..300);
    assert_eq!(rows(&vectors, 100, 1, &Within::default()), [100]);
    drop(vectors);
    let vectors = Vectors::open(directory.path(), &id(), 3);
    assert_eq!(vectors.len(), 300);
    assert_eq!(rows(&vectors, 100, 1, &Within::default()), [100]);
    left
}

#[test]
fn a_damaged_file_is_begun_anew() {
    assert_eq!(survivors(|_| {}), 300);
    assert_eq!(survivors(|path| fs::remove_file(path).expect("removed")), 0);
    assert_eq!(survivors(|path| fs::write(path, b"").expect("written")), 0);
    assert_eq!(
        survivors(|path| fs::write(path, [b'x'; 9_000]).expect("written")),
        0
    );
    assert_eq!(
        survivors(|path| {
            let file = fs::OpenOptions::new()
                .write(true)
                .open(path)
                .expect("a file");
            let length = file.metadata().expect("its length").len();
            file.set_len(length / 2).expect("it is cut");
        }),
        0
    );
    assert_eq!(
        survivors(|path| {
            fs::remove_file(path).expect("removed");
            fs::write(path.with_extension("real"), b"").expect("written");
            #[cfg(unix)]
            std::os::unix::fs::symlink(path.with_extension("real"), path).expect("a link");
        }),
        0
    );
}

#[test]
fn a_byte_that_was_changed_costs_one_vector() {
    let left = survivors(|path| {
        let connection = rusqlite::Connection::open(path).expect("a database");
        let body = connection.execute(
            "UPDATE vector SET body = substr(body, 1, 5) || x'55' || substr(body, 7) WHERE row = 100",
            [],
        );
        assert_eq!(body.expect("it is changed"), 1);
        let kind = connection.execute("UPDATE vector SET hash = 'text' WHERE row = 101", []);
        assert_eq!(kind.expect("it is changed"), 1);
    });
    assert_eq!(left, 298);
}

#[test]
fn those_of_another_format_model_or_length_are_not_read() {
    for change in [
        "PRAGMA user_version = 2",
        "PRAGMA application_id = 1",
        "UPDATE model SET id = 'other'",
        "UPDATE model SET dimensions = 4",
        "DROP TABLE vector",
        "DELETE FROM model",
    ] {
        let left = survivors(|path| {
            let connection = rusqlite::Connection::open(path).expect("a database");
            connection.execute_batch(change).expect("it is changed");
        });
        assert_eq!(left, 0, "{change}");
    }
}

#[test]
fn a_file_that_goes_while_it_is_used_is_written_whole_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let vectors = Vectors::open(directory.path(), &id(), 3);
    put(&vectors, 0..300);
    for end in ["", "-wal"] {
        let mut path = file(directory.path()).into_os_string();
        path.push(end);
        fs::remove_file(path).expect("it is removed");
    }
    assert_eq!(rows(&vectors, 100, 1, &Within::default()), [100]);
    put(&vectors, 300..301);
    drop(vectors);
    let vectors = Vectors::open(directory.path(), &id(), 3);
    assert_eq!(vectors.len(), 301);
}

#[test]
fn where_nothing_can_be_kept_memory_serves() {
    let directory = tempfile::tempdir().expect("a directory");
    let nowhere = directory.path().join("file");
    fs::write(&nowhere, b"").expect("written");
    let vectors = Vectors::open(&nowhere, &id(), 3);
    put(&vectors, 0..300);
    assert_eq!(rows(&vectors, 100, 1, &Within::default()), [100]);
}

#[test]
fn a_second_process_leaves_the_file_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Vectors::open(directory.path(), &id(), 3);
    put(&first, 0..300);
    let second = Vectors::open(directory.path(), &id(), 3);
    assert!(second.is_empty());
    put(&second, 500..510);
    assert_eq!(second.len(), 10);
    put(&first, 300..301);
    drop((first, second));
    let vectors = Vectors::open(directory.path(), &id(), 3);
    assert_eq!(vectors.len(), 301);
}

#[test]
fn files_of_other_models_are_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let other: ModelId = "0123456789abcdef0123456789abcdef".parse().expect("an id");
    for id in [&id(), &other] {
        put(&Vectors::open(directory.path(), id, 3), 0..3);
    }
    let mine = directory.path().join("vectors-mine.db");
    fs::write(&mine, b"").expect("written");
    remove_other_vectors(directory.path(), Some(&id()));
    assert!(mine.is_file() && file(directory.path()).is_file());
    assert!(
        !directory
            .path()
            .join(format!("vectors-{other}.db"))
            .exists()
    );
}

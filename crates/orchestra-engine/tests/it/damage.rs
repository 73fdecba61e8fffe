//! What happens to files while they are used: they are damaged, cut, and there is no room for them.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use orchestra_engine::vectors::{NewVector, TextHash, Vectors, Within};
use rusqlite::Connection;
use tonic::Code;

use crate::mount::Mount;
use crate::served::{Served, query, text};
use crate::tiny::model;

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_room_says_so_and_works_again_with_room() {
    let Some(mount) = Mount::tmpfs(6) else { return };
    let served = Served::start_in(mount.0.path(), None).await;
    let mut client = served.ours().await;
    let mut stored = 0;
    let refused = loop {
        let content = format!("needle n{stored}x {}", "hay and straw ".repeat(3_000));
        match client.store_chunk(text("needle", &content)).await {
            Ok(_) => stored += 1,
            Err(refused) => break refused,
        }
        assert!(stored < 1_000, "6 MiB are never full");
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("free some space"), "{refused}");
    // It is searched as before.
    let found = client.search_memory(query("n0x")).await.expect("searched");
    assert_eq!(found.into_inner().results.len(), 1);
    mount.remount("size=64m");
    client
        .store_chunk(text("needle", "room again"))
        .await
        .expect("there is room");
    for number in 0..stored {
        let found = client.search_memory(query(&format!("n{number}x"))).await;
        assert_eq!(found.expect("searched").into_inner().results.len(), 1);
    }
    served.end().await;
}

fn put(vectors: &Vectors, rows: std::ops::Range<i64>) {
    let rows: Vec<i64> = rows.collect();
    let numbers: Vec<[f32; 3]> = rows.iter().map(|row| direction(*row)).collect();
    let new: Vec<NewVector<'_>> = rows
        .iter()
        .zip(&numbers)
        .map(|(row, numbers)| NewVector {
            row: *row,
            hash: TextHash::of(&row.to_string()),
            numbers,
        })
        .collect();
    vectors.put(&new);
}

fn angle(row: i64) -> f32 {
    row as f32 / 15_000.0
}

/// Each row points elsewhere.
fn direction(row: i64) -> [f32; 3] {
    [angle(row).cos(), angle(row).sin(), 0.1]
}

/// Whether a row is found, or one of those beside it: what is kept of a vector is rounded.
#[track_caller]
fn nearest_is(vectors: &Vectors, row: i64) {
    let near = vectors.near(&direction(row), 1, &Within::default());
    let found = near.first().expect("something is near").row;
    assert!((angle(found) - angle(row)).abs() < 0.01, "{found}");
}

fn open(directory: &Path) -> Vectors {
    Vectors::open(directory, model().id(), 3)
}

fn file(directory: &Path) -> PathBuf {
    directory.join(format!("vectors-{}.db", model().id()))
}

/// Damages the file while it is used. All is found all the same, and the next to open it has those
/// that it can trust, and works.
#[track_caller]
fn survives(what: &str, damage: impl FnOnce(&Path)) {
    let directory = tempfile::tempdir().expect("a directory");
    let vectors = open(directory.path());
    put(&vectors, 0..3_000);
    damage(&file(directory.path()));
    nearest_is(&vectors, 1_234);
    put(&vectors, 3_000..3_100);
    put(&vectors, 3_100..3_200);
    vectors.remove(&[7]);
    for row in [0, 1_234, 3_050, 3_199] {
        nearest_is(&vectors, row);
    }
    assert_eq!(vectors.len(), 3_199, "{what}");
    drop(vectors);
    let vectors = open(directory.path());
    assert!(vectors.len() <= 3_199, "{what}");
    for row in vectors.rows(0..=4_000).into_iter().step_by(50) {
        nearest_is(&vectors, row);
    }
    // What is missing is made again.
    put(&vectors, 0..3_200);
    drop(vectors);
    let vectors = open(directory.path());
    assert_eq!(vectors.len(), 3_200, "{what}");
    nearest_is(&vectors, 1_234);
}

#[test]
fn vectors_whose_file_is_damaged_while_it_is_used_are_found() {
    survives("nothing", |_| {});
    survives("noise in the middle", |path| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(path)
            .expect("a file");
        let length = file.metadata().expect("its length").len();
        for at in (0..length).step_by(4_096 * 3) {
            file.write_all_at(&[0x5a; 700], at).expect("written");
        }
    });
    survives("cut in the middle", |path| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(path)
            .expect("a file");
        let length = file.metadata().expect("its length").len();
        file.set_len(length / 2).expect("it is cut");
    });
    survives("emptied", |path| fs::write(path, b"").expect("written"));
    survives("deleted", |path| fs::remove_file(path).expect("removed"));
    survives("another one", |path| {
        fs::remove_file(path).expect("removed");
        let other = Connection::open(path).expect("a database");
        other
            .execute_batch("CREATE TABLE vector (row INTEGER PRIMARY KEY)")
            .expect("made");
    });
    survives("without its table", |path| {
        let other = Connection::open(path).expect("a database");
        // Whoever has it open may keep others out, which is as well.
        let _ = other.execute_batch("DROP TABLE vector");
    });
}

#[test]
fn vectors_for_which_there_is_no_room_are_found() {
    let Some(mount) = Mount::tmpfs(1) else { return };
    let vectors = open(mount.0.path());
    for begin in (0..40_000).step_by(1_000) {
        put(&vectors, begin..begin + 1_000);
    }
    assert_eq!(vectors.len(), 40_000);
    nearest_is(&vectors, 1_234);
    drop(vectors);
    mount.remount("size=64m");
    let vectors = open(mount.0.path());
    put(&vectors, 0..5_000);
    drop(vectors);
    let vectors = open(mount.0.path());
    assert!(vectors.len() >= 5_000, "{}", vectors.len());
    nearest_is(&vectors, 1_234);
}

//! Locks between processes, which open files of one process are as well.

use std::{fs, sync::mpsc, thread, time::Duration};

use orchestra_fs::{Lock, is_locked, is_shared};

#[test]
fn lock_is_held_by_one_at_a_time() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    assert!(!is_locked(&path).unwrap(), "a look creates nothing");
    assert!(!path.exists());
    let lock = Lock::wait(&path).unwrap();
    assert!(is_locked(&path).unwrap());
    assert!(Lock::attempt(&path).unwrap().is_none());
    assert!(Lock::wait_for(&path, Duration::ZERO).unwrap().is_none());
    drop(lock);
    assert!(!is_locked(&path).unwrap());
    assert!(Lock::wait_for(&path, Duration::ZERO).unwrap().is_some());
}

#[test]
fn shared_lock_excludes_exclusive_ones() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    let (first, second) = (Lock::share(&path).unwrap(), Lock::share(&path).unwrap());
    assert!(is_shared(&path).unwrap() && !is_locked(&path).unwrap());
    drop(first);
    assert!(Lock::attempt(&path).unwrap().is_none());
    drop(second);
    assert!(!is_shared(&path).unwrap());
    assert!(Lock::attempt(&path).unwrap().is_some());
}

/// As by another process that calls `is_shared`.
#[test]
fn lock_that_is_held_alone_for_a_moment_is_not_shared() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    for round in 0..50 {
        let lock = Lock::wait(&path).unwrap();
        let (sender, receiver) = mpsc::channel();
        let is_shared = thread::scope(|scope| {
            let looking = scope.spawn(|| {
                sender.send(()).unwrap();
                is_shared(&path).unwrap()
            });
            receiver.recv().unwrap();
            drop(lock);
            looking.join().unwrap()
        });
        assert!(!is_shared, "{round}");
    }
}

#[test]
fn replaced_lock_file_is_no_longer_current() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run/lock");
    fs::create_dir(root.path().join("run")).unwrap();
    let lock = Lock::wait(&path).unwrap();
    assert!(lock.is_current());
    fs::rename(&path, root.path().join("run/old")).unwrap();
    assert!(!lock.is_current());
    let another = Lock::attempt(&path).unwrap().expect("another file");
    assert!(another.is_current() && !lock.is_current());
    fs::remove_dir_all(root.path().join("run")).unwrap();
    assert!(!another.is_current());
}

/// The file that a waiting thread has open is removed before the lock is released.
#[test]
fn waiting_thread_locks_the_file_that_has_the_name_then() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    let first = Lock::wait(&path).unwrap();
    let (sender, receiver) = mpsc::channel();
    let waiting = thread::spawn({
        let path = path.clone();
        move || {
            sender.send(()).unwrap();
            Lock::wait(&path).unwrap()
        }
    });
    receiver.recv().unwrap();
    fs::remove_file(&path).unwrap();
    drop(first);
    let second = waiting.join().unwrap();
    assert!(second.is_current());
    assert!(Lock::attempt(&path).unwrap().is_none());
}

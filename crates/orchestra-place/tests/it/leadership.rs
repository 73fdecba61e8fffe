//! Leader election between processes.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use orchestra_fs::Directory;
use orchestra_place::{Choice, Election, Leader, Place, PlaceError, RunDirectory};

const ELECTION: Election = Election::new("test.lock", "test.json");

/// Directory in which a child of this test program leads.
const LED: &str = "ORCHESTRA_TEST_LED";

/// Starts a process that leads in a directory, and waits until it has published its process id.
fn leading(directory: &Path) -> Child {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "leadership::lead_as_a_child", "--nocapture"])
        .env(LED, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.ends_with("published\n") {
        assert_ne!(output.read_line(&mut text).unwrap(), 0, "{text}");
    }
    // The child still writes to it when it ends.
    child.stdout = Some(output.into_inner());
    child
}

/// Does nothing unless this process is a child.
#[test]
fn lead_as_a_child() {
    let Some(directory) = env::var_os(LED) else {
        return;
    };
    let directory = Directory::open(directory.as_ref()).unwrap();
    let leadership = ELECTION.lead(&directory).unwrap().unwrap();
    leadership.publish(&std::process::id()).unwrap();
    println!("published");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    leadership.withdraw().unwrap();
}

fn leader(directory: &Directory) -> Leader<u32> {
    ELECTION.leader(directory).unwrap()
}

#[test]
fn killed_leader_leaves_a_stale_endpoint_that_the_next_leader_removes() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).unwrap();
    let mut child = leading(root.path());
    assert!(ELECTION.lead(&directory).unwrap().is_none());
    assert_eq!(leader(&directory), Leader::Published(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    let endpoint = root.path().join("test.json");
    assert!(endpoint.exists());
    assert_eq!(leader(&directory), Leader::None);
    let leadership = ELECTION.lead(&directory).unwrap().unwrap();
    assert!(leadership.is_current() && !endpoint.exists());
    assert_eq!(leader(&directory), Leader::Silent);
}

#[test]
fn leader_that_ends_removes_its_endpoint() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).unwrap();
    let mut child = leading(root.path());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(!root.path().join("test.json").exists());
    assert_eq!(leader(&directory), Leader::None);
}

#[test]
fn lost_leadership_leaves_the_files_to_the_next_leader() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run");
    fs::create_dir(&path).unwrap();
    let first = ELECTION.lead(&Directory::open(&path).unwrap());
    let first = first.unwrap().unwrap();
    fs::remove_dir_all(&path).unwrap();
    assert!(!first.is_current());
    fs::create_dir(&path).unwrap();
    let mut child = leading(&path);
    first.publish(&0).unwrap();
    first.withdraw().unwrap();
    assert!(!first.is_current());
    let directory = Directory::open(&path).unwrap();
    assert_eq!(leader(&directory), Leader::Published(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn looks_keep_no_candidate_from_leading() {
    let root = tempfile::tempdir().unwrap();
    let is_over = AtomicBool::new(false);
    let open = || Directory::open(root.path()).unwrap();
    let look = || {
        while !is_over.load(Ordering::Relaxed) {
            leader(&open());
        }
    };
    let led = thread::scope(|scope| {
        scope.spawn(look);
        scope.spawn(look);
        let led = (0..200).filter(|_| ELECTION.lead(&open()).unwrap().is_some());
        let led = led.count();
        is_over.store(true, Ordering::Relaxed);
        led
    });
    assert_eq!(led, 200);
}

#[test]
fn links_in_the_place_of_files_are_refused_or_replaced_and_never_followed() {
    let root = tempfile::tempdir().unwrap();
    let (path, outside) = (root.path().join("run"), root.path().join("outside"));
    fs::create_dir(&path).unwrap();
    let directory = Directory::open(&path).unwrap();
    let lock = path.join("test.lock");
    symlink(&outside, &lock).unwrap();
    assert_eq!(ELECTION.lead(&directory).unwrap_err().path(), lock);
    assert!(ELECTION.is_led(&directory).is_err());
    fs::remove_file(&lock).unwrap();
    let endpoint = path.join("test.json");
    symlink(&outside, &endpoint).unwrap();
    let leadership = ELECTION.lead(&directory).unwrap().unwrap();
    assert!(endpoint.symlink_metadata().is_err(), "a stale link");
    symlink(&outside, &endpoint).unwrap();
    assert!(leadership.publish(&1).is_err());
    assert!(ELECTION.leader::<u32>(&directory).is_err());
    assert!(!outside.exists());
}

#[test]
fn endpoint_is_for_its_user_alone_and_read_only_from_a_private_run_directory() {
    let root = tempfile::tempdir().unwrap();
    let place = Place::find(root.path(), Some(&root.path().join("state")), Choice::State);
    let run = RunDirectory::new(place.unwrap());
    assert_eq!(run.leader::<u32>(ELECTION).unwrap(), Leader::None);
    assert!(!run.path().exists(), "a look creates nothing");
    let leadership = ELECTION.lead(&run.make().unwrap()).unwrap().unwrap();
    leadership.publish(&7).unwrap();
    assert_eq!(run.leader(ELECTION).unwrap(), Leader::Published(7));
    let endpoint = run.path().join("test.json");
    let mode = endpoint.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&endpoint, 0o620);
    let refused = run.leader::<u32>(ELECTION);
    assert!(matches!(refused, Err(PlaceError::File(error)) if error.path() == endpoint));
    set(&endpoint, 0o600);
    set(run.path(), 0o755);
    let refused = run.leader::<u32>(ELECTION);
    assert!(matches!(refused, Err(PlaceError::NotPrivate(_))));
    drop(leadership);
    assert_eq!(run.leader::<u32>(ELECTION).unwrap(), Leader::None);
}

#[test]
fn leader_is_identified_by_its_lock_file() {
    let root = tempfile::tempdir().unwrap();
    let directory = Directory::open(root.path()).unwrap();
    let mut leadership = ELECTION.lead(&directory).unwrap().unwrap();
    assert_eq!(ELECTION.identity::<u32>(&directory).unwrap(), None);
    for process in [123_456, 7] {
        leadership.identify(&process).unwrap();
        assert_eq!(ELECTION.identity(&directory).unwrap(), Some(process));
    }
    assert!(leadership.is_current());
    let without = Election::without_endpoint("other.lock");
    let leadership = without.lead(&directory).unwrap().unwrap();
    leadership.publish(&1).unwrap();
    leadership.withdraw().unwrap();
    assert_eq!(without.leader::<u32>(&directory).unwrap(), Leader::Silent);
}

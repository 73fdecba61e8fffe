//! What children may take and reach. One child for each limit.

#![cfg(target_os = "linux")]

use std::{collections::BTreeMap, path::Path, time::Duration};

use orchestra_process::{
    CHILD_COMMAND, Certainty, Command, Exit, Launcher, Limit, Limits, Sandbox,
};

use crate::program::{command, path, run};

/// Interpreter that a sandbox can reach.
const PYTHON: &str = "/usr/bin/python3";

/// Makes system calls, each given as its number and its arguments, and prints the error number of each.
const CALLS: &str = "
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for call in sys.argv[1:]:
    ctypes.set_errno(0)
    libc.syscall(*(ctypes.c_long(int(word)) for word in call.split(',')))
    print(ctypes.get_errno())
";

/// Makes calls on another process that change nothing in it if they succeed, and prints the error number of each.
const REACH: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid, getfd, send, move, kcmp = (int(word) for word in sys.argv[1:])
class Vector(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
piece = ctypes.create_string_buffer(8)
vector = Vector(ctypes.cast(piece, ctypes.c_void_p), 8)
pidfd = os.pidfd_open(pid)
def call(name, function, *words):
    ctypes.set_errno(0)
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in words]
    result = function(*words)
    print(name, ctypes.get_errno() if result == -1 else 0)
pointer = ctypes.byref(vector)
call('process_vm_readv', libc.process_vm_readv, pid, pointer, 1, pointer, 1, 0)
call('process_vm_writev', libc.process_vm_writev, pid, pointer, 1, pointer, 1, 0)
call('pidfd_getfd', libc.syscall, getfd, pidfd, 0, 0)
call('pidfd_send_signal', libc.syscall, send, pidfd, 0, 0, 0)
call('ptrace', libc.ptrace, 0x4206, pid, 0, 0)
call('kill', libc.kill, pid, 0)
call('sigqueue', libc.sigqueue, pid, 0, 0)
call('setns', libc.setns, pidfd, 0x40000000)
call('move_pages', libc.syscall, move, pid, 0, 0, 0, 0, 0)
call('kcmp', libc.syscall, kcmp, pid, os.getpid(), 2, 0, 0)
";

/// Starts a thread and two processes, and prints a word from each.
const STARTS: &str = "
import os, subprocess, threading
thread = threading.Thread(target=lambda: print('thread', flush=True))
thread.start()
thread.join()
subprocess.run(['/bin/echo', 'spawned'])
child = os.fork()
if child == 0:
    print('forked', flush=True)
    os._exit(0)
os.waitpid(child, 0)
";

/// What is known of the end of a child, with its last words.
async fn end(words: &[&str], limits: Limits, sandbox: Sandbox) -> (Exit, String) {
    let command = command(words)
        .limits(limits.clone())
        .sandbox(sandbox.clone());
    let (said, told, exit) = run(&command).await;
    (exit.with_last_words(&told, &limits, &sandbox), said + &told)
}

#[track_caller]
fn check(exit: &Exit, limit: Limit, certainty: Certainty, text: &str) {
    let hit = exit.limit.as_ref().expect("a limit is named");
    assert_eq!((hit.limit, hit.certainty), (limit, certainty), "{exit:?}");
    assert_eq!(hit.to_string(), text);
}

#[tokio::test]
async fn address_space() {
    let limits = Limits {
        address_space: Some(256 * 1024 * 1024),
        ..Limits::default()
    };
    let (exit, _) = end(&["memory"], limits, Sandbox::None).await;
    let text = "probably address space (268435456 bytes)";
    check(&exit, Limit::AddressSpace, Certainty::Probable, text);
}

#[tokio::test]
async fn open_files() {
    let limits = Limits {
        open_files: Some(40),
        ..Limits::default()
    };
    let (exit, _) = end(&["files"], limits, Sandbox::None).await;
    check(
        &exit,
        Limit::OpenFiles,
        Certainty::Probable,
        "probably open files (40)",
    );
}

#[tokio::test]
async fn processes_of_whatever_session() {
    for kind in ["wait", "alone"] {
        let limits = Limits {
            processes: Some(8),
            ..Limits::default()
        };
        let (exit, _) = end(&["forks", kind], limits, Sandbox::None).await;
        check(&exit, Limit::Processes, Certainty::Known, "processes (8)");
    }
}

#[tokio::test]
async fn cpu_time() {
    let limits = Limits {
        cpu_time: Some(Duration::from_millis(900)),
        ..Limits::default()
    };
    let (exit, _) = end(&["compute"], limits, Sandbox::None).await;
    check(&exit, Limit::CpuTime, Certainty::Known, "CPU time (1 s)");
}

#[tokio::test]
async fn what_is_within_its_limits_is_left_alone() {
    let limits = Limits {
        address_space: Some(1 << 30),
        open_files: Some(64),
        processes: Some(4),
        cpu_time: Some(Duration::from_secs(10)),
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let command = command(&["write", file.to_str().unwrap()])
        .directory(directory.path())
        .limits(limits)
        .sandbox(workspace());
    let (said, told, exit) = run(&command).await;
    assert_eq!((said.as_str(), told.as_str()), ("written\n", ""));
    assert_eq!(exit.limit, None);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "written");
}

fn workspace() -> Sandbox {
    Sandbox::Workspace {
        paths: Vec::new(),
        read_only: Vec::new(),
        protected: Vec::new(),
    }
}

#[tokio::test]
async fn files_outside_of_the_sandbox() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let secret = outside.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let secret = secret.to_str().unwrap();
    let link = inside.path().join("link");
    std::os::unix::fs::symlink(secret, &link).unwrap();
    let ours = format!("/proc/{}/environ", std::process::id());
    for reach in [
        ["read", secret],
        ["write", secret],
        ["read", link.to_str().unwrap()],
        ["write", "/etc/orchestra-test"],
        ["read", &ours],
    ] {
        let command = command(&reach)
            .directory(inside.path())
            .sandbox(workspace());
        let (said, told, exit) = run(&command).await;
        assert_eq!(said, "", "{reach:?}");
        let exit = exit.with_last_words(&told, &Limits::default(), &workspace());
        let text = "probably files outside of its sandbox";
        check(&exit, Limit::Files, Certainty::Probable, text);
    }
    // Listed, it may be read, and not written, and a listed path that is gone gives no rights.
    let listed = Sandbox::Workspace {
        paths: Vec::new(),
        read_only: vec![outside.path().to_owned(), outside.path().join("gone")],
        protected: Vec::new(),
    };
    let read = command(&["read", secret]).directory(inside.path());
    assert_eq!(run(&read.sandbox(listed.clone())).await.0, "secret");
    let write = command(&["write", secret]).directory(inside.path());
    assert!(!run(&write.sandbox(listed)).await.2.is_success());
    let listed = Sandbox::Workspace {
        paths: vec![outside.path().to_owned()],
        read_only: Vec::new(),
        protected: Vec::new(),
    };
    let write = command(&["write", secret]).directory(inside.path());
    assert!(run(&write.sandbox(listed)).await.2.is_success());
}

#[tokio::test]
async fn protected_paths_stay_read_only_below_a_writable_directory() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |path: &str| inside.path().join(path);
    for directory in ["open", "closed", "above/closed", "above/open"] {
        std::fs::create_dir_all(at(directory)).unwrap();
    }
    let files = [
        "file",
        "open/file",
        "closed/file",
        "above/closed/file",
        "above/open/file",
    ];
    for file in files {
        std::fs::write(at(file), "old").unwrap();
    }
    std::fs::write(outside.path().join("file"), "old").unwrap();
    std::os::unix::fs::symlink(outside.path(), at("link")).unwrap();
    let sandbox = Sandbox::Workspace {
        paths: Vec::new(),
        read_only: Vec::new(),
        protected: ["closed", "absent", "above/closed"].map(at).to_vec(),
    };
    for (file, is_open) in [
        ("file", true),
        ("open/file", true),
        ("open/new", true),
        ("above/open/new", true),
        ("closed/file", false),
        ("closed/new", false),
        ("absent", false),
        ("new", false),
        ("above/new", false),
        ("above/closed/file", false),
        ("link/file", false),
    ] {
        let file = at(file);
        let write = command(&["write", file.to_str().unwrap()]).directory(inside.path());
        let (said, told, _) = run(&write.sandbox(sandbox.clone())).await;
        assert_eq!(said == "written\n", is_open, "{}: {told}", file.display());
    }
    for file in ["closed/file", "above/closed/file"] {
        let read = command(&["read", at(file).to_str().unwrap()]).directory(inside.path());
        assert_eq!(run(&read.sandbox(sandbox.clone())).await.0, "old");
    }
}

#[tokio::test]
async fn a_path_that_is_not_there_is_told() {
    let missing = Sandbox::Workspace {
        paths: vec!["/no/such".into()],
        read_only: Vec::new(),
        protected: Vec::new(),
    };
    let error = command(&["sleep"])
        .sandbox(missing)
        .spawn()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("/no/such"), "{error}");
}

#[tokio::test]
async fn the_network_and_local_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let path = directory.path().join("socket");
    let _local = std::os::unix::net::UnixListener::bind(&path).unwrap();
    for reach in [["connect", &address], ["local", path.to_str().unwrap()]] {
        let free = command(&reach).directory(directory.path());
        assert_eq!(run(&free).await.0, "connected\n");
        let (_, told, exit) = run(&free.sandbox(workspace())).await;
        let exit = exit.with_last_words(&told, &Limits::default(), &workspace());
        let text = "probably network, which its sandbox closes";
        check(&exit, Limit::Network, Certainty::Probable, text);
    }
}

/// An end of a datagram pair could send to whatever has a name.
#[tokio::test]
async fn pairs_of_sockets_stay_with_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listener = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut piece = [0; 16];
    let free = command(&["datagram", path.to_str().unwrap()]).directory(directory.path());
    assert_eq!(run(&free).await.0, "sent\n");
    assert_eq!(listener.recv(&mut piece).unwrap(), 8);
    let (said, told, _) = run(&free.sandbox(workspace())).await;
    assert_eq!(said, "");
    assert!(told.contains("Network is unreachable"), "{told}");
    let error = listener.recv(&mut piece).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    let streams = command(&["pair"]).directory(directory.path());
    assert_eq!(run(&streams.sandbox(workspace())).await.0, "paired\n");
}

/// Also those of root: a confined child cannot reach those who are not confined.
#[tokio::test]
async fn a_confined_child_kills_nobody_outside() {
    let outside = std::process::id().to_string();
    let kill = system("kill", &["-0", &outside]);
    assert!(run(&kill).await.2.is_success());
    assert!(!run(&kill.sandbox(workspace())).await.2.is_success());
}

/// A program of the system, guarded by the example.
fn system(program: &str, words: &[&str]) -> Command {
    let command = Command::new(program).args(words);
    command.launcher(Launcher::new(path(), [CHILD_COMMAND]))
}

/// Each of these calls fails without a sandbox as well, with another error: its arguments are invalid.
#[tokio::test]
async fn shared_objects_keys_namespaces_and_limits_of_other_processes_are_refused() {
    if !Path::new(PYTHON).exists() {
        crate::skip::skip(&format!("there is no `{PYTHON}`"));
        return;
    }
    let (user, none) = (libc::CLONE_NEWUSER, -1);
    let calls = [
        (libc::SYS_prlimit64, vec![none, 0, 0, 0]),
        (libc::SYS_sched_setparam, vec![none, 0]),
        (libc::SYS_sched_setscheduler, vec![none, 0, 0]),
        (libc::SYS_sched_setattr, vec![none, 0, 0]),
        (libc::SYS_setpriority, vec![0, none, 0]),
        (libc::SYS_setpriority, vec![3, 0, 0]),
        (libc::SYS_ioprio_set, vec![1, none, 0]),
        (libc::SYS_ioprio_set, vec![4, 0, 0]),
        (libc::SYS_shmget, vec![0, 0, 0]),
        (libc::SYS_shmat, vec![none, 0, 0]),
        (libc::SYS_shmctl, vec![none, 0, 0]),
        (libc::SYS_msgget, vec![1, 0]),
        (libc::SYS_msgsnd, vec![none, 0, 0, 0]),
        (libc::SYS_msgrcv, vec![none, 0, 0, 0, 0]),
        (libc::SYS_msgctl, vec![none, 0, 0]),
        (libc::SYS_semget, vec![0, none, 0]),
        (libc::SYS_semop, vec![none, 0, 0]),
        (libc::SYS_semctl, vec![none, 0, 0]),
        (libc::SYS_semtimedop, vec![none, 0, 0, 0]),
        (libc::SYS_mq_open, vec![0, 0, 0, 0]),
        (libc::SYS_mq_unlink, vec![0]),
        (libc::SYS_add_key, vec![0, 0, 0, 0, 0]),
        (libc::SYS_request_key, vec![0, 0, 0, 0]),
        (libc::SYS_keyctl, vec![none]),
        (libc::SYS_unshare, vec![user | 1]),
        (libc::SYS_clone, vec![user | libc::CLONE_FS, 0, 0, 0, 0]),
        (libc::SYS_clone3, vec![0, 0]),
    ];
    let mut words = vec!["-c".to_owned(), CALLS.to_owned()];
    let mut expected = Vec::new();
    // The calls of x32 on x86-64 have this bit.
    for bit in [0, 0x4000_0000] {
        if bit != 0 && cfg!(not(target_arch = "x86_64")) {
            continue;
        }
        for (number, arguments) in &calls {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            words.push(format!("{},{}", number | bit, arguments.join(",")));
            let error = match *number {
                libc::SYS_clone3 => libc::ENOSYS,
                _ => libc::EPERM,
            };
            expected.push(error.to_string());
        }
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let directory = tempfile::tempdir().unwrap();
    let free = system(PYTHON, &words).directory(directory.path());
    for sandbox in [workspace(), with_protected(directory.path())] {
        let (said, told, _) = run(&free.clone().sandbox(sandbox)).await;
        let errors: Vec<&str> = said.lines().collect();
        assert_eq!(errors, expected, "{:?} {told}", &words[2..]);
    }
    let (said, told, _) = run(&free).await;
    // A container may refuse keys and namespaces, which are the last six.
    let invalid = said.lines().take(calls.len() - 6);
    let refused = libc::EPERM.to_string();
    let refused: Vec<&str> = invalid.filter(|error| *error == refused).collect();
    assert!(refused.is_empty(), "{said} {told}");
}

#[tokio::test]
async fn confined_child_changes_its_own_limits_and_priorities() {
    if !Path::new(PYTHON).exists() {
        crate::skip::skip(&format!("there is no `{PYTHON}`"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let calls = [
        [libc::SYS_prlimit64, 0, 7, 0, 0],
        [libc::SYS_setpriority, 0, 0, 19, 0],
        [libc::SYS_ioprio_set, 1, 0, 0, 0],
    ];
    let calls = calls.map(|call| call.map(|word| word.to_string()).join(","));
    let words: Vec<&str> = ["-c", CALLS]
        .into_iter()
        .chain(calls.iter().map(String::as_str))
        .collect();
    let own = system(PYTHON, &words).directory(directory.path());
    let (said, told, _) = run(&own.sandbox(workspace())).await;
    assert_eq!(said, "0\n0\n0\n", "{told}");
}

/// The kernel refuses these calls, by the rules for files or for signals.
#[tokio::test]
async fn confined_child_reaches_no_process_outside_in_other_ways() {
    if !Path::new(PYTHON).exists() {
        crate::skip::skip(&format!("there is no `{PYTHON}`"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let words = [
        i64::from(std::process::id()),
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_move_pages,
        libc::SYS_kcmp,
    ];
    let words = words.map(|word| word.to_string());
    let words: Vec<&str> = ["-c", REACH]
        .into_iter()
        .chain(words.iter().map(String::as_str))
        .collect();
    let reach = system(PYTHON, &words).directory(directory.path());
    let (said, told, _) = run(&reach.sandbox(workspace())).await;
    let refused = libc::EPERM.to_string();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 10, "{said} {told}");
    for line in lines {
        let (call, error) = line.split_once(' ').unwrap();
        let is_missing = error == libc::ENOSYS.to_string();
        assert!(error == refused || is_missing, "{call}: {said} {told}");
    }
}

/// A sandbox with a mount namespace, where the system allows one.
fn with_protected(directory: &Path) -> Sandbox {
    Sandbox::Workspace {
        paths: Vec::new(),
        read_only: Vec::new(),
        protected: vec![directory.join(".git")],
    }
}

#[tokio::test]
async fn threads_and_processes_start_in_the_sandbox() {
    if !Path::new(PYTHON).exists() {
        crate::skip::skip(&format!("there is no `{PYTHON}`"));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let starts = system(PYTHON, &["-c", STARTS]).directory(directory.path());
    let (said, told, exit) = run(&starts.sandbox(workspace())).await;
    assert!(exit.is_success(), "{told}");
    assert_eq!(said, "thread\nspawned\nforked\n", "{told}");
}

#[tokio::test]
async fn capabilities_other_than_those_for_files_are_dropped_from_all_sets() {
    const SETPCAP: u64 = 1 << 8;
    // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID.
    const FILES: u64 = 0b1_1011;
    let directory = tempfile::tempdir().unwrap();
    let shown = system("grep", &["^Cap", "/proc/self/status"]).directory(directory.path());
    let (free, ..) = run(&shown).await;
    let free = capability_sets(&free);
    for sandbox in [workspace(), with_protected(directory.path())] {
        let (sets, ..) = run(&shown.clone().sandbox(sandbox)).await;
        let sets = capability_sets(&sets);
        for set in ["CapPrm", "CapEff"] {
            assert_eq!(sets[set], free[set] & FILES, "{set}");
        }
        for set in ["CapInh", "CapAmb"] {
            assert_eq!(sets[set], 0, "{set}");
        }
        // Only a process with this capability can reduce the bounding set.
        if free["CapEff"] & SETPCAP != 0 {
            assert_eq!(sets["CapBnd"] & !FILES, 0, "{sets:x?}");
        }
    }
}

/// Sets of capabilities by their names in the status of a process.
fn capability_sets(lines: &str) -> BTreeMap<&str, u64> {
    let sets = lines.lines().map(|line| {
        let (name, bits) = line.split_once(":\t").unwrap();
        (name, u64::from_str_radix(bits, 16).unwrap())
    });
    sets.collect()
}

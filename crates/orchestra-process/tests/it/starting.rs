//! How children begin.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt, time::Instant};

use orchestra_process::{Environment, Launcher, SpawnError};
use tokio::io::AsyncWriteExt;

use crate::program::{PATIENCE, command, gone, path, pid, run, start};

#[tokio::test]
async fn a_child_has_its_arguments_its_directory_and_its_pipes() {
    let (said, _, exit) = run(&command(&["say", "one", "*", "$HOME", "tw o"])).await;
    assert_eq!(said, "one * $HOME tw o\n", "no shell has seen it");
    assert!(exit.is_success());
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    let (said, ..) = run(&command(&["directory"]).directory(&directory)).await;
    assert_eq!(said.trim_end(), directory.to_str().unwrap());
    let mut child = start(&["echo"]).await;
    child.stdin.write_all(b"in").await.unwrap();
    drop(child.stdin);
    let mut said = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut child.stdout, &mut said)
        .await
        .unwrap();
    assert_eq!(said, "in");
    assert!(child.handle.exited().await.is_success());
}

#[tokio::test]
async fn a_child_gets_the_environment_that_was_asked_for() {
    let environment = async |environment: Environment| {
        let command = command(&["environment"])
            .environment(environment)
            .variables([("OWN", "a=b\nc"), ("USER", "own")]);
        let (said, ..) = run(&command).await;
        let lines = said.lines().filter_map(|line| line.split_once('='));
        lines
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect::<BTreeMap<_, _>>()
    };
    let none = environment(Environment::None).await;
    assert_eq!(none.keys().collect::<Vec<_>>(), ["OWN", "USER"]);
    let default = environment(Environment::Default).await;
    assert_eq!(default["USER"], "own");
    assert_eq!(default["PATH"], std::env::var("PATH").unwrap());
    let ours: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    let known = |name: &String| name == "OWN" || Environment::Default.inherits(name.as_ref());
    assert!(default.keys().all(known), "{default:?}");
    let stays = |name: &String| !default.contains_key(name);
    assert!(ours.iter().any(stays), "cargo's own variables at least");
    let all = environment(Environment::All).await;
    assert!(ours.iter().all(|name| all.contains_key(name)), "{all:?}");
}

#[tokio::test]
async fn what_cannot_be_started_is_told_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    let broken = directory.path().join("broken");
    std::fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&broken, PermissionsExt::from_mode(0o755)).unwrap();
    let of = |program: &std::ffi::OsStr| {
        let launcher = Launcher::new(path(), [orchestra_process::CHILD_COMMAND]);
        orchestra_process::Command::new(program).launcher(launcher)
    };
    let error = of("no-such-program".as_ref()).spawn().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the program `no-such-program` is not on PATH; install it, or give its whole path"
    );
    let error = of(plain.as_os_str()).spawn().await.unwrap_err();
    assert!(matches!(error, SpawnError::NotRunnable { .. }), "{error:?}");
    let error = of(broken.as_os_str()).spawn().await.unwrap_err();
    assert!(matches!(error, SpawnError::NotRunnable { .. }), "{error:?}");
    let error = command(&["sleep"]).directory("/no/such").spawn().await;
    assert!(
        matches!(error, Err(SpawnError::Directory { .. })),
        "{error:?}"
    );
    // The guard is not what it should be.
    let strange = command(&["sleep"]).launcher(Launcher::new(path(), ["exit", "0"]));
    let error = strange.spawn().await.unwrap_err();
    assert!(error.to_string().contains("child_main"), "{error}");
    let none = command(&["sleep"]).launcher(Launcher::new("/no/such", [""]));
    let error = none.spawn().await.unwrap_err();
    assert!(matches!(error, SpawnError::Guard { .. }), "{error:?}");
}

#[tokio::test]
async fn a_program_is_found_on_the_childs_path_or_relative_to_its_directory() {
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(path(), directory.path().join("named")).unwrap();
    let launcher = Launcher::new(path(), [orchestra_process::CHILD_COMMAND]);
    let named = |name: &str| {
        orchestra_process::Command::new(name)
            .args(["say", "found"])
            .launcher(launcher.clone())
    };
    let by_path = named("named").variables([("PATH", directory.path())]);
    assert_eq!(run(&by_path).await.0, "found\n");
    let relative = named("./named").directory(directory.path());
    assert_eq!(run(&relative).await.0, "found\n");
}

/// Whoever has it could type into it.
#[test]
fn a_child_has_no_terminal_of_ours() {
    let ran = std::process::Command::new(path())
        .args(["owner", "terminal"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let (said, told) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert_eq!(said, "owned\nended\n", "{told}");
    assert!(told.contains("No such device or address"), "{told}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_guard_says_whose_it_is() {
    let line = async |command: orchestra_process::Command| {
        let child = command.spawn().await.unwrap();
        let guard = crate::program::parent(pid(child.handle.id()));
        let of = |file: &str| {
            let path = format!("/proc/{}/{file}", guard.as_raw_pid());
            std::fs::read_to_string(path).unwrap()
        };
        (of("cmdline").replace('\0', " "), of("comm"))
    };
    let (called, short) = line(command(&["sleep"])).await;
    assert_eq!(called.trim_end(), "orchestra: guard of child __child");
    assert_eq!(short, "guard\n");
    let named = line(command(&["sleep"]).name("files\n\0of mine")).await.0;
    assert_eq!(named.trim_end(), "orchestra: guard of filesof mine __child");
}

/// Descriptors of one child that another inherits would keep its pipes and its guard open.
#[tokio::test(flavor = "multi_thread")]
async fn children_that_start_at_once_share_nothing() {
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..32 {
        starts.spawn(start(&["echo"]));
    }
    let children = starts.join_all().await;
    let mut ids = Vec::new();
    for child in children {
        // The others are open still.
        ids.push(child.handle.id());
        drop(child.stdin);
        let exit = tokio::time::timeout(PATIENCE, child.handle.exited()).await;
        assert!(exit.expect("its input has ended").is_success());
    }
    for id in ids {
        gone(pid(id)).await;
    }
}

/// Not a bound, as machines differ; what it prints is what a start costs.
#[tokio::test]
async fn starts_are_quick() {
    let mut times = Vec::new();
    for _ in 0..20 {
        let started = Instant::now();
        let child = start(&["sleep"]).await;
        times.push(started.elapsed());
        child.handle.kill();
        child.handle.exited().await;
    }
    times.sort();
    println!("start: median {:?}, best {:?}", times[10], times[0]);
    assert!(times[10] < PATIENCE / 10);
}

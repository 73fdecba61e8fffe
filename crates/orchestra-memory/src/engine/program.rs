//! Finding the program `orchestra-engine`: beside the program that needs it, then on the search path.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::endpoint::VERSION;

/// Name of the engine's program.
pub const ENGINE: &str = "orchestra-engine";

/// Time limit for the answer to `--version`, which takes milliseconds.
const ANSWER: Duration = Duration::from_secs(5);
/// Bytes of that answer which are read.
const MAX_ANSWER: u64 = 256;

/// Why there is no engine to start.
#[derive(Debug, thiserror::Error)]
pub enum NoEngine {
    /// No program of that name was found.
    #[error(
        "`{ENGINE}` is not installed; `cargo build --release -p {ENGINE}` in a clone of Orchestra puts \
         it beside `orchestra`"
    )]
    Missing,
    /// The program that was found has another version.
    #[error(
        "{} is {answer}, not {ENGINE} {VERSION}; install the version that belongs to this program",
        path.display()
    )]
    OtherVersion {
        /// Path of the program.
        path: PathBuf,
        /// Its answer to `--version`.
        answer: String,
    },
    /// The program that was found cannot be run.
    #[error("{} cannot be started", path.display())]
    Start {
        /// Path of the program.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Returns the programs that may be the engine, in the order in which they are tried: the one beside
/// `this`, and the first on the search path.
///
/// Relative directories of the search path and directories inside the workspace are skipped: what lies
/// there may be part of a checkout.
#[must_use]
pub fn programs(this: &Path, search_path: Option<&OsStr>, workspace: &Path) -> Vec<PathBuf> {
    let beside = this.parent().map(|directory| directory.join(ENGINE));
    let is_outside = |directory: &PathBuf| {
        directory.is_absolute()
            && directory
                .canonicalize()
                .is_ok_and(|directory| !directory.starts_with(workspace))
    };
    let on_path = search_path
        .into_iter()
        .flat_map(std::env::split_paths)
        .filter(is_outside)
        .map(|directory| directory.join(ENGINE))
        .find(|path| is_program(path));
    let beside = beside.into_iter().filter(|path| is_program(path));
    let mut found: Vec<PathBuf> = beside.chain(on_path).collect();
    found.dedup();
    found
}

/// Returns the first of [`programs`] that has the version of this program. Blocks until those before it
/// have answered.
///
/// # Errors
/// When there is none; the reason is that of the first.
pub fn find(
    this: &Path,
    search_path: Option<&OsStr>,
    workspace: &Path,
) -> Result<PathBuf, NoEngine> {
    let mut first = None;
    for path in programs(this, search_path, workspace) {
        match check(&path) {
            Ok(()) => return Ok(path),
            Err(why) => first = first.or(Some(why)),
        }
    }
    Err(first.unwrap_or(NoEngine::Missing))
}

/// Checks that a program is an engine of the version of this program. Blocks until it has answered.
pub(crate) fn check(path: &Path) -> Result<(), NoEngine> {
    let answer = version(path).map_err(|source| NoEngine::Start {
        path: path.to_owned(),
        source,
    })?;
    if answer.trim() == format!("{ENGINE} {VERSION}") {
        return Ok(());
    }
    let line = answer.lines().next().unwrap_or_default().trim();
    let printable: String = line.chars().filter(|c| !c.is_control()).collect();
    Err(NoEngine::OtherVersion {
        path: path.to_owned(),
        answer: match printable.is_empty() {
            true => "another program".to_owned(),
            false => printable,
        },
    })
}

/// Answer of a program to `--version`; empty when it does not come in time.
fn version(path: &Path) -> io::Result<String> {
    // direct: it ends by itself, or is killed below.
    let mut child = Command::new(path)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let stdout = child.stdout.take();
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(stdout) = stdout {
            // What was read until then is the answer.
            let _ = stdout.take(MAX_ANSWER).read_to_end(&mut text);
        }
        let _ = sender.send(text);
    });
    let text = answer.recv_timeout(ANSWER).unwrap_or_default();
    // It may have ended already.
    let _ = child.kill();
    child.wait()?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// Finds and checks an engine without blocking the runtime.
pub(crate) async fn nth(
    this: PathBuf,
    search_path: Option<OsString>,
    workspace: PathBuf,
    number: usize,
) -> Result<PathBuf, NoEngine> {
    let found = tokio::task::spawn_blocking(move || {
        let mut programs = programs(&this, search_path.as_deref(), &workspace);
        if programs.is_empty() {
            return Err(NoEngine::Missing);
        }
        let place = number % programs.len();
        let path = programs.swap_remove(place);
        check(&path).map(|()| path)
    });
    found
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn directory(root: &Path, name: &str) -> PathBuf {
        let path = root.join(name);
        fs::create_dir(&path).unwrap();
        path
    }

    fn program(directory: &Path, script: &str, mode: u32) -> PathBuf {
        let path = directory.join(ENGINE);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn programs_are_the_one_beside_and_the_first_on_the_path_outside_the_workspace() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let [ours, inside, first, second] =
            ["ours", "workspace", "first", "second"].map(|name| directory(&root, name));
        let this = ours.join("orchestra");
        let path =
            std::env::join_paths([Path::new("."), &inside.join("bin"), &first, &second]).unwrap();
        let found = || programs(&this, Some(&path), &inside);
        assert_eq!(found(), Vec::<PathBuf>::new());
        program(&directory(&inside, "bin"), "", 0o755);
        // This one is not executable.
        program(&first, "", 0o644);
        assert_eq!(found(), Vec::<PathBuf>::new());
        let on_path = program(&second, "", 0o755);
        assert_eq!(found(), std::slice::from_ref(&on_path));
        let beside = program(&ours, "", 0o755);
        assert_eq!(found(), [beside, on_path]);
    }

    #[test]
    fn an_engine_of_another_version_is_skipped_or_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let [ours, other] = ["ours", "other"].map(|name| directory(&root, name));
        let this = ours.join("orchestra");
        let find = || find(&this, Some(other.as_os_str()), &root.join("workspace"));
        assert!(matches!(find(), Err(NoEngine::Missing)));
        program(&ours, "#!/bin/sh\necho orchestra-engine 0.9.0\n", 0o755);
        let why = find().unwrap_err().to_string();
        assert!(why.contains("is orchestra-engine 0.9.0, not"), "{why}");
        let script = format!("#!/bin/sh\necho {ENGINE} {VERSION}\n");
        let good = program(&other, &script, 0o755);
        assert_eq!(find().unwrap(), good);
    }
}

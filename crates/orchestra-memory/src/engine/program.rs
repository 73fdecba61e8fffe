//! Search for the program `orchestra-engine`: beside the program that needs it, then on the search path.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::Metadata,
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, SystemTime},
};

use super::endpoint::VERSION;

/// Name of the engine's program.
pub const ENGINE: &str = "orchestra-engine";

/// Instructions to install an engine.
const INSTALL: &str = "in a clone of Orchestra, `cargo build --release -p orchestra-engine` puts it beside \
                       `target/release/orchestra`, and `cargo install --locked --path \
                       crates/orchestra-engine` beside an `orchestra` that was installed so";

/// Time limit for the answer to `--version`, which takes milliseconds.
const ANSWER: Duration = Duration::from_secs(5);
/// Maximum length of that answer in bytes.
const MAX_ANSWER: u64 = 256;

/// Reason why no engine can be started.
#[derive(Debug, thiserror::Error)]
pub enum NoEngine {
    /// No program of that name was found.
    #[error("`{ENGINE}` is not installed; {INSTALL}")]
    Missing,
    /// The program that was found has another version.
    #[error(
        "{} is {answer}, not {ENGINE} {VERSION}; {INSTALL}",
        path.display()
    )]
    OtherVersion {
        /// Path of the program.
        path: PathBuf,
        /// Its answer to `--version`.
        answer: String,
    },
    /// The program that was found gives no answer to `--version`.
    #[error("{} did not answer --version within {} s", path.display(), ANSWER.as_secs())]
    Silent {
        /// Path of the program.
        path: PathBuf,
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
/// Relative directories of the search path and directories inside the workspace are skipped: their files
/// may be part of a checkout.
#[must_use]
pub fn programs(this: &Path, search_path: Option<&OsStr>, workspace: &Path) -> Vec<PathBuf> {
    let name = format!("{ENGINE}{}", std::env::consts::EXE_SUFFIX);
    let beside = this.parent().map(|directory| directory.join(&name));
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
        .map(|directory| directory.join(&name))
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
    Answers::default().first(programs(this, search_path, workspace))
}

/// Answers of programs to `--version`. A program is asked again only when its file has changed.
#[derive(Debug, Default)]
pub(crate) struct Answers(HashMap<PathBuf, (Stamp, String)>);

impl Answers {
    /// Returns the first program that is an engine of the version of this program. Blocks until those
    /// before it have answered.
    ///
    /// # Errors
    /// When there is none; the reason is that of the first.
    pub(crate) fn first(&mut self, programs: Vec<PathBuf>) -> Result<PathBuf, NoEngine> {
        let mut first = None;
        for path in programs {
            match self.check(&path) {
                Ok(()) => return Ok(path),
                Err(why) => first = first.or(Some(why)),
            }
        }
        Err(first.unwrap_or(NoEngine::Missing))
    }

    fn check(&mut self, path: &Path) -> Result<(), NoEngine> {
        let answer = self.of(path)?;
        if answer == format!("{ENGINE} {VERSION}") {
            return Ok(());
        }
        let printable: String = answer.chars().filter(|c| !c.is_control()).collect();
        Err(NoEngine::OtherVersion {
            path: path.to_owned(),
            answer: match printable.is_empty() {
                true => "another program".to_owned(),
                false => printable,
            },
        })
    }

    /// Returns the answer of a program, from its file as it is now.
    fn of(&mut self, path: &Path) -> Result<&str, NoEngine> {
        let started = |source| NoEngine::Start {
            path: path.to_owned(),
            source,
        };
        let stamp = Stamp::of(&path.metadata().map_err(started)?);
        if self.0.get(path).is_none_or(|(known, _)| *known != stamp) {
            let answer = version(path).map_err(started)?;
            let answer = answer.ok_or_else(|| NoEngine::Silent {
                path: path.to_owned(),
            })?;
            let answer = (stamp, answer.trim().to_owned());
            self.0.insert(path.to_owned(), answer);
        }
        Ok(&self.0[path].1)
    }
}

/// Identity and age of a file, which change when another program takes its place.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self {
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(file),
            #[cfg(not(unix))]
            inode: 0,
            length: file.len(),
            modified: file.modified().ok(),
        }
    }
}

/// First line of the answer of a program to `--version`; `None` when it does not come in time.
fn version(path: &Path) -> io::Result<Option<String>> {
    // direct: it ends by itself, or is killed below.
    let mut command = Command::new(path);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // Its child processes are killed with it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    let stdout = child.stdout.take();
    let (sender, answer) = mpsc::channel();
    let reader = thread::Builder::new().name("engine-version".to_owned());
    let reading = reader.spawn(move || {
        let mut line = Vec::new();
        let mut stdout = stdout.map(|stdout| BufReader::new(stdout.take(MAX_ANSWER)));
        let read = stdout
            .as_mut()
            .map(|stdout| stdout.read_until(b'\n', &mut line));
        // A program that is killed meanwhile has not answered.
        if matches!(read, Some(Ok(1..))) {
            // The receiver is gone after the time limit.
            let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    let answer = reading.map(|_| answer.recv_timeout(ANSWER).ok());
    end(&mut child)?;
    answer
}

/// Kills a child with everything in its process group, and reaps it.
fn end(child: &mut Child) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // The child is not reaped yet, so the group is still its own; it may have ended.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    child.wait().map(drop)
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

#[cfg(unix)]
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

    #[test]
    fn program_is_asked_for_its_version_again_only_after_its_file_changed() {
        let root = tempfile::tempdir().unwrap();
        let asked = root.path().join("asked");
        let script = format!("#!/bin/sh\necho >>{}\necho {ENGINE}", asked.display());
        let path = program(root.path(), &format!("{script} 0.9.0\n"), 0o755);
        let mut answers = Answers::default();
        for _ in 0..3 {
            let found = answers.first(vec![path.clone()]);
            assert!(
                matches!(found, Err(NoEngine::OtherVersion { .. })),
                "{found:?}"
            );
        }
        assert_eq!(fs::metadata(&asked).unwrap().len(), 1);
        program(root.path(), &format!("{script} {VERSION}\n# new\n"), 0o755);
        for _ in 0..3 {
            assert_eq!(answers.first(vec![path.clone()]).unwrap(), path);
        }
        assert_eq!(fs::metadata(&asked).unwrap().len(), 2);
    }
}

//! One call of git: what it is told, how it runs, and how it is ended.

use std::{
    borrow::Cow,
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::{sleep, timeout},
};

use super::{Git, GitError, RepositoryLock, error::classify, names::shortened, pipes};

/// How much of git's last words is kept.
const LAST_WORDS: usize = 4096;

/// How long git may take to remove its lock files when it is told to end.
const GRACE: Duration = Duration::from_secs(2);

/// How long git may take to change files of the user's; after that it goes on by itself.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long git may take for all files of a worktree: filters convert them, and those of a partial clone are fetched.
const FILES: Duration = Duration::from_secs(3600);

/// How often it is looked in the time of grace whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What every call says before its command: nothing of the user's runs by the way, no change is overlooked, nothing
/// goes on in the background, and what was written is on the disk when git ends, for the journal says so from then on.
pub(crate) const ALWAYS: [&str; 31] = [
    "--no-pager",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.ignoreStat=false",
    "-c",
    // Its remotes are programs.
    "protocol.ext.allow=never",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "rerere.enabled=false",
    "-c",
    "advice.detachedHead=false",
    "-c",
    "merge.autoStash=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "i18n.commitEncoding=UTF-8",
    "-c",
    "core.fsync=committed",
    "-c",
    "core.fsyncMethod=batch",
];

/// Whether a command line is that of a call of ours.
pub(super) fn is_ours(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == 0).skip(1);
    ALWAYS
        .iter()
        .all(|word| words.next() == Some(word.as_bytes()))
}

/// What is said as well where `git-lfs` is not installed: pointers stay pointers, rather than failing.
const WITHOUT_LFS: [&str; 8] = [
    "-c",
    "filter.lfs.smudge=",
    "-c",
    "filter.lfs.clean=",
    "-c",
    "filter.lfs.process=",
    "-c",
    "filter.lfs.required=false",
];

/// Variable by which git fetches no objects that a partial clone lacks.
const NO_LAZY_FETCH: &str = "GIT_NO_LAZY_FETCH";

/// One call of git, which runs when it is told to.
#[derive(Debug)]
pub(super) struct Call {
    git: Git,
    operation: &'static str,
    subject: String,
    directory: PathBuf,
    first: Vec<OsString>,
    arguments: Vec<OsString>,
    environment: Vec<(Cow<'static, str>, OsString)>,
    input: Vec<u8>,
    lock: Option<Stdio>,
    undisturbed: bool,
    takes_files: bool,
    accepted: &'static [i32],
    first_bytes: Option<usize>,
}

/// How a call ended that was accepted.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: i32,
    pub(super) output: Vec<u8>,
    pub(super) said: String,
}

impl Answer {
    /// What it said, as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    /// The fields that each end with a zero byte.
    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        let whole = self.output.strip_suffix(b"\0").unwrap_or(&self.output);
        let empty = whole.is_empty();
        whole.split(|byte| *byte == 0).skip(usize::from(empty))
    }
}

impl Call {
    pub(super) fn new(
        git: Git,
        operation: &'static str,
        directory: &Path,
        arguments: Vec<OsString>,
    ) -> Self {
        Self {
            git,
            operation,
            subject: directory.display().to_string(),
            directory: directory.to_owned(),
            first: Vec::new(),
            arguments,
            environment: Vec::new(),
            input: Vec::new(),
            lock: None,
            undisturbed: false,
            takes_files: false,
            accepted: &[0],
            first_bytes: None,
        }
    }

    /// Says on which path or reference it works.
    pub(super) fn on(mut self, subject: impl ToString) -> Self {
        self.subject = subject.to_string();
        self
    }

    /// Appends an argument.
    pub(super) fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Puts an option of git itself before the command.
    pub(super) fn option(mut self, option: impl Into<OsString>) -> Self {
        self.first.push(option.into());
        self
    }

    /// Names the directory that it runs in as the git directory, rather than finding it.
    pub(super) fn in_git_directory(self) -> Self {
        self.option("--git-dir=.")
    }

    /// Sets a variable.
    pub(super) fn env(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<OsString>,
    ) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Gives it something to read.
    pub(super) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Has it keep the lock until it ends: also when we are killed meanwhile, nobody else may take the lock
    /// as long as what we have begun goes on. It has no input then.
    pub(super) fn under(mut self, lock: &RepositoryLock) -> Self {
        self.lock = lock.share();
        self
    }

    /// Has it run to its end whatever becomes of us: it changes files of the user's, of which none may be left
    /// half done. Nobody tells it to end, and what it says goes to a file, so that nobody has to read it: its
    /// answer has its last words and no output.
    pub(super) fn undisturbed(mut self) -> Self {
        self.undisturbed = true;
        self
    }

    /// Gives it the time that all files of a worktree may take.
    pub(super) fn takes_files(mut self) -> Self {
        self.takes_files = true;
        self
    }

    /// Names the exit codes that are answers rather than failures.
    pub(super) fn accept(mut self, accepted: &'static [i32]) -> Self {
        self.accepted = accepted;
        self
    }

    /// Takes so many bytes of its output at most, and one more where there is more: the rest is not asked for.
    pub(super) fn first_bytes(mut self, most: usize) -> Self {
        self.first_bytes = Some(most);
        self
    }

    /// An error about its answer.
    pub(super) fn unreadable(operation: &'static str, subject: &str, what: &str) -> GitError {
        GitError::Unreadable {
            operation,
            subject: subject.to_owned(),
            what: shortened(what),
        }
    }

    /// Directories whose files git opens.
    fn places(&self) -> Vec<pipes::Place> {
        let mut places = Vec::new();
        if self.directory.parent().is_some() {
            places.push(pipes::Place::working_tree(&self.directory));
        }
        for (name, value) in &self.environment {
            places.extend(match &**name {
                "GIT_DIR" => Some(pipes::Place::git_directory(Path::new(value))),
                "GIT_WORK_TREE" => Some(pipes::Place::working_tree(Path::new(value))),
                _ => None,
            });
        }
        places
    }

    /// Runs it to its end.
    ///
    /// When it takes too long, waits for a named pipe, says too much or the future is dropped, git and whatever it has started are
    /// told to end, which lets it remove its lock files, and killed shortly after; but for one that is
    /// [undisturbed](Self::undisturbed).
    pub(super) async fn run(self) -> Result<Answer, GitError> {
        let started = Instant::now();
        let git = self.git.clone();
        let answer = self.run_uncounted().await;
        git.count_time(started.elapsed());
        answer
    }

    async fn run_uncounted(mut self) -> Result<Answer, GitError> {
        if self.undisturbed {
            return self.run_undisturbed().await;
        }
        let mut running = Running(Some(self.start(Stdio::piped(), Stdio::piped())?));
        let limit = self.first_bytes.unwrap_or(self.git.0.output);
        let after = match self.takes_files {
            true => self.git.0.timeout.max(FILES),
            false => self.git.0.timeout,
        };
        let input = std::mem::take(&mut self.input);
        let watch = pipes::Watch::new(self.places());
        let ended = tokio::select! {
            biased;
            ended = timeout(after, running.talk(&input, limit)) => Some(ended),
            () = watch.finds() => None,
        };
        let (operation, subject) = (self.operation, self.subject);
        // Git may have ended after the pipe was found.
        let ended = match (ended, watch.found()) {
            (Some(ended), None) => ended,
            (_, path) => {
                running.end().await;
                let path = path.unwrap_or_default();
                return Err(GitError::Pipe { operation, path });
            }
        };
        match ended {
            Err(_) => {
                running.end().await;
                Err(GitError::TimedOut {
                    operation,
                    subject,
                    after,
                })
            }
            Ok(Err(error)) => {
                running.end().await;
                Err(GitError::Start {
                    operation,
                    subject,
                    source: error,
                })
            }
            Ok(Ok(Err(output))) if self.first_bytes.is_some() => {
                running.end().await;
                let (code, said) = (0, String::new());
                Ok(Answer { code, output, said })
            }
            Ok(Ok(Err(_))) => {
                running.end().await;
                Err(GitError::TooMuchOutput {
                    operation,
                    subject,
                    limit,
                })
            }
            Ok(Ok(Ok((status, output, said)))) => {
                judged(self.accepted, operation, subject, (status, output, said))
            }
        }
    }

    async fn run_undisturbed(mut self) -> Result<Answer, GitError> {
        let (operation, subject) = (self.operation, self.subject.clone());
        let failed = |source| GitError::Start {
            operation,
            subject: subject.clone(),
            source,
        };
        let words = || tempfile::tempfile().and_then(|words| Ok((words.try_clone()?, words)));
        let (written, mut words) = words().map_err(failed)?;
        let mut child = self.start(Stdio::null(), Stdio::from(written))?;
        let ended = async {
            let watch = pipes::Watch::new(self.places());
            loop {
                tokio::select! {
                    biased;
                    ended = child.wait() => return ended,
                    // The pipe was empty for git, which continues.
                    () = watch.finds() => {
                        let path = watch.found().unwrap_or_default();
                        tracing::warn!(path = %path.display(), "git waited for a named pipe");
                    }
                }
            }
        };
        let status = match timeout(LONGEST, ended).await {
            Ok(status) => status.map_err(failed)?,
            Err(_) => {
                return Err(GitError::TimedOut {
                    operation,
                    subject,
                    after: LONGEST,
                });
            }
        };
        let said = last_words(&mut words).map_err(failed)?;
        judged(
            self.accepted,
            operation,
            subject,
            (status, Vec::new(), said),
        )
    }

    fn start(&mut self, stdout: Stdio, stderr: Stdio) -> Result<Child, GitError> {
        let inner = &self.git.0;
        // direct: a guard would cost as much as git itself; it has a group of its own, which is killed when
        // nobody waits for it any more, and a git that outlives us only ends what it was asked for.
        let mut command = Command::new(&inner.program);
        command
            .env_clear()
            .envs(inner.environment.iter().map(|(name, value)| (name, value)))
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_EDITOR", "true")
            .envs(self.git.fetches_nothing().then_some((NO_LAZY_FETCH, "1")))
            .envs(
                self.environment
                    .iter()
                    .map(|(name, value)| (&**name, value)),
            )
            .args(ALWAYS)
            .args(if inner.lfs { &[] } else { &WITHOUT_LFS[..] })
            .args(&self.first)
            .args(&self.arguments)
            .current_dir(&self.directory)
            .stdin(match (self.lock.take(), self.input.is_empty()) {
                (Some(lock), _) => lock,
                (None, true) => Stdio::null(),
                (None, false) => Stdio::piped(),
            })
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        self.git.count();
        match command.spawn() {
            Ok(child) => Ok(child),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.directory.is_dir() => {
                Err(GitError::Missing {
                    program: inner.program.display().to_string(),
                })
            }
            Err(source) => Err(GitError::Start {
                operation: self.operation,
                subject: self.subject.clone(),
                source,
            }),
        }
    }
}

/// A git process and whatever it has started: they share a process group.
struct Running(Option<Child>);

/// How a process ended, what it said, and its last words.
type Ended = (ExitStatus, Vec<u8>, String);

impl Running {
    /// Hands it its input and reads it to its end, or until it says more than the limit: what it said so far.
    async fn talk(&mut self, input: &[u8], limit: usize) -> io::Result<Result<Ended, Vec<u8>>> {
        let child = self.0.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let write = async {
            if let Some(mut stdin) = stdin {
                // A process that ends without reading says why by its exit code.
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
            Ok(())
        };
        let read = async { tokio::try_join!(read_all(stdout, limit), read_last(stderr), write) };
        let (output, said, ()) = read.await?;
        if output.len() > limit {
            return Ok(Err(output));
        }
        let status = child.wait().await?;
        self.0 = None;
        Ok(Ok((status, output, said)))
    }

    /// Ends it and waits for that.
    async fn end(mut self) {
        if let Some(child) = self.0.take() {
            end(child).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else {
            return;
        };
        signal(group(&child), Signal::TERM);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(end(child))),
            Err(_) => {
                signal(group(&child), Signal::KILL);
                let _ = child.start_kill();
            }
        }
    }
}

/// What an ended call answers.
fn judged(
    accepted: &[i32],
    operation: &'static str,
    subject: String,
    (status, output, said): Ended,
) -> Result<Answer, GitError> {
    match status.code() {
        Some(code) if accepted.contains(&code) => Ok(Answer { code, output, said }),
        _ => Err(classify(operation, subject, status.to_string(), said)),
    }
}

/// The end of what was said into a file.
fn last_words(words: &mut File) -> io::Result<String> {
    let most = u64::try_from(LAST_WORDS).unwrap_or(u64::MAX);
    let length = words.metadata()?.len();
    words.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut kept = Vec::new();
    words.take(most).read_to_end(&mut kept)?;
    Ok(String::from_utf8_lossy(&kept).trim().to_owned())
}

/// Tells a process group to end, waits a little, and kills what is left of it.
async fn end(mut child: Child) {
    let group = group(&child);
    signal(group, Signal::TERM);
    let deadline = Instant::now() + GRACE;
    while !has_ended(group) && Instant::now() < deadline {
        sleep(LOOK_EVERY).await;
    }
    // Where git itself has ended, what it had started may not have. Its end is heard of only now, for the
    // name of the group could be another's from then on.
    signal(group, Signal::KILL);
    let _ = child.wait().await;
}

/// Whether the leader of a group has ended; it stays to be waited for.
fn has_ended(group: Option<Pid>) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    group.is_none_or(|id| !matches!(waitid(WaitId::Pid(id), options), Ok(None)))
}

/// The process group of a child that has not been waited for.
fn group(child: &Child) -> Option<Pid> {
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    id.and_then(Pid::from_raw)
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = kill_process_group(group, signal);
    }
}

/// Reads to the end, or one byte more than the limit.
async fn read_all(mut from: impl AsyncRead + Unpin, limit: usize) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    (&mut from).take(most).read_to_end(&mut all).await?;
    Ok(all)
}

/// Reads to the end and keeps the last of it.
async fn read_last(mut from: impl AsyncRead + Unpin) -> io::Result<String> {
    let mut kept = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = from.read(&mut part).await?;
        if length == 0 {
            return Ok(String::from_utf8_lossy(&kept).trim().to_owned());
        }
        kept.extend_from_slice(&part[..length]);
        let surplus = kept.len().saturating_sub(LAST_WORDS);
        kept.drain(..surplus);
    }
}

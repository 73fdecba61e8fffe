//! Why something asked of git was not done, and what to do about it.

use std::{io, path::PathBuf, time::Duration};

use orchestra_fs::quoted;

use super::names;

/// Why something asked of git was not done.
///
/// `Display` says what was attempted on which path or reference, with git's last words; [`hint`](Self::hint)
/// says what to do, and [`code`](Self::code) is stable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// There is no `git` program.
    #[error("the program `{program}` was not found")]
    Missing {
        /// What was looked for.
        program: String,
    },
    /// The `git` program is older than we can work with.
    #[error("git {found} is too old; version {needed} or newer is required")]
    TooOld {
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: &'static str,
    },
    /// The path is in no repository.
    #[error("`{}` is not in a git working tree", path.display())]
    NotARepository {
        /// Where we looked.
        path: PathBuf,
    },
    /// The repository has no working tree.
    #[error("the repository at `{}` is bare", path.display())]
    Bare {
        /// Where it is.
        path: PathBuf,
    },
    /// The git directory does not lead back to the workspace, or is not the one that its files name.
    #[error(transparent)]
    Place(#[from] orchestra_place::PlaceError),
    /// Git refuses the repository since somebody else owns it.
    #[error("git does not trust the repository at `{subject}`: {}", one_line(.stderr))]
    Untrusted {
        /// Where it is.
        subject: String,
        /// Git's last words.
        stderr: String,
    },
    /// The program could not be started.
    #[error("cannot {operation} ({subject}): git could not be started")]
    Start {
        /// What was attempted.
        operation: &'static str,
        /// On which path or reference.
        subject: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Git said no.
    #[error("cannot {operation} ({subject}): git ended with {}{}", .status.replace(": ", " "), written(.stderr))]
    Failed {
        /// What was attempted.
        operation: &'static str,
        /// On which path or reference.
        subject: String,
        /// Its exit code or signal.
        status: String,
        /// Git's last words.
        stderr: String,
    },
    /// Git took longer than it may; it was ended with all that it had started.
    #[error("cannot {operation} ({subject}): git did not end within {} seconds", after.as_secs())]
    TimedOut {
        /// What was attempted.
        operation: &'static str,
        /// On which path or reference.
        subject: String,
        /// How long it was given.
        after: Duration,
    },
    /// Git waited for a named pipe in the place of one of its files; it was ended with all that it had started.
    #[error("cannot {operation}: git waits for `{}`, which is a named pipe", path.display())]
    Pipe {
        /// Attempted operation.
        operation: &'static str,
        /// The pipe.
        path: PathBuf,
    },
    /// Git said more than we read.
    #[error("cannot {operation} ({subject}): git wrote more than {limit} bytes")]
    TooMuchOutput {
        /// What was attempted.
        operation: &'static str,
        /// On which path or reference.
        subject: String,
        /// How much we read.
        limit: usize,
    },
    /// Git said something that we do not understand.
    #[error("cannot {operation} ({subject}): cannot parse the output of git: {what}")]
    Unreadable {
        /// What was attempted.
        operation: &'static str,
        /// On which path or reference.
        subject: String,
        /// What was wrong.
        what: String,
    },
    /// There is no room on the disk.
    #[error("cannot {operation} ({subject}): the disk is full: {}", one_line(.stderr))]
    Full {
        /// What was attempted.
        operation: &'static str,
        /// On which path or reference.
        subject: String,
        /// Git's last words.
        stderr: String,
    },
    /// Another program holds a lock file of git.
    #[error("cannot {operation} ({subject}): another git process holds a lock: {}", one_line(.stderr))]
    Locked {
        /// What was attempted.
        operation: &'static str,
        /// On which path or reference.
        subject: String,
        /// Git's last words.
        stderr: String,
    },
    /// Another of us held the lock of the repository for too long.
    #[error("the lock `{}` was held for more than {} seconds", path.display(), after.as_secs())]
    Busy {
        /// The lock file.
        path: PathBuf,
        /// How long we waited.
        after: Duration,
    },
    /// A file could not be read or written.
    #[error("cannot {operation} (`{}`)", path.display())]
    File {
        /// What was attempted.
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A name is none that git or we could use.
    #[error("`{name}` is not a valid {what}: {why}")]
    Name {
        /// What it was to be.
        what: &'static str,
        /// The name, shortened.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What stands at a path of ours is not ours.
    #[error("`{}` does not belong to a plan: {why}", path.display())]
    NotOurs {
        /// What it is about.
        path: PathBuf,
        /// Why we leave it alone.
        why: String,
    },
    /// A branch cannot be made beside another one.
    #[error("the branch `{branch}` cannot exist beside the branch `{other}`")]
    InTheWay {
        /// What was to be made.
        branch: String,
        /// What is there.
        other: String,
    },
    /// A worktree is on a branch without commits.
    #[error("`{}` is on a branch that has no commit", path.display())]
    Unborn {
        /// The worktree.
        path: PathBuf,
    },
    /// The path of a repository has characters with which jobs cannot run.
    #[error("the path of the repository, `{}`, {what}", path.to_string_lossy().escape_debug())]
    PathOfRepository {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The configuration of a repository, which can come from an archive, names a program that a remote is reached by.
    #[error("`{key}` in the configuration of this repository starts a program")]
    Starts {
        /// The key.
        key: String,
    },
    /// The configuration of a repository, which can come from an archive, changes how a remote is reached.
    #[error("`{key}` in the configuration of this repository changes how a remote is reached")]
    Diverts {
        /// The key.
        key: String,
    },
    /// Nothing is called by that name.
    #[error("there is no commit `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A file that is to get lines is a symbolic link, which could lead anywhere.
    #[error("cannot add lines to `{}`, because it is a symbolic link; these lines are missing: {}", path.display(), lines.join(" "))]
    Linked {
        /// The link.
        path: PathBuf,
        /// The lines that are missing.
        lines: Vec<String>,
    },
    /// Two commits have no history in common.
    #[error("`{ours}` and `{theirs}` have no history in common")]
    Unrelated {
        /// One.
        ours: String,
        /// The other.
        theirs: String,
    },
}

impl GitError {
    /// Whether a signal that was meant for this program, as a terminal's ctrl-c, has met git before it had
    /// left our group: nothing is wrong, and it can be tried again.
    pub(crate) fn is_interrupted(&self) -> bool {
        const MEANT_FOR_US: [&str; 3] = ["signal: 1 ", "signal: 2 ", "signal: 15 "];
        match self {
            Self::Failed { status, stderr, .. } => {
                stderr.is_empty() && MEANT_FOR_US.iter().any(|signal| status.starts_with(signal))
            }
            _ => false,
        }
    }

    /// Returns whether git needed an object that a partial clone lacks, and was not to fetch it.
    pub(crate) fn lacks_objects(&self) -> bool {
        matches!(self, Self::Failed { stderr, .. } if stderr.contains("lazy fetching"))
    }

    /// A stable word for the kind of error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "git-missing",
            Self::TooOld { .. } => "git-too-old",
            Self::NotARepository { .. } => "not-a-repository",
            Self::Bare { .. } => "bare-repository",
            Self::Place(_) => "repository-elsewhere",
            Self::Untrusted { .. } => "untrusted-repository",
            Self::Start { .. } => "git-not-started",
            Self::Failed { .. } => "git-failed",
            Self::TimedOut { .. } => "git-timed-out",
            Self::Pipe { .. } => "git-waits-for-pipe",
            Self::TooMuchOutput { .. } => "git-output-too-large",
            Self::Unreadable { .. } => "git-answer-unreadable",
            Self::Full { .. } => "disk-full",
            Self::Locked { .. } => "git-locked",
            Self::Busy { .. } => "repository-busy",
            Self::File { .. } => "file-failed",
            Self::Name { .. } => "bad-name",
            Self::NotOurs { .. } | Self::Linked { .. } => "not-ours",
            Self::InTheWay { .. } => "branch-in-the-way",
            Self::Unborn { .. } => "branch-without-commits",
            Self::PathOfRepository { .. } => "path-of-repository",
            Self::Starts { .. } => "configuration-starts-program",
            Self::Diverts { .. } => "configuration-diverts-remote",
            Self::Unknown { .. } => "unknown-commit",
            Self::Unrelated { .. } => "unrelated-histories",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { .. } => {
                "install git 2.38 or newer and see that it is on PATH".to_owned()
            }
            Self::TooOld { needed, .. } => format!("install git {needed} or newer"),
            Self::NotARepository { .. } => {
                "run `git init` there, or choose a workspace inside a working tree".to_owned()
            }
            Self::Bare { .. } => {
                "plans need a working tree: clone the repository, or add a worktree to it, and work there"
                    .to_owned()
            }
            Self::Place(_) => {
                "plans change no repository that does not lead back to the workspace".to_owned()
            }
            Self::Untrusted { subject, .. } => format!(
                "if you trust it, run `git config --global --add safe.directory {}`",
                quoted(subject)
            ),
            Self::Start { .. } => "see whether git can be run by hand in that directory".to_owned(),
            Self::Failed { stderr, .. } if stderr.contains("promisor remote") => {
                "the repository is a partial clone that lacks files: see that its remote can be reached without \
                 a password, and retry"
                    .to_owned()
            }
            Self::Failed { stderr, .. } if has_failing_filter(stderr) => {
                "a filter of this repository fails: install its program or correct its configuration \
                 (`git config --show-origin --get-regexp '^filter'`), and retry"
                    .to_owned()
            }
            Self::Failed { stderr, .. } if one_line(stderr).is_empty() => {
                "retry; git wrote no reason".to_owned()
            }
            Self::Failed { .. } => {
                "fix the problem that git names, and retry".to_owned()
            }
            Self::TimedOut { .. } => {
                "retry when the machine or its disk is less busy, or allow git more time".to_owned()
            }
            Self::Pipe { path, .. } => {
                format!("remove `{}` and retry", path.display())
            }
            Self::TooMuchOutput { .. } => {
                "see that what a job builds is ignored by git rather than left in its worktree".to_owned()
            }
            Self::Unreadable { .. } => {
                "check the repository with `git fsck`, and which git is on PATH".to_owned()
            }
            Self::Full { .. } => "make room on the disk and retry; nothing was moved".to_owned(),
            Self::Locked { .. } => {
                "wait for the other program and retry; if none runs, remove the lock file that git names"
                    .to_owned()
            }
            Self::Busy { .. } => "another plan is at work there; retry".to_owned(),
            Self::File { .. } => "check that the path exists and is writable".to_owned(),
            Self::Name { .. } => "give another name".to_owned(),
            Self::NotOurs { .. } => {
                "move it away, or remove it if it is not needed any more; we do not".to_owned()
            }
            Self::Linked { .. } => {
                "add the lines to the file that it leads to, or replace the link by a file".to_owned()
            }
            Self::InTheWay { other, .. } => {
                format!("choose another name for the branch, or rename `{other}`")
            }
            Self::Unborn { .. } => {
                "run `git checkout --detach` there with the commit that the work belongs on, and retry".to_owned()
            }
            Self::PathOfRepository { .. } => {
                "rename the directory, so that its path is UTF-8 without line breaks".to_owned()
            }
            Self::Starts { key } => format!(
                "if you trust it, set it in your own configuration (`git config --global {}`, or a file that \
                 `includeIf` names for this repository) and remove it from that of the repository",
                quoted(key)
            ),
            Self::Diverts { key } => format!(
                "if you trust it, set it in your own configuration (`git config --global {}`, or a file that \
                 `includeIf` names for this repository) and remove it from that of the repository, or list the \
                 workspace in trusted_directories of your orchestra.toml",
                quoted(key)
            ),
            Self::Unknown { .. } => "name an existing branch, tag or commit".to_owned(),
            Self::Unrelated { .. } => {
                "choose a base or a target that share a commit".to_owned()
            }
        }
    }
}

/// The lines that git has written, as one, without its general advice about remotes.
fn one_line(stderr: &str) -> String {
    const ADVICE: [&str; 2] = [
        "Please make sure you have the correct access rights",
        "and the repository exists.",
    ];
    let lines = stderr.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !ADVICE.contains(line))
        .map(|line| line.strip_suffix('.').unwrap_or(line))
        .collect();
    lines.join("; ").replace(":; ", ": ")
}

/// The lines that git has written, as the end of a sentence.
fn written(stderr: &str) -> String {
    match one_line(stderr) {
        line if line.is_empty() => line,
        line => format!(" and wrote `{line}`"),
    }
}

/// Returns whether git has written that a program of `filter.NAME.clean`, `.smudge` or `.process` failed.
fn has_failing_filter(stderr: &str) -> bool {
    let is_filter = |line: &str| {
        line.contains("external filter '")
            || line.contains("smudge filter ")
            || line.contains("clean filter ")
    };
    stderr.lines().any(is_filter)
}

/// Which error it is, by git's last words.
pub(super) fn classify(
    operation: &'static str,
    subject: String,
    status: String,
    stderr: String,
) -> GitError {
    const FULL: [&str; 3] = [
        "No space left on device",
        "Disk quota exceeded",
        "File too large",
    ];
    // A server can repeat the URL of a remote.
    let is_end = |letter: char| letter == '/' || letter.is_whitespace();
    let stderr = names::without_passwords(&stderr, is_end);
    if FULL.iter().any(|words| stderr.contains(words)) {
        return GitError::Full {
            operation,
            subject,
            stderr,
        };
    }
    if stderr.contains("dubious ownership") {
        return GitError::Untrusted { subject, stderr };
    }
    if stderr.contains(".lock': File exists") {
        return GitError::Locked {
            operation,
            subject,
            stderr,
        };
    }
    GitError::Failed {
        operation,
        subject,
        status,
        stderr,
    }
}

#[cfg(test)]
mod tests {
    use super::classify;

    #[test]
    fn error_quotes_what_git_has_written_without_its_general_advice() {
        let written = "fatal: 'origin' does not appear to be a git repository\n\
             fatal: Could not read from remote repository.\n\n\
             Please make sure you have the correct access rights\nand the repository exists.\n\
             fatal: could not fetch 1 from promisor remote";
        let error = |status: &str, written: &str| {
            classify("fetch", "origin".into(), status.into(), written.into())
        };
        let shown = |status: &str, written: &str| error(status, written).to_string();
        assert_eq!(
            shown("exit status: 128", written),
            "cannot fetch (origin): git ended with exit status 128 and wrote `fatal: 'origin' does not appear to be a git \
             repository; fatal: Could not read from remote repository; fatal: could not fetch 1 from promisor remote`"
        );
        assert_eq!(
            shown("signal: 9 (SIGKILL)", ""),
            "cannot fetch (origin): git ended with signal 9 (SIGKILL)"
        );
        let hint = error("exit status: 128", "fatal: bad object").hint();
        assert_eq!(hint, "fix the problem that git names, and retry");
        let hint = error("signal: 9 (SIGKILL)", "").hint();
        assert_eq!(hint, "retry; git wrote no reason");
    }
}

//! Doing one act of an attempt, and saying what came of it.
//!
//! Every act can be begun again by somebody who does not know how far it was: what git does is looked at
//! first, and what a process does is found by the name of its run.

mod agent;
mod brief;
mod commit;
mod integrate;
mod land;
mod name;
mod pressure;
mod ready;
mod run;
mod sandbox;
mod target;
mod usage;
mod watch;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use orchestra_fs::{Access, Directory};
use orchestra_plan::{
    budget::Usage,
    command::Report,
    event::{Failure, FailureKind, WorkSummary},
    ids::{AttemptNumber, Commit, Millis},
    phase::Phase,
};

pub(super) use name::{RunName, halt};
pub(super) use ready::{INSTRUCTIONS, has_instructions};

use name::{HEALER, READIER};
use orchestra_secret::Masker;

use super::{
    assignment::{Assignment, Todo},
    attempt_directory,
    host::{Host, git_failure, internal},
    job_directory,
    teller::Teller,
};
use crate::{
    cause::chain,
    git::{Repository, Worktree},
    logs::{Lines, Source},
    supervise::RunId,
};

/// What an act is done with.
pub(super) struct Cx<'a> {
    host: &'a Host,
    teller: &'a Teller,
    assignment: &'a Assignment,
    directory: PathBuf,
    /// The run that may be under way.
    running: Mutex<Option<RunId>>,
    /// What was told of the use of runs, some of which may be read again from their beginning.
    told: Mutex<Usage>,
    /// When the last run of the act ended, where that was before anybody here looked at it.
    ended: Mutex<Option<Millis>>,
    /// Whether the act has come to its end, which is on its log.
    is_over: AtomicBool,
    /// What is to be on no log.
    secrets: Mutex<Vec<String>>,
}

/// What came of an act.
#[derive(Default)]
struct Done {
    /// What is told before its end.
    before: Vec<Report>,
    commit: Option<Commit>,
    summary: Option<WorkSummary>,
    usage: Usage,
    failure: Option<Failure>,
}

impl Done {
    fn failed(failure: Failure) -> Self {
        Self {
            failure: Some(failure),
            ..Self::default()
        }
    }
}

impl<'a> Cx<'a> {
    pub(super) fn new(host: &'a Host, teller: &'a Teller, assignment: &'a Assignment) -> Self {
        let directory = attempt_directory(
            &host.options.storage,
            assignment.plan,
            assignment.job.id,
            assignment.attempt,
        );
        Self {
            host,
            teller,
            assignment,
            directory,
            running: Mutex::default(),
            told: Mutex::new(assignment.told),
            ended: Mutex::default(),
            is_over: AtomicBool::new(false),
            secrets: Mutex::new(run::secrets(&host.options, assignment)),
        }
    }

    /// Notes what is to be on no log from now on.
    fn hide(&self, secrets: &[String]) {
        let mut known = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend_from_slice(secrets);
        known.sort_unstable();
        known.dedup();
    }

    /// Ends the run that the act has left without knowing its end.
    pub(super) async fn end_left(&self) {
        let run = self.lock().clone();
        if let Some(run) = run {
            halt(&self.directory, &run, self.host.options.job.grace).await;
            *self.lock() = None;
        }
    }

    /// Ends what may be running for the act.
    pub(super) async fn halt(&self) {
        self.end_left().await;
        self.restore_link().await;
        if !self.is_over.load(Ordering::Relaxed) {
            let act = self.assignment.act;
            self.say(&format!("{act}: ended before its end")).await;
        }
    }

    /// Writes the `.git` file of the worktree again if a program of the job has replaced or deleted it. The user may look
    /// at the worktree between two acts.
    pub(super) async fn restore_link(&self) {
        let Ok(repository) = self.host.repository().await else {
            return;
        };
        match repository.restore_link(self.assignment.owner()) {
            Ok(None) => {}
            Ok(Some(moved)) => {
                let words = format!(
                    "the `.git` file of the worktree was replaced or damaged; Orchestra wrote the file again, and moved \
                     the replacement to {}",
                    moved.display()
                );
                self.say(&words).await;
            }
            Err(error) => {
                let words = format!(
                    "cannot check or restore the `.git` file of the worktree, which the job may have replaced; do not use \
                     git there: {}",
                    chain(&error)
                );
                self.say(&words).await;
                tracing::warn!("{words}");
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<RunId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was told of the use of the run that begins now, and of those after it.
    fn told(&self) -> Usage {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes when a run ended that nobody here has waited for; of one that is waited for, that is now.
    fn note_end(&self, ended: Option<Millis>) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = ended;
    }

    /// Notes what a run has used: so much less was told of those after it.
    fn tell_less(&self, used: &Usage) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = told.minus(used);
    }

    async fn repository(&self) -> Result<&'a Repository, Failure> {
        self.host
            .repository()
            .await
            .map_err(|error| git_failure(&error))
    }

    /// The worktree of the job, which is there once it is integrated.
    async fn worktree(&self) -> Result<Worktree, Failure> {
        let repository = self.repository().await?;
        let found = repository.worktree(self.assignment.owner());
        found.map_err(|error| git_failure(&error))?.ok_or_else(|| {
            let words = "the worktree of the job no longer exists; retry the job to recreate it";
            Failure::new(FailureKind::Worktree, words)
        })
    }

    /// What is in the worktree from now on is this attempt's, and was not noted yet.
    async fn unseal(&self) -> Result<(), Failure> {
        let repository = self.repository().await?;
        let found = repository.worktree(self.assignment.owner());
        let unsealed = found.and_then(|found| found.map_or(Ok(()), |found| found.unseal()));
        unsealed.map_err(|error| git_failure(&error))
    }

    fn masker(&self) -> Masker {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        Masker::new(secrets.iter().map(String::as_str))
    }

    /// Says something on the log of the attempt.
    async fn say(&self, text: &str) {
        let source = Source {
            attempt: self.assignment.attempt.get(),
            phase: self.assignment.act.phase.as_str().to_owned(),
            run: 0,
        };
        let bounds = self.host.options.logs.lines;
        let (directory, text) = (self.directory.clone(), text.to_owned());
        let masker = self.masker();
        let said = tokio::task::spawn_blocking(move || {
            Lines::new(&directory, bounds, masker).say(&source, &text)
        });
        if let Ok(Err(error)) = said.await {
            tracing::debug!(%error, "cannot write the log of a job");
        }
    }

    /// Makes the directory of the attempt, which is the current one of its job from now on.
    async fn make_directory(&self) -> Result<(), Failure> {
        let job = job_directory(
            &self.host.options.storage,
            self.assignment.plan,
            self.assignment.job.id,
        );
        let (directory, attempt) = (self.directory.clone(), self.assignment.attempt);
        let storage = self.host.options.storage.clone();
        let made = move || made(&storage, &job, &directory, attempt);
        let made = tokio::task::spawn_blocking(made).await;
        let made = made.unwrap_or_else(|error| Err(io::Error::other(error)));
        made.map_err(|error| {
            let words = format!("the directory of the attempt cannot be made: {error}");
            Failure::new(FailureKind::Storage, words)
        })
    }
}

fn made(storage: &Path, job: &Path, directory: &Path, attempt: AttemptNumber) -> io::Result<()> {
    use std::os::unix::fs::symlink;
    // Not with all above it: storage that was removed meanwhile is not made again.
    let below = directory.strip_prefix(storage).map_err(io::Error::other)?;
    Directory::open(storage)?.make_below(below, Access::Private)?;
    let (target, current) = (format!("attempts/{attempt}"), job.join("current"));
    match symlink(&target, &current) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        linked => return linked,
    }
    let next = job.join(".current");
    match std::fs::remove_file(&next) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(target, &next)?;
    std::fs::rename(next, current)
}

/// Does an act and gives what is to be told of it.
pub(super) async fn perform(cx: &Cx<'_>) -> Vec<Report> {
    let act = cx.assignment.act;
    let done = done(cx).await;
    let done = done.unwrap_or_else(Done::failed);
    let Done {
        before: mut reports,
        commit,
        summary,
        usage,
        failure,
    } = done;
    cx.is_over.store(true, Ordering::Relaxed);
    let ended = *cx.ended.lock().unwrap_or_else(PoisonError::into_inner);
    match failure {
        None => {
            // They decide what follows: the next job, or the parts of this one.
            cx.host.latest_settings().await;
            cx.say(&format!("{act}: done")).await;
            reports.push(Report::ActSucceeded {
                act,
                commit,
                summary,
                usage,
                ended,
            });
        }
        Some(mut failure) => {
            // The words of a program may repeat a secret.
            failure.message = cx.masker().text(&failure.message).into_owned();
            cx.say(&format!("{act}: {}", failure.message)).await;
            // A person may have agreed to an agent meanwhile.
            cx.host.look_for_healer().await;
            reports.push(match failure.kind {
                FailureKind::Lost => Report::Lost {
                    message: failure.message,
                },
                _ => Report::ActFailed {
                    act,
                    failure,
                    usage,
                    ended,
                },
            });
        }
    }
    reports
}

async fn done(cx: &Cx<'_>) -> Result<Done, Failure> {
    // A runner may have ended before it did so.
    cx.restore_link().await;
    match cx.assignment.todo {
        // It looks first whose what is there is.
        Todo::Integrate { .. } => {}
        // It needs no worktree, whatever stands in its place.
        Todo::Merge => drop(cx.unseal().await),
        _ => cx.unseal().await?,
    }
    match &cx.assignment.todo {
        Todo::Integrate {
            commits,
            base_branch,
            holds,
            clear,
            anew,
            with_target,
        } => {
            cx.make_directory().await?;
            let wanted = integrate::Wanted {
                commits,
                base_branch: base_branch.as_ref(),
                holds: holds.as_ref(),
                clear: *clear,
                anew: *anew,
                with_target: *with_target,
            };
            integrate::integrate(cx, wanted).await
        }
        Todo::Setup { specs } => {
            let Done {
                mut usage, failure, ..
            } = ready::ready(cx).await?;
            if let Some(failure) = failure {
                return Ok(Done {
                    usage,
                    failure: Some(failure),
                    ..Done::default()
                });
            }
            for (part, spec) in (0..).zip(specs) {
                let told = |failure| Failure {
                    part: Some(part),
                    ..failure
                };
                let done = run::run(cx, part, spec, None).await.map_err(told)?;
                usage = usage.plus(&done.usage);
                if let Some(failure) = done.failure {
                    return Ok(Done {
                        usage,
                        failure: Some(told(failure)),
                        ..done
                    });
                }
            }
            Ok(Done {
                usage,
                ..Done::default()
            })
        }
        Todo::Run { spec, session } => {
            if cx.assignment.act.phase == Phase::Work && cx.assignment.found.is_none() {
                commit::forget(cx).await?;
            }
            run::run(cx, 0, spec, session.as_deref()).await
        }
        Todo::Heal {
            failed,
            failure,
            spec,
            instead,
        } => {
            let healed = brief::Healed {
                failed: *failed,
                failure,
                spec: spec.as_deref(),
                instead: *instead,
            };
            make_anew(cx).await?;
            agent::heal(cx, HEALER, &healed).await
        }
        Todo::Commit { expects_no_changes } => commit::commit(cx, *expects_no_changes).await,
        Todo::Merge => land::land(cx).await,
    }
}

/// An attempt that begins with a heal has its directory made by that.
async fn make_anew(cx: &Cx<'_>) -> Result<(), Failure> {
    match cx.assignment.acts.first() {
        Some(first) if *first == cx.assignment.act => cx.make_directory().await,
        _ => Ok(()),
    }
}

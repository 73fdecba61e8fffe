//! Running what a phase says: a shell line, a program, or an agent.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orchestra_plan::{
    command::Report,
    event::{Failure, FailureKind, Process},
    ids::Millis,
    work::{Action, ErrorAction, ProcessWork, Shell, ShellWork, WorkSpec},
};
use orchestra_process::Sandbox;

use super::{Cx, Done, RunName, agent, sandbox};
use crate::{
    cause::chain,
    plans::{Options, now},
    runner::{assignment::Assignment, export::HIDDEN},
    supervise::{
        self, Ending, Found, How, Order, Program, StartError, Supervised, Variables, environment,
    },
};

/// A process that runs for longer is named in the log of the plan.
const NAMED_AFTER: Duration = Duration::from_millis(250);

/// Does what a part of a phase says.
pub(super) async fn run(
    cx: &Cx<'_>,
    part: u32,
    spec: &WorkSpec,
    session: Option<&str>,
) -> Result<Done, Failure> {
    let program = match &spec.action {
        Action::Agent(work) => return agent::work(cx, part, spec, work, session).await,
        Action::Shell(work) => shell(work),
        Action::Process(work) => process(work),
    };
    let settings = settings(cx).await?;
    let mut order = order(cx, &settings, part, spec, program).await?;
    sandbox::confine(cx, &settings, spec, &mut order).await?;
    let ending = supervised(cx, part, &mut order, &mut Nobody).await?;
    Ok(Done {
        failure: failure_of(&ending),
        ..Done::default()
    })
}

/// Options with the settings that the user has now, with which a program of a job starts. No program starts without
/// them.
pub(super) async fn settings(cx: &Cx<'_>) -> Result<Arc<Options>, Failure> {
    let settings = cx.host.settings().await;
    settings.map_err(|why| {
        let words = format!("{why}; correct them, and retry the job");
        Failure::new(FailureKind::Unavailable, words)
    })
}

/// What is done for a phase, as the supervisor is told; its run is named later.
pub(super) async fn order(
    cx: &Cx<'_>,
    settings: &Options,
    part: u32,
    spec: &WorkSpec,
    program: Program,
) -> Result<Order, Failure> {
    let worktree = cx.worktree().await?;
    let directory = directory(worktree.path(), spec)?;
    let mut order = plain(cx, settings, part, program, directory, spec)?;
    let wanted = |limit: orchestra_plan::work::TimeoutMs| Duration::from_millis(limit.get());
    order.limits.timeout = spec.timeout_ms.map(wanted).or(order.limits.timeout);
    order.limits.idle = spec.idle_timeout_ms.map(wanted).or(order.limits.idle);
    Ok(order)
}

fn plain(
    cx: &Cx<'_>,
    options: &Options,
    part: u32,
    program: Program,
    directory: PathBuf,
    spec: &WorkSpec,
) -> Result<Order, Failure> {
    let assignment = cx.assignment;
    let strings = |pairs: &orchestra_plan::value::Env| -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    };
    let plan = strings(&assignment.settings.env);
    let mut own = strings(&assignment.job.env);
    own.extend(strings(&spec.env));
    let Variables { values, secrets } = environment(&options.environment, &plan, &own);
    let is_hidden = |(name, value): (&String, &String)| (value == HIDDEN).then(|| name.clone());
    let mut hidden: Vec<String> = own.iter().filter_map(is_hidden).collect();
    let of_plan = plan.iter().filter(|(name, _)| !own.contains_key(*name));
    hidden.extend(of_plan.filter_map(is_hidden));
    if !hidden.is_empty() {
        let words = format!(
            "the values of {} are missing since the plans were rebuilt from their files; set them and retry the job",
            hidden.join(", ")
        );
        return Err(Failure::new(FailureKind::Unavailable, words));
    }
    let name = RunName::of(
        assignment.job.id,
        assignment.attempt,
        assignment.act,
        part,
        1,
    )?;
    Ok(Order {
        attempt: cx.directory.clone(),
        id: name.id(),
        program,
        directory,
        secrets,
        slot: cx.teller.slot.clone(),
        environment: values,
        limits: options.job.clone(),
        sandbox: Sandbox::None,
        board: None,
        input: None,
        logs: options.logs,
        launcher: options.supervisor.clone(),
    })
}

/// What is to be on no log of an attempt, whichever of its parts has it.
pub(super) fn secrets(options: &Options, assignment: &Assignment) -> Vec<String> {
    let pairs = |env: &orchestra_plan::value::Env| -> Vec<(String, String)> {
        let pairs = env.iter();
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    };
    let (settings, job) = (&assignment.settings, &assignment.job);
    let plan = pairs(&settings.env).into_iter().collect();
    let parts = [&job.work, &job.prechecks, &job.postchecks];
    let init = settings.worktree_init.iter();
    let mut all: Vec<String> = Vec::new();
    for spec in parts.into_iter().flatten().chain(init) {
        let own = pairs(&job.env).into_iter().chain(pairs(&spec.env));
        all.extend(environment(&options.environment, &plan, &own.collect()).secrets);
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Where it is done: in the worktree, whatever links it has.
fn directory(worktree: &Path, spec: &WorkSpec) -> Result<PathBuf, Failure> {
    let Some(cwd) = &spec.cwd else {
        return Ok(worktree.to_owned());
    };
    let wrong = |what: &str| {
        let words = format!("`cwd` {} {what}", cwd.as_str());
        Failure::new(FailureKind::Unavailable, words)
    };
    let top = worktree
        .canonicalize()
        .map_err(|_| wrong("has no worktree"))?;
    let whole = top.join(cwd.as_str()).canonicalize();
    let whole = whole.map_err(|_| wrong("is not there"))?;
    match whole.starts_with(&top) && whole.is_dir() {
        true => Ok(whole),
        false => Err(wrong("is no directory of the worktree")),
    }
}

fn shell(work: &ShellWork) -> Program {
    let shell = match work.shell() {
        None | Some(Shell::Sh) => supervise::Shell::Sh,
        Some(Shell::Bash) => supervise::Shell::Bash,
        Some(Shell::Pwsh) => supervise::Shell::Pwsh,
        Some(Shell::PowerShell) => supervise::Shell::PowerShell,
        Some(Shell::Cmd) => supervise::Shell::Cmd,
    };
    Program::Shell {
        shell,
        line: work.command().as_str().to_owned(),
        error_action: work.error_action().map(|action| match action {
            ErrorAction::Continue => supervise::ErrorAction::Continue,
            ErrorAction::Stop => supervise::ErrorAction::Stop,
            ErrorAction::SilentlyContinue => supervise::ErrorAction::SilentlyContinue,
        }),
    }
}

fn process(work: &ProcessWork) -> Program {
    let arguments = work
        .args
        .iter()
        .map(|argument| OsString::from(argument.as_str()));
    Program::Process {
        executable: work.executable.as_str().into(),
        arguments: arguments.collect(),
    }
}

/// Who looks at a run while it goes on.
pub(super) trait Watcher {
    /// Checks directly before a run starts that it may.
    ///
    /// # Errors
    /// When it may not.
    async fn check_start(&mut self, _: &Cx<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Looks until the run is to be ended, if it ever is.
    async fn watch(&mut self, cx: &Cx<'_>, run: &Supervised);
}

/// Nobody.
pub(super) struct Nobody;

impl Watcher for Nobody {
    async fn watch(&mut self, _: &Cx<'_>, _: &Supervised) {
        std::future::pending().await
    }
}

/// Has a run done to its end, once: one that a runner left behind is taken up.
pub(super) async fn supervised(
    cx: &Cx<'_>,
    part: u32,
    order: &mut Order,
    watcher: &mut impl Watcher,
) -> Result<Ending, Failure> {
    let assignment = cx.assignment;
    let mut looks = assignment.found.is_some();
    for number in 1.. {
        let name = RunName::of(
            assignment.job.id,
            assignment.attempt,
            assignment.act,
            part,
            number,
        )?;
        order.id = name.id();
        *cx.lock() = Some(order.id.clone());
        if !looks {
            watcher.check_start(cx).await?;
        }
        let found = match looks {
            true => find(cx, order).await?,
            false => match Supervised::start(order).await {
                Ok(run) => Found::Running(run),
                Err(StartError::AlreadyStarted { .. }) => find(cx, order).await?,
                Err(StartError::NotStarted { reason }) => {
                    return Err(Failure::new(FailureKind::Spawn, reason));
                }
                Err(error @ (StartError::Busy | StartError::TooLong { .. })) => {
                    return Err(not_started(&error));
                }
                // It may have begun although that was not heard.
                Err(error) => match find(cx, order).await? {
                    Found::NeverBegan => return Err(not_started(&error)),
                    found => found,
                },
            },
        };
        looks = false;
        cx.note_end(match &found {
            Found::Ended(ending) => Some(Millis::new(ending.ended)),
            _ => None,
        });
        let ending = match found {
            Found::Running(run) => attend(cx, &run, watcher).await?,
            Found::Ended(ending) => ending,
            Found::Lost => return Err(lost()),
            Found::NeverBegan if may_have_begun(cx) => return Err(lost()),
            // It was about to begin when its runner was killed; the next one has another number.
            Found::NeverBegan => continue,
        };
        *cx.lock() = None;
        return match ending.how {
            How::Lost => Err(lost()),
            _ => Ok(ending),
        };
    }
    Err(lost())
}

/// Whether runs of the act may have begun of which nothing is found: it was begun before the machine was started,
/// and what is written of the beginning of a run has not reached the disk for certain. One that is yet to be
/// begun, by a clock that was set back since, may have been as well.
fn may_have_begun(cx: &Cx<'_>) -> bool {
    let (began, up_since) = (cx.assignment.found, cx.host.options.up_since);
    let is_of_before = |(began, up)| began < up || began > now();
    began.zip(up_since).is_some_and(is_of_before)
}

async fn find(cx: &Cx<'_>, order: &Order) -> Result<Found, Failure> {
    Supervised::find(&cx.directory, &order.id)
        .await
        .map_err(|error| unreadable(&error))
}

/// Waits for the end of a run.
async fn attend(
    cx: &Cx<'_>,
    run: &Supervised,
    watcher: &mut impl Watcher,
) -> Result<Ending, Failure> {
    let mut ended = std::pin::pin!(run.wait());
    let early = tokio::time::timeout(NAMED_AFTER, &mut ended).await;
    if let Ok(ending) = early {
        return ending.map_err(|error| unreadable(&error));
    }
    let supervisor = run.supervisor();
    let process = Process {
        pid: supervisor.id(),
        started: supervisor.began().unwrap_or_default(),
    };
    cx.teller.progress(Report::ProcessStarted(process)).await;
    tokio::select! {
        ending = &mut ended => ending.map_err(|error| unreadable(&error)),
        () = watcher.watch(cx, run) => {
            let grace = cx.host.options.job.grace;
            run.end(grace).await.map_err(|error| unreadable(&error))
        }
    }
}

/// Why a run failed, if it did.
pub(super) fn failure_of(ending: &Ending) -> Option<Failure> {
    if ending.is_success() {
        return None;
    }
    let kind = match ending.how {
        How::Exited => FailureKind::ExitCode,
        How::Signaled | How::Stopped => FailureKind::Signal,
        How::Timeout => FailureKind::Timeout,
        How::Idle => FailureKind::IdleTimeout,
        How::Output => FailureKind::OutputLimit,
        How::Memory | How::Limit => FailureKind::ResourceLimit,
        How::NotStarted => FailureKind::Spawn,
        How::Lost => FailureKind::Lost,
    };
    let mut failure = Failure::new(kind, ending.to_string());
    failure.exit_code = ending.code;
    failure.signal = ending.signal;
    Some(failure)
}

fn not_started(error: &StartError) -> Failure {
    let kind = match error {
        StartError::Files { .. } => FailureKind::Storage,
        StartError::Busy => FailureKind::Transient,
        // A signal to our group may have ended it before it had left that.
        StartError::Supervisor { .. } => FailureKind::Lost,
        _ => FailureKind::Internal,
    };
    Failure::new(kind, chain(error))
}

fn unreadable(error: &std::io::Error) -> Failure {
    let words = format!("cannot read the result of a run: {error}");
    Failure::new(FailureKind::Storage, words)
}

fn lost() -> Failure {
    let words = "its supervisor was killed, or the machine stopped; nothing of it is left";
    Failure::new(FailureKind::Lost, words)
}

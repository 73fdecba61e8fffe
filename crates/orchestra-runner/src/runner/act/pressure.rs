//! How full the context of an agent is while it works, and what it leaves to others when it is asked to
//! stop.
//!
//! Nothing is remembered here: that an agent was asked, and what it answered, are files of its worktree,
//! so that a runner which comes later finds them.

use std::{io, path::PathBuf};

use orchestra_plan::{
    command::Report,
    event::{Act, Failure, FailureKind},
    phase::Phase,
    pressure::{Filled, Part, Pressure},
    spec::Task,
    work::{Action, Brief, Instructions, WorkSpec},
};

use super::Cx;
use crate::{
    agents::{self, Manifest, Profile, Remaining},
    cause::chain,
};

/// How much is told to others of what is done, in bytes.
const MAX_DONE_BYTES: usize = 4_000;

/// Looks at how full the context of an agent is.
pub(super) struct Gauge {
    worktree: PathBuf,
    /// How many tokens it can hold; 0 where nobody knows, or nobody looks.
    limit: u64,
    /// What was told.
    level: Pressure,
    /// Into how many pieces the agent may leave the rest; 0 when it is not asked to.
    pieces: usize,
}

/// Into how many pieces the agent of an act may leave what it has not done; 0 when it is never asked.
pub(super) fn pieces(cx: &Cx<'_>, profile: &Profile) -> usize {
    let is_work = cx.assignment.act == Act::of(Phase::Work);
    let is_known = profile.tells().context && profile.text().context_tokens.is_some();
    match is_work && is_known && cx.assignment.may_split {
        true => cx.host.known_settings().policy.splits.parts_max,
        false => 0,
    }
}

impl Gauge {
    /// For an agent that is about to be called, or was called by a runner that is gone.
    pub(super) async fn new(
        cx: &Cx<'_>,
        worktree: PathBuf,
        profile: &Profile,
    ) -> Result<Self, Failure> {
        if cx.assignment.found.is_none() {
            let worktree = worktree.clone();
            on_files(move || agents::forget_checkpoint(&worktree)).await?;
        }
        let looks = cx.host.known_settings().policy.splits.enabled && !cx.assignment.act.heal;
        let size = profile.text().context_tokens.filter(|_| looks);
        Ok(Self {
            worktree,
            limit: size.unwrap_or_default(),
            level: Pressure::Normal,
            pieces: pieces(cx, profile),
        })
    }

    /// Takes how many tokens the model was given last, and asks the agent to stop when these are nearly
    /// all that it can be given.
    pub(super) async fn look(&mut self, cx: &Cx<'_>, used: Option<u64>) {
        let Some(Filled { level, used, limit }) = self.tell(cx, used).await else {
            return;
        };
        if level < Pressure::Critical || self.pieces == 0 {
            return;
        }
        let worktree = self.worktree.clone();
        let words = match on_files(move || agents::request_checkpoint(&worktree)).await {
            Ok(()) => format!(
                "the agent's context is nearly full ({used} of {limit} tokens): asking it to hand over the rest to further jobs"
            ),
            // It goes on as if nobody had looked.
            Err(failure) => failure.message,
        };
        cx.say(&words).await;
    }

    /// Takes how many tokens the model was given last, and tells it where that is another level. Of an agent that
    /// has ended no more than that is done: it may have been quicker than who looks.
    pub(super) async fn tell(&mut self, cx: &Cx<'_>, used: Option<u64>) -> Option<Filled> {
        let (used, limit) = (used?, self.limit);
        let level = cx.host.known_settings().policy.splits.pressure(used, limit);
        if level <= self.level {
            return None;
        }
        self.level = level;
        let filled = Filled { level, used, limit };
        cx.teller.progress(Report::Filled(filled)).await;
        Some(filled)
    }

    /// What an agent that has ended well leaves to others, if it was asked to.
    pub(super) async fn left(
        self,
        spec: &WorkSpec,
        cx: &Cx<'_>,
    ) -> Result<Option<Report>, Failure> {
        if self.pieces == 0 {
            return Ok(None);
        }
        let read = move || agents::read_manifest(&self.worktree, self.pieces);
        let read = tokio::task::spawn_blocking(read).await;
        let read = read.map_err(|error| super::internal(&error))?;
        let wrong = |why: String| {
            let words =
                format!("the agent was asked to hand over the rest to further jobs, and {why}");
            Failure::new(FailureKind::ExitCode, words)
        };
        let Some(manifest) = read.map_err(|error| wrong(chain(&error)))? else {
            return Ok(None);
        };
        let whole = cx.assignment.job.task.as_str();
        let parts = manifest.remaining.iter();
        let parts: Option<Vec<Part>> = parts
            .map(|piece| part(spec, whole, &manifest, piece))
            .collect();
        let parts = parts.ok_or_else(|| wrong("left a piece that cannot be a job".to_owned()))?;
        let words = format!("the agent leaves the rest to {} further jobs", parts.len());
        cx.say(&words).await;
        Ok(Some(Report::Split(parts)))
    }
}

/// A piece of work for an agent such as the one that left it.
fn part(spec: &WorkSpec, whole: &str, manifest: &Manifest, piece: &Remaining) -> Option<Part> {
    let Action::Agent(work) = &spec.action else {
        return None;
    };
    let task = piece.task.trim();
    let mut text = task.to_owned();
    if let Some(instructions) = &piece.instructions {
        text.push_str(&format!("\n\n{}", instructions.trim()));
    }
    text.push_str(&format!(
        "\n\nThis is one of {} pieces of a larger task; do this piece only. The larger task is:\n\n{whole}",
        manifest.remaining.len()
    ));
    let done = manifest.done.trim();
    if !done.is_empty() {
        let done = &done[..done.floor_char_boundary(MAX_DONE_BYTES)];
        text.push_str(&format!("\n\nOf that this is done already:\n\n{done}"));
    }
    let mut work = work.clone();
    work.brief = Brief::Text(Instructions::parse(&text).ok()?);
    work.resume_session = None;
    Some(Part {
        task: Task::parse(task).ok()?,
        work: WorkSpec {
            action: Action::Agent(work),
            ..spec.clone()
        },
    })
}

async fn on_files(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|error| {
        let words = format!("cannot write the files that ask the agent to stop: {error}");
        Failure::new(FailureKind::Worktree, words)
    })
}

//! Commands that change a plan.

use orchestra_plan::{
    command::{Command, Retry},
    work::WorkSpec,
};
use orchestra_runner::plans::Answer;

use super::{
    Mended,
    desk::{Desk, failure},
    file,
};
use crate::{
    exit::{Exit, Failure},
    output::{self, Format},
};

/// What is asked of a plan.
pub(super) enum Change {
    Pause,
    Resume,
    Cancel(Option<String>),
    Retry(Vec<String>, Box<Retry>),
    Recover,
    Archive(bool),
    Delete,
    Finalize(bool),
    ForceFail(String, Option<String>),
}

impl Change {
    fn command(self) -> Command {
        match self {
            Self::Pause => Command::Pause,
            Self::Resume => Command::Resume,
            Self::Cancel(reason) => Command::Cancel { reason },
            Self::Retry(jobs, retry) => Command::RetryPlan {
                jobs: (!jobs.is_empty()).then_some(jobs),
                retry: *retry,
            },
            Self::Recover => Command::Recover,
            Self::Archive(force) => Command::Archive { force },
            Self::Delete => Command::Delete,
            Self::Finalize(start) => Command::Finalize {
                start_paused: !start,
            },
            Self::ForceFail(job, reason) => Command::ForceFail { job, reason },
        }
    }

    /// What was done, in words.
    const fn words(&self) -> &'static str {
        match self {
            Self::Pause => "is paused; what is at work ends its work",
            Self::Resume => "goes on",
            Self::Cancel(_) => "is canceled",
            Self::Retry(..) => "tries again",
            Self::Recover => "is back, paused; `orchestra plan resume` lets it go on",
            Self::Archive(_) => "is put away",
            Self::Delete => "is deleted",
            Self::Finalize(_) => "is complete",
            Self::ForceFail(..) => "has one more failed job",
        }
    }
}

/// How jobs are asked for again, and what one of them does from now on.
///
/// # Errors
/// When what is said is no work, or is said of several jobs.
pub(super) fn mended(
    jobs: &[String],
    said: &Mended,
    clear_worktree: bool,
) -> Result<Box<Retry>, Failure> {
    let Mended {
        work,
        prechecks,
        postchecks,
    } = said;
    let is_mended = work.is_some() || prechecks.is_some() || postchecks.is_some();
    if is_mended && jobs.len() != 1 {
        let words = "--work, --prechecks and --postchecks are for one job: name it alone";
        return Err(Failure::usage_text(words));
    }
    let check = |flag: &str, text: &Option<String>| -> Result<Option<Option<WorkSpec>>, Failure> {
        match text.as_deref().map(str::trim) {
            None => Ok(None),
            Some("") => Ok(Some(None)),
            Some(text) => file::work(flag, text).map(|work| Some(Some(work))),
        }
    };
    let work = work.as_deref().map(|text| file::work("--work", text));
    Ok(Box::new(Retry {
        work: work.transpose()?,
        prechecks: check("--prechecks", prechecks)?,
        postchecks: check("--postchecks", postchecks)?,
        clear_worktree,
    }))
}

/// Changes a plan, and says so.
pub(super) async fn run(
    desk: &Desk,
    asked: &str,
    change: Change,
    format: Format,
) -> Result<Exit, Failure> {
    let plan = match change {
        // What is deleted does not come back.
        Change::Delete => desk.exactly(asked).await?,
        _ => desk.plan(asked).await?,
    };
    let words = change.words();
    let caller = Desk::caller();
    let answered = desk
        .plans()
        .command(*plan.id(), change.command(), &caller)
        .await;
    let answer = answered.map_err(failure)?;
    format.print(&answer, |answer| {
        let name = output::in_a_line(plan.name());
        match answer.changed {
            true => format!("plan {name} ({}) {words}", plan.id()),
            false => format!("plan {name} ({}): nothing had to be changed", plan.id()),
        }
    })?;
    Ok(refusals(&answer))
}

/// Says which of several things were not done, and how to exit then.
fn refusals(answer: &Answer) -> Exit {
    let mut exit = Exit::Ok;
    for item in &answer.items {
        if let Some(refused) = &item.refused {
            let line = format!("{}: {}", item.asked, refused.message);
            output::complain(&output::printable(&line));
            exit = Exit::Refused;
        }
    }
    exit
}

//! Commands that change a plan.

use orchestra_plan::{
    command::{Command, Retry},
    plan::Plan,
    work::WorkSpec,
};
use orchestra_runner::plans::Answer;

use super::{
    Mended, chain,
    desk::{self, Desk, failure},
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
            Self::Pause => "is paused; running jobs finish their work",
            Self::Resume => "is resumed",
            Self::Cancel(_) => "is canceled",
            Self::Retry(..) => "retries its failed jobs",
            Self::Recover => "is recovered and paused; `orchestra plan resume` continues it",
            Self::Archive(_) => "is archived",
            Self::Delete => "is deleted",
            Self::Finalize(_) => "is complete",
            Self::ForceFail(..) => "has a job that was set to failed",
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
        expects_no_changes,
    } = said;
    let does_other = work.is_some() || prechecks.is_some() || postchecks.is_some();
    if does_other && jobs.len() != 1 {
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
        expects_no_changes: expects_no_changes.then_some(true),
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
    let awaited = match change {
        Change::Resume => chain::awaited(desk, &plan).await?,
        _ => None,
    };
    // What a job that is only just ended leaves is not told from what somebody else has put there.
    let puts_away =
        matches!(change, Change::Archive(_) | Change::Delete) && plan.status().is_ended();
    let mut words = change.words().to_owned();
    if let Some(awaited) = awaited {
        words.push_str(&format!(
            " now, and does not wait any longer for {}, which is {}",
            chain::named(&awaited),
            awaited.status()
        ));
    }
    let waiting = match change {
        Change::Delete => chain::waiting(desk, &plan).await?,
        _ => Vec::new(),
    };
    let caller = Desk::caller();
    let answered = desk
        .plans()
        .command(*plan.id(), change.command(), &caller)
        .await;
    let answer = answered.map_err(failure)?;
    desk::warn(&answer);
    format.print(&answer, |answer| {
        let name = output::in_a_line(plan.name());
        match answer.changed {
            true => format!("plan {name} ({}) {words}", plan.id()),
            false => format!("plan {name} ({}) is unchanged", plan.id()),
        }
    })?;
    for other in waiting {
        output::complain(&format!(
            "{} waited for it, and stays paused; `orchestra plan resume {}` starts it",
            chain::named(&other),
            other.id()
        ));
    }
    if puts_away {
        kept(desk, &plan).await;
    }
    Ok(refusals(&plan, &answer))
}

/// Says which worktrees stay, and what to do about them.
async fn kept(desk: &Desk, plan: &Plan) {
    // Without a repository there are none.
    for kept in desk
        .plans()
        .kept_worktrees_of(plan)
        .await
        .unwrap_or_default()
    {
        output::complain(&output::printable(&kept.to_string()));
    }
}

/// Says which of several things were not done, and how to exit then.
fn refusals(plan: &Plan, answer: &Answer) -> Exit {
    let mut exit = Exit::Ok;
    for item in &answer.items {
        if let Some(refused) = &item.refused {
            // Where all were asked for, by a name rather than an id.
            let job = item.job.and_then(|job| plan.job(&job));
            let job = job.map_or(item.asked.as_str(), |job| job.producer().as_str());
            let line = format!("{job}: {}", refused.message);
            output::complain(&output::printable(&line));
            exit = Exit::Refused;
        }
    }
    exit
}

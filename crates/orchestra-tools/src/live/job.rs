//! One job of a plan: what it printed, as it prints it, and what it changed.

use std::{collections::VecDeque, time::Duration};

use futures_util::{Stream, stream};
use orchestra_plan::{ids::AttemptNumber, plan::Plan};
use orchestra_runner::{
    logs::{Follower, Line, Page, Query, Stream as Said},
    plans::{LogOf, Plans, PlansError},
};
use serde::Serialize;

use super::{LiveError, json};

/// How much of what a job changed is shown.
const DIFF_BYTES: usize = 2 * 1024 * 1024;
/// How many lines are told at once.
const LINES: usize = 500;
/// How long one wait for a change of plans takes before it is renewed.
const WAIT: Duration = Duration::from_secs(30);

/// Which lines of which attempt.
#[derive(Debug, Clone, Default)]
pub struct LogFrom {
    /// The attempt, counted from 1; the latest unless said.
    pub attempt: Option<u32>,
    /// The lines of this phase; of all unless said.
    pub phase: Option<String>,
    /// Those after this one.
    pub after: Option<u64>,
}

#[derive(Serialize)]
struct Changed {
    text: String,
    truncated: bool,
}

/// A line as it is told.
#[derive(Serialize)]
struct Told<'a> {
    cursor: u64,
    attempt: u32,
    phase: &'a str,
    time: u64,
    stream: Said,
    text: &'a str,
    /// Whether the next line goes on with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

#[derive(Serialize)]
struct Omitted {
    lines: u64,
}

pub(super) async fn diff(plans: &Plans, plan: &str, job: &str) -> Result<String, LiveError> {
    let plan = plans.find(plan).await?;
    known(&plan, job)?;
    let patch = plans.patch(&plan, job, DIFF_BYTES).await?;
    Ok(json(&Changed {
        text: patch.text,
        truncated: patch.truncated,
    }))
}

/// Tells the lines of an attempt as they come, as events `line`, `omitted` and at last `end`.
pub(super) async fn log(
    plans: Plans,
    plan: String,
    job: String,
    from: LogFrom,
) -> Result<impl Stream<Item = (&'static str, String)> + Send + 'static, LiveError> {
    let asked = match from.attempt {
        None => None,
        Some(number) => Some(AttemptNumber::new(number).ok_or_else(|| {
            LiveError::Unknown("attempt 0 does not exist: attempts are numbered from 1".to_owned())
        })?),
    };
    let found = plans.find(&plan).await?;
    known(&found, &job)?;
    plans.log_of(&found, &job, asked).map_err(unknown)?;
    let following = Following {
        plans,
        plan,
        job,
        asked,
        query: Query {
            after: from.after,
            phase: from.phase,
            limit: Some(LINES),
            ..Query::default()
        },
        current: None,
        waiting: VecDeque::new(),
        is_over: false,
    };
    Ok(stream::unfold(following, async |mut following| {
        let told = following.next().await?;
        Some((told, following))
    }))
}

fn known(plan: &Plan, job: &str) -> Result<(), LiveError> {
    let found = plan.find(job);
    found
        .map(drop)
        .map_err(|error| LiveError::Unknown(error.to_string()))
}

fn unknown(error: PlansError) -> LiveError {
    match error {
        PlansError::Refused { message, .. } => LiveError::Unknown(message),
        error => error.into(),
    }
}

struct Following {
    plans: Plans,
    plan: String,
    job: String,
    asked: Option<AttemptNumber>,
    query: Query,
    current: Option<(LogOf, Follower)>,
    waiting: VecDeque<(&'static str, String)>,
    is_over: bool,
}

impl Following {
    async fn next(&mut self) -> Option<(&'static str, String)> {
        loop {
            if let Some(told) = self.waiting.pop_front() {
                return Some(told);
            }
            if self.is_over {
                return None;
            }
            if self.look().await.is_err() {
                // It is gone with its plan, or cannot be read; whoever asks again is told why.
                self.end();
            }
        }
    }

    /// Takes what there is, or waits until there may be more.
    async fn look(&mut self) -> Result<(), LiveError> {
        // Where plans are now, before it is looked at them: what changes meanwhile ends the wait.
        let last = self.plans.last().await?;
        let plan = self.plans.find(&self.plan).await?;
        let job = plan.find(&self.job);
        let job = job.map_err(|error| LiveError::Unknown(error.to_string()))?;
        let latest = job.attempt().map(|attempt| attempt.number);
        let is_ended = job.status().is_terminal() || plan.status().is_ended();
        let is_ended = match self.asked {
            Some(asked) => is_ended || latest.is_some_and(|latest| latest > asked),
            None => is_ended,
        };
        if self.current.is_none()
            && let Some(log) = self.plans.log_of(&plan, &self.job, self.asked)?
        {
            // One attempt is followed, whatever comes after it.
            self.asked = Some(log.attempt);
            let follower = self.plans.follow_log(&log, self.query.clone());
            self.current = Some((log, follower));
        }
        let Some((log, follower)) = &mut self.current else {
            match is_ended {
                true => self.end(),
                false => drop(self.plans.changes(last, WAIT).await?),
            }
            return Ok(());
        };
        if is_ended {
            let page = self.plans.read_log(log, self.query.clone()).await?;
            let is_last = !page.more;
            self.take(&page);
            if is_last {
                self.end();
            }
            return Ok(());
        }
        let page = tokio::select! {
            page = follower.next() => Some(page),
            changed = self.plans.changes(last, WAIT) => changed.map(|_| None)?,
        };
        if let Some(page) = page {
            let page = page.map_err(|error| LiveError::Plans(error.to_string()))?;
            self.take(&page);
        }
        Ok(())
    }

    fn take(&mut self, page: &Page) {
        if page.omitted > 0 {
            let lines = page.omitted;
            self.waiting
                .push_back(("omitted", json(&Omitted { lines })));
        }
        let lines = page.lines.iter().map(|line| ("line", json(&told(line))));
        self.waiting.extend(lines);
        self.query.after = Some(page.next);
    }

    fn end(&mut self) {
        self.is_over = true;
        self.waiting.push_back(("end", "{}".to_owned()));
    }
}

fn told(line: &Line) -> Told<'_> {
    Told {
        cursor: line.seq,
        attempt: line.attempt,
        phase: &line.phase,
        time: line.ts,
        stream: line.stream,
        text: &line.text,
        more: line.more,
    }
}

//! What jobs printed: the last lines, or one page after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use orchestra_plan::ids::{AttemptNumber, JobId, PlanId};
use orchestra_plan::plan::{Job, Plan};
use orchestra_plan::value::Whole;
use orchestra_runner::logs::{Line, Page, Query};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::found;
use crate::failure::Failure;
use crate::groups::plans::args::{Named, cursor_of};
use crate::groups::plans::bad_cursor;
use crate::tool::{PlanCx, Reply};

/// How many of the last lines are shown unless told.
pub(super) const TAIL: usize = 500;
/// How much of the text is shown where nobody says how many lines are wanted.
pub(super) const USUAL_BYTES: usize = 32 * 1024;
/// How much of it is shown at most: more is no use to a model, and the rest can be asked for.
const MAX_BYTES: usize = 1024 * 1024;

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum LogPhase {
    MergeFi,
    Setup,
    Prechecks,
    Work,
    Commit,
    Postchecks,
    MergeRi,
    All,
}

impl LogPhase {
    const fn name(self) -> &'static str {
        match self {
            Self::MergeFi => "merge-fi",
            Self::Setup => "setup",
            Self::Prechecks => "prechecks",
            Self::Work => "work",
            Self::Commit => "commit",
            Self::Postchecks => "postchecks",
            Self::MergeRi => "merge-ri",
            Self::All => "all",
        }
    }
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct JobLogs {
    plan_id: Named,
    job_id: Named,
    phase: Option<LogPhase>,
    tail: Option<Whole<1, 10_000>>,
    contains: Option<Named>,
    attempt_number: Option<Whole<1, 1_000>>,
    limit: Option<Whole<1, 5_000>>,
    cursor: Option<Named>,
}

/// Lines of a log.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(super) struct Logs {
    plan_id: PlanId,
    job_id: JobId,
    job_name: String,
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt_number: Option<u32>,
    /// The latest attempt, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    latest_attempt_number: Option<u32>,
    logs: String,
    /// How many are shown.
    lines: usize,
    /// Whether there are lines before these that are not shown.
    truncated: bool,
    /// Whether there are lines behind these now.
    more: bool,
    /// Where the lines behind these begin, now or once they are written.
    #[serde(rename = "next_cursor", skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

impl Reply for Logs {}

pub(super) async fn logs(cx: PlanCx, args: JobLogs) -> Result<Logs, Failure> {
    let plan = cx.plan(&args.plan_id.0).await?;
    let job = found(&plan, &args.job_id)?;
    let phase = args.phase.unwrap_or(LogPhase::All);
    let cursor = cursor_of(args.cursor.as_ref());
    let cursor = cursor.map(Cursor::parse).transpose()?;
    let asked = match (args.attempt_number, cursor.and_then(|at| at.attempt)) {
        (Some(asked), Some(at)) if asked.get() != at.get() => return Err(bad_cursor()),
        (asked, at) => at.or(asked),
    };
    let number = attempt_of(job, asked)?;
    let after = cursor.map(|at| at.line);
    let query = Query {
        after,
        phase: (phase != LogPhase::All).then(|| phase.name().to_owned()),
        contains: args.contains.map(|text| text.0),
        ..Query::default()
    };
    let room = match args.tail.is_some() || args.limit.is_some() {
        true => MAX_BYTES,
        false => USUAL_BYTES,
    };
    let mut page = match (args.tail, after, args.limit) {
        (None, Some(_), limit) | (None, None, limit @ Some(_)) => {
            let limit = limit.map(count);
            let query = Query { limit, ..query };
            let mut page = read(&cx, &plan, job, number, query).await?;
            keep_first(&mut page, room);
            page
        }
        (tail, ..) => {
            let wanted = tail.map_or(TAIL, count);
            let mut page = tail_of(&cx, &plan, job, number, query, wanted).await?;
            page.omitted += keep_last(&mut page.lines, room) as u64;
            page
        }
    };
    let latest = job.attempts().last().map(|attempt| attempt.number);
    let lines = std::mem::take(&mut page.lines);
    Ok(Logs {
        plan_id: *plan.id(),
        job_id: *job.id(),
        job_name: job.name().to_owned(),
        phase: phase.name(),
        attempt_number: number.map(AttemptNumber::get),
        latest_attempt_number: latest.filter(|_| latest != number).map(AttemptNumber::get),
        logs: texts(&lines, phase == LogPhase::All),
        lines: lines.len(),
        truncated: page.omitted > 0,
        more: page.more,
        next_cursor: number.map(|number| format!("{number}.{}", page.next)),
    })
}

/// A place in the log of an attempt.
#[derive(Clone, Copy)]
struct Cursor {
    /// Of the attempt that is asked for, where it names none.
    attempt: Option<Whole<1, 1_000>>,
    /// The line before it.
    line: u64,
}

impl Cursor {
    fn parse(text: &str) -> Result<Self, Failure> {
        let (attempt, line) = match text.split_once('.') {
            None => (None, text),
            Some((attempt, line)) => {
                let attempt = attempt.parse().map_err(|_| bad_cursor())?;
                (Some(Whole::new(attempt).ok_or_else(bad_cursor)?), line)
            }
        };
        let line = line.parse().map_err(|_| bad_cursor())?;
        Ok(Self { attempt, line })
    }
}

/// How much room a line takes.
fn length(line: &Line) -> usize {
    line.text.len() + line.phase.len() + 16
}

/// Leaves of a page what there is room for, one line at least; what is left out comes with the next page.
fn keep_first(page: &mut Page, room: usize) {
    let mut bytes = 0;
    let fit = page.lines.iter().take_while(|line| {
        bytes += length(line);
        bytes <= room
    });
    let fit = fit.count().max(1);
    if fit < page.lines.len() {
        page.lines.truncate(fit);
        page.next = page.lines.last().map_or(page.next, |line| line.seq);
        page.more = true;
    }
}

/// Leaves of lines the last ones that there is room for, one at least, and says how many were left out.
pub(super) fn keep_last(lines: &mut Vec<Line>, room: usize) -> usize {
    let mut bytes = 0;
    let fit = lines.iter().rev().take_while(|line| {
        bytes += length(line);
        bytes <= room
    });
    let over = lines.len().saturating_sub(fit.count().max(1));
    lines.drain(..over);
    over
}

/// The attempt that is meant: the one asked for, or the latest; none where the job has not begun.
pub(super) fn attempt_of(
    job: &Job,
    asked: Option<Whole<1, 1_000>>,
) -> Result<Option<AttemptNumber>, Failure> {
    let attempts = job.attempts();
    let Some(asked) = asked else {
        return Ok(attempts.last().map(|attempt| attempt.number));
    };
    let known = attempts
        .iter()
        .find(|attempt| is_number(attempt.number, asked));
    known.map(|attempt| Some(attempt.number)).ok_or_else(|| {
        let had = attempts.len();
        let text = format!(
            "job `{}` has had {had} attempts, not {asked}",
            job.producer()
        );
        Failure::coded("attempt-unknown", text)
    })
}

pub(super) fn is_number(number: AttemptNumber, asked: Whole<1, 1_000>) -> bool {
    u64::from(number.get()) == asked.get()
}

/// A number that is small enough to count with.
fn count<const MAX: u64>(number: Whole<1, MAX>) -> usize {
    usize::try_from(number.get()).unwrap_or(usize::MAX)
}

pub(super) async fn read(
    cx: &PlanCx,
    plan: &Arc<Plan>,
    job: &Job,
    attempt: Option<AttemptNumber>,
    query: Query,
) -> Result<Page, Failure> {
    let read = cx.plans.log(Arc::clone(plan), *job.id(), attempt, query);
    Ok(read.await?.unwrap_or_default())
}

/// The last lines, so many. A page holds fewer than may be asked for.
pub(super) async fn tail_of(
    cx: &PlanCx,
    plan: &Arc<Plan>,
    job: &Job,
    attempt: Option<AttemptNumber>,
    query: Query,
    wanted: usize,
) -> Result<Page, Failure> {
    if wanted < orchestra_runner::logs::MAX_PAGE && query.after.is_none() {
        let query = Query {
            tail: true,
            // One more tells whether there are any before them.
            limit: Some(wanted + 1),
            ..query
        };
        let mut page = read(cx, plan, job, attempt, query).await?;
        let over = page.lines.len().saturating_sub(wanted);
        page.lines.drain(..over);
        page.omitted += over as u64;
        return Ok(page);
    }
    let mut kept: VecDeque<Line> = VecDeque::new();
    let mut query = query;
    let mut left_out = 0;
    loop {
        let page = read(cx, plan, job, attempt, query.clone()).await?;
        left_out += page.omitted;
        kept.extend(page.lines);
        let over = kept.len().saturating_sub(wanted);
        kept.drain(..over);
        left_out += over as u64;
        if !page.more || query.after == Some(page.next) {
            return Ok(Page {
                lines: kept.into(),
                next: page.next,
                more: false,
                omitted: left_out,
            });
        }
        query.after = Some(page.next);
    }
}

/// The texts of lines as people read them.
pub(super) fn texts(lines: &[Line], phases: bool) -> String {
    let mut text = String::new();
    let mut before = None;
    for line in lines {
        if let Some(separator) = line.separator(before) {
            text.push_str(separator);
            if phases {
                text.push_str(&format!("[{}] ", line.phase));
            }
            text.push_str(line.stream.prefix(&line.text, "orchestra: "));
        }
        text.push_str(&line.text);
        if !line.more {
            text.push('\n');
        }
        before = Some(line);
    }
    text
}

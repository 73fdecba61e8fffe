//! A frame of a plan on a terminal: a line for the plan, and one with a bar for each job. Nothing is written here.

use orchestra_plan::{
    draw::{Look, Paint, cut, width},
    ids::Millis,
    plan::{Job, Plan},
    status::JobStatus,
    view::error_of,
};

use super::super::{hints, look};
use crate::output;

/// The longest name that is shown whole.
const NAME: usize = 28;

/// Width of a bar.
const BAR: std::ops::RangeInclusive<usize> = 8..=24;

/// On a narrower screen there are no bars.
const NARROW: usize = 32;

/// Size of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// A line: its name, its progress and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row {
    look: Look,
    name: String,
    done: usize,
    of: usize,
    said: String,
}

/// Widths of the parts of a line.
struct Widths {
    name: usize,
    /// Nothing where there is no room.
    bar: usize,
    said: usize,
}

/// The lines that show a plan on a screen. They leave its last line free, and its last column, behind
/// which some terminals begin a new line.
pub(super) fn frame(plan: &Plan, now: Millis, size: Size, paint: Paint) -> Vec<String> {
    let rows: Vec<Row> = plan.jobs().iter().map(|job| row(job, now)).collect();
    let room = size.lines.saturating_sub(2).max(1);
    let (shown, left_out) = chosen(plan, room);
    let names = shown.iter().map(|at| width(&rows[*at].name));
    let longest = names.max().unwrap_or_default();
    let widths = Widths::of(size.columns.saturating_sub(1), longest);
    let mut lines = vec![line(&head(plan, &rows, now), &widths, paint)];
    lines.extend(shown.iter().map(|at| line(&rows[*at], &widths, paint)));
    if let Some(left_out) = left_out {
        lines.push(cut(&left_out, size.columns.saturating_sub(1)));
    }
    lines
}

/// Which jobs are shown in so many lines, in their order, and what is said of the others: those at
/// work go before those that failed, then those that wait, then those that are done.
fn chosen(plan: &Plan, room: usize) -> (Vec<usize>, Option<String>) {
    let jobs = plan.jobs();
    if jobs.len() <= room {
        return ((0..jobs.len()).collect(), None);
    }
    let rank = |status: JobStatus| match status {
        status if status.is_active() => 0,
        JobStatus::Failed => 1,
        JobStatus::Ready => 2,
        JobStatus::Pending => 3,
        JobStatus::Blocked => 4,
        _ => 5,
    };
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    orchestra_sort::sort_by_key(&mut order, |at| rank(jobs[*at].status()));
    let hidden = order.split_off(room - 1);
    order.sort_unstable();
    let kinds = JobStatus::ALL.into_iter().filter_map(|status| {
        let count = hidden.iter().filter(|at| jobs[**at].status() == status);
        let count = count.count();
        (count > 0).then(|| format!("{count} {status}"))
    });
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    (order, Some(format!("… and {} more: {kinds}", hidden.len())))
}

impl Widths {
    fn of(columns: usize, longest: usize) -> Self {
        let name = longest.min(NAME).min(columns * 3 / 10).max(1);
        let bar = match columns < NARROW {
            true => 0,
            false => (columns / 5).clamp(*BAR.start(), *BAR.end()),
        };
        let gaps = if bar == 0 { 3 } else { 5 };
        Self {
            name,
            bar,
            said: columns.saturating_sub(name + bar + gaps),
        }
    }
}

fn line(row: &Row, widths: &Widths, paint: Paint) -> String {
    let name = cut(&row.name, widths.name);
    let pad = " ".repeat(widths.name.saturating_sub(width(&name)));
    let filled = (widths.bar * row.done.min(row.of)) / row.of.max(1);
    let bar = format!(
        "{}{}",
        "█".repeat(filled),
        "░".repeat(widths.bar.saturating_sub(filled))
    );
    let (on, off) = match paint {
        Paint::Plain => (String::new(), ""),
        Paint::Colour => (format!("\u{1b}[{}m", row.look.terminal()), "\u{1b}[0m"),
    };
    let mark = row.look.mark();
    let said = cut(&row.said, widths.said);
    let text = match widths.bar {
        0 => format!("{on}{mark}{off} {name}{pad} {said}"),
        _ => format!("{on}{mark}{off} {name}{pad} {on}{bar}{off}  {said}"),
    };
    text.trim_end().to_owned()
}

/// The line of the plan: its status, and how many of its jobs have ended, as in `orchestra top`.
fn head(plan: &Plan, rows: &[Row], now: Millis) -> Row {
    let counts = plan.counts();
    let mut said = format!(
        "{}  {} of {}",
        plan.status(),
        counts.terminal(),
        counts.total()
    );
    if plan.started_at().is_some() {
        said.push_str(&format!("  {}", look::lasted(plan.time_at_work(now))));
    }
    for (count, word) in [
        (counts.active(), "at work"),
        (counts.failed, "failed"),
        (counts.blocked, "blocked"),
    ] {
        if count > 0 {
            said.push_str(&format!("  {count} {word}"));
        }
    }
    // Each job counts the same, however many steps it has.
    const STEPS: usize = 1_000;
    let done = rows.iter().map(|row| STEPS * row.done / row.of.max(1));
    let status = plan.status().name();
    Row {
        look: Look::of(status),
        name: output::in_a_line(plan.name()),
        done: done.sum(),
        of: STEPS * rows.len(),
        said,
    }
}

fn row(job: &Job, now: Millis) -> Row {
    let (done, of) = steps(job);
    Row {
        look: Look::of(job.status().name()),
        name: job.producer().to_string(),
        done,
        of,
        said: said(job, now),
    }
}

/// Completed steps of a job, and all of them.
fn steps(job: &Job) -> (usize, usize) {
    match (job.status(), job.attempt()) {
        (JobStatus::Succeeded, _) => (1, 1),
        (_, Some(attempt)) => (attempt.done, attempt.acts.len().max(1)),
        (_, None) => (0, 1),
    }
}

/// The text behind the bar of a job.
fn said(job: &Job, now: Millis) -> String {
    let status = job.status();
    let under_way = job.running().and_then(|attempt| attempt.under_way());
    let mut text = match under_way {
        Some(act) if act.heal => format!("{} is healed", act.phase),
        Some(act) => act.phase.to_string(),
        None => status.to_string(),
    };
    let end = job.ended_at().or_else(|| status.is_active().then_some(now));
    if let Some((start, end)) = job.started_at().zip(end) {
        text.push_str(&format!("  {}", look::lasted(end.since(start))));
    }
    if job.attempts().len() > 1 {
        text.push_str(&format!("  attempt {}", job.attempts().len()));
    }
    if status == JobStatus::Failed
        && let Some(error) = error_of(job)
    {
        let (line, _) = hints::parts_of(&error);
        text.push_str(&format!("  {}", output::in_a_line(line)));
    }
    text
}

//! Commands that only look at plans.

use std::sync::Arc;

use orchestra_plan::{
    budget::Usage,
    ids::{Millis, PlanId},
    phase::Phase,
    plan::Plan,
    status::{JobStatus, PlanStatus},
    view::{self, JobFilter, ListFilter},
};
use serde::Serialize;

use super::{
    OfJob, chain,
    desk::{Desk, failure},
    filter_named,
};
use crate::{
    commands::table,
    exit::{Exit, Failure},
    output::{self, Format},
};

/// How many letters of a message a table has room for.
const MESSAGE: usize = 80;

/// A list, as JSON tells it.
#[derive(Serialize)]
struct List<T> {
    items: Vec<T>,
    total: usize,
    /// What this program cannot read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<Unread>,
    /// Plans of other checkouts of the repository, which run there alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<Elsewhere>,
}

/// Plans of another checkout.
#[derive(Serialize)]
struct Elsewhere {
    /// Top of its working tree.
    checkout: String,
    items: Vec<ListRow>,
}

/// A plan that cannot be read.
#[derive(Serialize)]
struct Unread {
    id: PlanId,
    why: String,
}

impl<T> List<T> {
    fn of(items: Vec<T>) -> Self {
        let total = items.len();
        Self {
            items,
            total,
            unreadable: Vec::new(),
            elsewhere: Vec::new(),
        }
    }
}

/// A plan in the list: what its agents used is told where it is known.
#[derive(Serialize)]
struct ListRow {
    #[serde(flatten)]
    row: view::PlanRow,
    #[serde(skip_serializing_if = "Usage::is_zero")]
    usage: Usage,
    #[serde(skip)]
    took: String,
    /// Number of jobs of its file: without the job that validates and merges the result.
    #[serde(skip)]
    jobs: usize,
}

/// Lists plans.
pub(super) async fn list(
    desk: &Desk,
    status: Option<&str>,
    format: Format,
) -> Result<Exit, Failure> {
    let filter = status.map_or(Ok(ListFilter::All), filter_named)?;
    let plans = desk.plans().list().await.map_err(failure)?;
    let untrusted = desk.plans().waiting_for_trust().await.map_err(failure)?;
    let rows = |plans: &[Arc<Plan>]| -> Vec<ListRow> {
        let shown = plans.iter().filter(|plan| filter.shows(plan));
        let rows = shown.map(|plan| {
            let waits_for_trust = untrusted.contains(plan.id());
            // The time of a plan that nothing runs does not grow.
            let is_still = waits_for_trust && !plan.status().is_ended();
            ListRow {
                row: view::PlanRow {
                    waits_for_trust,
                    ..view::row(plan)
                },
                usage: *plan.usage(),
                took: if is_still { String::new() } else { took(plan) },
                jobs: plan
                    .jobs()
                    .iter()
                    .filter(|job| !job.is_validation())
                    .count(),
            }
        });
        rows.collect()
    };
    let mut list = List::of(rows(&plans));
    let elsewhere = desk.plans().elsewhere().await.into_iter();
    let elsewhere = elsewhere.map(|(checkout, plans)| Elsewhere {
        checkout: checkout.display().to_string(),
        items: rows(&plans),
    });
    list.elsewhere = elsewhere.filter(|other| !other.items.is_empty()).collect();
    for other in &list.elsewhere {
        let names = other
            .items
            .iter()
            .map(|item| output::in_a_line(&item.row.name));
        output::complain(&output::printable(&format!(
            "plans of the checkout {}, which run only in that checkout: {}",
            other.checkout,
            names.collect::<Vec<_>>().join(", ")
        )));
    }
    let unreadable = desk.plans().unreadable().await.map_err(failure)?;
    let unreadable = unreadable.into_iter().map(|unreadable| Unread {
        id: unreadable.plan,
        why: unreadable.what,
    });
    list.unreadable.extend(unreadable);
    for unread in &list.unreadable {
        output::complain(&output::printable(&unread.why));
    }
    desk.report_unused_place();
    format.print(&list, |list| match list.items.is_empty() {
        true => "no plans\n".to_owned(),
        false => {
            let rows: Vec<Vec<String>> = list
                .items
                .iter()
                .map(|listed| {
                    let ListRow { row, .. } = listed;
                    let id: String = row.id.to_string().chars().take(8).collect();
                    // A plan whose result is not merged yet, or never, has less than 100%.
                    let done = format!("{}%", row.counts.share_succeeded());
                    let span = listed.took.clone();
                    let jobs = listed.jobs.to_string();
                    let status = match row.waits_for_trust {
                        true => "untrusted".to_owned(),
                        false => row.status.to_string(),
                    };
                    vec![id, status, done, jobs, span, row.name.clone()]
                })
                .collect();
            table::lines(&["ID", "STATUS", "DONE", "JOBS", "TIME", "NAME"], &rows)
        }
    })?;
    Ok(Exit::Ok)
}

/// Shows a plan, or a job of it.
pub(super) async fn show(
    desk: &Desk,
    asked: &str,
    job: Option<&str>,
    format: Format,
) -> Result<Exit, Failure> {
    let plan = desk.plan(asked).await?;
    match job {
        None => show_plan(desk, &plan, format).await,
        Some(job) => show_job(desk, &plan, job, format).await,
    }
}

async fn show_plan(desk: &Desk, plan: &Plan, format: Format) -> Result<Exit, Failure> {
    let shown = desk.view(plan).await?;
    let awaited = chain::awaited(desk, plan).await?;
    format.print(&shown, |shown| {
        let mut text = head(desk, plan, awaited.as_deref());
        for agent in &shown.agents {
            text.push_str(&format!("  agent    {}\n", output::in_a_line(agent)));
        }
        let rows: Vec<Vec<String>> = shown
            .nodes
            .iter()
            .map(|node| {
                let why = node.error.clone().or_else(|| node.waiting.clone());
                vec![
                    node.producer_id.to_string(),
                    node.status.to_string(),
                    node.attempts.to_string(),
                    span(node.status, node.started_at, node.ended_at),
                    cut(&why.unwrap_or_default()),
                ]
            })
            .collect();
        text.push('\n');
        text.push_str(&table::lines(
            &["JOB", "STATUS", "ATTEMPTS", "TIME", ""],
            &rows,
        ));
        text
    })?;
    Ok(Exit::Ok)
}

/// The lines about a plan as a whole.
fn head(desk: &Desk, plan: &Plan, awaited: Option<&Plan>) -> String {
    let mut text = format!("{}  {}\n", output::in_a_line(plan.name()), plan.id());
    let mut line = |key: &str, value: String| text.push_str(&format!("  {key:<9}{value}\n"));
    line("status", standing(plan));
    if let Some(awaited) = awaited {
        let named = chain::named(awaited);
        line("after", format!("{named}, which is {}", awaited.status()));
    }
    if let Some(branches) = plan.branches() {
        // What is there already is built upon.
        line(
            "base",
            match branches.target_made {
                true => branches.base.to_string(),
                false => format!("{}, which was there", branches.target),
            },
        );
        line("target", branches.target.to_string());
    } else {
        let settings = plan.settings();
        for (key, asked) in [
            ("base", &settings.base_branch),
            ("target", &settings.target_branch),
        ] {
            if let Some(asked) = asked {
                line(key, asked.to_string());
            }
        }
    }
    if !plan.status().is_ended() {
        line("jobs", desk.bound(plan.settings()));
    }
    let took = took(plan);
    if !took.is_empty() {
        line("time", took);
    }
    if let Some(used) = used(plan.usage()) {
        line("used", used);
    }
    text
}

/// What agents used, where anything is known of it.
pub(super) fn used(usage: &Usage) -> Option<String> {
    let mut parts = Vec::new();
    if usage.tokens() > 0 {
        parts.push(format!(
            "{} tokens ({} in, {} out)",
            usage.tokens(),
            usage.input_tokens,
            usage.output_tokens
        ));
    }
    if usage.cost_micros > 0 {
        let (whole, micros) = (usage.cost_micros / 1_000_000, usage.cost_micros % 1_000_000);
        let digits = format!("{micros:06}");
        let (cents, rest) = digits.split_at(2);
        parts.push(format!("${whole}.{cents}{}", rest.trim_end_matches('0')));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How a plan stands, and why where it is paused.
pub(super) fn standing(plan: &Plan) -> String {
    let status = plan.status();
    match plan.paused() {
        Some(reason) if matches!(status, PlanStatus::Paused | PlanStatus::PendingStart) => {
            let reason = serde_json::to_value(reason).unwrap_or_default();
            match reason["error"].as_str() {
                Some(error) => format!("{status}: {}", output::in_a_line(error)),
                None => status.to_string(),
            }
        }
        _ => status.to_string(),
    }
}

async fn show_job(desk: &Desk, plan: &Plan, asked: &str, format: Format) -> Result<Exit, Failure> {
    let found = plan.find(asked);
    let job = found.map_err(|error| Failure::refused(error.to_string()))?;
    let waiting = desk.waiting(plan).await?;
    let shown = view::job(plan, job);
    format.print(&shown, |shown| {
        let mut text = format!("{}  {}\n", job.producer(), job.id());
        let mut line = |key: &str, value: &str| {
            if !value.is_empty() {
                text.push_str(&format!("  {key:<12}{}\n", output::in_a_line(value)));
            }
        };
        line("name", job.name());
        line("status", job.status().name());
        let is_idle = !job.status().is_terminal() && !job.status().is_active();
        if let Some(waiting) = waiting(job.id()).filter(|_| is_idle) {
            line("", &waiting.to_string());
        }
        line("error", job.error().unwrap_or_default());
        let exit = job.failure().and_then(|failure| failure.exit_code);
        line(
            "exit code",
            &exit.map_or_else(String::new, |code| code.to_string()),
        );
        if let Some(healing) = &shown.state.healing {
            line(
                "healing",
                &format!(
                    "failed in attempt {}: {}",
                    healing.attempt_number, healing.error
                ),
            );
        }
        line("attempts", &job.attempts().len().to_string());
        let (start, end) = (shown.state.started_at, shown.state.ended_at);
        line("time", &span(job.status(), start, end));
        line("used", &used(job.usage()).unwrap_or_default());
        let names = plan.dependencies(job).map(|on| on.producer().to_string());
        line("after", &names.collect::<Vec<_>>().join(", "));
        let in_order = Phase::ALL.map(Phase::as_str).into_iter();
        let statuses = &shown.state.step_statuses;
        for (phase, status) in in_order.filter_map(|phase| statuses.get_key_value(phase)) {
            let status = serde_json::to_value(status).unwrap_or_default();
            line(&format!("{phase}:"), status.as_str().unwrap_or_default());
        }
        let commit = shown.state.completed_commit.as_ref();
        line(
            "result",
            &commit.map(ToString::to_string).unwrap_or_default(),
        );
        line("worktree", job.worktree().unwrap_or_default());
        text
    })?;
    Ok(Exit::Ok)
}

/// Lists jobs of a plan.
pub(super) async fn jobs(
    desk: &Desk,
    asked: &str,
    status: Option<&str>,
    group: Option<String>,
    format: Format,
) -> Result<Exit, Failure> {
    let named = |text: &str| {
        let found = JobStatus::ALL
            .into_iter()
            .find(|status| status.name() == text);
        let all = JobStatus::ALL.map(JobStatus::name).join(", ");
        found.ok_or_else(|| Failure::usage_text(format!("--status: one of {all}, not `{text}`")))
    };
    let filter = JobFilter {
        status: status.map(named).transpose()?,
        group_name: group,
        ..JobFilter::default()
    };
    let plan = desk.plan(asked).await?;
    let list = List::of(view::jobs(&plan, &filter));
    format.print(&list, |list| {
        let row = |row: &view::JobRow| {
            let group = row.group_id.as_ref().map(ToString::to_string);
            vec![
                row.producer_id.to_string(),
                row.status.to_string(),
                row.attempts.to_string(),
                span(row.status, row.started_at, row.ended_at),
                group.unwrap_or_default(),
                cut(row.error.as_deref().unwrap_or_default()),
            ]
        };
        let rows: Vec<Vec<String>> = list.items.iter().map(row).collect();
        table::lines(
            &["JOB", "STATUS", "ATTEMPTS", "TIME", "GROUP", "ERROR"],
            &rows,
        )
    })?;
    Ok(Exit::Ok)
}

/// Lists the attempts of a job.
pub(super) async fn attempts(desk: &Desk, of: &OfJob, format: Format) -> Result<Exit, Failure> {
    let plan = desk.plan(&of.plan).await?;
    let found = plan.find(&of.job);
    let job = found.map_err(|error| Failure::refused(error.to_string()))?;
    let list = List::of(view::attempts(job));
    format.print(&list, |list| {
        let row = |attempt: &view::AttemptView| {
            vec![
                attempt.attempt_number.to_string(),
                word(&attempt.status),
                word(&attempt.trigger_type),
                lasted(
                    attempt
                        .ended_at
                        .unwrap_or_else(now)
                        .since(attempt.started_at),
                ),
                attempt
                    .failed_phase
                    .map(|phase| phase.to_string())
                    .unwrap_or_default(),
                cut(attempt.error.as_deref().unwrap_or_default()),
            ]
        };
        let rows: Vec<Vec<String>> = list.items.iter().map(row).collect();
        let head = ["ATTEMPT", "STATUS", "WHY", "TIME", "FAILED IN", "ERROR"];
        table::lines(&head, &rows)
    })?;
    Ok(Exit::Ok)
}

/// The word by which something goes over the wire.
pub(super) fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// The beginning of a message, in a line.
fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MESSAGE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// How long something took, or has taken so far.
fn span(status: JobStatus, start: Option<Millis>, end: Option<Millis>) -> String {
    let end = end.or_else(|| status.is_active().then(now));
    let span = start.zip(end);
    span.map_or_else(String::new, |(start, end)| lasted(end.since(start)))
}

/// How long a plan has been at work; nothing of one that has not begun.
pub(super) fn took(plan: &Plan) -> String {
    let begun = plan.started_at();
    begun.map_or_else(String::new, |_| lasted(plan.time_at_work(now())))
}

/// The time.
pub(super) fn now() -> Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Millis::new(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// A time that something took, for people.
pub(super) fn lasted(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", time.as_secs_f64()),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
    }
}

//! What models cost, by day, model, project and plan.

use std::collections::BTreeMap;

use orchestra_board::{Cost, Timestamp, UsageTotals};
use orchestra_plan::{plan::Plan, work::WorkSpec};
use orchestra_runner::plans::Plans;
use orchestra_store::{Store, UsageSums};
use serde::Serialize;

use super::{LiveError, blocking, json};
use crate::wire::time;

/// How many rows are shown; of more the oldest are left out.
const ROWS: usize = 20_000;

/// What a row is of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Of {
    /// UTC, as `2026-02-14`.
    day: String,
    provider: String,
    model: String,
    /// Of a project's issue this is the project as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
}

#[derive(Serialize)]
struct Sums {
    requests: u64,
    input: u64,
    output: u64,
    /// In whole units of the currency that the caller counts in.
    cost: f64,
}

impl From<UsageSums> for Sums {
    fn from(UsageSums { requests, totals }: UsageSums) -> Self {
        Self {
            requests,
            input: totals.input,
            output: totals.output,
            cost: totals.cost.units(),
        }
    }
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    of: Of,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    days: Vec<Row>,
    totals: Sums,
}

/// The rows between two days, both included; days are compared as they are written.
pub(super) async fn usage(
    store: Store,
    plans: Option<&Plans>,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<String, LiveError> {
    for day in [from, to].into_iter().flatten() {
        if !is_day(day) {
            let text = format!(
                "`{}` is not a day; write days as 2026-02-14",
                day.escape_debug()
            );
            return Err(LiveError::Unknown(text));
        }
    }
    let mut rows = blocking(move || of_days(&store)).await?;
    if let Some(plans) = plans {
        for plan in plans.list().await? {
            of_plan(&plan, &mut rows);
        }
    }
    let is_asked = |day: &str| from.is_none_or(|from| day >= from) && to.is_none_or(|to| day <= to);
    rows.retain(|of, _| is_asked(&of.day));
    while rows.len() > ROWS {
        rows.pop_first();
    }
    let mut totals = UsageSums::default();
    rows.values().for_each(|sums| totals.add(sums));
    let days = rows.into_iter().map(|(of, sums)| Row {
        of,
        sums: sums.into(),
    });
    Ok(json(&Shown {
        from,
        to,
        days: days.collect(),
        totals: totals.into(),
    }))
}

fn is_day(text: &str) -> bool {
    let form = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    text.len() == 10 && text.bytes().enumerate().all(form)
}

fn day(at: Timestamp) -> String {
    let mut day = time(at);
    day.truncate(10);
    day
}

/// What was recorded.
fn of_days(store: &Store) -> Result<BTreeMap<Of, UsageSums>, LiveError> {
    let days = store.read(|reader| reader.usage_days())?;
    let rows = days.into_iter().map(|row| {
        let of = Of {
            day: row.day,
            provider: row.provider,
            model: row.model,
            project: row.project.map(|project| project.to_string()),
            plan: None,
        };
        (of, row.sums)
    });
    Ok(rows.collect())
}

/// What the agents of a plan used, on the days on which their attempts began.
fn of_plan(plan: &Plan, rows: &mut BTreeMap<Of, UsageSums>) {
    for job in plan.jobs() {
        let work = job.definition().work.as_ref();
        let agent = work.and_then(WorkSpec::agent);
        let model = agent.and_then(|agent| agent.model.as_ref());
        let provider = agent.and_then(|agent| agent.agent.as_ref());
        for attempt in job
            .attempts()
            .iter()
            .filter(|attempt| !attempt.usage.is_zero())
        {
            let seconds = i64::try_from(attempt.started_at.get() / 1_000).unwrap_or(i64::MAX);
            let of = Of {
                day: day(Timestamp::from_unix_seconds(seconds)),
                provider: provider.map(ToString::to_string).unwrap_or_default(),
                model: model.map(ToString::to_string).unwrap_or_default(),
                project: None,
                plan: Some(plan.name().to_owned()),
            };
            rows.entry(of).or_default().add(&UsageSums {
                requests: attempt.usage.turns,
                totals: UsageTotals {
                    input: attempt.usage.input_tokens,
                    output: attempt.usage.output_tokens,
                    cost: Cost::from_billionths(attempt.usage.cost_micros.saturating_mul(1_000)),
                },
            });
        }
    }
}

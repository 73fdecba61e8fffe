//! How all stands now, printed once.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    clock::{self, lasted},
    lanes::{lanes, plans, servers},
    model::{Model, Want},
    source::{Refused, Source},
};
use crate::{
    commands::table,
    exit::{Exit, Failure},
    output::{self, Format},
};

/// Wide enough for all lanes beside each other, so that they stand in the order of the states.
const WIDE: u16 = u16::MAX;

/// What was told, as it was told.
#[derive(Serialize)]
struct Told<'a> {
    projects: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    board: Option<&'a RawValue>,
    plans: &'a RawValue,
    servers: &'a RawValue,
}

/// Prints the board of a project, or of the first, the plans and the servers.
///
/// # Errors
/// When they are not told, or there is no such project.
pub(super) async fn print(
    source: &Source,
    project: Option<&str>,
    format: Format,
) -> Result<Exit, Failure> {
    let mut model = Model::new(project);
    let projects = asked(source, &mut model, &Want::Projects).await?;
    let board = match model.project.clone() {
        Some(slug) => Some(asked(source, &mut model, &Want::Board(slug)).await?),
        None => None,
    };
    let plans = asked(source, &mut model, &Want::Plans).await?;
    let servers = asked(source, &mut model, &Want::Servers).await?;
    match format {
        Format::Text => output::lines(&text(&model, clock::now()))?,
        Format::Json => {
            let raw = |text: &'_ str| serde_json::from_str::<Box<RawValue>>(text);
            let (projects, plans, servers) = (raw(&projects)?, raw(&plans)?, raw(&servers)?);
            let board = board.as_deref().map(raw).transpose()?;
            output::json(&Told {
                projects: &projects,
                board: board.as_deref(),
                plans: &plans,
                servers: &servers,
            })?;
        }
    }
    Ok(Exit::Ok)
}

async fn asked(source: &Source, model: &mut Model, want: &Want) -> Result<String, Failure> {
    let text = source.get(&want.path()).await;
    let text = text.map_err(|error| match error.is::<Refused>() {
        true => Failure::Refused(error),
        false => Failure::Failed(error),
    })?;
    model.answered(want, &text);
    match model.trouble.take() {
        Some(trouble) => Err(anyhow::Error::msg(trouble).into()),
        None => Ok(text),
    }
}

fn text(model: &Model, now: u64) -> String {
    let mut parts = Vec::new();
    if let Some(board) = &model.board {
        let project = &board.project;
        let name = output::in_a_line(&project.name);
        let mut text = format!("{name}: {} of {} tasks done\n", project.done, project.tasks);
        let rows = lanes(board, "", WIDE).into_iter().flat_map(|lane| {
            lane.cards.into_iter().map(|card| {
                let who = match &card.claim {
                    Some(claim) => claim.agent.clone(),
                    None => card.assignees.join(", "),
                };
                let priority = card.priority.clone().unwrap_or_default();
                let (state, id) = (card.status.clone(), card.id.clone());
                vec![state, id, priority, who, card.title.clone()]
            })
        });
        let rows: Vec<Vec<String>> = rows.collect();
        if !rows.is_empty() {
            text.push_str(&table::lines(
                &["STATE", "ID", "PRIORITY", "WHO", "TITLE"],
                &rows,
            ));
        }
        parts.push(text);
    }
    let rows: Vec<Vec<String>> = plans(model, "")
        .into_iter()
        .map(|plan| {
            vec![
                plan.name.clone(),
                plan.status.replace('_', " "),
                format!("{}%", plan.progress),
                plan.at_work().to_string(),
                plan.seconds(now).map_or_else(|| "-".to_owned(), lasted),
            ]
        })
        .collect();
    if !rows.is_empty() {
        let head = ["PLAN", "STATE", "ENDED", "RUNNING", "TIME"];
        parts.push(table::lines(&head, &rows));
    }
    for unreadable in &model.unreadable {
        parts.push(format!("{}\n", output::in_a_line(unreadable)));
    }
    let rows: Vec<Vec<String>> = servers(model, "")
        .into_iter()
        .map(|server| {
            let calls = &server.calls;
            vec![
                server.name.clone(),
                server.status.replace('_', " "),
                calls.ended().to_string(),
                calls.refused.saturating_add(calls.failed).to_string(),
                server.restarts.to_string(),
                match calls.ended() {
                    0 => "-".to_owned(),
                    _ => format!("{:.1} ms", server.latency_ms.mean),
                },
            ]
        })
        .collect();
    if !rows.is_empty() {
        let head = ["SERVER", "STATE", "CALLS", "ERRORS", "RESTARTS", "LATENCY"];
        parts.push(table::lines(&head, &rows));
    }
    match parts.is_empty() {
        true => "no projects, plans or servers yet\n".to_owned(),
        false => parts.join("\n"),
    }
}

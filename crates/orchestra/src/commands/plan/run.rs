//! Commands that take a plan file.

use std::sync::Arc;

use orchestra_plan::{
    definition::{Definition, DefinitionError, SnapshotValidation},
    draw::{Graph, Paint, terminal},
    ids::{Branch, JobId},
    plan::Plan,
    spec::PlanSpec,
    status::PlanStatus,
};
use orchestra_runner::plans::{Answer, PlansError};
use serde::Serialize;

use super::{
    Given, again, agents, chain,
    desk::{self, Desk, failure},
    file, watch,
};
use crate::{
    commands::progress::Turning,
    exit::{Exit, Failure},
    output::{self, Format},
};

/// Width of a drawing.
const COLUMNS: usize = 100;

/// Result of the validation of a plan file.
#[derive(Serialize)]
struct Validated {
    valid: bool,
    name: String,
    jobs: usize,
    roots: usize,
    leaves: usize,
    /// Limit of jobs at work at once, and its setting.
    bound: String,
    /// The agents that it may start, how often and up to which cost.
    agents: Vec<String>,
    warnings: Vec<String>,
    #[serde(skip)]
    drawing: String,
}

/// Makes a plan.
pub(super) async fn create(
    desk: &Desk,
    given: &Given,
    start: bool,
    key: Option<String>,
    format: Format,
) -> Result<Exit, Failure> {
    let mut spec = file::read(given)?;
    spec.settings.start_paused = spec.settings.start_paused && !start;
    agents::consent(desk, &spec, format).await?;
    let (answer, plan) = made(desk, given, spec, key).await?;
    if format == Format::Text && !answer.repeated {
        for line in agent_lines(&answer.agents) {
            output::complain(&line);
        }
    }
    let awaited = chain::awaited(desk, &plan).await?;
    let starts = plan.paused().is_none();
    format.print(&answer, |answer| {
        let name = output::in_a_line(plan.name());
        let id = answer.plan;
        match (awaited, starts) {
            _ if answer.repeated => format!("plan {name} ({id}) was already created with this key"),
            (Some(awaited), _) => format!(
                "plan {name} ({id}) is created, and starts when {} has succeeded; `orchestra plan \
                 watch {id}`",
                chain::named(&awaited)
            ),
            (None, true) => {
                format!("plan {name} ({id}) is created and starts; `orchestra plan watch {id}`")
            }
            (None, false) => {
                format!("plan {name} ({id}) is created; `orchestra plan resume {id}` starts it")
            }
        }
    })?;
    Ok(Exit::Ok)
}

/// Makes a plan, starts it and waits for its end.
pub(super) async fn run(desk: &Desk, given: &Given, format: Format) -> Result<Exit, Failure> {
    let mut spec = file::read(given)?;
    spec.settings.start_paused = false;
    agents::consent(desk, &spec, format).await?;
    let before = match format {
        Format::Text => built_upon(desk, spec.settings.target_branch.as_ref()).await?,
        Format::Json => None,
    };
    let (answer, plan) = made(desk, given, spec, None).await?;
    if format == Format::Json {
        let (event, name) = ("made", plan.name());
        let (planned, agents) = (answer.plan, &answer.agents);
        output::json(&serde_json::json!({
            "event": event, "planId": planned, "name": name, "agents": agents,
        }))?;
    }
    if answer.repeated {
        output::complain(&format!(
            "plan {} ({}) was already created with this key: no other plan is created; this is its state",
            output::in_a_line(plan.name()),
            answer.plan
        ));
    } else if format == Format::Text {
        let bound = desk.bound(plan.settings());
        output::complain(&format!("plan {}, {bound}", answer.plan));
        for line in agent_lines(&answer.agents) {
            output::complain(&line);
        }
        before.iter().for_each(|line| output::complain(line));
    }
    watch::run(desk, answer.plan, format).await
}

/// The lines with the agents that a plan may start.
fn agent_lines(agents: &[String]) -> Vec<String> {
    let line = |agent: &String| format!("agent: {}", output::in_a_line(agent));
    match agents.is_empty() {
        true => vec!["agents: it starts none".to_owned()],
        false => agents.iter().map(line).collect(),
    }
}

/// Returns a message about the plan whose result is on the target branch of a new plan. The new plan starts from that
/// branch, and jobs that find their work done change nothing.
async fn built_upon(desk: &Desk, target: Option<&Branch>) -> Result<Option<String>, Failure> {
    let Some(target) = target else {
        return Ok(None);
    };
    let plans = desk.plans().list().await.map_err(failure)?;
    let before = plans.iter().rev().find(|other| {
        let branches = other.branches();
        other.status() == PlanStatus::Succeeded
            && branches.is_some_and(|branches| branches.target == *target)
    });
    let Some(before) = before else {
        return Ok(None);
    };
    // Errors of the repository are reported by the plan itself.
    let is_there = desk.plans().is_result_on(target, before).await;
    Ok(is_there.unwrap_or(false).then(|| {
        format!(
            "{target} has the result of plan {} ({}): this plan starts from it, and a job that changes \
             nothing fails unless it sets expectsNoChanges",
            output::in_a_line(before.name()),
            before.id()
        )
    }))
}

/// Creates a plan, or finds the plan that was created under its key.
async fn made(
    desk: &Desk,
    given: &Given,
    mut spec: PlanSpec,
    key: Option<String>,
) -> Result<(Answer, Arc<Plan>), Failure> {
    if let Some(key) = &key {
        spec.settings.idempotency_key = Some(file::said("--key", key)?);
    }
    let PlanSpec { settings, jobs } = spec.clone();
    let caller = Desk::caller();
    let used = settings.idempotency_key.clone();
    let made = desk
        .plans()
        .create(settings, jobs.into_vec(), false, &caller);
    let turning = Turning::new("making the plan");
    let made = made.await;
    drop(turning);
    let answer = match made {
        Ok(answer) => answer,
        Err(error) if error.code() == "key-reused" => {
            let plans = desk.plans().list().await.map_err(failure)?;
            let before = plans
                .iter()
                .find(|plan| used.is_some() && plan.settings().idempotency_key == used);
            if let Some(before) = before {
                again::made(desk, &spec, before).await?;
            }
            return Err(failure(error));
        }
        Err(error @ PlansError::Refused { .. }) => {
            // Faults of the file itself are reported as `validate` reports them.
            foreseen(desk, given, &spec).await?;
            return Err(failure(error));
        }
        Err(error) => return Err(failure(error)),
    };
    desk::warn(&answer);
    let plan = desk.plan(&answer.plan.to_string()).await?;
    Ok((answer, plan))
}

/// The definition of a plan, and warnings before it is created.
///
/// # Errors
/// When something is wrong with it, with the name of its file.
async fn foreseen(
    desk: &Desk,
    given: &Given,
    spec: &PlanSpec,
) -> Result<(Definition, Vec<String>), Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        let text = format!("{}: {error}", file::name(&given.file));
        Failure::usage_text(output::printable(&text).into_owned())
    };
    let definition = definition(spec).map_err(|error| wrong(&error))?;
    let foreseen = desk.plans().foresee(&spec.settings, &spec.jobs).await;
    Ok((definition, foreseen.map_err(|error| wrong(&error))?))
}

/// Validates a plan file.
pub(super) async fn validate(desk: &Desk, given: &Given, format: Format) -> Result<Exit, Failure> {
    let checked = async {
        let spec = file::read(given)?;
        let (definition, foreseen) = foreseen(desk, given, &spec).await?;
        let roster = desk.plans().roster(&spec.settings, &spec.jobs).await;
        Ok::<_, Failure>((spec, definition, foreseen, roster))
    };
    let checked = checked.await;
    if let (Err(failure), Format::Json) = (&checked, format) {
        output::json(&serde_json::json!({"valid": false, "error": failure.text()}))?;
    }
    let (spec, definition, foreseen, roster) = checked?;
    let graph = Graph::of(spec.settings.name.as_str(), &definition, |_| "pending");
    let warnings = definition.warnings().into_iter();
    let validated = Validated {
        valid: true,
        name: spec.settings.name.as_str().to_owned(),
        // The last is made by us.
        jobs: definition.len() - 1,
        roots: definition.roots().count(),
        leaves: definition.leaves().len(),
        bound: desk.bound(&spec.settings),
        agents: roster.lines,
        warnings: warnings
            .map(|warning| warning.to_string())
            .chain(foreseen)
            .chain(roster.warnings)
            .collect(),
        drawing: terminal(&graph, COLUMNS, Paint::Plain),
    };
    format.print(&validated, |validated| {
        let mut text = format!("{}\n", validated.drawing);
        for warning in &validated.warnings {
            text.push_str(&format!("warning: {}\n", output::printable(warning)));
        }
        for line in agent_lines(&validated.agents) {
            text.push_str(&format!("{line}\n"));
        }
        let jobs = match validated.jobs {
            1 => "1 job".to_owned(),
            jobs => format!("{jobs} jobs"),
        };
        let valid = match validated.warnings.len() {
            0 => "the plan is valid".to_owned(),
            1 => "the plan is valid, with 1 warning".to_owned(),
            count => format!("the plan is valid, with {count} warnings"),
        };
        text.push_str(&format!("{jobs}, {}; {valid}\n", validated.bound));
        text
    })?;
    Ok(Exit::Ok)
}

/// The graph of a plan that is not stored.
pub(super) fn definition(spec: &PlanSpec) -> Result<Definition, DefinitionError> {
    let id = |place: usize| {
        let place = u128::try_from(place).unwrap_or(u128::MAX);
        JobId::of_random(place.to_be_bytes())
    };
    let jobs = spec.jobs.iter().cloned().enumerate();
    let last = SnapshotValidation {
        id: id(spec.jobs.len()),
        verify: spec.settings.verify_ri.clone(),
    };
    Definition::build(jobs.map(|(place, job)| (id(place), job)), last)
}

//! Agents at work: called by their profiles, read while they go on, judged by what they said.

use std::{ffi::OsString, path::Path, time::Duration};

use orchestra_plan::{
    event::{Failure, FailureKind},
    ids::JobId,
    phase::Phase,
    work::{Action, AgentWork, Brief, Instructions, ModelTier, ProfileName, WorkSpec},
};
use orchestra_secret::url_passwords;
use sha2::{Digest as _, Sha256};

use super::{
    Cx, Done, brief,
    pressure::{Gauge, pieces},
    run,
    sandbox::set_bytecode,
    usage::{usage_of, warn},
    watch::Watch,
};
use crate::{
    agents::{
        AgentError, Asked, Chosen, Denied, Exited, Feature, Invocation, Purpose, Reader, Reading,
        Task, Verdict, brief_text, verdict, write_skill,
    },
    cause::chain,
    runner::host::git_failure,
    supervise::{Ending, How, Order, Program},
};

/// Does a job's work by an agent.
pub(super) async fn work(
    cx: &Cx<'_>,
    part: u32,
    spec: &WorkSpec,
    work: &AgentWork,
    session: Option<&str>,
) -> Result<Done, Failure> {
    let worktree = cx.worktree().await?;
    let text = brief_text(worktree.path(), &work.brief).map_err(unavailable)?;
    let chosen = choose(cx, Purpose::Work, work.agent.as_ref()).await?;
    let asked = Asked::of(&chosen.name, &chosen.profile, &chosen.able, work, &text);
    let asked = asked.map_err(unavailable)?;
    for reason in &asked.reasons {
        cx.say(reason).await;
    }
    let prompt = brief::job(
        cx,
        worktree.path(),
        &text,
        &asked.folders,
        pieces(cx, &chosen.profile),
        session.is_some(),
    )
    .await;
    let call = AgentCall {
        chosen,
        asked,
        prompt,
        session,
    };
    called(cx, part, spec, worktree.path(), call).await
}

/// Lets an agent mend what failed.
pub(super) async fn heal(
    cx: &Cx<'_>,
    part: u32,
    healed: &brief::Healed<'_>,
) -> Result<Done, Failure> {
    let worktree = cx.worktree().await?;
    let chosen = choose(cx, Purpose::Healing, own(cx)).await?;
    let prompt = brief::heal(cx, worktree.path(), healed).await;
    let text = Instructions::parse("heal").map_err(|error| super::internal(&error))?;
    let work = AgentWork::of(Brief::Text(text));
    let asked = Asked::of(&chosen.name, &chosen.profile, &chosen.able, &work, "");
    let call = AgentCall {
        asked: asked.map_err(unavailable)?,
        chosen,
        prompt,
        session: None,
    };
    let spec = WorkSpec::of(Action::Agent(work));
    called(cx, part, &spec, worktree.path(), call).await
}

/// Lets an agent make the worktree of a job ready, by a quick model if it has one.
pub(super) async fn make_ready(
    cx: &Cx<'_>,
    part: u32,
    chosen: Chosen,
    mut spec: WorkSpec,
) -> Result<Done, Failure> {
    let Action::Agent(work) = &mut spec.action else {
        return Ok(Done::default());
    };
    let worktree = cx.worktree().await?;
    let text = brief_text(worktree.path(), &work.brief).map_err(unavailable)?;
    let quick = chosen.profile.text().models.of(ModelTier::Fast);
    if quick.is_some() && chosen.able.has(Feature::Model) {
        work.model_tier = Some(ModelTier::Fast);
    }
    // However long they are, they are no reason for a larger model.
    let asked = Asked::of(&chosen.name, &chosen.profile, &chosen.able, work, "");
    let call = AgentCall {
        asked: asked.map_err(unavailable)?,
        chosen,
        prompt: brief::ready(cx, worktree.path(), &text),
        session: None,
    };
    called(cx, part, &spec, worktree.path(), call).await
}

/// The agent that the job names for its work.
pub(super) fn own<'a>(cx: &Cx<'a>) -> Option<&'a ProfileName> {
    let work = cx.assignment.job.work.as_ref()?;
    work.agent()?.agent.as_ref()
}

/// The agent that may run for a purpose, and is asked what it can do. No agent starts without this.
pub(super) async fn choose(
    cx: &Cx<'_>,
    purpose: Purpose,
    job: Option<&ProfileName>,
) -> Result<Chosen, Failure> {
    let settings = run::settings(cx).await?;
    let permit = cx.host.permits().await.of(purpose, job);
    let permit = permit.map_err(|denied| denial(&denied))?;
    cx.say(&format!("agent {}: {}", permit.name, permit.reason()))
        .await;
    let chosen = settings.agents.choose(permit.name.as_str()).await;
    chosen.map_err(unavailable)
}

/// A denial as the failure of an act.
pub(super) fn denial(denied: &Denied) -> Failure {
    let words = format!("{denied} [{}]", denied.code());
    Failure::new(FailureKind::Unavailable, words)
}

fn unavailable(error: AgentError) -> Failure {
    let words = format!("{} [{}]", chain(&error), error.code());
    Failure::new(FailureKind::Unavailable, words)
}

/// The session that a run is told to take where it begins one: it has the form of an id, is nobody else's, and
/// is the same for whoever takes the run up.
fn session_of(label: &str) -> String {
    let digest = Sha256::digest(label);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    JobId::of_random(bytes).to_string()
}

/// A call of an agent.
struct AgentCall<'a> {
    chosen: Chosen,
    asked: Asked,
    prompt: String,
    session: Option<&'a str>,
}

async fn called(
    cx: &Cx<'_>,
    part: u32,
    spec: &WorkSpec,
    worktree: &Path,
    call: AgentCall<'_>,
) -> Result<Done, Failure> {
    let (assignment, profile) = (cx.assignment, &call.chosen.profile);
    let heal = if assignment.act.heal { "-heal" } else { "" };
    let label = format!(
        "{}-{}-{}{heal}-{part}",
        assignment.job.id, assignment.attempt, assignment.act.phase
    );
    let task = Task {
        worktree,
        prompt: &call.prompt,
        session: call.session,
        new_session: &session_of(&label),
        label: &label,
    };
    let invocation = Invocation::new(&call.chosen, &call.asked, &task).map_err(unavailable)?;
    invocation.write_files(worktree).map_err(unavailable)?;
    write_skill(worktree).map_err(unavailable)?;
    if !invocation.leaves.is_empty() {
        let left_out = cx.worktree().await?.leave_out(&invocation.leaves);
        left_out.map_err(|error| git_failure(&error))?;
    }
    warn(cx, &call.chosen).await;
    let program = Program::Process {
        executable: invocation.program.clone().into(),
        arguments: invocation.arguments.clone(),
    };
    let settings = run::settings(cx).await?;
    let mut order = run::order(cx, &settings, part, spec, program).await?;
    furnish(cx, &mut order, &invocation);
    set_bytecode(&mut order, &cx.worktree().await?);
    cx.say(&format!(
        "agent {}: {}",
        call.chosen.name,
        invocation.shown().join(" ")
    ))
    .await;
    let reader = Reader::new(profile, invocation.session.as_deref());
    let gauge = Gauge::new(cx, worktree.to_owned(), profile).await?;
    let agent = call.chosen.clone();
    let mut watch = Watch::new(cx, agent, order.directory.clone(), gauge, reader);
    let ending = run::supervised(cx, part, &mut order, &mut watch).await?;
    let mut watch = watch.rest(cx, &order.id).await?;
    watch.tell(cx).await;
    let context = watch.reader.so_far().context;
    watch.gauge.tell(cx, context).await;
    let reading = watch.reader.finish();
    let used = usage_of(&reading.usage);
    let usage = used.minus(&watch.told);
    // What is left of it was told of the runs after this one.
    cx.tell_less(&used);
    let mut done = Done {
        usage,
        failure: judged(&call.chosen, &ending, &reading, watch.is_over),
        ..Done::default()
    };
    if done.failure.is_none() {
        match watch.gauge.left(spec, cx).await {
            Ok(left) => done.before.extend(left),
            Err(failure) => done.failure = Some(failure),
        }
    }
    Ok(done)
}

/// Gives an agent the variables and the input that its profile asks for.
fn furnish(cx: &Cx<'_>, order: &mut Order, invocation: &Invocation) {
    let host = &cx.host.options.environment;
    for (name, value) in &invocation.variables {
        order.environment.entry(name.into()).or_insert(value.into());
    }
    for name in &invocation.inherits {
        let name = OsString::from(name);
        if let Some(value) = host.get(&name) {
            order
                .environment
                .entry(name)
                .or_insert_with(|| value.clone());
        }
    }
    let texts: Vec<(String, String)> = order
        .environment
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
        .collect();
    let pairs = || {
        texts
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    };
    let mask = invocation.mask(pairs());
    // Of an address only the password is a secret.
    let is_hidden =
        |value: &str| mask.text(value) != value && url_passwords(value).next().is_none();
    let hidden = pairs().filter(|(_, value)| !value.is_empty() && is_hidden(value));
    order
        .secrets
        .extend(hidden.map(|(_, value)| value.to_owned()));
    // An address is no secret, and what is written in it may be.
    let passwords = pairs().flat_map(|(_, value)| url_passwords(value));
    order.secrets.extend(passwords.map(str::to_owned));
    cx.hide(&order.secrets);
    order.input.clone_from(&invocation.stdin);
}

/// What a run of an agent came to.
fn judged(chosen: &Chosen, ending: &Ending, reading: &Reading, is_over: bool) -> Option<Failure> {
    let exited = match ending.how {
        _ if is_over => Exited::AfterGrace,
        How::Exited => Exited::Code(ending.code.unwrap_or_default()),
        How::Signaled => Exited::Signal(ending.signal.unwrap_or_default()),
        _ => return run::failure_of(ending),
    };
    let ran = Duration::from_millis(ending.ended.saturating_sub(ending.began));
    // How often it is tried again is not decided here.
    let (kind, why) = match verdict(&chosen.profile, exited, reading, ran, 0) {
        Verdict::Success => return None,
        Verdict::Again { why, .. } => (FailureKind::Transient, why),
        Verdict::Crashed { why } => (FailureKind::Signal, why),
        Verdict::Failed { why } => (FailureKind::ExitCode, why),
        Verdict::Permanent { why } => (FailureKind::Unavailable, why),
    };
    let mut failure = Failure::new(kind, why);
    failure.exit_code = ending.code;
    failure.signal = ending.signal;
    Some(failure)
}

/// Whether a phase is healed by solving a merge.
pub(super) const fn is_merge(phase: Phase) -> bool {
    matches!(phase, Phase::MergeFi)
}

//! `orchestra plan agents`: the agents that plans may start in this workspace, and agreement to one.

use std::io::{self, BufRead as _, IsTerminal as _};

use orchestra_plan::spec::PlanSpec;
use orchestra_runner::{agents::Offer, plans::Standby};
use serde::Serialize;

use super::desk::{Desk, failure};
use crate::{
    commands::mcp,
    exit::{Exit, Failure},
    output::{self, Format},
    servers,
};

/// Agents that may start here, and agreements.
#[derive(Serialize)]
struct Shown {
    /// For which work which agent may start.
    agents: Vec<Standby>,
    /// Limits of heals: number and cost.
    limits: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<String>,
    /// Agreements given without a question, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shows: Vec<String>,
}

/// Shows the agents that plans may start, after it has stored or taken back agreements.
pub(super) async fn run(
    desk: &Desk,
    approve: &[String],
    revoke: &[String],
    yes: bool,
    format: Format,
) -> Result<Exit, Failure> {
    let (mut changed, mut shows) = (Vec::new(), Vec::new());
    let mut exit = Exit::Ok;
    for name in approve {
        let offer = desk.plans().offer(name).ok_or_else(|| {
            let unusable = &desk.plans().options().named.unusable;
            let unusable = unusable.iter().find(|(other, _)| other.as_str() == name);
            let what = match (name.is_empty(), unusable) {
                (true, _) => "--approve takes the name of an agent".to_owned(),
                (false, Some((_, why))) => format!("agent `{name}` cannot be used: {why}"),
                (false, None) => format!("there is no agent `{name}`"),
            };
            let text = format!("{what}; known agents: {}", known(desk));
            Failure::usage_text(output::printable(&text).into_owned())
        })?;
        if !yes && !can_ask(format) {
            output::complain(&output::printable(shown(&offer).trim_end()));
            return Err(Failure::denied(format!(
                "agent `{name}` is not approved: no terminal to ask on; --yes approves \
                 what is shown"
            )));
        }
        match yes || asked(desk, &offer).await? {
            true => {
                let lines = offer.lines.clone();
                desk.plans().agree(offer).await.map_err(failure)?;
                let mut line = format!("agent {name} is approved in this workspace");
                if !is_installed(desk, name) {
                    line.push_str("; its program is not installed");
                }
                changed.push(line);
                if yes {
                    shows.extend(lines);
                }
            }
            false => {
                changed.push(format!("agent {name} is not approved"));
                exit = Exit::Denied;
            }
        }
    }
    for name in revoke {
        let workspace = &desk.plans().options().workspace;
        let change = servers::decisions()?.change(|decisions| decisions.disagree(workspace, name));
        changed.push(match change.map_err(mcp::unreadable)? {
            true => format!("approval of agent {name} is revoked"),
            false => format!("agent {name} was not approved"),
        });
    }
    let shown = Shown {
        agents: desk.plans().standby().await,
        limits: desk.plans().heal_limits(),
        changed,
        shows,
    };
    format.print(&shown, |shown| {
        let mut text = String::new();
        for line in &shown.changed {
            text.push_str(&format!("{}\n", output::in_a_line(line)));
        }
        for line in &shown.shows {
            text.push_str(&format!("  {}\n", output::in_a_line(line)));
        }
        for standby in &shown.agents {
            let agent = standby.agent.as_deref().unwrap_or("none");
            let (what, why) = (standby.what, &standby.why);
            text.push_str(&format!("{what:<22}{agent}: {}\n", output::in_a_line(why)));
        }
        text.push_str(&format!("limits of healing     {}\n", shown.limits));
        text
    })?;
    Ok(exit)
}

/// The agents that can be approved, each with whether its program is installed.
fn known(desk: &Desk) -> String {
    let all = desk.plans().options().agents.availability();
    let all = all.into_iter().map(|(name, is_installed)| {
        let state = if is_installed {
            "installed"
        } else {
            "not installed"
        };
        format!("{name} ({state})")
    });
    all.collect::<Vec<_>>().join(", ")
}

fn is_installed(desk: &Desk, agent: &str) -> bool {
    let all = desk.plans().options().agents.availability();
    all.iter()
        .any(|(name, is_installed)| name.as_str() == agent && *is_installed)
}

/// Asks at the terminal for the agents that a plan asks for and that may not start yet. Where there is no person to
/// ask, the jobs fail and name the setting.
pub(super) async fn consent(desk: &Desk, spec: &PlanSpec, format: Format) -> Result<(), Failure> {
    if !can_ask(format) {
        return Ok(());
    }
    let roster = desk.plans().roster(&spec.settings, &spec.jobs).await;
    for offer in roster.offers {
        if asked(desk, &offer).await? {
            desk.plans().agree(offer).await.map_err(failure)?;
        }
    }
    Ok(())
}

pub(super) fn can_ask(format: Format) -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && format == Format::Text
}

/// Asks at the terminal, which shows all that is agreed to.
async fn asked(desk: &Desk, offer: &Offer) -> Result<bool, Failure> {
    let question = format!(
        "{}Let plans start it in this workspace? [y/N]",
        shown(offer)
    );
    confirmed(desk, &question).await
}

/// Asks a question at the terminal. A signal ends it, and with it the command.
pub(super) async fn confirmed(desk: &Desk, question: &str) -> Result<bool, Failure> {
    output::complain(&output::printable(question));
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    let answer = tokio::select! {
        () = desk.signals().first() => return Err(Failure::denied("the question was interrupted")),
        answer = read => answer.unwrap_or_else(|error| Err(io::Error::other(error)))?,
    };
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// An agent as it is shown before the user agrees to it.
fn shown(offer: &Offer) -> String {
    let mut text = format!("agent {}\n", offer.name);
    for line in &offer.lines {
        text.push_str(&format!("  {}\n", output::in_a_line(line)));
    }
    if let Some(choice) = offer.choice() {
        text.push_str(&format!("{}\n", output::in_a_line(&choice)));
    }
    text
}

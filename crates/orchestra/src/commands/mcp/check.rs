//! `orchestra mcp test`.

use std::{sync::Arc, time::Duration};

use clap::Args;
use orchestra_gateway::{NameCollision, Reviewed, discovery::ServerState, review, rules};
use orchestra_hub::ListKind;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    Here,
    live::{self, Live, Trouble},
    words,
};
use crate::{
    cli::examples,
    commands::progress::Turning,
    exit::{Exit, Failure},
    output::{self, Format},
    serving,
    trace::TraceFlags,
};

/// Start or connect to servers, and check their health
///
/// Exits with 0 if all servers are healthy. Otherwise exits with 3 if the configuration of a server is invalid, 4
/// if a server cannot be reached, 5 if a server is not approved or requires a sign-in, and 1 for any other failure.
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp test", "mcp test docs --timeout 30"]))]
pub(super) struct Arguments {
    /// Names of the servers [default: all enabled servers]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Maximum number of seconds to wait for each server [default: start_timeout of the server]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: Option<u64>,
    #[command(flatten)]
    trace: TraceFlags,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found out about a server.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    server: String,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<usize>,
    /// Names of its tools that are not hidden.
    #[serde(skip)]
    pub(super) names: Vec<String>,
    /// Those of them that are not shown, for others have their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) collisions: Vec<NameCollision>,
    /// Those of them that wait to be approved, for they changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) hidden: Vec<String>,
    /// It is switched off, and was tested because it was named.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_ms: Option<u128>,
    /// Of the health check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_ms: Option<f64>,
    /// Protection of its workspace from it, if it is in a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// What is not as it should be although it is well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    /// Why ends of its lists are left out; among the warnings as well.
    #[serde(skip)]
    pub(super) over_budget: Vec<String>,
    /// What it is likely to miss although it starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Trouble>,
}

pub(super) fn run(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let servers = live::chosen(here, &arguments.names)?;
    let within = arguments.timeout.map(|seconds| live::Within {
        time: Duration::from_secs(seconds),
        flag: "--timeout",
    });
    let connectors = live::connectors(here)?;
    // What is recorded may go where it would turn.
    let turning =
        (!arguments.trace.is_given()).then(|| Turning::new("reading the state of servers"));
    let trace = Some(&arguments.trace);
    let checked = live::each(trace, connectors, &servers, within, check);
    let checked = serving::runtime()?.block_on(checked)?;
    drop(turning);
    let sandbox = words::sandbox(servers.iter().copied());
    let reports: Vec<Report> = checked
        .into_iter()
        .zip(&servers)
        .map(|(checked, server)| Report {
            disabled: matches!(server.state, ServerState::Disabled { .. }),
            sandbox: sandbox.clone().filter(|_| words::is_sandboxed(server)),
            ..checked.unwrap_or_else(Report::of_trouble)
        })
        .collect();
    let mut reports = reports;
    collide(here, &mut reports);
    let exit = exit(reports.iter());
    Format::of_flag(arguments.json).print(&reports, |reports| text(reports))?;
    Ok(exit)
}

/// Finds the tools that are not shown because others have their names: by what was listed now, else by
/// what was listed last.
pub(super) fn collide(here: &Here, reports: &mut [Report]) {
    let listed = reports.iter().filter(|report| report.ok);
    let listed = listed.map(|report| (report.server.clone(), report.names.clone()));
    let found = words::collisions(&here.found, &listed.collect());
    for report in reports {
        let own = found.iter().filter(|one| one.server == report.server);
        report.collisions = own.cloned().collect();
        let words = report.collisions.iter().map(NameCollision::words);
        report.warnings.extend(words);
    }
}

/// How to exit after these: with several that fail, the worst is that not all are well.
pub(super) fn exit<'r>(reports: impl Iterator<Item = &'r Report>) -> Exit {
    let troubles = reports.filter_map(|report| report.error.as_ref());
    troubles.fold(Exit::Ok, |exit, trouble| {
        match exit == Exit::Ok || exit == trouble.exit {
            true => trouble.exit,
            false => Exit::Failed,
        }
    })
}

/// Asks a server how it is and what it offers.
pub(super) async fn check(live: Arc<Live>) -> Result<Report, Trouble> {
    let begin = Instant::now();
    let healthy = live.client.health_check().await;
    healthy.map_err(|error| Trouble::of(&live.config.name, &error))?;
    let latency = begin.elapsed();
    let info = live.facts.info.as_ref();
    let tools = live::list(&live, ListKind::Tools).await?;
    let prompts = live::list(&live, ListKind::Prompts).await?;
    let resources = live::list(&live, ListKind::Resources).await?;
    let templates = live::list(&live, ListKind::Templates).await;
    let mut warnings: Vec<String> = printed(&live).into_iter().collect();
    // A server that knows only resources is healthy.
    let templates = templates.unwrap_or_else(|trouble| {
        let why = trouble.message;
        warnings.push(format!("its resource templates cannot be listed: {why}"));
        Vec::new()
    });
    let mut over_budget = Vec::new();
    let mut reviewed = |kind, name: &str, items| {
        let Reviewed {
            items,
            notes,
            unenforced,
            surplus,
        } = review(&live.config, kind, items);
        over_budget.extend(surplus.map(|surplus| format!("{name} list: {surplus}")));
        let notes = notes.into_iter();
        warnings.extend(notes.map(|note| format!("repaired for clients: {name} {note}")));
        warnings.extend(unenforced.iter().map(|line| format!("{name} {line}")));
        items
    };
    let offered = reviewed(ListKind::Tools, "tool", &tools);
    let prompts = reviewed(ListKind::Prompts, "prompt", &prompts).len();
    let resources = reviewed(ListKind::Resources, "resource", &resources).len();
    reviewed(ListKind::Templates, "resource template", &templates);
    warnings.extend(over_budget.iter().cloned());
    let names: Vec<String> = offered
        .iter()
        .filter_map(|tool| tool.member("name")?.parse().ok())
        .collect();
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    for (tool, name) in rules::renamed(&live.config, &texts) {
        let tool = orchestra_wire::shown(tool);
        warnings.push(format!("its tool {tool} is shown as {name}"));
    }
    let hidden = live::hidden(&live, &tools);
    let names = names.into_iter();
    Ok(Report {
        names: names.filter(|name| !hidden.contains(name)).collect(),
        collisions: Vec::new(),
        server: live.config.name.to_string(),
        ok: true,
        transport: Some(live.config.transport.as_str()),
        protocol: Some(live.facts.revision.as_str()),
        info: info.and_then(|info| info.parse().ok()),
        tools: Some(offered.len()),
        hidden,
        disabled: false,
        prompts: Some(prompts),
        resources: Some(resources),
        start_ms: Some(live.started_in.as_millis()),
        sandbox: None,
        latency_ms: Some((latency.as_secs_f64() * 1e6).round() / 1e3),
        warnings,
        over_budget,
        hints: live.hints.clone(),
        error: None,
    })
}

/// What it printed that is no message.
fn printed(live: &Live) -> Option<String> {
    let stats = live.client.stats();
    let first = stats.junk?;
    let lines = match stats.junk_lines {
        1 => "1 line that is not a message".to_owned(),
        count => format!("{count} lines that are not messages"),
    };
    Some(format!(
        "printed {lines}: '{first}'; its standard output is for messages alone"
    ))
}

impl Report {
    pub(super) fn of_trouble(trouble: Trouble) -> Self {
        Self {
            server: trouble.server.clone(),
            ok: false,
            transport: None,
            protocol: None,
            info: None,
            tools: None,
            names: Vec::new(),
            collisions: Vec::new(),
            hidden: Vec::new(),
            disabled: false,
            prompts: None,
            resources: None,
            start_ms: None,
            latency_ms: None,
            sandbox: None,
            warnings: Vec::new(),
            over_budget: Vec::new(),
            hints: Vec::new(),
            error: Some(trouble),
        }
    }
}

/// A server, and that it is switched off.
fn named(report: &Report) -> String {
    match report.disabled {
        true => format!("{}: disabled", report.server),
        false => report.server.clone(),
    }
}

/// So many of something.
fn counted(count: Option<usize>, what: &str) -> String {
    match count.unwrap_or_default() {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

fn sandbox(report: &Report) -> Option<String> {
    let sandbox = report.sandbox.as_ref();
    sandbox.map(|sandbox| format!("  {sandbox}\n"))
}

fn text(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        if let Some(trouble) = &report.error {
            let server = Trouble {
                server: named(report),
                ..trouble.clone()
            };
            text.push_str(&server.words());
            text.push('\n');
            text.extend(sandbox(report));
            continue;
        }
        let server = named(report);
        let info = report.info.as_ref();
        let word = |key: &str| {
            let word = info.and_then(|info| info[key].as_str()).unwrap_or("?");
            output::in_a_line(word)
        };
        text.push_str(&format!(
            "{server}: well: {} {} over {}, MCP {}, started in {} ms, answers in {:.1} ms; \
             {}, {}, {}{}\n",
            word("name"),
            word("version"),
            report.transport.unwrap_or_default(),
            report.protocol.unwrap_or_default(),
            report.start_ms.unwrap_or_default(),
            report.latency_ms.unwrap_or_default(),
            counted(report.tools, "tool"),
            counted(report.prompts, "prompt"),
            counted(report.resources, "resource"),
            match live::told_hidden(&report.server, &report.hidden) {
                Some(hidden) => format!("; {hidden}"),
                None => String::new(),
            },
        ));
        text.extend(sandbox(report));
        for warning in &report.warnings {
            text.push_str(&format!("  warning: {}\n", output::in_a_line(warning)));
        }
        for hint in &report.hints {
            text.push_str(&format!("  hint: {hint}\n"));
        }
    }
    if reports.is_empty() {
        text.push_str("no servers are used; `orchestra mcp list` shows the reasons\n");
    }
    output::printable(&text).into_owned()
}

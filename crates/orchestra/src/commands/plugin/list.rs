//! `orchestra plugin list`.

use std::{collections::BTreeMap, path::Path};

use clap::Args;
use orchestra_gateway::{
    PinFile,
    discovery::{Server, ServerState},
};
use serde::Serialize;

use super::{is_plugin, manifest, plugin_of};
use crate::{
    cli::examples,
    commands::{
        mcp::{ELSEWHERE, Here, Now, words},
        table,
    },
    config::Config,
    exit::{Exit, Failure},
    output::{self, Format},
    servers, serving,
};

/// List the configured plugins
///
/// While `orchestra up` runs in the workspace, the list includes their present state.
#[derive(Debug, Args)]
#[command(after_help = examples(&["plugin list", "plugin list --check"]))]
pub(super) struct Arguments {
    /// Also show the version of each enabled plugin, by running its program with --manifest
    #[arg(long)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing<'a> {
    plugins: Vec<Row<'a>>,
}

/// A plugin, as JSON tells it.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    /// By which servers are named.
    name: &'a str,
    /// How it is configured.
    state: &'static str,
    /// How it is right now, where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// As it was last seen, or says now.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restarts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip)]
    runs: Option<String>,
    source: &'static str,
    file: &'a Path,
    line: u32,
}

pub(super) fn run(here: &Here, config: &Config, arguments: &Arguments) -> Result<Exit, Failure> {
    let mut now = Now::of_all(config);
    let plugins = here
        .found()
        .servers
        .iter()
        .filter(|server| is_plugin(server));
    let plugins: Vec<&Server> = plugins.collect();
    let mut rows: Vec<Row<'_>> = plugins.iter().map(|one| Row::of(one, &mut now)).collect();
    if arguments.check {
        check(here, &plugins, &mut rows)?;
    }
    if !arguments.json {
        here.complain();
        let others = now.iter().filter(|(name, now)| {
            now.comes_over_quic() && here.found().server(name.as_str()).is_none()
        });
        for (name, _) in others {
            output::complain(&output::printable(&format!("{name}: {ELSEWHERE}")));
        }
    }
    let listing = Listing { plugins: rows };
    Format::of_flag(arguments.json).print(&listing, text)?;
    Ok(Exit::Ok)
}

/// Asks the programs for their manifests, one after the other.
fn check(here: &Here, plugins: &[&Server], rows: &mut [Row<'_>]) -> Result<(), Failure> {
    let connectors = here.connectors()?;
    let runtime = serving::runtime()?;
    for (server, row) in plugins.iter().zip(rows) {
        let ServerState::Usable(config) = &server.state else {
            continue;
        };
        match runtime.block_on(manifest::ask(&connectors, config)) {
            Ok(manifest) => row.version = Some(manifest.version),
            Err(why) => row.reason = row.reason.take().or(Some(why)),
        }
    }
    Ok(())
}

impl<'a> Row<'a> {
    fn of(server: &'a Server, now: &mut BTreeMap<String, Now>) -> Self {
        let config = server.config();
        let is_used = matches!(server.state, ServerState::Usable(_));
        let now = now.remove(server.name.as_str()).filter(|_| is_used);
        let seen = config.and_then(|config| {
            let state = servers::state_directory().ok()?;
            PinFile::new(&state, config).seen()
        });
        let reason = words::reason(server);
        let why_now = now.as_ref().and_then(Now::reason).map(str::to_owned);
        Self {
            id: plugin_of(server).map_or(&server.shown_name, |plugin| plugin.id.as_str()),
            name: server.name.as_str(),
            state: server.state.as_str(),
            status: now.as_ref().map(|now| now.status().to_owned()),
            reason: reason.or(why_now),
            version: seen.as_ref().and_then(|seen| seen.version.clone()),
            tools: seen.as_ref().map(|seen| seen.tools),
            prompts: seen.as_ref().map(|seen| seen.prompts),
            processes: now.as_ref().map(Now::processes),
            restarts: now.as_ref().map(Now::restarts),
            program: config.map(|config| words::target(config)),
            runs: config.map(|config| words::runs(config)),
            source: server.origin.source.as_str(),
            file: &server.origin.file,
            line: server.origin.place.line,
        }
    }
}

fn text(listing: &Listing<'_>) -> String {
    if listing.plugins.is_empty() {
        return "no plugins; `orchestra plugin new NAME` creates one\n".to_owned();
    }
    let head = [
        "ID",
        "STATE",
        "VERSION",
        "TOOLS",
        "PROCESSES",
        "RESTARTS",
        "SOURCE",
        "RUNS",
        "NOTE",
    ];
    let rows = listing.plugins.iter().map(|row| {
        let known = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            row.id.to_owned(),
            row.status.clone().unwrap_or_else(|| row.state.to_owned()),
            known(row.version.clone()),
            known(row.tools.map(|count| count.to_string())),
            known(row.processes.map(|count| count.to_string())),
            known(row.restarts.map(|count| count.to_string())),
            row.source.to_owned(),
            known(row.runs.clone()),
            row.reason.clone().unwrap_or_default(),
        ]
    });
    output::printable(&table::lines(&head, &rows.collect::<Vec<_>>())).into_owned()
}

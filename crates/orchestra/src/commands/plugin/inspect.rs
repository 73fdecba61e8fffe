//! `orchestra plugin inspect`: all that can be found out about one plugin.

use std::{path::Path, sync::Arc};

use clap::Args;
use orchestra_gateway::{
    config::{Permit, ServerConfig, Transport},
    connect::Connectors,
};
use orchestra_hub::ListKind;
use serde::Serialize;
use serde_json::Value;

use super::{
    by_hand,
    manifest::{self, Manifest},
    named,
};
use crate::{
    cli::examples,
    commands::{
        certs,
        mcp::{
            Here,
            live::{self, Trouble},
            words,
        },
    },
    exit::{Exit, Failure},
    output::{self, Format},
    serving,
};

/// Show the manifest, tools, prompts, permissions and certificates of a plugin
///
/// Runs the program of the plugin twice: first with --manifest, then as a plugin, to list its tools and prompts.
/// Meanwhile the plugin cannot use the storage and tools of an orchestrator.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "plugin inspect tools.hello",
    "plugin inspect ./target/debug/hello --no-start",
]))]
pub(super) struct Arguments {
    /// Id of a configured plugin, or path of a plugin program
    #[arg(value_name = "ID|PROGRAM")]
    plugin: String,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGUMENTS")]
    args: Vec<String>,
    /// Run the program only with --manifest, and list no tools or prompts
    #[arg(long)]
    no_start: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found out, as JSON tells it.
#[derive(Serialize)]
struct Report {
    id: String,
    /// How it is configured; not of a program that is configured nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    program: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<Manifest>,
    /// Why its manifest is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest_error: Option<String>,
    /// As it tells them.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<Vec<Value>>,
    /// What it may do to the orchestrator.
    permitted: Vec<String>,
    certificates: Vec<certs::Row>,
    /// Why it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Trouble>,
}

pub(super) fn run(here: &Here, arguments: Arguments) -> Result<Exit, Failure> {
    let connectors = here.connectors()?;
    let runtime = serving::runtime()?;
    let is_program =
        here.found().server(&arguments.plugin).is_none() && Path::new(&arguments.plugin).is_file();
    let (config, state) = match is_program {
        true => {
            let program = Path::new(&arguments.plugin);
            let asked = by_program(&connectors, program, &arguments.args);
            (Arc::new(runtime.block_on(asked)?), None)
        }
        false => {
            let server = named(here, &arguments.plugin)?;
            match live::startable(server) {
                Ok(config) => (config, Some(server.state.as_str())),
                Err(trouble) => return trouble.say(arguments.json),
            }
        }
    };
    let mut report = Report::of(&config, state);
    runtime.block_on(report.ask(&connectors, &config, arguments.no_start));
    // Those that it had no certificate for were made for the start.
    let certificates = here.certs().ok();
    let certificates = certificates.map(|directory| certs::of_plugin(directory, &report.id));
    report.certificates = certificates.unwrap_or_default();
    Format::of_flag(arguments.json).print(&report, Report::text)?;
    Ok(report.end(arguments.json))
}

/// A plugin that is configured nowhere, by what its program says of itself.
///
/// # Errors
/// When it does not say who it is.
pub(super) async fn by_program(
    connectors: &Connectors,
    program: &Path,
    args: &[String],
) -> Result<ServerConfig, Failure> {
    // Nobody is told this name: it is only run with --manifest.
    let unnamed = by_hand("unnamed", program, args)?;
    let manifest = manifest::ask(connectors, &unnamed).await;
    let manifest = manifest.map_err(|why| {
        let text = format!("{}: {why}", program.display());
        Failure::Failed(anyhow::Error::msg(output::printable(&text).into_owned()))
    })?;
    by_hand(&manifest.id, program, args)
}

impl Report {
    fn of(config: &ServerConfig, state: Option<&'static str>) -> Self {
        let id = match &config.transport {
            Transport::Plugin(plugin) => plugin.id.to_string(),
            _ => config.name.to_string(),
        };
        Self {
            state,
            program: words::runs(config),
            manifest: None,
            manifest_error: None,
            tools: None,
            prompts: None,
            permitted: Vec::new(),
            certificates: Vec::new(),
            error: None,
            id,
        }
    }

    async fn ask(&mut self, connectors: &Connectors, config: &Arc<ServerConfig>, no_start: bool) {
        match manifest::ask(connectors, config).await {
            Ok(manifest) => {
                let permit = match &config.transport {
                    Transport::Plugin(plugin) => plugin.permit.clone(),
                    _ => Permit::default(),
                };
                self.permitted = permitted(&manifest, &permit);
                self.manifest = Some(manifest);
            }
            Err(why) => self.manifest_error = Some(why),
        }
        if no_start {
            return;
        }
        match offered(connectors, Arc::clone(config)).await {
            Ok((tools, prompts)) => {
                self.tools = Some(tools);
                self.prompts = Some(prompts);
            }
            Err(trouble) => self.error = Some(trouble),
        }
    }

    /// Says on stderr what could not be found out, and how to exit for it.
    fn end(&self, json: bool) -> Exit {
        if !json && let Some(trouble) = &self.error {
            trouble.complain();
        }
        match (&self.error, &self.manifest_error) {
            (Some(trouble), _) => trouble.exit,
            // Programs of other languages may know no --manifest.
            (None, Some(_)) if self.tools.is_none() => Exit::Failed,
            (None, _) => Exit::Ok,
        }
    }

    fn text(&self) -> String {
        let mut lines = vec![format!("{:<13}{}", "id", self.id)];
        let mut say = |what: &str, text: &str| {
            if !text.is_empty() {
                lines.push(format!("{what:<13}{text}"));
            }
        };
        say("state", self.state.unwrap_or("configured nowhere"));
        say("program", &self.program);
        match (&self.manifest, &self.manifest_error) {
            (Some(manifest), _) => {
                say("version", &manifest.version);
                say("language", &manifest.language);
                say("description", &manifest.description);
                say("author", &manifest.author);
                for (what, names) in manifest.lists() {
                    say(what, &names.join(", "));
                }
            }
            (None, Some(why)) => say("manifest", &format!("not known: {why}")),
            (None, None) => {}
        }
        for line in &self.permitted {
            say("permitted", line);
        }
        for row in &self.certificates {
            say("certificate", &row.in_a_line());
        }
        for (what, items) in [("tool", &self.tools), ("prompt", &self.prompts)] {
            for item in items.iter().flatten() {
                let word = |key: &str| item[key].as_str().unwrap_or_default();
                say(what, &format!("{}: {}", word("name"), word("description")));
                if what == "tool" {
                    say("", &format!("  {}", item["inputSchema"]));
                }
            }
        }
        output::printable(&(lines.join("\n") + "\n")).into_owned()
    }
}

impl Manifest {
    /// What it provides and needs, by kind, where there is anything.
    fn lists(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        let all = [
            ("tools", &self.provides_tools),
            ("prompts", &self.provides_prompts),
            ("storage", &self.provides_storage),
            ("transports", &self.provides_transport),
            ("models", &self.provides_ai),
            ("publishes", &self.provides_events),
        ];
        all.into_iter()
            .map(|(what, names)| (what, names.as_slice()))
    }
}

/// What a plugin may do to the orchestrator: what it says that it needs, as far as its configuration
/// permits it, and nothing else.
fn permitted(manifest: &Manifest, permit: &Permit) -> Vec<String> {
    let kinds = [
        ("to call the tools", &manifest.needs_tools, &permit.tools),
        (
            "to use the storage",
            &manifest.needs_storage,
            &permit.storage,
        ),
        ("to call the models of", &manifest.needs_ai, &permit.ai),
        ("to hear the events", &manifest.needs_events, &permit.events),
    ];
    let needs = kinds.into_iter().filter(|(_, names, _)| !names.is_empty());
    let mut lines: Vec<String> = needs
        .map(|(what, names, permit)| {
            let names = names.join(", ");
            match permit.as_deref() {
                None => format!("{what} {names}"),
                Some([]) => format!("{what} none of {names}, as it is configured"),
                Some(permit) => format!(
                    "{what} {names}, of which {} is permitted",
                    permit.join(", ")
                ),
            }
        })
        .collect();
    if lines.is_empty() {
        lines.push("nothing: its manifest names no needs".to_owned());
    }
    lines
}

/// Starts a plugin, asks for its tools and prompts, and ends it.
async fn offered(
    connectors: &Connectors,
    config: Arc<ServerConfig>,
) -> Result<(Vec<Value>, Vec<Value>), Trouble> {
    let live = live::open(connectors, config, None).await?;
    let list = async |kind| {
        let items = live::list(&live, kind).await?;
        Ok(items.iter().filter_map(|item| item.parse().ok()).collect())
    };
    let listed = async { Ok((list(ListKind::Tools).await?, list(ListKind::Prompts).await?)) };
    let listed = listed.await;
    live::close(&live.client).await;
    listed
}

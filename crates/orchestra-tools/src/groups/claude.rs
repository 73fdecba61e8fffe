//! What a coding agent's workspace holds: skills, agents, guides, and the events of its hooks.

use std::fs;
use std::io::Read;
use std::path::Path;

use orchestra_board::Label;
use orchestra_store::{Action, Cursor, HookEventRecord, NewHookEvent};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::args::{Arg, Limit};
use crate::bundle::BundleKind;
use crate::failure::Failure;
use crate::front_matter;
use crate::services::{Services, page};
use crate::tool::{Effect, Step, Tool};
use crate::wire::{List, time};

/// The most skills or agents that are listed.
const MAX_LISTED: usize = 500;
/// How much of a file is looked at for its description.
const MAX_FRONT_BYTES: u64 = 64 * 1024;
/// The most characters of a description.
const MAX_DESCRIPTION_CHARS: usize = 500;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            "list_skills",
            "List skills",
            Effect::Read,
            "List the skills in the workspace's .claude directory.",
            list_skills,
        )
        .heavy(),
        Tool::new(
            "list_agents",
            "List agents",
            Effect::Read,
            "List the agents in the workspace's .claude directory.",
            list_agents,
        )
        .heavy(),
        Tool::new(
            "receive_hook_event",
            "Receive hook event",
            Effect::Add,
            "Store an event of a coding agent's hook; secrets are masked.",
            receive_hook_event,
        ),
        Tool::new(
            "get_hook_events",
            "Get hook events",
            Effect::Read,
            "List stored hook events, newest first.",
            get_hook_events,
        ),
        Tool::new(
            "install_skills",
            "Install skills",
            Effect::Set,
            "Install bundled skills, all or the named ones; edited files are not overwritten.",
            install_skills,
        )
        .heavy(),
        Tool::new(
            "install_agents",
            "Install agents",
            Effect::Set,
            "Install bundled agents, all or the named ones; edited files are not overwritten.",
            install_agents,
        )
        .heavy(),
        Tool::new(
            "install_docs",
            "Install guides",
            Effect::Set,
            "Install the bundled guides; existing files are not overwritten.",
            install_docs,
        )
        .heavy(),
    ]
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Described {
    name: String,
    description: String,
}

fn list_skills(services: &Services, _: Nothing) -> Result<Step<List<Described>>, Failure> {
    let found = described(services.workspace(), "skills", |path, name| {
        let is_directory = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
        is_directory.then(|| (name.to_owned(), path.join("SKILL.md")))
    })?;
    Ok(Step::Done(List::whole(found)))
}

fn list_agents(services: &Services, _: Nothing) -> Result<Step<List<Described>>, Failure> {
    let found = described(services.workspace(), "agents", |path, name| {
        Some((name.strip_suffix(".md")?.to_owned(), path.to_path_buf()))
    })?;
    Ok(Step::Done(List::whole(found)))
}

/// The entries of `.claude/{directory}`, by name. Symbolic links are not followed.
fn described(
    workspace: &Path,
    directory: &'static str,
    pick: impl Fn(&Path, &str) -> Option<(String, std::path::PathBuf)>,
) -> Result<Vec<Described>, Failure> {
    let root = workspace.join(".claude");
    let directories = [root.clone(), root.join(directory)];
    if directories
        .iter()
        .any(|path| !fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()))
    {
        return Ok(Vec::new());
    }
    let failed = |error: std::io::Error| {
        Failure::text(format!("cannot read .claude/{directory}: {}", error.kind()))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(directory))
        .map_err(failed)?
        .take(10 * MAX_LISTED)
    {
        let path = entry.map_err(failed)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let Some((name, file)) = pick(&path, name) else {
            continue;
        };
        if let Some(text) = front(&file) {
            found.push(Described {
                name,
                description: description(&text),
            });
        }
    }
    orchestra_sort::sort_by(&mut found, |a, b| a.name.cmp(&b.name));
    found.truncate(MAX_LISTED);
    Ok(found)
}

/// The beginning of a regular file.
fn front(path: &Path) -> Option<String> {
    fs::symlink_metadata(path)
        .ok()
        .filter(fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(MAX_FRONT_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn description(text: &str) -> String {
    let description =
        front_matter::value(text, "description").or_else(|| front_matter::first_prose(text));
    description
        .unwrap_or_default()
        .chars()
        .take(MAX_DESCRIPTION_CHARS)
        .collect()
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ReceiveHookEvent {
    event_type: Arg<Label>,
    session_id: Option<String>,
    tool_name: Option<String>,
    agent_type: Option<String>,
    data: Option<Map<String, Value>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Stored {
    stored: bool,
    event_type: String,
}

fn receive_hook_event(_: &Services, args: ReceiveHookEvent) -> Result<Step<Stored>, Failure> {
    let stored = Stored {
        stored: true,
        event_type: args.event_type.0.to_string(),
    };
    // A hook passes on whatever the agent said, also empty text for what does not apply.
    let label = |text: Option<String>| text.and_then(|text| Label::parse(&cut(&text)).ok());
    let event = NewHookEvent {
        event_type: args.event_type.0,
        session_id: label(args.session_id),
        tool_name: label(args.tool_name),
        agent_type: label(args.agent_type),
        data: args.data.map(Value::Object),
    };
    Ok(Step::submit(None, Action::HookEvent(event), |_, _| {
        Ok(stored)
    }))
}

fn cut(text: &str) -> String {
    text.trim().chars().take(50).collect()
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct GetHookEvents {
    event_type: Option<String>,
    limit: Option<Limit>,
    cursor: Option<Arg<Cursor>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct HookEvent {
    event_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    timestamp: String,
}

fn get_hook_events(
    services: &Services,
    args: GetHookEvents,
) -> Result<Step<List<HookEvent>>, Failure> {
    let request = page(args.limit, args.cursor);
    let found =
        services.read(|reader| Ok(reader.hook_events(args.event_type.as_deref(), &request)?))?;
    let text = |label: Option<Label>| label.map(|label| label.to_string());
    Ok(Step::Done(List::of(found, |event: HookEventRecord| {
        HookEvent {
            event_type: event.event_type.to_string(),
            session_id: text(event.session_id),
            tool_name: text(event.tool_name),
            agent_type: text(event.agent_type),
            data: event.data,
            timestamp: time(event.at),
        }
    })))
}

#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct Install {
    names: Option<Vec<String>>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
struct Installed {
    installed: usize,
    files: Vec<String>,
    /// Files that somebody edited, left as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<String>,
    available: Vec<String>,
}

fn install_skills(services: &Services, args: Install) -> Result<Step<Installed>, Failure> {
    install(services, BundleKind::Skills, args.names)
}

fn install_agents(services: &Services, args: Install) -> Result<Step<Installed>, Failure> {
    install(services, BundleKind::Agents, args.names)
}

fn install_docs(services: &Services, _: Nothing) -> Result<Step<Installed>, Failure> {
    install(services, BundleKind::Docs, None)
}

fn install(
    services: &Services,
    kind: BundleKind,
    names: Option<Vec<String>>,
) -> Result<Step<Installed>, Failure> {
    let available = services.bundle().available(kind);
    let names = names.unwrap_or_else(|| available.clone());
    if let Some(unknown) = names.iter().find(|name| !available.contains(name)) {
        let shown: String = unknown
            .chars()
            .take(40)
            .flat_map(char::escape_debug)
            .collect();
        return Err(Failure::text(format!(
            "argument `names`: `{shown}` is not one of {}",
            available.join(", ")
        )));
    }
    let report = services
        .bundle()
        .install(services.workspace(), kind, &names)
        .map_err(|error| Failure::text(error.to_string()))?;
    Ok(Step::Done(Installed {
        installed: report.installed.len(),
        files: report.installed,
        kept: report.kept,
        available,
    }))
}

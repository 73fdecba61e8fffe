//! `orchestra mcp list`.

use std::{collections::BTreeMap, path::Path};

use clap::Args;
use orchestra_gateway::{
    NameCollision, PinFile,
    config::Origin,
    discovery::{Found, Server, ServerState},
};
use serde::Serialize;

use super::{
    Here, KEPT,
    check::{self, Report},
    live,
    running::Now,
    words,
};
use crate::{
    cli::examples,
    commands::table,
    config::Config,
    exit::{Exit, Failure},
    output::{self, Format},
    servers, serving,
};

/// List the configured MCP servers
///
/// While `orchestra up` runs in the workspace, the list includes their present state.
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp list", "mcp list --check", "mcp list --sources --json"]))]
pub(super) struct Arguments {
    /// Also list the configuration files that were read, and the servers that are ignored because another file
    /// defines a server of the same name
    #[arg(long)]
    sources: bool,
    /// Start each server, or connect to it, and report its state and number of tools
    #[arg(long, conflicts_with = "no_start")]
    check: bool,
    /// Do not start any server (the default)
    #[arg(long)]
    no_start: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing<'a> {
    servers: Vec<Row<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shadowed: Option<Vec<ShadowedRow<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<FileRow<'a>>>,
    diagnostics: Vec<DiagnosticRow<'a>>,
}

/// A server, as JSON tells it.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    name: &'a str,
    #[serde(skip)]
    display_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    shown_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    /// The program, or the address without what may be a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// The directory of `trusted_directories` because of which it needs no approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    trusted_by: Option<&'a Path>,
    /// Limits of its sandbox that the configuration does not name.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// Tools that wait to be approved, for they changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hidden: Vec<String>,
    /// Tools that are not shown, for others have their names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    collisions: Vec<NameCollision>,
    /// With the arguments, for people.
    #[serde(skip)]
    runs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<Report>,
    /// How it is right now, where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Now>,
    /// What runs is what it was before its definition changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    outdated: bool,
    /// Unless only the running program knows it.
    #[serde(flatten)]
    place: Option<PlaceRow<'a>>,
}

#[derive(Serialize)]
struct PlaceRow<'a> {
    source: &'static str,
    file: &'a Path,
    line: u32,
    column: u32,
}

#[derive(Serialize)]
struct ShadowedRow<'a> {
    name: &'a str,
    #[serde(flatten)]
    place: PlaceRow<'a>,
    by: PlaceRow<'a>,
}

#[derive(Serialize)]
struct FileRow<'a> {
    file: &'a Path,
    source: &'static str,
    exists: bool,
    servers: usize,
}

/// What is wrong with a file, as JSON tells it.
#[derive(Serialize)]
pub(super) struct DiagnosticRow<'a> {
    severity: &'static str,
    file: &'a Path,
    line: u32,
    column: u32,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    message: &'a str,
}

pub(super) fn run(here: &Here, config: &Config, arguments: &Arguments) -> Result<Exit, Failure> {
    let found = &here.found;
    let mut now = Now::of_all(config);
    let sandbox = words::sandbox(&found.servers);
    let row = |server| Row::of(server, sandbox.as_deref(), &mut now);
    let mut rows: Vec<Row<'_>> = found.servers.iter().map(row).collect();
    if found.broken().next().is_none() {
        now.clear();
    }
    rows.extend(now.iter().map(|(name, now)| Row::kept(name, now)));
    let reports = match arguments.check {
        true => checked(here, &mut rows)?,
        false => BTreeMap::new(),
    };
    for collision in words::collisions(found, &reports) {
        let row = rows.iter_mut().find(|row| row.name == collision.server);
        if let Some(row) = row {
            let words = collision.words();
            row.reason = Some(match row.reason.take() {
                Some(reason) => format!("{reason}; {words}"),
                None => words,
            });
            row.collisions.push(collision);
        }
    }
    let exit = check::exit(rows.iter().filter_map(|row| row.check.as_ref()));
    let listing = Listing {
        servers: rows,
        shadowed: arguments.sources.then(|| shadowed(found)),
        files: arguments.sources.then(|| files(found)),
        diagnostics: diagnostics(found),
    };
    if !arguments.json {
        here.complain();
    }
    Format::of_flag(arguments.json).print(&listing, text)?;
    Ok(exit)
}

/// Reaches each server that is used, all at once.
///
/// Returns the names of the tools that each lists.
fn checked(here: &Here, rows: &mut [Row<'_>]) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let mut listed = BTreeMap::new();
    let servers = live::chosen(here, &[])?;
    let reports = live::each(None, live::connectors(here)?, &servers, None, check::check);
    let reports = serving::runtime()?.block_on(reports)?;
    for (server, report) in servers.iter().zip(reports) {
        let row = rows.iter_mut().find(|row| row.name == server.name.as_str());
        let Some(row) = row else { continue };
        let report = report.unwrap_or_else(Report::of_trouble);
        row.state = match &report.error {
            None => "ready",
            Some(trouble) if trouble.code == "needs_auth" => "needs_auth",
            Some(_) => "offline",
        };
        row.reason = match &report.error {
            None => Some(format!(
                "{}, {:.1} ms{}{}",
                output::counted(report.tools.unwrap_or_default(), "tool"),
                report.latency_ms.unwrap_or_default(),
                match live::told_hidden(row.name, &report.hidden) {
                    Some(hidden) => format!("; {hidden}"),
                    None => String::new(),
                },
                report
                    .over_budget
                    .iter()
                    .map(|surplus| format!("; {surplus}"))
                    .collect::<String>(),
            )),
            Some(trouble) => Some(trouble.message.clone()),
        };
        row.hidden.clone_from(&report.hidden);
        if report.error.is_none() {
            listed.insert(row.name.to_owned(), report.names.clone());
        }
        row.check = Some(report);
    }
    Ok(listed)
}

impl<'a> Row<'a> {
    fn of(server: &'a Server, sandbox: Option<&str>, now: &mut BTreeMap<String, Now>) -> Self {
        let config = server.config();
        let name = server.name.as_str();
        let hidden = hidden(server);
        // One that was only just switched off may still be told.
        let running = now.remove(name);
        let running = running.filter(|_| matches!(server.state, ServerState::Usable(_)));
        // Nor is what was true of the one that it is about to replace told of it.
        let is_now = |now: &Now| config.is_some_and(|config| now.is_of(config));
        let outdated = running.as_ref().is_some_and(|now| !is_now(now));
        let running = running.filter(|_| !outdated);
        Self {
            name,
            display_name: server.display_name(),
            shown_name: Some(server.shown_name.as_str()).filter(|shown| *shown != name),
            description: config.and_then(|config| config.description.as_deref()),
            state: server.state.as_str(),
            reason: words::reason(server)
                .or_else(|| live::told_hidden(name, &hidden))
                .or_else(|| words::trust(server)),
            trusted_by: server.trusted_by.as_deref(),
            hidden,
            collisions: Vec::new(),
            transport: config.map(|config| config.transport.as_str()),
            target: config.map(|config| words::target(config)),
            runs: config.map(|config| words::runs(config)),
            sandbox: sandbox
                .filter(|_| words::is_sandboxed(server))
                .map(ToOwned::to_owned),
            check: None,
            running,
            outdated,
            place: Some(PlaceRow::of(&server.origin)),
        }
    }

    /// A server that the running program has of a file that cannot be read now.
    fn kept(name: &'a str, now: &Now) -> Self {
        Self {
            name,
            display_name: name,
            shown_name: None,
            description: None,
            state: "kept",
            reason: Some(KEPT.to_owned()),
            trusted_by: None,
            hidden: Vec::new(),
            collisions: Vec::new(),
            transport: None,
            target: None,
            runs: None,
            sandbox: None,
            check: None,
            running: Some(now.clone()),
            outdated: false,
            place: None,
        }
    }
}

impl<'a> PlaceRow<'a> {
    fn of(origin: &'a Origin) -> Self {
        Self {
            source: origin.source.as_str(),
            file: &origin.file,
            line: origin.place.line,
            column: origin.place.column,
        }
    }
}

/// The tools of a server that wait to be approved, as far as they were seen.
fn hidden(server: &Server) -> Vec<String> {
    let ServerState::Usable(config) = &server.state else {
        return Vec::new();
    };
    let Ok(state) = servers::state_directory() else {
        return Vec::new();
    };
    let changes = PinFile::new(&state, config).changes().into_iter();
    changes.map(|change| change.tool).collect()
}

fn shadowed(found: &Found) -> Vec<ShadowedRow<'_>> {
    let rows = found.shadowed.iter().map(|shadowed| ShadowedRow {
        name: shadowed.name.as_str(),
        place: PlaceRow::of(&shadowed.origin),
        by: PlaceRow::of(&shadowed.by),
    });
    rows.collect()
}

fn files(found: &Found) -> Vec<FileRow<'_>> {
    let rows = found.files.iter().map(|file| FileRow {
        file: &file.path,
        source: file.source.as_str(),
        exists: file.servers.is_some(),
        servers: file.servers.unwrap_or(0),
    });
    rows.collect()
}

/// What is wrong with the files.
pub(super) fn diagnostics(found: &Found) -> Vec<DiagnosticRow<'_>> {
    found.diagnostics.iter().map(DiagnosticRow::of).collect()
}

impl<'a> DiagnosticRow<'a> {
    pub(super) fn of(diagnostic: &'a orchestra_gateway::config::Diagnostic) -> Self {
        Self {
            severity: diagnostic.severity.as_str(),
            file: &diagnostic.file,
            line: diagnostic.place.line,
            column: diagnostic.place.column,
            path: &diagnostic.path,
            server: diagnostic.server.as_ref().map(AsRef::as_ref),
            message: &diagnostic.message,
        }
    }
}

/// What is said of a server whose definition was changed just now.
const OUTDATED: &str = "changed; the one before still serves, until this one has started";

/// The servers as a table; with how they are right now where that is known of one.
fn servers_table(servers: &[Row<'_>]) -> String {
    let runs = servers
        .iter()
        .any(|row| row.running.is_some() || row.outdated);
    let mut head = vec!["NAME", "TRANSPORT", "STATE"];
    if runs {
        head.extend(["LATENCY", "ERRORS", "RESTARTS", "FAILED-STARTS"]);
    }
    head.extend(["SOURCE", "TARGET", "NOTE"]);
    let rows = servers.iter().map(|row| {
        let running = row.running.as_ref();
        // What was asked of the server itself is newer.
        let state = match (running, &row.check) {
            (_, Some(_)) => row.state,
            (Some(now), None) => now.status(),
            (None, None) if row.outdated => "-",
            (None, None) => row.state,
        };
        let mut cells = vec![
            row.display_name.to_owned(),
            row.transport.unwrap_or("-").to_owned(),
            state.to_owned(),
        ];
        if runs {
            let figures = running.map(Now::figures);
            cells.extend(figures.unwrap_or_else(|| std::array::from_fn(|_| "-".to_owned())));
        }
        let outdated = row.outdated.then_some(OUTDATED);
        let note = row.reason.as_deref().or_else(|| running?.reason());
        let note = note.or(outdated).into_iter().chain(row.sandbox.as_deref());
        let note = note.collect::<Vec<_>>().join("; ");
        cells.extend([
            row.place
                .as_ref()
                .map_or("-", |place| place.source)
                .to_owned(),
            row.runs.clone().unwrap_or_else(|| "-".into()),
            note,
        ]);
        cells
    });
    table::lines(&head, &rows.collect::<Vec<_>>())
}

fn text(listing: &Listing<'_>) -> String {
    let mut text = match listing.servers.is_empty() {
        true => {
            "no servers; `orchestra mcp add` adds one, `orchestra mcp import` imports those of other programs\n"
                .to_owned()
        }
        false => servers_table(&listing.servers),
    };
    if let Some(shadowed) = &listing.shadowed
        && !shadowed.is_empty()
    {
        let rows: Vec<Vec<String>> = shadowed
            .iter()
            .map(|row| vec![row.name.to_owned(), place(&row.place), place(&row.by)])
            .collect();
        text.push('\n');
        text.push_str(&table::lines(&["SHADOWED", "AT", "BY"], &rows));
    }
    if let Some(files) = &listing.files {
        let rows: Vec<Vec<String>> = files
            .iter()
            .map(|row| {
                let count = match row.exists {
                    true => row.servers.to_string(),
                    false => "absent".into(),
                };
                vec![row.file.display().to_string(), row.source.to_owned(), count]
            })
            .collect();
        text.push('\n');
        text.push_str(&table::lines(&["FILE", "SOURCE", "SERVERS"], &rows));
    }
    text
}

fn place(row: &PlaceRow<'_>) -> String {
    format!("{}:{}:{}", row.file.display(), row.line, row.column)
}

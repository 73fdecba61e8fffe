//! `orchestra mcp validate`.

use std::path::{Path, PathBuf};

use clap::Args;
use orchestra_gateway::{
    config::{Diagnostic, File, FileKind, ServerConfig, Severity, Source},
    discovery::Server,
    expand::Scope,
    hints::Hints,
};
use serde::Serialize;

use super::{Here, list::DiagnosticRow};
use crate::{
    cli::examples,
    exit::{Exit, Failure},
    output::{self, Format},
    servers,
};

/// Check configuration files of MCP servers without starting any server
///
/// Exits with 3 if a file is invalid.
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp validate", "mcp validate .mcp.json"]))]
pub(super) struct Arguments {
    /// Files to check [default: all files from which Orchestra reads servers in this workspace]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

struct Checked {
    file: PathBuf,
    servers: usize,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Serialize)]
struct Row<'a> {
    file: &'a Path,
    valid: bool,
    servers: usize,
    diagnostics: Vec<DiagnosticRow<'a>>,
}

pub(super) fn run(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let checked = if arguments.files.is_empty() {
        looked_at(here)
    } else {
        let checked = arguments.files.iter().map(|file| check(here, file));
        checked.collect::<Result<_, _>>()?
    };
    let rows: Vec<Row<'_>> = checked.iter().map(Row::of).collect();
    Format::of_flag(arguments.json).print(&rows, |rows| text(rows, &checked))?;
    match rows.iter().all(|row| row.valid) {
        true => Ok(Exit::Ok),
        false => Ok(Exit::Refused),
    }
}

/// The files that are there, with what was found wrong in them.
fn looked_at(here: &Here) -> Vec<Checked> {
    let scope = servers::scope(&here.places.workspace);
    let files = here.found.files.iter();
    let there = files.filter_map(|file| Some((file, file.servers?)));
    there
        .map(|(file, servers)| {
            let of_file = here.found.diagnostics.iter();
            let of_file = of_file.filter(|diagnostic| diagnostic.file == file.path);
            let configs = here.found.servers.iter().filter_map(Server::config);
            let configs = configs.filter(|config| config.origin.file == file.path);
            let hints = configs.flat_map(|config| hints(config, &scope));
            Checked {
                file: file.path.to_path_buf(),
                servers,
                diagnostics: of_file.cloned().chain(hints).collect(),
            }
        })
        .collect()
}

/// What a server is likely to miss when it is started.
fn hints(config: &ServerConfig, scope: &Scope) -> Vec<Diagnostic> {
    let hints = Hints::of(config, scope);
    let hints = hints.sandbox().iter().map(|hint| Diagnostic {
        severity: Severity::Warning,
        file: config.origin.file.clone(),
        place: config.origin.place,
        path: config.shown_name.clone(),
        server: Some(config.name.clone()),
        message: hint.clone(),
    });
    hints.collect()
}

/// One file, whether it is looked at otherwise or not; one that is has what holds for files in its
/// place. What its servers refer to must be there.
fn check(here: &Here, path: &Path) -> Result<Checked, Failure> {
    let workspace = &here.places.workspace;
    let real = path.canonicalize().ok();
    let is_it = |file: &File| real.is_some() && file.path.canonicalize().ok() == real;
    // What --mcp-config names is trusted, wherever it stands.
    let known = here.places.files().into_iter().find(is_it);
    let file = known.unwrap_or_else(|| File {
        path: path.into(),
        source: Source::CommandLine,
        trust: Source::CommandLine.trust(),
        directory: workspace.clone(),
        kind: FileKind::of_name(path),
        owners: None,
    });
    let contents = file
        .read()
        .ok_or_else(|| Failure::usage_text(format!("{}: there is no such file", path.display())))?;
    let scope = servers::scope(workspace);
    let mut diagnostics = contents.diagnostics;
    for server in &contents.servers {
        let Ok(config) = &server.config else {
            continue;
        };
        diagnostics.extend(hints(config, &scope));
        if let Err(error) = scope.check(config) {
            diagnostics.push(Diagnostic {
                severity: Severity::Error,
                file: server.origin.file.clone(),
                place: server.origin.place,
                path: server.shown_name.clone(),
                server: Some(server.name.clone()),
                message: error.to_string(),
            });
        }
    }
    Ok(Checked {
        file: path.to_owned(),
        servers: contents.servers.len(),
        diagnostics,
    })
}

impl<'a> Row<'a> {
    fn of(checked: &'a Checked) -> Self {
        let diagnostics = &checked.diagnostics;
        Self {
            file: &checked.file,
            valid: diagnostics
                .iter()
                .all(|diagnostic| diagnostic.severity != Severity::Error),
            servers: checked.servers,
            diagnostics: diagnostics.iter().map(DiagnosticRow::of).collect(),
        }
    }
}

/// A line for each file, and one for whatever is wrong there.
fn text(rows: &[Row<'_>], checked: &[Checked]) -> String {
    let mut text = String::new();
    for (row, checked) in rows.iter().zip(checked) {
        let verdict = if row.valid { "valid" } else { "invalid" };
        let (file, servers) = (row.file.display().to_string(), row.servers);
        let file = output::in_a_line(&file);
        let s = if servers == 1 { "" } else { "s" };
        text.push_str(&format!("{file}: {verdict}, {servers} server{s}\n"));
        for diagnostic in &checked.diagnostics {
            text.push_str(&format!("  {diagnostic}\n"));
        }
    }
    if rows.is_empty() {
        text.push_str("no file of servers is there\n");
    }
    output::printable(&text).into_owned()
}

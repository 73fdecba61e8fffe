//! `orchestra mcp import`: servers out of the files of other programs.

mod verdict;

use std::{
    fs, io,
    io::Read as _,
    path::{Path, PathBuf},
};

use clap::Args;
use orchestra_gateway::{
    approval::{Covered, Fingerprint},
    config::{File, FileKind, Place, Severity, Source, Values, Written},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Here,
    edit::{Scope, Target},
};
use crate::{
    cli::examples,
    commands::table,
    env::Variable,
    exit::{Exit, Failure},
    output::{self, Format},
};
use verdict::Verdict;

/// The most that is read of a file in which programs keep servers for each project.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Import MCP servers from the configurations of other programs
///
/// Servers are copied unchanged. A server is skipped if one of the same name exists. Some programs store servers
/// per project: servers of the project in this workspace are imported only with --scope workspace, and before the
/// other servers of the program.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "mcp import --dry-run",
    "mcp import claude-code vscode",
    "mcp import --from servers.json --scope workspace",
]))]
pub(super) struct Arguments {
    /// Programs to import from [default: all that are found]
    #[arg(value_enum, value_name = "PROGRAM")]
    programs: Vec<Program>,
    /// Additional configuration file to import servers from; may be repeated
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// Whose configuration file to add the servers to
    #[arg(long, value_enum, default_value_t)]
    scope: Scope,
    /// Report the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Program that stores servers in a file of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Program {
    ClaudeCode,
    ClaudeDesktop,
    Vscode,
    Cursor,
    Windsurf,
    Codex,
    Gemini,
    Zed,
    Cline,
    Sdek,
}

const PROGRAMS: [Program; 10] = [
    Program::ClaudeCode,
    Program::ClaudeDesktop,
    Program::Vscode,
    Program::Cursor,
    Program::Windsurf,
    Program::Codex,
    Program::Gemini,
    Program::Zed,
    Program::Cline,
    Program::Sdek,
];

impl Program {
    /// Its files, relative to the user's home: on Linux, and where macOS differs, there.
    const fn files(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeCode => &[".claude.json"],
            Self::ClaudeDesktop => &[
                ".config/Claude/claude_desktop_config.json",
                "Library/Application Support/Claude/claude_desktop_config.json",
            ],
            Self::Vscode => &[
                ".config/Code/User/mcp.json",
                "Library/Application Support/Code/User/mcp.json",
            ],
            Self::Cursor => &[".cursor/mcp.json"],
            Self::Windsurf => &[".codeium/windsurf/mcp_config.json"],
            Self::Codex => &[".codex/config.toml"],
            Self::Gemini => &[".gemini/settings.json"],
            Self::Zed => &[".config/zed/settings.json"],
            Self::Cline => &[
                ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ],
            Self::Sdek => &[".sdek/config.yaml", ".sdek/mcp"],
        }
    }
}

#[derive(Serialize)]
struct Row {
    name: String,
    from: PathBuf,
    result: &'static str,
    /// Keys in which it differs from the one that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differs: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(super) fn run(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let mut rows = Vec::new();
    let mut exit = Exit::Ok;
    let mut chosen: Vec<Written> = Vec::new();
    for path in files(arguments)? {
        let mut all = project_servers(here, &path);
        let of_project = all.len();
        let (servers, is_whole) = servers(here, &path);
        // What was named is to be understood; what happens to be here need not be.
        if !is_whole && arguments.from.contains(&path) {
            exit = Exit::Refused;
        }
        all.extend(servers);
        for (place, written) in all.into_iter().enumerate() {
            let Verdict {
                result,
                differs,
                reason,
            } = match &written.config {
                Err(reason) => Verdict {
                    result: "invalid",
                    reason: Some(reason.clone()),
                    ..Verdict::default()
                },
                Ok(config) if place < of_project && arguments.scope == Scope::User => {
                    Verdict::of_project(here, config)
                }
                Ok(config) => Verdict::of(here, &chosen, config, arguments.dry_run),
            };
            rows.push(Row {
                name: written.name.to_string(),
                from: path.clone(),
                result,
                differs,
                reason,
            });
            if ["added", "would_add"].contains(&result) {
                chosen.push(written);
            }
        }
    }
    if !arguments.dry_run && !chosen.is_empty() {
        add(here, arguments.scope, &chosen)?;
    }
    Format::of_flag(arguments.json).print(&rows, |rows| text(rows))?;
    Ok(exit)
}

/// The files that are there, of the programs that were asked for.
fn files(arguments: &Arguments) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = arguments.from.clone();
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        let missing = missing.display();
        return Err(Failure::usage_text(format!(
            "{missing}: there is no such file"
        )));
    }
    let programs = match (&arguments.programs[..], paths.is_empty()) {
        ([], true) => &PROGRAMS[..],
        (programs, _) => programs,
    };
    let home = Variable::Home.directory();
    let home = home.as_deref();
    for program in programs {
        let files = program.files().iter();
        let there = files.filter_map(|file| Some(home?.join(file)));
        paths.extend(there.filter(|path| path.exists()));
    }
    Ok(paths)
}

/// The servers of a file, or of the files in a directory. What is wrong there is told; whether nothing is.
fn servers(here: &Here, path: &Path) -> (Vec<Written>, bool) {
    let mut places = here.places.clone();
    places.environment = vec![path.to_owned()];
    let files = places.files().into_iter();
    let mut servers = Vec::new();
    let mut is_whole = true;
    for file in files.filter(|file| file.source == Source::Environment) {
        let file = File {
            directory: here.places.workspace.clone(),
            ..file
        };
        let Some(contents) = file.read() else {
            continue;
        };
        for diagnostic in &contents.diagnostics {
            is_whole &= diagnostic.severity != Severity::Error;
            output::complain(&output::printable(&diagnostic.to_string()));
        }
        servers.extend(contents.servers);
    }
    (servers, is_whole)
}

/// The servers that a program keeps in a file of the user for this workspace, as Claude Code does.
fn project_servers(here: &Here, path: &Path) -> Vec<Written> {
    let workspace = &here.places.workspace;
    let Ok(Some(text)) = read(path) else {
        // What is wrong with it is told where its other servers are read.
        return Vec::new();
    };
    let Ok(Value::Object(top)) = serde_json::from_str(&text) else {
        return Vec::new();
    };
    let projects = top.get("projects").and_then(Value::as_object);
    let is_here = |directory: &str| {
        let directory = Path::new(directory);
        directory == workspace
            || directory
                .canonicalize()
                .is_ok_and(|real| real == *workspace)
    };
    let (mut found, mut others) = (Vec::new(), 0);
    for (directory, project) in projects.into_iter().flatten() {
        let servers = project
            .get("mcpServers")
            .filter(|servers| has_some(servers));
        match servers {
            Some(servers) if is_here(directory) => {
                let file = File {
                    path: path.into(),
                    source: Source::User,
                    trust: Source::User.trust(),
                    directory: workspace.clone(),
                    kind: FileKind::Servers,
                    owners: None,
                };
                let contents = file.understand(&json!({ "mcpServers": servers }).to_string());
                for mut diagnostic in contents.diagnostics {
                    // Its place is in a text that nobody has seen.
                    diagnostic.place = Place::START;
                    output::complain(&output::printable(&diagnostic.to_string()));
                }
                found.extend(contents.servers);
            }
            Some(_) => others += 1,
            None => {}
        }
    }
    if others > 0 {
        output::complain(&format!(
            "{}: skipped the servers of {}; import them there",
            path.display(),
            output::counted(others, "other project")
        ));
    }
    found
}

fn has_some(servers: &Value) -> bool {
    servers
        .as_object()
        .is_some_and(|servers| !servers.is_empty())
}

/// The text of a file of JSON; `None` for whatever else has its name.
fn read(path: &Path) -> io::Result<Option<String>> {
    let is_json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    if !is_json || !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let mut text = String::new();
    fs::File::open(path)?
        .take(MAX_BYTES)
        .read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Writes servers into a file. In the file of the workspace, each is approved if the file defines it as it was written.
fn add(here: &Here, scope: Scope, chosen: &[Written]) -> Result<(), Failure> {
    let configs = || chosen.iter().filter_map(|one| one.config.as_ref().ok());
    let target = Target::of(scope, here)?;
    target.change(|servers| {
        for config in configs() {
            servers.set(config.name.as_str(), &config.to_json(Values::Kept))?;
        }
        Ok(())
    })?;
    if scope == Scope::Workspace {
        let again = here.again()?;
        let added = configs().filter_map(|config| {
            let found = again.found.server(config.name.as_str())?.config()?;
            let value = config.to_json(Values::Kept);
            let written = target.understand(scope, &config.name, &value).ok()?;
            let is_same = Fingerprint::of_definition(&written) == Fingerprint::of_definition(found);
            is_same.then_some(found)
        });
        let scope = crate::servers::scope(&again.places.workspace);
        let added = added.map(|config| {
            // Discovery does not search the files of disabled servers.
            let covered = Covered::of(config, &scope);
            (&config.name, Fingerprint::of(config, &covered))
        });
        let added: Vec<_> = added.collect();
        again.decide(|decisions| {
            for (name, fingerprint) in &added {
                decisions.approve(&again.places.workspace, name, fingerprint);
            }
        })?;
    }
    Ok(())
}

fn text(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "found no servers of other programs\n".into();
    }
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let result = match row.result {
                "would_add" => "would be added".to_owned(),
                "left_out" => "left out".to_owned(),
                result if row.differs.is_empty() => result.to_owned(),
                result => format!("{result}, differs ({})", row.differs.join(", ")),
            };
            vec![
                row.name.clone(),
                result,
                row.from.display().to_string(),
                row.reason.clone().unwrap_or_default(),
            ]
        })
        .collect();
    table::lines(&["NAME", "RESULT", "FROM", "NOTE"], &rows)
}

//! `orchestra init`: sets a workspace up for coding agents, or takes that back.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use clap::Args;
use orchestra_store::{Home, Options, Store};
use serde::Serialize;

use crate::{
    board,
    bundle::Selection,
    cli::{Common, examples},
    config::{Config, Overrides},
    env::Variable,
    exit::{Exit, Failure},
    init::{Action, Choices, Client, Effect, InitError, Installer, MANIFEST, Step, ignore},
    logging,
    output::{self, Format},
    workspace,
};

/// Set up a workspace: board, client configurations, hooks, skills, agents, guides
///
/// A second run changes nothing. Files that you edited, and files that cannot be parsed, are not changed.
#[derive(Debug, Default, Args)]
#[command(after_help = examples(&[
    "init",
    "init --dry-run",
    "init --client claude --skills all --agents none",
    "init --uninstall",
]))]
pub(crate) struct Arguments {
    /// Workspace directory, same as --workspace
    #[arg(value_name = "DIR", conflicts_with = "workspace")]
    directory: Option<PathBuf>,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Remove the files that `init` installed, except those that you edited. The board, .projects and its git
    /// ignore rule remain
    #[arg(long)]
    uninstall: bool,
    /// Make git ignore .projects by a line in .gitignore, which all clones share, instead of .git/info/exclude
    #[arg(long)]
    shared: bool,
    /// Clients to configure, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CLIENT")]
    client: Vec<Client>,
    /// Set of skills to install in .claude/skills. Installed skills that are not in the set are removed, unless you
    /// edited them [default: the set of the last `init`, else default]
    #[arg(long, value_enum, value_name = "SET", conflicts_with = "uninstall")]
    skills: Option<Selection>,
    /// Set of agents to install in .claude/agents. Installed agents that are not in the set are removed, unless you
    /// edited them [default: the set of the last `init`, else default]
    #[arg(long, value_enum, value_name = "SET", conflicts_with = "uninstall")]
    agents: Option<Selection>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    workspace: &'a Path,
    dry_run: bool,
    uninstall: bool,
    steps: Vec<Step>,
    /// The workspace was looked for, and is not the current directory.
    #[serde(skip)]
    found_above: bool,
    /// The main checkout, if git tracks there what was created here.
    #[serde(skip)]
    elsewhere: Option<PathBuf>,
}

/// Does it.
///
/// # Errors
/// When a file cannot be written, or the board cannot be opened.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let chosen = arguments
        .directory
        .as_deref()
        .or(common.workspace.as_deref());
    let workspace = workspace::find(chosen).map_err(Failure::usage)?;
    if !arguments.uninstall {
        workspace::check_narrow(&workspace).map_err(Failure::usage)?;
    }
    let found_above =
        chosen.is_none() && std::env::current_dir().is_ok_and(|here| here != workspace);
    let config = Config::settle_in(workspace, common, Overrides::default())?;
    logging::start(&config.log.value)?;

    let clients = if arguments.client.is_empty() {
        &Client::ALL[..]
    } else {
        &arguments.client
    };
    let effect = if arguments.dry_run {
        Effect::DryRun
    } else {
        Effect::Apply
    };
    let mut steps = Vec::new();
    if !arguments.uninstall {
        steps.push(make_board(&config, effect)?);
        steps.extend(ignore_mirror(&config, arguments.shared, effect)?);
    }
    let installer = Installer::open(config.root(), effect)
        .map_err(failure)?
        .with_ports(config.own_ports());
    let done = if arguments.uninstall {
        installer.uninstall(clients)
    } else {
        let (skills, agents) = (arguments.skills, arguments.agents);
        installer.install(clients, Choices { skills, agents })
    };
    steps.extend(done.map_err(failure)?);

    let (dry_run, uninstall) = (arguments.dry_run, arguments.uninstall);
    let elsewhere = tracked_elsewhere(&config, &steps);
    let report = Report {
        workspace: &config.workspace,
        dry_run,
        uninstall,
        steps,
        found_above,
        elsewhere,
    };
    Format::of_flag(arguments.json).print(&report, text)?;
    if let Some(main) = &report.elsewhere {
        output::complain(&format!(
            "warning: git already tracks the files of `orchestra init` in {main}; run `orchestra init --uninstall` here, \
             and merge the branch of {main} instead of committing the files a second time",
            main = main.display()
        ));
    }
    if !uninstall {
        for finding in board::left_behind(&config.workspace)? {
            output::complain(&format!("warning: {finding}"));
        }
    }
    if !uninstall && !is_on_path(PROGRAM) {
        output::complain(&format!(
            "warning: no `{PROGRAM}` in the directories of PATH, so clients and hooks will not find it; \
             install it: `cargo install --locked --path crates/orchestra`"
        ));
    }
    Ok(outcome(&report.steps))
}

/// What clients and hooks start.
const PROGRAM: &str = "orchestra";

/// Whether clients and hooks find a program by its name on PATH.
pub(in crate::commands) fn is_on_path(program: &str) -> bool {
    let name = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    Variable::Path
        .read()
        .is_some_and(|path| std::env::split_paths(&path).any(|place| place.join(&name).is_file()))
}

/// Opens the board once, which makes `.projects/`. It makes no project: that is `create_project`.
fn make_board(config: &Config, effect: Effect) -> Result<Step, Failure> {
    let workspace = &config.workspace;
    let existed = workspace::has_board(workspace);
    if effect == Effect::Apply {
        let options = Options {
            watch: false,
            sweep: false,
            ..Options::default()
        };
        drop(Store::open(workspace, board::options(config, options)?)?);
    }
    let action = if existed {
        Action::Unchanged
    } else {
        Action::Created
    };
    Ok(Step {
        path: format!("{}/", workspace::PROJECTS),
        action,
        reason: None,
    })
}

/// Returns the main checkout, if git tracks there the files that the steps created in a linked worktree.
fn tracked_elsewhere(config: &Config, steps: &[Step]) -> Option<PathBuf> {
    let is_new = |step: &Step| step.path == MANIFEST && step.action == Action::Created;
    let Ok(Home::Shared(home)) = config.home() else {
        return None;
    };
    let main = home.mirror().filter(|main| *main != config.workspace)?;
    let has_files = || main.join(MANIFEST).is_file();
    let is_tracked = || orchestra_place::is_tracked(&main.join(".claude"));
    (steps.iter().any(is_new) && has_files() && is_tracked()).then(|| main.to_owned())
}

/// Has git ignore the files of a board that all checkouts share.
fn ignore_mirror(
    config: &Config,
    is_shared: bool,
    effect: Effect,
) -> Result<Option<Step>, Failure> {
    if !matches!(config.home()?, Home::Shared(_)) {
        return Ok(None);
    }
    match is_shared {
        true => Ok(Some(ignore::gitignore(&config.root(), effect)?)),
        false => ignore::exclude(&config.workspace, effect).map_err(failure),
    }
}

fn failure(error: InitError) -> Failure {
    match error {
        InitError::Manifest(error) => Failure::Refused(error.into()),
        error => error.into(),
    }
}

/// Next steps of a user after an `init` that configured these clients and wrote files to commit.
fn next_steps(clients: &[&str], workspace: &Path, files: &BTreeSet<&str>) -> String {
    let clients = match clients {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        clients => clients.concat(),
    };
    let commit = match files.is_empty() {
        true => String::new(),
        false => {
            let files: Vec<&str> = files.iter().copied().collect();
            let is_here = std::env::current_dir().is_ok_and(|here| here == workspace);
            let place = match is_here {
                true => String::new(),
                false => format!("-C {} ", orchestra_fs::quoted(workspace)),
            };
            format!(
                "Commit these files:\n\n    git {place}add {}\n\nThen ",
                files.join(" ")
            )
        }
    };
    let open = if files.is_empty() { "Open" } else { "open" };
    format!(
        "\n{commit}{open} this directory in {clients}, and agree to the server `orchestra`: the client starts it\n\
         by itself. `orchestra up` adds the dashboard in the browser, and shows the same board.\n"
    )
}

/// Written files that a user commits after the steps, if they are not merged instead. Those of a directory below
/// `.claude` are one entry.
fn to_commit<'a>(report: &'a Report<'_>) -> BTreeSet<&'a str> {
    let is_in_git = report
        .workspace
        .ancestors()
        .any(|directory| directory.join(".git").exists());
    let written = report.steps.iter().filter(|step| step.is_written());
    let written = written.filter(|_| is_in_git && report.elsewhere.is_none());
    let paths = written.map(|step| step.path.as_str());
    let is_committed = |path: &&str| {
        let top = path.split('/').next().unwrap_or_default();
        ![".git", workspace::PROJECTS].contains(&top)
    };
    let entry = |path: &'a str| {
        let mut ends = path.match_indices('/').map(|(at, _)| at);
        ends.nth(1).map_or(path, |at| &path[..at])
    };
    paths.filter(is_committed).map(entry).collect()
}

fn text(report: &Report<'_>) -> String {
    let mut text = String::new();
    if report.found_above {
        let workspace = report.workspace.display();
        text.push_str(&format!(
            "workspace {workspace}, which contains the current directory:\n"
        ));
    }
    let (name, width): (fn(Action) -> &'static str, _) = match report.dry_run {
        true => (Action::intent, 12),
        false => (Action::name, 9),
    };
    let told = |step: &&Step| step.action != Action::Unchanged;
    for step in report.steps.iter().filter(told) {
        text.push_str(&format!("{:<width$} {}", name(step.action), step.path));
        if let Some(reason) = &step.reason {
            text.push_str(&format!(": {reason}"));
        }
        text.push('\n');
    }
    let told_of = report.steps.iter().filter(told).count();
    match (told_of, report.steps.len() - told_of) {
        (_, 0) => {}
        (0, unchanged) => text.push_str(&format!("all {unchanged} files are up to date\n")),
        (_, unchanged) => text.push_str(&format!(
            "{:<width$} {unchanged} more\n",
            name(Action::Unchanged)
        )),
    }
    let is = |action: Action| report.steps.iter().any(|step| step.action == action);
    let is_connected = |client: &&Client| {
        let connects = |step: &Step| step.is_written() && Path::new(&step.path) == client.path();
        report.steps.iter().any(connects)
    };
    let connected = Client::ALL.iter().filter(is_connected);
    let connected: Vec<&str> = connected.map(|client| client.name()).collect();
    if !report.dry_run && !report.uninstall && !is(Action::Refused) && !connected.is_empty() {
        text.push_str(&next_steps(
            &connected,
            report.workspace,
            &to_commit(report),
        ));
    }
    output::printable(&text).into_owned()
}

/// Says on stderr what a person has to do, and gives the exit code.
fn outcome(steps: &[Step]) -> Exit {
    let refused = steps
        .iter()
        .filter(|step| step.action == Action::Refused)
        .count();
    if refused == 0 {
        return Exit::Ok;
    }
    let files = if refused == 1 {
        "1 file was"
    } else {
        &format!("{refused} files were")
    };
    output::complain(&format!(
        "error: {files} not changed; fix the problems above, then run the command again"
    ));
    Exit::Refused
}

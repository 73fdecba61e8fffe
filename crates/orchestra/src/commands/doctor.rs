//! `orchestra doctor`: compares the database with the readable files, looks at the plans and at what the
//! program is used with, and mends what is wrong.

mod aside;
mod plans;
mod surroundings;

use std::{path::Path, time::Duration};

use clap::Args;
use orchestra_runner::git::shown_remote;
use orchestra_store::{Fault, Fix, Home, OpenError, Options, Report, Store, give_up};
use serde::Serialize;

use crate::{
    board,
    cli::{Common, examples},
    commands::progress::Turning,
    config::{self, Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
    stopping::Ending,
    sync::{Attempt, Work},
    workspace::{self, PROJECTS},
};
use plans::Found;

/// How long the sweep for edited files may take.
const CATCHING_UP: Duration = Duration::from_secs(30);

/// How long the readable files may take to catch up at the end.
const CLOSING: Duration = Duration::from_secs(5);

/// Maximum size of the file `HEAD` of git.
const MAX_HEAD_BYTES: u64 = 4_096;

/// Check the board, plans, configurations, git and certificates, and repair them
///
/// Prints each problem with the next step. Changes nothing without --fix.
#[derive(Debug, Args)]
#[command(after_help = examples(&[
    "doctor",
    "doctor --fix",
    "doctor --fix --take my-app/epics/MA-1/epic.toon",
]))]
pub(crate) struct Arguments {
    /// Make the repairs that lose no data
    #[arg(long)]
    fix: bool,
    /// If this file in .projects and an issue of the board have the same id: take the file, and give the issue of
    /// the board a new id; may be repeated
    #[arg(long, value_name = "FILE", requires = "fix")]
    take: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    healthy: bool,
    /// What was found.
    findings: Vec<String>,
    /// What of it is still there after mending.
    remaining: Vec<String>,
}

/// Compares, and mends if asked.
///
/// # Errors
/// When either side cannot be read at all.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(logging::of_a_report(&config.log))?;
    // Plans need no board.
    if !config.plans.may_exist() {
        workspace::check_board(&config.workspace)?;
    }
    let turning = Turning::new("checking the board and the plans");
    let mut found = Found::default();
    match config.home() {
        Ok(home) => {
            if workspace::has_board(&config.workspace) {
                found.add(of_board(&config, arguments.fix, &arguments.take)?);
            }
            for finding in board::left_behind(&config.workspace)? {
                found.still(finding);
            }
            found.add(tracked_files(&home, &config.workspace));
        }
        Err(failure) => found.still(format!("board: {}", failure.text())),
    }
    background_exchange(&config, &mut found);
    // Git runs from here on.
    let ending = Ending::listen()?;
    found.add(plans::examine(&config, &ending, arguments.fix)?);
    found.add(surroundings::examine(&config, arguments.fix)?);
    aside::examine_old_run_directory(&config, arguments.fix, &mut found);
    ending.close();
    drop(turning);
    let answer = Answer {
        healthy: found.remaining.is_empty(),
        findings: found.findings,
        remaining: found.remaining,
    };
    Format::of_flag(arguments.json).print(&answer, text)?;
    Ok(if answer.healthy {
        Exit::Ok
    } else {
        Exit::Problems
    })
}

/// Directories of `.projects/` with files that belong into no commit.
const PRIVATE: [&str; 3] = [".events", ".run", ".store"];

/// Reports files of a shared board that git tracks: its commands change them, and each change is taken for an edit. A
/// commit that is checked out without a branch is left as it is. Of a board in a checkout, it reports private files.
fn tracked_files(home: &Home, workspace: &Path) -> Found {
    let mut found = Found::default();
    let Home::Shared(home) = home else {
        let private = PRIVATE.map(|name| workspace.join(PROJECTS).join(name));
        for directory in private
            .iter()
            .filter(|path| orchestra_place::is_tracked(path))
        {
            let directory = directory.display();
            found.still(format!(
                "{directory}: git tracks private files of the board, and the next commit may contain them; run \
                 `git rm -r --cached --quiet {directory}`, and commit the change"
            ));
        }
        return found;
    };
    let Some(main) = home.mirror() else {
        return found;
    };
    let mirror = main.join(PROJECTS);
    if orchestra_place::is_tracked(&mirror) && !is_detached(main) {
        let mirror = mirror.display();
        found.still(format!(
            "{mirror}: git tracks the files of a board that all worktrees share; run `git rm -r --cached --quiet \
             {mirror}`, and commit the change"
        ));
    }
    found
}

/// Returns whether the main checkout is on a commit and on no branch.
fn is_detached(main: &Path) -> bool {
    let found = orchestra_place::repository(main, config::safety(main));
    let head =
        found.and_then(|(git, _)| orchestra_fs::read(&git.join("HEAD"), MAX_HEAD_BYTES).ok()?);
    head.is_some_and(|head| !head.starts_with(b"ref: "))
}

/// Reports that the last exchange of the board in the background failed.
fn background_exchange(config: &Config, found: &mut Found) {
    if let (Some(remote), Some(error)) = (
        config.sync.remote(),
        Attempt::last(config, Work::Exchange).error(),
    ) {
        found.still(format!(
            "sync: the board was not exchanged with {}: {error}; `orchestra sync` tries again",
            shown_remote(remote)
        ));
    }
}

/// Examines the board, and mends it if asked.
fn of_board(config: &Config, mends: bool, taken: &[String]) -> Result<Found, Failure> {
    let fix = if mends { Fix::Mend } else { Fix::Nothing };
    // Findings name paths below the directory of the board.
    let prefix = format!("{PROJECTS}/");
    let taken = taken
        .iter()
        .map(|path| path.strip_prefix(&prefix).unwrap_or(path));
    let taken: Vec<String> = taken.map(str::to_owned).collect();
    let (mut store, aside) = open(config, fix)?;
    let mut mended: Vec<String> = aside.into_iter().collect();
    let mut report = examine(config, &store, fix, &taken)?;
    if report.damaged && fix == Fix::Mend {
        store.close(CLOSING);
        drop(store);
        let told;
        (store, told) = open_anew(config)?;
        mended.push(told);
        report = examine(config, &store, fix, &taken)?;
    }
    let (findings, remaining) = if mends {
        mended.extend(report.findings);
        (mended, store.doctor(Fix::Nothing)?.findings)
    } else {
        (report.findings.clone(), report.findings)
    };
    store.close(CLOSING);
    Ok(Found {
        findings,
        remaining,
    })
}

/// Examines a board, after it has taken in what was edited: an edit is no difference.
fn examine(config: &Config, store: &Store, fix: Fix, taken: &[String]) -> Result<Report, Failure> {
    if let Err(error) = store.settle(CATCHING_UP) {
        tracing::warn!(%error, "edits of the readable files may not be imported yet");
    }
    let examined = match fix {
        Fix::Nothing => store.doctor(fix),
        Fix::Mend => store.mend_taking(taken),
    };
    examined.map_err(|error| {
        let directory = store.directory();
        match board::is_shared(&config.workspace) && !board::is_writable(directory) {
            true => Fault::Sandboxed(directory.to_owned()).into(),
            false => error.into(),
        }
    })
}

fn options(config: &Config) -> Result<Options, Failure> {
    let options = Options {
        watch: false,
        ..Options::default()
    };
    board::options(config, options)
}

/// Opens the board. A database that cannot be opened at all is made anew when mending is asked
/// for; what became of it is told.
fn open(config: &Config, fix: Fix) -> Result<(Store, Option<String>), Failure> {
    let workspace = &config.workspace;
    match Store::open(workspace, options(config)?) {
        Err(OpenError::Fault {
            source: Fault::Corrupt,
            ..
        }) if fix == Fix::Mend => open_anew(config).map(|(store, told)| (store, Some(told))),
        Err(OpenError::Fault {
            source: Fault::ReadOnly,
            ..
        }) if board::is_shared(workspace) => {
            Err(Fault::Sandboxed(board::database_directory(workspace)?).into())
        }
        opened => Ok((opened?, None)),
    }
}

/// Sets a damaged database aside, and opens the board over one that is made again from the
/// readable files; what became of the damaged one is told.
fn open_anew(config: &Config) -> Result<(Store, String), Failure> {
    let workspace = &config.workspace;
    let store = board::database_directory(workspace)?;
    let given_up = give_up(workspace, &options(config)?)?;
    let place = aside::set_aside(config, &store, "damaged-store")?;
    drop(given_up);
    let told = format!(
        "the database was damaged: it was rebuilt from the readable files, and the damaged one is preserved as {}",
        place.display()
    );
    Ok((Store::open(workspace, options(config)?)?, told))
}

fn text(answer: &Answer) -> String {
    let list = |findings: &[String]| -> String {
        findings
            .iter()
            .map(|finding| format!("- {finding}\n"))
            .collect()
    };
    let mut text = String::new();
    if answer.healthy {
        text.push_str(&list(&answer.findings));
        text.push_str("everything is in order\n");
    } else {
        text.push_str(&list(&answer.remaining));
    }
    output::printable(&text).into_owned()
}

//! `orchestra board convert`: moves the board between the place that all worktrees share and the checkout.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use orchestra_store::{
    Fault, Fix, Home, OpenError, Options, SharedHome, Store, clear_shared, copy_to_checkout,
    has_own_database,
};
use serde::Serialize;

use super::merge::{self, Merged};
use crate::{
    board::{self, BoardMode},
    config::{self, Config},
    exit::{Exit, Failure},
    init::{Action, Effect, ignore},
    output::{self, Format},
    serving,
    workspace::{self, PROJECTS},
};

/// Maximum time that edits of the readable files, and files that are missing, may take before the move.
const CATCHING_UP: Duration = Duration::from_secs(30);

#[derive(Serialize)]
struct Answer {
    mode: &'static str,
    /// Whether the board was in the other mode before.
    converted: bool,
    /// Directory of the database.
    directory: PathBuf,
    /// Directory of the readable files.
    files: PathBuf,
    /// Files of the configuration and of git's rules that were changed for it.
    changed: Vec<String>,
    /// Linked worktrees whose boards were merged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    merged: Vec<PathBuf>,
    /// State of the files in git, and the next step.
    git: String,
}

/// Moves the board of a workspace. Does nothing where it is there already.
///
/// # Errors
/// When there is no board or no main checkout, while another program uses the board, and when a file cannot be read or
/// written. The board is whole where it was, or where it belongs.
pub(super) fn run(
    config: &Config,
    mode: BoardMode,
    yes: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let home = board::shared(&config.workspace)?;
    let main = home.mirror().ok_or_else(|| {
        Failure::refused(
            "this repository has no main checkout to hold the files of the board; its board is unchanged",
        )
    })?;
    let main = main.to_owned();
    workspace::check_board(&main)?;
    let config = &config.at(main.clone());
    let in_checkout = matches!(board::home(&main)?, Home::Checkout);
    let was_there = match mode {
        BoardMode::Repository => !in_checkout && home.has_board(),
        BoardMode::Checkout => in_checkout && !home.has_board(),
    };
    let changed = match mode {
        BoardMode::Repository => to_repository(config, &home, in_checkout)?,
        BoardMode::Checkout => to_checkout(config, &home, in_checkout)?,
    };
    let format = Format::of_flag(json);
    let merged = match mode {
        BoardMode::Repository => merge::offer(config, &home, yes, format)?,
        BoardMode::Checkout => Merged::default(),
    };
    let answer = Answer {
        mode: mode.name(),
        converted: !was_there,
        directory: board::database_directory(&main)?,
        files: main.join(PROJECTS),
        changed,
        merged: merged.merged,
        git: of_git(&main, mode),
    };
    format.print(&answer, text)?;
    for failed in &merged.failed {
        output::complain(&output::printable(&format!("error: {failed}")));
    }
    for finding in board::left_behind(&main)? {
        output::complain(&output::printable(&format!("warning: {finding}")));
    }
    Ok(match merged.failed.is_empty() {
        true => Exit::Ok,
        false => Exit::Refused,
    })
}

fn to_repository(
    config: &Config,
    home: &SharedHome,
    in_checkout: bool,
) -> Result<Vec<String>, Failure> {
    let main = &config.workspace;
    if in_checkout && home.has_board() && has_own_database(&main.join(PROJECTS)) {
        // Left by a move into the checkout that was cut off, or by a setting: it is the older one.
        copy_to_checkout(home, false).map_err(refused)?.finish()?;
    }
    clear_shared(main, home).map_err(refused)?;
    let mut changed = set_mode(config, BoardMode::Repository)?;
    // The first opening moves the database.
    serving::close(&open(config, Home::Shared(home.clone()))?);
    let rule = ignore::exclude(main, Effect::Apply)?;
    let rule = rule.filter(|step| step.action != Action::Unchanged);
    changed.extend(rule.map(|step| step.path));
    Ok(changed)
}

fn to_checkout(
    config: &Config,
    home: &SharedHome,
    in_checkout: bool,
) -> Result<Vec<String>, Failure> {
    let main = &config.workspace;
    // After a move that was cut off, and by a setting, the database in the checkout counts already.
    let counts = in_checkout && has_own_database(&main.join(PROJECTS));
    if home.has_board() && !counts {
        // In the checkout a file that is missing is one that was removed.
        write_files(config, home)?;
    }
    let copy = match home.has_board() {
        true => Some(copy_to_checkout(home, !counts).map_err(refused)?),
        false => None,
    };
    let mut changed = set_mode(config, BoardMode::Checkout)?;
    if let Some(copy) = copy {
        copy.finish()?;
    }
    changed.extend(ignore::lift(&config.root())?);
    // The user has just chosen the mode. Where the note exists already, nothing is to do.
    drop(board::note_report(main));
    serving::close(&open(config, Home::Checkout)?);
    Ok(changed)
}

/// Writes every readable file of a shared board.
fn write_files(config: &Config, home: &SharedHome) -> Result<(), Failure> {
    home.check_unused().map_err(|fault| refuse(&fault))?;
    let store = open(config, Home::Shared(home.clone()))?;
    store.settle(CATCHING_UP)?;
    let report = store.doctor(Fix::Mend)?;
    store.settle(CATCHING_UP)?;
    serving::close(&store);
    for finding in &report.findings {
        output::complain(&format!("warning: {finding}"));
    }
    match report.damaged {
        true => Err(Fault::Corrupt.into()),
        false => Ok(()),
    }
}

/// Sets the mode in the configuration of the workspace, where a file sets another one. Returns the file.
fn set_mode(config: &Config, mode: BoardMode) -> Result<Vec<String>, Failure> {
    let set = config::board_settings(&config.workspace).board()?;
    if set.is_none_or(|set| set.value == mode) {
        return Ok(Vec::new());
    }
    let path = config::set_board(&config.root(), mode)?;
    Ok(vec![path.display().to_string()])
}

pub(super) fn open(config: &Config, home: Home) -> Result<Store, Failure> {
    let options = config.memory.apply(Options {
        watch: false,
        home,
        ..Options::default()
    });
    let store = Store::open(&config.workspace, options).map_err(refused)?;
    match store.read_only() {
        Some(fault) => Err(Failure::denied(fault.to_string())),
        None => Ok(store),
    }
}

fn refused(error: OpenError) -> Failure {
    match error {
        OpenError::Fault {
            source: source @ Fault::Held { .. },
            ..
        } => refuse(&source),
        error => error.into(),
    }
}

fn refuse(fault: &Fault) -> Failure {
    Failure::refused(fault.to_string())
}

fn of_git(main: &Path, mode: BoardMode) -> String {
    let is_versioned = orchestra_place::repository(main, config::safety(main)).is_some();
    let is_tracked = orchestra_place::is_tracked(&main.join(PROJECTS));
    let main = main.display();
    match (mode, is_versioned, is_tracked) {
        (_, false, _) => "there is no repository".to_owned(),
        (BoardMode::Repository, true, true) => format!(
            "git still tracks {PROJECTS}: run `git rm -r --cached --quiet {PROJECTS}` in {main}, and commit that"
        ),
        (BoardMode::Repository, true, false) => format!("git ignores {PROJECTS}"),
        (BoardMode::Checkout, true, true) => {
            format!("git tracks {PROJECTS}: commit its changes with the code that they are about")
        }
        (BoardMode::Checkout, true, false) => format!(
            "git shows {PROJECTS} as new: run `git add {PROJECTS}` in {main}, and commit that; each linked worktree has \
             the board of its branch"
        ),
    }
}

fn text(answer: &Answer) -> String {
    let directory = answer.directory.display();
    let mut text = match answer.converted {
        true => format!(
            "moved the board to {directory}, with its history, claims and memory (mode `{}`)\n",
            answer.mode
        ),
        false => format!(
            "the board is in {directory} already (mode `{}`)\n",
            answer.mode
        ),
    };
    for file in &answer.changed {
        text.push_str(&format!("changed {file}\n"));
    }
    for worktree in &answer.merged {
        text.push_str(&format!("merged the board of {}\n", worktree.display()));
    }
    text.push_str(&format!("{}\n", answer.git));
    output::printable(&text).into_owned()
}

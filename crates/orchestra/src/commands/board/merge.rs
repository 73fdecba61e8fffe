//! `orchestra board merge`: merges boards that linked worktrees have of their own into the one that all worktrees share.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    path::{Path, PathBuf},
};

use orchestra_store::{Home, SharedHome};
use serde::Serialize;

use super::convert;
use crate::{
    board::{self, LinkedBoard, Wanted},
    config::Config,
    exit::{Exit, Failure},
    output::{self, Format},
    serving,
};

/// Result of merging.
#[derive(Default, Serialize)]
pub(super) struct Merged {
    /// Worktrees whose boards are part of the shared one now.
    pub(super) merged: Vec<PathBuf>,
    /// Worktrees whose boards were not merged, each with the reason.
    pub(super) failed: Vec<String>,
    /// Worktrees that are merged only if they are named, each with the reason.
    left_out: Vec<String>,
}

/// Merges the boards of worktrees, or of all.
///
/// # Errors
/// Without a shared board, for a worktree that is none or has no board, and without consent.
pub(super) fn run(
    config: &Config,
    worktrees: &[PathBuf],
    yes: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let Home::Shared(home) = config.home()? else {
        return Err(Failure::refused(
            "each worktree has a board of its own (mode `checkout`): `orchestra board convert` makes it one for all",
        ));
    };
    let format = Format::of_flag(json);
    let (chosen, left_out) = match worktrees {
        [] => all(config, &home),
        named => (find_named(config, &home, named)?, Vec::new()),
    };
    if !chosen.is_empty() && !yes {
        if !can_ask(format) {
            output::complain(&output::printable(list(&chosen).trim_end()));
            return Err(Failure::refused(
                "the boards were not merged: no terminal to ask on; --yes merges what is shown",
            ));
        }
        if !is_agreed(&chosen)? {
            return Err(Failure::refused(
                "the boards are not merged: you did not agree",
            ));
        }
    }
    let answer = Merged {
        left_out,
        ..merge(config, &home, &chosen)?
    };
    format.print(&answer, text)?;
    for failed in &answer.failed {
        output::complain(&output::printable(&format!("error: {failed}")));
    }
    Ok(match answer.failed.is_empty() {
        true => Exit::Ok,
        false => Exit::Refused,
    })
}

/// Merges all boards of linked worktrees if the user agrees. Without a terminal and `--yes` it merges none.
///
/// # Errors
/// When the shared board cannot be opened.
pub(super) fn offer(
    config: &Config,
    home: &SharedHome,
    yes: bool,
    format: Format,
) -> Result<Merged, Failure> {
    let (chosen, left_out) = all(config, home);
    let agrees = !chosen.is_empty() && (yes || (can_ask(format) && is_agreed(&chosen)?));
    let merged = match agrees {
        true => merge(config, home, &chosen)?,
        false => Merged::default(),
    };
    Ok(Merged { left_out, ..merged })
}

/// Finds the boards that need not be named, and the reasons against the rest.
fn all(config: &Config, home: &SharedHome) -> (Vec<LinkedBoard>, Vec<String>) {
    let found = board::linked(&config.workspace, home, Wanted::Uncommitted).into_iter();
    let (left_out, chosen): (Vec<_>, Vec<_>) = found.partition(|board| board.doubt.is_some());
    let reason = |board: LinkedBoard| {
        let (workspace, doubt) = (board.workspace.display(), board.doubt.unwrap_or_default());
        let word = orchestra_fs::quoted(&board.workspace);
        format!("{workspace}: {doubt}; `orchestra board merge {word}` merges it anyway")
    };
    (chosen, left_out.into_iter().map(reason).collect())
}

/// Finds the boards of worktrees that the user names by the directory of the workspace or of the whole worktree.
fn find_named(
    config: &Config,
    home: &SharedHome,
    named: &[PathBuf],
) -> Result<Vec<LinkedBoard>, Failure> {
    let mut found = board::linked(&config.workspace, home, Wanted::All);
    let mut chosen = Vec::new();
    for path in named {
        let directory = path.canonicalize().unwrap_or_else(|_| path.clone());
        let is_it = |board: &LinkedBoard| {
            board.workspace == directory || top(&board.workspace) == Some(&*directory)
        };
        let at = found.iter().position(is_it).ok_or_else(|| {
            Failure::refused(format!(
                "{} is not a linked worktree of this repository with an unmerged board; `git worktree list` shows the worktrees",
                path.display()
            ))
        })?;
        chosen.push(found.swap_remove(at));
    }
    Ok(chosen)
}

/// Returns the top of the checkout of a workspace.
fn top(workspace: &Path) -> Option<&Path> {
    let mut above = workspace.ancestors();
    above.find(|directory| directory.join(".git").exists())
}

fn merge(config: &Config, home: &SharedHome, chosen: &[LinkedBoard]) -> Result<Merged, Failure> {
    let mut answer = Merged::default();
    if chosen.is_empty() {
        return Ok(answer);
    }
    let store = convert::open(config, Home::Shared(home.clone()))?;
    for board in chosen {
        let merged = match &board.size {
            Ok(_) => store.merge_worktree(&board.workspace),
            Err(fault) => Err(fault.clone()),
        };
        match merged {
            Ok(()) => answer.merged.push(board.workspace.clone()),
            Err(fault) => {
                let reason = board.failed(&fault);
                let workspace = board.workspace.display();
                answer
                    .failed
                    .push(format!("the board of {workspace} is not merged: {reason}"));
            }
        }
    }
    serving::close(&store);
    Ok(answer)
}

fn can_ask(format: Format) -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && format == Format::Text
}

fn is_agreed(boards: &[LinkedBoard]) -> Result<bool, Failure> {
    let question = format!(
        "{}Merge this into the board that all worktrees share? [y/N]",
        list(boards)
    );
    output::complain(&output::printable(&question));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn list(boards: &[LinkedBoard]) -> String {
    let lines = boards
        .iter()
        .map(|board| format!("{}\n", output::in_a_line(&board.shown())));
    lines.collect()
}

fn text(answer: &Merged) -> String {
    let mut text = String::new();
    for worktree in &answer.merged {
        text.push_str(&format!("merged the board of {}\n", worktree.display()));
    }
    for reason in &answer.left_out {
        text.push_str(&format!("left out {reason}\n"));
    }
    if text.is_empty() && answer.failed.is_empty() {
        text.push_str("no linked worktree has a board to merge\n");
    }
    output::printable(&text).into_owned()
}

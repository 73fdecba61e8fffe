//! Making a worktree ready as the repository itself says: in a file of instructions, which an agent
//! follows before anything else of the job is done.

use std::path::Path;

use orchestra_plan::{
    event::Failure,
    work::{Action, AgentWork, Brief, WorkSpec, WorktreePath},
};

use super::{Cx, Done, READIER, agent};
use crate::agents::Purpose;

/// Where a repository says how its worktrees are made ready.
pub(in crate::runner) const INSTRUCTIONS: &str =
    ".github/instructions/worktree-init.instructions.md";

/// Returns whether a directory has such instructions.
pub(in crate::runner) fn has_instructions(directory: &Path) -> bool {
    // What is no file is refused by who reads it, with words.
    directory.join(INSTRUCTIONS).symlink_metadata().is_ok()
}

/// Has an agent follow the instructions, if there are any. Where none may run, that is logged, and the job
/// continues: the text of a repository is no reason to start one.
pub(super) async fn ready(cx: &Cx<'_>) -> Result<Done, Failure> {
    let worktree = cx.worktree().await?;
    if !has_instructions(worktree.path()) {
        return Ok(Done::default());
    }
    if !has_instructions(&cx.host.options.workspace) {
        // Agents are listed before a plan runs by the files of the workspace.
        let words = format!("{INSTRUCTIONS} is not followed: the workspace has no such file");
        cx.say(&words).await;
        return Ok(Done::default());
    }
    let chosen = match agent::choose(cx, Purpose::Preparation, agent::own(cx)).await {
        Ok(chosen) => chosen,
        Err(failure) => {
            let words = format!("{INSTRUCTIONS} is not followed: {}", failure.message);
            cx.say(&words).await;
            return Ok(Done::default());
        }
    };
    let file = WorktreePath::parse(INSTRUCTIONS).map_err(|error| super::internal(&error))?;
    let work = AgentWork::of(Brief::File(file));
    agent::make_ready(cx, READIER, chosen, WorkSpec::of(Action::Agent(work))).await
}

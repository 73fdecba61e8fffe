//! Which task comes next.

use std::ops::ControlFlow;

use crate::{AgentName, Issue, Slug, Timestamp, View, ViewError};

/// The most tasks that are passed over in one search, so that it stays quick.
const MAX_PASSED: u64 = 10_000;

/// The next task, and what was passed over on the way to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NextTask {
    /// The task; `None` when nothing can be worked on.
    pub task: Option<Issue>,
    /// How many tasks before it are claimed by others.
    pub claimed: u64,
    /// How many tasks before it wait for others.
    pub waiting: u64,
}

/// Finds the next task for `agent`: the first by [`rank`](crate::rank) and id that nobody else has
/// claimed and whose dependencies are all final.
///
/// # Errors
/// When what stands behind `view` fails.
pub fn next_task(
    view: &dyn View,
    project: &Slug,
    agent: Option<&AgentName>,
    now: Timestamp,
) -> Result<NextTask, ViewError> {
    let mut next = NextTask::default();
    view.ranked(project, &mut |task| {
        if task.foreign_claim(agent, now).is_some() {
            next.claimed += 1;
        } else if waits(view, &task)? {
            next.waiting += 1;
        } else {
            next.task = Some(task);
            return Ok(ControlFlow::Break(()));
        }
        let passed = next.claimed + next.waiting;
        Ok(if passed < MAX_PASSED {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    })?;
    Ok(next)
}

fn waits(view: &dyn View, task: &Issue) -> Result<bool, ViewError> {
    for id in &task.depends_on {
        if view
            .issue(&task.project, id)?
            .is_some_and(|other| !other.state.is_final())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

//! Tasks as they are told (MCP, extension tasks, `Task` and `DetailedTask`).

use std::time::{Duration, Instant};

use orchestra_wire::{Rope, write};

use super::{TaskId, TaskLimits, ledger::Entry, state::State, time::Iso};

/// Appends the members of `Task`, without braces.
pub(super) fn task(rope: &mut Rope, id: TaskId, task: &Entry, limits: &TaskLimits, now: Instant) {
    rope.push(b"\"taskId\":\"");
    rope.push(id.to_string().as_bytes());
    rope.push(b"\",\"status\":\"");
    rope.push(status(&task.state).as_bytes());
    rope.push_byte(b'"');
    if let Some(message) = &task.message {
        rope.push(b",\"statusMessage\":");
        write::string(rope, message);
    }
    rope.push(b",\"createdAt\":\"");
    rope.push(Iso(task.created.wall).to_string().as_bytes());
    rope.push(b"\",\"lastUpdatedAt\":\"");
    rope.push(Iso(task.changed.wall).to_string().as_bytes());
    rope.push(b"\",\"ttlMs\":");
    write::number(rope, milliseconds(task.lasts(limits, now)));
    rope.push(b",\"pollIntervalMs\":");
    write::number(rope, milliseconds(limits.poll));
}

/// Appends the members that a status adds, beginning with a comma.
pub(super) fn detail(rope: &mut Rope, task: &Entry) {
    match &task.state {
        State::Working { .. } | State::Cancelled => {}
        State::Waiting(waiting) => {
            rope.push(b",\"inputRequests\":{");
            for (at, (key, request)) in waiting.outstanding().enumerate() {
                if at > 0 {
                    rope.push_byte(b',');
                }
                write::string(rope, key);
                rope.push_byte(b':');
                write::raw(rope, request);
            }
            rope.push_byte(b'}');
        }
        State::Completed(result) => {
            rope.push(b",\"result\":");
            rope.push_body(result.clone());
        }
        State::Failed(error) => {
            rope.push(b",\"error\":");
            rope.push_body(error.clone());
        }
    }
}

const fn status(state: &State) -> &'static str {
    match state {
        State::Working { .. } => "working",
        State::Waiting(_) => "input_required",
        State::Completed(_) => "completed",
        State::Failed(_) => "failed",
        State::Cancelled => "cancelled",
    }
}

/// Whole milliseconds, at least one.
fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .max(1)
}

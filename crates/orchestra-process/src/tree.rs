//! Who descends from a process.

use rustix::process::{Pid, getpid, getsid};

/// The processes that descend from `root`, itself not included: children, their children and so
/// on, as far as the system tells (Linux; elsewhere nobody is told).
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut all = Vec::new();
    let mut next = vec![root];
    while let Some(process) = next.pop() {
        for child in children(process) {
            // A process that moves while we look could be seen twice.
            if !all.contains(&child) {
                all.push(child);
                next.push(child);
            }
        }
    }
    all
}

/// The children of this process that it has not started: those that lost their parent. None of
/// ours leaves our session, and nobody can enter it. Linux; elsewhere nobody is told.
pub(crate) fn adopted() -> Vec<Pid> {
    let Ok(ours) = getsid(None) else {
        return Vec::new();
    };
    let mut children = children(getpid());
    children.retain(|child| getsid(Some(*child)).is_ok_and(|session| session != ours));
    children
}

/// Whether [`descendants`] can see them.
pub(crate) fn is_visible() -> bool {
    std::fs::exists("/proc/thread-self/children").unwrap_or(false)
}

/// Each thread of a process has the children that it started, the first one those that lost
/// their parent.
fn children(process: Pid) -> Vec<Pid> {
    let threads = format!("/proc/{}/task", process.as_raw_pid());
    let Ok(threads) = std::fs::read_dir(threads) else {
        return Vec::new();
    };
    let mut children = Vec::new();
    for thread in threads.flatten() {
        if let Ok(text) = std::fs::read_to_string(thread.path().join("children")) {
            let ids = text
                .split_ascii_whitespace()
                .filter_map(|id| id.parse().ok());
            children.extend(ids.filter_map(Pid::from_raw));
        }
    }
    children
}

/// Seconds that a process has computed, also when it has ended and nobody has asked for its end.
pub(crate) fn cpu_seconds(process: Pid) -> Option<u64> {
    /// `USER_HZ`, which has been 100 on every Linux for decades, whatever its clock.
    const TICKS_PER_SECOND: u64 = 100;
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
    // The second field is the name in parentheses, which may contain anything.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split(' ').collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

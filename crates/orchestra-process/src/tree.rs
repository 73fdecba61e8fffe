//! Who descends from a process.

use std::time::Duration;

use rustix::process::{Pid, getpid};

/// What processes use. Nothing is known but on Linux.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many there are.
    pub processes: u64,
    /// Bytes of memory that are theirs alone; what several of them share is counted once, as the most
    /// that one of them sees of it.
    pub memory: u64,
    /// What they have computed, and those of their descendants that have ended.
    pub cpu: Duration,
}

/// `USER_HZ`, which has been 100 on every Linux for decades, whatever its clock.
const TICKS_PER_SECOND: u64 = 100;

/// What all that descends from `root` uses.
pub(crate) fn usage_below(root: Pid) -> Usage {
    let mut usage = Usage::default();
    let (mut shared, mut ticks) = (0, ended_ticks(root).unwrap_or(0));
    for process in descendants(root) {
        let Some(stat) = Stat::of(process) else {
            continue;
        };
        usage.processes += 1;
        let fields = (11..15).filter_map(|place| stat.field::<u64>(place));
        ticks += fields.sum::<u64>();
        let (own, with_others) = memory(process);
        usage.memory += own;
        shared = shared.max(with_others);
    }
    usage.memory += shared;
    usage.cpu = Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND);
    usage
}

/// What those have computed that descended from a process, have ended and were asked for, in ticks.
fn ended_ticks(process: Pid) -> Option<u64> {
    let stat = Stat::of(process)?;
    Some(stat.field::<u64>(13)? + stat.field::<u64>(14)?)
}

/// As [`ended_ticks`], in milliseconds.
pub(crate) fn ended_ms(process: Pid) -> Option<u64> {
    Some(ended_ticks(process)? * 1_000 / TICKS_PER_SECOND)
}

/// Bytes of memory that no file stands for: a process's own, and what it shares.
fn memory(process: Pid) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_pid()));
    let status = status.unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) * 1_024
    };
    (bytes("RssAnon:"), bytes("RssShmem:"))
}

/// Those processes of this system that we may look into, and for which `is_wanted` holds.
pub(crate) fn all(is_wanted: impl Fn(Pid) -> bool) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let ids = names.filter_map(|name| Pid::from_raw(name.parse().ok()?));
    ids.filter(|process| is_wanted(*process)).collect()
}

/// Whether a process was begun with this variable in its environment, given as `NAME=value`.
pub(crate) fn has_variable(process: Pid, variable: &[u8]) -> bool {
    let all = std::fs::read(format!("/proc/{}/environ", process.as_raw_pid()));
    all.is_ok_and(|all| all.split(|byte| *byte == 0).any(|entry| entry == variable))
}

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
    let Some(ours) = session(getpid()) else {
        return Vec::new();
    };
    let mut children = children(getpid());
    children.retain(|child| session(*child).is_some_and(|session| session != ours));
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

/// The session of a process. It is 0 for one whose session began outside of our PID namespace, as
/// in many containers, which the types for process ids cannot say.
pub(crate) fn session(process: Pid) -> Option<u32> {
    Stat::of(process)?.field(3)
}

/// Seconds that a process has computed, also when it has ended and nobody has asked for its end.
pub(crate) fn cpu_seconds(process: Pid) -> Option<u64> {
    let stat = Stat::of(process)?;
    let ticks = stat.field::<u64>(11)? + stat.field::<u64>(12)?;
    Some(ticks / TICKS_PER_SECOND)
}

/// When a process began, in ticks since the system did.
pub(crate) fn began(process: Pid) -> Option<u64> {
    Stat::of(process)?.field(19)
}

/// Whether a process has ended, and only waits for its parent to ask.
pub(crate) fn has_ended(process: Pid) -> bool {
    let state = Stat::of(process).and_then(|stat| stat.field::<char>(0));
    matches!(state, None | Some('Z' | 'X'))
}

/// What Linux says about a process in a line of fields (`proc_pid_stat(5)`).
struct Stat(String);

impl Stat {
    fn of(process: Pid) -> Option<Self> {
        let line = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_pid())).ok()?;
        Some(Self(line))
    }

    /// A field by its place after the name, from 0. The name stands in parentheses and may contain
    /// anything.
    fn field<T: std::str::FromStr>(&self, place: usize) -> Option<T> {
        let (_, fields) = self.0.rsplit_once(") ")?;
        fields.split(' ').nth(place)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Stat;

    #[test]
    fn fields_are_found_whatever_the_name_is() {
        let stat = Stat("7 (a) b (c d) S 1 7 0 0 -1 4194304 1 2 3 4 15 16 0 0".to_owned());
        let fields = [1, 3, 11, 12].map(|place| stat.field::<u64>(place));
        assert_eq!(fields, [Some(1), Some(0), Some(15), Some(16)]);
        assert_eq!(stat.field::<u64>(99), None);
    }
}

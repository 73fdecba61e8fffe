//! What the kernel says about a process, and where it may run. Linux only; elsewhere nothing is
//! known and nothing is moved.

use std::{fs, io, time::Duration};

/// Which processors a measurement may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// All, as it is in use; waking another processor may take longer than the work.
    Anywhere,
    /// One for both sides, so that a call costs two switches and no waking.
    Together,
}

/// Moves every thread of a process, and this thread, to a place. Best effort.
pub(crate) fn put(pid: u32, place: Place) {
    #[cfg(target_os = "linux")]
    {
        use rustix::{
            process::Pid,
            thread::{CpuSet, sched_setaffinity},
        };
        let count = match place {
            Place::Anywhere => CpuSet::MAX_CPU,
            Place::Together => 1,
        };
        let mut processors = CpuSet::new();
        (0..count).for_each(|number| processors.set(number));
        let _ = sched_setaffinity(None, &processors);
        let tasks = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        for task in tasks.flatten() {
            let id = task.file_name().to_string_lossy().parse().ok();
            if let Some(id) = id.and_then(Pid::from_raw) {
                let _ = sched_setaffinity(Some(id), &processors);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (pid, place);
}

/// CPU time the living threads of a process have used.
pub(crate) fn cpu(pid: u32) -> Option<Duration> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread may end while we look.
        let Ok(line) = fs::read_to_string(task.ok()?.path().join("schedstat")) else {
            continue;
        };
        total += line.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(Duration::from_nanos(total))
}

/// The last process of the chain of first children of a process; `None` where it has no child.
pub(crate) fn youngest(pid: u32) -> Option<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let child = tasks.flatten().find_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    })?;
    youngest(child).or(Some(child))
}

/// Kills a process.
///
/// # Errors
/// When it has ended and was waited for.
pub(crate) fn kill(pid: u32) -> io::Result<()> {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, Signal::KILL)?)
}

/// Page faults of a process so far that needed no disk.
pub(crate) fn minor_faults(pid: u32) -> Option<u64> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold spaces; the eighth field behind it counts.
    let (_, fields) = line.rsplit_once(") ")?;
    fields.split(' ').nth(7)?.parse().ok()
}

/// The most memory a process had resident so far, in MiB.
pub(crate) fn peak_resident(pid: u32) -> Option<f64> {
    status(pid, "VmHWM:")
}

/// The memory a process has resident now, in MiB.
pub(crate) fn resident(pid: u32) -> Option<f64> {
    status(pid, "VmRSS:")
}

fn status(pid: u32, field: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes / 1024.0)
}

//! What the kernel says about a process. Linux only; elsewhere nothing is known.

use std::{fs, time::Duration};

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

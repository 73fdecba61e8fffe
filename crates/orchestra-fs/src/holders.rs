//! Names of the processes that hold a lock, where the system lists them.

use std::path::Path;

/// Maximum number of ancestors of a process that are looked at.
#[cfg(any(target_os = "linux", test))]
const MAX_DEPTH: usize = 16;

/// A process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub process: u32,
    /// Name of its program; empty where the system does not give it.
    pub program: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = Some(&*self.program).filter(|name| !name.is_empty());
        write!(
            f,
            "{} (process {})",
            name.unwrap_or("a program"),
            self.process
        )
    }
}

/// Returns the other processes that hold a lock on a file, alone or shared. Empty where the system lists none, as outside
/// of Linux.
#[must_use]
pub fn holders(path: &Path) -> Vec<Holder> {
    #[cfg(target_os = "linux")]
    return listed(path);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
fn listed(path: &Path) -> Vec<Holder> {
    use std::{fs, os::unix::fs::MetadataExt as _};

    let Ok(file) = fs::metadata(path) else {
        return Vec::new();
    };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut processes = processes(&locks, file.ino());
    // The list can name another device than the file does, so a file of another device can have the same number.
    processes.retain(|process| {
        let open = fs::read_dir(format!("/proc/{process}/fd"));
        let mut open = open.into_iter().flatten().flatten();
        let is_file = |found: &fs::Metadata| (found.dev(), found.ino()) == (file.dev(), file.ino());
        let is_open =
            open.any(|entry| fs::metadata(entry.path()).is_ok_and(|found| is_file(&found)));
        is_open && *process != std::process::id()
    });
    let roots = without_descendants(&processes, parent);
    let holder = |process: u32| Holder {
        process,
        program: program(process),
    };
    roots.into_iter().map(holder).collect()
}

/// Returns the name of the file that a process runs, or the first letters of it where that is not shown.
#[cfg(target_os = "linux")]
fn program(process: u32) -> String {
    let path = std::fs::read_link(format!("/proc/{process}/exe"));
    let name = path.ok().and_then(|path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        // The file was replaced since, as by an update.
        let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
        Some(name.to_owned())
    });
    let short = || std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let name = name.unwrap_or_else(short);
    name.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(target_os = "linux")]
fn parent(process: u32) -> Option<u32> {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program before it can have any letter.
    let (_, after) = state.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

/// Removes the processes that another one of them started, directly or not: they end with it.
#[cfg(any(target_os = "linux", test))]
fn without_descendants(processes: &[u32], parent: impl Fn(u32) -> Option<u32>) -> Vec<u32> {
    let is_root = |process: &&u32| {
        let above = std::iter::successors(parent(**process), |process| parent(*process));
        !above
            .take(MAX_DEPTH)
            .any(|above| processes.contains(&above))
    };
    processes.iter().filter(is_root).copied().collect()
}

/// Reads the processes with a lock on a file with this number, each once.
#[cfg(any(target_os = "linux", test))]
fn processes(locks: &str, number: u64) -> Vec<u32> {
    let of_line = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        // A process that waits has an arrow in the place of the kind.
        if words.next() != Some("FLOCK") {
            return None;
        }
        let process = words.nth(2)?.parse().ok()?;
        let (_, inode) = words.next()?.rsplit_once(':')?;
        (inode.parse() == Ok(number)).then_some(process)
    };
    let mut found: Vec<u32> = locks.lines().filter_map(of_line).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_one_file_are_listed_once_and_waiting_ones_are_not() {
        let locks = "1: FLOCK  ADVISORY  WRITE 2195 fe:00:533 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 77 fe:00:533 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 12 fe:00:533 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 13 fe:00:533 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 12 fe:00:533 0 EOF\n\
                     5: FLOCK  ADVISORY  READ 14 fe:00:5334 0 EOF\n\
                     6: FLOCK  ADVISORY\n";
        assert_eq!(processes(locks, 533), [12, 2195]);
    }

    #[test]
    fn process_that_another_holder_started_is_not_listed() {
        let parent = |process| match process {
            30 => Some(20),
            20 => Some(10),
            10 | 40 => Some(1),
            _ => None,
        };
        assert_eq!(without_descendants(&[10, 30, 40], parent), [10, 40]);
    }
}

//! How much memory there is for us.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Where the system shows its groups of processes.
const GROUPS: &str = "/sys/fs/cgroup";

/// How many bytes of memory there are for this process and what it starts: the machine's, or fewer where its
/// container or its group of processes may not have them all. `None` where the system does not tell. The
/// system is asked once.
#[must_use]
pub fn memory_there() -> Option<u64> {
    static THERE: OnceLock<Option<u64>> = OnceLock::new();
    *THERE.get_or_init(look)
}

fn look() -> Option<u64> {
    let machine = of_machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| group_of(&text));
    let bounds = group.into_iter().flat_map(|group| {
        let mut bounds = Vec::new();
        for above in group.ancestors().filter(|above| above.starts_with(GROUPS)) {
            // What is not limited says `max`, and the uppermost says nothing.
            let bound = fs::read_to_string(above.join("memory.max")).ok();
            bounds.extend(bound.and_then(|text| text.trim().parse::<u64>().ok()));
        }
        bounds
    });
    Some(bounds.fold(machine, u64::min))
}

/// What `/proc/meminfo` says.
fn of_machine(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
    kibibytes.checked_mul(1_024)
}

/// The directory of the group that `/proc/self/cgroup` names, of the second form.
fn group_of(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(GROUPS).join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let text = "MemFree:  1 kB\nMemTotal:       16384 kB\n";
        assert_eq!(of_machine(text), Some(16 << 20));
        assert_eq!(of_machine("MemTotal: many"), None);
        let group = group_of("1:cpu:/a\n0::/user.slice/b\n");
        assert_eq!(group, Some(PathBuf::from("/sys/fs/cgroup/user.slice/b")));
        assert_eq!(group_of("0::/\n"), Some(PathBuf::from(GROUPS).join("")));
        assert_eq!(memory_there().is_some(), cfg!(target_os = "linux"));
    }
}

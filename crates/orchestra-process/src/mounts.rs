//! Mount namespace of a sandbox: the protected paths of its directories are read-only mounts in it.
//!
//! Landlock decides what is created, and does not see changes of modes, owners, times and extended attributes. A
//! read-only mount refuses all of them. It also protects entries deeper in a directory, where Landlock would have to
//! close every directory above them. The command cannot undo a mount: it has no capability for it, and Landlock
//! refuses every change of mounts.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, FileType},
    io,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    mount::{
        MountFlags, MountPropagationFlags, mount, mount_bind, mount_bind_recursive, mount_change,
        mount_remount,
    },
    process::{getegid, geteuid, getpid},
    thread::{CapabilitySet, UnshareFlags, capabilities},
};

use crate::{
    NestedNames,
    links::{further_names, is_out_of_reach},
    message::Step,
    plain::{self, Changed},
    targets,
};

/// Maximum number of directory entries that are searched for protected ones. More would delay the start.
const MAX_ENTRIES: usize = 2_000_000;

/// Maximum number of mounts; the system allows 100,000 in a namespace.
const MAX_MOUNTS: usize = 10_000;

/// Directory of packages, which bring settings that no editor opens.
const PACKAGES: &str = "node_modules";

/// Advice where there is too much to search or to protect.
const SMALLER: &str = "set `cwd`, and the paths that it may write, to smaller directories";

/// Action of an error message.
const READ_ONLY: &str = "mount read-only";

/// Tries what [`protect`] needs, in a process of its own.
pub(crate) fn attempt() -> Result<(), String> {
    enter()?;
    // A directory may have mounts below it, which a user must not uncover.
    let file = PathBuf::from(format!("/proc/{}/status", getpid().as_raw_pid()));
    bind(&file, true).map_err(|error| failed(READ_ONLY, &file, &error))
}

/// Names of entries that are protected at any depth.
pub(crate) struct Names<'a> {
    pub(crate) all: BTreeSet<&'a OsStr>,
    /// Those of them that count only in certain directories.
    pub(crate) nested: &'a [NestedNames],
}

/// Moves this process into a mount namespace where the protected paths are read-only, as are entries of these
/// names at any depth below the writable directories, unless they are such directories themselves, and further names of
/// their files, and the existing `targets` to which the protected and the deeper ones lead. Paths are free of symbolic
/// links. An empty directory covers each of the hidden ones.
///
/// # Errors
/// When the system does not allow it, as [`Step::Mounts`], or there is too much to search, as [`Step::Sandbox`]: a
/// command that creates so much must not weaken its own sandbox. The process is of no use then.
pub(crate) fn protect(
    writable: &[PathBuf],
    protected: &[PathBuf],
    names: Names<'_>,
    targets: &[PathBuf],
    hidden: Vec<PathBuf>,
) -> Result<(), (Step, String)> {
    let not_allowed = |what| (Step::Mounts, what);
    enter().map_err(not_allowed)?;
    let mut mounts = Mounts::default();
    for path in hidden {
        mounts.hold(&path, writable, protected);
        mounts.hidden.push(path);
    }
    for path in protected {
        // The target of a link is protected by its own path.
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => {}
            Ok(_) => {
                mounts.read_only.insert(path.clone());
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(not_allowed(failed("read", path, &error))),
        }
    }
    let mut search = Search {
        names,
        writable,
        protected,
        entries: 0,
        links: Vec::new(),
        mounts,
    };
    for root in writable {
        search.below(root, &mut Vec::new()).map_err(not_allowed)?;
    }
    let Search {
        entries,
        mut links,
        mut mounts,
        ..
    } = search;
    let deeper = mounts
        .read_only
        .iter()
        .filter(|path| !protected.contains(path));
    links.extend(deeper.cloned());
    let further = targets::targets(writable, &links).map_err(|what| (Step::Sandbox, what))?;
    for path in targets.iter().chain(&further) {
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink()) {
            mounts.hold(path, writable, protected);
            mounts.read_only.insert(path.clone());
        }
    }
    let names = further_names(writable, &mounts.read_only);
    let names = names.map_err(|what| (Step::Sandbox, what))?;
    mounts.read_only.extend(names);
    let count = mounts.read_only.len() + mounts.above.len();
    let too_much = match () {
        () if entries > MAX_ENTRIES => {
            format!("its directories have more than {MAX_ENTRIES} entries")
        }
        () if count > MAX_MOUNTS => format!(
            "the protected paths in its directories need {count} mounts, and at most {MAX_MOUNTS} are made"
        ),
        () => return mounts.make(),
    };
    Err((Step::Sandbox, format!("{too_much}; {SMALLER}")))
}

/// Mounts that are to be made.
#[derive(Default)]
struct Mounts {
    read_only: BTreeSet<PathBuf>,
    /// Directories above read-only ones. As mount points they cannot be renamed.
    above: BTreeSet<PathBuf>,
    /// Directories that empty ones cover.
    hidden: Vec<PathBuf>,
}

impl Mounts {
    /// Has the directories above a path keep their names. Renamed, they would make place for others.
    fn hold(&mut self, path: &Path, writable: &[PathBuf], protected: &[PathBuf]) {
        let above = path.ancestors().skip(1).filter(|above| {
            let mut writable = writable.iter();
            writable.any(|root| above.starts_with(root) && above != root)
                && !protected.iter().any(|path| above.starts_with(path))
        });
        self.above.extend(above.map(Path::to_owned));
    }

    /// Makes them, the upper ones first.
    fn make(self) -> Result<(), (Step, String)> {
        for path in &self.above {
            match bind(path, false) {
                Err(error) if !is_gone(&error) => return Err(not_made("bind", path, &error)),
                _ => {}
            }
        }
        let mut last: Option<&Path> = None;
        for path in &self.read_only {
            // It is in a mount that is read-only already.
            if last.is_some_and(|last| path.starts_with(last)) {
                continue;
            }
            match bind(path, true) {
                Ok(()) => last = Some(path),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(not_made(READ_ONLY, path, &error)),
            }
        }
        for path in &self.hidden {
            match cover(path) {
                Err(error) if !is_gone(&error) => return Err(not_made("cover", path, &error)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A path that another program exchanges must not weaken the sandbox, and neither must more mounts than the system
/// allows: no start without mounts is tried.
fn not_made(what: &str, path: &Path, error: &io::Error) -> (Step, String) {
    let failed = failed(what, path, error);
    match error.kind() {
        _ if Changed::is_behind(error) => (Step::Sandbox, error.to_string()),
        io::ErrorKind::StorageFull => (Step::Sandbox, format!("{failed}; {SMALLER}")),
        _ => (Step::Mounts, failed),
    }
}

/// Search for entries with protected names.
struct Search<'a> {
    names: Names<'a>,
    writable: &'a [PathBuf],
    protected: &'a [PathBuf],
    entries: usize,
    /// Symbolic links with such names.
    links: Vec<PathBuf>,
    mounts: Mounts,
}

impl Search<'_> {
    /// Searches a directory. `movable` holds the directories from the writable one to this one that can be renamed.
    fn below(&mut self, directory: &Path, movable: &mut Vec<PathBuf>) -> Result<(), String> {
        let entries = match fs::read_dir(directory) {
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            entries => entries.map_err(|error| failed("list", directory, &error))?,
        };
        let is_writable = self.writable.iter().any(|root| root == directory);
        // Entries whose protection depends on those beside them, and the limits that are met.
        let (mut limited, mut met) = (Vec::new(), BTreeSet::new());
        let mut directories = Vec::new();
        for entry in entries {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Ok(());
            }
            let found =
                entry.and_then(|entry| Ok((entry.file_name(), entry.path(), entry.file_type()?)));
            let (name, path, kind) = match found {
                Err(error) if is_out_of_reach(&error) => continue,
                found => found.map_err(|error| failed("list", directory, &error))?,
            };
            let limits = self.names.nested.iter().enumerate();
            let met_here = limits.filter(|(_, limit)| limit.beside.contains(&name));
            met.extend(met_here.map(|(number, _)| number));
            let is_named = self.names.all.contains(name.as_os_str());
            let mut limits = self.names.nested.iter();
            match limits.position(|limit| limit.names.contains(&name)) {
                Some(number) if is_named && !is_writable => limited.push((number, path, kind)),
                _ => directories.extend(self.entry(path, kind, is_named, movable)),
            }
        }
        for (number, path, kind) in limited {
            directories.extend(self.entry(path, kind, met.contains(&number), movable));
        }
        // Landlock renames nothing where it grants the entries one by one.
        let mut protected = self.protected.iter();
        let is_closed = protected.any(|protected| protected.starts_with(directory));
        for path in directories {
            match is_closed {
                true => self.below(&path, movable)?,
                false => {
                    movable.push(path.clone());
                    self.below(&path, movable)?;
                    movable.pop();
                }
            }
        }
        Ok(())
    }

    /// Notes an entry that is to be protected. Another directory is returned: it is to be searched.
    fn entry(
        &mut self,
        path: PathBuf,
        kind: FileType,
        is_protected: bool,
        movable: &[PathBuf],
    ) -> Option<PathBuf> {
        if kind.is_symlink() {
            self.links.extend(is_protected.then_some(path));
            return None;
        }
        if is_protected && !self.writable.contains(&path) {
            self.mounts.above.extend(movable.iter().cloned());
            self.mounts.read_only.insert(path);
            return None;
        }
        let is_searched = kind.is_dir() && !path.ends_with(PACKAGES);
        (is_searched && !self.protected.contains(&path)).then_some(path)
    }
}

/// Enters a mount namespace of this process alone, with the same user and group.
fn enter() -> Result<(), String> {
    let (user, group) = (geteuid(), getegid());
    let ours = capabilities(None).map_err(|error| format!("capabilities: {error}"))?;
    if ours.effective.contains(CapabilitySet::SYS_ADMIN) {
        unshare(UnshareFlags::NEWNS)?;
    } else if user.is_root() {
        // In a user namespace that maps one user, root would lose the files of all others.
        return Err("root without CAP_SYS_ADMIN".to_owned());
    } else {
        unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
        let (user, group) = (user.as_raw(), group.as_raw());
        for (file, text) in [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("{user} {user} 1")),
            ("gid_map", format!("{group} {group} 1")),
        ] {
            let path = Path::new("/proc/self").join(file);
            // direct: it is no file, but a setting of this process.
            fs::write(&path, text).map_err(|error| failed("write", &path, &error))?;
        }
    }
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", flags).map_err(|error| format!("mounts cannot be changed: {error}"))
}

#[expect(
    deprecated,
    reason = "unsafe only for descriptors, which these flags do not touch"
)]
fn unshare(flags: UnshareFlags) -> Result<(), String> {
    rustix::thread::unshare(flags).map_err(|error| format!("no mount namespace: {error}"))
}

/// Makes a mount point of a path, with the content that it has. Mounts below a read-only one are not part of it: they
/// would not be read-only.
fn bind(path: &Path, is_read_only: bool) -> io::Result<()> {
    let opened = plain::open(path)?;
    let place = opened.by_descriptor();
    if !is_read_only {
        return Ok(mount_bind_recursive(&place, &place)?);
    }
    mount_bind(&place, &place)?;
    // The descriptor leads below the new mount.
    let mounted = opened.again()?;
    let place = mounted.by_descriptor();
    let now = statvfs(&place)?.f_flag;
    // A mount of the system keeps its restrictions.
    let kept = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ];
    let kept = kept.into_iter().filter(|(flag, _)| now.contains(*flag));
    let flags = kept.fold(MountFlags::BIND | MountFlags::RDONLY, |flags, (_, flag)| {
        flags | flag
    });
    Ok(mount_remount(&place, flags, "")?)
}

/// Covers a directory with an empty one that cannot be changed.
fn cover(path: &Path) -> io::Result<()> {
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let opened = plain::open(path)?;
    let place = opened.by_descriptor();
    Ok(mount("tmpfs", &place, "tmpfs", flags, c"mode=555")?)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn failed(what: &str, path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot {what} `{}`: {error}", path.display())
}

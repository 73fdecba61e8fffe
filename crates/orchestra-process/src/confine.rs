//! The sandbox, by what Linux offers to anybody: Landlock for files, seccomp for sockets and other
//! objects that have no path, and no capabilities that reach past both.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
    thread::{
        CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
        set_capabilities,
    },
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::{
    SYSTEM_PATHS, links,
    message::{self, Confinement},
    mounts::{self, Names},
    plain::{self, Changed, Opened},
    targets,
};

/// Devices that hold nothing.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// The newest kernel interface that is asked for; older kernels hold what they can.
const INTERFACE: ABI = ABI::V6;

/// System calls on objects that all programs of a user share, and that outlive them: System V
/// shared memory, message queues and semaphores, POSIX message queues, and keys. The identifiers of
/// System V objects are numbers, so each call that takes one is refused. Without `mq_open` there is no
/// descriptor for the other calls on a POSIX queue, and `shmdt` takes an address.
///
/// A private IPC namespace would permit them, but not everywhere, and a segment that no process has
/// attached counts in no memory limit.
const SHARED_OBJECTS: [i64; 16] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// System calls on the limits and the scheduling of the process whose number is the first argument; 0 is the caller.
/// `sched_setaffinity` is permitted: programs bind their threads to processors, by their numbers.
const BY_NUMBER: [i64; 4] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
];

/// First argument of `ioprio_set` for a process.
const IOPRIO_WHO_PROCESS: u64 = 1;

/// x32 calls are those of x86-64 with this bit.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Confines this process, for good, and returns its working directory where the sandbox has opened it.
pub(crate) fn confine(
    directory: Option<&Path>,
    confinement: &Confinement,
) -> Result<Option<OwnedFd>, (message::Step, String)> {
    let failed = |what| (message::Step::Sandbox, what);
    let granted = Granted::open(confinement).map_err(failed)?;
    let directory = directory.map(|path| open(path.as_os_str())).transpose();
    let directory = directory.map_err(failed)?;
    let named = confinement.protected.iter().map(Path::new);
    let mut protected: Vec<PathBuf> = named.clone().flat_map(real).collect();
    let private = confinement.hidden.iter().map(Path::new);
    let private: Vec<PathBuf> = private.flat_map(real).collect();
    let writable = granted.write.iter().map(|opened| opened.path.clone());
    let writable: Vec<PathBuf> = writable.collect();
    let no_capabilities = |error: Errno| failed(format!("capabilities: {error}"));
    // A user namespace brings others, which are of no use outside of it.
    let ours = capabilities(None).map_err(no_capabilities)?;
    let (covered, closed) = hidden(&granted, confinement, &private);
    let names = links::further_names(&writable, &private.iter().cloned().collect());
    if let Some(name) = names.map_err(failed)?.first() {
        return Err(failed(format!(
            "`{}` is a hard link to a file that is hidden from the command; remove that name",
            name.display()
        )));
    }
    let targets = targets::targets(&writable, &protected).map_err(failed)?;
    if confinement.mounts {
        let names = Names {
            all: named.filter_map(Path::file_name).collect(),
            nested: &confinement.nested,
        };
        mounts::protect(&writable, &protected, names, &targets, covered)?;
        // The mounts protect existing paths.
        let is_mounted =
            |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink());
        protected.extend(targets.into_iter().filter(|path| !is_mounted(path)));
    } else {
        protected.extend(targets);
        let closed = protected.iter().cloned().collect();
        protected.extend(links::further_names(&writable, &closed).map_err(failed)?);
    }
    // The descriptor from before leads past the mounts.
    let directory = directory.map(|opened| opened.again()).transpose();
    let directory = directory.map_err(|error| failed(error.to_string()))?;
    restrict_files(&granted, &protected, &closed).map_err(failed)?;
    restrict_calls().map_err(|error| failed(format!("seccomp: {error}")))?;
    drop_capabilities(ours).map_err(no_capabilities)?;
    Ok(directory.map(|opened| opened.descriptor))
}

/// Paths that are granted, opened once. A file or directory that takes the place of one later is granted nothing.
struct Granted {
    program: Option<Opened>,
    read: Vec<Opened>,
    write: Vec<Opened>,
}

impl Granted {
    fn open(confinement: &Confinement) -> Result<Self, String> {
        let program = confinement.program.as_ref().map(|path| open(path));
        let program = program.transpose()?;
        if let Some(program) = program.as_ref()
            && program.kind != FileType::RegularFile
        {
            return Err(format!("{}: it is no file", program.path.display()));
        }
        let mut read = Vec::new();
        for path in &confinement.read {
            match plain::open(Path::new(path)) {
                Ok(opened) => read.push(opened),
                Err(error) if is_no_way(&error) => {}
                Err(error) => return Err(not_opened(path, &error)),
            }
        }
        let write = confinement.write.iter().map(|path| open(path));
        Ok(Self {
            program,
            read,
            write: write.collect::<Result<_, _>>()?,
        })
    }
}

fn open(path: &OsStr) -> Result<Opened, String> {
    plain::open(Path::new(path)).map_err(|error| not_opened(path, &error))
}

fn not_opened(path: &OsStr, error: &io::Error) -> String {
    match Changed::is_behind(error) {
        true => error.to_string(),
        false => format!("{}: {error}", Path::new(path).display()),
    }
}

/// Returns whether a path is not there, or may not be reached.
fn is_no_way(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
    )
}

/// The hidden paths that are below an open one: those that a mount can cover, and those that Landlock is to close.
fn hidden(
    granted: &Granted,
    confinement: &Confinement,
    private: &[PathBuf],
) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let named = granted.read.iter().chain(&granted.write);
    let named = named.chain(&granted.program);
    let named = named.map(|opened| opened.path.clone());
    let system = SYSTEM_PATHS.iter().map(Path::new);
    let system = system.filter_map(|path| path.canonicalize().ok());
    let open: Vec<PathBuf> = system.chain(named).collect();
    let is_open = |path: &&PathBuf| open.iter().any(|open| path.starts_with(open));
    let mut hidden: Vec<PathBuf> = private.iter().filter(is_open).cloned().collect();
    hidden.sort();
    hidden.dedup();
    hidden.into_iter().partition(|path| {
        let is_directory = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        confinement.mounts && is_directory && !open.iter().any(|open| open.starts_with(path))
    })
}

fn restrict_files(
    granted: &Granted,
    protected: &[PathBuf],
    closed: &[PathBuf],
) -> Result<(), String> {
    let said = |error: landlock::RulesetError| format!("Landlock: {error}");
    let read = AccessFs::from_read(INTERFACE);
    let all = AccessFs::from_all(INTERFACE);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::from_all(INTERFACE)))
        .and_then(Ruleset::create)
        .map_err(said)?;
    for path in SYSTEM_PATHS {
        let path = Path::new(path);
        let real = path.canonicalize();
        rules = match real {
            Ok(real) if is_over(&real, closed) => {
                let opened = open(real.as_os_str())?;
                allow_but_closed(rules, &opened, read, &[], closed)?
            }
            _ => allow_if_there(rules, path, read)?,
        };
    }
    for path in DEVICES {
        rules = allow_if_there(rules, Path::new(path), all)?;
    }
    if let Some(program) = &granted.program {
        rules = allow(rules, program, read)?;
    }
    for opened in &granted.read {
        rules = match is_over(&opened.path, closed) {
            true => allow_but_closed(rules, opened, read, &[], closed)?,
            false => allow(rules, opened, read)?,
        };
    }
    for opened in &granted.write {
        rules = match protected.is_empty() && closed.is_empty() {
            true => allow(rules, opened, all)?,
            false => allow_but_closed(rules, opened, all, protected, closed)?,
        };
    }
    let status = rules.restrict_self().map_err(said)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(
            "this kernel has no Landlock, or it is switched off; enable it, or do without a \
                    sandbox"
                .to_owned(),
        );
    }
    Ok(())
}

/// Allows access below a path of the system. One that does not exist, is removed meanwhile or cannot be opened gives no
/// rights.
fn allow_if_there(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => {
            let stat = rustix::fs::fstat(&opened).map_err(|error| failed(&error))?;
            let kind = FileType::from_raw_mode(stat.st_mode);
            let rule = PathBeneath::new(opened, of_kind(kind, access));
            rules.add_rule(rule).map_err(|error| failed(&error))
        }
        Err(Errno::NOENT | Errno::ACCESS) => Ok(rules),
        Err(error) => Err(failed(&error)),
    }
}

fn allow(
    rules: RulesetCreated,
    opened: &Opened,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, String> {
    let rule = PathBeneath::new(&opened.descriptor, of_kind(opened.kind, access));
    let added = rules.add_rule(rule);
    added.map_err(|error| format!("{}: {error}", opened.path.display()))
}

/// A file has fewer rights than a directory.
fn of_kind(kind: FileType, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    match kind {
        FileType::Directory => access,
        _ => access & AccessFs::from_file(INTERFACE),
    }
}

/// Rights below a path, entry by entry.
struct Rights<'a> {
    access: BitFlags<AccessFs>,
    /// Paths that can only be read.
    protected: &'a [PathBuf],
    /// Paths to which there are no rights.
    closed: Vec<PathBuf>,
}

/// Returns whether something that is closed is below a path.
fn is_over(path: &Path, closed: &[PathBuf]) -> bool {
    let mut closed = closed.iter();
    closed.any(|closed| closed.starts_with(path) && closed != path)
}

/// The closed paths below one that is named as open.
fn closed_below(path: &Path, closed: &[PathBuf]) -> Vec<PathBuf> {
    let closed = closed.iter().filter(|closed| !path.starts_with(closed));
    closed.cloned().collect()
}

/// Allows access below a path, but to change what is protected, and to reach what is closed.
fn allow_but_closed(
    rules: RulesetCreated,
    opened: &Opened,
    access: BitFlags<AccessFs>,
    protected: &[PathBuf],
    closed: &[PathBuf],
) -> Result<RulesetCreated, String> {
    let rights = Rights {
        access,
        protected,
        closed: closed_below(&opened.path, closed),
    };
    allow_entry(rules, opened, &rights)
}

/// The same for the directory itself and for each entry where rights differ. A symbolic link grants nothing.
fn allow_entry(
    rules: RulesetCreated,
    opened: &Opened,
    rights: &Rights<'_>,
) -> Result<RulesetCreated, String> {
    let Rights {
        access,
        protected,
        closed,
    } = rights;
    let path = &opened.path;
    if closed.iter().any(|closed| path.starts_with(closed)) || opened.kind == FileType::Symlink {
        return Ok(rules);
    }
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let is_protected = protected
        .iter()
        .any(|protected| path.starts_with(protected));
    let is_above = protected
        .iter()
        .any(|protected| protected.starts_with(path));
    let is_directory = opened.kind == FileType::Directory;
    let is_over = is_directory && is_over(path, closed);
    let access = match () {
        // A right to read would hold for what is closed as well; names can be listed.
        () if is_over => AccessFs::ReadDir.into(),
        () if is_protected || is_above => AccessFs::from_read(INTERFACE),
        () => *access,
    };
    let mut rules = allow(rules, opened, access)?;
    if is_over || (is_directory && is_above && !is_protected) {
        let names = match opened.names() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(rules),
            names => names.map_err(|error| failed(&error))?,
        };
        for name in names {
            rules = match opened.entry(&name) {
                Ok(entry) => allow_entry(rules, &entry, rights)?,
                Err(error) if is_no_way(&error) => rules,
                Err(error) => return Err(failed(&error)),
            };
        }
    }
    Ok(rules)
}

/// A path without symbolic links above its last component, and where it leads if that is one itself.
fn real(path: &Path) -> Vec<PathBuf> {
    let mut above = path.ancestors().skip(1);
    let own = above.find_map(|above| {
        let rest = path.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    own.into_iter().chain(path.canonicalize().ok()).collect()
}

/// Refuses system calls on what has no path, which Landlock does not see.
///
/// The filter ends a process that makes a call of another architecture, such as `ipc(2)` of i386.
fn restrict_calls() -> Result<(), Box<dyn std::error::Error>> {
    // A socket that cannot be made is a network that is not there.
    refuse(&[libc::SYS_socket], libc::ENETUNREACH, &[])?;
    refuse(
        &[libc::SYS_socketpair],
        libc::ENETUNREACH,
        &unbound_pairs()?,
    )?;
    refuse(&SHARED_OBJECTS, libc::EPERM, &[])?;
    // The kernel permits these on every process of the user.
    refuse(&BY_NUMBER, libc::EPERM, &[unlike(0, 0)?])?;
    let only_own = [unlike(0, libc::PRIO_PROCESS.into())?, unlike(1, 0)?];
    refuse(&[libc::SYS_setpriority], libc::EPERM, &only_own)?;
    let only_own = [unlike(0, IOPRIO_WHO_PROCESS)?, unlike(1, 0)?];
    refuse(&[libc::SYS_ioprio_set], libc::EPERM, &only_own)?;
    // A user namespace would give all capabilities in it, and with them much more of the kernel.
    let creates = [libc::SYS_clone, libc::SYS_unshare];
    refuse(&creates, libc::EPERM, &[new_user_namespace()?])?;
    // A ring could make a socket past us. The flags of `clone3` are in memory, which a filter does not
    // see; the C library then uses `clone`.
    let unseen = [libc::SYS_io_uring_setup, libc::SYS_clone3];
    refuse(&unseen, libc::ENOSYS, &[])
}

/// Root keeps what it needs for files, which Landlock bounds. With `CAP_PERFMON` it could read the
/// environment of any process, Landlock or not (Linux 6.13 and later); with `CAP_SETUID` it could act
/// as any other user.
fn drop_capabilities(ours: CapabilitySets) -> rustix::io::Result<()> {
    let kept = ours.permitted
        & (CapabilitySet::CHOWN
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::FOWNER
            | CapabilitySet::FSETID);
    // Without this capability the bounding set stays as it is. No new privileges, which Landlock has
    // seen to, keeps the next program from more all the same.
    if capabilities(None)?
        .effective
        .contains(CapabilitySet::SETPCAP)
    {
        let all = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
        for capability in all.filter(|capability| !kept.contains(*capability)) {
            match remove_capability_from_bounding_set(capability) {
                // The kernel knows no further ones.
                Err(Errno::INVAL) => break,
                removed => removed?,
            }
        }
    }
    // What is not inheritable is not ambient either.
    let sets = CapabilitySets {
        effective: ours.effective & kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}

/// All pairs but those of Unix streams. Each end of a datagram pair can send to whatever has a name
/// in the file system; a stream stays with its peer.
fn unbound_pairs() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let mut wrong = vec![(0, SeccompCmpOp::Ne, libc::AF_UNIX.unsigned_abs().into())];
    // The kind is in the lowest four bits, and streams have 1; the others are flags.
    wrong.extend([2, 4, 8].map(|bit| (1, SeccompCmpOp::MaskedEq(bit), bit)));
    let rules = wrong.into_iter().map(|(argument, is, value)| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value)?;
        SeccompRule::new(vec![condition])
    });
    rules.collect()
}

/// Calls of which an argument is another value.
fn unlike(argument: u8, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    let (length, is) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Ne);
    let condition = SeccompCondition::new(argument, length, is, value)?;
    SeccompRule::new(vec![condition])
}

/// Calls whose flags, the first argument, ask for a user namespace.
fn new_user_namespace() -> Result<SeccompRule, seccompiler::BackendError> {
    let flag = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let is = SeccompCmpOp::MaskedEq(flag);
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, is, flag)?;
    SeccompRule::new(vec![condition])
}

/// Refuses system calls: where one of `rules` holds, or always when there is none.
fn refuse(
    calls: &[i64],
    errno: i32,
    rules: &[SeccompRule],
) -> Result<(), Box<dyn std::error::Error>> {
    let calls = calls.iter().flat_map(|call| {
        [
            *call,
            #[cfg(target_arch = "x86_64")]
            (call | X32),
        ]
    });
    let rules: BTreeMap<_, _> = calls.map(|call| (call, rules.to_vec())).collect();
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.unsigned_abs()),
        TargetArch::try_from(std::env::consts::ARCH)?,
    )?;
    let program: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}

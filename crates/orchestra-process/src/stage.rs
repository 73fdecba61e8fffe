//! The stage: takes the child's limits and confinement upon itself and becomes the command.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Command, ExitCode},
};

use rustix::{
    io::FdFlags,
    process::{Resource, Rlimit, getppid, getrlimit, setrlimit},
};

use crate::{
    Limit, Limits,
    message::{self, Descriptors, Failure, Order, Step},
};

/// Runs the stage; returns only when the command could not be begun. The first argument is the id
/// of the guard.
pub(crate) fn run(guard: Option<&OsStr>) -> ExitCode {
    // Everything but the descriptors of the child is closed when the command begins; by that the
    // guard sees that it has.
    let Ok(socket) = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3) else {
        return ExitCode::FAILURE;
    };
    let socket = UnixStream::from(socket);
    let failure = match message::receive(&socket) {
        Ok((order, descriptors)) => become_command(guard, &order, descriptors),
        Err(error) => Failure::new(Step::Guard, &error),
    };
    // When nobody listens, the guard is gone, and we are next.
    if let Ok(text) = serde_json::to_vec(&failure) {
        let _ = io::Write::write_all(&mut &socket, &text);
    }
    ExitCode::FAILURE
}

fn become_command(guard: Option<&OsStr>, order: &[u8], descriptors: Descriptors) -> Failure {
    if let Err(error) = die_with(guard).and_then(|()| leave_session()) {
        return Failure::new(Step::Guard, &error);
    }
    let order: Order = match serde_json::from_slice(order) {
        Ok(order) => order,
        Err(error) => return Failure::new(Step::Guard, &io::Error::other(error)),
    };
    let Descriptors { stdio, inherited } = descriptors;
    if let Err(error) = take(stdio) {
        return Failure::new(Step::Guard, &error);
    }
    if let Some(directory) = &order.directory
        && let Err(failure) = check_directory(directory)
    {
        return failure;
    }
    // direct: we become the command, nothing is started.
    let mut command = Command::new(&order.program);
    command
        .args(&order.arguments)
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)));
    if let (Some(directory), None) = (&order.directory, &order.confinement) {
        command.current_dir(directory);
    }
    if let (Some(variable), Some(descriptor)) = (&order.inherited, &inherited) {
        if let Err(error) = rustix::io::fcntl_setfd(descriptor, FdFlags::empty()) {
            return Failure::new(Step::Guard, &error.into());
        }
        command.env(variable, descriptor.as_raw_fd().to_string());
    }
    if let Some(confinement) = &order.confinement
        && let Err(failure) = enter_sandbox(&order, confinement)
    {
        return failure;
    }
    if let Err(failure) = limit(&order.limits) {
        return failure;
    }
    Failure::new(Step::Program, &command.exec())
}

/// Says what is wrong with a directory that nobody can work in.
pub(crate) fn check_directory(directory: &OsStr) -> Result<(), Failure> {
    match std::fs::metadata(directory) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Failure::new(
            Step::Directory,
            &io::ErrorKind::NotADirectory.into(),
        )),
        Err(error) => Err(Failure::new(Step::Directory, &error)),
    }
}

/// Sees to it that we end when the guard does, even if it is killed.
fn die_with(guard: Option<&OsStr>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // It may have ended before.
    let parent = getppid().map(|id| OsString::from(id.as_raw_pid().to_string()));
    if parent.as_deref() != guard {
        return Err(io::Error::other("the guard has ended"));
    }
    Ok(())
}

/// No terminal of ours is the child's to read or to type into. What it starts is of its group, which
/// is killed as one.
fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

fn take([input, output, error]: [OwnedFd; 3]) -> io::Result<()> {
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(error)?;
    Ok(())
}

/// Tries whether the system allows the mounts of a sandbox, and prints why it does not.
pub(crate) fn try_mounts() -> ExitCode {
    #[cfg(target_os = "linux")]
    let tried = crate::mounts::attempt();
    #[cfg(not(target_os = "linux"))]
    let tried = Err("mount namespaces are known on Linux alone");
    match tried {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            let _ = io::Write::write_all(&mut io::stdout(), what.as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// Confines this process and enters its working directory, which the sandbox has opened.
#[cfg(target_os = "linux")]
fn enter_sandbox(order: &Order, confinement: &message::Confinement) -> Result<(), Failure> {
    let directory = order.directory.as_ref().map(std::path::Path::new);
    let entered = crate::confine::confine(directory, confinement);
    let entered = entered.map_err(|(step, what)| Failure {
        step,
        errno: None,
        what,
    })?;
    match entered {
        Some(directory) => rustix::process::fchdir(&directory)
            .map_err(|error| Failure::new(Step::Directory, &error.into())),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn enter_sandbox(_: &Order, _: &message::Confinement) -> Result<(), Failure> {
    let what = "sandboxes are supported only on Linux; remove the setting";
    Err(Failure {
        step: Step::Sandbox,
        errno: None,
        what: what.to_owned(),
    })
}

fn limit(limits: &Limits) -> Result<(), Failure> {
    let set = |limit: Limit, resource: Resource, value: u64, slack: u64| {
        // What we may not take ourselves we cannot give.
        let within = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let rlimit = Rlimit {
            current: Some(value.min(within)),
            maximum: Some(value.saturating_add(slack).min(within)),
        };
        setrlimit(resource, rlimit).map_err(|error| Failure::new(Step::Limit(limit), &error.into()))
    };
    if let Some(seconds) = limits.cpu_seconds() {
        // One second to react to SIGXCPU.
        set(Limit::CpuTime, Resource::Cpu, seconds, 1)?;
    }
    if let Some(files) = limits.open_files {
        set(Limit::OpenFiles, Resource::Nofile, files, 0)?;
    }
    if let Some(bytes) = limits.address_space {
        set(Limit::AddressSpace, Resource::As, bytes, 0)?;
    }
    Ok(())
}

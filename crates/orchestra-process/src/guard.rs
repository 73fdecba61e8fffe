//! The guard: a process that watches one child and outlives nobody.
//!
//! It keeps nothing of the child open, so that its pipes end with it. It hears of our end by the
//! end of its socket. On Linux it is the parent of whatever loses its parent below it, so that a
//! process that has left the child's group and session is found and killed all the same, and a
//! child dies with its guard. Elsewhere what has left the group is not found.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read},
    os::unix::{net::UnixStream, process::CommandExt},
    process::{Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, kill_process, kill_process_group,
        wait, waitid,
    },
};

use crate::{
    Limit, Limits,
    message::{self, Ended, Failure, KILL, Order, Report, Step, TERMINATE},
    stage, tree,
};

/// Word by which the guard starts the stage.
const STAGE: &str = "stage";

/// Word by which it is tried whether the system allows the mounts of a sandbox.
pub(crate) const MOUNTS: &str = "mounts";

/// How often the processes of a child are counted that may not have more than some: more seldom where there
/// are so many that counting would take more than a tenth of the time.
const COUNT_EVERY: Duration = Duration::from_millis(20);
const COUNT_SELDOM: Duration = Duration::from_millis(500);

/// How often what is left of a child is looked for while it is being killed.
const KILL_EVERY: Duration = Duration::from_millis(2);

/// For how long. Only a process that the system itself holds survives that.
const KILL_FOR: Duration = Duration::from_secs(5);

/// What a program does whose first argument is [`CHILD_COMMAND`](crate::CHILD_COMMAND): it watches
/// a child, or becomes it. `arguments` are those behind that word.
#[must_use]
pub fn child_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let first = arguments.next();
    match first.as_deref() {
        None => run(),
        Some(word) if word == OsStr::new(STAGE) => stage::run(arguments.next().as_deref()),
        Some(word) if word == OsStr::new(MOUNTS) => stage::try_mounts(),
        Some(_) => ExitCode::FAILURE,
    }
}

fn run() -> ExitCode {
    // Else it is called as the file that it was started by, which may be `exe`.
    #[cfg(target_os = "linux")]
    // direct: it is no file, but a name that the system keeps.
    let _ = std::fs::write("/proc/self/comm", "guard");
    let Ok(control) = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3) else {
        return ExitCode::FAILURE;
    };
    let control = UnixStream::from(control);
    let report = match start(&control) {
        Ok((child, limits, without_mounts)) => match (Report::Started {
            id: child.as_raw_pid(),
            without_mounts,
        })
        .send(&control)
        {
            Ok(()) => Report::Ended(watch(&control, child, &limits)),
            // Nobody is there any more.
            Err(_) => Report::Ended(kill_all(&control, child)),
        },
        Err(failure) => Report::Failed(failure),
    };
    match report.send(&control) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Starts the child, and returns why its sandbox has no mounts.
fn start(control: &UnixStream) -> Result<(Pid, Limits, Option<String>), Failure> {
    let broken = |error: io::Error| Failure::new(Step::Guard, &error);
    let (bytes, descriptors) = message::receive(control).map_err(broken)?;
    let mut order: Order =
        serde_json::from_slice(&bytes).map_err(|error| broken(io::Error::other(error)))?;
    if order.limits.processes.is_some() && !tree::is_visible() {
        let error = io::Error::other("this system does not tell who descends from whom");
        return Err(Failure::new(Step::Limit(Limit::Processes), &error));
    }
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid())).map_err(|error| broken(error.into()))?;
    if !order.is_staged {
        return Ok((start_unstaged(&order, descriptors)?, order.limits, None));
    }
    match (
        start_stage(&order, &bytes, &descriptors, control),
        &mut order.confinement,
    ) {
        // A stage that has failed to make them may be in a namespace of its own.
        (Err(failure), Some(confinement)) if failure.step == Step::Mounts => {
            confinement.mounts = false;
            let bytes = serde_json::to_vec(&order).map_err(|error| broken(error.into()))?;
            let child = start_stage(&order, &bytes, &descriptors, control)?;
            Ok((child, order.limits, Some(failure.what)))
        }
        (started, _) => Ok((started?, order.limits, None)),
    }
}

/// Starts the stage, which makes a group and a session of the child.
fn start_stage(
    order: &Order,
    bytes: &[u8],
    descriptors: &message::Descriptors,
    control: &UnixStream,
) -> Result<Pid, Failure> {
    let broken = |error: io::Error| Failure::new(Step::Guard, &error);
    let (socket, theirs) = UnixStream::pair().map_err(broken)?;
    // direct: the stage sees to it that it ends with us.
    let mut stage = Command::new(&order.launcher)
        .args(&order.launcher_arguments)
        .args([STAGE, &getpid().as_raw_pid().to_string()])
        .env_clear()
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(broken)?;
    let child = Pid::from_raw(stage.id().cast_signed())
        .ok_or_else(|| broken(io::Error::other("the stage has no id")))?;
    descriptors.send(&socket, bytes).map_err(broken)?;
    await_begin(&socket, control).inspect_err(|failure| {
        if failure.step == Step::Mounts {
            // It ends after that report.
            let _ = stage.wait();
        }
    })?;
    Ok(child)
}

/// Starts the command as it is, in a group of its own and a session of ours.
fn start_unstaged(order: &Order, descriptors: message::Descriptors) -> Result<Pid, Failure> {
    let broken = |error: io::Error| Failure::new(Step::Guard, &error);
    rustix::process::setsid().map_err(|error| broken(error.into()))?;
    let [input, output, error] = descriptors.stdio;
    // direct: we watch it.
    let mut command = Command::new(&order.program);
    command
        .args(&order.arguments)
        .env_clear()
        .envs(order.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(error))
        .process_group(0);
    if let Some(directory) = &order.directory {
        stage::check_directory(directory)?;
        command.current_dir(directory);
    }
    let child = command
        .spawn()
        .map_err(|error| Failure::new(Step::Program, &error))?;
    Pid::from_raw(child.id().cast_signed())
        .ok_or_else(|| broken(io::Error::other("the child has no id")))
}

/// Waits until the stage has become the command: then its socket is closed without a word.
fn await_begin(mut socket: &UnixStream, control: &UnixStream) -> Result<(), Failure> {
    let broken = |error: io::Error| Failure::new(Step::Guard, &error);
    let mut said = Vec::new();
    loop {
        let [stage, ours] = readable([socket, control], None).map_err(broken)?;
        if stage {
            let mut piece = [0; 4_096];
            match socket.read(&mut piece).map_err(broken)? {
                0 => break,
                length => said.extend_from_slice(&piece[..length]),
            }
        } else if ours {
            // A kill, or our end; the stage dies with the guard.
            return Err(broken(io::Error::other("not wanted any more")));
        }
    }
    match said.is_empty() {
        true => Ok(()),
        false => Err(serde_json::from_slice(&said).map_err(|error| broken(error.into()))?),
    }
}

/// What the thread that waits for children tells.
enum Event {
    Ended(Ended),
    /// No process is left that we would be told of.
    NobodyLeft,
}

/// Watches the child until nothing is left of it.
fn watch(control: &UnixStream, child: Pid, limits: &Limits) -> Ended {
    Watch::begin(child).map_or_else(|| kill_blindly(child), |watch| watch.run(control, limits))
}

fn kill_all(control: &UnixStream, child: Pid) -> Ended {
    let Some(mut watch) = Watch::begin(child) else {
        return kill_blindly(child);
    };
    watch.kill_since = Some(Instant::now());
    watch.run(control, &Limits::default())
}

/// When not even a thread can be had. On Linux the child dies with us.
fn kill_blindly(child: Pid) -> Ended {
    // Whoever is gone already is gone.
    let _ = kill_process_group(child, Signal::KILL);
    Ended::default()
}

struct Watch {
    child: Pid,
    events: mpsc::Receiver<Event>,
    /// Readable when there is an event, and ended with the thread that sends them.
    bell: UnixStream,
    ended: Option<Ended>,
    kill_since: Option<Instant>,
    over: Option<Limit>,
}

impl Watch {
    fn begin(child: Pid) -> Option<Self> {
        let (bell, ringer) = UnixStream::pair().ok()?;
        let (sender, events) = mpsc::channel();
        let waiter = thread::Builder::new().spawn(move || reap(child, &sender, &ringer));
        waiter.ok()?;
        Some(Self {
            child,
            events,
            bell,
            ended: None,
            kill_since: None,
            over: None,
        })
    }

    fn run(mut self, control: &UnixStream, limits: &Limits) -> Ended {
        let mut heard = true;
        let mut count_every = COUNT_EVERY;
        loop {
            let every = match (self.kill_since, limits.processes) {
                (Some(_), _) => Some(KILL_EVERY),
                (None, Some(_)) => Some(count_every),
                (None, None) => None,
            };
            // Once our end has been heard, the socket would always be readable.
            let listened = if heard { control } else { &self.bell };
            let Ok([ours, bell]) = readable([listened, &self.bell], every) else {
                self.kill_since.get_or_insert_with(Instant::now);
                continue;
            };
            if ours && heard {
                heard = self.obey(control);
            }
            if bell && self.take_events() {
                break;
            }
            if let Some(most) = limits.processes
                && self.kill_since.is_none()
            {
                let begin = Instant::now();
                if tree::descendants(getpid()).len() as u64 > most {
                    self.over = Some(Limit::Processes);
                    self.kill_since = Some(Instant::now());
                }
                count_every = (begin.elapsed() * 9).clamp(COUNT_EVERY, COUNT_SELDOM);
            }
            if let Some(since) = self.kill_since {
                self.kill();
                if since.elapsed() > KILL_FOR {
                    break;
                }
            }
        }
        let mut ended = self.ended.unwrap_or_default();
        ended.over = self.over;
        ended.cpu_ms = tree::ended_ms(getpid());
        ended
    }

    /// Does what we are told; false when we are alone.
    fn obey(&mut self, mut control: &UnixStream) -> bool {
        let mut orders = [0; 64];
        match control.read(&mut orders) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Ok(length) if length > 0 => {
                if orders[..length].contains(&TERMINATE) && self.ended.is_none() {
                    // Whoever is gone already is gone.
                    let _ = kill_process_group(self.child, Signal::TERM);
                }
                if orders[..length].contains(&KILL) {
                    self.kill_since.get_or_insert_with(Instant::now);
                }
                true
            }
            _ => {
                self.kill_since.get_or_insert_with(Instant::now);
                false
            }
        }
    }

    /// Takes what the waiting thread has said; true when nobody is left.
    fn take_events(&mut self) -> bool {
        // The bell only says that there is something.
        let _ = (&self.bell).read(&mut [0; 64]);
        loop {
            match self.events.try_recv() {
                Ok(Event::Ended(ended)) => {
                    self.ended = Some(ended);
                    // What it left behind ends with it.
                    self.kill_since.get_or_insert_with(Instant::now);
                    #[cfg(not(target_os = "linux"))]
                    let _ = kill_process_group(self.child, Signal::KILL);
                }
                Ok(Event::NobodyLeft) | Err(mpsc::TryRecvError::Disconnected) => return true,
                Err(mpsc::TryRecvError::Empty) => return false,
            }
        }
    }

    /// Kills the group, and whatever else descends from us. Whoever is gone already is gone.
    fn kill(&self) {
        if self.ended.is_none() {
            let _ = kill_process_group(self.child, Signal::KILL);
            let _ = kill_process(self.child, Signal::KILL);
        }
        for process in tree::descendants(getpid()) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// Waits for the child and for whoever else becomes ours.
fn reap(child: Pid, tell: &mpsc::Sender<Event>, mut ringer: &UnixStream) {
    let mut ring = |event| {
        let told = tell.send(event).is_ok();
        told && io::Write::write_all(&mut ringer, b"!").is_ok()
    };
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(Errno::INTR) => continue,
            Err(_) => break,
            Ok(_) => {}
        }
        // While it has not been waited for, the system still knows what it has computed.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let has_ended = matches!(waitid(WaitId::Pid(child), options), Ok(Some(_)));
        let cpu_seconds = has_ended.then(|| tree::cpu_seconds(child)).flatten();
        match wait(WaitOptions::NOHANG) {
            Ok(Some((process, status))) if process == child => {
                let ended = Ended {
                    code: status.exit_status(),
                    signal: status.terminating_signal(),
                    over: None,
                    cpu_seconds,
                    cpu_ms: None,
                };
                if !ring(Event::Ended(ended)) {
                    return;
                }
            }
            _ => {}
        }
    }
    ring(Event::NobodyLeft);
}

/// Waits until one of two sockets is readable or ended, or for a time.
fn readable(sockets: [&UnixStream; 2], time: Option<Duration>) -> io::Result<[bool; 2]> {
    let time = time.map(|time| Timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    });
    let mut polled = sockets.map(|socket| PollFd::new(socket, PollFlags::IN));
    loop {
        match poll(&mut polled, time.as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(polled.map(|socket| !socket.revents().is_empty())),
        }
    }
}

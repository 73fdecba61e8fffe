//! The supervisor: a process that starts one command, sees it to its end, and writes that down.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Write},
    path::PathBuf,
    process::ExitCode,
    sync::OnceLock,
    time::{Duration, Instant},
};

use orchestra_fs::Access;
use orchestra_process::{Command, Connections, Environment, Process, adopt_orphans, leave_session};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    Ending, How, SOCKET_VARIABLE,
    board::Board,
    drive::Drive,
    order::{MAX_ORDER_BYTES, WireOrder},
    output::Logs,
    record::{Begun, Record, Started, append, is_gone, lock_file},
    start::Reply,
};
use crate::cause::chain;
use crate::logs::now;

/// First argument of a program that is to call [`job_main`].
pub const JOB_COMMAND: &str = "__job";

/// How long the supervisor of the run before may take to end, and whoever only looks at the lock.
const LOCK: Duration = Duration::from_secs(10);

/// How often the lock is tried in that time.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// How often, and how many times more, it is tried to write how a run ended.
const WRITE_EVERY: Duration = Duration::from_secs(2);
const WRITE_TRIES: u32 = 60;

/// Where we say something of ourselves, once we know.
static LOG: OnceLock<PathBuf> = OnceLock::new();

/// Signals by which a supervisor is told to end its command.
pub(crate) struct Told {
    pub(crate) terminate: Signal,
    pub(crate) interrupt: Signal,
}

/// What a program does whose first argument is [`JOB_COMMAND`]: it supervises one run of a job, whose
/// order it finds on its standard input.
#[must_use]
pub fn job_main() -> ExitCode {
    leave_session();
    // Without it, what has left the group of a command whose guard was killed goes on.
    let _ = adopt_orphans();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let replied = match runtime {
        Ok(runtime) => runtime.block_on(run()),
        Err(error) => Err(error),
    };
    match replied {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            reply(&Reply::Failed(error.to_string()));
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Says something of ourselves, in a file of the attempt that is made for it.
pub(crate) fn complain(what: &dyn std::fmt::Display) {
    if let Some(path) = LOG.get() {
        // Nobody is there to be told that it cannot be written.
        let _ = orchestra_fs::append(path, Access::Private)
            .map(|mut log| writeln!(log, "{} {what}", now()));
    }
}

/// Answers whoever started us, who may be gone or have heard already.
fn reply(reply: &Reply) {
    if let Ok(mut line) = serde_json::to_vec(reply) {
        line.push(b'\n');
        let mut stdout = io::stdout().lock();
        // Whoever is gone finds the run by its files.
        let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
    }
}

async fn run() -> io::Result<()> {
    let mut bytes = Vec::new();
    let most = MAX_ORDER_BYTES as u64 + 1;
    io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    // One that is not whole comes from a runner that was killed: nothing begins.
    let order: WireOrder = serde_json::from_slice(&bytes)?;
    drop(bytes);
    LOG.get_or_init(|| order.attempt.join("supervisor.log"));
    std::panic::set_hook(Box::new(|panic| complain(panic)));
    let told = Told {
        terminate: signal(SignalKind::terminate())?,
        interrupt: signal(SignalKind::interrupt())?,
    };
    let record = Record::new(&order.attempt, &order.id);
    let lock = lock_file(&order.attempt)?;
    if !take(&lock, &record)? {
        reply(match record.has_begun() {
            true => &Reply::AlreadyStarted,
            false => &Reply::Busy,
        });
        return Ok(());
    }
    let bounds = order.log_bounds().raw;
    let begun = Begun::new(&order.id, Some(Process::this()), [bounds.head, bounds.tail]);
    let mut file = match record.begin(&begun) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            reply(&Reply::AlreadyStarted);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    // Whoever took us for gone has written that, and begins something else in our place.
    if record.ending()?.is_some() {
        reply(&Reply::AlreadyStarted);
        return Ok(());
    }
    if let Err(error) = record.reserve() {
        complain(&error);
    }
    let ended = supervise(order, told, &mut file, &lock).await;
    write_down(&record, &ended, &lock).await?;
    if ended.how == How::NotStarted {
        reply(&Reply::NotStarted(ended.detail.unwrap_or_default()));
    }
    // Only now: whoever sees it free finds how the run ended.
    drop(lock);
    Ok(())
}

/// Writes down how it ended. Where that cannot be done now, as on a full disk, it is tried for a while:
/// a run of which nothing is known is lost, whatever it has done. Where the attempt is gone, nobody is there
/// to be told.
async fn write_down(record: &Record, ending: &Ending, lock: &File) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match record.end(ending) {
            Err(error) if tries < WRITE_TRIES && !is_gone(record.directory(), lock) => {
                complain(&format!("how the run ended cannot be written: {error}"));
                tries += 1;
                tokio::time::sleep(WRITE_EVERY).await;
            }
            written => return written,
        }
    }
}

/// Starts the command and sees it to its end.
async fn supervise(mut order: WireOrder, told: Told, file: &mut File, lock: &File) -> Ending {
    let began = now();
    let mut logs = Logs::new(&order);
    // direct: it is started by its guard.
    let mut command = Command::new(order.program.clone())
        .name(order.id.stem())
        .args(std::mem::take(&mut order.arguments))
        .directory(order.directory.clone())
        .environment(Environment::None)
        .variables(std::mem::take(&mut order.environment))
        .limits(order.system.clone())
        .sandbox(order.sandbox())
        .without_stage();
    let mut board = None;
    if let Some(server) = order.board.take() {
        match Connections::new() {
            Ok((connections, theirs)) => {
                command = command.inherit(SOCKET_VARIABLE, theirs);
                board = Some((server, connections));
            }
            Err(error) => complain(&format!("the job does not reach the board: {error}")),
        }
    }
    let child = match command.spawn().await {
        Ok(child) => child,
        Err(error) => {
            let what = chain(&error);
            logs.say(&format!("the command could not be started: {what}"));
            return Ending {
                how: How::NotStarted,
                detail: Some(what),
                began,
                ..Ending::lost(now())
            };
        }
    };
    let started = Started {
        guard: child.handle.guard().map(Into::into),
        command: child.handle.process().into(),
    };
    if let Err(error) = append(file, &started) {
        complain(&error);
    }
    reply(&Reply::Begun);
    // With it goes our copy of the descriptor that the job has inherited.
    drop(command);
    let board = board.map(|(server, connections)| Board::start(server, connections));
    let ending = Drive::new(order, child, logs, told, lock).run().await;
    if let Some(board) = board {
        board.finish().await;
    }
    Ending { began, ..ending }
}

/// Whether the lock was had in time; nobody waits for it whose run has begun already.
fn take(lock: &File, record: &Record) -> io::Result<bool> {
    let end = Instant::now() + LOCK;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if Instant::now() < end && !record.has_begun() => {
                std::thread::sleep(TRY_EVERY);
            }
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

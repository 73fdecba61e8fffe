//! Copies bytes between our own standard input and output and those of a server, unchanged, while
//! a tap looks on.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use orchestra_mcp::client::{
    ChildConfig,
    tap::{Direction, Tap, TapStream},
};
use orchestra_process::Exit;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    time::timeout,
};

use crate::{exit::Failure, output, serving};

/// What a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// How long a server may take to end when it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a server to its end, with our input and output. It inherits the environment and standard
/// error, as if it had been started without us.
///
/// # Errors
/// When it cannot be started.
pub(super) fn run(
    program: &OsStr,
    arguments: &[OsString],
    name: &str,
    tap: &Tap,
) -> Result<ExitStatus, Failure> {
    // direct: it stands in our place, so it is to inherit what we have; it ends with its input.
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let input = child.stdin.take().context("a pipe to the server")?;
    let mut output = child.stdout.take().context("a pipe from the server")?;
    let sent = TapStream::new(tap.clone(), name, Direction::Sent);
    // It may still wait for input when the server has ended, and goes with the process.
    thread::Builder::new()
        .name("input".into())
        .spawn(move || pass_input(input, sent))?;
    pass_signals(&child)?;
    let received = TapStream::new(tap.clone(), name, Direction::Received);
    match pass_output(&mut output, received) {
        // The client has gone: so may the server.
        Err(Failure::BrokenPipe) => ask_to_end(&child),
        passed => passed?,
    }
    drop(output);
    Ok(child.wait().context("waiting for the server")?)
}

/// Runs a configured server to its end: guarded, within its limits, with an environment of its own.
///
/// # Errors
/// When it cannot be started.
pub(super) fn run_guarded(config: &ChildConfig, name: &str, tap: &Tap) -> Result<Exit, Failure> {
    let runtime = serving::runtime()?;
    let child = runtime.block_on(async { config.command().spawn().await });
    let child = child.with_context(|| format!("starting {}", config.command.display()))?;
    let orchestra_process::Child {
        stdin,
        stdout,
        stderr,
        handle,
    } = child;
    let (input, output, mut errors) = {
        let _entered = runtime.enter();
        let pipes = (
            stdin.into_blocking_fd(),
            stdout.into_blocking_fd(),
            stderr.into_blocking_fd(),
        );
        let file = |pipe: io::Result<OwnedFd>| pipe.map(File::from).context("a pipe of the server");
        (file(pipes.0)?, file(pipes.1)?, file(pipes.2)?)
    };
    let sent = TapStream::new(tap.clone(), name, Direction::Sent);
    // It may still wait for input when the server has ended, and goes with the process.
    thread::Builder::new()
        .name("input".into())
        .spawn(move || pass_input(input, sent))?;
    let complaints = thread::Builder::new()
        .name("errors".into())
        // That nobody reads them is no reason to end.
        .spawn(move || drop(io::copy(&mut errors, &mut io::stderr())))?;
    runtime.spawn(pass_signals_to(handle.clone()));
    let received = TapStream::new(tap.clone(), name, Direction::Received);
    match pass_output(&mut { output }, received) {
        // The client has gone: so may the server.
        Err(Failure::BrokenPipe) => handle.terminate(),
        passed => passed?,
    }
    let exit = runtime.block_on(async {
        match timeout(GRACE, handle.exited()).await {
            Ok(exit) => exit,
            // It has closed its output, or was told that nobody reads it, and runs on.
            Err(_) => {
                handle.kill();
                handle.exited().await
            }
        }
    });
    // Nothing is left that could write to it.
    drop(complaints.join());
    Ok(exit)
}

/// What asks us to end asks the server to, and ends it when it does not.
async fn pass_signals_to(server: orchestra_process::Handle) {
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return;
    };
    select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    server.terminate();
    tokio::time::sleep(GRACE).await;
    server.kill();
}

fn pass_input(mut server: impl io::Write, mut tap: TapStream) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut client = io::stdin().lock();
    while let Ok(length) = read(&mut client, &mut chunk) {
        // Noted before it is handed on: an answer is not to stand before its question.
        tap.passed(&chunk[..length]);
        if length == 0 || server.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    tap.ended();
}

fn pass_output(server: &mut impl Read, mut tap: TapStream) -> Result<(), Failure> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = read(server, &mut chunk).context("reading from the server")?;
        if length == 0 {
            tap.ended();
            return Ok(());
        }
        tap.passed(&chunk[..length]);
        output::raw(&chunk[..length])?;
    }
}

fn read(from: &mut impl Read, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// What asks us to end asks the server to, and ends it when it does not.
fn pass_signals(child: &Child) -> Result<(), Failure> {
    let Some(server) = pid(child) else {
        return Ok(());
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the async runtime")?;
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        let asked = signal(SignalKind::terminate()).context("watching for signals")?;
        (
            asked,
            signal(SignalKind::interrupt()).context("watching for signals")?,
        )
    };
    // It ends with the process.
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            runtime.block_on(async {
                select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                // One that has ended already needs no asking.
                let _ = kill_process(server, Signal::TERM);
                tokio::time::sleep(GRACE).await;
                let _ = kill_process(server, Signal::KILL);
            });
        })?;
    Ok(())
}

fn ask_to_end(child: &Child) {
    if let Some(server) = pid(child) {
        // One that has ended already needs no asking.
        let _ = kill_process(server, Signal::TERM);
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

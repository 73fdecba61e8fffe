//! Copies bytes between our own standard input and output and those of a server, unchanged, while
//! a tap looks on.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Read, Write as _},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use orchestra_mcp::client::tap::{Direction, Tap, TapStream};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
};

use crate::{exit::Failure, output};

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

fn pass_input(mut server: ChildStdin, mut tap: TapStream) {
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

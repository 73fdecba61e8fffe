//! Copies bytes between our own standard input and output and those of a server, unchanged, while
//! a tap looks on.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write},
    pin::pin,
    thread,
    time::Duration,
};

use anyhow::Context as _;
use orchestra_mcp::client::tap::{Direction, Tap, TapStream};
use orchestra_process::{Child, Command, Exit, Handle};
use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
    time::{Instant, sleep_until},
};

use crate::{exit::Failure, output};

/// What a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// How long a server may take to end when it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a server to its end, with our input and output; what it says on standard error comes out of
/// ours. It ends with us, however we end.
///
/// # Errors
/// When it cannot be started.
pub(super) fn run(
    command: &Command,
    program: &OsStr,
    name: &str,
    tap: &Tap,
) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the async runtime")?;
    runtime.block_on(async {
        let signals = Signals::watch().context("watching for signals")?;
        let child = command.spawn().await;
        let child = child.with_context(|| format!("starting {}", program.display()))?;
        pass(child, signals, name, tap).await
    })
}

/// Passes everything on until the server has ended and all that it said was passed on.
async fn pass(child: Child, mut signals: Signals, name: &str, tap: &Tap) -> Result<Exit, Failure> {
    let handle = child.handle;
    let input = File::from(child.stdin.into_blocking_fd()?);
    let output = File::from(child.stdout.into_blocking_fd()?);
    let mut errors = File::from(child.stderr.into_blocking_fd()?);
    let sent = TapStream::new(tap.clone(), name, Direction::Sent);
    // It may still wait for input when the server has ended, and goes with the process.
    drop(begin("input", move || pass_input(input, sent))?);
    let received = TapStream::new(tap.clone(), name, Direction::Received);
    let mut said = begin("output", move || pass_output(output, received))?;
    let told = begin("errors", move || io::copy(&mut errors, &mut io::stderr()))?;
    let mut exited = pin!(handle.exited());
    let (mut is_passed, mut exit, mut end) = (false, None, End::default());
    while !is_passed || exit.is_none() {
        select! {
            () = signals.heard(), if end.at.is_none() => end.ask(&handle),
            () = end.reached() => end.force(&handle),
            passed = &mut said, if !is_passed => {
                is_passed = true;
                match passed {
                    // The client has gone: so may the server.
                    Ok(Err(Failure::BrokenPipe)) => end.ask(&handle),
                    Ok(passed) => passed?,
                    Err(_) => {}
                }
            }
            ended = &mut exited, if exit.is_none() => exit = Some(ended),
        }
    }
    // Nothing is left that could say more; that standard error is closed is no error.
    let _ = told.await;
    Ok(exit.unwrap_or_default())
}

/// Does something that blocks in a thread of its own; resolves with what comes of it.
fn begin<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<oneshot::Receiver<T>> {
    let (done, result) = oneshot::channel();
    let thread = thread::Builder::new().name(name.to_owned());
    // Whoever does not wait does not want to know.
    thread.spawn(move || drop(done.send(work())))?;
    Ok(result)
}

/// When a server that was asked to end is killed.
#[derive(Default)]
struct End {
    at: Option<Instant>,
    is_over: bool,
}

impl End {
    fn ask(&mut self, server: &Handle) {
        server.terminate();
        self.at.get_or_insert_with(|| Instant::now() + GRACE);
    }

    fn force(&mut self, server: &Handle) {
        server.kill();
        self.is_over = true;
    }

    async fn reached(&self) {
        match self.at {
            Some(at) if !self.is_over => sleep_until(at).await,
            _ => std::future::pending().await,
        }
    }
}

/// What asks us to end.
struct Signals([Signal; 3]);

impl Signals {
    fn watch() -> io::Result<Self> {
        let [terminate, interrupt, hangup] = [
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
            signal(SignalKind::hangup()),
        ];
        Ok(Self([terminate?, interrupt?, hangup?]))
    }

    async fn heard(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

fn pass_input(mut server: impl Write, mut tap: TapStream) {
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

fn pass_output(mut server: impl Read, mut tap: TapStream) -> Result<(), Failure> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = read(&mut server, &mut chunk).context("reading from the server")?;
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

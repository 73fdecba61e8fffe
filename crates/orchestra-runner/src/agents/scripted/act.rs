//! Doing what a script says, within bounds.

use std::{
    io::{self, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Signal as SystemSignal, getpid, kill_process};
use serde_json::json;

use super::{Action, Signal, UsageSaid, say};
use crate::agents::{Evidence, evidence_path, place};

/// The longest wait, the longest time without an end, and the most bytes of a flood.
const MAX_WAIT: Duration = Duration::from_secs(60);
const MAX_HANG: Duration = Duration::from_secs(60 * 60);
const MAX_FLOOD: u64 = 1024 * 1024 * 1024;

/// How often it is looked whether a file is there.
const LOOK: Duration = Duration::from_millis(20);

/// The largest file in which a text is replaced.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Whether the agent has ended.
pub(super) enum Ended {
    No,
    With(u8),
}

pub(super) fn act(action: &Action, here: &Path) -> io::Result<Ended> {
    match action {
        Action::Print(text) => print(&mut io::stdout().lock(), text),
        Action::PrintError(text) => print(&mut io::stderr().lock(), text),
        Action::Flood(bytes) => flood((*bytes).min(MAX_FLOOD)),
        Action::Write { path, text } => place::write(here, Path::new(path), text.as_bytes())?,
        Action::Append { path, text } => place::append(here, Path::new(path), text.as_bytes())?,
        Action::Replace { path, from, to } => replace(here, Path::new(path), from, to)?,
        Action::Delete(path) => place::remove(here, Path::new(path))?,
        Action::Evidence { job, summary } => evidence(here, job, summary)?,
        Action::Wait(ms) => thread::sleep(Duration::from_millis(*ms).min(MAX_WAIT)),
        Action::WaitFor(path) => wait_for(here, Path::new(path))?,
        Action::Commit(message) => commit(here, message)?,
        Action::Usage(usage) => say(&said(usage)),
        Action::Last => say(&json!({"type": "last"})),
        Action::Complete => say(&json!({"type": "complete"})),
        Action::Fail(message) => say(&json!({"type": "failed", "message": message})),
        Action::Exit(code) => return Ok(Ended::With(*code)),
        Action::Signal(signal) => end_by(*signal)?,
        Action::Hang => thread::sleep(MAX_HANG),
    }
    Ok(Ended::No)
}

fn wait_for(here: &Path, path: &Path) -> io::Result<()> {
    let end = Instant::now() + MAX_WAIT;
    loop {
        match place::read(here, path, MAX_FILE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && Instant::now() < end => {
                thread::sleep(LOOK);
            }
            read => return read.map(drop),
        }
    }
}

fn print(out: &mut dyn Write, text: &str) {
    // Nobody may be there to read it; the script goes on.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

fn flood(bytes: u64) {
    let line = [b"x".repeat(127).as_slice(), b"\n"].concat().repeat(64);
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    let mut out = io::stdout().lock();
    while left > 0 {
        let piece = &line[..line.len().min(left)];
        if out.write_all(piece).is_err() {
            return;
        }
        left -= piece.len();
    }
}

fn replace(here: &Path, path: &Path, from: &str, to: &str) -> io::Result<()> {
    let text = place::read(here, path, MAX_FILE_BYTES)?;
    let text = String::from_utf8_lossy(&text);
    if from.is_empty() || !text.contains(from) {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the text is not in the file",
        ));
    }
    place::write(here, path, text.replace(from, to).as_bytes())
}

fn evidence(here: &Path, job: &str, summary: &str) -> io::Result<()> {
    let evidence = Evidence {
        version: 1,
        node_id: job.to_owned(),
        timestamp: "1970-01-01T00:00:00Z".to_owned(),
        summary: summary.to_owned(),
        outcome: None,
        kind: None,
    };
    place::write(
        here,
        &evidence_path(job),
        serde_json::to_string(&evidence)?.as_bytes(),
    )
}

fn said(usage: &UsageSaid) -> serde_json::Value {
    let mut said = serde_json::to_value(usage).unwrap_or_default();
    said["type"] = "usage".into();
    said
}

fn commit(here: &Path, message: &str) -> io::Result<()> {
    git(here, &["add", "--all", "--", "."])?;
    // Where it is ignored, leaving it out by name would be an error.
    git(here, &["reset", "--quiet", "--", place::PRIVATE_DIRECTORY])?;
    let message = format!("--message={message}");
    git(
        here,
        &[
            "commit",
            "--quiet",
            "--allow-empty",
            "--no-verify",
            &message,
        ],
    )
}

fn git(here: &Path, arguments: &[&str]) -> io::Result<()> {
    // direct: it ends with this process, which is itself guarded.
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=Scripted Agent",
            "-c",
            "user.email=agent@localhost",
        ])
        .args(crate::git::ALWAYS)
        .args(arguments)
        .current_dir(here)
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("git: {said}")))
}

fn end_by(signal: Signal) -> io::Result<()> {
    let signal = match signal {
        Signal::Kill => SystemSignal::KILL,
        Signal::Term => SystemSignal::TERM,
        Signal::Abort => SystemSignal::ABORT,
    };
    kill_process(getpid(), signal)?;
    // The signal ends us before this is over.
    thread::sleep(MAX_WAIT);
    Ok(())
}

//! A program of the user that prints a token. It is a child like any other: guarded, bounded in time
//! and in what is read of it, and ended with all that it has started.

use std::{io, path::Path, time::Duration};

use orchestra_process::{Child, Command, Environment, Exit, Launcher};
use orchestra_secret::Masker;
use reqwest::header::HeaderValue;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
    try_join,
};

use super::{auth::bearer_value, failure};
use crate::{causes::with_causes, client::ClientError};

/// How long it may take.
const TIME: Duration = Duration::from_secs(30);

/// The most that it may print: a token and some lines behind it.
const MAX_OUTPUT_BYTES: usize = 16 * 1024;

/// How much of what it complains of is kept.
const MAX_COMPLAINT_BYTES: usize = 4 * 1024;

/// Runs a program in a directory, and returns the first line of its output as the value of `Authorization`. The program
/// inherits the same variables as a server that is a process.
///
/// # Errors
/// [`ClientError::NeedsAuth`] when it cannot be started, fails, takes too long, or prints too much
/// or nothing; with what it complained of.
pub(super) async fn token(
    program: &str,
    args: &[String],
    directory: &Path,
    launcher: Option<&Launcher>,
) -> Result<HeaderValue, ClientError> {
    let failed = |what: String| ClientError::NeedsAuth {
        what: format!("the program {program} of `auth` {what}"),
    };
    // direct: it is the command of a guarded child.
    let mut command = Command::new(program)
        .args(args)
        .directory(directory)
        .environment(Environment::Default);
    if let Some(launcher) = launcher {
        command = command.launcher(launcher.clone());
    }
    // Whoever gives up drops the child, which ends it.
    let run = async {
        let child = command.spawn().await;
        let child = child.map_err(|error| format!("cannot be started: {}", with_causes(&error)))?;
        output_of(child)
            .await
            .map_err(|error| format!("cannot be read: {error}"))
    };
    let said = match timeout(TIME, run).await {
        Ok(said) => said.map_err(failed)?,
        Err(_) => {
            let seconds = TIME.as_secs();
            return Err(failed(format!("did not end within {seconds} s")));
        }
    };
    if !said.exit.is_success() {
        return Err(failed(format!("failed: {}", said.why())));
    }
    let text = String::from_utf8_lossy(&said.output);
    let first = text.lines().next().unwrap_or_default().trim();
    bearer_value(first).ok_or_else(|| failed("printed no token on its first line".into()))
}

/// What a program said until its end.
struct Said {
    output: Vec<u8>,
    complaint: Vec<u8>,
    exit: Exit,
}

async fn output_of(child: Child) -> io::Result<Said> {
    let Child {
        stdin,
        stdout,
        stderr,
        handle,
    } = child;
    drop(stdin);
    // What it leaves behind is ended with it, so that both streams come to their ends.
    let exited = async { Ok(handle.exited().await) };
    let (output, complaint, exit) = try_join!(output(stdout), complaint(stderr), exited)?;
    Ok(Said {
        output,
        complaint,
        exit,
    })
}

/// All that it prints, unless that is too much: then nobody waits for the rest.
async fn output(mut stream: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let most = MAX_OUTPUT_BYTES as u64 + 1;
    (&mut stream).take(most).read_to_end(&mut kept).await?;
    if kept.len() > MAX_OUTPUT_BYTES {
        return Err(io::Error::other(format!(
            "it prints more than {MAX_OUTPUT_BYTES} bytes, where a token on one line is expected"
        )));
    }
    Ok(kept)
}

/// The beginning of what it complains of; the rest is read and left out, so that it is not held up.
async fn complaint(mut stream: impl AsyncRead + Unpin) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let most = MAX_COMPLAINT_BYTES as u64;
    (&mut stream).take(most).read_to_end(&mut kept).await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(kept)
}

impl Said {
    /// How it failed, with its own words; secrets among them are masked.
    fn why(&self) -> String {
        let how = match (self.exit.code, self.exit.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended with its guard".to_owned(),
        };
        let words = failure::excerpt(&self.complaint, &Masker::default());
        match words.is_empty() {
            true => how,
            false => format!("{how}: {words}"),
        }
    }
}

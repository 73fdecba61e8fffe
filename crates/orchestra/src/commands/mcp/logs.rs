//! `orchestra mcp logs`: what servers write to standard error.

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
    thread,
    time::Duration,
};

use clap::Args;
use orchestra_gateway::connect;

use super::Here;
use crate::{
    exit::{Exit, Failure},
    output, servers,
};

/// Print what a server wrote to standard error, under any program that ran it in this workspace
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The server
    name: String,
    /// How many lines
    #[arg(long, short = 'n', default_value_t = 50)]
    lines: usize,
    /// Go on with what comes
    #[arg(long, short)]
    follow: bool,
}

/// How much of the end of a file is looked through.
const TAIL_BYTES: u64 = 256 * 1024;

/// How often is looked for more.
const AGAIN: Duration = Duration::from_millis(250);

pub(super) fn run(here: &Here, arguments: &Arguments) -> Result<Exit, Failure> {
    let server = here.server(&arguments.name)?;
    let directory = servers::log_directory(&here.places.workspace);
    let path = connect::log_file(&directory, server.name.as_str());
    let mut at = match read(&path, None) {
        Ok((text, at)) => {
            let lines: Vec<&str> = text.lines().collect();
            let from = lines.len().saturating_sub(arguments.lines);
            print(&lines[from..].join("\n"))?;
            at
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && arguments.follow => 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            output::complain(&format!(
                "{} wrote nothing to standard error here yet, under `orchestra up` or `stdio`",
                server.name
            ));
            return Ok(Exit::Ok);
        }
        Err(error) => return Err(error.into()),
    };
    if !arguments.follow {
        return Ok(Exit::Ok);
    }
    loop {
        thread::sleep(AGAIN);
        if let Ok((text, now)) = read(&path, Some(at)) {
            at = now;
            print(text.trim_end_matches('\n'))?;
        }
    }
}

/// What is in a file behind a place, or at its end; and where that ends. A file that is shorter than
/// that was begun anew.
fn read(path: &Path, from: Option<u64>) -> io::Result<(String, u64)> {
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    let from = match from {
        Some(from) if from <= length => from,
        Some(_) => 0,
        None => length.saturating_sub(TAIL_BYTES),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    let read = file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok((
        String::from_utf8_lossy(&bytes).into_owned(),
        from + read as u64,
    ))
}

fn print(text: &str) -> Result<(), Failure> {
    output::lines(&output::printable(text))
}

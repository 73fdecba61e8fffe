//! `orchestra audit`: looks whether the records of calls are as they were written.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use orchestra_hub::{Spot, Verified, verify_audit};
use serde::Serialize;

use crate::{
    cli::{Common, examples},
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging,
    output::{self, Format},
    workspace::{AUDIT, run_directory},
};

/// Check the audit log of tool calls for manipulation
///
/// Each call is a line in the file audit.jsonl, outside of the working tree; `verify` prints its path. Each
/// line contains the hash of the previous line. The file audit.jsonl.head records the first and the last stored
/// line.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the log, and report the first line that was changed, removed or inserted
    ///
    /// Exits with 4 if there is such a line. A user with write access can still replace all lines from some line
    /// onward, together with audit.jsonl.head, or remove the log. To detect that, store the printed hash elsewhere.
    #[command(after_help = examples(&["audit verify"]))]
    Verify {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What was found, as JSON.
#[derive(Serialize)]
struct Answer {
    /// Whether every line fits.
    intact: bool,
    /// The newest file.
    path: PathBuf,
    files: usize,
    records: u64,
    /// Records from before there was a chain.
    unchained: u64,
    /// Whether the first of all records is there; older ones are removed after a while.
    from_the_beginning: bool,
    /// Lines that end in the middle, because a program was killed.
    torn: Vec<Place>,
    /// The hash of the last line.
    last: Option<String>,
    misfit: Option<Misfit>,
}

#[derive(Serialize)]
struct Place {
    file: String,
    line: u64,
}

#[derive(Serialize)]
struct Misfit {
    #[serde(flatten)]
    place: Place,
    reason: String,
}

/// Checks the records of calls.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let Command::Verify { json } = arguments.command;
    let config = Config::settle(common, Overrides::default())?;
    logging::start(logging::of_a_report(&config.log))?;
    let path = run_directory(&config)?.path().join(AUDIT);
    let found = verify_audit(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let answer = Answer::of(found, path);
    Format::of_flag(json).print(&answer, text)?;
    Ok(match answer.intact {
        true => Exit::Ok,
        false => Exit::Problems,
    })
}

impl Answer {
    fn of(found: Verified, path: PathBuf) -> Self {
        Self {
            intact: found.misfit.is_none(),
            path,
            files: found.files,
            records: found.records,
            unchained: found.unchained,
            from_the_beginning: found.is_from_the_beginning,
            torn: found.torn.iter().map(Place::of).collect(),
            last: found.last,
            misfit: found.misfit.map(|misfit| Misfit {
                place: Place::of(&misfit.spot),
                reason: misfit.reason,
            }),
        }
    }
}

impl Place {
    fn of(spot: &Spot) -> Self {
        Self {
            file: spot.file.display().to_string(),
            line: spot.line,
        }
    }
}

fn text(answer: &Answer) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    for Place { file, line } in &answer.torn {
        let _ = writeln!(
            text,
            "{file}:{line}: torn: its program ended while writing it, or it is not a record"
        );
    }
    if let Some(Misfit { place, reason }) = &answer.misfit {
        let _ = writeln!(text, "{}:{}: {reason}", place.file, place.line);
    } else if answer.records == 0 {
        text.push_str("no calls are recorded\n");
    } else {
        let Answer { records, files, .. } = answer;
        let files = match files {
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        let _ = match records {
            1 => writeln!(text, "1 record in {files} is unchanged"),
            _ => writeln!(text, "{records} records in {files} form an unbroken chain"),
        };
        if answer.unchained > 0 {
            let count = answer.unchained;
            let _ = writeln!(
                text,
                "{count} of them are older than the chain and contain no hash"
            );
        } else if !answer.from_the_beginning {
            text.push_str("older ones were removed\n");
        }
    }
    if answer.files > 0 {
        let _ = writeln!(text, "newest file: {}", answer.path.display());
    }
    if let (true, Some(last)) = (answer.misfit.is_none(), &answer.last) {
        let _ = writeln!(text, "hash of the last one: {last}");
    }
    output::printable(&text).into_owned()
}

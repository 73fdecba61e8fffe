//! `orchestra mcp logs`: what servers write to standard error.

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    thread,
    time::Duration,
};

use clap::Args;
use orchestra_gateway::{config::ServerName, connect};
use serde::Serialize;

use super::Here;
use crate::{
    cli::examples,
    config::Config,
    exit::{Exit, Failure},
    output, servers,
};

/// Print what a server wrote to standard error
///
/// Includes what the server wrote in every Orchestra process that started it in this workspace.
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp logs docs", "mcp logs docs --follow"]))]
pub(in crate::commands) struct Arguments {
    /// Name of the server or plugin
    name: String,
    /// Number of lines to print from the end of the log
    #[arg(long, short = 'n', default_value_t = 50)]
    lines: usize,
    /// Print new lines as they are written
    #[arg(long, short)]
    follow: bool,
    /// Print each line as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// Whose log is wanted.
    pub(in crate::commands) fn name(&self) -> &str {
        &self.name
    }
}

/// How much of the end of a file is looked through.
const TAIL_BYTES: u64 = 256 * 1024;

/// The longest line that is waited for; the beginning of a longer one is shown without its end.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// How often is looked for more.
const AGAIN: Duration = Duration::from_millis(250);

pub(in crate::commands) fn run(
    here: &Here,
    config: &Config,
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let name = here.known(config, &arguments.name)?;
    let directory = servers::log_directory(&here.places.workspace)?;
    let mut log = Log::new(connect::log_file(&directory, name.as_str()));
    match log.end(arguments.lines)? {
        Some(text) => print(&name, &text, arguments.json)?,
        None if arguments.follow => {}
        None => output::complain(&format!("{name} wrote nothing to standard error here yet")),
    }
    if !arguments.follow {
        return Ok(Exit::Ok);
    }
    loop {
        print(&name, &log.more()?, arguments.json)?;
        thread::sleep(AGAIN);
    }
}

/// A file that grows, and is put aside for another one of its name when it is long.
pub(crate) struct Log {
    path: PathBuf,
    file: Option<fs::File>,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl Log {
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            begun: Vec::new(),
        }
    }

    /// Its last lines; `None` when there is no file yet.
    pub(crate) fn end(&mut self, lines: usize) -> io::Result<Option<String>> {
        if !self.open()? {
            return Ok(None);
        }
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let all: Vec<&str> = text.lines().collect();
        let from = all.len().saturating_sub(lines);
        Ok(Some(all[from..].join("\n")))
    }

    /// The lines that were added since, of the file that was put aside as well.
    pub(crate) fn more(&mut self) -> io::Result<String> {
        if self.file.is_none() && !self.open()? {
            return Ok(String::new());
        }
        self.take()?;
        if self.is_replaced()? {
            // What came to the old one before it was put aside.
            self.take()?;
            if self.open()? {
                self.take()?;
            }
        }
        let end = match self.begun.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.begun.len() > MAX_LINE_BYTES => self.begun.len(),
            None => 0,
        };
        let rest = self.begun.split_off(end);
        let whole = std::mem::replace(&mut self.begun, rest);
        Ok(String::from_utf8_lossy(&whole).into_owned())
    }

    /// Opens the file that has the name now; whether there is one.
    fn open(&mut self) -> io::Result<bool> {
        match fs::File::open(&self.path) {
            Ok(file) => {
                self.file = Some(file);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn take(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            // One that was cut short is read from its beginning.
            if file.metadata()?.len() < file.stream_position()? {
                file.rewind()?;
            }
            file.read_to_end(&mut self.begun)?;
        }
        Ok(())
    }

    /// Whether another file has the name now.
    fn is_replaced(&self) -> io::Result<bool> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let (ours, now) = (file.metadata()?, fs::metadata(&self.path));
        Ok(now.is_ok_and(|now| (now.dev(), now.ino()) != (ours.dev(), ours.ino())))
    }
}

/// A line, as JSON tells it.
#[derive(Serialize)]
struct Line<'a> {
    server: &'a str,
    line: &'a str,
}

fn print(name: &ServerName, text: &str, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let server = name.as_str();
        return text
            .lines()
            .try_for_each(|line| output::json(&Line { server, line }));
    }
    output::lines(&output::printable(text))
}

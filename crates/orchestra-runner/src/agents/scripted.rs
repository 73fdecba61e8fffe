//! An agent without a model: our own program does what a script says. It is for tests, and for proving
//! an installation; it needs no network and is the same every time.
//!
//! A script has steps. Of those whose conditions hold (what the prompt says, the how-manieth run in this
//! worktree it is), the first is done: printing, changing files, waiting, committing, and ending in any
//! way. What it changes lies in the worktree, and no link leads it out.

mod act;
mod script;

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

pub use script::{Action, Script, Signal, Step, UsageSaid, When};

use super::place::{self, PRIVATE_DIRECTORY};
use act::Ended;

/// First argument of our program by which it comes to [`main`].
pub const COMMAND: &str = "__agent";

/// The variable that names the file of a script.
pub const SCRIPT_VARIABLE: &str = "ORCHESTRA_AGENT_SCRIPT";

/// The file of a script within a worktree.
pub const SCRIPT_FILE: &str = "agent-script.json";

/// What marks a block of a prompt as a script.
pub const SCRIPT_BLOCK: &str = "orchestra-script";

/// The longest prompt and script.
const MAX_PROMPT_BYTES: u64 = 8 * 1024 * 1024;
const MAX_SCRIPT_BYTES: u64 = 1024 * 1024;

/// The code by which it says that it could not do as it was told.
const USAGE_CODE: u8 = 64;

/// Why it could not.
#[derive(Debug, Error)]
enum Fault {
    #[error(
        "`{0}` is not an option; use --session, --model, --effort or --max-turns, each with a value"
    )]
    Option(String),
    #[error("the prompt cannot be read")]
    Prompt(#[source] io::Error),
    #[error("the script {name} cannot be read")]
    Read {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("the script {name} is not a valid script of a scripted agent")]
    Form {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "no script was found; put a script into the prompt (in a block marked {SCRIPT_BLOCK}), into \
         {SCRIPT_VARIABLE}, or into {SCRIPT_FILE}"
    )]
    NoScript,
    #[error(
        "no step of the script matches the prompt of run {run}; add a step for it, or a step without `when`"
    )]
    NoStep { run: u32 },
    #[error("{action} failed")]
    Act {
        action: String,
        #[source]
        source: io::Error,
    },
}

/// What it was called with.
#[derive(Debug, Default)]
struct Options {
    script: Option<PathBuf>,
    session: Option<String>,
    model: Option<String>,
    effort: Option<String>,
    max_turns: Option<String>,
}

/// What it remembers within a worktree.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Memory {
    runs: u32,
}

/// Runs as the scripted agent in the current directory, the prompt on standard input; `arguments` are
/// those after [`COMMAND`].
#[must_use]
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            let mut text = fault.to_string();
            let mut source = std::error::Error::source(&fault);
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            say(&json!({"type": "failed", "message": text}));
            // There is nobody to tell when this fails as well.
            let _ = writeln!(io::stderr(), "scripted agent: {text}");
            ExitCode::from(USAGE_CODE)
        }
    }
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<u8, Fault> {
    let options = Options::parse(arguments)?;
    let mut prompt = Vec::new();
    let input = io::stdin()
        .lock()
        .take(MAX_PROMPT_BYTES)
        .read_to_end(&mut prompt);
    input.map_err(Fault::Prompt)?;
    let prompt = String::from_utf8_lossy(&prompt);
    let here = Path::new(".");
    let script = script(&options, here, &prompt)?;
    let run = remember(here).map_err(|source| Fault::Act {
        action: "storing the number of the run".to_owned(),
        source,
    })?;
    let resumed = options.session.is_some();
    let session = options.session.unwrap_or_else(|| format!("scripted-{run}"));
    say(&json!({
        "type": "session", "session": session, "resumed": resumed, "run": run,
        "model": options.model, "effort": options.effort, "max_turns": options.max_turns,
    }));
    let step = script.step(&prompt, run).ok_or(Fault::NoStep { run })?;
    for action in &step.actions {
        let ended = act::act(action, here).map_err(|source| Fault::Act {
            action: action.name().to_owned(),
            source,
        })?;
        if let Ended::With(code) = ended {
            return Ok(code);
        }
    }
    Ok(0)
}

impl Options {
    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, Fault> {
        let mut options = Self::default();
        let mut arguments = arguments.peekable();
        while let Some(argument) = arguments.next() {
            let name = argument.to_string_lossy().into_owned();
            let place = match name.as_str() {
                "--session" => &mut options.session,
                "--model" => &mut options.model,
                "--effort" => &mut options.effort,
                "--max-turns" => &mut options.max_turns,
                _ if !name.starts_with('-') && options.script.is_none() => {
                    options.script = Some(argument.into());
                    continue;
                }
                _ => return Err(Fault::Option(name)),
            };
            let value = arguments.next().ok_or(Fault::Option(name))?;
            *place = Some(value.to_string_lossy().into_owned());
        }
        Ok(options)
    }
}

/// The script: of the argument, the prompt, the environment or the worktree, the first that is there.
fn script(options: &Options, here: &Path, prompt: &str) -> Result<Script, Fault> {
    let variable = || std::env::var_os(SCRIPT_VARIABLE).filter(|path| !path.is_empty());
    let (name, text) = if let Some(path) = &options.script {
        read(path)?
    } else if let Some(block) = block(prompt) {
        ("of the prompt".to_owned(), block.into_bytes())
    } else if let Some(path) = variable() {
        read(Path::new(&path))?
    } else {
        match place::read(here, Path::new(SCRIPT_FILE), MAX_SCRIPT_BYTES) {
            Ok(text) => (SCRIPT_FILE.to_owned(), text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Fault::NoScript),
            Err(source) => {
                let name = SCRIPT_FILE.to_owned();
                return Err(Fault::Read { name, source });
            }
        }
    };
    serde_json::from_slice(&text).map_err(|source| Fault::Form { name, source })
}

fn read(path: &Path) -> Result<(String, Vec<u8>), Fault> {
    let name = path.display().to_string();
    let read = std::fs::File::open(path).and_then(|file| {
        let mut text = Vec::new();
        file.take(MAX_SCRIPT_BYTES)
            .read_to_end(&mut text)
            .map(|_| text)
    });
    match read {
        Ok(text) => Ok((name, text)),
        Err(source) => Err(Fault::Read { name, source }),
    }
}

/// The first block of a prompt that is marked as a script.
fn block(prompt: &str) -> Option<String> {
    let mut lines = prompt.lines();
    lines.find(|line| {
        let mark = line.trim().trim_start_matches('`');
        line.trim().starts_with("```") && mark.trim() == SCRIPT_BLOCK
    })?;
    let block = lines.take_while(|line| !line.trim().starts_with("```"));
    Some(block.collect::<Vec<_>>().join("\n"))
}

/// Counts a run in this worktree.
fn remember(here: &Path) -> io::Result<u32> {
    let path = Path::new(PRIVATE_DIRECTORY).join("agent/scripted.json");
    let mut memory: Memory = match place::read(here, &path, MAX_SCRIPT_BYTES) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Memory::default(),
        Err(error) => return Err(error),
    };
    memory.runs = memory.runs.saturating_add(1);
    place::write(here, &path, serde_json::to_string(&memory)?.as_bytes())?;
    Ok(memory.runs)
}

/// Prints one object of JSON as a line. Nobody may be there to read it.
fn say(value: &serde_json::Value) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_in_a_prompt() {
        let prompt = "# Task\n\n````text\n```orchestra-script\n{\"steps\": []}\n```\n````\n";
        assert_eq!(block(prompt).as_deref(), Some("{\"steps\": []}"));
        assert_eq!(block("```json\n{}\n```"), None);
    }

    #[test]
    fn options_are_few() {
        let parse = |words: &[&str]| Options::parse(words.iter().map(OsString::from));
        let options = parse(&["s.json", "--session", "x", "--max-turns", "3"]).unwrap();
        assert_eq!(options.session.as_deref(), Some("x"));
        assert_eq!(options.script.as_deref(), Some(Path::new("s.json")));
        assert!(parse(&["--yolo"]).is_err() && parse(&["--model"]).is_err());
    }
}

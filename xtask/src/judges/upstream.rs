//! `cargo xtask servers`: popular servers and two servers of the official SDKs offer and answer the same behind the
//! gateway as directly, over stdio and over HTTP, in each era that the server speaks.
//!
//! `judges/upstream` pins the servers and lists their calls, which need neither a network nor an account.
//! `judges/typescript/record.mjs` records both sides.

mod compare;
mod list;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use self::{
    compare::{Comparison, compare},
    list::{Places, Projects, Server},
};
use super::{
    Absent, Judge, LIMIT, client,
    others::{Listening, Through, free_address, run_through},
    remove, renew, report, workspace_of_check,
};
use crate::{
    run::{self, Ended},
    test::{self, Tally},
};

/// Maximum number of differences of a row in the table; its failure lists all of them.
const MAX_SHOWN: usize = 3;

/// Columns of the table.
const HEAD: [&str; 7] = [
    "server",
    "version",
    "era",
    "over",
    "tools direct/through",
    "answers equal",
    "differences",
];

/// Compares the named servers, or all, and prints a table.
///
/// # Errors
/// When a name is unknown, or a server differs or cannot be installed. The other servers are compared all the same.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    let servers = list::chosen(names)?;
    run::say("== servers");
    run::build()?;
    let mut projects = Projects::default();
    let mut tally = Tally::default();
    let mut table = vec![HEAD.map(str::to_owned)];
    for server in &servers {
        for (revision, through) in server.ways() {
            let over = match through {
                Through::Stdio => "stdio",
                Through::Up => "http",
            };
            let name = format!("{} {revision} over {over}", server.name());
            let outcome = sit(server, revision, through, &mut projects);
            let cells = match &outcome {
                Ok(Ok(comparison)) => comparison.cells(),
                Ok(Err(_)) => ["-", "-", "not compared"].map(str::to_owned),
                Err(_) => ["-", "-", "not installed"].map(str::to_owned),
            };
            // Elsewhere a missing tool is left out. Here the table is the result.
            let outcome = outcome.or_else(|Absent(error)| Ok(Err(error)));
            let version = server.version().unwrap_or_else(|_| "?".to_owned());
            let [tools, answers, differences] = cells;
            let [server, revision, over] = [server.name(), revision, over].map(str::to_owned);
            table.push([server, version, revision, over, tools, answers, differences]);
            report(&name, outcome.map(|row| row.map(Into::into)), &mut tally);
        }
    }
    run::say(&format!("\n{}", aligned(&table)));
    test::close(&tally)
}

/// Formats a table with aligned columns.
fn aligned(table: &[[String; HEAD.len()]]) -> String {
    let width = |column: usize| {
        let cells = table.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: [usize; HEAD.len()] = std::array::from_fn(width);
    let mut text = String::new();
    for row in table {
        let cells = row.iter().zip(widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn sit(
    server: &Server,
    revision: &str,
    through: Through,
    projects: &mut Projects,
) -> Result<Result<Comparison>, Absent> {
    // Everything is installed before anything runs, so that a failed installation is reported as such.
    client(Judge::TypeScript("record.mjs"), revision).map_err(Absent)?;
    let program = projects.program(server).map_err(Absent)?;
    Ok(record_both(server, revision, through, &program))
}

fn record_both(
    server: &Server,
    revision: &str,
    through: Through,
    program: &[PathBuf],
) -> Result<Comparison> {
    let directory = workspace_of_check();
    let started = Instant::now();
    let room = Room::create(&directory, server)?;
    let direct = record_directly(server, revision, through, program, &room)?;
    // At the same path, so that answers with paths are equal.
    let room = Room::create(&directory, server)?;
    let behind = record_behind(server, revision, through, program, &room, &direct)?;
    let mut comparison = compare(direct, behind, &server.rules()?);
    comparison.seconds = started.elapsed().as_secs_f32();
    remove(&directory)?;
    Ok(comparison)
}

/// Directories of one recording.
struct Room {
    /// Workspace of the gateway.
    directory: PathBuf,
    home: PathBuf,
    /// Git repository with one commit, in which the server runs.
    files: PathBuf,
}

impl Room {
    /// Creates the directories, without anything that an earlier recording left.
    fn create(directory: &Path, server: &Server) -> Result<Self> {
        renew(directory)?;
        let directory = directory.canonicalize().context("the judge's workspace")?;
        let room = Self {
            home: directory.join("home"),
            files: directory.join("files"),
            directory,
        };
        for path in [&room.home, &room.files] {
            fs::create_dir(path).with_context(|| format!("creating {}", path.display()))?;
        }
        for (name, text) in server.files() {
            let path = room.files.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        room.git(&["init", "--quiet", "--initial-branch", "main"])?;
        room.git(&["add", "--all"])?;
        room.git(&["commit", "--quiet", "--allow-empty", "--message", "first"])?;
        Ok(room)
    }

    /// Runs git as an author and at a time that are the same in each recording.
    fn git(&self, arguments: &[&str]) -> Result<()> {
        let mut git = Command::new("git");
        git.current_dir(&self.files).args(arguments);
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "judge");
            git.env(format!("GIT_{who}_EMAIL"), "judge@example.com");
            git.env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
        }
        run::output(git.env("HOME", &self.home)).map(drop)
    }

    fn places(&self, port: u16) -> Places<'_> {
        Places {
            files: &self.files,
            home: &self.home,
            port,
        }
    }

    /// Writes a script with the steps of a server. Its first step lists the tools that the gateway must offer before it
    /// is recorded.
    fn script(&self, server: &Server, first: &[&str]) -> Result<PathBuf> {
        let mut steps = vec![json!({"list": "tools", "has": first})];
        steps.extend(server.steps(&self.places(0)));
        let path = self.directory.join("script.json");
        fs::write(&path, json!({"steps": steps}).to_string()).context("writing the script")?;
        Ok(path)
    }
}

/// Returns a command that records a script, and lacks only its server.
fn recorder(revision: &str, script: &Path, room: &Room) -> Result<Command> {
    let mut recorder = client(Judge::TypeScript("record.mjs"), revision)?;
    recorder.current_dir(&room.files).arg(revision).arg(script);
    Ok(recorder)
}

fn record_directly(
    server: &Server,
    revision: &str,
    through: Through,
    program: &[PathBuf],
    room: &Room,
) -> Result<Value> {
    let script = room.script(server, &[])?;
    let mut recorder = recorder(revision, &script, room)?;
    let listening = match through {
        Through::Stdio => {
            let start = server.start(program, through, &room.places(0));
            // Clients of the SDK pass on only a part of their environment.
            recorder.arg("env");
            let variables = start.env.iter();
            recorder.args(variables.map(|(name, value)| format!("{name}={value}")));
            recorder.arg(start.program).args(start.args);
            None
        }
        Through::Up => {
            let listening = listen(server, program, room)?;
            recorder.arg(format!("http://{}", listening.address));
            Some(listening)
        }
    };
    let ended = run::run_within(&mut recorder, LIMIT)?;
    drop(listening);
    recording(&ended).context("directly")
}

fn record_behind(
    server: &Server,
    revision: &str,
    through: Through,
    program: &[PathBuf],
    room: &Room,
    direct: &Value,
) -> Result<Value> {
    // The list is complete as soon as it has one tool.
    let first = direct["tools"][0]["name"].as_str();
    let script = room.script(server, &[first.context("the server has no tools")?])?;
    let recorder = recorder(revision, &script, room)?;
    let (mut entry, listening) = match through {
        Through::Stdio => {
            let start = server.start(program, through, &room.places(0));
            let entry = json!({
                "command": start.program, "args": start.args, "env": start.env, "cwd": room.files,
            });
            (entry, None)
        }
        Through::Up => {
            let listening = listen(server, program, room)?;
            let url = format!("http://{}/mcp", listening.address);
            (json!({"type": "http", "url": url}), Some(listening))
        }
    };
    entry["prefix"] = false.into();
    let servers = room.directory.join("servers.json");
    let text = json!({"mcpServers": {server.name(): entry}}).to_string();
    fs::write(&servers, text).context("writing the servers")?;
    let (ended, _) = run_through(recorder, through, &room.directory, &servers, &script)?;
    drop(listening);
    recording(&ended).context("through the gateway")
}

/// Starts a server over HTTP.
fn listen(server: &Server, program: &[PathBuf], room: &Room) -> Result<Listening> {
    let address = free_address()?;
    let start = server.start(program, Through::Up, &room.places(address.port()));
    let mut command = Command::new(start.program);
    command.args(start.args).envs(start.env);
    Listening::start(command.current_dir(&room.files), address)
}

fn recording(ended: &Ended) -> Result<Value> {
    ensure!(ended.success, "no recording: {}", ended.complaint);
    serde_json::from_str(&ended.out).context("reading the recording")
}

impl Comparison {
    /// Formats the numbers of tools and answers, and the differences.
    fn cells(&self) -> [String; 3] {
        let (direct, through) = self.tools;
        let (equal, all) = self.answers;
        let mut shown: Vec<&str> = self.differences.iter().map(String::as_str).collect();
        shown.truncate(MAX_SHOWN);
        let differences = match self.differences.len() {
            0 => "none".to_owned(),
            count if count > MAX_SHOWN => format!("{count}: {}; …", shown.join("; ")),
            count => format!("{count}: {}", shown.join("; ")),
        };
        [
            format!("{direct}/{through}"),
            format!("{equal} of {all}"),
            differences,
        ]
    }
}

impl From<Comparison> for Ended {
    fn from(comparison: Comparison) -> Self {
        let [tools, answers, _] = comparison.cells();
        let seconds = comparison.seconds;
        Self {
            success: comparison.differences.is_empty(),
            out: format!("{tools} tools, {answers} answers equal in {seconds:.1} s\n"),
            complaint: comparison.differences.join("\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_the_table_are_aligned() {
        let row = |first: &str, last: &str| {
            let mut row = [(); HEAD.len()].map(|()| "x".to_owned());
            row[0] = first.to_owned();
            row[HEAD.len() - 1] = last.to_owned();
            row
        };
        let expected = "a     x  x  x  x  x  none\nüber  x  x  x  x  x  y\n";
        assert_eq!(aligned(&[row("a", "none"), row("über", "y")]), expected);
    }

    #[test]
    fn comparison_with_differences_fails_and_lists_all_of_them() {
        let differences: Vec<String> = (0..5).map(|number| format!("d{number}")).collect();
        let comparison = Comparison {
            tools: (2, 1),
            answers: (0, 3),
            differences,
            seconds: 0.0,
        };
        assert_eq!(
            comparison.cells(),
            ["2/1", "0 of 3", "5: d0; d1; d2; …"].map(str::to_owned)
        );
        let ended = Ended::from(comparison);
        assert!(!ended.success);
        assert_eq!(ended.complaint, "d0\nd1\nd2\nd3\nd4");
    }
}

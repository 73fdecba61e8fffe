//! Every command of the program, run in a workspace that may be hostile.
//!
//! The table below is complete: a test compares it with the commands that `--help` lists. Of those that it does not
//! list, `orchestrator` runs the plugins of the list that it is started for, and `__runner` and `__board` are started by
//! the program.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Running, Said, Workspace, program, said};

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// To its end.
    Ends,
    /// To its end, with an event of a client's hook on stdin.
    Hook,
    /// Until its first line on stdout, after which a signal ends it.
    Serves,
    /// With the first message of an MCP client on stdin, until the answer, after which a signal ends it.
    Speaks,
}
use How::{Ends, Hook, Serves, Speaks};

/// Origin of a hostile repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An archive with a git directory. Plans called `new-` are in it, and plans called `old-` in the working tree.
    Archive,
    /// A clone, which has the plans in the working tree alone.
    Clone,
}

/// A command with arguments.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Its name, subcommands included.
    pub(crate) command: &'static str,
    /// Its arguments, where `OWN` stands for the directory that [`own_files`] fills.
    pub(crate) arguments: &'static [&'static str],
    pub(crate) how: How,
    /// Text that the output contains in an archive. Empty where nothing has to be refused.
    archive: &'static str,
    /// The same for a clone.
    clone: &'static str,
}

const fn attempt(
    command: &'static str,
    arguments: &'static [&'static str],
    how: How,
    refusal: &'static str,
) -> Attempt {
    Attempt {
        command,
        arguments,
        how,
        archive: refusal,
        clone: refusal,
    }
}

/// A command on plans that is refused in an archive, and its output in a clone.
const fn in_archive(
    command: &'static str,
    arguments: &'static [&'static str],
    clone: &'static str,
) -> Attempt {
    Attempt {
        command,
        arguments,
        how: Ends,
        archive: UNTRUSTED,
        clone,
    }
}

/// Plans that the user's programs did not create.
const UNTRUSTED: &str = "orchestra plan trust";

/// Plans that are in the archive alone.
const UNKNOWN: &str = "no plan is named";

/// Line on a plan of the user, which is created beside those that a clone has in the place of earlier versions.
const OWN: &str = "plan Own";

/// Servers and plugins that the user has not approved.
const UNAPPROVED: &str = "orchestra mcp approve";

/// Entries of client files that are called `orchestra`.
const IMPOSTOR: &str = "entry is not this program";

/// Commands in the order in which a user may try them. The names are those of the hostile repository.
pub(crate) const ATTEMPTS: &[Attempt] = &[
    attempt("config show", &["--origin"], Ends, ""),
    attempt("init", &["--dry-run"], Ends, IMPOSTOR),
    attempt("init", &[], Ends, IMPOSTOR),
    attempt("doctor", &[], Ends, UNTRUSTED),
    attempt("board trust", &[], Ends, ""),
    attempt("board merge", &["--yes"], Ends, ""),
    attempt("stdio", &[], Speaks, ""),
    attempt("stdio", &["--tools", "search"], Speaks, ""),
    attempt(
        "up",
        &["--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json"],
        Serves,
        "",
    ),
    attempt("top", &[], Ends, ""),
    attempt("top", &["--once"], Ends, ""),
    attempt("tool list", &[], Ends, ""),
    attempt("tool show", &["create_project"], Ends, ""),
    attempt("tool show", &["evil__tool"], Ends, UNAPPROVED),
    attempt("tool call", &["list_projects"], Ends, ""),
    attempt("tool call", &["create_project", "name=Own"], Ends, ""),
    attempt("tool call", &["list_skills"], Ends, ""),
    attempt("tool call", &["list_agents"], Ends, ""),
    attempt("tool call", &["install_skills"], Ends, ""),
    attempt("tool call", &["install_docs"], Ends, ""),
    attempt(
        "tool call",
        &["regenerate_readme", "project=shop"],
        Ends,
        "",
    ),
    attempt("tool call", &["list_copilot_plans"], Ends, ""),
    attempt("tool call", &["evil__tool"], Ends, UNAPPROVED),
    in_archive(
        "tool call",
        &[
            "create_copilot_plan",
            "--args",
            r#"{"name": "X", "jobs": [{"producerId": "one", "task": "One", "work": "true"}]}"#,
        ],
        "\"planId\"",
    ),
    attempt("memory save", &["Text", "--project", "shop"], Ends, ""),
    attempt("memory search", &["text", "--project", "shop"], Ends, ""),
    attempt("memory list", &["--project", "shop"], Ends, ""),
    attempt("memory show", &["mem-1", "--project", "shop"], Ends, ""),
    attempt("memory forget", &["mem-1", "--project", "shop"], Ends, ""),
    attempt("memory export", &[], Ends, ""),
    attempt(
        "memory import",
        &["OWN/empty.jsonl", "--project", "shop"],
        Ends,
        "",
    ),
    attempt("memory reindex", &[], Ends, ""),
    attempt("memory stats", &[], Ends, ""),
    attempt("memory model list", &[], Ends, ""),
    attempt("memory model show", &[], Ends, ""),
    attempt("memory model use", &["none"], Ends, ""),
    attempt("memory model install", &["OWN"], Ends, ""),
    attempt("memory model remove", &["none-such"], Ends, ""),
    attempt("plan list", &[], Ends, ""),
    attempt("plan show", &["old-running"], Ends, ""),
    attempt("plan show", &["new-running"], Ends, ""),
    attempt("plan jobs", &["old-running"], Ends, ""),
    attempt("plan attempts", &["old-running", "marks"], Ends, ""),
    attempt("plan watch", &["old-running"], Serves, ""),
    attempt("plan watch", &["new-running", "--json"], Serves, ""),
    attempt("plan graph", &["new-running"], Ends, ""),
    attempt("plan logs", &["old-first", "waits"], Ends, ""),
    attempt("plan validate", &["OWN/plan.yaml"], Ends, ""),
    in_archive("plan create", &["OWN/plan.yaml"], OWN),
    in_archive("plan run", &["OWN/plan.yaml"], OWN),
    attempt("plan pause", &["old-running"], Ends, UNTRUSTED),
    attempt("plan resume", &["old-waiting"], Ends, UNTRUSTED),
    in_archive("plan resume", &["new-waiting"], UNKNOWN),
    attempt("plan retry", &["old-running"], Ends, UNTRUSTED),
    in_archive("plan retry", &["new-first"], UNKNOWN),
    in_archive("plan recover", &["new-running"], UNKNOWN),
    attempt("plan clone", &["old-running"], Ends, UNTRUSTED),
    attempt(
        "tool call",
        &["clone_copilot_plan", "sourcePlanId=old-running"],
        Ends,
        UNTRUSTED,
    ),
    attempt(
        "plan force-fail",
        &["old-running", "marks"],
        Ends,
        UNTRUSTED,
    ),
    attempt("plan finalize", &["old-waiting"], Ends, UNTRUSTED),
    attempt("plan cancel", &["old-first"], Ends, UNTRUSTED),
    attempt("plan archive", &["old-first"], Ends, UNTRUSTED),
    attempt("plan delete", &["old-first"], Ends, UNTRUSTED),
    attempt("plan agents", &[], Ends, ""),
    attempt("plan agents", &["--approve", "evil"], Ends, "evil"),
    attempt("plan trust", &[], Ends, "not accepted"),
    attempt("mcp list", &[], Ends, ""),
    attempt("mcp validate", &[], Ends, ""),
    attempt("mcp approve", &[], Ends, ""),
    attempt("mcp approve", &["--all"], Ends, "--yes"),
    attempt("mcp test", &[], Ends, ""),
    attempt("mcp test", &["evil"], Ends, UNAPPROVED),
    attempt("mcp tools", &["evil"], Ends, UNAPPROVED),
    attempt("mcp resources", &["evil"], Ends, UNAPPROVED),
    attempt("mcp prompts", &["evil"], Ends, UNAPPROVED),
    attempt("mcp call", &["evil", "tool"], Ends, UNAPPROVED),
    attempt("mcp logs", &["evil"], Ends, ""),
    attempt("mcp login", &["evil"], Ends, UNAPPROVED),
    attempt("mcp logout", &["evil"], Ends, UNAPPROVED),
    attempt("mcp disable", &["evil"], Ends, ""),
    attempt("mcp enable", &["evil"], Ends, ""),
    attempt("mcp restart", &["evil"], Ends, "not restarted"),
    attempt("mcp test", &["evil"], Ends, UNAPPROVED),
    attempt("mcp add", &["mine", "--", "true"], Ends, ""),
    attempt("mcp remove", &["mine"], Ends, ""),
    attempt("mcp import", &["--dry-run"], Ends, ""),
    attempt("mcp import", &[], Ends, ""),
    attempt("mcp export", &[], Ends, ""),
    attempt(
        "mcp replay",
        &["OWN/empty.jsonl", "--server", "evil"],
        Ends,
        UNAPPROVED,
    ),
    attempt("mcp tap", &["evil"], Ends, UNAPPROVED),
    attempt(
        "chat",
        &[
            "--backend",
            "scripted",
            "--script",
            "OWN/script.json",
            "-q",
            "Hello",
        ],
        Ends,
        "",
    ),
    attempt(
        "chat",
        &[
            "--backend",
            "scripted",
            "--script",
            "OWN/script.json",
            "--server",
            "evil",
            "-q",
            "Hello",
        ],
        Ends,
        UNAPPROVED,
    ),
    attempt("chat sessions", &[], Ends, ""),
    attempt("chat replay", &[], Ends, ""),
    attempt("chat export", &[], Ends, ""),
    attempt("chat branch", &["none-such"], Ends, ""),
    attempt("plugin list", &["--check"], Ends, ""),
    attempt("plugin inspect", &["tools.evil"], Ends, UNAPPROVED),
    attempt("plugin run", &["tools.evil"], Ends, UNAPPROVED),
    attempt("plugin logs", &["tools.evil"], Ends, ""),
    attempt("plugin restart", &["tools.evil"], Ends, "not restarted"),
    attempt("plugin new", &["mine", "--dir", "OWN/mine"], Ends, ""),
    attempt("token", &[], Ends, ""),
    attempt("certs init", &[], Ends, ""),
    attempt("certs issue", &["mine"], Ends, ""),
    attempt("certs show", &[], Ends, ""),
    attempt("certs rotate", &[], Ends, ""),
    attempt("engine", &["--addr", "127.0.0.1:0"], Serves, ""),
    attempt("hook", &[], Hook, ""),
    attempt("audit verify", &[], Ends, ""),
    attempt("sync", &[], Ends, ""),
    attempt("sync", &["origin", "--dry-run"], Ends, ""),
    attempt("log", &[], Ends, ""),
    attempt("import", &[], Ends, ""),
    attempt("completions", &["bash"], Ends, ""),
    attempt("man", &[], Ends, ""),
    attempt("doctor", &["--fix"], Ends, UNTRUSTED),
    attempt("plan list", &[], Ends, ""),
    attempt("init", &["--uninstall"], Ends, ""),
    // Last, for the others are to see the board of the repository.
    attempt("board convert", &[], Ends, ""),
    attempt("board convert", &["checkout"], Ends, ""),
];

/// Beginnings of command lines that neither start a program nor run plans, and write at most what others in the table
/// write too.
const LOOKS: [&str; 47] = [
    "audit verify",
    "certs",
    "chat branch",
    "chat export",
    "chat replay",
    "chat sessions",
    "completions",
    "config show",
    "init --dry-run",
    "init --uninstall",
    "man",
    "mcp add",
    "mcp approve",
    "mcp disable",
    "mcp enable",
    "mcp export",
    "mcp import --dry-run",
    "mcp list",
    "mcp logout",
    "mcp logs",
    "mcp prompts",
    "mcp remove",
    "mcp resources",
    "mcp validate",
    "memory",
    "plan agents",
    "plan archive",
    "plan attempts",
    "plan force-fail",
    "plan graph",
    "plan jobs",
    "plan logs",
    "plan pause",
    "plan show",
    "plan validate",
    "plugin list",
    "plugin logs",
    "plugin new",
    "token",
    "tool call install_docs",
    "tool call list_agents",
    "tool call list_projects",
    "tool call list_skills",
    "tool call regenerate_readme",
    "tool list",
    "tool show create_project",
    "top",
];

/// Creates the files of the user that arguments name, and returns their directory. It is not in the workspace.
pub(crate) fn own_files(workspace: &Workspace) -> PathBuf {
    let own = workspace.home().join("own");
    fs::create_dir(&own).unwrap();
    let plan = "name: Own\ntargetBranch: own\njobs:\n\
                - {producerId: one, task: One, work: 'true', expectsNoChanges: true}\n";
    fs::write(own.join("plan.yaml"), plan).unwrap();
    fs::write(own.join("script.json"), r#"[{"text": "Hello."}]"#).unwrap();
    fs::write(own.join("empty.jsonl"), "").unwrap();
    fs::create_dir(own.join("tmp")).unwrap();
    own
}

impl Attempt {
    /// The command line, for messages.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.command, self.arguments.join(" "))
    }

    /// Returns whether the command line begins with these words.
    pub(crate) fn begins_with(&self, words: &str) -> bool {
        let line = self.line();
        let rest = line.strip_prefix(words);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    }

    /// Returns whether the command can start a program or plans of a repository, or writes in it.
    pub(crate) fn acts(&self) -> bool {
        !LOOKS.iter().any(|words| self.begins_with(words))
    }

    /// The program with the command in this workspace. Its temporary files are beside the workspace, because not every
    /// user may be able to write to the system's directory for them.
    pub(crate) fn command(&self, workspace: &Workspace, before: &[&str]) -> Command {
        let own = workspace.home().join("own");
        let words = before.iter().map(|word| (*word).to_owned());
        let mut command = workspace.command(words.chain(self.words(&own)));
        command.env("TMPDIR", own.join("tmp"));
        command
    }

    /// Arguments of the program.
    fn words(&self, own: &Path) -> Vec<String> {
        let own = own.display().to_string();
        let command = self.command.split(' ').map(str::to_owned);
        let arguments = self.arguments.iter().map(|word| word.replace("OWN", &own));
        command.chain(arguments).collect()
    }

    /// Runs the program with the command until it ends, or is ended.
    pub(crate) fn run(&self, command: Command) -> Said {
        let mut stderr = tempfile::tempfile().unwrap();
        let mut process = Running::with_stderr(command, stderr.try_clone().unwrap());
        let input = match self.how {
            Ends | Serves => None,
            Hook => Some(json!({"hook_event_name": "SessionStart", "session_id": "one"})),
            Speaks => Some(
                json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                }}),
            ),
        };
        let mut stdin = process.stdin.take();
        if let (Some(stdin), Some(input)) = (&mut stdin, input) {
            // A command that was refused does not read it.
            drop(writeln!(stdin, "{input}"));
        }
        if matches!(self.how, Ends | Hook) {
            drop(stdin.take());
        }
        let mut lines = Vec::new();
        if matches!(self.how, Serves | Speaks) {
            if let Some(line) = process.line() {
                lines.push(line);
                process.signal(Signal::TERM);
            }
            drop(stdin);
        }
        while let Some(line) = process.line() {
            lines.push(line);
        }
        let status = process.wait();
        stderr.rewind().unwrap();
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).unwrap();
        Said {
            code: status.code(),
            out: lines.join("\n"),
            err: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// Asserts that the refusal was reported, where a repository of this origin has to be refused.
    pub(crate) fn check(&self, said: &Said, origin: Origin) {
        let line = self.line();
        if matches!(self.how, Ends | Hook) {
            assert!(
                said.code.is_some(),
                "{line} was ended by a signal: {said:?}"
            );
        }
        assert!(!said.err.contains("panicked at"), "{line}: {said:?}");
        let reported = match origin {
            Origin::Archive => self.archive,
            Origin::Clone => self.clone,
        };
        let is_reported = said.out.contains(reported) || said.err.contains(reported);
        assert!(is_reported, "{line}: {said:?}");
    }
}

/// The subcommands that the help of a command lists, and whether the command does something without any.
fn help(command: &[String]) -> (Vec<String>, bool) {
    let mut help = Command::new(program());
    help.args(command)
        .arg("--help")
        .env_clear()
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let said = said(help, "");
    assert_eq!(said.code, Some(0), "{command:?}: {said:?}");
    let usage = said.out.lines().find(|line| line.starts_with("Usage:"));
    let acts = !usage.unwrap().ends_with("<COMMAND>");
    let list = said.out.split_once("\nCommands:\n").map(|found| found.1);
    let lines = list.unwrap_or_default().lines();
    let names = lines
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    (names.map(str::to_owned).collect(), acts)
}

#[test]
fn table_of_commands_is_complete() {
    let mut listed = BTreeSet::new();
    let mut open = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let (names, acts) = help(&command);
        if acts {
            listed.insert(command.join(" "));
        }
        for name in names {
            let mut below = command.clone();
            below.push(name);
            open.push(below);
        }
    }
    let tried: BTreeSet<String> = ATTEMPTS
        .iter()
        .map(|attempt| attempt.command.to_owned())
        .collect();
    assert_eq!(tried, listed);
    for words in LOOKS {
        let is_there = ATTEMPTS.iter().any(|attempt| attempt.begins_with(words));
        assert!(is_there, "{words}");
    }
}

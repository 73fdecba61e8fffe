//! `cargo xtask conformance`: the public conformance suite against the fixture `everything`, over
//! HTTP. Every server scenario of each revision that the suite knows must pass, those of extensions
//! included; there is no list of expected failures.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Result, bail};

use crate::{
    run,
    served::{Served, Told},
    test::{self, Tally},
    tools,
};

/// What is required, in the suite's words.
const REQUIREMENTS: [[&str; 4]; 3] = [
    ["--suite", "all", "--spec-version", "2025-06-18"],
    ["--suite", "all", "--requirements", "2025-11-25"],
    ["--suite", "all", "--requirements", "2026-07-28"],
];

/// The suite's program, below its project.
const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// Far more than one run needs.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the suite and says a closing line.
///
/// # Errors
/// When a scenario fails, or the suite cannot be had.
pub(crate) fn run() -> Result<()> {
    let build = [
        "build",
        "--quiet",
        "--package",
        "orchestra-mcp",
        "--examples",
    ];
    run::run(&mut run::cargo(build))?;
    test::close(all()?, true)
}

/// Runs the suite for each revision. One that cannot be had is left out loudly, and is a failure on
/// a CI machine.
///
/// # Errors
/// When it cannot be run. A scenario that fails is counted.
pub(crate) fn all() -> Result<Tally> {
    run::say("== conformance");
    let tools = tools::npm_project("judges/conformance")
        .and_then(|home| tools::node().map(|node| (home, node)));
    match tools {
        Ok((home, node)) => play(&home, &node),
        Err(error) if run::in_ci() => Err(error),
        Err(error) => {
            run::say(&format!("conformance ... LEFT OUT: {error:#}"));
            Ok(Tally {
                ignored: 1,
                ..Tally::default()
            })
        }
    }
}

fn play(home: &Path, node: &Path) -> Result<Tally> {
    let suite = home.join(SUITE);
    let mut fixture = Command::new(run::target().join("debug/examples/everything"));
    fixture.args(["--http", "127.0.0.1:0"]);
    let fixture = Served::start(&mut fixture, Told::Stderr)?;
    let mut tally = Tally::default();
    for requirement in REQUIREMENTS {
        let [.., flag, revision] = requirement;
        let wanted = match flag {
            "--requirements" => &requirement[2..],
            _ => &requirement[..],
        };
        let mut command = Command::new(node);
        command
            .current_dir(home)
            .arg(&suite)
            .args(["server", "--url", fixture.url()])
            .args(wanted);
        let ended = run::run_within(&mut command, LIMIT)?;
        let before = (tally.passed, tally.failed);
        for line in ended.out.lines() {
            if let Some(passed) = line.strip_prefix("✓ ") {
                tally.passed += 1;
                run::say(&format!("conformance {revision} {passed}"));
            } else if let Some(failed) = line.strip_prefix("✗ ") {
                tally.failed += 1;
                run::say(&format!("conformance {revision} {failed} ... FAILED"));
            }
        }
        if !ended.success && tally.failed == before.1 {
            tally.failed += 1;
            run::say(&format!(
                "conformance {revision} ... FAILED\n{}",
                ended.complaint
            ));
        }
        if (tally.passed, tally.failed) == before {
            bail!("the suite ran nothing for {revision}: {}", ended.complaint);
        }
    }
    play_extensions(home, node, fixture.url(), &mut tally)?;
    Ok(tally)
}

/// Plays what belongs to extensions, all of which no revision requires.
fn play_extensions(home: &Path, node: &Path, url: &str, tally: &mut Tally) -> Result<()> {
    let suite = || {
        let mut command = Command::new(node);
        command.current_dir(home).arg(home.join(SUITE));
        command
    };
    let listed = run::output(suite().args(["list", "--server"]))?;
    let names = listed.lines().filter_map(|line| {
        let name = line.trim().strip_prefix("- ")?;
        name.strip_suffix(" [extension]")
    });
    let before = tally.passed;
    for name in names {
        let mut command = suite();
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
                tally.failed += 1;
                let (out, complaint) = (ended.out, ended.complaint);
                run::say(&format!(
                    "conformance extension {name} ... FAILED\n{out}{complaint}"
                ));
            }
        }
    }
    anyhow::ensure!(tally.passed > before, "the suite knows no extensions");
    Ok(())
}

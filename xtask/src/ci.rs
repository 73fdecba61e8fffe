//! `cargo xtask ci`: what a change must pass before it lands.

use std::{thread, time::Instant};

use anyhow::Result;

use crate::{bench, book, deny, fuzz, judges, nextest, run, soak, test};

type Step = (&'static str, fn() -> Result<()>);

/// Every check, the tests and their closing line last. Everything that a later step runs is built by
/// `build`, all at once.
const CI: &[Step] = &[
    ("format", format),
    ("clippy", clippy),
    ("docs", docs),
    ("licences", deny::run),
    ("build", build),
    ("book", whole_book),
    ("tests", test::run),
];

/// The checks of a minute.
const FAST: &[Step] = &[("format", format), ("clippy", clippy), ("tidy", tidy)];

/// What takes longer than a change may wait for.
const FULL: &[Step] = &[
    ("ci", run),
    ("servers", || judges::upstream::run(&[])),
    ("soak flaky", || soak::flaky(FLAKY_ROUNDS)),
    ("soak", || soak::run(1, &[])),
    ("soak board", || soak::Board::parse(&[])?.run()),
    ("fuzz", || fuzz::run(fuzz::SECONDS)),
    ("bench", || bench::run(&[])),
];

/// Number of rounds of `soak flaky`, which finds more the longer it runs.
const FLAKY_ROUNDS: u32 = 3;

/// Runs every check of a change.
///
/// # Errors
/// At the first check that fails.
pub(crate) fn run() -> Result<()> {
    // The tools of the last step are downloaded while the first ones compile.
    thread::scope(|scope| {
        scope.spawn(judges::prefetch);
        steps(CI)
    })
}

/// Runs the quick checks.
///
/// # Errors
/// At the first check that fails.
pub(crate) fn fast() -> Result<()> {
    steps(FAST)
}

/// Runs every check there is, and measures.
///
/// # Errors
/// At the first check that fails.
pub(crate) fn full() -> Result<()> {
    steps(FULL)
}

/// Checks the rules that no compiler checks.
///
/// # Errors
/// When a file breaks one.
pub(crate) fn tidy() -> Result<()> {
    run::run(&mut run::cargo(["test", "--quiet", "--package", "xtask"]))
}

/// Lowers the limits of hard words to the present counts.
///
/// # Errors
/// When a count is above its limit.
pub(crate) fn lower_limits() -> Result<()> {
    let test = ["test", "--quiet", "--package", "xtask", "--test", "it"];
    let mut command = run::cargo(test);
    run::run(command.arg("language::").env("XTASK_LOWER_LIMITS", "1"))
}

fn steps(steps: &[Step]) -> Result<()> {
    let mut timings = String::new();
    for (name, step) in steps {
        run::say(&format!("== {name}"));
        let started = Instant::now();
        step().map_err(|error| error.context(format!("ci: {name}")))?;
        timings.push_str(&format!(" {name} {} s,", started.elapsed().as_secs()));
    }
    run::say(&format!("ci: passed:{}", timings.trim_end_matches(',')));
    Ok(())
}

fn format() -> Result<()> {
    run::run(&mut run::cargo(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    if run::lints() {
        run::say("clippy: every build of this run lints what it compiles");
        return Ok(());
    }
    let mut clippy = run::cargo(["clippy", "--workspace", "--all-targets"]);
    clippy.args(run::features());
    run::run(clippy.args(["--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    if run::lints() {
        run::say("docs: every build of this run checks the documentation of what it compiles");
        return Ok(());
    }
    let mut command = run::cargo(["doc", "--workspace", "--no-deps"]);
    run::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Builds, and lints if [`run::lints`], the tests and the programs that the book and the external checks run.
fn build() -> Result<()> {
    nextest::build()?;
    run::build()
}

/// Checks the reference and the links of the book, and builds it.
fn whole_book() -> Result<()> {
    book::check()?;
    book::build()
}

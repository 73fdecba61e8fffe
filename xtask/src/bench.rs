//! `cargo xtask bench`: builds the programs and the peers, then hands over to the load driver.
//!
//! The driver is a program of its own (`bench/driver`), so that it runs optimised and its
//! dependencies stay out of every other command.

use std::{path::PathBuf, process::Command};

use anyhow::{Result, bail};

use crate::{eval, judges::BROWSER, run, tools};

/// The measured profile, which is also the released one.
const PROFILE: &str = "dist";

/// Benchmarks of the load driver (`bench/driver`).
const DRIVEN: [&str; 10] = [
    "echo", "http", "gateway", "plugin", "board", "start", "writers", "sync", "tokens", "day",
];

/// Benchmarks that are programs of their own.
const APART: [&str; 4] = ["memory", "plans", "chat", "web"];

/// Checks the names of benchmarks, before anything is built.
///
/// # Errors
/// When there is no benchmark of a name.
pub(crate) fn check(names: &[&str]) -> Result<()> {
    let is_known = |name: &str| DRIVEN.contains(&name) || APART.contains(&name);
    match names.iter().find(|name| !is_known(name)) {
        Some(unknown) => bail!(
            "no benchmark {unknown}: there are {}",
            [&DRIVEN[..], &APART[..]].concat().join(", ")
        ),
        None => Ok(()),
    }
}

/// Builds packages of the workspace with [`PROFILE`].
///
/// # Errors
/// When they cannot be built.
pub(crate) fn build(packages: &[&str]) -> Result<()> {
    let profile = ["build", "--quiet", "--profile", PROFILE];
    run::run(run::cargo(profile).args(packages))
}

/// Path of a program that was built with [`PROFILE`].
pub(crate) fn built(program: &str) -> PathBuf {
    run::target().join(PROFILE).join(program)
}

/// Runs the named benchmarks, or all.
///
/// # Errors
/// When something cannot be built or run. A bar that is not reached is printed, and no error.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    if names.is_empty() || names.contains(&"memory") {
        eval::bench_memory()?;
    }
    if names.is_empty() || names.contains(&"plans") {
        plans()?;
    }
    if names.is_empty() || names.contains(&"chat") {
        chat()?;
    }
    if names.is_empty() || names.contains(&"web") {
        web()?;
    }
    if !names.is_empty() && names.iter().all(|name| APART.contains(name)) {
        return Ok(());
    }
    let mut names = names.to_vec();
    names.retain(|name| !APART.contains(name));
    build(&["--package", "bench-driver", "--package", "bench-floor"])?;
    build(&["--package", "orchestra"])?;
    build(&["--package", "orchestra-mcp", "--examples"])?;
    let wants = |name| names.is_empty() || names.contains(&name);
    // Each alone: the features of a peer must not reach the programs that are measured against it.
    build(&["--package", "bench-rmcp-echo"])?;
    if wants("plugin") {
        build(&["--package", "bench-plugin"])?;
    }

    let mut driver = Command::new(built("bench-driver"));
    driver.current_dir(run::root());
    add_interpreted(&mut driver);
    if wants("http") || wants("gateway") {
        tools::program("wrk")?;
    }
    if wants("gateway") {
        add_proxies(&mut driver);
    }
    run::run(driver.args(&names))
}

/// Measures plans, which needs no peer but git.
fn plans() -> Result<()> {
    build(&["--package", "orchestra-runner", "--example", "plans_bench"])?;
    run::run(&mut Command::new(built("examples/plans_bench")))
}

/// Measures conversations, which need no model.
fn chat() -> Result<()> {
    build(&["--package", "orchestra"])?;
    build(&["--package", "orchestra-chat", "--example", "chat_bench"])?;
    let bench = built("examples/chat_bench");
    run::run(Command::new(bench).arg(built("orchestra")))
}

/// Measures the dashboard in a browser.
fn web() -> Result<()> {
    tools::program(BROWSER)?;
    build(&["--package", "orchestra"])?;
    // The driver need not be fast: it waits for the browser.
    run::run(&mut run::cargo([
        "build",
        "--quiet",
        "--package",
        "judge-dashboard",
    ]))?;
    let mut judge = Command::new(run::target().join("debug/judge-dashboard"));
    judge.arg("bench");
    run::run(judge.arg(built("orchestra")).arg(BROWSER))
}

/// Passes the peers that need an interpreter to the driver, if there is one.
fn add_interpreted(driver: &mut Command) {
    match tools::npm_project("bench/typescript").and_then(|home| Ok((home, tools::node()?))) {
        Ok((home, node)) => {
            driver.env("BENCH_NODE", node);
            driver.env("BENCH_TYPESCRIPT", home.join("server.mjs"));
            driver.env("BENCH_TYPESCRIPT_HTTP", home.join("http.mjs"));
        }
        Err(error) => run::say(&format!("no TypeScript peer: {error:#}")),
    }
    match tools::python() {
        Ok(python) => {
            driver.env("BENCH_PYTHON", python);
        }
        Err(error) => run::say(&format!("no Python peer: {error:#}")),
    }
}

/// Passes third-party proxies to the driver.
fn add_proxies(driver: &mut Command) {
    match tools::npm_project("bench/proxies") {
        Ok(home) => {
            let script = home.join("node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs");
            driver.env("BENCH_NPM_PROXY", script);
        }
        Err(error) => run::say(&format!("no npm mcp-proxy: {error:#}")),
    }
    match tools::python_of("bench/proxies") {
        Ok(python) => {
            driver.env("BENCH_PYPI_PROXY", python.with_file_name("mcp-proxy"));
        }
        Err(error) => run::say(&format!("no PyPI mcp-proxy: {error:#}")),
    }
}

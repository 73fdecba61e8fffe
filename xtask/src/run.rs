//! Running other programs, and talking about it.

use std::{
    ffi::OsStr,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// Environment that keeps function names and line numbers in backtraces of the release profile.
pub(crate) const BACKTRACES: [(&str, &str); 2] = [
    ("CARGO_PROFILE_RELEASE_STRIP", "false"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only"),
];

/// Arguments that add the fuzz targets to a build of the workspace.
const FUZZ_TARGETS: &[&str] = &["--features", "orchestra-fuzz/targets"];

/// Writes one line to stdout. A reader that went away is no error.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// The directory of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies directly below the workspace")
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Whether this is a CI machine, where nothing may be left out.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// The cargo that started us, in the workspace's directory.
pub(crate) fn cargo<I, S>(arguments: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = tool(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// A program that runs cargo, in the workspace's directory. The variables that cargo sets for the
/// programs it runs are removed: build scripts that read them would run again whenever cargo is
/// called without us, and most of the workspace would be rebuilt after them.
pub(crate) fn tool(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if is_ours {
            command.env_remove(name);
        }
    }
    if in_ci() {
        command.env("CARGO_TERM_COLOR", "never");
    }
    command
}

/// Returns the features of each build of the workspace. CI adds the fuzz targets. A build with other features than the
/// one before compiles the C libraries, and most crates with them, a second time.
pub(crate) fn features() -> &'static [&'static str] {
    match in_ci() {
        true => FUZZ_TARGETS,
        false => &[],
    }
}

/// Returns whether each build of the workspace also lints it and checks its documentation, as `.ci/run` asks.
pub(crate) fn lints() -> bool {
    std::env::var_os("RUSTC_WORKSPACE_WRAPPER")
        .is_some_and(|wrapper| Path::new(&wrapper).ends_with(".ci/lint"))
}

/// Builds every program that external checks run, all at once: a package by itself would be built with fewer features, and
/// all below it anew.
///
/// # Errors
/// When they cannot be built.
pub(crate) fn build() -> Result<()> {
    let build = ["build", "--quiet", "--workspace", "--bins", "--examples"];
    run(cargo(build).args(features()))
}

/// Runs a command to its end, its output shown.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    say(&format!("$ {shown}"));
    let status = command
        .status()
        .with_context(|| format!("starting {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs a command to its end and returns what it wrote to stdout.
///
/// # Errors
/// When it cannot be started or does not succeed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading what {shown} wrote"))
}

/// What a command with a deadline came to.
pub(crate) struct Ended {
    /// Whether it ended by itself and with success.
    pub(crate) success: bool,
    /// What it wrote to stdout.
    pub(crate) out: String,
    /// What it wrote to stderr, and whether it was killed.
    pub(crate) complaint: String,
}

/// Runs a command, which is killed at the deadline.
///
/// # Errors
/// When it cannot be started or waited for.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<Ended> {
    let shown = describe(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {shown}"))?;
    let out = child.stdout.take().map(drain);
    let complaint = child.stderr.take().map(drain);
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("waiting")? {
            break Some(status);
        }
        if started.elapsed() > limit {
            child.kill().context("killing what ran too long")?;
            child.wait().context("waiting")?;
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let text = |reader: Option<JoinHandle<String>>| {
        let text = reader.map(|reader| reader.join().unwrap_or_default());
        text.unwrap_or_default()
    };
    let mut complaint = text(complaint);
    if status.is_none() {
        complaint.push_str(&format!("\nkilled after {} s", limit.as_secs()));
    }
    Ok(Ended {
        success: status.is_some_and(|status| status.success()),
        out: text(out),
        complaint,
    })
}

fn drain<R: std::io::Read + Send + 'static>(mut from: R) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        drop(from.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A command as a person would type it.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let mut text = name.to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

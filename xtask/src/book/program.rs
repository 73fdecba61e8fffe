//! The program that the reference is about, asked where nothing of this machine counts.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::{
    run,
    served::{Served, Told},
};

/// Names another program than the one that is built, for those who change the book alone.
const OVERRIDE: &str = "ORCHESTRA_BOOK_PROGRAM";

/// How long one answer may take.
const LIMIT: Duration = Duration::from_secs(60);

/// The longest document that is read from it.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The program, with an empty workspace and home of its own, which go with it.
pub(super) struct Program {
    path: PathBuf,
    home: PathBuf,
}

impl Program {
    /// Builds the program, unless the environment names one.
    ///
    /// # Errors
    /// When it cannot be built, or a directory for it cannot be made.
    pub(super) fn built() -> Result<Self> {
        let path = match std::env::var_os(OVERRIDE) {
            Some(path) => run::root().join(path),
            None => {
                run::build()?;
                run::target().join("debug/orchestra")
            }
        };
        Self::at(path)
    }

    fn at(path: PathBuf) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("book-program-{}-{number}", std::process::id());
        let home = run::target().join(name);
        fs::create_dir_all(home.join("workspace"))
            .with_context(|| format!("creating {}", home.display()))?;
        Ok(Self { path, home })
    }

    /// Where its workspace is.
    pub(super) fn workspace(&self) -> PathBuf {
        self.home.join("workspace")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command
            .env_clear()
            .env("HOME", &self.home)
            // Below the checkout, whose own workspace would be the nearest upwards.
            .env("ORCHESTRATOR_WORKSPACE", self.workspace())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(self.workspace())
            .args(arguments);
        command
    }

    /// What it writes to stdout.
    ///
    /// # Errors
    /// When it fails, or takes too long.
    pub(super) fn said(&self, arguments: &[&str]) -> Result<String> {
        let ended = run::run_within(&mut self.command(arguments), LIMIT)?;
        if !ended.success {
            bail!("orchestra {}: {}", arguments.join(" "), ended.complaint);
        }
        Ok(ended.out)
    }

    /// What it answers to a GET while it serves, which it does on a free port of this machine.
    ///
    /// # Errors
    /// When it cannot serve, or answers something else than 200.
    pub(super) fn served(&self, path: &str) -> Result<String> {
        let up = ["up", "--json", "--http", "127.0.0.1:0", "--quic", "off"];
        let mut command = self.command(&[&up[..], &["--engine", "off"]].concat());
        let served = Served::start(&mut command, Told::Stdout)?;
        let address = served.url().trim_start_matches("http://");
        let address = address.split('/').next().unwrap_or_default();
        get(address, path).with_context(|| format!("GET {path}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // What stays lies below the target directory, and harms nothing.
        drop(fs::remove_dir_all(&self.home));
    }
}

/// The body of a page, by HTTP/1.0, where a body simply ends with the connection.
fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("reaching {address}"))?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_BYTES).read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("no end of the head")?;
    let status = head.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        bail!("answered {status}");
    }
    Ok(body.to_owned())
}

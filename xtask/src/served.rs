//! A server of ours that serves over HTTP while others talk to it.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context as _, Result};

/// Where a program tells its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Stdout,
    Stderr,
}

/// A running server, killed when dropped.
pub(crate) struct Served {
    process: Child,
    url: String,
}

impl Served {
    /// Starts a program that tells the URL of its MCP.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it has told.
    pub(crate) fn start(command: &mut Command, told: Told) -> Result<Self> {
        match told {
            Told::Stdout => command.stdout(Stdio::piped()),
            Told::Stderr => command.stderr(Stdio::piped()),
        };
        let process = command
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let mut served = Self {
            process,
            url: String::new(),
        };
        let said: Option<Box<dyn Read + Send>> = match told {
            Told::Stdout => served.process.stdout.take().map(|said| Box::new(said) as _),
            Told::Stderr => served.process.stderr.take().map(|said| Box::new(said) as _),
        };
        let mut said = BufReader::new(said.context("what it says")?);
        let mut line = String::new();
        while served.url.is_empty() {
            line.clear();
            let length = said.read_line(&mut line).context("reading its address")?;
            anyhow::ensure!(length > 0, "the server ended before it told its address");
            if let Some(at) = line.rfind("http://") {
                let url = line[at..].split(['"', '\n', ' ']).next();
                url.unwrap_or_default().clone_into(&mut served.url);
            }
        }
        // What else it says must not hold it up.
        thread::spawn(move || drop(std::io::copy(&mut said, &mut std::io::sink())));
        Ok(served)
    }

    /// The URL of its MCP.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // What has ended already cannot be ended again.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

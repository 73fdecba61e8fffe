//! The same scenarios through `orchestra up`, which has the fixture behind it: as a process, over
//! HTTP, and behind another Orchestra; in both eras.
//!
//! Three things that 2026-07-28 requires have no form in a session: the keys of questions, which
//! calls last so that they become tasks, and that each request says anew what its client can be asked
//! for. Two Orchestras tell each other in members of `_meta` that nobody else sees. Behind a server
//! of others that speaks sessions alone, keys are numbered, a call becomes a task where its tool says
//! `taskSupport`, and a question that the caller cannot answer is refused to its server.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};

use super::server::{REVISIONS, Suite};
use crate::{
    run,
    served::{Served, Told},
    test::Tally,
};

/// How the fixture stands behind the hub.
#[derive(Clone, Copy)]
enum Behind {
    Process,
    Http,
    /// As a process of another hub, which is a process of ours.
    Another,
}

/// A hub with the fixture behind it, in one era.
pub(super) struct Hub {
    behind: Behind,
    era: &'static str,
}

/// Every hub.
pub(super) fn hubs() -> impl Iterator<Item = Hub> {
    let behind = [Behind::Process, Behind::Http, Behind::Another].into_iter();
    behind.flat_map(|behind| ["session", "stateless"].map(|era| Hub { behind, era }))
}

impl Hub {
    /// Plays what every revision requires.
    ///
    /// # Errors
    /// When something cannot be started. A scenario that fails is counted.
    pub(super) fn play(&self, suite: &Suite) -> Result<Tally> {
        let Self { behind, era } = *self;
        let mut tally = Tally::default();
        let directory = run::target().join("through").join(behind.name()).join(era);
        // Files of an earlier run.
        let _ = fs::remove_dir_all(&directory);
        for inside in ["outer", "inner", "home"] {
            fs::create_dir_all(directory.join(inside))?;
        }
        let (_fixture, through) = serve(behind, era, &directory)?;
        let of = format!("through up, {era} era over {}, ", behind.name());
        suite.requirements(&of, through.url(), &REVISIONS, &mut tally)?;
        Ok(tally)
    }
}

impl Behind {
    const fn name(self) -> &'static str {
        match self {
            Self::Process => "stdio",
            Self::Http => "http",
            Self::Another => "orchestra stdio",
        }
    }
}

/// Starts the hub with the fixture behind it.
fn serve(behind: Behind, era: &str, directory: &Path) -> Result<(Option<Served>, Served)> {
    let fixture = run::target().join("debug/examples/everything");
    let orchestra = run::target().join("debug/orchestra");
    let process = serde_json::json!({"command": fixture, "args": ["--era", era]});
    let mut over_http = None;
    let server = match behind {
        Behind::Process => process,
        Behind::Http => {
            let mut command = Command::new(&fixture);
            command.args(["--http", "127.0.0.1:0", "--era", era]);
            let served = Served::start(&mut command, Told::Stderr)?;
            let server = serde_json::json!({"type": "http", "url": served.url()});
            over_http = Some(served);
            server
        }
        Behind::Another => {
            let config = directory.join("inner.json");
            write(&config, process)?;
            let inner = directory.join("inner");
            serde_json::json!({"command": orchestra, "args": [
                "stdio", "--workspace", inner, "--mcp-config", config, "--only-servers",
            ]})
        }
    };
    let config = directory.join("mcp.json");
    write(&config, server)?;
    let mut up = Command::new(&orchestra);
    up.args(["up", "--json", "--only-servers", "--http", "127.0.0.1:0"]);
    up.arg("--workspace").arg(directory.join("outer"));
    up.arg("--mcp-config").arg(&config);
    // What it learns of servers is kept for nobody.
    up.env("HOME", directory.join("home"));
    up.env_remove("XDG_STATE_HOME");
    Ok((over_http, Served::start(&mut up, Told::Stdout)?))
}

fn write(path: &Path, mut server: serde_json::Value) -> Result<()> {
    // The suite knows the fixture's own names.
    server["prefix"] = false.into();
    let config = serde_json::json!({"mcpServers": {"everything": server}});
    fs::write(path, config.to_string()).with_context(|| format!("writing {}", path.display()))
}

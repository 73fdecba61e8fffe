//! What a plugin says of itself when it is run with `--manifest`: one JSON object on standard output.
//!
//! It is a program of somebody else, so that its time and its words are bounded, and what it says is
//! taken as what it says.

use std::time::Duration;

use orchestra_gateway::{config::ServerConfig, connect::Connectors};
use orchestra_mcp::client::ChildConfig;
use orchestra_process::Child;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

/// How long it may take. It is to print a text and end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest manifest: a thousand names of each kind.
const MAX_BYTES: u64 = 1024 * 1024;

/// How much of its complaint is shown when it fails.
const COMPLAINT_BYTES: u64 = 2 * 1024;

/// A manifest. What is missing is empty, and what is unknown is passed over: manifests of programs
/// of the past have fewer members, or others beside.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Manifest {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) author: String,
    pub(super) language: String,
    pub(super) provides_tools: Vec<String>,
    pub(super) provides_prompts: Vec<String>,
    pub(super) provides_storage: Vec<String>,
    pub(super) provides_transport: Vec<String>,
    pub(super) provides_ai: Vec<String>,
    pub(super) provides_events: Vec<String>,
    pub(super) needs_tools: Vec<String>,
    pub(super) needs_storage: Vec<String>,
    pub(super) needs_ai: Vec<String>,
    pub(super) needs_events: Vec<String>,
}

/// Asks the program of a plugin for its manifest. Must run inside the runtime.
///
/// # Errors
/// In words: it cannot be started, takes too long, says too much, or says what is no manifest.
pub(super) async fn ask(
    connectors: &Connectors,
    config: &ServerConfig,
) -> Result<Manifest, String> {
    let mut child = connectors.child(config).map_err(|error| error.explain())?;
    child.args.push("--manifest".into());
    match timeout(PATIENCE, said(&child)).await {
        Ok(said) => understand(&said?),
        // Whatever runs is killed with what held it.
        Err(_) => Err(format!(
            "it was run with --manifest and did not end within {} s",
            PATIENCE.as_secs()
        )),
    }
}

async fn said(config: &ChildConfig) -> Result<String, String> {
    let child = config.command().spawn().await;
    let Child {
        stdin: _stdin,
        stdout,
        stderr,
        handle,
    } = child.map_err(|error| error.to_string())?;
    let complaint = tokio::spawn(read(stderr, COMPLAINT_BYTES));
    let text = read(stdout, MAX_BYTES + 1).await;
    // Whoever says more is not heard to the end.
    if text.len() as u64 > MAX_BYTES {
        return Err(format!(
            "its output with --manifest exceeds {MAX_BYTES} bytes"
        ));
    }
    let exit = handle.exited().await;
    if !exit.is_success() {
        let complaint = complaint.await.unwrap_or_default();
        let complaint = complaint.trim();
        let why = if complaint.is_empty() { "" } else { ": " };
        let end = match (exit.code, exit.signal) {
            (Some(code), _) => format!("ended with code {code}"),
            (None, Some(signal)) => format!("was ended by signal {signal}"),
            (None, None) => "was ended".to_owned(),
        };
        return Err(format!(
            "it was run with --manifest and {end}{why}{complaint}"
        ));
    }
    Ok(text)
}

/// Reads so much at most.
async fn read(from: impl AsyncRead + Unpin, most: u64) -> String {
    let mut bytes = Vec::new();
    // What came before an error is what there is.
    let _ = from.take(most).read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn understand(text: &str) -> Result<Manifest, String> {
    let manifest: Manifest = serde_json::from_str(text)
        .map_err(|error| format!("its output with --manifest is not a valid manifest: {error}"))?;
    match manifest.id.is_empty() {
        true => Err("its manifest has no id".to_owned()),
        false => Ok(manifest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_may_lack_members_and_have_others() {
        let manifest = understand(r#"{"id":"engine.rag","binary":"x","needs_events":["a"]}"#);
        let manifest = manifest.unwrap();
        assert_eq!(manifest.id, "engine.rag");
        assert_eq!(manifest.needs_events, ["a"]);
        assert!(manifest.needs_tools.is_empty());
        for bad in ["", "{}", "[]", "usage: x", r#"{"id":1}"#] {
            assert!(understand(bad).is_err(), "{bad}");
        }
    }
}

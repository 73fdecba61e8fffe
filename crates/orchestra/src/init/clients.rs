//! The entry of this program in the configuration of MCP clients.

use std::{ops::RangeInclusive, path::Path};

use axum::http::Uri;
use orchestra_gateway::{
    config::{File, FileKind, Source, Written},
    discovery::{Identity, identify, is_harmless_variable},
};
use serde_json::{Value, json};

use super::{
    jsonc::{Document, Object, Refusal},
    manifest::Manifest,
    steps::{Action, Edit},
};
use crate::commands::mcp::words;

/// The name of the entry.
const ENTRY: &str = "orchestra";

/// Keys of an entry by which no client runs or permits more. [`identify`] compares their values.
const KEYS: [&str; 11] = [
    "args",
    "command",
    "cwd",
    "description",
    "disabled",
    "enabled",
    "env",
    "headers",
    "timeout",
    "type",
    "url",
];

/// The entry of the earlier program.
const EARLIER_ENTRY: &str = "orchestra-mcp";

/// The name and the port of the earlier orchestrator of VS Code, which was reached over HTTP.
const EARLIER_HTTP_ENTRY: &str = "copilot-orchestrator";
const EARLIER_HTTP_PORT: u16 = 39219;

/// An MCP client with a configuration file in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Client {
    /// Claude Code: .mcp.json, and the hooks in .claude/settings.json
    Claude,
    /// VS Code: .vscode/mcp.json
    Vscode,
    /// Cursor: .cursor/mcp.json
    Cursor,
}

impl Client {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Claude, Self::Vscode, Self::Cursor];

    /// Name of the product.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Vscode => "VS Code",
            Self::Cursor => "Cursor",
        }
    }

    /// Its configuration file, relative to the workspace.
    pub(crate) fn path(self) -> &'static Path {
        Path::new(match self {
            Self::Claude => ".mcp.json",
            Self::Vscode => ".vscode/mcp.json",
            Self::Cursor => ".cursor/mcp.json",
        })
    }

    /// The key below which servers are listed.
    const fn servers_key(self) -> &'static str {
        match self {
            Self::Claude | Self::Cursor => "mcpServers",
            Self::Vscode => "servers",
        }
    }

    /// The entry. It holds no path of this machine, so that the file can be committed.
    pub(crate) fn entry(self) -> Value {
        match self {
            // Started in the workspace, where the program finds it by itself.
            Self::Claude => json!({"command": "orchestra", "args": ["stdio"]}),
            Self::Vscode => json!({
                "type": "stdio",
                "command": "orchestra",
                "args": ["stdio", "--workspace", "${workspaceFolder}"],
            }),
            Self::Cursor => json!({
                "command": "orchestra",
                "args": ["stdio", "--workspace", "${workspaceFolder}"],
            }),
        }
    }

    /// Whether its entry is one that was installed.
    pub(crate) fn is_in(self, manifest: &Manifest) -> bool {
        manifest.names(self.path(), ENTRY)
    }

    /// What it starts for the entry of this program, if it has one.
    ///
    /// # Errors
    /// When the file is not what this client's file should be.
    pub(crate) fn command(self, text: &str) -> Result<Option<String>, Refusal> {
        let entry = self.present(text)?;
        Ok(entry.and_then(|entry| entry["command"].as_str().map(str::to_owned)))
    }

    /// The entry with the name of this program, as it is written.
    fn present(self, text: &str) -> Result<Option<Value>, Refusal> {
        let top = Document::parse(Some(text))?.top();
        match top.object(self.servers_key())? {
            Some(servers) => servers.value(ENTRY),
            None => Ok(None),
        }
    }

    /// Refuses the entries that have the name of this program, in whichever table, and start something else, or that
    /// have other [keys](KEYS).
    ///
    /// # Errors
    /// When there is one: what it starts, or the key.
    pub(crate) fn check(
        self,
        text: &str,
        workspace: &Path,
        ports: &RangeInclusive<u16>,
    ) -> Result<(), Refusal> {
        let file = File {
            path: self.path().into(),
            source: Source::Workspace,
            trust: Source::Workspace.trust(),
            directory: workspace.to_owned(),
            kind: FileKind::Servers,
            owners: None,
        };
        let mut entries = file.understand(text).servers;
        entries.retain(|server| server.name.as_str() == ENTRY);
        for entry in &entries {
            let why = match &entry.config {
                Err(reason) => match self.command(text)? {
                    Some(command) => {
                        format!(
                            "it starts `{}`: {reason}",
                            orchestra_secret::excerpt(&command, 256)
                        )
                    }
                    None => reason.clone(),
                },
                Ok(config) => match (identify(config, ports), &entry.misreading) {
                    (Identity::Own, None) => continue,
                    (_, Some(why)) => format!("{why}: {}", words::runs_at_length(config)),
                    (Identity::Impostor(why), None) => {
                        format!("{why}: {}", words::runs_at_length(config))
                    }
                    (Identity::Namesake | Identity::Other, None) => {
                        format!("it starts {}", words::runs_at_length(config))
                    }
                },
            };
            return Err(Refusal(format!(
                "its `{}` entry is not this program: {why}; remove the entry, or give it another name",
                orchestra_secret::excerpt(&entry.shown_name, 64)
            )));
        }
        check_keys(&entries)
    }

    /// Puts the entry in.
    ///
    /// # Errors
    /// When the file is not what this client's file should be, or has an entry of this name that starts something
    /// else.
    pub(crate) fn add(
        self,
        text: Option<&str>,
        manifest: &mut Manifest,
        workspace: &Path,
        ports: &RangeInclusive<u16>,
    ) -> Result<Edit, Refusal> {
        let document = Document::parse(text)?;
        let has_earlier_http = remove_earlier_http(&document.top(), self.servers_key())?;
        let edit = self.put(&document, text, manifest, workspace, ports)?;
        if !has_earlier_http {
            return Ok(edit);
        }
        let why = "the HTTP entry of an earlier orchestrator was removed";
        Ok(Edit::because(Action::Updated, why)
            .with_backup()
            .with_text(document.text()?))
    }

    fn put(
        self,
        document: &Document,
        text: Option<&str>,
        manifest: &mut Manifest,
        workspace: &Path,
        ports: &RangeInclusive<u16>,
    ) -> Result<Edit, Refusal> {
        let servers = document.top().object_or_new(self.servers_key())?;
        let (present, earlier) = (servers.object(ENTRY)?, servers.object(EARLIER_ENTRY)?);
        // What the user set as the server's environment stays, whatever else becomes of the entry.
        let entry = match present.as_ref().or(earlier.as_ref()) {
            Some(known) => match with_environment(self.entry(), known) {
                Ok(entry) => entry,
                Err(refusal) => {
                    self.check(text.unwrap_or_default(), workspace, ports)?;
                    return Err(refusal);
                }
            },
            None => self.entry(),
        };
        let edit = match (servers.value(ENTRY)?, &earlier) {
            (None, None) => {
                servers.set(ENTRY, &entry)?;
                Edit::done(Action::written(text.is_some()))
            }
            (None, Some(_)) => {
                servers.replace(EARLIER_ENTRY, ENTRY, &entry)?;
                replaced()
            }
            (Some(_), Some(_)) => {
                self.check(text.unwrap_or_default(), workspace, ports)?;
                servers.remove(EARLIER_ENTRY)?;
                return Ok(replaced().with_text(document.text()?));
            }
            // Whoever wrote it: what was not written here is not taken out either.
            (Some(present), None) if present == entry => {
                self.check(text.unwrap_or_default(), workspace, ports)?;
                return Ok(Edit::done(Action::Unchanged));
            }
            (Some(present), None) if manifest.has_value(self.path(), ENTRY, &present) => {
                servers.set(ENTRY, &entry)?;
                Edit::done(Action::Updated)
            }
            (Some(_), None) => {
                self.check(text.unwrap_or_default(), workspace, ports)?;
                return Ok(edited());
            }
        };
        let written = document.text()?;
        // Another entry of the file may have the name of this program as well.
        self.check(&written, workspace, ports)?;
        manifest.add_value(self.path(), ENTRY, &entry);
        Ok(edit.with_text(written))
    }

    /// Takes the entry out, unless it was edited or was there before.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(crate) fn remove(
        self,
        text: &str,
        manifest: &mut Manifest,
        workspace: &Path,
        ports: &RangeInclusive<u16>,
    ) -> Result<Edit, Refusal> {
        let document = Document::parse(Some(text))?;
        let top = document.top();
        let Some(servers) = top.object(self.servers_key())? else {
            return Ok(Edit::done(Action::Unchanged));
        };
        let Some(present) = servers.value(ENTRY)? else {
            return Ok(Edit::done(Action::Unchanged));
        };
        let ours = manifest.has_value(self.path(), ENTRY, &present);
        manifest.forget_value(self.path(), ENTRY);
        if !ours {
            self.check(text, workspace, ports)?;
            return Ok(edited());
        }
        servers.remove(ENTRY)?;
        if servers.is_empty() {
            top.remove(self.servers_key())?;
        }
        Ok(Edit::done(Action::Updated).with_text(document.text()?))
    }
}

/// Refuses entries of this program with other [keys](KEYS).
fn check_keys(entries: &[Written]) -> Result<(), Refusal> {
    let mut keys = entries.iter().flat_map(|entry| &entry.keys);
    match keys.find(|key| !KEYS.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Refusal(format!(
            "its `{ENTRY}` entry has the key `{}`, by which the client may run or permit more than the entry of \
             `orchestra init`; remove that key",
            orchestra_secret::excerpt(key, 64)
        ))),
    }
}

/// Removes the HTTP entries of the earlier orchestrator, wherever its documents had servers listed; a
/// list that is no object has none. Returns whether there were any.
fn remove_earlier_http(top: &Object, own_key: &str) -> Result<bool, Refusal> {
    let mut found = false;
    for key in ["servers", "mcpServers"] {
        if !top.value(key)?.is_some_and(|list| list.is_object()) {
            continue;
        }
        let Some(list) = top.object(key)? else {
            continue;
        };
        for name in list.names() {
            if list
                .value(&name)?
                .is_some_and(|entry| is_earlier_http(&name, &entry))
            {
                list.remove(&name)?;
                found = true;
            }
        }
        if found && key != own_key && list.is_empty() {
            top.remove(key)?;
        }
    }
    Ok(found)
}

fn is_earlier_http(name: &str, entry: &Value) -> bool {
    let is_http = entry.get("type").is_none_or(|kind| kind == "http");
    let Some(url) = entry["url"].as_str().filter(|_| is_http) else {
        return false;
    };
    let is_local = |host: &str| ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    let is_its_address = url.parse::<Uri>().is_ok_and(|url| {
        url.port_u16() == Some(EARLIER_HTTP_PORT) && url.host().is_some_and(is_local)
    });
    name == EARLIER_HTTP_ENTRY || is_its_address
}

/// The outcome of an entry that took the place of the earlier program's.
fn replaced() -> Edit {
    Edit::because(Action::Updated, "the entry `orchestra-mcp` was replaced").with_backup()
}

/// The outcome of an entry that is the user's by now.
fn edited() -> Edit {
    Edit::because(
        Action::Kept,
        "its `orchestra` entry was edited, or was not created by Orchestra",
    )
}

/// The entry with the environment of another one.
fn with_environment(mut entry: Value, other: &Object) -> Result<Value, Refusal> {
    if let Some(environment) = other.value("env")? {
        let mut names = environment.as_object().into_iter().flatten();
        if let Some((name, _)) = names.find(|(name, _)| !is_harmless_variable(name)) {
            return Err(Refusal(format!(
                "its entry sets the variable {name}, which only you may do; remove that variable"
            )));
        }
        entry["env"] = environment;
    }
    Ok(entry)
}

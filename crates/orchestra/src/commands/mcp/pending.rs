//! What of a server waits to be approved.

use orchestra_gateway::{
    Change, Needs, NeedsFile, PinFile,
    approval::{Fingerprint, Waits},
    config::ServerConfig,
    discovery::{Server, ServerState},
};
use sha2::{Digest as _, Sha256};

use super::{
    Here,
    shown::{self, shown},
};
use crate::hex::hex;
use crate::{exit::Failure, servers};

/// What of a server waits to be approved.
pub(crate) enum Pending<'s> {
    /// It is not to be started before.
    Start(Start<'s>),
    /// Something of it is not used before.
    More(More),
}

/// A server that is not to be started yet.
pub(crate) struct Start<'s> {
    server: &'s Server,
    config: &'s ServerConfig,
    fingerprint: &'s Fingerprint,
    why: &'s Waits,
}

/// What a server that is used has not got yet.
pub(crate) struct More {
    pins: PinFile,
    /// Tools that are not shown.
    changes: Vec<Change>,
    /// Why it is not known what was approved of its tools.
    damage: Option<String>,
    needed: NeedsFile,
    /// What it needs as a plugin.
    needs: Needs,
}

impl<'s> Pending<'s> {
    /// What waits of a server.
    ///
    /// # Errors
    /// When the user has no home.
    pub(crate) fn of(server: &'s Server) -> Result<Option<Self>, Failure> {
        Ok(match &server.state {
            ServerState::NeedsApproval {
                config,
                fingerprint,
                why,
            } => Some(Self::Start(Start {
                server,
                config,
                fingerprint,
                why,
            })),
            ServerState::Usable(config) => {
                let state = servers::state_directory()?;
                let pins = PinFile::new(&state, config);
                let needed = NeedsFile::new(&state, config);
                let (changes, damage) = (pins.changes(), pins.damage());
                // One that is damaged is told of when the plugin registers, and asked for then.
                let needs = needed.waiting().unwrap_or_default();
                let waits = !changes.is_empty() || damage.is_some() || !needs.is_empty();
                waits.then_some(Self::More(More {
                    pins,
                    changes,
                    damage,
                    needed,
                    needs,
                }))
            }
            _ => None,
        })
    }

    /// In lines, for programs: with the words of the file and of the server as they are.
    pub(crate) fn shown(&self) -> Vec<String> {
        match self {
            Self::Start(start) => {
                let mut lines = Vec::from_iter(shown::reason(start.why));
                lines.extend(shown::replaced(start.server));
                lines.extend(shown(start.config, &start.server.covered));
                lines
            }
            Self::More(More {
                changes,
                damage,
                needs,
                ..
            }) => {
                let mut lines = Vec::new();
                for (kind, names) in needs.by_kind() {
                    if !names.is_empty() {
                        let names = names.join(", ");
                        lines.push(format!("needs more than was approved: {kind} {names}"));
                    }
                }
                if let Some(damage) = damage {
                    lines.push(format!(
                        "the record of its approved tools is damaged: {damage}"
                    ));
                    if changes.is_empty() {
                        lines.push(
                            "its tools are hidden, and are listed here once the server has run"
                                .into(),
                        );
                    }
                }
                for change in changes {
                    let tool = &change.tool;
                    match &change.before {
                        Some(before) => {
                            lines.push(format!("changed its tool {tool}"));
                            lines.push(format!("from {}", before.as_str()));
                        }
                        None => lines.push(format!("has the tool {tool}")),
                    }
                    let word = change.before.as_ref().map_or("as", |_| "to");
                    lines.push(format!("{word} {}", change.after.as_str()));
                }
                lines
            }
        }
    }

    /// Fingerprint of what is shown, as hexadecimal digits.
    pub(crate) fn fingerprint(&self) -> String {
        match self {
            Self::Start(start) => start.fingerprint.as_str().to_owned(),
            // The lines have the whole of each definition.
            Self::More(_) => hex(&Sha256::digest(self.shown().join("\n").as_bytes())),
        }
    }

    /// Tools that are hidden since they changed.
    pub(crate) fn changes(&self) -> &[Change] {
        match self {
            Self::Start(_) => &[],
            Self::More(more) => &more.changes,
        }
    }

    /// Approves it as it was shown; whether there was something that could be.
    ///
    /// # Errors
    /// When it is another now, or that cannot be kept.
    pub(crate) fn approve(&self, here: &Here, server: &Server) -> Result<bool, Failure> {
        match self {
            Self::Start(start) => {
                let name = &server.name;
                let again = here.again()?;
                let now = again.server(name.as_str()).map(|server| &server.state);
                let is_same = matches!(now, Ok(ServerState::NeedsApproval { fingerprint, .. })
                    if fingerprint == start.fingerprint);
                if !is_same {
                    return Err(Failure::denied(format!(
                        "{name} changed after it was shown, and is not approved; look at it again"
                    )));
                }
                let workspace = &here.places.workspace;
                here.decide(|decisions| decisions.approve(workspace, name, start.fingerprint))?;
                Ok(true)
            }
            // Those that were shown, and no others that came meanwhile.
            Self::More(More {
                pins,
                changes,
                needed,
                needs,
                ..
            }) => {
                let now = pins.changes();
                let seen = changes.iter().filter(|change| now.contains(change));
                let seen: Vec<&str> = seen.map(|change| change.tool.as_str()).collect();
                if !seen.is_empty() {
                    pins.approve(&seen)?;
                }
                if !needs.is_empty() {
                    needed.approve(needs)?;
                    // It is given what it needs when it registers.
                    let workspace = &here.places.workspace;
                    here.decide(|decisions| decisions.restart(workspace, &server.name))?;
                }
                Ok(!changes.is_empty() || !needs.is_empty())
            }
        }
    }
}

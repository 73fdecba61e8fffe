//! What of a server waits to be approved.

use orchestra_gateway::{
    Change, Needs, NeedsFile, PinFile,
    config::ServerConfig,
    discovery::{Server, ServerState},
};

use super::{Here, shown::shown};
use crate::{exit::Failure, servers};

/// What of a server waits to be approved.
pub(crate) enum Pending<'s> {
    /// It is not to be started before.
    Start(&'s ServerConfig),
    /// Something of it is not used before.
    More(More),
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
            ServerState::NeedsApproval { config, .. } => Some(Self::Start(config)),
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
            Self::Start(config) => shown(config),
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
                    lines.push(format!("what was approved of its tools is lost: {damage}"));
                    if changes.is_empty() {
                        lines.push("they are hidden, and shown here once it has run".into());
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

    /// Tools that are hidden since they changed.
    pub(crate) fn changes(&self) -> &[Change] {
        match self {
            Self::Start(_) => &[],
            Self::More(more) => &more.changes,
        }
    }

    /// Approves it; whether there was something that could be.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub(crate) fn approve(&self, here: &Here, server: &Server) -> Result<bool, Failure> {
        match self {
            Self::Start(config) => {
                here.decide(|decisions| decisions.approve(&here.places.workspace, config))?;
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

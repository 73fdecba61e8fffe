//! What becomes of a server that another program knows.

use std::collections::BTreeSet;

use orchestra_gateway::{
    config::{ServerConfig, Transport, Values, Written},
    discovery::{Identity, identify},
    expand::{self, Reference},
};
use serde_json::{Map, Value};

use super::super::{Here, words};
use crate::servers;

/// What becomes of a server, and why.
#[derive(Default)]
pub(super) struct Verdict {
    /// A stable word for programs.
    pub(super) result: &'static str,
    /// Keys in which it differs from the one that is known.
    pub(super) differs: Vec<String>,
    /// Why, and what to do.
    pub(super) reason: Option<String>,
}

impl Verdict {
    /// A server of one project, where what is taken would be for all of them.
    pub(super) fn of_project(here: &Here, config: &ServerConfig) -> Self {
        match Self::of(here, &[], config, true) {
            verdict if verdict.result == "would_add" => Self {
                result: "left_out",
                reason: Some(
                    "it belongs to this project there: --scope workspace takes it".to_owned(),
                ),
                ..Self::default()
            },
            verdict => verdict,
        }
    }

    /// Whether a server is taken, beside those that were chosen before it.
    pub(super) fn of(here: &Here, chosen: &[Written], config: &ServerConfig, is_dry: bool) -> Self {
        match identify(config, &here.places.ports) {
            Identity::Own => {
                return Self {
                    result: "own",
                    ..Self::default()
                };
            }
            Identity::Impostor(why) => {
                return Self {
                    result: "left_out",
                    reason: Some(format!("it has the name of this program, but {why}")),
                    ..Self::default()
                };
            }
            Identity::Namesake | Identity::Other => {}
        }
        let reason = match &config.transport {
            Transport::Plugin(_) => Some(
                "it is a plugin: write it below `plugins` in `orchestra.toml`, or into `plugins.yaml`",
            ),
            Transport::Orchestrator(_) => {
                Some("it is an orchestrator, and its certificates are here: write it by hand")
            }
            Transport::Stdio(_) | Transport::Http(_) => None,
        };
        if let Some(reason) = reason {
            return Self {
                result: "left_out",
                reason: Some(reason.to_owned()),
                ..Self::default()
            };
        }
        let server = here.found.server(config.name.as_str());
        let same = chosen.iter().find(|one| one.name == config.name);
        if server.is_some() || same.is_some() {
            let known = server
                .and_then(|server| server.config())
                .map(|known| &**known);
            let known = known.or_else(|| same?.config.as_ref().ok().map(|known| &**known));
            return Self {
                result: "known",
                differs: known
                    .map(|known| differing(known, config))
                    .unwrap_or_default(),
                ..Self::default()
            };
        }
        Self {
            result: if is_dry { "would_add" } else { "added" },
            reason: notes(here, config),
            ..Self::default()
        }
    }
}

/// The keys in which two servers differ.
fn differing(known: &ServerConfig, other: &ServerConfig) -> Vec<String> {
    let keys = |config: &ServerConfig| match config.to_json(Values::Kept) {
        Value::Object(keys) => keys,
        _ => Map::new(),
    };
    let (known, other) = (keys(known), keys(other));
    let names: BTreeSet<&String> = known.keys().chain(other.keys()).collect();
    let differ = names.into_iter();
    let differ = differ.filter(|name| known.get(*name) != other.get(*name));
    differ.cloned().collect()
}

/// What is left to do about a server that is imported.
fn notes(here: &Here, config: &ServerConfig) -> Option<String> {
    let notes = [to_be_set(here, config), words::clear_secrets(config)];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// The variables that stand for what another program asks for, where they are not set.
fn to_be_set(here: &Here, config: &ServerConfig) -> Option<String> {
    let scope = servers::scope(&here.places.workspace);
    let mut unset = Vec::new();
    for reference in expand::references(config) {
        if let (Reference::Input(id), Some(variable)) = (&reference, reference.variable())
            && scope.variable(&variable).is_err()
        {
            unset.push(format!("set {variable}, for ${{input:{id}}}"));
        }
    }
    (!unset.is_empty()).then(|| unset.join("; "))
}

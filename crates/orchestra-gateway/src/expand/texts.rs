//! Every text of a server, and what they refer to.

use super::{
    Reference,
    parts::{Part, Parts, reference},
};
use crate::config::{Auth, HttpConfig, Sandbox, ServerConfig, Template, Transport};

/// What the texts of a server refer to, each once, in order.
#[must_use]
pub fn references(config: &ServerConfig) -> Vec<Reference> {
    let parts = texts(config)
        .into_iter()
        .flat_map(|text| Parts(text.written()));
    let mut found: Vec<Reference> = parts
        .filter_map(|part| match part {
            Ok(Part::Reference(text)) => reference(text.split(":-").next().unwrap_or(text)),
            _ => None,
        })
        .collect();
    if let Transport::Http(HttpConfig {
        auth: Some(Auth::Env(name)),
        ..
    }) = &config.transport
    {
        found.push(Reference::Variable(name.clone()));
    }
    found.sort();
    found.dedup();
    found
}

/// Every text of a server that may refer to something.
pub(super) fn texts(config: &ServerConfig) -> Vec<&Template> {
    let mut texts: Vec<&Template> = config.roots.iter().collect();
    if let Sandbox::Workspace { read, write } = &config.sandbox {
        texts.extend(read.iter().chain(write));
    }
    match &config.transport {
        Transport::Stdio(stdio) => {
            texts.push(&stdio.command);
            texts.extend(&stdio.args);
            texts.extend(&stdio.cwd);
            texts.extend(stdio.env.values());
            texts.extend(&stdio.env_file);
        }
        Transport::Http(http) => {
            texts.push(&http.url);
            texts.extend(http.headers.iter().map(|(_, value)| value));
            texts.extend(&http.ca_file);
            if let Some((certificate, key)) = &http.client_cert {
                texts.push(certificate);
                texts.extend(key);
            }
            match &http.auth {
                None | Some(Auth::Env(_)) => {}
                Some(Auth::Bearer(token)) => texts.push(token),
                Some(Auth::Command { command, args }) => {
                    texts.push(command);
                    texts.extend(args);
                }
                Some(Auth::OAuth(oauth)) => texts.extend(oauth.texts()),
            }
        }
        Transport::Plugin(plugin) => {
            texts.push(&plugin.binary);
            texts.extend(&plugin.args);
            texts.extend(&plugin.cwd);
            texts.extend(plugin.env.values());
            texts.extend(plugin.config.values());
        }
        Transport::Orchestrator(there) => {
            texts.push(&there.address);
            texts.extend(&there.certs_dir);
        }
    }
    texts
}

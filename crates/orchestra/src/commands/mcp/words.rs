//! A server in words: what it runs or reaches, without secrets, and why it is not used.

use std::collections::BTreeMap;

use orchestra_gateway::{
    NameCollision, PinFile,
    config::{ServerConfig, Template, Transport, Trust},
    discovery::{Found, Server, ServerState},
};
use orchestra_mcp::client::ascii_address;
use orchestra_process::{Launcher, mounts_allowed};
use orchestra_secret::{Masker, is_secret_name};

use super::shown;
use crate::servers;

/// How much is shown of what a server runs.
const TARGET_CHARS: usize = 60;

/// Maximum length of a command line that a user is to judge.
const LONG_CHARS: usize = 500;

/// The tools of the servers that are used which are not shown, for others have their names: by what was
/// `listed` now, else by what each has listed last.
pub(super) fn collisions(
    found: &Found,
    listed: &BTreeMap<String, Vec<String>>,
) -> Vec<NameCollision> {
    let Ok(state) = servers::state_directory() else {
        return Vec::new();
    };
    let servers = found.usable().map(|config| {
        let now = listed.get(config.name.as_str()).cloned();
        let tools = now.unwrap_or_else(|| PinFile::new(&state, config).tools());
        (&**config, tools)
    });
    let is_built_in = |name: &str| {
        orchestra_tools::only_reads(name).is_some() || orchestra_hub::SEARCH_TOOLS.contains(&name)
    };
    let names = found.names();
    NameCollision::among(servers, is_built_in, |name| names.contains(name))
}

/// What else can be done about tools that changed since they were approved.
pub(super) fn follow(server: &Server) -> Option<String> {
    let advice = server.config()?.follow_advice();
    let name = server.display_name();
    Some(match can_follow(server) {
        true => format!("{advice}; `orchestra mcp approve {name} --follow` writes that"),
        false => advice,
    })
}

/// Whether `pins` of a server can be written into its file: one of the user in JSON.
pub(super) fn can_follow(server: &Server) -> bool {
    let file = &server.origin.file;
    let is_json = file
        .extension()
        .is_some_and(|extension| extension == "json");
    server.origin.trust == Trust::Trusted && is_json
}

/// The program with its arguments, cut short, or the address.
pub(in crate::commands) fn runs(config: &ServerConfig) -> String {
    runs_in(config, TARGET_CHARS)
}

/// The same, with a higher limit.
pub(crate) fn runs_at_length(config: &ServerConfig) -> String {
    runs_in(config, LONG_CHARS)
}

fn runs_in(config: &ServerConfig, chars: usize) -> String {
    let (program, args) = match &config.transport {
        Transport::Stdio(stdio) => (&stdio.command, &stdio.args),
        Transport::Plugin(plugin) => (&plugin.binary, &plugin.args),
        Transport::Http(_) | Transport::Orchestrator(_) => return target(config),
    };
    let words = [program.written()].into_iter();
    let words: Vec<&str> = words.chain(args.iter().map(Template::written)).collect();
    let mut text = Masker::table().arguments(&words).join(" ");
    if text.chars().count() > chars {
        text = text.chars().take(chars - 1).collect();
        text.push('…');
    }
    text
}

/// The program, or the address in ASCII without user, password and query.
pub(in crate::commands) fn target(config: &ServerConfig) -> String {
    match &config.transport {
        Transport::Stdio(stdio) => stdio.command.written().to_owned(),
        Transport::Plugin(plugin) => plugin.binary.written().to_owned(),
        Transport::Orchestrator(there) => ascii_address(there.address.written()),
        Transport::Http(http) => {
            let url = http.url.written();
            let url = url.split(['?', '#']).next().unwrap_or(url);
            let address = match url.split_once("://") {
                Some((scheme, rest)) => {
                    let end = rest.find('/').unwrap_or(rest.len());
                    let host = rest[..end].rsplit('@').next().unwrap_or_default();
                    format!("{scheme}://{host}{}", &rest[end..])
                }
                None => url.to_owned(),
            };
            ascii_address(&address)
        }
    }
}

/// Why a server is not used, and what to do.
pub(crate) fn reason(server: &Server) -> Option<String> {
    let name = server.display_name();
    match &server.state {
        ServerState::Usable(_) => None,
        ServerState::Disabled { by_hand: true, .. } => Some(format!(
            "disabled in this workspace; `orchestra mcp enable {name}` enables it"
        )),
        ServerState::Disabled { .. } => Some(format!(
            "its file disables it; `orchestra mcp enable {name}` enables it"
        )),
        ServerState::NeedsApproval { why, .. } => {
            let why = shown::reason(why);
            let why = why.unwrap_or_else(|| "it came with the workspace".to_owned());
            Some(format!(
                "{why}; `orchestra mcp approve {name}` shows and approves it"
            ))
        }
        ServerState::Invalid { reason } => Some(reason.clone()),
        ServerState::Own => Some("it is this program".into()),
    }
}

/// Reason for which a server of a workspace needs no approval.
pub(crate) fn trust(server: &Server) -> Option<String> {
    let directory = server.trusted_by.as_deref()?;
    let directory = directory.display();
    Some(format!(
        "needs no approval: your `trusted_directories` has {directory}"
    ))
}

/// The secrets that a server's definition contains in clear text, and the remedy.
pub(super) fn clear_secrets(config: &ServerConfig) -> Option<String> {
    let is_clear = |(name, value): &(&String, &Template)| {
        let value = value.written();
        is_secret_name(name) && !value.is_empty() && !value.contains("${")
    };
    let names: Vec<&str> = match &config.transport {
        Transport::Stdio(stdio) => stdio.env.iter().filter(is_clear).map(first).collect(),
        Transport::Http(http) => {
            let headers = http.headers.iter().map(|(name, value)| (name, value));
            headers.filter(is_clear).map(first).collect()
        }
        Transport::Plugin(_) | Transport::Orchestrator(_) => Vec::new(),
    };
    let list = names.join(", ");
    (!names.is_empty())
        .then(|| format!("the file contains {list} in clear text; write ${{VARIABLE}} instead"))
}

fn first<'n>((name, _): (&'n String, &Template)) -> &'n str {
    name
}

/// Returns whether a server runs in a sandbox.
pub(super) fn is_sandboxed(server: &Server) -> bool {
    let mut config = server.config().into_iter();
    config.any(|config| config.sandbox.is_some())
}

/// Returns how the sandbox protects the workspace on this system, if one of the servers has one.
pub(super) fn sandbox<'a>(servers: impl IntoIterator<Item = &'a Server>) -> Option<String> {
    servers.into_iter().find(|server| is_sandboxed(server))?;
    Some(protection())
}

/// Returns how a sandbox protects the workspace on this system.
pub(crate) fn protection() -> String {
    const AT_THE_TOP: &str =
        "sandboxed; creates, renames and removes nothing at the top of the workspace";
    let launcher = Launcher::this_program().map_err(|error| error.to_string());
    match launcher.and_then(|launcher| mounts_allowed(&launcher)) {
        Ok(()) => AT_THE_TOP.to_owned(),
        Err(what) => format!(
            "{AT_THE_TOP}; not in a mount namespace ({what}), so it can change settings in subdirectories, and \
             modes and times everywhere"
        ),
    }
}

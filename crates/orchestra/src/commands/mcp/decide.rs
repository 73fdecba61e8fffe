//! `orchestra mcp approve`, `enable`, `disable` and `restart`: what the user decides of servers.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    time::Instant,
};

use clap::Args;
use orchestra_gateway::{
    PinFile,
    config::{ServerName, Trust},
    discovery::{Server, ServerState},
};
use orchestra_hub::{Action, CallEnd, Caller};
use serde::Serialize;
use serde_json::json;

use super::{
    Here,
    done::{self, Done},
    edit::Target,
    pending::Pending,
    words,
};
use crate::{
    cli::examples,
    config::Config,
    exit::{Exit, Failure},
    output::{self, Format},
    servers, serving, workspace,
};

/// Approve servers that the workspace configures, and changes of their tools
///
/// Shows what is approved: the command of a server, or the changes of its tools. An approval applies to the
/// server as it is, in this directory. It is required again if the definition of the server changes, or a file
/// of the workspace that its command line or environment names, or that is its package manifest or lock file.
/// Files that these load are not covered. A tool whose description changes is hidden until it is approved. A
/// permission that a plugin requests later is not granted until it is approved.
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp approve", "mcp approve docs", "mcp approve docs --revoke"]))]
pub(super) struct Approve {
    /// Names of the servers [default: show all that wait for approval]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Approve all servers that wait for approval
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Do not ask for consent
    #[arg(long, short)]
    yes: bool,
    /// Fingerprint of the server, as printed by --json. If the server has not changed since, it is approved without
    /// asking
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["all", "revoke"], requires = "names")]
    fingerprint: Option<String>,
    /// Accept all later changes of the tools of these servers without asking. For a server in your own file, sets
    /// `"pins": "follow"` there; for a server of the workspace, records it with the approval
    #[arg(long, conflicts_with_all = ["all", "fingerprint", "revoke"], requires = "names")]
    follow: bool,
    /// Revoke the approvals of the named servers
    #[arg(long, conflicts_with_all = ["all", "yes"], requires = "names")]
    revoke: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Enable servers in this workspace, even if their configuration files disable them
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp enable docs"]))]
pub(super) struct Enable {
    /// Names of the servers
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Disable servers in this workspace
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp disable docs"]))]
pub(super) struct Disable {
    /// Names of the servers
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Restart servers in all Orchestra processes of this workspace
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp restart docs"]))]
pub(in crate::commands) struct Restart {
    /// Names of the servers or plugins
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Restart {
    /// Which are to be started anew.
    pub(in crate::commands) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Maximum number of characters of a line in the list of servers that wait for approval.
const MAX_LINE: usize = 2_000;

/// Maximum number of bytes of a definition about which the user is asked: some screens of a terminal.
const MAX_DEFINITION_BYTES: usize = 16 * 1024;

/// Maximum number of bytes of changed tools about which the user is asked. Each has a whole definition, on a line of at
/// most [`MAX_DEFINITION_BYTES`].
const MAX_TOOLS_BYTES: usize = 256 * 1024;

#[derive(Serialize)]
struct Decided<'a> {
    name: &'a str,
    result: &'static str,
    shows: Vec<String>,
    /// Names what was shown, for an approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    /// What else can be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

pub(super) fn approve(here: &Here, config: &Config, arguments: &Approve) -> Result<Exit, Failure> {
    if arguments.revoke {
        return revoke(here, config, arguments);
    }
    if arguments.follow {
        return follow(here, config, arguments);
    }
    let shows_all = arguments.names.is_empty();
    let servers: Vec<&Server> = if shows_all {
        here.found.servers.iter().collect()
    } else {
        let named = arguments.names.iter().map(|name| here.server(name));
        named.collect::<Result<_, _>>()?
    };
    if arguments.fingerprint.is_some() && servers.len() != 1 {
        return Err(Failure::usage_text("--fingerprint is for one server"));
    }
    let format = Format::of_flag(arguments.json);
    let mut decided = Vec::new();
    let mut exit = Exit::Ok;
    for server in servers {
        let pending = Pending::of(server)?;
        let fingerprint = pending.as_ref().map(Pending::fingerprint);
        let has_changed = |pending: &Pending<'_>| !pending.changes().is_empty();
        let hint = pending.as_ref().filter(|pending| has_changed(pending));
        let hint = hint.and_then(|_| words::follow(server));
        let (result, shows) = match (pending, &server.state) {
            (Some(pending), _) => {
                let shows = pending.shown();
                let approves = match (shows_all && !arguments.all, &arguments.fingerprint) {
                    (true, _) => None,
                    (false, Some(seen)) if fingerprint.as_ref() != Some(seen) => {
                        return Err(Failure::denied(format!(
                            "{} has changed since this fingerprint was shown, and is not approved; run \
                             `orchestra mcp approve` again",
                            server.name
                        )));
                    }
                    (false, Some(_)) => Some(true),
                    (false, None) => {
                        Some(arguments.yes || asked(server, &pending, hint.as_deref(), format)?)
                    }
                };
                match approves {
                    Some(true) if pending.approve(here, server)? => {
                        record(config, "approve", CallEnd::Answered, server.display_name());
                        ("approved", shows)
                    }
                    Some(_) => {
                        record(config, "approve", CallEnd::Denied, server.display_name());
                        exit = Exit::Denied;
                        ("not approved", shows)
                    }
                    None => ("waits", shows),
                }
            }
            _ if shows_all => continue,
            (None, ServerState::Invalid { reason }) => {
                exit = Exit::Refused;
                ("invalid", vec![reason.clone()])
            }
            (None, _) => ("needs no approval", Vec::new()),
        };
        decided.push(Decided {
            name: server.display_name(),
            result,
            shows,
            fingerprint,
            hint,
        });
    }
    format.print(&decided, |decided| text(decided, arguments))?;
    Ok(exit)
}

/// Records an action on a server at once, because a later server may end the command. A workspace without a board has
/// no audit log.
fn record(config: &Config, verb: &str, end: CallEnd, name: &str) {
    if !workspace::has_board(&config.workspace) {
        return;
    }
    if let Some(audit) = serving::audit(config) {
        audit.record_action(Action {
            caller: Caller {
                face: "cli",
                client: None,
            },
            name: format!("{verb} server {name}"),
            end,
            began: Instant::now(),
            trace: None,
        });
    }
}

fn text(decided: &[Decided<'_>], arguments: &Approve) -> String {
    let shows = arguments.names.is_empty() && !arguments.all;
    let mut text = String::new();
    for one in decided {
        text.push_str(&format!("{}: {}\n", one.name, one.result));
        if shows || arguments.yes || arguments.fingerprint.is_some() {
            for line in &one.shows {
                let line = match shows {
                    true => start_of(line),
                    false => output::in_a_line(line),
                };
                text.push_str(&format!("  {line}\n"));
            }
            if let Some(hint) = &one.hint {
                text.push_str(&format!("  hint: {hint}\n"));
            }
        }
    }
    match (decided.is_empty(), shows) {
        (true, _) => text.push_str("no server waits for approval\n"),
        (false, true) => text.push_str("`orchestra mcp approve NAME` approves one\n"),
        _ => {}
    }
    output::printable(&text).into_owned()
}

/// One line of a list. Texts of a file make no lines of their own. The line names the command that shows what was cut.
fn start_of(shown: &str) -> String {
    let cut = shown.char_indices().nth(MAX_LINE);
    let (start, rest) = shown.split_at(cut.map_or(shown.len(), |(at, _)| at));
    let mut line = output::in_a_line(start);
    if !rest.is_empty() {
        let more = rest.chars().count();
        line.push_str(&format!(
            "… and {more} characters more, which `orchestra mcp approve --json` shows"
        ));
    }
    line
}

/// Shows all of a server and asks at the terminal. Where there is none, only `--yes` approves. Nothing is asked about a
/// text that would not stay on the terminal. With `--json`, the document has all of the text.
fn asked(
    server: &Server,
    pending: &Pending<'_>,
    hint: Option<&str>,
    format: Format,
) -> Result<bool, Failure> {
    let name = server.display_name();
    let no_terminal =
        format!("`{name}` is not approved: no terminal to ask on; --yes approves what is shown");
    if format == Format::Json {
        output::complain(&output::printable(&no_terminal));
        return Ok(false);
    }
    let origin = output::in_a_line(&server.origin.to_string());
    let mut question = format!("{name} from {origin}\n");
    let mut longest = 0;
    for line in pending.shown() {
        let line = output::in_a_line(&line);
        longest = longest.max(line.len());
        question.push_str(&format!("  {line}\n"));
    }
    if let Some(hint) = hint {
        question.push_str(&format!("  hint: {hint}\n"));
    }
    let (bytes, most) = match pending.changes() {
        [] => (question.len(), MAX_DEFINITION_BYTES),
        _ if longest > MAX_DEFINITION_BYTES => (longest, MAX_DEFINITION_BYTES),
        _ => (question.len(), MAX_TOOLS_BYTES),
    };
    if bytes > most {
        let most = output::size(most as u64);
        return Err(Failure::denied(format!(
            "`{name}` is not approved: a definition of it has {bytes} bytes as shown, and Orchestra does not ask about \
             more than {most}; shorten the definition, or read it with `orchestra mcp approve {name} --json` and \
             approve it with --fingerprint"
        )));
    }
    if !io::stdin().is_terminal() {
        output::complain(&output::printable(question.trim_end()));
        return Err(Failure::denied(no_terminal));
    }
    output::complain(&output::printable(&format!("{question}Approve it? [y/N]")));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Takes changes of the tools of servers without a question: by the user's own file, or by a decision
/// where the file belongs to the workspace.
fn follow(here: &Here, config: &Config, arguments: &Approve) -> Result<Exit, Failure> {
    const TAKEN: &str = "changes of its tools are accepted without a question";
    let named = arguments.names.iter().map(|name| here.server(name));
    let servers: Vec<&Server> = named.collect::<Result<_, _>>()?;
    let mut done = Vec::with_capacity(servers.len());
    for server in &servers {
        let (name, file) = (&server.shown_name, &server.origin.file);
        if server.origin.trust == Trust::Ask {
            if !matches!(server.state, ServerState::Usable(_)) {
                return Err(Failure::denied(format!(
                    "{name} is not used, and nothing is changed: {}",
                    words::reason(server).unwrap_or_default()
                )));
            }
            let workspace = &here.places.workspace;
            here.decide(|decisions| decisions.follow(workspace, &server.name))?;
            record(config, "follow", CallEnd::Answered, server.display_name());
            release(server)?;
            done.push(Done::new(server.display_name(), TAKEN));
            continue;
        }
        if !words::can_follow(server) {
            let advice = server.config().map(|config| config.follow_advice());
            return Err(Failure::refused(format!(
                "{} is not changed. {}",
                file.display(),
                advice.unwrap_or_default()
            )));
        }
        Target::at(file, here)?.change(|servers| match servers.object(name)? {
            Some(entry) => entry.set("pins", &json!("follow")),
            None => Ok(()),
        })?;
        record(config, "follow", CallEnd::Answered, server.display_name());
        release(server)?;
        let written = Done::new(server.display_name(), "`\"pins\": \"follow\"` is written");
        done.push(written.at(file.to_path_buf()).noting(TAKEN));
    }
    done::print(&done, arguments.json)?;
    Ok(Exit::Ok)
}

/// Approves the tools of a server that are hidden now.
fn release(server: &Server) -> Result<(), Failure> {
    if let Some(config) = server.config() {
        let pins = PinFile::new(&servers::state_directory()?, config);
        if !pins.changes().is_empty() {
            pins.approve(&[])?;
        }
    }
    Ok(())
}

fn revoke(here: &Here, config: &Config, arguments: &Approve) -> Result<Exit, Failure> {
    let named = arguments.names.iter().map(|name| here.server(name));
    let servers: Vec<&Server> = named.collect::<Result<_, _>>()?;
    let workspace = &here.places.workspace;
    let mut done = Vec::with_capacity(servers.len());
    for server in &servers {
        let had = here.decide(|decisions| decisions.revoke(workspace, &server.name))?;
        let result = match had {
            true => "approval taken back",
            false => "was not approved",
        };
        record(config, "revoke", CallEnd::Answered, server.display_name());
        done.push(Done::new(server.display_name(), result));
    }
    done::print(&done, arguments.json)?;
    Ok(Exit::Ok)
}

pub(super) fn enable(here: &Here, config: &Config, arguments: &Enable) -> Result<Exit, Failure> {
    switch(here, config, &arguments.names, true, arguments.json)
}

pub(super) fn disable(here: &Here, config: &Config, arguments: &Disable) -> Result<Exit, Failure> {
    switch(here, config, &arguments.names, false, arguments.json)
}

/// Switches servers on or off. What the file says already is left to it.
///
/// # Errors
/// When that cannot be kept.
pub(crate) fn switch_all(here: &Here, servers: &[&Server], enabled: bool) -> Result<(), Failure> {
    let workspace = &here.places.workspace;
    here.decide(|decisions| {
        for server in servers {
            let by_file = server.config().map(|config| !config.disabled);
            let by_hand = (by_file != Some(enabled)).then_some(enabled);
            decisions.switch(workspace, &server.name, by_hand);
        }
    })
}

fn switch(
    here: &Here,
    config: &Config,
    names: &[String],
    enabled: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let servers: Vec<&Server> = names
        .iter()
        .map(|name| here.server(name))
        .collect::<Result<_, _>>()?;
    switch_all(here, &servers, enabled)?;
    let (verb, result) = match enabled {
        true => ("enable", "enabled"),
        false => ("disable", "disabled"),
    };
    for server in &servers {
        record(config, verb, CallEnd::Answered, server.display_name());
    }
    let done = servers.iter().map(|server| {
        let done = Done::new(server.display_name(), result);
        match (&server.state, enabled) {
            (ServerState::NeedsApproval { .. }, true) => done.noting("it is still to be approved"),
            _ => done,
        }
    });
    done::print(&done.collect::<Vec<_>>(), json)?;
    Ok(Exit::Ok)
}

pub(in crate::commands) fn restart(
    here: &Here,
    config: &Config,
    arguments: &Restart,
) -> Result<Exit, Failure> {
    let names = arguments.names.iter();
    let names = names.map(|name| here.known(config, name));
    let names: Vec<ServerName> = names.collect::<Result<_, _>>()?;
    let shown = |name: &ServerName| match here.found.server(name.as_str()) {
        Some(server) => server.display_name().to_owned(),
        None => name.to_string(),
    };
    let workspace = &here.places.workspace;
    if !servers::is_served(workspace) {
        let names = names.iter().map(|name| {
            Done::new(shown(name), "not restarted")
                .noting("no program runs it in this workspace; `orchestra up` does")
        });
        done::print(&names.collect::<Vec<_>>(), arguments.json)?;
        return Ok(Exit::Problems);
    }
    // A server of a file that cannot be read now is known only to the program that runs it.
    let unused = |name: &ServerName| words::reason(here.found.server(name.as_str())?);
    let (idle, used): (Vec<_>, Vec<_>) = names.iter().partition(|name| unused(name).is_some());
    here.decide(|decisions| {
        for name in &used {
            decisions.restart(workspace, name);
        }
    })?;
    let used = used.into_iter().map(&shown);
    let used: Vec<String> = used.collect();
    for name in &used {
        record(config, "restart", CallEnd::Answered, name);
    }
    let exit = if idle.is_empty() {
        Exit::Ok
    } else {
        Exit::Problems
    };
    let idle = idle.into_iter().map(|name| {
        let done = Done::new(shown(name), "not restarted");
        done.noting(unused(name).unwrap_or_default())
    });
    let used = used
        .into_iter()
        .map(|name| Done::new(name, "restart requested"));
    done::print(&used.chain(idle).collect::<Vec<_>>(), arguments.json)?;
    Ok(exit)
}

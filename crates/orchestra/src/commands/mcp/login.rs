//! `orchestra mcp login` and `logout`.

use std::sync::Arc;

use clap::Args;
use orchestra_gateway::config::{ServerConfig, ServerName, Transport};
use orchestra_mcp::client::{
    ClientError,
    http::{
        Url,
        oauth::{SignIn, SignedIn, SignedOut},
    },
};

use super::{
    Here,
    done::Done,
    live::{self, Trouble},
};
use crate::{
    cli::examples,
    exit::{Exit, Failure},
    output, serving,
};

/// Sign in to a remote server with a web browser (OAuth)
///
/// Prints the address to open, and waits until the browser returns to this machine. The tokens are stored for
/// the user alone. `up` and `stdio` use them from then on.
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp login docs", "mcp login docs --scope read"]))]
pub(super) struct Login {
    /// Name of the server
    name: String,
    /// OAuth scope to request in addition to the scopes that the server names; may be repeated
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Sign out of a server: revoke its tokens, and delete them
#[derive(Debug, Args)]
#[command(after_help = examples(&["mcp logout docs"]))]
pub(super) struct Logout {
    /// Name of the server
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a server is that nobody signs in to.
const fn knows_us(config: &ServerConfig) -> Option<&'static str> {
    match config.transport {
        Transport::Http(_) => None,
        Transport::Stdio(_) => Some("a process"),
        Transport::Plugin(_) => Some("a plugin"),
        Transport::Orchestrator(_) => Some("an orchestrator"),
    }
}

pub(super) fn login(here: &Here, arguments: &Login) -> Result<Exit, Failure> {
    let server = here.server(&arguments.name)?;
    let config = match live::startable(server) {
        Ok(config) => config,
        Err(trouble) => return trouble.say(arguments.json),
    };
    if let Some(what) = knows_us(&config) {
        let why = format!("{} is {what}, and needs no sign-in", server.name);
        return not_asked(&server.name, why, arguments.json);
    }
    let connectors = live::connectors(here)?;
    let signed_in = connectors.sign_in(&config, &arguments.scope, Arc::new(Addresses));
    match serving::runtime()?.block_on(signed_in) {
        Ok(SignedIn::Done) => {
            Done::new(&server.name, "signed in").print(arguments.json)?;
            Ok(Exit::Ok)
        }
        Ok(SignedIn::NotAsked) => {
            let why = format!("{} does not require a sign-in", server.name);
            not_asked(&server.name, why, arguments.json)
        }
        Err(error) => failed(&server.name, &error, arguments.json),
    }
}

/// Prints the addresses of a sign-in on stderr.
struct Addresses;

impl SignIn for Addresses {
    fn show(&self, url: &Url) {
        output::complain(&format!(
            "Sign in here:\n{}",
            output::printable(url.as_str())
        ));
    }

    fn show_metadata(&self, url: &Url) {
        let url = output::printable(url.as_str());
        output::complain(&format!(
            "The server names its metadata at another address:\n{url}"
        ));
    }
}

/// Nobody can sign in at that server.
fn not_asked(name: &ServerName, why: String, json: bool) -> Result<Exit, Failure> {
    if json {
        Done::new(name, "not signed in").noting(why).print(true)?;
        return Ok(Exit::Usage);
    }
    Err(Failure::usage_text(why))
}

pub(super) fn logout(here: &Here, arguments: &Logout) -> Result<Exit, Failure> {
    let server = here.server(&arguments.name)?;
    let config = match live::startable(server) {
        Ok(config) => config,
        Err(trouble) => return trouble.say(arguments.json),
    };
    if let Some(what) = knows_us(&config) {
        let done = Done::new(&server.name, "no sign-in was stored");
        let done = done.noting(format!(
            "it is {what}; only servers on the network have a sign-in"
        ));
        done.print(arguments.json)?;
        return Ok(Exit::Ok);
    }
    let connectors = live::connectors(here)?;
    match serving::runtime()?.block_on(connectors.sign_out(&config)) {
        Ok(ended) => {
            let name = &server.name;
            let out = || Done::new(name, "signed out");
            let done = match ended {
                SignedOut::Nothing => Done::new(name, "no sign-in was stored"),
                SignedOut::Revoked => out().noting("its tokens were revoked"),
                SignedOut::NotRevocable => out().noting(
                    "its tokens were deleted here, but are valid until they expire: the issuer does not support revocation",
                ),
                SignedOut::NotRevoked(error) => out().noting(format!(
                    "its tokens were deleted here, but are valid until they expire: cannot revoke them: {}",
                    error.explain()
                )),
            };
            done.print(arguments.json)?;
            Ok(Exit::Ok)
        }
        Err(error) => failed(&server.name, &error, arguments.json),
    }
}

fn failed(name: &ServerName, error: &ClientError, json: bool) -> Result<Exit, Failure> {
    let mut trouble = Trouble::of(name, error);
    if let ClientError::NeedsAuth { what } = error {
        // Whoever does so already need not be told how.
        trouble.message.clone_from(what);
    }
    trouble.say(json)
}

//! `orchestra mcp login` and `logout`.

use clap::Args;
use orchestra_gateway::config::Transport;
use orchestra_mcp::client::{ClientError, http::oauth::SignedOut};

use super::{
    Here,
    done::Done,
    live::{self, Trouble},
};
use crate::{
    exit::{Exit, Failure},
    output, serving,
};

/// Sign in to a server on the network, with a browser
///
/// Says where to go, and waits until the sign-in comes back to this machine. What it brings is kept
/// for the user alone, and used by `up` and `stdio` from then on.
#[derive(Debug, Args)]
pub(super) struct Login {
    /// The server
    name: String,
    /// A right to ask for, beside those that the server names; may be given again
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Forget what a sign-in brought, and have it taken back by whoever gave it out
#[derive(Debug, Args)]
pub(super) struct Logout {
    /// The server
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn login(here: &Here, arguments: &Login) -> Result<Exit, Failure> {
    let server = here.server(&arguments.name)?;
    let config = match live::startable(server) {
        Ok(config) => config,
        Err(trouble) => return Ok(said(&trouble)),
    };
    if let Transport::Stdio(_) = config.transport {
        return Err(Failure::usage_text(format!(
            "{} is a process, and needs no sign-in",
            server.name
        )));
    }
    let connectors = live::connectors(here)?;
    let show = |url: &str| {
        output::complain(&format!("Sign in here:\n{}", output::printable(url)));
    };
    let signed_in = connectors.sign_in(&config, &arguments.scope, show);
    match serving::runtime()?.block_on(signed_in) {
        Ok(()) => {
            Done::new(&server.name, "signed in").print(arguments.json)?;
            Ok(Exit::Ok)
        }
        Err(error) => Ok(failed(&server.name, &error)),
    }
}

pub(super) fn logout(here: &Here, arguments: &Logout) -> Result<Exit, Failure> {
    let server = here.server(&arguments.name)?;
    let config = match live::startable(server) {
        Ok(config) => config,
        Err(trouble) => return Ok(said(&trouble)),
    };
    if let Transport::Stdio(_) = config.transport {
        let done = Done::new(&server.name, "nobody was signed in");
        let done = done.noting("it is a process, and only servers on the network are signed in to");
        done.print(arguments.json)?;
        return Ok(Exit::Ok);
    }
    let connectors = live::connectors(here)?;
    match serving::runtime()?.block_on(connectors.sign_out(&config)) {
        Ok(ended) => {
            let name = &server.name;
            let out = || Done::new(name, "signed out");
            let done = match ended {
                SignedOut::Nothing => Done::new(name, "nobody was signed in"),
                SignedOut::Revoked => out().noting("its tokens were taken back"),
                SignedOut::NotRevocable => out().noting(
                    "its tokens are forgotten here, and good until they lapse: who gave them out \
                     takes none back",
                ),
                SignedOut::NotRevoked(error) => out().noting(format!(
                    "its tokens are forgotten here, and good until they lapse: they could not be \
                     taken back: {}",
                    error.explain()
                )),
            };
            done.print(arguments.json)?;
            Ok(Exit::Ok)
        }
        Err(error) => Ok(failed(&server.name, &error)),
    }
}

fn said(trouble: &Trouble) -> Exit {
    trouble.complain();
    trouble.exit
}

fn failed(name: &orchestra_gateway::config::ServerName, error: &ClientError) -> Exit {
    let mut trouble = Trouble::of(name, error);
    if let ClientError::NeedsAuth { what } = error {
        // Whoever does so already need not be told how.
        trouble.message.clone_from(what);
    }
    said(&trouble)
}

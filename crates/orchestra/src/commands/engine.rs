//! `orchestra engine`: serves the memory of a workspace over gRPC until nobody needs it.

use std::sync::Arc;

use clap::Args;
use orchestra_memory::engine::{
    self, Address, AddressError, Endpoint, Indexed, Life, Outcome, Wishes,
};
use orchestra_store::Options;

use crate::{
    cli::Common,
    config::{Config, Overrides, engine_port, wrong_engine_port},
    exit::{Exit, Failure},
    logging, output, serving,
    stopping::Signals,
    workspace,
};

/// Serve the memory of the workspace over gRPC
///
/// Serves `orchestra.memory.v1.MemoryService` to programs of this machine until SIGINT, SIGTERM or
/// SIGHUP. Where it listens, and the token that its clients show, stands in
/// `.projects/.run/engine.json`. `orchestra up` starts it by itself. Where another engine serves the
/// workspace already, this one says so and ends.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to listen on this machine, as 127.0.0.1:50051, localhost:50051 or 50051; where that is
    /// taken, the engine does not start [default: the port 50051 where it is free, else any]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    addr: Option<Address>,
    /// Let in every program of this machine, whether it shows the token or not
    #[arg(long)]
    no_token: bool,
    /// The model that finds by meaning, as memory.model in orchestra.toml names it
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// End soon after the last client
    #[arg(long, hide = true)]
    attended: bool,
}

fn address(text: &str) -> Result<Address, AddressError> {
    text.parse()
}

/// Serves until a signal, or the end of its clients.
///
/// # Errors
/// When the board cannot be opened, or the address not be listened on.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(&config.log.value)?;
    // Opening a board makes it; a program that starts an engine has opened it already.
    if !arguments.attended {
        workspace::check_board(&config.workspace)?;
        let wrong = wrong_engine_port().filter(|_| arguments.addr.is_none());
        wrong.iter().for_each(|why| output::complain(why));
    }
    let usual = || Address::Preferred(engine_port().unwrap_or(engine::DEFAULT_PORT));
    let options = engine::Options {
        workspace: config.workspace.clone(),
        address: arguments.addr.unwrap_or_else(usual),
        asks_token: !arguments.no_token,
        life: match arguments.attended {
            true => Life::OfItsClients,
            false => Life::OfItsOwn,
        },
        store: config.memory.apply(Options::default()),
        meaning: Some(Arc::new(Indexed::new(wishes(&config, arguments.model)))),
    };
    let runtime = serving::runtime()?;
    let served = runtime.block_on(async {
        let signals = Signals::listen()?;
        let outcome = engine::run(options, announce, signals.first()).await;
        outcome.map_err(|error| Failure::from(anyhow::Error::new(error)))
    });
    // Nothing that still computes is waited for.
    runtime.shutdown_background();
    match served? {
        Outcome::Elsewhere(found) => {
            let there = found.map(|found| found.address);
            let place = there.map_or_else(String::new, |there| format!(" at {there}"));
            let text = format!(
                "another engine serves {}{place}",
                config.workspace.display()
            );
            let unmet = arguments.addr.filter(|asked| {
                !arguments.attended && there.is_some_and(|there| !asked.is_met_by(there))
            });
            if let Some(asked) = unmet {
                return Err(Failure::refused(format!(
                    "{text}, and not at {asked}; use that one, or end it first"
                )));
            }
            output::complain(&text);
        }
        Outcome::Lost => {
            let text = "the board, or .projects/.run, was removed or replaced while it was served; start \
                        again to serve what is there now";
            return Err(anyhow::Error::msg(text).into());
        }
        Outcome::Told | Outcome::Unused => {}
    }
    Ok(Exit::Ok)
}

/// Says which model is wanted, from files that are read anew each time: a running engine follows them.
fn wishes(config: &Config, given: Option<String>) -> Wishes {
    let workspace = config.workspace.clone();
    let is_path = |text: &String| text.contains('/') && !text.contains(':');
    let given = given.map(
        |text| match is_path(&text).then(|| std::path::absolute(&text)) {
            Some(Ok(path)) => path.to_string_lossy().into_owned(),
            _ => text,
        },
    );
    Arc::new(move || Config::model_wish(&workspace, given.as_deref()))
}

/// Says that it is ready.
fn announce(endpoint: &Endpoint) {
    let token = match endpoint.token {
        Some(_) => "clients show the token in .projects/.run/engine.json",
        None => "every program of this machine is let in",
    };
    let (address, workspace) = (endpoint.address, endpoint.workspace.display());
    // Who started it in the background does not read this.
    let _ = output::lines(&format!(
        "memory engine of {workspace} at {address}; {token}"
    ));
}

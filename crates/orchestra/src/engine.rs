//! Library part of `orchestra-engine`: the command line, the configuration, and the service of a
//! workspace's memory.
//!
//! The embedding models are in the crate of that program, which passes them as [`EngineParts`].

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::{Args, Parser, Subcommand};
use orchestra_memory::{
    engine::{self, Address, Endpoint, Life, Meaning, Outcome},
    model::Wishes,
};
use orchestra_store::Options;

use crate::{
    board,
    cli::Common,
    commands::engine::{Arguments, MODEL_CHECK, MODEL_INSTALL},
    config::{Config, Overrides, engine_port, wrong_engine_port},
    env::Variable,
    exit, logging, output, serving,
    stopping::Signals,
    workspace,
};
pub use crate::{
    commands::progress::spinner,
    exit::{Exit, Failure},
    models::{About, Shelf, is_name, kind_name},
    output::{Format, in_a_line, size},
};

/// Functions of the engine that need an embedding model.
pub trait EngineParts {
    /// Returns the search by meaning, which follows the configured model.
    fn meaning(&self, wishes: Wishes) -> Arc<dyn Meaning>;

    /// Opens the model in a directory, and closes it again.
    ///
    /// # Errors
    /// When the directory has no usable model.
    fn check(&self, directory: PathBuf) -> Result<Exit, Failure>;

    /// Installs a model.
    ///
    /// # Errors
    /// When the source is refused, or the installation fails.
    fn install(&self, model: InstallModel) -> Result<Exit, Failure>;
}

/// Serves the memory of a workspace over gRPC.
#[derive(Debug, Parser)]
#[command(
    name = engine::ENGINE,
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    serve: Arguments,
    /// End soon after the last client
    #[arg(long, hide = true)]
    attended: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install a model, for `orchestra memory model install`
    #[command(name = MODEL_INSTALL, hide = true)]
    Install(InstallModel),
    /// Check a model, for `orchestra memory model use`
    #[command(name = MODEL_CHECK, hide = true)]
    Check {
        /// Directory of the model
        directory: PathBuf,
    },
}

/// Model to install.
#[derive(Debug, Args)]
pub struct InstallModel {
    /// Source of the model: a directory, an archive, or a name on a model hub; with several sources, their files are combined
    #[arg(required = true)]
    pub source: Vec<String>,
    /// Name to install it under [default: as its source]
    #[arg(long)]
    pub name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the program `orchestra-engine` to its end.
pub fn main(parts: &dyn EngineParts) -> ExitCode {
    crate::keep_running_at_file_size_limit();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::report_usage(&error),
    };
    exit::report(match cli.command {
        None => {
            let life = match cli.attended {
                true => Life::OfItsClients,
                false => Life::OfItsOwn,
            };
            serve(&cli.common, cli.serve, life, parts)
        }
        Some(Command::Install(model)) => parts.install(model),
        Some(Command::Check { directory }) => parts.check(directory),
    })
}

/// Address of the hub that models are fetched from, where the user has named one.
///
/// # Errors
/// When it is not valid UTF-8.
pub fn model_hub() -> Result<Option<String>, Failure> {
    let address = Variable::ModelHub
        .read()
        .map(|address| address.into_string());
    let address = address.transpose();
    address.map_err(|_| Failure::usage_text(format!("{} is not UTF-8 text", Variable::ModelHub)))
}

/// Serves until a signal, or until its clients have ended.
///
/// # Errors
/// When the board cannot be opened, or the address cannot be bound.
fn serve(
    common: &Common,
    arguments: Arguments,
    life: Life,
    parts: &dyn EngineParts,
) -> Result<Exit, Failure> {
    let is_attended = life == Life::OfItsClients;
    let config = Config::settle(common, Overrides::default())?;
    logging::start(&config.log.value)?;
    // Opening would create a missing board. A program that starts an engine has opened its board.
    if !is_attended {
        workspace::check_board(&config.workspace)?;
        let wrong = wrong_engine_port().filter(|_| arguments.addr.is_none());
        wrong.iter().for_each(|why| output::complain(why));
    }
    let usual = || Address::Preferred(engine_port().unwrap_or(engine::DEFAULT_PORT));
    let run = workspace::run_directory(&config)?;
    let run_path = run.path().to_owned();
    let file = engine::Place::new(run.clone()).endpoint_path();
    let store = config.memory.apply(Options::default());
    let options = engine::Options {
        workspace: board::seat(&config),
        run,
        address: arguments.addr.unwrap_or_else(usual),
        asks_token: !arguments.no_token,
        life,
        store: board::options(&config, store)?,
        meaning: Some(parts.meaning(wishes(&config, arguments.model))),
    };
    let runtime = serving::runtime()?;
    let served = runtime.block_on(async {
        let signals = Signals::listen()?;
        let outcome = engine::run(options, |at| announce(at, &file), signals.first()).await;
        outcome.map_err(|error| Failure::from(anyhow::Error::new(error)))
    });
    // Computations in progress are abandoned.
    runtime.shutdown_background();
    match served? {
        Outcome::Elsewhere(found) => {
            let there = found.map(|found| found.address);
            let place = there.map_or_else(String::new, |there| format!(" at {there}"));
            let text = format!(
                "another engine serves {}{place}",
                config.workspace.display()
            );
            let unmet = arguments
                .addr
                .filter(|asked| !is_attended && there.is_some_and(|there| !asked.is_met_by(there)));
            if let Some(asked) = unmet {
                return Err(Failure::refused(format!(
                    "{text}, not at {asked}; use that one, or end it first"
                )));
            }
            output::complain(&text);
        }
        Outcome::Lost => {
            let text = format!(
                "the board, or {}, was removed or replaced while it was served; start again to serve what is \
                 there now",
                run_path.display()
            );
            return Err(anyhow::Error::msg(text).into());
        }
        Outcome::Told | Outcome::Unused => {}
    }
    Ok(Exit::Ok)
}

/// Returns a function that reads the configured model, so that a running engine follows changes.
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

/// Prints the address and the kind of authentication. The endpoint file is `file`.
fn announce(endpoint: &Endpoint, file: &Path) {
    let token = match endpoint.token {
        Some(_) => format!("clients show the token in {}", file.display()),
        None => "every program of this machine is admitted".to_owned(),
    };
    let (address, workspace) = (endpoint.address, endpoint.workspace.display());
    // A program that started the engine in the background has closed its stdout.
    let _ = output::lines(&format!(
        "memory engine of {workspace} at {address}; {token}"
    ));
}

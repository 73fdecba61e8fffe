//! `orchestra __runner`: runs plans in the background, when the program that ran them has gone.
//!
//! Programs that leave with live plans start it; people do not.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::Args;
use orchestra_runner::{plans::Placement, runner};

use crate::{
    cli::Common,
    config::{Config, Overrides},
    exit::{Exit, Failure},
    logging, serving,
};

/// By which name it is called.
pub(crate) const NAME: &str = "__runner";

/// Run the plans of a workspace until all of them are idle
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Directory of plan data
    #[arg(long, value_name = "DIR")]
    storage: PathBuf,
}

/// The command line by which it is started.
pub(crate) fn arguments(workspace: &Path, storage: &Path) -> Vec<OsString> {
    let words: [&dyn AsRef<std::ffi::OsStr>; 5] =
        [&NAME, &"--workspace", &workspace, &"--storage", &storage];
    words.iter().map(|word| word.as_ref().to_owned()).collect()
}

/// Runs them.
///
/// # Errors
/// When the place where plans are kept cannot be used.
pub(crate) fn run(common: &Common, arguments: Arguments) -> Result<Exit, Failure> {
    let config = Config::settle(common, Overrides::default())?;
    logging::start(&config.log.value)?;
    let mut options =
        serving::plan_options(&config, &config.workspace, "orchestra, in the background");
    // The configuration may have changed since.
    if options.storage != arguments.storage {
        options.storage = arguments.storage;
        options.placement = Placement::Named;
        options.former = None;
    }
    let runtime = serving::runtime()?;
    let ran = runtime.block_on(runner::background(options));
    // Nothing that still computes is waited for.
    runtime.shutdown_background();
    ran?;
    Ok(Exit::Ok)
}

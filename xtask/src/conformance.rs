//! `cargo xtask conformance`: the public conformance suite, over HTTP, against the fixture
//! `everything` as a server, directly and through `orchestra up`, and the fixture `conformance_client` as a client. Every scenario of each
//! revision that the suite knows must pass, those of extensions included; there is no list of
//! expected failures.

mod client;
mod server;
mod through;

use std::time::Duration;

use anyhow::Result;

use crate::{
    run,
    test::{self, Tally},
    tools,
};
use server::Suite;

/// Far more than one run needs.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs the suite and says a closing line.
///
/// # Errors
/// When a scenario fails, or the suite cannot be had.
pub(crate) fn run() -> Result<()> {
    run::build()?;
    test::close(&all()?)
}

/// Runs the suite for each revision. One that cannot be had is left out loudly, and is a failure on
/// a CI machine.
///
/// # Errors
/// When it cannot be run. A scenario that fails is counted.
pub(crate) fn all() -> Result<Tally> {
    run::say("== conformance");
    let tools = tools::npm_project("judges/conformance")
        .and_then(|home| tools::node().map(|node| (home, node)));
    match tools {
        Ok((home, node)) => play(&Suite::new(home, node)),
        Err(error) if run::in_ci() => Err(error),
        Err(error) => {
            run::say(&format!("conformance ... LEFT OUT: {error:#}"));
            let mut tally = Tally::default();
            tally.ignored += 1;
            Ok(tally)
        }
    }
}

fn play(suite: &Suite) -> Result<Tally> {
    let mut tally = Tally::default();
    server::play(suite, &mut tally)?;
    through::play(suite, &mut tally)?;
    client::play(suite, &mut tally)?;
    Ok(tally)
}

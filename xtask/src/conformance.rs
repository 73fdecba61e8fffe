//! `cargo xtask conformance`: the public conformance suite, over HTTP, against the fixture
//! `everything` as a server, directly and through `orchestra up`, and the fixture `conformance_client` as a client. Every scenario of each
//! revision that the suite knows must pass, those of extensions included; there is no list of
//! expected failures.

mod client;
mod server;
mod through;

use std::{thread, time::Duration};

use anyhow::{Result, anyhow};

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

/// Runs the suite for each revision. The fixtures must be built. If the suite cannot be installed, it is skipped, and
/// the log says so; in CI, that is a failure.
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

/// Plays all of it at once: scenarios wait for most of their time.
fn play(suite: &Suite) -> Result<Tally> {
    thread::scope(|scope| {
        let mut parts = vec![
            scope.spawn(|| server::play(suite)),
            scope.spawn(|| client::play(suite)),
        ];
        for hub in through::hubs() {
            parts.push(scope.spawn(move || hub.play(suite)));
        }
        let mut tally = Tally::default();
        for part in parts {
            let ended = part.join();
            tally.add(ended.map_err(|_| anyhow!("a part of the suite panicked"))??);
        }
        Ok(tally)
    })
}

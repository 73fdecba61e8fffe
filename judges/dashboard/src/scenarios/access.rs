//! A program that asks for a token.

use anyhow::Result;

use crate::{Stage, program::Program};

/// The token; nobody else has it.
const TOKEN: &str = "a-token-of-this-test-alone";

pub(super) async fn whoever_shows_no_token_sees_nothing(stage: &Stage<'_>) -> Result<()> {
    let program = Program::start(stage.orchestra(), &[("ORCHESTRA_TOKEN", TOKEN)])?;
    let tab = stage.tab(&program, "/board").await?;
    tab.sees("dialog", Some("Log in")).await?;
    stage.accessible(&tab, "the login").await?;
    tab.fill("dialog input[name=token]", "somebody-elses")
        .await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees("dialog .problem", Some("not a token")).await?;
    tab.fill("dialog input[name=token]", TOKEN).await?;
    tab.click("dialog button[type=submit]", None).await?;
    tab.sees("h1", Some("No project yet")).await?;
    tab.sees("#state[data-state=live]", None).await?;
    // Scripts of the page never have it.
    tab.until("!document.cookie").await?;
    // It is known until somebody logs out.
    tab.go(&format!("{}/servers", program.site())).await?;
    tab.sees("main h1", None).await?;
    tab.sees_no("dialog").await?;
    tab.click("#logout", None).await?;
    tab.sees("dialog", Some("Log in")).await?;
    tab.close().await
}

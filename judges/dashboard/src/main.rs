//! A browser, with whose mouse and keys the dashboard is used: `judge-dashboard PROGRAM BROWSER AXE PICTURES
//! [WORD]`.
//!
//! PROGRAM is `orchestra`, BROWSER a Chromium without a window, AXE the script of axe-core, PICTURES the
//! directory where pictures of the pages are left, and WORD narrows the scenarios to those whose name holds it.
//!
//! `judge-dashboard bench PROGRAM BROWSER` measures what the dashboard costs.

mod bench;
mod program;
mod scenarios;
mod tab;

use std::{
    env, fs,
    io::{self, Write as _},
    path::{self, Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context as _, Result};
use chromiumoxide::{Browser, BrowserConfig};
use futures_util::StreamExt as _;

use program::Program;
use tab::Tab;

/// What scenarios are played with.
pub(crate) struct Stage {
    browser: Browser,
    orchestra: PathBuf,
    axe: String,
    pictures: PathBuf,
}

impl Stage {
    /// Starts the program in a workspace of its own.
    pub(crate) fn program(&self) -> Result<Program> {
        Program::start(&self.orchestra)
    }

    /// A new page that shows a path of the program.
    pub(crate) async fn tab(&self, program: &Program, path: &str) -> Result<Tab> {
        Tab::open(&self.browser, &format!("{}{path}", program.site())).await
    }

    /// Fails where axe-core finds anything to object to, in light and in dark.
    pub(crate) async fn accessible(&self, tab: &Tab, what: &str) -> Result<()> {
        tab.accessible(&self.axe, what).await
    }

    /// Leaves a picture of what the page shows.
    pub(crate) async fn picture(&self, tab: &Tab, name: &str) -> Result<()> {
        let path = self.pictures.join(format!("{name}.png"));
        let bytes = tab.picture().await?;
        fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))
    }
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut arguments = env::args_os().skip(1).peekable();
    let is_bench = arguments.next_if(|first| first == "bench").is_some();
    let mut next = |name| {
        arguments
            .next()
            .with_context(|| format!("no {name} is given"))
    };
    let orchestra = PathBuf::from(next("PROGRAM")?);
    let orchestra = path::absolute(orchestra).context("looking for the program")?;
    let chromium = next("BROWSER")?;
    let profile = tempfile::tempdir().context("making a profile")?;
    let config = BrowserConfig::builder()
        .chrome_executable(found(Path::new(&chromium))?)
        .user_data_dir(profile.path())
        .no_sandbox()
        .window_size(1600, 900)
        .viewport(None)
        .build()
        .map_err(anyhow::Error::msg)?;
    let (browser, mut handler) = Browser::launch(config)
        .await
        .context("starting the browser")?;
    let handling = tokio::spawn(async move { while handler.next().await.is_some() {} });
    if is_bench {
        let measured = bench::run(&browser, &orchestra).await;
        close(browser).await?;
        handling.abort();
        return measured.map(|()| ExitCode::SUCCESS);
    }
    let (axe, pictures) = (
        PathBuf::from(next("AXE")?),
        PathBuf::from(next("PICTURES")?),
    );
    let word = next("WORD").ok().and_then(|word| word.into_string().ok());
    fs::create_dir_all(&pictures).context("making the directory of pictures")?;
    let stage = Stage {
        browser,
        orchestra,
        axe: fs::read_to_string(&axe).with_context(|| format!("reading {}", axe.display()))?,
        pictures,
    };
    let failed = scenarios::play(&stage, word.as_deref().unwrap_or_default()).await;
    close(stage.browser).await?;
    handling.abort();
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn close(mut browser: Browser) -> Result<()> {
    browser.close().await.context("closing the browser")?;
    browser.wait().await.context("waiting for the browser")?;
    Ok(())
}

/// Where a program is: the path itself, or the one of that name on PATH.
fn found(program: &Path) -> Result<PathBuf> {
    if program.is_absolute() {
        return Ok(program.to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).map(|directory| directory.join(program));
    let place = places.find(|place| place.is_file());
    place.with_context(|| format!("{} is not on PATH", program.display()))
}

/// Says how a scenario went and how long it took.
pub(crate) fn report(name: &str, began: Instant, outcome: &Result<()>) {
    let took = began.elapsed().as_secs_f64();
    let line = match outcome {
        Ok(()) => format!("{name} ok after {took:.1} s"),
        Err(error) => format!("{name} FAILED after {took:.1} s: {error:#}"),
    };
    // Nobody reads it where this fails; how it went is in the exit code, too.
    let _ = writeln!(io::stdout(), "{line}");
}

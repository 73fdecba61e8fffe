//! A browser, with whose mouse and keys the dashboard is used: `judge-dashboard PROGRAM BROWSER AXE PICTURES
//! [WORD]`.
//!
//! PROGRAM is `orchestra`, BROWSER a Chromium without a window, AXE the script of axe-core, PICTURES the
//! directory where pictures of the pages are left, and WORD narrows the scenarios to those whose name holds it.
//!
//! `judge-dashboard bench PROGRAM BROWSER` measures what the dashboard costs, and `judge-dashboard vscode` uses the
//! extension.

mod bench;
mod program;
mod scenarios;
mod tab;
mod vscode;

use std::{
    env,
    ffi::OsStr,
    fs,
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
pub(crate) struct Stage<'a> {
    browser: &'a Browser,
    orchestra: PathBuf,
    axe: String,
    pictures: PathBuf,
}

impl Stage<'_> {
    /// Starts the program in a workspace of its own.
    pub(crate) fn program(&self) -> Result<Program> {
        Program::start(&self.orchestra, &[])
    }

    /// The file of the program.
    pub(crate) fn orchestra(&self) -> &Path {
        &self.orchestra
    }

    /// A new page that shows a path of the program.
    pub(crate) async fn tab(&self, program: &Program, path: &str) -> Result<Tab> {
        Tab::open(self.browser, &format!("{}{path}", program.site())).await
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

/// What is done with the browser.
enum Play {
    Scenarios {
        axe: PathBuf,
        pictures: PathBuf,
        word: String,
    },
    Bench,
    Vscode {
        installed: vscode::Installed,
        pictures: PathBuf,
    },
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut arguments = env::args_os().skip(1).peekable();
    let mode = arguments.next_if(|first| first == "bench" || first == "vscode");
    let mut next = |name| {
        let argument = arguments.next();
        argument
            .map(PathBuf::from)
            .with_context(|| format!("no {name} is given"))
    };
    let orchestra = path::absolute(next("PROGRAM")?).context("looking for the program")?;
    let chromium = found(&next("BROWSER")?)?;
    let play = match mode.as_deref().and_then(OsStr::to_str) {
        Some("bench") => Play::Bench,
        Some(_) => Play::Vscode {
            pictures: next("PICTURES")?,
            installed: vscode::Installed {
                node: next("NODE")?,
                code: next("CODE")?,
                extensions: arguments.map(PathBuf::from).collect(),
            },
        },
        None => Play::Scenarios {
            axe: next("AXE")?,
            pictures: next("PICTURES")?,
            word: next("WORD").map_or_else(
                |_| String::new(),
                |word| word.to_string_lossy().into_owned(),
            ),
        },
    };
    let profile = tempfile::tempdir().context("making a profile")?;
    let config = BrowserConfig::builder()
        .chrome_executable(chromium)
        .user_data_dir(profile.path())
        .no_sandbox()
        .window_size(1600, 900)
        .viewport(None)
        .build()
        .map_err(anyhow::Error::msg)?;
    let (mut browser, mut handler) = Browser::launch(config)
        .await
        .context("starting the browser")?;
    let handling = tokio::spawn(async move { while handler.next().await.is_some() {} });
    let played = played(&browser, orchestra, play).await;
    browser.close().await.context("closing the browser")?;
    browser.wait().await.context("waiting for the browser")?;
    handling.abort();
    Ok(if played? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether all went well.
async fn played(browser: &Browser, orchestra: PathBuf, play: Play) -> Result<bool> {
    match play {
        Play::Bench => bench::run(browser, &orchestra).await.map(|()| true),
        Play::Vscode {
            installed,
            pictures,
        } => {
            fs::create_dir_all(&pictures).context("making the directory of pictures")?;
            let began = Instant::now();
            let outcome = vscode::play(browser, &orchestra, &installed, &pictures).await;
            report("vscode", began, &outcome);
            Ok(outcome.is_ok())
        }
        Play::Scenarios {
            axe,
            pictures,
            word,
        } => {
            fs::create_dir_all(&pictures).context("making the directory of pictures")?;
            let axe =
                fs::read_to_string(&axe).with_context(|| format!("reading {}", axe.display()))?;
            let stage = Stage {
                browser,
                orchestra,
                axe,
                pictures,
            };
            Ok(scenarios::play(&stage, &word).await == 0)
        }
    }
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

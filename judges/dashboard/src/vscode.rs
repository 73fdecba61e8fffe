//! The extension in a VS Code that runs in the browser: `judge-dashboard vscode PROGRAM BROWSER PICTURES NODE CODE
//! VSIX...`.
//!
//! NODE runs CODE, which is code-server, and each VSIX is an extension: ours, and one that calls a tool as the chat
//! does.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context as _, Result, bail, ensure};
use chromiumoxide::Browser;
use serde_json::json;
use tempfile::TempDir;

use crate::{program::Program, tab::Tab};

/// What it says before its address.
const LISTENS: &str = "HTTP server listening on ";

/// Where VS Code asks for something.
const QUESTION: &str = ".quick-input-widget";
/// Whether it is what is written into.
const ASKED: &str = "document.activeElement.closest('.quick-input-widget')";
/// A row of the list that is open.
const CHOICE: &str = ".quick-input-widget .monaco-list-row";
/// The one of them that Enter takes.
const CHOSEN: &str = ".quick-input-widget .monaco-list-row.focused";

/// VS Code as it is installed.
pub(crate) struct Installed {
    pub(crate) node: PathBuf,
    pub(crate) code: PathBuf,
    pub(crate) extensions: Vec<PathBuf>,
}

/// A VS Code that serves, killed with this value.
struct Code {
    running: Child,
    address: String,
    _directory: TempDir,
}

impl Drop for Code {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}

impl Installed {
    fn command(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(&self.code).current_dir(directory);
        for (flag, name) in [
            ("--user-data-dir", "data"),
            ("--extensions-dir", "extensions"),
        ] {
            command.arg(flag).arg(directory.join(name));
        }
        command
            .arg("--config")
            .arg(directory.join("config.yaml"))
            .env("HOME", directory)
            .env_remove("ORCHESTRATOR_WORKSPACE")
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Serves a VS Code with the extensions, of which ours starts this program.
    fn serve(&self, orchestra: &Path) -> Result<Code> {
        let directory = tempfile::tempdir().context("making a home")?;
        let home = directory.path();
        let settings = json!({
            "orchestra.path": orchestra,
            "telemetry.telemetryLevel": "off",
            "workbench.secondarySideBar.defaultVisibility": "hidden",
            "workbench.startupEditor": "none",
        });
        let user = home.join("data/User");
        fs::create_dir_all(&user).context("making a home")?;
        fs::write(user.join("settings.json"), settings.to_string()).context("writing settings")?;
        fs::write(home.join("config.yaml"), "{}").context("writing settings")?;
        let mut install = self.command(home);
        for extension in &self.extensions {
            install.arg("--install-extension").arg(extension);
        }
        let installed = install.output().context("starting VS Code")?;
        ensure!(
            installed.status.success(),
            "the extensions are not installed: {}",
            String::from_utf8_lossy(&installed.stdout)
        );
        let mut serve = self.command(home);
        serve.args(["--bind-addr", "127.0.0.1:0", "--auth", "none"]);
        serve.args([
            "--disable-telemetry",
            "--disable-update-check",
            "--disable-workspace-trust",
        ]);
        let mut running = serve
            .stdout(Stdio::piped())
            .spawn()
            .context("starting VS Code")?;
        let out = running.stdout.take().context("it has an output")?;
        let mut code = Code {
            running,
            address: String::new(),
            _directory: directory,
        };
        let mut lines = BufReader::new(out).lines();
        for line in lines.by_ref() {
            let line = line.context("reading what VS Code says")?;
            if let Some((_, address)) = line.split_once(LISTENS) {
                address.trim_end_matches('/').clone_into(&mut code.address);
                // What it says later is read to the end, so that it never waits for a reader.
                thread::spawn(move || lines.for_each(drop));
                return Ok(code);
            }
        }
        bail!("VS Code ended before it said where it is")
    }
}

/// Uses the extension: the server appears, a tool is called, the tree changes as the board does.
pub(crate) async fn play(
    browser: &Browser,
    orchestra: &Path,
    installed: &Installed,
    pictures: &Path,
) -> Result<()> {
    let program = Program::start(orchestra, &[])?;
    let ids = program.board(2)?;
    let id = ids.first().context("a task")?;
    let code = installed.serve(orchestra)?;
    let workspace = program.workspace();
    let url = format!("{}/?folder={}", code.address, workspace.display());
    let tab = Tab::open(browser, &url).await?;
    tab.sees(".monaco-workbench", None).await?;
    tab.sees(".statusbar-item", Some("0 in progress")).await?;

    // The server is among those of VS Code, and starts.
    command(&tab, "MCP: List Servers").await?;
    tab.click(CHOICE, Some("Orchestra")).await?;
    tab.click(CHOICE, Some("Start Server")).await?;
    // Its log opens, and takes the focus along.
    tab.until("document.activeElement.closest('.part.panel')")
        .await?;
    command(&tab, "MCP: List Servers").await?;
    tab.sees(CHOICE, Some("Running")).await?;
    tab.press("Escape").await?;

    // A tool is called as the chat does.
    command(&tab, "Hand: Call a Tool").await?;
    answer(&tab, "How the name", "get_task").await?;
    let arguments = json!({"project": "app", "task_id": id});
    answer(&tab, "Its arguments", &arguments.to_string()).await?;
    tab.sees(".notification-toast", Some("Say hello 1")).await?;

    // The tree changes as the board does.
    tab.click(".activitybar [aria-label^=Orchestra]", None)
        .await?;
    let row = ".pane-body .monaco-list-row";
    tab.sees(row, Some("backlog")).await?;
    for state in ["todo", "in-progress"] {
        let change = json!({"project": "app", "task_id": id, "status": state});
        program.call("update_task", &change)?;
        tab.sees(row, Some(state)).await?;
    }
    tab.sees(row, Some("Say hello 1")).await?;
    tab.sees(".statusbar-item", Some("1 in progress")).await?;
    let picture = pictures.join("vscode.png");
    let bytes = tab.picture().await?;
    fs::write(&picture, bytes).with_context(|| format!("writing {}", picture.display()))?;
    tab.close().await
}

/// Runs a command by its name.
async fn command(tab: &Tab, name: &str) -> Result<()> {
    // What is chosen of the list before may still be closing it.
    tab.sees_no(QUESTION).await?;
    tab.press("F1").await?;
    tab.until(ASKED).await?;
    tab.write(name).await?;
    // The best match, once the list is down to what matches.
    tab.sees(CHOSEN, Some(name)).await?;
    tab.press("Enter").await
}

/// Answers what is asked for.
async fn answer(tab: &Tab, asked: &str, text: &str) -> Result<()> {
    tab.sees(QUESTION, Some(asked)).await?;
    tab.until(ASKED).await?;
    tab.write(text).await?;
    tab.press("Enter").await
}

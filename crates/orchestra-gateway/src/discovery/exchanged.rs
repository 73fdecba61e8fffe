//! Servers without a sandbox whose code a server in a sandbox may write.
//!
//! Their covered files are compared before each start. A running server may exchange a file between the comparison and
//! the moment at which the program reads the file. It may also put a new file where the program looks for code. Its code
//! would run outside of its sandbox then. A file with several names (hard links) counts under each of them.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_fs::build_files;

use super::{Found, Server, ServerState, protected};
use crate::{
    config::{Auth, Diagnostic, Sandbox, ServerConfig, ServerName, Severity, Transport},
    expand::Scope,
};

/// Maximum number of entries that are searched for another name of a file.
const MAX_ENTRIES: usize = 200_000;

/// A server in a sandbox, with the directories and files that it may write.
struct Writer {
    name: ServerName,
    writable: Vec<PathBuf>,
}

/// Makes each approved server without a sandbox invalid if another server of its workspace may write its code from a
/// sandbox.
pub(super) fn refuse(found: &mut Found, scope: &Scope) {
    let writers = found.servers.iter().filter_map(|server| {
        let ServerState::Usable(config) = &server.state else {
            return None;
        };
        let writable = scope.writable(config);
        let name = server.name.clone();
        (!writable.is_empty()).then_some(Writer { name, writable })
    });
    let writers: Vec<Writer> = writers.collect();
    if writers.is_empty() {
        return;
    }
    for server in &mut found.servers {
        let ServerState::Usable(config) = &server.state else {
            continue;
        };
        if config.sandbox != Sandbox::None || config.covered.is_none() {
            continue;
        }
        let Some(reason) = reason(server, config, &writers, scope) else {
            continue;
        };
        found.diagnostics.push(Diagnostic {
            severity: Severity::Error,
            file: Arc::clone(&server.origin.file),
            place: server.origin.place,
            path: server.shown_name.clone(),
            server: Some(server.name.clone()),
            message: reason.clone(),
        });
        server.state = ServerState::Invalid { reason };
    }
}

/// Returns the reason for which a server is not started, if there is one.
fn reason(
    server: &Server,
    config: &ServerConfig,
    writers: &[Writer],
    scope: &Scope,
) -> Option<String> {
    if let Some((writer, path)) = written(server, config, writers, scope) {
        let path = path.strip_prefix(scope.workspace()).unwrap_or(&path);
        let path = match path.as_os_str().is_empty() {
            true => Path::new(".").to_string_lossy(),
            false => path.to_string_lossy(),
        };
        return Some(format!(
            "the server `{writer}` may write `{}` from its sandbox, and could change it after the comparison with the \
             approval; move the code, narrow `write` and `cwd` of `{writer}`, or give this server a sandbox",
            path.escape_debug()
        ));
    }
    let (words, _) = words(config, scope).unwrap_or_default();
    let settings = settings_of_runner(&words);
    let shared = server.covered.shared();
    let mut shared = shared.filter(|path| !settings.iter().any(|name| path.ends_with(name)));
    let (writer, path) = shared.find_map(|path| {
        let found = fs::metadata(scope.workspace().join(path)).ok()?;
        let id = (found.dev(), found.ino());
        let mut writers = writers.iter();
        let writer = writers.find(|writer| may_contain(&writer.writable, id))?;
        Some((&writer.name, path))
    })?;
    Some(format!(
        "`{}` has another name (a hard link), and the server `{writer}` could write it by that name from its sandbox after \
         the comparison with the approval; replace the file by a copy, or give this server a sandbox",
        path.to_string_lossy().escape_debug()
    ))
}

/// Returns whether a file has a name at or below some paths, or they have too many entries to look at.
fn may_contain(roots: &[PathBuf], id: (u64, u64)) -> bool {
    let (mut paths, mut count) = (roots.to_vec(), 0);
    while let Some(path) = paths.pop() {
        count += 1;
        if count > MAX_ENTRIES {
            return true;
        }
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        if (found.dev(), found.ino()) == id {
            return true;
        }
        if found.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            paths.extend(entries.map(|entry| entry.path()));
        }
    }
    false
}

/// Returns the first path of the code of a server that another one may write.
fn written(
    server: &Server,
    config: &ServerConfig,
    writers: &[Writer],
    scope: &Scope,
) -> Option<(ServerName, PathBuf)> {
    let top = scope.workspace();
    let (words, cwd) = words(config, scope).unwrap_or_default();
    let settings = settings_of_runner(&words);
    let covered = server.covered.files().map(|(path, _)| path);
    let covered = covered.filter(|path| !settings.iter().any(|name| path.ends_with(name)));
    let covered = covered.map(|path| (top.join(directory_of_pattern(path)), true));
    // A symbolic link on the way to a file decides as much as the file.
    let named = named(&words, &cwd, top).map(|path| (path, false));
    let lookups = server.covered.lookups();
    // The top has directories of data in it.
    let lookups =
        lookups.map(|(path, is_deep)| (top.join(path), is_deep && !path.as_os_str().is_empty()));
    let paths = covered.chain(named).chain(lookups);
    let closed: Vec<PathBuf> = protected(top).collect();
    for (path, is_deep) in paths {
        let real = resolved(&path);
        let is_closed = |path: &Path| closed.iter().any(|closed| path.starts_with(closed));
        for writer in writers {
            // A directory of code may have a writable one in it.
            let meets = |path: &Path, writable: &Path| {
                (path.starts_with(writable) && (!is_closed(path) || is_closed(writable)))
                    || (is_deep && writable.starts_with(path))
            };
            let mut writable = writer.writable.iter();
            if writable.any(|writable| meets(&path, writable) || meets(&real, writable)) {
                return Some((writer.name.clone(), path));
            }
        }
    }
    None
}

/// A path without symbolic links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let mut above = path.ancestors();
    let real = above.find_map(|above| {
        let real = above.canonicalize().ok()?;
        Some(real.join(path.strip_prefix(above).ok()?))
    });
    real.unwrap_or_else(|| path.to_owned())
}

/// Names of the files that a program which runs packages, such as `npx`, reads beside the package. They are of the
/// project, and no code of the server.
fn settings_of_runner(words: &[String]) -> BTreeSet<&'static str> {
    let program = words.first().map_or("", |word| word.as_str());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match program.rsplit('/').next() {
        Some("npx" | "pnpx" | "bunx" | "uvx" | "pipx") => build_files(program, &words),
        _ => BTreeSet::new(),
    }
}

/// Returns the directory of a pattern for all files of a directory, such as `bin/*`; another path as it is.
fn directory_of_pattern(path: &Path) -> &Path {
    let name = path.file_name().map(OsStr::as_encoded_bytes);
    let is_pattern = name.is_some_and(|name| name.contains(&b'*'));
    path.parent().filter(|_| is_pattern).unwrap_or(path)
}

/// The words of a command line, and the directory in which it runs.
fn words(config: &ServerConfig, scope: &Scope) -> Option<(Vec<String>, PathBuf)> {
    match &config.transport {
        Transport::Stdio(stdio) => {
            let process = scope.process(stdio, config).ok()?;
            Some(([vec![process.command], process.args].concat(), process.cwd))
        }
        Transport::Plugin(plugin) => {
            let process = scope.plugin(plugin, config).ok()?;
            Some(([vec![process.command], process.args].concat(), process.cwd))
        }
        Transport::Http(http) => match &http.auth {
            Some(Auth::Command { command, args }) => {
                let words = [command].into_iter().chain(args);
                let words = words.filter_map(|word| scope.expand(word, config).ok());
                Some((words.collect(), config.directory().clone()))
            }
            _ => None,
        },
        Transport::Orchestrator(_) => None,
    }
}

/// Paths of the workspace that the words of a command line name.
fn named(words: &[String], cwd: &Path, top: &Path) -> impl Iterator<Item = PathBuf> {
    let paths = words
        .iter()
        .map(|word| crate::expand::normal(&cwd.join(word)));
    // The top itself is the directory of many servers, and no code.
    paths.filter(move |path| path.starts_with(top) && path != top && path.is_file())
}

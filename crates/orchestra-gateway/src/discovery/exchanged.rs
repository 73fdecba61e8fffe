//! Servers without a sandbox whose code a server in a sandbox may write.
//!
//! Their covered files are compared before each start. A running server may exchange a file between the comparison and
//! the moment at which the program reads the file. It may also put a new file where the program looks for code. Its code
//! would run outside of its sandbox then. The words of the command line and of the variables count as paths, because only
//! the program knows their use. A file with several names (hard links) counts under each of them.
//!
//! The effort of a comparison has limits. A server that exceeds one is not started beside a server in a sandbox.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use orchestra_fs::{build_files, parts, spellings};
use orchestra_secret::is_secret_name;

use super::{Found, ServerState, protected};
use crate::{
    approval::Covered,
    config::{
        Auth, Diagnostic, Sandbox, ServerConfig, ServerName, Severity, Transport, names_code,
        names_data,
    },
    expand::{Scope, normal},
    runners::{CONTAINERS, NODE_MODULES, PACKAGE_RUNNERS},
};

/// Maximum number of comparisons of a path of the code of a server with a writable path. Ordinary servers have up to some
/// thousand paths of code and some dozens of writable paths.
const MAX_COMPARISONS: usize = 1_000_000;

/// Maximum number of entries of directories that are searched for links to code, or for other names of files.
const MAX_ENTRIES: usize = 200_000;

/// Maximum number of symbolic links that lead to each other on the way to a path that does not exist.
const MAX_LINKS: usize = 40;

/// Options that name data. Options with similar names also name code, such as `--data-directory` of GDB.
const DATA_OPTIONS: [&str; 10] = [
    "--data",
    "--data-dir",
    "--data-path",
    "--database",
    "--db",
    "--db-path",
    "--log-dir",
    "--log-file",
    "--memory-path",
    "--storage-path",
];

/// Options of [`CONTAINERS`] that name data.
const VOLUME_OPTIONS: [&str; 3] = ["-v", "--volume", "--mount"];

/// A server in a sandbox, with the directories and files that it may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    pub(crate) name: ServerName,
    pub(crate) writable: Vec<PathBuf>,
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
    let writers: Arc<[Writer]> = writers.collect();
    if writers.is_empty() {
        return;
    }
    for server in &mut found.servers {
        let ServerState::Usable(config) = &mut server.state else {
            continue;
        };
        if config.sandbox != Sandbox::None || config.covered.is_none() {
            continue;
        }
        // They are compared again before each start.
        Arc::make_mut(config).writers = Arc::clone(&writers);
        let Some(reason) = refusal(config, &server.covered, scope) else {
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

/// Returns the reason for which a server is not started beside its [writers](ServerConfig::writers), if there is one.
pub(crate) fn refusal(config: &ServerConfig, covered: &Covered, scope: &Scope) -> Option<String> {
    let writers = &config.writers;
    if writers.is_empty() {
        return None;
    }
    let command = Command::of(config, scope).unwrap_or_default();
    let settings = settings_of_runner(&command.words);
    let writable: usize = writers.iter().map(|writer| writer.writable.len()).sum();
    let limit = MAX_COMPARISONS / writable.max(1);
    let Some(code) = code_paths(covered, &command, &settings, scope.workspace(), limit) else {
        return Some(
            "its command line, its variables and the directories of its code have too many paths to compare with the paths \
             that other servers may write from their sandboxes; name fewer paths, or give this server a sandbox"
                .to_owned(),
        );
    };
    if let Some((writer, path)) = written(&code, writers, scope.workspace()) {
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
    let shared = covered.shared();
    let shared = shared.filter(|path| !settings.iter().any(|name| path.ends_with(name)));
    let shared = shared.filter_map(|path| {
        let found = fs::metadata(scope.workspace().join(path)).ok()?;
        Some(((found.dev(), found.ino()), path))
    });
    let (writer, path) = other_name(&shared.collect(), writers)?;
    Some(format!(
        "`{}` has another name (a hard link), and the server `{writer}` could write it by that name from its sandbox after \
         the comparison with the approval; replace the file by a copy, or give this server a sandbox",
        path.to_string_lossy().escape_debug()
    ))
}

/// Returns one of some files that has a name at or below a writable path, with the server that may write it; the first
/// file if the writable paths have more than [`MAX_ENTRIES`] entries.
fn other_name<'a>(
    files: &BTreeMap<(u64, u64), &'a Path>,
    writers: &'a [Writer],
) -> Option<(&'a ServerName, &'a Path)> {
    let first = *files.values().next()?;
    let all = writers.iter().flat_map(|writer| {
        let writable = writer.writable.iter();
        writable.map(move |path| (path, &writer.name))
    });
    // Several servers may write the same directory.
    let writable: BTreeMap<&PathBuf, &ServerName> = all.collect();
    let mut count = 0;
    for (root, writer) in writable {
        let mut paths = vec![root.clone()];
        while let Some(path) = paths.pop() {
            count += 1;
            if count > MAX_ENTRIES {
                return Some((writer, first));
            }
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            if let Some(file) = files.get(&(found.dev(), found.ino())) {
                return Some((writer, *file));
            }
            if found.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                paths.extend(entries.map(|entry| entry.path()));
            }
        }
    }
    None
}

/// A path that decides which code a server runs.
struct CodePath {
    path: PathBuf,
    /// Whether entries below it decide as well.
    is_deep: bool,
    /// Whether the path is certainly one of code. Other paths are none while a server that may write the top of the
    /// workspace cannot create them: in its sandbox, the top has no new entries.
    is_certain: bool,
    /// Whether it counts only as the writable path itself, or above it.
    is_exact: bool,
}

/// Returns the first path of the code of a server in a workspace that another one may write.
fn written(code: &[CodePath], writers: &[Writer], top: &Path) -> Option<(ServerName, PathBuf)> {
    let real_top = resolved(top);
    let closed: Vec<PathBuf> = protected(top).collect();
    let is_closed = |path: &Path| closed.iter().any(|closed| path.starts_with(closed));
    let is_new_at_top = |path: &Path, writable: &Path| {
        (writable == top || writable == real_top) && !has_first_entry(writable, path)
    };
    for code in code {
        let real = resolved(&code.path);
        let path = normal(&code.path);
        // The top is the directory of many servers. A word that names it names no code.
        if !code.is_certain && (path == top || real == real_top) {
            continue;
        }
        for writer in writers {
            // A directory of code may have a writable one in it.
            let meets = |path: &Path, writable: &Path| {
                (path.starts_with(writable)
                    && (!code.is_exact || path == writable)
                    && (!is_closed(path) || is_closed(writable))
                    && (code.is_certain || !is_new_at_top(path, writable)))
                    || (code.is_deep && writable.starts_with(path))
            };
            let mut writable = writer.writable.iter();
            if writable.any(|writable| meets(&path, writable) || meets(&real, writable)) {
                return Some((writer.name.clone(), path));
            }
        }
    }
    None
}

/// Returns the paths that decide which code a server runs, without those of certain settings; `None` if there are more
/// than a limit, or the directories of code have more than [`MAX_ENTRIES`] entries.
fn code_paths(
    covered: &Covered,
    command: &Command,
    settings: &BTreeSet<&'static str>,
    top: &Path,
    limit: usize,
) -> Option<Vec<CodePath>> {
    let parts = command.parts();
    let files = covered.files().map(|(path, _)| path);
    let files = files.filter(|path| !settings.iter().any(|name| path.ends_with(name)));
    let mut all: Vec<CodePath> = files
        .map(|path| CodePath {
            path: top.join(directory_of_pattern(path)),
            is_deep: true,
            is_certain: true,
            is_exact: false,
        })
        .collect();
    let mut entries_left = MAX_ENTRIES;
    for (below, is_deep) in covered.lookups() {
        let path = top.join(below);
        all.push(CodePath {
            path: path.clone(),
            // The top has directories of data in it.
            is_deep: is_deep && !below.as_os_str().is_empty(),
            is_certain: !below.iter().any(|name| name == NODE_MODULES),
            is_exact: false,
        });
        if below.ends_with(NODE_MODULES) {
            let packages = parts.iter().map(|part| CodePath {
                path: path.join(part.text.trim_start_matches('/')),
                is_deep: true,
                is_certain: false,
                is_exact: false,
            });
            all.extend(packages);
        }
        // The directories of the server have links to data in them.
        if !command.cwd.starts_with(&path) {
            let links = links_in(&path, true, &mut entries_left)?.into_iter();
            all.extend(links.map(|path| CodePath {
                path,
                is_deep: false,
                is_certain: true,
                is_exact: false,
            }));
        }
        if all.len() > limit {
            return None;
        }
    }
    let named = command.paths(&parts, top, limit)?.into_iter();
    all.extend(named.map(|(path, is_exact)| CodePath {
        // A directory above the workspace has more than the code of a server in it.
        is_deep: normal(&path).starts_with(top),
        is_certain: false,
        is_exact,
        path,
    }));
    (all.len() <= limit).then_some(all)
}

/// Returns whether the first component of a path below a directory exists.
fn has_first_entry(directory: &Path, path: &Path) -> bool {
    let below = path.strip_prefix(directory).ok();
    let first = below.and_then(|below| below.iter().next());
    first.is_some_and(|first| directory.join(first).symlink_metadata().is_ok())
}

/// Returns the symbolic links in a directory of code, and those of packages with a scope if they are wanted; `None` if
/// there are more entries than are left.
fn links_in(directory: &Path, has_scopes: bool, left: &mut usize) -> Option<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut links = Vec::new();
    for entry in entries {
        *left = left.checked_sub(1)?;
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => links.push(entry.path()),
            Ok(kind) if kind.is_dir() && has_scopes && is_scope(&entry.file_name()) => {
                links.extend(links_in(&entry.path(), false, left)?);
            }
            _ => {}
        }
    }
    Some(links)
}

/// Returns whether a directory of packages is a scope by its name, such as `@types`.
fn is_scope(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"@")
}

/// Resolves the symbolic links of a path, as far as it exists. Links that lead nowhere yet are followed as well.
fn resolved(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let mut is_resolved = false;
        let next = path.ancestors().find_map(|above| {
            let rest = path.strip_prefix(above).ok()?;
            if let Ok(real) = above.canonicalize() {
                is_resolved = true;
                return Some(real.join(rest));
            }
            let target = fs::read_link(above).ok()?;
            Some(above.parent()?.join(target).join(rest))
        });
        match next {
            Some(next) => path = next,
            None => break,
        }
        if is_resolved {
            break;
        }
    }
    normal(&path)
}

/// Names of the files that a program which runs packages, such as `npx`, reads beside the package. They are of the
/// project, and no code of the server.
fn settings_of_runner(words: &[String]) -> BTreeSet<&'static str> {
    let program = words.first().map_or("", |word| word.as_str());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match program.rsplit('/').next() {
        Some(name) if PACKAGE_RUNNERS.contains(&name) => build_files(program, &words),
        _ => BTreeSet::new(),
    }
}

/// Returns the directory of a pattern for all files of a directory, such as `bin/*`; another path as it is.
fn directory_of_pattern(path: &Path) -> &Path {
    let name = path.file_name().map(OsStr::as_encoded_bytes);
    let is_pattern = name.is_some_and(|name| name.contains(&b'*'));
    path.parent().filter(|_| is_pattern).unwrap_or(path)
}

/// Command line of a server, with the directory in which it runs and its variables.
#[derive(Default)]
struct Command {
    words: Vec<String>,
    cwd: PathBuf,
    variables: Vec<(String, String)>,
}

impl Command {
    fn of(config: &ServerConfig, scope: &Scope) -> Option<Self> {
        let mut variables = Vec::new();
        let process = match &config.transport {
            Transport::Stdio(stdio) => scope.process(stdio, config).ok()?,
            Transport::Plugin(plugin) => {
                variables.extend(scope.boot(plugin, config).ok()?);
                scope.plugin(plugin, config).ok()?
            }
            Transport::Http(http) => {
                let Some(Auth::Command { command, args }) = &http.auth else {
                    return None;
                };
                let words = [command].into_iter().chain(args);
                let words = words.filter_map(|word| scope.expand(word, config).ok());
                return Some(Self {
                    words: words.collect(),
                    cwd: config.directory().clone(),
                    variables,
                });
            }
            Transport::Orchestrator(_) => return None,
        };
        variables.extend(process.env);
        Some(Self {
            words: [vec![process.command], process.args].concat(),
            cwd: process.cwd,
            variables,
        })
    }

    /// Returns the parts of the words and variables that may be paths. Left out are a program that is looked up in
    /// `PATH`, data and secrets by the name of their option or variable, arguments of packages, and values of one name
    /// in variables that name no code.
    fn parts(&self) -> BTreeSet<Part> {
        let program = self.words.first().map_or("", String::as_str);
        let program = program.rsplit('/').next().unwrap_or_default();
        let is_container = CONTAINERS.contains(&program);
        let is_runner = is_container || PACKAGE_RUNNERS.contains(&program);
        let (mut all, mut is_data, mut is_value) = (BTreeSet::new(), false, false);
        for (place, word) in self.words.iter().enumerate() {
            let is_of_data = std::mem::take(&mut is_data) && !word.starts_with('-');
            let is_of_option = std::mem::replace(&mut is_value, word.starts_with('-'));
            let option = word.split('=').next().unwrap_or(word);
            let is_data_option =
                DATA_OPTIONS.contains(&option) || is_container && VOLUME_OPTIONS.contains(&option);
            is_data = is_data_option && option == word;
            let is_name = place == 0 && !word.contains('/');
            let is_strong = place == 0 || is_of_option || word.starts_with('-');
            if !is_name && !is_of_data && !is_data_option && (is_strong || !is_runner) {
                all.extend(parts_of(word, is_strong));
            }
        }
        for (name, value) in &self.variables {
            let is_code = names_code(name);
            if is_code || !names_data(name) && !is_secret_name(name) {
                let parts = parts_of(value, is_code).into_iter();
                all.extend(parts.filter(|part| is_code || part.text.contains('/')));
            }
        }
        all
    }

    /// Returns the paths that parts of the command line may mean, from the working directory and from the directories
    /// of the workspace that the parts name; each with whether it counts only as a writable path itself. Returns `None` if
    /// there may be more than a limit.
    fn paths(
        &self,
        parts: &BTreeSet<Part>,
        top: &Path,
        limit: usize,
    ) -> Option<BTreeSet<(PathBuf, bool)>> {
        let is_over = |bases: &BTreeSet<PathBuf>| bases.len() * parts.len() > limit;
        let mut bases = BTreeSet::from([self.cwd.clone()]);
        // A directory may be named as seen from another one.
        for _ in 0..2 {
            if is_over(&bases) {
                return None;
            }
            let paths = bases.iter().flat_map(|base| {
                let paths = parts.iter().map(|part| normal(&base.join(&part.text)));
                paths.collect::<Vec<_>>()
            });
            let directories = paths.filter(|path| path.starts_with(top) && path.is_dir());
            let directories: Vec<PathBuf> = directories.collect();
            bases.extend(directories);
        }
        if is_over(&bases) {
            return None;
        }
        let paths = bases.iter().flat_map(|base| {
            let paths = parts.iter().filter_map(|part| part.seen_from(base));
            paths.collect::<Vec<_>>()
        });
        Some(paths.collect())
    }
}

/// A part of a command line or variable that may be a path.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    text: String,
    /// Whether it is the program, belongs to an option, or is in a variable that names code.
    is_strong: bool,
}

impl Part {
    /// Returns the path that it means from a directory, and whether the path counts only as a writable path itself: a
    /// name without `/` that does not exist yet may also be a subcommand or a number. Returns `None` for the name of a
    /// package or an image.
    fn seen_from(&self, base: &Path) -> Option<(PathBuf, bool)> {
        let path = base.join(&self.text);
        if path.symlink_metadata().is_ok() {
            return Some((path, false));
        }
        let Some((first, _)) = self.text.split_once('/') else {
            return Some((path, true));
        };
        let begins_here = ["", ".", ".."].contains(&first) || base.join(first).exists();
        let is_package = first.starts_with('@');
        (begins_here || self.is_strong && !is_package).then_some((path, false))
    }
}

fn parts_of(text: &str, is_strong: bool) -> Vec<Part> {
    let words = parts(text).words.into_iter();
    let texts = words.flat_map(|word| spellings(&word));
    texts.map(|text| Part { text, is_strong }).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;
    use crate::config::{File, FileKind, Source};

    #[test]
    fn server_with_too_many_paths_to_compare_is_refused() {
        let workspace = tempfile::tempdir().unwrap();
        let file = File {
            path: workspace.path().join(".mcp.json").into(),
            source: Source::Workspace,
            trust: Source::Workspace.trust(),
            directory: workspace.path().to_owned(),
            kind: FileKind::Servers,
            owners: None,
        };
        let server = json!({"command": "server", "args": ["/a/b", "/c/d", "/e/f"]});
        let text = json!({"mcpServers": {"a": server}}).to_string();
        let mut config = *file.understand(&text).servers.remove(0).config.unwrap();
        let scope = Scope::new(workspace.path(), None, |_| None);
        let mut refusal_beside = |count: usize| {
            let writer = Writer {
                name: config.name.clone(),
                writable: vec![PathBuf::from("/elsewhere"); count],
            };
            config.writers = [writer].into();
            refusal(&config, &Covered::default(), &scope)
        };
        assert_eq!(refusal_beside(1), None);
        let reason = refusal_beside(MAX_COMPARISONS / 3 + 1).unwrap();
        assert!(reason.contains("too many paths"), "{reason}");
    }

    #[test]
    fn paths_of_code_are_found_up_to_the_limit() {
        let command = Command {
            words: ["server", "/a/b", "/c/d", "/e/f"].map(str::to_owned).into(),
            cwd: "/work/space".into(),
            variables: Vec::new(),
        };
        let (covered, settings) = (Covered::default(), BTreeSet::new());
        let found = |limit| {
            let top = Path::new("/work/space");
            let paths = code_paths(&covered, &command, &settings, top, limit);
            paths.as_ref().map(Vec::len)
        };
        assert_eq!(found(3), Some(3));
        assert_eq!(found(2), None);
    }

    #[test]
    fn links_are_found_up_to_the_limit_of_entries() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            symlink("elsewhere", directory.path().join(name)).unwrap();
        }
        let found = |mut left: usize| {
            let links = links_in(directory.path(), true, &mut left);
            links.as_ref().map(Vec::len)
        };
        assert_eq!(found(2), Some(2));
        assert_eq!(found(1), None);
    }
}

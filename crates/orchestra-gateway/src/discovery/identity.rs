//! Entries that name this program. Clients approve an entry by its name, so a repository may call something else
//! `orchestra`.

use std::{
    env::consts::EXE_SUFFIX,
    ops::RangeInclusive,
    path::{Component, Path, PathBuf},
};

use crate::config::{HttpConfig, PROGRAM_NAMES, ServerConfig, StdioConfig, Template, Transport};

/// Result of comparing an entry with the entry that `orchestra init` writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// A server of another name.
    Other,
    /// This program, as clients start it. Calling it would never end.
    Own,
    /// A server that has the name of this program and is another.
    Namesake,
    /// A program that is called as this one is, but not the installed one, or with options that only its user may
    /// give. The text is the reason.
    Impostor(String),
}

/// Options of an entry that give nothing away, with a value.
const OPTIONS: [&str; 5] = ["--workspace", "--tools", "--format", "--engine", "--log"];

/// The same, without a value.
const SWITCHES: [&str; 1] = ["--only-servers"];

/// Variables that an entry may set: they change logs and colours. The program reads other variables as decisions of its
/// user, and passes some on to servers.
const VARIABLES: [&str; 2] = ["NO_COLOR", "RUST_LOG"];

/// Values of the header `Authorization` that name the token of the user, as `orchestra up` shows them.
const TOKENS: [&str; 2] = ["Bearer ${env:ORCHESTRA_TOKEN}", "Bearer ${ORCHESTRA_TOKEN}"];

/// Texts that clients replace by the path of the workspace.
const PLACEHOLDERS: [&str; 2] = ["${workspaceFolder}", "${CLAUDE_PROJECT_DIR}"];

/// Compares a server of a file that other people may have written with this program, which may listen at `ports`.
#[must_use]
pub fn identify(config: &ServerConfig, ports: &RangeInclusive<u16>) -> Identity {
    let is_named = config.name.is_of_program();
    match &config.transport {
        Transport::Stdio(stdio) if serves(stdio) => match difference(stdio, config.directory()) {
            None => Identity::Own,
            Some(why) => Identity::Impostor(why),
        },
        Transport::Http(http) if is_named && is_own_address(http, ports) => Identity::Own,
        _ if is_named => Identity::Namesake,
        _ => Identity::Other,
    }
}

/// Returns whether an entry may set a variable for this program.
#[must_use]
pub fn is_harmless_variable(name: &str) -> bool {
    VARIABLES.contains(&name)
}

/// Whether a program has the name of this one, and is started as a server.
fn serves(stdio: &StdioConfig) -> bool {
    let program = Path::new(stdio.command.written()).file_stem();
    let program = program.and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_server = match stdio.args.first() {
        Some(first) => ["stdio", "--workspace"].contains(&first.written()),
        None => program == "orchestra-mcp",
    };
    PROGRAM_NAMES.contains(&program) && is_server
}

/// Difference between an entry and the entries that `init` writes.
fn difference(stdio: &StdioConfig, workspace: &Path) -> Option<String> {
    let command = stdio.command.written();
    if !is_installed(command, workspace) {
        return Some(format!(
            "it starts `{command}`, which is not an installed program but comes with the workspace"
        ));
    }
    if !has_own_name(command) {
        return Some(format!("it starts `{command}`, which is another program"));
    }
    if is_foreign(Path::new(command)) {
        return Some(format!(
            "it starts `{command}`, which another user can change"
        ));
    }
    let directories = match workspaces(&stdio.args) {
        Ok(directories) => directories,
        Err(option) => return Some(format!("it passes `{option}`, which only you may do")),
    };
    if let Some(directory) = directories
        .iter()
        .find(|named| !is_within(named, workspace))
    {
        return Some(format!(
            "it serves `{directory}`, which is not in this workspace"
        ));
    }
    let cwd = stdio.cwd.as_ref().map(Template::written);
    if let Some(cwd) = cwd.filter(|cwd| !is_workspace(cwd, workspace)) {
        return Some(format!("it starts in `{cwd}`, which is not this workspace"));
    }
    let mut names = stdio.env.keys();
    if let Some(name) = names.find(|name| !is_harmless_variable(name)) {
        return Some(format!(
            "it sets the variable {name}, which only you may do"
        ));
    }
    let file = stdio.env_file.as_ref().map(Template::written);
    file.map(|file| format!("it takes variables from `{file}`, which only you may do"))
}

/// Whether a command ends with the name of this program, as it is called on this system.
fn has_own_name(command: &str) -> bool {
    let name = Path::new(command).file_name();
    let name = name.and_then(|name| name.to_str()).unwrap_or_default();
    PROGRAM_NAMES.contains(&name.strip_suffix(EXE_SUFFIX).unwrap_or(name))
}

/// Whether a command is a name that is looked up in `PATH`, or a path that leads out of the workspace.
fn is_installed(command: &str, workspace: &Path) -> bool {
    let path = Path::new(command);
    let is_name = path.components().count() == 1 && !command.contains(['/', '\\']);
    let is_plain = path
        .components()
        .all(|part| !matches!(part, Component::ParentDir));
    let leads_here = |path: &Path| {
        path.starts_with(workspace) || real(workspace).is_some_and(|real| path.starts_with(real))
    };
    let is_outside = path.is_absolute()
        && is_plain
        && !leads_here(path)
        && real(path)
            .or_else(|| beside_dangling(path))
            .is_some_and(|real| !leads_here(&real));
    !command.contains("${") && (is_name || is_outside)
}

/// Returns whether another user owns or can write the program at a path, a link to it, or the directory of one of both.
/// Of a path that does not exist, it is the closest directory above.
fn is_foreign(path: &Path) -> bool {
    if !path.is_absolute() {
        return false;
    }
    let Some(named) = existing(path) else {
        return true;
    };
    let target = named.canonicalize().ok();
    let paths = std::iter::once(named).chain(target.as_deref());
    let paths = paths.flat_map(|path| {
        let directory = path.parent().filter(|_| !path.is_dir());
        std::iter::once(path).chain(directory)
    });
    // A link belongs to its directory; a target that does not exist has none.
    let mut found = paths.filter_map(|path| path.metadata().ok());
    !found.all(|found| orchestra_fs::is_own(&found))
}

/// The workspaces that the arguments of an entry name.
///
/// # Errors
/// The first argument that an entry of this program does not have.
fn workspaces(args: &[Template]) -> Result<Vec<&str>, &str> {
    let mut named = Vec::new();
    let mut words = args.iter().map(Template::written);
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if OPTIONS.contains(&name) {
            let value = value.or_else(|| words.next());
            named.extend(value.filter(|_| name == "--workspace"));
        } else if word != "stdio" && !SWITCHES.contains(&word) {
            return Err(word);
        }
    }
    Ok(named)
}

/// Whether a directory that an entry names is the workspace, or in the workspace.
fn is_within(named: &str, workspace: &Path) -> bool {
    let named = named_directory(named, workspace).zip(real(workspace));
    named.is_some_and(|(named, workspace)| named.starts_with(workspace))
}

/// Returns whether a directory that an entry names is the workspace.
fn is_workspace(named: &str, workspace: &Path) -> bool {
    let named = named_directory(named, workspace);
    named.is_some() && named == real(workspace)
}

/// Returns the directory that an entry names, as [`real`] has it; `None` where it has variables or parents.
fn named_directory(named: &str, workspace: &Path) -> Option<PathBuf> {
    let rest = PLACEHOLDERS
        .iter()
        .find_map(|start| named.strip_prefix(start))
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let path = rest.map_or(named, |rest| rest.trim_start_matches('/'));
    let is_plain = !path.contains("${")
        && Path::new(path)
            .components()
            .all(|part| !matches!(part, Component::ParentDir));
    is_plain.then(|| real(&workspace.join(path))).flatten()
}

/// Returns a path without symbolic links, as far as it exists; `None` where it is too long, or a link leads nowhere or
/// cannot be followed.
fn real(path: &Path) -> Option<PathBuf> {
    let existing = existing(path)?;
    let rest = path.strip_prefix(existing).ok()?;
    Some(existing.canonicalize().ok()?.join(rest))
}

/// Returns the directory, without symbolic links, of the link for which a path has no [`real`] one.
fn beside_dangling(path: &Path) -> Option<PathBuf> {
    existing(path)?.parent()?.canonicalize().ok()
}

/// Returns the part of a path that exists, which may be a link; `None` where the path is too long.
fn existing(path: &Path) -> Option<&Path> {
    if path.as_os_str().len() > orchestra_fs::MAX_PATH_BYTES {
        return None;
    }
    path.ancestors()
        .find(|above| above.symlink_metadata().is_ok())
}

/// Returns whether the address of an entry is that of this program, and its only header, if any, a token for it.
fn is_own_address(http: &HttpConfig, ports: &RangeInclusive<u16>) -> bool {
    let has_own_headers = match &http.headers[..] {
        [] => true,
        [(name, value)] => {
            let value = value.written();
            let is_token = TOKENS.contains(&value) || !value.contains("${");
            name.eq_ignore_ascii_case("authorization") && is_token
        }
        _ => false,
    };
    has_own_headers && http.auth.is_none() && is_here(http.url.written(), ports)
}

/// Whether an address is one where this program may listen on this machine.
fn is_here(url: &str, ports: &RangeInclusive<u16>) -> bool {
    let starts = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
    let port = starts.iter().find_map(|start| url.strip_prefix(start));
    let port = port.and_then(|rest| rest.strip_suffix("/mcp"));
    port.is_some_and(|port| {
        port.bytes().all(|byte| byte.is_ascii_digit())
            && port.parse().is_ok_and(|port| ports.contains(&port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, FileKind, Source};

    fn identity(entry: &str) -> Identity {
        let file = File {
            path: Path::new(".mcp.json").into(),
            source: Source::Workspace,
            trust: Source::Workspace.trust(),
            directory: "/work/space".into(),
            kind: FileKind::Servers,
            owners: None,
        };
        let text = format!("{{\"mcpServers\": {{\"orchestra\": {entry}}}}}");
        let written = file.understand(&text).servers.remove(0);
        identify(&written.config.unwrap(), &(7420..=7421))
    }

    #[test]
    fn entries_of_init_and_their_harmless_edits_are_this_program() {
        for entry in [
            r#"{"command": "orchestra", "args": ["stdio"]}"#,
            r#"{"command": "/usr/bin/orchestra", "args": ["stdio", "--tools=lean", "--workspace", "."]}"#,
            r#"{"command": "orchestra", "args": ["stdio", "--workspace=${workspaceFolder}/a"], "cwd": "${workspaceFolder}"}"#,
            r#"{"command": "orchestra", "args": ["stdio"], "cwd": "/work/space", "env": {"NO_COLOR": "1"}}"#,
            r#"{"command": "orchestra-mcp"}"#,
            r#"{"command": "orchestra-mcp", "args": ["--workspace", "/work/space"]}"#,
            r#"{"command": "orchestra", "args": ["stdio"], "env": {"RUST_LOG": "info"}}"#,
            r#"{"url": "http://localhost:7420/mcp"}"#,
            r#"{"url": "http://127.0.0.1:7421/mcp", "headers": {"authorization": "Bearer ${env:ORCHESTRA_TOKEN}"}}"#,
            r#"{"url": "http://127.0.0.1:7421/mcp", "headers": {"Authorization": "Bearer 0123456789"}}"#,
        ] {
            assert_eq!(identity(entry), Identity::Own, "{entry}");
        }
    }

    #[test]
    fn program_of_the_workspace_or_with_unsafe_options_is_an_impostor() {
        for (entry, why) in [
            (
                r#"{"command": "./orchestra", "args": ["stdio"]}"#,
                "`./orchestra`",
            ),
            (
                r#"{"command": "bin/orchestra", "args": ["stdio"]}"#,
                "comes with the workspace",
            ),
            (
                r#"{"command": "/work/space/orchestra", "args": ["stdio"]}"#,
                "comes with",
            ),
            (
                r#"{"command": "/work/x/../space/orchestra", "args": ["stdio"]}"#,
                "comes with",
            ),
            (
                r#"{"command": "${workspaceFolder}/orchestra", "args": ["stdio"]}"#,
                "comes with",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio", "--mcp-config", "x"]}"#,
                "`--mcp-config`",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio", "--plugins=x"]}"#,
                "`--plugins=x`",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio", "--orchestrator-addr", "x:1"]}"#,
                "addr`",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio"], "env": {"LD_PRELOAD": "x"}}"#,
                "LD_PRELOAD",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio"], "env": {"Path": "x"}}"#,
                "Path",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio"], "envFile": ".env"}"#,
                "`.env`",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio", "--workspace", "/work/spaces"]}"#,
                "`/work/spaces`",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio", "--workspace=${workspaceFolder}/../x"]}"#,
                "`${workspaceFolder}/../x`",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio", "--workspace", "${workspaceFolder}s"]}"#,
                "`${workspaceFolder}s`",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio"], "cwd": "${env:HOME}/x"}"#,
                "`${env:HOME}/x`",
            ),
            (
                r#"{"command": "orchestra", "args": ["stdio"], "cwd": "sub"}"#,
                "starts in `sub`",
            ),
            (
                r#"{"command": "/usr/bin/orchestra.sh", "args": ["stdio"]}"#,
                "another program",
            ),
        ] {
            match identity(entry) {
                Identity::Impostor(reason) => assert!(reason.contains(why), "{entry}: {reason}"),
                other => panic!("{entry}: {other:?}"),
            }
        }
    }

    #[test]
    fn variable_that_changes_more_than_logs_makes_an_impostor() {
        for name in [
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CONFIG_DIR",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "HTTPS_PROXY",
            "NO_color",
            "ORCHESTRATOR_STORAGE",
            "ORCHESTRATOR_WORKSPACE",
            "ORCHESTRA_ENGINE",
            "ORCHESTRA_TOKEN",
            "SSL_CERT_FILE",
            "TMPDIR",
            "UNKNOWN",
            "XDG_STATE_HOME",
            "https_proxy",
        ] {
            let entry = format!(
                r#"{{"command": "orchestra", "args": ["stdio"], "env": {{"{name}": "/work/space"}}}}"#
            );
            let expected = format!("it sets the variable {name}, which only you may do");
            assert_eq!(identity(&entry), Identity::Impostor(expected));
        }
    }

    #[test]
    fn directory_that_does_not_exist_yet_is_compared_behind_links() {
        let directory = tempfile::tempdir().unwrap();
        let [workspace, outside] = ["workspace", "outside"].map(|name| directory.path().join(name));
        std::fs::create_dir(&workspace).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let link = |target: &Path, name: &str| {
            std::os::unix::fs::symlink(target, workspace.join(name)).unwrap();
        };
        link(&outside, "out");
        link(&directory.path().join("absent"), "dangling");
        let other = directory.path().join("other");
        std::os::unix::fs::symlink(&workspace, &other).unwrap();
        for workspace in [&workspace, &other] {
            for (named, is_inside) in [
                ("new", true),
                ("new/below", true),
                ("out/new", false),
                ("out", false),
                ("dangling", false),
                ("dangling/new", false),
            ] {
                assert_eq!(is_within(named, workspace), is_inside, "{named}");
            }
            assert!(!is_within(&"a/".repeat(3_000), workspace));
        }
    }

    #[test]
    fn dangling_link_is_installed_where_the_link_is_outside_the_workspace() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        let link = |target: &str, path: &str| {
            std::os::unix::fs::symlink(at(target), at(path)).unwrap();
        };
        std::fs::create_dir_all(at("workspace/bin")).unwrap();
        std::fs::create_dir_all(at("home/bin")).unwrap();
        link("absent", "home/.profile");
        link("absent/orchestra", "home/bin/orchestra");
        link("absent", "workspace/dangling");
        link("workspace", "other");
        let workspace = at("workspace");
        for (path, expected) in [
            ("home/orchestra", true),
            ("home/.profile/bin/orchestra", true),
            ("home/bin/orchestra", true),
            ("other/orchestra", false),
            ("other/dangling/orchestra", false),
            ("workspace/dangling/orchestra", false),
        ] {
            let command = at(path).display().to_string();
            assert_eq!(is_installed(&command, &workspace), expected, "{path}");
            let linked = at("other");
            assert_eq!(is_installed(&command, &linked), expected, "{path}");
        }
        let long = at(&"a/".repeat(3_000)).display().to_string();
        assert!(!is_installed(&long, &workspace));
    }

    #[test]
    fn program_that_another_user_can_change_is_an_impostor() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        std::fs::create_dir_all(at("own/bin")).unwrap();
        std::fs::create_dir_all(at("shared")).unwrap();
        for path in ["own/bin/orchestra", "shared/orchestra"] {
            std::fs::write(at(path), "").unwrap();
        }
        std::os::unix::fs::symlink(at("shared/orchestra"), at("own/orchestra")).unwrap();
        std::os::unix::fs::symlink(at("own/bin/orchestra"), at("shared/orchestra-mcp")).unwrap();
        let mode = |path: &str, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(at(path), mode).unwrap();
        };
        mode("own", 0o755);
        mode("own/bin", 0o755);
        for (file, shared, foreign) in [
            (0o755, 0o755, &[][..]),
            (0o757, 0o755, &["shared/orchestra", "own/orchestra"]),
            (
                0o755,
                0o1777,
                &[
                    "shared/orchestra",
                    "own/orchestra",
                    "shared/orchestra-mcp",
                    "shared/new/orchestra",
                ],
            ),
        ] {
            mode("shared/orchestra", file);
            mode("shared", shared);
            for path in [
                "own/bin/orchestra",
                "own/new/orchestra",
                "shared/orchestra",
                "own/orchestra",
                "shared/orchestra-mcp",
                "shared/new/orchestra",
            ] {
                let command = at(path).display().to_string();
                let entry = format!(r#"{{"command": "{command}", "args": ["stdio"]}}"#);
                let expected = match foreign.contains(&path) {
                    true => Identity::Impostor(format!(
                        "it starts `{command}`, which another user can change"
                    )),
                    false => Identity::Own,
                };
                assert_eq!(identity(&entry), expected, "{file:o} {shared:o}");
            }
        }
    }

    #[test]
    fn another_program_with_the_name_of_this_one_is_a_namesake() {
        for entry in [
            r#"{"command": "sh", "args": ["-c", "orchestra stdio"]}"#,
            r#"{"command": "orchestra", "args": ["tool", "call"]}"#,
            r#"{"url": "https://example.com/mcp"}"#,
            r#"{"url": "http://127.0.0.1:80@example.com/mcp", "allowInsecure": true}"#,
            r#"{"url": "http://localhost:/mcp"}"#,
            r#"{"url": "http://localhost:7419/mcp"}"#,
            r#"{"url": "http://localhost:7422/mcp"}"#,
            r#"{"url": "http://localhost:7420/mcp", "headers": {"X": "y"}}"#,
            r#"{"url": "http://localhost:7420/mcp", "headers": {"Authorization": "Bearer ${AWS_SECRET}"}}"#,
            r#"{"url": "http://localhost:7420/mcp", "headers": {"Authorization": "Bearer x", "X": "y"}}"#,
            r#"{"url": "http://localhost:7420/mcp", "auth": {"type": "command", "command": "x"}}"#,
        ] {
            assert_eq!(identity(entry), Identity::Namesake, "{entry}");
        }
    }
}

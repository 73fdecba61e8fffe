//! What the program is used with: git, the configuration of clients and what `init` installed, certificates,
//! files with tokens.

use std::path::Path;

use orchestra_runner::git::{Git, GitError, GitSettings, find_pipe};

use super::plans::Found;
use crate::{
    access,
    bundle::RESOURCES,
    commands::{certs, init},
    config::{self, Config},
    exit::Failure,
    init::{Action, Choices, Client, Effect, InitError, Installer, hook_script},
    output, serving,
};

/// Looks at all of it. What `init` installed and is of another version is brought up to date if asked.
///
/// # Errors
/// When the system gives no threads.
pub(super) fn examine(config: &Config, mends: bool) -> Result<Found, Failure> {
    let mut found = Found::default();
    // Who has no repository has no use for git.
    let mut directories = config.workspace.ancestors();
    if let Some(top) = directories.find(|directory| directory.join(".git").exists()) {
        if let Err(error) = git()? {
            found.still(format!(
                "git: {error}; until then no plan runs: {}",
                error.hint()
            ));
        }
        git_directory(&config.workspace, top, &mut found);
    }
    clients(config, &mut found);
    installed(config, mends, &mut found);
    certificates(config, &mut found);
    if let Err(error) = access::check_tokens(&config.access) {
        found.still(format!("access: {error:#}"));
    }
    Ok(found)
}

/// Reports entries of the git directory and of the working tree for which other commands refuse the repository.
fn git_directory(workspace: &Path, top: &Path, found: &mut Found) {
    if let Err(error) = orchestra_place::check_links(workspace, config::safety(workspace)) {
        found.still(format!("git: {error}"));
    }
    if let Some(pipe) = find_pipe(top) {
        found.still(format!(
            "git: `{}` is a named pipe, from which git would read without end: remove the pipe",
            pipe.display()
        ));
    }
}

fn git() -> Result<Result<(), GitError>, Failure> {
    let runtime = serving::runtime()?;
    Ok(runtime.block_on(async { Git::find(GitSettings::default()).await.map(drop) }))
}

/// Whether what clients start is there.
fn clients(config: &Config, found: &mut Found) {
    let workspace = &config.workspace;
    let root = config.root();
    for client in Client::ALL {
        let path = client.path().display();
        let text = match root.read(client.path()) {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(error) => {
                found.still(format!("{path}: {error}"));
                continue;
            }
        };
        match client.command(&text) {
            Err(refusal) => found.still(format!("{path}: {refusal}")),
            Ok(Some(command)) if !is_there(&command, workspace) => found.still(format!(
                "{path} starts `{}`, which is not installed: install it (`cargo install --locked --path crates/orchestra`), or add it to PATH",
                output::in_a_line(&command)
            )),
            Ok(_) => {}
        }
        if let Err(refusal) = client.check(&text, workspace, &config.own_ports()) {
            found.still(format!(
                "{path}: {}",
                output::in_a_line(&refusal.to_string())
            ));
        }
    }
}

/// Whether a client finds what it is to start, as far as that can be said here.
fn is_there(command: &str, workspace: &Path) -> bool {
    // Clients put in what stands for it.
    if command.contains("${") {
        return true;
    }
    match Path::new(command).components().nth(1) {
        Some(_) => workspace.join(command).is_file(),
        None => init::is_on_path(command),
    }
}

/// Whether the files that `init` has installed are of this version. What somebody has taken out is missed by
/// nobody, but for a script that a hook runs.
fn installed(config: &Config, mends: bool, found: &mut Found) {
    if let Err(error) = look(config, mends, found) {
        found.still(error.to_string());
    }
}

fn look(config: &Config, mends: bool, found: &mut Found) -> Result<(), InitError> {
    let present = Installer::clients(&config.root())?;
    if present.is_empty() {
        return Ok(());
    }
    let mut stale = Vec::new();
    let installer = Installer::open(config.root(), Effect::DryRun)?.with_ports(config.own_ports());
    for step in installer.install(&present, Choices::default())? {
        let path = Path::new(&step.path);
        let resource = RESOURCES.iter().find(|one| one.path() == path);
        match (step.action, resource) {
            (Action::Created, Some(one)) if one.path() == hook_script() => {
                stale.push((one, format!("{} is not there", step.path)));
            }
            (Action::Updated, Some(one)) => {
                let text = match step.reason {
                    Some(reason) => format!("{}: {reason}", step.path),
                    None => format!("{} is of another version of orchestra", step.path),
                };
                stale.push((one, text));
            }
            // What the files of clients say was looked at already.
            (Action::Refused, _) if !Client::ALL.iter().any(|one| one.path() == path) => {
                found.still(format!(
                    "{}: {}",
                    step.path,
                    step.reason.unwrap_or_default()
                ));
            }
            _ => {}
        }
    }
    if mends {
        let resources = stale.iter().map(|(resource, _)| *resource);
        Installer::open(config.root(), Effect::Apply)?.install_resources(resources)?;
        found
            .findings
            .extend(stale.into_iter().map(|(_, text)| text));
        return Ok(());
    }
    for (_, text) in stale {
        found.still(format!("{text}; `orchestra doctor --fix` repairs that"));
    }
    Ok(())
}

/// Whether certificates are valid, and their keys for nobody else to read.
fn certificates(config: &Config, found: &mut Found) {
    if let Ok(directory) = config.quic.directory() {
        for finding in certs::findings(&directory) {
            found.still(format!("{}: {finding}", directory.display()));
        }
    }
    if let Some(files) = &config.access.tls.value
        && let Err(error) = access::tls(files)
    {
        found.still(format!("access: {error:#}"));
    }
}

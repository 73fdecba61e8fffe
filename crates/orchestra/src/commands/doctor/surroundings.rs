//! What the program is used with: git, the configuration of clients and what `init` installed, certificates.

use std::path::Path;

use orchestra_runner::git::{Git, GitError, GitSettings};

use super::plans::Found;
use crate::{
    access,
    commands::{certs, init},
    config::Config,
    exit::Failure,
    files::Root,
    init::{Action, Client, Effect, InitError, Installer, Step},
    output, serving,
};

/// Looks at all of it. What `init` installed and is of another version, or gone, is brought up to date if
/// asked.
///
/// # Errors
/// When the system gives no threads.
pub(super) fn examine(config: &Config, mends: bool) -> Result<Found, Failure> {
    let mut found = Found::default();
    if let Err(error) = git()? {
        found.still(format!(
            "git: {error}; until then no plan runs: {}",
            error.hint()
        ));
    }
    clients(&config.workspace, &mut found);
    installed(&config.workspace, mends, &mut found);
    certificates(config, &mut found);
    Ok(found)
}

fn git() -> Result<Result<(), GitError>, Failure> {
    let runtime = serving::runtime()?;
    Ok(runtime.block_on(async { Git::find(GitSettings::default()).await.map(drop) }))
}

/// Whether what clients start is there.
fn clients(workspace: &Path, found: &mut Found) {
    let root = Root::new(workspace);
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
            Ok(Some(command)) if !init::is_there(&command) => found.still(format!(
                "{path} starts `{}`, which is not there: install it (`cargo install --locked --path \
                 crates/orchestra`), or see that it is on PATH",
                output::in_a_line(&command)
            )),
            Ok(_) => {}
        }
    }
}

/// Whether what `init` has installed is whole and of this version.
fn installed(workspace: &Path, mends: bool, found: &mut Found) {
    let present: Vec<Client> = match Installer::clients(workspace) {
        Ok(present) => present,
        Err(error) => return found.still(error.to_string()),
    };
    if present.is_empty() {
        return;
    }
    let run = |effect| -> Result<Vec<Step>, InitError> {
        Installer::open(workspace, effect)?.install(&present)
    };
    let steps = match run(Effect::DryRun) {
        Ok(steps) => steps,
        Err(error) => return found.still(error.to_string()),
    };
    let stale: Vec<String> = steps
        .into_iter()
        .filter(|step| matches!(step.action, Action::Created | Action::Updated))
        .map(|step| match step.action {
            Action::Created => format!("{} is not there", step.path),
            _ => format!("{} is of another version of orchestra", step.path),
        })
        .collect();
    if stale.is_empty() {
        return;
    }
    let mended = mends.then(|| run(Effect::Apply));
    match mended {
        Some(Ok(_)) => found.findings.extend(stale),
        Some(Err(error)) => found.still(error.to_string()),
        None => {
            for finding in stale {
                found.still(format!(
                    "{finding}; `orchestra doctor --fix` brings it up to date"
                ));
            }
        }
    }
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
